/* The nodejs group of the AIO dialect: JavaScript as a program of its own, or in sessions that keep what was run in them
 * (aio/kernel.h). Called through aio_code_routes. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/headtail.h"
#include "base/limits.h"
#include "front/aio/code.h"
#include "front/trail.h"

#define NODE_IDLE_S 86400u          /* of its sessions, when nothing else is said */
#define NODE_ARGUMENT_BYTES 100000u /* the kernel takes 128 KiB as one argument */
#define NODE_FILES 256u

struct nodejs_args {
    struct row_text code, input, session_id, cwd, version;
    struct row_number timeout, max_idle_time;
    const char **files;
    bool stateful;
};
#define ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct nodejs_args, member)
#define SESSION_ROW                                                                                                    \
    {                                                                                                                  \
        ROW("session_id", TEXT, session_id),                                                                           \
            .max = KERNEL_NAME_BYTES, .text = "which session; made when there is none of that name; default a new one" \
    }
#define CWD_ROW                                                                                                        \
    { ROW("cwd", TEXT, cwd), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "where; default the workspace" }
#define IDLE_ROW                                                                                                       \
    {                                                                                                                  \
        ROW("max_idle_time", INT, max_idle_time), .min = 60, .max = NODE_IDLE_S,                                       \
                                                  .text = "seconds until it ends unused, default a day"                \
    }

const struct row nodejs_execute_fields[] = {
    {ROW("code", TEXT, code), .flags = ROW_REQUIRED | ROW_AUDITED, .max = CODE_BYTES, .text = "what is run"},
    {ROW("timeout", INT, timeout), .min = 1, .max = LIMIT_KERNEL_TIMEOUT_S, .fallback = KERNEL_TIMEOUT_S,
     .text = "seconds it may run, default 30"},
    {ROW("stdin", TEXT, input), .flags = ROW_NUL, .max = LIMIT_STDIN_BYTES, .text = "its input; not in sessions"},
    {ROW("files", MAP, files), .max = NODE_FILES, .text = "files that are written first: path, below cwd, and content"},
    {ROW("stateful", BOOL, stateful), .text = "in a session, which has what was run in it before"},
    SESSION_ROW,
    CWD_ROW,
    {ROW("version", TEXT, version), .max = 32, .text = "of Node.js: another one than the box's is refused"},
    {.name = NULL},
};
const struct row nodejs_create_fields[] = {SESSION_ROW, CWD_ROW, IDLE_ROW, {.name = NULL}};
const struct row nodejs_update_fields[] = {CWD_ROW, IDLE_ROW, {.name = NULL}};

/* ---- programs ---- */

struct node_output {
    struct headtail streams[2];
    struct http_request *request;
    struct err *err;
};

static int node_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct node_output *output = user;
    struct headtail *headtail = &output->streams[stream == STREAM_STDERR];
    size_t before = headtail->head.len + headtail->tail.len;
    headtail_put(headtail, data, len);
    return http_hold(output->request, 3 * (headtail->head.len + headtail->tail.len - before), output->err);
}

static void node_result(struct node_output *output, const struct exec_result *exec, struct code_result *ret_result) {
    bool fine = exec->exited && !exec->exit_code && !exec->timed_out;
    *ret_result = (struct code_result){.status = exec->timed_out ? "timeout"
                                                 : fine          ? "ok"
                                                                 : "error",
                                       .exited = true,
                                       .exit_code = exec->timed_out ? 124
                                                    : exec->exited  ? exec->exit_code
                                                                    : 128 + exec->signal};
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *data = headtail_finish(&output->streams[i], &len);
        buf_init(&ret_result->texts[i], len + 1);
        buf_put(&ret_result->texts[i], data, len);
        buf_cstr(&ret_result->texts[i]);
    }
}

int nodejs_program(struct http_request *request, struct box *box, const struct code_run *run, const char *input,
                   size_t input_len, struct code_result *ret_result, struct err *err) {
    bool argument = run->len <= NODE_ARGUMENT_BYTES;
    if (!argument && input)
        return err_set(err, ERR_TOO_LARGE, "code with an input of its own may have %u bytes: write it into a file",
                       NODE_ARGUMENT_BYTES);
    const char *const short_argv[] = {"node", "-e", run->code, NULL}, *const long_argv[] = {"node", "-", NULL};
    const struct exec_request exec = {.argv = argument ? short_argv : long_argv,
                                      .cwd = run->cwd,
                                      .timeout_ms = run->timeout_s * 1000,
                                      .input = argument ? input : run->code,
                                      .input_len = argument ? input_len : run->len};
    struct node_output output = {.request = request, .err = err};
    const struct exec_sink sink = {.output = node_put, .user = &output};
    struct exec_result result = {0};
    int failed = code_directory(request, box, "cwd", run->cwd, err);
    if (failed)
        return failed;
    for (int i = 0; i < 2; i++)
        headtail_init(&output.streams[i], DEFAULT_OUTPUT_LIMIT_BYTES);
    failed = box_exec(box, &exec, &sink, http_fd(request), &result, err);
    if (failed == -ERR_NOT_FOUND)
        failed = err_set(err, ERR_UNSUPPORTED,
                         "%s is not installed in this box: put '%s' into its template or image (Debian: package %s)",
                         kernel_node.language, kernel_node.program, kernel_node.package);
    if (!failed) {
        trail_result(request, &result);
        node_result(&output, &result, ret_result);
    }
    for (int i = 0; i < 2; i++)
        headtail_done(&output.streams[i]);
    return failed;
}

