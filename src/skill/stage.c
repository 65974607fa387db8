/* Making a tree that becomes a layer. Called by base, own and the fronts that upload. Invariant: nothing outside of the
 * stage's directory can be reached by a name, and what nobody makes any more is removed.
 *
 * Its maker holds a flock on a stage's directory: those that nobody holds are left over (stage_sweep). Ids and modes are set as files are made: canonical ids, so that any box can copy up. */
#include "skill/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/mem.h"
#include "tree/removal.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "skill/skills.h"
#include "tree/treewalk.h"

enum { OPEN_TURNS = 8 };

/* ---- a stage ---- */

/* false: the directory is somebody's, or went before it became ours. */
static bool hold(int fd) {
    struct stat status;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
}

int stage_open(struct skills *skills, struct stage *ret_stage, struct err *err) {
    struct stage stage = {.skills = skills, .fd = -1, .parent_fd = -1};
    char random[17];
    for (int turn = 0; turn < OPEN_TURNS; turn++) { /* another daemon's sweep may come between */
        policy_random_id(random);
        memcpy(stage.name, random, sizeof random);
        if (mkdirat(skills->staging_dir, stage.name, 0700) < 0)
            break;
        stage.fd = openat(skills->staging_dir, stage.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (stage.fd >= 0 && hold(stage.fd)) {
            *ret_stage = stage;
            return 0;
        }
        fd_close(&stage.fd);
    }
    return err_errno(err, errno, "a new version of skills");
}

static void parent_forget(struct stage *stage) {
    fd_close(&stage->parent_fd);
    free(stage->parent);
    stage->parent = NULL;
}

static void stage_close(struct stage *stage) {
    parent_forget(stage);
    fd_close(&stage->fd);
}

int stage_take(struct stage *stage, int to_dir, const char *to, struct err *err) {
    if (renameat(stage->skills->staging_dir, stage->name, to_dir, to) < 0)
        return err_errno(err, errno, "a new version of skills");
    stage_close(stage);
    return 0;
}

enum { SYNC_ENTRIES = 64 }; /* by themselves; for more, the whole disk at once is quicker */

static int sync_entry(void *user, const struct tree_entry *entry, struct err *err) {
    unsigned *left = user;
    if (!entry->kind || !strchr("dfx", entry->kind) || --*left == 0)
        return err_set(err, ERR_LIMIT, "'%.200s': more than is synced by itself", entry->path);
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_errno(err, errno, "'%.200s'", entry->path) : 0;
}

/* Whoever has all of a disk written waits for what all boxes write there, too. */
int stage_sync(const struct stage *stage, struct err *err) {
    unsigned left = SYNC_ENTRIES;
    struct err ignored;
    bool each = treewalk_own(stage->fd, sync_entry, &left, &ignored) == 0;
    if ((each ? fsync(stage->fd) : syncfs(stage->fd)) < 0)
        return err_errno(err, errno, "a new version of skills");
    return 0;
}

void stage_abort(struct stage *stage) {
    if (stage->fd < 0)
        return;
    removal_tree(stage->skills->staging_dir, stage->name);
    stage_close(stage);
}

void stage_sweep(struct skills *skills) {
    int fd = openat(skills->staging_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        autofd stage = openat(skills->staging_dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (stage >= 0 && hold(stage))
            removal_tree(skills->staging_dir, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

int skills_scratch(struct skills *skills, const char *user, uint64_t most, const char *limit,
                   struct scratch *ret_scratch, struct err *err) {
    int fd = openat(skills->staging_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "a file for what is being sent");
    scratch_begin(ret_scratch, fd, user, most, limit);
    return 0;
}

/* ---- its files ---- */

/* Relative, no empty, "." or ".." part, no NUL: what the parsers made sure of, made sure of again. */
static int path_plain(const char *path, struct err *err) {
    char absolute[LIMIT_PATH_BYTES + 2];
    int len = snprintf(absolute, sizeof absolute, "/%s", path);
    if (len < 2 || (size_t)len >= sizeof absolute || !path_normal(absolute))
        return err_set(err, ERR_INVALID, "'%.200s' is not a name for a file of a skill", path);
    size_t parts = 0;
    for (const char *at = absolute; (at = strchr(at, '/')); at++)
        parts++;
    if (parts > LIMIT_LIST_DEPTH + 1) /* the skill's own directory is one; more could not be read back */
        return err_set(err, ERR_TOO_LARGE, "'%.200s' lies deeper than %u directories", path, LIMIT_LIST_DEPTH);
    return 0;
}

static int stage_count(struct stage *stage, uint64_t *count, const char *path, struct err *err) {
    if (stage->entries_max && stage->files + stage->dirs >= stage->entries_max)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the skill has more than %llu files and directories", path,
                       (unsigned long long)stage->entries_max);
    ++*count;
    return 0;
}

static int own(int fd, mode_t mode) {
    if (geteuid() == 0 && fchown(fd, IDS_AGENT, IDS_AGENT) < 0)
        return -1;
    return fchmod(fd, mode);
}

/* One directory below another, made if it is missing. path: of both, for errors. */
static int dir_enter(struct stage *stage, int parent, const char *name, const char *path, int *ret_fd,
                     struct err *err) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int r = stage_count(stage, &stage->dirs, path, err);
        if (r < 0)
            return r;
        if (mkdirat(parent, name, 0700) == 0)
            fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && own(fd, 0755) < 0) {
            r = err_errno(err, errno, "'%.200s'", path);
            fd_close(&fd);
            return r;
        }
    }
    if (fd < 0)
        return err_errno(err, errno, "'%.200s'", path);
    *ret_fd = fd;
    return 0;
}

static int dirs_enter(struct stage *stage, const char *path, int *ret_fd, struct err *err) {
    char name[LIMIT_NAME_BYTES + 1];
    autofd at = openat(stage->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = at < 0 ? err_errno(err, errno, "'%.200s'", path) : 0;
    for (const char *from = path; r == 0 && *from;) {
        size_t len = strcspn(from, "/");
        int next = -1;
        memcpy(name, from, len); /* path_plain: no name is longer */
        name[len] = 0;
        from += len + (from[len] == '/');
        r = dir_enter(stage, at, name, path, &next, err);
        if (r == 0) {
            fd_close(&at);
            at = next;
        }
    }
    if (r == 0)
        *ret_fd = fd_take(&at);
    return r;
}

int stage_dir(struct stage *stage, const char *path, struct err *err) {
    autofd fd = -1;
    int r = path_plain(path, err);
    return r < 0 ? r : dirs_enter(stage, path, &fd, err);
}

static int parent_enter(struct stage *stage, const char *path, size_t len, struct err *err) {
    if (stage->parent && strlen(stage->parent) == len && memcmp(stage->parent, path, len) == 0)
        return 0;
    parent_forget(stage);
    char *parent = xstrndup(path, len);
    int r = dirs_enter(stage, parent, &stage->parent_fd, err);
    if (r < 0)
        free(parent);
    else
        stage->parent = parent;
    return r;
}

int stage_file(struct stage *stage, const char *path, uint32_t mode, int *ret_fd, struct err *err) {
    int r = path_plain(path, err);
    if (r < 0)
        return r;
    const char *slash = strrchr(path, '/');
    r = parent_enter(stage, path, slash ? (size_t)(slash - path) : 0, err);
    if (r == 0)
        r = stage_count(stage, &stage->files, path, err);
    if (r < 0)
        return r;
    int fd =
        openat(stage->parent_fd, slash ? slash + 1 : path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || own(fd, mode & 0111 ? 0755 : 0644) < 0) {
        r = err_errno(err, errno, "'%.200s'", path);
        fd_close(&fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

/* ---- from another layer ---- */

struct linking {
    int to; /* the skill's directory in the stage */
};

static int link_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct linking *linking = user;
    if (entry->kind == 'd') {
        autofd dir = -1;
        return mkdirat(linking->to, entry->path, 0700) < 0 ||
                       (dir = path_below(linking->to, entry->path, O_RDONLY | O_DIRECTORY, true)) < 0 ||
                       own(dir, 0755) < 0
                   ? err_errno(err, errno, "'%.200s'", entry->path)
                   : 0;
    }
    return linkat(entry->dir, entry->name, linking->to, entry->path, 0) < 0
               ? err_errno(err, errno, "'%.200s'", entry->path)
               : 0;
}

/* Its time says when the skill was changed, and that is not now; and it is as opaque. */
int stage_link(struct stage *stage, const char *layer, const char *skill, struct err *err) {
    struct stat status;
    int to = -1;
    autofd layer_dir = openat(stage->skills->layers_dir, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    autofd from = layer_dir < 0 ? -1 : openat(layer_dir, skill, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || fstat(from, &status) < 0)
        return err_errno(err, errno, "the skill '%.200s'", skill);
    int r = dirs_enter(stage, skill, &to, err);
    if (r < 0)
        return r;
    struct linking linking = {.to = to};
    r = treewalk_own(from, link_entry, &linking, err);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    if (r == 0 && (fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0 || futimens(to, times) < 0))
        r = err_errno(err, errno, "the skill '%.200s'", skill);
    fd_close(&to);
    return r;
}
