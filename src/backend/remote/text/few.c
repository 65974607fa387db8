/* A box on a machine where our runner cannot run. This process plays the runner's end of the wire: it takes the frames
 * of calls, runs each call on a thread of its own, and answers within its credit: commands and whole files by the
 * machine's own eight operations, and UNSUPPORTED with the reason for everything else. Called by text/text.c.
 * Invariants: a command never runs in another directory than it was given; nothing of a call is sent after its END or
 * FAIL. */
#include <sys/socket.h>

#include "base/base.h"
#include "backend/remote/text/call.h"
#include "base/conceal.h"
#include "base/sync.h"

enum { EXEC_MAX_S = 3600, READ_BYTES = 128 << 10 };

struct text_call {
    struct text_call *next;
    struct text_wire *wire;
    uint32_t id;
    struct arena arena;
    struct buf raw, input, end; /* end: fields of the END frame */
    struct fields args;
    bool started, eof, cancelled;
    int64_t credit;
};

static void few_frame(struct text_wire *wire, uint8_t type, uint32_t call, uint8_t flags, const void *data,
                      size_t len) {
    autobuf frame = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES);
    frame_put(&frame, type, call, flags, data, len);
    autolock(&wire->out);
    for (size_t at = 0; at < frame.len;) {
        ssize_t n = send(wire->fd, frame.data + at, frame.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the daemon closed the wire: text_few_main sees that too */
        at += (size_t)n;
    }
}

/* Output, or (type ITEM) records that go as a whole. GONE: the call was cancelled. */
static int few_data(struct text_call *call, uint8_t type, uint8_t flags, const struct buf *data, struct err *err) {
    struct text_wire *wire = call->wire;
    for (size_t at = 0, n; at < data->len; at += n) {
        n = data->len - at < LIMIT_FRAME_PAYLOAD_BYTES / 2 ? data->len - at : LIMIT_FRAME_PAYLOAD_BYTES / 2;
        pthread_mutex_lock(&wire->text->lock);
        while (call->credit < (int64_t)n && !call->cancelled)
            cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
        call->credit -= (int64_t)n;
        bool cancelled = call->cancelled;
        pthread_mutex_unlock(&wire->text->lock);
        if (cancelled)
            return err_set(err, ERR_GONE, "the call was cancelled");
        few_frame(wire, type, call->id, flags, data->data + at, n);
    }
    return 0;
}

/* Waits for all of the input. call->input.failed: there is more than LIMIT_TEXT_FILE_BYTES. */
static void few_collect(struct text_call *call) {
    struct text_wire *wire = call->wire;
    autobuf credit = buf_max(4);
    buf_u32(&credit, LIMIT_TEXT_FILE_BYTES); /* with the credit that a call begins with, more than may come */
    few_frame(wire, FRAME_CREDIT, call->id, 0, credit.data, credit.len);
    autolock(&wire->text->lock);
    while (!call->eof && !call->cancelled && !call->input.failed)
        cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
}

/* ---- files ---- */

struct few_file {
    enum file_type type;
    uint64_t size, mtime_ns;
    uint32_t mode;
};

static int few_ask(struct text_call *call, const char *type, const char *good, const char *path, int64_t perm,
                   const struct buf *content, struct text_answer *ret_answer, struct err *err) {
    autobuf members = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct json json = {.out = &members};
    json_put_str(&json, "path", path);
    if (content)
        json_put_bytes(&json, "data", content->data, content->len, false);
    if (perm >= 0)
        json_put_uint(&json, "perm", (uint64_t)perm);
    int r = text_ask(call->wire->text, &call->cancelled, type, good, &members, TEXT_ASK_MS, ret_answer, err);
    return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no file '%s'", path) : r;
}

