/* Interpreters: sessions, code, and what drivers and we say to each other: head of python.py.
 *
 * 1. A line is one INPUT call, and one frame: lines of several requests never mix.
 * 2. A call that waits reads the process's ring from where it was before it asked, and acknowledges each piece: so a ring
 *    cannot run away from it.
 * 3. What a driver writes is the box's word: bounded, parsed with limits, and only ever shown to the box's own clients. */
#include "box/interpreter/interpreter.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/headtail.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"

#define UNNAMED_MARK "auto-"
enum {
    PIECE_BYTES = 45000,    /* of a request; as base64 it fits a frame */
    LINE_BYTES = 256 << 10, /* of a driver: its pieces are half of it */
    ANSWER_BYTES = 9 << 20, /* whole: the drivers' own limit, and a little */
    READ_BYTES = 256 << 10, /* of the ring at once */
    TURN_MS = 600000,       /* until its turn came */
    GRACE_MS = 3000,        /* beyond its own time, until it is killed; between two pieces of its answer */
    LOOK_MS = 1000,
    QUIT_MS = 300,
    ID_BYTES = 16,
    ARGUMENT_BYTES = 100000, /* the kernel takes 128 KiB as one argument */
    ABOUT_MS = 30000,
    ABOUT_BYTES = 4 << 20,
    TRACE_LINES = 50, /* of a program's uncaught error */
};
enum outcome {
    ANSWERED,
    DIED,  /* and the session with it: the code ended it, or memory did */
    STUCK, /* it could not be interrupted, and was killed */
};

bool interpreter_name_ok(const char *name) {
    return text_name(name, INTERPRETER_NAME_BYTES);
}

static int interpreter_missing(const struct language *language, const char *program, struct err *err) {
    return err_set(err, ERR_UNSUPPORTED,
                   "%s is not installed in this box: put '%s' into its template or image (Debian: package %s)",
                   language->title, program, language->package);
}

