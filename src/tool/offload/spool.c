/* Texts of tools while they grow. Called by tools and tool.c. Invariant: memory stays near SPOOL_MEMORY_BYTES; a full
 * disk costs the end of a text, never the call. */
#include <inttypes.h>
#include <sys/mman.h>

#include "base/base.h"
#include "tool/offload/spool.h"

void spool_init(struct spool *spool, int dir) {
    *spool = (struct spool){.dir = dir, .fd = -1};
    buf_init(&spool->memory, 2 * SPOOL_MEMORY_BYTES);
    headtail_init(&spool->ends, SPOOL_MEMORY_BYTES);
}

static void spool_unmap(struct spool *spool) {
    if (spool->map)
        munmap(spool->map, spool->map_len);
    spool->map = NULL;
}

void spool_done(struct spool *spool) {
    spool_unmap(spool);
    fd_close(&spool->fd);
    buf_done(&spool->memory);
    headtail_done(&spool->ends);
}

void spool_clear(struct spool *spool) {
    int dir = spool->dir;
    spool_done(spool);
    spool_init(spool, dir);
}

/* The file has no name, so that it ends with its process. If the file system does not support that, it is unlinked at
 * once; a killed daemon may leave it for the sweep. */
static int spool_file(int dir) {
    char name[48];
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    snprintf(name, sizeof name, "new-%d-%" PRIu64, getpid(), clock_us());
    fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlinkat(dir, name, 0);
    return fd;
}

/* Moves the bytes in memory to the file, which is created if necessary. Returns false if there is no file. */
static bool spool_flush(struct spool *spool) {
    if (spool->fd < 0 && spool->dir >= 0)
        spool->fd = spool_file(spool->dir);
    if (spool->fd < 0)
        return false;
    for (size_t at = 0; at < spool->memory.len;) {
        size_t len = spool->memory.len - at;
        if (spool->written + len > SPOOL_FILE_BYTES)
            len = SPOOL_FILE_BYTES - spool->written;
        ssize_t n = len ? pwrite(spool->fd, spool->memory.data + at, len, (off_t)spool->written) : -1;
        if (n < 0 && len && errno == EINTR)
            continue;
        if (n <= 0) { /* the rest is lost; `total` shows how much */
            spool->full = true;
            break;
        }
        spool->written += (uint64_t)n;
        at += (size_t)n;
    }
    buf_clear(&spool->memory);
    return true;
}

/* A viewed text is in one piece to which nothing can be added. Makes it the beginning of a new one. */
static void spool_reopen(struct spool *spool) {
    struct headtail viewed = spool->ends;
    size_t len;
    const uint8_t *data = headtail_finish(&viewed, &len);
    headtail_init(&spool->ends, SPOOL_MEMORY_BYTES);
    headtail_put(&spool->ends, data, len);
    headtail_done(&viewed);
    spool->viewed = false;
}

void spool_put(struct spool *spool, const void *data, size_t len) {
    const uint8_t *from = data;
    spool_unmap(spool);
    if (spool->viewed && len)
        spool_reopen(spool);
    spool->total += len;
    while (len && !spool->full) {
        if (spool->dropping) {
            headtail_put(&spool->ends, from, len);
            return;
        }
        size_t n = SPOOL_MEMORY_BYTES - spool->memory.len;
        n = n < len ? n : len;
        buf_put(&spool->memory, from, n);
        from += n;
        len -= n;
        if (len && !spool_flush(spool)) {
            spool->dropping = true;
            headtail_put(&spool->ends, spool->memory.data, spool->memory.len);
            buf_clear(&spool->memory);
        }
    }
}

const uint8_t *spool_view(struct spool *spool, size_t *ret_len) {
    if (spool->dropping) {
        spool->viewed = true;
        return headtail_finish(&spool->ends, ret_len);
    }
    if (spool->fd >= 0 && !spool->map) {
        spool_flush(spool);
        spool->map_len = spool->written;
        spool->map = spool->written ? mmap(NULL, spool->written, PROT_READ, MAP_PRIVATE, spool->fd, 0) : NULL;
        if (spool->map == MAP_FAILED)
            spool->map = NULL, spool->map_len = 0;
    }
    *ret_len = spool->fd >= 0 ? spool->map_len : spool->memory.len;
    return spool->fd >= 0 ? spool->map : spool->memory.data;
}

void spool_move(struct spool *spool, struct spool *from) {
    size_t len;
    uint64_t lost = from->total;
    const uint8_t *data = spool_view(from, &len);
    spool_put(spool, data, len);
    spool->total += lost - len;
    spool_clear(from);
}

/* Copies the text, if its file cannot be given a name. */
static int spool_copy(struct spool *spool, const char *name, struct err *err) {
    size_t len;
    const uint8_t *data = spool_view(spool, &len);
    autofd fd = openat(spool->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);
    if (r < 0 && fd >= 0)
        unlinkat(spool->dir, name, 0);
    return r < 0 ? err_errno(err, -r, "cannot write a kept result") : 0;
}

int spool_link(struct spool *spool, const char *name, struct err *err) {
    char self[64];
    if (spool->dropping || !spool_flush(spool))
        return err_set(err, ERR_UNSUPPORTED, "long results cannot be kept: there is no store for them");
    snprintf(self, sizeof self, "/proc/self/fd/%d", spool->fd);
    if (linkat(spool->fd, "", spool->dir, name, AT_EMPTY_PATH) == 0 ||
        linkat(AT_FDCWD, self, spool->dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? err_errno(err, errno, "cannot write a kept result") : spool_copy(spool, name, err);
}
