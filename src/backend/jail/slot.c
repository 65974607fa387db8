/* Slots: first the half of a jail that can be made before a box is asked for. Called by jail.c and pool.c. Invariant:
 * whatever slot_make acquired, slot_drop releases; the daemon only spawns, never forks. */
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/box_entry.h"
#include "wire/call.h"
#include "wire/frame.h"
#include "wire/plan.h"

static bool slot_take_early(struct backend *backend, struct slot *slot) {
    pthread_mutex_lock(&backend->lock);
    struct slot *early = backend->early;
    backend->early = NULL;
    pthread_mutex_unlock(&backend->lock);
    if (!early)
        return false;
    slot->outer_pid = early->outer_pid;
    slot->stage_fd = early->stage_fd;
    slot->errors_fd = early->errors_fd;
    free(early);
    return true;
}

static int slot_spawn(struct backend *backend, struct slot *slot, struct err *err) {
    int pair[2], errors[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "socketpair");
    slot->stage_fd = pair[0];
    autofd theirs = pair[1];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    slot->errors_fd = errors[0];
    autofd their_errors = errors[1];
    static const char *const argv[] = {"cubby-runner", "enter", "3", NULL};
    return box_entry_spawn(backend->program.path, backend->null_fd, argv, (int[]){theirs, their_errors}, 2,
                           &slot->outer_pid, err);
}

static int slot_cgroup(struct backend *backend, const struct slot_want *want, struct slot *slot, struct err *err) {
    const struct limits *limits = want->limits;
    bool usage = !want->one_shot; /* can be asked for; v2 counts that of the processor */
    bool v1[CGROUP_CONTROLLERS] = {[CGROUP_MEMORY] = usage || limits->memory_mb != 0,
                                   [CGROUP_PIDS] = usage || limits->pids != 0,
                                   [CGROUP_CPU] = usage || limits->cpus > 0}; /* a share of its own */
    const char *name = text_make(32, "%u", slot->number);
    uid_t owner = backend->root ? slot->uid_base + IDS_AGENT : geteuid();
    int r = cgroup_make(&backend->cgroups, name, v1, owner, &slot->cgroup, err);
    slot->has_cgroup = r == 0;
    slot->limits = *limits;
    return r == 0 ? cgroup_limit(&backend->cgroups, &slot->cgroup, &(struct limits){0}, limits, err) : r;
}

static int slot_files(struct backend *backend, const struct slot_want *want, struct slot *slot, struct err *err) {
    char name[sizeof slot->dir];
    if (want->id)
        snprintf(name, sizeof name, "%s", want->id);
    else
        snprintf(name, sizeof name, ".slot-%u", slot->number);
    if (!want->kept)
        memcpy(slot->dir, name, sizeof name); /* goes if the start fails */
    int r = mkdirat(backend->boxes_dir, name, BACKEND_UNFINISHED_MODE);
    if (r < 0 && errno == ENOSPC && syncfs(backend->boxes_dir) == 0) /* freed space counts when it is written (btrfs) */
        r = mkdirat(backend->boxes_dir, name, BACKEND_UNFINISHED_MODE);
    if (r < 0 && errno == EEXIST && !want->id) { /* left by a dead daemon */
        r = trash_put(backend->trash, backend->boxes_dir, name, err);
        if (r == 0)
            r = mkdirat(backend->boxes_dir, name, BACKEND_UNFINISHED_MODE);
    }
    if (r < 0 && !(errno == EEXIST && want->id))
        return err_errno(err, errno, "'boxes/%s'", name);
    autofd dir = openat(backend->boxes_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, errno, "'boxes/%s'", name);
    uint64_t disk_mb = want->limits->disk_mb;
    return want->kept ? quota_again(&backend->quota, dir, disk_mb, &slot->form, err)
                      : quota_make(&backend->quota, dir, disk_mb, want->one_shot, &slot->form, err);
}

/* The message of a failed step; err is set from it, or to `otherwise` when it is empty. */
static int slot_error(struct slot *slot, const char *otherwise, struct err *err) {
    char text[sizeof err->text + 1] = "";
    struct pollfd polls = {.fd = slot->errors_fd, .events = POLLIN};
    ssize_t n = 0;
    if (poll(&polls, 1, 100) == 1)
        n = read(slot->errors_fd, text, sizeof text - 1);
    return box_entry_said(text, n, otherwise, err);
}

