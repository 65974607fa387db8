/* Templates as directories below state/templates. Called by jail.c and by the command line. Invariant: a template
 * that a box mounts is never changed in place: new ones are made beside and renamed, old ones are renamed away. */
#include "backend/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/skeleton.h"
#include "tree/removal.h"
#include "backend/trash.h"
#include "base/clock.h"
#include "base/fd.h"

extern char **environ;

static int templates_dir(const struct backend_env *env, struct err *err);
static int templates_there(const struct backend_env *env, struct err *err);
static int run(const char *const argv[], struct err *err);
static int template_make(const struct backend_env *env, const char *name, const char *path,
                         const struct template_stream *stream, struct err *err);
static int unpack(const char *path, const char *to, struct err *err);
static int complete(int dir, struct err *err);

bool template_name_ok(const char *name) {
    size_t len = strlen(name);
    if (len == 0 || len > TEMPLATE_NAME_BYTES || name[0] == '.' || name[0] == '_' || name[0] == '-')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int template_find(const struct backend_env *env, const char *name, struct template *ret_template, struct err *err) {
    if (strcmp(name, "host") == 0)
        return skeleton_find(env, ret_template, err);
    if (!template_name_ok(name))
        return err_set(err, ERR_INVALID, "'%.80s' is not a template name: [a-z0-9][a-z0-9._-]{0,63}", name);
    struct template found = {0};
    if (env->templates_dir)
        snprintf(found.path, sizeof found.path, "%s/%s", env->templates_dir, name);
    else
        snprintf(found.path, sizeof found.path, "%s/templates/%s", env->state_dir, name);
    struct stat status;
    if (lstat(found.path, &status) < 0 || !S_ISDIR(status.st_mode))
        return err_set(err, ERR_NOT_FOUND, "no template '%s'; `cubby template import %s PATH` makes one", name, name);
    *ret_template = found;
    return 0;
}

int template_import(const struct backend_env *env, const char *name, const char *path, struct err *err) {
    return template_make(env, name, path, NULL, err);
}

int template_receive(const struct backend_env *env, const char *name, const struct template_stream *stream,
                     struct err *err) {
    return template_make(env, name, NULL, stream, err);
}

/* Of a path of this machine, or of a stream. */
static int template_make(const struct backend_env *env, const char *name, const char *path,
                         const struct template_stream *stream, struct err *err) {
    if (!template_name_ok(name) || strcmp(name, "host") == 0)
        return err_set(err, ERR_INVALID, "'%.80s' cannot be a template's name: [a-z0-9][a-z0-9._-]{0,63}, not 'host'",
                       name);
    autofd dir = templates_dir(env, err);
    if (dir < 0)
        return dir;
    char staged[64], full[4200];
    snprintf(staged, sizeof staged, ".new-%d-%llu", getpid(), (unsigned long long)clock_us());
    snprintf(full, sizeof full, "%s/templates/%s", env->state_dir, staged);
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_EXISTS, "there is a template '%s' already", name); /* before gigabytes are sent */
    if (mkdirat(dir, staged, 0755) < 0)
        return err_errno(err, errno, "'%s'", full);
    int r = stream ? template_unpack(stream, full, err) : unpack(path, full, err);
    autofd root = r < 0 ? -1 : openat(dir, staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0)
        r = complete(root, err);
    if (r == 0 && renameat2(dir, staged, dir, name, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? err_set(err, ERR_EXISTS, "there is a template '%s' already", name)
                            : err_errno(err, errno, "template '%s'", name);
    if (r < 0)
        removal_tree(dir, staged);
    return r;
}

int template_list(const struct backend_env *env, void (*each)(void *user, const char *name), void *user,
                  struct err *err) {
    each(user, "host");
    autofd fd = templates_there(env, err);
    if (fd < 0)
        return fd == -ERR_NOT_FOUND ? 0 : fd;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "templates");
    fd_take(&fd);
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (template_name_ok(entry->d_name))
            each(user, entry->d_name);
    closedir(dir);
    return 0;
}

/* Renamed away, not unlinked: a live box may have it as its lower layer. The next start of the backend empties it when
 * no box is left. */
int template_remove(const struct backend_env *env, const char *name, struct err *err) {
    if (!template_name_ok(name) || strcmp(name, "host") == 0)
        return err_set(err, ERR_INVALID, "'%.80s' is not a template that can be removed", name);
    autofd dir = templates_there(env, err);
    if (dir < 0)
        return dir == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no template '%s'", name) : dir;
    char old[64];
    snprintf(old, sizeof old, ".old-%d-%llu", getpid(), (unsigned long long)clock_us());
    if (renameat(dir, name, dir, old) < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "no template '%s'", name)
                               : err_errno(err, errno, "template '%s'", name);
    return 0;
}

void template_prune(const struct backend_env *env, struct trash *trash) {
    struct template host;
    struct err err;
    autofd fd = templates_dir(env, &err);
    if (fd < 0 || template_find(env, "host", &host, &err) < 0)
        return;
    DIR *dir = fdopendir(dup(fd));
    struct dirent *entry;
    const char *current = strrchr(host.path, '/') + 1;
    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, ".old-", 5) == 0 ||
            (strncmp(entry->d_name, ".host-", 6) == 0 && strcmp(entry->d_name, current) != 0))
            trash_put(trash, fd, entry->d_name, &err);
    if (dir)
        closedir(dir);
}

/* NOT_FOUND when nothing was ever imported there. */
static int templates_there(const struct backend_env *env, struct err *err) {
    char path[4200];
    snprintf(path, sizeof path, "%s/templates", env->state_dir);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%s'", path) : fd;
}

static int templates_dir(const struct backend_env *env, struct err *err) {
    char path[4200];
    snprintf(path, sizeof path, "%s/templates", env->state_dir);
    if (mkdir(env->state_dir, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", env->state_dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", path);
    return templates_there(env, err);
}

static int run(const char *const argv[], struct err *err) {
    pid_t pid;
    int r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    if (r == ENOENT)
        return err_set(err, ERR_UNSUPPORTED, "the program '%s' is missing; install the package '%s'", argv[0],
                       strcmp(argv[0], "tar") == 0 ? "tar" : "coreutils");
    if (r != 0)
        return err_errno(err, r, "'%s'", argv[0]);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_INVALID, "'%s' could not read the template", argv[0]);
    return 0;
}

static int unpack(const char *path, const char *to, struct err *err) {
    struct stat status;
    if (stat(path, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (S_ISDIR(status.st_mode)) {
        char from[4200];
        snprintf(from, sizeof from, "%s/.", path);
        const char *const argv[] = {"cp", "-a", "--reflink=auto", "--", from, to, NULL};
        return run(argv, err);
    }
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is neither a directory nor a tar file", path);
    const char *const argv[] = {
        "tar", "--extract", "--force-local", "--preserve-permissions", "--numeric-owner", "--directory", to, "--file",
        path,  NULL};
    return run(argv, err);
}

/* What every box needs of its root, whatever was imported: mount points, the agent's home, the agent in passwd. */
static int complete(int dir, struct err *err) {
    return skeleton_complete(dir, err);
}
