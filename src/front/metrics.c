/* Counters of requests, calls and latencies by route. Written by front.c at the end of each request, read by
 * /metrics. Invariant: no label comes from outside, so that a client cannot make the number of series grow. */
#include "front/metrics.h"
#include "box/network.h"
#include "box/secret/seal.h"
#include "gate/gate_wire.h"

#include <inttypes.h>

#include "front/routes.h"
#include "store/audit.h"

#define METRICS_CODES 16 /* ERR_ numbers and 0 */

static const uint64_t metrics_bucket_us[] = {250,    500,    1000,   2500,    5000,    10000,   25000,    50000,
                                             100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 60000000};
#define METRICS_BUCKETS (sizeof metrics_bucket_us / sizeof *metrics_bucket_us)

struct metrics_route {
    _Atomic uint64_t by_class[6]; /* by the first digit of the status; 0: ended without an answer */
    _Atomic uint64_t by_code[METRICS_CODES];
    _Atomic uint64_t buckets[METRICS_BUCKETS + 1];
    _Atomic uint64_t total_us;
};

struct metrics {
    const struct route *routes;
    size_t count;
    struct metrics_route rows[]; /* one per route, and one for requests without a route */
};

struct metrics *metrics_new(const struct route *routes) {
    size_t count = 0;
    while (routes[count].method)
        count++;
    struct metrics *metrics = xcalloc(1, sizeof *metrics + (count + 1) * sizeof *metrics->rows);
    metrics->routes = routes;
    metrics->count = count;
    return metrics;
}

void metrics_free(struct metrics *metrics) {
    free(metrics);
}

static struct metrics_route *metrics_row(struct metrics *metrics, const struct route *route) {
    size_t i = route ? (size_t)(route - metrics->routes) : metrics->count;
    return &metrics->rows[i < metrics->count ? i : metrics->count];
}

