/* The text form against a machine that cannot run our runner and does what the test says: what it is asked, what becomes of
 * its answers, and what becomes of one that lies. And the pieces in which our runner's frames travel where it can. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend/remote/text/call.h"
#include "base/clock.h"
#include "base/text.h"
#include "wire/call.h"
#include "wire/frame.h"
#include "wire/piece.h"
#include "tap.h"

/* ---- a machine: answers each request on the thread that serves it ---- */

struct lab {
    pthread_mutex_t lock;
    int wake;
    char *waiting[64]; /* messages for the server */
    size_t first, last;
    char *shown; /* given to the server last */
    bool nested, hang_up;
    json_t *asked[64]; /* each request, whole */
    size_t asked_count;
    void (*answer)(struct lab *lab, const char *type, json_t *body, const char *id);
    struct machine_text *text;
    struct wire *wire;
    pthread_t server;
    struct err ended;
};

static void lab_push(struct lab *lab, const char *message) {
    pthread_mutex_lock(&lab->lock);
    lab->waiting[lab->last++ % 64] = strdup(message);
    pthread_mutex_unlock(&lab->lock);
    eventfd_write(lab->wake, 1);
}

/* members: as in an object, may be "" */
static void lab_say(struct lab *lab, const char *id, const char *type, const char *members) {
    char *message = NULL;
    int len = lab->nested
                  ? asprintf(&message, "{\"id\":\"%s\",\"type\":\"%s\",\"body\":{%s}}", id, type, members)
                  : asprintf(&message, "{\"id\":\"%s\",\"type\":\"%s\"%s%s}", id, type, *members ? "," : "", members);
    if (len < 0)
        abort();
    lab_push(lab, message);
    free(message);
}

static int lab_recv(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    struct lab *lab = user;
    pthread_mutex_lock(&lab->lock);
    bool more = lab->first < lab->last, gone = lab->hang_up;
    if (more) {
        free(lab->shown);
        lab->shown = lab->waiting[lab->first++ % 64];
        *ret_text = true;
        *ret_data = (const uint8_t *)lab->shown;
        *ret_len = strlen(lab->shown);
    }
    pthread_mutex_unlock(&lab->lock);
    if (!more && gone)
        return err_set(err, ERR_GONE, "the cable was pulled");
    if (!more) {
        eventfd_t ignored;
        (void)eventfd_read(lab->wake, &ignored);
    }
    return more;
}

static int lab_send(void *user, bool is_text, const void *data, size_t len, struct err *err) {
    (void)err;
    struct lab *lab = user;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    if (!is_text || !root || lab->asked_count == 64)
        abort();
    const char *type = json_string_value(json_object_get(root, "type"));
    if (strcmp(type, "stdio_close") == 0) { /* so our runner cannot be carried there */
        lab_say(lab, json_string_value(json_object_get(root, "id")), "error",
                "\"code\":\"EINVAL\",\"message\":\"unknown request type: stdio_close\"");
        json_decref(root);
        return 1;
    }
    pthread_mutex_lock(&lab->lock);
    lab->asked[lab->asked_count++] = root;
    pthread_mutex_unlock(&lab->lock);
    json_t *body = lab->nested ? json_object_get(root, "body") : root;
    lab->answer(lab, type, body, json_string_value(json_object_get(root, "id")));
    return 1;
}

static int lab_flush(void *user, struct err *err) {
    (void)user, (void)err;
    return 1;
}

static bool lab_pending(void *user) {
    struct lab *lab = user;
    pthread_mutex_lock(&lab->lock);
    bool pending = lab->first < lab->last;
    pthread_mutex_unlock(&lab->lock);
    return pending;
}

static uint64_t lab_heard(void *user) {
    (void)user;
    return clock_ms();
}

static void *lab_main(void *argument) {
    struct lab *lab = argument;
    struct pump_socket socket = {.user = lab,
                                 .fd = lab->wake,
                                 .recv = lab_recv,
                                 .pending = lab_pending,
                                 .send = lab_send,
                                 .flush = lab_flush,
                                 .ping = lab_flush,
                                 .heard_ms = lab_heard};
    machine_text_serve(lab->text, &socket, NULL, NULL, &lab->ended);
    return NULL;
}

