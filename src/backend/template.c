/* Templates as directories below state/templates. Called by jail.c and by the command line. Invariant: a template
 * that a box mounts is never changed in place: new ones are made under another name and renamed, old ones are
 * renamed away. */
#include "backend/template.h"

#include "base/base.h"
#include "backend/skeleton.h"
#include "backend/spawn.h"
#include "tree/removal.h"
#include "backend/trash.h"

extern char **environ;

/* STATE/templates. Unless it is made, NOT_FOUND when nothing was ever imported there. */
static int template_dir(const struct backend_env *env, bool make, struct err *err) {
    const char *path = text_make(4200, "%s/templates", env->state_dir);
    if (make && mkdir(env->state_dir, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", env->state_dir);
    return backend_open_dir(AT_FDCWD, path, make, err);
}

bool template_name_ok(const char *name) {
    size_t len = strlen(name);
    if (len == 0 || len > TEMPLATE_NAME_BYTES || name[0] == '.' || name[0] == '_' || name[0] == '-')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int template_find(const struct backend_env *env, const char *name, struct template *ret_template, struct err *err) {
    if (strcmp(name, "host") == 0)
        return skeleton_find(env, false, ret_template, err);
    if (!template_name_ok(name))
        return err_set(err, ERR_INVALID, "'%.80s' is not a template name: [a-z0-9][a-z0-9._-]{0,63}", name);
    struct template found = {0};
    if (env->templates_dir)
        snprintf(found.path, sizeof found.path, "%s/%s", env->templates_dir, name);
    else
        snprintf(found.path, sizeof found.path, "%s/templates/%s", env->state_dir, name);
    struct stat status;
    bool there = lstat(found.path, &status) == 0 && S_ISDIR(status.st_mode);
    if (!there && strcmp(name, "base") == 0) /* one that was imported under that name comes first */
        return skeleton_find(env, true, ret_template, err);
    if (!there)
        return err_set(err, ERR_NOT_FOUND, "no template '%s'; `cubby template import %s PATH` makes one", name, name);
    *ret_template = found;
    return 0;
}

/* From a directory or a tar file of this machine. */
static int template_copy(const char *path, const char *to, struct err *err) {
    struct stat status;
    pid_t pid;
    if (stat(path, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is neither a directory nor a tar file", path);
    const char *const copy[] = {"cp", "-a", "--reflink=auto", "--", text_make(4200, "%s/.", path), to, NULL};
    const char *const extract[] = {
        "tar", "--extract", "--force-local", "--preserve-permissions", "--numeric-owner", "--directory", to, "--file",
        path,  NULL};
    const char *const *argv = S_ISDIR(status.st_mode) ? copy : extract;
    const struct spawn spawn = {.program = argv[0], .argv = argv, .env = environ, .in = 0, .out = 1, .errors = 2};
    int r = spawn_start(&spawn, &pid, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_UNSUPPORTED, "the program '%s' is missing; install the package '%s'", argv[0],
                       argv == copy ? "coreutils" : "tar");
    if (r < 0)
        return r;
    return spawn_wait(pid) == 0 ? 0 : err_set(err, ERR_INVALID, "'%s' could not read the template", argv[0]);
}

/* From a path of this machine, or from a stream. */
static int template_make(const struct backend_env *env, const char *name, const char *path,
                         const struct template_stream *stream, struct err *err) {
    if (!template_name_ok(name) || strcmp(name, "host") == 0)
        return err_set(err, ERR_INVALID, "'%.80s' cannot be a template's name: [a-z0-9][a-z0-9._-]{0,63}, not 'host'",
                       name);
    autofd dir = template_dir(env, true, err);
    if (dir < 0)
        return dir;
    char staged[64], full[4200];
    snprintf(staged, sizeof staged, ".new-%d-%llu", getpid(), (unsigned long long)clock_us());
    snprintf(full, sizeof full, "%s/templates/%s", env->state_dir, staged);
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_EXISTS, "there is a template '%s' already", name); /* before gigabytes are sent */
    if (mkdirat(dir, staged, 0755) < 0)
        return err_errno(err, errno, "'%s'", full);
    int r = stream ? template_unpack(stream, full, err) : template_copy(path, full, err);
    autofd root = r < 0 ? -1 : openat(dir, staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0)
        r = skeleton_complete(root, env->runner_path, err);
    if (r == 0 && renameat2(dir, staged, dir, name, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? err_set(err, ERR_EXISTS, "there is a template '%s' already", name)
                            : err_errno(err, errno, "template '%s'", name);
    if (r < 0)
        removal_tree(dir, staged);
    return r;
}

int template_import(const struct backend_env *env, const char *name, const char *path, struct err *err) {
    return template_make(env, name, path, NULL, err);
}

int template_receive(const struct backend_env *env, const char *name, const struct template_stream *stream,
                     struct err *err) {
    return template_make(env, name, NULL, stream, err);
}

int template_list(const struct backend_env *env, void (*each)(void *user, const char *name), void *user,
                  struct err *err) {
    each(user, "host");
    autofd fd = template_dir(env, false, err);
    if (fd < 0)
        return fd == -ERR_NOT_FOUND ? 0 : fd;
    autodir *dir = fd_opendir(fd, ".", 0);
    if (!dir)
        return err_errno(err, errno, "templates");
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (template_name_ok(entry->d_name))
            each(user, entry->d_name);
    return 0;
}

/* Renamed away, not unlinked: a live box may have it as its lower layer. The next start of the backend removes it when
 * no box is left. */
int template_remove(const struct backend_env *env, const char *name, struct err *err) {
    if (!template_name_ok(name) || strcmp(name, "host") == 0)
        return err_set(err, ERR_INVALID, "'%.80s' is not a template that can be removed", name);
    autofd dir = template_dir(env, false, err);
    if (dir < 0)
        return dir == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no template '%s'", name) : dir;
    const char *old = text_make(64, ".old-%d-%llu", getpid(), (unsigned long long)clock_us());
    if (renameat(dir, name, dir, old) < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "no template '%s'", name)
                               : err_errno(err, errno, "template '%s'", name);
    return 0;
}

void template_prune(const struct backend_env *env, struct trash *trash) {
    struct template host;
    struct err err;
    autofd fd = template_dir(env, true, &err);
    if (fd < 0 || template_find(env, "host", &host, &err) < 0)
        return;
    autodir *dir = fd_opendir(fd, ".", 0);
    const char *current = strrchr(host.path, '/') + 1;
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (strncmp(entry->d_name, ".old-", 5) == 0 ||
            (strncmp(entry->d_name, ".host-", 6) == 0 && strncmp(entry->d_name, current, strlen(current)) != 0))
            trash_put(trash, fd, entry->d_name, &err);
}