/* ---- execute ---- */

struct node_file {
    const char *data;
    size_t len;
};

static ssize_t node_file_read(void *user, void *data, size_t size, struct err *err) {
    struct node_file *file = user;
    size_t n = file->len < size ? file->len : size;
    (void)err;
    memcpy(data, file->data, n);
    file->data += n;
    file->len -= n;
    return (ssize_t)n;
}

static int node_files(struct http_request *request, struct box *box, const struct nodejs_args *args, struct err *err) {
    for (const char **row = args->files; row && *row; row++) {
        const char *content = strchr(*row, '=') + 1,
                   *name = arena_copy(http_arena(request), *row, (size_t)(content - *row) - 1);
        bool below = *name != '/' && args->cwd.data;
        struct node_file file = {.data = content, .len = strlen(content)};
        const struct write_request write = {
            .path = below ? arena_printf(http_arena(request), "%s/%s", args->cwd.data, name) : name,
            .parents = true,
            .size = (int64_t)file.len,
            .max = front_settings(request)->max_upload_bytes};
        struct file_stat stat;
        bool created;
        int failed = box_write(box, &write, node_file_read, &file, http_fd(request), &created, &stat, err);
        if (failed)
            return err_wrap(err, "files");
    }
    return 0;
}

/* "20", "v20", "20.1", "node20" */
static int node_version(struct http_request *request, struct box *box, const char *wanted, struct err *err) {
    json_t *value = NULL;
    if (!wanted)
        return 0;
    int failed =
        code_script(request, box, &kernel_node, "console.log(JSON.stringify(process.versions.node))", &value, err);
    const char *own = json_string_value(value), *number = wanted + strcspn(wanted, "0123456789");
    if (!failed && (!own || strncmp(own, number, strlen(number)) != 0 || !*number ||
                    (own[strlen(number)] && own[strlen(number)] != '.')))
        failed = err_set(err, ERR_INVALID, "version: this box has Node.js %.32s, not %.32s", own ? own : "?", wanted);
    json_decref(value);
    return failed;
}

static int node_answer(struct http_request *request, const struct nodejs_args *args, const struct code_result *result,
                       const char *session, struct err *err) {
    static const char *const streams[] = {"stdout", "stderr"};
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "language", "javascript");
    json_put_str(json, "status", result->status);
    json_key(json, "execution_count");
    if (json_is_integer(result->count))
        json_int(json, json_integer_value(result->count));
    else
        json_nil(json);
    json_key(json, "outputs");
    code_outputs_json(&answer, result);
    json_key(json, "code");
    aio_text(&answer, (const uint8_t *)args->code.data, args->code.len);
    for (int i = 0; i < 2; i++) {
        json_key(json, streams[i]);
        code_text_json(&answer, &result->texts[i]);
    }
    json_put_int(json, "exit_code", result->exited ? result->exit_code : 124);
    json_put_str(json, "session_id", session);
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

int nodejs_execute(struct http_request *request, struct box *box, struct err *err) {
    struct nodejs_args args = {0};
    struct kernel kernel = {0};
    autoresult result = {0};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = code_name(request, args.session_id.data);
    bool stateful = args.stateful || args.session_id.data;
    if (!failed && stateful && args.input.data)
        failed = aio_unfit(request, "stdin", "goes with code that is a program of its own: not with a session");
    if (!failed)
        failed = code_directory(request, box, "cwd", args.cwd.data, err);
    if (!failed)
        failed = node_version(request, box, args.version.data, err);
    if (!failed)
        failed = node_files(request, box, &args, err);
    if (failed)
        return failed;
    const struct code_run run = {.code = args.code.data,
                                 .len = args.code.len,
                                 .cwd = args.cwd.data,
                                 .name = args.session_id.data,
                                 .timeout_s = args.timeout.value};
    if (stateful)
        failed = code_in_session(request, box, &kernel_node, &run, NULL, false, &kernel, &result, err);
    else
        failed = nodejs_program(request, box, &run, args.input.data, args.input.len, &result, err);
    return failed ? failed : node_answer(request, &args, &result, stateful ? kernel.name : NULL, err);
}

