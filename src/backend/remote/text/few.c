/* A box on a machine where our runner cannot run: commands and whole files by the runner's own eight operations, and
 * UNSUPPORTED with the reason for everything else. It plays the runner's end of a wire: a thread for the wire, and one for
 * each call, which collects its input, asks, and answers within its credit. Called by text/text.c. Invariant: a command
 * never runs in another directory than it was given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/remote/text/call.h"
#include "base/clock.h"
#include "base/conceal.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "wire/frame.h"

enum { HELLO_MS = 10000, READ_BYTES = 128 << 10, EXEC_MAX_S = 3600 };

struct few_call {
    struct few_call *next;
    struct few_wire *wire;
    struct machine_text *text;
    uint32_t id;
    struct arena arena;
    struct buf raw, input, end;
    struct fields args;
    bool started, eof, cancelled;
    int64_t credit;
    uint32_t owed; /* credit for input that came */
};

struct few_wire {
    struct few_wire *next;
    struct machine_text *text;
    int fd;
    struct wire_reason *reason;
    pthread_mutex_t out; /* one frame at a time; never taken with text->lock held */
    struct few_call *calls;
    const char **env; /* of the box, in arena */
    const char *shell;
    struct arena arena;
};

/* ---- answers ---- */

static void few_frame(struct few_wire *wire, uint8_t type, uint32_t call, uint8_t flags, const void *data, size_t len) {
    autobuf frame = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES);
    frame_put(&frame, type, call, flags, data, len);
    pthread_mutex_lock(&wire->out);
    for (size_t at = 0; at < frame.len;) {
        ssize_t n = send(wire->fd, frame.data + at, frame.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the daemon let go: the wire's own thread sees that too */
        at += (size_t)n;
    }
    pthread_mutex_unlock(&wire->out);
}

/* Output, or (type ITEM) records that go as a whole. */
static int few_data(struct few_call *call, uint8_t type, uint8_t flags, const struct buf *data, struct err *err) {
    struct machine_text *text = call->text;
    for (size_t at = 0, n; at < data->len; at += n) {
        n = data->len - at < LIMIT_FRAME_PAYLOAD_BYTES / 2 ? data->len - at : LIMIT_FRAME_PAYLOAD_BYTES / 2;
        pthread_mutex_lock(&text->lock);
        while (call->credit < (int64_t)n && !call->cancelled)
            text_wait_locked(text, 0);
        call->credit -= (int64_t)n;
        bool cancelled = call->cancelled;
        pthread_mutex_unlock(&text->lock);
        if (cancelled)
            return err_set(err, ERR_GONE, "the call was cancelled");
        few_frame(call->wire, type, call->id, flags, data->data + at, n);
    }
    return 0;
}

/* ---- operations ---- */

/* All of the input. The call's own thread gives credit: none may come after its answer. */
static void few_collect(struct few_call *call) {
    struct machine_text *text = call->text;
    pthread_mutex_lock(&text->lock);
    while (!call->eof && !call->cancelled) {
        uint8_t credit[4];
        for (int i = 0; i < 4; i++)
            credit[i] = (uint8_t)(call->owed >> (8 * i));
        bool owes = call->owed;
        call->owed = 0;
        if (!owes) {
            text_wait_locked(text, 0);
            continue;
        }
        pthread_mutex_unlock(&text->lock);
        few_frame(call->wire, FRAME_CREDIT, call->id, 0, credit, sizeof credit);
        pthread_mutex_lock(&text->lock);
    }
    pthread_mutex_unlock(&text->lock);
}

static int few_ask(struct few_call *call, enum text_type type, const char *path, int64_t perm,
                   const struct buf *content, struct text_answer *ret_answer, struct err *err) {
    autobuf members, coded;
    struct json json;
    buf_init(&members, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&coded, LIMIT_TEXT_MESSAGE_BYTES);
    json_init(&json, &members);
    json_put_str(&json, "path", path);
    if (content) {
        text_base64(&coded, content->data, content->len);
        json_put_strn(&json, "data", coded.len ? (const char *)coded.data : "", coded.len);
    }
    if (perm >= 0)
        json_put_uint(&json, "perm", (uint64_t)perm);
    int r = text_ask(call->text, &call->cancelled, type, &members, TEXT_ASK_MS, ret_answer, err);
    return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no file '%s'", path) : r;
}

