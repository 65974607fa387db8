/* Requests and answers of one connection, one after the other. Called by conn.c. Invariants: what cannot be read in one
 * way only is refused, and nothing of it is sent; a head is sent whole, after it was judged and its secrets put in. */
#include <llhttp.h>
#include <strings.h>

#include "base/json.h"
#include "seal/seal.h"

static const char *http_reason(int status) {
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {204, "No Content"},
                   {206, "Partial Content"},
                   {301, "Moved Permanently"},
                   {302, "Found"},
                   {304, "Not Modified"},
                   {307, "Temporary Redirect"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {100, "Continue"},
                   {101, "Switching Protocols"},
                   {405, "Method Not Allowed"},
                   {411, "Length Required"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {421, "Misdirected Request"},
                   {500, "Internal Server Error"},
                   {502, "Bad Gateway"},
                   {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Status";
}

void http_done(struct conn *conn) {
    conceal_free(conn->scrub);
    conn->scrub = NULL;
    response_free(conn->response);
    conn->response = NULL;
    buf_done(&conn->head);
    buf_done(&conn->body);
}

/* The connection ends after it: what follows the refused head belongs to nothing. */
static bool http_refuse(struct conn *conn, int status, const char *error, const char *why) {
    autobuf body = buf_max(4096);
    struct json json = json_begin(&body);
    json_put_str(&json, "error", error);
    json_put_str(&json, "host", conn->host);
    json_put_str(&json, "rule", why);
    json_close(&json, '}');
    buf_printf(&conn->client.out,
               "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\nconnection: close\r\n\r\n",
               status, http_reason(status), body.len);
    if (!conn->is_head)
        buf_put(&conn->client.out, body.data, body.len);
    seal_row(conn, "net_http", text_make(900, "%s %s%s %d %s", conn->method, conn->host, conn->path, status, why), NULL,
             true);
    conn->close = true;
    conn->active = false;
    buf_clear(&conn->client.in);
    return true;
}

/* ---- a request's head ---- */

/* NULL, or why it is refused with 400. */
static const char *http_framing(struct seal_request *request) {
    unsigned lengths = 0, codings = 0, hosts = 0;
    for (size_t i = 0; i < request->words.count; i++) {
        const char *name = request->fields[i].name, *value = request->fields[i].value;
        if (strcmp(name, "content-length") == 0) {
            lengths++;
            if (!text_u64(value, INT64_MAX, &request->length))
                return "Content-Length is not a number";
        } else if (strcmp(name, "transfer-encoding") == 0) {
            codings++;
            if (strcasecmp(value, "chunked") != 0)
                return "a Transfer-Encoding other than chunked";
        } else if (strcmp(name, "host") == 0) {
            hosts++;
            request->host = value;
        } else if (strcmp(name, "upgrade") == 0) {
            request->upgrade = value;
        } else if (strcmp(name, "connection") == 0 && http_list_has(value, "close")) {
            request->close = true;
        }
    }
    request->chunked = codings;
    request->close |= request->words.minor == 0;
    return hosts != 1                             ? "a request has exactly one Host"
           : lengths + codings > 1                ? "the length of the request is given twice"
           : codings && request->words.minor == 0 ? "HTTP/1.0 has no chunks"
                                                  : NULL;
}

static bool http_host_fits(const struct conn *conn, const char *host) {
    size_t len = strlen(conn->host);
    if (strncasecmp(host, conn->host, len) != 0)
        return false;
    host += len;
    host += *host == '.';
    return !*host || (*host == ':' && strcmp(host + 1, text_make(8, "%u", conn->port)) == 0);
}

/* Rules look at a path that has one reading only; of another they see one that no narrow rule fits. */
static void http_path(struct conn *conn, const char *target) {
    size_t len = strcspn(target, "?");
    autobuf path = buf_max(LIMIT_HEAD_BYTES);
    buf_put(&path, target, len);
    const char *text = buf_cstr(&path);
    bool odd = strcasestr(text, "%2f") || strcasestr(text, "%5c") || strcasestr(text, "%2e") || strstr(text, "//") ||
               strstr(text, "/./") || strstr(text, "/../") || (len >= 2 && strcmp(text + len - 2, "/.") == 0) ||
               (len >= 3 && strcmp(text + len - 3, "/..") == 0) || len >= sizeof conn->path;
    snprintf(conn->path, sizeof conn->path, "%s", odd ? "/\177" : text);
}

/* The head waits for its body; both are read again when all of it is there. */
static bool http_gather(struct conn *conn, const struct seal_request *request) {
    int status;
    const char *wrong = body_unreadable(request, &status);
    if (wrong)
        return http_refuse(conn, status, "UNREADABLE", wrong);
    const char *expect = request_field(request, "expect");
    if (expect && strcasecmp(expect, "100-continue") == 0)
        buf_puts(&conn->client.out, "HTTP/1.1 100 Continue\r\n\r\n");
    conn->gather = request->length;
    buf_init(&conn->body, SEAL_BODY_BYTES + 2 * LIMIT_SECRET_VALUE_BYTES * 4);
    return true;
}

static bool http_head(struct conn *conn, struct seal_request *request) {
    char why[GATE_WHY_BYTES];
    request->words.fields = request->fields;
    const char *wrong = http_framing(request);
    snprintf(conn->method, sizeof conn->method, "%s", request->method);
    conn->is_head = strcmp(request->method, "HEAD") == 0;
    http_path(conn, request->target);
    if (wrong)
        return http_refuse(conn, 400, "INVALID", wrong);
    if (strcmp(request->method, "CONNECT") == 0 || (request->target[0] != '/' && strcmp(request->target, "*") != 0))
        return http_refuse(conn, 405, "INVALID", "this is not a proxy: CONNECT and absolute addresses are refused");
    if (!http_host_fits(conn, request->host))
        return http_refuse(conn, 421, "MISDIRECTED", "Host is not the name that the connection was opened for");
    if (!seal_decide(conn, request->method, conn->path, why))
        return http_refuse(conn, 403, "DENIED", why);
    if (conn->refused[0])
        return http_refuse(conn, 502, "UNREACHABLE", conn->refused);
    if (!request->body && body_wanted(request, conn->host, conn->port, conn->path))
        return http_gather(conn, request);
    if (request->upgrade && strcasecmp(request->upgrade, "websocket") != 0)
        for (size_t i = 0; i < request->words.count; i++) /* h2c and others: the header goes, the request stays */
            if (strcmp(request->fields[i].name, "upgrade") == 0 ||
                strcmp(request->fields[i].name, "http2-settings") == 0 ||
                strcmp(request->fields[i].name, "connection") == 0) {
                memmove(&request->fields[i], &request->fields[i + 1],
                        (request->words.count - i - 1) * sizeof *request->fields);
                request->words.count--;
                i--;
            }
    autobuf misuse = buf_max(LIMIT_HEAD_BYTES + 1);
    conn->swapped = 0;
    enum seal_swap swap = secret_swap(request, conn->host, conn->port, &conn->server.out, &conn->swapped, &misuse, why);
    if (swap != SWAP_DONE) {
        buf_clear(&conn->server.out);
        return http_refuse(conn, swap == SWAP_LACKS ? 503 : 403, swap == SWAP_LACKS ? "UNAVAILABLE" : "DENIED", why);
    }
    for (size_t i = 0; i < secret_count; i++)
        if (conn->swapped >> i & 1)
            seal_row(conn, "secret_use", text_make(400, "%s %s %s", secrets[i].name, conn->host, conn->method), NULL,
                     false);
    if (misuse.len)
        seal_row(conn, "secret_misuse",
                 text_make(400, "a placeholder was sent to %s where it means nothing", conn->host),
                 (const char *)misuse.data, true);
    conn->strict = false;
    conceal_free(conn->scrub);
    conn->scrub = secret_scrub(conn->host, conn->port, &conn->strict);
    response_free(conn->response);
    conn->response = response_new();
    conn->active = true;
    conn->answered = false;
    conn->upgrade = request->upgrade && strcasecmp(request->upgrade, "websocket") == 0;
    conn->close = request->close;
    conn->request_chunked = request->chunked;
    conn->request_left = request->body ? 0 : request->length;
    conn->request_done = !request->chunked && !conn->request_left;
    conn->chunk = (struct chunk){0};
    return true;
}

/* A whole head; body: the request's, if it was gathered. */
static bool http_request(struct conn *conn, const void *text, size_t len, struct buf *body) {
    autobuf head = buf_max(LIMIT_HEAD_BYTES + 2);
    buf_put(&head, text, len);
    struct seal_request *request = xcalloc(1, sizeof *request);
    request->words.fields = request->fields;
    request->body = body;
    char method[40];
    snprintf(method, sizeof method, "%.*s", (int)strcspn((char *)head.data, " "), (char *)head.data);
    head_words(false, (char *)head.data, head.len, &request->words);
    request->method = method;
    request->target = request->words.target;
    bool moved =
        request->words.reason ? http_refuse(conn, 400, "INVALID", request->words.reason) : http_head(conn, request);
    free(request);
    if (head.data)
        explicit_bzero(head.data, head.len);
    conn->until_ms = clock_ms() + SEAL_QUIET_MS;
    return moved;
}

static bool http_gathered(struct conn *conn) {
    struct buf *in = &conn->client.in;
    size_t left = (size_t)conn->gather - conn->body.len, n = in->len < left ? in->len : left;
    buf_put(&conn->body, in->data, n);
    buf_consume(in, n);
    if (conn->body.len < conn->gather)
        return n > 0;
    seal_listen();
    if (!secrets_ready(conn->host, conn->port))
        return n > 0; /* conn_pump_all comes again */
    conn->gather = 0;
    http_request(conn, conn->head.data, conn->head.len, &conn->body);
    if (conn->body.data)
        explicit_bzero(conn->body.data, conn->body.len);
    buf_done(&conn->head);
    buf_done(&conn->body);
    return true;
}

static bool http_next(struct conn *conn) {
    struct side *client = &conn->client;
    if (conn->gather)
        return http_gathered(conn);
    if (conn->close || !client->in.len)
        return false;
    int end = head_scan(&conn->scan, (const char *)client->in.data, client->in.len);
    if (end < 0)
        return http_refuse(conn, 400, "INVALID", "the request is not HTTP/1.1 as it should be");
    if (end == 0)
        return false;
    seal_listen(); /* a request that came after a rotation has the new value */
    if (!secrets_ready(conn->host, conn->port)) {
        conn->scan = (struct head_scan){0};
        return false; /* conn_pump_all comes again */
    }
    autobuf head = buf_max(LIMIT_HEAD_BYTES + 2);
    buf_put(&head, client->in.data + conn->scan.start, (size_t)end - conn->scan.start);
    buf_consume(&client->in, (size_t)end);
    conn->scan = (struct head_scan){0};
    bool moved = http_request(conn, head.data, head.len, NULL);
    if (conn->gather)
        buf_init(&conn->head, LIMIT_HEAD_BYTES + 2), buf_put(&conn->head, head.data, head.len);
    return moved;
}

/* ---- bodies ---- */

static bool http_body_up(struct conn *conn) {
    struct side *client = &conn->client, *server = &conn->server;
    if (!client->in.len || server->out.len >= SEAL_BUFFER_BYTES || conn->request_done)
        return false;
    size_t n = client->in.len;
    if (conn->request_chunked) {
        const char *content;
        size_t len;
        ssize_t used = chunk_take(&conn->chunk, (const char *)client->in.data, n, &content, &len);
        if (used < 0) {
            conn->dead = true;
            return false;
        }
        n = (size_t)used;
        conn->request_done = chunk_done(&conn->chunk);
    } else {
        n = n < conn->request_left ? n : (size_t)conn->request_left;
        conn->request_left -= n;
        conn->request_done = !conn->request_left;
    }
    buf_put(&server->out, client->in.data, n);
    buf_consume(&client->in, n);
    return n > 0;
}

bool http_up(struct conn *conn) {
    if (conn->tunnel) {
        size_t n = conn->client.in.len;
        if (!n || conn->server.out.len >= SEAL_BUFFER_BYTES)
            return false;
        buf_put(&conn->server.out, conn->client.in.data, n);
        buf_clear(&conn->client.in);
        return true;
    }
    return conn->active ? http_body_up(conn) : http_next(conn);
}

/* ---- answers ---- */

static void http_scrubbed(struct conn *conn, const char *text, struct buf *out) {
    if (conn->scrub)
        conceal_text(conn->scrub, text, strlen(text), out);
    else
        buf_puts(out, text);
}

static bool http_answer_head(struct conn *conn) {
    struct response *response = conn->response;
    struct buf *out = &conn->client.out;
    const char *coding = response_field(response, "content-encoding");
    bool interim = response->status < 200 && response->status != 101;
    if (conn->scrub && coding && strcasecmp(coding, "identity") != 0) {
        seal_row(conn, "secret_use", text_make(200, "unscanned answer: %.40s", coding), NULL, conn->strict);
        if (conn->strict)
            return http_refuse(conn, 502, "UNREADABLE", "the answer is encoded, and could hold the secret");
    }
    buf_printf(out, "HTTP/1.1 %d %s\r\n", response->status, http_reason(response->status));
    conn->answer_chunked = false;
    for (size_t i = 0; i < response->count; i++) {
        const struct http_field *field = &response->fields[i];
        conn->answer_chunked |= strcmp(field->name, "transfer-encoding") == 0;
        if (strcmp(field->name, "alt-svc") == 0 || (strcmp(field->name, "trailer") == 0 && conn->scrub))
            continue;
        buf_printf(out, "%s: ", field->name);
        http_scrubbed(conn, field->value, out);
        buf_puts(out, "\r\n");
    }
    if (response->last && !interim && response->status != 101) {
        const char *connection = response_field(response, "connection");
        if (!connection || !http_list_has(connection, "close"))
            buf_puts(out, "connection: close\r\n");
        conn->close = true;
    }
    buf_puts(out, "\r\n");
    if (interim)
        return true;
    conn->answered = true;
    if (response->status == 101) {
        conn->tunnel = conn->upgrade;
        conn->dead |= !conn->upgrade;
    }
    seal_row(conn, "net_http", text_make(900, "%s %s%s %d", conn->method, conn->host, conn->path, response->status),
             NULL, false);
    return true;
}

static void http_content(struct conn *conn, const void *data, size_t len, bool last) {
    struct buf *out = &conn->client.out;
    autobuf clean = buf_max(4 * SEAL_BUFFER_BYTES);
    if (len)
        conceal_put(conn->scrub, data, len, &clean);
    if (last)
        conceal_flush(conn->scrub, &clean);
    if (clean.len && conn->answer_chunked)
        buf_printf(out, "%zx\r\n", clean.len);
    buf_put(out, clean.data, clean.len);
    if (clean.len && conn->answer_chunked)
        buf_puts(out, "\r\n");
    if (last && conn->answer_chunked)
        buf_puts(out, "0\r\n\r\n");
}

static void http_finish(struct conn *conn) {
    if (conn->scrub)
        http_content(conn, NULL, 0, true);
    conn->active = false;
    conn->close |= !conn->request_done; /* the rest of its body would be taken for a request */
    http_done(conn);
}

static bool http_body_down(struct conn *conn) {
    struct side *client = &conn->client, *server = &conn->server;
    struct err err = {0};
    const void *content;
    size_t len = 0;
    if (response_done(conn->response)) {
        http_finish(conn);
        return true;
    }
    if (!server->in.len) {
        if (!server->eof)
            return false;
        conn->dead |= response_end(conn->response, &err) < 0;
        if (!conn->dead)
            http_finish(conn);
        return !conn->dead;
    }
    if (client->out.len >= SEAL_BUFFER_BYTES)
        return false;
    ssize_t used = response_body(conn->response, server->in.data, server->in.len, &content, &len, &err);
    if (used < 0) {
        conn->dead = true;
        return false;
    }
    if (conn->scrub)
        http_content(conn, content, len, false);
    else
        buf_put(&client->out, server->in.data, (size_t)used);
    buf_consume(&server->in, (size_t)used);
    return used > 0;
}

bool http_down(struct conn *conn) {
    struct side *client = &conn->client, *server = &conn->server;
    struct err err = {0};
    size_t used = 0;
    if (conn->tunnel) {
        if (!server->in.len || client->out.len >= SEAL_BUFFER_BYTES) {
            conn->dead |= server->eof && !server->in.len;
            return false;
        }
        if (conn->scrub)
            conceal_put(conn->scrub, server->in.data, server->in.len, &client->out);
        else
            buf_put(&client->out, server->in.data, server->in.len);
        buf_clear(&server->in);
        return true;
    }
    if (!conn->active)
        return false;
    if (conn->answered)
        return http_body_down(conn);
    if (!server->in.len)
        return server->eof ? http_refuse(conn, 502, "UNREACHABLE", "the host closed the connection without an answer")
                           : false;
    int r = response_head(conn->response, server->in.data, server->in.len, conn->is_head, &used, &err);
    if (r < 0)
        return http_refuse(conn, 502, "UNREADABLE", "the host's answer is not HTTP/1.1 as it should be");
    buf_consume(&server->in, used);
    return r > 0 ? http_answer_head(conn) : true;
}
