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
    uint64_t id; /* 0: until another thread has prepared the server */
    int wake;    /* an eventfd, once it waits while another one leads; -1 */
    bool done;
    json_t *answer;
    bool news_due; /* news has not been reported yet */
    char news[LIMIT_SERVER_NEWS_BYTES];
    size_t news_len;
};

/* Unrequested messages: a bucket each, refilled with time. */
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
    /* the leader's */
    struct box_duplex duplex;
    struct buf line;
    char errors[LIMIT_SERVER_ERRORS_BYTES]; /* the end of its standard error */
    size_t errors_len;
    struct server_flood flood;
    pthread_mutex_t lock;
    /* under it */
    bool leading, dead, modern, ready, preparing, stale, closed;
    char why[400]; /* it is dead */
    struct buf out;
    struct ask *asks;
    uint64_t last_id, changes, listed;
    struct server_tools *tools;
};

/* ---- server.c ---- */

/* It is dead: all waiting threads get the reason. */
void server_die_locked(struct server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
void server_die(struct server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One message to it; message is taken over. False: it does not read its input. */
bool server_put_locked(struct server *server, json_t *message);
void ask_wake(struct ask *ask);
/* One request and its response, for json_decref. params is taken over; NULL: none. GONE and TIMEOUT cancel it. */
int server_ask(struct server *server, const char *method, json_t *params, const struct server_wait *wait,
               json_t **ret_answer, struct err *err);
/* Until ask->done. */
int ask_wait_locked(struct server *server, struct ask *ask, const struct server_wait *wait, struct err *err);
void ask_enter_locked(struct server *server, struct ask *ask);
void ask_leave_locked(struct server *server, struct ask *ask);
void server_settle(struct server *server); /* after the lock was released: closes dead ones */

/* ---- server_line.c ---- */

/* Bytes of its standard output. The leader's. */
void server_take(struct server *server, const uint8_t *data, size_t len);

#endif