/* A message of wire/plan.h, whose first 4 bytes are left for its length. */
static int slot_send(struct slot *slot, struct buf *message, struct err *err) {
    if (message->failed)
        return err_set(err, ERR_TOO_LARGE, "the box's plan is larger than %u bytes", PLAN_MAX_BYTES);
    uint32_t len = (uint32_t)message->len - 4;
    memcpy(message->data, &len, sizeof len);
    for (size_t at = 0; at < message->len;) {
        ssize_t n = fd_send(slot->stage_fd, message->data + at, message->len - at, -1, 0);
        if (n < 0)
            return slot_error(slot, "the runner ended at once", err);
        at += (size_t)n;
    }
    return 0;
}

static int slot_send_first(struct backend *backend, const struct slot_want *want, struct slot *slot, struct err *err) {
    autobuf out;
    char path[4200];
    buf_init(&out, 16384);
    buf_u32(&out, 0);
    plan_number(&out, PLAN_VERSION_KEY, PLAN_VERSION);
    if (backend->root)
        plan_number(&out, PLAN_UID_BASE, slot->uid_base);
    if (*backend->cgroups.v2) {
        cgroup_path(&backend->cgroups, &slot->cgroup, "", path, sizeof path);
        plan_text(&out, PLAN_CGROUP, path);
    }
    if (*backend->cgroups.v2 && backend->cgroups.v2_has[CGROUP_MEMORY]) {
        cgroup_path(&backend->cgroups, &slot->cgroup, "memory.events", path, sizeof path);
        plan_text(&out, PLAN_OOM, path);
    } else if (slot->cgroup.v1[CGROUP_MEMORY]) {
        cgroup_v1_path(&backend->cgroups, &slot->cgroup, CGROUP_MEMORY, "memory.oom_control", path, sizeof path);
        plan_text(&out, PLAN_OOM, path);
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (slot->cgroup.v1[i]) {
            cgroup_v1_path(&backend->cgroups, &slot->cgroup, (enum cgroup_controller)i, "tasks", path, sizeof path);
            plan_text(&out, PLAN_TASKS, path);
        }
    plan_text(&out, PLAN_TEMPLATE, want->template->path);
    struct quota_size size = quota_size(want->limits->disk_mb);
    snprintf(path, sizeof path, "%s/boxes/%s/fs", backend->env->state_dir, want->id ? want->id : slot->dir);
    if (slot->form == QUOTA_MEMORY) {
        plan_number(&out, PLAN_TMPFS_BYTES, size.bytes);
        plan_number(&out, PLAN_TMPFS_INODES, size.inodes);
    } else {
        plan_text(&out, slot->form == QUOTA_IMAGE ? PLAN_DISK : PLAN_LAYERS, path);
    }
    snprintf(path, sizeof path, "%s/boxes/%s", backend->env->state_dir, want->id ? want->id : slot->dir);
    if (!want->one_shot)
        plan_text(&out, PLAN_LISTEN, path);
    for (size_t i = 0; i < TEMPLATE_SYSTEM_MAX && want->template->system[i]; i++)
        plan_text(&out, PLAN_SYSTEM, want->template->system[i]);
    if (backend->root && want->spec && want->spec->agent && slot->form != QUOTA_DIRECTORY)
        plan_number(&out, PLAN_OWN_SHOWN, 1);
    if (want->spec && want->spec->layer_count) {
        snprintf(path, sizeof path, "%s/layers", backend->env->state_dir);
        plan_text(&out, PLAN_STORE, path);
        for (size_t i = 0; i < want->spec->layer_count; i++)
            plan_text(&out, PLAN_LOWER, want->spec->layers[i]);
    }
    return slot_send(slot, &out, err);
}

void slot_drop(struct backend *backend, struct slot *slot) {
    if (slot->pid)
        kill(slot->pid, SIGKILL); /* our child and not waited for yet: the pid is its own */
    fd_close(&slot->stage_fd);    /* stage one ends, and PID 1 with it */
    fd_close(&slot->errors_fd);
    fd_close(&slot->pidfd);
    netplace_close(&slot->place);
    wire_unref(slot->wire);
    if (slot->has_cgroup)
        cgroup_kill(&backend->cgroups, &slot->cgroup);
    if (slot->outer_pid) {
        /* Also a PID 1 that it has made and not reported yet: our child, and of its group. */
        kill(-slot->outer_pid, SIGKILL);
        waitpid(slot->outer_pid, NULL, 0);
    }
    if (slot->pid)
        waitpid(slot->pid, NULL, 0);
    else if (slot->outer_pid)
        waitpid(-slot->outer_pid, NULL, 0);
    if (slot->net)
        net_detach(slot->number);
    if (slot->has_cgroup)
        cgroup_remove(&backend->cgroups, &slot->cgroup);
    if (slot->claimed)
        ids_release(slot->number);
    struct err ignored;
    if (*slot->dir)
        trash_put(backend->trash, backend->boxes_dir, slot->dir, &ignored);
}

int slot_make(struct backend *backend, const struct slot_want *want, struct slot *ret_slot, struct err *err) {
    struct slot slot = {.pidfd = -1, .place = {.net = -1, .user = -1}, .stage_fd = -1, .errors_fd = -1};
    int r = 0;
    if (backend->root) {
        r = ids_claim(backend->env->state_dir, &slot.number, err);
        slot.claimed = r == 0;
        slot.uid_base = IDS_FIRST + slot.number * IDS_PER_BOX;
    } else if (getrandom(&slot.number, sizeof slot.number, 0) < 0) {
        r = err_errno(err, errno, "getrandom");
    }
    snprintf(slot.template_path, sizeof slot.template_path, "%s", want->template->path);
    if (r == 0)
        r = slot_take_early(backend, &slot) ? 0
                                            : slot_spawn(backend, &slot, err); /* it starts while the rest is made */
    if (r == 0)
        r = slot_cgroup(backend, want, &slot, err);
    if (r == 0)
        r = slot_files(backend, want, &slot, err);
    if (r == 0)
        r = slot_send_first(backend, want, &slot, err);
    if (r < 0) {
        slot_drop(backend, &slot);
        return r;
    }
    *ret_slot = slot;
    return 0;
}

void slot_early(struct backend *backend) {
    struct slot *slot = xcalloc(1, sizeof *slot);
    struct err ignored;
    slot->pidfd = slot->place.net = slot->place.user = slot->stage_fd = slot->errors_fd = -1;
    if (slot_spawn(backend, slot, &ignored) == 0) {
        backend->early = slot;
        return;
    }
    slot_drop(backend, slot);
    free(slot);
}

void slot_early_drop(struct backend *backend) {
    if (backend->early)
        slot_drop(backend, backend->early);
    free(backend->early);
    backend->early = NULL;
}

int slot_ready(struct backend *backend, struct slot *slot, struct err *err) {
    if (slot->pid)
        return 0;
    struct pollfd polls = {.fd = slot->stage_fd, .events = POLLIN};
    uint32_t pid;
    if (poll(&polls, 1, JAIL_START_TIMEOUT_MS) != 1)
        return err_set(err, ERR_TIMEOUT, "the runner did not start within %u s", JAIL_START_TIMEOUT_MS / 1000);
    if (fd_recv(slot->stage_fd, &pid, sizeof pid, &slot->place.net, 0) != (ssize_t)sizeof pid)
        return slot_error(slot, "the runner ended before its namespaces were made", err);
    slot->pid = (pid_t)pid;
    slot->start = process_start(slot->pid);
    slot->pidfd =
        (int)syscall(SYS_pidfd_open, slot->pid, 0); /* our child, not waited for: so it is that very process */
    if (slot->pidfd < 0)
        return err_errno(err, errno, "pidfd_open");
    cgroup_favour(&backend->cgroups, &slot->cgroup, slot->pid);
    return backend->root ? ids_assign(slot->number, slot->pid, slot->start, err) : 0;
}

bool slot_alive(const struct slot *slot) {
    struct pollfd polls = {.fd = slot->pidfd, .events = POLLIN};
    return slot->pidfd >= 0 && poll(&polls, 1, 0) == 0;
}

int slot_record(struct backend *backend, struct slot *slot, const char *name, struct err *err) {
    struct jail_record record = {.pid = slot->pid,
                                 .start = slot->start,
                                 .slot = slot->number,
                                 .ranged = backend->root,
                                 .net = slot->net,
                                 .disk = slot->limits.disk_mb != 0};
    memcpy(record.cgroup, slot->cgroup.name, sizeof record.cgroup);
    memcpy(record.v1, slot->cgroup.v1, sizeof record.v1);
    int r = jail_record_write(backend, name, &record, err);
    slot->recorded = r == 0;
    return r;
}

/* ---- the other half: what is special to one box ----
 *
 * A half gets its plan and says HELLO: then its runner serves. Or it gets a plan for no box, and is bound to its box
 * later, for a rename, the limits that differ and one call. Invariant: a blank jail is bound once; on failure the
 * caller drops the slot. */

/* A pooled slot becomes the box's: its directory, whose layers are mounted already and never looked up by name again,
 * and its limits. */
static int slot_take(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err) {
    if (*spec->id && *slot->dir && strcmp(slot->dir, spec->id) != 0) {
        if (renameat2(backend->boxes_dir, slot->dir, backend->boxes_dir, spec->id, RENAME_NOREPLACE) < 0)
            return err_errno(err, errno, "'boxes/%s'", spec->id);
        snprintf(slot->dir, sizeof slot->dir, "%s", spec->id); /* goes if the start fails */
    }
    int r = cgroup_limit(&backend->cgroups, &slot->cgroup, &slot->limits, &spec->limits, err);
    if (r == 0)
        slot->limits = spec->limits;
    return r;
}

int slot_plan(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err) {
    char resolv[NET_RESOLV_BYTES] = "";
    int r = slot_take(backend, slot, spec, err);
    if (r == 0 && spec->network == NETWORK_OPEN) {
        r = slot_ready(backend, slot, err);
        slot->net = r == 0;
        if (r == 0)
            r = net_attach(slot->number, slot->pid, spec->user, backend->env->open_networks, resolv, err);
        slot->recorded = false;
    }
    if (r < 0)
        return r;
    const struct {
        enum plan_key key;
        uint64_t value;
    } rows[] = {{PLAN_MEMORY, spec->limits.memory_mb << 20},
                {PLAN_PIDS, spec->limits.pids},
                {PLAN_OPEN_FILES, spec->limits.open_files},
                {PLAN_TERMINALS, spec->limits.terminals},
                {PLAN_BLANK, !*spec->id}};
    autobuf out = buf_max(PLAN_MAX_BYTES);
    buf_u32(&out, 0);
    for (size_t i = 0; i < spec->env_count; i++)
        plan_text(&out, PLAN_ENV, spec->env[i]);
    if (spec->shell)
        plan_text(&out, PLAN_SHELL, spec->shell);
    if (spec->workspace)
        plan_text(&out, PLAN_WORKSPACE, spec->workspace);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value)
            plan_number(&out, rows[i].key, rows[i].value);
    box_entry_mounts(spec, &out);
    if (*resolv)
        plan_text(&out, PLAN_RESOLV, resolv);
    if (spec->agent && !backend->root)
        box_entry_skills(backend->env->state_dir, spec, &out);
    return slot_send(slot, &out, err);
}

