/* Space that the daemon keeps for itself, as a file that holds nothing. Called by the daemon when it starts and ends.
 * Invariant: on a full disk the daemon starts, so that boxes and snapshots can be deleted. SQLite needs new files to
 * open a database with a write-ahead log, and starting a box needs some more: the file gives way to them. */
#include "box/reserve.h"

#include <sys/statvfs.h>

#include "base/base.h"
#include "base/log.h"

#define RESERVE_NAME "reserve"

/* If there is no space for it now, the next start tries again. */
static void reserve_make(int state) {
    autofd fd = openat(state, RESERVE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, LIMIT_RESERVE_BYTES) != 0)
        unlinkat(state, RESERVE_NAME, 0);
}

void reserve_begin(const char *state_dir) {
    autofd state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return;
    struct statvfs space;
    uint64_t left = fstatvfs(state, &space) < 0 ? 0 : (uint64_t)space.f_bavail * space.f_frsize;
    if (left >= 4ull * LIMIT_RESERVE_BYTES)
        reserve_make(state);
    else if (left < LIMIT_RESERVE_BYTES && unlinkat(state, RESERVE_NAME, 0) == 0)
        log_warn("the disk of '%s' is full: the space kept for this is used now; delete boxes or snapshots", state_dir);
}

void reserve_end(const char *state_dir) {
    autofd state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state >= 0)
        reserve_make(state);
}
