/* Input and output of commands. Output of a foreground command goes to its call within credit (without credit the pipe
 * is not read, and the command waits); output of a background command goes into a ring of the last LIMIT_RING_BYTES,
 * which waits for its readers. Input comes from any number of calls. Called by process.c and the ops on processes.
 * Invariant: a stream without credit is not watched (its hang-up would spin the loop), and `total` counts every
 * byte. */
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/conceal.h"
#include "runner/exec/process.h"

enum {
    DEFAULT_COLS = 80,
    DEFAULT_ROWS = 24,
    LIMIT_COLS = 10000,
    READ_BYTES = 64 << 10,
    DRAIN_BYTES = 1 << 20, /* the most that a pipe holds */
    HEADROOM_BYTES = 128 << 10,
    HELD_MAX_BYTES = 8 << 20, /* one read, masked: virtual paths may be longer than real ones */
};

static void stream_take(struct stream *stream, const uint8_t *data, size_t len);
static void stream_input_ready(struct source *source, uint32_t events);

static void stream_ready(struct source *source, uint32_t) {
    struct stream *stream = (struct stream *)source;
    process_started(stream->process);
    if (stream->over) /* its process is not done: avoids spinning on a hang-up */
        source_close(stream->process->runner, &stream->source);
    stream_pump(stream);
    process_done(stream->process);
}

/* ---- the descriptors ---- */

static int stream_stdio_pipes(struct process *process, bool input, struct err *err) {
    int pair[2];
    for (int i = 0; i < 2; i++) {
        int r = process_pipe(process->runner, pair);
        if (r < 0)
            return err_errno(err, -r, "cannot make a pipe in the box");
        process->streams[i].source.fd = pair[0];
        process->spawn.stdio[i + 1] = pair[1];
    }
    if (!input) {
        int fd = process_null(process->runner);
        process->spawn.stdio[0] = fd;
        return fd < 0 ? err_errno(err, -fd, "/dev/null") : 0;
    }
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, errno, "cannot make a pipe in the box");
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    process->spawn.stdio[0] = pair[0];
    process->input.fd = pair[1];
    return 0;
}

