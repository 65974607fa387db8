/* The backend `jail`: boxes of namespaces on this machine. Called by the provider. Invariant: what start made before it
 * failed is gone when it returns; what stop is asked to end has ended when it returns, whatever state it was in.
 *
 * state/boxes/ID/      0700
 *   half/fs            the same while it is being made
 *   fs/                its own files; absent: none yet. The layers: upper, upper.work (the root), upper.0,
 *                      upper.0.work (/usr) ..., skills, skills.work (/skills of an agent's box)
 *   sock               the runner listens here
 *   jail               the record of the live box (struct jail_record); absent: only files are left */
#include "backend/jail/jail.h"

#include <linux/fs.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/base.h"
#include "backend/boxsock.h"
#include "backend/ids.h"
#include "backend/netcapture.h"
#include "backend/jail/probe.h"
#include "base/log.h"
#include "base/sync.h"

/* ---- open, close ---- */

/* Frees whatever jail_open made. */
static void jail_close(struct backend *backend) {
    pool_free(backend->pool);
    reaper_free(backend->reaper);
    slot_early_drop(backend);
    trash_free(backend->trash);
    if (backend->quota.env)
        quota_done(&backend->quota);
    runner_program_close(&backend->program);
    fd_close(&backend->null_fd);
    fd_close(&backend->boxes_dir);
    fd_close(&backend->layers_dir);
    fd_close(&backend->state_dir);
    for (size_t i = 0; i < backend->net_count; i++)
        netplace_close(&backend->nets[i].place);
    free(backend->nets);
    free(backend);
}

