/* Background processes over HTTP: start, look, read, feed, signal. Called through native_routes. Invariant: a pid is
 * valid inside the box, and is only passed to its runner. */
#include <inttypes.h>

#include "box/duplex.h"
#include "box/signame.h"
#include "front/native/native.h"
#include "front/stream.h"

static int native_pid(const struct http_request *request, uint64_t *ret_pid, struct err *err) {
    const char *text = http_param(request, "pid");
    if (!text_u64(text, INT32_MAX, ret_pid) || !*ret_pid)
        return err_set(err, ERR_NOT_FOUND, "no process '%.32s' in this box", text);
    return 0;
}

int native_spawn(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct exec_request exec;
    uint64_t pid, started_ms;
    STEP(front_body(request, &args, err)
                     ?: native_exec_request(request, &args, &exec, err)
                     ?: box_spawn(box, &exec, &pid, &started_ms, err));
    const struct process_out out = {.pid = pid, .started_ms = started_ms};
    return answer_rows(request, 201, spawn_answer, &out, err);
}

static void native_process_each(void *user, const struct process *process) {
    struct answer *answer = user;
    struct process_out out = {.pid = process->pid,
                              .started_ms = process->started_ms,
                              .command = process->command,
                              .tag = process->tag,
                              .cwd = process->cwd,
                              .argv = process->argv && process->argv[0] ? process->argv : NULL,
                              .state = process->running ? "running" : "exited"};
    native_result_out(&process->result, &out.ended);
    rows_write(&answer->json, process_answer, &out);
    answer_spill(answer);
}

int native_processes(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    answer_list(&answer, request, processes_answer);
    int failed = box_processes(box, 0, native_process_each, &answer, err);
    return answer_list_end(&answer, NULL, failed, err);
}

int native_process(struct http_request *request, struct box *box, struct err *err) {
    uint64_t pid;
    autoanswer answer;
    answer_init(&answer, request, 200);
    int failed = native_pid(request, &pid, err) ?: box_processes(box, pid, native_process_each, &answer, err);
    return answer_end(&answer, failed, err);
}

/* ---- following one: both streams as events, from an offset of each ---- */

struct native_follow {
    struct stream stream;
    struct box_duplex duplex;
};

static int native_follow_data(void *user, int number, const uint8_t *data, size_t len, struct err *) {
    struct native_follow *follow = user;
    return stream_output(&follow->stream, number, data, len);
}

static int native_follow_tick(void *user, struct err *) {
    struct native_follow *follow = user;
    follow->duplex.tick_ms = clock_ms() + http_alive_tick_ms(follow->stream.request);
    return stream_idle(&follow->stream);
}

static int native_follow_end(void *user, const struct exec_result *result, struct err *) {
    struct native_follow *follow = user;
    struct exec_out out = {0};
    native_result_out(result, &out.ended);
    STEP(stream_flush(&follow->stream));
    stream_open(&follow->stream);
    rows_members(&follow->stream.json, exec_rest, &out);
    return stream_send(&follow->stream, "exit") ?: http_reply_end(follow->stream.request) ?: 1;
}

static int native_follow_started(struct native_follow *follow, uint64_t pid) {
    stream_open(&follow->stream);
    json_put_uint(&follow->stream.json, "pid", pid);
    json_put_uint(&follow->stream.json, "stdout_offset", follow->duplex.first[0]);
    json_put_uint(&follow->stream.json, "stderr_offset", follow->duplex.first[1]);
    return stream_send(&follow->stream, "started");
}

static int native_follow(struct http_request *request, struct box *box, uint64_t pid, const struct native_args *args,
                         struct err *err) {
    static const struct box_stream hooks = {
        .data = native_follow_data, .tick = native_follow_tick, .end = native_follow_end};
    struct native_follow follow = {.duplex = {.fd = http_fd(request), .client = true, .deaf = true, .wake_fd = -1}};
    follow.duplex.tick_ms = clock_ms() + http_alive_tick_ms(request);
    stream_init(&follow.stream, request);
    int failed =
        box_attach_from(box, pid, (uint64_t[2]){args->offset.value, args->stderr_offset.value}, &follow.duplex, err)
            ?: native_follow_started(&follow, pid)
            ?: box_duplex_run(&follow.duplex, &hooks, &follow, err);
    if (failed < 0)
        failed = stream_failed(&follow.stream, failed, err);
    box_duplex_close(&follow.duplex);
    stream_done(&follow.stream);
    return failed;
}

int native_output(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct output_slice slice = {0};
    uint64_t pid;
    STEP(front_query(request, &args, err) ?: native_pid(request, &pid, err));
    if (stream_wanted(request))
        return native_follow(request, box, pid, &args, err);
    int stream = args.stream.data && !strcmp(args.stream.data, "stderr") ? STREAM_STDERR : STREAM_STDOUT;
    autobuf out = buf_max((size_t)args.limit.value);
    STEP(box_output(box, pid, stream, args.offset.value, args.wait_ms.value, http_fd(request), &out, &slice, err));
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, slice.next);
    http_reply_header(request, "X-Next-Offset", number);
    snprintf(number, sizeof number, "%" PRIu64, slice.first);
    http_reply_header(request, "X-First-Offset", number);
    http_reply_header(request, "X-Process-State", slice.running ? "running" : "exited");
    return http_reply(request, 200, "application/octet-stream", out.data, out.len);
}

int native_stdin(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    uint64_t pid;
    int failed = front_query(request, &args, err) ?: native_pid(request, &pid, err);
    http_body_live(request); /* a person may be typing it */
    if (!failed)
        failed = box_input(box, pid, args.eof, front_body_read, request, http_fd(request), err);
    return failed ?: front_empty(request, 204);
}

int native_signal(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    uint64_t pid;
    STEP(front_body(request, &args, err) ?: native_pid(request, &pid, err));
    int number = signame_number(args.signal.data);
    if (!number)
        return err_set(err, ERR_INVALID, "'signal' must be a name such as SIGTERM or a number from 1 to 64, not '%s'",
                       args.signal.data);
    return box_signal(box, pid, number, err) ?: front_empty(request, 204);
}
