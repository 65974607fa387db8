/* The protocol: reading a message, the table of methods, writing the response. Called by front/mcp and cli/mcp.
 * Invariant: a call gets exactly one response with its own id (none if it was cancelled); a notification gets none. */
#include <jansson.h>
#include <poll.h>

#include "base/base.h"
#include "tool/mcp/mcp.h"
#include "tool/mcp/mcp_core.h"

#define META "io.modelcontextprotocol/"
#define IN_LEGACY 0x1u
#define IN_MODERN 0x2u
#define SLOW 0x4u   /* may wait for a box */
#define ASKS 0x10u  /* the same if there are MCP servers */
#define CACHED 0x8u /* the modern answer has a time to live */

static const char *const legacy_versions[] = {MCP_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"};

static void mcp_method_initialize(struct mcp_answer *answer);
static void mcp_method_discover(struct mcp_answer *answer);
static void mcp_method_ping(struct mcp_answer *answer);
static void method_tools(struct mcp_answer *answer);
static void mcp_method_call(struct mcp_answer *answer);

static const struct mcp_method {
    const char *name;
    unsigned flags;
    void (*run)(struct mcp_answer *answer);
    unsigned hold_ms; /* CACHED */
} methods[] = {
    {"tools/call", IN_LEGACY | IN_MODERN | SLOW, mcp_method_call, 0},
    {"tools/list", IN_LEGACY | IN_MODERN | CACHED | ASKS, method_tools, 60000},
    {"resources/read", IN_LEGACY | IN_MODERN | SLOW | CACHED, mcp_resources_read, 0},
    {"resources/list", IN_LEGACY | IN_MODERN | SLOW | CACHED, mcp_resources_list, 0},
    {"resources/templates/list", IN_LEGACY | IN_MODERN | CACHED, mcp_resources_templates, 3600000},
    {"server/discover", IN_MODERN | CACHED, mcp_method_discover, 60000},
    {"initialize", IN_LEGACY, mcp_method_initialize, 0},
    {"ping", IN_LEGACY, mcp_method_ping, 0},
};

static const struct mcp_method *method_find(const char *name, bool modern) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0 && methods[i].flags & (modern ? IN_MODERN : IN_LEGACY))
            return &methods[i];
    return NULL;
}

/* ---- reading ---- */

void mcp_refuse(struct mcp_message *message, int error, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message->error_text, sizeof message->error_text, format, args);
    va_end(args);
    message->error = error;
    message->status = status;
    if (message->kind != MCP_NOTICE)
        message->kind = MCP_BAD;
}

