/* Requests to an MCP server: initialize, its list of tools, a call. Called by servers.c and served.c. Invariant: a tool
 * is offered only after its name and the size and shape of its schemas were checked here. */
#include "base/base.h"
#include "base/sync.h"
#include "tool/mcp/mcp.h"
#include "tool/servers/server_core.h"

#define META "io.modelcontextprotocol/"

/* ---- requests ---- */

static json_t *talk_client(void) {
    return json_pack("{s:s,s:s}", "name", "cubby", "version", CUBBY_VERSION);
}

/* Parameters; in the newer era each request identifies the client. */
static json_t *talk_params(struct server *server) {
    pthread_mutex_lock(&server->lock);
    bool modern = server->modern;
    pthread_mutex_unlock(&server->lock);
    if (!modern)
        return json_object();
    return json_pack("{s:{s:s,s:{},s:o}}", "_meta", META "protocolVersion", MCP_MODERN, META "clientCapabilities",
                     META "clientInfo", talk_client());
}

/* Gets the result of a request of ours. IO, with the server's own error message, if it has none. */
static int talk_ask(struct server *server, const char *method, json_t *params, uint64_t deadline_ms,
                    json_t **ret_answer, struct err *err) {
    const struct server_wait wait = {.watch = -1, .deadline_ms = deadline_ms};
    int code = server_ask(server, method, params, &wait, ret_answer, err);
    if (code == -ERR_TIMEOUT)
        err_set(err, ERR_IO, "it was stopped: it did not answer '%s' in time", method);
    return code < 0 ? -err->code : 0;
}

static int talk_refused(const char *method, json_t *answer, struct err *err) {
    const char *why = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    return err_set(err, ERR_IO, "it was stopped: it refused '%s': %.200s", method, why ? why : "without a reason");
}

/* ---- initialize ---- */

static int talk_hello(struct server *server, uint64_t deadline_ms, bool *ret_tools, struct err *err) {
    json_t *answer = NULL, *params = json_pack("{s:s,s:{},s:o}", "protocolVersion", MCP_LEGACY, "capabilities",
                                               "clientInfo", talk_client());
    int code = talk_ask(server, "initialize", params, deadline_ms, &answer, err);
    const json_t *result = json_object_get(answer, "result");
    const char *version = json_string_value(json_object_get(result, "protocolVersion"));
    json_int_t refused = json_integer_value(json_object_get(json_object_get(answer, "error"), "code"));
    /* A server of the newer era does not know initialize. */
    bool modern = code == 0 && !result && (refused == MCP_METHOD || refused == MCP_VERSION);
    if (code == 0 && !result && !modern)
        code = talk_refused("initialize", answer, err);
    else if (code == 0 && !modern && (!version || !mcp_is_legacy(version)))
        code = err_set(err, ERR_IO, "it was stopped: it speaks version '%.40s' of the protocol, which is not supported",
                       version ? version : "");
    if (code == 0) {
        *ret_tools = modern || json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools"));
        autolock(&server->lock);
        server->modern = modern;
        if (!modern)
            server_put_locked(server, json_pack("{s:s}", "method", "notifications/initialized"));
    }
    json_decref(answer);
    return code;
}

/* ---- tools ---- */

static const char *tool_text(struct arena *arena, const json_t *object, const char *key, size_t max) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? arena_copy(arena, text, text_fitting(text, strlen(text), max)) : NULL;
}

/* Returns a schema as text; NULL: invalid, or too long. */
static const char *tool_schema(struct arena *arena, const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    if (!json_is_object(schema) || !type || strcmp(type, "object") != 0)
        return NULL;
    size_t size = json_dumpb(schema, NULL, 0, JSON_COMPACT);
    if (!size || size > LIMIT_SERVER_TOOL_BYTES)
        return NULL;
    char *text = arena_alloc(arena, size + 1);
    json_dumpb(schema, text, size, JSON_COMPACT);
    return text;
}

static const char *tool_annotations(struct arena *arena, const json_t *given) {
    static const char *const hints[] = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"};
    json_t *kept = json_object();
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        json_t *hint = json_object_get(given, hints[i]);
        if (json_is_boolean(hint))
            json_object_set(kept, hints[i], hint);
    }
    char *text = json_object_size(kept) ? json_dumps(kept, JSON_COMPACT) : NULL;
    const char *copy = text ? arena_strdup(arena, text) : NULL;
    free(text);
    json_decref(kept);
    return copy;
}

