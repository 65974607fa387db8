/* Sessions of interpreters. What is said to a driver and what it says: head of aio/python.py.
 *
 * 1. A line is one INPUT call, and one frame: lines of several requests never mix.
 * 2. Who waits reads the process's ring from where it was before he asked, and says of each piece that he has it: so a ring
 *    cannot run away from him.
 * 3. What a driver says is the box's word: bounded, parsed with limits, and only ever shown to the box's own clients. */
#include "front/aio/kernel.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/aio/driver.h"
#include "rows/rows.h"

#define MARK "cubby="
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
};

const struct kernel_kind kernel_python = {
    .word = "python", .language = "Python", .program = "python3", .driver = aio_driver_python, .package = "python3"};
const struct kernel_kind kernel_node = {
    .word = "node", .language = "JavaScript", .program = "node", .driver = aio_driver_node, .package = "nodejs"};

bool kernel_name_ok(const char *name) {
    return text_name(name, KERNEL_NAME_BYTES);
}

/* ---- those there are ---- */

struct kernel_walk {
    const struct kernel_kind *kind;
    const char *name; /* NULL: all */
    void (*each)(void *user, const struct kernel *kernel);
    void *user;
    struct kernel *found; /* the first */
    bool has;
};

/* "python3 -u -X cubby=python:NAME -c ...", "node --title=cubby=node:NAME -e ..." */
static bool kernel_parse(const struct kernel_kind *kind, const struct process *process, struct kernel *ret_kernel) {
    char mark[32];
    snprintf(mark, sizeof mark, MARK "%s:", kind->word);
    const char *at = strstr(process->command, mark), *space = strchr(process->command, ' ');
    if (!process->running || !at || !space || at - process->command > 64 ||
        space - process->command >= (ptrdiff_t)sizeof ret_kernel->program)
        return false;
    at += strlen(mark);
    size_t len = strcspn(at, " ");
    if (!at[len] || !len || len > KERNEL_NAME_BYTES)
        return false;
    *ret_kernel = (struct kernel){.pid = process->pid,
                                  .created_ms = process->started_ms,
                                  .printed = process->result.stdout_bytes,
                                  .unnamed = !strncmp(at, UNNAMED_MARK, strlen(UNNAMED_MARK))};
    memcpy(ret_kernel->name, at, len);
    memcpy(ret_kernel->program, process->command, (size_t)(space - process->command));
    return true;
}

static void kernel_process(void *user, const struct process *process) {
    struct kernel_walk *walk = user;
    struct kernel kernel;
    if (!kernel_parse(walk->kind, process, &kernel) || (walk->name && strcmp(walk->name, kernel.name) != 0))
        return;
    if (walk->found && !walk->has)
        *walk->found = kernel;
    walk->has = true;
    if (walk->each)
        walk->each(walk->user, &kernel);
}

int kernel_each(struct box *box, const struct kernel_kind *kind, void (*each)(void *user, const struct kernel *kernel),
                void *user, struct err *err) {
    struct kernel_walk walk = {.kind = kind, .each = each, .user = user};
    return box_processes(box, 0, kernel_process, &walk, err);
}

static void kernel_gather(void *user, const struct kernel *kernel) {
    struct kernels *all = user;
    if (all->count < sizeof all->items / sizeof *all->items)
        all->items[all->count++] = *kernel;
}

int kernel_all(struct box *box, const struct kernel_kind *kind, struct kernels *ret_kernels, struct err *err) {
    struct kernels all = {0};
    int failed = kernel_each(box, kind, kernel_gather, &all, err);
    if (!failed)
        *ret_kernels = all;
    return failed;
}

int kernel_find(struct box *box, const struct kernel_kind *kind, const char *name, struct kernel *ret_kernel,
                struct err *err) {
    struct kernel kernel;
    struct kernel_walk walk = {.kind = kind, .name = name, .found = &kernel};
    int failed = box_processes(box, 0, kernel_process, &walk, err);
    if (failed)
        return failed;
    if (!walk.has)
        return err_set(err, ERR_NOT_FOUND, "Session not found");
    *ret_kernel = kernel;
    return 0;
}

/* ---- one more ---- */

struct kernel_count {
    size_t count, unnamed;
    struct kernel oldest[LIMIT_KERNELS]; /* of the unnamed */
};

