/* One WebSocket, either end: messages of RFC 6455 over an existing connection (ws.c has the server's, client_ws.c
 * libcurl's). Used by one thread at a time, except heard_ms and latency_us, which any thread may call; nothing blocks.
 * Functions take the websocket as void *, to fit tables of functions (backend/remote/pump.h).
 *
 * Rules
 * 1. Whatever the other end sends, at most one message and READ bytes are held. Owed answers are flags, not a queue: a
 *    flood of pings costs one pong.
 * 2. An end that breaks a rule (mask, reserved bits, fragments, sizes, UTF-8, floods, a message that is never complete)
 *    gets one close frame with code and reason, and nothing more is read from it.
 * 3. After a write that was not accepted, the same bytes at the same address are offered again, as TLS libraries
 *    require. */
#ifndef CUBBY_HTTP_WEBSOCKET_H
#define CUBBY_HTTP_WEBSOCKET_H

#include <sys/uio.h>

#include "base/base.h"

struct websocket;

struct websocket_io { /* never block; 0: not now; negative: gone, see err */
    ssize_t (*read)(void *user, void *data, size_t len, struct err *err);
    ssize_t (*write)(void *user, const struct iovec *parts, int count, struct err *err);
    bool client;      /* we mask, the server does not */
    bool gathers;     /* writing one part is better than two (TLS) */
    const char *peer; /* its name in error texts: "the daemon" */
};

struct websocket *websocket_new(const struct websocket_io *io, void *user, size_t max_message);
void websocket_free(struct websocket *websocket);                      /* NULL is allowed; sends nothing */
void websocket_limit(struct websocket *websocket, size_t max_message); /* from the next message on */
/* Adds bytes that arrived with the handshake, before the first read. */
void websocket_begin(struct websocket *websocket, const void *data, size_t len);

/* Returns 1 and a message, valid until the next recv; 0: none complete; negative: gone, GONE with code and reason if
 * the other end closed. Pings are answered inside. */
int websocket_recv(void *websocket, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err);
bool websocket_pending(void *websocket); /* recv may have something even if poll reports nothing */
/* Returns 1 if accepted (websocket_flush sends it, if not earlier), 0: not now, wait for POLLOUT. */
int websocket_send(void *websocket, bool text, const void *data, size_t len, struct err *err);
int websocket_flush(void *websocket, struct err *err); /* 1: everything was sent; 0: wait for POLLOUT; negative: gone */
/* Sends a whole message; wait: waits until more can be written, returns 0 or negative. */
int websocket_send_all(struct websocket *websocket, bool text, const void *data, size_t len,
                       int (*wait)(void *user, struct err *err), void *user, struct err *err);
int websocket_ping(void *websocket, struct err *err);
uint64_t websocket_heard_ms(void *websocket);   /* clock_ms of the last received byte, or of its creation */
uint64_t websocket_latency_us(void *websocket); /* of the last answered ping, or 0 */

/* Sends a close frame, once; the first reason counts. reason: cut to the size of a frame, may be NULL. */
void websocket_close(struct websocket *websocket, unsigned code, const char *reason);
unsigned websocket_closed(const struct websocket *websocket); /* the code with which the other end closed, or 0 */
/* Reads bytes without parsing them, so that an end that waits for us to read can continue. Returns 1, 0: none now or
 * full, negative: gone. */
int websocket_ahead(struct websocket *websocket, struct err *err);

/* Sec-WebSocket-Accept for a key of 24 characters. */
void websocket_accept(const char *key, char ret_accept[32]);

#endif
