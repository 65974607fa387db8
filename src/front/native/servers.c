/* MCP servers of users over HTTP: listed, put, removed. Called through native_routes; native_tool and mcp run their
 * tools. Invariant: users see and change only their own; values of their environments are never shown. */
#include <jansson.h>

#include "front/native/native.h"
#include "tool/servers/servers.h"

const struct row servers_query[] = {
    {ASK(user, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "whose; default: the token's user, else 'default'"},
    END,
};

static const struct row running_answer[] = {
    SHOW("box", TEXT, "where"),
    SHOW("state", TEXT, "starting, ready or ended"),
    SHOW("tools", INT, "how many it offers"),
    SHOW("left_out", INT, "how many of its tools cannot be offered: invalid names or schemas, or too many"),
    SHOW("restarts", INT, "how often it was started again"),
    {.name = "why", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "it ended last"},
    SHOW("retry_in_ms", INT, "until it is started again, at the next call"),
    {.name = NULL},
};
const struct row server_answer[] = {
    SHOW("name", TEXT, "in front of its tools' names: NAME__TOOL"),
    SHOW("user", TEXT, "whose it is"),
    SHOW("command", TEXT, "the program"),
    SHOW("args", TEXTS, "its arguments"),
    SHOW("env_names", TEXTS, "variables of its environment; their values are not shown"),
    SHOW("cwd", TEXT, "where it runs, if not in the workspace"),
    SHOW("machine", TEXT, "on which machine, if on one"),
    SHOW("thread", TEXT, "in whose box, if always in the same"),
    SHOW("disabled", BOOL, "it is not started"),
    SHOW("timeout_ms", INT, "of a call"),
    SHOW("start_timeout_ms", INT, "until it has listed its tools"),
    SHOW("configured", BOOL, "it is in the configuration and cannot be changed here"),
    {.name = "running", .type = ROW_OBJECTS, .fields = running_answer, .text = "what this daemon started of it"},
    ROW_NAMED("McpServer"),
};
const struct row servers_answer[] = {
    {.name = "servers", .type = ROW_OBJECTS, .fields = server_answer, .text = "by name"},
    ROW_NAMED("McpServers"),
};

/* Gets the servers and the user. */
static int servers_of(struct http_request *request, struct servers **ret_servers, const char **ret_user,
                      struct err *err) {
    const struct who *who = front_who(request);
    struct native_args args = {0};
    TRY(front_query(request, &args, err));
    if (who->user && args.user.data && strcmp(who->user, args.user.data) != 0)
        return err_set(err, ERR_DENIED, "this token only reaches the MCP servers of user '%s'", who->user);
    *ret_user = who->user ? who->user : args.user.data ? args.user.data : "default";
    *ret_servers = front_of(request)->tools.servers;
    if (!*ret_servers)
        return err_set(err, ERR_UNSUPPORTED, "this daemon has no MCP servers");
    return text_user(*ret_user, err);
}

static void server_json(struct servers *servers, const char *user, const struct server_spec *spec, struct json *json) {
    json_open(json, '{');
    json_put_str(json, "name", spec->name);
    json_put_str(json, "user", user);
    server_spec_json(spec, json, false);
    json_put_bool(json, "configured", spec->configured);
    json_key(json, "running");
    servers_running_json(servers, user, spec, json);
    json_close(json, '}');
}

int native_servers(struct http_request *request, struct box *, struct err *err) {
    struct servers *servers;
    struct server_spec *specs;
    const char *user;
    size_t count;
    TRY(servers_of(request, &servers, &user, err)
            ?: servers_specs(servers, user, http_arena(request), &specs, &count, err));
    autoanswer answer;
    answer_list(&answer, request, servers_answer);
    for (size_t i = 0; i < count && answer_spill(&answer) >= 0; i++)
        server_json(servers, user, &specs[i], &answer.json);
    return answer_list_end(&answer, NULL, 0, err);
}

static int server_reply(struct http_request *request, struct servers *servers, const char *user, const char *name,
                        int status, struct err *err) {
    struct server_spec spec;
    TRY(servers_spec(servers, user, name, http_arena(request), &spec, err));
    autoanswer answer;
    answer_init(&answer, request, status);
    server_json(servers, user, &spec, &answer.json);
    return answer_end(&answer, 0, err);
}

int native_server(struct http_request *request, struct box *, struct err *err) {
    struct servers *servers;
    const char *user;
    int code = servers_of(request, &servers, &user, err);
    return code < 0 ? code : server_reply(request, servers, user, http_param(request, "name"), 200, err);
}

int native_server_put(struct http_request *request, struct box *, struct err *err) {
    struct servers *servers;
    struct server_spec spec;
    struct json_t *body = NULL;
    const char *user, *name = http_param(request, "name");
    char *data;
    size_t len;
    bool created = false;
    int code = servers_of(request, &servers, &user, err)
                   ?: http_body_all(request, LIMIT_SERVER_SPEC_BYTES, &data, &len, err)
                   ?: rows_load(data, len, &body, err)
                   ?: server_spec_take(body, name, http_arena(request), &spec, err);
    json_decref(body);
    if (code < 0)
        return code;
    trail_note(request,
               arena_printf(http_arena(request), "server=%s", name)); /* its command line may contain secrets */
    code = servers_put(servers, user, &spec, &created, err);
    return code < 0 ? code : server_reply(request, servers, user, name, created ? 201 : 200, err);
}

int native_server_remove(struct http_request *request, struct box *, struct err *err) {
    struct servers *servers;
    const char *user, *name = http_param(request, "name");
    TRY(servers_of(request, &servers, &user, err) ?: servers_remove(servers, user, name, err));
    trail_note(request, arena_printf(http_arena(request), "server=%s", name));
    return front_empty(request, 204);
}
