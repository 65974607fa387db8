/* `cubby mcp-server`: the MCP servers that the daemon starts in a user's boxes. Invariant: values of their environments
 * are sent to the daemon and never shown. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct mcp_server_values {
    const char *user, *machine, *thread, *cwd;
    struct row_texts env;
    uint64_t timeout_s;
    bool disabled, json;
};

const struct row mcp_server_options[] = {
    OPTION("user", 'u', TEXT, struct mcp_server_values, user, "NAME",
           "owner of the server (default: the token's user)"),
    OPTION("env", 'e', TEXTS, struct mcp_server_values, env, "K=V",
           "set a variable of its environment (K alone: to its value here)"),
    OPTION("cwd", 0, TEXT, struct mcp_server_values, cwd, "DIR", "run it in DIR (default: the workspace)"),
    OPTION("machine", 0, TEXT, struct mcp_server_values, machine, "NAME", "run it on this machine for all callers"),
    OPTION("thread", 0, TEXT, struct mcp_server_values, thread, "T",
           "run it in the box of this thread for all callers"),
    OPTION("timeout", 0, INT, struct mcp_server_values, timeout_s, "SECONDS", "time limit of a call (default: 300)"),
    OPTION("disabled", 0, BOOL, struct mcp_server_values, disabled, NULL, "keep it without starting it"),
    OPTION("json", 0, BOOL, struct mcp_server_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static const char *server_path(struct cli *cli, const struct mcp_server_values *values, const char *name) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-";
    if (name && (!*name || strspn(name, good) != strlen(name)))
        option_fail(cli, "'%s' is not a server name: lower-case letters, digits, '-' and '_'", name);
    if (values->user && strspn(values->user, good) != strlen(values->user))
        option_fail(cli, "'%s' is not a user name", values->user);
    return arena_printf(&cli->arena, "/v1/mcp/servers%s%s%s%s", name ? "/" : "", name ? name : "",
                        values->user ? "?user=" : "", values->user ? values->user : "");
}

static int server_add(struct cli *cli, const struct mcp_server_values *values, char **argv) {
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    struct json json = json_begin(&body);
    json_put_some(&json, "command", argv[1]);
    json_put_some(&json, "cwd", values->cwd);
    json_put_some(&json, "machine", values->machine);
    json_put_some(&json, "thread", values->thread);
    json_put_texts(&json, "args", (const char *const *)argv + 2);
    box_options_env_json(cli, &values->env, &json);
    json_put_bool(&json, "disabled", values->disabled);
    if (values->timeout_s)
        json_put_uint(&json, "timeout_ms", values->timeout_s * 1000);
    json_close(&json, '}');
    json_auto_t *answer = rest_need(cli, "PUT", server_path(cli, values, argv[0]), &body);
    if (values->json)
        remote_print(answer);
    return 0;
}

/* ---- list ---- */

/* Returns its command line. */
static const char *server_command(struct cli *cli, const json_t *row) {
    const char *line = rest_text(row, "command");
    const json_t *arg;
    size_t i;
    json_array_foreach(json_object_get(row, "args"), i, arg) line =
        arena_printf(&cli->arena, "%s %s", line ? line : "", json_string_value(arg));
    return line;
}

/* Returns its state, from the box about which most is known. */
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

static const char *server_why(struct cli *, const json_t *row) {
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(row, "running"), i, one) {
        const char *why = rest_text(one, "why");
        if (why)
            return why;
    }
    return NULL;
}

static const char *server_where(struct cli *, const json_t *row) {
    const char *machine = rest_text(row, "machine");
    return machine ? machine : rest_text(row, "thread");
}

static const struct rest_column server_columns[] = {COLUMN("NAME", "name", TEXT), CELL("STATE", server_state),
                                                    CELL("WHERE", server_where), CELL("COMMAND", server_command),
                                                    CELL("ENDED", server_why)};

int command_mcp_server(struct cli *cli, int argc, char **argv) {
    struct mcp_server_values values = {0};
    int status = 0;
    argc = option_parse(cli, argc, argv, &values);
    const char *action = argc ? argv[0] : "";
    if (strcmp(action, "add") == 0 && argc >= 3)
        return server_add(cli, &values, argv + 1);
    if (command_verb(action, "list") && argc == 1)
        return rest_list(cli, server_path(cli, &values, NULL), "servers", REST_COLUMNS(server_columns), values.json);
    if (!command_verb(action, "rm") || argc < 2)
        option_fail(cli, "missing or unknown subcommand: add NAME COMMAND, list, or rm NAME");
    for (int i = 1; i < argc; i++)
        status |= rest_each(cli, "DELETE", server_path(cli, &values, argv[i]), NULL, NULL);
    return status;
}
