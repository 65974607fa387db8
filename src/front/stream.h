/* The output of a command for its client: kept until it ends, or as an event stream. */
#ifndef CUBBY_FRONT_STREAM_H
#define CUBBY_FRONT_STREAM_H

#include "base/buf.h"
#include "base/headtail.h"
#include "base/json.h"
#include "box/box.h"
#include "http/server.h"
#include "rows/write.h"

/* ---- kept: whole, or its head and tail ---- */

struct collect {
    struct headtail streams[2]; /* stdout, stderr */
    struct http_request *request;
    struct err *err;
};

void collect_init(struct collect *collect, struct http_request *request, size_t limit, struct err *err);
void collect_done(struct collect *collect);
int collect_put(void *collect, int stream, const uint8_t *data, size_t len); /* exec_sink.output */

/* ---- as events ---- */

struct stream {
    struct http_request *request;
    const char *names[2]; /* names of output events; "stdout", "stderr" */
    bool text;            /* {"data"} with U+FFFD for bytes that are not UTF-8, instead of {"data","encoding"} */
    struct buf out, piece;
    struct json json; /* of the event being written */
    struct {
        uint8_t bytes[4]; /* an incomplete UTF-8 sequence */
        size_t count;
    } held[2];
    bool begun;
};

bool stream_wanted(const struct http_request *request); /* Accept: text/event-stream */
void stream_init(struct stream *stream, struct http_request *request);
void stream_done(struct stream *stream);

/* Sends output as events, and a comment after a long silence: for box_exec and box_session_run. */
struct exec_sink stream_sink(struct stream *stream);
/* Its parts; user is the stream. */
int stream_output(void *user, int number, const uint8_t *data, size_t len);
int stream_idle(void *user);

/* Begins an event: opens an object, whose members are written to stream->json before it is sent. */
void stream_open(struct stream *stream);
int stream_send(struct stream *stream, const char *name);
int stream_flush(struct stream *stream); /* sends held output; call it before the last event */
/* Sends a failure after the stream began (the box ended) as an event `error`. Returns the handler's result. */
int stream_failed(struct stream *stream, int failed, struct err *err);
/* Sends the last event by its rows (rows/write.h), or the failure (stream_failed), and calls stream_done. */
int stream_end(struct stream *stream, int failed, const char *name, const struct row *rows, const void *from,
               struct err *err);

#endif