/* Opens the peer through the master, so that no path in the box has to be trusted. */
static int stream_stdio_terminal(struct process *process, const struct fields *args, struct err *err) {
    const struct runner_config *config = process->runner->config;
    autofd master = path_open(config->root_fd, "/dev/ptmx", O_RDWR, 0);
    if (master == -ENOENT)
        return err_set(err, ERR_LIMIT,
                       "the box has no terminals: other boxes used up its user's share when it started; stop some, "
                       "then stop and start this one");
    if (master < 0)
        return master == -ENOSPC ? err_set(err, ERR_LIMIT, "all terminals of the box, or of this machine, are in use")
                                 : err_errno(err, -master, "the box has no terminals: /dev/ptmx");
    int unlocked = 0;
    uint64_t cols = args->number[FIELD_COLS], rows = args->number[FIELD_ROWS];
    cols = cols ? cols : DEFAULT_COLS;
    rows = rows ? rows : DEFAULT_ROWS;
    struct winsize size = {.ws_col = (unsigned short)(cols < LIMIT_COLS ? cols : LIMIT_COLS),
                           .ws_row = (unsigned short)(rows < LIMIT_COLS ? rows : LIMIT_COLS)};
    int peer = -1;
    if (ioctl(master, TIOCSPTLCK, &unlocked) < 0 || ioctl(master, TIOCSWINSZ, &size) < 0 ||
        (peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
        return err_errno(err, errno, "cannot make a terminal in the box");
    if (config->jail && !process->spawn.root)
        (void)!fchown(peer, config->agent_uid, (gid_t)-1);
    process->spawn.pty = true;
    process->spawn.stdio[0] = peer;
    process->spawn.stdio[1] = fcntl(peer, F_DUPFD_CLOEXEC, 3);
    process->spawn.stdio[2] = fcntl(peer, F_DUPFD_CLOEXEC, 3);
    process->input.fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
    process->streams[0].source.fd = fd_take(&master);
    if (process->spawn.stdio[1] < 0 || process->spawn.stdio[2] < 0 || process->input.fd < 0)
        return err_errno(err, errno, "cannot make a terminal in the box");
    return 0;
}

int process_stdio(struct process *process, bool input, const struct fields *args, struct err *err) {
    TRY(process->pty ? stream_stdio_terminal(process, args, err) : stream_stdio_pipes(process, input, err));
    for (int i = 0; i < 2; i++) {
        process->streams[i].source.ready = stream_ready;
        buf_init(&process->streams[i].held, HELD_MAX_BYTES);
        if (process->runner->config->maps)
            process->streams[i].mask = mask_new(process->runner->config);
    }
    process->input.ready = stream_input_ready;
    return 0;
}

/* Our copies of the pipes' far ends stay open until the command has ended: then its end is noticed once, as the death
 * of a child, and not first as two hang-ups. What is left in the pipes is read then. */
void process_stdio_given(struct process *process) {
    if (process->input.fd >= 0)
        fd_close(&process->spawn.stdio[0]);
    process->spawn.stdio[0] = -1; /* else the table's /dev/null */
    if (process->pty)
        process_stdio_free(process);
}

void process_stdio_free(struct process *process) {
    for (int i = 0; i < 3; i++)
        if (process->spawn.stdio[i] != process_null(process->runner))
            fd_close(&process->spawn.stdio[i]);
}

/* ---- output ---- */

/* A background command waits for its slowest reader; without one the ring continues. When a command with a terminal has
 * ended, or one was killed, nothing waits any more: space is left for what the kernel usually holds then. */
static size_t stream_reader_room(const struct stream *stream) {
    const struct process *process = stream->process;
    size_t i = (size_t)(stream - process->streams);
    uint64_t room = READ_BYTES;
    if ((process->pty || process->killed) && process->phase > PHASE_RUNNING)
        return (size_t)room;
    for (const struct watcher *w = process->watchers; w; w = w->next) {
        uint64_t behind = w->offset ? stream->total - w->offset[i] : 0;
        uint64_t free = behind < LIMIT_RING_BYTES - HEADROOM_BYTES ? LIMIT_RING_BYTES - HEADROOM_BYTES - behind : 0;
        if (w->offset && w->offset[i] >= stream_first(stream) && free < room)
            room = free;
    }
    return (size_t)room;
}

/* Returns true if nothing is held back any more. */
static bool stream_send_held(struct stream *stream) {
    struct process *process = stream->process;
    if (!process->call || process->discard)
        buf_clear(&stream->held);
    if (stream->held.len == 0)
        return true;
    buf_consume(&stream->held, reply_data(process->call, stream->id, stream->held.data, stream->held.len));
    return stream->held.len == 0;
}

/* Returns how much may be read now; 0: there is no consumer. */
static size_t stream_room(struct stream *stream) {
    struct process *process = stream->process;
    if (process->background && !process->discard)
        return stream_reader_room(stream);
    if (process->discard || !process->call)
        return READ_BYTES;
    if (!stream_send_held(stream) || !reply_room(process->call))
        return 0;
    return process->call->credit_out < READ_BYTES ? process->call->credit_out : READ_BYTES;
}

/* Filters secrets first: a secret may contain a path. */
static void stream_filter(struct stream *stream, const uint8_t *data, size_t len, bool last) {
    autobuf concealed = buf_max(HELD_MAX_BYTES);
    autobuf masked = buf_max(HELD_MAX_BYTES);
    if (stream->conceal) {
        conceal_put(stream->conceal, data, len, &concealed);
        if (last)
            conceal_flush(stream->conceal, &concealed);
        data = concealed.data;
        len = concealed.len;
    }
    if (stream->mask) {
        if (len)
            mask_put(stream->mask, data, len, &masked);
        if (last)
            mask_flush(stream->mask, &masked);
        data = masked.data;
        len = masked.len;
    }
    stream_take(stream, data, len);
}

static void stream_unfilter(struct stream *stream) {
    mask_free(stream->mask);
    conceal_free(stream->conceal);
    stream->mask = NULL;
    stream->conceal = NULL;
}

static void stream_close(struct stream *stream) {
    stream->over = true;
    if (stream->process->background || stream->process->keep || stream->process->phase != PHASE_DRAINING)
        source_close(stream->process->runner, &stream->source);
    if (stream->mask || stream->conceal)
        stream_filter(stream, NULL, 0, true);
    stream_unfilter(stream);
    if (stream->process->background || stream->process->keep)
        watchers_notify(stream->process);
}

enum stream_step stream_step(struct stream *stream) {
    static uint8_t scratch[READ_BYTES]; /* one loop, one thread */
    struct process *process = stream->process;
    size_t room = stream_room(stream);
    if (room == 0) {
        source_set(process->runner, &stream->source, 0);
        return STREAM_FULL;
    }
    ssize_t n = read(stream->source.fd, scratch, room);
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && process->phase != PHASE_DRAINING)
        return STREAM_DRY;
    if (n <= 0) { /* the end; EIO if a terminal lost its last user; or empty without a writer */
        stream_close(stream);
        return STREAM_OVER;
    }
    if (stream->mask || stream->conceal)
        stream_filter(stream, scratch, (size_t)n, false);
    else
        stream_take(stream, scratch, (size_t)n);
    stream->drained += process->phase == PHASE_DRAINING && process->leave ? (size_t)n : 0;
    if (stream->drained > DRAIN_BYTES) { /* includes all of the command's own output: the rest comes from processes it
                                          * left */
        stream_close(stream);
        return STREAM_OVER;
    }
    return STREAM_TOOK;
}

void stream_settle(struct stream *stream) {
    if (stream->mask || stream->conceal)
        stream_filter(stream, NULL, 0, true);
}

/* One read per event while the command runs; everything when it has ended. */
void stream_pump(struct stream *stream) {
    struct process *process = stream->process;
    if (stream->over || stream->source.fd < 0) {
        stream_send_held(stream);
        return;
    }
    enum stream_step step;
    do
        step = stream_step(stream);
    while (step == STREAM_TOOK && process->phase == PHASE_DRAINING);
    if (step == STREAM_TOOK || step == STREAM_DRY)
        source_set(process->runner, &stream->source, EPOLLIN);
}

static void stream_drain(struct timer *timer) {
    struct process *process = container_of(timer, struct process, timer);
    for (int i = 0; i < 2; i++)
        stream_pump(&process->streams[i]);
    process_done(process);
}

/* Not at once: the caller may be called by the pump. */
void stream_resume(struct process *process) {
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &process->streams[i];
        if (!process->background || stream->over || stream->source.fd < 0 || stream->source.events)
            continue;
        if (process->phase == PHASE_RUNNING || process->phase == PHASE_ENDING) {
            source_set(process->runner, &stream->source, EPOLLIN);
        } else if (process->phase == PHASE_DRAINING) { /* its pipe may be empty, and kept open by others */
            process->timer.fire = stream_drain;
            timer_set(process->runner, &process->timer, clock_ms());
        }
    }
}

