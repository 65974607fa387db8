/* Code that is a program of its own. Used by interpreter.c. Invariant: as much of its output is kept as of any
 * command. */
#include "base/base.h"
#include "base/headtail.h"
#include "box/interpreter/talk.h"

enum {
    ARGUMENT_BYTES = 100000, /* the kernel takes 128 KiB as one argument */
    TRACE_LINES = 50,        /* of a program's uncaught error */
};

struct program_output {
    struct headtail streams[2];
    const struct interpreter_caller *caller;
    struct err *err;
};

static int interpreter_program_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct program_output *output = user;
    struct headtail *headtail = &output->streams[stream == STREAM_STDERR];
    size_t before = headtail->head.len + headtail->tail.len;
    headtail_put(headtail, data, len);
    return output->caller->hold(output->caller->user, 3 * (headtail->head.len + headtail->tail.len - before),
                                output->err);
}

/* The sentence of an uncaught error in what a program wrote: "TypeError: bad", and the lines from there on. */
static bool interpreter_program_uncaught(struct arena *arena, const char *text, size_t size,
                                         struct interpreter_output *output) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const char *end = text + size, *line = text, *stop;
    size_t len = 0, count = 0;
    for (; line && line < end; line = memchr(line, '\n', (size_t)(end - line)), line = line ? line + 1 : NULL) {
        len = strspn(line, letters); /* a NUL follows the text */
        if (len >= 5 && (size_t)(end - line) > len + 2 && !memcmp(line + len - 5, "Error", 5) && line[len] == ':')
            break;
    }
    if (!line || line >= end)
        return false;
    const char *said = line + len + 2, **traceback = arena_alloc(arena, (TRACE_LINES + 1) * sizeof *traceback);
    stop = memchr(line, '\n', (size_t)(end - line));
    stop = stop ? stop : end;
    *output = (struct interpreter_output){.kind = OUTPUT_FAILURE,
                                          .name = arena_copy(arena, line, len),
                                          .text = said < stop ? said : stop,
                                          .len = said < stop ? (size_t)(stop - said) : 0,
                                          .traceback = traceback};
    for (; line < end && count < TRACE_LINES && *line != '\n'; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        traceback[count++] = arena_copy(arena, line, (size_t)(stop - line));
    }
    return true;
}

static void interpreter_program_result(struct program_output *output, const struct exec_result *exec,
                                       struct interpreter_result *result) {
    bool fine = exec->exited && !exec->exit_code;
    *result = (struct interpreter_result){.status = exec->timed_out ? CODE_TIMEOUT
                                                    : fine          ? CODE_OK
                                                                    : CODE_FAILED,
                                          .program = true,
                                          .exec = *exec};
    struct interpreter_output *out = arena_alloc(&result->arena, 3 * sizeof *out);
    result->outputs = out;
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *data = headtail_finish(&output->streams[i], &len);
        result->texts[i] = buf_max(len + 1);
        buf_put(&result->texts[i], data, len);
        const char *text = buf_cstr(&result->texts[i]);
        if (len)
            *out++ = (struct interpreter_output){.kind = OUTPUT_STREAM, .is_stderr = i, .text = text, .len = len};
    }
    if (result->status != CODE_OK && result->texts[1].len)
        out += interpreter_program_uncaught(&result->arena, (const char *)result->texts[1].data, result->texts[1].len,
                                            out);
    result->count = (size_t)(out - result->outputs);
}

int interpreter_program_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                            const struct interpreter_caller *caller, struct interpreter_result *ret_result,
                            struct err *err) {
    bool argument = run->len <= ARGUMENT_BYTES;
    if (!argument && run->input)
        return err_set(err, ERR_TOO_LARGE, "code with an input of its own may have %u bytes: write it into a file",
                       ARGUMENT_BYTES);
    const char *const argv[] = {language->program, argument ? language->eval : "-", argument ? run->code : NULL, NULL};
    const struct exec_request exec = {.argv = argv,
                                      .cwd = run->cwd,
                                      .timeout_ms = run->timeout_s * 1000,
                                      .input = argument ? run->input : run->code,
                                      .input_len = argument ? run->input_len : run->len};
    struct program_output output = {.caller = caller, .err = err};
    const struct exec_sink sink = {.output = interpreter_program_put, .user = &output};
    struct exec_result result = {0};
    for (int i = 0; i < 2; i++)
        headtail_init(&output.streams[i], DEFAULT_OUTPUT_LIMIT_BYTES);
    int failed = box_exec(box, &exec, &sink, caller->watch, &result, err);
    if (failed == -ERR_NOT_FOUND)
        failed = interpreter_missing(language, language->program, err);
    if (!failed)
        interpreter_program_result(&output, &result, ret_result);
    for (int i = 0; i < 2; i++)
        headtail_done(&output.streams[i]);
    return failed;
}