static int few_path(struct few_call *call, enum field_id id, const char **ret_path, struct err *err) {
    const char *given = call->args.text[id] ? call->args.text[id] : "";
    char *path = arena_alloc(&call->arena, LIMIT_PATH_BYTES + 1);
    if (!text_utf8(given, strlen(given)) || !path_join(path, LIMIT_PATH_BYTES + 1, call->text->workspace, given))
        return err_set(err, ERR_INVALID, "a path on machine %s has at most %u bytes and is UTF-8", call->text->name,
                       LIMIT_PATH_BYTES);
    *ret_path = path;
    return 0;
}

struct few_file {
    enum file_type type;
    uint64_t size, mtime_ns;
    uint32_t mode;
};

static int few_file(struct few_call *call, const char *path, struct few_file *ret_file, struct err *err) {
    struct text_answer answer;
    int r = few_ask(call, TEXT_STAT, path, -1, NULL, &answer, err);
    if (r < 0)
        return r;
    int64_t size = text_number(&answer, "size", 0), mode = text_number(&answer, "mode", 0);
    const char *time = text_member(&answer, "mod_time", NULL);
    uint64_t wall_ms = 0;
    if (!time || !clock_parse(time, &wall_ms))
        wall_ms = 0;
    bool dir = text_truth(&answer, "is_dir") || mode & 1ll << 31;
    bool other = mode & (1ll << 26 | 1ll << 25 | 1ll << 24 | 1ll << 21);
    *ret_file = (struct few_file){.type = dir     ? FILE_DIR
                                          : other ? FILE_OTHER
                                                  : FILE_REGULAR,
                                  .size = size > 0 ? (uint64_t)size : 0,
                                  .mtime_ns = wall_ms * 1000000,
                                  .mode = (uint32_t)mode & 0777};
    text_answer_done(call->text, &answer);
    return 0;
}

static void few_fields(struct buf *out, const struct few_file *file) {
    field_number(out, FIELD_TYPE, file->type);
    field_number(out, FIELD_SIZE, file->size);
    field_number(out, FIELD_MODE, file->mode);
    field_number(out, FIELD_MTIME_NS, file->mtime_ns);
}

static int few_ping(struct few_call *call, struct err *err) {
    (void)call, (void)err;
    return 0;
}

static int few_stat(struct few_call *call, struct err *err) {
    const char *path;
    struct few_file file = {0};
    int r = few_path(call, FIELD_PATH, &path, err);
    if (r == 0)
        r = few_file(call, path, &file, err);
    if (r < 0)
        return r;
    few_fields(&call->end, &file);
    field_text(&call->end, FIELD_NAME, path[1] ? strrchr(path, '/') + 1 : path);
    return 0;
}

static int few_large(const struct few_call *call, const char *path, struct err *err) {
    return err_set(err, ERR_TOO_LARGE, "'%s' has more than the %u bytes that the runner of machine %s can move: %s",
                   path, LIMIT_TEXT_FILE_BYTES, call->text->name, call->text->few_why);
}

