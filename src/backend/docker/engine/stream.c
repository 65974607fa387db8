/* Hijacked connections: a request whose answer turns the connection into a stream, carried by a thread of its own
 * between the engine and one end of a socket pair. Called by the docker backend's wires. Invariant: the thread never
 * waits for one direction while the other could move, and holds a bounded number of bytes of each. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "backend/docker/engine/client.h"
#include "base/sync.h"

#define STREAM_BYTES (128u << 10) /* on their way, each direction */
#define REFUSAL_BYTES 65536u

struct stream_way {
    uint8_t *data;
    size_t at, len;
    bool ended; /* nothing more comes in */
    bool shut;  /* and the other side knows */
};

struct engine_stream {
    struct http_client *client;
    struct http_raw *raw;
    bool drained; /* the engine's end had nothing more when it was last read */
    struct engine_frames frames;
    uint8_t *input; /* what is taken apart */
    int fd, wake_fd;
    struct stream_way up, down; /* to the engine, from it */
    pthread_t thread;
    pthread_mutex_t lock; /* of what is below */
    bool over, left;      /* the thread has nothing more to do, and frees the stream itself */
    char errors[ENGINE_STDERR_BYTES];
    size_t errors_len;
};

static void *stream_run(void *user);

static void stream_error(struct engine_stream *stream, const void *data, size_t len) {
    autolock(&stream->lock);
    size_t room = sizeof stream->errors - stream->errors_len;
    len = len > room ? room : len;
    memcpy(stream->errors + stream->errors_len, data, len);
    stream->errors_len += len;
}

size_t engine_stream_stderr(struct engine_stream *stream, char *text, size_t size) {
    pthread_mutex_lock(&stream->lock);
    size_t len = stream->errors_len < size ? stream->errors_len : size - 1;
    memcpy(text, stream->errors, len);
    pthread_mutex_unlock(&stream->lock);
    text[len] = 0;
    return len;
}

static void stream_done(struct engine_stream *stream) {
    http_raw_close(stream->raw);
    http_client_free(stream->client);
    fd_close(&stream->fd);
    fd_close(&stream->wake_fd);
    free(stream->input);
    free(stream->up.data);
    free(stream->down.data);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void engine_stream_free(struct engine_stream *stream) {
    if (!stream)
        return;
    uint64_t one = 1;
    fd_write_all(stream->wake_fd, &one, sizeof one);
    pthread_join(stream->thread, NULL);
    stream_done(stream);
}

void engine_stream_leave(struct engine_stream *stream) {
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    bool over = stream->over;
    if (!over) {
        stream->left = true;
        pthread_detach(stream->thread);
    }
    pthread_mutex_unlock(&stream->lock); /* from here on the stream is its thread's */
    if (over)
        engine_stream_free(stream);
}

/* Bytes after the answer's head are the stream's beginning. */
static struct engine_stream *stream_new(struct http_client *client, struct http_raw *raw, int *ret_fd) {
    int pair[2];
    struct engine_stream *stream = xcalloc(1, sizeof *stream);
    stream->client = client;
    stream->raw = raw;
    stream->input = xmalloc(STREAM_BYTES);
    stream->wake_fd = eventfd(0, EFD_CLOEXEC);
    stream->fd = -1;
    pthread_mutex_init(&stream->lock, NULL);
    stream->up.data = xmalloc(STREAM_BYTES);
    stream->down.data = xmalloc(STREAM_BYTES);
    if (stream->wake_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        stream_done(stream);
        return NULL;
    }
    stream->fd = pair[0];
    int number = engine_thread(stream_run, stream, &stream->thread);
    if (number) {
        close(pair[1]);
        stream_done(stream);
        errno = number;
        return NULL;
    }
    *ret_fd = pair[1];
    return stream;
}

int engine_hijack(struct engine *engine, const char *method, const char *path, const char *body, int *ret_fd,
                  struct engine_stream **ret_stream, struct err *err) {
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", "Content-Type: application/json",
                                          NULL};
    unsigned minor = 0;
    int status = 0;
    autoarena arena = ARENA_EMPTY;
    int code = engine_checked(&(struct http_call){.method = method, .path = path}, err);
    if (code == 0)
        code = engine_version(engine, &minor, err);
    if (code < 0)
        return code;
    struct http_call call = {.method = method, .headers = headers, .body = body, .body_len = body ? strlen(body) : 0};
    call.path = arena_printf(&arena, "/v1.%u%s", minor, path);
    uint64_t end_ms = clock_ms() + ENGINE_TIMEOUT_MS;
    struct http_client *client = NULL;
    struct http_raw *raw = NULL;
    code = engine_client(engine, &client, err);
    if (code == 0 && (code = http_raw_open(client, &call, end_ms, &raw, err)) < 0)
        engine_lost(engine);
    if (code == 0 && (code = http_raw_head(raw, end_ms, &status, err)) != 0) {
        if (code > 0)
            err_set(err, ERR_BUSY, "it hung up instead of answering");
        code = err_wrap(err, "the container engine at %s", engine_url(engine));
    } else if (code == 0 && status != 101 && status != 200) {
        autobuf out = buf_max(REFUSAL_BYTES);
        http_raw_body(raw, end_ms, &out);
        code = engine_answer(engine, status, &out, "attaching to a stream", NULL, err);
    }
    if (code < 0) {
        http_raw_close(raw);
        http_client_free(client);
        return code;
    }
    *ret_stream = stream_new(client, raw, ret_fd);
    return *ret_stream ? 0 : err_errno(err, errno, "a stream of the container engine");
}

