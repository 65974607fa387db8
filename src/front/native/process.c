/* Background processes over HTTP: start, look, read, feed, signal. Called through native_routes.
 * Invariant: a pid is the box's own and only ever given back to its runner. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/text.h"
#include "box/signame.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"

static int native_pid(const struct http_request *request, uint64_t *ret_pid, struct err *err) {
    const char *text = http_param(request, "pid");
    if (!text_u64(text, INT32_MAX, ret_pid) || !*ret_pid)
        return err_set(err, ERR_NOT_FOUND, "no process '%.32s' in this box", text);
    return 0;
}

int native_spawn(struct http_request *request, struct box *box, struct err *err) {
    struct exec_args args = {0};
    struct exec_request exec;
    uint64_t pid, started_ms;
    int failed = front_body(request, &args, err);
    if (!failed)
        failed = native_exec_request(request, &args, &exec, err);
    if (!failed)
        failed = box_spawn(box, &exec, &pid, &started_ms, err);
    if (failed)
        return failed;
    autoanswer answer;
    answer_init(&answer, request, 201);
    json_open(&answer.json, '{');
    json_put_uint(&answer.json, "pid", pid);
    json_put_time(&answer.json, "started_at", started_ms);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static void native_process_each(void *user, const struct process *process) {
    struct answer *answer = user;
    struct json *json = &answer->json;
    json_open(json, '{');
    json_put_uint(json, "pid", process->pid);
    json_put_str(json, "command", process->command);
    json_put_str(json, "state", process->running ? "running" : "exited");
    json_put_time(json, "started_at", process->started_ms);
    native_result_json(json, &process->result);
    json_close(json, '}');
    answer_spill(answer);
}

int native_processes(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "processes", '[');
    int failed = box_processes(box, 0, native_process_each, &answer, err);
    json_close(&answer.json, ']');
    json_close(&answer.json, '}');
    return answer_end(&answer, failed, err);
}

int native_process(struct http_request *request, struct box *box, struct err *err) {
    uint64_t pid;
    autoanswer answer;
    answer_init(&answer, request, 200);
    int failed = native_pid(request, &pid, err);
    if (!failed)
        failed = box_processes(box, pid, native_process_each, &answer, err);
    return answer_end(&answer, failed, err);
}

int native_output(struct http_request *request, struct box *box, struct err *err) {
    struct output_args args = {0};
    struct output_slice slice = {0};
    uint64_t pid;
    int failed = front_query(request, &args, err);
    if (!failed)
        failed = native_pid(request, &pid, err);
    if (failed)
        return failed;
    int stream = args.stream.data && !strcmp(args.stream.data, "stderr") ? STREAM_STDERR : STREAM_STDOUT;
    autobuf out = buf_max((size_t)args.limit.value);
    failed = box_output(box, pid, stream, args.offset.value, args.wait_ms.value, http_fd(request), &out, &slice, err);
    if (failed)
        return failed;
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, slice.next);
    http_reply_header(request, "X-Next-Offset", number);
    snprintf(number, sizeof number, "%" PRIu64, slice.first);
    http_reply_header(request, "X-First-Offset", number);
    http_reply_header(request, "X-Process-State", slice.running ? "running" : "exited");
    return http_reply(request, 200, "application/octet-stream", out.data, out.len);
}

int native_stdin(struct http_request *request, struct box *box, struct err *err) {
    struct stdin_args args = {0};
    uint64_t pid;
    int failed = front_query(request, &args, err);
    if (!failed)
        failed = native_pid(request, &pid, err);
    http_body_live(request); /* it may be typed */
    if (!failed)
        failed = box_input(box, pid, args.eof, front_body_read, request, http_fd(request), err);
    return failed ? failed : front_empty(request, 204);
}

int native_signal(struct http_request *request, struct box *box, struct err *err) {
    struct signal_args args = {0};
    uint64_t pid;
    int failed = front_body(request, &args, err);
    if (!failed)
        failed = native_pid(request, &pid, err);
    if (failed)
        return failed;
    int number = signame_number(args.signal.data);
    if (!number)
        return err_set(err, ERR_INVALID, "'signal' must be a name such as SIGTERM or a number from 1 to 64, not '%s'",
                       args.signal.data);
    failed = box_signal(box, pid, number, err);
    return failed ? failed : front_empty(request, 204);
}
