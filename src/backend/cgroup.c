/* Control groups of boxes. Called by jail*.c and probe.c. Invariant: a limit is either written or an error; and no
 * process is ever moved by its pid (that waits for RCU): boxes are born in their groups. */
#include "backend/cgroup.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "base/sched_latency.h"
#include "base/sync.h"

#define PERIOD_US 100000
#define V1_SHARES 1024l /* of one program with the default nice value */

#define DAEMON_LEAF "cubby-daemon"

const char *const cgroup_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

/* ---- what there is ---- */

static bool cgroup_is_type(const char *path, long type) {
    struct statfs system;
    return statfs(path, &system) == 0 && (long)system.f_type == type;
}

/* Makes our directory in a hierarchy of v1. */
static void cgroup_probe_v1(const char *controller, char ret_path[64]) {
    char path[64];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", controller);
    if (!cgroup_is_type(path, CGROUP_SUPER_MAGIC))
        return;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/cubby", controller);
    if (mkdir(path, 0755) == 0 || (errno == EEXIST && access(path, W_OK) == 0))
        memcpy(ret_path, path, sizeof path);
}

static bool cgroup_has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[len] == 0 || at[len] == ' ' || at[len] == '\n'))
            return true;
    return false;
}

/* In cgroup v2 a group that gives controllers to groups below it must not hold processes itself, unless it is the
 * machine's root. So in a group that was given to us (a delegated one, a container's) all its processes move into a
 * leaf. */
static bool cgroup_empty(const char *parent) {
    char path[600], text[65536];
    snprintf(path, sizeof path, "%s/" DAEMON_LEAF, parent);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return false;
    snprintf(path, sizeof path, "%s/cgroup.procs", parent);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    snprintf(path, sizeof path, "%s/" DAEMON_LEAF "/cgroup.procs", parent);
    char *rest = text;
    for (char *pid; (pid = strsep(&rest, "\n"));)
        if (*pid)
            fd_write_file(AT_FDCWD, path, pid); /* it has ended, or stays: then the kernel refuses again */
    return true;
}

/* Controllers for boxes. Asking the kernel what is on is cheaper than turning it on again. */
static void cgroup_enable(struct cgroup_host *host, const char *parent) {
    char above[512], own[512], have[512], on[512], text[32];
    snprintf(above, sizeof above, "%s/cgroup.controllers", parent);
    snprintf(own, sizeof own, "%s/cgroup.subtree_control", host->v2);
    if (fd_read_file(AT_FDCWD, above, have, sizeof have) <= 0 || fd_read_file(AT_FDCWD, own, on, sizeof on) < 0)
        return;
    snprintf(above, sizeof above, "%s/cgroup.subtree_control", parent);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        snprintf(text, sizeof text, "+%s", cgroup_names[i]);
        host->v2_has[i] = cgroup_has_word(on, cgroup_names[i]);
        if (host->v2_has[i] || !cgroup_has_word(have, cgroup_names[i]))
            continue;
        int r = fd_write_file(AT_FDCWD, above, text); /* is on already, or cannot be: the last write decides */
        if (r == -EBUSY && cgroup_empty(parent))
            fd_write_file(AT_FDCWD, above, text);
        host->v2_has[i] = fd_write_file(AT_FDCWD, own, text) == 0;
    }
}

static void cgroup_probe_v2(struct cgroup_host *host, const char *root) {
    char parent[400], path[600], text[4096];
    snprintf(parent, sizeof parent, "%s", geteuid() == 0 ? root : "");
    if (geteuid() != 0 && fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) >= 0) {
        char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
        if (line && (line = strchr(line, '/'))) {
            line[strcspn(line, "\n")] = 0;
            char *leaf = strrchr(line, '/');
            if (!leaf[1] || strcmp(leaf, "/" DAEMON_LEAF) == 0) /* the root, or moved by cgroup_empty: one above */
                *leaf = 0;
            snprintf(parent, sizeof parent, "%s%s", root, line);
        }
    }
    snprintf(path, sizeof path, "%s/cubby", parent);
    if (mkdir(path, 0755) < 0 && !(errno == EEXIST && access(path, W_OK) == 0)) {
        snprintf(host->why_not, sizeof host->why_not, "'%.100s' cannot be made: %s", path, strerror(errno));
        return;
    }
    snprintf(host->v2, sizeof host->v2, "%s/cubby", parent);
    cgroup_enable(host, parent);
    /* cgroup.kill came with 5.14; only non-root groups have it */
    snprintf(path, sizeof path, "%s/cgroup.kill", host->v2);
    host->kill = access(path, W_OK) == 0;
    snprintf(path, sizeof path, "%s/cgroup.freeze", host->v2);
    host->freeze = access(path, W_OK) == 0;
}

