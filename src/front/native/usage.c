/* What running boxes use, as an event stream for lists that people look at. Called through native_routes. Invariants: a
 * client sees only boxes that it may see; looking wakes no box; a stream costs a row per running box, not more. */
#include <poll.h>

#include "front/events.h"
#include "front/native/native.h"

enum { USAGE_STREAM_MS = 2000, USAGE_STREAM_BYTES = 2 << 20 };

const struct row usage_stream_query[] = {
    {ASK(user, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "only this user's boxes"},
    END,
};

struct usage_row {
    char id[17];
    struct usage usage;
};
struct usage_stream {
    struct http_request *request;
    const char *user;
    struct usage_row *rows, *before; /* in the order of ids */
    size_t count, room, before_count, before_room;
};

static int usage_stream_each(void *user, struct box *box) {
    struct usage_stream *stream = user;
    const struct who *who = front_who(stream->request);
    if ((who->user && strcmp(who->user, box->user) != 0) || (stream->user && strcmp(stream->user, box->user) != 0) ||
        !box_started(box))
        return 0;
    struct usage_row row = {0};
    memcpy(row.id, box->id, sizeof row.id);
    if (box_usage_brief(box, &row.usage, ERR_IGNORED) == 0)
        vec_add(stream->rows, stream->count, stream->room) = row;
    return 0;
}

static void usage_stream_number(struct json *json, bool has, uint64_t number) {
    if (has)
        json_uint(json, number);
    else
        json_nil(json);
}

static void usage_stream_row(struct json *json, const char *id, const struct usage *usage) {
    json_open(json, '[');
    json_str(json, id);
    usage_stream_number(json, usage && usage->has_cpu, usage ? usage->cpu_ms : 0);
    usage_stream_number(json, usage && usage->has_memory, usage ? usage->memory_bytes : 0);
    usage_stream_number(json, usage && usage->has_pids, usage ? usage->pids : 0);
    json_close(json, ']');
}

static bool usage_stream_same(const struct usage *a, const struct usage *b) {
    return a->cpu_ms == b->cpu_ms && a->memory_bytes == b->memory_bytes && a->pids == b->pids;
}

/* Writes the rows that differ from those before. Returns how many. */
static size_t usage_stream_write(const struct usage_stream *stream, struct json *json) {
    size_t old = 0, written = 0;
    for (size_t i = 0; i < stream->count || old < stream->before_count;) {
        int order = i == stream->count            ? 1
                    : old == stream->before_count ? -1
                                                  : strcmp(stream->rows[i].id, stream->before[old].id);
        bool same = order == 0 && usage_stream_same(&stream->rows[i].usage, &stream->before[old].usage);
        if (!same)
            usage_stream_row(json, order > 0 ? stream->before[old].id : stream->rows[i].id,
                             order > 0 ? NULL : &stream->rows[i].usage);
        written += !same;
        i += order <= 0;
        old += order >= 0;
    }
    return written;
}

static int usage_stream_turn(struct usage_stream *stream, bool first) {
    autobuf out = buf_max(USAGE_STREAM_BYTES);
    struct json json;
    struct usage_row *rows = stream->before;
    size_t room = stream->before_room;
    stream->before = stream->rows, stream->before_count = stream->count, stream->before_room = stream->room;
    stream->rows = rows, stream->count = 0, stream->room = room;
    provider_each(front_of(stream->request)->provider, usage_stream_each, stream);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_time(&json, "at", clock_wall_ms());
    json_put_open(&json, "boxes", '[');
    size_t written = usage_stream_write(stream, &json);
    json_close(&json, ']');
    json_close(&json, '}');
    return written || first ? http_reply_event(stream->request, "usage", out.data, out.len)
                            : http_reply_alive(stream->request);
}

static int usage_stream_pump(struct usage_stream *stream, const struct events_reader *reader) {
    for (bool first = true;; first = false) {
        STEP(usage_stream_turn(stream, first));
        (void)reader; /* counts this stream */
        struct pollfd wait = {.fd = http_fd(stream->request), .events = POLLRDHUP};
        for (uint64_t until_ms = clock_ms() + USAGE_STREAM_MS, now_ms; (now_ms = clock_ms()) < until_ms;) {
            if (poll(&wait, 1, (int)(until_ms - now_ms) < 500 ? (int)(until_ms - now_ms) : 500) < 0 && errno != EINTR)
                return -ERR_INTERNAL;
            if (wait.revents || http_server_stopping(front_of(stream->request)->server))
                return 0;
        }
    }
}

int native_usage_stream(struct http_request *request, struct box *, struct err *err) {
    struct native_args args = {0};
    struct events_reader *reader = NULL;
    STEP(front_query(request, &args, err)
             ?: events_listen(front_of(request)->events, front_who(request)->user, &reader, err));
    struct usage_stream stream = {.request = request, .user = args.user.data};
    int failed = http_reply_events(request) ?: usage_stream_pump(&stream, reader);
    events_leave(reader);
    free(stream.rows);
    free(stream.before);
    return failed ?: http_reply_end(request);
}
