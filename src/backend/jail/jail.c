/* The backend `jail`: boxes of namespaces on this machine. Called by the provider. Invariant: what start made before
 * it failed is gone when it returns; what stop is asked to end has ended when it returns, whatever state it was in.
 *
 * state/boxes/ID/      0700
 *   half/fs            the same while it is being made
 *   fs/                its own files; absent: none yet. The layers: upper, upper.work (the root), upper.0, upper.0.work (/usr) ...,
 *                      skills, skills.work (/skills of an agent's box)
 *   sock               the runner listens here
 *   jail               the record of the live box (struct jail_record); absent: only files are left */
#include "backend/jail/jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/boxsock.h"
#include "backend/ids.h"
#include "backend/jail/layer.h"
#include "backend/jail/leftover.h"
#include "backend/jail/probe.h"
#include "backend/jail/reaper.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/plan.h"

/* ---- open, close ---- */

static int open_dir(const char *path, int *ret_fd, struct err *err) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", path);
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? err_errno(err, errno, "'%s'", path) : 0;
}

/* Boxes have nothing to do with each other: ext4 then spreads their files over the disk, where it would otherwise search
 * the same few groups for a free inode again and again. Other file systems do not know the hint. */
static void spread(int dir) {
    int flags = 0;
    if (ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        ioctl(dir, FS_IOC_SETFLAGS, &flags);
    }
}

static int jail_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    int r = probe_jail(env, err);
    if (r < 0)
        return r;
    struct backend *backend = xcalloc(1, sizeof *backend);
    backend->env = env;
    backend->root = geteuid() == 0;
    backend->state_dir = backend->boxes_dir = backend->layers_dir = -1;
    backend->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    pthread_mutex_init(&backend->lock, NULL);
    backend->image.fd = -1;
    r = backend->null_fd < 0 ? err_errno(err, errno, "/dev/null") : image_open(&backend->image, env->runner_path, err);
    if (r == 0 && env->one_shot)
        slot_early(backend);
    char path[4200];
    if (r == 0)
        r = open_dir(env->state_dir, &backend->state_dir, err);
    snprintf(path, sizeof path, "%s/boxes", env->state_dir);
    if (r == 0)
        r = open_dir(path, &backend->boxes_dir, err);
    if (r == 0)
        spread(backend->boxes_dir);
    snprintf(path, sizeof path, "%s/layers", env->state_dir);
    if (r == 0)
        r = open_dir(path, &backend->layers_dir, err);
    if (r < 0) {
        slot_early_drop(backend);
        fd_close(&backend->null_fd);
        fd_close(&backend->boxes_dir);
        fd_close(&backend->state_dir);
        image_close(&backend->image);
        free(backend);
        return r;
    }
    cgroup_probe(&backend->cgroups);
    quota_init(&backend->quota, env);
    snprintf(path, sizeof path, "%s/trash", env->state_dir);
    backend->trash = trash_new(path);
    backend->reaper = backend->root && env->pool_size ? reaper_new(backend) : NULL;
    backend->pool = pool_new(backend);
    *ret_backend = backend;
    return 0;
}

static void jail_close(struct backend *backend) {
    pool_free(backend->pool);
    reaper_free(backend->reaper);
    slot_early_drop(backend);
    trash_free(backend->trash);
    quota_done(&backend->quota);
    image_close(&backend->image);
    fd_close(&backend->null_fd);
    fd_close(&backend->boxes_dir);
    fd_close(&backend->layers_dir);
    fd_close(&backend->state_dir);
    free(backend);
}

/* ---- start ---- */

static void start_undo(struct backend *backend, const char *id, struct slot *slot) {
    char path[64];
    slot_drop(backend, slot);
    snprintf(path, sizeof path, "%s/jail", id);
    unlinkat(backend->boxes_dir, path, 0);
    snprintf(path, sizeof path, "%s/sock", id);
    unlinkat(backend->boxes_dir, path, 0);
}

