/* A jail's processes stand still, or go on: the freezer of cgroup v2, or that of v1 where v2 has none. Called by jail.c.
 * Invariant: what could not be frozen whole goes on whole; and the state is the kernel's, so it outlives daemons.
 *
 * On v2 a box is frozen where it is, its runner included, and SIGKILL ends frozen processes. On v1 the freezer is a
 * hierarchy of its own, which boxes enter when they are first paused (entering costs each process a grace period of
 * RCU); there a killed process ends only when it is let go. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

enum { FREEZE_MS = 5000, PIDS_BYTES = 1 << 20, LOOK_MS = 2, ALONE_MS = 300 };

static int freeze_v2(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err);
static int freeze_v1(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err);
static bool asked_v1(const struct cgroup_host *host, const struct cgroup *cgroup);

/* The group of a box that lives; -ENOENT: there is none. */
static int live_cgroup(struct backend *backend, const char *id, struct cgroup *ret_cgroup) {
    struct jail_record record;
    int r = text_id(id) ? jail_record_read(backend, id, &record) : -ENOENT;
    if (r < 0 || !process_alive(record.pid, record.start))
        return -ENOENT;
    *ret_cgroup = jail_record_cgroup(&record);
    return 0;
}

int freeze_set(struct backend *backend, const char *id, bool pause, struct err *err) {
    const struct cgroup_host *host = &backend->cgroups;
    struct cgroup cgroup;
    if (live_cgroup(backend, id, &cgroup) < 0)
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
    char path[600], text[16];
    if ((!host->freeze && !*host->freezer) || live_cgroup(backend, id, &cgroup) < 0)
        return false;
    if (!host->freeze)
        return asked_v1(host, &cgroup);
    cgroup_path(host, &cgroup, "cgroup.freeze", path, sizeof path);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && *text == '1';
}

/* ---- for work of a daemon's own ---- */

/* The mark of a daemon that froze the box for its own work. It outlives the daemon, and tells its freeze from a pause. */
static void held_path(char path[32], const char *id) {
    snprintf(path, 32, "%.16s/held", id);
}

/* What kept a command together where there is no cgroup ends a moment after its answer: it is waited for. */
bool freeze_alone(struct backend *backend, pid_t pid) {
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
    uint64_t until_ms = clock_ms() + ALONE_MS;
    bool can = backend->cgroups.freeze || *backend->cgroups.freezer, alone;
    while (!(alone = jail_alone(pid)) && !can && clock_ms() < until_ms)
        nanosleep(&pause, NULL);
    return alone;
}

/* Where nothing can be frozen, nothing but the runner may be there: it changes no file by itself. */
static int hold_alone(struct backend *backend, const char *id, struct err *err) {
    struct jail_record record;
    if (jail_record_read(backend, id, &record) == 0 && freeze_alone(backend, record.pid))
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "cannot keep the files of box %.16s while processes run in it: this daemon cannot freeze them (no "
                   "cgroup); end what runs there (`cubby session rm %.16s NAME`, or kill it), or run cubbyd as root or "
                   "with Delegate=yes",
                   id, id);
}

