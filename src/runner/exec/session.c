/* The table of sessions: made, found, listed, ended. Called by op_session.c and, for plain sessions, by op_exec.c.
 * Invariant: a session with a shell leaves the table when its process has ended, and never before. */
#include "base/base.h"
#include "runner/exec/session.h"

struct session_table {
    struct session *first;
    unsigned count;
    uint64_t uses;
};

void session_table_open(struct runner *runner) {
    runner->sessions = xcalloc(1, sizeof *runner->sessions);
}

struct session *session_first(struct runner *runner) {
    return runner->sessions->first;
}

struct session *session_find(struct runner *runner, const char *name) {
    return list_find(runner->sessions->first, session, !session->ending && strcmp(session->name, name) == 0);
}

int session_lookup(struct runner *runner, const char *name, struct session **ret_session, struct err *err) {
    struct session *session = name ? session_find(runner, name) : NULL;
    if (!session || session->phase == SHELL_ENDED)
        return err_set(err, ERR_NOT_FOUND, "no session '%.128s'", name ? name : "");
    *ret_session = session;
    return 0;
}

/* For a plain session: returns whether this is a running command of it. */
static bool session_runs(const struct session *session, const struct process *process) {
    return process->session && process->phase != PHASE_ENDED && strcmp(process->session, session->name) == 0;
}

bool session_busy(const struct session *session) {
    return session->plain ? list_find(process_first(session->runner), process, session_runs(session, process)) != NULL
                          : session->phase != SHELL_IDLE || session_waits(session);
}

/* Ends the least recently used idle session if there are too many. */
static int session_room(struct runner *runner, struct err *err) {
    struct session_table *table = runner->sessions;
    if (table->count < LIMIT_SESSIONS)
        return 0;
    struct session *oldest = NULL;
    for (struct session *s = table->first; s; s = s->next)
        if (!s->ending && !session_busy(s) && (!oldest || s->used < oldest->used))
            oldest = s;
    if (!oldest)
        return err_text(err, EUSERS, "%u sessions are in use in this box, which is its limit", LIMIT_SESSIONS);
    session_end(oldest, true);
    return 0;
}

int session_new(struct runner *runner, const struct fields *args, struct session **ret_session, struct err *err) {
    const char *name = args->has[FIELD_NAME] ? args->text[FIELD_NAME] : "";
    if (!text_name(name, LIMIT_SESSION_NAME_BYTES))
        return err_set(err, ERR_INVALID, "a session's name must be 1 to %u of A-Z a-z 0-9 _ . : @ -",
                       LIMIT_SESSION_NAME_BYTES);
    if (args->has[FIELD_NOTE] && args->len[FIELD_NOTE] > LIMIT_SESSION_NOTE_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the note of a session must have at most %u bytes",
                       LIMIT_SESSION_NOTE_BYTES);
    TRY(session_room(runner, err));
    struct session *session = xcalloc(1, sizeof *session);
    session->runner = runner;
    memcpy(session->name, name, strlen(name));
    session->cwd = xstrdup(args->has[FIELD_CWD] ? args->text[FIELD_CWD] : runner->config->workspace);
    session->command = xstrdup("");
    session->note = args->has[FIELD_NOTE] ? xstrdup(args->text[FIELD_NOTE]) : NULL;
    session->plain = args->number[FIELD_FLAGS] & CALL_PLAIN;
    session->phase = session->plain ? SHELL_IDLE : SHELL_STARTING;
    session->quiet_ms = args->number[FIELD_QUIET_MS];
    session->outcome.state = SESSION_NEW;
    session->command_fd = session->text_fd = session->report.fd = -1;
    session->created_wall_ms = clock_wall_ms();
    session_used(session);
    list_append(runner->sessions->first, session);
    runner->sessions->count++;
    *ret_session = session;
    return 0;
}

void session_used(struct session *session) {
    session->used_wall_ms = clock_wall_ms();
    session->used = ++session->runner->sessions->uses;
}

void session_drop(struct session *session) {
    struct session_table *table = session->runner->sessions;
    list_remove(table->first, session);
    table->count -= session->ending ? 0 : 1;
    shell_free(session);
    free(session->cwd);
    free(session->command);
    free(session->note);
    later_free(session->runner, session);
}

