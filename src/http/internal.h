/* Shared by the files of this directory: server, worker thread, connection, request. Not for files outside http/,
 * except its tests and fuzzer.
 *
 * Rules
 * 1. A connection belongs to exactly one list (conn->list), changed only under server->lock.
 * 2. A connection is armed in epoll with EPOLLONESHOT. The thread that holds its event owns it, and only the owner
 *    frees it. Others may at most shutdown() its socket, under the lock, which brings the owner an event.
 * 3. A parked connection has no buffers but a partial head (bounded); everything else is in the worker's scratch.
 * 4. Before a worker may block it calls worker_relieve: another thread waits in epoll, and unserved events are
 *    given back. */
#ifndef CUBBY_HTTP_INTERNAL_H
#define CUBBY_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "http/framing.h"
#include "http/response.h"
#include "http/server.h"
#include "http/websocket.h"

struct ssl_st;
struct ssl_ctx_st;
struct worker;

enum {
    HTTP_QUERIES = 64,
    HTTP_PARAMS = 8,
    HTTP_ID_BYTES = 64,
    HTTP_SCRATCH_BYTES = 65536,       /* a complete head, and as much of the body */
    HTTP_OUT_BYTES = 256 << 10,       /* answer head, or answer head and a small file */
    HTTP_SMALL_FILE_BYTES = 64 << 10, /* smaller files are copied after the head: one send instead of two */
    HTTP_CORK_BYTES = 4 << 20,        /* larger downloads are corked and get a larger send buffer */
    HTTP_DRAIN_BYTES = 256 << 10,     /* smaller unread bodies are read and dropped to keep the connection */
    HTTP_LINGER_MS = 2000,            /* how long input of a refused sender is read and dropped */
    HTTP_STARVED_MS = 1000,           /* how long a request waits for a thread if all are busy */
    HTTP_EVENTS = 8,
    HTTP_KEEP_THREADS = 3, /* waiting threads that never exit */
    HTTP_THREAD_IDLE_MS = 5000,
    HTTP_STACK_BYTES = 256 << 10,
    HTTP_FREE_BYTES = 64 << 10, /* uncounted memory of a request: nearly all need no more */
    HTTP_BODY_COST = 6,         /* a body in memory costs this many times its size, with copies of parser and handler */
};

/* ---- head.c ---- */

/* Parses a complete head that passed head_scan, in place (data is changed: strings end in NUL). Returns 0, or the
 * status of a refusal with its text. */
int head_parse(struct http_request *request, char *data, size_t len, struct err *err);

/* ---- body.c ---- */

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED };

bool body_drain(struct http_request *request); /* reads and drops the rest; false: close the connection */

/* ---- peer.c ---- */

/* Returns the user whose socket is at the other end of a local TCP connection, or (uid_t)-1. */
uid_t peer_uid(int fd);

/* ---- route.c ---- */

struct route_node;
struct route_found {
    const struct route *route;     /* NULL: path or method unknown */
    const struct route_node *node; /* NULL: path unknown */
    struct {
        const char *at;
        size_t len;
    } params[HTTP_PARAMS];
    size_t count;
};
int route_tree_new(const struct route *routes, struct route_node **ret_tree, struct err *err);
void route_tree_free(struct route_node *tree);
/* tail: path is the part before the tail. */
void route_find(const struct route_node *tree, const char *method, const char *path, bool tail,
                struct route_found *found);
/* Returns the length of the part of a target (not decoded) before a "{x...}"; 0: no such route matches. */
size_t route_tail(const struct route_node *tree, const char *target);
void route_allow(const struct route_node *node, struct buf *out); /* "GET, HEAD, PUT" */

/* ---- tls.c ---- */

int tls_context_new(const char *cert, const char *key, struct ssl_ctx_st **ret_context, struct err *err);
void tls_context_free(struct ssl_ctx_st *context);
struct ssl_ctx_st *tls_context_ref(struct ssl_ctx_st *context); /* needs one more tls_context_free; NULL is allowed */
void tls_thread_end(void);                                      /* last call of a thread that may have used TLS */
struct ssl_st *tls_new(struct ssl_ctx_st *context, int fd);
void tls_free(struct ssl_st *tls, bool say_goodbye);
/* Returns bytes, 0 at the end, -EAGAIN with *ret_events the poll event to wait for, or -EIO. */
ssize_t tls_recv(struct ssl_st *tls, void *data, size_t len, short *ret_events);
ssize_t tls_send(struct ssl_st *tls, const void *data, size_t len, short *ret_events);
bool tls_pending(const struct ssl_st *tls);
bool tls_ready(const struct ssl_st *tls); /* the handshake is complete */

