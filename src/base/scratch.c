/* Spooled bytes are counted before they are written. Invariant: counted bytes are always returned, also on failure. */
#include "base/base.h"
#include "base/scratch.h"
#include "base/counted.h"

void scratch_begin(struct scratch *scratch, int fd, const char *user, uint64_t most, const char *limit) {
    *scratch = (struct scratch){.fd = fd, .most = most, .limit = limit};
    snprintf(scratch->user, sizeof scratch->user, "%s", user);
}

int scratch_fits(const struct scratch *scratch, uint64_t len, struct err *err) {
    if (len <= scratch->most - scratch->bytes)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "what is sent has more than %llu bytes, the most that %s allows",
                   (unsigned long long)scratch->most, scratch->limit);
}

int scratch_count(struct scratch *scratch, uint64_t len, struct err *err) {
    int r = scratch_fits(scratch, len, err) ?: counted_take(COUNTED_SPOOL, scratch->user, len, err);
    scratch->bytes += r == 0 ? len : 0;
    return r;
}

int scratch_write(struct scratch *scratch, const void *data, size_t len, struct err *err) {
    int r = scratch_count(scratch, len, err);
    if (r == 0 && (r = fd_write_all(scratch->fd, data, len)) < 0)
        return err_errno(err, -r, "what was received cannot be kept");
    return r;
}

ssize_t scratch_read(void *user, void *data, size_t size, struct err *err) {
    struct scratch *scratch = user;
    ssize_t n;
    while ((n = pread(scratch->fd, data, size, (off_t)scratch->taken)) < 0 && errno == EINTR)
        continue;
    if (n < 0)
        return err_errno(err, errno, "what was received");
    scratch->taken += (uint64_t)n;
    return n;
}

void scratch_done(struct scratch *scratch) {
    if (scratch->fd < 0)
        return;
    fd_close(&scratch->fd);
    counted_give(COUNTED_SPOOL, scratch->user, scratch->bytes);
    scratch->bytes = 0;
}
