/* TLS to an engine: OpenSSL, loaded when the first such engine is spoken to (dlopen), because this code is also part of the
 * command line, which links none. Called by engine/link.c. Invariant: the engine's certificate is verified, its name too,
 * always; there is no way to switch it off. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/docker/engine/link.h"
#include "base/mem.h"

/* name, result, arguments; of libssl, which brings libcrypto */
#define TLS_LIST(X)                                                                                                    \
    X(TLS_client_method, const SSL_METHOD *, (void))                                                                   \
    X(SSL_CTX_new, SSL_CTX *, (const SSL_METHOD *))                                                                    \
    X(SSL_CTX_free, void, (SSL_CTX *))                                                                                 \
    X(SSL_CTX_ctrl, long, (SSL_CTX *, int, long, void *))                                                              \
    X(SSL_CTX_set_verify, void, (SSL_CTX *, int, SSL_verify_cb))                                                       \
    X(SSL_CTX_load_verify_locations, int, (SSL_CTX *, const char *, const char *))                                     \
    X(SSL_CTX_set_default_verify_paths, int, (SSL_CTX *))                                                              \
    X(SSL_CTX_use_certificate_chain_file, int, (SSL_CTX *, const char *))                                              \
    X(SSL_CTX_use_PrivateKey_file, int, (SSL_CTX *, const char *, int))                                                \
    X(SSL_new, SSL *, (SSL_CTX *))                                                                                     \
    X(SSL_free, void, (SSL *))                                                                                         \
    X(SSL_set_fd, int, (SSL *, int))                                                                                   \
    X(SSL_ctrl, long, (SSL *, int, long, void *))                                                                      \
    X(SSL_get0_param, X509_VERIFY_PARAM *, (SSL *))                                                                    \
    X(SSL_connect, int, (SSL *))                                                                                       \
    X(SSL_read, int, (SSL *, void *, int))                                                                             \
    X(SSL_write, int, (SSL *, const void *, int))                                                                      \
    X(SSL_shutdown, int, (SSL *))                                                                                      \
    X(SSL_has_pending, int, (const SSL *))                                                                             \
    X(SSL_get_error, int, (const SSL *, int))                                                                          \
    X(SSL_get_verify_result, long, (const SSL *))                                                                      \
    X(X509_VERIFY_PARAM_set1_host, int, (X509_VERIFY_PARAM *, const char *, size_t))                                   \
    X(X509_VERIFY_PARAM_set1_ip_asc, int, (X509_VERIFY_PARAM *, const char *))                                         \
    X(X509_verify_cert_error_string, const char *, (long))                                                             \
    X(ERR_get_error, unsigned long, (void))                                                                            \
    X(ERR_clear_error, void, (void))                                                                                   \
    X(ERR_reason_error_string, const char *, (unsigned long))

static struct tls_api {
    bool ok;
#define X(name, result, arguments) result(*name) arguments;
    TLS_LIST(X)
#undef X
} api; /* constant once it was loaded */
static pthread_once_t api_once = PTHREAD_ONCE_INIT;

struct engine_tls {
    SSL_CTX *context;
    SSL *ssl;
    bool broken;        /* after a failure OpenSSL may not be asked to shut it */
    const char *reason; /* of it, constant text; NULL: none */
};

