/* /skills of a jail: mounted by a process of its own (runner/enter/attach.c) that enters the box's namespaces; where
 * the daemon is an ordinary user, the box does it itself, by its plan. Called by jail.c at a start, and through the
 * backend's verbs while a box runs. Invariant: while skills are replaced the box is frozen, so that it never sees
 * /skills empty. */
#include <sys/wait.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/box_entry.h"
#include "wire/plan.h"

static int attach_run(struct backend *backend, const struct spec *spec, pid_t box_pid, uint64_t start, bool replace,
                      struct err *err) {
    const char *state = backend->env->state_dir;
    char path[4200];
    autobuf message = buf_max(PLAN_MAX_BYTES);
    box_entry_begin(&message);
    snprintf(path, sizeof path, "%.16s/fs/upper", spec->id);
    bool named = faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    snprintf(path, sizeof path, "%s/boxes/%s/fs", state, spec->id);
    if (named) /* the box's own files have a name on the host; others are found in the box */
        plan_text(&message, PLAN_LAYERS, path);
    snprintf(path, sizeof path, "%s/layers", state);
    plan_text(&message, PLAN_STORE, path);
    for (size_t i = 0; i < spec->layer_count; i++)
        plan_text(&message, PLAN_LOWER, spec->layers[i]);
    box_entry_skills(state, spec, &message);
    if (replace)
        plan_number(&message, PLAN_REPLACE, 1);
    const struct box_entry entry = {backend->program.path, backend->null_fd, spec->id, box_pid, start};
    pid_t left = 0;
    int r = box_entry_run(&entry, &message, &left, err);
    if (left && backend->reaper)
        reaper_put(backend->reaper, &(struct reaper_job){.mounts_fd = -1, .outer_pid = left});
    else if (left)
        waitpid(left, NULL, 0);
    return r;
}

/* The box's ids as the host has them: "0 BASE COUNT". */
static int attach_ids(pid_t pid, uint64_t start, uint32_t *ret_base, struct err *err) {
    char path[64], text[256] = "";
    unsigned inside, base;
    snprintf(path, sizeof path, "/proc/%ld/uid_map", (long)pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text - 1) <= 0 || sscanf(text, "%u %u", &inside, &base) != 2 ||
        inside != 0 || !process_alive(pid, start))
        return err_set(err, ERR_GONE, "the box's processes have ended");
    *ret_base = base;
    return 0;
}

/* The box that runs, and a message for it. */
static int attach_begin(struct backend *backend, const char *id, struct jail_record *ret_record, struct buf *message,
                        struct err *err) {
    if (jail_record_read(backend, id, ret_record) < 0 || !process_alive(ret_record->pid, ret_record->start))
        return err_set(err, ERR_GONE, "box %s has no processes", id);
    if (!backend->root)
        return err_set(err, ERR_BUSY,
                       "only a daemon that runs as root can enter a box; it takes effect at its next start");
    box_entry_begin(message);
    return 0;
}

static int attach_send(struct backend *backend, const char *id, const struct jail_record *record, struct buf *message,
                       struct err *err) {
    const struct box_entry entry = {backend->program.path, backend->null_fd, id, record->pid, record->start};
    pid_t left = 0;
    int r = box_entry_run(&entry, message, &left, err);
    if (left)
        waitpid(left, NULL, 0);
    return r;
}

int attach_resolv(struct backend *backend, const char *id, const char *text, struct err *err) {
    struct jail_record record;
    autobuf message = buf_max(PLAN_MAX_BYTES);
    TRY(attach_begin(backend, id, &record, &message, err));
    plan_text(&message, PLAN_RESOLV, text);
    return attach_send(backend, id, &record, &message, err);
}

int attach_mounts(struct backend *backend, const char *id, const struct mount *mounts, size_t count, struct err *err) {
    struct jail_record record;
    const struct spec spec = {.mounts = mounts, .mount_count = count};
    autobuf message = buf_max(PLAN_MAX_BYTES);
    uint32_t base = 0;
    TRY(attach_begin(backend, id, &record, &message, err) ?: attach_ids(record.pid, record.start, &base, err));
    const char *map = text_make(64, "0 %u 1001\n", base);
    plan_text(&message, PLAN_UID_MAP, map);
    plan_text(&message, PLAN_GID_MAP, map);
    plan_number(&message, PLAN_OUTER_UID, base + 1000);
    plan_number(&message, PLAN_OUTER_GID, base + 1000);
    plan_number(&message, PLAN_INNER_UID, 1000);
    plan_number(&message, PLAN_INNER_GID, 1000);
    box_entry_mounts(&spec, &message);
    return attach_send(backend, id, &record, &message, err);
}

int attach_first(struct backend *backend, const struct spec *spec, const struct slot *slot, struct err *err) {
    return attach_run(backend, spec, slot->pid, slot->start, false, err);
}

int attach_again(struct backend *backend, const struct spec *spec, struct err *err) {
    struct jail_record record;
    struct err own;
    int r = jail_record_read(backend, spec->id, &record);
    if (r < 0 || !process_alive(record.pid, record.start))
        return err_set(err, ERR_GONE, "box %s has no processes", spec->id);
    if (!backend->root)
        return err_set(err, ERR_BUSY,
                       "only a daemon that runs as root can enter a box; the box gets them at its next start");
    if (freeze_is(backend, spec->id))
        return err_set(err, ERR_BUSY, "box %s is paused", spec->id);
    if (!backend->cgroups.freeze && !*backend->cgroups.freezer && !jail_alone(record.pid))
        return err_set(err, ERR_BUSY, "processes run in box %s, and this machine has no freezer to pause them",
                       spec->id);
    r = freeze_hold(backend, spec->id, err);
    if (r == 0)
        r = attach_run(backend, spec, record.pid, record.start, true, err);
    if (freeze_let_go(backend, spec->id, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    return r;
}