static int few_path(struct text_call *call, enum field_id id, const char **ret_path, struct err *err) {
    const struct machine_text *text = call->wire->text;
    const char *given = call->args.text[id] ? call->args.text[id] : "";
    char *path = arena_alloc(&call->arena, LIMIT_PATH_BYTES + 1);
    if (!text_utf8(given, strlen(given)) || !path_join(path, LIMIT_PATH_BYTES + 1, text->workspace, given))
        return err_set(err, ERR_INVALID, "a path on machine %s has at most %u bytes and is UTF-8", text->name,
                       LIMIT_PATH_BYTES);
    *ret_path = path;
    return 0;
}

static int few_stat(struct text_call *call, const char *path, struct few_file *ret_file, struct err *err) {
    struct text_answer answer;
    TRY(few_ask(call, "stat", "file_info", path, -1, NULL, &answer, err));
    int64_t size = text_number(&answer, "size"), mode = text_number(&answer, "mode");
    const char *time = text_member(&answer, "mod_time", NULL);
    uint64_t wall_ms = 0;
    bool timed = time && clock_parse(time, &wall_ms);
    *ret_file = (struct few_file){FILE_REGULAR, size > 0 ? (uint64_t)size : 0, timed ? wall_ms * 1000000 : 0,
                                  (uint32_t)mode & 0777};
    if (json_is_true(json_object_get(answer.body, "is_dir")) || mode & 1ll << 31)
        ret_file->type = FILE_DIR;
    else if (mode & (1ll << 26 | 1ll << 25 | 1ll << 24 | 1ll << 21)) /* Go's bits: device, pipe, socket, terminal */
        ret_file->type = FILE_OTHER;
    text_answer_done(call->wire->text, &answer);
    return 0;
}

static void few_fields(struct buf *out, const struct few_file *file) {
    field_number(out, FIELD_TYPE, file->type);
    field_number(out, FIELD_SIZE, file->size);
    field_number(out, FIELD_MODE, file->mode);
    field_number(out, FIELD_MTIME_NS, file->mtime_ns);
}

static int few_large(const struct text_call *call, const char *path, struct err *err) {
    return err_set(err, ERR_TOO_LARGE, "'%s' has more than the %u bytes that the runner of machine %s can move: %s",
                   path, LIMIT_TEXT_FILE_BYTES, call->wire->text->name, call->wire->text->few_why);
}

static int few_read(struct text_call *call, const char *path, const struct few_file *file, struct err *err) {
    const struct fields *args = &call->args;
    if (file->type != FILE_REGULAR)
        return err_set(err, ERR_INVALID, "'%s' is %s", path,
                       file->type == FILE_DIR ? "a directory" : "not a regular file");
    if (file->size > LIMIT_TEXT_FILE_BYTES)
        return few_large(call, path, err);
    autobuf fields = buf_max(256);
    autobuf content = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct text_answer answer = {0};
    TRY(few_ask(call, "read_file", "file_content", path, -1, NULL, &answer, err));
    size_t len = 0;
    const char *data = text_member(&answer, "data", &len);
    bool good = data && text_unbase64(&content, data, len);
    text_answer_done(call->wire->text, &answer);
    if (!good)
        return err_set(err, ERR_PROTOCOL, "machine %s sent a content that is not base64", call->wire->text->name);
    few_fields(&fields, &(struct few_file){file->type, content.len, file->mtime_ns, file->mode});
    few_frame(call->wire, FRAME_STAT, call->id, 0, fields.data, fields.len);
    uint64_t skip = args->number[FIELD_OFFSET];
    uint64_t left = args->has[FIELD_LENGTH] ? args->number[FIELD_LENGTH] : UINT64_MAX;
    buf_consume(&content, skip < content.len ? (size_t)skip : content.len);
    if (args->number[FIELD_FLAGS] & CALL_ALL && content.len > left)
        return 0;
    content.len = content.len < left ? content.len : (size_t)left;
    return few_data(call, FRAME_DATA, STREAM_STDOUT, &content, err);
}

