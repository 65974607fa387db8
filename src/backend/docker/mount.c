/* The directories of this machine in a container, and their owners there. Called by docker/spec.c (mounts by the
 * engine), by docker/wire.c (mounts once the container runs), and as the backend's attach. Invariant: files that a
 * box writes belong to the owner of the directory they are in, and files in its workspace belong to its own user
 * inside. */
#include <sys/wait.h>

#include "base/base.h"
#include "backend/docker/docker.h"
#include "backend/ids.h"
#include "backend/mountinfo.h"
#include "backend/box_entry.h"
#include "wire/plan.h"

/* ---- by the engine ---- */

/* Where the box's own workspace is mounted; NULL: a mount of the spec is there. */
static const char *mount_workspace(const struct spec *spec) {
    const char *path = spec->workspace ? spec->workspace : WORKSPACE_PATH;
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strcmp(spec->mounts[i].target, path) == 0)
            return NULL;
    return path;
}

/* source NULL: a volume. alone: without what is mounted below it on this machine, which would not be read-only. */
static void mount_put(struct json *json, const char *source, const char *target, bool read_only, bool alone) {
    static const char options[] = "{\"Propagation\":\"rprivate\",\"NonRecursive\":true}";
    json_open(json, '{');
    json_put_str(json, "Type", source ? "bind" : "volume");
    json_put_some(json, "Source", source);
    json_put_str(json, "Target", target);
    json_put_bool(json, "ReadOnly", read_only);
    if (alone)
        json_put_raw(json, "BindOptions", options, sizeof options - 1);
    json_close(json, '}');
}

/* Skills that are copied lie in the workspace, as with backend local, where that is the box's own. */
static int mount_put_copies(struct backend *backend, const struct spec *spec, struct json *json, struct err *err) {
    const char *above = mount_workspace(spec) ? "workspace" : "skills";
    char dir[32], path[64];
    snprintf(dir, sizeof dir, "%.16s/%s", spec->id, above);
    snprintf(path, sizeof path, "%s/skills", dir);
    if ((mkdirat(backend->boxes_fd, dir, 0755) < 0 && errno != EEXIST) ||
        (mkdirat(backend->boxes_fd, path, 0755) < 0 && errno != EEXIST))
        return err_errno(err, errno, "the skills of box %s", spec->id);
    mount_put(json, text_make(4200, "%s/boxes/%s", backend->env->state_dir, path), SKILLS_PATH, false, true);
    return 0;
}

bool docker_mount_writes(const struct spec *spec) {
    for (size_t i = 0; i < spec->mount_count; i++)
        if (!spec->mounts[i].read_only)
            return true;
    return false;
}

/* Access to an engine's socket makes one root there. It lies below `source` if that is one of the directories above it,
 * compared by inode, so that no link or mount hides it. */
static int mount_refuse_socket(struct backend *backend, const struct mount *mount, struct err *err) {
    const char *url = engine_url(backend->engine);
    struct stat source, above;
    char path[4096];
    if (strncmp(url, "unix://", 7) != 0 || !realpath(url + 7, path) || stat(mount->source, &source) < 0)
        return 0;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = 0;
        if (stat(*path ? path : "/", &above) == 0 && above.st_dev == source.st_dev && above.st_ino == source.st_ino)
            return err_set(err, ERR_DENIED, "mount source '%.200s' contains the engine's socket", mount->source);
    }
    return 0;
}

static int mount_check(struct backend *backend, const struct spec *spec, struct err *err) {
    int r = 0;
    if (docker_mount_writes(spec) && spec->container.image_init)
        return err_set(err, ERR_UNSUPPORTED,
                       "mounts of a container with its image's own init must be read-only: that program could leave "
                       "set-user-ID files there");
    for (size_t i = 0; r == 0 && i < spec->mount_count; i++)
        r = mount_refuse_socket(backend, &spec->mounts[i], err);
    return r;
}

