/* The Model Context Protocol without its transports: one JSON-RPC message in, messages out. Serves both eras:
 * 2025-11-25 and before (initialize, sessions) and 2026-07-28 (every request has its version). Called by front/mcp
 * (Streamable HTTP) and cli/mcp (stdio).
 *
 *   mcp_read(&message, data, len)    parses; never fails: mcp_serve answers what is wrong
 *   ... the transport checks headers and user, and sets up a struct mcp_exchange ...
 *   mcp_enter(&exchange, &message)   in order of arrival: from here on it can be cancelled
 *   mcp_serve(&exchange, &message)   may take long, so on its own thread; sends, then leaves
 *   mcp_message_done(&message)
 *
 * mcp_enter and mcp_serve come in pairs, whatever the message is. */
#ifndef CUBBY_TOOL_MCP_H
#define CUBBY_TOOL_MCP_H

#include "tool/tool.h"

#define MCP_LEGACY "2025-11-25" /* the newest version with initialize */
#define MCP_MODERN "2026-07-28"

/* Error numbers of JSON-RPC and of the protocol. */
enum mcp_error {
    MCP_PARSE = -32700,
    MCP_REQUEST = -32600,
    MCP_METHOD = -32601,
    MCP_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_REFUSED = -32000,  /* refused by the transport */
    MCP_SESSION = -32001,  /* no such session */
    MCP_RESOURCE = -32002, /* legacy only: no such resource */
    MCP_HEADER = -32020,   /* headers and body disagree */
    MCP_CAPABILITY = -32021,
    MCP_VERSION = -32022, /* data: {"supported":[...],"requested":"..."} */
};

enum mcp_kind {
    MCP_BAD,      /* `error` is the answer, with the id if there is one */
    MCP_CALL,     /* has an id and wants a response */
    MCP_NOTICE,   /* a notification: never answered, even if it has an `error` */
    MCP_RESPONSE, /* ignored: we never send requests */
};

struct mcp_message {
    enum mcp_kind kind;
    bool modern;          /* the message has its protocol version */
    bool slow;            /* may wait for a box: do not serve it on a thread that reads messages */
    bool asks;            /* slow if the host has MCP servers; the transport decides */
    int error;            /* MCP_BAD; a transport may set kind, error and error_text too */
    char error_text[300]; /* why */
    int status;           /* HTTP status of an error: 400, 404; 0: 200 */
    char id[300];         /* as JSON: 7 or "seven"; "null": none */
    const char *method;   /* "" if absent */
    const char *name;     /* params.name or params.uri; NULL: neither */
    const char *version;  /* from _meta; NULL: none */
    /* from _meta, for the call; NULL: absent */
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

/* A message and its transport. Functions are called on the thread of mcp_enter or mcp_serve. */
struct mcp_exchange {
    /* set by the transport */
    /* Sends one message: one line of JSON without its newline. last: the response to this message; earlier ones are
     * notifications about it. Negative: the client is gone. */
    int (*send)(struct mcp_exchange *exchange, const char *text, size_t len, bool last);
    /* Fills in what only the transport knows about a new call: endpoint, user, and defaults of thread and parent. The
     * caller then sets what the message names, and watch. */
    void (*begin)(struct mcp_exchange *exchange, struct tool_call *call);
    struct mcp *mcp;
    void *endpoint; /* of the transport */
    struct arena *arena;
    const struct tool_host *host;
    const struct tool_settings *settings;
    struct mcp_session *session; /* in which ids are unique and requests can be cancelled; NULL: none (modern HTTP) */
    int watch;                   /* without a session: cancelled when it hangs up; -1: none */
    /* private */
    struct mcp_running *running;
    const struct mcp_message *message; /* while it is served */
    uint64_t progress, progress_ms;    /* number of notifications sent, and time of the last */
};

bool mcp_is_legacy(const char *version); /* a version that begins with initialize */

struct mcp *mcp_new(void);
void mcp_free(struct mcp *mcp); /* NULL is allowed; no request may be running */

void mcp_read(struct mcp_message *ret_message, const char *data, size_t len);
void mcp_message_done(struct mcp_message *message);
/* Makes a message MCP_BAD with the error that mcp_serve answers. */
void mcp_refuse(struct mcp_message *message, int error, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Makes a call with the id of a running one MCP_BAD. A notification that cancels takes effect before this returns. */
void mcp_enter(struct mcp_exchange *exchange, struct mcp_message *message);
/* A cancelled call sends no response (legacy and stdio). */
void mcp_serve(struct mcp_exchange *exchange, struct mcp_message *message);
/* Cancels like a client, from any thread, between mcp_enter and the end of mcp_serve. With a session only. */
void mcp_cancel(struct mcp_exchange *exchange);

/* Writes a tool's answer as members of an open object: content, structuredContent, isError. */
void mcp_result_json(struct json *json, const struct tool *tool, struct tool_result *result);

/* ---- sessions ---- */

/* For HTTP: created by the answer to initialize. owner: the user who may continue it. LIMIT: too many are in use. */
int mcp_session_new(struct mcp *mcp, const char *owner, struct mcp_session **ret_session, struct err *err);
/* The session of stdio: not counted, never expires; mcp_session_put frees it. */
struct mcp_session *mcp_session_only(struct mcp *mcp);
/* NULL: unknown, expired, or another owner's. The caller calls mcp_session_put. */
struct mcp_session *mcp_session_get(struct mcp *mcp, const char *id, const char *owner);
void mcp_session_put(struct mcp_session *session);
const char *mcp_session_id(const struct mcp_session *session);
const char *mcp_session_version(const struct mcp_session *session); /* agreed upon by initialize; NULL: not yet */
/* The session can no longer be found; its running calls are cancelled. */
void mcp_session_end(struct mcp_session *session);

#endif
