/* A box without a daemon, its state, and where the runner is. Invariant: a box is claimed before it is made and
 * unclaimed after it is removed, so that the next run finds what a killed `cubby run` left; a directory that another
 * user can write to is never used. */
#include "cli/standalone.h"

#include <linux/magic.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "backend/places.h"
#include "base/base.h"
#include "tree/removal.h"
#include "box/policy.h"
#include "cli/cli.h"
#include "cli/rest/news.h"

/* Makes a directory that is ours alone, or checks the owner and mode of an existing one. */
static int standalone_private(const char *path, struct err *err) {
    struct stat status;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "%s", path);
    if (lstat(path, &status) < 0)
        return err_errno(err, errno, "%s", path);
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
        return err_set(err, ERR_DENIED, "%s must be a directory of yours with mode 0700: remove it", path);
    return 0;
}

/* Boxes of root need idmapped mounts. tmpfs, which /run is, has them only since Linux 6.3. */
static bool standalone_idmaps(const char *path) {
    struct statfs system;
    struct utsname name;
    unsigned major = 0, minor = 0;
    if (statfs(path, &system) < 0 || (long)system.f_type != TMPFS_MAGIC || uname(&name) < 0)
        return true;
    sscanf(name.release, "%u.%u", &major, &minor);
    return major > 6 || (major == 6 && minor >= 3);
}

int standalone_state(struct arena *arena, const char **ret_dir, struct err *err) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *places[2];
    size_t count = 0;
    if (geteuid() == 0 && (mkdir("/run/cubby", 0700) == 0 || errno == EEXIST))
        places[count++] = standalone_idmaps("/run/cubby") ? "/run/cubby/run" : "/var/lib/cubby-run";
    else if (runtime && runtime[0] == '/' && strlen(runtime) < 1000)
        places[count++] = arena_printf(arena, "%s/cubby-run", runtime);
    places[count++] = arena_printf(arena, "/tmp/cubby-run-%u", (unsigned)geteuid());
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        code = standalone_private(places[i], err);
        if (code == 0) {
            *ret_dir = places[i];
            return 0;
        }
    }
    return code;
}

/* ---- claims: STATE/live/ID.BACKEND, locked by the process that has the box; STATE/mcp/ID, its directory ---- */

#define CLAIM_BYTES (LIMIT_PATH_BYTES + 64)

static void standalone_claim_path(char out[CLAIM_BYTES], const struct standalone *standalone) {
    snprintf(out, CLAIM_BYTES, "%s/live/%s.%s", standalone->env.state_dir, standalone->box.id,
             standalone->box.ops->name);
}

static int standalone_claim(struct standalone *standalone, struct err *err) {
    if (standalone->claim >= 0)
        return 0;
    TRY(standalone_state(standalone->arena, &standalone->env.state_dir, err));
    char *path = text_make(CLAIM_BYTES, "%s/live", standalone->env.state_dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "%s", path);
    standalone_claim_path(path, standalone);
    for (;;) {
        struct stat status;
        autofd lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) < 0 || fstat(lock, &status) < 0)
            return err_errno(err, errno, "%s", path);
        /* A sweep may remove it between open and flock: then the name is gone. */
        if (status.st_nlink == 0)
            continue;
        standalone->claim = fd_take(&lock);
        return 0;
    }
}

int standalone_directory(struct standalone *standalone, const char **ret_path, struct err *err) {
    TRY(standalone_claim(standalone, err));
    const char *all = arena_printf(standalone->arena, "%s/mcp", standalone->env.state_dir);
    const char *own = arena_printf(standalone->arena, "%s/%s", all, standalone->box.id);
    TRY(standalone_private(all, err));
    TRY(standalone_private(own, err));
    *ret_path = own;
    return 0;
}

static void standalone_remove_directory(const char *state_dir, const char *id) {
    removal_tree(AT_FDCWD, text_make(CLAIM_BYTES, "%s/mcp/%s", state_dir, id));
}

