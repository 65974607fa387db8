/* Requests and answers of an engine over one connection: see engine/exchange.h. Called by engine.c and engine/stream.c. 
 * Invariant: nothing that a caller put into a path or a header can end the line it stands in. */
#include "backend/docker/engine/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define REQUEST_BYTES (96u << 10)
#define UPLOAD_BYTES (64u << 10) /* one chunk */

static void exchange_again(struct engine_exchange *exchange) {
    exchange->wait.end_ms = clock_ms() + exchange->timeout_ms;
}

/* ---- asking ---- */

static bool line_safe(const char *text) {
    for (; text && *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127)
            return false;
    return true;
}

static int exchange_request(struct engine_exchange *exchange, struct buf *out, struct err *err) {
    const struct engine_call *call = exchange->call;
    if (!line_safe(call->method) || !line_safe(call->path) || call->path[0] != '/' || !line_safe(call->registry_auth))
        return err_set(err, ERR_INVALID, "the request to the container engine holds a character that is not encoded");
    buf_printf(out, "%s ", call->method);
    if (exchange->minor)
        buf_printf(out, "/v1.%u", exchange->minor);
    const struct engine_place *place = exchange->place;
    bool numeric = place->host && strchr(place->host, ':');
    buf_printf(out, "%s HTTP/1.1\r\nUser-Agent: cubby/" CUBBY_VERSION "\r\n", call->path);
    if (place->host)
        buf_printf(out, "Host: %s%s%s:%s\r\n", numeric ? "[" : "", place->host, numeric ? "]" : "", place->port);
    else
        buf_puts(out, "Host: docker\r\n");
    if (exchange->upgrade)
        buf_puts(out, "Connection: Upgrade\r\nUpgrade: tcp\r\n");
    if (call->registry_auth)
        buf_printf(out, "X-Registry-Auth: %s\r\n", call->registry_auth);
    if (call->read_body)
        buf_puts(out, "Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n");
    else if (call->body)
        buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", call->body_len);
    else if (strcmp(call->method, "GET") != 0 && strcmp(call->method, "HEAD") != 0)
        buf_puts(out, "Content-Length: 0\r\n");
    buf_puts(out, "\r\n");
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the request to the container engine is too long") : 0;
}

/* It answers, or has hung up, before it has all. What comes with TLS may be no answer, but a word of TLS's own. */
static bool exchange_early(struct engine_exchange *exchange) {
    struct engine_link *link = exchange->link;
    struct pollfd poller = {.fd = link->fd, .events = POLLIN};
    if (poll(&poller, 1, 0) <= 0)
        return false;
    if (!link->tls)
        return true;
    ssize_t got = engine_link_recv(link, link->input + link->len, sizeof link->input - link->len);
    link->len += got > 0 ? (size_t)got : 0;
    return got != -EAGAIN;
}

/* Sends while nothing comes back: an engine that refuses an upload answers before it is whole. 1: it did. */
static int exchange_send(struct engine_exchange *exchange, const void *data, size_t len, struct err *err) {
    const uint8_t *p = data;
    struct engine_link *link = exchange->link;
    while (len) {
        ssize_t sent = engine_link_send(link, p, len);
        if (sent == -EPIPE || sent == -ECONNRESET)
            return 1; /* perhaps with a reason, which is read next */
        if (sent < 0 && sent != -EAGAIN)
            return engine_link_failed(link, "sending", (int)-sent, err);
        if (sent < 0) {
            int code = engine_link_wait(link, (short)(link->write_events | POLLIN), &exchange->wait, err);
            if (code < 0)
                return code;
            if (exchange_early(exchange))
                return 1;
            continue;
        }
        p += sent;
        len -= (size_t)sent;
        exchange_again(exchange);
    }
    return 0;
}

