/* An HTTP/1.1 server: one thread per active request, idle connections parked in one epoll. Knows nothing of boxes.
 *
 * A handler runs on its own thread from top to bottom: it pulls the body, pushes the answer, and may block. Every
 * request gets exactly one answer; if a handler returns without one, the server answers 500. The server enforces time
 * and size limits: a slow sender, a slow reader or a huge head never holds more than one thread, or for longer than the
 * limits. */
#ifndef CUBBY_HTTP_SERVER_H
#define CUBBY_HTTP_SERVER_H

#include "base/base.h"
#include "http/framing.h"

struct http_server;
struct http_request;
struct ws;
struct websocket;
struct buf;

/* ---- routes ---- */

#define ROUTE_QUICK 0x1u /* only waits for the client: may run on a thread without relief */
#define ROUTE_EMBED 0x2u /* pages with their own origin may fetch its answers */
#define ROUTE_CODED 0x4u /* its handler decodes Content-Encoding itself; elsewhere that is 415 */

struct route {
    const char *method; /* "GET"; "ANY": methods without a route of this pattern */
    /* "/v1/boxes/{id}/processes/{pid}": {x} takes one whole segment; literal segments win over {x}. "{x...}" as the
     * last segment takes the rest as sent, from its slash on, including the query: http_tail. */
    const char *pattern;
    void (*handle)(struct http_request *request);
    unsigned flags;
    const char *name;    /* "box_exec": for metrics and the log */
    const char *summary; /* one sentence, for --routes and OpenAPI */
    const void *extra;   /* private to the front */
};

enum { HTTP_LISTENERS = 8 }; /* addresses of one server, at most */

struct http_config {
    const struct route *routes; /* ends with method NULL; checked for duplicates at start */
    void *context;              /* http_context(request) */
    unsigned head_timeout_ms;   /* 10000: from the first byte of a head to its end */
    unsigned body_timeout_ms;   /* 30000: longest silence inside a body */
    unsigned write_timeout_ms;  /* 60000: longest time a client may read nothing */
    unsigned idle_timeout_ms;   /* 75000 */
    unsigned alive_ms;          /* 15000: after this silence an event stream gets a comment */
    unsigned min_rate_bytes;    /* per second: bodies and answers must be faster; 0: any speed */
    unsigned max_connections;   /* 12000; beyond: closes the one parked longest, or 503 */
    unsigned max_threads;       /* 4096; beyond: requests wait, then 503 */
    uint64_t max_held_bytes;    /* http_hold of all requests together; 0: no limit */
    unsigned socket_mode;       /* of unix sockets; 0: 0600 */
    gid_t socket_group;         /* (gid_t)-1 or 0: not changed */
    /* Sockets that already listen: each must be at one of the listen addresses, and is used instead of a new one. The
     * caller's other holders keep them: they are not shut down at the end. */
    const int *passed;
    int passed_count;
    void (*tick)(void *context);    /* about once a second, while it serves. May be NULL. */
    const char *tls_cert, *tls_key; /* PEM; NULL: plain */
    bool check_host; /* refuse foreign Host and Origin (403): allows loopback names, the listen address, and
                                   allowed_hosts (NULL-terminated, may be NULL) */
    /* Names, or "*.NAME" for every name below it, as Host, but not as an Origin that other hosts accept. */
    const char *const *allowed_hosts;
    /* Called when the head is parsed, before routing. Returns the target (path and query, as sent) to serve instead, in
     * the request's arena, or NULL to keep it. Host and headers are known, path and query are not. Only this reaches
     * routes below "/_". May be NULL. */
    const char *(*locate)(struct http_request *request, const char *target);
    /* Called after routing, before the handler. Negative: the request is answered with err. May be NULL. */
    int (*admit)(struct http_request *request, struct err *err);
    /* Writes the body of a refusal into out, if its form is not the native one, and returns the status; 0: the native
     * form. May be NULL. */
    int (*refuse)(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
    /* Called once per finished request (for the log and metrics). May be NULL. */
    void (*finished)(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us);
};

/* listen: "HOST:PORT" ("127.0.0.1:0" picks a port), "[::1]:PORT", or "unix:PATH" (a stale socket is replaced, mode
 * 0600); several are separated by ','. */
int http_server_new(const char *listen, const struct http_config *config, struct http_server **ret_server,
                    struct err *err);
const char *http_server_address(const struct http_server *server); /* "127.0.0.1:7070", the first */
int http_server_run(struct http_server *server); /* serves until http_server_stop; returns when drained */
/* Callable from any thread: accepts no new requests, finishes running ones (at most drain_ms), closes. */
void http_server_stop(struct http_server *server, unsigned drain_ms);
bool http_server_stopping(const struct http_server *server); /* long handlers (streams) should end */
void http_server_free(struct http_server *server);
/* Cuts all connections with a running request of this owner (http_own), as if their clients had hung up, except that of
 * `but`. Callable from any thread. */
void http_server_cut(struct http_server *server, const void *owner, const struct http_request *but);
struct http_counts {
    unsigned connections, parked, threads;
    uint64_t requests;
    uint64_t held_bytes; /* http_hold of the requests that run */
};
/* Changes the certificate (NULL: unchanged) and allowed_hosts while serving. On failure nothing has changed. */
int http_server_configure(struct http_server *server, const char *tls_cert, const char *tls_key,
                          const char *const *allowed_hosts, struct err *err);
int http_tls_check(const char *cert, const char *key, struct err *err); /* whether a server could use them */
void http_server_count(struct http_server *server, struct http_counts *ret_counts);

/* ---- the request ---- */

/* Sets the owner of the request, until it has ended, for http_server_cut, which only compares the pointer. */
void http_own(struct http_request *request, const void *owner);
void *http_context(const struct http_request *request);
const struct route *http_route(const struct http_request *request); /* NULL: none matched */
struct arena *http_arena(struct http_request *request);             /* freed when the request ends */
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request); /* decoded; for the log */
/* Returns a path parameter, decoded (an encoded slash or NUL is 400 before the handler). NULL: not in the pattern. */
const char *http_param(const struct http_request *request, const char *name);
/* Returns the value of "{x...}": "/a%2Fb/../c?d=e&d=f", printable ASCII without spaces. NULL: the route has none. */
const char *http_tail(const struct http_request *request);
/* Returns a query parameter, decoded, or NULL. *ret_len may be NULL. A repeated name is 400 before the handler. */
const char *http_query(const struct http_request *request, const char *name, size_t *ret_len);
/* Names of query parameters, for refusing unknown ones: i from 0; NULL at the end. */
const char *http_query_name(const struct http_request *request, size_t i);
const char *http_header(const struct http_request *request, const char *lower_case_name); /* NULL when absent */
/* All headers in order, i from 0, names in lower case; false at the end. */
bool http_header_at(const struct http_request *request, size_t i, const char **ret_name, const char **ret_value);
const char *http_host(const struct http_request *request); /* the client's Host, or "" */
/* For http_config.locate: the host is a separate site, not the server's. Its handler decides about requests from other
 * sites. */