static void stream_ring_put(struct stream *stream, const uint8_t *data, size_t len) {
    if (!stream->ring && len) {
        /* Reserved as a whole; the kernel provides pages as they are used. */
        void *memory = mmap(NULL, LIMIT_RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return; /* counted but lost */
        stream->ring = memory;
    }
    uint64_t at = stream->total;
    if (len > LIMIT_RING_BYTES) {
        at += len - LIMIT_RING_BYTES;
        data += len - LIMIT_RING_BYTES;
        len = LIMIT_RING_BYTES;
    }
    size_t start = (size_t)(at % LIMIT_RING_BYTES), first = LIMIT_RING_BYTES - start;
    if (first > len)
        first = len;
    if (len) {
        memcpy(stream->ring + start, data, first);
        memcpy(stream->ring, data + first, len - first);
    }
}

static void stream_take(struct stream *stream, const uint8_t *data, size_t len) {
    struct process *process = stream->process;
    if (process->background || process->keep)
        stream_ring_put(stream, data, len);
    stream->total += len;
    if (process->background || process->keep)
        watchers_notify(process);
    if (!process->background && process->call && !process->discard) {
        size_t sent = stream->held.len ? 0 : reply_data(process->call, stream->id, data, len);
        if (sent < len)
            buf_put(&stream->held, data + sent, len - sent);
    }
}

bool stdio_done(const struct stream *stream) {
    return (stream->over || stream->source.fd < 0) && stream->held.len == 0;
}

void stream_free(struct stream *stream) {
    source_close(stream->process->runner, &stream->source);
    stream_unfilter(stream);
    buf_done(&stream->held);
    if (stream->ring)
        munmap(stream->ring, LIMIT_RING_BYTES);
    stream->ring = NULL;
}

size_t stream_kept(const struct stream *stream) {
    return (size_t)(stream->total - stream_first(stream));
}

uint64_t stream_first(const struct stream *stream) {
    if (!stream->ring)
        return stream->total;
    return stream->total > LIMIT_RING_BYTES ? stream->total - LIMIT_RING_BYTES : 0;
}

size_t stream_copy(const struct stream *stream, uint64_t from, uint8_t *data, size_t len) {
    if (from < stream_first(stream) || from >= stream->total)
        return 0;
    if (len > stream->total - from)
        len = (size_t)(stream->total - from);
    size_t start = (size_t)(from % LIMIT_RING_BYTES), first = LIMIT_RING_BYTES - start;
    if (first > len)
        first = len;
    memcpy(data, stream->ring + start, first);
    memcpy(data + first, stream->ring, len - first);
    return len;
}

bool stream_send(struct rcall *call, const struct stream *stream, uint64_t *offset, uint64_t end) {
    static uint8_t copy[READ_BYTES]; /* one loop, one thread */
    while (*offset < end) {
        if (*offset < stream_first(stream))
            *offset = stream_first(stream);
        uint64_t len = end > *offset ? end - *offset : 0;
        len = len < READ_BYTES ? len : READ_BYTES;
        len = len < call->credit_out ? len : call->credit_out;
        size_t n = reply_data(call, stream->id, copy, stream_copy(stream, *offset, copy, (size_t)len));
        if (n == 0)
            return false;
        *offset += n;
    }
    return true;
}

/* ---- watchers ---- */

void watcher_add(struct process *process, struct watcher *watcher) {
    watcher->process = process;
    watcher->next = process->watchers;
    process->watchers = watcher;
}

void watcher_drop(struct watcher *watcher) {
    if (!watcher->process)
        return;
    list_remove(watcher->process->watchers, watcher);
    watcher->process = NULL;
}

void watchers_notify(struct process *process) {
    for (struct watcher *watcher = process->watchers, *next; watcher; watcher = next) {
        next = watcher->next;
        watcher->changed(watcher);
    }
}

/* ---- input ---- */

static void stream_feeder_finished(struct feeder *feeder, bool broken) {
    list_remove(feeder->process->feeders, feeder);
    feeder->broken = broken;
    feeder->process = NULL;
    if (feeder->finished)
        feeder->finished(feeder);
}

void input_close(struct process *process) {
    source_close(process->runner, &process->input);
    while (process->feeders)
        stream_feeder_finished(process->feeders, true);
}

/* Writes one feeder's bytes. Returns false if the pipe is full or broken. */
static bool stream_feeder_write(struct process *process, struct feeder *feeder) {
    while (feeder->done < feeder->data.len) {
        ssize_t n = write(process->input.fd, feeder->data.data + feeder->done, feeder->data.len - feeder->done);
        if (n < 0 && errno == EAGAIN) {
            source_set(process->runner, &process->input, EPOLLOUT);
            return false;
        }
        if (n < 0) {
            input_close(process);
            return false;
        }
        feeder->done += (size_t)n;
        feeder->taken += (uint64_t)n;
        if (feeder->call)
            reply_credit(feeder->call, (uint32_t)n);
    }
    feeder->done = 0;
    buf_clear(&feeder->data);
    return true;
}

static void stream_input_feed(struct process *process) {
    for (struct feeder *feeder = process->feeders, *next; feeder; feeder = next) {
        next = feeder->next;
        if (!stream_feeder_write(process, feeder))
            return;
        if (!feeder->eof)
            continue;
        bool closes = feeder->close;
        stream_feeder_finished(feeder, false);
        if (closes && process->pty) {
            (void)!write(process->input.fd, "\004", 1); /* how a terminal ends the input */
        } else if (closes) {
            input_close(process);
            return;
        }
    }
    if (process->input.fd >= 0)
        source_set(process->runner, &process->input, 0);
}

static void stream_input_ready(struct source *source, uint32_t) {
    stream_input_feed(container_of(source, struct process, input));
}

void feeder_add(struct process *process, struct feeder *feeder, struct rcall *call) {
    buf_init(&feeder->data, 2 * LIMIT_CREDIT_MOST_BYTES);
    feeder->process = process;
    feeder->call = call;
    list_append(process->feeders, feeder);
}

int feeder_put(struct feeder *feeder, const uint8_t *data, size_t len, struct err *err) {
    if (!feeder->process) { /* it has no reader any more: input is dropped */
        if (feeder->call)
            reply_credit(feeder->call, (uint32_t)len);
        return 0;
    }
    if (feeder->done > feeder->data.len / 2) {
        buf_consume(&feeder->data, feeder->done);
        feeder->done = 0;
    }
    buf_put(&feeder->data, data, len);
    if (feeder->data.failed)
        return err_set(err, ERR_INTERNAL, "more input than credit");
    stream_input_feed(feeder->process);
    return 0;
}

void feeder_eof(struct feeder *feeder) {
    feeder->eof = true;
    if (feeder->process)
        stream_input_feed(feeder->process);
}

void feeder_drop(struct feeder *feeder) {
    if (feeder->process)
        list_remove(feeder->process->feeders, feeder);
    feeder->process = NULL;
    buf_done(&feeder->data);
}
