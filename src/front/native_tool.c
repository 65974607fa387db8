/* Agent tools over HTTP. Called through native_routes. */
#include "base/limits.h"
#include "front/answer.h"
#include "front/native.h"
#include "front/toolbox.h"

int native_tools(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "tools");
    tool_list_json(&answer.json, front_settings(request)->tools, false);
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
    json_key(&answer.json, "is_error");
    json_bool(&answer.json, result->is_error);
    if (result->structured.len) {
        json_key(&answer.json, "structured");
        answer_raw(&answer, result->structured.data, result->structured.len);
    }
    if (result->image.len) {
        json_key(&answer.json, "image");
        json_open(&answer.json, '{');
        json_key(&answer.json, "mime_type");
        json_str(&answer.json, result->image_type);
        json_key(&answer.json, "data");
        answer_long(&answer, result->image.data, result->image.len, false);
        json_close(&answer.json, '}');
    }
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static int native_tool_run(struct http_request *request, struct box *box, const char *thread, struct err *err) {
    const struct tool *tool = tool_find(http_param(request, "name"));
    struct tool_call call;
    char *args;
    size_t len;
    if (!tool || !tool_offered(tool, front_settings(request)->tools))
        return err_set(err, ERR_NOT_FOUND, "there is no tool '%s'; GET /v1/tools lists them",
                       http_param(request, "name"));
    int code = http_body_all(request, LIMIT_JSON_BYTES, &args, &len, err);
    if (code < 0)
        return code;
    code = toolbox_begin(request, box, thread, &call, err);
    if (code == 0)
        code = toolbox_run(request, &call, tool, args, len, err);
    if (code == 0)
        code = native_tool_answer(request, &call, err);
    tool_call_done(&call);
    return code;
}

int native_tool(struct http_request *request, struct box *box, struct err *err) {
    return native_tool_run(request, box, NULL, err);
}

int native_thread_tool(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return native_tool_run(request, NULL, http_param(request, "thread"), err);
}
