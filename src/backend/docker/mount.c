/* What of this machine is seen in a container, and whose it is there. Called by docker/spec.c (what the engine mounts), by
 * docker/wire.c (what is mounted once the container runs), and as the backend's attach. Invariant: what a box writes
 * belongs to the owner of the directory it was written to, and what it finds in its workspace belongs to its own user. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "backend/ids.h"
#include "backend/mountinfo.h"
#include "backend/box_entry.h"
#include "base/fd.h"
#include "wire/plan.h"

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
    json_put_str(json, "Type", "bind");
    json_put_str(json, "Source", source);
    json_put_str(json, "Target", target);
    json_put_bool(json, "ReadOnly", read_only);
    json_put_open(json, "BindOptions", '{');
    json_put_str(json, "Propagation", "rprivate");
    json_put_bool(json, "NonRecursive", true);
    json_close(json, '}');
    json_close(json, '}');
}

static void put_volume(struct json *json, const char *target) {
    json_open(json, '{');
    json_put_str(json, "Type", "volume");
    json_put_str(json, "Target", target);
    json_close(json, '}');
}

/* Skills that are copied lie in the workspace, as `local` has them, where that is the box's own. */
static int put_copies(struct backend *backend, const struct spec *spec, struct json *json, struct err *err) {
    const char *above = own_workspace(spec) ? "workspace" : "skills";
    char dir[32], path[64], source[4200];
    snprintf(dir, sizeof dir, "%.16s/%s", spec->id, above);
    snprintf(path, sizeof path, "%s/skills", dir);
    if ((mkdirat(backend->boxes_fd, dir, 0755) < 0 && errno != EEXIST) ||
        (mkdirat(backend->boxes_fd, path, 0755) < 0 && errno != EEXIST))
        return err_errno(err, errno, "the skills of box %s", spec->id);
    snprintf(source, sizeof source, "%s/boxes/%s", backend->env->state_dir, path);
    put_bind(json, source, SKILLS_PATH, false);
    return 0;
}

static int put_far(struct backend *backend, const struct spec *spec, struct json *json, struct err *err) {
    if (spec->mount_count)
        return err_set(
            err, ERR_UNSUPPORTED,
            "mount '%.200s': the engine at %.200s does not see this machine's directories; leave the mount out "
            "and send the files, or use an engine on this machine",
            spec->mounts[0].source, engine_url(backend->engine));
    if (spec->container.read_only) { /* else they are directories like any other of the container */
        put_volume(json, workspace_path(spec));
        if (spec->agent)
            put_volume(json, SKILLS_PATH);
    }
    return 0;
}

bool docker_mount_writes(const struct spec *spec) {
    for (size_t i = 0; i < spec->mount_count; i++)
        if (!spec->mounts[i].read_only)
            return true;
    return false;
}

/* Whoever speaks to an engine is root where that runs. The socket lies below `source` if that is one of the directories
 * above it: as a file of its file system, so that no link or mount hides it. */
static int refuse_socket(struct backend *backend, const struct mount *mount, struct err *err) {
    const char *url = engine_url(backend->engine);
    struct stat source, above;
    char path[4096];
    if (strncmp(url, "unix://", 7) != 0 || !realpath(url + 7, path) || stat(mount->source, &source) < 0)
        return 0;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = 0;
        if (stat(*path ? path : "/", &above) == 0 && above.st_dev == source.st_dev && above.st_ino == source.st_ino)
            return err_set(err, ERR_DENIED, "mount source '%.200s' holds the engine's socket", mount->source);
    }
    return 0;
}

/* Who is not root could neither use nor remove what somebody else writes to his directories. */
static int check_user(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct err *err) {
    struct docker_facts facts;
    struct spec plain = *spec;
    char user[DOCKER_USER_BYTES];
    plain.container.user = NULL;
    if (backend->root || !spec->container.user)
        return 0;
    int r = docker_facts(backend, &facts, err);
    if (r < 0)
        return r;
    docker_spec_user(backend, &plain, NULL, way, &facts, user);
    return strcmp(user, spec->container.user) == 0
               ? 0
               : err_set(
                     err, ERR_UNSUPPORTED,
                     "container user '%.100s': a daemon that is not root gives no files to others; its containers run as "
                     "%s, or start cubbyd as root",
                     spec->container.user, user);
}