const char *const *hosts_allowed(const struct http_server *server); /* NULL-terminated, may be NULL */

/* ---- conn.c ---- */

enum source_kind { SOURCE_STOP, SOURCE_LISTENER, SOURCE_CONN };
enum conn_list { LIST_IDLE, LIST_HEAD, LIST_LINGER, LIST_ACTIVE, LIST_COUNT };

struct conn_link {
    struct conn_link *prev, *next;
};

struct conn {
    uint8_t kind; /* enum source_kind; must be first in everything epoll points to */
    uint8_t list;
    bool expired; /* it timed out; its socket was shut down for reading */
    bool unix_socket, loopback;
    bool watched;    /* by epoll; a new connection is not */
    bool uid_known;  /* uid is valid, also -1 */
    bool reset;      /* close with RST */
    atomic_bool cut; /* ended by us, not by its client, during a request */
    char *peer;      /* http_peer_text; NULL: not determined yet */
    int fd;
    uid_t uid;
    struct head_scan scan;
    uint32_t partial_len;
    char *partial; /* an incomplete head */
    struct ssl_st *tls;
    _Atomic(const void *) owner; /* http_own, while a request runs */
    uint64_t deadline_ms;
    struct conn_link link;
    void (*leave)(void *user); /* http_lasting; with leave_user under the server's lock */
    void *leave_user;
};

/* Takes the descriptor; the caller owns the connection. Returns NULL if it was closed at once (stopping). */
struct conn *conn_new(struct http_server *server, int fd, bool unix_socket, bool loopback, bool tls);
/* Ends the ownership: the next event brings an owner. */
void conn_leave(struct http_server *server, struct conn *conn);
/* Ends the parked connection that has waited longest, incomplete heads first. Returns false if all are active. */
bool conn_evict_locked(struct http_server *server);
void conn_event(struct worker *worker, struct conn *conn);
void conn_expire(struct http_server *server, uint64_t now_ms);       /* called by the ticker */
void conn_shutdown_all(struct http_server *server, bool active_too); /* at stop */
void conn_shutdown_lasting(struct http_server *server);              /* those that did not leave when asked */
ssize_t conn_recv(struct conn *conn, void *data, size_t len, short *ret_events); /* never blocks; as tls_recv */
/* Never blocks; may send only a part. Returns bytes, -EAGAIN with *ret_events, or the failure. */
ssize_t conn_send_some(struct conn *conn, const struct iovec *parts, int count, short *ret_events);
/* Sends everything, waiting within the request's patience. Returns 0, -ERR_GONE or -ERR_TIMEOUT. */
int conn_send(struct worker *worker, struct conn *conn, struct iovec *parts, int count, int flags);
/* Waits for events on the socket; relieves first. Returns 1, 0 at a timeout, -1 if broken. */
int conn_wait(struct worker *worker, struct conn *conn, short events, unsigned timeout_ms);

/* Patience with a slow client. Waiting uses up left_us, and every byte that moves gives 1/rate seconds back, up to
 * full_us. So silence ends after full_us, and speeds below the rate end soon after; our own time costs nothing. rate 0,
 * for streams with their own pace: any byte restores everything. */
struct pace {
    uint64_t left_us, full_us;
    unsigned rate; /* bytes per second */
};
void pace_init(struct pace *pace, unsigned full_ms, unsigned rate);
void pace_moved(struct pace *pace, uint64_t bytes);
/* Like conn_wait, within the patience. For POLLOUT, bytes that leave the send queue count as moved. */
int conn_wait_paced(struct worker *worker, struct conn *conn, short events, struct pace *pace);
int conn_arm(struct http_server *server, void *source, int fd, int operation);

/* ---- the request ---- */

struct request_query {
    const char *name, *value;
    size_t len;
};

struct http_request {
    struct worker *worker;
    struct conn *conn;
    struct http_server *server;
    struct arena arena;
    const struct route *route;
    const char *params[HTTP_PARAMS];
    const char *method, *path, *host;
    char *target;
    const char *tail; /* the undecoded rest, of a route that ends in {x...} */
    void *user_data;
    bool is_head, keep_alive, http10, upgrade;
    bool own_site; /* http_own_site */
    bool located;  /* http_config.locate replaced the target */