void http_own_site(struct http_request *request);
bool http_is_tls(const struct http_request *request);
bool http_is_old(const struct http_request *request); /* HTTP/1.0 */
const char *http_request_id(const struct http_request *request);
int http_fd(const struct http_request *request); /* the client's socket: watch it for POLLRDHUP */
/* Returns whether the server ended the connection (http_server_cut, or the drain time is over), not the client: for
 * handlers that continue when a client hangs up. */
bool http_is_cut(const struct http_request *request);
/* Marks a request that never ends by itself (a machine that joined), so that a stopping server does not wait for it.
 * When it has to end (http_server_cut, or nothing else runs in a stopping server), leave is called instead of shutting
 * the socket down. It is called from another thread with the server's lock held, and only wakes the handler, which can
 * still send a close. leave NULL: no longer; required before the handler returns. Check http_is_cut and
 * http_server_stopping after setting it. */
void http_lasting(struct http_request *request, void (*leave)(void *user), void *user);
struct http_peer {
    bool unix_socket, loopback;
};
void http_peer(const struct http_request *request, struct http_peer *ret_peer);
/* "10.0.0.7:4711", with or only " uid:1000" if the user is known; determined once per connection. */
const char *http_peer_text(struct http_request *request);
/* The user at the other end of the connection: unix sockets by SO_PEERCRED, loopback by asking the kernel (once per
 * connection). (uid_t)-1: not local, or unknown. */
uid_t http_peer_uid(struct http_request *request);
/* Called before the handler keeps that many more bytes in memory until its request ends. BUSY: all requests together
 * have reached the server's limit. The first HTTP_FREE_BYTES of a request are free. */
int http_hold(struct http_request *request, size_t bytes, struct err *err);
/* For a ROUTE_QUICK handler that has to wait for something after all. false: all threads are busy, answer BUSY. */
bool http_blocks(struct http_request *request);
void *http_user_data(const struct http_request *request); /* set by admit, e.g. the sender */
void http_set_user_data(struct http_request *request, void *data);

/* ---- the body ---- */

int64_t http_body_length(const struct http_request *request); /* -1: chunked; 0: none */
/* The body arrives at its sender's pace (a person types it): only silence ends it, not slowness. */
void http_body_live(struct http_request *request);
/* Reads the next bytes; 0 at the end; -ERR_TIMEOUT, -ERR_INVALID (bad chunk), -ERR_GONE. Sends 100-continue if
 * wanted. */
