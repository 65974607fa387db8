/* /skills of a jail: mounted by a process of its own (runner/attach.c) that enters the box's namespaces. Called by jail.c at
 * a start, and through the backend's verbs while a box runs. Not to break: while the old skills go and the new ones come,
 * nothing of the box moves, or it would see neither. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail.h"
#include "backend/reaper.h"
#include "base/fd.h"
#include "wire/plan.h"

enum { ATTACH_MS = 20000 };

/* Of a daemon that holds the box still for it; there after its death, too. */
#define ATTACHING "attaching"

static void mark_path(char path[64], const char *id) {
    snprintf(path, 64, "%.16s/" ATTACHING, id);
}

/* ---- what is wanted ---- */

/* The box's own files have a name on the host; others are found in the box. */
static bool own_named(struct backend *backend, const char *id) {
    char path[64];
    snprintf(path, sizeof path, "%.16s/fs/upper", id);
    return faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void attach_put(struct backend *backend, const struct spec *spec, struct buf *out) {
    char path[4200];
    snprintf(path, sizeof path, "%s/skills/layers", backend->env->state_dir);
    plan_text(out, PLAN_SKILL_STORE, path);
    for (size_t i = 0; i < spec->skill_layer_count; i++)
        plan_text(out, PLAN_SKILL, spec->skill_layers[i]);
    plan_text(out, PLAN_SKILL_PATH, SKILLS_PATH);
    for (const char **at = spec->skill_paths; at && *at; at++)
        plan_text(out, PLAN_SKILL_PATH, *at);
}

static void put_message(struct backend *backend, const struct spec *spec, bool replace, struct buf *out) {
    const char *state = backend->env->state_dir;
    char path[4200];
    buf_u32(out, 0);
    plan_number(out, PLAN_VERSION_KEY, PLAN_VERSION);
    snprintf(path, sizeof path, "%s/boxes/%s/fs", state, spec->id);
    if (own_named(backend, spec->id))
        plan_text(out, PLAN_LAYERS, path);
    snprintf(path, sizeof path, "%s/layers", state);
    plan_text(out, PLAN_STORE, path);
    for (size_t i = 0; i < spec->layer_count; i++)
        plan_text(out, PLAN_LOWER, spec->layers[i]);
    attach_put(backend, spec, out);
    if (replace)
        plan_number(out, PLAN_REPLACE, 1);
    uint32_t len = (uint32_t)out->len - 4;
    if (!out->failed)
        memcpy(out->data, &len, sizeof len);
}

static int make_message(struct backend *backend, const struct spec *spec, bool replace, int *ret_fd, struct err *err) {
    autobuf out;
    buf_init(&out, PLAN_MAX_BYTES);
    put_message(backend, spec, replace, &out);
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "the list of skill layers is larger than %u bytes", PLAN_MAX_BYTES);
    autofd fd = memfd_create("attach", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, out.data, out.len);
    if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(err, r < 0 ? -r : errno, "memfd");
    *ret_fd = fd_take(&fd);
    return 0;
}

/* ---- the process ---- */

static int open_space(pid_t pid, const char *name, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%s'", path) : fd;
}

/* Its word, and then its end: which may take long, where the old overlay ends with it. */
static int hear(struct backend *backend, pid_t pid, int errors_fd, struct err *err) {
    char text[sizeof err->text + 1] = "";
    struct pollfd polls = {.fd = errors_fd, .events = POLLIN};
    int n = poll(&polls, 1, ATTACH_MS);
    ssize_t len = n == 1 ? read(errors_fd, text, sizeof text - 1) : 0;
    bool done = len == 1 && text[0] == 0;
    int r = 0;
    if (n != 1)
        r = err_set(err, ERR_TIMEOUT, "the skills were not attached within %u s", ATTACH_MS / 1000);
    else if (!done)
        r = slot_said(text, len, "the runner ended before the skills were attached", err);
    if (n != 1)
        kill(pid, SIGKILL); /* our child, not waited for */
    if (!backend->reaper || waitpid(pid, NULL, WNOHANG) != 0) {
        if (!backend->reaper)
            waitpid(pid, NULL, 0);
    } else {
        reaper_put(backend->reaper, &(struct remains){.mounts_fd = -1, .outer_pid = pid});
    }
    return r;
}

static int attach_run(struct backend *backend, const struct spec *spec, pid_t box_pid, uint64_t start, bool replace,
                      struct err *err) {
    int errors[2], message = -1;
    autofd user = open_space(box_pid, "user", err);
    if (user < 0)
        return user;
    autofd mounts = open_space(box_pid, "mnt", err);
    if (mounts < 0)
        return mounts;
    if (!process_alive(box_pid, start)) /* and not somebody with its number */
        return err_set(err, ERR_GONE, "box %s has ended", spec->id);
    int r = make_message(backend, spec, replace, &message, err);
    autofd ours = message;
    if (r < 0)
        return r;
    if (pipe2(errors, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    autofd their_errors = errors[1], errors_fd = errors[0];
    pid_t pid = 0;
    char *argv[] = {"cubby-runner", "attach", NULL};
    r = slot_spawn(backend, argv, (int[]){message, their_errors, user, mounts}, 4, &pid, err);
    fd_close(&their_errors);
    return r == 0 ? hear(backend, pid, errors_fd, err) : r;
}

/* ---- the verbs ---- */

int attach_first(struct backend *backend, const struct spec *spec, const struct slot *slot, struct err *err) {
    return attach_run(backend, spec, slot->pid, slot->start, false, err);
}

/* Where nothing can be frozen, only the runner may be there. */
static int hold(struct backend *backend, const struct spec *spec, const struct jail_record *record, struct err *err) {
    char path[64];
    if (!backend->cgroups.freeze && !*backend->cgroups.freezer)
        return jail_alone(record->pid)
                   ? 0
                   : err_set(err, ERR_BUSY,
                             "processes run in box %s, and this machine has no freezer to hold them still", spec->id);
    mark_path(path, spec->id);
    autofd mark = openat(backend->boxes_dir, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return mark < 0 ? err_errno(err, errno, "'boxes/%s'", path) : freeze_set(backend, spec->id, true, err);
}

static int let_go(struct backend *backend, const char *id, struct err *err) {
    char path[64];
    mark_path(path, id);
    if (faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    int r = freeze_set(backend, id, false, err);
    unlinkat(backend->boxes_dir, path, 0);
    return r;
}

int attach_again(struct backend *backend, const struct spec *spec, struct err *err) {
    struct jail_record record;
    struct err own;
    int r = jail_record_read(backend, spec->id, &record);
    if (r < 0 || !process_alive(record.pid, record.start))
        return err_set(err, ERR_GONE, "box %s has no processes", spec->id);
    if (!backend->root)
        return err_set(err, ERR_BUSY,
                       "only a daemon that runs as root enters a box; it has the newest at its next start");
    if (freeze_is(backend, spec->id))
        return err_set(err, ERR_BUSY, "box %s is paused", spec->id);
    r = hold(backend, spec, &record, err);
    if (r == 0)
        r = attach_run(backend, spec, record.pid, record.start, true, err);
    if (let_go(backend, spec->id, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    return r;
}

bool attach_paused(struct backend *backend, const char *id) {
    struct err ignored;
    let_go(backend, id, &ignored);
    return freeze_is(backend, id);
}