static int few_read(struct few_call *call, struct err *err) {
    const struct fields *args = &call->args;
    const char *path;
    struct few_file file = {0};
    int r = few_path(call, FIELD_PATH, &path, err);
    if (r == 0)
        r = few_file(call, path, &file, err);
    if (r == 0 && file.type != FILE_REGULAR)
        r = err_set(err, ERR_INVALID, "'%s' is %s", path, file.type == FILE_DIR ? "a directory" : "not a regular file");
    if (r == 0 && file.size > LIMIT_TEXT_FILE_BYTES)
        r = few_large(call, path, err);
    autobuf fields = buf_max(256);
    autobuf content = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct text_answer answer = {0};
    if (r == 0)
        r = few_ask(call, TEXT_READ_FILE, path, -1, NULL, &answer, err);
    if (r < 0)
        return r;
    size_t len = 0;
    const char *data = text_member(&answer, "data", &len);
    bool good = data && text_unbase64(&content, data, len);
    text_answer_done(call->text, &answer);
    if (!good)
        return err_set(err, ERR_PROTOCOL, "machine %s sent a content that is not base64", call->text->name);
    file.size = content.len;
    few_fields(&fields, &file);
    few_frame(call->wire, FRAME_STAT, call->id, 0, fields.data, fields.len);
    uint64_t skip = args->number[FIELD_OFFSET],
             left = args->has[FIELD_LENGTH] ? args->number[FIELD_LENGTH] : UINT64_MAX;
    buf_consume(&content, skip < content.len ? (size_t)skip : content.len);
    if (args->number[FIELD_FLAGS] & CALL_ALL && content.len > left)
        return 0;
    content.len = content.len < left ? content.len : (size_t)left;
    return few_data(call, FRAME_DATA, STREAM_STDOUT, &content, err);
}

static int few_parent(struct few_call *call, const char *path, struct err *err) {
    size_t len = (size_t)(strrchr(path, '/') - path);
    return len ? few_ask(call, TEXT_MKDIR_ALL, arena_copy(&call->arena, path, len), 0755, NULL, NULL, err) : 0;
}

static int few_write(struct few_call *call, struct err *err) {
    const struct fields *args = &call->args;
    uint64_t flags = args->number[FIELD_FLAGS];
    const char *path;
    struct few_file file = {0};
    if (flags & CALL_APPEND || args->text[FIELD_IF_MATCH])
        return err_set(err, ERR_UNSUPPORTED, "machine %s writes whole files only: %s", call->text->name,
                       call->text->few_why);
    few_collect(call);
    int r = few_path(call, FIELD_PATH, &path, err);
    if (r == 0 && call->input.failed)
        r = few_large(call, path, err);
    if (r < 0)
        return r;
    r = few_file(call, path, &file, err);
    bool created = r == -ERR_NOT_FOUND;
    if (r == 0 && file.type == FILE_DIR)
        return err_set(err, ERR_INVALID, "'%s' is a directory", path);
    if (created)
        r = flags & CALL_PARENTS ? few_parent(call, path, err) : 0;
    uint64_t mode = args->has[FIELD_MODE] ? args->number[FIELD_MODE] : created ? 0644 : file.mode;
    if (r == 0)
        r = few_ask(call, TEXT_WRITE_FILE, path, (int64_t)mode & 0777, &call->input, NULL, err);
    if (r == 0)
        r = few_file(call, path, &file, err);
    few_fields(&call->end, &file);
    field_number(&call->end, FIELD_CREATED, created);
    return r;
}

static int few_mkdir(struct few_call *call, struct err *err) {
    const char *path;
    struct few_file file = {0};
    int r = few_path(call, FIELD_PATH, &path, err);
    if (r < 0)
        return r;
    bool parents = call->args.number[FIELD_FLAGS] & CALL_PARENTS;
    r = few_file(call, path, &file, err);
    if (r == 0 && (!parents || file.type != FILE_DIR))
        return err_set(err, ERR_EXISTS, "'%s' exists", path);
    bool created = r == -ERR_NOT_FOUND;
    if (created && !parents)
        r = few_file(call, arena_copy(&call->arena, path, (size_t)(strrchr(path, '/') - path)), &file, err);
    else if (created)
        r = 0;
    uint64_t mode = call->args.number[FIELD_MODE] & 0777;
    if (r == 0 && created)
        r = few_ask(call, TEXT_MKDIR_ALL, path, mode ? (int64_t)mode : 0755, NULL, NULL, err);
    field_number(&call->end, FIELD_CREATED, created);
    return r;
}