static void api_load(void) {
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
#define X(name, result, arguments)                                                                                     \
    if (!(api.name = (result(*) arguments)(uintptr_t)dlsym(library, #name)))                                           \
        return;
    TLS_LIST(X)
#undef X
    api.ok = true;
}

static const char *tls_reason(void) {
    const char *reason = api.ERR_reason_error_string(api.ERR_get_error());
    return reason ? reason : "no reason given";
}

static int tls_file(const struct engine_place *place, const char *name, char *path, size_t size, struct err *err) {
    if (snprintf(path, size, "%s/%s", place->cert_dir, name) >= (int)size)
        return err_set(err, ERR_INVALID, "the directory of certificates '%s' has too long a name", place->cert_dir);
    return access(path, R_OK) == 0 ? 0 : -errno;
}

/* ca.pem says whom we trust; cert.pem and key.pem, where they are, who we are. */
static int tls_certificates(const struct engine_place *place, SSL_CTX *context, struct err *err) {
    char ca[4096], certificate[4096], key[4096];
    if (!place->cert_dir)
        return api.SSL_CTX_set_default_verify_paths(context) == 1
                   ? 0
                   : err_set(err, ERR_IO, "the system's certificates: %s", tls_reason());
    int code = tls_file(place, "ca.pem", ca, sizeof ca, err);
    if (code < 0)
        return err_errno(err, errno, "the certificates for the container engine at %s: '%s/ca.pem'", place->url,
                         place->cert_dir);
    if (api.SSL_CTX_load_verify_locations(context, ca, NULL) != 1)
        return err_set(err, ERR_INVALID, "'%s' holds no certificate of an authority: %s", ca, tls_reason());
    int have_certificate = tls_file(place, "cert.pem", certificate, sizeof certificate, err);
    int have_key = tls_file(place, "key.pem", key, sizeof key, err);
    if (have_certificate == -ENOENT && have_key == -ENOENT)
        return 0;
    if (have_certificate < 0 || have_key < 0)
        return err_errno(err, -(have_certificate < 0 ? have_certificate : have_key),
                         "the certificates for the container engine at %s: '%s/%s'", place->url, place->cert_dir,
                         have_certificate < 0 ? "cert.pem" : "key.pem");
    if (api.SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
        api.SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return err_set(err, ERR_INVALID, "'%s' and '%s' are no certificate and its key: %s", certificate, key,
                       tls_reason());
    return 0;
}

static int tls_named(const struct engine_place *place, SSL *ssl, struct err *err) {
    X509_VERIFY_PARAM *param = api.SSL_get0_param(ssl);
    struct in6_addr address;
    bool numeric = inet_pton(AF_INET, place->host, &address) == 1 || inet_pton(AF_INET6, place->host, &address) == 1;
    int ok = numeric ? api.X509_VERIFY_PARAM_set1_ip_asc(param, place->host)
                     : api.X509_VERIFY_PARAM_set1_host(param, place->host, 0);
    if (ok == 1 && !numeric)
        ok = (int)api.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)place->host);
    return ok == 1 ? 0 : err_set(err, ERR_INVALID, "'%s' is no name for TLS", place->host);
}

static int tls_refused(const struct engine_place *place, SSL *ssl, int number, struct err *err) {
    long verified = api.SSL_get_verify_result(ssl);
    if (verified != X509_V_OK)
        return err_set(err, ERR_DENIED,
                       "the certificate of the container engine at %s does not verify: %s; ca.pem of docker_cert_dir "
                       "(DOCKER_CERT_PATH) is whom it has to be signed by, and it has to name the host",
                       place->url, api.X509_verify_cert_error_string(verified));
    if (number == SSL_ERROR_SYSCALL)
        return err_set(err, ERR_BUSY, "the container engine at %s hung up in the TLS handshake", place->url);
    return err_set(err, ERR_BUSY, "the container engine at %s does not speak TLS as it should: %s", place->url,
                   tls_reason());
}

static int tls_handshake(const struct engine_place *place, struct engine_tls *tls, struct engine_link *link,
                         const struct engine_wait *wait, struct err *err) {
    for (;;) {
        api.ERR_clear_error();
        int done = api.SSL_connect(tls->ssl);
        if (done == 1)
            return 0;
        int number = api.SSL_get_error(tls->ssl, done);
        tls->broken = number != SSL_ERROR_WANT_READ && number != SSL_ERROR_WANT_WRITE;
        if (tls->broken)
            return tls_refused(place, tls->ssl, number, err);
        if (engine_link_wait(link, number == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, wait, err) < 0) {
            tls->broken = true;
            return err_wrap(err, "the TLS handshake with the container engine at %s", place->url);
        }
    }
}

int engine_tls_open(const struct engine_place *place, const struct engine_wait *wait, struct engine_link *link,
                    struct err *err) {
    pthread_once(&api_once, api_load);
    if (!api.ok)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container engine at %s: TLS needs libssl.so.3; install the package libssl3", place->url);
    struct engine_tls *tls = xcalloc(1, sizeof *tls);
    link->tls = tls; /* closed with it, however this ends */
    tls->broken = true;
    tls->context = api.SSL_CTX_new(api.TLS_client_method());
    if (!tls->context)
        return err_set(err, ERR_INTERNAL, "OpenSSL makes no context: %s", tls_reason());
    api.SSL_CTX_ctrl(tls->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    api.SSL_CTX_ctrl(tls->context, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                     NULL);
    api.SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    int code = tls_certificates(place, tls->context, err);
    if (code < 0)
        return code;
    tls->ssl = api.SSL_new(tls->context);
    if (!tls->ssl || api.SSL_set_fd(tls->ssl, link->fd) != 1)
        return err_set(err, ERR_INTERNAL, "OpenSSL makes no connection: %s", tls_reason());
    code = tls_named(place, tls->ssl, err);
    return code < 0 ? code : tls_handshake(place, tls, link, wait, err);
}

void engine_tls_close(struct engine_tls *tls) {
    if (!tls)
        return;
    if (tls->ssl && !tls->broken)
        engine_tls_shut(tls);
    if (tls->ssl)
        api.SSL_free(tls->ssl);
    if (tls->context)
        api.SSL_CTX_free(tls->context);
    free(tls);
}

static ssize_t tls_result(struct engine_tls *tls, int done, short *ret_events) {
    int number = api.SSL_get_error(tls->ssl, done);
    if (number == SSL_ERROR_WANT_READ || number == SSL_ERROR_WANT_WRITE) {
        *ret_events = number == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return -EAGAIN;
    }
    if (number == SSL_ERROR_ZERO_RETURN)
        return 0;
    tls->broken = true;
    tls->reason = number == SSL_ERROR_SSL ? tls_reason() : NULL;
    return number == SSL_ERROR_SYSCALL && errno ? -errno : -ECONNRESET;
}

ssize_t engine_tls_recv(struct engine_tls *tls, void *data, size_t len, short *ret_events) {
    api.ERR_clear_error();
    errno = 0;
    int got = api.SSL_read(tls->ssl, data, len > INT32_MAX ? INT32_MAX : (int)len);
    return got > 0 ? got : tls_result(tls, got, ret_events);
}

ssize_t engine_tls_send(struct engine_tls *tls, const void *data, size_t len, short *ret_events) {
    api.ERR_clear_error();
    errno = 0;
    int sent = api.SSL_write(tls->ssl, data, len > INT32_MAX ? INT32_MAX : (int)len);
    ssize_t result = sent > 0 ? sent : tls_result(tls, sent, ret_events);
    return result == 0 ? -EPIPE : result;
}

const char *engine_tls_reason(const struct engine_tls *tls) {
    return tls->reason;
}

bool engine_tls_pending(struct engine_tls *tls) {
    return api.SSL_has_pending(tls->ssl) != 0;
}

void engine_tls_shut(struct engine_tls *tls) {
    api.ERR_clear_error();
    if (!tls->broken)
        api.SSL_shutdown(tls->ssl);
}