/* file NULL: it does not exist yet. */
static int few_write(struct text_call *call, const char *path, const struct few_file *file, struct err *err) {
    const struct fields *args = &call->args;
    const struct machine_text *text = call->wire->text;
    uint64_t flags = args->number[FIELD_FLAGS];
    struct few_file written = {0};
    size_t parent = (size_t)(strrchr(path, '/') - path);
    int r = 0;
    if (flags & CALL_APPEND || args->text[FIELD_IF_MATCH])
        return err_set(err, ERR_UNSUPPORTED, "machine %s writes whole files only: %s", text->name, text->few_why);
    if (file && file->type == FILE_DIR)
        return err_set(err, ERR_INVALID, "'%s' is a directory", path);
    few_collect(call);
    if (call->input.failed)
        return few_large(call, path, err);
    if (!file && parent && flags & CALL_PARENTS)
        r = few_ask(call, "mkdir_all", "ok", arena_copy(&call->arena, path, parent), 0755, NULL, NULL, err);
    uint64_t mode = args->has[FIELD_MODE] ? args->number[FIELD_MODE] : file ? file->mode : 0644;
    r = r ?: few_ask(call, "write_file", "ok", path, (int64_t)mode & 0777, &call->input, NULL, err)
          ?: few_stat(call, path, &written, err);
    few_fields(&call->end, &written);
    field_number(&call->end, FIELD_CREATED, !file);
    return r;
}

static int few_mkdir(struct text_call *call, const char *path, const struct few_file *file, struct err *err) {
    bool parents = call->args.number[FIELD_FLAGS] & CALL_PARENTS;
    struct few_file parent;
    int r = 0;
    if (file && (!parents || file->type != FILE_DIR))
        return err_set(err, ERR_EXISTS, "'%s' exists", path);
    if (!file && !parents) /* mkdir_all would make it */
        r = few_stat(call, arena_copy(&call->arena, path, (size_t)(strrchr(path, '/') - path)), &parent, err);
    uint64_t mode = call->args.number[FIELD_MODE] & 0777;
    if (r == 0 && !file)
        r = few_ask(call, "mkdir_all", "ok", path, mode ? (int64_t)mode : 0755, NULL, NULL, err);
    field_number(&call->end, FIELD_CREATED, !file);
    return r;
}

static int few_list(struct text_call *call, const char *path, struct err *err) {
    struct machine_text *text = call->wire->text;
    uint64_t limit = call->args.has[FIELD_LIMIT] ? call->args.number[FIELD_LIMIT] : UINT64_MAX;
    if (call->args.has[FIELD_DEPTH] && call->args.number[FIELD_DEPTH] > 1)
        return err_set(err, ERR_UNSUPPORTED, "machine %s lists one directory at a time: %s", text->name, text->few_why);
    struct text_answer answer = {0};
    TRY(few_ask(call, "read_dir", "dir_entries", path, -1, NULL, &answer, err));
    int r = 0;
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
    text_answer_done(text, &answer);
    return r;
}

/* ---- commands ---- */

/* With its directory, because runners differ in what they make of `dir`; and with an end in time for all that it
 * starts, where the machine has `timeout`, because some runners end the shell alone. */
static int few_line(struct text_call *call, uint64_t timeout_s, struct buf *line, struct err *err) {
    const struct fields *args = &call->args;
    const char *dir;
    TRY(few_path(call, FIELD_CWD, &dir, err));
    buf_puts(line, "cd -- ");
    text_quote(line, dir);
    buf_printf(line,
               " || exit 126\ncubby_timeout=$(command -v timeout) && set -- \"$cubby_timeout\" -s KILL %llu || set --\n"
               "exec \"$@\"",
               (unsigned long long)timeout_s);
    const char *shell[] = {args->text[FIELD_SHELL] ? args->text[FIELD_SHELL] : call->wire->shell, "-c",
                           args->text[FIELD_COMMAND]};
    text_quote_all(line, shell[2] ? shell : args->argv, shell[2] ? 3 : args->argc);
    if ((!shell[2] && !args->argc) || line->failed || !text_utf8(line->data, line->len))
        return err_set(err, ERR_INVALID, "machine %s takes a command that is UTF-8", call->wire->text->name);
    return 0;
}