/* 1: the pooled one ended under our hands; come again. */
static int start_once(struct backend *backend, const struct spec *spec, const struct template *template, bool kept,
                      struct slot *slot, struct err *err) {
    struct slot_want want = {.template = template,
                             .id = spec->id,
                             .kept = kept,
                             .spec = spec,
                             .limits = &spec->limits,
                             .one_shot = spec->one_shot};
    bool fresh = !kept && spec->layer_count == 0;
    bool pooled = fresh && pool_take(backend->pool, template, spec, slot);
    int r = pooled ? 0 : slot_make(backend, &want, slot, err);
    if (r < 0)
        return r;
    if (slot->wire) {
        r = slot_bind(backend, slot, spec, err);
    } else {
        r = slot_tell(backend, slot, spec, err);
        if (r == 0)
            r = slot_greet(backend, slot, spec->id, err);
        if (r == 0)
            slot_part(backend, slot, true);
    }
    if (r == 0 && spec->agent && backend->root)
        r = attach_first(backend, spec, slot, err);
    if (r == 0)
        return 0;
    bool gone = pooled && !slot_alive(slot);
    start_undo(backend, spec->id, slot);
    return gone ? 1 : r;
}

static int jail_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                      struct err *err) {
    struct template template;
    struct slot slot;
    const struct quota_method *method;
    int r = cgroup_check(&backend->cgroups, &spec->limits, err);
    if (r == 0 && spec->limits.disk_mb)
        r = quota_find(&backend->quota, spec->one_shot, &method, err);
    if (r == 0 && spec->network == NETWORK_OPEN && !backend->root)
        r = err_set(err, ERR_UNSUPPORTED, "network 'open' needs cubby to run as root on the host");
    if (r == 0)
        r = template_find(backend->env, spec->template_name ? spec->template_name : "host", &template, err);
    if (r < 0)
        return r;
    bool kept = faccessat(backend->boxes_dir, spec->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    do {
        r = start_once(backend, spec, &template, kept, &slot, err);
    } while (r == 1);
    if (r == -ERR_NOT_FOUND) { /* a part of it, which is our affair: the box itself is there */
        err->code = ERR_INTERNAL;
        r = err_wrap(err, "box %s cannot start", spec->id);
    }
    if (r < 0)
        return r;
    *ret_wire = slot.wire;
    *ret_pidfd = slot.pidfd;
    return 0;
}

/* ---- the record ---- */

int jail_record_read(struct backend *backend, const char *id, struct jail_record *ret_record) {
    char path[64], text[256];
    snprintf(path, sizeof path, "%s/jail", id);
    ssize_t n = fd_read_file(backend->boxes_dir, path, text, sizeof text);
    if (n < 0)
        return (int)n;
    struct jail_record record = {0};
    unsigned long long start;
    int ranged, net, disk = 0, v1[CGROUP_CONTROLLERS];
    if (sscanf(text, "%d %llu %u %d %d %d %d %d %31s %d", &record.pid, &start, &record.slot, &ranged, &net, &v1[0],
               &v1[1], &v1[2], record.cgroup, &disk) < 9) /* the last is newer */
        return -EBADMSG;
    record.start = start;
    record.ranged = ranged;
    record.net = net;
    record.disk = disk;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        record.v1[i] = v1[i];
    *ret_record = record;
    return 0;
}

struct cgroup jail_record_cgroup(const struct jail_record *record) {
    struct cgroup cgroup = {0};
    memcpy(cgroup.name, record->cgroup, sizeof cgroup.name);
    memcpy(cgroup.v1, record->v1, sizeof cgroup.v1);
    return cgroup;
}

/* ---- found again ---- */

/* A connection to the runner that is there, the runner itself, and what is written of it. */
static int jail_reach(struct backend *backend, const char *id, struct jail_record *ret_record, int *ret_fd,
                      int *ret_pidfd, struct err *err) {
    struct jail_record record;
    int r = text_id(id) ? jail_record_read(backend, id, &record) : -ENOENT;
    if (r < 0)
        return err_set(err, r == -ENOENT ? ERR_NOT_FOUND : ERR_GONE, "no jail '%s'", id);
    autofd pidfd = process_pidfd(record.pid, record.start);
    if (pidfd < 0)
        return err_set(err, ERR_GONE, "the runner of jail '%s' is gone", id);
    autofd dir = openat(backend->boxes_dir, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = boxsock_connect(dir, ret_fd);
    if (r < 0)
        return err_set(err, ERR_GONE, "the runner of jail '%s' does not answer: %s", id, strerror(-r));
    *ret_record = record;
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

static int jail_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err) {
    struct jail_record record;
    autofd pidfd = -1;
    return jail_reach(backend, id, &record, ret_fd, &pidfd, err);
}

/* Somebody who was killed had begun to end it, or to start it: nobody uses it. */
static bool jail_half(struct backend *backend, const char *id) {
    struct jail_record record;
    char path[64];
    snprintf(path, sizeof path, "%s/sock", id);
    return text_id(id) && jail_record_read(backend, id, &record) == 0 &&
           faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int jail_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                         struct err *err) {
    struct jail_record record;
    autofd fd = -1, pidfd = -1;
    int r = jail_half(backend, id) ? jail_end(backend, id, WAIT_ALL, err) : 0;
    if (r == 0)
        r = jail_reach(backend, id, &record, &fd, &pidfd, err);
    struct wire *wire;
    if (r == 0)
        r = wire_new(fd_take(&fd), WIRE_PASS_ROOT, JAIL_START_TIMEOUT_MS, &wire, err);
    if (r < 0)
        return r;
    if (record.ranged) {
        uid_t agent = IDS_FIRST + record.slot * IDS_PER_BOX + IDS_AGENT;
        wire_set_ids(wire, agent, agent);
    }
    *ret_wire = wire;
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

struct listing {
    int boxes_dir;
    void (*each)(void *user, const char *id);
    void *user;
};

static void list_ours(void *user, const char *id) {
    static const char *const marks[] = {"local", "docker", "remote"};
    const struct listing *listing = user;
    char path[64];
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        snprintf(path, sizeof path, "%s/%s", id, marks[i]);
        if (faccessat(listing->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return;
    }
    listing->each(listing->user, id);
}

/* The other backends mark their own; whatever else is there is a jail's, also where its maker was killed at once. */
static int jail_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    struct listing listing = {.boxes_dir = backend->boxes_dir, .each = each, .user = user};
    return backend_list_boxes(backend->boxes_dir, ".", list_ours, &listing, err);
}

/* ---- stop ---- */

static void send_kill(struct backend *backend, const struct jail_record *record, int pidfd) {
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* PID 1: the kernel ends the rest with it */
    struct cgroup cgroup = jail_record_cgroup(record);
    freeze_killed(&backend->cgroups, &cgroup);
}

static int wait_ended(int pidfd, struct err *err) {
    struct pollfd polls = {.fd = pidfd, .events = POLLIN};
    int n;
    while ((n = poll(&polls, 1, 10000)) < 0 && errno == EINTR)
        ;
    if (n == 0)
        return err_set(err, ERR_BUSY, "the box's processes do not end; try again");
    siginfo_t info;
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED); /* ECHILD when an earlier daemon was its parent */
    return 0;
}

/* Kills, and waits where that is asked for. A process in uninterruptible sleep keeps it waiting: BUSY, and the caller may
 * come again. The mount namespace is held meanwhile: otherwise PID 1 would take all mounts apart, and write their files to
 * the disk, before it counts as gone. */
static int end_processes(struct backend *backend, const struct jail_record *record, enum jail_wait wait,
                         struct remains *remains, struct err *err) {
    autofd pidfd = process_pidfd(record->pid, record->start), mounts = -1;
    if (pidfd < 0)
        return 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt",
             record->pid); /* of that very process, as long as it is not waited for */
    if (wait != WAIT_ALL)
        mounts = open(path, O_RDONLY | O_CLOEXEC);
    bool asleep = wait == WAIT_NONE && process_asleep(record->pid, record->start);
    send_kill(backend, record, pidfd);
    if (asleep && jail_alone(record->pid)) { /* from now on it starts nobody */
        remains->pid = record->pid;
        remains->start = record->start;
    }
    int r = remains->pid ? 0 : wait_ended(pidfd, err);
    if (r == 0)
        remains->mounts_fd = fd_take(&mounts);
    return r;
}

bool jail_await(pid_t pid, uint64_t start) {
    struct err err;
    autofd pidfd = process_pidfd(pid, start);
    bool gone = pidfd < 0 || wait_ended(pidfd, &err) == 0;
    if (!gone)
        log_warn("process %d: %s", pid, err.text);
    return gone;
}

/* Whatever runs in a pid namespace is a descendant of its PID 1. */
bool jail_alone(pid_t pid) {
    char path[80], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) == 0;
}