/* Removes what a killed run left: claimed, but the claim is not locked. */
static void standalone_sweep_one(const struct standalone *standalone, int dir, const char *name) {
    const struct backend_ops *ops = standalone->box.ops;
    char id[17];
    if (strlen(name) < 18 || name[16] != '.' || strcmp(name + 17, ops->name) != 0)
        return;
    memcpy(id, name, 16);
    id[16] = 0;
    autofd lock = text_id(id) ? openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    struct err ignored;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 &&
        ops->stop(standalone->box.backend, id, false, &ignored) == 0) {
        standalone_remove_directory(standalone->env.state_dir, id);
        unlinkat(dir, name, 0);
    }
}

/* ---- one box ---- */

int standalone_plan(struct standalone *standalone, const struct box_request *request, const char *const *allow_weaker,
                    struct arena *arena, struct err *err) {
    const char *name = request->backend ? request->backend : "jail";
    static const struct docker_settings docker;
    static const char *const any[] = {"*", NULL};
    struct policy policy = {.any_mount_source = true,
                            .share.runtimes = any}; /* the user of the command can use the engine anyway */
    struct box_request asked = *request;
    standalone->arena = arena;
    standalone->box.ops = backend_find(name);
    if (!standalone->box.ops)
        return err_set(err, ERR_INVALID, "unknown backend '%s'", name);
    asked.images = standalone->box.ops->images;
    if (!asked.images)
        TRY(container_none(&asked.container, name, err));
    standalone->env.docker = &docker;
    standalone->env.progress = news_show;
    standalone->env.one_shot = true;
    standalone->env.allow_weaker = allow_weaker;
    standalone->env.allow_local = true; /* the user could run the command without a box as well */
    if (request->template_name && !asked.images)
        standalone->env.templates_dir = arena_printf(arena, "%s/templates", places_state(arena) ?: "");
    policy_random_id(standalone->box.id);
    return policy_spec(&policy, &asked, standalone->box.id, arena, &standalone->box.spec, err);
}

static int standalone_open(struct standalone *standalone, struct err *err) {
    TRY(standalone_runner(standalone->arena, &standalone->env.runner_path, err));
    TRY(standalone_claim(standalone, err));
    TRY(standalone->box.ops->open(&standalone->env, &standalone->box.backend, err));
    autodir *dir = fd_opendir(AT_FDCWD, text_make(CLAIM_BYTES, "%s/live", standalone->env.state_dir), 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        standalone_sweep_one(standalone, dirfd(dir), entry->d_name);
    return 0;
}

int standalone_start(struct standalone *standalone, struct err *err) {
    struct box *box = &standalone->box;
    struct wire *wire = NULL;
    int code = box->backend ? 0 : standalone_open(standalone, err);
    if (code == 0 && box->wire) {
        code = box->ops->stop(box->backend, box->id, true, err);
        wire_unref(box->wire);
        box->wire = NULL;
        fd_close(&box->pidfd);
    }
    if (code == 0)
        code = box->ops->start(box->backend, &box->spec, &wire, &box->pidfd, err);
    news_clear();
    if (code < 0)
        return code;
    box->wire = wire;
    box->state = BOX_READY;
    return 0;
}

void standalone_stop(struct standalone *standalone) {
    struct err err;
    struct box *box = &standalone->box;
    bool gone = true;
    if (box->backend) {
        gone = !box->wire || box->ops->stop(box->backend, box->id, false, &err) == 0;
        if (!gone)
            cli_fail(&err); /* the claim stays, and the next run tries again */
        wire_unref(box->wire);
        fd_close(&box->pidfd);
        box->ops->close(box->backend);
        box->wire = NULL;
        box->backend = NULL;
    }
    if (standalone->claim >= 0 && gone) {
        char path[CLAIM_BYTES];
        standalone_remove_directory(standalone->env.state_dir, box->id);
        standalone_claim_path(path, standalone);
        unlink(path);
    }
    fd_close(&standalone->claim);
}

/* ---- the runner ---- */

int standalone_runner(struct arena *arena, const char **ret_path, struct err *err) {
    const char *chosen = getenv("CUBBY_RUNNER");
    char path[PATH_MAX];
    if (chosen && *chosen && (chosen[0] != '/' || access(chosen, X_OK) < 0))
        return err_set(err, ERR_NOT_FOUND, "CUBBY_RUNNER is '%s', which is not the absolute path of a program", chosen);
    TRY(places_runner(chosen && *chosen ? chosen : NULL, "set CUBBY_RUNNER", path, err));
    *ret_path = arena_strdup(arena, path);
    return 0;
}
