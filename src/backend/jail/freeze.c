/* Freezes and thaws a jail's processes: by the freezer of cgroup v2, or that of v1 where v2 has none. Called by jail.c.
 * Invariants: a box that could not be frozen whole is thawed whole; the kernel keeps the state, so that it outlives
 * daemons.
 *
 * On v2 a box is frozen where it is, its runner included, and SIGKILL ends frozen processes. On v1 the freezer is a
 * hierarchy of its own, which boxes enter when they are first paused (entering costs each process a grace period of
 * RCU); there a killed process ends only when it is thawed. */
#include <poll.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"

enum { FREEZE_MS = 5000, PIDS_BYTES = 1 << 20, LOOK_MS = 2, ALONE_MS = 300 };

struct freeze_pids {
    char from[PIDS_BYTES], to[PIDS_BYTES]; /* one a line */
};

/* The group of a live box; false: it has no processes. */
static bool freeze_cgroup(struct backend *backend, const char *id, struct cgroup *ret_cgroup) {
    struct jail_record record;
    if (!text_id(id) || jail_record_read(backend, id, &record) < 0 || !process_alive(record.pid, record.start))
        return false;
    *ret_cgroup = jail_record_cgroup(&record);
    return true;
}

static int freeze_late(struct err *err) {
    return err_set(err, ERR_BUSY, "the box's processes could not be frozen within %d s; it continues to run",
                   FREEZE_MS / 1000);
}

