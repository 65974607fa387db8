/* The table of tools, and the steps of every call. Called by the endpoints: native/tool, mcp. Invariant: every
 * answer leaves here without the call's secrets, as UTF-8, and within its limits. */
#include <jansson.h>

#include "base/base.h"
#include "tool/tool.h"
#include "base/conceal.h"
#include "rows/schema.h"
#include "tool/offload/offload.h"
#include "tool/guard/guard.h"
#include "tool/guard/guard_view.h"
#include "tool/secret.h"
#include "tool/servers/served.h"
#include "tool/memo.h"
#include "tool/store.h"
#include "tool/truncate.h"

static const char *const tool_env_prefixes[] = {"KUBERNETES_", "SERVICE_", "SECRET_", NULL};

enum { TOOL_ANSWER_ROWS = 32 }; /* members of a structured result */

const struct tool_settings tool_defaults = {
    .bash_chars = 20000,
    .ls_chars = 20000,
    .read_file_chars = 50000,
    .glob_results = 200,
    .grep_results = 100,
    .bash_timeout_ms = DEFAULT_EXEC_TIMEOUT_MS,
    .read_before_write = true,
    .offload = true,
    .offload_max_mb = 1024,
    .offload_days = 7,
    .env_prefixes = tool_env_prefixes,
    .guard = &guard_defaults,
};

/* clang-format off */
const struct tool *const tool_table[] = {
    &tool_bash, &tool_ls, &tool_glob, &tool_grep, &tool_read_file, &tool_write_file, &tool_str_replace,
    &tool_edit,
    &tool_cd, &tool_download, &tool_bash_background, &tool_bash_output, &tool_bash_kill,
    &tool_recall, &tool_skill, &tool_agent,
    NULL,
};
/* clang-format on */

/* ---- the table ---- */

static bool tool_offered(const struct tool *tool, const struct tool_settings *settings) {
    return settings->offload || !(tool->flags & TOOL_KEPT);
}

const struct tool *tool_find_for(const struct tool_host *host, const struct tool_settings *settings, const char *user,
                                 const char *name, struct arena *arena) {
    for (const struct tool *const *tool = tool_table; *tool; tool++)
        if (strcmp((*tool)->name, name) == 0)
            return tool_offered(*tool, settings) ? *tool : NULL;
    return served_find(host, user, name, arena);
}

static void tool_rows_json(struct json *json, const struct tool_settings *settings, bool mcp) {
    for (const struct tool *const *at = tool_table; *at; at++) {
        const struct tool *tool = *at;
        if (!tool_offered(tool, settings))
            continue;
        json_open(json, '{');
        json_put_str(json, "name", tool->name);
        json_put_str(json, "title", tool->title);
        json_put_str(json, "description", tool->description);
        json_key(json, mcp ? "inputSchema" : "input_schema");
        schema_object(json, tool->fields);
        if (tool->answer && mcp) {
            /* MCP's structured results also contain the text (see mcp.c). */
            struct row rows[TOOL_ANSWER_ROWS + 2] = {0};
            size_t count = 0;
            for (; count < TOOL_ANSWER_ROWS && tool->answer[count].name; count++)
                rows[count] = tool->answer[count];
            rows[count] = (struct row){.name = "text",
                                       .type = ROW_TEXT,
                                       .flags = ROW_REQUIRED,
                                       .text = "The same as the text next to this object."};
            json_key(json, "outputSchema");
            schema_object(json, rows);
        } else if (tool->answer) {
            json_key(json, "output_schema");
            schema_object(json, tool->answer);
        }
        json_key(json, "annotations");
        static const struct {
            const char *name;
            unsigned flag;
        } hints[] = {{"readOnlyHint", TOOL_READS},
                     {"destructiveHint", TOOL_ENDS},
                     {"idempotentHint", TOOL_SAME},
                     {"openWorldHint", TOOL_WORLD}};
        json_open(json, '{');
        json_put_str(json, "title", tool->title);
        for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
            json_put_bool(json, hints[i].name, tool->flags & hints[i].flag);
        json_close(json, '}');
        json_close(json, '}');
    }
}

void tool_list_json(struct json *json, const struct tool_settings *settings, bool mcp) {
    json_open(json, '[');
    tool_rows_json(json, settings, mcp);
    json_close(json, ']');
}

int tool_list_all_json(struct tool_call *call, struct json *json, bool mcp, struct err *err) {
    json_open(json, '[');
    tool_rows_json(json, call->settings, mcp);
    int code = served_list_json(call, json, mcp, err);
    json_close(json, ']');
    return code;
}

/* ---- a call ---- */

void tool_call_init(struct tool_call *call, const struct tool_host *host, const struct tool_settings *settings,
                    struct arena *arena) {
    *call = (struct tool_call){
        .host = host, .settings = settings, .user = "default", .thread = "", .arena = arena, .watch = -1};
    spool_init(&call->result.text, settings->offload && host->store ? tool_store_dir(host->store) : -1);
    buf_init(&call->result.structured, LIMIT_JSON_BYTES);
    buf_init(&call->result.image, LIMIT_JSON_BYTES);
    buf_init(&call->result.content, LIMIT_JSON_BYTES);
    json_init(&call->result.json, &call->result.structured);
}

