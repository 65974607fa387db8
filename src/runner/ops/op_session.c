/* The ops on sessions: SESSION, SESSION_RUN, SESSIONS, SESSION_END. Called by serve, and by session_shell.c when a
 * command changes its state. Invariant: a call is in exactly one list of its session (current, waiting, others), or in
 * none once its answer only waits for credit; then it has its own copy of the data, because the session may be gone. */
#include "base/base.h"
#include "runner/ops/ops.h"
#include "runner/runner.h"
#include "runner/exec/session.h"

enum want { WANT_RUN, WANT_START, WANT_IDLE, WANT_STOP, WANT_GONE };

struct session_call {
    struct watcher watcher; /* RUN: reads the shell's output */
    struct rcall *call;
    struct session *session; /* NULL: it is being answered, or asked about all */
    struct session_call *next;
    enum want want;
    struct timer timer; /* how long it waits */
    struct timer quiet;
    /* RUN */
    char *text, *cwd;
    uint64_t offset, quiet_ms, hard_until_ms; /* hard_until_ms 0: no limit */
    bool background, attended, over;
    struct buf end; /* the answer, when over */
    uint64_t to;
};

static void session_wait_fire(struct timer *timer);
static void session_quiet_fire(struct timer *timer);

static struct session_call *session_call_new(struct rcall *call, struct session *session, enum want want) {
    struct session_call *own = xcalloc(1, sizeof *own);
    own->call = call;
    own->session = session;
    own->want = want;
    own->timer.fire = session_wait_fire;
    own->quiet.fire = session_quiet_fire;
    buf_init(&own->end, 4 * LIMIT_PATH_BYTES);
    call->state = own;
    return own;
}

/* Removes it from all lists. */
static void session_call_leave(struct session_call *own) {
    struct session *session = own->session;
    own->session = NULL;
    if (!session)
        return;
    if (session->current == own)
        session->current = NULL;
    else if (!list_remove(session->waiting, own))
        list_remove(session->others, own);
}

static void session_call_free(struct session_call *own) {
    struct runner *runner = own->call->runner;
    struct process *process = own->watcher.process;
    session_call_leave(own);
    watcher_drop(&own->watcher);
    if (process)
        stream_resume(process);
    timer_set(runner, &own->timer, 0);
    timer_set(runner, &own->quiet, 0);
    buf_done(&own->end);
    free(own->text);
    free(own->cwd);
    later_free(runner, own);
}

static void session_call_fail(struct session_call *own, const struct err *err) {
    struct rcall *call = own->call;
    session_call_free(own);
    reply_fail(call, err);
}

static void session_call_end(struct session_call *own, const struct buf *fields) {
    struct rcall *call = own->call;
    autobuf copy = buf_max(16 * LIMIT_PATH_BYTES);
    buf_put(&copy, fields->data, fields->len);
    session_call_free(own);
    reply_end(call, &copy);
}

unsigned session_waits(const struct session *session) {
    unsigned count = 0;
    for (const struct session_call *own = session->waiting; own; own = own->next)
        count++;
    return count;
}

/* ---- SESSION ---- */

static void session_open_answer(struct session_call *own, const struct session *session, bool created) {
    session_put(session, &own->end);
    if (created)
        field_number(&own->end, FIELD_CREATED, 1);
    session_call_end(own, &own->end);
}

static int session_plain_directory(const struct runner_config *config, struct session *session, struct err *err) {
    struct place at;
    TRY(runner_path(config, session->cwd, PATH_READ, &at, err));
    autofd fd = path_open(at.root, at.path, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", session->cwd);
    session_set_cwd(session, session->cwd);
    return 0;
}

static int session_open_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct session *session = args->has[FIELD_NAME] ? session_find(call->runner, args->text[FIELD_NAME]) : NULL;
    bool plain = args->number[FIELD_FLAGS] & CALL_PLAIN;
    int r = 0;
    if (session && session->phase != SHELL_ENDED) {
        if (session->plain != plain)
            return err_set(err, ERR_EXISTS, "session '%s' already exists, %s a shell", session->name,
                           session->plain ? "without" : "with");
        if (args->number[FIELD_QUIET_MS])
            session->quiet_ms = args->number[FIELD_QUIET_MS];
        session_used(session);
        struct session_call *own =
            session_call_new(call, session->phase == SHELL_STARTING ? session : NULL, WANT_START);
        if (own->session)
            list_append(session->others, own);
        else
            session_open_answer(own, session, false);
        return 0;
    }
    TRY(session_new(call->runner, args, &session, err));
    r = plain ? session_plain_directory(call->runner->config, session, err) : shell_start(session, args, err);
    if (r < 0) {
        session_drop(session);
        return r;
    }
    if (plain) {
        session_open_answer(session_call_new(call, NULL, WANT_START), session, true);
        return 0;
    }
    struct session_call *own = session_call_new(call, session, WANT_START);
    own->over = true; /* it made the session */
    list_append(session->others, own);
    return 0;
}

