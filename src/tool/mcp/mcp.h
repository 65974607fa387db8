/* The Model Context Protocol without its transports: one JSON-RPC message in, messages out. Both eras at once:
 * 2025-11-25 and before (initialize, sessions) and 2026-07-28 (every request says its version). Called by front/mcp
 * (Streamable HTTP) and cli/mcp (stdio).
 *
 *   mcp_read(&message, data, len)    what it is; never fails: what is wrong is answered by mcp_serve
 *   ... the transport checks what it must (headers, who asks), sets up a struct mcp_exchange ...
 *   mcp_enter(&exchange, &message)   in the order of arrival: from here on it can be cancelled
 *   mcp_serve(&exchange, &message)   may take long: on a thread of its own; sends, then leaves
 *   mcp_message_done(&message)
 *
 * mcp_enter and mcp_serve come in pairs, whatever the message is. */
#ifndef CUBBY_TOOL_MCP_H
#define CUBBY_TOOL_MCP_H

#include "tool/tool.h"

#define MCP_LEGACY "2025-11-25" /* the newest with initialize */
#define MCP_MODERN "2026-07-28"

/* Error numbers of JSON-RPC and of the protocol. */
enum mcp_error {
    MCP_PARSE = -32700,
    MCP_REQUEST = -32600,
    MCP_METHOD = -32601,
    MCP_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_REFUSED = -32000,  /* the transport does not take it */
    MCP_SESSION = -32001,  /* no such session */
    MCP_RESOURCE = -32002, /* legacy only: no such resource */
    MCP_HEADER = -32020,   /* headers and body disagree */
    MCP_CAPABILITY = -32021,
    MCP_VERSION = -32022, /* data: {"supported":[...],"requested":"..."} */
};

enum mcp_kind {
    MCP_BAD,      /* `error` is the answer, with the id as far as there is one */
    MCP_CALL,     /* has an id and wants a response */
    MCP_NOTICE,   /* a notification: never answered, even if it has an `error` */
    MCP_RESPONSE, /* to something we never asked: taken and forgotten */
};

struct mcp_message {
    enum mcp_kind kind;
    bool modern;          /* it contains its protocol version */
    bool slow;            /* may wait for a box: not on a thread that reads further messages */
    bool asks;            /* the same, if the host has MCP servers: then the transport makes it slow */
    int error;            /* MCP_BAD; a transport may set kind, error and error_text too */
    char error_text[300]; /* its sentence */
    int status;           /* HTTP's, of an error: 400, 404; 0: 200 */
    char id[300];         /* as JSON: 7 or "seven"; "null": none */
    const char *method;   /* "" if absent */
    const char *name;     /* params.name or params.uri; NULL: neither */
    const char *version;  /* of _meta; NULL: none */
    /* of _meta, for the call; NULL: absent */
    const char *thread, *parent;
    const char *const *secrets; /* "NAME=VALUE", NULL-terminated */
    struct arena arena;
    struct json_t *root;     /* owns the members that are not in the arena */
    struct json_t *params;   /* an object or NULL */
    struct json_t *meta;     /* params._meta or NULL */
    struct json_t *progress; /* its progressToken or NULL */
};

struct mcp;
struct mcp_session;
struct mcp_running; /* a running request, which can be cancelled */

/* One message on its way through a transport. Functions are called on the thread of mcp_enter or mcp_serve. */
struct mcp_exchange {
    /* set by the transport */
    /* Sends one message: one line of JSON without its newline. last: the response to this message; earlier ones are
     * notifications about it. Negative: the client is gone. */
    int (*send)(struct mcp_exchange *exchange, const char *text, size_t len, bool last);
    /* Fills in what only the transport knows of a new call: its endpoint and user, and its own names of thread and parent. The
     * caller sets what the message names, and watch. */
    void (*begin)(struct mcp_exchange *exchange, struct tool_call *call);
    struct mcp *mcp;
    void *endpoint; /* of the transport */
    struct arena *arena;
    const struct tool_host *host;
    const struct tool_settings *settings;
    struct mcp_session *session; /* in which ids are unique and requests can be cancelled; NULL: none (modern HTTP) */
    int watch;                   /* without a session: its hang-up cancels; -1: none */
    /* private */
    struct mcp_running *running;
    const struct mcp_message *message; /* while it is served */
    uint64_t progress, progress_ms;    /* how many notifications were sent, and when the last */
};

bool mcp_is_legacy(const char *version); /* one of those that begin with initialize */

struct mcp *mcp_new(void);
void mcp_free(struct mcp *mcp); /* NULL is fine; nothing runs any more */

void mcp_read(struct mcp_message *ret_message, const char *data, size_t len);
void mcp_message_done(struct mcp_message *message);
/* Makes it MCP_BAD: its sentence and numbers are what mcp_serve answers. */
void mcp_refuse(struct mcp_message *message, int error, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A call with the id of a running one is made MCP_BAD; a notification that cancels has done so when this returns. */
void mcp_enter(struct mcp_exchange *exchange, struct mcp_message *message);
/* A cancelled call sends no response (legacy and stdio). */
void mcp_serve(struct mcp_exchange *exchange, struct mcp_message *message);
/* Between enter and the end of serve, from any thread: as if the client had asked for it. With a session only. */
void mcp_cancel(struct mcp_exchange *exchange);

/* A tool's answer as members of an open object: content, structuredContent, isError. */
void mcp_result_json(struct json *json, const struct tool *tool, struct tool_result *result);

/* ---- sessions ---- */

/* For HTTP: created by the answer to initialize. owner: the user who may continue it. LIMIT: too many are in use. */
int mcp_session_new(struct mcp *mcp, const char *owner, struct mcp_session **ret_session, struct err *err);
/* The one of stdio, which is not counted and never expires; mcp_session_put frees it. */
struct mcp_session *mcp_session_only(struct mcp *mcp);
/* NULL: unknown, expired, or another owner's. The caller calls mcp_session_put. */
struct mcp_session *mcp_session_get(struct mcp *mcp, const char *id, const char *owner);
void mcp_session_put(struct mcp_session *session);
const char *mcp_session_id(const struct mcp_session *session);
const char *mcp_session_version(const struct mcp_session *session); /* agreed by initialize; NULL: not yet */
/* It cannot be found any more; its running calls are cancelled. */
void mcp_session_end(struct mcp_session *session);

#endif
