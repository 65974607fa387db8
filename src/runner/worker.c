/* Workers: forked processes with the agent's rights that do one call's long work. Started by serve for ops with work();
 * their frames come through a pipe with call id 0 and are relayed within credit. First the inside, then the loop's
 * side. Invariant: a worker has nothing of the runner's but its two pipes and the root, and a slow reader stops only
 * it. */
#include <assert.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "base/base.h"
#include "runner/exec/process.h"
#include "runner/runner.h"
#include "runner/enter/stack.h"
#include "runner/ops/turn.h"

enum {
    WORKERS_MAX = 64,
    QUEUE_ARGS_BYTES = 64 << 10, /* calls with larger arguments are not queued */
    FRAME_BYTES = LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES,
    ITEM_FLUSH_BYTES = 32 << 10,
    TURN_INPUT_BYTES = LIMIT_CREDIT_BYTES / 2, /* a call with turns waits for all of its input, or this much */
};

struct work {
    struct source out, in; /* the worker's output and input pipes, our ends */
    struct runner *runner;
    struct rcall *call; /* NULL: answered or cancelled */
    struct work *next;
    pid_t pid; /* 0: queued */
    int status;
    bool reaped, drained;
    bool lasts;        /* as in op_def */
    struct buf args;   /* while queued */
    struct buf frames; /* read from out, not yet relayed */
    struct buf input;  /* not yet accepted by the worker */
    size_t input_done;
    struct turn turn; /* keyed: an op that takes turns */
};

struct worker_table {
    struct work *all;          /* in order of arrival */
    unsigned running, lasting; /* lasting: op_def.lasts, not counted in running */
    struct turn_table *turns;
};

/* ---- inside the worker ---- */

static int worker_write(struct worker *worker, const void *data, size_t len, struct err *err) {
    int r = fd_write_all(worker->out_fd, data, len);
    return r < 0 ? err_errno(err, -r, "cannot write to the worker's pipe") : 0;
}

int worker_flush(struct worker *worker, struct err *err) {
    if (worker->item_frame == SIZE_MAX)
        return 0;
    frame_end(&worker->out, worker->item_frame);
    worker->item_frame = SIZE_MAX;
    int r = worker_write(worker, worker->out.data, worker->out.len, err);
    buf_clear(&worker->out);
    return r;
}

struct buf *worker_item(struct worker *worker) {
    if (worker->item_frame == SIZE_MAX)
        worker->item_frame = frame_begin(&worker->out, FRAME_ITEM, 0, 0);
    worker->item_start = item_begin(&worker->out);
    return &worker->out;
}

int worker_item_end(struct worker *worker, struct err *err) {
    item_end(&worker->out, worker->item_start);
    size_t record = worker->out.len - worker->item_start;
    if (worker->out.failed || record > LIMIT_FRAME_PAYLOAD_BYTES)
        return err_set(err, ERR_TOO_LARGE, "one result is larger than %u bytes", LIMIT_FRAME_PAYLOAD_BYTES);
    if (worker->out.len - worker->item_frame - FRAME_HEAD_BYTES > LIMIT_FRAME_PAYLOAD_BYTES) {
        /* The record opens the next frame: sends what was before it, then moves it to the front. */
        struct buf before = worker->out;
        before.len = worker->item_start;
        frame_end(&before, worker->item_frame);
        TRY(worker_write(worker, before.data, before.len, err));
        memmove(worker->out.data + FRAME_HEAD_BYTES, worker->out.data + worker->item_start, record);
        worker->out.len = FRAME_HEAD_BYTES + record;
        worker->item_frame = 0;
    }
    return worker->out.len >= ITEM_FLUSH_BYTES ? worker_flush(worker, err) : 0;
}

static int worker_frame(struct worker *worker, uint8_t type, uint8_t flags, const void *data, size_t len,
                        struct err *err) {
    TRY(worker_flush(worker, err));
    frame_put(&worker->out, type, 0, flags, data, len);
    int r = worker_write(worker, worker->out.data, worker->out.len, err);
    buf_clear(&worker->out);
    return r;
}

int worker_stat(struct worker *worker, const struct buf *fields, struct err *err) {
    return worker_frame(worker, FRAME_STAT, 0, fields ? fields->data : NULL, fields ? fields->len : 0, err);
}

int worker_data(struct worker *worker, const void *data, size_t len, struct err *err) {
    for (size_t done = 0; done < len;) {
        size_t n = len - done < LIMIT_FRAME_PAYLOAD_BYTES ? len - done : LIMIT_FRAME_PAYLOAD_BYTES;
        TRY(worker_frame(worker, FRAME_DATA, STREAM_STDOUT, (const uint8_t *)data + done, n, err));
        done += n;
    }
    return 0;
}

