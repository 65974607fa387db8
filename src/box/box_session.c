/* The verbs of sessions: open, run, look, wait, stop, end. Called by the doors. The sessions themselves are the runner's
 * (PROTOCOL.md): several daemons see the same ones. Invariant: what a runner tells is bounded and checked here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/limits.h"
#include "base/text.h"
#include "store/redact.h"
#include "box/verb.h"

/* How much longer than the times of a call a runner may take to answer it: killing takes time. */
enum { SESSION_SLACK_MS = 2 * KILL_GRACE_MS + 30000 };

static const char *text_of(const struct fields *fields, enum field_id id) {
    return fields->text[id] ? fields->text[id] : "";
}

static enum session_state state_of(uint64_t number) {
    return number >= SESSION_NEW && number <= SESSION_TERMINATED ? (enum session_state)number : SESSION_COMPLETED;
}

static struct session session_of(const struct fields *fields) {
    return (struct session){
        .name = text_of(fields, FIELD_NAME),
        .cwd = text_of(fields, FIELD_CWD),
        .command = text_of(fields, FIELD_COMMAND),
        .note = fields->text[FIELD_NOTE],
        .pid = fields->number[FIELD_PID],
        .state = state_of(fields->number[FIELD_STATE]),
        .exited = fields->has[FIELD_EXIT],
        .exit_code = (int)(fields->number[FIELD_EXIT] & 0xff),
        .created_ms = fields->number[FIELD_STARTED_MS],
        .used_ms = fields->number[FIELD_USED_MS],
        .from = fields->number[FIELD_FIRST],
        .to = fields->number[FIELD_NEXT],
        .commands = fields->number[FIELD_LINES],
        .waiting = (unsigned)(fields->number[FIELD_WAITING] & 0xffff),
        .quiet_ms = fields->number[FIELD_QUIET_MS],
        .plain = !fields->has[FIELD_PID],
    };
}

static struct session_result result_of(const struct fields *fields) {
    return (struct session_result){
        .state = state_of(fields->number[FIELD_STATE]),
        .exited = fields->has[FIELD_EXIT],
        .exit_code = (int)(fields->number[FIELD_EXIT] & 0xff),
        .gone = fields->number[FIELD_LEFT],
        .oom_killed = fields->number[FIELD_OOM],
        .cwd = text_of(fields, FIELD_CWD),
        .from = fields->number[FIELD_FIRST],
        .to = fields->number[FIELD_NEXT],
        .duration_ms = fields->number[FIELD_DURATION_MS],
    };
}

static int put_name(struct buf *args, const char *name, struct err *err) {
    if (!text_name(name, SESSION_NAME_BYTES))
        return err_set(err, ERR_INVALID, "a session's name is 1 to %u of A-Z a-z 0-9 _ . : @ -", SESSION_NAME_BYTES);
    field_text(args, FIELD_NAME, name);
    return 0;
}

/* ---- open ---- */

