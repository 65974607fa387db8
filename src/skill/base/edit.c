/* One file of a public skill, changed. Called by the doors that edit. Invariant: a version that somebody else put meanwhile
 * is never undone: the change is made again on top of it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "skill/base/base.h"

enum { ATTEMPTS = 20 };

struct edit {
    struct skills *skills;
    const char *agent, *skill, *path;
    base_change change;
    void *user;
    uint32_t mode;
};

static int edit_read(struct edit *edit, const struct base_skill *version, struct buf *text, struct err *err) {
    autofd dir = -1, fd = -1;
    struct stat status;
    int r = base_open(edit->skills, version, &dir, err);
    if (r < 0)
        return r;
    edit->mode = 0644;
    r = path_open_stat(dir, edit->path, O_RDONLY, 0, &fd, &status, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    if (r < 0)
        return r;
    if (status.st_size > LIMIT_EDIT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is larger than %u bytes", edit->path, LIMIT_EDIT_BYTES);
    edit->mode = status.st_mode & 07777;
    uint8_t *data = buf_reserve(text, (size_t)status.st_size + 1);
    ssize_t n = data ? fd_read_full(fd, data, (size_t)status.st_size) : -EFBIG;
    if (n < 0)
        return err_errno(err, (int)-n, "reading '%.200s'", edit->path);
    text->len += (size_t)n;
    return 0;
}

static int edit_stage(struct edit *edit, const struct base_skill *version, const struct buf *text, struct stage *stage,
                      struct err *err) {
    autoarena arena = ARENA_EMPTY;
    autofd fd = -1;
    const char *path = arena_printf(&arena, "%s/%s", edit->skill, edit->path);
    int r = stage_link(stage, version->layer, edit->skill, err);
    if (r == 0 && unlinkat(stage->fd, path, 0) < 0 && errno != ENOENT) /* the link; the version keeps its file */
        r = err_errno(err, errno, "'%.200s'", edit->path);
    if (r == 0)
        r = stage_file(stage, path, edit->mode, &fd, err);
    if (r == 0 && text->len && (r = fd_write_all(fd, text->data, text->len)) < 0)
        r = err_errno(err, -r, "writing '%.200s'", edit->path);
    return r;
}

static int edit_once(struct edit *edit, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    autobuf before = buf_max(LIMIT_EDIT_BYTES + 1), after = buf_max(LIMIT_EDIT_BYTES);
    struct base_skill version;
    struct stage stage;
    int r = base_find(edit->skills, edit->agent, edit->skill, &arena, &version, err);
    if (r == 0)
        r = edit_read(edit, &version, &before, err);
    if (r == 0)
        r = edit->change(edit->user, before.len ? (const char *)before.data : "", before.len, &after, err);
    if (r < 0 || (r = stage_open(edit->skills, &stage, err)) < 0)
        return r;
    r = edit_stage(edit, &version, &after, &stage, err);
    if (r == 0)
        return base_put_instead(edit->skills, edit->agent, &version, &stage, err);
    stage_abort(&stage);
    return r;
}

int base_edit(struct skills *skills, const char *agent, const char *skill, const char *path, base_change change,
              void *user, struct err *err) {
    struct edit edit = {.skills = skills, .agent = agent, .skill = skill, .path = path, .change = change, .user = user};
    char whole[LIMIT_PATH_BYTES + 1];
    if (snprintf(whole, sizeof whole, "/%s", path) >= (int)sizeof whole || !path_normal(whole))
        return err_set(err, ERR_INVALID, "'%.200s' is no path of a file in a skill", path);
    int r;
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* of edits, so that none spends its attempts on another */
    pthread_mutex_lock(&turn);
    for (int i = 0; (r = edit_once(&edit, err)) == -ERR_EXISTS && i < ATTEMPTS; i++)
        ;
    pthread_mutex_unlock(&turn);
    return r;
}