int freeze_hold(struct backend *backend, const char *id, struct err *err) {
    char path[32];
    struct err ignored;
    if (!backend->cgroups.freeze && !*backend->cgroups.freezer)
        return hold_alone(backend, id, err);
    held_path(path, id);
    autofd mark = openat(backend->boxes_dir, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = mark < 0 ? err_errno(err, errno, "'boxes/%s'", path) : freeze_set(backend, id, true, err);
    if (r < 0)
        freeze_let_go(backend, id, &ignored);
    return r;
}

int freeze_let_go(struct backend *backend, const char *id, struct err *err) {
    char path[32];
    held_path(path, id);
    if (faccessat(backend->boxes_dir, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    int r = freeze_set(backend, id, false, err);
    unlinkat(backend->boxes_dir, path, 0);
    return r;
}

static int still_moving(struct err *err) {
    return err_set(err, ERR_BUSY, "the box's processes do not stand still within %d s; it goes on", FREEZE_MS / 1000);
}

/* ---- v2 ---- */

static bool is_frozen(int events, bool frozen) {
    char text[256];
    ssize_t n = pread(events, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, frozen ? "frozen 1" : "frozen 0") != NULL;
}

/* A process in the middle of a disk's answer stands still when it has it. */
static bool wait_frozen(int events, bool frozen) {
    uint64_t until_ms = clock_ms() + FREEZE_MS;
    while (!is_frozen(events, frozen)) {
        uint64_t now_ms = clock_ms();
        struct pollfd polls = {.fd = events, .events = POLLPRI};
        if (now_ms >= until_ms || (poll(&polls, 1, (int)(until_ms - now_ms)) < 0 && errno != EINTR))
            return false;
    }
    return true;
}

static int freeze_v2(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err) {
    char path[600], path_events[600];
    cgroup_path(host, cgroup, "cgroup.freeze", path, sizeof path);
    cgroup_path(host, cgroup, "cgroup.events", path_events, sizeof path_events);
    autofd events = open(path_events, O_RDONLY | O_CLOEXEC);
    if (events < 0)
        return err_errno(err, errno, "'%s'", path_events);
    int r = fd_write_file(AT_FDCWD, path, pause ? "1" : "0");
    if (r < 0)
        return err_errno(err, -r, "'%s'", path);
    if (wait_frozen(events, pause))
        return 0;
    if (pause)
        fd_write_file(AT_FDCWD, path, "0");
    return still_moving(err);
}

/* ---- v1 ---- */

static void freezer_path(const struct cgroup_host *host, const struct cgroup *cgroup, const char *file, char *out,
                         size_t size) {
    snprintf(out, size, "%s/%s/%s", host->freezer, cgroup->name, file);
}

static bool state_is(const char *path, const char *state) {
    char text[32];
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && strncmp(text, state, strlen(state)) == 0;
}

static bool asked_v1(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    freezer_path(host, cgroup, "freezer.state", path, sizeof path);
    return state_is(path, "FR"); /* FROZEN, FREEZING */
}

struct pids {
    char from[PIDS_BYTES], to[PIDS_BYTES]; /* one a line */
};

static bool listed(const char *list, const char *pid) {
    size_t len = strlen(pid);
    for (const char *at = list; (at = strstr(at, pid)); at += len)
        if ((at == list || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

/* Whoever enters a frozen group freezes. A process that is not in yet may have children meanwhile: passes until a look
 * finds nobody outside. Number of those that were, or -errno. */
static int gather(const char *from, const char *to, struct pids *pids) {
    int outside = 0;
    ssize_t n = fd_read_file(AT_FDCWD, to, pids->to, sizeof pids->to);
    if (n >= 0) /* second: whoever left the box's list meanwhile has ended */
        n = fd_read_file(AT_FDCWD, from, pids->from, sizeof pids->from);
    if (n < 0)
        return (int)n;
    char *rest = pids->from;
    for (char *pid; (pid = strsep(&rest, "\n"));) {
        if (!*pid || listed(pids->to, pid))
            continue;
        outside++;
        int r = fd_write_file(AT_FDCWD, to, pid);
        if (r < 0 && r != -ESRCH)
            return r;
    }
    return outside;
}

static int gather_all(const struct cgroup_host *host, const struct cgroup *cgroup, uint64_t until_ms, struct err *err) {
    char from[600] = "", to[600];
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (cgroup->v1[i])
            cgroup_v1_path(host, cgroup, (enum cgroup_controller)i, "cgroup.procs", from, sizeof from);
    if (!*from)
        return err_set(err, ERR_UNSUPPORTED, "this box has no cgroup by which its processes could be found");
    freezer_path(host, cgroup, "cgroup.procs", to, sizeof to);
    struct pids *pids = xmalloc(sizeof *pids);
    int r;
    do
        r = gather(from, to, pids);
    while (r > 0 && clock_ms() < until_ms);
    free(pids);
    return r < 0 ? err_errno(err, -r, "'%s'", to) : r > 0 ? still_moving(err) : 0;
}

/* The v1 freezer tells nobody when it is through: it is asked. */
static int wait_v1(const char *path, const char *state, uint64_t until_ms, struct err *err) {
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
    while (!state_is(path, state)) {
        if (clock_ms() >= until_ms)
            return still_moving(err);
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int freeze_v1(const struct cgroup_host *host, const struct cgroup *cgroup, bool pause, struct err *err) {
    uint64_t until_ms = clock_ms() + FREEZE_MS;
    char path[600];
    freezer_path(host, cgroup, "", path, sizeof path);
    if (!pause && access(path, F_OK) < 0)
        return 0;
    if (pause && mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", path);
    freezer_path(host, cgroup, "freezer.state", path, sizeof path);
    int r = fd_write_file(AT_FDCWD, path, pause ? "FROZEN" : "THAWED");
    if (r < 0)
        return err_errno(err, -r, "'%s'", path);
    r = pause ? gather_all(host, cgroup, until_ms, err) : 0;
    if (r == 0)
        r = wait_v1(path, pause ? "FROZEN" : "THAWED", until_ms, err);
    if (r < 0 && pause)
        fd_write_file(AT_FDCWD, path, "THAWED");
    return r;
}

void freeze_killed(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    if (host->freeze || !*host->freezer)
        return;
    freezer_path(host, cgroup, "freezer.state", path, sizeof path);
    fd_write_file(AT_FDCWD, path, "THAWED");
}
