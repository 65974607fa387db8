/* Messages from anybody: the reader of JSON-RPC, and everything that answers without a box.
 * A response must be one JSON object with the id of its request. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tool/mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned fuzz_sent;

static int fuzz_send(struct mcp_exchange *exchange, const char *text, size_t len, bool last) {
    const struct mcp_message *message = exchange->endpoint;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *id = json_object_get(root, "id"), *want = json_loads(message->id, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_object(root) || !last || memchr(text, '\n', len) || !want || !json_equal(id, want))
        abort();
    if (!json_object_get(root, "result") == !json_object_get(root, "error"))
        abort();
    fuzz_sent++;
    json_decref(want);
    json_decref(root);
    return 0;
}

/* There is no box to be had here. */
static int fuzz_acquire(void *endpoint, const char *user, const char *thread, struct box **ret_box, struct err *err) {
    (void)endpoint, (void)user;
    if (strlen(thread) > LIMIT_THREAD_BYTES)
        abort();
    *ret_box = NULL;
    return err_set(err, ERR_BUSY, "no box");
}

static void fuzz_ends(struct tool_call *call) {
    for (const char *const *secret = call->secrets; secret && *secret; secret++)
        if (!strchr(*secret, '='))
            abort();
}

static void fuzz_begin(struct mcp_exchange *exchange, struct tool_call *call) {
    (void)exchange, (void)call;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct mcp *mcp;
    static const struct tool_host host = {.acquire = fuzz_acquire, .ends = fuzz_ends};
    if (!mcp)
        mcp = mcp_new();
    struct mcp_message message;
    struct mcp_session *session = mcp_session_only(mcp);
    autoarena arena = ARENA_EMPTY;
    for (int turn = 0; turn < 2; turn++) { /* twice in one session: the second initialize, the id again */
        mcp_read(&message, (const char *)data, size);
        struct mcp_exchange exchange = {.mcp = mcp,
                                        .send = fuzz_send,
                                        .begin = fuzz_begin,
                                        .endpoint = &message,
                                        .arena = &arena,
                                        .host = &host,
                                        .settings = &tool_defaults,
                                        .session = session,
                                        .watch = -1};
        if (strlen(message.error_text) >= sizeof message.error_text || !message.method)
            abort();
        fuzz_sent = 0;
        bool answers = message.kind == MCP_CALL || message.kind == MCP_BAD;
        mcp_enter(&exchange, &message);
        mcp_serve(&exchange, &message);
        if (fuzz_sent != (answers ? 1 : 0) || exchange.running)
            abort();
        mcp_message_done(&message);
    }
    mcp_session_put(session);
    return 0;
}