static int random_name(char *out, struct err *err) { /* 2 * ID_BYTES + 1 */
    uint8_t random[ID_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_set(err, ERR_INTERNAL, "no random bytes");
    text_hex(out, random, sizeof random);
    return 0;
}

/* ---- sessions ---- */

struct session_walk {
    const struct language *language;
    struct interpreter_sessions *found;
};

/* "python3 -u -X cubby=python:NAME -c ...", "node --title=cubby=node:NAME -e ..." */
static void session_process(void *user, const struct process *process) {
    struct session_walk *walk = user;
    const char *mark = walk->language->mark, *at = strstr(process->command, mark),
               *space = strchr(process->command, ' ');
    struct interpreter_session *session = &walk->found->items[walk->found->count];
    if (walk->found->count == sizeof walk->found->items / sizeof *walk->found->items || !process->running || !at ||
        !space || at - process->command > 64 || space - process->command >= (ptrdiff_t)sizeof session->program)
        return;
    at += strlen(mark);
    size_t len = strcspn(at, " ");
    if (!at[len] || !len || len > INTERPRETER_NAME_BYTES)
        return;
    *session = (struct interpreter_session){.pid = process->pid,
                                            .created_ms = process->started_ms,
                                            .printed = process->result.stdout_bytes,
                                            .unnamed = !strncmp(at, UNNAMED_MARK, strlen(UNNAMED_MARK))};
    memcpy(session->name, at, len);
    memcpy(session->program, process->command, (size_t)(space - process->command));
    walk->found->count++;
}

int interpreter_sessions(struct box *box, const struct language *language, struct interpreter_sessions *ret_sessions,
                         struct err *err) {
    struct session_walk walk = {.language = language, .found = ret_sessions};
    ret_sessions->count = 0;
    return box_processes(box, 0, session_process, &walk, err);
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

static int session_say(struct box *box, const struct interpreter_session *session, const char *line, size_t len,
                       struct err *err) {
    struct view view = view_of(line, len);
    return box_input(box, session->pid, false, box_read_view, &view, -1, err);
}

/* One that nobody named makes room, the oldest first, unless something runs in it: only its driver knows. */
static int session_room(struct box *box, const struct language *language, struct err *err) {
    struct interpreter_sessions all;
    int failed = interpreter_sessions(box, language, &all, err);
    if (failed || all.count < LIMIT_INTERPRETER_SESSIONS)
        return failed;
    for (size_t i = 0; i < all.count; i++) {
        struct err ignored;
        const uint64_t most[2] = {UINT64_MAX, UINT64_MAX};
        bool running = false;
        if (all.items[i].unnamed &&
            (session_say(box, &all.items[i], "quit - -\n", 9, &ignored) < 0 ||
             box_output_wait(box, all.items[i].pid, most, QUIT_MS, -1, &running, &ignored) < 0 || !running))
            return 0;
    }
    return err_set(err, ERR_LIMIT,
                   "this box has %u sessions of %s, which is the limit: delete one that is no longer needed",
                   LIMIT_INTERPRETER_SESSIONS, language->title);
}

static int session_start(struct box *box, const struct language *language, const char *cwd, uint64_t idle_s,
                         struct interpreter_session *session, struct err *err) {
    char mark[160], idle[24];
    const char *argv[8] = {session->program};
    size_t n = 1;
    snprintf(mark, sizeof mark, "%s%s%s", language->mark_flag, language->mark, session->name);
    snprintf(idle, sizeof idle, "%llu", (unsigned long long)idle_s);
    for (const char *const *flag = language->flags; *flag; flag++)
        argv[n++] = *flag;
    argv[n++] = mark;
    argv[n++] = language->eval;
    argv[n++] = language->driver;
    argv[n++] = idle;
    const struct exec_request exec = {.argv = argv, .cwd = cwd};
    int failed = box_spawn(box, &exec, &session->pid, &session->created_ms, err);
    return failed && err->why == WHY_NO_COMMAND ? interpreter_missing(language, session->program, err) : failed;
}

/* Two that begin at once: the older stays, for every daemon the same. */
static int session_settle(struct box *box, const struct language *language, struct interpreter_session *session,
                          bool *ret_created, struct err *err) {
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
    char random[2 * ID_BYTES + 1];
    uint64_t idle_s = open->name ? INTERPRETER_IDLE_S : INTERPRETER_UNNAMED_IDLE_S;
    *ret_created = false;
    int failed = open->name ? interpreter_find(box, language, open->name, ret_session, err) : -ERR_NOT_FOUND;
    if (failed != -ERR_NOT_FOUND)
        return failed;
    failed = random_name(random, err);
    if (open->name)
        snprintf(session.name, sizeof session.name, "%s", open->name);
    else
        snprintf(session.name, sizeof session.name, UNNAMED_MARK "%s", random);
    snprintf(session.program, sizeof session.program, "%s", open->program ? open->program : language->program);
    if (!failed)
        failed = session_room(box, language, err);
    if (!failed)
        failed = session_start(box, language, open->cwd, open->idle_s ? open->idle_s : idle_s, &session, err);
    if (!failed && open->name)
        failed = session_settle(box, language, &session, ret_created, err);
    else
        *ret_created = true;
    if (!failed)
        *ret_session = session;
    return failed;
}

void interpreter_end(struct box *box, const struct interpreter_session *session) {
    struct err ignored;
    box_signal_tree(box, session->pid, SIGKILL, &ignored);
}

/* ---- talk ---- */

struct talk {
    const struct interpreter_caller *caller;
    struct box *box;
    const struct interpreter_session *session;
    char id[2 * ID_BYTES + 1];
    uint64_t offset, deadline_ms, own_ms; /* own_ms: what it has from when it begins */
    struct buf line, answer;
    bool skipping; /* the rest of a line that is too long */
    bool done;
};

/* A failure does not matter: the process is gone then. */
static void talk_tell(struct talk *talk, const char *word) {
    struct err ignored;
    char line[64];
    int n = snprintf(line, sizeof line, "%s %s\n", word, talk->id);
    session_say(talk->box, talk->session, line, (size_t)n, &ignored);
}

static int talk_send(struct talk *talk, const char *last, const struct buf *body, struct err *err) {
    int failed = 0;
    for (size_t at = 0; !failed && at < body->len; at += PIECE_BYTES) {
        size_t left = body->len - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
        autobuf line = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        buf_printf(&line, "%s %s ", n < left ? "part" : last, talk->id);
        text_base64(&line, body->data + at, n);
        buf_byte(&line, '\n');
        failed = session_say(talk->box, talk->session, (const char *)line.data, line.len, err);
    }
    return failed;
}

static bool talk_word(const struct talk *talk, const char *word, size_t *ret_len) {
    char begin[64];
    size_t len = (size_t)snprintf(begin, sizeof begin, "%s %s", word, talk->id);
    *ret_len = len + 1;
    return talk->line.len >= len && !memcmp(talk->line.data, begin, len) &&
           (talk->line.len == len || talk->line.data[len] == ' ');
}

/* Lines that are not for us are for others who wait, or a program's. */
static int talk_line(struct talk *talk, struct err *err) {
    size_t len;
    if (talk_word(talk, "begin", &len)) {
        talk->deadline_ms = clock_ms() + talk->own_ms + GRACE_MS;
        return 0;
    }
    talk->done = talk_word(talk, "done", &len);
    if ((!talk->done && !talk_word(talk, "part", &len)) || len > talk->line.len)
        return 0;
    size_t before = talk->answer.cap;
    buf_put(&talk->answer, talk->line.data + len, talk->line.len - len);
    if (talk->answer.failed)
        return err_set(err, ERR_PROTOCOL, "the session's answer is larger than %d bytes", ANSWER_BYTES);
    talk_tell(talk, "next");
    if (clock_ms() + GRACE_MS > talk->deadline_ms)
        talk->deadline_ms = clock_ms() + GRACE_MS;
    return talk->caller->hold(talk->caller->user, talk->answer.cap - before, err);
}

static int talk_take(struct talk *talk, const uint8_t *data, size_t len, struct err *err) {
    while (len && !talk->done) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        if (talk->line.len + n > LINE_BYTES)
            talk->skipping = true;
        else
            buf_put(&talk->line, data, n);
        data += n + (end != NULL);
        len -= n + (end != NULL);
        if (!end)
            return 0;
        int failed = talk->skipping ? 0 : talk_line(talk, err);
        buf_clear(&talk->line);
        talk->skipping = false;
        if (failed)
            return failed;
    }
    return 0;
}

/* enum outcome, or negative. */
static int talk_listen(struct talk *talk, struct err *err) {
    while (!talk->done) {
        uint64_t now = clock_ms();
        struct output_slice slice;
        if (now >= talk->deadline_ms)
            return STUCK;
        autobuf out = buf_max(READ_BYTES);
        int failed = box_output(talk->box, talk->session->pid, STREAM_STDOUT, talk->offset, talk->deadline_ms - now,
                                talk->caller->watch, &out, &slice, err);
        if (failed == -ERR_NOT_FOUND)
            return DIED;
        if (failed)
            return failed;
        if (slice.first > talk->offset)
            return err_set(err, ERR_IO, "what the session answered was lost: its programs print too much beside it");
        talk->offset = slice.next;
        failed = talk_take(talk, out.data, out.len, err);
        if (failed)
            return failed;
        if (!talk->done && !out.len && !slice.running)
            return DIED;
    }
    return ANSWERED;
}

/* Says the word with the body and hears the answer: enum outcome, or negative. For talk_done either way. */
static int talk_ask(struct talk *talk, const char *word, const struct buf *body, uint64_t wait_ms, uint64_t own_ms,
                    struct err *err) {
    talk->offset = talk->session->printed;
    talk->deadline_ms = clock_ms() + wait_ms;
    talk->own_ms = own_ms;
    talk->line = buf_max(LINE_BYTES);
    talk->answer = buf_max(ANSWER_BYTES);
    int outcome = random_name(talk->id, err);
    if (!outcome)
        outcome = talk_send(talk, word, body, err);
    if (outcome == -ERR_GONE || outcome == -ERR_NOT_FOUND)
        return DIED;
    return outcome ? outcome : talk_listen(talk, err);
}

static void talk_done(struct talk *talk) {
    buf_done(&talk->line);
    buf_done(&talk->answer);
}

static int talk_parse(struct talk *talk, json_t **ret_value, struct err *err) {
    const char *data = (const char *)talk->answer.data;
    json_error_t why = {.text = "it is too large"};
    json_t *value = NULL;
    if (json_measure(data, talk->answer.len, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES) == JSON_FITS)
        value = json_loadb(data, talk->answer.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (json_is_object(value)) {
        *ret_value = value;
        return 0;
    }
    json_decref(value);
    return err_set(err, ERR_PROTOCOL, "the session's answer cannot be read: %.200s",
                   value ? "it is not an object" : why.text);
}

/* ---- results ---- */

void interpreter_result_done(struct interpreter_result *result) {
    json_decref(result->answer);
    buf_done(&result->texts[0]);
    buf_done(&result->texts[1]);
    arena_done(&result->arena);
}

static const char *json_text(const json_t *object, const char *name, size_t *ret_len) {
    const json_t *value = json_object_get(object, name);
    *ret_len = json_string_length(value);
    return json_string_value(value);
}

static void output_mimes(struct arena *arena, json_t *data, struct interpreter_output *output) {
    struct interpreter_mime *mime = arena_alloc(arena, (json_object_size(data) + 1) * sizeof *mime);
    const char *type;
    json_t *value;
    output->mimes = mime;
    json_object_foreach(data, type, value) {
        char *json = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        size_t len = json ? strlen(json) : json_string_length(value);
        *mime++ = (struct interpreter_mime){.type = type,
                                            .text = json ? arena_copy(arena, json, len) : json_string_value(value),
                                            .len = len,
                                            .json = json};
        free(json);
    }
    output->count = (size_t)(mime - output->mimes);
}

static void output_traceback(struct arena *arena, json_t *lines, struct interpreter_output *output) {
    const char **out = arena_alloc(arena, (json_array_size(lines) + 1) * sizeof *out);
    size_t i;
    json_t *line;
    output->traceback = out;
    json_array_foreach(lines, i, line) {
        if (json_is_string(line))
            *out++ = json_string_value(line);
    }
}

/* False: it is not the output of a notebook. */
static bool output_take(struct interpreter_result *result, json_t *value, struct interpreter_output *output) {
    static const char *const kinds[] = {"stream", "display_data", "execute_result", "error"};
    size_t len, kind = 0;
    const char *type = json_text(value, "output_type", &len), *name = json_text(value, "name", &len);
    while (kind < 4 && (!type || strcmp(type, kinds[kind]) != 0))
        kind++;
    *output = (struct interpreter_output){.kind = (enum interpreter_kind)kind};
    switch (kind) {
    case OUTPUT_STREAM:
        output->text = json_text(value, "text", &output->len);
        output->is_stderr = name && !strcmp(name, "stderr");
        if (output->text)
            buf_put(&result->texts[output->is_stderr], output->text, output->len);
        return output->text;
    case OUTPUT_DISPLAY:
    case OUTPUT_RESULT:
        output->numbered = json_is_integer(json_object_get(value, "execution_count"));
        output_mimes(&result->arena, json_object_get(value, "data"), output);
        return true;
    case OUTPUT_FAILURE:
        output->name = json_text(value, "ename", &len);
        output->text = json_text(value, "evalue", &output->len);
        output_traceback(&result->arena, json_object_get(value, "traceback"), output);
        return output->name && output->text;
    default:
        return false;
    }
}

static void output_failure(struct interpreter_result *result, struct interpreter_output *output, const char *name,
                           const char *text) {
    const char **traceback = arena_alloc(&result->arena, 2 * sizeof *traceback);
    *traceback = arena_printf(&result->arena, "%s: %s", name, text);
    *output = (struct interpreter_output){
        .kind = OUTPUT_FAILURE, .name = name, .text = text, .len = strlen(text), .traceback = traceback};
}

struct died {
    struct arena *arena;
    const char *how;
};

static void died_each(void *user, const struct process *process) {
    struct died *died = user;
    const struct exec_result *result = &process->result;
    died->how = result->oom_killed ? "the box ran out of memory"
                                   : arena_printf(died->arena, "%s %d", result->exited ? "exit code" : "signal",
                                                  result->exited ? result->exit_code : result->signal);
}

/* What became of the code: what the driver answered, or why it did not. */
static int result_take(struct talk *talk, enum outcome outcome, uint64_t timeout_s, struct interpreter_result *result,
                       struct err *err) {
    json_t *answer = NULL, *value;
    int failed = outcome == ANSWERED ? talk_parse(talk, &answer, err) : 0;
    if (failed)
        return failed;
    const char *status = json_string_value(json_object_get(answer, "status"));
    json_t *outputs = json_object_get(answer, "outputs"), *number = json_object_get(answer, "execution_count");
    size_t i;
    *result = (struct interpreter_result){.status = CODE_FAILED,
                                          .answer = answer,
                                          .numbered = json_is_integer(number),
                                          .number = json_integer_value(number),
                                          .texts = {buf_max(2 * ANSWER_BYTES), buf_max(2 * ANSWER_BYTES)}};
    struct interpreter_output *out = arena_alloc(&result->arena, (json_array_size(outputs) + 1) * sizeof *out);
    result->outputs = out;
    json_array_foreach(outputs, i, value) {
        out += output_take(result, value, out);
    }
    if (status && strcmp(status, "error") != 0)
        result->status = !strcmp(status, "ok") ? CODE_OK : !strcmp(status, "timeout") ? CODE_TIMEOUT : CODE_FAILED;
    if (outcome == DIED) {
        struct died died = {.arena = &result->arena, .how = "it is gone"};
        struct err ignored;
        box_processes(talk->box, talk->session->pid, died_each, &died, &ignored);
        output_failure(result, out++, "DeadKernelError",
                       arena_printf(&result->arena, "the session ended while the code ran: %s", died.how));
    } else if (outcome == STUCK) {
        interpreter_end(talk->box, talk->session);
        output_failure(
            result, out++, "TimeoutError",
            arena_printf(&result->arena,
                         "the code did not end within %llu seconds nor when it was interrupted: its session was ended",
                         (unsigned long long)timeout_s));
        result->status = CODE_TIMEOUT;
    }
    result->count = (size_t)(out - result->outputs);
    return 0;
}

/* ---- code in a session ---- */

static int session_run(struct box *box, const struct interpreter_session *session, const struct interpreter_run *run,
                       bool created, const struct interpreter_caller *caller, struct interpreter_result *ret_result,
                       struct err *err) {
    struct talk talk = {.box = box, .session = session, .caller = caller};
    struct json json;
    autobuf body = buf_max(6 * LIMIT_JSON_BYTES);
    json_init(&json, &body);
    json_open(&json, '{');
    json_put_strn(&json, "code", run->code, run->len);
    json_put_uint(&json, "timeout", run->timeout_s);
    if (run->cwd && !created)
        json_put_str(&json, "cwd", run->cwd);
    json_close(&json, '}');
    int outcome = talk_ask(&talk, "run", &body, TURN_MS, run->timeout_s * 1000, err);
    if (outcome < 0)
        talk_tell(&talk, "stop");
    else
        outcome = result_take(&talk, (enum outcome)outcome, run->timeout_s, ret_result, err);
    talk_done(&talk);
    return outcome;
}

int interpreter_look(struct box *box, const struct interpreter_session *session, const char *cwd, uint64_t idle_s,
                     const struct interpreter_caller *caller, struct arena *arena, struct interpreter_state *ret_state,
                     struct err *err) {
    struct talk talk = {.box = box, .session = session, .caller = caller};
    autobuf body = buf_max(LIMIT_PATH_BYTES * 6 + 256);
    struct json json;
    json_t *facts = NULL;
    json_init(&json, &body);
    json_open(&json, '{');
    json_put_str(&json, "cwd", cwd);
    json_put_uint(&json, "idle", idle_s);
    json_close(&json, '}');
    int outcome = talk_ask(&talk, "look", &body, LOOK_MS, 0, err);
    if (outcome == STUCK)
        outcome = err_set(err, ERR_TIMEOUT, "the session is busy");
    else if (outcome == DIED)
        outcome = err_set(err, ERR_NOT_FOUND, "Session not found");
    if (!outcome)
        outcome = talk_parse(&talk, &facts, err);
    talk_done(&talk);
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

/* ---- programs ---- */

struct program_output {
    struct headtail streams[2];
    const struct interpreter_caller *caller;
    struct err *err;
};

static int program_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct program_output *output = user;
    struct headtail *headtail = &output->streams[stream == STREAM_STDERR];
    size_t before = headtail->head.len + headtail->tail.len;
    headtail_put(headtail, data, len);
    return output->caller->hold(output->caller->user, 3 * (headtail->head.len + headtail->tail.len - before),
                                output->err);
}

/* The sentence of an uncaught error in what a program wrote: "TypeError: bad", and the lines from there on. */
static bool program_uncaught(struct arena *arena, const char *text, size_t size, struct interpreter_output *output) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const char *end = text + size, *line = text, *stop;
    size_t len = 0, count = 0;
    for (; line && line < end; line = memchr(line, '\n', (size_t)(end - line)), line = line ? line + 1 : NULL) {
        len = strspn(line, letters); /* a NUL stands behind the text */
        if (len >= 5 && (size_t)(end - line) > len + 2 && !memcmp(line + len - 5, "Error", 5) && line[len] == ':')
            break;
    }
    if (!line || line >= end)
        return false;
    const char *said = line + len + 2, **traceback = arena_alloc(arena, (TRACE_LINES + 1) * sizeof *traceback);
    stop = memchr(line, '\n', (size_t)(end - line));
    stop = stop ? stop : end;
    *output = (struct interpreter_output){.kind = OUTPUT_FAILURE,
                                          .name = arena_copy(arena, line, len),
                                          .text = said < stop ? said : stop,
                                          .len = said < stop ? (size_t)(stop - said) : 0,
                                          .traceback = traceback};
    for (; line < end && count < TRACE_LINES && *line != '\n'; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        traceback[count++] = arena_copy(arena, line, (size_t)(stop - line));
    }
    return true;
}

static void program_result(struct program_output *output, const struct exec_result *exec,
                           struct interpreter_result *result) {
    bool fine = exec->exited && !exec->exit_code;
    *result = (struct interpreter_result){.status = exec->timed_out ? CODE_TIMEOUT
                                                    : fine          ? CODE_OK
                                                                    : CODE_FAILED,
                                          .program = true,
                                          .exec = *exec};
    struct interpreter_output *out = arena_alloc(&result->arena, 3 * sizeof *out);
    result->outputs = out;
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *data = headtail_finish(&output->streams[i], &len);
        result->texts[i] = buf_max(len + 1);
        buf_put(&result->texts[i], data, len);
        const char *text = buf_cstr(&result->texts[i]);
        if (len)
            *out++ = (struct interpreter_output){.kind = OUTPUT_STREAM, .is_stderr = i, .text = text, .len = len};
    }
    if (result->status != CODE_OK && result->texts[1].len)
        out += program_uncaught(&result->arena, (const char *)result->texts[1].data, result->texts[1].len, out);
    result->count = (size_t)(out - result->outputs);
}

