/* `cubby login`, `cubby logout`, `cubby context`: daemons whose address and token are kept. Invariant: a token is kept
 * only after the daemon accepted it, is never an argument, and is never printed. */
#include <jansson.h>
#include <limits.h>
#include <termios.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/host/login.h"
#include "cli/rest/context.h"
#include "cli/rest/list.h"
#include "http/client/client.h"

struct login_values {
    const char *name, *token_file, *ca;
};

const struct row login_options[] = {
    OPTION("name", 0, TEXT, struct login_values, name, "NAME", "keep it under this name (default: its host)"),
    OPTION("token-file", 0, TEXT, struct login_values, token_file, "FILE", "take the token from this file"),
    OPTION("ca", 0, TEXT, struct login_values, ca, "FILE", "trust the authority in this PEM file"),
    {.name = NULL},
};

/* ---- the token ---- */

/* One line from the terminal, which does not show it. */
static ssize_t login_ask(char *line, size_t size) {
    struct termios saved, quiet;
    bool known = tcgetattr(STDIN_FILENO, &saved) == 0;
    quiet = saved;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    fputs("Token: ", stderr);
    if (known)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    ssize_t got = fgets(line, (int)size, stdin) ? (ssize_t)strlen(line) : 0;
    if (known)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    fputc('\n', stderr);
    return got;
}

static const char *login_token(struct cli *cli, const struct login_values *values) {
    char *line = arena_alloc(&cli->arena, 4096);
    ssize_t got = values->token_file     ? fd_read_file(AT_FDCWD, values->token_file, line, 4095)
                  : isatty(STDIN_FILENO) ? login_ask(line, 4096)
                                         : fd_read_full(STDIN_FILENO, line, 4095);
    if (got < 0)
        option_fail(cli, "%s: %s", values->token_file ? values->token_file : "standard input", strerror((int)-got));
    line[strcspn(line, "\r\n")] = 0;
    for (const char *p = line; *p; p++)
        if (*p <= ' ' || *p > '~')
            option_fail(cli, "the token has characters that no token has");
    return *line ? line : NULL;
}

/* ---- keeping ---- */

int login_check(struct cli *cli, const struct context *context, json_t **ret_who, struct err *err) {
    struct http_client *client = NULL;
    static const char *const paths[] = {"/v1/whoami", "/v1/boxes?user=default"}; /* older daemons lack the first */
    int status = 404, code = 0;
    autobuf answer = buf_max(64u << 20);
    (void)cli;
    TRY(context_connect(context, &client, err));
    for (size_t i = 0; i < 2 && code == 0 && status == 404; i++) {
        const struct http_call call = {.method = "GET", .path = paths[i]};
        buf_clear(&answer);
        code = http_client_call(client, &call, &status, &answer, err);
    }
    http_client_free(client);
    TRY(code);
    if (status == 401)
        return err_set(err, ERR_UNAUTHORIZED, context->token ? "%s does not know this token" : "%s requires a token",
                       context->url);
    TRY(remote_status(status, &answer, err));
    *ret_who = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    return json_is_object(*ret_who) ? 0 : err_set(err, ERR_PROTOCOL, "%s is not a cubby daemon", context->url);
}

int login_keep(const struct context *context, struct err *err) {
    json_auto_t *config = context_load();
    json_object_set_new(
        json_object_get(config, "contexts"), context->name,
        json_pack("{s:s, s:s*, s:s*}", "url", context->url, "token", context->token, "ca", context->ca));
    json_object_set_new(config, "current", json_string(context->name));
    return context_save(config, err);
}

/* The host of the URL. */
static const char *login_name(struct cli *cli, const char *url) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/");
    return len ? arena_copy(&cli->arena, host, len) : "default";
}

