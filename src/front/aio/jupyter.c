/* The jupyter group of the AIO dialect: Python in sessions that keep what was run in them, with a notebook's outputs. There is
 * no Jupyter: the interpreter of the box runs a driver of ours (aio/kernel.h). Called through aio_code_routes. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/aio/code.h"

struct jupyter_args {
    struct row_text code, kernel_name, session_id, cwd;
    struct row_number timeout;
};
#define ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct jupyter_args, member)
#define SESSION_ROWS                                                                                                   \
    {ROW("kernel_name", TEXT, kernel_name), .max = 31, .text = "python3, or another one of those that info lists"},    \
        {ROW("session_id", TEXT, session_id), .max = KERNEL_NAME_BYTES,                                                \
         .text = "which session; made when there is none of that name; default a new one"},                            \
    {                                                                                                                  \
        ROW("cwd", TEXT, cwd), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "where; default the workspace"   \
    }

const struct row jupyter_execute_fields[] = {
    {ROW("code", TEXT, code), .flags = ROW_REQUIRED | ROW_AUDITED, .max = CODE_BYTES, .text = "what is run"},
    {ROW("timeout", INT, timeout), .min = 1, .max = LIMIT_KERNEL_TIMEOUT_S, .fallback = KERNEL_TIMEOUT_S,
     .text = "seconds it may run, default 30; then it is interrupted"},
    SESSION_ROWS,
    {.name = NULL},
};
const struct row jupyter_create_fields[] = {SESSION_ROWS, {.name = NULL}};

/* python3, python3.11: what a program of that name in the box is. */
static int jupyter_kernel(struct http_request *request, const char *name) {
    static const char digits[] = "0123456789.";
    if (!name || (!strncmp(name, "python", 6) && strspn(name + 6, digits) == strlen(name + 6)))
        return 0;
    return aio_fail(request, 400, ERR_INVALID,
                    "there is no such kernel: use python3, or one that /v1/jupyter/info lists");
}

static int jupyter_body(struct http_request *request, struct jupyter_args *args, struct err *err) {
    int failed = aio_body(request, args, err);
    if (!failed)
        failed = code_name(request, args->session_id.data);
    return failed ? failed : jupyter_kernel(request, args->kernel_name.data);
}

int jupyter_execute(struct http_request *request, struct box *box, struct err *err) {
    struct jupyter_args args = {0};
    struct kernel kernel = {0};
    autoresult result = {0};
    int failed = jupyter_body(request, &args, err);
    if (failed)
        return failed;
    const struct code_run run = {.code = args.code.data,
                                 .len = args.code.len,
                                 .cwd = args.cwd.data,
                                 .name = args.session_id.data,
                                 .timeout_s = args.timeout.value};
    failed = code_in_session(request, box, &kernel_python, &run, args.kernel_name.data, false, &kernel, &result, err);
    if (failed)
        return failed;
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "kernel_name", kernel.program);
    json_put_str(json, "session_id", kernel.name);
    json_put_str(json, "status", result.status);
    json_key(json, "execution_count");
    if (json_is_integer(result.count))
        json_int(json, json_integer_value(result.count));
    else
        json_nil(json);
    json_key(json, "outputs");
    code_outputs_json(&answer, &result);
    json_key(json, "code");
    aio_text(&answer, (const uint8_t *)args.code.data, args.code.len);
    json_put_str(json, "msg_id", http_request_id(request));
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

int jupyter_create(struct http_request *request, struct box *box, struct err *err) {
    struct jupyter_args args = {0};
    struct kernel kernel;
    bool created;
    int failed = jupyter_body(request, &args, err);
    if (!failed)
        failed = code_directory(request, box, "cwd", args.cwd.data, err);
    if (failed)
        return failed;
    const struct kernel_request wanted = {
        .name = args.session_id.data, .program = args.kernel_name.data, .cwd = args.cwd.data, .idle_s = KERNEL_IDLE_S};
    failed = kernel_open(box, &kernel_python, &wanted, &kernel, &created, err);
    if (failed)
        return failed;
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_str(&answer.json, "session_id", kernel.name);
    json_put_str(&answer.json, "kernel_name", kernel.program);
    json_put_str(&answer.json, "message", created ? "Session created" : "Session already exists");
    json_close(&answer.json, '}');
    return aio_close(&answer, 0, err);
}

