/* Interpreters: sessions, and code in them. Called by dialects. Invariant: nothing of a session is kept here; the
 * arguments of its process say what it is. */
#include "box/interpreter/interpreter.h"

#include <sys/random.h>

#include "base/base.h"
#include "base/json.h"
#include "box/interpreter/talk.h"

#define UNNAMED_MARK "auto-"
enum {
    TURN_MS = 600000, /* until its turn came */
    LOOK_MS = 1000,
    QUIT_MS = 300,
    END_MS = 5000,
    TRIES = 3, /* of code whose session ends before its turn comes */
    ABOUT_MS = 30000,
    ABOUT_BYTES = 4 << 20,
};

bool interpreter_name_ok(const char *name) {
    return text_name(name, INTERPRETER_NAME_BYTES);
}

int interpreter_missing(const struct language *language, const char *program, struct err *err) {
    return err_set(err, ERR_UNSUPPORTED,
                   "%s is not installed in this box: put '%s' into its template or image (Debian: package %s)",
                   language->title, program, language->package);
}

int interpreter_random_name(char *out, struct err *err) {
    uint8_t random[TALK_ID_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_set(err, ERR_INTERNAL, "no random bytes");
    text_hex(out, random, sizeof random);
    return 0;
}

int interpreter_new_name(const char *prefix, char ret_name[INTERPRETER_NAME_BYTES + 1], struct err *err) {
    char random[2 * TALK_ID_BYTES + 1];
    TRY(interpreter_random_name(random, err));
    snprintf(ret_name, INTERPRETER_NAME_BYTES + 1, "%.16s%s", prefix, random);
    return 0;
}

/* ---- sessions ---- */

struct interpreter_session_walk {
    const struct language *language;
    struct interpreter_sessions *found;
};

/* A path as a part of an argument that is taken apart at spaces again: "/a%20b". False: it does not fit. */
static bool interpreter_cwd_encode(const char *cwd, char out[INTERPRETER_CWD_BYTES + 1]) {
    size_t n = 0;
    for (; *cwd; cwd++) {
        bool plain = (unsigned char)*cwd > ' ' && (unsigned char)*cwd < 0x7f && *cwd != '%';
        if (n + (plain ? 1 : 3) > INTERPRETER_CWD_BYTES)
            return false;
        n += (size_t)snprintf(out + n, INTERPRETER_CWD_BYTES + 1 - n, plain ? "%c" : "%%%02x", (unsigned char)*cwd);
    }
    out[n] = 0;
    return true;
}

static void interpreter_cwd_decode(const char *text, size_t len, char out[INTERPRETER_CWD_BYTES + 1]) {
    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)text[i];
        if (byte == '%' && i + 2 < len && sscanf(text + i + 1, "%2x", &byte) == 1)
            i += 2;
        *out++ = (char)byte;
    }
    *out = 0;
}

/* "python3 -u -X cubby=python:NAME/CWD -c ...", "node --title=cubby=node:NAME/CWD -e ..." */
static void interpreter_session_process(void *user, const struct process *process) {
    struct interpreter_session_walk *walk = user;
    const char *mark = walk->language->mark, *at = strstr(process->command, mark),
               *space = strchr(process->command, ' ');
    struct interpreter_session *session = &walk->found->items[walk->found->count];
    if (walk->found->count == sizeof walk->found->items / sizeof *walk->found->items || !process->running || !at ||
        !space || at - process->command > 64 || space - process->command >= (ptrdiff_t)sizeof session->program)
        return;
    at += strlen(mark);
    size_t len = strcspn(at, " /"), cwd = strcspn(at + len, " ");
    if (!at[len] || !at[len + cwd] || !len || len > INTERPRETER_NAME_BYTES || cwd > INTERPRETER_CWD_BYTES)
        return;
    *session = (struct interpreter_session){.pid = process->pid,
                                            .created_ms = process->started_ms,
                                            .printed = process->result.stdout_bytes,
                                            .unnamed = !strncmp(at, UNNAMED_MARK, strlen(UNNAMED_MARK))};
    memcpy(session->name, at, len);
    memcpy(session->program, process->command, (size_t)(space - process->command));
    interpreter_cwd_decode(at + len, cwd, session->cwd);
    walk->found->count++;
}

