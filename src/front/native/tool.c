/* Agent tools over HTTP. Called through native_routes. */
#include "front/native/native.h"
#include "front/toolbox.h"
#include "tool/bang.h"
#include "tool/offload/offload.h"

const struct row tools_answer[] = {
    SHOW("tools", OBJECTS, "name, title, description, input_schema, output_schema, annotations"),
    ROW_NAMED("Tools"),
};
static const struct row tool_image_answer[] = {
    SHOW("mime_type", TEXT, "such as image/png"),
    SHOW("data", TEXT, "base64"),
    ROW_NAMED("ToolImage"),
};
#define SOME(label, kind) .name = (label), .type = ROW_##kind, .flags = ROW_MAYBE
const struct row tool_answer[] = {
    {.name = "text", .type = ROW_TEXT, .text = "what an agent would see"},
    {.name = "is_error", .type = ROW_BOOL, .text = "the text says what went wrong"},
    {SOME("structured", OBJECT), .text = "the same by the tool's output_schema, where it has one"},
    {SOME("image", OBJECT), .fields = tool_image_answer, .text = "a picture, where the tool answers with one"},
    {SOME("content", OBJECTS), .text = "the parts of an MCP server's answer that are not text, as MCP has them"},
    ROW_NAMED("ToolResult"),
};

int native_tools(struct http_request *request, struct box *, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "tools");
    tool_list_json(&answer.json, front_settings(request)->tools, false);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

/* Lists our tools and those of the user's MCP servers. */
int native_tools_all(struct http_request *request, struct box *box, struct err *err) {
    autobuf tools = buf_max(2 * LIMIT_SERVER_LIST_BYTES);
    TRY(toolbox_tools(request, box, http_param(request, "thread"), false, &tools, err));
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "tools");
    answer_raw(&answer, tools.data, tools.len);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static int native_tool_answer(struct http_request *request, struct tool_call *call, struct err *err) {
    struct tool_result *result = &call->result;
    size_t len;
    const uint8_t *text = spool_view(&result->text, &len);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "text");
    answer_long(&answer, text, len, true);
    json_put_bool(&answer.json, "is_error", result->is_error);
    if (result->structured.len) {
        json_key(&answer.json, "structured");
        answer_raw(&answer, result->structured.data, result->structured.len);
    }
    if (result->image.len) {
        json_put_open(&answer.json, "image", '{');
        json_put_str(&answer.json, "mime_type", result->image_type);
        json_key(&answer.json, "data");
        answer_long(&answer, result->image.data, result->image.len, false);
        json_close(&answer.json, '}');
    }
    if (result->content.len && !result->content.failed) {
        json_put_open(&answer.json, "content", '[');
        answer_raw(&answer, result->content.data, result->content.len);
        json_close(&answer.json, ']');
    }
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_tool(struct http_request *request, struct box *box, struct err *err) {
    const char *name = http_param(request, "name");
    struct tool_call call;
    const struct tool *tool;
    int code = toolbox_run(request, box, http_param(request, "thread"), name,
                           arena_printf(http_arena(request), "there is no tool '%s'; GET /v1/tools lists them", name),
                           &call, &tool, err)
                   ?: native_tool_answer(request, &call, err);
    tool_call_done(&call);
    return code;
}

/* ---- bang commands ---- */

static int native_bang_answer(struct http_request *request, struct tool_call *call, const struct bang_result *bang,
                              struct err *err) {
    struct tool_result *result = &call->result;
    size_t len;
    const uint8_t *text = spool_view(&result->text, &len);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "text");
    answer_long(&answer, text, len, true);
    json_put_bool(&answer.json, "is_error", result->is_error);
    bang_json(&answer.json, call, bang);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_bang(struct http_request *request, struct box *, struct err *err) {
    const struct who *who = front_who(request);
    struct bang_result result = {0};
    struct bang_args args = {.result = &result};
    struct tool_call call;
    STEP(front_body(request, &args, err));
    if (who->user && args.user.data && strcmp(who->user, args.user.data) != 0)
        return err_set(err, ERR_DENIED, "this token runs commands of user '%s' only, not of '%s'", who->user,
                       args.user.data);
    int code = toolbox_begin(request, NULL, http_param(request, "thread"), &call, err);
    if (!who->user && args.user.data)
        call.user = args.user.data;
    code = code ?: tool_run_args(&call, &tool_bang, &args, err) ?: native_bang_answer(request, &call, &result, err);
    tool_call_done(&call);
    return code;
}

/* ---- kept results: which show files that have changed ---- */

struct native_stale {
    struct arena *arena;
    struct stale_out *results;
    size_t count, cap;
};

static void native_stale_each(void *user, const char *id, const char *path, bool removed) {
    struct native_stale *stale = user;
    arena_add(stale->arena, stale->results, stale->count, stale->cap) = (struct stale_out){
        arena_strdup(stale->arena, id), arena_strdup(stale->arena, path), removed ? "removed" : "modified"};
}

int native_offload(struct http_request *request, struct box *box, struct err *err) {
    struct tool_call call;
    struct native_stale stale = {.arena = http_arena(request)};
    int code = toolbox_begin(request, box, http_param(request, "thread"), &call, err);
    call.begun = true; /* not a tool: the audit row of the route is enough */
    if (code == 0)
        code = offload_refresh(&call, native_stale_each, &stale, err);
    tool_call_done(&call);
    autoanswer answer;
    answer_list(&answer, request, offload_answer);
    for (size_t i = 0; i < stale.count && answer_spill(&answer) >= 0; i++)
        json_str(&answer.json, stale.results[i].id);
    json_close(&answer.json, ']');
    json_put_open(&answer.json, offload_answer[1].name, '[');
    for (size_t i = 0; i < stale.count && answer_spill(&answer) >= 0; i++)
        rows_write(&answer.json, offload_answer[1].fields, &stale.results[i]);
    json_close(&answer.json, ']');
    json_close(&answer.json, '}');
    return answer_end(&answer, code, err);
}