static int put_random_name(struct buf *args, struct err *err) {
    uint8_t bytes[16];
    char name[2 * sizeof bytes + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, ERR_INTERNAL, "there are no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    field_text(args, FIELD_NAME, name);
    return 0;
}

static int put_rows(struct buf *args, enum field_id id, const char *const *rows, size_t max, struct err *err) {
    size_t count = 0;
    for (; rows && rows[count]; count++)
        field_text(args, id, rows[count]);
    return count > max ? err_set(err, ERR_TOO_LARGE, "more than %zu variables", max) : 0;
}

static int open_args(const struct session_request *request, struct buf *args, struct err *err) {
    int r = request->name ? put_name(args, request->name, err) : put_random_name(args, err);
    if (r == 0 && request->cwd)
        r = verb_path(args, FIELD_CWD, request->cwd, err);
    if (r == 0)
        r = put_rows(args, FIELD_ENV, request->env, LIMIT_ENV_COUNT - 8, err);
    if (r == 0)
        r = put_rows(args, FIELD_SECRET, request->secrets, LIMIT_SECRETS, err);
    if (r < 0)
        return r;
    if (request->shell)
        field_text(args, FIELD_SHELL, request->shell);
    field_text(args, FIELD_USER, request->root ? "root" : "agent");
    field_number(args, FIELD_COLS, request->cols);
    field_number(args, FIELD_ROWS, request->rows);
    if (request->note)
        field_text(args, FIELD_NOTE, request->note);
    if (request->quiet_ms)
        field_number(args, FIELD_QUIET_MS, request->quiet_ms);
    field_number(args, FIELD_FLAGS, request->plain ? CALL_PLAIN : 0);
    return args->failed
               ? err_set(err, ERR_TOO_LARGE, "the variables are larger than %u bytes together", LIMIT_CALL_ARGS_BYTES)
               : 0;
}

int box_session_open(struct box *box, const struct session_request *request, struct arena *arena,
                     struct session *ret_session, bool *ret_created, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    int r = open_args(request, &args, err);
    if (r == 0)
        r = box_share(box, TURN_WAIT_MS, err);
    if (r < 0)
        return r;
    struct fields end;
    r = verb_short(box, OP_SESSION, &args, arena, &end, err);
    box_share_end(box);
    if (r < 0)
        return r;
    *ret_session = session_of(&end);
    *ret_created = end.number[FIELD_CREATED];
    return 0;
}

void box_session_begin(struct box *box, const struct session_request *request) {
    struct err ignored;
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    if (wire_features(box->wire) & FEATURE_SESSION && open_args(request, &args, &ignored) == 0)
        (void)call_tell(box->wire, OP_SESSION, &args, &ignored);
}

/* ---- run ---- */

static int run_stat(void *user, struct view view, int *fd, struct err *err) {
    (void)fd;
    const struct exec_sink *sink = user;
    struct field field;
    while (sink->started && field_next(&view, &field, err) > 0)
        if (field.id == FIELD_PID)
            return sink->started(sink->user, field.number);
    return 0;
}

static int run_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)stream;
    (void)err;
    const struct exec_sink *sink = user;
    return sink->output(sink->user, STREAM_STDOUT, data, len);
}

static int run_idle(void *user) {
    const struct exec_sink *sink = user;
    return sink->idle(sink->user);
}

static int run_args(const struct session_run *run, struct buf *args, struct err *err) {
    int r = put_name(args, run->name, err);
    if (r == 0 && run->cwd)
        r = verb_path(args, FIELD_CWD, run->cwd, err);
    if (r < 0)
        return r;
    field_text(args, FIELD_COMMAND, run->command);
    if (run->hard_ms)
        field_number(args, FIELD_TIMEOUT_MS, run->hard_ms);
    if (run->wait_ms)
        field_number(args, FIELD_WAIT_MS, run->wait_ms);
    if (run->quiet_ms)
        field_number(args, FIELD_QUIET_MS, run->quiet_ms);
    field_number(args, FIELD_FLAGS, (run->background ? CALL_BACKGROUND : 0) | (run->attended ? CALL_ATTENDED : 0));
    return args->failed ? err_set(err, ERR_TOO_LARGE, "the command is larger than %u bytes", LIMIT_CALL_ARGS_BYTES) : 0;
}

int box_session_run(struct box *box, const struct session_run *run, const struct exec_sink *sink, int watch,
                    struct arena *arena, struct session_result *ret_result, struct err *err) {
    static const struct verb_sink to_sink = {.stat = run_stat, .data = run_data};
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    int r = run_args(run, &args, err);
    if (r == 0)
        r = box_share(box, TURN_WAIT_MS, err);
    if (r < 0)
        return r;
    struct verb verb = {
        .op = OP_SESSION_RUN, .args = &args, .watch = watch, .sink = &to_sink, .user = (void *)(uintptr_t)sink};
    if (sink->idle) {
        verb.idle = run_idle;
        verb.idle_ms = sink->idle_ms;
    }
    if (run->wait_ms)
        verb.timeout_ms = run->wait_ms + SESSION_SLACK_MS;
    struct fields end;
    r = verb_run(box, &verb, arena, &end, err);
    box_share_end(box);
    if (r == 0)
        *ret_result = result_of(&end);
    return r;
}

/* ---- look ---- */

struct session_walk {
    void (*each)(void *user, const struct session *session);
    void *user;
    struct arena *arena; /* NULL: texts only last while they are told */
    unsigned count;
};

static int walk_item(void *user, struct view view, struct err *err) {
    struct session_walk *walk = user;
    if (++walk->count > 2 * LIMIT_SESSIONS)
        return err_set(err, ERR_PROTOCOL, "the runner names more than %u sessions", LIMIT_SESSIONS);
    autoarena own = ARENA_EMPTY;
    struct fields fields;
    int r = fields_parse(view, walk->arena ? walk->arena : &own, &fields, err);
    if (r < 0)
        return r;
    struct session session = session_of(&fields);
    walk->each(walk->user, &session);
    return 0;
}

