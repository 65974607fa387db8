/* Any bytes as a box's requests to an inspected host and as that host's answers: the value leaves only in place of a
 * placeholder that the box sent, and never comes back to the box. */
#include <assert.h>
#include <stdlib.h>

#include "seal/seal.h"

#define VALUE "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
#define PLACEHOLDER "ghp_cubbyXaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What main.c has of the daemon: nothing is asked of it here. */
struct conn *conns;
json_t *seal_hello;
int seal_epoll;
SSL_CTX *client_context, *server_context;
struct gate_policy *seal_levels[GATE_LEVELS];
size_t seal_level_count;
void seal_send(char letter, const char *first, const char *second) {
    (void)letter, (void)first, (void)second;
}
bool seal_listen(void) {
    return true;
}
void seal_row(const struct conn *conn, const char *verb, const char *detail, const char *placeholder, bool denied) {
    (void)conn, (void)verb, (void)placeholder, (void)denied;
    assert(!strstr(detail, VALUE));
}
bool seal_decide(const struct conn *conn, const char *method, const char *path, char why[GATE_WHY_BYTES]) {
    (void)conn, (void)method;
    snprintf(why, GATE_WHY_BYTES, "default");
    return strncmp(path, "/never", 6) != 0;
}

static void fuzz_secrets(void) {
    json_auto_t *list = json_pack("[{s:s,s:s,s:[s],s:[s,s,s]}]", "name", "hub", "placeholder", PLACEHOLDER, "hosts",
                                  "api.hub.test", "slots", "authorization", "header:x-api-key", "query:key");
    secrets_read(list);
}

static bool fuzz_has(const struct buf *buf, const char *text) {
    return buf->len && memmem(buf->data, buf->len, text, strlen(text));
}

/* Bytes in pieces, each as often as something moves. */
static void fuzz_feed(struct conn *conn, struct side *side, const uint8_t *data, size_t size, size_t piece) {
    for (size_t at = 0; at < size && !conn->dead; at += piece) {
        buf_put(&side->in, data + at, size - at < piece ? size - at : piece);
        while (!conn->dead && (http_up(conn) || http_down(conn)))
            ;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool begun;
    struct conn conn = {.phase = CONN_OPEN, .port = 443, .host = "api.hub.test"};
    struct side *const sides[] = {&conn.client, &conn.server};
    if (!begun)
        fuzz_secrets();
    begun = true;
    secrets_value("hub", 1000000, VALUE, strlen(VALUE));
    if (size < 3)
        return 0;
    for (int i = 0; i < 2; i++) {
        sides[i]->fd = -1;
        buf_init(&sides[i]->in, 4 * SEAL_BUFFER_BYTES);
        buf_init(&sides[i]->out, 64 * SEAL_BUFFER_BYTES);
    }
    conn.response = response_new();
    size_t up = (size_t)(data[0] << 8 | data[1]) % (size - 2);
    struct buf asked = buf_max(1 << 20);
    buf_put(&asked, data + 3, up);
    fuzz_feed(&conn, &conn.client, data + 3, up, 1u + data[2] % 64);
    fuzz_feed(&conn, &conn.server, data + 3 + up, size - 3 - up, 1u + data[2] / 4);
    conn.server.eof = true;
    while (!conn.dead && http_down(&conn))
        ;
    assert(!fuzz_has(&conn.client.out, VALUE));
    assert(!fuzz_has(&conn.server.out, VALUE) || fuzz_has(&asked, VALUE) || fuzz_has(&asked, PLACEHOLDER));
    http_done(&conn);
    response_free(conn.response);
    buf_done(&asked);
    for (int i = 0; i < 2; i++) {
        buf_done(&sides[i]->in);
        buf_done(&sides[i]->out);
    }
    return 0;
}
