/* The output of a command, whole or its head and tail, for an answer that is sent when it has ended. */
#ifndef CUBBY_FRONT_COLLECT_H
#define CUBBY_FRONT_COLLECT_H

#include "base/headtail.h"
#include "http/server.h"

struct collect {
    struct headtail streams[2]; /* stdout, stderr */
    struct http_request *request;
    struct err *err;
};

void collect_init(struct collect *collect, struct http_request *request, size_t limit, struct err *err);
void collect_done(struct collect *collect);
int collect_put(void *collect, int stream, const uint8_t *data, size_t len); /* exec_sink.output */
/* One stream of it: its memory belongs to the request (http_hold). */
int collect_bytes(struct headtail *bytes, struct http_request *request, const uint8_t *data, size_t len,
                  struct err *err);

#endif
