/* Texts of tools while they grow. Called by tools and the walk. Not to break: memory stays within SPOOL_MEMORY_BYTES and a
 * little, and a disk that is full costs the end of a text, never the call. */
#include "tool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

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

/* What is in memory goes to the file, which is made if need be. False: there can be none. */
static bool spool_flush(struct spool *spool) {
    if (spool->fd < 0 && spool->dir >= 0)
        spool->fd = openat(spool->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (spool->fd < 0)
        return false;
    for (size_t at = 0; at < spool->memory.len;) {
        size_t len = spool->memory.len - at;
        if (spool->written + len > SPOOL_FILE_BYTES)
            len = SPOOL_FILE_BYTES - spool->written;
        ssize_t n = len ? pwrite(spool->fd, spool->memory.data + at, len, (off_t)spool->written) : -1;
        if (n < 0 && len && errno == EINTR)
            continue;
        if (n <= 0) { /* the rest is lost, and the count says so */
            spool->full = true;
            break;
        }
        spool->written += (uint64_t)n;
        at += (size_t)n;
    }
    buf_clear(&spool->memory);
    return true;
}

void spool_put(struct spool *spool, const void *data, size_t len) {
    const uint8_t *from = data;
    spool_unmap(spool);
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
    if (spool->dropping)
        return headtail_finish(&spool->ends, ret_len);
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