static void lab_open(struct lab *lab, bool nested,
                     void (*answer)(struct lab *lab, const char *type, json_t *body, const char *id)) {
    *lab = (struct lab){.lock = PTHREAD_MUTEX_INITIALIZER, .nested = nested, .answer = answer};
    lab->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct machine_hello hello = {.user = "ann", .name = "laptop", .workspace = "/home/ann/p", .shell = "/bin/bash"};
    struct machine_text_options options = {.nested = nested, .runner_path = "/proc/self/exe"};
    lab->text = machine_text_new(&hello, &options);
    pthread_create(&lab->server, NULL, lab_main, lab);
    static const char *env[] = {"BOX=1", NULL};
    struct spec spec = {.id = "0123456789abcdef", .user = "ann", .env = env, .env_count = 1};
    struct err err;
    if (machine_text_ops.start(lab->text, &spec, true, &lab->wire, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static void lab_close(struct lab *lab) {
    machine_text_leave(lab->text, "the test is over");
    pthread_join(lab->server, NULL);
    wire_unref(lab->wire);
    machine_text_ops.free(lab->text);
    for (size_t i = 0; i < lab->asked_count; i++)
        json_decref(lab->asked[i]);
    while (lab->first < lab->last)
        free(lab->waiting[lab->first++ % 64]);
    free(lab->shown);
    close(lab->wake);
}

/* The n-th request of a type, its members; NULL: there was none. */
static json_t *lab_asked(struct lab *lab, const char *type, size_t n) {
    json_t *found = NULL;
    pthread_mutex_lock(&lab->lock);
    for (size_t i = 0; i < lab->asked_count && !found; i++)
        if (strcmp(json_string_value(json_object_get(lab->asked[i], "type")), type) == 0 && n-- == 0)
            found = lab->nested ? json_object_get(lab->asked[i], "body") : lab->asked[i];
    pthread_mutex_unlock(&lab->lock);
    return found;
}

static const char *member(json_t *body, const char *key) {
    return json_string_value(json_object_get(body, key));
}

/* ---- a call on its wire ---- */

struct told {
    char out[1 << 16], error[600];
    size_t out_len, items;
    struct arena arena;
    struct fields end;
    int code;
};

static struct told told;

static void told_data(const struct event *event) {
    size_t room = sizeof told.out - 1 - told.out_len, n = event->len < room ? event->len : room;
    memcpy(told.out + told.out_len, event->data, n);
    told.out_len += n;
    told.out[told.out_len] = '\0';
}

static int call_wait_end(struct call *call) {
    struct err err = {0};
    struct event event;
    int r;
    do {
        r = call_next(call, &(struct call_wait){.fd = -1, .deadline_ms = clock_ms() + 60000}, &event, &err);
        if (r == 0 && event.kind == EVENT_DATA)
            told_data(&event);
        told.items += r == 0 && event.kind == EVENT_ITEM;
    } while (r == 0 && event.kind != EVENT_END);
    if (r == 0)
        r = fields_parse(view_of(event.data, event.len), &told.arena, &told.end, &err);
    snprintf(told.error, sizeof told.error, "%s", r < 0 ? err.text : "");
    told.code = r;
    call_close(call);
    return r;
}

static int ask(struct lab *lab, enum op op, struct buf *args, const char *input) {
    arena_done(&told.arena);
    memset(&told, 0, sizeof told);
    struct err err = {0};
    struct call *call;
    int r = call_open(lab->wire, op, args, input, input ? strlen(input) : 0, input, &call, &err);
    buf_done(args);
    if (r < 0) {
        snprintf(told.error, sizeof told.error, "%s", err.text);
        return told.code = r;
    }
    return call_wait_end(call);
}

static struct buf path_args(const char *path) {
    struct buf args;
    buf_init(&args, 8192);
    field_text(&args, FIELD_PATH, path);
    return args;
}

static struct buf exec_args(const char *command, const char *cwd, uint64_t timeout_ms, uint64_t flags) {
    struct buf args;
    buf_init(&args, 8192);
    field_text(&args, FIELD_COMMAND, command);
    if (cwd)
        field_text(&args, FIELD_CWD, cwd);
    field_number(&args, FIELD_TIMEOUT_MS, timeout_ms);
    field_number(&args, FIELD_FLAGS, flags);
    return args;
}

/* ---- commands ---- */

static void answer_exec(struct lab *lab, const char *type, json_t *body, const char *id) {
    const char *command = member(body, "command");
    if (strcmp(type, "exec") != 0)
        return;
    if (strstr(command, "bytes"))
        lab_say(lab, id, "exec_result",
                "\"stdout\":\"/wB4\",\"stderr\":\"ZQ==\",\"encoding\":\"base64\",\"exit_code\":3,\"timed_out\":false");
    else if (strstr(command, "late"))
        lab_say(lab, id, "exec_result", "\"stdout\":\"begun\",\"stderr\":\"\",\"exit_code\":-1,\"timed_out\":true");
    else if (strstr(command, "killed"))
        lab_say(lab, id, "exec_result", "\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":-15,\"timed_out\":false");
    else
        lab_say(lab, id, "exec_result",
                "\"stdout\":\"plain \\u00e4\",\"stderr\":\"\",\"exit_code\":0,\"timed_out\":false");
}

static void test_exec(void) {
    struct lab lab;
    lab_open(&lab, true, answer_exec);
    struct buf args = exec_args("bytes", "sub", 1500, 0);
    field_text(&args, FIELD_ENV, "K=v");
    ask(&lab, OP_EXEC, &args, NULL);
    ok_all("bytes come as they are", told.code == 0, told.out_len == 4, memcmp(told.out, "\377\0xe", 4) == 0);
    ok(told.end.has[FIELD_EXIT] && told.end.number[FIELD_EXIT] == 3, "with the exit code");
    json_t *asked = lab_asked(&lab, "exec", 0), *env = json_object_get(asked, "env");
    ok(json_is_true(json_object_get(asked, "shell")) && !json_object_get(asked, "dir"), "one line for a shell");
    ok(strncmp(member(asked, "command"), "cd -- '/home/ann/p/sub' || exit 126\n", 35) == 0,
       "which goes to its directory, or nothing runs");
    ok(strstr(member(asked, "command"), " -s KILL 2 "), "ends all that it started, in whole seconds, rounded up");
    ok(strstr(member(asked, "command"), " '/bin/bash' '-c' 'bytes'"), "and runs the shell that it registered with");
    ok(json_integer_value(json_object_get(asked, "timeout")) == 7, "the runner's own time-out comes later");
    ok(json_array_size(env) == 2 && strcmp(json_string_value(json_array_get(env, 1)), "K=v") == 0,
       "the box's variables and the call's");
    args = exec_args("late", NULL, 1000, 0);
    ask(&lab, OP_EXEC, &args, NULL);
    ok(told.end.number[FIELD_TIMED_OUT] == 1 && told.end.number[FIELD_SIGNALLED] == 9, "a time-out is told");
    args = exec_args("killed", NULL, 0, 0);
    ask(&lab, OP_EXEC, &args, NULL);
    ok(told.end.number[FIELD_SIGNALLED] == 15 && !told.end.has[FIELD_EXIT], "a signal too");
    args = exec_args("plain", "/etc", 1000, 0);
    ask(&lab, OP_EXEC, &args, NULL);
    is(told.out, "plain \303\244", "text is text");
    args = exec_args("plain", NULL, 1000, CALL_PTY);
    ok(ask(&lab, OP_EXEC, &args, NULL) == -ERR_UNSUPPORTED && strstr(told.error, "open streams"),
       "a terminal is UNSUPPORTED, with the reason why our runner is not there");
    args = exec_args("plain", NULL, 1000, CALL_BACKGROUND);
    ok(ask(&lab, OP_EXEC, &args, NULL) == -ERR_UNSUPPORTED, "as is the background");
    args = exec_args("plain", NULL, 1000, 0);
    field_text(&args, FIELD_USER, "root");
    ask(&lab, OP_EXEC, &args, NULL);
    ok(told.code == -ERR_UNSUPPORTED, "nobody becomes root there");
    lab_close(&lab);
}

static void test_exec_flat(void) {
    struct lab lab;
    lab_open(&lab, false, answer_exec);
    struct buf args = exec_args("it's bytes", NULL, 1000, 0);
    ask(&lab, OP_EXEC, &args, NULL);
    json_t *asked = lab_asked(&lab, "exec", 0);
    ok(told.code == 0 && json_is_true(json_object_get(asked, "shell")), "flat: one line for a shell");
    ok(strstr(member(asked, "command"), "'/bin/bash' '-c' 'it'\\''s bytes'"), "flat: quoted");
    is(member(asked, "user_id"), "ann", "flat: the user beside it");
    args = exec_args("plain", NULL, 1000, CALL_STDIN);
    ok(ask(&lab, OP_EXEC, &args, "in\377put") == -ERR_UNSUPPORTED, "input that is not text is not mangled");
    arena_done(&told.arena);
    memset(&told, 0, sizeof told);
    args = exec_args("plain", NULL, 1000, CALL_STDIN);
    struct call *call;
    struct err err;
    int r = call_open(lab.wire, OP_EXEC, &args, "one ", 4, false, &call, &err);
    buf_done(&args);
    call_send(call, "two", 3, &err);
    call_send_eof(call, &err);
    ok(r == 0 && call_wait_end(call) == 0, "the command waits for its input");
    is(member(lab_asked(&lab, "exec", 1), "stdin"), "one two", "and gets all of it");
    lab_close(&lab);
}

/* ---- files ---- */

static void answer_files(struct lab *lab, const char *type, json_t *body, const char *id) {
    const char *path = member(body, "path");
    if (strcmp(type, "exec") == 0)
        lab_say(lab, id, "exec_result", "\"stdout\":\"?\",\"stderr\":\"\",\"exit_code\":0,\"timed_out\":false");
    else if (strcmp(type, "stat") == 0 && strstr(path, "none"))
        lab_say(lab, id, "error", "\"code\":\"ENOENT\",\"message\":\"no\"");
    else if (strcmp(type, "stat") == 0 && strstr(path, "large"))
        lab_say(lab, id, "file_info", "\"name\":\"large\",\"size\":5242880,\"mode\":420,\"is_dir\":false");
    else if (strcmp(type, "stat") == 0)
        lab_say(lab, id, "file_info",
                "\"name\":\"f\",\"size\":5,\"mode\":420,\"mod_time\":\"2026-03-26T00:00:00Z\",\"is_dir\":false");
    else if (strcmp(type, "read_file") == 0)
        lab_say(lab, id, "file_content", strstr(path, "lie") ? "\"data\":\"not base64!\"" : "\"data\":\"aGVsbG8=\"");
    else if (strcmp(type, "read_dir") == 0)
        lab_say(
            lab, id, "dir_entries",
            "\"entries\":[{\"name\":\"a\",\"is_dir\":false,\"size\":1},{\"name\":\"../up\",\"is_dir\":false},{\"name\":7}]");
    else
        lab_say(lab, id, "ok", "");
}

static void test_files(void) {
    struct lab lab;
    lab_open(&lab, false, answer_files);
    struct buf args = path_args("f");
    ask(&lab, OP_READ, &args, NULL);
    is(told.out, "hello", "a file");
    is(member(lab_asked(&lab, "read_file", 0), "path"), "/home/ann/p/f", "is asked for by its absolute path");
    args = path_args("none");
    ok(ask(&lab, OP_READ, &args, NULL) == -ERR_NOT_FOUND, "ENOENT is NOT_FOUND");
    args = path_args("lie");
    ok(ask(&lab, OP_READ, &args, NULL) == -ERR_PROTOCOL, "a content that is not base64 is refused");
    args = path_args("large");
    ok(ask(&lab, OP_READ, &args, NULL) == -ERR_TOO_LARGE && !lab_asked(&lab, "read_file", 2),
       "five megabytes are not asked for in a message");
    args = path_args("\377");
    ok(ask(&lab, OP_READ, &args, NULL) == -ERR_INVALID, "a name that is no text is not guessed at");
    args = path_args("new/none");
    field_number(&args, FIELD_FLAGS, CALL_PARENTS);
    ask(&lab, OP_WRITE, &args, "content");
    json_t *asked = lab_asked(&lab, "write_file", 0);
    is(member(asked, "data"), "Y29udGVudA==", "a new file");
    ok(json_integer_value(json_object_get(asked, "perm")) == 0644, "with the mode of new files");
    is(member(lab_asked(&lab, "mkdir_all", 0), "path"), "/home/ann/p/new", "and its parents");
    args = path_args("f");
    field_text(&args, FIELD_IF_MATCH, "\"0-6-1\"");
    ok(ask(&lab, OP_WRITE, &args, "content") == -ERR_UNSUPPORTED && !lab_asked(&lab, "write_file", 1),
       "a version that cannot be held is not overwritten");
    args = path_args(".");
    field_number(&args, FIELD_DEPTH, 1);
    field_number(&args, FIELD_LIMIT, 10);
    ok_all("read_dir lists, and what cannot be a name is left out", ask(&lab, OP_LIST, &args, NULL) == 0,
           told.items == 1, lab_asked(&lab, "read_dir", 0));
    args = path_args("f");
    ok(ask(&lab, OP_HASH, &args, NULL) == -ERR_UNSUPPORTED, "what the eight cannot do is UNSUPPORTED");
    args = path_args("f");
    ok(ask(&lab, OP_WATCH, &args, NULL) == -ERR_UNSUPPORTED, "as is watching");
    lab_close(&lab);
}

/* ---- machines that lie or leave ---- */

static void answer_nothing(struct lab *lab, const char *type, json_t *body, const char *id) {
    (void)lab, (void)type, (void)body, (void)id;
}

static struct call *open_exec(struct lab *lab) {
    struct buf args = exec_args("sleep 100", NULL, 100000, 0);
    struct call *call = NULL;
    struct err err;
    call_open(lab->wire, OP_EXEC, &args, NULL, 0, false, &call, &err);
    buf_done(&args);
    for (int i = 0; i < 6000 && !lab_asked(lab, "exec", 0); i++)
        poll(NULL, 0, 10);
    return call;
}

static void test_cancel(void) {
    struct lab lab;
    lab_open(&lab, true, answer_nothing);
    struct call *call = open_exec(&lab);
    call_cancel(call);
    ok(call_wait_end(call) == -ERR_GONE, "a cancelled command is answered at once");
    const char *id = json_string_value(json_object_get(lab.asked[0], "id"));
    lab_say(&lab, id, "exec_result", "\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":-9,\"timed_out\":false");
    lab_say(&lab, id, "exec_result", "\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":-9,\"timed_out\":false");
    pthread_join(lab.server, NULL);
    ok(lab.ended.code == ERR_PROTOCOL && strstr(lab.ended.text, "not asked"),
       "its late answer is ignored once; a second one ends the connection");
    pthread_create(&lab.server, NULL, lab_main, &lab);
    lab_close(&lab);
}

static void test_liars(void) {
    static const struct {
        const char *message, *name;
    } rows[] = {
        {"no JSON", "what is no JSON"},
        {"[]", "what is no object"},
        {"{\"id\":\"req_0000000000000000\",\"type\":\"ok\"}", "an answer that nobody asked for"},
        {"{\"id\":\"../..\",\"type\":\"error\"}", "an id that was never given"},
        {"{\"type\":\"x\",\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
         "what is too deep"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lab lab;
        lab_open(&lab, i % 2, answer_nothing);
        struct call *call = open_exec(&lab);
        lab_push(&lab, rows[i].message);
        bool gone = call_wait_end(call) == -ERR_GONE && strstr(told.error, "laptop");
        pthread_join(lab.server, NULL);
        ok(gone && lab.ended.code == ERR_PROTOCOL, rows[i].name);
        if (!gone || lab.ended.code != ERR_PROTOCOL)
            printf("# the call: '%s'; the connection: '%s'\n", told.error, lab.ended.text);
        pthread_create(&lab.server, NULL, lab_main, &lab);
        lab_close(&lab);
    }
}

static void test_lost(void) {
    struct lab lab;
    lab_open(&lab, true, answer_nothing);
    struct call *call = open_exec(&lab);
    pthread_mutex_lock(&lab.lock);
    lab.hang_up = true;
    pthread_mutex_unlock(&lab.lock);
    eventfd_write(lab.wake, 1);
    uint64_t begin_ms = clock_ms();
    ok(call_wait_end(call) == -ERR_GONE && clock_ms() - begin_ms < 30000, "a lost connection fails its calls at once");
    ok(strstr(told.error, "the cable was pulled"), "with the reason");
    for (int i = 0; i < 6000 && wire_alive(lab.wire); i++)
        poll(NULL, 0, 10);
    ok(!wire_alive(lab.wire), "and ends its wires");
    lab_close(&lab);
}

static void test_flood(void) {
    struct lab lab;
    lab_open(&lab, true, answer_nothing);
    for (int i = 0; i < 1001; i++) {
        while (lab_pending(&lab))
            poll(NULL, 0, 1);
        lab_push(&lab, "{\"type\":\"stdio_data\",\"body\":{\"stream_id\":\"str_1\",\"data\":\"eA==\"}}");
    }
    pthread_join(lab.server, NULL);
    ok(lab.ended.code == ERR_PROTOCOL && strstr(lab.ended.text, "unrequested"), "a flood of pushes ends it");
    pthread_create(&lab.server, NULL, lab_main, &lab);
    lab_close(&lab);
}

/* ---- pieces ---- */

/* What one side says reaches the other in any order, each piece whole. */
struct way {
    struct buf pieces[PIECES_MOST + 8];
    size_t count;
};

static void way_send(struct way *way, struct pieces *from, const uint8_t *data, size_t len) {
    buf_init(&way->pieces[way->count], PIECE_HEAD_BYTES + PIECE_BYTES);
    pieces_put(from, &way->pieces[way->count++], data, len);
}

static int way_bring(struct way *way, struct pieces *to, struct err *err) {
    size_t i = (size_t)random() % way->count;
    struct buf piece = way->pieces[i];
    way->pieces[i] = way->pieces[--way->count];
    int r = pieces_feed(to, piece.data, piece.len, err);
    buf_done(&piece);
    return r;
}

static void test_pieces_order(void) {
    enum { ALL = 6 << 20 };
    static struct way there, back;
    struct pieces a, b;
    struct err err = {0};
    uint8_t *data = malloc(ALL);
    size_t sent = 0, came = 0, held = 0;
    for (size_t i = 0; i < ALL; i++)
        data[i] = (uint8_t)random();
    pieces_init(&a);
    pieces_init(&b);
    int r = 0;
    bool same = true, moved = true;
    for (long turn = 0; r == 0 && moved && came < ALL; turn++) {
        moved = false;
        size_t room = pieces_room(&a), want = turn % 3 ? (size_t)random() % 300 + 1 : PIECE_BYTES;
        want = want < room ? want : room;
        want = want < ALL - sent ? want : ALL - sent;
        if (want && random() % 4) {
            way_send(&there, &a, data + sent, want);
            sent += want;
            moved = true;
        }
        if (there.count && (random() % 3 == 0 || !want))
            r = way_bring(&there, &b, &err), moved = true;
        held = b.held_count > held ? b.held_count : held;
        size_t n = b.ready.len && random() % 2 ? (size_t)random() % b.ready.len + 1 : 0;
        same &= memcmp(b.ready.data ? b.ready.data : data, data + came, n) == 0;
        pieces_take(&b, n);
        came += n;
        if (pieces_due(&b) && back.count < 8)
            way_send(&back, &b, NULL, 0), moved = true;
        if (r == 0 && back.count)
            r = way_bring(&back, &a, &err), moved = true;
        moved |= n || want || b.ready.len;
    }
    ok_all("pieces in any order become the stream they were", r == 0, same, came == ALL);
    if (r < 0 || came != ALL)
        printf("# %s; %zu bytes came, %zu were sent\n", err.text, came, sent);
    ok(held > 2 && held <= PIECES_MOST, "some had to wait for others");
    for (struct way *way = &there; way; way = way == &there ? &back : NULL)
        while (way->count)
            buf_done(&way->pieces[--way->count]);
    pieces_done(&a);
    pieces_done(&b);
    free(data);
}

static void test_pieces_lies(void) {
    static const struct {
        uint64_t at, arrived;
        uint32_t len;
        const char *name;
    } rows[] = {
        {PIECES_WINDOW_BYTES, 0, 1, "a piece beyond the window"},
        {UINT64_MAX, 0, 2, "a piece at the end of numbers"},
        {0, 1, 0, "bytes that arrived and were never sent"},
        {0, 0, PIECE_BYTES + 1, "a piece that is too large"},
    };
    static uint8_t data[PIECE_BYTES];
    struct err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pieces pieces;
        autobuf piece;
        pieces_init(&pieces);
        buf_init(&piece, 2 * PIECE_BYTES);
        buf_u64(&piece, rows[i].at);
        buf_u64(&piece, rows[i].arrived);
        buf_u32(&piece, rows[i].len);
        buf_put(&piece, data, rows[i].len <= PIECE_BYTES ? rows[i].len : 0);
        ok(pieces_feed(&pieces, piece.data, piece.len, &err) == -ERR_PROTOCOL, rows[i].name);
        pieces_done(&pieces);
    }
    struct pieces pieces;
    int r = 0;
    pieces_init(&pieces);
    for (unsigned i = 0; i <= PIECES_MOST && r == 0; i++) {
        autobuf piece = buf_max(64);
        buf_u64(&piece, 2 * i + 1);
        buf_u64(&piece, 0);
        buf_u32(&piece, 1);
        buf_byte(&piece, 0);
        r = pieces_feed(&pieces, piece.data, piece.len, &err);
    }
    ok(r == -ERR_PROTOCOL && pieces.held_count == PIECES_MOST, "more pieces than a side may have under way");
    pieces_done(&pieces);
}

int main(void) {
    test_pieces_order();
    test_pieces_lies();
    test_exec();
    test_exec_flat();
    test_files();
    test_cancel();
    test_liars();
    test_lost();
    test_flood();
    arena_done(&told.arena);
    return tap_end();
}
