/* Connections: TLS both ways over memory, one epoll. Called by main. Invariants: nothing of the box's request exists
 * before the host has proved its name; a direction holds at most SEAL_BUFFER_BYTES, so a slow end slows the other. */
#include <openssl/buffer.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "seal/seal.h"

struct conn *conns;
enum { CONN_PIECE = 16384, CONN_COUNT_BYTES = 1 << 20 };

static void conn_side_init(struct side *side, int fd, SSL_CTX *context) {
    side->fd = fd;
    side->ssl = xchecked(SSL_new(context));
    side->from_net = xchecked(BIO_new(BIO_s_mem()));
    side->to_net = xchecked(BIO_new(BIO_s_mem()));
    SSL_set_bio(side->ssl, side->from_net, side->to_net);
    buf_init(&side->in, 2 * SEAL_BUFFER_BYTES);
    buf_init(&side->out, 4 * SEAL_BUFFER_BYTES);
}

/* Between requests a connection keeps no buffers: most of its life it waits. */
static void conn_side_rest(struct side *side) {
    BIO *const both[] = {side->from_net, side->to_net};
    for (int i = 0; i < 2; i++) {
        BUF_MEM *memory = NULL;
        BIO_get_mem_ptr(both[i], &memory);
        if (!BIO_ctrl_pending(both[i]) && memory && memory->max)
            BIO_set_mem_buf(both[i], xchecked(BUF_MEM_new()), BIO_CLOSE);
    }
    struct buf *const plain[] = {&side->in, &side->out};
    for (int i = 0; i < 2; i++) {
        size_t max = plain[i]->max;
        if (!plain[i]->len) {
            buf_done(plain[i]);
            buf_init(plain[i], max);
        }
    }
}

static void conn_side_done(struct side *side) {
    SSL_free(side->ssl);
    buf_done(&side->in);
    buf_done(&side->out);
    fd_close(&side->fd);
}

void conn_new(const struct seal_connection *head, const char *host, const void *peeked, int client_fd, int server_fd) {
    struct conn *conn = xcalloc(1, sizeof *conn);
    snprintf(conn->host, sizeof conn->host, "%.*s", (int)head->host_len, host);
    conn->port = head->port;
    conn->cgroup = head->cgroup;
    conn->number = head->connection;
    conn->until_ms = clock_ms() + SEAL_SHAKE_MS;
    conn_side_init(&conn->client, client_fd, server_context);
    conn_side_init(&conn->server, server_fd, client_context);
    SSL_set_accept_state(conn->client.ssl);
    SSL_set_connect_state(conn->server.ssl);
    SSL_set_tlsext_host_name(conn->server.ssl, conn->host);
    SSL_set_hostflags(conn->server.ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set1_host(conn->server.ssl, conn->host);
    BIO_write(conn->client.from_net, peeked, head->peeked_len);
    list_push(conns, conn);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.data.ptr = conn};
        epoll_ctl(seal_epoll, EPOLL_CTL_ADD, i ? server_fd : client_fd, &event);
    }
    conn_ready(conn);
}

/* What the gate counts of other connections; now and then, and at the end. */
static void conn_count(struct conn *conn, bool end) {
    struct side *client = &conn->client;
    uint64_t sum = client->bytes_in + client->bytes_out;
    if (sum >= CONN_COUNT_BYTES || (end && sum)) {
        seal_send('B', text_make(24, "%llu", (unsigned long long)client->bytes_out),
                  text_make(24, "%llu", (unsigned long long)client->bytes_in));
        client->bytes_in = client->bytes_out = 0;
    }
}

static void conn_free(struct conn *conn) {
    conn_count(conn, true);
    list_remove(conns, conn);
    http_done(conn);
    conn_side_done(&conn->client);
    conn_side_done(&conn->server);
    free(conn);
}

/* ---- one side ---- */

static bool conn_side_reads(const struct side *side) {
    return !side->eof && !side->over && side->in.len < SEAL_BUFFER_BYTES &&
           BIO_ctrl_pending(side->from_net) < CONN_PIECE;
}

