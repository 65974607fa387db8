/* What of a container's files lies on this machine and not in its layer: the workspace and the upper layer of its skills.
 * Whose they are, and what is in them. Called by docker/mount.c at a start and by docker/changes.c. Invariant: the box
 * writes there as it likes, also now. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "tree/treewalk.h"
#include "base/fd.h"
#include "base/limits.h"

#define ORIGIN "user.overlay.origin" /* on what overlayfs copied from below */

static int open_own(struct backend *backend, const char *id, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "%.16s/%s", id, name);
    int fd = openat(backend->boxes_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- whose ---- */

struct owner {
    struct stat was;
    uid_t uid;
    gid_t gid;
};

static int give(int dir, const char *name, const struct stat *status, const struct owner *owner, struct err *err) {
    bool user = status->st_uid == owner->was.st_uid, group = status->st_gid == owner->was.st_gid;
    if (!user && !group)
        return 0;
    int r = fchownat(dir, name, user ? owner->uid : (uid_t)-1, group ? owner->gid : (gid_t)-1,
                     AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
    return r < 0 ? err_errno(err, errno, "giving '%.100s' to the box's user", name) : 0;
}

static int give_entry(void *user, const struct tree_entry *entry, struct err *err) {
    int r = give(entry->dir, entry->name, &entry->status, user, err);
    return r < 0 ? r : TREE_DESCEND;
}

/* The top last: one that is killed between begins again. Root inside gives files to others as he likes: from him nothing is
 * taken back, and only what is still ours is given. */
int docker_own_workspace(struct backend *backend, const char *id, uid_t uid, gid_t gid, bool root, struct err *err) {
    struct owner owner = {.uid = uid, .gid = gid};
    autofd top = open_own(backend, id, "workspace");
    if (top == -ENOENT)
        return 0;
    if (top < 0 || fstat(top, &owner.was) < 0)
        return err_errno(err, top < 0 ? -top : errno, "the workspace of box %.16s", id);
    if ((owner.was.st_uid == uid && owner.was.st_gid == gid) || (root && owner.was.st_uid != geteuid()))
        return 0;
    int r = treewalk(top, give_entry, &owner, err);
    return r == 0 ? give(top, "", &owner.was, &owner, err) : r;
}

/* ---- what is in them ---- */

struct telling {
    const char *prefix; /* where it is in the box */
    bool skills;
    uint64_t left;
    bool truncated;
    int (*each)(void *user, const struct file_change *change);
    void *user;
};

static enum file_type type_of(mode_t mode) {
    return S_ISREG(mode) ? FILE_REGULAR : S_ISDIR(mode) ? FILE_DIR : S_ISLNK(mode) ? FILE_SYMLINK : FILE_OTHER;
}

static bool is_copy(const struct tree_entry *entry) {
    char value[256];
    if (!S_ISREG(entry->status.st_mode) && !S_ISDIR(entry->status.st_mode))
        return false;
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 && (fgetxattr(fd, ORIGIN, value, sizeof value) >= 0 || errno == ERANGE);
}

static int tell(struct telling *telling, const struct tree_entry *entry, enum watch_event event) {
    char path[2 * LIMIT_PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s/%s", telling->prefix, entry->path ? entry->path : "");
    if (telling->left == 0 || !entry->path || (unsigned)len > LIMIT_PATH_BYTES) {
        telling->truncated = true;
        return telling->left ? TREE_SKIP : -ERR_LIMIT;
    }
    bool file = event != WATCH_REMOVED && !S_ISDIR(entry->status.st_mode);
    struct file_change change = {.path = path,
                                 .event = event,
                                 .type = event == WATCH_REMOVED ? FILE_OTHER : type_of(entry->status.st_mode),
                                 .size = file ? (uint64_t)entry->status.st_size : 0};
    telling->left--;
    int r = telling->each(telling->user, &change);
    return r < 0 ? r : TREE_DESCEND;
}

static int tell_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct telling *telling = user;
    const struct stat *status = &entry->status;
    (void)err;
    if (!telling->skills)
        return tell(telling, entry, WATCH_CREATED);
    if (entry->path && strcmp(entry->path, SKILLS_CHANGES) == 0)
        return TREE_SKIP; /* what is on its way is nobody's */
    if (S_ISCHR(status->st_mode) && status->st_rdev == makedev(0, 0))
        return tell(telling, entry, WATCH_REMOVED);
    bool copy = is_copy(entry);
    if (copy && S_ISDIR(status->st_mode))
        return TREE_DESCEND;
    return tell(telling, entry, copy ? WATCH_MODIFIED : WATCH_CREATED);
}

static int tell_tree(struct backend *backend, const char *id, const char *name, struct telling *telling,
                     struct err *err) {
    autofd top = open_own(backend, id, name);
    if (top < 0)
        return top == -ENOENT ? 0 : err_errno(err, -top, "the files of box %.16s", id);
    int r = treewalk(top, tell_entry, telling, err);
    telling->truncated |= r == -ERR_BUSY;
    return telling->truncated ? 0 : r;
}

int docker_own_changes(struct backend *backend, const struct spec *spec, uint64_t limit,
                       int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                       struct err *err) {
    struct telling telling = {
        .prefix = spec->workspace ? spec->workspace : WORKSPACE_PATH, .left = limit, .each = each, .user = user};
    int r = tell_tree(backend, spec->id, "workspace", &telling, err);
    telling.prefix = SKILLS_PATH;
    telling.skills = true;
    if (r == 0 && !telling.truncated && spec->agent)
        r = tell_tree(backend, spec->id, "skills/skills", &telling, err);
    if (r == 0)
        *ret_truncated |= telling.truncated;
    return r;
}