static void metrics_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t metrics_get(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_request(struct metrics *metrics, const struct route *route, int status, uint64_t us) {
    struct metrics_route *row = metrics_row(metrics, route);
    size_t bucket = 0;
    while (bucket < METRICS_BUCKETS && us > metrics_bucket_us[bucket])
        bucket++;
    metrics_add(&row->by_class[status >= 100 && status < 600 ? status / 100 : 0], 1);
    metrics_add(&row->buckets[bucket], 1);
    metrics_add(&row->total_us, us);
}

void metrics_call(struct metrics *metrics, const struct route *route, int code) {
    metrics_add(&metrics_row(metrics, route)->by_code[code > 0 && code < METRICS_CODES ? code : 0], 1);
}

/* ---- writing ---- */

void metrics_head(struct buf *out, const char *name, const char *type, const char *help) {
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value) {
    metrics_head(out, name, type, help);
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static const char *metrics_name(const struct metrics *metrics, size_t i) {
    return i < metrics->count ? metrics->routes[i].name : "none";
}

static void metrics_counts(struct metrics *metrics, struct buf *out) {
    metrics_head(out, "cubby_http_requests_total", "counter", "Finished requests by route and status class.");
    for (size_t i = 0; i <= metrics->count; i++)
        for (int class = 0; class < 6; class ++) {
            uint64_t n = metrics_get(&metrics->rows[i].by_class[class]);
            if (n)
                buf_printf(out, "cubby_http_requests_total{route=\"%s\",status=\"%dxx\"} %" PRIu64 "\n",
                           metrics_name(metrics, i), class, n);
        }
    metrics_head(out, "cubby_calls_total", "counter", "Calls by operation and outcome.");
    for (size_t i = 0; i < metrics->count; i++)
        for (int code = 0; code < METRICS_CODES; code++) {
            uint64_t n = metrics_get(&metrics->rows[i].by_code[code]);
            if (n)
                buf_printf(out, "cubby_calls_total{op=\"%s\",outcome=\"%s\"} %" PRIu64 "\n", metrics_name(metrics, i),
                           code ? err_name(code) : "ok", n);
        }
}

static void metrics_latencies(struct metrics *metrics, struct buf *out) {
    static const char name[] = "cubby_http_request_duration_seconds";
    metrics_head(out, name, "histogram", "Time from the head of a request to the end of its answer.");
    for (size_t i = 0; i <= metrics->count; i++) {
        struct metrics_route *row = &metrics->rows[i];
        const char *route = metrics_name(metrics, i);
        uint64_t sum = 0, counts[METRICS_BUCKETS + 1];
        for (size_t b = 0; b <= METRICS_BUCKETS; b++)
            sum += counts[b] = metrics_get(&row->buckets[b]);
        if (!sum)
            continue;
        uint64_t running = 0;
        for (size_t b = 0; b < METRICS_BUCKETS; b++)
            buf_printf(out, "%s_bucket{route=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, route,
                       (double)metrics_bucket_us[b] / 1e6, running += counts[b]);
        buf_printf(out, "%s_bucket{route=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, route, sum);
        buf_printf(out, "%s_sum{route=\"%s\"} %.6f\n", name, route, (double)metrics_get(&row->total_us) / 1e6);
        buf_printf(out, "%s_count{route=\"%s\"} %" PRIu64 "\n", name, route, sum);
    }
}

static void metrics_audit(struct audit *audit, struct buf *out) {
    struct audit_counts counts;
    audit_count(audit, &counts);
    metrics_one(out, "cubby_audit_rows_total", "counter", "Rows written to the audit log.", counts.written);
    metrics_one(out, "cubby_audit_lost_total", "counter", "Rows lost because the audit log could not be written.",
                counts.lost);
    metrics_one(out, "cubby_audit_strangers_total", "counter", "Refused requests that were only counted.",
                counts.strangers);
    metrics_one(out, "cubby_audit_queue_bytes", "gauge", "Rows that wait to be written.", counts.queued_bytes);
    metrics_one(out, "cubby_audit_failing", "gauge", "1 while the audit log cannot be written.", counts.failing);
}

static void metrics_gate(struct provider *provider, struct buf *out) {
    struct gate_count counts;
    uint64_t restarts;
    if (!network_counts(provider, &counts, &restarts))
        return;
    metrics_one(out, "cubby_gate_boxes", "gauge", "Boxes with a network policy that are served.", counts.boxes);
    metrics_one(out, "cubby_gate_active", "gauge", "Connections of boxes that are open.", counts.active);
    metrics_one(out, "cubby_gate_held", "gauge", "Connections that wait for an answer.", counts.held);
    metrics_one(out, "cubby_gate_connections_total", "counter", "Connections that were made.", counts.connections);
    metrics_one(out, "cubby_gate_denied_total", "counter", "Connections that were refused.", counts.denied);
    metrics_one(out, "cubby_gate_cut_total", "counter", "Connections that a change or a limit ended.", counts.cut);
    metrics_one(out, "cubby_gate_dns_total", "counter", "Names that were asked for.", counts.dns);
    metrics_one(out, "cubby_gate_dns_denied_total", "counter", "Names that were refused.", counts.dns_denied);
    metrics_one(out, "cubby_gate_dns_budget_refusals_total", "counter", "Names beyond the budget of a star.",
                counts.dns_budget);
    metrics_one(out, "cubby_gate_bytes_in_total", "counter", "Bytes to boxes.", counts.bytes_in);
    metrics_one(out, "cubby_gate_bytes_out_total", "counter", "Bytes from boxes.", counts.bytes_out);
    metrics_one(out, "cubby_gate_restarts_total", "counter", "How often cubby-gate ended and was started again.",
                restarts);
}

static void metrics_seals(struct secrets *secrets, struct buf *out) {
    struct seal_counts counts;
    if (!secrets || !secrets_sealed(secrets))
        return;
    seals_counts(secrets_sealed(secrets), &counts);
    metrics_one(out, "cubby_seal_processes", "gauge", "Boxes whose inspected connections have a process now.",
                counts.processes);
    metrics_one(out, "cubby_gate_inspected_requests_total", "counter", "Requests to inspected hosts.", counts.requests);
    metrics_one(out, "cubby_gate_secret_uses_total", "counter", "Secrets that were put into requests.", counts.uses);
    metrics_one(out, "cubby_gate_secret_misuses_total", "counter",
                "Placeholders that were sent where they mean nothing.", counts.misuses);
}

void metrics_write(const struct front *front, struct buf *out) {
    struct metrics *metrics = front->metrics;
    struct provider_counts counts = {0};
    struct http_counts http;
    http_server_count(front->server, &http);
    metrics_head(out, "cubby_build_info", "gauge", "The running version.");
    buf_puts(out, "cubby_build_info{version=\"" CUBBY_VERSION "\"} 1\n");
    provider_count(front->provider, &counts);
    metrics_head(out, "cubby_boxes", "gauge", "Boxes by backend and state.");
    for (size_t b = 0; b < 8 && backend_table[b]; b++)
        for (int state = 0; state < BOX_STATES; state++)
            buf_printf(out, "cubby_boxes{backend=\"%s\",state=\"%s\"} %u\n", backend_table[b]->name,
                       box_state_name((enum box_state)state), counts.by_backend_state[b][state]);
    metrics_head(out, "cubby_http_connections", "gauge", "Open connections; parked ones wait for a request.");
    buf_printf(out, "cubby_http_connections{state=\"parked\"} %u\n", http.parked);
    buf_printf(out, "cubby_http_connections{state=\"active\"} %u\n",
               http.connections > http.parked ? http.connections - http.parked : 0);
    metrics_one(out, "cubby_http_threads", "gauge", "Threads that serve requests.", http.threads);
    for (size_t i = 0; dialects[i]; i++)
        if (dialects[i]->measure)
            dialects[i]->measure(front, out);
    if (front->audit)
        metrics_audit(front->audit, out);
    metrics_gate(front->provider, out);
    metrics_seals(front->secrets, out);
    metrics_counts(metrics, out);
    metrics_latencies(metrics, out);
}