static int few_remove(struct few_call *call, struct err *err) {
    const char *path;
    bool all = call->args.number[FIELD_FLAGS] & CALL_RECURSIVE;
    struct few_file file = {0};
    int r = few_path(call, FIELD_PATH, &path, err);
    if (r == 0 && all) /* remove_all says nothing of what is not there, and a link to nothing is for remove */
        all = few_file(call, path, &file, err) == 0;
    if (r == 0)
        r = few_ask(call, all ? TEXT_REMOVE_ALL : TEXT_REMOVE, path, -1, NULL, NULL, err);
    field_number(&call->end, FIELD_FILES, 1);
    return r;
}

static int few_list(struct few_call *call, struct err *err) {
    const char *path;
    uint64_t limit = call->args.has[FIELD_LIMIT] ? call->args.number[FIELD_LIMIT] : UINT64_MAX;
    if (call->args.has[FIELD_DEPTH] && call->args.number[FIELD_DEPTH] > 1)
        return err_set(err, ERR_UNSUPPORTED, "machine %s lists one directory at a time: %s", call->text->name,
                       call->text->few_why);
    int r = few_path(call, FIELD_PATH, &path, err);
    struct text_answer answer = {0};
    if (r == 0)
        r = few_ask(call, TEXT_READ_DIR, path, -1, NULL, &answer, err);
    if (r < 0)
        return r;
    size_t i;
    json_t *entry, *entries = json_object_get(answer.body, "entries");
    json_array_foreach(entries, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (i >= limit)
            break;
        if (!name || !*name || strlen(name) > LIMIT_NAME_BYTES || strchr(name, '/'))
            continue;
        struct few_file file = {.type = json_is_true(json_object_get(entry, "is_dir")) ? FILE_DIR : FILE_REGULAR,
                                .size = (uint64_t)json_integer_value(json_object_get(entry, "size"))};
        autobuf item = buf_max(LIMIT_FRAME_PAYLOAD_BYTES / 2);
        size_t begin = item_begin(&item);
        few_fields(&item, &file);
        field_text(&item, FIELD_NAME, name);
        field_text(&item, FIELD_PATH, arena_printf(&call->arena, "%s/%s", path[1] ? path : "", name));
        item_end(&item, begin);
        r = few_data(call, FRAME_ITEM, 0, &item, err);
        if (r < 0)
            break;
    }
    field_number(&call->end, FIELD_TRUNCATED, json_array_size(entries) > limit);
    text_answer_done(call->text, &answer);
    return r;
}

/* ---- commands ---- */

/* With its directory, because runners differ in what they make of `dir`; and with an end in time for all that it starts,
 * where the machine has `timeout`, because some runners end the shell alone. */
static int few_line(struct few_call *call, uint64_t timeout_s, struct buf *line, struct err *err) {
    const struct fields *args = &call->args;
    const char *dir;
    int r = few_path(call, FIELD_CWD, &dir, err);
    if (r < 0)
        return r;
    buf_puts(line, "cd -- ");
    text_quote(line, dir);
    buf_printf(line,
               " || exit 126\ncubby_timeout=$(command -v timeout) && set -- \"$cubby_timeout\" -s KILL %llu || set --\n"
               "exec \"$@\"",
               (unsigned long long)timeout_s);
    const char *shell[] = {args->text[FIELD_SHELL] ? args->text[FIELD_SHELL] : call->wire->shell, "-c",
                           args->text[FIELD_COMMAND]};
    const char *const *words = args->text[FIELD_COMMAND] ? shell : args->argv;
    size_t count = args->text[FIELD_COMMAND] ? 3 : args->argc;
    for (size_t i = 0; i < count; i++) {
        buf_byte(line, ' ');
        text_quote(line, words[i]);
    }
    if (!count || line->failed || !text_utf8(line->data, line->len))
        return err_set(err, ERR_INVALID, "machine %s takes a command that is UTF-8", call->text->name);
    return 0;
}

