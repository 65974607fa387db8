/* State directories of boxes without a daemon, and the runner's place. Not to break: what a killed `cubby run` left is
 * found by the next one (its lock is free), and a directory somebody else owns is never used. */
#include "cli/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

static int engine_base(struct arena *arena, const char **ret_base, struct err *err);
static void engine_sweep(const char *base, const struct backend_ops *ops, const struct backend_env *env);

int engine_state(struct arena *arena, const struct backend_ops *ops, struct backend_env *env, int *ret_lock,
                 struct err *err) {
    const char *base = NULL;
    int code = engine_base(arena, &base, err);
    if (code < 0)
        return code;
    engine_sweep(base, ops, env);
    char *dir = arena_printf(arena, "%s/XXXXXX", base);
    if (!mkdtemp(dir))
        return err_errno(err, errno, "a directory below %s", base);
    int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0) {
        fd_close(&lock);
        return err_errno(err, errno, "%s cannot be locked", dir);
    }
    env->state_dir = dir;
    *ret_lock = lock;
    return 0;
}

/* A directory that is ours alone: made, or found with the right owner and mode. */
static int engine_private(const char *path, struct err *err) {
    struct stat status;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "%s", path);
    if (lstat(path, &status) < 0)
        return err_errno(err, errno, "%s", path);
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
        return err_set(err, ERR_DENIED, "%s is not a directory of yours with mode 0700: remove it", path);
    return 0;
}

static int engine_base(struct arena *arena, const char **ret_base, struct err *err) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *parents[3] = {0};
    size_t count = 0;
    if (geteuid() == 0 && (mkdir("/run/cubby", 0755) == 0 || errno == EEXIST))
        parents[count++] = "/run/cubby/run";
    else if (runtime && runtime[0] == '/' && strlen(runtime) < 1000)
        parents[count++] = arena_printf(arena, "%s/cubby-run", runtime);
    parents[count++] = arena_printf(arena, "/tmp/cubby-run-%u", (unsigned)geteuid());
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        code = engine_private(parents[i], err);
        if (code == 0) {
            *ret_base = parents[i];
            return 0;
        }
    }
    return code;
}

/* ---- leftovers ---- */

struct sweep {
    const struct backend_ops *ops;
    struct backend *backend;
};

static void engine_sweep_box(void *user, const char *id) {
    const struct sweep *sweep = user;
    struct err ignored;
    sweep->ops->stop(sweep->backend, id, false, &ignored);
}

static void engine_sweep_one(const char *dir, const struct backend_ops *ops, const struct backend_env *env) {
    struct backend_env old = *env;
    struct sweep sweep = {.ops = ops};
    struct err ignored;
    old.state_dir = dir;
    old.pool_size = 0;
    if (ops->open(&old, &sweep.backend, &ignored) < 0)
        return;
    ops->list(sweep.backend, engine_sweep_box, &sweep, &ignored);
    ops->close(sweep.backend);
    engine_state_remove(dir);
}

static void engine_sweep(const char *base, const struct backend_ops *ops, const struct backend_env *env) {
    DIR *dir = opendir(base);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strlen(entry->d_name) != 6)
            continue;
        autofd lock = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat status;
        /* Between mkdtemp and flock a directory is free for a moment: leave the young alone. */
        if (lock < 0 || fstat(lock, &status) < 0 || time(NULL) - status.st_ctime < 2)
            continue;
        if (flock(lock, LOCK_EX | LOCK_NB) < 0)
            continue;
        char path[LIMIT_PATH_BYTES + 1];
        if (snprintf(path, sizeof path, "%s/%s", base, entry->d_name) < (int)sizeof path)
            engine_sweep_one(path, ops, env);
    }
    closedir(dir);
}

/* What is left then is the backend's own small files and directories: never a tree of a box's making, so two levels are
 * enough, and whatever is deeper stays for a sweep to report by its presence. */
static void engine_remove_at(int parent, const char *name, unsigned depth) {
    if (unlinkat(parent, name, 0) == 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0 || depth == 0)
        return;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            engine_remove_at(dirfd(dir), entry->d_name, depth - 1);
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void engine_state_remove(const char *state_dir) {
    if (rmdir(state_dir) < 0)
        engine_remove_at(AT_FDCWD, state_dir, 3);
}

/* ---- the runner ---- */

int engine_runner(struct arena *arena, const char **ret_path, struct err *err) {
    const char *chosen = getenv("CUBBY_RUNNER");
    if (chosen && *chosen) {
        if (chosen[0] != '/' || access(chosen, X_OK) < 0)
            return err_set(err, ERR_NOT_FOUND, "CUBBY_RUNNER is '%s', which is no absolute path of a program", chosen);
        *ret_path = chosen;
        return 0;
    }
    char self[LIMIT_PATH_BYTES + 1];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return err_errno(err, errno, "/proc/self/exe");
    self[len] = 0;
    *strrchr(self, '/') = 0;
    static const char *const places[] = {"", "/../lib/cubby", "/../libexec/cubby"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[LIMIT_PATH_BYTES + 64];
        snprintf(path, sizeof path, "%s%s/cubby-runner", self, places[i]);
        if (access(path, X_OK) == 0) {
            *ret_path = arena_strdup(arena, path);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "cubby-runner is not in %s: build or install it, or set CUBBY_RUNNER", self);
}
