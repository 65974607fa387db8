/* A connection made by libcurl (CURLOPT_CONNECT_ONLY), so that libcurl does TLS, proxies and unix sockets: one
 * request, the head of its answer, then bytes. Called by client_ws.c and by the docker backend's streams. Invariant:
 * a head is bounded in size and in time. */
#include <poll.h>

#include "base/base.h"
#include "http/client/client_curl.h"

#define READ_BYTES 4096u
#define WRITE_BYTES 16384u /* a record of TLS */

struct http_raw {
    struct http_client *client;
    CURL *easy;
    int fd;
    char *head; /* NUL-terminated, with its empty line */
    struct buf input;
};

/* A proxy that refused has a better reason than libcurl. */
static int raw_unreached(struct http_raw *raw, CURLcode result, struct err *err) {
    struct http_client *client = raw->client;
    long status = 0;
    curl_api.easy_getinfo(raw->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (status == 407)
        return err_set(
            err, ERR_DENIED,
            "the proxy for %s wants another name or password (407): https_proxy=http://NAME:PASSWORD@HOST:PORT",
            client->base);
    if (status >= 300)
        return err_set(err, ERR_DENIED, "the proxy does not connect to %s: it answered %ld", client->base, status);
    return client_failed(client, raw->easy, result, err);
}

static int raw_wait(struct http_raw *raw, short events, uint64_t end_ms, struct err *err) {
    struct pollfd wait = {.fd = raw->fd, .events = events};
    uint64_t now_ms = clock_ms();
    if (now_ms >= end_ms || poll(&wait, 1, (int)(end_ms - now_ms)) == 0)
        return err_set(err, ERR_TIMEOUT, "%s does not answer in time", raw->client->where);
    return 0;
}

static int raw_ask(struct http_raw *raw, const struct http_call *call, uint64_t end_ms, struct err *err) {
    const struct http_client *client = raw->client;
    const char *host = strstr(client->base, "://") + 3, *prefix = strchrnul(host, '/');
    const char *login = memchr(host, '@', (size_t)(prefix - host)); /* NAME:PASSWORD@ is for libcurl alone */
    host = login ? login + 1 : host;
    autobuf request = buf_max((64u << 10) + call->body_len);
    buf_printf(&request, "%s %s%s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: cubby/" CUBBY_VERSION "\r\n", call->method,
               prefix, call->path, (int)(prefix - host), host);
    if (client->token_header)
        buf_printf(&request, "%s\r\n", client->token_header);
    for (const char *const *header = call->headers; header && *header; header++)
        buf_printf(&request, "%s\r\n", *header);
    if (strcmp(call->method, "GET") != 0)
        buf_printf(&request, "Content-Length: %zu\r\n", call->body_len);
    buf_puts(&request, "\r\n");
    buf_put(&request, call->body, call->body_len);
    if (request.failed)
        return err_set(err, ERR_TOO_LARGE, "the request is too long");
    for (size_t at = 0; at < request.len;) {
        ssize_t sent = http_raw_send(raw, request.data + at, request.len - at, err);
        TRY(sent < 0 ? (int)sent : sent ? 0 : raw_wait(raw, POLLOUT, end_ms, err));
        at += (size_t)sent;
    }
    return 0;
}

int http_raw_open(struct http_client *client, const struct http_call *call, uint64_t end_ms, struct http_raw **ret_raw,
                  struct err *err) {
    const struct curl_api *api = &curl_api;
    struct http_raw *raw = xcalloc(1, sizeof *raw);
    *raw = (struct http_raw){.client = client, .fd = -1};
    raw->easy = xchecked(api->easy_init());
    buf_init(&raw->input, LIMIT_HEAD_BYTES + READ_BYTES);

    client_prepare(client, raw->easy, client->base);
    api->easy_setopt(raw->easy, CURLOPT_CONNECT_ONLY, 1L);
    api->easy_setopt(raw->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    api->easy_setopt(raw->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    CURLcode result = api->easy_perform(raw->easy);
    client_not_inherited(client);
    int code = result == CURLE_OK ? 0 : raw_unreached(raw, result, err);
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (code == 0 && (api->easy_getinfo(raw->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0))
        code = err_set(err, ERR_INTERNAL, "libcurl gives no socket");
    raw->fd = fd;
    if (code == 0)
        code = raw_ask(raw, call, end_ms, err);
    if (code < 0) {
        http_raw_close(raw);
        return code;
    }
    *ret_raw = raw;
    return 0;
}

void http_raw_close(struct http_raw *raw) {
    if (!raw)
        return;
    curl_api.easy_cleanup(raw->easy);
    buf_done(&raw->input);
    free(raw->head);
    free(raw);
}

int http_raw_fd(const struct http_raw *raw) {
    return raw->fd;
}

struct buf *http_raw_input(struct http_raw *raw) {
    return &raw->input;
}

ssize_t http_raw_recv(struct http_raw *raw, void *data, size_t len, struct err *err) {
    size_t got = raw->input.len < len ? raw->input.len : len;
    if (got) {
        memcpy(data, raw->input.data, got);
        buf_consume(&raw->input, got);
        return (ssize_t)got;
    }
    CURLcode result = curl_api.easy_recv(raw->easy, data, len, &got);
    if (result == CURLE_AGAIN)
        return 0;
    if (result != CURLE_OK)
        return client_failed(raw->client, raw->easy, result, err);
    return got ? (ssize_t)got : err_set(err, ERR_GONE, "%s hung up", raw->client->foreign ? "it" : "the daemon");
}

ssize_t http_raw_send(struct http_raw *raw, const void *data, size_t len, struct err *err) {
    size_t sent = 0;
    CURLcode result = curl_api.easy_send(raw->easy, data, len < WRITE_BYTES ? len : WRITE_BYTES, &sent);
    if (result == CURLE_AGAIN || (result == CURLE_OK && !sent))
        return 0;
    return result == CURLE_OK ? (ssize_t)sent : client_failed(raw->client, raw->easy, result, err);
}

int http_raw_head(struct http_raw *raw, uint64_t end_ms, int *ret_status, struct err *err) {
    struct buf *input = &raw->input;
    const uint8_t *end;
    while (!(end = input->len ? memmem(input->data, input->len, "\r\n\r\n", 4) : NULL)) {
        if (input->len >= LIMIT_HEAD_BYTES)
            return err_set(err, ERR_TOO_LARGE, "the answer of %s has a huge head", raw->client->where);
        size_t got = 0;
        CURLcode result = curl_api.easy_recv(raw->easy, buf_reserve(input, READ_BYTES), READ_BYTES, &got);
        if (!input->len && (result == CURLE_OK ? !got : result != CURLE_AGAIN && !raw->client->foreign))
            return 1;
        TRY(result == CURLE_AGAIN ? raw_wait(raw, POLLIN, end_ms, err)
            : result != CURLE_OK  ? client_failed(raw->client, raw->easy, result, err)
            : got                 ? 0
                                  : err_set(err, ERR_GONE, "%s hung up in its answer's head", raw->client->where));
        input->len += got;
    }
    size_t len = (size_t)(end - input->data) + 4;
    raw->head = xstrndup((const char *)input->data, len);
    buf_consume(input, len);
    if (sscanf(raw->head, "HTTP/1.%*1[01] %3d", ret_status) != 1 || *ret_status < 100)
        return err_set(err, ERR_PROTOCOL, "the answer of %s is not HTTP", raw->client->where);
    return 0;
}

const char *http_raw_header(const struct http_raw *raw, const char *name, size_t *ret_len) {
    for (const char *line = strstr(raw->head, "\r\n"); line && line[2] != '\r'; line = strstr(line + 2, "\r\n")) {
        size_t len = strlen(name);
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':')
            continue;
        const char *value = line + 2 + len + 1;
        value += strspn(value, " \t");
        *ret_len = strcspn(value, "\r\n");
        return value;
    }
    return NULL;
}

void http_raw_body(struct http_raw *raw, uint64_t end_ms, struct buf *out) {
    size_t digits = 0;
    const char *value = http_raw_header(raw, "Content-Length", &digits);
    size_t length = value ? strtoul(value, NULL, 10) : SIZE_MAX;
    while (out->len < length && buf_reserve(out, READ_BYTES)) {
        ssize_t got = http_raw_recv(raw, out->data + out->len, READ_BYTES, ERR_IGNORED);
        if (got < 0 || (got == 0 && raw_wait(raw, POLLIN, end_ms, ERR_IGNORED) < 0))
            break;
        out->len += (size_t)got;
        if (!value && out->len > 5 && memcmp(out->data + out->len - 5, "0\r\n\r\n", 5) == 0)
            break;
    }
    out->failed = false;
    const uint8_t *json = out->len ? memchr(out->data, '{', out->len) : NULL;
    const uint8_t *end = json ? memrchr(json, '}', out->len - (size_t)(json - out->data)) : NULL;
    if (!end)
        return;
    out->len = (size_t)(end + 1 - out->data);
    buf_consume(out, (size_t)(json - out->data));
}
