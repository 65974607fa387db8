/* `cubby mcp-server`: the MCP servers that the daemon starts in a user's boxes. Invariant: values of their environments go to
 * the daemon and are never shown. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct mcp_server_values {
    const char *user, *machine, *thread, *cwd;
    struct text_list env;
    uint64_t timeout_s;
    bool disabled, json;
};

const struct option_row mcp_server_options[] = {
    {"user", 'u', OPTION_TEXT, offsetof(struct mcp_server_values, user), "NAME",
     "owner of the server (default: the token's user)"},
    {"env", 'e', OPTION_LIST, offsetof(struct mcp_server_values, env), "K=V",
     "a variable of its environment (K alone: from here)"},
    {"cwd", 0, OPTION_TEXT, offsetof(struct mcp_server_values, cwd), "DIR", "run it in DIR (default: the workspace)"},
    {"machine", 0, OPTION_TEXT, offsetof(struct mcp_server_values, machine), "NAME",
     "run it on this machine, whoever asks"},
    {"thread", 0, OPTION_TEXT, offsetof(struct mcp_server_values, thread), "T",
     "run it in the box of this thread, whoever asks"},
    {"timeout", 0, OPTION_NUMBER, offsetof(struct mcp_server_values, timeout_s), "SECONDS",
     "time limit of a call (default: 300)"},
    {"disabled", 0, OPTION_FLAG, offsetof(struct mcp_server_values, disabled), NULL, "keep it without starting it"},
    {"json", 0, OPTION_FLAG, offsetof(struct mcp_server_values, json), NULL, "as JSON"},
    {.name = NULL},
};

static int server_add(struct cli *cli, const struct mcp_server_values *values, int argc, char **argv);
static int server_list(struct cli *cli, const struct mcp_server_values *values);
static int server_remove(struct cli *cli, const struct mcp_server_values *values, int argc, char **argv);

int command_mcp_server(struct cli *cli, int argc, char **argv) {
    struct mcp_server_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    const char *action = argc ? argv[0] : "";
    if (strcmp(action, "add") == 0 && argc >= 3)
        return server_add(cli, &values, argc - 1, argv + 1);
    if (command_verb(action, "list") && argc == 1)
        return server_list(cli, &values);
    if (command_verb(action, "rm") && argc >= 2)
        return server_remove(cli, &values, argc - 1, argv + 1);
    option_fail(cli, "missing or unknown subcommand: add NAME COMMAND, list, or rm NAME");
}

static const char *server_path(struct cli *cli, const struct mcp_server_values *values, const char *name) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-";
    if (name && (!*name || strspn(name, good) != strlen(name)))
        option_fail(cli, "'%s' is not a server name: lower-case letters, digits, '-' and '_'", name);
    if (values->user && strspn(values->user, good) != strlen(values->user))
        option_fail(cli, "'%s' is not a user name", values->user);
    return arena_printf(&cli->arena, "/v1/mcp/servers%s%s%s%s", name ? "/" : "", name ? name : "",
                        values->user ? "?user=" : "", values->user ? values->user : "");
}

static json_t *server_env(struct cli *cli, const struct text_list *list) {
    json_t *env = json_object();
    for (const char **row = box_options_env(cli, list); row && *row; row++) {
        const char *equals = strchr(*row, '=');
        json_object_set_new(env, arena_copy(&cli->arena, *row, (size_t)(equals - *row)), json_string(equals + 1));
    }
    return env;
}

static int server_add(struct cli *cli, const struct mcp_server_values *values, int argc, char **argv) {
    const struct {
        const char *key, *value;
    } texts[] = {{"command", argv[1]}, {"cwd", values->cwd}, {"machine", values->machine}, {"thread", values->thread}};
    struct err err;
    json_t *body = json_object(), *args = json_array(), *answer = NULL;
    autobuf text = buf_max(LIMIT_JSON_BYTES);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value)
            json_object_set_new(body, texts[i].key, json_string(texts[i].value));
    for (int i = 2; i < argc; i++)
        json_array_append_new(args, json_string(argv[i]));
    json_object_set_new(body, "args", args);
    json_object_set_new(body, "env", server_env(cli, &values->env));
    json_object_set_new(body, "disabled", json_boolean(values->disabled));
    if (values->timeout_s)
        json_object_set_new(body, "timeout_ms", json_integer((json_int_t)values->timeout_s * 1000));
    char *dumped = json_dumps(body, JSON_COMPACT);
    buf_puts(&text, dumped ? dumped : "");
    free(dumped);
    json_decref(body);
    int code = remote_json(cli, "PUT", server_path(cli, values, argv[0]), &text, &answer, &err);
    if (code < 0)
        return cli_fail(&err);
    if (values->json)
        remote_print(answer);
    json_decref(answer);
    return 0;
}

/* ---- list ---- */

/* Its command line, as it is told. */
static const char *server_command(struct cli *cli, const json_t *row) {
    const char *line = rest_text(row, "command");
    const json_t *arg;
    size_t i;
    json_array_foreach(json_object_get(row, "args"), i, arg) line =
        arena_printf(&cli->arena, "%s %s", line ? line : "", json_string_value(arg));
    return line;
}

/* How it does: by the box of which most is known. */
static const char *server_state(struct cli *cli, const json_t *row) {
    const json_t *running = json_object_get(row, "running"), *first = json_array_get(running, 0);
    if (json_is_true(json_object_get(row, "disabled")))
        return "disabled";
    if (!first)
        return "-";
    if (json_array_size(running) > 1)
        return arena_printf(&cli->arena, "in %zu boxes", json_array_size(running));
    return rest_text(first, "state");
}

static const char *server_why(struct cli *cli, const json_t *row) {
    (void)cli;
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(row, "running"), i, one) {
        const char *why = rest_text(one, "why");
        if (why)
            return why;
    }
    return NULL;
}

static const char *server_where(struct cli *cli, const json_t *row) {
    (void)cli;
    const char *machine = rest_text(row, "machine");
    return machine ? machine : rest_text(row, "thread");
}

static int server_list(struct cli *cli, const struct mcp_server_values *values) {
    static const struct rest_column columns[] = {COLUMN("NAME", "name", TEXT), CELL("STATE", server_state),
                                                 CELL("WHERE", server_where), CELL("COMMAND", server_command),
                                                 CELL("ENDED", server_why)};
    return rest_list(cli, server_path(cli, values, NULL), "servers", REST_COLUMNS(columns), values->json);
}

static int server_remove(struct cli *cli, const struct mcp_server_values *values, int argc, char **argv) {
    int status = 0;
    for (int i = 0; i < argc; i++)
        status |= rest_each(cli, "DELETE", server_path(cli, values, argv[i]), NULL, NULL);
    return status;
}