/* A string without NUL, or NULL. */
static const char *mcp_read_text(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* Copies numbers and short strings as they are. Returns false for anything else. */
static bool mcp_read_token(json_t *value, char *text, size_t size) {
    if (!json_is_integer(value) && !json_is_string(value))
        return false;
    size_t len = json_dumpb(value, text, size - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!len || len >= size)
        return false;
    text[len] = 0;
    return true;
}

struct read_own {
    struct row_text thread, parent;
    const char **secrets;
};

#define MCP_OWN(kind, member) .type = ROW_##kind, .offset = offsetof(struct read_own, member)

/* Reads our own members of _meta. */
static void mcp_read_own(struct mcp_message *message) {
    static const struct row rows[] = {
        {.name = "cubby/thread",
         MCP_OWN(TEXT, thread),
         .max = LIMIT_THREAD_BYTES,
         .text = "the thread whose box is used"},
        {.name = "cubby/parent",
         MCP_OWN(TEXT, parent),
         .max = LIMIT_THREAD_BYTES,
         .text = "the thread in whose box a sub-agent works"},
        {.name = "cubby/secrets", MCP_OWN(MAP, secrets), .max = LIMIT_LABELS, .text = "for this call's command only"},
        {.name = NULL},
    };
    struct read_own own = {0};
    struct err err = {0};
    json_t *ours = NULL;
    for (const struct row *row = rows; row->name; row++) {
        json_t *value = json_object_get(message->meta, row->name);
        if (!value)
            continue;
        ours = ours ? ours : json_object();
        json_object_set(ours, row->name, value);
    }
    if (!ours)
        return;
    if (rows_bind(ours, rows, &message->arena, &own, &err) < 0)
        mcp_refuse(message, MCP_PARAMS, 400, "_meta: %.250s", err.text);
    json_decref(ours);
    message->thread = own.thread.data;
    message->parent = own.parent.data;
    message->secrets = own.secrets;
}

static void mcp_read_object(struct mcp_message *message) {
    json_t *id = json_object_get(message->root, "id");
    const char *version = json_string_value(json_object_get(message->root, "jsonrpc"));
    bool has_id = id && mcp_read_token(id, message->id, sizeof message->id);
    message->kind = MCP_CALL;
    if (!has_id)
        memcpy(message->id, "null", sizeof "null");
    if (id && !has_id)
        return mcp_refuse(message, MCP_REQUEST, 400, "'id' must be an integer or a string of at most %zu bytes",
                          sizeof message->id - 3);
    if (!version || strcmp(version, "2.0") != 0)
        return mcp_refuse(message, MCP_REQUEST, 400, "'jsonrpc' must be \"2.0\"");
    if (!json_object_get(message->root, "method")) {
        if (!json_object_get(message->root, "result") && !json_object_get(message->root, "error"))
            return mcp_refuse(message, MCP_REQUEST, 400, "'method' is missing");
        message->kind = MCP_RESPONSE;
        return;
    }
    const char *method = mcp_read_text(message->root, "method");
    if (!method)
        return mcp_refuse(message, MCP_REQUEST, 400, "'method' must be a string");
    message->method = method;
    message->kind = id ? MCP_CALL : MCP_NOTICE;
    char token[sizeof message->id];
    message->params = json_object_get(message->root, "params");
    if (!message->params)
        return;
    if (!json_is_object(message->params)) {
        message->params = NULL;
        return mcp_refuse(message, MCP_PARAMS, 400, "'params' must be an object");
    }
    const char *name = mcp_read_text(message->params, "name");
    message->name = name ? name : mcp_read_text(message->params, "uri");
    message->meta = json_object_get(message->params, "_meta");
    if (!message->meta)
        return;
    if (!json_is_object(message->meta)) {
        message->meta = NULL;
        return mcp_refuse(message, MCP_PARAMS, 400, "'params._meta' must be an object");
    }
    message->modern = json_object_get(message->meta, META "protocolVersion");
    message->version = mcp_read_text(message->meta, META "protocolVersion");
    message->progress = json_object_get(message->meta, "progressToken");
    if (message->progress && !mcp_read_token(message->progress, token, sizeof token))
        return mcp_refuse(message, MCP_PARAMS, 400, "'progressToken' must be an integer or a short string");
    mcp_read_own(message);
}

void mcp_read(struct mcp_message *ret_message, const char *data, size_t len) {
    struct mcp_message *message = ret_message;
    struct err err;
    *message = (struct mcp_message){.kind = MCP_BAD, .id = "null", .method = ""};
    arena_init(&message->arena);
    if (!len)
        return mcp_refuse(message, MCP_PARSE, 400, "the message is empty");
    if (rows_load(data, len, &message->root, &err) < 0)
        return mcp_refuse(message, MCP_PARSE, 400, "%.280s", err.text);
    if (json_is_array(message->root))
        return mcp_refuse(message, MCP_REQUEST, 400, "batches of messages are not supported; send them one by one");
    if (!json_is_object(message->root))
        return mcp_refuse(message, MCP_REQUEST, 400, "a message must be a JSON object");
    mcp_read_object(message);
    const struct mcp_method *method = method_find(message->method, message->modern);
    message->slow = message->kind == MCP_CALL && method && method->flags & SLOW;
    message->asks = message->kind == MCP_CALL && method && method->flags & ASKS;
}

void mcp_message_done(struct mcp_message *message) {
    json_decref(message->root);
    message->root = NULL;
    arena_done(&message->arena);
}

/* ---- writing ---- */

static void mcp_put_head(struct json *json, const char *id) {
    json_open(json, '{');
    json_put_str(json, "jsonrpc", "2.0");
    if (!id)
        return;
    json_put_raw(json, "id", id, strlen(id));
}

static void mcp_put_server(struct json *json) {
    json_open(json, '{');
    json_put_str(json, "name", "cubby");
    json_put_str(json, "title", "cubby: a box for an agent");
    json_put_str(json, "version", CUBBY_VERSION);
    json_close(json, '}');
}

/* ---- serving ---- */

static void mcp_serve_call(struct mcp_answer *answer) {
    struct mcp_message *message = answer->message;
    if (message->modern) {

        if (!json_is_string(json_object_get(message->meta, META "protocolVersion")))
            mcp_refuse(message, MCP_PARAMS, 400, "'params._meta' lacks '" META "protocolVersion'");
        else if (!message->version || strcmp(message->version, MCP_MODERN) != 0)
            mcp_refuse(message, MCP_VERSION, 400, "this protocol version is not supported");
        else if (!json_is_object(json_object_get(message->meta, META "clientCapabilities")))
            mcp_refuse(message, MCP_PARAMS, 400, "'params._meta' lacks '" META "clientCapabilities'");
    }
    if (message->kind == MCP_BAD)
        return;
    const struct mcp_method *method = method_find(message->method, message->modern);
    if (!method)
        return mcp_refuse(message, MCP_METHOD, message->modern ? 404 : 0, "unknown method '%.200s'", message->method);
    mcp_put_head(&answer->json, message->id);
    json_put_open(&answer->json, "result", '{');
    if (message->modern) {
        /* Members of every modern result. */
        json_put_str(&answer->json, "resultType", "complete");
        if (method->flags & CACHED) {
            json_put_uint(&answer->json, "ttlMs", method->hold_ms);
            json_put_str(&answer->json, "cacheScope", "private");
        }
        json_put_open(&answer->json, "_meta", '{');
        json_key(&answer->json, META "serverInfo");
        mcp_put_server(&answer->json);
        json_close(&answer->json, '}');
    }
    method->run(answer);
    json_close(&answer->json, '}');
    json_close(&answer->json, '}');
    if (answer->out.failed)
        mcp_refuse(message, MCP_INTERNAL, 0, "the result is larger than %u bytes", LIMIT_MCP_MESSAGE_BYTES);
}

void mcp_enter(struct mcp_exchange *exchange, struct mcp_message *message) {
    char id[sizeof message->id];
    exchange->running = NULL;
    exchange->progress = exchange->progress_ms = 0;
    if (!exchange->session)
        return;
    if (message->kind == MCP_CALL)
        mcp_running_enter(exchange, message);
    else if (message->kind == MCP_NOTICE && strcmp(message->method, "notifications/cancelled") == 0 &&
             mcp_read_token(json_object_get(message->params, "requestId"), id, sizeof id))
        mcp_running_cancel(exchange->session, id);
}

void mcp_serve(struct mcp_exchange *exchange, struct mcp_message *message) {
    struct mcp_answer answer = {.exchange = exchange, .message = message};
    if (message->kind != MCP_CALL && message->kind != MCP_BAD)
        return;
    buf_init(&answer.out, LIMIT_MCP_MESSAGE_BYTES);
    json_init(&answer.json, &answer.out);
    exchange->message = message;
    if (message->kind == MCP_CALL)
        mcp_serve_call(&answer);
    if (message->kind == MCP_BAD) {
        struct json *json = &answer.json;
        buf_clear(&answer.out);
        answer.out.failed = false;
        json_init(json, &answer.out);
        mcp_put_head(json, message->id);
        json_put_open(json, "error", '{');
        json_put_int(json, "code", message->error);
        json_put_str(json, "message", message->error_text);
        if (message->error == MCP_VERSION) {
            json_put_open(json, "data", '{');
            json_put_open(json, "supported", '[');
            json_str(json, MCP_MODERN);
            json_close(json, ']');
            json_put_str(json, "requested", message->version ? message->version : "");
            json_close(json, '}');
        } else if (message->name && strcmp(message->method, "resources/read") == 0) {
            json_put_open(json, "data", '{');
            json_put_str(json, "uri", message->name);
            json_close(json, '}');
        }
        json_close(json, '}');
        json_close(json, '}');
    }
    exchange->message = NULL;
    bool cancelled = mcp_running_leave(exchange);
    if (!cancelled && !answer.silent)
        exchange->send(exchange, (const char *)answer.out.data, answer.out.len, true);
    buf_done(&answer.out);
}

/* ---- methods ---- */

static void mcp_put_capabilities(struct mcp_answer *answer, bool changes) {
    struct json *json = &answer->json;
    const char *text =
        changes ? "{\"tools\":{\"listChanged\":true},\"resources\":{}}" : "{\"tools\":{},\"resources\":{}}";
    json_put_raw(json, "capabilities", text, strlen(text));
    json_put_str(
        json, "instructions",
        arena_printf(answer->exchange->arena,
                     "These tools work in a Linux box of your own, made at the first call and kept between calls. Your "
                     "files are in %s. Run commands that take longer than a minute in the background "
                     "(bash_background, then bash_output).",
                     mcp_workspace(answer)));
}

static const char *mcp_legacy_find(const char *version) {
    for (size_t i = 0; i < sizeof legacy_versions / sizeof *legacy_versions; i++)
        if (strcmp(legacy_versions[i], version) == 0)
            return legacy_versions[i];
    return NULL;
}

bool mcp_is_legacy(const char *version) {
    return mcp_legacy_find(version);
}

static void mcp_method_initialize(struct mcp_answer *answer) {
    const char *wanted = mcp_read_text(answer->message->params, "protocolVersion");
    struct mcp_session *session = answer->exchange->session;
    if (!wanted)
        return mcp_refuse(answer->message, MCP_PARAMS, 0, "'protocolVersion' is missing");
    const char *agreed = mcp_legacy_find(wanted) ? mcp_legacy_find(wanted) : MCP_LEGACY;
    if (session && !mcp_session_agree(session, agreed))
        return mcp_refuse(answer->message, MCP_REQUEST, 400, "this session is already initialized");
    json_put_str(&answer->json, "protocolVersion", agreed);
    mcp_put_capabilities(answer, answer->exchange->host->servers);
    json_key(&answer->json, "serverInfo");
    mcp_put_server(&answer->json);
}

static void mcp_method_discover(struct mcp_answer *answer) {
    json_put_open(&answer->json, "supportedVersions", '[');
    json_str(&answer->json, MCP_MODERN);
    json_close(&answer->json, ']');
    mcp_put_capabilities(answer, false);
}

static void mcp_method_ping(struct mcp_answer *) {
}

static void method_tools(struct mcp_answer *answer) {
    if (json_object_get(answer->message->params, "cursor"))
        return mcp_refuse(answer->message, MCP_PARAMS, 0, "this list has one page and no 'cursor'");
    struct tool_call call;
    struct err err = {0};
    int code = mcp_call_begin(answer, &call, &err);
    call.begun = true; /* a list is not a call of a tool, even if it needs a box */
    json_key(&answer->json, "tools");
    if (code == 0)
        code = tool_list_all_json(&call, &answer->json, true, &err);
    if (code < 0)
        mcp_failed(answer, &err);
    tool_call_done(&call);
}

/* ---- a tool ---- */

/* At most one notification per MCP_PROGRESS_MS; progress in between is dropped. */
static void mcp_call_progress(void *user, const char *text, size_t len) {
    enum { TEXT_BYTES = 2048 };
    struct mcp_exchange *exchange = user;
    uint64_t now_ms = clock_ms();
    if (exchange->progress && now_ms - exchange->progress_ms < MCP_PROGRESS_MS)
        return;
    exchange->progress_ms = now_ms;
    autobuf out = buf_max(16 * TEXT_BYTES);
    struct json json = {.out = &out};
    mcp_put_head(&json, NULL);
    json_put_str(&json, "method", "notifications/progress");
    json_put_open(&json, "params", '{');
    char token[sizeof exchange->message->id]; /* mcp_read_object has checked it */
    mcp_read_token(exchange->message->progress, token, sizeof token);
    json_put_raw(&json, "progressToken", token, strlen(token));
    json_put_uint(&json, "progress", ++exchange->progress);
    if (len)
        json_put_strn(&json, "message", len > TEXT_BYTES ? text + len - TEXT_BYTES : text,
                      len > TEXT_BYTES ? TEXT_BYTES : len);
    json_close(&json, '}');
    json_close(&json, '}');
    if (!out.failed)
        exchange->send(exchange, (const char *)out.data, out.len, false);
}

int mcp_call_begin(struct mcp_answer *answer, struct tool_call *call, struct err *err) {
    struct mcp_exchange *exchange = answer->exchange;
    tool_call_init(call, exchange->host, exchange->settings, exchange->arena);
    call->thread = "mcp"; /* for a client that names no thread */
    exchange->begin(exchange, call);
    call->thread = answer->message->thread ? answer->message->thread : call->thread;
    call->parent = answer->message->parent ? answer->message->parent : call->parent;
    call->secrets = answer->message->secrets;
    call->watch = mcp_running_watch(exchange);
    if (answer->message->progress) {
        call->progress = mcp_call_progress;
        call->progress_user = exchange;
    }
    return tool_call_names(call, err);
}

void mcp_failed(struct mcp_answer *answer, const struct err *err) {
    struct pollfd look = {.fd = mcp_running_watch(answer->exchange), .events = POLLRDHUP};
    answer->silent = err->code == ERR_GONE && poll(&look, 1, 0) > 0;
    mcp_refuse(answer->message, err->code == ERR_INVALID ? MCP_PARAMS : MCP_INTERNAL, 0, "%.290s", err->text);
}

void mcp_result_json(struct json *json, const struct tool *tool, struct tool_result *result) {
    size_t len;
    const uint8_t *text = spool_view(&result->text, &len);
    json_put_open(json, "content", '[');
    if (result->image.len) {
        json_open(json, '{');
        json_put_str(json, "type", "image");
        json_put_bytes(json, "data", result->image.data, result->image.len, false);
        json_put_str(json, "mimeType", result->image_type);
        json_close(json, '}');
    }
    if (len || !(result->image.len || result->content.len)) {
        json_open(json, '{');
        json_put_str(json, "type", "text");
        json_put_strn(json, "text", text, len);
        json_close(json, '}');
    }
    if (result->content.len && !result->content.failed)
        json_raw(json, (const char *)result->content.data, result->content.len);
    json_close(json, ']');
    bool structured = result->structured.len > 1 && !result->structured.failed;
    if (structured && tool->served) {
        json_put_raw(json, "structuredContent", (const char *)result->structured.data, result->structured.len);
    } else if (structured && tool->answer) {
        /* The structured result contains the text too: some hosts show a model only that. */
        json_put_raw(json, "structuredContent", (const char *)result->structured.data, result->structured.len - 1);
        json->comma = result->structured.len > 2;
        json_put_strn(json, "text", text, len);
        json_close(json, '}');
    }
    if (result->is_error)
        json_put_bool(json, "isError", true);
}

static void mcp_method_call(struct mcp_answer *answer) {
    struct mcp_exchange *exchange = answer->exchange;
    struct mcp_message *message = answer->message;
    const char *name = mcp_read_text(message->params, "name");
    json_t *args = json_object_get(message->params, "arguments"), *none = NULL;
    struct tool_call call;
    struct err err = {0};
    int code = mcp_call_begin(answer, &call, &err);
    const struct tool *tool =
        name ? tool_find_for(exchange->host, exchange->settings, call.user, name, exchange->arena) : NULL;
    if (!tool)
        mcp_refuse(message, MCP_PARAMS, 0, "Unknown tool: %.200s", name ? name : "'name' is missing");
    else if (args && !json_is_object(args))
        mcp_refuse(message, MCP_PARAMS, 0, "'arguments' must be an object");
    else if (code < 0)
        mcp_failed(answer, &err);
    if (message->kind == MCP_BAD) {
        tool_call_done(&call);
        return;
    }
    if (!args)
        args = none = json_object();
    code = tool_run_object(&call, tool, args, &err);
    if (call.result.tools_changed && !message->modern) {
        /* The newer era uses subscriptions for this, which we do not offer. */
        static const char notice[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";
        exchange->send(exchange, notice, sizeof notice - 1, false);
    }
    if (code == 0)
        mcp_result_json(&answer->json, tool, &call.result);
    else
        mcp_failed(answer, &err);
    tool_call_done(&call);
    json_decref(none);
}