void session_started(struct session *session, const struct err *err) {
    for (struct session_call *own = session->others, *next; own; own = next) {
        next = own->next;
        if (err && own->want == WANT_GONE)
            session_call_end(own, &own->end);
        else if (err)
            session_call_fail(own, err);
        else if (own->want == WANT_START)
            session_open_answer(own, session, own->over);
    }
    while (err && session->waiting)
        session_call_fail(session->waiting, err);
}

static void session_any_cancel(struct rcall *call) {
    session_call_free(call->state);
}

const struct op_def op_session = {.op = OP_SESSION, .begin = session_open_begin, .cancel = session_any_cancel};

/* ---- SESSION_RUN ---- */

/* Sends the output, within credit, and then the answer. */
static void session_call_pump(struct rcall *call) {
    struct session_call *own = call->state;
    struct process *process = own->watcher.process;
    const struct stream *stream = process ? &process->streams[0] : NULL;
    uint64_t end = !stream ? own->offset : own->over ? own->to : stream->total;
    if (stream && !stream_send(call, stream, &own->offset, end))
        return;
    if (own->over)
        session_call_end(own, &own->end);
}

static void session_run_answer(struct session_call *own) {
    session_call_leave(own);
    own->over = true;
    timer_set(own->call->runner, &own->timer, 0);
    timer_set(own->call->runner, &own->quiet, 0);
    session_call_pump(own->call);
}

static void session_call_writable(struct rcall *call) {
    struct session_call *own = call->state;
    struct session *session = own->session;
    struct process *process = own->watcher.process;
    if (!process)
        return;
    session_call_pump(call);
    stream_resume(process);
    if (session && session->process == process)
        shell_settle(session);
}

static void session_run_changed(struct watcher *watcher) {
    struct session_call *own = (struct session_call *)watcher;
    if (own->quiet_ms && !own->over)
        timer_set(own->call->runner, &own->quiet, clock_ms() + own->quiet_ms);
    session_call_pump(own->call);
}

static int session_run_pass(struct session *session, struct err *err) {
    session->passed = true;
    int r = err_set(err, ERR_BUSY, "session '%s' is running a command that no call waits for", session->name);
    err->number = EINPROGRESS;
    return r;
}

/* Serves calls that do not wait for an unattended command; the order of the others stays. */
static void session_run_pass_waiting(struct session *session) {
    struct err err;
    for (struct session_call *next, *own = session->waiting; own; own = next) {
        next = own->next;
        if (!own->attended)
            continue;
        session_run_pass(session, &err);
        session_call_fail(own, &err);
    }
}

/* Finds the shell's directory: its own report comes only when the command has ended. */
static void session_run_look(struct session *session) {
    char path[LIMIT_PATH_BYTES + 1];
    ssize_t len = readlink(text_make(32, "/proc/%d/cwd", session->process->pid), path, sizeof path - 1);
    if (len <= 0 || path[0] != '/' || (size_t)len == sizeof path - 1)
        return;
    path[len] = 0;
    session_set_cwd(session, path);
}

/* Leaves the command running, because the caller has waited long enough. */
static void session_run_leave(struct session_call *own, enum session_state state) {
    struct session *session = own->session;
    session->outcome.state = state;
    struct outcome now = session->outcome;
    now.to = session->process->streams[0].total;
    now.duration_ms = clock_ms() - now.started_ms;
    own->to = now.to;
    session_run_look(session);
    session_put_outcome(session, &now, &own->end);
    session_run_answer(own);
    session_run_pass_waiting(session);
}

static void session_turn_missed(struct session_call *own) {
    struct err err;
    err_set(&err, ERR_LIMIT, "session '%s' is busy: the command's turn did not come in time", own->session->name);
    session_call_fail(own, &err);
}

