/* exec over HTTP: a JSON answer with head and tail, or a stream of events. Called through native_routes. Invariant:
 * when the client hangs up the command ends, and memory stays within output_limit_bytes per stream. */
#include "front/native/native.h"
#include "front/stream.h"
#include "tool/shell.h"

static int native_exec_input(struct http_request *request, const struct native_args *args, struct exec_request *exec,
                             struct err *err) {
    if (args->stdin_text.data && args->stdin_base64.data)
        return err_set(err, ERR_INVALID, "give 'stdin' or 'stdin_base64', not both");
    if (args->stdin_open && (args->stdin_text.data || args->stdin_base64.data || !stream_wanted(request)))
        return err_set(err, ERR_INVALID,
                       "'stdin_open' needs Accept: text/event-stream, and cannot be combined with 'stdin'");
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

int native_exec_request(struct http_request *request, const struct native_args *args, struct exec_request *ret_exec,
                        struct err *err) {
    if (!args->command.data == !args->argv)
        return err_set(err, ERR_INVALID, "give either 'command' (for the shell) or 'argv' (no shell)");
    struct exec_request exec = {
        .command = args->command.data,
        .argv = (const char *const *)args->argv,
        .env = (const char *const *)args->env,
        .cwd = args->cwd.data,
        .root = args->user.data && !strcmp(args->user.data, "root"),
        .timeout_ms = args->timeout_ms.value,
        .tag = args->tag.data,
    };
    int failed = native_exec_input(request, args, &exec, err);
    if (!failed)
        *ret_exec = exec;
    return failed;
}

void native_result_out(const struct exec_result *result, struct result_out *ret_out) {
    *ret_out = (struct result_out){.result = *result,
                                   .exit_code = {result->exited, (uint64_t)result->exit_code},
                                   .memory_limit_bytes = {result->memory_limit_bytes, result->memory_limit_bytes}};
    ret_out->signal = !result->exited && result->signal ? signame_text(result->signal, ret_out->signal_name) : NULL;
}

static void native_denied(const struct exec_result *result, struct exec_out *out) {
    for (unsigned i = 0; i < result->denied_count; i++)
        out->rows[i] = (struct denied_out){result->denied[i].to, result->denied[i].why, result->denied[i].count};
    if (result->denied_count)
        out->denied = (struct row_list){out->rows, result->denied_count};
}

static int native_exec_whole(struct http_request *request, struct box *box, const struct exec_request *exec,
                             size_t limit, struct err *err) {
    __attribute__((cleanup(collect_done))) struct collect output;
    struct exec_result result = {0};
    const struct exec_sink sink = {.output = collect_put, .user = &output};
    collect_init(&output, request, limit, err);
    STEP(box_exec(box, exec, &sink, http_fd(request), &result, err));
    trail_result(request, &result);
    const uint8_t *data[2];
    size_t len[2];
    struct exec_out out = {.stdout_truncated = headtail_truncated(&output.streams[0]),
                           .stderr_truncated = headtail_truncated(&output.streams[1])};
    for (int i = 0; i < 2; i++)
        data[i] = headtail_finish(&output.streams[i], &len[i]);
    bool utf8 = text_utf8(data[0], len[0]) && text_utf8(data[1], len[1]);
    native_result_out(&result, &out.ended);
    native_denied(&result, &out);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    for (int i = 0; i < 2; i++) {
        json_key(&answer.json, exec_answer[i].name);
        answer_long(&answer, data[i], len[i], utf8);
    }
    json_put_str(&answer.json, ROW_ENCODING, utf8 ? "utf-8" : "base64");
    rows_members(&answer.json, exec_rest, &out);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static int native_exec_stream(struct http_request *request, struct box *box, const struct exec_request *exec,
                              struct err *err) {
    struct stream stream;
    struct exec_result result = {0};
    struct exec_out out = {0};
    stream_init(&stream, request);
    const struct exec_sink sink = stream_sink(&stream);
    int failed = box_exec(box, exec, &sink, http_fd(request), &result, err);
    if (!failed)
        trail_result(request, &result);
    native_result_out(&result, &out.ended);
    native_denied(&result, &out);
    return stream_end(&stream, failed, "exit", exec_rest, &out, err);
}

int native_exec(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct exec_request exec;
    STEP(front_body(request, &args, err) ?: native_exec_request(request, &args, &exec, err));
    if (stream_wanted(request))
        return native_exec_stream(request, box, &exec, err);
    size_t limit;
    return box_output_limit(box, args.output_limit_bytes.has, args.output_limit_bytes.value, DEFAULT_OUTPUT_LIMIT_BYTES,
                            &limit, err)
               ?: native_exec_whole(request, box, &exec, limit, err);
}