ssize_t http_body_read(struct http_request *request, void *data, size_t len, struct err *err);
bool http_body_done(const struct http_request *request); /* the whole body was read */
/* Returns whether http_body_read or http_tunnel_read has bytes, even if http_fd is not readable. */
bool http_body_ready(const struct http_request *request);
int http_body_invite(struct http_request *request, struct err *err); /* 100-continue now, if the client waits for it */
/* Reads the whole body, with a NUL, into the request's arena. TOO_LARGE: above max (before reading, if announced). */
int http_body_all(struct http_request *request, size_t max, char **ret_data, size_t *ret_len, struct err *err);
/* Moves up to len bytes of the body into fd, without copying if possible. Returns as http_body_read. */
ssize_t http_body_splice(struct http_request *request, int fd, size_t len, struct err *err);

/* ---- the answer ---- */

void http_reply_header(struct http_request *request, const char *name,
                       const char *value); /* before begin; CR/LF: asserted */
int http_reply(struct http_request *request, int status, const char *type, const void *data, size_t len);
int http_reply_error(struct http_request *request, const struct err *err); /* the native error object */
enum err_why http_why(const struct http_request *request);                 /* of that error, for config.refuse */
/* length -1: chunked (close-delimited for HTTP/1.0). HEAD sends no body whatever is written. */
int http_reply_begin(struct http_request *request, int status, const char *type, int64_t length);
/* The answer is read at its reader's pace (a stream): only silence ends it, not slowness. */
void http_reply_live(struct http_request *request);
int http_reply_write(struct http_request *request, const void *data, size_t len); /* -ERR_GONE / -ERR_TIMEOUT */
int http_reply_flush(struct http_request *request); /* sends the head, if it was not sent with content */
int http_reply_file(struct http_request *request, int fd, uint64_t offset, uint64_t len); /* sendfile; after begin */
/* Moves what a socket has now, at most len bytes, into an answer of known length or into a tunnel, without copying, and
 * sends it within the write limits; fd must not block. Returns bytes; 0: none now; GONE or TIMEOUT: the client; IO: the
 * socket ended or broke; UNSUPPORTED: not possible for this answer, read and write instead. */
ssize_t http_reply_splice(struct http_request *request, int fd, uint64_t len);
int http_reply_end(struct http_request *request);
int http_reply_events(struct http_request *request); /* begins a text/event-stream */
int http_reply_event(struct http_request *request, const char *event, const void *data, size_t len); /* one write */
/* Whether nothing was sent for alive_ms; and the comment that an event stream sends then (if due), so that no proxy
 * takes silence for death. Call it every http_alive_tick_ms. */
bool http_alive_due(const struct http_request *request);
int http_reply_alive(struct http_request *request);
unsigned http_alive_tick_ms(const struct http_request *request);
bool http_replied(const struct http_request *request);
/* After a failure in mid-stream: resets the connection, so that the client does not take a part for the whole. */
void http_reply_abort(struct http_request *request);

/* ---- the bare connection (ws.c) ---- */

/* Answers 101 with the headers put before, and hands the connection over: from here on only http_tunnel_*. For a GET of
 * HTTP/1.1 without a body that asks for an upgrade; INVALID otherwise. */
int http_tunnel(struct http_request *request, struct err *err);
/* Never blocks: returns bytes, 0 if there are none now (wait on http_fd for POLLIN), -ERR_GONE at the end. */
ssize_t http_tunnel_read(struct http_request *request, void *data, size_t len);
int http_tunnel_write(struct http_request *request, const void *data, size_t len); /* all of it, within write limits */

/* ---- WebSocket (ws.c) ---- */

/* Answers the upgrade (400 if it is not one). max: largest message. */
int ws_accept(struct http_request *request, size_t max_message, struct ws **ret_ws, struct err *err);
void ws_limit(struct ws *ws, size_t max_message); /* changes it, from the next message on */
enum ws_kind { WS_TEXT, WS_BINARY };
/* Returns 1 and a message (pings are answered inside), 0 if none is complete (wait on http_fd for POLLIN), negative:
 * gone; GONE with code and reason if the client closed. data is valid until the next ws_recv. */
int ws_recv(struct ws *ws, enum ws_kind *ret_kind, const uint8_t **ret_data, size_t *ret_len, struct err *err);
int ws_send(struct ws *ws, enum ws_kind kind, const void *data, size_t len, struct err *err); /* blocks, write limits */
int ws_ping(struct ws *ws, struct err *err);                                                  /* does not block */
void ws_close(struct ws *ws, unsigned code, const char *reason); /* close handshake, bounded; frees */
/* For callers that never block: websocket.h. */
struct websocket *ws_websocket(struct ws *ws);

#endif