static void kernel_counted(void *user, const struct kernel *kernel) {
    struct kernel_count *count = user;
    count->count++;
    if (kernel->unnamed && count->unnamed < LIMIT_KERNELS)
        count->oldest[count->unnamed++] = *kernel;
}

static int kernel_say(struct box *box, const struct kernel *kernel, const char *line, size_t len, struct err *err);

/* One that nobody named makes room, the oldest first, unless something runs in it: that only it knows. */
static int kernel_room(struct box *box, const struct kernel_kind *kind, struct err *err) {
    struct kernel_count count = {0};
    int failed = kernel_each(box, kind, kernel_counted, &count, err);
    if (failed || count.count < LIMIT_KERNELS)
        return failed;
    for (size_t i = 0; i < count.unnamed; i++) {
        struct kernel *kernel = &count.oldest[i];
        struct err ignored;
        const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
        bool running = false;
        if (kernel_say(box, kernel, "quit - -\n", 9, &ignored) < 0 ||
            box_output_wait(box, kernel->pid, all, QUIT_MS, -1, &running, &ignored) < 0 || !running)
            return 0;
    }
    return err_set(err, ERR_LIMIT,
                   "this box has %u sessions of %s, which is the limit: delete one that is no longer needed",
                   LIMIT_KERNELS, kind->language);
}

static int kernel_start(struct box *box, const struct kernel_kind *kind, const struct kernel_request *wanted,
                        struct kernel *kernel, struct err *err) {
    char mark[160], idle[24];
    bool node = kind == &kernel_node;
    snprintf(mark, sizeof mark, "%s" MARK "%s:%s", node ? "--title=" : "", kind->word, kernel->name);
    snprintf(idle, sizeof idle, "%llu", (unsigned long long)wanted->idle_s);
    const char *const python[] = {kernel->program, "-u", "-X", mark, "-c", kind->driver, idle, NULL};
    const char *const javascript[] = {kernel->program, mark, "-e", kind->driver, idle, NULL};
    const struct exec_request exec = {.argv = node ? javascript : python, .cwd = wanted->cwd};
    int failed = box_spawn(box, &exec, &kernel->pid, &kernel->created_ms, err);
    if (failed && err->why == WHY_NO_COMMAND)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is not installed in this box: put '%s' into its template or image (Debian: package %s)",
                       kind->language, kernel->program, kind->package);
    return failed;
}

/* Two that begin at once: the older stays, for every daemon the same. */
static int kernel_settle(struct box *box, const struct kernel_kind *kind, struct kernel *kernel, bool *ret_created,
                         struct err *err) {
    struct kernel first;
    int failed = kernel_find(box, kind, kernel->name, &first, err);
    if (failed == -ERR_NOT_FOUND) {
        *ret_created = true; /* it ended at once: who asks it hears why */
        return 0;
    }
    if (failed)
        return failed;
    *ret_created = first.pid == kernel->pid;
    if (!*ret_created)
        kernel_end(box, kernel);
    *kernel = first;
    return 0;
}

