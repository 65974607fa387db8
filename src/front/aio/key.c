/* Keys and tickets out of one secret. Called by aio/dialect.c before every handler, and for the URL of a
 * box. Invariant: compared in constant time; the secret is never replaced while it can be read, and several daemons that
 * make it at once end up with one. */
#include "front/aio/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "box/box.h"

#define SECRET_NAME "aio-key"
enum { SECRET_BYTES = 32, SECRET_TEXT = 2 * SECRET_BYTES };

struct aio_key {
    char secret[SECRET_TEXT + 1]; /* its hex digits, as they stand in the file */
};

/* ---- the secret ---- */

static int secret_read(int dir, char ret_secret[SECRET_TEXT + 1], struct err *err) {
    char text[SECRET_TEXT + 2];
    struct stat status;
    autofd fd = openat(dir, SECRET_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_errno(err, errno, "STATE/" SECRET_NAME);
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "STATE/" SECRET_NAME);
    if (!S_ISREG(status.st_mode) || status.st_mode & 077 || status.st_uid != geteuid())
        return err_set(err, ERR_DENIED,
                       "STATE/" SECRET_NAME " must be a file that only its daemon can read: chmod 600, or remove it "
                       "(all URLs of boxes with a key change then)");
    ssize_t len = fd_read_full(fd, text, sizeof text);
    if (len != SECRET_TEXT && len != SECRET_TEXT + 1)
        return err_set(err, ERR_INVALID, "STATE/" SECRET_NAME " does not hold %d hex digits; remove it for a new one",
                       SECRET_TEXT);
    memcpy(ret_secret, text, SECRET_TEXT);
    ret_secret[SECRET_TEXT] = 0;
    if (strspn(ret_secret, "0123456789abcdef") != SECRET_TEXT)
        return err_set(err, ERR_INVALID, "STATE/" SECRET_NAME " does not hold %d hex digits; remove it for a new one",
                       SECRET_TEXT);
    return 0;
}

/* Written under a name of its own and linked: whoever is first counts, and nobody sees half of it. */
static int secret_make(int dir, struct err *err) {
    uint8_t random[SECRET_BYTES];
    char text[SECRET_TEXT + 2], name[64];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "random bytes");
    text_hex(text, random, sizeof random);
    text[SECRET_TEXT] = '\n';
    snprintf(name, sizeof name, SECRET_NAME ".%ld", (long)getpid());
    unlinkat(dir, name, 0); /* of a dead daemon with this number */
    autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed = fd < 0 ? -errno : fd_write_all(fd, text, SECRET_TEXT + 1);
    if (!failed && fsync(fd) < 0)
        failed = -errno;
    if (!failed && linkat(dir, name, dir, SECRET_NAME, 0) < 0 && errno != EEXIST)
        failed = -errno;
    unlinkat(dir, name, 0);
    OPENSSL_cleanse(text, sizeof text);
    return failed ? err_errno(err, -failed, "STATE/" SECRET_NAME) : 0;
}

int aio_key_open(const char *state_dir, struct aio_key **ret_key, struct err *err) {
    struct aio_key *key = xcalloc(1, sizeof *key);
    autofd dir = open(state_dir, O_DIRECTORY | O_PATH | O_CLOEXEC);
    int failed = dir < 0 ? err_errno(err, errno, "%s", state_dir) : secret_read(dir, key->secret, err);
    if (failed == -ERR_NOT_FOUND && dir >= 0) {
        failed = secret_make(dir, err);
        if (!failed)
            failed = secret_read(dir, key->secret, err);
    }
    if (failed)
        aio_key_free(key);
    else
        *ret_key = key;
    return failed;
}

void aio_key_free(struct aio_key *key) {
    if (key)
        OPENSSL_cleanse(key, sizeof *key);
    free(key);
}

/* ---- what is made of it ---- */

/* text: what it is for, so that nothing made for one use fits another. 32 hex digits. */
static void derive(const struct aio_key *key, const char *text, char ret_digits[AIO_KEY_BYTES]) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (!HMAC(EVP_sha256(), key->secret, SECRET_TEXT, (const uint8_t *)text, strlen(text), digest, &len) || len < 16)
        abort();
    text_hex(ret_digits, digest, 16);
}

static bool same(const char *made, const char *text) {
    return strlen(text) == AIO_KEY_BYTES - 1 && !CRYPTO_memcmp(made, text, AIO_KEY_BYTES - 1);
}

void aio_key_make(const struct aio_key *key, const struct box *box, char ret_text[AIO_KEY_BYTES]) {
    char text[64];
    snprintf(text, sizeof text, "box %s %llu", box->id, (unsigned long long)box->created_ms);
    derive(key, text, ret_text);
}

bool aio_key_fits(const struct aio_key *key, const struct box *box, const char *text) {
    char made[AIO_KEY_BYTES];
    if (!key || !box)
        return false;
    aio_key_make(key, box, made);
    return same(made, text);
}

static void ticket_derive(const struct aio_key *key, const struct box *box, uint64_t until_ms,
                          char ret_digits[AIO_KEY_BYTES]) {
    char text[96];
    snprintf(text, sizeof text, "ticket %s %llu %llu", box->id, (unsigned long long)box->created_ms,
             (unsigned long long)until_ms);
    derive(key, text, ret_digits);
}

void aio_ticket_make(const struct aio_key *key, const struct box *box, uint64_t until_ms,
                     char ret_text[AIO_TICKET_BYTES]) {
    char digits[AIO_KEY_BYTES];
    ticket_derive(key, box, until_ms, digits);
    snprintf(ret_text, AIO_TICKET_BYTES, "%llu-%s", (unsigned long long)until_ms, digits);
}

bool aio_ticket_fits(const struct aio_key *key, const struct box *box, uint64_t now_ms, const char *text) {
    char number[24], made[AIO_KEY_BYTES];
    size_t len = strcspn(text, "-");
    uint64_t until_ms;
    if (!key || !box || !text[len] || len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = 0;
    if (!text_u64(number, INT64_MAX, &until_ms))
        return false;
    ticket_derive(key, box, until_ms, made);
    return same(made, text + len + 1) && now_ms < until_ms;
}