static int exchange_upload(struct engine_exchange *exchange, struct err *err) {
    const struct engine_call *call = exchange->call;
    const size_t before = 16; /* the chunk's size in front of it, and its end behind */
    uint8_t *data = xmalloc(before + UPLOAD_BYTES + 2);
    int code = 0;
    for (bool more = true; more && code == 0;) {
        if ((code = exchange_early(exchange)) != 0)
            break;
        ssize_t got = call->read_body(call->user, data + before, UPLOAD_BYTES);
        if (got < 0 || (size_t)got > UPLOAD_BYTES) {
            code = err_set(err, ERR_GONE, "given up");
            break;
        }
        more = got > 0;
        char size[20];
        int size_len = snprintf(size, sizeof size, "%zx\r\n", (size_t)got);
        uint8_t *from = data + before - size_len;
        memcpy(from, size, (size_t)size_len);
        memcpy(data + before + got, "\r\n", 2);
        exchange_again(exchange);
        code = exchange_send(exchange, from, (size_t)size_len + (size_t)got + 2, err);
    }
    free(data);
    return code;
}

int engine_exchange_ask(struct engine_exchange *exchange, struct err *err) {
    const struct engine_call *call = exchange->call;
    autobuf request = buf_max(REQUEST_BYTES + (call->body ? call->body_len : 0));
    int code = exchange_request(exchange, &request, err);
    if (code < 0)
        return code;
    if (!call->read_body && call->body)
        buf_put(&request, call->body, call->body_len);
    exchange_again(exchange);
    code = exchange_send(exchange, request.data, request.len, err);
    if (code == 0 && call->read_body)
        code = exchange_upload(exchange, err);
    exchange->cut = code > 0;
    return code < 0 ? code : 0;
}

/* ---- the answer ---- */

int engine_exchange_head(struct engine_exchange *exchange, struct err *err) {
    struct engine_link *link = exchange->link;
    exchange_again(exchange); /* for the whole head: trickling does not make it longer */
    for (unsigned before = 0;;) {
        int used = engine_head_read((const char *)link->input + link->at, link->len - link->at, &exchange->head, err);
        if (used < 0)
            return used;
        link->at += (size_t)used;
        /* 100 and its like announce the answer; 101 is one. */
        if (used && (exchange->head.status >= 200 || exchange->head.status == 101))
            return 0;
        if (used) {
            if (++before > 8)
                return err_set(err, ERR_PROTOCOL, "its answer never begins");
            continue;
        }
        ssize_t got = engine_link_fill(link, &exchange->wait, err);
        exchange->answered |= got > 0;
        if (got == 0)
            return err_set(err, ERR_BUSY, "it hung up instead of answering");
        if (got < 0)
            return (int)got;
    }
}

static int exchange_part(struct engine_exchange *exchange, const uint8_t *data, size_t len, struct buf *out,
                         struct err *err) {
    const struct engine_call *call = exchange->call;
    if (call->write_body && exchange->head.status >= 200 && exchange->head.status < 300) {
        exchange_again(exchange);
        return call->write_body(call->user, data, len) < 0 ? err_set(err, ERR_GONE, "given up") : 0;
    }
    if (out)
        buf_put(out, data, len);
    return out && out->failed ? err_set(err, ERR_TOO_LARGE, "its answer is larger than %zu bytes", out->max) : 0;
}

int engine_exchange_body(struct engine_exchange *exchange, struct buf *out, struct err *err) {
    struct engine_link *link = exchange->link;
    struct engine_body body;
    engine_body_init(&body, &exchange->head, exchange->call->method);
    exchange_again(exchange);
    if (exchange->call->began && exchange->head.status >= 200 && exchange->head.status < 300)
        exchange->call->began(exchange->call->user);
    while (!body.done) {
        size_t used = 0, len = 0;
        int code = engine_body_take(&body, link->input + link->at, link->len - link->at, &used, &len, err);
        if (code == 0 && len)
            code = exchange_part(exchange, link->input + link->at + used - len, len, out, err);
        if (code < 0)
            return code;
        link->at += used;
        if (used || body.done)
            continue;
        ssize_t got = engine_link_fill(link, &exchange->wait, err);
        if (got < 0)
            return (int)got;
        if (got == 0 && body.kind != BODY_UNTIL_END)
            return err_set(err, ERR_BUSY, "it hung up in the middle of its answer");
        if (got == 0)
            return 0;
    }
    exchange->reusable = !exchange->head.ends && !exchange->cut && link->at == link->len;
    return 0;
}
