/* From an HTTP request to a call of a tool. Called by native/tool and mcp_http. Invariant: a box is looked up as the
 * user of the token, and created only when a tool needs one. */
#include "front/toolbox.h"

/* The key of a box gives access to that box only, not to another box of the same user in which an MCP server runs. */
static int toolbox_bound(struct http_request *request, const char *id, const char *thread, struct err *err) {
    const char *bound = trail_of(request)->bound;
    if (!*bound || strcmp(bound, id) == 0)
        return 0;
    return err_set(err, ERR_DENIED,
                   "the key of box %s gives access to that box only, not to the box of thread '%.128s'; use a token",
                   bound, thread);
}

static void toolbox_release(void *endpoint, struct box *box) {
    struct http_request *request = endpoint;
    front_leave(box);
    trail_box(request, NULL);
    provider_put(front_of(request)->provider, box);
}

static int toolbox_admit(struct http_request *request, struct box *box, struct box **ret_box, struct err *err) {
    trail_box(request, box);
    int code = front_enter(request, box, err);
    if (code < 0)
        toolbox_release(request, box);
    else
        *ret_box = box;
    return code;
}

static int toolbox_acquire(void *endpoint, const char *user, const char *thread, struct box **ret_box,
                           struct err *err) {
    struct http_request *request = endpoint;
    const struct box_request wanted = {.user = user, .thread = thread, .thread_len = strlen(thread)};
    struct box *box = NULL;
    char id[17];
    bool created;
    policy_id(user, thread, strlen(thread), id);
    return toolbox_bound(request, id, thread, err) ?: front_acquire(request, id, &wanted, &box, &created, err)
               ?: toolbox_admit(request, box, ret_box, err);
}

static int toolbox_find(void *endpoint, const char *user, const char *thread, struct box **ret_box, struct err *err) {
    struct http_request *request = endpoint;
    struct box *box = NULL;
    char id[17];
    policy_id(user, thread, strlen(thread), id);
    *ret_box = NULL;
    TRY(toolbox_bound(request, id, thread, err));
    int code = provider_get(front_of(request)->provider, user, id, &box, err);
    if (code == -ERR_NOT_FOUND)
        return 0;
    return code < 0 ? code : toolbox_admit(request, box, ret_box, err);
}

/* Writes the name, the guard's findings, and the arguments. */
static void toolbox_record(struct tool_call *call) {
    struct http_request *request = call->endpoint;
    struct trail *trail = trail_of(request);
    trail->reads = call->tool->flags & TOOL_READS;
    trail->secrets = call->secrets;
    trail->detail = NULL;
    if (call->args)
        trail_args(request, call->tool->fields, call->args);
    const char *args = trail->detail;
    trail->detail = NULL;
    trail_note(request, call->tool->name);
    if (call->verdict)
        trail_quote(request, call->verdict);
    if (args)
        trail_note(request, args);
}

/* Called before anything is done in the box, so that the log shows what a killed daemon was about to do. */
static void toolbox_begins(struct tool_call *call) {
    toolbox_record(call);
    trail_running(call->endpoint);
}

/* The record of toolbox_begins stays valid unless the guard, which runs later, found something. */
static void toolbox_ends(struct tool_call *call) {
    if (!call->begun || call->verdict)
        toolbox_record(call);
    if (call->has_exec)
        trail_result(call->endpoint, &call->exec);
}

const struct tool_host toolbox_functions = {.acquire = toolbox_acquire,
                                            .release = toolbox_release,
                                            .find = toolbox_find,
                                            .begins = toolbox_begins,
                                            .ends = toolbox_ends};

void toolbox_fill(struct http_request *request, struct box *box, struct tool_call *call) {
    const struct who *who = front_who(request);
    const char *thread = http_header(request, "cubby-thread");
    call->endpoint = request;
    call->box = box;
    call->user = box ? box->user : who->user ? who->user : "default";
    call->thread = thread ? thread : call->thread;
    call->parent = http_header(request, "cubby-parent");
    call->watch = http_fd(request);
}

int toolbox_begin(struct http_request *request, struct box *box, const char *thread, struct tool_call *call,
                  struct err *err) {
    tool_call_init(call, &front_of(request)->tools, front_settings(request)->tools, http_arena(request));
    toolbox_fill(request, box, call);
    call->thread = thread ? thread : call->thread;
    return tool_call_names(call, err);
}

int toolbox_tools(struct http_request *request, struct box *box, const char *thread, bool mcp, struct buf *out,
                  struct err *err) {
    struct tool_call call;
    struct json json;
    json_init(&json, out);
    int code = toolbox_begin(request, box, thread, &call, err);
    call.begun = true; /* listing is not a tool call */
    code = code ?: tool_list_all_json(&call, &json, mcp, err);
    tool_call_done(&call);
    return code;
}

int toolbox_run(struct http_request *request, struct box *box, const char *thread, const char *name,
                const char *missing, struct tool_call *call, const struct tool **ret_tool, struct err *err) {
    char *args;
    size_t len;
    int code = toolbox_begin(request, box, thread, call, err);
    *ret_tool = tool_find_for(call->host, call->settings, call->user, name, call->arena);
    TRY(code);
    if (!*ret_tool)
        return err_set(err, ERR_NOT_FOUND, "%s", missing);
    return http_body_all(request, LIMIT_JSON_BYTES, &args, &len, err) ?: tool_run(call, *ret_tool, args, len, err);
}