static const char *const *few_env(struct few_call *call) {
    const struct fields *args = &call->args;
    size_t count = 0, own = 0;
    while (call->wire->env[own])
        own++;
    const char **env = arena_alloc(&call->arena, (own + args->env_count + args->secret_count + 1) * sizeof *env);
    for (size_t i = 0; i < own; i++)
        env[count++] = call->wire->env[i];
    for (size_t i = 0; i < args->env_count; i++)
        env[count++] = args->env[i];
    for (size_t i = 0; i < args->secret_count; i++)
        env[count++] = args->secrets[i];
    return env;
}

static int few_output(struct few_call *call, const struct text_answer *answer, const char *key, uint8_t stream,
                      uint64_t *ret_bytes, struct err *err) {
    autobuf raw = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    autobuf clean = buf_max(3u * LIMIT_TEXT_MESSAGE_BYTES);
    int r = text_output(answer, key, &raw, err);
    *ret_bytes = raw.len;
    struct conceal *conceal = conceal_new(call->args.secrets);
    if (conceal)
        conceal_text(conceal, raw.data, raw.len, &clean);
    if (r == 0)
        r = few_data(call, FRAME_DATA, stream, conceal ? &clean : &raw, err);
    conceal_free(conceal);
    return r;
}

static int few_exec(struct few_call *call, struct err *err) {
    const struct fields *args = &call->args;
    struct machine_text *text = call->text;
    uint64_t asked_s = (args->number[FIELD_TIMEOUT_MS] + 999) / 1000, bytes[2] = {0, 0};
    uint64_t timeout_s = asked_s == 0 || asked_s > EXEC_MAX_S - 10 ? EXEC_MAX_S - 10 : asked_s;
    bool root = args->text[FIELD_USER] && strcmp(args->text[FIELD_USER], "root") == 0;
    if (args->number[FIELD_FLAGS] & (CALL_PTY | CALL_BACKGROUND) || args->drop_count || root)
        return err_set(err, ERR_UNSUPPORTED, "machine %s runs plain commands only: %s", text->name, text->few_why);
    if (args->number[FIELD_FLAGS] & CALL_STDIN)
        few_collect(call);
    if (call->input.failed || !text_utf8(call->input.data, call->input.len))
        return err_set(err, ERR_UNSUPPORTED, "machine %s takes input of at most %u bytes of UTF-8: %s", text->name,
                       LIMIT_TEXT_FILE_BYTES, text->few_why);
    autobuf line = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    autobuf pid = buf_max(64);
    int r = few_line(call, timeout_s, &line, err);
    if (r < 0)
        return r;
    field_number(&pid, FIELD_PID, 1u << 30 | call->id); /* it has no number there that we know */
    few_frame(call->wire, FRAME_STAT, call->id, 0, pid.data, pid.len);
    uint64_t begin_ms = clock_ms();
    struct text_answer answer;
    r = text_ask_exec(text, &call->cancelled, buf_cstr(&line), few_env(call), &call->input, timeout_s + 5, &answer,
                      err);
    if (r < 0)
        return r;
    uint64_t duration_ms = clock_ms() - begin_ms;
    int64_t code = text_number(&answer, "exit_code", 0);
    /* `timeout` dies of the signal that it sends; a runner may call it 137, -9 or -1. */
    bool killed = code < 0 || code == 137, timed_out = text_truth(&answer, "timed_out");
    r = few_output(call, &answer, "stdout", STREAM_STDOUT, &bytes[0], err);
    if (r == 0)
        r = few_output(call, &answer, "stderr", STREAM_STDERR, &bytes[1], err);
    field_number(&call->end, killed ? FIELD_SIGNALLED : FIELD_EXIT,
                 !killed                   ? (uint64_t)code & 0xff
                 : code < -1 && code > -65 ? (uint64_t)-code
                                           : 9);
    if (timed_out || (killed && duration_ms >= timeout_s * 1000))
        field_number(&call->end, FIELD_TIMED_OUT, 1);
    field_number(&call->end, FIELD_BYTES_OUT, bytes[0]);
    field_number(&call->end, FIELD_BYTES_ERR, bytes[1]);
    field_number(&call->end, FIELD_DURATION_MS, duration_ms);
    text_answer_done(text, &answer);
    return r;
}

