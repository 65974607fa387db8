/* What of this machine is seen in a container, and whose it is there. Called by docker_spec.c (what the engine mounts), by
 * docker_wire.c (what is mounted once the container runs), and as the backend's attach. Not to break: what a box writes
 * belongs to the owner of the directory it was written to, and what it finds in its workspace belongs to its own user. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker.h"
#include "base/fd.h"

/* ---- by the engine ---- */

static const char *workspace_path(const struct spec *spec) {
    return spec->workspace ? spec->workspace : WORKSPACE_PATH;
}

/* It is a directory of the box's own, and not one that somebody mounts there. */
static bool own_workspace(const struct spec *spec) {
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strcmp(spec->mounts[i].target, workspace_path(spec)) == 0)
            return false;
    return true;
}

/* Alone: what is mounted below a directory on this machine is not the box's business, and would not be read-only. */
static void put_bind(struct json *json, const char *source, const char *target, bool read_only) {
    json_open(json, '{');
    json_key(json, "Type");
    json_str(json, "bind");
    json_key(json, "Source");
    json_str(json, source);
    json_key(json, "Target");
    json_str(json, target);
    json_key(json, "ReadOnly");
    json_bool(json, read_only);
    json_key(json, "BindOptions");
    json_open(json, '{');
    json_key(json, "Propagation");
    json_str(json, "rprivate");
    json_key(json, "NonRecursive");
    json_bool(json, true);
    json_close(json, '}');
    json_close(json, '}');
}

static void put_volume(struct json *json, const char *target) {
    json_open(json, '{');
    json_key(json, "Type");
    json_str(json, "volume");
    json_key(json, "Target");
    json_str(json, target);
    json_close(json, '}');
}

static int put_far(struct backend *backend, const struct spec *spec, struct json *json, struct err *err) {
    if (spec->mount_count)
        return err_set(
            err, ERR_UNSUPPORTED,
            "mount '%.200s': the engine at %.200s does not see this machine's directories; leave the mount out "
            "and send the files, or use an engine on this machine",
            spec->mounts[0].source, engine_url(backend->engine));
    if (spec->container.read_only) /* else it is a directory like any other of the container */
        put_volume(json, workspace_path(spec));
    return 0;
}

int docker_mount_put(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct json *json,
                     struct err *err) {
    if (!way->near)
        return put_far(backend, spec, json, err);
    if (way->workspace_dir && own_workspace(spec))
        put_bind(json, way->workspace_dir, workspace_path(spec), false);
    if (docker_mount_enters(backend, spec))
        return 0;
    for (size_t i = 0; i < spec->mount_count; i++)
        put_bind(json, spec->mounts[i].source, spec->mounts[i].target, spec->mounts[i].read_only);
    return 0;
}

/* ---- by entering the container ---- */

static bool shares_kernel(const char *runtime) {
    static const char *const names[] = {"runc", "crun", "youki", "io.containerd.runc.v2",
                                        "io.containerd.runtime.v1.linux"};
    const char *slash = strrchr(runtime, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(slash ? slash + 1 : runtime, names[i]) == 0)
            return true;
    return false;
}

bool docker_mount_enters(struct backend *backend, const struct spec *spec) {
    struct docker_facts facts;
    struct err ignored;
    if (!backend->root || !engine_near(backend->engine))
        return false;
    const char *runtime = spec->container.runtime;
    if (!runtime && docker_facts(backend, &facts, &ignored) == 0)
        runtime = facts.runtime;
    return runtime && shares_kernel(runtime);
}

static int own(struct backend *backend, const struct spec *spec, uid_t uid, gid_t gid, struct err *err) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "%.16s/workspace", spec->id);
    autofd workspace = openat(backend->boxes_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (workspace < 0 && errno == ENOENT)
        return 0;
    if (workspace < 0 || fstat(workspace, &status) < 0)
        return err_errno(err, errno, "the workspace of box %s", spec->id);
    if (status.st_uid == uid && status.st_gid == gid)
        return 0;
    return fchown(workspace, uid, gid) < 0 ? err_errno(err, errno, "the workspace of box %s", spec->id) : 0;
}

int docker_mount_enter(struct backend *backend, const struct spec *spec, pid_t pid, uid_t uid, gid_t gid,
                       struct err *err) {
    if (!backend->root)
        return 0;
    (void)pid;
    return own(backend, spec, uid, gid, err);
}
