/* MCP over Streamable HTTP, both eras of the protocol on one endpoint. Called by the dialects that offer it, each with
 * its own sessions.
 *
 * An answer is plain JSON if it is available at once, and becomes an event stream if something must be sent before it:
 * progress, or a comment after a silence. So an answer has two writers, its own thread and the keeper, under one lock.
 * In the older era a request outlives its connection (only a notification cancels it); in the newer one closing the
 * connection cancels it. Invariant: a message without a response still ends the HTTP request, with a status. */
#include "front/mcp_http.h"

#include <poll.h>

#include "base/sync.h"
#include "front/toolbox.h"
#include "tool/mcp/mcp.h"

#define KEEPER_MS 1000u

struct mcp_post {
    struct mcp_exchange exchange; /* must be first: the transport's functions cast it */
    struct http_request *request;
    struct mcp_http *http;
    struct box *box; /* if the route names one; NULL: each thread has its own */
    const struct mcp_message *message;
    bool json, stream; /* what the client accepts */
    pthread_mutex_t lock;
    bool streaming, answered;      /* under the lock */
    struct mcp_post *next, **prev; /* in the keeper's list */
};

struct mcp_http {
    struct mcp *mcp;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mcp_post *waiting;
    uint64_t entered;
    bool started, asleep, ending;
    pthread_t keeper;
};

/* ---- sending ---- */

static int http_post_stream_locked(struct mcp_post *post) {
    if (post->streaming)
        return 0;
    post->streaming = true;
    return http_reply_events(post->request);
}

static int http_post_send(struct mcp_exchange *exchange, const char *text, size_t len, bool last) {
    struct mcp_post *post = (struct mcp_post *)exchange;
    struct http_request *request = post->request;
    const struct mcp_session *session = exchange->session;
    int code = 0;
    pthread_mutex_lock(&post->lock);
    if (last && session && strcmp(post->message->method, "initialize") == 0 && mcp_session_version(session))
        http_reply_header(request, "Mcp-Session-Id", mcp_session_id(session));
    post->answered = last;
    if (last && !post->streaming && post->json) {
        code = http_reply(request, post->message->status ? post->message->status : 200, "application/json", text, len);
    } else if (post->stream) {
        code = http_post_stream_locked(post);
        if (code == 0)
            code = http_reply_event(request, "message", text, len);
        if (code == 0 && last)
            code = http_reply_end(request);
    }
    pthread_mutex_unlock(&post->lock);
    return code;
}

static void http_post_begin(struct mcp_exchange *exchange, struct tool_call *call) {
    struct mcp_post *post = (struct mcp_post *)exchange;
    toolbox_fill(post->request, post->box, call);
}

/* ---- the keeper: keeps long requests alive ---- */

static void http_keeper_look(struct mcp_post *post) {
    struct pollfd room = {.fd = http_fd(post->request), .events = POLLOUT};
    if (post->exchange.session && http_is_cut(post->request))
        mcp_cancel(&post->exchange);
    if (!post->stream || pthread_mutex_trylock(&post->lock) != 0)
        return;
    /* Sends only if that does not block: a slow reader is left to the request's own thread. */
    if (!post->answered && http_alive_due(post->request) && poll(&room, 1, 0) > 0 && room.revents == POLLOUT &&
        http_post_stream_locked(post) == 0)
        http_reply_alive(post->request);
    pthread_mutex_unlock(&post->lock);
}