static int jail_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    char path[4200];
    int r = probe_jail(env, err), flags = 0;
    if (r < 0)
        return r;
    struct backend *backend = xcalloc(1, sizeof *backend);
    backend->env = env;
    backend->root = geteuid() == 0;
    backend->state_dir = backend->boxes_dir = backend->layers_dir = backend->program.fd = -1;
    pthread_mutex_init(&backend->lock, NULL);
    backend->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (backend->null_fd < 0)
        r = err_errno(err, errno, "/dev/null");
    if (r >= 0)
        r = runner_program_open(&backend->program, env->runner_path, err);
    if (r >= 0 && env->one_shot)
        slot_early(backend);
    if (r >= 0)
        r = backend->state_dir = backend_open_dir(AT_FDCWD, env->state_dir, true, err);
    snprintf(path, sizeof path, "%s/boxes", env->state_dir);
    if (r >= 0)
        r = backend->boxes_dir = backend_open_dir(AT_FDCWD, path, true, err);
    snprintf(path, sizeof path, "%s/layers", env->state_dir);
    if (r >= 0)
        r = backend->layers_dir = backend_open_dir(AT_FDCWD, path, true, err);
    if (r < 0) {
        jail_close(backend);
        return r;
    }
    /* Boxes are independent: ext4 then spreads their files over the disk, where it would otherwise search the same few
     * groups for a free inode again and again. Other file systems do not know the hint. */
    if (ioctl(backend->boxes_dir, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        ioctl(backend->boxes_dir, FS_IOC_SETFLAGS, &flags);
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

/* ---- start ---- */

static struct jail_net *jail_net_find_locked(struct backend *backend, const char *id) {
    for (size_t i = 0; i < backend->net_count; i++)
        if (strcmp(backend->nets[i].id, id) == 0)
            return &backend->nets[i];
    return NULL;
}

/* Takes the descriptors of place; NULL: forgets what was kept. */
static void jail_net_keep(struct backend *backend, const char *id, const struct netplace *place) {
    autolock(&backend->lock);
    struct jail_net *net = jail_net_find_locked(backend, id);
    if (net) {
        netplace_close(&net->place);
        *net = backend->nets[--backend->net_count];
    }
    if (!place)
        return;
    net = &vec_add(backend->nets, backend->net_count, backend->net_size);
    snprintf(net->id, sizeof net->id, "%s", id);
    net->place = *place;
}

/* Removes a file of a box's directory. */
static void jail_unlink(struct backend *backend, const char *id, const char *name) {
    unlinkat(backend->boxes_dir, text_make(64, "%s/%s", id, name), 0);
}

/* 1: the pooled one has ended; try again. */
static int jail_start_once(struct backend *backend, const struct spec *spec, const struct template *template, bool kept,
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
        r = slot_plan(backend, slot, spec, err);
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
    slot_drop(backend, slot);
    jail_unlink(backend, spec->id, "jail");
    jail_unlink(backend, spec->id, "sock");
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
    if (spec->network == NETWORK_POLICY)
        atomic_store(&backend->policies, true);
    bool kept = faccessat(backend->boxes_dir, spec->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    do {
        r = jail_start_once(backend, spec, &template, kept, &slot, err);
    } while (r == 1);
    if (r == -ERR_NOT_FOUND) { /* of a part of it: the box itself exists */
        err->code = ERR_INTERNAL;
        r = err_wrap(err, "box %s cannot start", spec->id);
    }
    if (r < 0)
        return r;
    if (slot.place.wired && spec->network != NETWORK_POLICY)
        netplace_close(&slot.place);
    if (slot.place.net >= 0 || slot.place.wired)
        jail_net_keep(backend, spec->id, &slot.place);
    *ret_wire = slot.wire;
    *ret_pidfd = slot.pidfd;
    return 0;
}

/* ---- the record ---- */

int jail_record_read(struct backend *backend, const char *id, struct jail_record *ret_record) {
    char text[256];
    ssize_t n = fd_read_file(backend->boxes_dir, text_make(64, "%s/jail", id), text, sizeof text);
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

int jail_record_write(struct backend *backend, const char *id, const struct jail_record *record, struct err *err) {
    char text[256];
    const char *path = text_make(64, "%s/jail", id);
    int len =
        snprintf(text, sizeof text, "%d %llu %u %d %d %d %d %d %s %d\n", record->pid, (unsigned long long)record->start,
                 record->slot, record->ranged, record->net, record->v1[CGROUP_MEMORY], record->v1[CGROUP_PIDS],
                 record->v1[CGROUP_CPU], record->cgroup, record->disk);
    int r = fd_replace_file(backend->boxes_dir, path, text, (size_t)len);
    return r < 0 ? err_errno(err, -r, "'boxes/%s'", path) : 0;
}

struct cgroup jail_record_cgroup(const struct jail_record *record) {
    struct cgroup cgroup = {0};
    memcpy(cgroup.name, record->cgroup, sizeof cgroup.name);
    memcpy(cgroup.v1, record->v1, sizeof cgroup.v1);
    return cgroup;
}

/* ---- found again ---- */

/* A connection to the existing runner, the runner itself, and its record. */
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

static int jail_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                         struct err *err) {
    struct jail_record record;
    autofd fd = -1, pidfd = -1;
    int r = 0;
    const char *path = text_make(64, "%s/sock", id);
    /* A record without a socket: a daemon was killed while it ended or started the box, which is not in use. */
    if (text_id(id) && jail_record_read(backend, id, &record) == 0 &&
        faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        r = jail_end(backend, id, WAIT_ALL, err);
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

struct jail_listing {
    int boxes_dir;
    void (*each)(void *user, const char *id);
    void *user;
};

static void jail_list_one(void *user, const char *id) {
    static const char *const marks[] = {"local", "docker", "remote"};
    const struct jail_listing *listing = user;
    char path[64];
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        snprintf(path, sizeof path, "%s/%s", id, marks[i]);
        if (faccessat(listing->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return;
    }
    listing->each(listing->user, id);
}

/* The other backends mark their boxes; any other box is a jail, also where its maker was killed at once. */
static int jail_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    struct jail_listing listing = {.boxes_dir = backend->boxes_dir, .each = each, .user = user};
    return backend_list_boxes(backend->boxes_dir, ".", jail_list_one, &listing, err);
}

/* ---- stop ---- */

static int jail_wait_ended(int pidfd, struct err *err) {
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

/* Kills, and waits if requested. A process in uninterruptible sleep keeps it waiting: BUSY, and the caller may try
 * again. The mount namespace is held during the wait: otherwise PID 1 would unmount everything, and write the files
 * to the disk, before it counts as gone. */
static int jail_end_processes(struct backend *backend, const struct jail_record *record, enum jail_wait wait,
                              struct reaper_job *job, struct err *err) {
    autofd pidfd = process_pidfd(record->pid, record->start), mounts = -1;
    char path[64];
    if (pidfd < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", record->pid); /* of that very process: it is not waited for yet */
    if (wait != WAIT_ALL)
        mounts = open(path, O_RDONLY | O_CLOEXEC);
    bool asleep = wait == WAIT_NONE && process_asleep(record->pid, record->start);
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* PID 1: the kernel ends the rest with it */
    freeze_killed(&backend->cgroups, &job->cgroup);
    if (asleep && jail_alone(record->pid)) { /* from now on it cannot start a process */
        job->pid = record->pid;
        job->start = record->start;
    }
    int r = job->pid ? 0 : jail_wait_ended(pidfd, err);
    if (r == 0)
        job->mounts_fd = fd_take(&mounts);
    return r;
}

bool jail_await(pid_t pid, uint64_t start) {
    struct err err;
    autofd pidfd = process_pidfd(pid, start);
    bool gone = pidfd < 0 || jail_wait_ended(pidfd, &err) == 0;
    if (!gone)
        log_warn("process %d: %s", pid, err.text);
    return gone;
}

/* Whatever runs in a pid namespace is a descendant of its PID 1. */
bool jail_alone(pid_t pid) {
    char text[64];
    return fd_read_file(AT_FDCWD, text_make(80, "/proc/%d/task/%d/children", pid, pid), text, sizeof text) == 0;
}

/* The socket is removed before anything is killed: a record without a socket means that the end was requested, even
 * if this daemon is killed now, and that the runner did not die unexpectedly. */
static int jail_end_recorded(struct backend *backend, const char *id, enum jail_wait wait, struct err *err) {
    struct jail_record record;
    if (jail_record_read(backend, id, &record) < 0)
        return 0;
    jail_unlink(backend, id, "sock");
    jail_net_keep(backend, id, NULL);
    if (!backend->reaper || !record.ranged)
        wait = WAIT_ALL;
    struct reaper_job job = {.mounts_fd = -1,
                             .cgroup = jail_record_cgroup(&record),
                             .slot = record.slot,
                             .net = record.net,
                             .claimed = record.ranged};
    int r = jail_end_processes(backend, &record, wait, &job, err);
    if (r < 0)
        return r;
    if (record.ranged && !ids_inherit(record.slot, record.pid, record.start)) {
        fd_close(&job.mounts_fd); /* cleaned before; the slot may be another box's by now */
        jail_await(job.pid, job.start);
    } else if (wait != WAIT_ALL) {
        reaper_put(backend->reaper, &job);
    } else {
        reaper_run(backend, &job);
    }
    return 0;
}

int jail_end(struct backend *backend, const char *id, enum jail_wait wait, struct err *err) {
    int r = jail_end_recorded(backend, id, wait, err);
    if (r == 0)
        jail_unlink(backend, id, "jail"); /* last: until then stop can be asked again */
    return r;
}

/* Where files stay, nothing is left for later: the next start lays a new overlay over them. */
static int jail_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    if (!text_id(id))
        return err_set(err, ERR_INVALID, "'%.40s' is not a box id", id);
    if (keep_files)
        return jail_end(backend, id, WAIT_ALL, err);
    int r = jail_end_recorded(backend, id, WAIT_PROCESSES, err);
    return r == 0 ? trash_put(backend->trash, backend->boxes_dir, id, err) : r;
}

/* "  eth0: RX-BYTES 7 more TX-BYTES ..." for each interface of its network namespace. */
static void jail_usage_net(pid_t pid, struct usage *usage) {
    char text[16384];
    if (fd_read_file(AT_FDCWD, text_make(64, "/proc/%d/net/dev", pid), text, sizeof text) < 0)
        return;
    usage->has_net = true;
    for (char *line = text, *next; *line; line = next) {
        unsigned long long rx, tx;
        char *name = line + strspn(line, " "), *colon = strchr(line, ':');
        next = line + strcspn(line, "\n");
        if (colon && colon < next && strncmp(name, "lo:", 3) != 0 &&
            sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &rx, &tx) == 2) {
            usage->net_rx_bytes += rx;
            usage->net_tx_bytes += tx;
        }
        next += *next == '\n';
    }
}

static int jail_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    struct jail_record record;
    struct usage usage = {.brief = ret_usage->brief};
    if (!text_id(id) || jail_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "no jail '%s'", id);
    struct cgroup cgroup = jail_record_cgroup(&record);
    cgroup_usage(&backend->cgroups, &cgroup, &usage);
    /* Where the files of a box are limited, they are also counted. Others would have to be traversed. */
    autofd pidfd = record.disk || !usage.brief ? process_pidfd(record.pid, record.start) : -1;
    if (pidfd >= 0 && !usage.brief)
        jail_usage_net(record.pid, &usage);
    autofd root = pidfd < 0 || !record.disk
                      ? -1
                      : open(text_make(64, "/proc/%d/root", record.pid), O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd dir = root < 0 ? -1 : openat(backend->boxes_dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        usage.has_disk = quota_used(dir, root, &usage.disk_bytes) == 0;
    *ret_usage = usage;
    return 0;
}

/* Its user namespace is the owner of the network namespace; a process of the runner enters both. */
static int jail_netplace_user(struct backend *backend, const char *id, struct netplace *ret_place, struct err *err) {
    autolock(&backend->lock);
    const struct jail_net *net = jail_net_find_locked(backend, id);
    if (!net)
        return err_set(
            err, ERR_UNSUPPORTED,
            "the daemon was restarted since box %s started, and an ordinary user cannot enter its network again; "
            "stop and start the box",
            id);
    struct netplace place = {.net = fcntl(net->place.net, F_DUPFD_CLOEXEC, 3),
                             .user = ioctl(net->place.net, NS_GET_USERNS),
                             .program = backend->program.path};
    if (place.net >= 0 && place.user >= 0) {
        *ret_place = place;
        return 0;
    }
    netplace_close(&place);
    return err_errno(err, errno, "the network namespace of box %s", id);
}

/* What was wired ahead is handed out once. */
static void jail_netplace_wired(struct backend *backend, const char *id, struct netplace *place) {
    autolock(&backend->lock);
    struct jail_net *net = jail_net_find_locked(backend, id);
    if (!net)
        return;
    place->wired = net->place.wired;
    memcpy(place->sockets, net->place.sockets, sizeof place->sockets);
    *net = backend->nets[--backend->net_count];
}

static int jail_netplace(struct backend *backend, const char *id, struct netplace *ret_place, struct err *err) {
    struct jail_record record;
    if (!backend->root)
        return jail_netplace_user(backend, id, ret_place, err);
    if (jail_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_GONE, "box %s has no processes", id);
    autofd net = open(text_make(64, "/proc/%d/ns/net", record.pid), O_RDONLY | O_CLOEXEC);
    if (net < 0 || !process_alive(record.pid, record.start)) /* and not another process with its number */
        return err_set(err, ERR_GONE, "box %s has ended", id);
    *ret_place = (struct netplace){.net = fd_take(&net), .user = -1};
    jail_netplace_wired(backend, id, ret_place);
    return 0;
}

/* Recorded before there is anything to take away. */
static int jail_open_network(struct backend *backend, const struct spec *spec, bool open, struct err *err) {
    struct jail_record record;
    char resolv[NET_RESOLV_BYTES];
    if (!backend->root)
        return open ? err_set(err, ERR_UNSUPPORTED, "network 'open' needs cubby to run as root on the host") : 0;
    if (jail_record_read(backend, spec->id, &record) < 0 || !process_alive(record.pid, record.start))
        return err_set(err, ERR_GONE, "box %s has no processes", spec->id);
    if (!open && !net_attached(record.slot))
        return 0;
    if (!open)
        net_detach(record.slot);
    if (!open && net_attached(record.slot))
        return err_set(err, ERR_INTERNAL, "the network device of box %s could not be taken away", spec->id);
    record.net = open;
    TRY(jail_record_write(backend, spec->id, &record, err));
    return !open ? 0
                 : net_attach(record.slot, record.pid, spec->user, backend->env->open_networks, resolv, err)
                       ?: attach_resolv(backend, spec->id, resolv, err);
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
    .keep_ahead = layer_keep_ahead,
    .keep_ahead_end = layer_keep_ahead_end,
    .measure = layer_measure,
    .fresh = layer_fresh,
    .squash = layer_squash,
    .drop_layer = layer_drop,
    .pack = pack_send,
    .unpack = pack_receive,
    .pause = freeze_set,
    .paused = freeze_is,
    .let_go = layer_let_go,
    .attach = attach_again,
    .mount = attach_mounts,
    .netplace = jail_netplace,
    .open_network = jail_open_network,
    .info = jail_info,
};
