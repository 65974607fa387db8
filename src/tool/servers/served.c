/* Calls of tools that MCP servers in boxes provide. Called through tool_find_for and the lists. Invariant: a server
 * that does not answer, sends nonsense or dies yields a text for the model and is missing in the list; it never affects
 * others. */
#include <jansson.h>

#include "base/base.h"
#include "tool/servers/served.h"
#include "box/policy.h"
#include "tool/servers/servers.h"

struct served_tool {
    struct tool tool; /* must be first: the tool's function casts it */
    struct server_spec spec;
    const char *name; /* the server's name of the tool */
};

/* The box of a server, if it is not the call's. */
struct served_box {
    struct box *box;
    bool lent;
};

/* ---- the box of a server ---- */

static int served_place_box(struct tool_call *call, const struct server_spec *spec, struct served_box *ret_box,
                            struct err *err) {
    const char *thread = spec->machine ? arena_printf(call->arena, POLICY_MACHINE_THREAD "%s", spec->machine)
                                       : spec->thread; /* NULL: the call's own box */
    *ret_box = (struct served_box){0};
    if (thread && call->host->only && spec->machine)
        return err_set(err, ERR_UNSUPPORTED, "MCP servers on machines need a daemon");
    if (thread && !call->host->only) {
        const struct tool_host *host = call->host;
        bool found_only =
            spec->machine && host->find; /* a machine's box exists while it is joined, and is never created */
        int code = found_only ? host->find(call->endpoint, call->user, thread, &ret_box->box, err)
                              : host->acquire(call->endpoint, call->user, thread, &ret_box->box, err);
        if (code == 0 && !ret_box->box)
            return err_set(err, ERR_NOT_FOUND, "the machine '%s' has not joined", spec->machine);
        ret_box->lent = code == 0;
        return code;
    }
    int code = tool_box(call, err);
    ret_box->box = call->box;
    return code;
}

static void served_place_done(struct tool_call *call, struct served_box *box) {
    if (box->lent)
        call->host->release(call->endpoint, box->box);
    *box = (struct served_box){0};
}

/* ---- a list ---- */

static void served_list_raw(struct json *json, const char *key, const char *text) {
    if (!text)
        return;
    json_put_raw(json, key, text, strlen(text));
}

struct listed {
    struct served_box box;
    struct server *server;
};

static int served_list_finish(struct tool_call *call, const struct server_spec *spec, struct listed *listed,
                              struct json *json, bool mcp, struct err *err) {
    const struct server_wait wait = {.watch = call->watch, .deadline_ms = clock_ms() + spec->start_timeout_ms};
    if (!listed->server)
        return 0;
    int code = server_prepare(listed->server, &wait, err);
    struct server_tools *tools = code == 0 ? server_tools(listed->server) : NULL;
    if (tools)
        server_listed(listed->server);
    for (size_t i = 0; tools && i < tools->count && json->out->len < LIMIT_SERVER_LIST_BYTES; i++) {
        const struct server_tool *tool = &tools->items[i];
        char name[LIMIT_TOOL_NAME_BYTES + 1];
        snprintf(name, sizeof name, "%s__%s", spec->name, tool->name);
        json_open(json, '{');
        json_put_str(json, "name", name);
        json_put_some(json, "title", tool->title);
        json_put_str(json, "description", tool->description);
        served_list_raw(json, mcp ? "inputSchema" : "input_schema", tool->input);
        served_list_raw(json, mcp ? "outputSchema" : "output_schema", tool->output);
        served_list_raw(json, "annotations", tool->annotations);
        json_close(json, '}');
    }
    server_tools_unref(tools);
    return code == -ERR_GONE ? code : 0;
}

int served_list_json(struct tool_call *call, struct json *json, bool mcp, struct err *err) {
    struct server_spec *specs;
    size_t count = 0;
    if (!call->host->servers)
        return 0;
    int code = servers_specs(call->host->servers, call->user, call->arena, &specs, &count, err);
    if (code < 0)
        return code;
    struct listed *listed = arena_alloc(call->arena, (count + 1) * sizeof *listed);
    /* All are started before the first is waited for: together they take as long as the slowest. */
    const struct server_wait wait = {.watch = call->watch, .deadline_ms = clock_ms()};
    for (size_t i = 0; i < count && code == 0; i++) {
        if (!specs[i].disabled)
            code = served_place_box(call, &specs[i], &listed[i].box, err)
                       ?: servers_get(call->host->servers, listed[i].box.box, &specs[i], call->settings->env_prefixes,
                                      &wait, &listed[i].server, err);
        code = code == -ERR_GONE ? code : 0; /* a server that fails is missing in the list */
    }
    for (size_t i = 0; i < count; i++) {
        if (code == 0)
            code = served_list_finish(call, &specs[i], &listed[i], json, mcp, err);
        server_unref(listed[i].server);
        served_place_done(call, &listed[i].box);
    }
    return code < 0 ? err_set(err, ERR_GONE, "the client went away") : 0;
}

/* ---- an answer ---- */