/* The input of a cancelled call ends early, and its length may be unknown: the signal comes first. */
static volatile sig_atomic_t worker_cancelled;

static void worker_on_cancel(int) {
    worker_cancelled = 1;
}

ssize_t worker_read(struct worker *worker, void *data, size_t len, struct err *err) {
    ssize_t n;
    do
        n = read(worker->in_fd, data, len);
    while (n < 0 && errno == EINTR);
    if (n == 0 && worker_cancelled)
        return err_set(err, ERR_GONE, "the call was cancelled");
    return n < 0 ? err_errno(err, errno, "cannot read the call's input") : n;
}

void worker_end(struct worker *worker, const struct buf *fields) {
    assert(!worker->ended);
    worker->ended = true;
    (void)worker_frame(worker, FRAME_END, 0, fields ? fields->data : NULL, fields ? fields->len : 0, ERR_IGNORED);
}

static void worker_fail(struct worker *worker, const struct err *failure) {
    autobuf fields = buf_max(2048);
    field_failure(&fields, failure);
    worker->item_frame = SIZE_MAX; /* the last record may be incomplete */
    buf_clear(&worker->out);
    (void)worker_frame(worker, FRAME_FAIL, 0, fields.data, fields.len, ERR_IGNORED);
}

/* Descriptors of mapped directories are needed: closes everything that is not a directory. */
static void worker_close_others_but_dirs(int a, int b, int c) {
    int max = 1023;
    autodir *dir = fd_opendir(AT_FDCWD, "/proc/self/fd", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        max = (int)strtol(entry->d_name, NULL, 10) > max ? (int)strtol(entry->d_name, NULL, 10) : max;
    struct stat status;
    for (int fd = 3; fd <= max; fd++)
        if (fd != a && fd != b && fd != c && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode))
            close(fd);
}

static _Noreturn void worker_main(const struct rcall *call, const struct buf *payload,
                                  const struct turn_version *version, int out_fd, int in_fd) {
    const struct runner_config *config = call->runner->config;
    const struct op_def *def = call->def;
    if (config->maps)
        worker_close_others_but_dirs(config->root_fd, out_fd, in_fd);
    else {
        int keep[4 + STACK_ROOTS_MAX] = {config->root_fd, out_fd, in_fd};
        size_t count = 3;
        if (def->layers && config->layers)
            count += stack_roots_fds(config->layers, keep + count);
        if ((def->layers || call->as_root) && config->landlock_fd >= 0)
            keep[count++] = config->landlock_fd;
        runner_close_others(keep, count);
    }
    struct worker worker = {.config = config,
                            .version = version,
                            .root_fd = config->root_fd,
                            .out_fd = out_fd,
                            .in_fd = in_fd,
                            .item_frame = SIZE_MAX};
    buf_init(&worker.out, 2 * FRAME_BYTES);
    struct err err;
    struct fields fields;
    struct arena arena;
    arena_init(&arena);
    bool root = call->as_root || (def->layers && config->can_root);
    int r = confine(config, root ? CONFINE_ROOT_WORKER : CONFINE_WORKER, root ? 0 : config->agent_uid,
                    root ? 0 : config->agent_gid, &err);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* after confine: changing ids clears it */
    if (def->cleans)
        signal(SIGUSR1, worker_on_cancel);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (r >= 0)
        r = fields_parse(view_of(payload->data, payload->len), &arena, &fields, &err);
    struct buf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    if (r >= 0)
        r = def->work ? def->work(&worker, &fields, &err) : def->quick(config, &fields, &out, &err);
    if (r < 0 && !worker.ended)
        worker_fail(&worker, &err);
    else if (!worker.ended)
        worker_end(&worker, &out);
    _exit(0);
}

/* ---- the loop's side ---- */

static int worker_work_launch(struct work *work, const struct buf *payload, struct err *err);
static void worker_queue_next(struct runner *runner);
static void worker_work_pump(struct work *work);

void worker_table_open(struct runner *runner) {
    runner->workers = xcalloc(1, sizeof *runner->workers);
}