/* ---- calls ---- */

static const struct {
    enum op op;
    int (*run)(struct few_call *call, struct err *err);
} ops[] = {
    {OP_PING, few_ping}, {OP_EXEC, few_exec},   {OP_READ, few_read},     {OP_WRITE, few_write},
    {OP_STAT, few_stat}, {OP_MKDIR, few_mkdir}, {OP_REMOVE, few_remove}, {OP_LIST, few_list},
};

static int call_run(struct few_call *call, struct err *err) {
    struct machine_text *text = call->text;
    int r = fields_parse(view_of(call->raw.data, call->raw.len), &call->arena, &call->args, err);
    if (r < 0)
        return r;
    size_t i = 0;
    while (i < sizeof ops / sizeof *ops && ops[i].op != (enum op)call->args.number[FIELD_OP])
        i++;
    if (i == sizeof ops / sizeof *ops)
        return err_set(err, ERR_UNSUPPORTED, "machine %s can run commands and move whole files, nothing else: %s",
                       text->name, text->few_why);
    return ops[i].run(call, err);
}

static void call_free(struct few_call *call) {
    buf_done(&call->raw);
    buf_done(&call->input);
    buf_done(&call->end);
    arena_done(&call->arena);
    free(call);
}

static void *call_main(void *argument) {
    struct few_call *call = argument;
    struct machine_text *text = machine_text_ref(call->text);
    struct err err = {0};
    int r = call_run(call, &err);
    if (r < 0) {
        buf_clear(&call->end);
        field_number(&call->end, FIELD_CODE, (uint64_t)err.code);
        field_text(&call->end, FIELD_MESSAGE, err.text);
    }
    few_frame(call->wire, r < 0 ? FRAME_FAIL : FRAME_END, call->id, 0, call->end.data, call->end.len);
    pthread_mutex_lock(&text->lock);
    struct few_call **at = &call->wire->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    call_free(call);
    machine_text_unref(text);
    return NULL;
}

/* ---- the wire ---- */

static struct few_call *call_find_locked(struct few_wire *wire, const struct frame *frame) {
    struct few_call *call = wire->calls;
    while (call && call->id != frame->call)
        call = call->next;
    if (call || frame->type != FRAME_CALL)
        return call;
    call = xcalloc(1, sizeof *call);
    *call = (struct few_call){.next = wire->calls, .wire = wire, .text = wire->text, .id = frame->call};
    call->credit = LIMIT_CREDIT_BYTES;
    arena_init(&call->arena);
    buf_init(&call->raw, LIMIT_CALL_ARGS_BYTES);
    buf_init(&call->input, LIMIT_TEXT_FILE_BYTES);
    buf_init(&call->end, LIMIT_FRAME_PAYLOAD_BYTES);
    return wire->calls = call;
}

static int few_frame_in(struct few_wire *wire, const struct frame *frame, struct err *err) {
    struct machine_text *text = wire->text;
    int r = 0;
    pthread_mutex_lock(&text->lock);
    struct few_call *call = call_find_locked(wire, frame);
    if (call && frame->type == FRAME_CALL) {
        buf_put(&call->raw, frame->payload, frame->len);
        if (!(frame->flags & FLAG_MORE))
            r = text_thread(call_main, call, err); /* failed: out of threads, and the whole wire ends */
        call->started = r == 0 && !(frame->flags & FLAG_MORE);
    } else if (call && frame->type == FRAME_DATA) {
        buf_put(&call->input, frame->payload, frame->len); /* beyond its bound it fails, and the call with it */
        call->owed += frame->len;
    } else if (call && frame->type == FRAME_CREDIT && frame->len == 4) {
        struct view view = view_of(frame->payload, 4);
        call->credit += view_u32(&view);
    } else if (call) {
        call->eof |= frame->type == FRAME_EOF;
        call->cancelled |= frame->type == FRAME_CANCEL;
    }
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    return r;
}

