/* What all commands do in the same way: errors, colours, questions. */
#include <stdarg.h>

#include "base/base.h"
#include "cli/cli.h"

struct cli_mode cli_mode;

/* The daemon's error texts name requests of its API. This makes commands of them: "POST /v1/boxes/ID/resume" becomes
 * "`cubby resume ID`" if there is such a command. */
static const char *fail_commands(struct arena *arena, const char *text) {
    static const char route[] = "POST /v1/boxes/", letters[] = "abcdefghijklmnopqrstuvwxyz";
    const char *at = strstr(text, route), *id = at ? at + strlen(route) : "";
    size_t id_len = strspn(id, "0123456789abcdef");
    size_t verb_len = id_len && id[id_len] == '/' ? strspn(id + id_len + 1, letters) : 0;
    const char *verb = arena_copy(arena, id + (verb_len ? id_len + 1 : 0), verb_len);
    if (!verb_len || !cli_mode.find || !cli_mode.find(verb))
        return text;
    const char *whole = arena_printf(arena, "cubby %s %.*s", verb, (int)id_len, id), *said = strstr(text, whole);
    if (said && at > text + 1 && at[-1] == '(') /* "cubby start ID (POST …)": the text has the command already */
        return arena_printf(arena, "%.*s%s", (int)(at - text - 2), text,
                            id + id_len + 1 + verb_len + (id[id_len + 1 + verb_len] == ')'));
    return arena_printf(arena, "%.*s`cubby %s %.*s`%s", (int)(at - text), text, verb, (int)id_len, id,
                        id + id_len + 1 + verb_len);
}

void cli_must(int code, const struct err *err) {
    if (code < 0)
        exit(cli_fail(err));
}

bool cli_color(int fd) {
    const char *never = getenv("NO_COLOR"), *term = getenv("TERM");
    if (cli_mode.color && strcmp(cli_mode.color, "auto") != 0)
        return strcmp(cli_mode.color, "always") == 0;
    return isatty(fd) && !(never && *never) && !(term && strcmp(term, "dumb") == 0);
}

bool cli_confirm(const char *format, ...) {
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return true;
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs(" [y/N] ", stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static void fail_json(const struct err *err) {
    autobuf text = buf_max(8192);
    struct json json = json_begin(&text);
    json_put_open(&json, "error", '{');
    json_put_str(&json, "code", err_name(err->code));
    json_put_str(&json, "message", err->text);
    if (cli_mode.request_id[0])
        json_put_str(&json, "request_id", cli_mode.request_id);
    json_close(&json, '}');
    json_close(&json, '}');
    fprintf(stderr, "%s\n", buf_cstr(&text));
}

int cli_fail(const struct err *err) {
    autobuf shown = buf_max(8192);
    autoarena arena = ARENA_EMPTY;
    const char *said = fail_commands(&arena, err->text);
    bool color = cli_color(STDERR_FILENO), passes = cli_mode.command && cli_mode.command->passes_status;
    text_shown(&shown, said, strlen(said));
    const char *text = buf_cstr(&shown);
    if (cli_mode.json)
        fail_json(err);
    else
        fprintf(stderr, "%scubby:%s %s\n", color ? COLOR_FAILED : "", color ? COLOR_OFF : "", text ? text : "failed");
    if (cli_mode.verbose && !cli_mode.json)
        fprintf(stderr, "cubby: code %s, request %s, daemon %s\n", err_name(err->code),
                cli_mode.request_id[0] ? cli_mode.request_id : "-", remote_url());
    return err->code == ERR_UNAUTHORIZED && !passes ? EXIT_LOGIN : EXIT_OURS;
}