int worker_start(struct rcall *call, const struct buf *payload, struct err *err) {
    struct runner *runner = call->runner;
    const struct op_def *def = call->def;
    struct turn turn = {0};
    if (def->turns) {
        autoarena arena = ARENA_EMPTY;
        struct fields fields;
        TRY(fields_parse(view_of(payload->data, payload->len), &arena, &fields, err));
        turn_of(runner->config, &fields, &turn);
    }
    if (def->lasts && runner->workers->lasting >= WORKERS_MAX)
        return err_set(err, ERR_LIMIT, "%u watches are running in this box, which is the limit: end one first",
                       WORKERS_MAX);
    bool queue = (!def->lasts && runner->workers->running >= WORKERS_MAX) || turn.keyed;
    if (queue && payload->len > QUEUE_ARGS_BYTES)
        return err_set(err, ERR_BUSY, "%u file operations are running in this box, which is the limit; try again",
                       WORKERS_MAX);
    struct work *work = xcalloc(1, sizeof *work);
    *work = (struct work){.runner = runner, .call = call, .out.fd = -1, .in.fd = -1, .lasts = def->lasts, .turn = turn};
    buf_init(&work->args, QUEUE_ARGS_BYTES + 1);
    buf_init(&work->frames, 2 * FRAME_BYTES);
    buf_init(&work->input, 2 * LIMIT_CREDIT_MOST_BYTES); /* consumed bytes are dropped regularly */
    if (queue) {
        buf_put(&work->args, payload->data, payload->len);
    } else if (worker_work_launch(work, payload, err) < 0) {
        free(work);
        return -err->code;
    }
    call->worker = true;
    call->state = work;
    list_append(runner->workers->all, work);
    return 0;
}

static void worker_work_out_ready(struct source *source, uint32_t) {
    worker_work_pump(container_of(source, struct work, out));
}

static void worker_work_writable(struct rcall *call) {
    worker_work_pump(call->state);
}

static void worker_work_feed(struct work *work) {
    if (work->in.fd < 0)
        return;
    while (work->input_done < work->input.len) {
        ssize_t n = write(work->in.fd, work->input.data + work->input_done, work->input.len - work->input_done);
        if (n < 0 && errno == EAGAIN) {
            source_set(work->runner, &work->in, EPOLLOUT);
            return;
        }
        if (n < 0) /* it needs no more input: its answer decides */
            n = (ssize_t)(work->input.len - work->input_done);
        work->input_done += (size_t)n;
        if (work->call)
            reply_credit(work->call, (uint32_t)n);
    }
    work->input_done = 0;
    buf_clear(&work->input);
    source_set(work->runner, &work->in, 0);
    if (!work->call || work->call->input_eof)
        fd_close(&work->in.fd);
}

static void worker_work_in_ready(struct source *source, uint32_t) {
    worker_work_feed(container_of(source, struct work, in));
}

static int worker_work_launch(struct work *work, const struct buf *payload, struct err *err) {
    struct runner *runner = work->runner;
    int out[2] = {-1, -1}, in[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(in, O_CLOEXEC) < 0)
        goto failed;
    process_oom_score(runner, true);
    pid_t pid = fork();
    int number = errno;
    if (pid == 0)
        worker_main(work->call, payload, turn_last(runner->workers->turns, &work->turn), out[1], in[0]);
    process_oom_score(runner, false);
    errno = number;
    if (pid < 0)
        goto failed;
    close(out[1]);
    close(in[0]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    work->pid = pid;
    work->out = (struct source){.fd = out[0], .ready = worker_work_out_ready};
    work->in = (struct source){.fd = in[1], .ready = worker_work_in_ready};
    work->call->writable = worker_work_writable;
    source_set(runner, &work->out, EPOLLIN);
    *(work->lasts ? &runner->workers->lasting : &runner->workers->running) += 1;
    worker_work_feed(work);
    return 0;
failed:
    process_fork_error(runner->config, errno, "work on files", err);
    for (int i = 0; i < 2; i++) {
        fd_close(&out[i]);
        fd_close(&in[i]);
    }
    return -err->code;
}

/* Relays complete frames while the wire accepts them. Returns false if it does not, or the call is over. */
static bool worker_work_relay(struct work *work) {
    size_t done = 0;
    struct frame frame;
    struct err err;
    int r = 0;
    bool refused = false;
    while (work->call && !refused &&
           (r = frame_parse(work->frames.data + done, work->frames.len - done, &frame, &err)) > 0) {
        struct buf payload = {.data = (uint8_t *)(uintptr_t)frame.payload, .len = frame.len, .max = frame.len + 1};
        struct rcall *call = work->call;
        if (frame.type == FRAME_END) {
            if (work->turn.keyed)
                turn_wrote(&work->runner->workers->turns, &work->turn, frame.payload, frame.len);
            work->call = NULL;
            reply_end(call, &payload);
        } else if (frame.type == FRAME_STAT || frame.type == FRAME_DATA || frame.type == FRAME_ITEM) {
            frame.flags &= 3;
            refused = !reply_frame(call, &frame);
        } else if (frame.type == FRAME_FAIL) {
            work->call = NULL;
            reply_end_with(call, FRAME_FAIL, &payload);
        } else {
            r = -1;
            break;
        }
        if (!refused)
            done += FRAME_HEAD_BYTES + frame.len;
    }
    if (r < 0 && work->call)
        kill(work->pid, SIGKILL); /* answered when it is reaped */
    buf_consume(&work->frames, done);
    return work->call && !refused && r >= 0;
}

/* Answers for a worker that died silently, and frees one that is answered and reaped. */
static void worker_work_settle(struct work *work) {
    struct runner *runner = work->runner;
    if (work->reaped && work->drained && work->call) {
        struct err err;
        struct rcall *call = work->call;
        if (WIFSIGNALED(work->status))
            err_set(&err, ERR_INTERNAL, "the worker was killed by signal %d%s", WTERMSIG(work->status),
                    WTERMSIG(work->status) == SIGKILL ? " (the box may be out of memory)" : "");
        else
            err_set(&err, ERR_INTERNAL, "the worker ended with status %d and no answer", WEXITSTATUS(work->status));
        work->call = NULL;
        reply_fail(call, &err);
    }
    if (work->call || (work->pid && !work->reaped))
        return;
    if (!list_remove(runner->workers->all, work))
        return; /* already freed in this turn */
    source_close(runner, &work->out);
    source_close(runner, &work->in);
    buf_done(&work->args);
    buf_done(&work->frames);
    buf_done(&work->input);
    later_free(runner, work);
    worker_queue_next(runner);
}

static void worker_work_pump(struct work *work) {
    if (work->drained || work->out.fd < 0)
        return;
    while (worker_work_relay(work)) {
        uint8_t *at = buf_reserve(&work->frames, FRAME_BYTES);
        assert(at);
        ssize_t n = read(work->out.fd, at, FRAME_BYTES);
        if (n > 0) {
            work->frames.len += (size_t)n;
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            source_set(work->runner, &work->out, EPOLLIN);
            return;
        }
        work->drained = true;
        break;
    }
    source_set(work->runner, &work->out, 0); /* no credit, or the end: avoids spinning on a hang-up */
    worker_work_settle(work);
}

int worker_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct work *work = call->state;
    if (work->input_done > work->input.len / 2) {
        buf_consume(&work->input, work->input_done);
        work->input_done = 0;
    }
    buf_put(&work->input, data, len);
    if (work->input.failed)
        return err_set(err, ERR_INTERNAL, "more input than credit");
    worker_work_feed(work);
    if (!work->pid)
        worker_queue_next(work->runner);
    return 0;
}

