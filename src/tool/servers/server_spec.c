/* The configuration of an MCP server: read, checked, written. Called by the endpoints, the configuration and the store.
 * Invariant: a spec is checked in the same way wherever it comes from, and values of its environment are never
 * shown. */
#include <ctype.h>
#include <jansson.h>

#include "base/base.h"
#include "base/json.h"
#include "tool/servers/server.h"

struct spec_args {
    struct row_text type, command, cwd, machine, thread;
    const char **args, **env;
    bool disabled;
    struct row_number timeout_ms, start_timeout_ms;
};

#define ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct spec_args, member)

const struct row server_fields[] = {
    {ROW("command", TEXT, command), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "the program, found by the box's PATH"},
    {ROW("args", TEXTS, args), .flags = ROW_AUDITED, .max = LIMIT_SERVER_ARGS, .text = "its arguments"},
    {ROW("env", MAP, env), .flags = ROW_SECRET, .max = LIMIT_LABELS,
     .text = "variables added to the box's environment"},
    {ROW("cwd", TEXT, cwd), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "where it runs; default: the workspace"},
    {ROW("machine", TEXT, machine), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_RUNNER_BYTES,
     .text = "it runs on this machine of the user"},
    {ROW("thread", TEXT, thread), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_THREAD_BYTES,
     .text = "it runs in the box of this thread; default: the box of the caller"},
    {ROW("disabled", BOOL, disabled), .text = "it is stored but not started"},
    {ROW("timeout_ms", INT, timeout_ms), .min = 1, .max = LIMIT_SERVER_TIMEOUT_MS,
     .fallback = DEFAULT_SERVER_TIMEOUT_MS, .text = "timeout of a call"},
    {ROW("start_timeout_ms", INT, start_timeout_ms), .min = 1, .max = LIMIT_SERVER_START_MS,
     .fallback = DEFAULT_SERVER_START_MS, .text = "timeout until it has listed its tools"},
    {ROW("type", TEXT, type), .choices = "stdio", .text = "the transport: its standard input and output"},
    {.name = NULL},
};

/* Lower-case letters, digits, '-' and single '_', at most LIMIT_SERVER_NAME_BYTES; begins with a letter or a digit. */
static int server_name_check(const char *name, struct err *err) {
    size_t len = strlen(name);
    bool good = len > 0 && len <= LIMIT_SERVER_NAME_BYTES && !strstr(name, "__") && name[len - 1] != '_';
    for (size_t i = 0; i < len && good; i++)
        good = islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) || (i && strchr("-_", name[i]));
    if (good)
        return 0;
    return err_set(
        err, ERR_INVALID,
        "a server's name must have at most %u lower-case letters, digits, '-' and '_' ('_' not twice in a row or "
        "last), and begin with a letter or a digit",
        LIMIT_SERVER_NAME_BYTES);
}

/* Completes a spec from any source: checks it, sets defaults, and makes its text. */
static int server_spec_finish(struct server_spec *spec, struct arena *arena, struct err *err) {
    autobuf text = buf_max(LIMIT_SERVER_SPEC_BYTES);
    size_t count = 0;
    if (!spec->command || !spec->command[0])
        return err_set(err, ERR_INVALID, "'command' is missing");
    if (spec->machine && spec->thread)
        return err_set(err, ERR_INVALID, "a server runs on a 'machine' or in the box of a 'thread', not both");
    for (size_t i = 0; spec->args && spec->args[i]; i++)
        if (++count > LIMIT_SERVER_ARGS)
            return err_set(err, ERR_INVALID, "'args' has more than %u items", LIMIT_SERVER_ARGS);
    for (size_t i = 0; spec->env && spec->env[i]; i++)
        if (!strchr(spec->env[i], '=') || spec->env[i][0] == '=' || strcspn(spec->env[i], "=") > LIMIT_NAME_BYTES)
            return err_set(err, ERR_INVALID, "'env' contains an invalid variable name");
    TRY(server_name_check(spec->name, err));
    spec->timeout_ms = spec->timeout_ms ? spec->timeout_ms : DEFAULT_SERVER_TIMEOUT_MS;
    spec->start_timeout_ms = spec->start_timeout_ms ? spec->start_timeout_ms : DEFAULT_SERVER_START_MS;
    struct json json = json_begin(&text);
    server_spec_json(spec, &json, true);
    json_close(&json, '}');
    if (!buf_cstr(&text) || text.failed)
        return err_set(err, ERR_TOO_LARGE, "the description of a server is longer than %u bytes",
                       LIMIT_SERVER_SPEC_BYTES);
    spec->text = arena_copy(arena, text.data, text.len);
    return 0;
}

int server_spec_take(json_t *body, const char *name, struct arena *arena, struct server_spec *ret_spec,
                     struct err *err) {
    struct spec_args args = {0};
    int code = rows_bind(body, server_fields, arena, &args, err);
    struct server_spec spec = {.name = arena_strdup(arena, name),
                               .command = args.command.data,
                               .args = args.args,
                               .env = args.env,
                               .cwd = args.cwd.data,
                               .machine = args.machine.data,
                               .thread = args.thread.data,
                               .timeout_ms = args.timeout_ms.value,
                               .start_timeout_ms = args.start_timeout_ms.value,
                               .disabled = args.disabled};
    if (code == 0)
        code = server_spec_finish(&spec, arena, err);
    if (code == 0)
        *ret_spec = spec;
    return code;
}

static void spec_text(struct json *json, const char *key, const char *text) {
    if (!text)
        return;
    json_put_str(json, key, text);
}

void server_spec_json(const struct server_spec *spec, struct json *json, bool secrets) {
    spec_text(json, "command", spec->command);
    json_put_open(json, "args", '[');
    for (const char **arg = spec->args; arg && *arg; arg++)
        json_str(json, *arg);
    json_close(json, ']');
    const char *const *env = (const char *const *)spec->env;
    json_key(json, secrets ? "env" : "env_names");
    json_open(json, secrets ? '{' : '[');
    for (; env && *env; env++) {
        char name[LIMIT_NAME_BYTES + 1] = "";
        size_t len = strcspn(*env, "=");
        memcpy(name, *env, len < sizeof name ? len : sizeof name - 1);
        if (secrets) {
            json_put_str(json, name, *env + len + 1);
        } else {
            json_str(json, name);
        }
    }
    json_close(json, secrets ? '}' : ']');
    spec_text(json, "cwd", spec->cwd);
    spec_text(json, "machine", spec->machine);
    spec_text(json, "thread", spec->thread);
    json_put_bool(json, "disabled", spec->disabled);
    json_put_uint(json, "timeout_ms", spec->timeout_ms);
    json_put_uint(json, "start_timeout_ms", spec->start_timeout_ms);
}