static int program_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                       const struct interpreter_caller *caller, struct interpreter_result *ret_result,
                       struct err *err) {
    bool argument = run->len <= ARGUMENT_BYTES;
    if (!argument && run->input)
        return err_set(err, ERR_TOO_LARGE, "code with an input of its own may have %u bytes: write it into a file",
                       ARGUMENT_BYTES);
    const char *const argv[] = {language->program, argument ? language->eval : "-", argument ? run->code : NULL, NULL};
    const struct exec_request exec = {.argv = argv,
                                      .cwd = run->cwd,
                                      .timeout_ms = run->timeout_s * 1000,
                                      .input = argument ? run->input : run->code,
                                      .input_len = argument ? run->input_len : run->len};
    struct program_output output = {.caller = caller, .err = err};
    const struct exec_sink sink = {.output = program_put, .user = &output};
    struct exec_result result = {0};
    for (int i = 0; i < 2; i++)
        headtail_init(&output.streams[i], DEFAULT_OUTPUT_LIMIT_BYTES);
    int failed = box_exec(box, &exec, &sink, caller->watch, &result, err);
    if (failed == -ERR_NOT_FOUND)
        failed = interpreter_missing(language, language->program, err);
    if (!failed)
        program_result(&output, &result, ret_result);
    for (int i = 0; i < 2; i++)
        headtail_done(&output.streams[i]);
    return failed;
}

