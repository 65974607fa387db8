/* Headers through the door to a port. Called by native/ports.c. A page from a box is shown below the daemon's own address:
 * without care it would act there with the rights of whoever looks at it. Invariant:
 *
 * 1. Nothing that proves who the client is goes in: no Authorization, no cookie but those this very port has set.
 * 2. Nothing of the answer works beyond its path: pages are sandboxed (an origin of their own, no storage, no cookies by
 *    script, no service worker), cookies are renamed and bound to the prefix, headers that speak for the whole origin go.
 * 3. Framing is never copied: both sides of the door write their own. */
#include "front/port_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SANDBOX                                                                                                        \
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock; "                 \
    "frame-ancestors 'self'"

void port_path_init(struct port_path *path, const char *id, uint16_t port) {
    *path = (struct port_path){.port = port};
    snprintf(path->id, sizeof path->id, "%s", id);
    snprintf(path->prefix, sizeof path->prefix, "/v1/boxes/%s/ports/%u", id, port);
    snprintf(path->cookies, sizeof path->cookies, "cubby-%s-%u-", id, port);
}

static bool in_list(const char *const *list, const char *name) {
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list;
}

/* ---- in ---- */

/* Of one hop, ours to write, or nobody's business in the box. */
static const char *const request_kept_out[] = {
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-aio-api-key",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
    NULL,
};

/* True when some Connection header names it: of one hop by the client's own word. */
static bool request_hop(const struct http_request *request, const char *header) {
    const char *name, *value;
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++)
        if (strcmp(name, "connection") == 0 && http_list_has(value, header))
            return true;
    return false;
}

static void put_header(struct buf *out, const char *name, const char *value) {
    buf_puts(out, name);
    buf_puts(out, ": ");
    buf_puts(out, value);
    buf_puts(out, "\r\n");
}

static void request_own_headers(struct http_request *request, const struct port_path *path, bool websocket,
                                struct buf *out) {
    autobuf cookies = buf_max(LIMIT_HEAD_BYTES);
    const char *name, *value;
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++)
        if (strcmp(name, "cookie") == 0)
            port_cookies_in(path, value, &cookies);
    if (cookies.len)
        put_header(out, "Cookie", buf_cstr(&cookies));
    if (http_header(request, "origin")) /* it was found to be our own: seen from inside that is the server's own */
        buf_printf(out, "Origin: http://localhost:%u\r\n", path->port);
    if (http_body_length(request) < 0)
        put_header(out, "Transfer-Encoding", "chunked");
    else if (http_header(request, "content-length"))
        buf_printf(out, "Content-Length: %lld\r\n", (long long)http_body_length(request));
    put_header(out, "Connection", websocket ? "Upgrade" : "close");
    if (websocket)
        put_header(out, "Upgrade", "websocket");
    if (*http_host(request))
        put_header(out, "X-Forwarded-Host", http_host(request));
    put_header(out, "X-Forwarded-Proto", http_is_tls(request) ? "https" : "http");
    put_header(out, "X-Forwarded-Prefix", path->prefix);
    put_header(out, "X-Request-Id", http_request_id(request));
}

void port_request_head(struct http_request *request, const struct port_path *path, bool websocket, struct buf *out) {
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n", http_method(request), http_tail(request), path->port);
    const char *name, *value;
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++)
        if (!in_list(request_kept_out, name) && !request_hop(request, name))
            put_header(out, name, value);
    request_own_headers(request, path, websocket, out);
    buf_puts(out, "\r\n");
}

void port_cookies_in(const struct port_path *path, const char *cookies, struct buf *out) {
    size_t own = strlen(path->cookies);
    for (const char *at = cookies; *at;) {
        at += strspn(at, " \t;");
        size_t len = strcspn(at, ";"), keep = len;
        while (keep && (at[keep - 1] == ' ' || at[keep - 1] == '\t'))
            keep--;
        if (keep > own && strncmp(at, path->cookies, own) == 0) {
            buf_puts(out, out->len ? "; " : "");
            buf_put(out, at + own, keep - own);
        }
        at += len;
    }
}