int slot_greet(struct backend *backend, struct slot *slot, const char *name, struct err *err) {
    int r = slot_ready(backend, slot, err);
    if (r == 0 && !slot->recorded)
        r = slot_record(backend, slot, name, err);
    if (r < 0)
        return r;
    int stage_fd = slot->stage_fd;
    slot->stage_fd = -1;
    r = wire_new(stage_fd, WIRE_PASS_ROOT, JAIL_START_TIMEOUT_MS, &slot->wire, err);
    if (r < 0) {
        char text[sizeof err->text];
        memcpy(text, err->text, sizeof text);
        return slot_error(slot, text, err);
    }
    if (backend->root)
        wire_set_ids(slot->wire, slot->uid_base + IDS_AGENT, slot->uid_base + IDS_AGENT);
    fd_close(&slot->errors_fd);
    return 0;
}

void slot_part(struct backend *backend, struct slot *slot, bool later) {
    if (!later || !backend->reaper)
        waitpid(slot->outer_pid, NULL, 0);
    else if (waitpid(slot->outer_pid, NULL, WNOHANG) == 0) /* once only: the number may soon be another child's */
        reaper_put(backend->reaper, &(struct reaper_job){.mounts_fd = -1, .outer_pid = slot->outer_pid});
    slot->outer_pid = 0;
}