void session_end(struct session *session, bool leave) {
    if (!session->plain) {
        if (!session->ending)
            session->runner->sessions->count--;
        session->ending = true;
        if (session->phase > SHELL_IDLE && !session->stopping)
            session->stopping = SESSION_TERMINATED;
        if (leave)
            stop_hang_up(session);
        else
            process_kill(session->process);
        return;
    }
    for (struct process *p = process_first(session->runner), *next; p; p = next) {
        next = p->next;
        if (session_runs(session, p))
            process_kill(p);
    }
    session->phase = SHELL_ENDED;
    session_gone(session);
    session_drop(session);
}

void session_set_cwd(struct session *session, const char *path) {
    char joined[LIMIT_PATH_BYTES + 1];
    if (!path_join(joined, sizeof joined, session->runner->config->workspace, path))
        joined[0] = 0;
    struct mask *mask = mask_new(session->runner->config);
    struct buf shown;
    buf_init(&shown, 4 * LIMIT_PATH_BYTES);
    if (mask) {
        mask_put(mask, (const uint8_t *)joined, strlen(joined), &shown);
        mask_flush(mask, &shown);
    } else {
        buf_puts(&shown, joined);
    }
    mask_free(mask);
    free(session->cwd);
    session->cwd = buf_cstr(&shown);
    if (!session->cwd)
        session->cwd = xstrdup("/");
}

/* ---- as fields of answers ---- */

void session_put(const struct session *session, struct buf *out) {
    const struct outcome *outcome = &session->outcome;
    bool running = session->process && session->phase > SHELL_IDLE;
    field_text(out, FIELD_NAME, session->name);
    if (session->process)
        field_number(out, FIELD_PID, (uint64_t)session->process->pid);
    field_text(out, FIELD_CWD, session->cwd);
    field_text(out, FIELD_COMMAND, session->command);
    field_number(out, FIELD_STATE, outcome->state);
    if (outcome->exited)
        field_number(out, FIELD_EXIT, (uint64_t)outcome->exit_code);
    field_number(out, FIELD_STARTED_MS, session->created_wall_ms);
    field_number(out, FIELD_USED_MS, session->used_wall_ms);
    field_number(out, FIELD_FIRST, outcome->from);
    field_number(out, FIELD_NEXT, running ? session->process->streams[0].total : outcome->to);
    field_number(out, FIELD_LINES, session->commands);
    field_number(out, FIELD_WAITING, session_waits(session));
    field_number(out, FIELD_QUIET_MS, session->quiet_ms);
    if (session->note)
        field_text(out, FIELD_NOTE, session->note);
}

void session_put_outcome(const struct session *session, const struct outcome *outcome, struct buf *out) {
    field_number(out, FIELD_STATE, outcome->state);
    if (outcome->exited)
        field_number(out, FIELD_EXIT, (uint64_t)outcome->exit_code);
    field_text(out, FIELD_CWD, session->cwd);
    field_number(out, FIELD_FIRST, outcome->from);
    field_number(out, FIELD_NEXT, outcome->to);
    field_number(out, FIELD_DURATION_MS, outcome->duration_ms);
    if (outcome->oom)
        field_number(out, FIELD_OOM, 1);
    if (outcome->gone)
        field_number(out, FIELD_LEFT, 1);
}

/* ---- plain sessions ---- */

int session_exec(struct runner *runner, struct fields *args, struct session **ret_session, struct err *err) {
    TRY(session_lookup(runner, args->text[FIELD_SESSION], ret_session, err));
    if (!(*ret_session)->plain)
        return err_set(err, ERR_INVALID, "session '%s' has a shell: run commands in it with SESSION_RUN",
                       (*ret_session)->name);
    if (!args->has[FIELD_CWD]) {
        args->has[FIELD_CWD] = true;
        args->text[FIELD_CWD] = (*ret_session)->cwd;
    }
    return 0;
}

void session_exec_begun(struct session *session, struct process *process, const struct fields *args) {
    process->session = xstrdup(session->name);
    char *cwd = xstrdup(args->text[FIELD_CWD]); /* may be the session's own */
    free(session->cwd);
    session->cwd = cwd;
    free(session->command);
    session->command = xstrdup(process->command);
    session->commands++;
    session_used(session);
}
