/* exec over HTTP: a JSON answer with head and tail, or a stream of events. Called through native_routes.
 * Invariant: the client's hang-up ends the command, and memory stays within output_limit_bytes a stream. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/answer.h"
#include "front/collect.h"
#include "box/signame.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "front/stream.h"
#include "front/trail.h"
#include "tool/shell.h"

static int native_exec_whole(struct http_request *request, struct box *box, const struct exec_request *exec,
                             size_t limit, struct err *err);
static int native_exec_stream(struct http_request *request, struct box *box, const struct exec_request *exec,
                              struct err *err);

int native_exec(struct http_request *request, struct box *box, struct err *err) {
    struct exec_args args = {0};
    struct exec_request exec;
    int failed = front_body(request, &args, err);
    if (!failed)
        failed = native_exec_request(request, &args, &exec, err);
    if (failed)
        return failed;
    if (stream_wanted(request))
        return native_exec_stream(request, box, &exec, err);
    size_t limit;
    failed = box_output_limit(box, args.output_limit_bytes.has, args.output_limit_bytes.value,
                              DEFAULT_OUTPUT_LIMIT_BYTES, &limit, err);
    return failed ? failed : native_exec_whole(request, box, &exec, limit, err);
}

static int native_exec_input(struct http_request *request, const struct exec_args *args, struct exec_request *exec,
                             struct err *err) {
    if (args->stdin_text.data && args->stdin_base64.data)
        return err_set(err, ERR_INVALID, "give 'stdin' or 'stdin_base64', not both");
    if (args->stdin_open && (args->stdin_text.data || args->stdin_base64.data || !stream_wanted(request)))
        return err_set(err, ERR_INVALID, "'stdin_open' goes with Accept: text/event-stream and without 'stdin'");
    exec->stdin_open = args->stdin_open;
    exec->input = args->stdin_text.data;
    exec->input_len = args->stdin_text.len;
    if (!args->stdin_base64.data)
        return 0;
    autobuf raw = buf_max(LIMIT_STDIN_BYTES);
    if (!text_unbase64(&raw, args->stdin_base64.data, args->stdin_base64.len))
        return err_set(err, ERR_INVALID, "'stdin_base64' is not base64 (RFC 4648, with padding)");
    exec->input = arena_copy(http_arena(request), raw.data, raw.len);
    exec->input_len = raw.len;
    return 0;
}

int native_exec_request(struct http_request *request, const struct exec_args *args, struct exec_request *ret_exec,
                        struct err *err) {
    if (!args->command.data == !args->argv)
        return err_set(err, ERR_INVALID, "give 'command' (for the shell) or 'argv' (no shell), one of them");
    struct exec_request exec = {
        .command = args->command.data,
        .argv = (const char *const *)args->argv,
        .env = (const char *const *)args->env,
        .cwd = args->cwd.data,
        .root = args->user.data && !strcmp(args->user.data, "root"),
        .timeout_ms = args->timeout_ms.value,
    };
    int failed = native_exec_input(request, args, &exec, err);
    if (!failed)
        *ret_exec = exec;
    return failed;
}

void native_result_json(struct json *json, const struct exec_result *result) {
    shell_json(json, result);
    json_key(json, "memory_limit_bytes");
    if (result->memory_limit_bytes)
        json_uint(json, result->memory_limit_bytes);
    else
        json_nil(json);
    json_put_bool(json, "stuck", result->stuck);
    json_put_uint(json, "stdout_bytes", result->stdout_bytes);
    json_put_uint(json, "stderr_bytes", result->stderr_bytes);
}

/* ---- whole ---- */

static int native_exec_answer(struct http_request *request, struct collect *output, const struct exec_result *result,
                              struct err *err) {
    static const char *const names[] = {"stdout", "stderr"};
    const uint8_t *data[2];
    size_t len[2];
    bool utf8 = true, truncated[2];
    for (int i = 0; i < 2; i++) {
        truncated[i] = headtail_truncated(&output->streams[i]);
        data[i] = headtail_finish(&output->streams[i], &len[i]);
        utf8 = utf8 && text_utf8(data[i], len[i]);
    }
    autoanswer answer;
    answer_init(&answer, request, 200);
    struct json *json = &answer.json;
    json_open(json, '{');
    for (int i = 0; i < 2; i++) {
        json_key(json, names[i]);
        answer_long(&answer, data[i], len[i], utf8);
    }
    json_put_str(json, "encoding", utf8 ? "utf-8" : "base64");
    native_result_json(json, result);
    json_put_bool(json, "stdout_truncated", truncated[0]);
    json_put_bool(json, "stderr_truncated", truncated[1]);
    json_put_uint(json, "duration_ms", result->duration_ms);
    json_close(json, '}');
    return answer_end(&answer, 0, err);
}

static int native_exec_whole(struct http_request *request, struct box *box, const struct exec_request *exec,
                             size_t limit, struct err *err) {
    struct collect output;
    struct exec_result result = {0};
    const struct exec_sink sink = {.output = collect_put, .user = &output};
    collect_init(&output, request, limit, err);
    int failed = box_exec(box, exec, &sink, http_fd(request), &result, err);
    if (!failed)
        trail_result(request, &result);
    if (!failed)
        failed = native_exec_answer(request, &output, &result, err);
    collect_done(&output);
    return failed;
}

/* ---- events ---- */

static int native_exec_exit(struct stream *stream, const struct exec_result *result) {
    int failed = stream_flush(stream);
    if (failed)
        return failed;
    stream_open(stream);
    native_result_json(&stream->json, result);
    json_put_bool(&stream->json, "stdout_truncated", false);
    json_put_bool(&stream->json, "stderr_truncated", false);
    json_put_uint(&stream->json, "duration_ms", result->duration_ms);
    failed = stream_send(stream, "exit");
    return failed ? failed : http_reply_end(stream->request);
}

static int native_exec_stream(struct http_request *request, struct box *box, const struct exec_request *exec,
                              struct err *err) {
    struct stream stream;
    struct exec_result result = {0};
    stream_init(&stream, request);
    const struct exec_sink sink = stream_sink(&stream);
    int failed = box_exec(box, exec, &sink, http_fd(request), &result, err);
    if (!failed)
        trail_result(request, &result);
    failed = failed ? stream_failed(&stream, failed, err) : native_exec_exit(&stream, &result);
    stream_done(&stream);
    return failed;
}