/* ---- what there is ---- */

static void jupyter_each(void *user, const struct kernel *kernel) {
    struct answer *answer = user;
    struct json *json = &answer->json;
    uint64_t now = clock_wall_ms();
    json_put_open(json, kernel->name, '{');
    json_put_str(json, "kernel_name", kernel->program);
    json_key(json, "created_at");
    aio_time(json, kernel->created_ms);
    json_put_uint(json, "age_seconds", now > kernel->created_ms ? (now - kernel->created_ms) / 1000 : 0);
    json_close(json, '}');
    answer_spill(answer);
}

int jupyter_sessions(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "sessions", '{');
    int failed = kernel_each(box, &kernel_python, jupyter_each, &answer, err);
    json_close(&answer.json, '}');
    json_close(&answer.json, '}');
    return aio_close(&answer, failed, err);
}

static void jupyter_count(void *user, const struct kernel *kernel) {
    (void)kernel;
    ++*(size_t *)user;
}

/* "python3" and "python3.11" of the directories that most boxes look for programs in. */
static void jupyter_kernels(struct http_request *request, struct box *box, struct json *json) {
    static const char *const directories[] = {"/usr/local/bin", "/usr/bin"};
    const char *names[32] = {""};
    size_t count = 0;
    for (unsigned minor = 0; minor <= 20; minor++)
        for (size_t i = 0; i < 2 && count < sizeof names / sizeof *names; i++) {
            struct file_stat stat;
            struct err ignored;
            const char *name = minor ? arena_printf(http_arena(request), "python3.%u", minor + 5) : "python3";
            const char *path = arena_printf(http_arena(request), "%s/%s", directories[i], name);
            bool known = count && !strcmp(names[count - 1], name);
            if (!known && !box_stat(box, path, http_arena(request), &stat, &ignored))
                names[count++] = name;
        }
    json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        json_str(json, names[i]);
    json_close(json, ']');
}

int jupyter_info(struct http_request *request, struct box *box, struct err *err) {
    size_t active = 0;
    int failed = kernel_each(box, &kernel_python, jupyter_count, &active, err);
    if (failed)
        return failed;
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "default_kernel", kernel_python.program);
    json_key(json, "available_kernels");
    jupyter_kernels(request, box, json);
    json_put_uint(json, "active_sessions", active);
    json_put_uint(json, "session_timeout_seconds", KERNEL_IDLE_S);
    json_put_uint(json, "max_sessions", LIMIT_KERNELS);
    json_put_str(json, "description", "Python sessions: the box's own interpreter, with the outputs of a notebook");
    json_put_str(json, "kernel_detection", "programs python3 and python3.N in /usr/local/bin and /usr/bin");
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

/* ---- their end ---- */

int jupyter_delete(struct http_request *request, struct box *box, struct err *err) {
    struct kernel kernel;
    int failed = kernel_find(box, &kernel_python, http_param(request, "session_id"), &kernel, err);
    if (failed)
        return failed;
    kernel_end(box, &kernel);
    return aio_done(request, "Session deleted");
}

int jupyter_delete_all(struct http_request *request, struct box *box, struct err *err) {
    struct kernels all = {0};
    int failed = kernel_all(box, &kernel_python, &all, err);
    if (failed)
        return failed;
    for (size_t i = 0; i < all.count; i++)
        kernel_end(box, &all.items[i]);
    return aio_done(request, arena_printf(http_arena(request), "%zu sessions deleted", all.count));
}
