/* HTTP/1 on port 80 (program.h): every request is read strictly, judged by its Host, method and path, and written anew;
 * its body and the answer pass in their framing. Requests of one connection are served one after the other. Invariants:
 * what cannot be read in one way only is refused, and nothing of it is sent; a request goes to an upstream that was
 * dialed for its own Host. */
#include <llhttp.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/json.h"
#include "gate/program.h"
#include "http/framing.h"
#include "http/response.h"

enum { HTTP1_BUFFER = 64 << 10, HTTP1_STATUS_BYTES = 200, HTTP1_KEPT_MS = 60000 };
enum http1_body { HTTP1_NONE, HTTP1_LENGTH, HTTP1_CHUNKED };

struct exchange {
    struct head_scan scan;
    struct buf up, down; /* to be sent */
    struct response *response;
    char line[HTTP1_STATUS_BYTES]; /* of the answer: its status line */
    size_t line_len;
    bool line_whole;
    bool active; /* a request is under way */
    bool answer; /* ... and the head of its answer has passed */
    bool is_head, close, tunnel, client_ended, upstream_ended;
    enum http1_body body;
    uint64_t body_left;
    struct chunk chunk;
    char method[16];
};

struct http1_request { /* one head, taken apart */
    struct head_words words;
    struct http_field fields[LIMIT_HEADERS];
    const char *host, *upgrade;
    char name[GATE_NAME_BYTES + 1];
    bool by_address, close;
    enum http1_body body;
    uint64_t length;
    char *target;
};

static void http1_pump(struct conn *conn);

void http1_done(struct conn *conn) {
    struct exchange *http = conn->http;
    if (!http)
        return;
    response_free(http->response);
    buf_done(&http->up);
    buf_done(&http->down);
    loop_free(http);
    conn->http = NULL;
}

/* ---- refusing ---- */

void http1_refuse(struct conn *conn, int status, const char *why) {
    const char *host = conn->name[0] ? conn->name : "";
    char hint[GATE_NAME_BYTES + 64];
    autobuf body = buf_max(2048), text = buf_max(4096);
    struct json json = json_begin(&body);
    json_put_str(&json, "error", status == 403 ? "DENIED" : status == 502 ? "UNREACHABLE" : "INVALID");
    json_put_str(&json, "host", host);
    json_put_str(&json, "rule", why);
    snprintf(hint, sizeof hint, "cubby network allow BOX %s", host);
    if (status == 403)
        json_put_str(&json, "hint", hint);
    json_close(&json, '}');
    buf_printf(&text,
               "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\nconnection: close\r\n\r\n",
               status,
               status == 403   ? "Forbidden"
               : status == 405 ? "Method Not Allowed"
               : status == 502 ? "Bad Gateway"
                               : "Bad Request",
               body.len);
    buf_put(&text, body.data, body.len);
    if (status == 403) {
        struct gate_row row = report_row(GATE_ROW_HTTP, conn->box);
        row.denied = true;
        row.port = conn->port;
        row.cgroup = conn->cgroup;
        row.protocol = GATE_HTTP;
        row.status = 403;
        snprintf(row.name, sizeof row.name, "%s", host);
        if (!*host)
            address_shown(&conn->aimed, row.address);
        snprintf(row.why, sizeof row.why, "%s", why);
        snprintf(row.method, sizeof row.method, "%s", conn->http ? conn->http->method : "");
        report(conn->box, &row);
    }
    conn_end_after(conn, text.data, text.len, status != 502, why);
}

/* ---- one request ---- */

/* NULL, or why the head is refused. Framing as the server of http/ reads it. */
static const char *http1_fields(struct http1_request *request) {
    unsigned hosts = 0, lengths = 0, codings = 0;
    bool old = request->words.minor == 0;
    request->close = old;
    for (size_t i = 0; i < request->words.count; i++) {
        const struct http_field *field = &request->fields[i];
        if (strcmp(field->name, "host") == 0) {
            hosts++;
            request->host = field->value;
        } else if (strcmp(field->name, "content-length") == 0) {
            lengths++;
            request->body = HTTP1_LENGTH;
            if (!text_u64(field->value, INT64_MAX, &request->length))
                return "content-length";
        } else if (strcmp(field->name, "transfer-encoding") == 0) {
            codings++;
            request->body = HTTP1_CHUNKED;
            if (strcasecmp(field->value, "chunked") != 0 || old)
                return "transfer-encoding";
        } else if (strcmp(field->name, "connection") == 0) {
            request->close |= http_list_has(field->value, "close");
        } else if (strcmp(field->name, "upgrade") == 0 && strcasecmp(field->value, "websocket") == 0) {
            request->upgrade = field->value;
        }
    }
    return hosts != 1 ? "host" : lengths > 1 || codings > 1 || (lengths && codings) ? "length" : NULL;
}

