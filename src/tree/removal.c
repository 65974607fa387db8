/* Removal without recursion: a directory that is not empty is moved up beside its parent and emptied in its turn, so
 * depth costs neither stack nor descriptors nor path length. Called by backends when a box goes. Invariant: names are
 * always one component below an open directory, links are never followed, mounts are never entered. */
#include "tree/removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

struct removal {
    int top;                 /* the tree's first directory: everything is moved up to here */
    unsigned long long next; /* number of the next name in top */
    dev_t device;
    const atomic_bool *hurry; /* NULL: no pauses */
    unsigned removed;         /* entries so far */
    uint64_t step_us;         /* when this step began */
};

/* Small trees are nobody's trouble. For large ones neither nice nor the idle class keeps a kernel that is not preempted,
 * and a disk that discards, from letting others wait for each removed file: so much work, then so long nothing. */
enum { SMALL_ENTRIES = 1000, STEP_US = 1000, PAUSE_US = 2000 };

static void removal_pause(struct removal *removal) {
    if (!removal->hurry || atomic_load_explicit(removal->hurry, memory_order_relaxed))
        return;
    if (++removal->removed < SMALL_ENTRIES || clock_us() - removal->step_us < STEP_US)
        return;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
    removal->step_us = clock_us();
}

static int remove_entry(struct removal *removal, int dirfd, const char *name);

static int open_dir(int dirfd, const char *name) {
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0)
        fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        fchmod(fd, 0700); /* entries of a directory without w or x could not be removed; root needs no such thing */
    return fd < 0 ? -errno : fd;
}

/* One pass over a directory. Names that appear during a pass may be missed: the caller passes again until it is empty. */
static int empty_once(struct removal *removal, int fd, bool *ret_some) {
    DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!dir)
        return -errno;
    rewinddir(dir);
    int r = 0;
    *ret_some = false;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *ret_some = true;
        removal_pause(removal);
        r = remove_entry(removal, fd, entry->d_name);
    }
    closedir(dir);
    return r;
}

/* The content of top/name: files go, directories that are not empty move up to top. Then name itself. */
static int remove_below_top(struct removal *removal, const char *name) {
    autofd fd = open_dir(removal->top, name);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (status.st_dev != removal->device)
        return -EBUSY; /* something is mounted here: unmount first */
    bool some;
    int r;
    do
        r = empty_once(removal, fd, &some);
    while (r == 0 && some);
    if (r == 0 && unlinkat(removal->top, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

static int remove_entry(struct removal *removal, int dirfd, const char *name) {
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    if (dirfd == removal->top)
        return remove_below_top(removal, name);
    for (int tries = 0; tries < 100; tries++) { /* a directory may itself have such a name already */
        char moved[32];
        snprintf(moved, sizeof moved, ".gone-%llu", removal->next++);
        if (renameat2(dirfd, name, removal->top, moved, RENAME_NOREPLACE) == 0 || errno == ENOENT)
            return 0;
        if (errno == EACCES && fchmodat(dirfd, name, 0700, 0) == 0) /* moving a directory writes its ".." */
            continue;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

int removal_tree(int dirfd, const char *name) {
    return removal_tree_gently(dirfd, name, NULL);
}

int removal_tree_gently(int dirfd, const char *name, const atomic_bool *hurry) {
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    autofd top = open_dir(dirfd, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    struct stat status;
    if (fstat(top, &status) < 0)
        return -errno;
    struct removal removal = {.top = top, .device = status.st_dev, .hurry = hurry, .step_us = clock_us()};
    bool some;
    int r;
    do
        r = empty_once(&removal, top, &some);
    while (r == 0 && some);
    if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}
