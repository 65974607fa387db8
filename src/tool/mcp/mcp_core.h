/* Shared by the files of the MCP core. Private to them. */
#ifndef CUBBY_TOOL_MCP_CORE_H
#define CUBBY_TOOL_MCP_CORE_H

#include "tool/mcp/mcp.h"

/* A response that is being written: json is inside the open object "result". */
struct mcp_answer {
    struct mcp_exchange *exchange;
    struct mcp_message *message; /* mcp_refuse makes the response an error, whatever was written */
    struct buf out;
    struct json json;
    bool silent; /* the client is gone */
};

/* mcp_session.c: requests that can be cancelled */
void mcp_running_enter(struct mcp_exchange *exchange, struct mcp_message *message);
bool mcp_running_leave(struct mcp_exchange *exchange); /* true: it was cancelled */
void mcp_running_cancel(struct mcp_session *session, const char *id);
int mcp_running_watch(const struct mcp_exchange *exchange); /* a descriptor that hangs up when it is cancelled */
bool mcp_session_agree(struct mcp_session *session, const char *version); /* false: already done */
void mcp_session_sweep(struct mcp *mcp, uint64_t now_ms); /* removes expired ones; call it without a lock */

/* mcp_resource.c */
/* Returns the workspace of the exchange's box, without creating a box. In the exchange's arena, or constant. */
const char *mcp_workspace(struct mcp_answer *answer);
void mcp_resources_list(struct mcp_answer *answer);
void mcp_resources_templates(struct mcp_answer *answer);
void mcp_resources_read(struct mcp_answer *answer);

/* mcp.c: begins a call. The caller always calls tool_call_done. */
int mcp_call_begin(struct mcp_answer *answer, struct tool_call *call, struct err *err);
/* An error instead of a result; nothing is sent if the request was cancelled. */
void mcp_failed(struct mcp_answer *answer, const struct err *err);

#endif