static int few_receive(struct few_wire *wire, struct buf *in, struct err *err) {
    uint8_t *room = buf_reserve(in, READ_BYTES);
    ssize_t n = room ? recv(wire->fd, room, READ_BYTES, 0) : -1;
    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0)
        return err_set(err, ERR_GONE, "the daemon let go");
    in->len += (size_t)n;
    size_t at = 0;
    int r;
    struct frame frame;
    while ((r = frame_parse(in->data + at, in->len - at, &frame, err)) > 0) {
        r = few_frame_in(wire, &frame, err);
        if (r < 0)
            return r;
        at += FRAME_HEAD_BYTES + frame.len;
    }
    buf_consume(in, at);
    return r;
}

static void few_close(struct few_wire *wire) {
    struct machine_text *text = wire->text;
    pthread_mutex_lock(&text->lock);
    for (struct few_call **at = &wire->calls, *call; (call = *at);) {
        call->cancelled = true;
        if (call->started) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call_free(call);
    }
    pthread_cond_broadcast(&text->changed);
    while (wire->calls)
        text_wait_locked(text, 0);
    struct few_wire **at = &text->wires;
    while (*at != wire)
        at = &(*at)->next;
    *at = wire->next;
    pthread_mutex_unlock(&text->lock);
    close(wire->fd);
    wire_reason_unref(wire->reason);
    pthread_mutex_destroy(&wire->out);
    arena_done(&wire->arena);
    free(wire);
    machine_text_unref(text);
}

static void *few_main(void *argument) {
    struct few_wire *wire = argument;
    autobuf in = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES + READ_BYTES);
    autobuf hello = buf_max(LIMIT_PATH_BYTES + 256);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, 0);
    field_text(&hello, FIELD_WORKSPACE, wire->text->workspace);
    few_frame(wire, FRAME_HELLO, 0, 0, hello.data, hello.len);
    struct err err;
    while (few_receive(wire, &in, &err) >= 0)
        ;
    few_close(wire);
    return NULL;
}

void text_few_end_locked(struct machine_text *text, const char *why) {
    for (struct few_wire *wire = text->wires; wire; wire = wire->next) {
        wire_reason_set(wire->reason, why);
        shutdown(wire->fd, SHUT_RD); /* what its calls answer is still sent */
    }
}

int text_few_open(struct machine_text *text, const struct spec *spec, struct wire **ret_wire, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a wire to machine %s", text->name);
    struct few_wire *wire = xcalloc(1, sizeof *wire);
    struct wire_reason *reason = wire_reason_new();
    *wire = (struct few_wire){.text = machine_text_ref(text), .fd = pair[0], .reason = wire_reason_ref(reason)};
    pthread_mutex_init(&wire->out, NULL);
    arena_init(&wire->arena);
    wire->shell = arena_strdup(&wire->arena, spec->shell ? spec->shell : text->shell);
    wire->env = arena_alloc(&wire->arena, (spec->env_count + 1) * sizeof *wire->env);
    for (size_t i = 0; i < spec->env_count; i++)
        wire->env[i] = arena_strdup(&wire->arena, spec->env[i]);
    pthread_mutex_lock(&text->lock);
    wire->next = text->wires;
    text->wires = wire;
    if (text->dead) /* it died just now: this one hears of it as well */
        shutdown(wire->fd, SHUT_RD);
    pthread_mutex_unlock(&text->lock);
    int r = text_thread(few_main, wire, err);
    if (r < 0) {
        close(pair[1]);
        few_close(wire);
    } else {
        r = wire_new(pair[1], WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err);
    }
    if (r == 0)
        wire_set_reason(*ret_wire, reason);
    wire_reason_unref(reason);
    return r;
}