int interpreter_sessions(struct box *box, const struct language *language, struct interpreter_sessions *ret_sessions,
                         struct err *err) {
    struct interpreter_session_walk walk = {.language = language, .found = ret_sessions};
    ret_sessions->count = 0;
    if (language->shell)
        return interpreter_shell_sessions(box, ret_sessions, err);
    return box_processes(box, 0, interpreter_session_process, &walk, err);
}

int interpreter_find(struct box *box, const struct language *language, const char *name,
                     struct interpreter_session *ret_session, struct err *err) {
    struct interpreter_sessions all;
    int failed = interpreter_sessions(box, language, &all, err);
    for (size_t i = 0; !failed && i < all.count; i++)
        if (!strcmp(all.items[i].name, name)) {
            *ret_session = all.items[i];
            return 0;
        }
    return failed ? failed : err_set(err, ERR_NOT_FOUND, "Session not found");
}

int interpreter_session_say(struct box *box, const struct interpreter_session *session, const char *line, size_t len,
                            struct err *err) {
    struct view view = view_of(line, len);
    return box_input(box, session->pid, false, box_read_view, &view, -1, err);
}

/* The oldest unnamed one is ended, unless something runs in it: only its driver knows. */
static int interpreter_session_room(struct box *box, const struct language *language, struct err *err) {
    struct interpreter_sessions all;
    int failed = interpreter_sessions(box, language, &all, err);
    if (failed || all.count < LIMIT_INTERPRETER_SESSIONS)
        return failed;
    for (size_t i = 0; i < all.count; i++) {
        struct err ignored;
        const uint64_t most[2] = {UINT64_MAX, UINT64_MAX};
        bool running = false;
        if (all.items[i].unnamed &&
            (interpreter_session_say(box, &all.items[i], "quit - -\n", 9, &ignored) < 0 ||
             box_output_wait(box, all.items[i].pid, most, QUIT_MS, -1, &running, &ignored) < 0 || !running))
            return 0;
    }
    return err_set(err, ERR_LIMIT,
                   "this box has %u sessions of %s, which is the limit: delete one that is no longer needed",
                   LIMIT_INTERPRETER_SESSIONS, language->title);
}

static int interpreter_session_start(struct box *box, const struct language *language,
                                     const struct interpreter_open *open, uint64_t idle_s,
                                     struct interpreter_session *session, struct err *err) {
    char mark[160 + INTERPRETER_CWD_BYTES], idle[24], path[INTERPRETER_CWD_BYTES + 1];
    const char *argv[8] = {session->program}, *cwd = open->cwd;
    size_t n = 1;
    bool named = cwd && *cwd == '/' && interpreter_cwd_encode(cwd, path);
    snprintf(mark, sizeof mark, "%s%s%s%s", language->mark_flag, language->mark, session->name, named ? path : "");
    snprintf(session->cwd, sizeof session->cwd, "%s", named ? cwd : "");
    snprintf(idle, sizeof idle, "%llu", (unsigned long long)idle_s);
    for (const char *const *flag = language->flags; *flag; flag++)
        argv[n++] = *flag;
    argv[n++] = mark;
    argv[n++] = language->eval;
    argv[n++] = language->driver;
    argv[n++] = idle;
    const struct exec_request exec = {.argv = argv,
                                      .env = open->env,
                                      .cwd = cwd,
                                      .root = open->root,
                                      .uid = open->uid,
                                      .gid = open->gid,
                                      .sudo = open->sudo};
    int failed = box_spawn(box, &exec, &session->pid, &session->created_ms, err);
    return failed && err->why == WHY_NO_COMMAND ? interpreter_missing(language, session->program, err) : failed;
}

/* Two that begin at once: the older stays, for every daemon the same. */
static int interpreter_session_settle(struct box *box, const struct language *language,
                                      struct interpreter_session *session, bool *ret_created, struct err *err) {
    struct interpreter_session first;
    int failed = interpreter_find(box, language, session->name, &first, err);
    *ret_created = failed == -ERR_NOT_FOUND || (!failed && first.pid == session->pid);
    if (failed) /* NOT_FOUND: it ended at once, and the first call on it says why */
        return failed == -ERR_NOT_FOUND ? 0 : failed;
    if (!*ret_created)
        interpreter_end(box, session);
    *session = first;
    return 0;
}

