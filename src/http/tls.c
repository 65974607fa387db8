/* TLS by OpenSSL 3, over non-blocking sockets. Called by conn.c and server.c; TLS to servers is tls_peer.c.
 *
 * The handshake happens during the first reads. Invariant: buffers are released between records
 * (SSL_MODE_RELEASE_BUFFERS), or idle connections would cost 34 KB more each. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include "base/base.h"
#include "http/internal.h"

static int tls_fail(SSL_CTX *context, const char *what, const char *path, struct err *err) {
    char text[200];
    ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
    ERR_clear_error();
    SSL_CTX_free(context);
    return err_set(err, ERR_INVALID, "%s '%s': %s", what, path, text);
}

/* Browsers offer h2 first; without an answer some would guess. */
static int tls_choose(SSL *, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                      unsigned in_len, void *) {
    static const unsigned char ours[] = "\x08http/1.1";
    int result = SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof ours - 1, in, in_len);
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Whoever reads the key can impersonate us. A group may read it, so that services can share one. */
static int tls_key_private(const char *key, struct err *err) {
    struct stat status;
    if (stat(key, &status) < 0)
        return err_errno(err, errno, "cannot read the TLS key '%s'", key);
    if (status.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
        return err_set(err, ERR_DENIED,
                       "TLS key '%s' can be read by all users or written by others (mode %03o): chmod 600 it", key,
                       (unsigned)status.st_mode & 0777);
    return 0;
}

int tls_context_new(const char *cert, const char *key, struct ssl_ctx_st **ret_context, struct err *err) {
    int refused = tls_key_private(key, err);
    if (refused)
        return refused;
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return tls_fail(context, "TLS context for", cert, err);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(context, tls_choose, NULL);
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return tls_fail(context, "TLS certificate", cert, err);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return tls_fail(context, "TLS key", key, err);
    if (SSL_CTX_check_private_key(context) != 1)
        return tls_fail(context, "TLS key does not fit the certificate:", key, err);
    *ret_context = context;
    return 0;
}

void tls_context_free(struct ssl_ctx_st *context) {
    SSL_CTX_free(context);
}

struct ssl_ctx_st *tls_context_ref(struct ssl_ctx_st *context) {
    if (context)
        SSL_CTX_up_ref(context);
    return context;
}

void tls_thread_end(void) {
    OPENSSL_thread_stop();
}

struct ssl_st *tls_new(struct ssl_ctx_st *context, int fd) {
    SSL *tls = SSL_new(context);
    if (tls && SSL_set_fd(tls, fd) != 1) {
        SSL_free(tls);
        return NULL;
    }
    if (tls)
        SSL_set_accept_state(tls);
    return tls;
}

void tls_free(struct ssl_st *tls, bool say_goodbye) {
    if (tls && say_goodbye && SSL_is_init_finished(tls))
        SSL_shutdown(tls);
    ERR_clear_error();
    SSL_free(tls);
}

static ssize_t tls_result(SSL *tls, int result, short *ret_events) {
    int reason = SSL_get_error(tls, result);
    ERR_clear_error();
    if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
        *ret_events = reason == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return -EAGAIN;
    }
    return reason == SSL_ERROR_ZERO_RETURN ? 0 : -EIO;
}

ssize_t tls_recv(struct ssl_st *tls, void *data, size_t len, short *ret_events) {
    size_t got = 0;
    ERR_clear_error();
    int result = SSL_read_ex(tls, data, len, &got);
    return result > 0 ? (ssize_t)got : tls_result(tls, result, ret_events);
}

ssize_t tls_send(struct ssl_st *tls, const void *data, size_t len, short *ret_events) {
    size_t sent = 0;
    ERR_clear_error();
    int result = SSL_write_ex(tls, data, len, &sent);
    if (result > 0)
        return (ssize_t)sent;
    ssize_t error = tls_result(tls, result, ret_events);
    return error == 0 ? -EIO : error;
}

bool tls_pending(const struct ssl_st *tls) {
    return SSL_has_pending(tls) == 1;
}

bool tls_ready(const struct ssl_st *tls) {
    return SSL_is_init_finished(tls);
}