static int check_mounts(struct backend *backend, const struct spec *spec, struct err *err) {
    int r = 0;
    if (docker_mount_writes(spec) && spec->container.image_init)
        return err_set(
            err, ERR_UNSUPPORTED,
            "mounts of a container whose init is the image's own must be read-only: nothing keeps that program "
            "from leaving set-user-ID files there");
    for (size_t i = 0; r == 0 && i < spec->mount_count; i++)
        r = refuse_socket(backend, &spec->mounts[i], err);
    return r;
}

int docker_mount_put(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct json *json,
                     struct err *err) {
    int r = check_mounts(backend, spec, err);
    if (r < 0 || !way->near)
        return r < 0 ? r : put_far(backend, spec, json, err);
    if ((r = check_user(backend, spec, way, err)) < 0)
        return r;
    if (way->workspace_dir && own_workspace(spec))
        put_bind(json, way->workspace_dir, workspace_path(spec), false);
    if (docker_mount_enters(backend, spec))
        return 0;
    if (backend->root && spec->mount_count) /* by name, and as root: a link that comes into its way leads anywhere */
        return err_set(
            err, ERR_UNSUPPORTED,
            "containers of runtime '%s' cannot be entered, and so get no mounts; leave them out, or use runc",
            spec->container.runtime ? spec->container.runtime : "of the engine's default");
    for (size_t i = 0; i < spec->mount_count; i++)
        put_bind(json, spec->mounts[i].source, spec->mounts[i].target, spec->mounts[i].read_only);
    return spec->agent ? put_copies(backend, spec, json, err) : 0;
}

/* ---- what cannot be had ---- */

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
    if (!backend->root || !engine_near(backend->engine))
        return false;
    const char *runtime = spec->container.runtime;
    if (!runtime && docker_facts_known(backend, &facts)) /* nobody waits for an engine here: every call asks this */
        runtime = facts.runtime;
    return !runtime || shares_kernel(runtime); /* of a box that runs while its engine is down: as nearly all */
}

/* ---- whose ---- */

/* Ids of one user, or group: as seen from here, from inside, and here the container's root. */
struct ids {
    uint32_t outer, inner, root;
};

/* From what the kernel says of its user namespace: "INSIDE OUTSIDE COUNT" a line. */
static int find_ids(pid_t pid, const char *name, uint32_t outer, struct ids *ret_ids, struct err *err) {
    char path[64], text[4096];
    bool found = false, rooted = false;
    struct ids ids = {.outer = outer};
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return err_errno(err, (int)-n, "'%s'", path);
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        uint32_t inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) != 3)
            continue;
        if (outer >= outside && outer - outside < count)
            ids.inner = inside + (outer - outside), found = true;
        if (inside == 0 && count)
            ids.root = outside, rooted = true;
    }
    if (!found || !rooted)
        return err_set(err, ERR_UNSUPPORTED, "the container's user namespace does not map its own user");
    *ret_ids = ids;
    return 0;
}

/* Ids of skills on disk are a jail's. Its user has those of `agent`; its root those of root, where that is somebody else. */
static void put_map(struct buf *message, enum plan_key key, const struct ids *ids) {
    char text[64];
    int len = snprintf(text, sizeof text, "%u %u 1\n", IDS_AGENT, ids->outer);
    if (ids->root != ids->outer)
        snprintf(text + len, sizeof text - (size_t)len, "0 %u 1\n", ids->root);
    plan_text(message, key, text);
}

static int put_ids(struct buf *message, const struct docker_record *who, struct err *err) {
    struct ids uids = {0}, gids = {0};
    int r = find_ids(who->pid, "uid_map", who->uid, &uids, err);
    if (r == 0)
        r = find_ids(who->pid, "gid_map", who->gid, &gids, err);
    put_map(message, PLAN_UID_MAP, &uids);
    put_map(message, PLAN_GID_MAP, &gids);
    plan_number(message, PLAN_OUTER_UID, uids.outer);
    plan_number(message, PLAN_OUTER_GID, gids.outer);
    plan_number(message, PLAN_INNER_UID, uids.inner);
    plan_number(message, PLAN_INNER_GID, gids.inner);
    return r;
}

/* ---- by entering the container ---- */

