/* The authority of this installation, and leaves that it signs. Called by seal.c and trust.c. Invariant: the key is in STATE/gate/ca.key and in this process, never in a box, a gate or a seal. */
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/base.h"
#include "base/sync.h"
#include "box/secret/seal.h"

enum { AUTHORITY_YEARS = 10, AUTHORITY_LEAF_DAYS = 7 };

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static pthread_mutex_t authority_lock = PTHREAD_MUTEX_INITIALIZER; /* of making it, and bundles */

static X509 *authority_certificate(EVP_PKEY *subject, const char *name, X509 *issuer, EVP_PKEY *signer, long days,
                                   const char *const (*extensions)[2]) {
    X509 *certificate = xchecked(X509_new());
    X509_NAME *shown = X509_get_subject_name(certificate);
    uint64_t serial;
    X509V3_CTX context;
    xrandom(&serial, sizeof serial);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600); /* clocks of boxes may be behind */
    X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86400);
    X509_NAME_add_entry_by_txt(shown, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : shown);
    X509_set_pubkey(certificate, subject);
    X509V3_set_ctx(&context, issuer ? issuer : certificate, certificate, NULL, NULL, 0);
    bool fine = true;
    for (; (*extensions)[0]; extensions++) {
        X509_EXTENSION *extension = X509V3_EXT_conf(NULL, &context, (*extensions)[0], (*extensions)[1]);
        fine = fine && extension && X509_add_ext(certificate, extension, -1) == 1;
        X509_EXTENSION_free(extension);
    }
    if (fine && X509_sign(certificate, signer, EVP_sha256()) > 0)
        return certificate;
    X509_free(certificate);
    return NULL;
}

static void authority_pem(struct buf *out, EVP_PKEY *key, X509 *certificate) {
    BIO *text = xchecked(BIO_new(BIO_s_mem()));
    char *data;
    if (key)
        PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL);
    else
        PEM_write_bio_X509(text, certificate);
    long len = BIO_get_mem_data(text, &data);
    buf_put(out, data, (size_t)len);
    BIO_free(text);
}

/* ---- STATE/gate ---- */

int authority_keep(int dir, const char *name, mode_t mode, const struct buf *text, struct err *err) {
    const char *part = text_make(64, "%s.%ld", name, (long)getpid());
    unlinkat(dir, part, 0);
    autofd fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int failed = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);
    if (!failed && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
        failed = -errno;
    if (!failed && linkat(dir, part, dir, name, 0) < 0 && errno != EEXIST)
        failed = -errno;
    unlinkat(dir, part, 0);
    return failed ? err_errno(err, -failed, "STATE/gate/%s", name) : 0;
}