int docker_mount_put(const struct docker_start *start, struct json *json, struct err *err) {
    struct backend *backend = start->backend;
    const struct spec *spec = start->spec;
    const char *workspace = mount_workspace(spec);
    char user[DOCKER_USER_BYTES];
    TRY(mount_check(backend, spec, err));
    if (!start->near) {
        mount_put(json, NULL, DOCKER_RUN, false, false); /* the runner is sent into it; it goes with the container */
        if (spec->mount_count)
            return err_set(err, ERR_UNSUPPORTED,
                           "mount '%.200s': the engine at %.200s does not see this machine's directories; leave the "
                           "mount out and send the files, or use an engine on this machine",
                           spec->mounts[0].source, engine_url(backend->engine));
        if (spec->container.read_only) /* else they are ordinary directories of the container */
            mount_put(json, NULL, workspace, false, false);
        if (spec->container.read_only && spec->agent)
            mount_put(json, NULL, SKILLS_PATH, false, false);
        return 0;
    }
    docker_spec_user(start, true, user); /* without root we could neither use nor remove what another user writes */
    if (!backend->root && spec->container.user && strcmp(user, spec->container.user) != 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "container user '%.100s': a daemon that is not root cannot give files to other users; leave it "
                       "out (its containers run as %s), or start cubbyd as root",
                       spec->container.user, user);
    mount_put(json, backend->env->runner_path, DOCKER_RUN "/runner", true, false);
    mount_put(json, start->dial_dir, DOCKER_RUN "/run", true, false);
    if (start->workspace_dir && workspace)
        mount_put(json, start->workspace_dir, workspace, false, true);
    if (docker_mount_enters(backend, spec))
        return 0;
    if (backend->root && spec->mount_count) /* by name, and as root: a link put in its way could lead anywhere */
        return err_set(
            err, ERR_UNSUPPORTED,
            "containers of runtime '%s' cannot be entered, and so cannot have mounts; leave them out, or use "
            "runc",
            spec->container.runtime ? spec->container.runtime : "of the engine's default");
    for (size_t i = 0; i < spec->mount_count; i++)
        mount_put(json, spec->mounts[i].source, spec->mounts[i].target, spec->mounts[i].read_only, true);
    return spec->agent ? mount_put_copies(backend, spec, json, err) : 0;
}

bool docker_mount_enters(struct backend *backend, const struct spec *spec) {
    static const char *const names[] = {"runc", "crun", "youki", "io.containerd.runc.v2",
                                        "io.containerd.runtime.v1.linux"}; /* they share this kernel */
    struct docker_facts facts;
    if (!backend->root || !engine_near(backend->engine))
        return false;
    const char *runtime = spec->container.runtime;
    if (!runtime && docker_facts_known(backend, &facts)) /* without waiting for an engine: every call asks this */
        runtime = facts.runtime;
    if (!runtime) /* a box that runs while its engine is down: nearly all share it */
        return true;
    const char *slash = strrchr(runtime, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(slash ? slash + 1 : runtime, names[i]) == 0)
            return true;
    return false;
}

/* ---- whose ---- */

/* Ids of one user, or group: as seen from here, from inside, and the container's root as seen from here. */
struct mount_ids {
    uint32_t outer, inner, root;
};

