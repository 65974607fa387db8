/* Hijacked connections: a request whose answer turns the connection into a stream, carried by a thread of its own between
 * the engine and one end of a socket pair. Called by the docker backend's wires. Invariant: the thread never waits for one
 * direction while the other could move, and holds a bounded number of bytes of each. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/docker/engine/exchange.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

#define STREAM_BYTES (128u << 10) /* on their way, each direction */

struct way {
    uint8_t *data;
    size_t at, len;
    bool ended; /* nothing more comes in */
    bool shut;  /* and the other side was told */
};

struct engine_stream {
    struct engine_link *link;
    struct engine_frames frames;
    int fd, wake_fd;
    struct way up, down; /* to the engine, from it */
    pthread_t thread;
    pthread_mutex_t lock; /* of what is below */
    bool over, left;      /* the thread has nothing more to do; nobody will free the stream but it */
    char errors[ENGINE_STDERR_BYTES];
    size_t errors_len;
};

static void *stream_run(void *user);

static void stream_error(struct engine_stream *stream, const void *data, size_t len) {
    pthread_mutex_lock(&stream->lock);
    size_t room = sizeof stream->errors - stream->errors_len;
    len = len > room ? room : len;
    memcpy(stream->errors + stream->errors_len, data, len);
    stream->errors_len += len;
    pthread_mutex_unlock(&stream->lock);
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
    engine_link_close(stream->link);
    fd_close(&stream->fd);
    fd_close(&stream->wake_fd);
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

/* What came with the answer's head is the stream's beginning. */
static struct engine_stream *stream_new(struct engine_link *link, int *ret_fd) {
    int pair[2];
    struct engine_stream *stream = xcalloc(1, sizeof *stream);
    stream->link = link;
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
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(&stream->thread, NULL, stream_run, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
    unsigned minor = 0;
    int code = engine_version(engine, &minor, err);
    if (code < 0)
        return code;
    struct engine_call call = {.method = method, .path = path, .body = body, .body_len = body ? strlen(body) : 0};
    struct engine_exchange exchange = {
        .place = engine_place(engine), .call = &call, .minor = minor, .upgrade = true, .timeout_ms = ENGINE_TIMEOUT_MS};
    exchange.wait.end_ms = clock_ms() + exchange.timeout_ms;
    code = engine_connect(engine, &exchange.wait, &exchange.link, err);
    if (code < 0)
        return code;
    autobuf out = buf_max(1u << 20);
    code = engine_exchange_ask(&exchange, err);
    if (code == 0)
        code = engine_exchange_head(&exchange, err);
    if (code == 0 && (exchange.head.status == 101 || exchange.head.status == 200)) {
        struct engine_stream *stream = stream_new(exchange.link, ret_fd);
        if (!stream)
            return err_errno(err, errno, "a stream of the container engine");
        *ret_stream = stream;
        return 0;
    }
    if (code == 0)
        code = engine_exchange_body(&exchange, &out, err);
    engine_link_close(exchange.link);
    if (code < 0)
        return err_wrap(err, "the container engine at %s", engine_url(engine));
    return engine_answer(engine, exchange.head.status, &out, "attaching to a stream", NULL, err);
}

/* ---- the thread ---- */

static bool way_empty(const struct way *way) {
    return way->at == way->len;
}

/* From the socket towards the engine. False: the stream is over. */
static bool stream_up(struct engine_stream *stream) {
    struct way *up = &stream->up;
    if (way_empty(up) && !up->ended) {
        ssize_t got = recv(stream->fd, up->data, STREAM_BYTES, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        up->ended = got == 0;
        up->at = 0;
        up->len = got > 0 ? (size_t)got : 0;
    }
    if (!way_empty(up)) {
        ssize_t sent = engine_link_send(stream->link, up->data + up->at, up->len - up->at);
        if (sent < 0)
            return sent == -EAGAIN;
        up->at += (size_t)sent;
    }
    if (way_empty(up) && up->ended && !up->shut) {
        engine_link_shut(stream->link);
        up->shut = true;
    }
    return true;
}

/* Takes frames apart: stdout becomes what goes down, stderr is kept apart. What is no frame is the end. */
static void stream_take(struct engine_stream *stream) {
    struct engine_link *link = stream->link;
    struct way *down = &stream->down;
    down->at = down->len = 0;
    while (link->at < link->len && !down->ended) {
        size_t used = 0, len = 0;
        int which = 0;
        struct err err;
        if (engine_frames_take(&stream->frames, link->input + link->at, link->len - link->at, &used, &len, &which,
                               &err) < 0) {
            stream_error(stream, err.text, strlen(err.text));
            down->ended = true;
            break;
        }
        const uint8_t *data = link->input + link->at + used - len;
        if (which == 2) {
            stream_error(stream, data, len);
        } else {
            memcpy(down->data + down->len, data, len); /* never more than came in */
            down->len += len;
        }
        link->at += used;
    }
    link->at = link->len = 0;
}

static bool stream_down(struct engine_stream *stream) {
    struct engine_link *link = stream->link;
    struct way *down = &stream->down;
    if (way_empty(down) && !down->ended) {
        if (link->at == link->len) {
            ssize_t got = engine_link_recv(link, link->input, STREAM_BYTES);
            if (got < 0 && got != -EAGAIN)
                return false;
            down->ended = got == 0;
            link->at = 0;
            link->len = got > 0 ? (size_t)got : 0;
        }
        stream_take(stream);
    }
    if (!way_empty(down)) {
        ssize_t sent = send(stream->fd, down->data + down->at, down->len - down->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        down->at += (size_t)sent;
    }
    return !(way_empty(down) && down->ended);
}

/* Waits until something can move. False: it was ended from outside, or its socket was closed and nothing is left of it. */
static bool stream_wait(struct engine_stream *stream) {
    const struct engine_link *link = stream->link;
    short link_events = 0, fd_events = 0;
    if (way_empty(&stream->down) && !stream->down.ended)
        link_events |= link->read_events;
    if (!way_empty(&stream->up))
        link_events |= link->write_events;
    if (way_empty(&stream->up) && !stream->up.ended)
        fd_events |= POLLIN;
    if (!way_empty(&stream->down))
        fd_events |= POLLOUT;
    struct pollfd pollers[] = {
        {.fd = link->fd, .events = link_events},
        {.fd = stream->fd, .events = fd_events},
        {.fd = stream->wake_fd, .events = POLLIN},
    };
    bool now = engine_link_pending(stream->link) && way_empty(&stream->down);
    if (poll(pollers, 3, now ? 0 : -1) < 0 && errno != EINTR)
        return false;
    if (pollers[2].revents)
        return false;
    /* Closed, not shut: nobody will ever read there. What was written before goes to the engine first. */
    return !(pollers[1].revents & (POLLHUP | POLLERR) && way_empty(&stream->up) && stream->up.ended);
}

static void *stream_run(void *user) {
    struct engine_stream *stream = user;
    do {
        if (!stream_up(stream) || !stream_down(stream))
            break;
    } while (stream_wait(stream));
    shutdown(stream->fd, SHUT_RDWR);
    shutdown(stream->link->fd, SHUT_RDWR); /* the engine is told, whoever still holds the stream */
    pthread_mutex_lock(&stream->lock);
    bool left = stream->left;
    stream->over = true;
    pthread_mutex_unlock(&stream->lock);
    if (left)
        stream_done(stream);
    return NULL;
}
