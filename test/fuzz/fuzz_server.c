/* Bytes from an MCP server: whatever it sends, an answer is only taken for a request that waits, news stay within their bounds,
 * and what goes back is JSON, a message a line. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tool/servers/server_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ask(struct ask *ask, uint64_t id) {
    if (ask->done != (ask->answer != NULL) || ask->news_len > sizeof ask->news)
        abort();
    if (ask->answer && json_integer_value(json_object_get(ask->answer, "id")) != (json_int_t)id)
        abort();
    json_decref(ask->answer);
}

static void check_out(const struct buf *out) {
    for (size_t at = 0; at < out->len;) {
        const uint8_t *end = memchr(out->data + at, '\n', out->len - at);
        if (!end)
            abort();
        size_t len = (size_t)(end - (out->data + at));
        json_t *message = json_loadb((const char *)out->data + at, len, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(message) || !json_object_get(message, "id"))
            abort();
        json_decref(message);
        at += len + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ask asks[2] = {{.id = 1, .wake = -1}, {.id = 2, .wake = -1}};
    struct server server = {.poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                            .leading = true,
                            .last_id = 2,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .flood = {.messages = LIMIT_SERVER_FLOOD, .bytes = LIMIT_SERVER_FLOOD_BYTES}};
    size_t step = size ? (size_t)data[0] % 64 + 1 : 1;
    buf_init(&server.line, LIMIT_SERVER_MESSAGE_BYTES);
    buf_init(&server.out, LIMIT_SERVER_UNREAD_BYTES + LIMIT_JSON_BYTES);
    ask_enter_locked(&server, &asks[0]);
    ask_enter_locked(&server, &asks[1]);
    for (size_t at = 0; at < size; at += step)
        server_take(&server, data + at, size - at < step ? size - at : step);
    check_out(&server.out);
    check_ask(&asks[0], 1);
    check_ask(&asks[1], 2);
    if (server.dead && !server.why[0])
        abort();
    buf_done(&server.line);
    buf_done(&server.out);
    close(server.poke);
    return 0;
}
