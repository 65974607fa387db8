/* The ClientHello (hello.h), RFC 8446 4.1.2 and RFC 6066 3. Strict where two readers could find two names: each
 * extension once, one name in the list. What follows the hello in the last record is not looked at. */
#include "gate/hello.h"

enum { HELLO_RECORD = 22, HELLO_RECORD_BYTES = 16384, HELLO_CLIENT = 1 };

struct hello_view {
    const uint8_t *at;
    size_t len;
    bool bad;
};

static uint32_t hello_number(struct hello_view *view, size_t bytes) {
    uint32_t value = 0;
    if (view->len < bytes) {
        view->bad = true;
        view->len = 0;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | view->at[i];
    view->at += bytes;
    view->len -= bytes;
    return value;
}

/* A part whose length stands before it in so many bytes. */
static struct hello_view hello_part(struct hello_view *view, size_t bytes) {
    size_t len = hello_number(view, bytes);
    struct hello_view part = {view->at, len, false};
    if (view->bad || len > view->len) {
        view->bad = true;
        view->len = 0;
        return (struct hello_view){view->at, 0, true};
    }
    view->at += len;
    view->len -= len;
    return part;
}

static enum hello hello_server_name(struct hello_view extension, char ret_name[GATE_NAME_BYTES + 1]) {
    struct hello_view list = hello_part(&extension, 2);
    uint32_t type = hello_number(&list, 1);
    struct hello_view name = hello_part(&list, 2);
    if (extension.bad || list.bad || extension.len || list.len || type != 0)
        return HELLO_BAD;
    return gate_name((const char *)name.at, name.len, ret_name, ERR_IGNORED) == 0 ? HELLO_NAME : HELLO_BAD;
}

static enum hello hello_body(struct hello_view body, char ret_name[GATE_NAME_BYTES + 1]) {
    uint8_t seen[8192] = {0}; /* a bit for each number of an extension */
    enum hello result = HELLO_NONE;
    hello_number(&body, 2); /* version */
    for (int i = 0; i < 8; i++)
        hello_number(&body, 4); /* random */
    hello_part(&body, 1);       /* session */
    hello_part(&body, 2);       /* ciphers */
    hello_part(&body, 1);       /* compression */
    if (body.bad)
        return HELLO_BAD;
    if (!body.len)
        return HELLO_NONE;
    struct hello_view extensions = hello_part(&body, 2);
    if (body.bad || body.len)
        return HELLO_BAD;
    while (extensions.len) {
        uint32_t type = hello_number(&extensions, 2);
        struct hello_view extension = hello_part(&extensions, 2);
        if (extensions.bad || seen[type / 8] >> (type % 8) & 1)
            return HELLO_BAD;
        seen[type / 8] |= (uint8_t)(1u << (type % 8));
        if (type == 0 && (result = hello_server_name(extension, ret_name)) == HELLO_BAD)
            return HELLO_BAD;
    }
    return result;
}

enum hello hello_parse(const uint8_t *data, size_t len, char ret_name[GATE_NAME_BYTES + 1]) {
    static uint8_t joined[LIMIT_GATE_HELLO_BYTES]; /* the handshake without the heads of records */
    size_t have = 0, want = 0;
    struct hello_view view = {data, len, false};
    while (view.len && (!want || have < want)) {
        if (view.at[0] != HELLO_RECORD || (view.len > 1 && view.at[1] != 3))
            return view.at == data ? HELLO_NOT_TLS : HELLO_BAD;
        if (view.len < 5)
            return HELLO_MORE;
        size_t record = (size_t)view.at[3] << 8 | view.at[4];
        if (!record || record > HELLO_RECORD_BYTES)
            return HELLO_BAD;
        view.at += 5;
        view.len -= 5;
        size_t part = record < view.len ? record : view.len;
        if (have + part > sizeof joined)
            return HELLO_BAD;
        memcpy(joined + have, view.at, part);
        have += part;
        view.at += part;
        view.len -= part;
        if (have >= 1 && joined[0] != HELLO_CLIENT)
            return HELLO_BAD;
        if (have >= 4)
            want = 4 + ((size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3]);
        if (want > sizeof joined)
            return HELLO_BAD;
    }
    if (!want || have < want)
        return HELLO_MORE;
    return hello_body((struct hello_view){joined + 4, want - 4, false}, ret_name);
}
