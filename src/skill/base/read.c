/* Files of an agent's public skills, read from their layers: what a user without a box sees below /skills. Called by the
 * dialect's front. Invariant: nothing is made, and a path never leads out of its skill. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "skill/base/base.h"
#include "tree/treewalk.h"

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
    int r = base_find(skills, agent, name, &arena, &skill, err);
    if (r == 0)
        r = base_open(skills, &skill, &dir, err);
    if (r < 0)
        return r;
    autofd fd = path_open(dir, path[len] ? path + len + 1 : ".", flags | O_NOFOLLOW, 0);
    if (fd < 0 || fstat(fd, ret_status) < 0)
        return err_errno(err, fd < 0 ? -fd : errno, "'%.200s'", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

struct base_walk {
    struct skills *skills;
    const char *top; /* of the paths that are reported */
    int (*each)(void *user, const char *path);
    void *user;
};

static int base_walk_entry(void *user, const struct tree_entry *entry, struct err *err) {
    const struct base_walk *walk = user;
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", walk->top, entry->path) >= (int)sizeof path)
        return err_set(err, ERR_TOO_LARGE, "'%.200s': the path is too long", entry->path);
    return walk->each(walk->user, path);
}

static int base_walk_skill(void *user, const struct base_skill *skill) {
    struct base_walk walk = *(struct base_walk *)user;
    struct err err;
    autofd dir = -1;
    walk.top = skill->skill;
    int r = base_open(walk.skills, skill, &dir, &err);
    return r < 0 ? r : treewalk_own(dir, base_walk_entry, &walk, &err);
}

int base_files(struct skills *skills, const char *agent, const char *path, int (*each)(void *user, const char *path),
               void *user, struct err *err) {
    struct base_walk walk = {.skills = skills, .top = path, .each = each, .user = user};
    struct stat status;
    autofd fd = -1;
    if (!*path)
        return base_each(skills, agent, base_walk_skill, &walk, err);
    int r = base_path_open(skills, agent, path, O_RDONLY | O_DIRECTORY, &fd, &status, err);
    return r < 0 ? r : treewalk_own(fd, base_walk_entry, &walk, err);
}