static int end_box(struct backend *backend, const struct jail_record *record, enum jail_wait wait, struct err *err) {
    if (!backend->reaper || !record->ranged)
        wait = WAIT_ALL;
    struct remains remains = {.mounts_fd = -1,
                              .cgroup = jail_record_cgroup(record),
                              .slot = record->slot,
                              .net = record->net,
                              .claimed = record->ranged};
    int r = end_processes(backend, record, wait, &remains, err);
    if (r < 0)
        return r;
    if (record->ranged && !ids_inherit(record->slot, record->pid, record->start)) {
        fd_close(&remains.mounts_fd); /* cleaned before; the slot may be another box's by now */
        jail_await(remains.pid, remains.start);
    } else if (wait != WAIT_ALL) {
        reaper_put(backend->reaper, &remains);
    } else {
        reaper_bury(backend, &remains);
    }
    return 0;
}

/* The socket goes before anything is killed: a record without one says that the end was asked for, whoever is killed
 * meanwhile, and that the runner did not die by itself. */
static int end_recorded(struct backend *backend, const char *id, enum jail_wait wait, struct err *err) {
    struct jail_record record;
    char path[64];
    if (jail_record_read(backend, id, &record) < 0)
        return 0;
    snprintf(path, sizeof path, "%s/sock", id);
    unlinkat(backend->boxes_dir, path, 0);
    return end_box(backend, &record, wait, err);
}