int interpreter_open(struct box *box, const struct language *language, const struct interpreter_open *open,
                     struct interpreter_session *ret_session, bool *ret_created, struct err *err) {
    struct interpreter_session session = {.unnamed = !open->name};
    char random[2 * TALK_ID_BYTES + 1];
    uint64_t idle_s = open->name ? INTERPRETER_IDLE_S : INTERPRETER_UNNAMED_IDLE_S;
    *ret_created = false;
    if (language->shell)
        return interpreter_shell_open(box, open, ret_session, ret_created, err);
    int failed = open->name ? interpreter_find(box, language, open->name, ret_session, err) : -ERR_NOT_FOUND;
    if (failed != -ERR_NOT_FOUND)
        return failed;
    TRY(interpreter_random_name(random, err));
    snprintf(session.name, sizeof session.name, "%s%s", open->name ? "" : UNNAMED_MARK,
             open->name ? open->name : random);
    snprintf(session.program, sizeof session.program, "%s", open->program ? open->program : language->program);
    *ret_created = true;
    TRY(interpreter_session_room(box, language, err)
            ?: interpreter_session_start(box, language, open, open->idle_s ? open->idle_s : idle_s, &session, err));
    TRY(open->name ? interpreter_session_settle(box, language, &session, ret_created, err) : 0);
    *ret_session = session;
    return 0;
}

void interpreter_end(struct box *box, const struct interpreter_session *session) {
    if (session->shell)
        interpreter_shell_end(box, session);
    else
        box_signal_tree(box, session->pid, SIGKILL, ERR_IGNORED);
}

int interpreter_end_wait(struct box *box, const struct interpreter_session *session, struct err *err) {
    const uint64_t most[2] = {UINT64_MAX, UINT64_MAX};
    bool running = false;
    interpreter_end(box, session);
    int failed = session->shell ? 0 : box_output_wait(box, session->pid, most, END_MS, -1, &running, err);
    if (failed && failed != -ERR_NOT_FOUND)
        return failed;
    return running ? err_set(err, ERR_TIMEOUT, "the session hangs in the kernel and does not end") : 0;
}

int interpreter_look(struct box *box, const struct interpreter_session *session, const char *cwd, uint64_t idle_s,
                     const struct interpreter_caller *caller, struct arena *arena, struct interpreter_state *ret_state,
                     struct err *err) {
    struct talk talk = {.box = box, .session = session, .caller = caller};
    autobuf body = buf_max(LIMIT_PATH_BYTES * 6 + 256);
    json_t *facts = NULL;
    struct json json = json_begin(&body);
    json_put_str(&json, "cwd", cwd);
    json_put_uint(&json, "idle", idle_s);
    json_close(&json, '}');
    int outcome = interpreter_talk_ask(&talk, "look", &body, LOOK_MS, 0, err);
    if (outcome == STUCK)
        outcome = err_set(err, ERR_TIMEOUT, "the session is busy");
    else if (outcome == DIED)
        outcome = err_set(err, ERR_NOT_FOUND, "Session not found");
    if (!outcome)
        outcome = interpreter_talk_parse(&talk, &facts, err);
    interpreter_talk_done(&talk);
    if (outcome)
        return outcome;
    const char *at = json_string_value(json_object_get(facts, "cwd"));
    double used = json_number_value(json_object_get(facts, "used")),
           idle = json_number_value(json_object_get(facts, "idle"));
    *ret_state = (struct interpreter_state){.cwd = arena_strdup(arena, at ? at : ""),
                                            .used_s = used > 0 && used < 1e11 ? used : 0,
                                            .idle_s = idle > 0 && idle < 1e11 ? (uint64_t)idle : 0,
                                            .busy = json_is_true(json_object_get(facts, "busy"))};
    json_decref(facts);
    return 0;
}

/* What a driver is asked. */
static void interpreter_request(const struct interpreter_run *run, bool created, struct buf *body) {
    struct json json = json_begin(body);
    json_put_strn(&json, "code", run->code, run->len);
    json_put_uint(&json, "timeout", run->timeout_s);
    if (run->cwd && !created)
        json_put_str(&json, "cwd", run->cwd);
    if (run->sink)
        json_put_bool(&json, "live", true);
    if (run->typed)
        json_put_bool(&json, "typed", true);
    if (run->env) {
        json_put_open(&json, "env", '{');
        for (const char *const *row = run->env; *row; row++) {
            size_t len = strcspn(*row, "=");
            json_keyn(&json, *row, len);
            json_str(&json, (*row)[len] ? *row + len + 1 : "");
        }
        json_close(&json, '}');
    }
    json_close(&json, '}');
}

/* enum outcome, or negative. DIED: before it began, which says nothing about the code; else (or if `last`) there is a
 * result. */
