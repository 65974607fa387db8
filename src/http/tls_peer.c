/* TLS to a server in a box. Called by port_proxy. One thread per connection moves bytes between the server and a socket
 * pair; the connections of a box are bounded, and so are these threads. Invariants: at most one piece is held in each
 * direction, so back-pressure passes through; the thread ends when either side has ended. */
#include "http/tls_peer.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sync.h"

enum { TLS_SHAKE_MS = 10000, TLS_PIECE_BYTES = 16 << 10, TLS_STACK_BYTES = 128 << 10 };

struct tls_peer {
    SSL *ssl;
    int server, plain;
    uint8_t in[TLS_PIECE_BYTES], out[TLS_PIECE_BYTES]; /* from the server, to the server */
    size_t in_at, in_len, out_at, out_len;
    bool in_over, out_over; /* that side has ended */
    short wants;            /* what the last blocked call of OpenSSL waits for */
};

static void tls_peer_free(struct tls_peer *tls) {
    SSL_free(tls->ssl);
    fd_close(&tls->server);
    fd_close(&tls->plain);
    free(tls);
    ERR_clear_error();
}

/* Returns 1 after progress, 0 if it waits for tls->wants, -1 if the other side ended or broke the protocol. */
static int tls_peer_result(struct tls_peer *tls, int result) {
    int reason = result > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, result);
    ERR_clear_error();
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE)
        return reason == SSL_ERROR_NONE ? 1 : -1;
    tls->wants |= reason == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return 0;
}

static bool tls_peer_from_server(struct tls_peer *tls) {
    size_t got = 0;
    if (tls->in_over || tls->in_len)
        return false;
    int went = tls_peer_result(tls, SSL_read_ex(tls->ssl, tls->in, sizeof tls->in, &got));
    tls->in_at = 0;
    tls->in_len = went > 0 ? got : 0;
    if (went < 0) {
        tls->in_over = true;
        shutdown(tls->plain, SHUT_WR);
    }
    return went > 0;
}

static bool tls_peer_to_server(struct tls_peer *tls) {
    size_t sent = 0;
    if (!tls->out_len)
        return false;
    int went = tls_peer_result(tls, SSL_write_ex(tls->ssl, tls->out + tls->out_at, tls->out_len, &sent));
    tls->out_at += sent;
    tls->out_len = went < 0 ? 0 : tls->out_len - sent;
    tls->out_over |= went < 0;
    return went > 0;
}

static bool tls_peer_to_plain(struct tls_peer *tls) {
    if (!tls->in_len)
        return false;
    ssize_t n = send(tls->plain, tls->in + tls->in_at, tls->in_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        tls->in_over = tls->out_over = true;
    tls->in_at += n > 0 ? (size_t)n : 0;
    tls->in_len -= n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool tls_peer_from_plain(struct tls_peer *tls) {
    if (tls->out_over || tls->out_len)
        return false;
    ssize_t n = recv(tls->plain, tls->out, sizeof tls->out, MSG_DONTWAIT);
    tls->out_at = 0;
    tls->out_len = n > 0 ? (size_t)n : 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        tls->out_over = true;
        SSL_shutdown(tls->ssl); /* one direction: the server may still answer */
    }
    return n > 0;
}

static void *tls_peer_pump(void *argument) {
    struct tls_peer *tls = argument;
    for (;;) {
        tls->wants = 0;
        bool moved = tls_peer_from_plain(tls);
        moved |= tls_peer_to_server(tls);
        moved |= tls_peer_from_server(tls);
        moved |= tls_peer_to_plain(tls);
        if (tls->in_over && !tls->in_len) /* an answer with no more input is the end */
            break;
        if (moved)
            continue;
        short plain = (short)((tls->in_len ? POLLOUT : 0) | (!tls->out_over && !tls->out_len ? POLLIN : 0));
        struct pollfd polls[] = {{.fd = tls->wants ? tls->server : -1, .events = tls->wants},
                                 {.fd = tls->plain, .events = plain}};
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            break;
        if (polls[1].revents & (POLLHUP | POLLERR)) /* the proxy has closed its end */
            break;
    }
    tls_peer_free(tls);
    OPENSSL_thread_stop();
    return NULL;
}

static int tls_peer_shake(struct tls_peer *tls, struct err *err) {
    const uint64_t end_ms = clock_ms() + TLS_SHAKE_MS;
    for (;;) {
        tls->wants = 0;
        int went = tls_peer_result(tls, SSL_connect(tls->ssl));
        uint64_t now_ms = clock_ms();
        if (went > 0)
            return 0;
        if (went < 0 || now_ms >= end_ms)
            return err_set(err, ERR_PROTOCOL,
                           "the server in the box does not speak TLS, though httpsPorts names its port");
        struct pollfd server = {.fd = tls->server, .events = tls->wants};
        poll(&server, 1, (int)(end_ms - now_ms));
    }
}

static pthread_once_t tls_peer_once = PTHREAD_ONCE_INIT;
static SSL_CTX *tls_peer_context; /* never freed */

static void tls_peer_prepare(void) {
    tls_peer_context = SSL_CTX_new(TLS_client_method());
    if (!tls_peer_context)
        return;
    SSL_CTX_set_verify(tls_peer_context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(tls_peer_context,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

int tls_peer_begin(int *fd, struct err *err) {
    int pair[2];
    pthread_once(&tls_peer_once, tls_peer_prepare);
    SSL *ssl = tls_peer_context ? SSL_new(tls_peer_context) : NULL;
    if (!ssl || SSL_set_fd(ssl, *fd) != 1) {
        SSL_free(ssl);
        return err_set(err, ERR_INTERNAL, "no memory for TLS");
    }
    struct tls_peer *tls = xcalloc(1, sizeof *tls);
    *tls = (struct tls_peer){.ssl = ssl, .server = *fd, .plain = -1};
    int failed = tls_peer_shake(tls, err);
    if (!failed && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        failed = err_errno(err, errno, "cannot make a pair of sockets");
    if (failed) {
        tls->server = -1; /* stays the caller's */
        tls_peer_free(tls);
        return failed;
    }
    tls->plain = pair[1];
    if (thread_detached(tls_peer_pump, tls, TLS_STACK_BYTES) != 0) {
        tls->server = -1;
        tls_peer_free(tls);
        close(pair[0]);
        return err_set(err, ERR_LIMIT, "cannot start a thread for a TLS connection");
    }
    *fd = pair[0];
    return 0;
}
