/* Connects a WebSocket with a stream of a box: terminals, shells and ports. */
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
    bool paused;   /* the client asked for no output now; input that the box does not take ends it */
    const struct ws_pump_hooks *hooks;
    void *user;
};

/* Each returns 0 to continue, 1 at the end, negative on failure. NULL: as noted. */
struct ws_pump_hooks {
    int (*message)(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err);
    int (*data)(void *user, const uint8_t *data, size_t len, struct err *err); /* NULL: sent as a binary message */
    int (*tick)(void *user, struct err *err);                                  /* NULL: a ping in a long silence */
    int (*end)(void *user, const struct exec_result *result, struct err *err); /* NULL: over */
};

/* INVALID: the request does not ask for a WebSocket. Call it before anything is started. */
int ws_pump_wanted(struct http_request *request, struct err *err);
/* Call it before the stream is opened. held: how much input may wait for the box. */
void ws_pump_init(struct ws_pump *pump, struct http_request *request, size_t held, const struct ws_pump_hooks *hooks,
                  void *user);
int ws_pump_accept(struct ws_pump *pump, struct err *err);
/* Runs until the client, the box or a stopping daemon ends it. Returns 0 or negative. */
int ws_pump_run(struct ws_pump *pump, struct err *err);
/* Closes stream and socket with the reason. Returns the handler's result. */
int ws_pump_close(struct ws_pump *pump, int result, const char *why);

#endif