/* ---- out ---- */

/* Of one hop, ours to write, or speaking for all of the daemon's origin. */
static const char *const answer_kept_in[] = {
    "alt-svc",
    "clear-site-data",
    "connection",
    "content-length",
    "content-location",
    "date",
    "keep-alive",
    "location",
    "nel",
    "origin-agent-cluster",
    "proxy-authenticate",
    "proxy-connection",
    "public-key-pins",
    "referrer-policy",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-aio-api-key",
    "www-authenticate",
    "x-request-id",
    NULL,
};

static bool answer_hop(const struct response *response, const char *header) {
    for (size_t i = 0; i < response->count; i++)
        if (strcmp(response->fields[i].name, "connection") == 0 && http_list_has(response->fields[i].value, header))
            return true;
    return false;
}

static void answer_special(struct http_request *request, const struct port_path *path, const char *name,
                           const char *value) {
    autobuf text = buf_max(2 * LIMIT_HEAD_BYTES);
    bool cookie = strcmp(name, "set-cookie") == 0;
    if (cookie && !port_cookie_out(path, value, &text))
        return;
    if (!cookie)
        port_location(path, value, &text);
    http_reply_header(request, name, buf_cstr(&text) ? buf_cstr(&text) : "");
}

void port_answer_head(struct http_request *request, const struct port_path *path, const struct response *response) {
    for (size_t i = 0; i < response->count; i++) {
        const char *name = response->fields[i].name, *value = response->fields[i].value;
        if (answer_hop(response, name))
            continue;
        if (strcmp(name, "set-cookie") == 0 || strcmp(name, "location") == 0 || strcmp(name, "content-location") == 0)
            answer_special(request, path, name, value);
        else if (!in_list(answer_kept_in, name))
            http_reply_header(request, name, value);
    }
    http_reply_header(request, "Content-Security-Policy", SANDBOX);
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    http_reply_header(request, "X-Content-Type-Options", "nosniff");
}

/* NAME=VALUE; Path=/x; Domain=y; ... -> cubby-ID-PORT-NAME=VALUE; ...; Path=PREFIX/ */
bool port_cookie_out(const struct port_path *path, const char *set_cookie, struct buf *out) {
    set_cookie += strspn(set_cookie, " \t");
    size_t len = strcspn(set_cookie, ";"), name = strcspn(set_cookie, "=;");
    if (name == 0 || name == len)
        return false;
    buf_puts(out, path->cookies);
    buf_put(out, set_cookie, len);
    for (const char *at = set_cookie + len; *at;) {
        at += strspn(at, " \t;");
        len = strcspn(at, ";");
        size_t word = strcspn(at, "=; \t");
        bool where = (word == 4 && strncasecmp(at, "path", 4) == 0) || (word == 6 && strncasecmp(at, "domain", 6) == 0);
        if (len && !where) {
            buf_puts(out, "; ");
            buf_put(out, at, len);
        }
        at += len;
    }
    buf_printf(out, "; Path=%s/", path->prefix);
    return true;
}

/* A path of the server is one below the prefix; so is an address by which it may know itself. */
void port_location(const struct port_path *path, const char *location, struct buf *out) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (location[0] == '/' && location[1] != '/' && location[1] != '\\') {
        buf_puts(out, path->prefix);
        buf_puts(out, location);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char own[64];
        int len = snprintf(own, sizeof own, "http://%s:%u", names[i], path->port);
        if (strncasecmp(location, own, (size_t)len) != 0 || !strchr("/?#", location[len]))
            continue;
        buf_puts(out, path->prefix);
        buf_puts(out, location[len] == '/' ? "" : "/");
        buf_puts(out, location + len);
        return;
    }
    buf_puts(out, location);
}
