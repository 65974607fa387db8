/* One WebSocket, either end: messages of RFC 6455 over an existing connection (ws.c has the server's, client_ws.c
 * libcurl's). One thread at a time, except heard_ms and latency_us, which any thread may call; nothing here waits.
 * Functions take the websocket as void *, so that they fit tables of functions (backend/remote/pump.h).
 *
 * Rules
 * 1. Whatever the other end sends, at most one message and READ bytes are held, and owed answers are flags, not a
 *    queue: a flood of pings costs one pong.
 * 2. An end that breaks a rule (mask, reserved bits, fragments, sizes, UTF-8, floods, a message that is never
 *    complete) gets one close frame with code and reason, and nothing more is read from it.
 * 3. After a write that was not accepted, the same bytes at the same address are offered again: TLS libraries
 *    require it. */
#ifndef CUBBY_HTTP_WEBSOCKET_H
#define CUBBY_HTTP_WEBSOCKET_H

#include <sys/uio.h>

#include "base/base.h"

struct websocket;

struct websocket_io { /* never wait; 0: not now; negative: gone, and a sentence in err */
    ssize_t (*read)(void *user, void *data, size_t len, struct err *err);
    ssize_t (*write)(void *user, const struct iovec *parts, int count, struct err *err);
    bool client;      /* we mask, they do not */
    bool gathers;     /* one part is written better than two (TLS) */
    const char *peer; /* "the daemon": in sentences */
};

struct websocket *websocket_new(const struct websocket_io *io, void *user, size_t max_message);
void websocket_free(struct websocket *websocket);                      /* NULL is fine; sends nothing */
void websocket_limit(struct websocket *websocket, size_t max_message); /* from the next message on */
/* Bytes that came before the first read, with the handshake. */
void websocket_begin(struct websocket *websocket, const void *data, size_t len);

/* 1 and a message, valid until the next recv; 0: none whole yet; negative: gone, GONE with code and reason when the
 * other end closed. Pings are answered inside. */
int websocket_recv(void *websocket, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err);
bool websocket_pending(void *websocket); /* recv may have something even if poll reports nothing */
/* 1: taken; it leaves with websocket_flush, or before. 0: not now, wait for POLLOUT. */
int websocket_send(void *websocket, bool text, const void *data, size_t len, struct err *err);
int websocket_flush(void *websocket,
                    struct err *err); /* 1: nothing is left unsent; 0: wait for POLLOUT; negative: gone */
/* A message to its last byte; wait: until more may be written, 0 or negative. */
int websocket_send_all(struct websocket *websocket, bool text, const void *data, size_t len,
                       int (*wait)(void *user, struct err *err), void *user, struct err *err);
int websocket_ping(void *websocket, struct err *err);
uint64_t websocket_heard_ms(void *websocket);   /* clock_ms of the last byte that came; at first: when it was made */
uint64_t websocket_latency_us(void *websocket); /* of the last ping that was answered; 0: none yet */

/* A close frame will be sent, once; the first reason counts. reason: cut to the size of a frame, may be NULL. */
void websocket_close(struct websocket *websocket, unsigned code, const char *reason);
unsigned
websocket_closed(const struct websocket *websocket); /* the code that the other end closed with; 0: it did not */
/* Reads bytes without parsing them, so that an end that waits for us to read can continue: 1, 0 none now or full,
 * negative. */
int websocket_ahead(struct websocket *websocket, struct err *err);

/* Sec-WebSocket-Accept for a key of 24 characters. */
void websocket_accept(const char *key, char ret_accept[32]);

#endif