int tool_call_names(const struct tool_call *call, struct err *err) {
    if (strlen(call->thread) > LIMIT_THREAD_BYTES || (call->parent && strlen(call->parent) > LIMIT_THREAD_BYTES))
        return err_set(err, ERR_INVALID, "the name of a thread must have at most %u bytes", LIMIT_THREAD_BYTES);
    return 0;
}

void tool_call_done(struct tool_call *call) {
    if (call->acquired)
        call->host->release(call->endpoint, call->box);
    call->acquired = false;
    call->box = NULL;
    conceal_free(call->conceal);
    call->conceal = NULL;
    spool_done(&call->result.text);
    buf_done(&call->result.structured);
    buf_done(&call->result.image);
    buf_done(&call->result.content);
}

/* failed: why there are no checked arguments; 0 if there are. */
static int tool_finish(struct tool_call *call, const void *checked, int failed, struct err *err) {
    int code = 0;
    if (failed < 0) {
        tool_fail(call, "%s", err->text);
    } else {
        call->args = checked;
        code = call->tool->run(call, checked, err);
        if (code < 0 && code != -ERR_GONE && call->box) /* the model can act on anything else */
            code = tool_fail(call, "%s", err->text);
    }
    if (code < 0)
        secret_hide(call, err);
    else {
        struct tool_result *result = &call->result;
        guard_warn(call);
        secret_settle(call);
        secret_hide(call, NULL);
        if (result->text.total == 0 && result->image.len == 0 && result->content.len == 0)
            spool_put(&result->text, "(empty)", 7);
        truncate_repair(call);
        if (!offload_result(call, checked))
            truncate_result(call);
    }
    if (call->host->ends)
        call->host->ends(call);
    return code;
}

int tool_run_object(struct tool_call *call, const struct tool *tool, json_t *args, struct err *err) {
    void *checked = tool->served ? args : arena_alloc(call->arena, tool->args_size ? tool->args_size : 1);
    call->tool = tool;
    int code = secret_take(call, args, err);
    if (code == 0 && tool->served && !json_is_object(args))
        code = err_set(err, ERR_INVALID, "the arguments must be a JSON object");
    else if (code == 0 && !tool->served)
        code = rows_bind(args, tool->fields, call->arena, checked, err);
    return tool_finish(call, checked, code, err);
}

int tool_run(struct tool_call *call, const struct tool *tool, const char *args, size_t len, struct err *err) {
    json_t *root = NULL;
    call->tool = tool;
    int code = rows_load(args, len, &root, err);
    code = code < 0 ? tool_finish(call, NULL, code, err) : tool_run_object(call, tool, root, err);
    json_decref(root);
    return code;
}

int tool_run_args(struct tool_call *call, const struct tool *tool, const void *args, struct err *err) {
    call->tool = tool;
    return tool_finish(call, args, 0, err);
}

/* ---- for tools ---- */

void tool_begin(struct tool_call *call) {
    if (call->host->begins && !call->begun)
        call->host->begins(call);
    call->begun = true;
}

int tool_box(struct tool_call *call, struct err *err) {
    if (!call->box) {
        const char *thread = call->parent ? call->parent : call->thread;
        int code = call->host->acquire(call->endpoint, call->user, thread, &call->box, err);
        call->acquired = code == 0;
        if (code < 0)
            return code;
    }
    tool_begin(call);
    return 0;
}

int tool_box_found(struct tool_call *call, struct err *err) {
    const char *thread = call->parent ? call->parent : call->thread;
    if (call->box)
        return 0;
    if (!call->host->find)
        return tool_box(call, err);
    int code = call->host->find(call->endpoint, call->user, thread, &call->box, err);
    call->acquired = code == 0 && call->box;
    return code;
}

int tool_path(struct tool_call *call, const struct row_text *path, const char **ret_path, struct err *err) {
    const char *given = path->data ? path->data : "", *base = "";
    int code = tool_box(call, err);
    if (code == 0 && *given != '/')
        code = memo_cwd(call, &base, err);
    if (code < 0)
        return code;
    if (strlen(base) + strlen(given) + 1 > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "the path has more than %u bytes", LIMIT_PATH_BYTES);
    /* Links are resolved in the box: whatever the kernel finds under the folded name is what every tool means by it. */
    *ret_path = path_folded(call->arena, arena_printf(call->arena, "%s%s%s", base, *given == '/' ? "" : "/", given));
    return 0;
}

void tool_put(struct tool_call *call, const void *text, size_t len) {
    if (call->conceal)
        secret_put(call, text, len);
    else
        spool_put(&call->result.text, text, len);
}

void tool_take(struct tool_call *call, struct spool *text) {
    secret_settle(call);
    spool_move(&call->result.text, text);
}

static void tool_vsay(struct tool_call *call, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(call->arena, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, format, args);
    tool_put(call, text, (size_t)len);
}

void tool_say(struct tool_call *call, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tool_vsay(call, format, args);
    va_end(args);
}

int tool_fail(struct tool_call *call, const char *format, ...) {
    va_list args;
    secret_forget(call);
    spool_clear(&call->result.text);
    buf_clear(&call->result.structured);
    json_init(&call->result.json, &call->result.structured);
    buf_clear(&call->result.image);
    buf_clear(&call->result.content);
    call->result.is_error = true;
    tool_put(call, "Error: ", 7);
    va_start(args, format);
    tool_vsay(call, format, args);
    va_end(args);
    return 0;
}
