/* Shared by the files of a running MCP server. Private to them. */
#ifndef CUBBY_TOOL_SERVER_CORE_H
#define CUBBY_TOOL_SERVER_CORE_H

#include <jansson.h>

#include "base/limits.h"
#include "box/duplex.h"
#include "tool/servers/server.h"

/* A waiting thread. */
struct ask {
    struct ask *next;
    uint64_t id; /* 0: waits until another thread has prepared the server */
    int wake;    /* an eventfd, while another thread leads; else -1 */
    bool done;
    json_t *answer;
    bool news_due; /* news has not been reported yet */
    char news[LIMIT_SERVER_NEWS_BYTES];
    size_t news_len;
};

/* Limits unsolicited messages: buckets that refill with time. */
struct server_flood {
    uint64_t at_ms;
    uint64_t messages, bytes; /* left */
};

struct server {
    atomic_uint refs;
    char name[LIMIT_SERVER_NAME_BYTES + 1];
    struct wire *wire;
    uint64_t started_ms, start_timeout_ms;
    int poke; /* an eventfd that wakes the leader */
    /* used by the leader */
    struct box_duplex duplex;
    struct buf line;
    char errors[LIMIT_SERVER_ERRORS_BYTES]; /* the end of its standard error */
    size_t errors_len;
    struct server_flood flood;
    pthread_mutex_t lock;
    /* under the lock */
    bool leading, dead, modern, ready, preparing, stale, closed;
    char why[400]; /* why it is dead */
    struct buf out;
    struct ask *asks;
    uint64_t last_id, changes, listed;
    struct server_tools *tools;
};

/* ---- server.c ---- */

/* Marks it dead: all waiting threads get the reason. */
void server_die_locked(struct server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
void server_die(struct server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Queues one message; takes ownership. Returns false if the server does not read its input. */
bool server_put_locked(struct server *server, json_t *message);
void ask_wake(struct ask *ask);
/* Sends one request and gets its response, for json_decref. Takes ownership of params (may be NULL). GONE and TIMEOUT
 * cancel it. */
int server_ask(struct server *server, const char *method, json_t *params, const struct server_wait *wait,
               json_t **ret_answer, struct err *err);
/* Waits until ask->done. */
int ask_wait_locked(struct server *server, struct ask *ask, const struct server_wait *wait, struct err *err);
void ask_enter_locked(struct server *server, struct ask *ask);
void ask_leave_locked(struct server *server, struct ask *ask);
void server_settle(struct server *server); /* closes a dead server; call it without the lock */

/* ---- server_line.c ---- */

/* Handles bytes of its standard output. Called by the leader. */
void server_take(struct server *server, const uint8_t *data, size_t len);

#endif