/* ---- frames ---- */

int engine_frames_take(struct engine_frames *frames, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                       int *ret_stream, struct err *err) {
    size_t used = 0, part = 0;
    while (!frames->left && used < len) {
        frames->header[frames->have++] = data[used++];
        if (frames->have < sizeof frames->header)
            continue;
        const uint8_t *h = frames->header;
        if (h[0] > 3 || h[1] || h[2] || h[3])
            return err_set(err, ERR_PROTOCOL, "it sent something that is not a frame of a stream");
        frames->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
        frames->have = 0;
    }
    if (frames->left) {
        part = len - used > frames->left ? frames->left : len - used;
        frames->left -= (uint32_t)part;
    }
    *ret_used = used + part;
    *ret_len = part;
    *ret_stream = frames->header[0] >= 2 ? 2 : 1;
    return 0;
}

/* ---- the thread ---- */

static bool stream_empty(const struct stream_way *way) {
    return way->at == way->len;
}

/* From the socket towards the engine. False: the stream is over. */
static bool stream_up(struct engine_stream *stream) {
    struct stream_way *up = &stream->up;
    if (stream_empty(up) && !up->ended) {
        ssize_t got = recv(stream->fd, up->data, STREAM_BYTES, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        up->ended = got == 0;
        up->at = 0;
        up->len = got > 0 ? (size_t)got : 0;
    }
    if (!stream_empty(up)) {
        struct err ignored;
        ssize_t sent = http_raw_send(stream->raw, up->data + up->at, up->len - up->at, &ignored);
        if (sent < 0)
            return false;
        up->at += (size_t)sent;
    }
    if (stream_empty(up) && up->ended && !up->shut) {
        shutdown(http_raw_fd(stream->raw), SHUT_WR);
        up->shut = true;
    }
    return true;
}

/* Takes frames apart: stdout becomes what goes down, stderr is kept apart. What is not a frame is the end. */
static void stream_take(struct engine_stream *stream, size_t got) {
    struct stream_way *down = &stream->down;
    down->at = down->len = 0;
    for (size_t at = 0; at < got;) {
        size_t used = 0, len = 0;
        int which = 0;
        struct err err;
        if (engine_frames_take(&stream->frames, stream->input + at, got - at, &used, &len, &which, &err) < 0) {
            stream_error(stream, err.text, strlen(err.text));
            down->ended = true;
            return;
        }
        at += used;
        if (which == 2) {
            stream_error(stream, stream->input + at - len, len);
        } else {
            memcpy(down->data + down->len, stream->input + at - len, len); /* never more than came in */
            down->len += len;
        }
    }
}

static bool stream_down(struct engine_stream *stream) {
    struct stream_way *down = &stream->down;
    if (stream_empty(down) && !down->ended) {
        struct err ignored;
        ssize_t got = http_raw_recv(stream->raw, stream->input, STREAM_BYTES, &ignored);
        stream->drained = got == 0;
        down->ended = got < 0;
        stream_take(stream, got > 0 ? (size_t)got : 0);
    }
    if (!stream_empty(down)) {
        ssize_t sent = send(stream->fd, down->data + down->at, down->len - down->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        down->at += (size_t)sent;
    }
    return !(stream_empty(down) && down->ended);
}

/* Waits until something can move. False: it was ended from outside, or its socket was closed and nothing is left of
 * it. */
static bool stream_wait(struct engine_stream *stream) {
    short raw_events = 0, fd_events = 0;
    if (stream_empty(&stream->down) && !stream->down.ended)
        raw_events |= POLLIN;
    if (!stream_empty(&stream->up))
        raw_events |= POLLOUT;
    if (stream_empty(&stream->up) && !stream->up.ended)
        fd_events |= POLLIN;
    if (!stream_empty(&stream->down))
        fd_events |= POLLOUT;
    struct pollfd pollers[] = {
        {.fd = http_raw_fd(stream->raw), .events = raw_events},
        {.fd = stream->fd, .events = fd_events},
        {.fd = stream->wake_fd, .events = POLLIN},
    };
    bool now = !stream->drained && stream_empty(&stream->down); /* TLS may hold some that poll does not see */
    if (poll(pollers, 3, now ? 0 : -1) < 0 && errno != EINTR)
        return false;
    if (pollers[2].revents)
        return false;
    /* Closed, not shut: it will never be read. Bytes written before go to the engine first. */
    return !(pollers[1].revents & (POLLHUP | POLLERR) && stream_empty(&stream->up) && stream->up.ended);
}

static void *stream_run(void *user) {
    struct engine_stream *stream = user;
    do {
        if (!stream_up(stream) || !stream_down(stream))
            break;
    } while (stream_wait(stream));
    shutdown(stream->fd, SHUT_RDWR);
    shutdown(http_raw_fd(stream->raw), SHUT_RDWR); /* the engine notices, even if another holder has the stream */
    pthread_mutex_lock(&stream->lock);
    bool left = stream->left;
    stream->over = true;
    pthread_mutex_unlock(&stream->lock);
    if (left)
        stream_done(stream);
    return NULL;
}