void cgroup_probe(struct cgroup_host *ret_host) {
    struct cgroup_host host = {0};
    char path[96], text[32];
    bool v2 = cgroup_is_type("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC);
    if (v2 || cgroup_is_type("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC))
        cgroup_probe_v2(&host, v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified");
    else
        snprintf(host.why_not, sizeof host.why_not, "cgroup v2 is not mounted");
    for (int i = 0; !v2 && i < CGROUP_CONTROLLERS; i++)
        cgroup_probe_v1(cgroup_names[i], host.v1[i]);
    if (!v2 && !host.freeze) /* elsewhere boxes need not be in a further hierarchy */
        cgroup_probe_v1("freezer", host.freezer);
    /* All boxes together weigh as much as one busy program a processor. By default they would weigh as much as one
     * program of the host, and a single busy one would take half the machine from them. (On v2 programs of the host are
     * in groups themselves, and the default is a fair share.) A share is not a limit: where it cannot be set, nothing
     * is promised. */
    snprintf(path, sizeof path, "%s/cpu.shares", host.v1[CGROUP_CPU]);
    snprintf(text, sizeof text, "%ld", V1_SHARES * sysconf(_SC_NPROCESSORS_ONLN));
    if (*host.v1[CGROUP_CPU])
        fd_write_file(AT_FDCWD, path, text);
    *ret_host = host;
}

bool cgroup_can(const struct cgroup_host *host, enum cgroup_controller controller) {
    return (*host->v2 && host->v2_has[controller]) || *host->v1[controller];
}

int cgroup_check(const struct cgroup_host *host, const struct limits *limits, struct err *err) {
    const bool wanted[CGROUP_CONTROLLERS] = {limits->memory_mb != 0, limits->pids != 0, limits->cpus != 0};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (wanted[i] && !cgroup_can(host, (enum cgroup_controller)i))
            return err_set(err, ERR_UNSUPPORTED,
                           "a %s limit needs the cgroup controller '%s', which cubby cannot use here; run cubby as "
                           "root or delegate the controller (systemd: Delegate=yes)",
                           cgroup_names[i], cgroup_names[i]);
    return 0;
}

/* ---- one box's ---- */

void cgroup_path(const struct cgroup_host *host, const struct cgroup *cgroup, const char *file, char *out,
                 size_t size) {
    snprintf(out, size, "%s/%s/%s", host->v2, cgroup->name, file);
}

void cgroup_v1_path(const struct cgroup_host *host, const struct cgroup *cgroup, enum cgroup_controller controller,
                    const char *file, char *out, size_t size) {
    snprintf(out, size, "%s/%s/%s", host->v1[controller], cgroup->name, file);
}

static void cgroup_each_in(const char *path, void (*each)(void *user, const char *name), void *user) {
    autodir *dir = *path ? fd_opendir(AT_FDCWD, path, 0) : NULL;
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            each(user, entry->d_name);
}

/* user: the path above it. The kernel refuses where there are processes. */
enum { GAUGES = 96 }; /* three a box */

/* A file that was read before stays open: reading it again takes a fifth of opening, reading and closing it. The file of
 * a group that has ended fails with ENODEV, even where a new group has its name. Without a place for it, or while
 * another thread reads there, a file is opened for this once. */
static struct gauge {
    pthread_mutex_t lock;
    char *path; /* read last */
    int fd;     /* of `path`, if that was read twice */
} gauges[GAUGES] = {[0 ... GAUGES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1}};

void cgroup_gauges_close(const char *name) {
    for (size_t i = 0; i < GAUGES; i++) {
        pthread_mutex_lock(&gauges[i].lock);
        if (gauges[i].path && strstr(gauges[i].path, name)) {
            fd_close(&gauges[i].fd);
            free(gauges[i].path);
            gauges[i].path = NULL;
        }
        pthread_mutex_unlock(&gauges[i].lock);
    }
}

static void cgroup_remove_leaf(void *user, const char *name) {
    rmdir(text_make(900, "%s/%s", (const char *)user, name));
}

bool cgroup_kill(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    if (!*host->v2 || !host->kill)
        return false;
    cgroup_path(host, cgroup, "cgroup.kill", path, sizeof path);
    return fd_write_file(AT_FDCWD, path, "1") == 0;
}

/* The leaves of commands first. Their processes are gone, or are just exiting: a few tries. A process that is left
 * after that was outside the box's pid namespace, which should not happen, and is killed. */
static void cgroup_remove_v2(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    cgroup_path(host, cgroup, "", path, sizeof path);
    for (int tries = 0; tries < 100 && rmdir(path) < 0 && errno != ENOENT; tries++) {
        cgroup_each_in(path, cgroup_remove_leaf, path);
        if (tries == 1)
            cgroup_kill(host, cgroup);
        if (tries > 2)
            usleep(1000);
    }
}

void cgroup_remove(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    cgroup_gauges_close(cgroup->name);
    if (*host->v2)
        cgroup_remove_v2(host, cgroup);
    for (int i = 0; i <= CGROUP_CONTROLLERS; i++) {
        bool freezer = i == CGROUP_CONTROLLERS;
        if (freezer ? !*host->freezer : !cgroup->v1[i] || !*host->v1[i])
            continue;
        snprintf(path, sizeof path, "%s/%s", freezer ? host->freezer : host->v1[i], cgroup->name);
        for (int tries = 0; tries < 100 && rmdir(path) < 0 && errno == EBUSY; tries++)
            usleep(1000);
    }
}

int cgroup_make(const struct cgroup_host *host, const char *name, const bool v1[CGROUP_CONTROLLERS], uid_t owner,
                struct cgroup *ret_cgroup, struct err *err) {
    struct cgroup cgroup = {0};
    char path[600];
    int r = 0;
    snprintf(cgroup.name, sizeof cgroup.name, "%s", name);
    for (int i = 0; r == 0 && i < CGROUP_CONTROLLERS; i++) {
        if (!v1[i] || !*host->v1[i])
            continue;
        cgroup_v1_path(host, &cgroup, (enum cgroup_controller)i, "", path, sizeof path);
        r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        cgroup.v1[i] = r == 0;
    }
    if (r == 0 && *host->v2) {
        cgroup_path(host, &cgroup, "", path, sizeof path);
        r = mkdir(path, 0755) < 0 ? -errno : 0;
        if (r == -EEXIST) { /* left by a box that was cut short; a killed group cannot be born into */
            cgroup_kill(host, &cgroup);
            cgroup_remove_v2(host, &cgroup);
            r = mkdir(path, 0755) < 0 ? -errno : 0;
        }
    }
    if (r == 0 && *host->v2 && owner != geteuid()) { /* the runner makes leaves, and moves into them */
        r = chown(path, owner, owner) < 0 ? -errno : 0;
        cgroup_path(host, &cgroup, "cgroup.procs", path, sizeof path);
        if (r == 0)
            r = chown(path, owner, owner) < 0 ? -errno : 0;
    }
    if (r < 0) {
        cgroup_remove(host, &cgroup);
        return err_errno(err, -r, "'%s'", path);
    }
    *ret_cgroup = cgroup;
    return 0;
}

/* The path of a limit, on the hierarchy that has its controller. */
static bool cgroup_file(const struct cgroup_host *host, const struct cgroup *cgroup, enum cgroup_controller controller,
                        const char *v2, const char *v1, char path[600]) {
    bool on_v2 = *host->v2 && host->v2_has[controller];
    if (on_v2)
        cgroup_path(host, cgroup, v2, path, 600);
    else
        cgroup_v1_path(host, cgroup, controller, v1, path, 600);
    return on_v2;
}

/* Limits that belong to memory. Where the kernel has no such file, nothing can evade the limit that way. */
static int cgroup_limit_beside(const struct cgroup_host *host, const struct cgroup *cgroup, uint64_t bytes,
                               struct err *err) {
    const struct {
        const char *v2, *v1;
        uint64_t v2_number, v1_number;
    } rows[] = {
        {"memory.swap.max", "memory.memsw.limit_in_bytes", 0,
         bytes},                                                 /* v2 counts swap apart, v1 together with memory */
        {NULL, "memory.kmem.tcp.limit_in_bytes", 0, bytes / 4}}; /* v1 counts sockets apart, and only when limited */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[600], text[32];
        bool on_v2 = cgroup_file(host, cgroup, CGROUP_MEMORY, rows[i].v2 ? rows[i].v2 : "", rows[i].v1, path);
        if (on_v2 && !rows[i].v2)
            continue;
        snprintf(text, sizeof text, "%llu", (unsigned long long)(on_v2 ? rows[i].v2_number : rows[i].v1_number));
        int r = fd_write_file(AT_FDCWD, path, bytes ? text : on_v2 ? "max" : "-1");
        if (r < 0 && r != -ENOENT)
            return err_errno(err, -r, "cannot set the memory limit ('%s')", path);
    }
    return 0;
}

int cgroup_limit(const struct cgroup_host *host, const struct cgroup *cgroup, const struct limits *was,
                 const struct limits *limits, struct err *err) {
    char text[64], path[600];
    const struct {
        double was, now; /* 0: none */
        enum cgroup_controller controller;
        const char *v2, *v1, *v1_none;
        unsigned long long number;
    } rows[] = {{(double)was->memory_mb, (double)limits->memory_mb, CGROUP_MEMORY, "memory.max",
                 "memory.limit_in_bytes", "-1", (unsigned long long)limits->memory_mb << 20},
                {(double)was->pids, (double)limits->pids, CGROUP_PIDS, "pids.max", "pids.max", "max", limits->pids},
                {was->cpus, limits->cpus, CGROUP_CPU, "cpu.max", "cpu.cfs_quota_us", "-1",
                 (unsigned long long)(limits->cpus * PERIOD_US)}};
    bool memory = was->memory_mb != limits->memory_mb;
    int r = 0;
    if (memory && was->memory_mb) /* first: the memory limit cannot exceed that of both */
        r = cgroup_limit_beside(host, cgroup, 0, err);
    for (size_t i = 0; r == 0 && i < sizeof rows / sizeof *rows; i++) {
        if (!(rows[i].was < rows[i].now) && !(rows[i].was > rows[i].now))
            continue;
        bool on_v2 = cgroup_file(host, cgroup, rows[i].controller, rows[i].v2, rows[i].v1, path);
        snprintf(text, sizeof text, "%llu", rows[i].number);
        r = fd_write_file(AT_FDCWD, path, rows[i].now > 0 ? text : on_v2 ? "max" : rows[i].v1_none);
        if (r < 0)
            r = err_errno(err, -r, "cannot set the %s limit ('%s')", cgroup_names[rows[i].controller], path);
    }
    if (r == 0 && memory && limits->memory_mb)
        r = cgroup_limit_beside(host, cgroup, limits->memory_mb << 20, err);
    return r;
}

/* Among thousands of spinning commands it would wait seconds for its turn. Before them only inside a group of its own:
 * there it takes from its own box alone. */
void cgroup_favour(const struct cgroup_host *host, const struct cgroup *cgroup, pid_t pid) {
    sched_latency_set(pid, cgroup->v1[CGROUP_CPU] || (*host->v2 && host->v2_has[CGROUP_CPU]), false);
}

/* ---- leftovers ---- */

void cgroup_each(const struct cgroup_host *host, void (*each)(void *user, const char *name), void *user) {
    cgroup_each_in(host->v2, each, user);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        cgroup_each_in(host->v1[i], each, user);
    cgroup_each_in(host->freezer, each, user);
}

bool cgroup_sweep(const struct cgroup_host *host, const char *name) {
    char path[600];
    bool stays = false;
    for (int i = -2; i < CGROUP_CONTROLLERS; i++) {
        const char *top = i == -2 ? host->freezer : i == -1 ? host->v2 : host->v1[i];
        if (!*top)
            continue;
        snprintf(path, sizeof path, "%s/%s", top, name);
        cgroup_each_in(path, cgroup_remove_leaf, path);
        stays |= rmdir(path) < 0 && errno != ENOENT;
    }
    return !stays;
}

/* ---- usage ---- */

static ssize_t cgroup_gauge_read(const char *path, char *text, size_t size) {
    uint64_t hash = 0;
    for (const char *at = path; *at; at++)
        hash = hash * 31 + (unsigned char)*at;
    struct gauge *gauge = &gauges[hash % GAUGES];
    if (pthread_mutex_trylock(&gauge->lock) != 0)
        return fd_read_file(AT_FDCWD, path, text, size);
    bool again = gauge->path && strcmp(gauge->path, path) == 0;
    ssize_t n = again ? pread(gauge->fd, text, size - 1, 0) : -1;
    if (n < 0) {
        fd_close(&gauge->fd);
        autofd fd = open(path, O_RDONLY | O_CLOEXEC);
        n = pread(fd, text, size - 1, 0);
        if (again && n >= 0)
            gauge->fd = fd_take(&fd);
        if (!again) {
            free(gauge->path);
            gauge->path = xstrdup(path);
        }
    }
    pthread_mutex_unlock(&gauge->lock);
    text[n < 0 ? 0 : n] = 0;
    return n;
}

bool cgroup_number(const char *path, const char *key, uint64_t *ret_number) {
    char text[4096];
    const char *at = cgroup_gauge_read(path, text, sizeof text) > 0 ? text : NULL;
    while (at && strncmp(at, key, strlen(key)) != 0)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    if (!at)
        return false;
    char *end;
    errno = 0;
    uint64_t number = strtoull(at + strlen(key), &end, 10);
    if (end == at + strlen(key) || errno)
        return false;
    *ret_number = number;
    return true;
}

/* io.stat: "8:0 rbytes=1 wbytes=2 rios=..." for each disk. */
static void cgroup_io(const char *path, struct usage *usage) {
    char text[4096];
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return;
    usage->has_io = true;
    for (const char *at = text; (at = strstr(at, "bytes=")); at += 6) {
        uint64_t *sum = at > text && at[-1] == 'r'   ? &usage->read_bytes
                        : at > text && at[-1] == 'w' ? &usage->write_bytes
                                                     : NULL;
        if (sum)
            *sum += strtoull(at + 6, NULL, 10);
    }
}

void cgroup_usage(const struct cgroup_host *host, const struct cgroup *cgroup, struct usage *usage) {
    char path[600];
    if (*host->v2) { /* cpu.stat is there without any controller */
        cgroup_path(host, cgroup, "cpu.stat", path, sizeof path);
        usage->has_cpu = cgroup_number(path, "usage_usec ", &usage->cpu_ms);
        usage->cpu_ms /= 1000;
    }
    if (cgroup->v1[CGROUP_MEMORY] || (*host->v2 && host->v2_has[CGROUP_MEMORY])) {
        cgroup_file(host, cgroup, CGROUP_MEMORY, "memory.current", "memory.usage_in_bytes", path);
        usage->has_memory = cgroup_number(path, "", &usage->memory_bytes);
    }
    if (usage->has_memory && !usage->brief) {
        cgroup_file(host, cgroup, CGROUP_MEMORY, "memory.stat", "memory.stat", path);
        cgroup_number(path, cgroup->v1[CGROUP_MEMORY] ? "total_cache " : "file ", &usage->cache_bytes);
        cgroup_file(host, cgroup, CGROUP_MEMORY, "memory.events", "memory.oom_control", path);
        cgroup_number(path, "oom_kill ", &usage->oom_kills);
    }
    if (*host->v2 && !usage->brief) {
        cgroup_path(host, cgroup, "io.stat", path, sizeof path);
        cgroup_io(path, usage);
    }
    if (cgroup->v1[CGROUP_PIDS] || (*host->v2 && host->v2_has[CGROUP_PIDS])) {
        cgroup_file(host, cgroup, CGROUP_PIDS, "pids.current", "pids.current", path);
        usage->has_pids = cgroup_number(path, "", &usage->pids);
    }
}
