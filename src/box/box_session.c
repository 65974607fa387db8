/* The verbs of sessions: open, run, look, wait, stop, end. Called by the dialects. The sessions themselves belong to
 * the runner (PROTOCOL.md): several daemons see the same ones. Invariant: a runner's input is bounded and checked
 * here. */
#include <sys/random.h>

#include "base/base.h"
#include "store/redact.h"
#include "box/secret/binding.h"
#include "box/verb.h"

/* How much longer than the times of a call a runner may take to answer it: killing takes time. */
enum { SESSION_SLACK_MS = 2 * KILL_GRACE_MS + 30000 };

static const char *session_text(const struct fields *fields, enum field_id id) {
    return fields->text[id] ? fields->text[id] : "";
}

static enum session_state session_state(uint64_t number) {
    return number >= SESSION_NEW && number <= SESSION_TERMINATED ? (enum session_state)number : SESSION_COMPLETED;
}

static struct session session_of(const struct fields *fields) {
    return (struct session){
        .name = session_text(fields, FIELD_NAME),
        .cwd = session_text(fields, FIELD_CWD),
        .command = session_text(fields, FIELD_COMMAND),
        .note = fields->text[FIELD_NOTE],
        .pid = fields->number[FIELD_PID],
        .state = session_state(fields->number[FIELD_STATE]),
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

static struct session_result session_result(const struct fields *fields) {
    return (struct session_result){
        .state = session_state(fields->number[FIELD_STATE]),
        .exited = fields->has[FIELD_EXIT],
        .exit_code = (int)(fields->number[FIELD_EXIT] & 0xff),
        .gone = fields->number[FIELD_LEFT],
        .oom_killed = fields->number[FIELD_OOM],
        .cwd = session_text(fields, FIELD_CWD),
        .from = fields->number[FIELD_FIRST],
        .to = fields->number[FIELD_NEXT],
        .duration_ms = fields->number[FIELD_DURATION_MS],
    };
}

static int session_name(struct buf *args, const char *name, struct err *err) {
    if (!text_name(name, SESSION_NAME_BYTES))
        return err_set(err, ERR_INVALID, "a session's name is 1 to %u of A-Z a-z 0-9 _ . : @ -", SESSION_NAME_BYTES);
    field_text(args, FIELD_NAME, name);
    return 0;
}

/* ---- open ---- */

static int session_open_args(const struct box *box, const struct session_request *request, struct buf *args,
                             struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const char *const *bound = (const char *const *)bindings_env(box, &arena);
    uint8_t bytes[16];
    char random[2 * sizeof bytes + 1];
    if (!request->name && getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, ERR_INTERNAL, "the kernel gave no random numbers for a session's name");
    if (!request->name)
        text_hex(random, bytes, sizeof bytes);
    TRY(session_name(args, request->name ? request->name : random, err)
            ?: verb_put(args, err, F_LIST(ENV, bound, BINDINGS_VARIABLES, "secrets"),
                        F_LIST(ENV, request->env, LIMIT_ENV_COUNT - 8, "variables"),
                        F_LIST(SECRET, request->secrets, LIMIT_SECRETS, "secrets"), F_PATH(CWD, request->cwd),
                        F_TEXT(SHELL, request->shell), F_TEXT(USER, request->root ? "root" : "agent"),
                        F_NUM(COLS, request->cols), F_NUM(ROWS, request->rows), F_TEXT(NOTE, request->note),
                        F_NUM(QUIET_MS, request->quiet_ms), F_NUM(FLAGS, request->plain ? CALL_PLAIN : 0)));
    return args->failed
               ? err_set(err, ERR_TOO_LARGE, "the variables are larger than %u bytes together", LIMIT_CALL_ARGS_BYTES)
               : 0;
}

int box_session_open(struct box *box, const struct session_request *request, struct arena *arena,
                     struct session *ret_session, bool *ret_created, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    const struct verb verb = {.op = OP_SESSION, .args = &args, .watch = -1, .timeout_ms = VERB_SHORT_MS};
    struct fields end;
    TRY(session_open_args(box, request, &args, err) ?: box_share(box, SHARE_WAIT_MS, err));
    int r = verb_run(box, &verb, arena, &end, err);
    box_share_end(box);
    if (r < 0)
        return r;
    *ret_session = session_of(&end);
    *ret_created = end.number[FIELD_CREATED];
    return 0;
}

void box_session_begin(struct box *box, const struct session_request *request) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    if (wire_features(box->wire) & FEATURE_SESSION && session_open_args(box, request, &args, ERR_IGNORED) == 0)
        (void)call_post(box->wire, OP_SESSION, &args, ERR_IGNORED);
}

/* ---- run ---- */

int box_session_run(struct box *box, const struct session_run *run, const struct exec_sink *sink, int watch,
                    struct arena *arena, struct session_result *ret_result, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    TRY(session_name(&args, run->name, err)
            ?: verb_put(&args, err, F_PATH(CWD, run->cwd), F_TEXT(COMMAND, run->command),
                        F_NUM(TIMEOUT_MS, run->hard_ms), F_NUM(WAIT_MS, run->wait_ms), F_NUM(QUIET_MS, run->quiet_ms)));
    if (args.failed)
        return err_set(err, ERR_TOO_LARGE, "the command is larger than %u bytes", LIMIT_CALL_ARGS_BYTES);
    TRY(box_share(box, SHARE_WAIT_MS, err));
    struct verb verb = {.op = OP_SESSION_RUN,
                        .args = &args,
                        .flags = (run->background ? CALL_BACKGROUND : 0) | (run->attended ? CALL_ATTENDED : 0),
                        .watch = watch,
                        .timeout_ms = run->wait_ms ? run->wait_ms + SESSION_SLACK_MS : 0,
                        .sink = &verb_exec_sink,
                        .user = (void *)(uintptr_t)sink};
    verb_exec_idle(&verb, sink);
    struct fields end;
    int r = verb_run(box, &verb, arena, &end, err);
    box_share_end(box);
    if (r == 0)
        *ret_result = session_result(&end);
    return r;
}

/* ---- look ---- */

struct box_session_walk {
    void (*each)(void *user, const struct session *session);
    void *user;
    struct arena *arena; /* NULL: texts last only for the call of `each` */
    unsigned count;
};

static int session_item(void *user, struct view view, struct err *err) {
    struct box_session_walk *walk = user;
    if (++walk->count > 2 * LIMIT_SESSIONS)
        return err_set(err, ERR_PROTOCOL, "the runner names more than %u sessions", LIMIT_SESSIONS);
    autoarena own = ARENA_EMPTY;
    struct fields fields;
    TRY(fields_parse(view, walk->arena ? walk->arena : &own, &fields, err));
    struct session session = session_of(&fields);
    walk->each(walk->user, &session);
    return 0;
}

static int session_walk(struct box *box, const char *name, uint64_t timeout_ms, uint64_t wait_ms, int watch,
                        struct box_session_walk *walk, struct err *err) {
    static const struct verb_sink sink = {.item = session_item};
    autobuf args = buf_max(512);
    TRY(name ? session_name(&args, name, err) : 0);
    const struct verb verb = {.op = OP_SESSIONS,
                              .args = &args,
                              FIELDS(F_NUM(WAIT_MS, wait_ms)),
                              .watch = watch,
                              .timeout_ms = timeout_ms + wait_ms,
                              .sink = &sink,
                              .user = walk};
    TRY(verb_only(box, &verb, err));
    return name && walk->count == 0 ? err_set(err, ERR_NOT_FOUND, "no session '%s'", name) : 0;
}

int box_sessions(struct box *box, const char *name, void (*each)(void *user, const struct session *session), void *user,
                 struct err *err) {
    struct box_session_walk walk = {.each = each, .user = user};
    return session_walk(box, name, VERB_SHORT_MS, 0, -1, &walk, err);
}

/* ---- what runs ---- */

struct running_walk {
    struct running running;
    struct redact secrets; /* what is recorded of a box names none of its variables' values */
    uint64_t shells[LIMIT_SESSIONS];
    unsigned shell_count;
};

static void session_running_add(struct running_walk *walk, const char *command) {
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
        session_running_add(walk, session->command);
}

static void session_running_process(void *user, const struct process *process) {
    struct running_walk *walk = user;
    for (unsigned i = 0; i < walk->shell_count; i++)
        if (walk->shells[i] == process->pid)
            return;
    if (process->running)
        session_running_add(walk, process->command);
}

int box_running(struct box *box, uint64_t timeout_ms, struct running *ret_running, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct running_walk running = {.secrets = {.arena = &arena}};
    struct box_session_walk walk = {.each = running_session, .user = &running};
    redact_env(&running.secrets, (const char *const *)box->spec.env);
    int r = session_walk(box, NULL, timeout_ms, 0, -1, &walk, err)
                ?: verb_processes(box, 0, timeout_ms, session_running_process, &running, err);
    if (r == 0)
        *ret_running = running.running;
    return r;
}

static void session_keep(void *user, const struct session *session) {
    *(struct session *)user = *session;
}

int box_session_wait(struct box *box, const char *name, uint64_t wait_ms, int watch, struct arena *arena,
                     struct session *ret_session, struct err *err) {
    struct box_session_walk walk = {.each = session_keep, .user = ret_session, .arena = arena};
    return session_walk(box, name, VERB_SHORT_MS, wait_ms, watch, &walk, err);
}

/* ---- end ---- */

static int session_end_run(struct box *box, const char *name, uint64_t flags, struct arena *arena,
                           struct fields *ret_end, struct err *err) {
    autobuf args = buf_max(512);
    TRY(name ? session_name(&args, name, err) : 0);
    const struct verb verb = {
        .op = OP_SESSION_END, .args = &args, FIELDS(F_ALWAYS(FLAGS, flags)), .watch = -1, .timeout_ms = VERB_SHORT_MS};
    return verb_run(box, &verb, arena, ret_end, err);
}

int box_session_stop(struct box *box, const char *name, struct arena *arena, struct session_result *ret_result,
                     struct err *err) {
    struct fields end;
    TRY(session_end_run(box, name, 0, arena, &end, err));
    *ret_result = session_result(&end);
    return 0;
}

int box_session_end(struct box *box, const char *name, bool leave, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return session_end_run(box, name, CALL_ALL | (leave ? CALL_LEAVE : 0), &arena, &end, err);
}