static bool tool_add(const struct server *server, struct server_tools *tools, const json_t *row) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *output = json_object_get(row, "outputSchema");
    struct arena *arena = &tools->arena;
    if (!name || !*name || strspn(name, good) != strlen(name) ||
        strlen(server->name) + 2 + strlen(name) > LIMIT_TOOL_NAME_BYTES || tools->count == LIMIT_SERVER_TOOLS)
        return false;
    for (size_t i = 0; i < tools->count; i++)
        if (strcmp(tools->items[i].name, name) == 0)
            return false;
    struct server_tool tool = {
        .name = arena_strdup(arena, name),
        .title = tool_text(arena, row, "title", LIMIT_NAME_BYTES),
        .description = tool_text(arena, row, "description", LIMIT_SERVER_DESCRIPTION_BYTES),
        .input = tool_schema(arena, json_object_get(row, "inputSchema")),
        .output = output ? tool_schema(arena, output) : NULL,
        .annotations = tool_annotations(arena, json_object_get(row, "annotations")),
    };
    if (!tool.input || (output && !json_is_null(output) && !tool.output))
        return false;
    if (!tool.description)
        tool.description = "";
    tools->items[tools->count++] = tool;
    return true;
}

static int tools_page(struct server *server, struct server_tools *tools, uint64_t deadline_ms, char **cursor,
                      struct err *err) {
    json_t *answer = NULL, *params = talk_params(server), *row;
    size_t i;
    if (*cursor)
        json_object_set_new(params, "cursor", json_string(*cursor));
    free(*cursor);
    *cursor = NULL;
    int code = talk_ask(server, "tools/list", params, deadline_ms, &answer, err);
    const json_t *result = json_object_get(answer, "result"), *rows = json_object_get(result, "tools");
    if (code == 0 && !result)
        code = talk_refused("tools/list", answer, err);
    if (code == 0 && !json_is_array(rows))
        code = err_set(err, ERR_IO, "it was stopped: its list of tools is not a list");
    if (code == 0) {
        json_array_foreach(rows, i, row) tools->left_out += !tool_add(server, tools, row);
        const char *next = json_string_value(json_object_get(result, "nextCursor"));
        *cursor = next ? strdup(next) : NULL;
    }
    json_decref(answer);
    return code;
}

void server_tools_unref(struct server_tools *tools) {
    if (!tools || atomic_fetch_sub(&tools->refs, 1) != 1)
        return;
    arena_done(&tools->arena);
    free(tools);
}

struct server_tools *server_tools(struct server *server) {
    autolock(&server->lock);
    struct server_tools *tools = server->tools;
    if (tools)
        atomic_fetch_add(&tools->refs, 1);
    return tools;
}

/* Makes the requests. They serve all callers, so they do not end when one client goes away. */
static int prepare_talk(struct server *server, bool first, struct err *err) {
    uint64_t deadline_ms = (first ? server->started_ms : clock_ms()) + server->start_timeout_ms;
    struct server_tools *tools = xcalloc(1, sizeof *tools);
    atomic_init(&tools->refs, 1);
    arena_init(&tools->arena);
    tools->items = arena_alloc(&tools->arena, LIMIT_SERVER_TOOLS * sizeof *tools->items);

    bool has_tools = true;
    int code = first ? talk_hello(server, deadline_ms, &has_tools, err) : 0;
    if (code == 0 && has_tools) {
        char *cursor = NULL;
        unsigned pages = 0;
        do
            code = tools_page(server, tools, deadline_ms, &cursor, err);
        while (code == 0 && cursor && ++pages < LIMIT_SERVER_TOOL_PAGES);
        if (code == 0 && cursor)
            code = err_set(err, ERR_IO, "it was stopped: its list of tools has over %u pages", LIMIT_SERVER_TOOL_PAGES);
        free(cursor);
    }
    if (code < 0) {
        server_tools_unref(tools);
        server_end(server, err->text);
        return code;
    }
    pthread_mutex_lock(&server->lock);
    struct server_tools *before = server->tools;
    server->tools = tools;
    pthread_mutex_unlock(&server->lock);
    server_tools_unref(before);
    return 0;
}

int server_prepare(struct server *server, const struct server_wait *wait, struct err *err) {
    int code = 0;
    pthread_mutex_lock(&server->lock);
    while (code == 0 && server->preparing) {
        /* Another thread does it. */
        struct ask ask = {.wake = -1};
        ask_enter_locked(server, &ask);
        code = ask_wait_locked(server, &ask, wait, err);
        ask_leave_locked(server, &ask);
    }
    if (code == 0 && server->dead)
        code = err_set(err, ERR_IO, "%s", server->why);
    bool first = !server->ready, mine = code == 0 && (first || server->stale);
    server->preparing |= mine;
    if (mine)
        server->stale = false;
    pthread_mutex_unlock(&server->lock);
    if (mine) {
        code = prepare_talk(server, first, err);
        pthread_mutex_lock(&server->lock);
        bool good = code == 0;
        server->preparing = false;
        server->ready |= good;
        for (struct ask *ask = server->asks; ask; ask = ask->next)
            if (!ask->id) {
                ask->done = true;
                ask_wake(ask);
            }
        pthread_mutex_unlock(&server->lock);
    }
    server_settle(server);
    return code;
}

int server_call(struct server *server, const char *tool, json_t *args, const struct server_wait *wait,
                json_t **ret_answer, struct err *err) {
    json_t *params = talk_params(server);
    json_object_set_new(params, "name", json_string(tool));
    json_object_set(params, "arguments", args);
    return server_ask(server, "tools/call", params, wait, ret_answer, err);
}
