/* Output of an MCP server, line by line: untrusted. Called by the leader (server.c). Invariant: a line is bounded
 * before it is kept, a message before it is parsed, and an answer counts only for a waiting request. */
#include "base/base.h"
#include "base/sync.h"
#include "tool/servers/server_core.h"

/* Counts an unsolicited message, with the given weight. */
static void line_flood_take(struct server *server, uint64_t messages, uint64_t bytes) {
    struct server_flood *flood = &server->flood;
    uint64_t now_ms = clock_ms();
    uint64_t passed_ms = now_ms - flood->at_ms;
    if (passed_ms >= 10) {
        passed_ms = passed_ms > 60000 ? 60000 : passed_ms;
        flood->at_ms = now_ms;
        flood->messages += passed_ms * LIMIT_SERVER_FLOOD_RATE / 1000;
        flood->bytes += passed_ms * LIMIT_SERVER_FLOOD_BYTES_RATE / 1000;
        flood->messages = flood->messages > LIMIT_SERVER_FLOOD ? LIMIT_SERVER_FLOOD : flood->messages;
        flood->bytes = flood->bytes > LIMIT_SERVER_FLOOD_BYTES ? LIMIT_SERVER_FLOOD_BYTES : flood->bytes;
    }
    if (flood->messages < messages || flood->bytes < bytes) {
        server_die(server, "it was stopped: it sends too many unsolicited messages");
        return;
    }
    flood->messages -= messages;
    flood->bytes -= bytes;
}

static struct ask *line_ask_find_locked(struct server *server, const json_t *id) {
    if (!json_is_integer(id))
        return NULL;
    for (struct ask *ask = server->asks; ask; ask = ask->next)
        if (ask->id && (json_int_t)ask->id == json_integer_value(id) && !ask->done)
            return ask;
    return NULL;
}

/* Returns true if a request waits for it. Late answers to abandoned requests are ignored. */
static bool line_response(struct server *server, json_t *root) {
    bool whole = json_is_object(json_object_get(root, "result")) || json_is_object(json_object_get(root, "error"));
    autolock(&server->lock);
    struct ask *ask = line_ask_find_locked(server, json_object_get(root, "id"));
    if (ask && whole) {
        ask->done = true;
        ask->answer = json_incref(root);
        ask_wake(ask);
    } else if (ask) {
        server_die_locked(server, "it was stopped: its answer has neither a result nor an error");
    }
    return ask;
}

static void line_progress(struct server *server, const json_t *params) {
    const char *text = json_string_value(json_object_get(params, "message"));
    const json_t *progress = json_object_get(params, "progress"), *total = json_object_get(params, "total");
    char figures[64] = "";
    if (json_is_number(progress) && json_is_number(total))
        snprintf(figures, sizeof figures, "%.6g of %.6g", json_number_value(progress), json_number_value(total));
    else if (json_is_number(progress))
        snprintf(figures, sizeof figures, "%.6g", json_number_value(progress));
    text = text ? text : figures;
    autolock(&server->lock);
    struct ask *ask = line_ask_find_locked(server, json_object_get(params, "progressToken"));
    if (ask) {
        ask->news_len = text_fitting(text, strlen(text), sizeof ask->news);
        memcpy(ask->news, text, ask->news_len);
        ask->news_due = true;
        ask_wake(ask);
    }
}

static void line_message(struct server *server, json_t *root, size_t len) {
    const json_t *method = json_object_get(root, "method");
    json_t *id = json_object_get(root, "id");
    if (!method && id && line_response(server, root))
        return;
    line_flood_take(server, 1, len);
    const char *name = json_string_value(method);
    if (name && id && (json_is_integer(id) || (json_is_string(id) && json_string_length(id) < 256))) {
        /* A request from the server: only ping is answered. */
        json_t *answer = strcmp(name, "ping") == 0 ? json_pack("{s:O,s:{}}", "id", id, "result")
                                                   : json_pack("{s:O,s:{s:i,s:s}}", "id", id, "error", "code", -32601,
                                                               "message", "this client has no such method");
        pthread_mutex_lock(&server->lock);
        if (!server_put_locked(server, answer))
            server_die_locked(server, "it was stopped: it sends requests and does not read the answers");
        pthread_mutex_unlock(&server->lock);
    } else if (name && !id) {
        const json_t *params = json_object_get(root, "params");
        if (strcmp(name, "notifications/progress") == 0) {
            line_progress(server, params);
        } else if (strcmp(name, "notifications/tools/list_changed") == 0) {
            pthread_mutex_lock(&server->lock);
            server->stale = true;
            server->changes++;
            pthread_mutex_unlock(&server->lock);
        }
    }
}

static void line_take(struct server *server, const char *data, size_t len) {
    struct err err;
    json_t *root = NULL;
    while (len && strchr(" \t\r", *data))
        data++, len--;
    while (len && strchr(" \t\r", data[len - 1]))
        len--;
    if (!len)
        return line_flood_take(server, 1, 1);
    if (*data != '{') {
        /* Programs may print greetings before they speak the protocol; one that keeps printing is not an MCP server. */
        char shown[180];
        autobuf text = buf_max(4096);
        text_shown(&text, data, len > 100 ? 100 : len);
        snprintf(shown, sizeof shown, "%.160s", buf_cstr(&text) ? (const char *)text.data : "?");
        if (server->flood.messages < LIMIT_SERVER_FLOOD / LIMIT_SERVER_JUNK)
            server_die(server, "it was stopped: it prints lines that are not JSON-RPC messages, such as '%s'", shown);
        else
            line_flood_take(server, LIMIT_SERVER_FLOOD / LIMIT_SERVER_JUNK, len);
        return;
    }
    if (rows_load(data, len, &root, &err) < 0)
        server_die(server, "it was stopped: it sent an invalid message: %.250s", err.text);
    else
        line_message(server, root, len);
    json_decref(root);
}

void server_take(struct server *server, const uint8_t *data, size_t len) {
    struct buf *line = &server->line;
    while (len) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t piece = end ? (size_t)(end - data) : len;
        if (line->len + piece > LIMIT_SERVER_MESSAGE_BYTES) {
            server_die(server, "it was stopped: it sent a message of more than %u bytes", LIMIT_SERVER_MESSAGE_BYTES);
            return;
        }
        if (end && !line->len) {
            line_take(server, (const char *)data, piece);
        } else {
            buf_put(line, data, piece);
            if (end)
                line_take(server, (const char *)line->data, line->len);
        }
        if (end && line->cap > LIMIT_FRAME_PAYLOAD_BYTES) {
            buf_done(line);
            buf_init(line, LIMIT_SERVER_MESSAGE_BYTES);
        }
        if (end)
            buf_clear(line);
        data += piece + (end != NULL);
        len -= piece + (end != NULL);
    }
}