static int authority_make(int dir, struct err *err) {
    static const char *const extensions[][2] = {{"basicConstraints", "critical,CA:TRUE,pathlen:0"},
                                                {"keyUsage", "critical,keyCertSign"},
                                                {"subjectKeyIdentifier", "hash"},
                                                {NULL, NULL}};
    autobuf key_text = buf_max(8192), text = buf_max(8192);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    const char *name = text_make(80, "cubby %08lx", (unsigned long)(clock_wall_ms() & 0xffffffff));
    X509 *certificate = key ? authority_certificate(key, name, NULL, key, AUTHORITY_YEARS * 365l, extensions) : NULL;
    int r = certificate ? 0 : err_set(err, ERR_INTERNAL, "the authority of this installation could not be made");
    if (r == 0) {
        authority_pem(&key_text, key, NULL);
        buf_put(&text, key_text.data, key_text.len);
        authority_pem(&text, NULL, certificate); /* one file, so that key and certificate never part */
        r = authority_keep(dir, "ca.key", 0600, &text, err);
        explicit_bzero(text.data, text.len);
        explicit_bzero(key_text.data, key_text.len);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
    return r;
}

static int authority_read(int dir, struct authority *ret_authority, struct err *err) {
    char text[16384];
    struct stat status;
    autofd fd = openat(dir, "ca.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "STATE/gate/ca.key");
    if (!S_ISREG(status.st_mode) || status.st_mode & 077)
        return err_set(err, ERR_DENIED, "STATE/gate/ca.key must be a file that only its daemon can read: chmod 600");
    ssize_t len = fd_read_full(fd, text, sizeof text);
    BIO *from = xchecked(BIO_new_mem_buf(text, len > 0 ? (int)len : 0));
    ret_authority->key = PEM_read_bio_PrivateKey(from, NULL, NULL, NULL);
    ret_authority->certificate = PEM_read_bio_X509(from, NULL, NULL, NULL);
    BIO_free(from);
    explicit_bzero(text, sizeof text);
    return ret_authority->key && ret_authority->certificate
               ? 0
               : err_set(err, ERR_INVALID, "STATE/gate/ca.key is damaged; remove it for a new authority");
}

int authority_directory(const char *state, struct err *err) {
    const char *path = text_make(LIMIT_PATH_BYTES, "%s/gate", state);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "STATE/gate");
    int dir = open(path, O_DIRECTORY | O_PATH | O_CLOEXEC);
    return dir < 0 ? err_errno(err, errno, "STATE/gate") : dir;
}

/* ca.pem is for people and boxes: the certificate without the key. */
int authority_open(const char *state, struct authority **ret_authority, struct err *err) {
    autofd dir = authority_directory(state, err);
    struct authority authority = {0};
    autobuf text = buf_max(8192);
    if (dir < 0)
        return dir;
    autolock(&authority_lock);
    int r = authority_read(dir, &authority, err);
    if (r == -ERR_NOT_FOUND)
        r = authority_make(dir, err) ?: authority_read(dir, &authority, err);
    if (r == 0) {
        char there[8192];
        autofd fd = openat(dir, "ca.pem", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        authority_pem(&text, NULL, authority.certificate);
        if (fd >= 0 &&
            (fd_read_full(fd, there, sizeof there) != (ssize_t)text.len || memcmp(there, text.data, text.len) != 0))
            unlinkat(dir, "ca.pem", 0); /* of an authority that was removed */
        r = authority_keep(dir, "ca.pem", 0644, &text, err);
    }
    if (r < 0)
        return r;
    *ret_authority = xcalloc(1, sizeof authority);
    **ret_authority = authority;
    return 0;
}

int authority_text(const char *state, struct buf *out, struct err *err) {
    struct authority *authority = NULL;
    TRY(authority_open(state, &authority, err));
    authority_pem(out, NULL, authority->certificate);
    authority_close(authority);
    return 0;
}

void authority_close(struct authority *authority) {
    if (!authority)
        return;
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
    free(authority);
}

int authority_leaf(const struct authority *authority, const char *host, const char *public_key, struct buf *out,
                   struct err *err) {
    const char *const extensions[][2] = {{"subjectAltName", text_make(300, "critical,DNS:%s", host)},
                                         {"extendedKeyUsage", "serverAuth"},
                                         {"basicConstraints", "critical,CA:FALSE"},
                                         {"authorityKeyIdentifier", "keyid"},
                                         {NULL, NULL}};
    if (!*host || strlen(host) > 253 || strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != strlen(host))
        return err_set(err, ERR_INVALID, "a leaf is for a host name");
    BIO *from = xchecked(BIO_new_mem_buf(public_key, -1));
    EVP_PKEY *key = PEM_read_bio_PUBKEY(from, NULL, NULL, NULL);
    X509 *leaf = key ? authority_certificate(key, "cubby", authority->certificate, authority->key, AUTHORITY_LEAF_DAYS,
                                             extensions)
                     : NULL;
    if (leaf)
        authority_pem(out, NULL, leaf);
    X509_free(leaf);
    EVP_PKEY_free(key);
    BIO_free(from);
    return leaf ? 0 : err_set(err, ERR_INTERNAL, "no certificate for '%s' could be made", host);
}
