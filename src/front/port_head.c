/* Headers of requests and answers for a port. Called by port_proxy.c. A page from a box below the daemon's own address
 * could otherwise act there with the rights of the person who views it. Invariants:
 *
 * 1. Nothing that identifies the client goes in: no Authorization, and only cookies that this port has set.
 * 2. Nothing of the answer works beyond its path: pages are sandboxed (their own origin, no storage, no cookies by
 *    script, no service worker), cookies are renamed and bound to the prefix, and headers that speak for the whole
 *    origin are dropped.
 * 3. Framing is never copied: each side writes its own.
 *
 * A port with its own host name is its own origin: its pages are not sandboxed, and its cookies keep their names. Then
 * only two things must not pass: what identifies a viewer to the daemon, and what speaks for parent domains. */
#include "front/port_head.h"

#include "base/base.h"
#include "rows/rows.h"

#define SANDBOX                                                                                                        \
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock; "                 \
    "frame-ancestors 'self'"

void port_path_init(struct port_path *path, const char *id, uint16_t port) {
    *path = (struct port_path){.port = port};
    snprintf(path->id, sizeof path->id, "%s", id);
    snprintf(path->prefix, sizeof path->prefix, "/v1/boxes/%s/ports/%u", id, port);
    snprintf(path->cookies, sizeof path->cookies, "cubby-%s-%u-", id, port);
}

void port_path_origin(struct port_path *path, const char *id, uint16_t port) {
    *path = (struct port_path){.port = port};
    snprintf(path->id, sizeof path->id, "%s", id);
}

/* ---- requests ---- */

/* Dropped headers: hop-by-hop, written by us, or not meant for the box. */
static const char request_kept_out[] =
    "authorization|connection|content-length|cookie|expect|forwarded|host|http2-settings|keep-alive|"
    "origin|proxy-authorization|proxy-connection|referer|te|trailer|transfer-encoding|upgrade|"
    "x-aio-api-key|x-forwarded-for|x-forwarded-host|x-forwarded-prefix|x-forwarded-proto|x-real-ip|"
    "x-request-id";

/* Of these, a port with its own origin gets Authorization, and Origin and Referer if it gets its real name. */
static bool head_request_passes(const struct port_path *path, const char *name) {
    if (rows_choice(path->drops, name))
        return false;
    return (!*path->prefix && !strcmp(name, "authorization")) || (path->host && rows_choice("origin|referer", name)) ||
           !rows_choice(request_kept_out, name);
}

static void head_put_header(struct buf *out, const char *name, const char *value) {
    buf_puts(out, name);
    buf_puts(out, ": ");
    buf_puts(out, value);
    buf_puts(out, "\r\n");
}

void port_request_head(struct http_request *request, const struct port_path *path, bool websocket, bool keeps,
                       struct buf *out) {
    autobuf cookies = buf_max(LIMIT_HEAD_BYTES), hops = buf_max(LIMIT_HEAD_BYTES);
    const char *name, *value;
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: ", http_method(request), http_tail(request));
    if (path->host)
        buf_printf(out, "%s\r\n", path->host);
    else
        buf_printf(out, "localhost:%u\r\n", path->port);
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++) {
        if (strcmp(name, "cookie") == 0)
            port_cookies_in(path, value, &cookies);
        if (strcmp(name, "connection") == 0) { /* the client's list of hop-by-hop headers */
            buf_puts(&hops, value);
            buf_puts(&hops, ",");
        }
    }
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++)
        if (head_request_passes(path, name) && !(hops.len && http_list_has(buf_cstr(&hops), name)))
            head_put_header(out, name, value);
    if (cookies.len)
        head_put_header(out, "Cookie", buf_cstr(&cookies));
    if (!path->host && http_header(request, "origin")) /* checked to be our own, which in the box is the server's own */
        buf_printf(out, "Origin: http://localhost:%u\r\n", path->port);
    if (http_body_length(request) < 0)
        head_put_header(out, "Transfer-Encoding", "chunked");
    else if (http_header(request, "content-length"))
        buf_printf(out, "Content-Length: %lld\r\n", (long long)http_body_length(request));
    if (websocket || !keeps)
        head_put_header(out, "Connection", websocket ? "Upgrade" : "close");
    if (websocket)
        head_put_header(out, "Upgrade", "websocket");
    if (*http_host(request))
        head_put_header(out, "X-Forwarded-Host", http_host(request));
    head_put_header(out, "X-Forwarded-Proto", http_is_tls(request) ? "https" : "http");
    if (*path->prefix)
        head_put_header(out, "X-Forwarded-Prefix", path->prefix);
    head_put_header(out, "X-Request-Id", http_request_id(request));
    buf_puts(out, "\r\n");
}