    enum body_kind body_kind;
    bool expect; /* wants 100-continue and has not received it */
    bool body_failed;
    bool body_late; /* it timed out: 408, the client's fault, not 504 */
    uint64_t body_left;
    int64_t body_length;
    struct chunk chunk;
    size_t in_at, in_end; /* bytes after the head in the worker's scratch: [in_at, in_end) */
    size_t head_end;

    int status;       /* 0: not answered yet */
    enum err_why why; /* of the error that is being answered */
    bool ended, aborted, chunked, close, no_body;
    int64_t reply_left;                               /* -1: chunked or until close */
    uint64_t bytes_in, bytes_out, start_us, wrote_ms; /* wrote_ms: last write of an event stream, or 0 */
    struct pace pace_in, pace_out;
    bool piped; /* http_reply_splice has made its pipe */
    int pipe[2];
    uint64_t held_bytes,
        charged_bytes; /* memory that the handler asked for, and how much of it is charged to the server */

    size_t header_count, query_count;
    char id[HTTP_ID_BYTES + 1];
    struct http_field headers[LIMIT_HEADERS]; /* not cleared between requests: the counts above say what is valid */
    struct request_query queries[HTTP_QUERIES];
};

/* Runs the request whose complete head is in the worker's scratch. Afterwards request->close says whether to close the
 * connection. */
void request_serve(struct worker *worker, struct conn *conn, size_t head_start, size_t head_len);
/* Answers a request that could not be parsed (status from head_scan, or 408). The connection closes. */
void request_refuse(struct worker *worker, struct conn *conn, int status);

/* ---- reply.c ---- */

int reply_refusal(struct http_request *request, int status, const char *code, const char *text);
void reply_reset(struct worker *worker);
void reply_upgraded(
    struct http_request *request); /* the connection is now a WebSocket or tunnel: nothing more is sent */

/* ---- splice.c ---- */

void splice_end(struct http_request *request); /* closes its pipe */

/* ---- worker.c ---- */

struct worker {
    struct http_server *server;
    bool relieved;
    int event_at, event_count, batch; /* batch: events to fetch at once */
    struct epoll_event events[HTTP_EVENTS];
    struct buf out, extra; /* the answer's head; headers the handler added */
    time_t date_s;
    char date[40];
    struct http_request request;
    size_t have; /* bytes in scratch */
    char scratch[HTTP_SCRATCH_BYTES];
};

/* For a long request: gives unused pages of the scratch back to the kernel. */
void worker_rest(struct worker *worker);
/* Makes sure that another thread waits in epoll. Returns false if all threads are busy. */
bool worker_relieve(struct worker *worker);
/* The same before a handler that may block: waits a while for a thread. false: answer 503. */
bool worker_relieve_wait(struct worker *worker);
int worker_start_locked(struct http_server *server); /* starts a thread; 0 or -errno */

/* ---- server.c ---- */

struct listener {
    uint8_t kind;
    bool unix_socket;
    bool passed; /* others hold the socket, too */
    int fd;
    char *host, *path; /* host without port; path of a unix socket */
    dev_t device;
    ino_t inode;
};

struct http_server {
    struct http_config config;
    struct route_node *tree;
    struct ssl_ctx_st *tls;
    _Atomic(struct host_list *) hosts; /* set while serving; NULL: those of config */
    struct listener listeners[HTTP_LISTENERS];
    int listener_count;
    int epoll, stop_event, quit_event, reserve;
    uint8_t quit_kind; /* SOURCE_STOP: the target of epoll for quit_event */
    char *address;
    char id_prefix[17];
    atomic_uint_fast64_t requests;
    atomic_uint drain_ms;
    atomic_bool stopping, quit;
    atomic_uint_fast64_t starved_since_ms; /* since when all threads are busy; 0: they are not */
    atomic_int waiting;                    /* threads in epoll_wait or on their way there */
    atomic_uint_fast64_t held_bytes;       /* memory charged by all requests */

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* a thread returned, or a connection or thread ended */
    struct conn_link lists[LIST_COUNT];
    unsigned list_counts[LIST_COUNT];
    unsigned connections, threads;
    unsigned lasting; /* connections with a leave */
};

#endif
