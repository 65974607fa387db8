/* A WebSocket at one end and a stream of a box at the other: terminals, shells and ports. */
#ifndef CUBBY_FRONT_WS_PUMP_H
#define CUBBY_FRONT_WS_PUMP_H

#include "box/duplex.h"
#include "http/server.h"

#define WS_PUMP_MESSAGE_BYTES (1u << 20)
#define WS_PUMP_PING_MS 30000u

struct ws_pump {
    struct http_request *request;
    struct box_duplex duplex;
    struct ws *ws; /* NULL: not accepted yet */
    const struct ws_pump_hooks *hooks;
    void *user;
};

/* Each returns 0: continue, 1: over, negative: failed. NULL: as noted. */
struct ws_pump_hooks {
    int (*message)(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err);
    int (*data)(void *user, const uint8_t *data, size_t len, struct err *err); /* NULL: sent as a binary message */
    int (*tick)(void *user, struct err *err);                                  /* NULL: a ping in a long silence */
    int (*end)(void *user, const struct exec_result *result, struct err *err); /* NULL: over */
};

/* INVALID, unless a WebSocket was asked for: before anything is started for nothing. */
int ws_pump_wanted(struct http_request *request, struct err *err);
/* Before the stream is opened; held: how much input may wait for the box. */
void ws_pump_init(struct ws_pump *pump, struct http_request *request, size_t held, const struct ws_pump_hooks *hooks,
                  void *user);
int ws_pump_accept(struct ws_pump *pump, struct err *err);
/* Until the client, the box or a stopping daemon ends it: 0, or negative. */
int ws_pump_run(struct ws_pump *pump, struct err *err);
/* The handler's result after `result`, with the stream and the socket closed, with the reason. */
int ws_pump_close(struct ws_pump *pump, int result, const char *why);

#endif
