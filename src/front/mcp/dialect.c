/* MCP as a dialect: our tools in the boxes of the threads that its clients name, at /mcp. Invariant: as in
 * mcp_http.c. */
#include "front/mcp_http.h"

extern const struct dialect mcp_dialect;

static int mcp_open(const char *, void **ret_state, struct err *) {
    *ret_state = mcp_http_new();
    return 0;
}

static void mcp_close(void *state) {
    mcp_http_free(state);
}

static int mcp_post(struct http_request *request, struct box *, struct err *err) {
    return mcp_http_post(front_state(front_of(request), &mcp_dialect), request, NULL, err);
}

static int mcp_delete(struct http_request *request, struct box *, struct err *) {
    return mcp_http_delete(front_state(front_of(request), &mcp_dialect), request);
}

static const struct route mcp_routes[] = {
    {"POST", "/mcp", front_handle, 0, "mcp",
     "The tools and the files of the workspace over MCP (Streamable HTTP): one JSON-RPC message, answered as JSON "
     "or as an event stream.",
     ENDPOINT(.run = mcp_post, .body_media = "application/json", .status = 200, .other_status = 202,
              .answer_media = "application/json")},
    {"DELETE", "/mcp", front_handle, 0, "mcp_end",
     "End the MCP session that Mcp-Session-Id names; what runs in it ends.",
     ENDPOINT(.run = mcp_delete, .status = 204)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static const struct route *const mcp_tables[] = {mcp_routes, NULL};
const struct dialect mcp_dialect = {.name = "mcp", .routes = mcp_tables, .open = mcp_open, .close = mcp_close};