int kernel_open(struct box *box, const struct kernel_kind *kind, const struct kernel_request *request,
                struct kernel *ret_kernel, bool *ret_created, struct err *err) {
    struct kernel kernel = {.unnamed = !request->name};
    struct kernel_request wanted = *request;
    *ret_created = false;
    int failed = request->name ? kernel_find(box, kind, request->name, &kernel, err) : -ERR_NOT_FOUND;
    if (failed != -ERR_NOT_FOUND) {
        if (!failed)
            *ret_kernel = kernel;
        return failed;
    }
    uint8_t random[ID_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_set(err, ERR_INTERNAL, "no random bytes");
    memcpy(kernel.name, UNNAMED_MARK, sizeof UNNAMED_MARK);
    text_hex(kernel.name + strlen(UNNAMED_MARK), random, sizeof random);
    if (request->name)
        snprintf(kernel.name, sizeof kernel.name, "%s", request->name);
    snprintf(kernel.program, sizeof kernel.program, "%s", request->program ? request->program : kind->program);
    if (!wanted.idle_s)
        wanted.idle_s = request->name ? KERNEL_IDLE_S : KERNEL_UNNAMED_IDLE_S;
    failed = kernel_room(box, kind, err);
    if (!failed)
        failed = kernel_start(box, kind, &wanted, &kernel, err);
    if (!failed && request->name)
        failed = kernel_settle(box, kind, &kernel, ret_created, err);
    else
        *ret_created = true;
    if (!failed)
        *ret_kernel = kernel;
    return failed;
}

void kernel_end(struct box *box, const struct kernel *kernel) {
    struct err ignored;
    box_signal_tree(box, kernel->pid, SIGKILL, &ignored);
}

/* ---- talk ---- */

struct kernel_talk {
    struct http_request *request;
    struct box *box;
    const struct kernel *kernel;
    char id[2 * ID_BYTES + 1];
    uint64_t offset, deadline_ms, own_ms; /* own_ms: what it has from when it begins */
    struct buf line, answer;
    bool skipping; /* the rest of a line that is too long */
    bool done;
};

struct kernel_line {
    const char *data;
    size_t len;
};

static ssize_t kernel_line_read(void *user, void *data, size_t size, struct err *err) {
    struct kernel_line *line = user;
    size_t n = line->len < size ? line->len : size;
    (void)err;
    memcpy(data, line->data, n);
    line->data += n;
    line->len -= n;
    return (ssize_t)n;
}

static int kernel_say(struct box *box, const struct kernel *kernel, const char *line, size_t len, struct err *err) {
    struct kernel_line reader = {.data = line, .len = len};
    return box_input(box, kernel->pid, false, kernel_line_read, &reader, -1, err);
}

/* Whatever comes of it: it is polite, or the process is gone. */
static void talk_tell(struct kernel_talk *talk, const char *word) {
    struct err ignored;
    char line[64];
    int n = snprintf(line, sizeof line, "%s %s\n", word, talk->id);
    kernel_say(talk->box, talk->kernel, line, (size_t)n, &ignored);
}

static int talk_send(struct kernel_talk *talk, const char *last, const struct buf *body, struct err *err) {
    int failed = 0;
    for (size_t at = 0; !failed && at < body->len; at += PIECE_BYTES) {
        size_t left = body->len - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
        autobuf line = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        buf_printf(&line, "%s %s ", n < left ? "part" : last, talk->id);
        text_base64(&line, body->data + at, n);
        buf_byte(&line, '\n');
        failed = kernel_say(talk->box, talk->kernel, (const char *)line.data, line.len, err);
    }
    return failed;
}

static bool talk_word(const struct kernel_talk *talk, const char *word, size_t *ret_len) {
    char begin[64];
    size_t len = (size_t)snprintf(begin, sizeof begin, "%s %s", word, talk->id);
    *ret_len = len + 1;
    return talk->line.len >= len && !memcmp(talk->line.data, begin, len) &&
           (talk->line.len == len || talk->line.data[len] == ' ');
}

/* Lines that are not for us are for others who wait, or a program's. */
static int talk_line(struct kernel_talk *talk, struct err *err) {
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
    return http_hold(talk->request, talk->answer.cap - before, err);
}

static int talk_take(struct kernel_talk *talk, const uint8_t *data, size_t len, struct err *err) {
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

/* Positive: enum kernel_outcome it is instead of an answer. */
static int talk_listen(struct kernel_talk *talk, struct err *err) {
    while (!talk->done) {
        uint64_t now = clock_ms();
        struct output_slice slice;
        if (now >= talk->deadline_ms)
            return KERNEL_STUCK;
        autobuf out = buf_max(READ_BYTES);
        int failed = box_output(talk->box, talk->kernel->pid, STREAM_STDOUT, talk->offset, talk->deadline_ms - now,
                                http_fd(talk->request), &out, &slice, err);
        if (failed == -ERR_NOT_FOUND)
            return KERNEL_DIED;
        if (failed)
            return failed;
        if (slice.first > talk->offset)
            return err_set(err, ERR_IO, "what the session answered was lost: its programs print too much beside it");
        talk->offset = slice.next;
        failed = talk_take(talk, out.data, out.len, err);
        if (failed)
            return failed;
        if (!talk->done && !out.len && !slice.running)
            return KERNEL_DIED;
    }
    return KERNEL_ANSWERED;
}

static int talk_begin(struct kernel_talk *talk, struct http_request *request, struct box *box,
                      const struct kernel *kernel, struct err *err) {
    uint8_t random[ID_BYTES];
    *talk = (struct kernel_talk){.request = request, .box = box, .kernel = kernel, .offset = kernel->printed};
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_set(err, ERR_INTERNAL, "no random bytes");
    text_hex(talk->id, random, sizeof random);
    buf_init(&talk->line, LINE_BYTES);
    buf_init(&talk->answer, ANSWER_BYTES);
    return 0;
}

static void talk_done(struct kernel_talk *talk) {
    buf_done(&talk->line);
    buf_done(&talk->answer);
}

static int talk_parse(struct kernel_talk *talk, json_t **ret_value, struct err *err) {
    json_t *value;
    int failed = rows_load((const char *)talk->answer.data, talk->answer.len, &value, err);
    if (failed)
        return err_set(err, ERR_PROTOCOL, "the session's answer cannot be read: %.200s", err->text);
    if (!json_is_object(value)) {
        json_decref(value);
        return err_set(err, ERR_PROTOCOL, "the session's answer is no object");
    }
    *ret_value = value;
    return 0;
}

/* ---- code ---- */

static void died_each(void *user, const struct process *process) {
    struct kernel_answer *answer = user;
    const struct exec_result *result = &process->result;
    if (result->oom_killed)
        snprintf(answer->how, sizeof answer->how, "the box ran out of memory");
    else if (result->exited)
        snprintf(answer->how, sizeof answer->how, "exit code %d", result->exit_code);
    else
        snprintf(answer->how, sizeof answer->how, "signal %d", result->signal);
}

static int run_outcome(struct kernel_talk *talk, int outcome, struct kernel_answer *ret_answer, struct err *err) {
    struct kernel_answer answer = {.outcome = (enum kernel_outcome)outcome};
    struct err ignored;
    if (outcome == KERNEL_STUCK)
        kernel_end(talk->box, talk->kernel);
    snprintf(answer.how, sizeof answer.how, "it is gone");
    if (outcome == KERNEL_DIED)
        box_processes(talk->box, talk->kernel->pid, died_each, &answer, &ignored);
    int failed = outcome == KERNEL_ANSWERED ? talk_parse(talk, &answer.value, err) : 0;
    if (!failed)
        *ret_answer = answer;
    return failed;
}

static void run_body(struct buf *body, const char *code, size_t len, const char *cwd, uint64_t timeout_s) {
    struct json json;
    json_init(&json, body);
    json_open(&json, '{');
    json_put_strn(&json, "code", code, len);
    json_put_uint(&json, "timeout", timeout_s);
    if (cwd)
        json_put_str(&json, "cwd", cwd);
    json_close(&json, '}');
}

int kernel_run(struct http_request *request, struct box *box, const struct kernel *kernel, const char *code, size_t len,
               const char *cwd, uint64_t timeout_s, struct kernel_answer *ret_answer, struct err *err) {
    struct kernel_talk talk;
    autobuf body = buf_max(6 * LIMIT_JSON_BYTES);
    run_body(&body, code, len, cwd, timeout_s);
    int outcome = talk_begin(&talk, request, box, kernel, err);
    talk.own_ms = timeout_s * 1000;
    talk.deadline_ms = clock_ms() + TURN_MS;
    if (!outcome)
        outcome = talk_send(&talk, "run", &body, err);
    if (outcome == -ERR_GONE || outcome == -ERR_NOT_FOUND)
        outcome = KERNEL_DIED;
    else if (!outcome)
        outcome = talk_listen(&talk, err);
    if (outcome < 0)
        talk_tell(&talk, "stop");
    else
        outcome = run_outcome(&talk, outcome, ret_answer, err);
    talk_done(&talk);
    return outcome;
}

int kernel_look(struct http_request *request, struct box *box, const struct kernel *kernel, const char *cwd,
                uint64_t idle_s, json_t **ret_value, struct err *err) {
    struct kernel_talk talk;
    autobuf body = buf_max(LIMIT_PATH_BYTES * 6 + 256);
    struct json json;
    json_init(&json, &body);
    json_open(&json, '{');
    json_put_str(&json, "cwd", cwd);
    json_put_uint(&json, "idle", idle_s);
    json_close(&json, '}');
    int outcome = talk_begin(&talk, request, box, kernel, err);
    talk.deadline_ms = clock_ms() + LOOK_MS;
    if (!outcome)
        outcome = talk_send(&talk, "look", &body, err);
    if (!outcome)
        outcome = talk_listen(&talk, err);
    if (outcome == KERNEL_STUCK)
        outcome = err_set(err, ERR_TIMEOUT, "the session is busy");
    else if (outcome == KERNEL_DIED)
        outcome = err_set(err, ERR_NOT_FOUND, "Session not found");
    if (!outcome)
        outcome = talk_parse(&talk, ret_value, err);
    talk_done(&talk);
    return outcome;
}
