/* Volumes: directories of STATE that outlive boxes and that several boxes can mount. These are the daemon's own calls on
 * their content; boxes use it through mounts. Paths are resolved by the kernel below the volume: links of a box, absolute
 * or not, never lead out of it. */
#ifndef CUBBY_BOX_VOLUME_H
#define CUBBY_BOX_VOLUME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"

enum { VOLUME_ENTRIES = 10000 }; /* of a list */

/* dir: the directory of all volumes; id: a name in it, chosen by the caller. EXISTS, NOT_FOUND. mb: a bound on what is
 * in it, for boxes too; 0: none. UNSUPPORTED: the kernel cannot hold one there. */
int volume_make(int dir, const char *id, uint64_t mb, struct err *err);
int volume_open(int dir, const char *id, struct err *err); /* its top, for the calls below */
int volume_remove(int dir, const char *id, struct err *err);

struct volume_entry {
    const char *name, *path; /* path: absolute, from the top of the volume */
    const char *target;      /* of a link, else NULL */
    struct stat status;
};
/* Not through a last link. In arena. NOT_FOUND. */
int volume_stat(int top, const char *path, struct arena *arena, struct volume_entry *ret_entry, struct err *err);
/* depth 1: of the directory itself. Sorted by path. TOO_LARGE: more than VOLUME_ENTRIES. */
int volume_list(int top, const char *path, unsigned depth, struct arena *arena, struct volume_entry **ret_entries,
                size_t *ret_count, struct err *err);

struct volume_owner { /* what is made gets; -1: as the volume itself, mode 0: the default */
    int64_t uid, gid;
    uint32_t mode;
};
/* parents: missing ones are made, and one that is there is fine; else EXISTS. */
int volume_mkdir(int top, const char *path, bool parents, const struct volume_owner *owner, struct err *err);
int volume_change(int top, const char *path, const struct volume_owner *owner, struct err *err);
int volume_delete(int top, const char *path, struct err *err); /* with all below */
/* A file that takes the place of `path` when it is whole: *ret_fd is filled, then committed (0) or given up. */
struct volume_write {
    int dir, fd;
    char name[256], temporary[32];
};
int volume_write_begin(int top, const char *path, bool parents, const struct volume_owner *owner,
                       struct volume_write *ret_write, struct err *err);
int volume_write_end(struct volume_write *write, int failed, struct err *err);

#endif
