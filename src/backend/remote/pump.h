/* Moves bytes between a link's channels and local stream sockets, over one connection after another: the same code on
 * the server (backend/remote/machine_link.c) and on the machine (cli/join/join.c). One thread runs it at a time; the
 * others only put things in. Invariant: nothing here ever waits for one channel while another could move, and a
 * record that was taken is never lost by a broken connection. */
#ifndef CUBBY_BACKEND_PUMP_H
#define CUBBY_BACKEND_PUMP_H

#include "backend/remote/link.h"
#include "base/buf.h"

struct pump;

/* A WebSocket, whichever end of it we are. None of these waits. */
struct pump_socket {
    void *user;
    int fd;         /* for poll */
    bool text_only; /* records go as text (link.h) */
    /* 1 and a message, 0 none whole yet, negative: gone. data until the next call. Pings are answered inside. */
    int (*recv)(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err);
    bool (*pending)(void *user); /* recv has something whatever poll says (TLS, a buffer of its own) */
    /* 1: taken (maybe into a buffer, see unsent); 0: not now, wait for POLLOUT; negative: gone. */
    int (*send)(void *user, bool text, const void *data, size_t len, struct err *err);
    int (*flush)(void *user, struct err *err); /* 1: nothing is left unsent; 0: wait for POLLOUT; negative: gone */
    int (*ping)(void *user, struct err *err);
    uint64_t (*heard_ms)(void *user);   /* clock_ms of the last byte that came */
    uint64_t (*latency_us)(void *user); /* of the last ping that was answered; 0: none yet */
    unsigned (*closed)(void *user);     /* the code that the other end closed it with; 0: it did not. May be NULL */
};

struct websocket;
/* One of ours; `closed` is the caller's to add. */
struct pump_socket pump_websocket(struct websocket *websocket, int fd, bool text_only);

struct pump_events { /* on the pump's thread; they do not wait */
    bool plain;      /* no link: the messages are texts of the caller's (pump_say, text), and one connection is all */
    /* Machine: a question. Answered now or later, from any thread, by pump_answer with that number; a channel that goes
     * with it is opened before. NULL: this is the server. */
    void (*ask)(void *user, uint32_t number, const void *json, size_t len);
    /* By the other end; all it sent before was delivered, and the socket here closes right after. May be NULL. */
    void (*shut)(void *user, uint32_t channel, const char *why);
    /* A text message that is not a link record. May be NULL: PROTOCOL. */
    int (*text)(void *user, const void *data, size_t len, struct err *err);
    /* At once and every PUMP_PING_MS while connected; may be NULL. Negative: the connection ends for that reason, for
     * example a revoked token. */
    int (*tick)(void *user, struct err *err);
};

#define PUMP_PING_MS 10000u /* both ends ping at once and then so often: the latency is known, and silence is noticed */
#define PUMP_SILENT_MS 30000u /* nothing came for so long: the connection is lost */

struct pump *pump_new(const struct pump_events *events, void *user);
void pump_free(struct pump *pump); /* no thread runs it; sockets of channels are closed */
/* Serves on this connection until it ends: the reason is in err, always negative. resume: how many records the other
 * end has of ours (0 for a new session). */
int pump_run(struct pump *pump, const struct pump_socket *socket, uint64_t resume, struct err *err);
uint64_t pump_received(struct pump *pump); /* no thread runs it */
/* From any thread: */
void pump_leave(struct pump *pump, const char *why); /* pump_run returns GONE with that reason; the session stays */
/* Bytes of the channel go to and from fd, a stream socket, which is the pump's from now on. Its end is a SHUT. */
void pump_open(struct pump *pump, uint32_t channel, int fd);
void pump_shut(struct pump *pump, uint32_t channel, const char *why);
void pump_answer(struct pump *pump, uint32_t number, const void *json, size_t len);
/* Server: asks and waits for the answer, appended to out. TIMEOUT; GONE when the session is over. channel: a number
 * that no open channel has; pump_number gives one. */
uint32_t pump_number(struct pump *pump);
int pump_ask(struct pump *pump, uint32_t number, const void *json, size_t len, uint64_t timeout_ms, struct buf *out,
             struct err *err);
/* A text message for the other end, taken over; waits while too much is queued. GONE after pump_end. */
int pump_say(struct pump *pump, struct buf *message, struct err *err);
bool pump_hears(struct pump *pump, uint64_t timeout_ms); /* pings: whether anything comes within that time */
/* The session is over: channels are closed, questions fail with GONE. */
void pump_end(struct pump *pump, const char *why);
bool pump_quiet(struct pump *pump); /* no channel is open and no question waits */

#endif