/* The directory that overlayfs writes to is on disk as in a jail. */
static int put_skills(struct backend *backend, const struct spec *spec, struct buf *message, struct err *err) {
    char path[4200];
    snprintf(path, sizeof path, "%.16s/skills", spec->id);
    if (mkdirat(backend->boxes_fd, path, 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "the skills of box %s", spec->id);
    autofd own = openat(backend->boxes_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (own < 0 || fchown(own, IDS_AGENT, IDS_AGENT) < 0)
        return err_errno(err, errno, "the skills of box %s", spec->id);
    snprintf(path, sizeof path, "%s/boxes/%.16s/skills", backend->env->state_dir, spec->id);
    plan_text(message, PLAN_LAYERS, path);
    box_entry_skills(backend->env->state_dir, spec, message);
    return 0;
}

static int visit(struct backend *backend, const struct spec *spec, const struct docker_record *who, bool again,
                 pid_t *ret_left, struct err *err) {
    autobuf message = buf_max(PLAN_MAX_BYTES);
    box_entry_begin(&message);
    int r = put_ids(&message, who, err);
    if (r == 0 && spec->agent)
        r = put_skills(backend, spec, &message, err);
    if (again)
        plan_number(&message, PLAN_REPLACE, 1);
    else
        box_entry_mounts(spec, &message);
    autofd null = r < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    if (r < 0 || null < 0)
        return r < 0 ? r : err_errno(err, errno, "/dev/null");
    const struct usher usher = {backend->env->runner_path, null, spec->id, who->pid, who->start};
    return box_entry_visit(&usher, &message, ret_left, err);
}

/* What the engine mounted by name, for one who cannot do it himself. */
static int check_bound(const struct spec *spec, pid_t pid, struct err *err) {
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct mount *mount = &spec->mounts[i];
        bool meant = false;
        if (pid == 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "what the engine mounted in box %s cannot be seen from here: leave its mounts out",
                           spec->id);
        int r = mountinfo_is(mount->source, pid, mount->target, &meant, err);
        if (r < 0)
            return err_wrap(err, "mount '%.200s'", mount->source);
        if (!meant)
            return err_set(err, ERR_DENIED, "mount source '%.200s' passes a link by now", mount->source);
    }
    return 0;
}

/* Nobody can tell whose processes those of the container are: its image does. */
static int own_unseen(struct backend *backend, const struct spec *spec, struct err *err) {
    json_t *inspection = NULL;
    uid_t uid;
    gid_t gid;
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r == 0 && docker_send_whose(backend, spec->id, inspection, &uid, &gid))
        r = docker_own_workspace(backend, spec->id, uid, gid, uid == 0, err);
    json_decref(inspection);
    return r;
}

int docker_mount_enter(struct backend *backend, const struct spec *spec, pid_t pid, uid_t uid, gid_t gid,
                       struct err *err) {
    struct docker_record who = {.pid = pid, .uid = uid, .gid = gid, .start = pid ? process_start(pid) : 0};
    pid_t left = 0;
    if (!backend->root)
        return check_bound(spec, pid, err);
    int r = check_mounts(backend, spec, err); /* of one that is started again, what is there now */
    if (r < 0)
        return r;
    bool enters = docker_mount_enters(backend, spec), needed = spec->mount_count || spec->agent;
    if (pid == 0 && enters && needed)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container of box %s cannot be entered from here: leave its mounts and its agent out",
                       spec->id);
    if (pid == 0 || !enters)
        return own_unseen(backend, spec, err);
    struct ids ids = {0};
    r = find_ids(pid, "uid_map", uid, &ids, err);
    if (r == 0)
        r = docker_own_workspace(backend, spec->id, uid, gid, ids.inner == 0, err);
    if (r == 0 && needed)
        r = visit(backend, spec, &who, false, &left, err);
    if (left)
        waitpid(left, NULL, 0);
    return r;
}

int docker_mount_skills(struct backend *backend, const struct spec *spec, struct err *err) {
    struct docker_record who;
    json_t *inspection = NULL;
    pid_t left = 0;
    if (docker_record_read(backend, spec->id, &who) < 0 || !process_alive(who.pid, who.start))
        return err_set(err, ERR_GONE, "box %s has no processes", spec->id);
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r == 0 && json_is_true(json_object_get(json_object_get(inspection, "State"), "Paused")))
        r = err_set(err, ERR_BUSY, "box %s is paused", spec->id);
    if (r == 0)
        r = docker_still(backend, spec->id, inspection, err);
    json_decref(inspection);
    if (r < 0)
        return r;
    r = visit(backend, spec, &who, true, &left, err);
    docker_still_end(backend, spec->id);
    if (left)
        waitpid(left, NULL, 0);
    return r;
}