static const char *const *few_env(struct text_call *call) {
    const struct fields *args = &call->args;
    const struct text_wire *wire = call->wire;
    size_t count = wire->env_count + args->env_count + args->secret_count;
    const char **env = arena_alloc(&call->arena, (count + 1) * sizeof *env);
    memcpy(env, wire->env, wire->env_count * sizeof *env);
    for (size_t i = 0; i < args->env_count + args->secret_count; i++)
        env[wire->env_count + i] = i < args->env_count ? args->env[i] : args->secrets[i - args->env_count];
    return env;
}

static int few_output(struct text_call *call, const struct text_answer *answer, const char *key, uint8_t stream,
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

static int few_exec(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    struct machine_text *text = call->wire->text;
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
    TRY(few_line(call, timeout_s, &line, err));
    field_number(&pid, FIELD_PID, 1u << 30 | call->id); /* it has no number there that we know */
    few_frame(call->wire, FRAME_STAT, call->id, 0, pid.data, pid.len);
    uint64_t begin_ms = clock_ms();
    struct text_answer answer;
    TRY(text_ask_exec(text, &call->cancelled, buf_cstr(&line), few_env(call), &call->input, timeout_s + 5, &answer,
                      err));
    uint64_t duration_ms = clock_ms() - begin_ms;
    int64_t code = text_number(&answer, "exit_code");
    /* `timeout` dies of the signal that it sends; a runner may call it 137, -9 or -1. */
    bool killed = code < 0 || code == 137, timed_out = json_is_true(json_object_get(answer.body, "timed_out"));
    int r = few_output(call, &answer, "stdout", STREAM_STDOUT, &bytes[0], err)
                ?: few_output(call, &answer, "stderr", STREAM_STDERR, &bytes[1], err);
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

static int few_run(struct text_call *call, struct err *err) {
    const struct machine_text *text = call->wire->text;
    enum op op = (enum op)call->args.number[FIELD_OP];
    const char *path;
    struct few_file file;
    if (op == OP_PING)
        return 0;
    if (op == OP_EXEC)
        return few_exec(call, err);
    if (op != OP_READ && op != OP_WRITE && op != OP_STAT && op != OP_MKDIR && op != OP_REMOVE && op != OP_LIST)
        return err_set(err, ERR_UNSUPPORTED, "machine %s can only run commands and move whole files: %s", text->name,
                       text->few_why);
    TRY(few_path(call, FIELD_PATH, &path, err));
    if (op == OP_LIST)
        return few_list(call, path, err);
    int r = few_stat(call, path, &file, err);
    const struct few_file *found = r == 0 ? &file : NULL;
    if (r < 0 && (r != -ERR_NOT_FOUND || op == OP_READ || op == OP_STAT))
        return r;
    switch (op) {
    case OP_READ:
        return few_read(call, path, found, err);
    case OP_WRITE:
        return few_write(call, path, found, err);
    case OP_MKDIR:
        return few_mkdir(call, path, found, err);
    case OP_REMOVE: /* remove_all says nothing of a file that does not exist, and a link to nothing is for remove */
        field_number(&call->end, FIELD_FILES, 1);
        return few_ask(call, found && call->args.number[FIELD_FLAGS] & CALL_RECURSIVE ? "remove_all" : "remove", "ok",
                       path, -1, NULL, NULL, err);
    default: /* OP_STAT */
        few_fields(&call->end, found);
        field_text(&call->end, FIELD_NAME, path[1] ? strrchr(path, '/') + 1 : path);
        return 0;
    }
}

static void few_call_free(struct text_call *call) {
    list_remove(call->wire->calls, call);
    buf_done(&call->raw);
    buf_done(&call->input);
    buf_done(&call->end);
    arena_done(&call->arena);
    free(call);
}

static void *few_call_main(void *argument) {
    struct text_call *call = argument;
    struct text_wire *wire = call->wire;
    struct err err = {0};
    int r =
        fields_parse(view_of(call->raw.data, call->raw.len), &call->arena, &call->args, &err) ?: few_run(call, &err);
    if (r < 0) {
        buf_clear(&call->end);
        field_number(&call->end, FIELD_CODE, (uint64_t)err.code);
        field_text(&call->end, FIELD_MESSAGE, err.text);
    }
    few_frame(wire, r < 0 ? FRAME_FAIL : FRAME_END, call->id, 0, call->end.data, call->end.len);
    pthread_mutex_t *lock = &wire->text->lock;
    autolock(lock);
    few_call_free(call);
    pthread_cond_broadcast(&wire->text->changed);
    return NULL;
}

static int few_take_locked(struct text_wire *wire, const struct frame *frame, struct err *err) {
    struct text_call *call = list_find(wire->calls, open, open->id == frame->call);
    if (!call && frame->type == FRAME_CALL) {
        call = xcalloc(1, sizeof *call);
        *call = (struct text_call){.next = wire->calls, .wire = wire, .id = frame->call};
        call->credit = LIMIT_CREDIT_BYTES;
        arena_init(&call->arena);
        buf_init(&call->raw, LIMIT_CALL_ARGS_BYTES);
        buf_init(&call->input, LIMIT_TEXT_FILE_BYTES);
        buf_init(&call->end, LIMIT_FRAME_PAYLOAD_BYTES);
        wire->calls = call;
    }
    if (!call)
        return 0;
    if (frame->type == FRAME_CALL) {
        buf_put(&call->raw, frame->payload, frame->len);
        call->started = !(frame->flags & FLAG_MORE);
        int failed = call->started ? thread_detached(few_call_main, call, TEXT_STACK_BYTES) : 0;
        call->started &= !failed;
        return failed ? err_errno(err, failed, "a thread for a call") : 0;
    }
    if (frame->type == FRAME_DATA)
        buf_put(&call->input, frame->payload, frame->len);
    if (frame->type == FRAME_CREDIT && frame->len == 4) {
        struct view view = view_of(frame->payload, 4);
        call->credit += view_u32(&view);
    }
    call->eof |= frame->type == FRAME_EOF;
    call->cancelled |= frame->type == FRAME_CANCEL;
    pthread_cond_broadcast(&wire->text->changed);
    return 0;
}

void *text_few_main(void *argument) {
    struct text_wire *wire = argument;
    autobuf in = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES + READ_BYTES);
    autobuf hello = buf_max(LIMIT_PATH_BYTES + 256);
    pthread_mutex_init(&wire->out, NULL);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, 0);
    field_text(&hello, FIELD_WORKSPACE, wire->text->workspace);
    few_frame(wire, FRAME_HELLO, 0, 0, hello.data, hello.len);
    for (int r = 0; r >= 0;) {
        struct err err;
        struct frame frame;
        uint8_t *room = buf_reserve(&in, READ_BYTES);
        ssize_t n = room ? recv(wire->fd, room, READ_BYTES, 0) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        in.len += (size_t)n;
        size_t at = 0;
        while ((r = frame_parse(in.data + at, in.len - at, &frame, &err)) > 0) {
            pthread_mutex_lock(&wire->text->lock);
            r = few_take_locked(wire, &frame, &err);
            pthread_mutex_unlock(&wire->text->lock);
            if (r < 0)
                break;
            at += FRAME_HEAD_BYTES + frame.len;
        }
        buf_consume(&in, at);
    }
    pthread_mutex_lock(&wire->text->lock);
    for (struct text_call *call = wire->calls, *next; call; call = next) {
        next = call->next;
        call->cancelled = true;
        if (!call->started)
            few_call_free(call);
    }
    pthread_cond_broadcast(&wire->text->changed);
    while (wire->calls)
        cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
    pthread_mutex_unlock(&wire->text->lock);
    pthread_mutex_destroy(&wire->out);
    text_wire_free(wire);
    return NULL;
}
