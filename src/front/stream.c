/* A command's output, kept or as events. Called by the handlers of all dialects that run commands. Invariant: no UTF-8
 * sequence is split between two events, and nothing is answered before the first event, so that a command that could
 * not be started still has its status. */
#include "front/stream.h"

#include "front/front.h"

void collect_init(struct collect *collect, struct http_request *request, size_t limit, struct err *err) {
    *collect = (struct collect){.request = request, .err = err};
    headtail_init(&collect->streams[0], limit);
    headtail_init(&collect->streams[1], limit);
}

void collect_done(struct collect *collect) {
    headtail_done(&collect->streams[0]);
    headtail_done(&collect->streams[1]);
}

/* Accounts for twice the kept size: buffers grow by doubling, and head and tail are joined at the end. */
int collect_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct collect *collect = user;
    struct headtail *bytes = &collect->streams[stream == STREAM_STDERR];
    size_t before = bytes->head.len + bytes->tail.len;
    headtail_put(bytes, data, len);
    return http_hold(collect->request, 2 * (bytes->head.len + bytes->tail.len - before), collect->err);
}

/* ---- as events ---- */

bool stream_wanted(const struct http_request *request) {
    const char *accept = http_header(request, "accept");
    return accept && strstr(accept, "text/event-stream");
}

void stream_init(struct stream *stream, struct http_request *request) {
    *stream = (struct stream){.request = request, .names = {"stdout", "stderr"}};
    buf_init(&stream->piece, LIMIT_FRAME_PAYLOAD_BYTES + sizeof stream->held[0].bytes);
    buf_init(&stream->out, LIMIT_FRAME_PAYLOAD_BYTES * 6 + 1024); /* every byte escaped */
}

void stream_done(struct stream *stream) {
    buf_done(&stream->piece);
    buf_done(&stream->out);
}

void stream_open(struct stream *stream) {
    buf_clear(&stream->out);
    json_init(&stream->json, &stream->out);
    json_open(&stream->json, '{');
}

static int stream_begin(struct stream *stream) {
    if (stream->begun)
        return 0;
    stream->begun = true;
    return http_reply_events(stream->request);
}

int stream_send(struct stream *stream, const char *name) {
    json_close(&stream->json, '}');
    return stream_begin(stream) ?: http_reply_event(stream->request, name, stream->out.data, stream->out.len);
}

static int stream_started(void *user, uint64_t pid) {
    struct stream *stream = user;
    stream_open(stream);
    json_put_uint(&stream->json, "pid", pid);
    return stream_send(stream, "started");
}

static int stream_piece(struct stream *stream, int i, const uint8_t *data, size_t len) {
    bool utf8 = text_utf8(data, len);
    stream_open(stream);
    json_key(&stream->json, "data");
    if (stream->text) {
        json_strn(&stream->json, data, len);
    } else {
        json_bytes(&stream->json, data, len, utf8);
        json_put_str(&stream->json, "encoding", utf8 ? "utf-8" : "base64");
    }
    return stream_send(stream, stream->names[i]);
}

static int stream_put(struct stream *stream, int i, const uint8_t *data, size_t len) {
    buf_clear(&stream->piece);
    buf_put(&stream->piece, stream->held[i].bytes, stream->held[i].count);
    buf_put(&stream->piece, data, len);
    size_t hold = headtail_partial(stream->piece.data, stream->piece.len), whole = stream->piece.len - hold;
    stream->held[i].count = hold;
    if (hold)
        memcpy(stream->held[i].bytes, stream->piece.data + whole, hold);
    return whole ? stream_piece(stream, i, stream->piece.data, whole) : 0;
}

/* The data may be several frames that were waiting. */
int stream_output(void *user, int number, const uint8_t *data, size_t len) {
    int failed = 0;
    for (size_t n; !failed && len; data += n, len -= n) {
        n = len < LIMIT_FRAME_PAYLOAD_BYTES ? len : LIMIT_FRAME_PAYLOAD_BYTES;
        failed = stream_put(user, number == STREAM_STDERR, data, n);
    }
    return failed;
}

int stream_flush(struct stream *stream) {
    int failed = 0;
    for (int i = 0; i < 2 && !failed; i++) {
        if (stream->held[i].count)
            failed = stream_piece(stream, i, stream->held[i].bytes, stream->held[i].count);
        stream->held[i].count = 0;
    }
    return failed;
}

int stream_idle(void *user) {
    struct stream *stream = user;
    if (!http_alive_due(stream->request))
        return 0;
    return stream->begun ? http_reply_alive(stream->request) : stream_begin(stream);
}

struct exec_sink stream_sink(struct stream *stream) {
    return (struct exec_sink){.started = stream_started,
                              .output = stream_output,
                              .idle = stream_idle,
                              .idle_ms = http_alive_tick_ms(stream->request),
                              .user = stream};
}

int stream_failed(struct stream *stream, int failed, struct err *err) {
    if (!stream->begun || !err->code)
        return failed;
    if (front_stopped(stream->request, err))
        failed = -err->code;
    stream_open(stream);
    json_put_str(&stream->json, "code", err_name(err->code));
    json_put_str(&stream->json, "message", err->text);
    return stream_send(stream, "error") || http_reply_end(stream->request) ? failed : -failed;
}

int stream_end(struct stream *stream, int failed, const char *name, const struct row *rows, const void *from,
               struct err *err) {
    failed = failed ? stream_failed(stream, failed, err) : stream_flush(stream);
    if (!failed) {
        stream_open(stream);
        rows_members(&stream->json, rows, from);
        failed = stream_send(stream, name) ?: http_reply_end(stream->request);
    }
    stream_done(stream);
    return failed;
}