static void served_answer_text(struct tool_call *call, const json_t *text) {
    if (call->result.text.total)
        tool_put(call, "\n", 1);
    tool_put(call, json_string_value(text), json_string_length(text));
}

static int served_answer_dump(const char *data, size_t len, void *user) {
    buf_put(user, data, len);
    return 0;
}

/* Content that is not text is passed on if clients know its type. */
static void served_answer_other(struct tool_call *call, const json_t *item, const char *type) {
    static const char *const known[] = {"image", "audio", "resource", "resource_link"};
    struct buf *content = &call->result.content;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i]) == 0) {
            if (content->len)
                buf_byte(content, ',');
            json_dump_callback(item, served_answer_dump, content, JSON_COMPACT);
            return;
        }
    if (call->result.text.total)
        tool_put(call, "\n", 1);
    tool_say(call, "(content of an unsupported type: %.40s)", type);
}

static void served_answer_item(struct tool_call *call, const json_t *item) {
    const char *type = json_string_value(json_object_get(item, "type"));
    const json_t *text = json_object_get(item, "text");
    const json_t *inner = json_object_get(json_object_get(item, "resource"), "text");
    type = type ? type : "";
    if (strcmp(type, "text") == 0 && json_is_string(text))
        served_answer_text(call, text);
    else if (strcmp(type, "resource") == 0 && json_is_string(inner))
        served_answer_text(call, inner); /* truncated or kept like any other text */
    else
        served_answer_other(call, item, type);
}

/* ---- a call ---- */

static int call_server(struct tool_call *call, const struct served_tool *served, struct server *server, json_t *args,
                       struct err *err) {
    const struct server_wait start = {.watch = call->watch, .deadline_ms = clock_ms() + served->spec.start_timeout_ms};
    json_t *answer = NULL;
    TRY(server_prepare(server, &start, err));
    const struct server_wait wait = {.watch = call->watch,
                                     .deadline_ms = clock_ms() + served->spec.timeout_ms,
                                     .progress = call->progress,
                                     .user = call->progress_user};
    int code = server_call(server, served->name, args, &wait, &answer, err);
    call->result.tools_changed = server_relisted(server);
    if (code < 0)
        return code;
    const json_t *result = json_object_get(answer, "result");
    const char *why = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    if (result) {
        const json_t *structured = json_object_get(result, "structuredContent");
        const json_t *item;
        size_t i;
        json_array_foreach(json_object_get(result, "content"), i, item) served_answer_item(call, item);
        if (json_is_object(structured)) {
            struct buf *out = &call->result.structured;
            json_dump_callback(structured, served_answer_dump, out, JSON_COMPACT);
            if (!call->result.text.total && !call->result.content.len)
                tool_put(call, out->data, out->len);
        }
        call->result.is_error = json_is_true(json_object_get(result, "isError"));
    } else
        tool_fail(call, "MCP server '%s': %.1000s", served->spec.name, why ? why : "it refused without a reason");
    json_decref(answer);
    return 0;
}

static int served_run(struct tool_call *call, const void *args, struct err *err) {
    const struct served_tool *served = (const struct served_tool *)call->tool;
    const struct server_wait wait = {.watch = call->watch, .deadline_ms = clock_ms() + served->spec.timeout_ms};
    struct server *server = NULL;
    struct served_box box;
    int code = served_place_box(call, &served->spec, &box, err);
    if (code < 0)
        return code == -ERR_GONE ? code : tool_fail(call, "MCP server '%s': %s", served->spec.name, err->text);
    tool_begin(call);
    code = servers_get(call->host->servers, box.box, &served->spec, call->settings->env_prefixes, &wait, &server, err)
               ?: call_server(call, served, server, (json_t *)args, err);
    server_unref(server);
    served_place_done(call, &box);
    if (code < 0 && code != -ERR_GONE)
        code = tool_fail(call, "MCP server '%s': %s", served->spec.name, err->text);
    return code;
}

const struct tool *served_find(const struct tool_host *host, const char *user, const char *name, struct arena *arena) {
    static const struct row none[] = {{.name = NULL}};
    const char *cut = host->servers ? strstr(name, "__") : NULL;
    struct err err;
    if (!cut || !cut[2] || (size_t)(cut - name) > LIMIT_SERVER_NAME_BYTES || strlen(name) > LIMIT_TOOL_NAME_BYTES)
        return NULL;
    struct served_tool *served = arena_alloc(arena, sizeof *served);
    const char *server = arena_copy(arena, name, (size_t)(cut - name));
    if (servers_spec(host->servers, user, server, arena, &served->spec, &err) < 0 || served->spec.disabled)
        return NULL;
    served->name = arena_strdup(arena, cut + 2);
    served->tool = (struct tool){
        .name = arena_strdup(arena, name),
        .title = served->name,
        .description = "",
        .fields = none,
        .flags = TOOL_ENDS | TOOL_WORLD,
        .cut = TOOL_MIDDLE,
        .cut_setting = offsetof(struct tool_settings, bash_chars),
        .cut_hint = "Ask for less at once",
        .served = true,
        .run = served_run,
    };
    return &served->tool;
}