/* Returns whether a cookie has that name. */
static bool head_cookie_is(const char *cookie, const char *name) {
    size_t len = name ? strlen(name) : 0;
    return len && strncmp(cookie, name, len) == 0 && cookie[len + strspn(cookie + len, " \t")] == '=';
}

void port_cookies_in(const struct port_path *path, const char *cookies, struct buf *out) {
    size_t own = strlen(path->cookies);
    for (const char *at = cookies; *at;) {
        at += strspn(at, " \t;");
        size_t len = strcspn(at, ";"), keep = len;
        while (keep && (at[keep - 1] == ' ' || at[keep - 1] == '\t'))
            keep--;
        if (keep > own && strncmp(at, path->cookies, own) == 0 && !head_cookie_is(at, path->own_cookie)) {
            buf_puts(out, out->len ? "; " : "");
            buf_put(out, at + own, keep - own);
        }
        at += len;
    }
}

/* ---- answers ---- */

/* Dropped headers: hop-by-hop, written by us, or speaking for the daemon's whole origin. */
static const char answer_kept_in[] =
    "alt-svc|clear-site-data|connection|content-length|content-location|date|keep-alive|location|nel|"
    "origin-agent-cluster|proxy-authenticate|proxy-connection|public-key-pins|referrer-policy|report-to|"
    "reporting-endpoints|service-worker-allowed|set-cookie|set-cookie2|strict-transport-security|te|"
    "trailer|transfer-encoding|upgrade|x-aio-api-key|www-authenticate|x-request-id";

/* Of these, what a separate origin may say. */
static const char answer_origin_out[] =
    "content-location|origin-agent-cluster|referrer-policy|report-to|reporting-endpoints|"
    "service-worker-allowed|www-authenticate";

static bool head_answer_passes(const struct port_path *path, const char *name) {
    return !rows_choice(answer_kept_in, name) || (!*path->prefix && rows_choice(answer_origin_out, name));
}

static bool head_answer_hop(const struct response *response, const char *header) {
    for (size_t i = 0; i < response->count; i++)
        if (strcmp(response->fields[i].name, "connection") == 0 && http_list_has(response->fields[i].value, header))
            return true;
    return false;
}

void port_answer_head(struct http_request *request, const struct port_path *path, const struct response *response) {
    for (size_t i = 0; i < response->count; i++) {
        const char *name = response->fields[i].name, *value = response->fields[i].value;
        if (head_answer_hop(response, name))
            continue;
        autobuf text = buf_max(2 * LIMIT_HEAD_BYTES);
        bool located = strcmp(name, "location") == 0 || strcmp(name, "content-location") == 0;
        if (located)
            port_location(path, value, &text);
        if (located || (strcmp(name, "set-cookie") == 0 && port_cookie_out(path, value, &text)))
            http_reply_header(request, name, buf_cstr(&text) ? buf_cstr(&text) : "");
        else if (head_answer_passes(path, name))
            http_reply_header(request, name, value);
    }
    if (!*path->prefix)
        return;
    http_reply_header(request, "Content-Security-Policy", SANDBOX);
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    http_reply_header(request, "X-Content-Type-Options", "nosniff");
}

/* NAME=VALUE; Path=/x; Domain=y; ... -> cubby-ID-PORT-NAME=VALUE; ...; Path=PREFIX/ */
bool port_cookie_out(const struct port_path *path, const char *set_cookie, struct buf *out) {
    set_cookie += strspn(set_cookie, " \t");
    size_t len = strcspn(set_cookie, ";"), name = strcspn(set_cookie, "=;");
    if (name == 0 || name == len || head_cookie_is(set_cookie, path->own_cookie))
        return false;
    buf_puts(out, path->cookies);
    buf_put(out, set_cookie, len);
    for (const char *at = set_cookie + len; *at;) {
        at += strspn(at, " \t;");
        len = strcspn(at, ";");
        size_t word = strcspn(at, "=; \t");
        bool where = (*path->prefix && word == 4 && strncasecmp(at, "path", 4) == 0) ||
                     (word == 6 && strncasecmp(at, "domain", 6) == 0);
        if (len && !where) {
            buf_puts(out, "; ");
            buf_put(out, at, len);
        }
        at += len;
    }
    if (*path->prefix)
        buf_printf(out, "; Path=%s/", path->prefix);
    return true;
}

/* Moves a path of the server below the prefix, also in a URL by which the server may know itself. */
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