/* Host as a name, or as the very address that the box aimed at. */
static const char *http1_host(const struct conn *conn, struct http1_request *request) {
    char host[GATE_NAME_BYTES + 8];
    struct address address;
    uint64_t port = conn->port;
    if ((size_t)snprintf(host, sizeof host, "%s", request->host) >= sizeof host)
        return "host";
    char *colon = strrchr(host, ':');
    if (colon) {
        *colon++ = 0;
        if (!text_u64(colon, 65535, &port) || port != conn->port)
            return "host";
    }
    if (gate_name(host, strlen(host), request->name, ERR_IGNORED) == 0)
        return NULL;
    request->by_address = address_text(host, &address) && memcmp(&address, &conn->aimed, sizeof address) == 0;
    return request->by_address ? NULL : "host";
}

static const char *http1_target(struct http1_request *request) {
    static const char scheme[] = "http://";
    char *target = request->words.target;
    if (strncasecmp(target, scheme, sizeof scheme - 1) == 0) {
        char *host = target + sizeof scheme - 1;
        size_t len = strcspn(host, "/?");
        if (strlen(request->host) != len || strncasecmp(host, request->host, len) != 0)
            return "target";
        target = host + len;
        if (*target != '/') /* no path: the byte before it is the host's, which is not needed any more */
            *--target = '/';
    }
    request->target = target;
    bool all = strcmp(target, "*") == 0 && request->words.method == HTTP_OPTIONS;
    return (*target == '/' || all) && !strchr(target, '#') ? NULL : "target";
}

