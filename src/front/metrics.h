/* Counters for /metrics in the Prometheus text form. Counting is lock-free; values read may be slightly old. */
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
struct front;
void metrics_write(const struct front *front, struct buf *out);
void metrics_head(struct buf *out, const char *name, const char *type, const char *help); /* begins a metric */
void metrics_one(struct buf *out, const char *name, const char *type, const char *help,
                 uint64_t value); /* a whole metric */

#endif