/* Sleeps while there are no requests, and wakes up regularly while there are. */
static void *http_keeper_main(void *argument) {
    struct mcp_http *http = argument;
    pthread_mutex_lock(&http->lock);
    while (!http->ending) {
        uint64_t before = http->entered;
        uint64_t until_ms = clock_ms() + KEEPER_MS;
        while (!http->ending && cond_wait_until(&http->changed, &http->lock, until_ms))
            ;
        for (struct mcp_post *post = http->waiting; post; post = post->next)
            http_keeper_look(post);
        http->asleep = !http->waiting && http->entered == before;
        while (http->asleep && !http->ending)
            pthread_cond_wait(&http->changed, &http->lock);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

struct mcp_http *mcp_http_new(void) {
    struct mcp_http *http = xcalloc(1, sizeof *http);
    http->mcp = mcp_new();
    pthread_mutex_init(&http->lock, NULL);
    cond_init(&http->changed);
    return http;
}

void mcp_http_free(struct mcp_http *http) {
    if (!http)
        return;
    pthread_mutex_lock(&http->lock);
    http->ending = true;
    pthread_cond_signal(&http->changed);
    pthread_mutex_unlock(&http->lock);
    if (http->started)
        pthread_join(http->keeper, NULL);
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->lock);
    mcp_free(http->mcp);
    free(http);
}

/* ---- headers ---- */

/* Compares a header's value, which may be wrapped as "=?base64?...?=", with text. */
static bool http_header_names(const char *value, const char *text) {
    static const char open[] = "=?base64?", close[] = "?=";
    size_t len = strlen(value), head = sizeof open - 1, tail = sizeof close - 1;
    if (len < head + tail || strncasecmp(value, open, head) != 0 || strcmp(value + len - tail, close) != 0)
        return strcmp(value, text) == 0;
    autobuf plain = buf_max(LIMIT_HEAD_BYTES);
    return text_unbase64(&plain, value + head, len - head - tail) && plain.len == strlen(text) &&
           memcmp(plain.data, text, plain.len) == 0;
}

/* The newer era repeats in headers what proxies route by. Both must agree. */
static void http_check_headers(struct http_request *request, struct mcp_message *message) {
    const char *version = http_header(request, "mcp-protocol-version"), *method = http_header(request, "mcp-method");
    const char *name = http_header(request, "mcp-name");
    bool named = strcmp(message->method, "tools/call") == 0 || strcmp(message->method, "resources/read") == 0 ||
                 strcmp(message->method, "prompts/get") == 0;
    if (!version || (message->version && strcmp(version, message->version) != 0))
        mcp_refuse(message, MCP_HEADER, 400,
                   "the header MCP-Protocol-Version and the version in '_meta' must be the same");
    else if (!method || strcmp(method, message->method) != 0)
        mcp_refuse(message, MCP_HEADER, 400, "the header Mcp-Method must name the method of the message");
    else if (named && message->name && (!name || !http_header_names(name, message->name)))
        mcp_refuse(message, MCP_HEADER, 400, "the header Mcp-Name must be the name or uri in the message");
}

/* Returns the owner of a new session. */
static const char *http_session_owner(struct http_request *request) {
    const struct who *who = front_who(request);
    if (who->user)
        return who->user;
    return who->token[0] ? arena_printf(http_arena(request), "\n%s", who->token) : "";
}

/* The older era: finds the session, or creates it for initialize. */
static void http_find_session(struct mcp *mcp, struct http_request *request, struct mcp_message *message,
                              struct mcp_session **ret_session) {
    const char *id = http_header(request, "mcp-session-id"), *version = http_header(request, "mcp-protocol-version");
    bool first = strcmp(message->method, "initialize") == 0 && message->kind == MCP_CALL;
    struct err err;
    if (version && !mcp_is_legacy(version))
        mcp_refuse(message, MCP_REFUSED, 400, "the protocol version in MCP-Protocol-Version is not supported");
    else if (id && !(*ret_session = mcp_session_get(mcp, id, http_session_owner(request))))
        mcp_refuse(message, MCP_SESSION, 404, "Session not found");
    else if (!id && !first)
        mcp_refuse(message, MCP_REFUSED, 400, "the header Mcp-Session-Id is missing; begin with 'initialize'");
    else if (!id && mcp_session_new(mcp, http_session_owner(request), ret_session, &err) < 0)
        mcp_refuse(message, MCP_REFUSED, 429, "%.280s", err.text);
}

/* ---- POST ---- */

/* Answers a message that could not be read: an error without an id. */
static int http_refuse(struct http_request *request, int status, const char *text) {
    struct json json;
    autobuf out = buf_max(4096);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_str(&json, "jsonrpc", "2.0");
    json_put_nil(&json, "id");
    json_put_open(&json, "error", '{');
    json_put_int(&json, "code", MCP_REFUSED);
    json_put_str(&json, "message", text);
    json_close(&json, '}');
    json_close(&json, '}');
    return http_reply(request, status, "application/json", out.data, out.len);
}

static bool http_media_is(const char *header, const char *type) {
    size_t len = strlen(type);
    return header && strncasecmp(header, type, len) == 0 && strchr(" \t;", header[len]);
}

static bool http_accepts(const char *accept, const char *type) {
    size_t len = strlen(type);
    for (const char *at = accept; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        at += strspn(at, " \t");
        if (strncasecmp(at, type, len) == 0 && strchr(" \t;,", at[len]))
            return true;
    }
    return false;
}

/* Serves a message and sends the HTTP answer. */
static int http_post_serve(struct mcp_post *post, struct mcp_message *message) {
    struct http_request *request = post->request;
    struct mcp_exchange *exchange = &post->exchange;
    bool waits = message->kind == MCP_CALL && message->slow;
    if (waits) {
        pthread_mutex_lock(&post->http->lock);
        if (!post->http->started)
            post->http->started = pthread_create(&post->http->keeper, NULL, http_keeper_main, post->http) == 0;
        post->next = post->http->waiting;
        post->prev = &post->http->waiting;
        if (post->next)
            post->next->prev = &post->next;
        post->http->waiting = post;
        post->http->entered++;
        if (post->http->asleep)
            pthread_cond_signal(&post->http->changed);
        post->http->asleep = false;
        pthread_mutex_unlock(&post->http->lock);
    }
    mcp_enter(exchange, message);
    mcp_serve(exchange, message);
    if (waits) {
        pthread_mutex_lock(&post->http->lock);
        *post->prev = post->next;
        if (post->next)
            post->next->prev = post->prev;
        pthread_mutex_unlock(&post->http->lock);
    }
    if (post->streaming && !post->answered)
        return http_reply_end(request);
    if (http_replied(request))
        return 0;
    return front_empty(request, message->kind == MCP_NOTICE && message->error ? message->status : 202);
}

static void http_post_era(struct mcp_post *post, struct mcp_message *message) {
    struct http_request *request = post->request;
    const char *version = http_header(request, "mcp-protocol-version");
    if (version && strcmp(version, MCP_MODERN) == 0 && message->root)
        message->modern = true;
    if (message->kind == MCP_BAD)
        return;
    if (message->modern && message->kind == MCP_CALL)
        http_check_headers(request, message);
    if (message->modern)
        post->exchange.watch = http_fd(request);
    else
        http_find_session(post->http->mcp, request, message, &post->exchange.session);
}

int mcp_http_post(struct mcp_http *http, struct http_request *request, struct box *box, struct err *err) {
    struct mcp_message message;
    struct mcp_post post = {.request = request, .http = http, .box = box, .message = &message};
    char *data;
    size_t len;
    const char *accept = http_header(request, "accept");
    bool any = !accept || http_accepts(accept, "*/*");
    post.stream = accept && http_accepts(accept, "text/event-stream");
    post.json = any || http_accepts(accept, "application/json") || http_accepts(accept, "application/*");
    if (!post.json && !post.stream)
        return http_refuse(request, 406, "Accept must allow application/json and text/event-stream");
    if (!http_media_is(http_header(request, "content-type"), "application/json"))
        return http_refuse(request, 415, "Content-Type must be application/json");
    int code = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err);
    if (code == -ERR_TOO_LARGE)
        return http_refuse(request, 413, err->text);
    if (code < 0)
        return code;
    mcp_read(&message, data, len);
    post.exchange = (struct mcp_exchange){.mcp = http->mcp,
                                          .send = http_post_send,
                                          .begin = http_post_begin,
                                          .arena = http_arena(request),
                                          .host = &front_of(request)->tools,
                                          .settings = front_settings(request)->tools,
                                          .watch = -1};
    message.slow |= message.asks && post.exchange.host->servers;
    pthread_mutex_init(&post.lock, NULL);
    trail_of(request)->reads = true; /* unless it calls a tool that writes */
    if (strlen(message.method) < 60 && strcmp(message.method, "tools/call") != 0)
        trail_note(request, message.method);
    http_post_era(&post, &message);
    code = http_post_serve(&post, &message);
    struct mcp_session *session = post.exchange.session;
    if (session && !mcp_session_version(session))
        mcp_session_end(session); /* a failed initialize leaves no session */
    mcp_session_put(session);
    pthread_mutex_destroy(&post.lock);
    mcp_message_done(&message);
    return code;
}

int mcp_http_delete(struct mcp_http *http, struct http_request *request) {
    const char *id = http_header(request, "mcp-session-id");
    trail_of(request)->reads = true;
    if (!id)
        return http_refuse(request, 400, "the header Mcp-Session-Id is missing");
    struct mcp_session *session = mcp_session_get(http->mcp, id, http_session_owner(request));
    if (!session)
        return http_refuse(request, 404, "Session not found");
    mcp_session_end(session);
    mcp_session_put(session);
    return front_empty(request, 204);
}