int slot_plan_blank(struct backend *backend, struct slot *slot, struct err *err) {
    struct spec nobody = {.limits = slot->limits,
                          .workspace = *slot->workspace ? slot->workspace : NULL,
                          .user = slot->net_user,
                          .network = *slot->net_user ? NETWORK_OPEN : NETWORK_NONE};
    return slot_plan(backend, slot, &nobody, err);
}

bool slot_plain(const struct spec *spec) {
    return spec->mount_count == 0 && !spec->one_shot && (!spec->workspace || strlen(spec->workspace) < SLOT_WORKSPACE);
}

/* Whatever fails here is reported when a policy is asked for. */
void slot_wire_ahead(struct slot *slot) {
    slot->place.net = open(text_make(64, "/proc/%d/ns/net", slot->pid), O_RDONLY | O_CLOEXEC);
    if (slot->place.net >= 0)
        netcapture_prepare(&slot->place, ERR_IGNORED);
    fd_close(&slot->place.net);
}

int slot_bind(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err) {
    int r = slot_take(backend, slot, spec, err);
    if (r < 0)
        return r;
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    for (size_t i = 0; i < spec->env_count; i++)
        field_text(&args, FIELD_ENV, spec->env[i]);
    if (spec->shell)
        field_text(&args, FIELD_SHELL, spec->shell);
    field_number(&args, FIELD_LIMIT, spec->limits.pids);
    field_number(&args, FIELD_FILES, spec->limits.open_files);
    return call_post(slot->wire, OP_BIND, &args, err);
}
