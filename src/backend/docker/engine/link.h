/* One connection to an engine: a unix socket, TCP, or TLS over it; bytes with deadlines. Called by engine.c,
 * engine/stream.c and engine/events.c. Invariant: the descriptor never blocks; who waits, waits in engine_link_wait. */
#ifndef CUBBY_BACKEND_ENGINE_LINK_H
#define CUBBY_BACKEND_ENGINE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define ENGINE_INPUT_BYTES (128u << 10)

/* Where it is. Of the engine, constant. */
struct engine_place {
    char *url;       /* as it is told to people */
    char *unix_path; /* or: */
    char *host, *port;
    bool tls;
    char *cert_dir; /* NULL: the system's authorities, no certificate of ours */
};

struct engine_tls;
struct engine_link {
    int fd;
    struct engine_tls *tls;
    short read_events, write_events; /* what to poll for, after -EAGAIN */
    uint64_t idle_since_ms;
    size_t at, len; /* of what was read and not used */
    uint8_t input[ENGINE_INPUT_BYTES];
};

/* How long somebody waits, and who may end it. */
struct engine_wait {
    uint64_t end_ms; /* of clock_ms */
    const atomic_bool *stop;
    int wake_fd; /* readable: given up; 0: none */
};

int engine_link_open(const struct engine_place *place, const struct engine_wait *wait, struct engine_link **ret_link,
                     struct err *err);
void engine_link_close(struct engine_link *link);
bool engine_link_fresh(struct engine_link *link); /* nothing came and nobody hung up while nobody looked */
/* Bytes, 0 at the end, -EAGAIN, or another -errno. */
ssize_t engine_link_recv(struct engine_link *link, void *data, size_t len);
ssize_t engine_link_send(struct engine_link *link, const void *data, size_t len);
bool engine_link_pending(struct engine_link *link); /* recv has something whatever poll says */
void engine_link_shut(struct engine_link *link);    /* nothing more will be sent */
/* 0 when one of the events came. TIMEOUT; GONE: given up. */
int engine_link_wait(struct engine_link *link, short events, const struct engine_wait *wait, struct err *err);
/* What a failed recv or send is called: IO, or DENIED where the engine wants a certificate. */
int engine_link_failed(const struct engine_link *link, const char *doing, int number, struct err *err);
/* More input, at least a byte: how much; 0: the end. */
ssize_t engine_link_fill(struct engine_link *link, const struct engine_wait *wait, struct err *err);

/* ---- engine/tls.c ---- */

/* Sets link->tls, also when it fails. */
int engine_tls_open(const struct engine_place *place, const struct engine_wait *wait, struct engine_link *link,
                    struct err *err);
void engine_tls_close(struct engine_tls *tls);
ssize_t engine_tls_recv(struct engine_tls *tls, void *data, size_t len, short *ret_events);
ssize_t engine_tls_send(struct engine_tls *tls, const void *data, size_t len, short *ret_events);
const char *engine_tls_reason(const struct engine_tls *tls); /* why it broke, where TLS itself says; else NULL */
bool engine_tls_pending(struct engine_tls *tls);
void engine_tls_shut(struct engine_tls *tls);

#endif