static bool http1_hop(const char *name) {
    static const char *const names[] = {"connection",          "keep-alive", "proxy-connection", "proxy-authenticate",
                                        "proxy-authorization", "te",         "upgrade",          "http2-settings"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void http1_write_fields(struct buf *out, const struct http_field *fields, size_t count, bool upgrade,
                               bool close) {
    for (size_t i = 0; i < count; i++)
        if (!http1_hop(fields[i].name))
            buf_printf(out, "%s: %s\r\n", fields[i].name, fields[i].value);
    buf_puts(out, upgrade ? "connection: upgrade\r\nupgrade: websocket\r\n\r\n"
                  : close ? "connection: close\r\n\r\n"
                          : "\r\n");
}

/* Judged, and on its way to the upstream of its host. */
static void http1_pass(struct conn *conn, struct http1_request *request) {
    struct exchange *http = conn->http;
    struct gate_verdict verdict;
    char path[LIMIT_URI_BYTES + 1];
    const char *method = llhttp_method_name((llhttp_method_t)request->words.method);
    bool same = conn->upstream.fd >= 0 && !http->upstream_ended && strcmp(conn->name, request->name) == 0;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(request->target, "?"), request->target);
    snprintf(http->method, sizeof http->method, "%s", method);
    snprintf(conn->name, sizeof conn->name, "%s", request->name);
    struct gate_subject subject = {.name = request->by_address ? NULL : request->name,
                                   .address = request->by_address ? &conn->aimed : NULL,
                                   .port = conn->port,
                                   .method = method,
                                   .path = path};
    conn->box->count.requests++;
    box_judge(conn->box, &subject, &verdict);
    if (!verdict.allowed && !verdict.ask)
        return http1_refuse(conn, 403, verdict.why);
    if (!same)
        buf_clear(&http->up); /* of another host */
    buf_printf(&http->up, "%s %s HTTP/1.%d\r\n", method, request->target, request->words.minor);
    http1_write_fields(&http->up, request->fields, request->words.count, request->upgrade, request->close);
    if (http->up.failed)
        return http1_refuse(conn, 400, "head");
    http->active = true;
    http->answer = http->line_whole = false;
    http->line_len = 0;
    http->close = request->close;
    http->is_head = request->words.method == HTTP_HEAD;
    http->body = request->body;
    http->body_left = request->length;
    http->chunk = (struct chunk){0};
    response_free(http->response);
    http->response = response_new();
    timer_stop(&conn->timer);
    if (same)
        return;
    conn->granted = false;
    watch_close(&conn->upstream);
    http->upstream_ended = false;
    conn_dial(conn);
}

/* A whole head stands at the beginning of conn->in. */
static void http1_request(struct conn *conn, size_t start, size_t end) {
    struct http1_request request = {.words = {.fields = NULL}};
    request.words.fields = request.fields;
    char *head = xmalloc(end - start + 1);
    memcpy(head, conn->in.data + start, end - start);
    head[end - start] = 0;
    buf_consume(&conn->in, end);
    conn->http->scan = (struct head_scan){0};
    head_words(false, head, end - start, &request.words);
    const char *why = request.words.reason;
    if (!why && request.words.method == HTTP_CONNECT)
        http1_refuse(conn, 405, "CONNECT");
    else if (why || (why = http1_fields(&request)) || (why = http1_host(conn, &request)) ||
             (why = http1_target(&request)))
        http1_refuse(conn, 400, why);
    else
        http1_pass(conn, &request);
    free(head);
}

/* ---- bytes ---- */

/* What waits for a socket. false: broken. */
static bool http1_flush(struct buf *out, int fd, uint64_t *bytes) {
    while (out->len && fd >= 0) {
        ssize_t n = send(fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        buf_consume(out, (size_t)n);
        *bytes += (uint64_t)n;
    }
    return true;
}

/* Reads once into a buffer that has room. 1: something came, 0: nothing, -1: broken. */
static int http1_read(struct conn *conn, int fd, uint8_t *data, size_t room, size_t *ret_len, bool *ended) {
    *ret_len = 0;
    size_t most = room ? relay_allowance(conn->box, room) : 0;
    if (!most || *ended || fd < 0)
        return 0;
    ssize_t n = recv(fd, data, most, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    *ended = n == 0;
    *ret_len = (size_t)n;
    relay_moved(conn->box, (size_t)n);
    conn->last_ms = loop_now_ms();
    return 1;
}

static bool http1_body_whole(const struct exchange *http) {
    return http->body == HTTP1_NONE || (http->body == HTTP1_LENGTH && !http->body_left) ||
           (http->body == HTTP1_CHUNKED && chunk_done(&http->chunk));
}

/* The request's body, as it is framed. false: not chunked as it should be. */
static bool http1_body(struct conn *conn) {
    struct exchange *http = conn->http;
    while (conn->in.len && http->up.len < HTTP1_BUFFER) {
        size_t used = conn->in.len;
        if (http1_body_whole(http))
            return true;
        if (http->body == HTTP1_LENGTH) {
            used = used < http->body_left ? used : (size_t)http->body_left;
            http->body_left -= used;
        } else {
            const char *content;
            size_t len;
            ssize_t n = chunk_take(&http->chunk, (const char *)conn->in.data, conn->in.len, &content, &len);
            if (n < 0)
                return false;
            used = (size_t)n;
        }
        buf_put(&http->up, conn->in.data, used);
        buf_consume(&conn->in, used);
    }
    return true;
}

static void http1_line(struct exchange *http, const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len && !http->line_whole; i++) {
        http->line_whole = data[i] == '\r';
        if (!http->line_whole && http->line_len < sizeof http->line - 1)
            http->line[http->line_len++] = (char)data[i];
    }
    http->line[http->line_len] = 0;
}

/* Bytes of the upstream: heads are written anew, bodies pass. false: not an answer. */
static bool http1_answer(struct conn *conn, const uint8_t *data, size_t len) {
    struct exchange *http = conn->http;
    struct response *response = http->response;
    while (len) {
        size_t used = 0;
        if (http->tunnel) {
            buf_put(&http->down, data, len);
            return !http->down.failed;
        }
        if (!http->active)
            return false; /* more than its answer */
        if (!http->answer) {
            http1_line(http, data, len);
            int got = response_head(response, data, len, http->is_head, &used, ERR_IGNORED);
            if (got < 0)
                return false;
            if (got == 1) {
                bool interim = response->status < 200 && response->status != 101;
                http->tunnel = response->status == 101;
                http->answer = !interim;
                http->close |= response->last && !interim;
                buf_printf(&http->down, "%s\r\n", http->line);
                http1_write_fields(&http->down, response->fields, response->count, http->tunnel,
                                   http->close && !interim);
                http->line_whole = false;
                http->line_len = 0;
            }
        } else {
            const void *content;
            size_t content_len;
            ssize_t n = response_body(response, data, len, &content, &content_len, ERR_IGNORED);
            if (n < 0)
                return false;
            used = (size_t)n;
            buf_put(&http->down, data, used);
        }
        data += used;
        len -= used;
        if (http->answer && !http->tunnel && response_done(response)) {
            http->active = false;
            timer_stop(&conn->timer);
            http->close |= !http1_body_whole(http); /* the rest of it is not the next request */
        }
    }
    return !http->down.failed;
}

/* ---- the connection ---- */

static void http1_due(struct timer *timer) {
    struct conn *conn = container_of(timer, struct conn, timer);
    if (conn->http->active && loop_now_ms() - conn->last_ms < LIMIT_GATE_IDLE_MS)
        timer_set(timer, conn->last_ms + LIMIT_GATE_IDLE_MS, http1_due);
    else
        conn_end(conn, GATE_ROW_CONNECT, false, "silent");
}

static void http1_interest(struct conn *conn) {
    struct exchange *http = conn->http;
    if (!conn->timer.place)
        timer_set(&conn->timer,
                  loop_now_ms() + (http->active   ? LIMIT_GATE_IDLE_MS
                                   : conn->in.len ? LIMIT_GATE_PEEK_MS
                                                  : HTTP1_KEPT_MS),
                  http1_due);
    bool throttled = conn->box->throttle.place;
    bool client = !http->client_ended && conn->in.len < HTTP1_BUFFER / 2 && !throttled;
    bool upstream = !http->upstream_ended && http->down.len < HTTP1_BUFFER && !throttled;
    watch_set(&conn->client, (client ? EPOLLIN : 0u) | (http->down.len ? EPOLLOUT : 0u));
    watch_set(&conn->upstream, (upstream ? EPOLLIN : 0u) | (http->up.len ? EPOLLOUT : 0u));
}

/* The next head, if it is whole. False: the connection is over or waits for another state. */
static bool http1_next(struct conn *conn) {
    struct exchange *http = conn->http;
    if (http->close || (http->client_ended && !conn->in.len)) {
        if (!http->down.len)
            conn_close(conn);
        return http->down.len;
    }
    if (!conn->in.len)
        return true;
    int end = head_scan(&http->scan, (const char *)conn->in.data, conn->in.len);
    if (end < 0) {
        http1_refuse(conn, 400, end == -505 ? "version" : "head");
        return false;
    }
    if (end > 0)
        http1_request(conn, http->scan.start, (size_t)end);
    else if (http->client_ended)
        conn_close(conn);
    else
        return true;
    return conn->http && conn->state == CONN_HTTP && http->active;
}

static void http1_pump(struct conn *conn) {
    struct exchange *http = conn->http;
    struct box *box = conn->box;
    uint8_t data[16384];
    size_t len;
    for (bool moved = true; moved;) {
        uint64_t in = 0, out = 0;
        bool fine = http1_flush(&http->down, conn->client.fd, &in) && http1_flush(&http->up, conn->upstream.fd, &out);
        conn->bytes_in += in;
        conn->bytes_out += out;
        box->count.bytes_in += in;
        box->count.bytes_out += out;
        moved = in || out;
        if (fine && http->tunnel && !http->down.len && !http->up.len) {
            http1_done(conn);
            return relay_begin(conn);
        }
        size_t room = conn->in.len < HTTP1_BUFFER / 2 ? sizeof data : 0;
        int got = fine ? http1_read(conn, conn->client.fd, data, room, &len, &http->client_ended) : -1;
        if (got > 0)
            buf_put(&conn->in, data, len);
        moved |= got > 0 && len;
        room = got >= 0 && http->down.len < HTTP1_BUFFER ? sizeof data : 0;
        got = got < 0 ? -1 : http1_read(conn, conn->upstream.fd, data, room, &len, &http->upstream_ended);
        moved |= got > 0;
        if (got < 0 || (got > 0 && !http1_answer(conn, data, len)))
            return conn_end(conn, GATE_ROW_CONNECT, false, "answer");
        if (http->upstream_ended && http->active) {
            if (!http->answer || response_end(http->response, ERR_IGNORED) < 0)
                return conn_end(conn, GATE_ROW_CONNECT, false, "answer");
            http->active = false;
        }
        if (http->upstream_ended && conn->upstream.fd >= 0)
            watch_close(&conn->upstream);
        bool active = http->active;
        size_t waiting = http->up.len;
        if (!http->active && !http1_next(conn))
            return;
        if (http->active && !http1_body(conn))
            return http1_refuse(conn, 400, "chunk");
        moved |= http->active != active || http->up.len > waiting;
    }
    http1_interest(conn);
}

void http1_dialed(struct conn *conn) {
    conn->state = CONN_HTTP;
    http1_pump(conn);
}

void http1_event(struct conn *conn, bool client, uint32_t events) {
    if ((events & EPOLLERR) || (client && (events & EPOLLHUP)))
        return conn_end(conn, GATE_ROW_CONNECT, false, "reset");
    http1_pump(conn);
}

void http1_begin(struct conn *conn) {
    struct exchange *http = xcalloc(1, sizeof *http);
    buf_init(&http->up, 2 * HTTP1_BUFFER + LIMIT_HEAD_BYTES * 2);
    buf_init(&http->down, 2 * HTTP1_BUFFER + LIMIT_HEAD_BYTES * 2);
    conn->http = http;
    conn->state = CONN_HTTP;
}