static void session_wait_fire(struct timer *timer) {
    struct session_call *own = container_of(timer, struct session_call, timer);
    struct session *session = own->session;
    if (own->want == WANT_IDLE) {
        autobuf record = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        size_t begin = item_begin(&record);
        session_put(session, &record);
        item_end(&record, begin);
        reply_items(own->call, &record);
        session_call_end(own, &own->end);
    } else if (session->current == own) {
        session_run_leave(own, SESSION_RUNNING);
    } else {
        session_turn_missed(own);
    }
}

static void session_quiet_fire(struct timer *timer) {
    struct session_call *own = container_of(timer, struct session_call, quiet);
    if (own->session->current == own)
        session_run_leave(own, SESSION_QUIET);
    else
        session_turn_missed(own);
}

void session_idle(struct session *session) {
    struct session_call *own = session->waiting;
    if (session->phase != SHELL_IDLE)
        return;
    if (own) {
        session->waiting = own->next;
        session->current = own;
        session->commands++;
        session_used(session);
        free(session->command);
        session->command = process_command_text(own->text, strlen(own->text));
        char *text = own->text;
        own->text = NULL;
        timer_set(session->runner, &own->quiet, 0);
        session_shell_run(session, text, own->cwd, own->hard_until_ms);
        return;
    }
    for (struct session_call *next, *wait = session->others; wait; wait = next) {
        next = wait->next;
        if (wait->want == WANT_IDLE)
            session_wait_fire(&wait->timer);
    }
}

void session_began(struct session *session) {
    struct session_call *own = session->current;
    if (!own)
        return;
    struct stream *stream = &session->process->streams[0];
    own->offset = session->outcome.from;
    autobuf fields = buf_max(128);
    field_number(&fields, FIELD_PID, (uint64_t)session->process->pid);
    field_number(&fields, FIELD_FIRST, own->offset);
    reply_stat(own->call, &fields, -1);
    own->watcher.changed = session_run_changed;
    own->watcher.offset = &own->offset;
    watcher_add(stream->process, &own->watcher);
    if (own->background) {
        session_run_leave(own, SESSION_RUNNING);
        return;
    }
    own->call->writable = session_call_writable;
    if (own->quiet_ms)
        timer_set(session->runner, &own->quiet, clock_ms() + own->quiet_ms);
}

void session_failed(struct session *session, const struct err *err) {
    session->commands--;
    if (session->current)
        session_call_fail(session->current, err);
}

static void session_stops_answer(struct session *session, const struct outcome *outcome) {
    for (struct session_call *next, *own = session->others; own; own = next) {
        next = own->next;
        if (own->want != WANT_STOP)
            continue;
        session_put_outcome(session, outcome, &own->end);
        session_call_end(own, &own->end);
    }
}

void session_over(struct session *session) {
    struct session_call *own = session->current;
    if (own) {
        own->to = session->outcome.to;
        session_put_outcome(session, &session->outcome, &own->end);
        if (!own->watcher.process) /* the shell ended while changing directory */
            own->offset = own->to;
        session_run_answer(own);
    }
    session_stops_answer(session, &session->outcome);
}

void session_gone(struct session *session) {
    struct err err;
    err_set(&err, ERR_NOT_FOUND, "session '%s' has ended", session->name);
    while (session->waiting)
        session_call_fail(session->waiting, &err);
    for (struct session_call *next, *own = session->others; own; own = next) {
        next = own->next;
        if (own->want == WANT_GONE)
            session_call_end(own, &own->end);
        else
            session_call_fail(own, &err);
    }
}

