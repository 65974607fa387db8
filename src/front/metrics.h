/* Counters for /metrics in the Prometheus text form. Adding is lock-free; reading may be a moment old. */
#ifndef CUBBY_FRONT_METRICS_H
#define CUBBY_FRONT_METRICS_H

#include "base/buf.h"
#include "box/provider/provider.h"
#include "http/server.h"

struct metrics;

struct metrics *metrics_new(const struct route *routes); /* ends with method NULL; lives as long as the metrics */
void metrics_free(struct metrics *metrics);
void metrics_request(struct metrics *metrics, const struct route *route, int status, uint64_t us); /* NULL: no route */
void metrics_call(struct metrics *metrics, const struct route *route, int code); /* 0: ok, else an ERR_ number */
struct audit;
struct machines;
struct metrics_sources {
    struct provider *provider;
    struct http_server *server;
    struct audit *audit;       /* may be NULL */
    struct machines *machines; /* may be NULL */
};
void metrics_write(struct metrics *metrics, const struct metrics_sources *sources, struct buf *out);

#endif