static int interpreter_run_in(struct box *box, const struct interpreter_run *run, bool created, bool last,
                              const struct interpreter_caller *caller, const struct interpreter_session *session,
                              struct interpreter_result *ret_result, struct err *err) {
    struct talk talk = {.box = box, .session = session, .caller = caller, .sink = run->sink};
    autobuf body = buf_max(6 * LIMIT_JSON_BYTES);
    interpreter_request(run, created, &body);
    uint64_t turn_ms = run->timeout_s ? TURN_MS : UINT64_MAX;
    int outcome = interpreter_talk_ask(&talk, "run", &body, turn_ms, run->timeout_s * 1000, err);
    if (outcome < 0)
        interpreter_talk_stop(&talk);
    else if (outcome != DIED || talk.begun || created || last)
        outcome = interpreter_output_result(&talk, (enum outcome)outcome, run->timeout_s, ret_result, err);
    interpreter_talk_done(&talk);
    return outcome;
}

int interpreter_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                    const struct interpreter_caller *caller, struct interpreter_session *ret_session,
                    struct interpreter_result *ret_result, struct err *err) {
    struct interpreter_open open = {.name = run->name, .program = run->program, .cwd = run->cwd, .idle_s = run->idle_s};
    char cwd[sizeof ret_session->cwd];
    int outcome = DIED;
    *ret_session = (struct interpreter_session){.pid = 0};
    if (run->once && language->as_program)
        return interpreter_program_run(box, language, run, caller, ret_result, err);
    for (int i = 0; outcome == DIED; i++) { /* a session that ended while this waited for its turn has a successor */
        bool created;
        int failed = interpreter_open(box, language, &open, ret_session, &created, err);
        if (failed)
            return failed;
        if (language->shell)
            return interpreter_shell_run(box, run, caller, ret_session, ret_result, err);
        outcome = interpreter_run_in(box, run, created, i == TRIES, caller, ret_session, ret_result, err);
        memcpy(cwd, ret_session->cwd, sizeof cwd);
        open.cwd = *cwd ? cwd : run->cwd;
    }
    if (run->once)
        interpreter_end(box, ret_session);
    return outcome;
}

/* ---- facts ---- */

static int interpreter_about_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct buf *out = user;
    if (stream == STREAM_STDOUT)
        buf_put(out, data, len);
    return out->failed ? -ERR_TOO_LARGE : 0;
}

/* The next line of the text, which is cut there; "" at its end. */
static char *interpreter_about_line(char **text) {
    char *line = *text, *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    *end = 0;
    return line;
}

static void interpreter_about_take(struct arena *arena, char *text, struct interpreter_about *about) {
    size_t cap = 0;
    struct interpreter_package *packages = NULL;
    *about = (struct interpreter_about){.version = interpreter_about_line(&text),
                                        .programs = interpreter_about_line(&text),
                                        .root = interpreter_about_line(&text)};
    while (*text) {
        char *name = interpreter_about_line(&text), *tab = strchr(name, '\t');
        if (!tab)
            continue;
        *tab = 0;
        vec_add(packages, about->count, cap) = (struct interpreter_package){.name = name, .version = tab + 1};
    }
    about->packages = (void *)arena_copy(arena, packages, about->count * sizeof *packages);
    free(packages);
}

int interpreter_about(struct box *box, const struct language *language, bool packages, int watch, struct arena *arena,
                      struct interpreter_about *ret_about, struct err *err) {
    const char *const argv[] = {language->program, language->eval, language->about, packages ? "packages" : NULL, NULL};
    const struct exec_request exec = {.argv = argv, .timeout_ms = ABOUT_MS};
    autobuf out = buf_max(ABOUT_BYTES);
    const struct exec_sink sink = {.output = interpreter_about_put, .user = &out};
    struct exec_result result = {0};
    int failed = box_exec(box, &exec, &sink, watch, &result, err);
    if (failed == -ERR_NOT_FOUND)
        return interpreter_missing(language, language->program, err);
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "the list is larger than %d bytes", ABOUT_BYTES);
    if (failed)
        return failed;
    if (!result.exited || result.exit_code || !out.len)
        return err_set(err, ERR_IO, "%s in this box does not work: '%s %s ...' ended with %s %d", language->title,
                       language->program, language->eval, result.exited ? "exit code" : "signal",
                       result.exited ? result.exit_code : result.signal);
    interpreter_about_take(arena, arena_copy(arena, out.data, out.len), ret_about);
    return 0;
}
