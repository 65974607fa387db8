/* A client of a container engine's HTTP API (dockerd, or podman's compatible service). Called only by the docker
 * backend. Knows requests, answers and streams, but not boxes. Blocking, with a deadline for every call; thread-safe.
 * Invariant: whatever the engine sends is bounded before it is kept. */
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
bool engine_near(const struct engine *engine);      /* a unix socket; it may still be forwarded from elsewhere */
bool engine_encrypted(const struct engine *engine); /* TLS, and its certificate verified */

/* The API version both sides know, 1.40 to 1.45; asked again after the engine was lost. */
int engine_version(struct engine *engine, unsigned *ret_minor, struct err *err);

/* Changes whenever the engine was lost: it may come back as another one, with other facts. */
unsigned engine_generation(struct engine *engine);

/* A call's path comes without the version: "/containers/json?all=1"; the values in it encoded (base/url.h). body is
 * JSON, read_body streams a tar. Further headers: one. timeout_ms 0: ENGINE_TIMEOUT_MS. */
#define ENGINE_TIMEOUT_MS 60000u
#define ENGINE_ANSWER_BYTES (8u << 20)
/* *ret_status: the HTTP status, whatever it is. out: the answer that was not streamed. Negative: no answer; the error
 * names the engine and what to do (BUSY: it cannot be reached, or went away; TIMEOUT; GONE: *stop was set, or a
 * callback stopped the call). */
int engine_do(struct engine *engine, const struct http_call *call, int *ret_status, struct buf *out, struct err *err);
/* The answer as JSON or as an error: of a 2xx or 304 the JSON in *ret_json (json_decref; NULL when it was empty;
 * ret_json may be NULL), else the engine's own message, with a code of foreign_judge. `doing`: "creating container
 * 'cubby-…'". */
int engine_answer(struct engine *engine, int status, struct buf *out, const char *doing, json_t **ret_json,
                  struct err *err);
/* Both. engine_json: for requests that are answered within ENGINE_TIMEOUT_MS. */
int engine_call(struct engine *engine, const struct http_call *call, const char *doing, json_t **ret_json,
                struct err *err);
int engine_json(struct engine *engine, const char *method, const char *path, const char *body, const char *doing,
                json_t **ret_json, struct err *err);
/* The value at a chain of keys of its JSON; NULL, or "", where it is missing or not a string. */
#define engine_value(root, ...) engine_value_at(root, (const char *const[]){__VA_ARGS__, NULL})
#define engine_text(root, ...) engine_text_at(root, (const char *const[]){__VA_ARGS__, NULL})
const json_t *engine_value_at(const json_t *root, const char *const *keys);
const char *engine_text_at(const json_t *root, const char *const *keys);

/* A hijacked connection (attach, exec start): raw towards the engine; from it, frames of 8 bytes and a payload (stdout,
 * stderr). *ret_fd is one end of a socket pair, served by a thread: it carries stdin and stdout; the first
 * ENGINE_STDERR_BYTES of stderr are kept for error texts. The thread ends when either end does. */
struct engine_stream;
#define ENGINE_STDERR_BYTES 4096u
int engine_hijack(struct engine *engine, const char *method, const char *path, const char *body, int *ret_fd,
                  struct engine_stream **ret_stream, struct err *err);
size_t engine_stream_stderr(struct engine_stream *stream, char *text, size_t size); /* so far, NUL-terminated */
void engine_stream_free(struct engine_stream *stream); /* ends it and its thread; NULL is fine */
/* Detaches it: it ends, and frees itself, when either end does. NULL is fine. */
void engine_stream_leave(struct engine_stream *stream);

/* Calls `each` for the events of containers with `label` ("key=value"), in a thread of its own, which reconnects after
 * 1 to 30 s and continues where it ended. Actions have docker's names ("die", "oom", "destroy", "start", "pause", ...);
 * an unknown exit status is -1. Action "up", without a name: the stream begins; "down": it ended, `id` says why. */
struct engine_events;
struct engine_event {
    const char *action, *name, *id;
    int exit_status;
};
struct engine_events *engine_watch(struct engine *engine, const char *label,
                                   void (*each)(void *user, const struct engine_event *event), void *user);
void engine_watch_end(struct engine_events *events); /* NULL is fine */

#endif