static int freeze_v2(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err) {
    char path[600], path_events[600], text[256];
    const char *wanted = pause ? "frozen 1" : "frozen 0";
    cgroup_path(host, cgroup, "cgroup.freeze", path, sizeof path);
    cgroup_path(host, cgroup, "cgroup.events", path_events, sizeof path_events);
    autofd events = open(path_events, O_RDONLY | O_CLOEXEC);
    if (events < 0)
        return err_errno(err, errno, "'%s'", path_events);
    int r = fd_write_file(AT_FDCWD, path, pause ? "1" : "0");
    if (r < 0)
        return err_errno(err, -r, "'%s'", path);
    for (uint64_t until_ms = clock_ms() + FREEZE_MS;;) { /* a process that waits for a disk is frozen after that */
        ssize_t n = pread(events, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = 0;
        if (strstr(text, wanted))
            return 0;
        uint64_t now_ms = clock_ms();
        struct pollfd polls = {.fd = events, .events = POLLPRI};
        if (now_ms >= until_ms || (poll(&polls, 1, (int)(until_ms - now_ms)) < 0 && errno != EINTR))
            break;
    }
    if (pause)
        fd_write_file(AT_FDCWD, path, "0");
    return freeze_late(err);
}

static void freeze_v1_path(const struct cgroup_host *host, const struct cgroup *cgroup, const char *file, char *out,
                           size_t size) {
    snprintf(out, size, "%s/%s/%s", host->freezer, cgroup->name, file);
}

static bool freeze_listed(const char *list, const char *pid) {
    size_t len = strlen(pid);
    for (const char *at = list; (at = strstr(at, pid)); at += len)
        if ((at == list || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

/* A process that enters a frozen group freezes. One that is not in it yet may fork: repeats until a pass finds none
 * outside. The number of those that were, or -errno. */
static int freeze_gather_once(const char *from, const char *to, struct freeze_pids *pids) {
    int outside = 0;
    ssize_t n = fd_read_file(AT_FDCWD, to, pids->to, sizeof pids->to);
    if (n >= 0) /* second: a process that left the box's list has ended */
        n = fd_read_file(AT_FDCWD, from, pids->from, sizeof pids->from);
    if (n < 0)
        return (int)n;
    char *rest = pids->from;
    for (char *pid; (pid = strsep(&rest, "\n"));) {
        if (!*pid || freeze_listed(pids->to, pid))
            continue;
        outside++;
        int r = fd_write_file(AT_FDCWD, to, pid);
        if (r < 0 && r != -ESRCH)
            return r;
    }
    return outside;
}

static int freeze_gather(const struct cgroup_host *host, const struct cgroup *cgroup, uint64_t until_ms,
                         struct err *err) {
    char from[600] = "", to[600];
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (cgroup->v1[i])
            cgroup_v1_path(host, cgroup, (enum cgroup_controller)i, "cgroup.procs", from, sizeof from);
    if (!*from)
        return err_set(err, ERR_UNSUPPORTED, "this box has no cgroup by which its processes could be found");
    freeze_v1_path(host, cgroup, "cgroup.procs", to, sizeof to);
    struct freeze_pids *pids = xmalloc(sizeof *pids);
    int r;
    do
        r = freeze_gather_once(from, to, pids);
    while (r > 0 && clock_ms() < until_ms);
    free(pids);
    return r < 0 ? err_errno(err, -r, "'%s'", to) : r > 0 ? freeze_late(err) : 0;
}

static bool freeze_state_is(const char *path, const char *state) {
    char text[32];
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && strncmp(text, state, strlen(state)) == 0;
}

static int freeze_v1(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err) {
    const char *wanted = pause ? "FROZEN" : "THAWED";
    struct timespec look = {.tv_nsec = LOOK_MS * 1000000l};
    uint64_t until_ms = clock_ms() + FREEZE_MS;
    char path[600];
    freeze_v1_path(host, cgroup, "", path, sizeof path);
    if (!pause && access(path, F_OK) < 0)
        return 0;
    if (pause && mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", path);
    freeze_v1_path(host, cgroup, "freezer.state", path, sizeof path);
    int r = fd_write_file(AT_FDCWD, path, wanted);
    if (r < 0)
        return err_errno(err, -r, "'%s'", path);
    r = pause ? freeze_gather(host, cgroup, until_ms, err) : 0;
    while (r == 0 && !freeze_state_is(path, wanted)) { /* the v1 freezer does not notify */
        if (clock_ms() >= until_ms)
            r = freeze_late(err);
        nanosleep(&look, NULL);
    }
    if (r < 0 && pause)
        fd_write_file(AT_FDCWD, path, "THAWED");
    return r;
}

int freeze_set(struct backend *backend, const char *id, bool pause, struct err *err) {
    const struct cgroup_host *host = &backend->cgroups;
    struct cgroup cgroup;
    if (!freeze_cgroup(backend, id, &cgroup))
        return err_set(err, ERR_GONE, "box %.16s has no processes", id);
    if (host->freeze)
        return freeze_v2(host, &cgroup, pause, err);
    if (*host->freezer)
        return freeze_v1(host, &cgroup, pause, err);
    return err_set(err, ERR_UNSUPPORTED,
                   "pausing a box needs cgroup v2 with cgroup.freeze (Linux 5.2), or the v1 controller 'freezer'; run "
                   "cubby as root or delegate a cgroup to it (systemd: Delegate=yes)");
}

bool freeze_is(struct backend *backend, const char *id) {
    const struct cgroup_host *host = &backend->cgroups;
    struct cgroup cgroup;
    char path[600];
    if ((!host->freeze && !*host->freezer) || !freeze_cgroup(backend, id, &cgroup))
        return false;
    if (host->freeze)
        cgroup_path(host, &cgroup, "cgroup.freeze", path, sizeof path);
    else
        freeze_v1_path(host, &cgroup, "freezer.state", path, sizeof path);
    return freeze_state_is(path, host->freeze ? "1" : "FR"); /* FROZEN, FREEZING */
}

/* ---- for the daemon's own work ---- */

/* Where there is no cgroup, the process that supervises a command ends a moment after its answer: waits for it. */
bool freeze_alone(struct backend *backend, pid_t pid) {
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
    uint64_t until_ms = clock_ms() + ALONE_MS;
    bool can = backend->cgroups.freeze || *backend->cgroups.freezer, alone;
    while (!(alone = jail_alone(pid)) && !can && clock_ms() < until_ms)
        nanosleep(&pause, NULL);
    return alone;
}

int freeze_let_go(struct backend *backend, const char *id, struct err *err) {
    const char *path = text_make(32, "%.16s/held", id);
    if (faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    int r = freeze_set(backend, id, false, err);
    unlinkat(backend->boxes_dir, path, 0);
    return r;
}

int freeze_hold(struct backend *backend, const char *id, struct err *err) {
    struct jail_record record;
    struct err ignored;
    if (!backend->cgroups.freeze && !*backend->cgroups.freezer) {
        /* Only the runner may be there: it changes no file by itself. */
        if (jail_record_read(backend, id, &record) == 0 && freeze_alone(backend, record.pid))
            return 0;
        return err_set(err, ERR_UNSUPPORTED,
                       "cannot keep the files of box %.16s while processes run in it: this daemon cannot freeze them "
                       "(no cgroup); end them (`cubby session rm %.16s NAME`, or kill), or run cubbyd as root or with "
                       "Delegate=yes",
                       id, id);
    }
    /* The mark outlives the daemon, and distinguishes its freeze from a pause. */
    const char *path = text_make(32, "%.16s/held", id);
    autofd mark = openat(backend->boxes_dir, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = mark < 0 ? err_errno(err, errno, "'boxes/%s'", path) : freeze_set(backend, id, true, err);
    if (r < 0)
        freeze_let_go(backend, id, &ignored);
    return r;
}

/* ---- v1 ---- */

void freeze_killed(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    if (host->freeze || !*host->freezer)
        return;
    freeze_v1_path(host, cgroup, "freezer.state", path, sizeof path);
    fd_write_file(AT_FDCWD, path, "THAWED");
}