int worker_finish(struct rcall *call, struct err *) {
    struct work *work = call->state;
    worker_work_feed(work);
    if (!work->pid)
        worker_queue_next(work->runner);
    return 0;
}

void worker_cancel(struct rcall *call) {
    struct work *work = call->state;
    work->call = NULL;
    if (work->pid > 0 && !work->reaped) {
        if (call->def->cleans && work->in.fd >= 0) {
            kill(work->pid, SIGUSR1);
            source_close(work->runner, &work->in);
        } else if (!call->def->cleans) {
            kill(work->pid, SIGKILL);
        }
    }
    worker_work_settle(work);
}

bool worker_reap(struct runner *runner, pid_t pid, int status) {
    struct work *work = list_find(runner->workers->all, item, item->pid == pid && !item->reaped);
    if (!work)
        return false;
    work->reaped = true;
    work->status = status;
    *(work->lasts ? &runner->workers->lasting : &runner->workers->running) -= 1;
    worker_work_pump(work);
    worker_work_settle(work);
    return true;
}

bool worker_any(const struct runner *runner) {
    return runner->workers->all != NULL;
}

bool worker_is_child(const struct runner *runner, pid_t pid) {
    return list_find(runner->workers->all, work, work->pid == pid && !work->reaped);
}

/* A call takes its turn when its input has arrived, so that a slow client does not delay others. */
static bool worker_work_ready(const struct work *work) {
    return !work->pid && work->call &&
           (!work->turn.keyed || work->call->input_eof || work->input.len >= TURN_INPUT_BYTES);
}

static bool worker_work_waits(const struct work *work) {
    bool before = true;
    for (const struct work *other = work->runner->workers->all; other; other = other->next) {
        if (other == work)
            before = false;
        else if (turn_same(&other->turn, &work->turn) && (other->pid || (before && worker_work_ready(other))))
            return true;
    }
    return false;
}

/* Starts one at a time: called again when a worker ends or a call gets its input. */
static void worker_queue_next(struct runner *runner) {
    struct work *work = runner->workers->all;
    while (work && !(worker_work_ready(work) && !worker_work_waits(work)))
        work = work->next;
    if (!work || runner->workers->running >= WORKERS_MAX)
        return;
    struct err err;
    struct rcall *call = work->call;
    int r = worker_work_launch(work, &work->args, &err);
    buf_done(&work->args);
    if (r < 0) {
        work->call = NULL;
        reply_fail(call, &err);
        worker_work_settle(work);
    }
}
