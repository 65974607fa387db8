/* Files of an agent's public skills: read from their layers, as a user without a box sees them below /skills, and
 * changed. Called by the dialect's front. Invariant: reading creates nothing; a path never leads out of its skill; a
 * concurrent change is never lost, because this one is then made again on top of it. */

#include "base/base.h"
#include "base/sync.h"
#include "skill/base/base.h"
#include "tree/treewalk.h"

enum { FILE_EDIT_TRIES = 20 };

/* ---- reading ---- */

int base_path_open(struct skills *skills, const char *agent, const char *path, int flags, int *ret_fd,
                   struct stat *ret_status, struct err *err) {
    char name[LIMIT_NAME_BYTES + 1];
    struct base_skill skill;
    autofd dir = -1;
    autoarena arena = ARENA_EMPTY;
    size_t len = strcspn(path, "/");
    if (len >= sizeof name)
        return err_set(err, ERR_NOT_FOUND, "no skill '%.200s'", path);
    snprintf(name, sizeof name, "%.*s", (int)len, path);
    TRY(base_find(skills, agent, name, &arena, &skill, err) ?: base_open(skills, &skill, &dir, err));
    autofd fd = path_open(dir, path[len] ? path + len + 1 : ".", flags | O_NOFOLLOW, 0);
    if (fd < 0 || fstat(fd, ret_status) < 0)
        return err_errno(err, fd < 0 ? -fd : errno, "'%.200s'", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

struct file_walk {
    struct skills *skills;
    const char *top; /* prefix of reported paths */
    int (*each)(void *user, const char *path);
    void *user;
};

static int file_walk_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct file_walk *walk = user;
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", walk->top, entry->path) >= (int)sizeof path)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", entry->path);
    return walk->each(walk->user, path);
}

static int file_walk_skill(void *user, const struct base_skill *skill) {
    struct file_walk walk = *(struct file_walk *)user;
    struct err err;
    autofd dir = -1;
    walk.top = skill->skill;
    int r = base_open(walk.skills, skill, &dir, &err);
    return r < 0 ? r : treewalk_own(dir, file_walk_entry, &walk, &err);
}

int base_files(struct skills *skills, const char *agent, const char *path, int (*each)(void *user, const char *path),
               void *user, struct err *err) {
    struct file_walk walk = {.skills = skills, .top = path, .each = each, .user = user};
    struct stat status;
    autofd fd = -1;
    if (!*path)
        return base_each(skills, agent, file_walk_skill, &walk, err);
    int r = base_path_open(skills, agent, path, O_RDONLY | O_DIRECTORY, &fd, &status, err);
    return r < 0 ? r : treewalk_own(fd, file_walk_entry, &walk, err);
}

/* ---- changing ---- */

static int file_read(struct skills *skills, const struct base_skill *version, const char *path, struct buf *text,
                     uint32_t *ret_mode, struct err *err) {
    autofd dir = -1, fd = -1;
    struct stat status;
    int r = base_open(skills, version, &dir, err) ?: path_open_stat(dir, "", path, O_RDONLY, 0, &fd, &status, err);
    *ret_mode = r == 0 ? status.st_mode & 07777 : 0644;
    if (r < 0)
        return r == -ERR_NOT_FOUND && dir >= 0 ? 0 : r;
    if (status.st_size > LIMIT_EDIT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is larger than %u bytes", path, LIMIT_EDIT_BYTES);
    uint8_t *data = buf_reserve(text, (size_t)status.st_size + 1);
    ssize_t n = data ? fd_read_full(fd, data, (size_t)status.st_size) : -EFBIG;
    if (n < 0)
        return err_errno(err, (int)-n, "reading '%.200s'", path);
    text->len += (size_t)n;
    return 0;
}

static int file_edit_once(struct skills *skills, const char *agent, const char *skill, const char *path,
                          base_change change, void *user, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    autobuf before = buf_max(LIMIT_EDIT_BYTES + 1), after = buf_max(LIMIT_EDIT_BYTES);
    autofd fd = -1;
    struct base_skill version;
    struct stage stage;
    uint32_t mode = 0644;
    int r = base_find(skills, agent, skill, &arena, &version, err)
            ?: file_read(skills, &version, path, &before, &mode, err)
            ?: change(user, before.len ? (const char *)before.data : "", before.len, &after, err);
    if (r < 0 || (r = stage_open(skills, &stage, err)) < 0)
        return r;
    const char *whole = arena_printf(&arena, "%s/%s", skill, path);
    r = stage_link(&stage, version.layer, skill, err);
    if (r == 0 && unlinkat(stage.fd, whole, 0) < 0 &&
        errno != ENOENT) /* removes only the link; the old version keeps its file */
        r = err_errno(err, errno, "'%.200s'", path);
    if (r == 0)
        r = stage_file(&stage, whole, mode, &fd, err);
    if (r == 0 && after.len && (r = fd_write_all(fd, after.data, after.len)) < 0)
        r = err_errno(err, -r, "writing '%.200s'", path);
    if (r == 0)
        return base_put_instead(skills, agent, &version, &stage, err);
    stage_abort(&stage);
    return r;
}

int base_edit(struct skills *skills, const char *agent, const char *skill, const char *path, base_change change,
              void *user, struct err *err) {
    static pthread_mutex_t turn =
        PTHREAD_MUTEX_INITIALIZER; /* one edit at a time, so that edits do not use up each other's tries */
    char whole[LIMIT_PATH_BYTES + 1];
    if (snprintf(whole, sizeof whole, "/%s", path) >= (int)sizeof whole || !path_normal(whole))
        return err_set(err, ERR_INVALID, "'%.200s' cannot be the path of a file in a skill", path);
    int r = -ERR_EXISTS;
    autolock(&turn);
    for (int i = 0; r == -ERR_EXISTS && i <= FILE_EDIT_TRIES; i++)
        r = file_edit_once(skills, agent, skill, path, change, user, err);
    return r;
}
