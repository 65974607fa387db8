/* What an MCP server says, line by line: hostile until proved otherwise. Called by the leader (server.c). Invariant: a line
 * is bounded before it is kept, a message before it is read, and an answer counts for a request that waits and no other. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "tool/servers/server_core.h"

/* ---- how much ---- */

static void flood_fill(struct server_flood *flood, uint64_t now_ms) {
    uint64_t passed_ms = now_ms - flood->at_ms;
    if (passed_ms < 10)
        return;
    passed_ms = passed_ms > 60000 ? 60000 : passed_ms;
    flood->at_ms = now_ms;
    flood->messages += passed_ms * LIMIT_SERVER_FLOOD_RATE / 1000;
    flood->bytes += passed_ms * LIMIT_SERVER_FLOOD_BYTES_RATE / 1000;
    flood->messages = flood->messages > LIMIT_SERVER_FLOOD ? LIMIT_SERVER_FLOOD : flood->messages;
    flood->bytes = flood->bytes > LIMIT_SERVER_FLOOD_BYTES ? LIMIT_SERVER_FLOOD_BYTES : flood->bytes;
}

/* Something that nobody asked for. messages: how many it counts as. */
static void flood_take(struct server *server, uint64_t messages, uint64_t bytes) {
    struct server_flood *flood = &server->flood;
    flood_fill(flood, clock_ms());
    if (flood->messages < messages || flood->bytes < bytes) {
        server_die(server, "it was ended: it floods us with messages that nobody asked for");
        return;
    }
    flood->messages -= messages;
    flood->bytes -= bytes;
}

/* Programs print greetings before they speak; one that goes on is no MCP server. */
static void line_junk(struct server *server, const char *data, size_t len) {
    char shown[180];
    autobuf text = buf_max(4096);
    text_shown(&text, data, len > 100 ? 100 : len);
    snprintf(shown, sizeof shown, "%.160s", buf_cstr(&text) ? (const char *)text.data : "?");
    if (server->flood.messages < LIMIT_SERVER_FLOOD / LIMIT_SERVER_JUNK)
        server_die(server, "it was ended: it prints lines that are no JSON-RPC messages, such as '%s'", shown);
    else
        flood_take(server, LIMIT_SERVER_FLOOD / LIMIT_SERVER_JUNK, len);
}

/* ---- what it is ---- */

static struct ask *ask_find_locked(struct server *server, const json_t *id) {
    if (!json_is_integer(id))
        return NULL;
    for (struct ask *ask = server->asks; ask; ask = ask->next)
        if (ask->id && (json_int_t)ask->id == json_integer_value(id) && !ask->done)
            return ask;
    return NULL;
}

/* True: somebody waits for it. Late answers to what was given up come too, and are nobody's. */
static bool line_response(struct server *server, json_t *root) {
    bool whole = json_is_object(json_object_get(root, "result")) || json_is_object(json_object_get(root, "error"));
    pthread_mutex_lock(&server->lock);
    struct ask *ask = ask_find_locked(server, json_object_get(root, "id"));
    if (ask && whole) {
        ask->done = true;
        ask->answer = json_incref(root);
        ask_wake(ask);
    } else if (ask) {
        server_die_locked(server, "it was ended: its answer has neither a result nor an error");
    }
    pthread_mutex_unlock(&server->lock);
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
    pthread_mutex_lock(&server->lock);
    struct ask *ask = ask_find_locked(server, json_object_get(params, "progressToken"));
    if (ask) {
        size_t len = strlen(text);
        while (len > sizeof ask->news || (len < strlen(text) && ((unsigned char)text[len] & 0xc0) == 0x80))
            len--;
        memcpy(ask->news, text, len);
        ask->news_len = len;
        ask->told = true;
        ask_wake(ask);
    }
    pthread_mutex_unlock(&server->lock);
}

static void line_notice(struct server *server, const char *method, const json_t *params) {
    if (strcmp(method, "notifications/progress") == 0) {
        line_progress(server, params);
    } else if (strcmp(method, "notifications/tools/list_changed") == 0) {
        pthread_mutex_lock(&server->lock);
        server->stale = true;
        server->changes++;
        pthread_mutex_unlock(&server->lock);
    }
}

/* What a server asks us for: it may know that we live, and nothing else. */
static void line_request(struct server *server, const char *method, json_t *id) {
    json_t *answer = strcmp(method, "ping") == 0 ? json_pack("{s:O,s:{}}", "id", id, "result")
                                                 : json_pack("{s:O,s:{s:i,s:s}}", "id", id, "error", "code", -32601,
                                                             "message", "this client has no such method");
    pthread_mutex_lock(&server->lock);
    if (!server_put_locked(server, answer))
        server_die_locked(server, "it was ended: it asks, and does not read the answers");
    pthread_mutex_unlock(&server->lock);
}

static void line_message(struct server *server, json_t *root, size_t len) {
    const json_t *method = json_object_get(root, "method");
    json_t *id = json_object_get(root, "id");
    if (!method && id && line_response(server, root))
        return;
    flood_take(server, 1, len);
    const char *name = json_string_value(method);
    if (name && id && (json_is_integer(id) || (json_is_string(id) && json_string_length(id) < 256)))
        line_request(server, name, id);
    else if (name && !id)
        line_notice(server, name, json_object_get(root, "params"));
}

static void line_take(struct server *server, const char *data, size_t len) {
    struct err err;
    json_t *root = NULL;
    while (len && strchr(" \t\r", *data))
        data++, len--;
    while (len && strchr(" \t\r", data[len - 1]))
        len--;
    if (!len)
        return flood_take(server, 1, 1);
    if (*data != '{')
        return line_junk(server, data, len);
    if (rows_load(data, len, &root, &err) < 0)
        server_die(server, "it was ended: it sent a message that cannot be taken: %.250s", err.text);
    else
        line_message(server, root, len);
    json_decref(root);
}

/* ---- bytes ---- */

void server_take(struct server *server, const uint8_t *data, size_t len) {
    struct buf *line = &server->line;
    while (len) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t piece = end ? (size_t)(end - data) : len;
        if (line->len + piece > LIMIT_SERVER_MESSAGE_BYTES) {
            server_die(server, "it was ended: it sent a message of more than %u bytes", LIMIT_SERVER_MESSAGE_BYTES);
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