/* From the network, through TLS, into `in`. */
static bool conn_side_in(struct side *side, bool shaken) {
    uint8_t piece[CONN_PIECE];
    bool moved = false;
    if (conn_side_reads(side)) {
        ssize_t n = recv(side->fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n > 0)
            BIO_write(side->from_net, piece, (int)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            side->eof = true;
        moved = n > 0;
        side->bytes_in += n > 0 ? (uint64_t)n : 0;
    }
    while (shaken && side->in.len < SEAL_BUFFER_BYTES) {
        int n = SSL_read(side->ssl, piece, sizeof piece);
        if (n <= 0) {
            int why = SSL_get_error(side->ssl, n);
            if (why == SSL_ERROR_ZERO_RETURN || (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE))
                side->eof = true;
            break;
        }
        buf_put(&side->in, piece, (size_t)n);
        moved = true;
    }
    ERR_clear_error();
    return moved;
}

/* From `out`, through TLS, to the network. */
static bool conn_side_out(struct side *side, bool shaken) {
    bool moved = false;
    while (shaken && side->out.len && !side->over && BIO_ctrl_pending(side->to_net) < SEAL_BUFFER_BYTES) {
        int n = SSL_write(side->ssl, side->out.data, side->out.len < CONN_PIECE ? (int)side->out.len : CONN_PIECE);
        if (n <= 0) {
            if (SSL_get_error(side->ssl, n) != SSL_ERROR_WANT_READ)
                side->over = true;
            break;
        }
        buf_consume(&side->out, (size_t)n);
        moved = true;
    }
    char *data;
    long len;
    while (!side->over && (len = BIO_get_mem_data(side->to_net, &data)) > 0) {
        ssize_t n = send(side->fd, data, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            side->over = true;
        if (n <= 0)
            break;
        side->bytes_out += (uint64_t)n;
        uint8_t drop[CONN_PIECE];
        for (ssize_t left = n; left > 0;) {
            int took = BIO_read(side->to_net, drop, left < CONN_PIECE ? (int)left : CONN_PIECE);
            left -= took > 0 ? took : left;
        }
        moved = true;
    }
    ERR_clear_error();
    return moved;
}

/* ---- handshakes ---- */

/* 1: done; 0: more is needed; -1: it failed. */
static int conn_side_shake(struct side *side) {
    int r = SSL_do_handshake(side->ssl);
    int why = r == 1 ? SSL_ERROR_NONE : SSL_get_error(side->ssl, r);
    if (r == 1)
        return 1;
    return (why == SSL_ERROR_WANT_READ && !side->eof) || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static bool conn_shake_server(struct conn *conn) {
    int r = conn_side_shake(&conn->server);
    if (r == 0)
        return false;
    if (r < 0) {
        long verify = SSL_get_verify_result(conn->server.ssl);
        snprintf(conn->refused, sizeof conn->refused, "%s: %s", conn->host,
                 verify != X509_V_OK ? X509_verify_cert_error_string(verify)
                                     : "the host does not speak TLS as it should");
        conn->server.over = true;
        seal_row(conn, "net_http", text_make(360, "upstream refused: %s", conn->refused), NULL, true);
    }
    conn->phase = CONN_LEAF;
    return true;
}

static bool conn_take_leaf(struct conn *conn) {
    const struct leaf *leaf = leaf_of(conn->host);
    if (!leaf->certificate)
        return false;
    SSL_use_certificate(conn->client.ssl, leaf->certificate);
    SSL_use_PrivateKey(conn->client.ssl, leaf_key());
    conn->phase = CONN_CLIENT;
    return true;
}

/* A program that does not trust the authority closes with an alert that says so. */
static bool conn_shake_client(struct conn *conn) {
    int r = conn_side_shake(&conn->client);
    if (r == 0)
        return false;
    unsigned long why = ERR_peek_last_error();
    if (r < 0) {
        int reason = ERR_GET_REASON(why);
        if (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE)
            seal_row(conn, "untrusted_ca", "the program does not trust the certificate of this installation", NULL,
                     true);
        ERR_clear_error();
        conn_side_out(&conn->client, false);
        conn->dead = true;
        return true;
    }
    conn->phase = CONN_OPEN;
    conn->until_ms = clock_ms() + SEAL_QUIET_MS;
    return true;
}

/* ---- the pump ---- */

static void conn_watch(struct conn *conn, struct side *side) {
    uint32_t events = (conn_side_reads(side) ? EPOLLIN : 0u) | (BIO_ctrl_pending(side->to_net) ? EPOLLOUT : 0u);
    if (side->over || (side->eof && !BIO_ctrl_pending(side->to_net)))
        events = 0;
    if (events == side->events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = conn};
    epoll_ctl(seal_epoll, EPOLL_CTL_MOD, side->fd, &event);
    side->events = events;
}

static bool conn_step(struct conn *conn) {
    bool open = conn->phase == CONN_OPEN, upstream = conn->phase != CONN_UPSTREAM && !conn->refused[0];
    bool moved = conn->server.over ? false : conn_side_in(&conn->server, upstream);
    if (conn->phase >= CONN_CLIENT)
        moved |= conn_side_in(&conn->client, open);
    switch (conn->phase) {
    case CONN_UPSTREAM:
        moved |= conn_shake_server(conn);
        break;
    case CONN_LEAF:
        moved |= conn_take_leaf(conn);
        break;
    case CONN_CLIENT:
        moved |= conn_shake_client(conn);
        break;
    case CONN_OPEN:
        moved |= http_up(conn);
        moved |= http_down(conn);
        break;
    }
    moved |= conn_side_out(&conn->server, upstream);
    moved |= conn_side_out(&conn->client, open);
    return moved;
}

void conn_ready(struct conn *conn) {
    while (!conn->dead && conn_step(conn))
        continue;
    bool sent = !conn->client.out.len && !BIO_ctrl_pending(conn->client.to_net);
    if (conn->client.over || (conn->close && sent && !conn->active) || (conn->client.eof && !conn->active && sent))
        conn->dead = true;
    if (conn->tunnel && conn->client.eof && !conn->server.out.len && !BIO_ctrl_pending(conn->server.to_net))
        conn->dead = true;
    if (conn->phase == CONN_OPEN && conn->server.eof && !conn->active && sent && !conn->server.in.len)
        conn->dead = true;
    if (conn->dead) {
        if (conn->phase == CONN_OPEN) {
            SSL_shutdown(conn->client.ssl);
            conn_side_out(&conn->client, false);
        }
        conn_free(conn);
        return;
    }
    conn_count(conn, false);
    conn_watch(conn, &conn->client);
    conn_watch(conn, &conn->server);
    if (conn->phase == CONN_OPEN && !conn->active && !conn->tunnel) {
        conn_side_rest(&conn->client);
        conn_side_rest(&conn->server);
    }
}

void conn_pump_all(void) {
    for (struct conn *conn = conns, *next; conn; conn = next) {
        next = conn->next;
        conn_ready(conn);
    }
}

void conn_time(uint64_t now_ms) {
    for (struct conn *conn = conns, *next; conn; conn = next) {
        next = conn->next;
        if (now_ms >= conn->until_ms)
            conn_free(conn);
    }
}
