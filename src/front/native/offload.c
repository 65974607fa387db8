/* Kept results of tools over HTTP: which of them show files that are no longer so. Called through native_routes. */
#include "front/answer.h"
#include "front/native/native.h"
#include "front/toolbox.h"
#include "tool/offload/offload.h"

struct refresh {
    struct json json; /* "results" */
    struct buf results, ids;
    struct json ids_json;
};

static void refresh_each(void *user, const char *id, const char *path, bool removed) {
    struct refresh *refresh = user;
    json_str(&refresh->ids_json, id);
    json_open(&refresh->json, '{');
    json_put_str(&refresh->json, "id", id);
    json_put_str(&refresh->json, "path", path);
    json_put_str(&refresh->json, "change", removed ? "removed" : "modified");
    json_close(&refresh->json, '}');
}

static int refresh_answer(struct http_request *request, struct refresh *refresh, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "stale");
    answer_raw(&answer, refresh->ids.data, refresh->ids.len);
    json_key(&answer.json, "results");
    answer_raw(&answer, refresh->results.data, refresh->results.len);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_offload(struct http_request *request, struct box *box, struct err *err) {
    struct tool_call call;
    struct refresh refresh;
    buf_init(&refresh.ids, 1u << 20); /* a thousand ids, and a thousand paths with their escapes */
    buf_init(&refresh.results, 32u << 20);
    json_init(&refresh.ids_json, &refresh.ids);
    json_init(&refresh.json, &refresh.results);
    json_open(&refresh.ids_json, '[');
    json_open(&refresh.json, '[');
    int code = toolbox_begin(request, box, http_param(request, "thread"), &call, err);
    call.begins = NULL; /* it is no tool: the route's own row in the audit log says all */
    if (code == 0)
        code = offload_refresh(&call, refresh_each, &refresh, err);
    json_close(&refresh.ids_json, ']');
    json_close(&refresh.json, ']');
    if (code == 0)
        code = refresh_answer(request, &refresh, err);
    tool_call_done(&call);
    buf_done(&refresh.ids);
    buf_done(&refresh.results);
    return code;
}