int interpreter_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                    const struct interpreter_caller *caller, struct interpreter_session *ret_session,
                    struct interpreter_result *ret_result, struct err *err) {
    const struct interpreter_open open = {.name = run->name, .program = run->program, .cwd = run->cwd};
    bool created;
    *ret_session = (struct interpreter_session){.pid = 0};
    if (run->once && language->as_program)
        return program_run(box, language, run, caller, ret_result, err);
    int failed = interpreter_open(box, language, &open, ret_session, &created, err);
    if (failed)
        return failed;
    failed = session_run(box, ret_session, run, created, caller, ret_result, err);
    if (run->once)
        interpreter_end(box, ret_session);
    return failed;
}

/* ---- facts ---- */

static int about_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct buf *out = user;
    if (stream == STREAM_STDOUT)
        buf_put(out, data, len);
    return out->failed ? -ERR_TOO_LARGE : 0;
}

/* The next line of the text, which is cut there; "" at its end. */
static char *about_line(char **text) {
    char *line = *text, *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    *end = 0;
    return line;
}

static void about_take(struct arena *arena, char *text, struct interpreter_about *about) {
    size_t cap = 0;
    struct interpreter_package *packages = NULL;
    *about = (struct interpreter_about){
        .version = about_line(&text), .programs = about_line(&text), .root = about_line(&text)};
    while (*text) {
        char *name = about_line(&text), *tab = strchr(name, '\t');
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
    const struct exec_sink sink = {.output = about_put, .user = &out};
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
    about_take(arena, arena_copy(arena, out.data, out.len), ret_about);
    return 0;
}