static int walk_run(struct box *box, const char *name, uint64_t timeout_ms, uint64_t wait_ms, int watch,
                    struct session_walk *walk, struct err *err) {
    static const struct verb_sink sink = {.item = walk_item};
    autobuf args = buf_max(512);
    if (name && put_name(&args, name, err) < 0)
        return -err->code;
    if (wait_ms)
        field_number(&args, FIELD_WAIT_MS, wait_ms);
    struct verb verb = {.op = OP_SESSIONS,
                        .args = &args,
                        .watch = watch,
                        .timeout_ms = timeout_ms + wait_ms,
                        .sink = &sink,
                        .user = walk};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_run(box, &verb, &arena, &end, err);
    if (r == 0 && name && walk->count == 0)
        return err_set(err, ERR_NOT_FOUND, "no session '%s'", name);
    return r;
}

int box_sessions(struct box *box, const char *name, void (*each)(void *user, const struct session *session), void *user,
                 struct err *err) {
    struct session_walk walk = {.each = each, .user = user};
    return walk_run(box, name, VERB_SHORT_MS, 0, -1, &walk, err);
}

/* ---- what runs ---- */

struct running_walk {
    struct running running;
    struct redact secrets; /* what is recorded of a box names none of its variables' values */
    uint64_t shells[LIMIT_SESSIONS];
    unsigned shell_count;
};

static void running_add(struct running_walk *walk, const char *command) {
    struct running *running = &walk->running;
    size_t len = strlen(running->text), room = sizeof running->text - len;
    autobuf name = buf_max(RUNNING_NAME_BYTES);
    redact_text(&walk->secrets, &name, command, strlen(command));
    if (running->count++ < RUNNING_NAMED)
        snprintf(running->text + len, room, "%s%.*s", len ? ", " : "", (int)name.len, (const char *)name.data);
    else if (running->count == RUNNING_NAMED + 1)
        snprintf(running->text + len, room, ", ...");
}

static void running_session(void *user, const struct session *session) {
    struct running_walk *walk = user;
    if (walk->shell_count < LIMIT_SESSIONS && session->pid)
        walk->shells[walk->shell_count++] = session->pid;
    if (session->state == SESSION_RUNNING || session->state == SESSION_QUIET)
        running_add(walk, session->command);
}

static void running_process(void *user, const struct process *process) {
    struct running_walk *walk = user;
    for (unsigned i = 0; i < walk->shell_count; i++)
        if (walk->shells[i] == process->pid)
            return;
    if (process->running)
        running_add(walk, process->command);
}

int box_running(struct box *box, uint64_t timeout_ms, struct running *ret_running, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct running_walk running = {.secrets = {.arena = &arena}};
    struct session_walk walk = {.each = running_session, .user = &running};
    redact_env(&running.secrets, (const char *const *)box->spec.env);
    int r = walk_run(box, NULL, timeout_ms, 0, -1, &walk, err);
    if (r == 0)
        r = verb_processes(box, 0, timeout_ms, running_process, &running, err);
    if (r == 0)
        *ret_running = running.running;
    return r;
}

static void walk_keep(void *user, const struct session *session) {
    *(struct session *)user = *session;
}

int box_session_wait(struct box *box, const char *name, uint64_t wait_ms, int watch, struct arena *arena,
                     struct session *ret_session, struct err *err) {
    struct session_walk walk = {.each = walk_keep, .user = ret_session, .arena = arena};
    return walk_run(box, name, VERB_SHORT_MS, wait_ms, watch, &walk, err);
}

/* ---- end ---- */

static int end_run(struct box *box, const char *name, uint64_t flags, struct arena *arena, struct fields *ret_end,
                   struct err *err) {
    autobuf args = buf_max(512);
    if (name && put_name(&args, name, err) < 0)
        return -err->code;
    field_number(&args, FIELD_FLAGS, flags);
    return verb_short(box, OP_SESSION_END, &args, arena, ret_end, err);
}

int box_session_stop(struct box *box, const char *name, struct arena *arena, struct session_result *ret_result,
                     struct err *err) {
    struct fields end;
    int r = end_run(box, name, 0, arena, &end, err);
    if (r == 0)
        *ret_result = result_of(&end);
    return r;
}

int box_session_end(struct box *box, const char *name, bool leave, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return end_run(box, name, CALL_ALL | (leave ? CALL_LEAVE : 0), &arena, &end, err);
}
