/* /skills of a jail: mounted by a process of its own (runner/enter/attach.c) that enters the box's namespaces. Called by jail.c at
 * a start, and through the backend's verbs while a box runs. Invariant: while the old skills go and the new ones come,
 * nothing of the box moves, or it would see neither. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/jail/reaper.h"
#include "backend/box_entry.h"
#include "base/fd.h"
#include "wire/plan.h"

/* ---- what is wanted ---- */

/* The box's own files have a name on the host; others are found in the box. */
static bool own_named(struct backend *backend, const char *id) {
    char path[64];
    snprintf(path, sizeof path, "%.16s/fs/upper", id);
    return faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put_message(struct backend *backend, const struct spec *spec, bool replace, struct buf *out) {
    const char *state = backend->env->state_dir;
    char path[4200];
    box_entry_begin(out);
    snprintf(path, sizeof path, "%s/boxes/%s/fs", state, spec->id);
    if (own_named(backend, spec->id))
        plan_text(out, PLAN_LAYERS, path);
    snprintf(path, sizeof path, "%s/layers", state);
    plan_text(out, PLAN_STORE, path);
    for (size_t i = 0; i < spec->layer_count; i++)
        plan_text(out, PLAN_LOWER, spec->layers[i]);
    box_entry_skills(state, spec, out);
    if (replace)
        plan_number(out, PLAN_REPLACE, 1);
}

/* Where the daemon is an ordinary user, the box itself does it, by its plan. */
static int attach_run(struct backend *backend, const struct spec *spec, pid_t box_pid, uint64_t start, bool replace,
                      struct err *err) {
    autobuf message = buf_max(PLAN_MAX_BYTES);
    put_message(backend, spec, replace, &message);
    const struct usher usher = {backend->image.path, backend->null_fd, spec->id, box_pid, start};
    pid_t left = 0;
    int r = box_entry_visit(&usher, &message, &left, err);
    if (left && backend->reaper)
        reaper_put(backend->reaper, &(struct remains){.mounts_fd = -1, .outer_pid = left});
    else if (left)
        waitpid(left, NULL, 0);
    return r;
}

/* ---- the verbs ---- */

int attach_first(struct backend *backend, const struct spec *spec, const struct slot *slot, struct err *err) {
    return attach_run(backend, spec, slot->pid, slot->start, false, err);
}

/* Where nothing can be frozen, only the runner may be there. */
static int hold(struct backend *backend, const struct spec *spec, const struct jail_record *record, struct err *err) {
    if (!backend->cgroups.freeze && !*backend->cgroups.freezer && !jail_alone(record->pid))
        return err_set(err, ERR_BUSY, "processes run in box %s, and this machine has no freezer to hold them still",
                       spec->id);
    return freeze_hold(backend, spec->id, err);
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
    if (freeze_let_go(backend, spec->id, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    return r;
}
