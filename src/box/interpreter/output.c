/* What code gave, from what its driver said of it. Used by interpreter.c and talk.c. Invariant: texts and lists of a
 * result are in its arena or in its answer. */
#include "base/base.h"
#include "box/interpreter/talk.h"

void interpreter_result_done(struct interpreter_result *result) {
    json_decref(result->answer);
    buf_done(&result->texts[0]);
    buf_done(&result->texts[1]);
    arena_done(&result->arena);
}

static const char *interpreter_output_text(const json_t *object, const char *name, size_t *ret_len) {
    const json_t *value = json_object_get(object, name);
    *ret_len = json_string_length(value);
    return json_string_value(value);
}

static void interpreter_output_mimes(struct arena *arena, json_t *data, struct interpreter_output *output) {
    struct interpreter_mime *mime = arena_alloc(arena, (json_object_size(data) + 1) * sizeof *mime);
    const char *type;
    json_t *value;
    output->mimes = mime;
    json_object_foreach(data, type, value) {
        char *json = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        size_t len = json ? strlen(json) : json_string_length(value);
        *mime++ = (struct interpreter_mime){.type = type,
                                            .text = json ? arena_copy(arena, json, len) : json_string_value(value),
                                            .len = len,
                                            .json = json};
        free(json);
    }
    output->count = (size_t)(mime - output->mimes);
}

bool interpreter_output_take(struct interpreter_result *result, json_t *value, struct interpreter_output *output) {
    static const char *const kinds[] = {"stream", "display_data", "execute_result", "error"};
    size_t len, kind = 0;
    const char *type = interpreter_output_text(value, "output_type", &len),
               *name = interpreter_output_text(value, "name", &len);
    while (kind < 4 && (!type || strcmp(type, kinds[kind]) != 0))
        kind++;
    *output = (struct interpreter_output){.kind = (enum interpreter_kind)kind};
    switch (kind) {
    case OUTPUT_STREAM:
        output->text = interpreter_output_text(value, "text", &output->len);
        output->is_stderr = name && !strcmp(name, "stderr");
        if (output->text)
            buf_put(&result->texts[output->is_stderr], output->text, output->len);
        return output->text;
    case OUTPUT_DISPLAY:
    case OUTPUT_RESULT:
        output->numbered = json_is_integer(json_object_get(value, "execution_count"));
        interpreter_output_mimes(&result->arena, json_object_get(value, "data"), output);
        return true;
    case OUTPUT_FAILURE: {
        output->name = interpreter_output_text(value, "ename", &len);
        output->text = interpreter_output_text(value, "evalue", &output->len);
        json_t *lines = json_object_get(value, "traceback");
        const char **out = arena_alloc(&result->arena, (json_array_size(lines) + 1) * sizeof *out);
        size_t i;
        json_t *line;
        output->traceback = out;
        json_array_foreach(lines, i, line) {
            if (json_is_string(line))
                *out++ = json_string_value(line);
        }
        return output->name && output->text;
    }
    default:
        return false;
    }
}

void interpreter_output_failure(struct interpreter_result *result, struct interpreter_output *output, const char *name,
                                const char *text) {
    const char **traceback = arena_alloc(&result->arena, 2 * sizeof *traceback);
    *traceback = arena_printf(&result->arena, "%s: %s", name, text);
    *output = (struct interpreter_output){
        .kind = OUTPUT_FAILURE, .name = name, .text = text, .len = strlen(text), .traceback = traceback};
}

struct died {
    struct arena *arena;
    const char *how;
};

static void interpreter_output_died(void *user, const struct process *process) {
    struct died *died = user;
    const struct exec_result *result = &process->result;
    died->how = result->oom_killed ? "the box ran out of memory"
                                   : arena_printf(died->arena, "%s %d", result->exited ? "exit code" : "signal",
                                                  result->exited ? result->exit_code : result->signal);
}

int interpreter_output_result(struct talk *talk, enum outcome outcome, uint64_t timeout_s,
                              struct interpreter_result *result, struct err *err) {
    json_t *answer = NULL, *value;
    int failed = outcome == ANSWERED ? interpreter_talk_parse(talk, &answer, err) : 0;
    if (failed)
        return failed;
    const char *status = json_string_value(json_object_get(answer, "status"));
    json_t *outputs = json_object_get(answer, "outputs"), *number = json_object_get(answer, "execution_count");
    size_t i;
    *result = (struct interpreter_result){.status = CODE_FAILED,
                                          .answer = answer,
                                          .ended = outcome != ANSWERED,
                                          .numbered = json_is_integer(number),
                                          .number = json_integer_value(number),
                                          .texts = {buf_max(2 * TALK_ANSWER_BYTES), buf_max(2 * TALK_ANSWER_BYTES)}};
    struct interpreter_output *out = arena_alloc(&result->arena, (json_array_size(outputs) + 1) * sizeof *out);
    result->outputs = out;
    json_array_foreach(outputs, i, value) {
        out += interpreter_output_take(result, value, out);
    }
    if (status && strcmp(status, "error") != 0)
        result->status = !strcmp(status, "ok") ? CODE_OK : !strcmp(status, "timeout") ? CODE_TIMEOUT : CODE_FAILED;
    if (outcome == DIED) {
        struct died died = {.arena = &result->arena, .how = "it is gone"};
        struct err ignored;
        box_processes(talk->box, talk->session->pid, interpreter_output_died, &died, &ignored);
        interpreter_output_failure(result, out++, "DeadKernelError",
                                   arena_printf(&result->arena, "the session ended while the code ran: %s", died.how));
    } else if (outcome == STUCK) {
        interpreter_end(talk->box, talk->session);
        interpreter_output_failure(
            result, out++, "TimeoutError",
            arena_printf(&result->arena,
                         "the code did not end within %llu seconds nor when it was interrupted: its session was ended",
                         (unsigned long long)timeout_s));
        result->status = CODE_TIMEOUT;
    }
    result->count = (size_t)(out - result->outputs);
    return 0;
}