/* From the kernel's map of its user namespace: "INSIDE OUTSIDE COUNT" a line. */
static int mount_ids(pid_t pid, const char *name, uint32_t outer, struct mount_ids *ret_ids, struct err *err) {
    char path[64], text[4096];
    bool found = false, rooted = false;
    struct mount_ids ids = {.outer = outer};
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

/* Skills on disk have a jail's ids. The box's user gets those of `agent`; its root, where that is another user, those
 * of root. */
static void mount_put_ids(struct buf *message, bool group, const struct mount_ids *ids) {
    char text[64];
    int len = snprintf(text, sizeof text, "%u %u 1\n", IDS_AGENT, ids->outer);
    if (ids->root != ids->outer)
        snprintf(text + len, sizeof text - (size_t)len, "0 %u 1\n", ids->root);
    plan_text(message, group ? PLAN_GID_MAP : PLAN_UID_MAP, text);
    plan_number(message, group ? PLAN_OUTER_GID : PLAN_OUTER_UID, ids->outer);
    plan_number(message, group ? PLAN_INNER_GID : PLAN_INNER_UID, ids->inner);
}

/* ---- by entering the container ---- */

/* The directory that overlayfs writes to is on disk as in a jail. */
static int mount_put_skills(struct backend *backend, const struct spec *spec, struct buf *message, struct err *err) {
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

/* again: of a running box, its skills alone. */
static int mount_run(struct backend *backend, const struct spec *spec, const struct docker_record *who, bool again,
                     pid_t *ret_left, struct err *err) {
    autobuf message = buf_max(PLAN_MAX_BYTES);
    struct mount_ids uids = {0}, gids = {0};
    int r =
        mount_ids(who->pid, "uid_map", who->uid, &uids, err) ?: mount_ids(who->pid, "gid_map", who->gid, &gids, err);
    if (r < 0)
        return r;
    box_entry_begin(&message);
    mount_put_ids(&message, false, &uids);
    mount_put_ids(&message, true, &gids);
    if (spec->agent)
        r = mount_put_skills(backend, spec, &message, err);
    if (again)
        plan_number(&message, PLAN_REPLACE, 1);
    else
        box_entry_mounts(spec, &message);
    autofd null = r < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    if (r < 0 || null < 0)
        return r < 0 ? r : err_errno(err, errno, "/dev/null");
    const struct box_entry entry = {backend->env->runner_path, null, spec->id, who->pid, who->start};
    return box_entry_run(&entry, &message, ret_left, err);
}

/* Checks what the engine mounted by name, where we cannot mount it ourselves. */
static int mount_check_bound(const struct spec *spec, pid_t pid, struct err *err) {
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct mount *mount = &spec->mounts[i];
        bool meant = false;
        if (pid == 0)
            return err_set(err, ERR_UNSUPPORTED, "the mounts of box %s cannot be checked from here: leave them out",
                           spec->id);
        int r = mountinfo_is(mount->source, pid, mount->target, &meant, err);
        if (r < 0)
            return err_wrap(err, "mount '%.200s'", mount->source);
        if (!meant)
            return err_set(err, ERR_DENIED, "mount source '%.200s' is now reached through a link", mount->source);
    }
    return 0;
}

int docker_mount_enter(struct backend *backend, const struct spec *spec, const struct ucred *who, struct err *err) {
    pid_t left = 0;
    uid_t uid;
    gid_t gid;
    if (!backend->root)
        return mount_check_bound(spec, who->pid, err);
    int r = mount_check(backend, spec, err); /* again, for a box that is restarted */
    if (r < 0)
        return r;
    bool enters = docker_mount_enters(backend, spec), needed = spec->mount_count || spec->agent;
    if (who->pid == 0 && enters && needed)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container of box %s cannot be entered from here: leave out its mounts and its agent",
                       spec->id);
    if (who->pid == 0 || !enters) { /* its processes cannot be seen: its image says whose they are */
        json_t *inspection = NULL;
        r = docker_inspect(backend, spec->id, &inspection, err);
        if (r == 0 && docker_send_whose(backend, spec->id, inspection, &uid, &gid))
            r = docker_own_workspace(backend, spec->id, uid, gid, uid == 0, err);
        json_decref(inspection);
        return r;
    }
    struct docker_record record = {.pid = who->pid, .uid = who->uid, .gid = who->gid, .start = process_start(who->pid)};
    struct mount_ids ids = {0};
    r = mount_ids(who->pid, "uid_map", who->uid, &ids, err)
            ?: docker_own_workspace(backend, spec->id, who->uid, who->gid, ids.inner == 0, err);
    if (r == 0 && needed)
        r = mount_run(backend, spec, &record, false, &left, err);
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
    if (r == 0 && docker_is_paused(inspection))
        r = err_set(err, ERR_BUSY, "box %s is paused", spec->id);
    if (r == 0)
        r = docker_still(backend, spec->id, inspection, err);
    json_decref(inspection);
    if (r < 0)
        return r;
    r = mount_run(backend, spec, &who, true, &left, err);
    docker_still_end(backend, spec->id);
    if (left)
        waitpid(left, NULL, 0);
    return r;
}
