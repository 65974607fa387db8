/* A container's files that lie on this machine and not in its layer: the workspace and the upper layer of its skills.
 * Called by docker/mount.c at a start and by docker/changes.c. Invariant: the box may write there at any moment. */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "backend/docker/docker.h"
#include "tree/treewalk.h"

#define ORIGIN "user.overlay.origin" /* on what overlayfs copied from below */

static int own_open(struct backend *backend, const char *id, const char *name) {
    const char *path = text_make(64, "%.16s/%s", id, name);
    int fd = openat(backend->boxes_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- whose ---- */

struct own_owner {
    struct stat was;
    uid_t uid;
    gid_t gid;
};

static int own_give(int dir, const char *name, const struct stat *status, const struct own_owner *owner,
                    struct err *err) {
    bool user = status->st_uid == owner->was.st_uid, group = status->st_gid == owner->was.st_gid;
    if (!user && !group)
        return 0;
    int r = fchownat(dir, name, user ? owner->uid : (uid_t)-1, group ? owner->gid : (gid_t)-1,
                     AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
    return r < 0 ? err_errno(err, errno, "giving '%.100s' to the box's user", name) : 0;
}

static int own_give_entry(void *user, const struct tree_entry *entry, struct err *err) {
    return own_give(entry->dir, entry->name, &entry->status, user, err) ?: TREE_DESCEND;
}

/* The top last: after a kill in the middle it begins again. Root inside may give files to others: from root nothing is
 * taken back, and only what is still ours is given. */
int docker_own_workspace(struct backend *backend, const char *id, uid_t uid, gid_t gid, bool root, struct err *err) {
    struct own_owner owner = {.uid = uid, .gid = gid};
    autofd top = own_open(backend, id, "workspace");
    if (top == -ENOENT)
        return 0;
    if (top < 0 || fstat(top, &owner.was) < 0)
        return err_errno(err, top < 0 ? -top : errno, "the workspace of box %.16s", id);
    if ((owner.was.st_uid == uid && owner.was.st_gid == gid) || (root && owner.was.st_uid != geteuid()))
        return 0;
    int r = treewalk(top, own_give_entry, &owner, err);
    return r == 0 ? own_give(top, "", &owner.was, &owner, err) : r;
}

/* ---- their content ---- */

struct own_changes {
    const char *prefix; /* where it is in the box */
    bool skills;
    uint64_t left;
    bool truncated;
    int (*each)(void *user, const struct file_change *change);
    void *user;
};

static int own_report(struct own_changes *changes, const struct tree_entry *entry, enum watch_event event) {
    char path[2 * LIMIT_PATH_BYTES];
    mode_t mode = entry->status.st_mode;
    int len = snprintf(path, sizeof path, "%s/%s", changes->prefix, entry->path ? entry->path : "");
    if (changes->left == 0 || !entry->path || (unsigned)len > LIMIT_PATH_BYTES) {
        changes->truncated = true;
        return changes->left ? TREE_SKIP : -ERR_LIMIT;
    }
    struct file_change change = {.path = path, .event = event, .type = FILE_OTHER};
    if (event != WATCH_REMOVED) {
        change.type = S_ISREG(mode)   ? FILE_REGULAR
                      : S_ISDIR(mode) ? FILE_DIR
                      : S_ISLNK(mode) ? FILE_SYMLINK
                                      : FILE_OTHER;
        change.size = S_ISDIR(mode) ? 0 : (uint64_t)entry->status.st_size;
    }
    changes->left--;
    int r = changes->each(changes->user, &change);
    return r < 0 ? r : TREE_DESCEND;
}

static int own_entry(void *user, const struct tree_entry *entry, struct err *) {
    struct own_changes *changes = user;
    const struct stat *status = &entry->status;
    char value[256];
    if (!changes->skills)
        return own_report(changes, entry, WATCH_CREATED);
    if (entry->path && strcmp(entry->path, SKILLS_CHANGES) == 0)
        return TREE_SKIP; /* not part of the skills yet */
    if (S_ISCHR(status->st_mode) && status->st_rdev == makedev(0, 0))
        return own_report(changes, entry, WATCH_REMOVED);
    bool may = S_ISREG(status->st_mode) || S_ISDIR(status->st_mode);
    autofd fd = may ? openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    bool copy = fd >= 0 && (fgetxattr(fd, ORIGIN, value, sizeof value) >= 0 || errno == ERANGE);
    if (copy && S_ISDIR(status->st_mode))
        return TREE_DESCEND;
    return own_report(changes, entry, copy ? WATCH_MODIFIED : WATCH_CREATED);
}

int docker_own_changes(struct backend *backend, const struct spec *spec, uint64_t limit,
                       int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                       struct err *err) {
    struct own_changes changes = {.left = limit, .each = each, .user = user};
    int r = 0;
    for (int skills = 0; r == 0 && !changes.truncated && skills <= (spec->agent ? 1 : 0); skills++) {
        changes.skills = skills;
        changes.prefix = skills ? SKILLS_PATH : spec->workspace ? spec->workspace : WORKSPACE_PATH;
        autofd top = own_open(backend, spec->id, skills ? "skills/skills" : "workspace");
        if (top < 0 && top != -ENOENT)
            return err_errno(err, -top, "the files of box %.16s", spec->id);
        r = top < 0 ? 0 : treewalk(top, own_entry, &changes, err);
        changes.truncated |= r == -ERR_BUSY;
        if (changes.truncated)
            r = 0;
    }
    if (r == 0)
        *ret_truncated |= changes.truncated;
    return r;
}