int command_login(struct cli *cli, int argc, char **argv) {
    struct login_values values = {0};
    struct err err = {0};
    json_auto_t *who = NULL;
    argc = option_parse(cli, argc, argv, &values);
    if (argc > 1)
        option_fail(cli, "one URL at a time; the token comes by standard input");
    const char *url = argc ? argv[0] : remote_url();
    char ca[PATH_MAX];
    if (values.ca && !realpath(values.ca, ca))
        option_fail(cli, "%s: %s", values.ca, strerror(errno));
    struct context context = {
        .name = values.name ? values.name : login_name(cli, url), .url = url, .ca = values.ca ? ca : NULL};
    int code = login_check(cli, &context, &who, &err);
    if (code == -ERR_UNAUTHORIZED ||
        (code == 0 && values.token_file)) { /* no token is asked for where none is needed */
        context.token = login_token(cli, &values);
        code = login_check(cli, &context, &who, &err);
    }
    if (code < 0 || (code = login_keep(&context, &err)) < 0)
        return cli_fail(&err);
    const char *scope = rest_text(who, "scope"), *user = rest_text(who, "user");
    fprintf(stderr, "Logged in to %s as %s%s%s%s; kept as context '%s'.\n", rest_shown(cli, url), user ? "user " : "",
            user ? rest_shown(cli, user) : "", user && scope ? ", scope " : "", scope ? rest_shown(cli, scope) : "",
            context.name);
    return 0;
}

/* ---- the kept ones ---- */

int command_logout(struct cli *cli, int argc, char **argv) {
    struct err err = {0};
    if (option_parse(cli, argc, argv, NULL) > 1)
        option_fail(cli, "one context at a time");
    json_auto_t *config = context_load();
    const char *current = rest_text(config, "current"), *name = argv[0] ? argv[0] : current;
    if (!name || !json_object_get(json_object_get(config, "contexts"), name))
        return cli_fail(
            (err_set(&err, ERR_NOT_FOUND, name ? "no context '%s'" : "no context is current%s", name ? name : ""),
             &err));
    printf("%s\n", rest_shown(cli, name));
    bool same = current && strcmp(name, current) == 0;
    json_object_del(json_object_get(config, "contexts"), name);
    if (same)
        json_object_del(config, "current");
    return context_save(config, &err) < 0 ? cli_fail(&err) : 0;
}

static void login_contexts(struct cli *cli, const json_t *config, bool as_json) {
    static const struct rest_column columns[] = {COLUMN("", "current", TEXT), COLUMN("NAME", "name", TEXT),
                                                 COLUMN("URL", "url", TEXT), COLUMN("TOKEN", "token", TEXT)};
    const char *current = rest_text(config, "current"), *name;
    json_t *entry;
    json_auto_t *rows = json_array();
    json_object_foreach(json_object_get(config, "contexts"), name, entry) {
        bool is = current && strcmp(current, name) == 0, token = json_is_string(json_object_get(entry, "token"));
        json_array_append_new(rows, json_pack("{s:o, s:s, s:O?, s:o}", "current",
                                              as_json ? json_boolean(is) : json_string(is ? "*" : " "), "name", name,
                                              "url", json_object_get(entry, "url"), "token",
                                              as_json ? json_boolean(token) : json_string(token ? "yes" : "no")));
    }
    json_auto_t *answer = json_pack("{s:O}", "contexts", rows);
    if (as_json)
        remote_print(answer);
    else
        rest_table(cli, rows, REST_COLUMNS(columns));
}

int command_context(struct cli *cli, int argc, char **argv) {
    bool as_json = false; /* json_options */
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &as_json);
    const char *verb = argc ? argv[0] : "list";
    json_auto_t *config = context_load();
    if (command_verb(verb, "list") && argc < 2) {
        login_contexts(cli, config, as_json);
    } else if (strcmp(verb, "show") == 0 && argc == 1) {
        const struct context *now = context_now();
        printf("%s %s\n", now->name ? rest_shown(cli, now->name) : "-", rest_shown(cli, now->url));
    } else if (strcmp(verb, "use") == 0 && argc == 2) {
        if (!json_object_get(json_object_get(config, "contexts"), argv[1]))
            cli_must(err_set(&err, ERR_NOT_FOUND, "no context '%s'; `cubby context list` lists them", argv[1]), &err);
        json_object_set_new(config, "current", json_string(argv[1]));
        cli_must(context_save(config, &err), &err);
        printf("%s\n", rest_shown(cli, argv[1]));
    } else if (command_verb(verb, "rm") && argc == 2) {
        return command_logout(cli, argc - 1, argv + 1);
    } else {
        option_fail(cli, "unknown subcommand '%s', or the wrong number of words: list, use NAME, show or rm NAME",
                    verb);
    }
    return 0;
}
