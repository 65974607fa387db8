/* One request from its head to its answer: parse, host check, route, admit, handler, unread rest.
 *
 * Called by conn.c. Invariant: every path through request_serve ends with an answer or an aborted connection, and
 * with one call of `finished`. */
#include <arpa/inet.h>

#include "base/base.h"
#include "base/sync.h"
#include "http/internal.h"

static void request_reset(struct worker *worker, struct conn *conn) {
    struct http_request *request = &worker->request;
    memset(request, 0, offsetof(struct http_request, headers));
    request->worker = worker;
    request->conn = conn;
    request->server = worker->server;
    request->method = request->path = "-";
    request->start_us = clock_us();
    arena_init(&request->arena);
    pace_init(&request->pace_in, worker->server->config.body_timeout_ms, worker->server->config.min_rate_bytes);
    pace_init(&request->pace_out, worker->server->config.write_timeout_ms, worker->server->config.min_rate_bytes);
    reply_reset(worker);
    uint64_t number = atomic_fetch_add(&worker->server->requests, 1);
    static const char digits[] = "0123456789abcdef";
    memcpy(request->id, worker->server->id_prefix, 16);
    request->id[16] = '-';
    for (int i = 0; i < 10; i++)
        request->id[17 + i] = digits[number >> (36 - 4 * i) & 15];
}

