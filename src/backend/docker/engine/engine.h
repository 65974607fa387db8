/* A client of a container engine's HTTP API (dockerd, or podman's service that speaks the same). Called by the docker
 * backend's files alone. Knows requests, answers and streams, and nothing of boxes. Blocking, with a deadline for every
 * call; any number of threads may call at once. Invariant: whatever the engine sends is bounded before it is kept. */
#ifndef CUBBY_BACKEND_ENGINE_H
#define CUBBY_BACKEND_ENGINE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/client/client.h"

struct engine; /* one engine, its connections kept alive */

struct engine_where {
    const char *url;      /* "unix:///var/run/docker.sock", "tcp://host:2376"; NULL: DOCKER_HOST, else the first socket
                             that is there: docker's, podman's of root, podman's of this user */
    const char *cert_dir; /* ca.pem, cert.pem, key.pem for TLS; NULL: DOCKER_CERT_PATH when DOCKER_TLS_VERIFY is set */
    bool tls;             /* with TLS even without a directory of certificates */
};
/* Does not talk yet: an engine that is down is found by the first call, and every later call tries it anew. */
int engine_new(const struct engine_where *where, struct engine **ret_engine, struct err *err);
void engine_free(struct engine *engine);
const char *engine_url(const struct engine *engine);
bool engine_near(
    const struct engine *engine); /* a unix socket: perhaps of this machine, perhaps not of this mount tree */
bool engine_encrypted(const struct engine *engine); /* TLS, and its certificate verified */

/* Of the version both sides know (found once per connection that had to be made anew; at least 1.40, at most 1.45). */
int engine_version(struct engine *engine, unsigned *ret_minor, struct err *err);

/* Changes whenever the engine was lost: it went away, or cannot be reached. What was asked of it before (its facts) may be
 * another one's. */
unsigned engine_generation(struct engine *engine);

/* A call's path comes without the version: "/containers/json?all=1"; the values in it encoded (base/url.h). body is JSON,
 * read_body streams a tar. Further headers: one. timeout_ms 0: ENGINE_TIMEOUT_MS. */
#define ENGINE_TIMEOUT_MS 60000u
#define ENGINE_ANSWER_BYTES (8u << 20)
/* *ret_status: that of HTTP, whatever it is. out: the answer that was not streamed. Negative: it was not answered; the
 * sentence names the engine and what to do (BUSY: it cannot be reached, or went away; TIMEOUT; GONE: *stop was set, or a
 * callback said stop). */
int engine_do(struct engine *engine, const struct http_call *call, int *ret_status, struct buf *out, struct err *err);
/* What was answered, as JSON or an error: a 2xx answer in *ret_json (json_decref; NULL when it was empty; ret_json may be
 * NULL), else the engine's own message in a sentence of ours, with a code: 404 NOT_FOUND, 409 EXISTS ("already in use") or
 * BUSY, 400 INVALID, "no space left" LIMIT, 502 and 503 BUSY, other 5xx INTERNAL. `doing`: "creating container 'cubby-…'".
 * 304 is success. */
int engine_answer(struct engine *engine, int status, struct buf *out, const char *doing, json_t **ret_json,
                  struct err *err);
/* Both, for what is answered within ENGINE_TIMEOUT_MS. */
int engine_json(struct engine *engine, const char *method, const char *path, const char *body, const char *doing,
                json_t **ret_json, struct err *err);

/* A hijacked connection (attach, exec start): raw towards the engine; from it, frames of 8 bytes and a payload (stdout,
 * stderr). What comes out here is one socket of bytes both ways: *ret_fd is one end of a socket pair, a thread of its own
 * carries (pump_… or its own), stdout alone reaches it; the first ENGINE_STDERR_BYTES of stderr are kept, for sentences.
 * The thread ends when either end does. */
struct engine_stream;
#define ENGINE_STDERR_BYTES 4096u
int engine_hijack(struct engine *engine, const char *method, const char *path, const char *body, int *ret_fd,
                  struct engine_stream **ret_stream, struct err *err);
size_t engine_stream_stderr(struct engine_stream *stream, char *text, size_t size); /* so far, NUL-terminated */
void engine_stream_free(struct engine_stream *stream); /* ends it and its thread; NULL is fine */
/* Nobody holds it any more: it ends, and frees itself, when either end does. NULL is fine. */
void engine_stream_leave(struct engine_stream *stream);

/* The events of containers with `label` ("key=value"), in a thread of its own; the connection is made again (1..30 s) with
 * `since` where it ended. `each` is told action ("die", "oom", "destroy", "start", "pause", ...; podman's names are made
 * docker's), the container's name and id, its exit status (-1 unknown). Action "up", without a name: the stream begins, what
 * happened before is not told; "down": it ended, `id` is why. */
struct engine_events;
struct engine_event {
    const char *action, *name, *id;
    int exit_status;
};
struct engine_events *engine_watch(struct engine *engine, const char *label,
                                   void (*each)(void *user, const struct engine_event *event), void *user);
void engine_watch_end(struct engine_events *events); /* NULL is fine */

#endif
