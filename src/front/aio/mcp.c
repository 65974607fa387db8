/* The MCP group of the AIO dialect: our tools, on the box of the URL, as the one server "cubby". Called through
 * aio_mcp_routes. Invariant: a tool works only in this box; an error of the model is an answer with isError, not a
 * failure. */
#include "front/aio/aio.h"
#include "front/mcp_http.h"
#include "front/toolbox.h"
#include "tool/mcp/mcp.h"

#define SERVER_NAME "cubby"

static int mcp_servers_own(struct http_request *request, struct box *, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '[');
    json_str(&answer.json, SERVER_NAME);
    return aio_close(&answer, ']', 0, err);
}

static int mcp_server_check(struct http_request *request, struct err *err) {
    const char *name = http_param(request, "server");
    return strcmp(name, SERVER_NAME)
               ? err_set(err, ERR_NOT_FOUND, "MCP server '%.100s' not found; the only one is '" SERVER_NAME "'", name)
               : 0;
}

static int mcp_tools(struct http_request *request, struct box *box, struct err *err) {
    autobuf list = buf_max(2 * LIMIT_SERVER_LIST_BYTES);
    TRY(mcp_server_check(request, err) ?: toolbox_tools(request, box, NULL, true, &list, err));
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_key(&answer.json, "tools");
    answer_raw(&answer, list.data, list.len);
    return aio_close(&answer, '}', 0, err);
}

static int mcp_tool_answer(struct http_request *request, const struct tool *tool, struct tool_call *call,
                           struct err *err) {
    autobuf out = buf_max(LIMIT_MCP_MESSAGE_BYTES);
    struct json json = json_begin(&out);
    mcp_result_json(&json, tool, &call->result);
    json_close(&json, '}');
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "the answer of '%s' is larger than %u bytes", tool->name,
                       LIMIT_MCP_MESSAGE_BYTES);
    autoanswer answer;
    aio_open(&answer, request, NULL, 0);
    answer_raw(&answer, out.data, out.len);
    return aio_close(&answer, 0, 0, err);
}

static int mcp_tool(struct http_request *request, struct box *box, struct err *err) {
    const char *name = http_param(request, "tool");
    const char *missing = arena_printf(
        http_arena(request), "tool '%.100s' not found; GET .../v1/mcp/" SERVER_NAME "/tools lists them", name);
    struct tool_call call;
    const struct tool *tool;
    TRY(mcp_server_check(request, err));
    int code =
        toolbox_run(request, box, NULL, name, missing, &call, &tool, err) ?: mcp_tool_answer(request, tool, &call, err);
    tool_call_done(&call);
    return code;
}

static int mcp_post(struct http_request *request, struct box *box, struct err *err) {
    return mcp_http_post(aio_state(request)->mcp, request, box, err);
}

static int mcp_delete(struct http_request *request, struct box *, struct err *) {
    return mcp_http_delete(aio_state(request)->mcp, request);
}

#define MCP_POST                                                                                                       \
    ENDPOINT(.run = mcp_post, .flags = AIO_FLAGS, .body_media = "application/json", .status = 200,                     \
             .other_status = 202, .answer_media = "application/json")
#define MCP_DELETE ENDPOINT(.run = mcp_delete, .flags = AIO_FLAGS, .status = 204)
const struct route aio_mcp_routes[] = {
    AIO_ROUTE("GET", "/mcp/servers", "aio_mcp_servers", "The MCP servers of a box: our tools", .run = mcp_servers_own),
    {"GET", "/aio/{id}/v1/mcp/{server}/tools", front_handle, 0, "aio_mcp_tools", "The tools of an MCP server",
     ENDPOINT(.run = mcp_tools, .flags = AIO_FLAGS | ENDPOINT_WRITES, .status = 200, .answer = aio_answer)},
    AIO_ROUTE("POST", "/mcp/{server}/tools/{tool}", "aio_mcp_tool", "Call a tool in a box", .run = mcp_tool,
              .body_media = "application/json"),
    {"POST", "/aio/{id}/mcp", front_handle, 0, "aio_mcp", "MCP with the tools of a box", MCP_POST},
    {"DELETE", "/aio/{id}/mcp", front_handle, 0, "aio_mcp_end", "The end of an MCP session", MCP_DELETE},
    {"POST", "/aio/{id}/v1/mcp", front_handle, 0, "aio_mcp_v1", "The same, at the other place it has", MCP_POST},
    {"DELETE", "/aio/{id}/v1/mcp", front_handle, 0, "aio_mcp_v1_end", "The end of an MCP session", MCP_DELETE},
    {0},
};