/* A caller's own id is kept if it is harmless in logs and headers. */
static void request_adopt_id(struct http_request *request) {
    const char *id = http_header(request, "x-request-id");
    size_t len = id ? strlen(id) : 0;
    if (!len || len > HTTP_ID_BYTES)
        return;
    for (size_t i = 0; i < len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", id[i]))
            return;
    memcpy(request->id, id, len + 1);
}

static bool request_host_is(const char *host, size_t len, const char *name) {
    return strlen(name) == len && strncasecmp(host, name, len) == 0;
}

/* Reduces "name:port", "[name]:port" or either without a port, maybe followed by a path, to the name. Returns false if
 * malformed. */
static bool request_host_name(const char **host, size_t *len) {
    const char *end = memchr(*host, '/', *len);
    const char *stop = end ? end : *host + *len, *rest;
    if (*host < stop && **host == '[') {
        const char *bracket = memchr(*host, ']', (size_t)(stop - *host));
        if (!bracket)
            return false;
        ++*host;
        *len = (size_t)(bracket - *host);
        rest = bracket + 1;
    } else {
        const char *colon = memchr(*host, ':', (size_t)(stop - *host));
        rest = colon ? colon : stop;
        *len = (size_t)(rest - *host);
    }
    /* Only a port may follow the name: [::1].evil.example is a name. */
    if (!*len || (rest < stop && *rest != ':'))
        return false;
    for (const char *c = rest + 1; c < stop; c++)
        if (*c < '0' || *c > '9')
            return false;
    return true;
}

/* Returns whether the configuration names this host. */
static bool request_host_allowed(const struct http_server *server, const char *host, size_t len) {
    if (!request_host_name(&host, &len))
        return false;
    for (const char *const *name = hosts_allowed(server); name && *name; name++)
        if (request_host_is(host, len, *name))
            return true;
    return false;
}

/* Returns whether it is below a name that the configuration allows with "*.". */
static bool request_host_below(const struct http_server *server, const char *host, size_t len) {
    if (!request_host_name(&host, &len))
        return false;
    for (const char *const *name = hosts_allowed(server); name && *name; name++) {
        size_t suffix = (*name)[0] == '*' ? strlen(*name) - 1 : 0; /* including its dot */
        if (suffix > 1 && len > suffix && request_host_is(host + len - suffix, suffix, *name + 1))
            return true;
    }
    return false;
}

/* Our own pages have the origin by which the client knows us, including the port: a page on another port of this
 * machine may come from anywhere, for instance from a server in a box. Any other host must be allowed by name. */
static bool request_origin_ok(const struct http_request *request, const char *origin) {
    const char *host = strstr(origin, "://");
    if (!host)
        return false;
    host += 3;
    return (request->host && strcasecmp(host, request->host) == 0) ||
           request_host_allowed(request->server, host, strlen(host));
}

/* Browsers also report where a request without Origin comes from: an image, a script, a link. Following a link only
 * shows a page to the person who follows it; everything else is another site acting through their browser. A sandboxed
 * page, which has its own origin, may load its parts (ROUTE_EMBED). */
static int request_check_site(const struct http_request *request, struct err *err) {
    const char *site = http_header(request, "sec-fetch-site"), *mode = http_header(request, "sec-fetch-mode");
    const char *to = http_header(request, "sec-fetch-dest");
    if (!request->server->config.check_host || request->conn->unix_socket || !site || http_header(request, "origin"))
        return 0;
    if (request->own_site)
        return 0;
    if (strcasecmp(site, "none") == 0 || strcasecmp(site, "same-origin") == 0)
        return 0;
    bool gets = strcmp(request->method, "GET") == 0 || request->is_head;
    bool link = mode && strcasecmp(mode, "navigate") == 0 && to && strcasecmp(to, "document") == 0;
    bool part = mode && strcasecmp(mode, "no-cors") == 0 && (request->route->flags & ROUTE_EMBED);
    if (gets && (link || part))
        return 0;
    return err_set(err, ERR_DENIED, "this request comes from another site (Sec-Fetch-Site: %.40s)", site);
}

static bool request_host_ok(const struct http_server *server, const char *host, size_t len) {
    if (request_host_allowed(server, host, len))
        return true;
    if (!request_host_name(&host, &len))
        return false;
    for (int i = 0; i < server->listener_count; i++)
        if (server->listeners[i].host && request_host_is(host, len, server->listeners[i].host))
            return true;
    if (request_host_is(host, len, "localhost") || request_host_is(host, len, "::1"))
        return true;
    if (len < 7 || strncmp(host, "127.", 4) != 0)
        return false;
    for (size_t i = 0; i < len; i++) /* 127.evil.example is a name, not an address */
        if (host[i] != '.' && (host[i] < '0' || host[i] > '9'))
            return false;
    return true;
}

/* Foreign pages, and names that suddenly resolve to 127.0.0.1, can lead browsers to a local server. Both are caught
 * here. */
static int request_check_host(struct http_request *request, struct err *err) {
    if (!request->server->config.check_host || request->conn->unix_socket)
        return 0;
    if (request->own_site)
        return 0;
    size_t len = request->host ? strlen(request->host) : 0;
    if (request->host && !request_host_ok(request->server, request->host, len) &&
        !request_host_below(request->server, request->host, len))
        return err_set(err, ERR_DENIED, "host '%.200s' is not served here; add it to the allowed hosts", request->host);
    const char *origin = http_header(request, "origin");
    if (origin && !request_origin_ok(request, origin))
        return err_set(err, ERR_DENIED, "origin '%.200s' is not allowed here; add its host to the allowed hosts",
                       origin);
    return 0;
}

static void request_route(struct http_request *request) {
    struct route_found found;
    if (strcmp(request->path, "*") == 0) { /* OPTIONS *: a ping of the server as a whole */
        http_reply(request, 204, NULL, NULL, 0);
        return;
    }
    route_find(request->server->tree, request->method, request->path, request->tail, &found);
    if (!request->located && strncmp(request->path, "/_", 2) == 0)
        found = (struct route_found){.count = 0};
    request->route = found.route;
    if (found.route) {
        for (size_t i = 0; i < found.count; i++)
            request->params[i] = arena_copy(&request->arena, found.params[i].at, found.params[i].len);
        return;
    }
    char text[400];
    if (!found.node) {
        snprintf(text, sizeof text, "no such path: '%.300s'", request->path);
        reply_refusal(request, 404, "NOT_FOUND", text);
        return;
    }
    autobuf allow = buf_max(1024);
    route_allow(found.node, &allow);
    http_reply_header(request, "Allow", buf_cstr(&allow));
    snprintf(text, sizeof text, "%s is not served at this path; allowed: %s", request->method, buf_cstr(&allow));
    reply_refusal(request, 405, "INVALID", text);
}

static void request_run(struct http_request *request, char *head, size_t len) {
    struct err err = {0};
    int status = head_parse(request, head, len, &err);
    request_adopt_id(request);
    if (status) {
        request->close = true; /* after a framing error the next byte may mean anything */
        reply_refusal(request, status, err_name(err.code), err.text);
        return;
    }
    if (request_check_host(request, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    request_route(request);
    if (request->status)
        return;
    const char *coding = http_header(request, "content-encoding");
    if (coding && !request->tail && !(request->route->flags & ROUTE_CODED) &&
        strcasecmp(coding, "identity") != 0) { /* nothing is unpacked here, so no body can expand */
        reply_refusal(request, 415, "INVALID", "Content-Encoding is not supported: send the body as it is");
        return;
    }
    const struct http_config *config = &request->server->config;
    int r = request_check_site(request, &err) ?: (config->admit ? config->admit(request, &err) : 0);
    if (r >= 0 && !(request->route->flags & ROUTE_QUICK) && !worker_relieve_wait(request->worker))
        r = err_set(&err, ERR_BUSY, "all %u threads are busy; try again later", config->max_threads);
    if (r < 0)
        http_reply_error(request, &err);
    else
        request->route->handle(request);
}

static void request_finish(struct http_request *request) {
    if (!request->status)
        reply_refusal(request, 500, "INTERNAL", "the request was not answered");
    if (!request->ended && !request->aborted) {
        if (request->chunked && !request->no_body)
            http_reply_abort(request); /* the handler did not end the stream */
        else
            http_reply_end(request);
    }
    if (!request->close && !request->aborted && !body_drain(request))
        request->close = true;
    request->bytes_in -= request->in_end - request->in_at; /* belongs to the next request */
    if (request->server->config.finished)
        request->server->config.finished(request, request->status, request->bytes_in, request->bytes_out,
                                         clock_us() - request->start_us);
    atomic_store(&request->conn->owner, NULL);
    splice_end(request);
    arena_done(&request->arena);
    if (request->charged_bytes)
        atomic_fetch_sub(&request->server->held_bytes, request->charged_bytes);
    request->charged_bytes = 0;
}

void request_serve(struct worker *worker, struct conn *conn, size_t head_start, size_t head_len) {
    struct http_request *request = &worker->request;
    request_reset(worker, conn);
    request->head_end = request->in_at = head_start + head_len;
    request->in_end = worker->have;
    request->bytes_in = worker->have - head_start;
    background_hold(request->start_us);
    request_run(request, worker->scratch + head_start, head_len);
    request_finish(request);
    background_let_go();
}

static const char *request_sentence(int status) {
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {400, "malformed request head: it has a byte that HTTP/1.1 does not allow there"},
        {408, "the request head was not complete in time"},
        {414, "the request target is longer than 16384 bytes"},
        {431, "the request head has more than 32768 bytes or 100 headers"},
        {501, "this server does not know the request's method"},
        {505, "this server speaks HTTP/1.1 and HTTP/1.0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].status == status)
            return table[i].text;
    return "refused";
}

void request_refuse(struct worker *worker, struct conn *conn, int status) {
    struct http_request *request = &worker->request;
    request_reset(worker, conn);
    request->bytes_in = worker->have;
    request->close = true;
    struct err err;
    err_set(&err, status == 501 || status == 505 ? ERR_UNSUPPORTED : ERR_INVALID, "%s", request_sentence(status));
    const char *code = status == 408 ? "TIMEOUT" : status == 414 || status == 431 ? "TOO_LARGE" : err_name(err.code);
    reply_refusal(request, status, code, err.text);
    request_finish(request);
}

int http_hold(struct http_request *request, size_t bytes, struct err *err) {
    struct http_server *server = request->server;
    request->held_bytes += bytes;
    if (request->held_bytes <= HTTP_FREE_BYTES + request->charged_bytes || !server->config.max_held_bytes)
        return 0;
    uint64_t more = (request->held_bytes - request->charged_bytes + HTTP_FREE_BYTES - 1) & ~(HTTP_FREE_BYTES - 1ull);
    if (atomic_fetch_add(&server->held_bytes, more) + more > server->config.max_held_bytes) {
        atomic_fetch_sub(&server->held_bytes, more);
        return err_set(err, ERR_BUSY, "the requests being served hold %llu MiB, which is the limit; try again later",
                       (unsigned long long)server->config.max_held_bytes >> 20);
    }
    request->charged_bytes += more;
    return 0;
}

/* ---- for handlers ---- */

void *http_context(const struct http_request *request) {
    return request->server->config.context;
}

const struct route *http_route(const struct http_request *request) {
    return request->route;
}

struct arena *http_arena(struct http_request *request) {
    return &request->arena;
}

const char *http_method(const struct http_request *request) {
    return request->method;
}

const char *http_path(const struct http_request *request) {
    return request->path;
}

/* The names in the pattern correspond to the captured segments, in order. */
const char *http_param(const struct http_request *request, const char *name) {
    if (!request->route)
        return NULL;
    size_t i = 0, len = strlen(name);
    for (const char *at = strchr(request->route->pattern, '{'); at && i < HTTP_PARAMS; at = strchr(at + 1, '{'), i++)
        if (strncmp(at + 1, name, len) == 0 && at[1 + len] == '}')
            return request->params[i];
    return NULL;
}

const char *http_query(const struct http_request *request, const char *name, size_t *ret_len) {
    for (size_t i = 0; i < request->query_count; i++) {
        if (strcmp(request->queries[i].name, name) != 0)
            continue;
        if (ret_len)
            *ret_len = request->queries[i].len;
        return request->queries[i].value;
    }
    return NULL;
}

const char *http_query_name(const struct http_request *request, size_t i) {
    return i < request->query_count ? request->queries[i].name : NULL;
}

const char *http_header(const struct http_request *request, const char *lower_case_name) {
    for (size_t i = 0; i < request->header_count; i++)
        if (strcmp(request->headers[i].name, lower_case_name) == 0)
            return request->headers[i].value;
    return NULL;
}

bool http_header_at(const struct http_request *request, size_t i, const char **ret_name, const char **ret_value) {
    if (i >= request->header_count)
        return false;
    *ret_name = request->headers[i].name;
    *ret_value = request->headers[i].value;
    return true;
}

const char *http_tail(const struct http_request *request) {
    return request->tail;
}

const char *http_host(const struct http_request *request) {
    return request->host ? request->host : "";
}

void http_own_site(struct http_request *request) {
    request->own_site = true;
}

bool http_is_tls(const struct http_request *request) {
    return request->conn->tls;
}

bool http_is_old(const struct http_request *request) {
    return request->http10;
}

const char *http_request_id(const struct http_request *request) {
    return request->id;
}

int http_fd(const struct http_request *request) {
    return request->conn->fd;
}

void http_peer(const struct http_request *request, struct http_peer *ret_peer) {
    *ret_peer = (struct http_peer){request->conn->unix_socket, request->conn->loopback};
}

uid_t http_peer_uid(struct http_request *request) {
    struct conn *conn = request->conn;
    if (!conn->uid_known && conn->loopback)
        conn->uid = peer_uid(conn->fd);
    conn->uid_known = true;
    return conn->uid;
}

/* Writes "10.0.0.7:4711". A client that has reset its connection no longer has an address. */
static void request_peer_address(int fd, char *text, size_t size) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?";
    if (getpeername(fd, (struct sockaddr *)&address, &len) < 0)
        return;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
    if (address.ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, host, sizeof host))
        snprintf(text, size, "%s:%u", host, ntohs(in->sin_port));
    else if (address.ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host))
        snprintf(text, size, "[%s]:%u", host, ntohs(in6->sin6_port));
}

const char *http_peer_text(struct http_request *request) {
    struct conn *conn = request->conn;
    if (conn->peer)
        return conn->peer;
    char text[80] = "";
    uid_t uid = conn->unix_socket || conn->loopback ? http_peer_uid(request) : (uid_t)-1;
    if (!conn->unix_socket)
        request_peer_address(conn->fd, text, sizeof text);
    size_t used = strlen(text);
    if (uid != (uid_t)-1)
        snprintf(text + used, sizeof text - used, "%suid:%u", used ? " " : "", uid);
    conn->peer = xstrdup(text);
    return conn->peer;
}

bool http_blocks(struct http_request *request) {
    return worker_relieve_wait(request->worker);
}

void *http_user_data(const struct http_request *request) {
    return request->user_data;
}

void http_set_user_data(struct http_request *request, void *data) {
    request->user_data = data;
}