static int session_run_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct session *session;
    TRY(session_lookup(call->runner, args->text[FIELD_NAME], &session, err));
    bool background = args->number[FIELD_FLAGS] & CALL_BACKGROUND;
    if (session->plain)
        return err_set(err, ERR_INVALID, "session '%s' has no shell", session->name);
    if (!args->has[FIELD_COMMAND])
        return err_set(err, ERR_INVALID, "the command is missing");
    if (args->has[FIELD_CWD])
        TRY(path_check(args->text[FIELD_CWD], args->len[FIELD_CWD], err));
    bool starting = session->phase == SHELL_STARTING && !session->waiting;
    /* A command is running that no call waits for or stops. */
    if (args->number[FIELD_FLAGS] & CALL_ATTENDED &&
        (session->passed || ((session->phase == SHELL_MOVING || session->phase == SHELL_RUNNING) && !session->current &&
                             !session->stopping)))
        return session_run_pass(session, err);
    if (background && session_busy(session) && !starting)
        return err_set(err, ERR_BUSY, "session '%s' runs another command", session->name);
    if (session_waits(session) >= LIMIT_SESSION_WAITING)
        return err_set(err, ERR_LIMIT, "%u commands wait in session '%s', which is its limit", LIMIT_SESSION_WAITING,
                       session->name);
    struct session_call *own = session_call_new(call, session, WANT_RUN);
    own->text = xstrdup(args->text[FIELD_COMMAND]);
    own->cwd = args->has[FIELD_CWD] ? xstrdup(args->text[FIELD_CWD]) : NULL;
    own->background = background;
    own->attended = args->number[FIELD_FLAGS] & CALL_ATTENDED;
    own->hard_until_ms = args->number[FIELD_TIMEOUT_MS] ? timer_after(args->number[FIELD_TIMEOUT_MS]) : 0;
    own->quiet_ms = args->number[FIELD_QUIET_MS];
    if (own->quiet_ms == SESSION_QUIET_OWN)
        own->quiet_ms = session->quiet_ms;
    if (own->quiet_ms > LIMIT_EXEC_TIMEOUT_MS)
        own->quiet_ms = LIMIT_EXEC_TIMEOUT_MS;
    if (args->number[FIELD_WAIT_MS])
        timer_set(call->runner, &own->timer, timer_after(args->number[FIELD_WAIT_MS]));
    /* While it waits for its turn, its timeouts are already running. */
    uint64_t until = own->quiet_ms ? clock_ms() + own->quiet_ms : 0;
    if (own->hard_until_ms && (!until || own->hard_until_ms < until))
        until = own->hard_until_ms;
    timer_set(own->call->runner, &own->quiet, until);
    list_append(session->waiting, own);
    session_idle(session);
    return 0;
}

/* A command ends when its caller hangs up. */
static void session_run_cancel(struct rcall *call) {
    struct session_call *own = call->state;
    struct session *session = own->session;
    bool running = session && session->current == own;
    session_call_free(own);
    if (running)
        stop_begin(session, SESSION_TERMINATED);
}

const struct op_def op_session_run = {.op = OP_SESSION_RUN, .begin = session_run_begin, .cancel = session_run_cancel};

/* ---- SESSIONS ---- */

static int session_list_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct session *session = NULL;
    if (args->has[FIELD_NAME] && session_lookup(call->runner, args->text[FIELD_NAME], &session, err) < 0)
        return -err->code;
    if (!session || !args->number[FIELD_WAIT_MS] || !session_busy(session)) {
        autobuf records = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        for (struct session *s = session_first(call->runner); s; s = s->next) {
            if ((session && s != session) || s->ending || s->phase == SHELL_STARTING || s->phase == SHELL_ENDED)
                continue;
            size_t begin = item_begin(&records);
            session_put(s, &records);
            reply_item_end(call, &records, begin);
        }
        if (records.len)
            reply_items(call, &records);
        reply_end(call, NULL);
        return 0;
    }
    struct session_call *own = session_call_new(call, session, WANT_IDLE);
    timer_set(call->runner, &own->timer, timer_after(args->number[FIELD_WAIT_MS]));
    list_append(session->others, own);
    return 0;
}

const struct op_def op_sessions = {
    .op = OP_SESSIONS, .looks = true, .begin = session_list_begin, .cancel = session_any_cancel};

/* ---- SESSION_END ---- */

static int session_end_begin(struct rcall *call, const struct fields *args, struct err *err) {
    bool whole = args->number[FIELD_FLAGS] & CALL_ALL, leave = args->number[FIELD_FLAGS] & CALL_LEAVE;
    struct session *session;
    if (whole && !args->has[FIELD_NAME]) {
        for (struct session *s = session_first(call->runner), *next; s; s = next) {
            next = s->next;
            session_end(s, leave);
        }
        reply_end(call, NULL);
        return 0;
    }
    TRY(session_lookup(call->runner, args->text[FIELD_NAME], &session, err));
    struct session_call *own = session_call_new(call, session, whole ? WANT_GONE : WANT_STOP);
    list_append(session->others, own);
    if (whole) {
        session_end(session, leave);
    } else if (session->plain || session->phase == SHELL_IDLE || session->phase == SHELL_STARTING) {
        session_stops_answer(session, &session->outcome);
    } else {
        stop_begin(session, SESSION_TERMINATED);
    }
    return 0;
}

const struct op_def op_session_end = {.op = OP_SESSION_END, .begin = session_end_begin, .cancel = session_any_cancel};