/* ---- sessions ---- */

/* One that is too busy to say so is that. */
static int node_session_json(struct http_request *request, struct box *box, const struct kernel *kernel,
                             const char *cwd, uint64_t idle_s, struct answer *answer, struct err *err) {
    struct json *json = &answer->json;
    json_t *facts = NULL;
    uint64_t now = clock_wall_ms();
    int failed = kernel_look(request, box, kernel, cwd, idle_s, &facts, err);
    if (failed && (failed != -ERR_TIMEOUT || cwd || idle_s))
        return failed;
    const char *at = json_string_value(json_object_get(facts, "cwd"));
    bool busy = !facts || json_is_true(json_object_get(facts, "busy"));
    double used = json_number_value(json_object_get(facts, "used"));
    json_open(json, '{');
    json_put_str(json, "session_id", kernel->name);
    json_put_str(json, "cwd", at ? at : "");
    json_put_double(json, "created_at", (double)kernel->created_ms / 1000);
    json_put_double(json, "last_used", used > 0 && used < 1e11 ? used : (double)now / 1000);
    json_put_int(json, "max_idle_time", json_integer_value(json_object_get(facts, "idle")));
    json_put_uint(json, "age_seconds", now > kernel->created_ms ? (now - kernel->created_ms) / 1000 : 0);
    json_put_str(json, "state", busy ? "busy" : "idle");
    json_close(json, '}');
    json_decref(facts);
    return 0;
}

int nodejs_create(struct http_request *request, struct box *box, struct err *err) {
    struct nodejs_args args = {0};
    struct kernel kernel;
    bool created;
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = code_name(request, args.session_id.data);
    if (!failed)
        failed = code_directory(request, box, "cwd", args.cwd.data, err);
    if (failed)
        return failed;
    const struct kernel_request wanted = {.name = args.session_id.data,
                                          .cwd = args.cwd.data,
                                          .idle_s = args.max_idle_time.has ? args.max_idle_time.value : NODE_IDLE_S};
    failed = kernel_open(box, &kernel_node, &wanted, &kernel, &created, err);
    if (failed)
        return failed;
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "session_id", kernel.name);
    json_put_bool(json, "created", created);
    json_put_str(json, "message", created ? "Session created" : "Session already exists");
    json_key(json, "session");
    failed = node_session_json(request, box, &kernel, NULL, 0, &answer, err);
    json_close(json, '}');
    return aio_close(&answer, failed, err);
}

int nodejs_sessions(struct http_request *request, struct box *box, struct err *err) {
    struct kernels all = {0};
    int failed = kernel_all(box, &kernel_node, &all, err);
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "sessions", '{');
    for (size_t i = 0; !failed && i < all.count; i++) {
        json_key(&answer.json, all.items[i].name);
        failed = node_session_json(request, box, &all.items[i], NULL, 0, &answer, err);
        if (failed == -ERR_NOT_FOUND || failed == -ERR_GONE) { /* it ended meanwhile */
            json_nil(&answer.json);
            failed = 0;
        }
    }
    json_close(&answer.json, '}');
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

static int node_one(struct http_request *request, struct box *box, bool update, struct err *err) {
    struct nodejs_args args = {0};
    struct kernel kernel;
    int failed = update ? aio_body(request, &args, err) : 0;
    if (!failed)
        failed = kernel_find(box, &kernel_node, http_param(request, "session_id"), &kernel, err);
    if (!failed)
        failed = code_directory(request, box, "cwd", args.cwd.data, err);
    if (failed)
        return failed;
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    if (update)
        json_put_bool(&answer.json, "updated", true);
    json_key(&answer.json, "session");
    failed = node_session_json(request, box, &kernel, args.cwd.data, args.max_idle_time.value, &answer, err);
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

int nodejs_session(struct http_request *request, struct box *box, struct err *err) {
    return node_one(request, box, false, err);
}

int nodejs_update(struct http_request *request, struct box *box, struct err *err) {
    return node_one(request, box, true, err);
}

int nodejs_delete(struct http_request *request, struct box *box, struct err *err) {
    struct kernel kernel;
    int failed = kernel_find(box, &kernel_node, http_param(request, "session_id"), &kernel, err);
    if (failed)
        return failed;
    kernel_end(box, &kernel);
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_bool(&answer.json, "deleted", true);
    json_close(&answer.json, '}');
    return aio_close(&answer, 0, err);
}