int jail_end(struct backend *backend, const char *id, enum jail_wait wait, struct err *err) {
    int r = end_recorded(backend, id, wait, err);
    if (r < 0)
        return r;
    char path[64];
    snprintf(path, sizeof path, "%s/jail", id); /* last: until then stop can be asked again */
    unlinkat(backend->boxes_dir, path, 0);
    return 0;
}

/* Nothing of a box whose files stay is left for later: its next start lays a new overlay over them. */
static int jail_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    if (!text_id(id))
        return err_set(err, ERR_INVALID, "'%.40s' is no id of a box", id);
    if (keep_files)
        return jail_end(backend, id, WAIT_ALL, err);
    int r = end_recorded(backend, id, WAIT_PROCESSES, err);
    return r == 0 ? trash_put(backend->trash, backend->boxes_dir, id, err) : r;
}

/* Where the files of a box are bounded, they are also counted. Those that are not would have to be walked through. */
static void disk_usage(struct backend *backend, const char *id, const struct jail_record *record, struct usage *usage) {
    char path[64];
    autofd pidfd = record->disk ? process_pidfd(record->pid, record->start) : -1;
    snprintf(path, sizeof path, "/proc/%d/root", record->pid);
    autofd root = pidfd < 0 ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd dir = root < 0 ? -1 : openat(backend->boxes_dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        usage->has_disk = quota_used(dir, root, &usage->disk_bytes) == 0;
}

static int jail_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    struct jail_record record;
    if (!text_id(id) || jail_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "no jail '%s'", id);
    struct cgroup cgroup = jail_record_cgroup(&record);
    struct usage usage = {0};
    cgroup_usage(&backend->cgroups, &cgroup, &usage);
    disk_usage(backend, id, &record, &usage);
    *ret_usage = usage;
    return 0;
}

static void jail_info(const struct backend_env *env, struct backend *backend, struct json *json) {
    probe_info(env, backend != NULL, json);
}

const struct backend_ops backend_jail = {
    .name = "jail",
    .open = jail_open,
    .close = jail_close,
    .start = jail_start,
    .discover = jail_discover,
    .connect = jail_connect,
    .stop = jail_stop,
    .list = jail_list,
    .clean = leftover_clean,
    .usage = jail_usage,
    .files = layer_files,
    .keep = layer_keep,
    .measure = layer_measure,
    .fresh = layer_fresh,
    .squash = layer_squash,
    .drop_layer = layer_drop,
    .pause = freeze_set,
    .paused = freeze_is,
    .let_go = freeze_let_go,
    .attach = attach_again,
    .info = jail_info,
};
