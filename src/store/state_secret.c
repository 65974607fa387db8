/* A secret of the daemon in a file of STATE. Called by dialects at start. Invariant: the secret is never replaced while
 * it is readable, and several daemons that make it at once end up with the same one. */
#include <assert.h>
#include <sys/random.h>

#include "base/base.h"
#include "store/state_secret.h"
#include "base/sha256.h"

enum { SECRET_BYTES = 32, SECRET_TEXT = 2 * SECRET_BYTES, LIMIT_DERIVED = 256 };

static int state_secret_read(int dir, const char *name, char ret_secret[SECRET_TEXT + 1], struct err *err) {
    char text[SECRET_TEXT + 2];
    struct stat status;
    autofd fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_errno(err, errno, "STATE/%s", name);
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "STATE/%s", name);
    if (!S_ISREG(status.st_mode) || status.st_mode & 077 || status.st_uid != geteuid())
        return err_set(err, ERR_DENIED,
                       "STATE/%s must be a file that only its daemon can read: chmod 600, or remove it "
                       "(then keys and tokens of boxes that derive from it change)",
                       name);
    ssize_t len = fd_read_full(fd, text, sizeof text);
    if (len != SECRET_TEXT && len != SECRET_TEXT + 1)
        return err_set(err, ERR_INVALID, "STATE/%s does not have %d hex digits; remove it to get a new one", name,
                       SECRET_TEXT);
    memcpy(ret_secret, text, SECRET_TEXT);
    ret_secret[SECRET_TEXT] = 0;
    if (strspn(ret_secret, "0123456789abcdef") != SECRET_TEXT)
        return err_set(err, ERR_INVALID, "STATE/%s does not have %d hex digits; remove it to get a new one", name,
                       SECRET_TEXT);
    return 0;
}

/* Writes it under a temporary name and links it: the first one wins, and a partial one is never visible. */
static int state_secret_make(int dir, const char *name, struct err *err) {
    uint8_t random[SECRET_BYTES];
    char text[SECRET_TEXT + 2], part[64];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "cannot get random bytes");
    text_hex(text, random, sizeof random);
    text[SECRET_TEXT] = '\n';
    snprintf(part, sizeof part, "%s.%ld", name, (long)getpid());
    unlinkat(dir, part, 0); /* left by a dead daemon with this pid */
    autofd fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed = fd < 0 ? -errno : fd_write_all(fd, text, SECRET_TEXT + 1);
    if (!failed && fsync(fd) < 0)
        failed = -errno;
    if (!failed && linkat(dir, part, dir, name, 0) < 0 && errno != EEXIST)
        failed = -errno;
    unlinkat(dir, part, 0);
    explicit_bzero(text, sizeof text);
    return failed ? err_errno(err, -failed, "STATE/%s", name) : 0;
}

int state_secret_open(const char *state_dir, const char *name, struct state_secret *ret_secret, struct err *err) {
    autofd dir = open(state_dir, O_DIRECTORY | O_PATH | O_CLOEXEC);
    int failed = dir < 0 ? err_errno(err, errno, "%s", state_dir) : state_secret_read(dir, name, ret_secret->text, err);
    if (failed == -ERR_NOT_FOUND && dir >= 0)
        failed = state_secret_make(dir, name, err) ?: state_secret_read(dir, name, ret_secret->text, err);
    return failed;
}

void state_secret_done(struct state_secret *secret) {
    explicit_bzero(secret, sizeof *secret);
}

/* HMAC-SHA-256 (RFC 2104): the secret's digits are exactly one block. */
void state_secret_derive(const struct state_secret *secret, const char *text, uint8_t ret_digest[32]) {
    enum { BLOCK = SECRET_TEXT };
    uint8_t inner[BLOCK + LIMIT_DERIVED], outer[BLOCK + 32];
    size_t len = strlen(text);
    assert(len <= LIMIT_DERIVED);
    for (size_t i = 0; i < BLOCK; i++) {
        inner[i] = (uint8_t)secret->text[i] ^ 0x36;
        outer[i] = (uint8_t)secret->text[i] ^ 0x5c;
    }
    memcpy(inner + BLOCK, text, len);
    sha256(inner, BLOCK + len, outer + BLOCK);
    sha256(outer, sizeof outer, ret_digest);
    explicit_bzero(inner, sizeof inner);
    explicit_bzero(outer, sizeof outer);
}
