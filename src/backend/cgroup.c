/* Control groups of boxes. Called by jail*.c and probe.c. Invariant: a limit is either written or an error; and no
 * process is ever moved by its pid (that waits for RCU): boxes are born in their groups. */
#include "backend/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sched_latency.h"

#define PERIOD_US 100000
#define V1_SHARES 1024l /* of one program that nobody has reniced */

#define DAEMON_LEAF "cubby-daemon"

const char *const cgroup_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

static bool is_type(const char *path, long type);
static void weigh_v1(const struct cgroup_host *host);
static void probe_freezer(struct cgroup_host *host);
static void remove_v2(const struct cgroup_host *host, const struct cgroup *cgroup);
static void probe_v2(struct cgroup_host *host, const char *root);
static void enable(struct cgroup_host *host, const char *parent);
static bool has_word(const char *list, const char *word);
static bool make_room(const char *parent);
static void own_v2(const char *root, char *out, size_t size);
static int write_limit(const char *path, const char *text, const char *what, struct err *err);
static uint64_t read_number(const char *path, const char *key, bool *ret_has);

/* ---- what there is ---- */

void cgroup_probe(struct cgroup_host *ret_host) {
    struct cgroup_host host = {0};
    if (is_type("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) {
        probe_v2(&host, "/sys/fs/cgroup");
    } else {
        if (is_type("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC))
            probe_v2(&host, "/sys/fs/cgroup/unified");
        else
            snprintf(host.why_not, sizeof host.why_not, "cgroup v2 is not mounted");
        for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
            char path[64];
            snprintf(path, sizeof path, "/sys/fs/cgroup/%s", cgroup_names[i]);
            if (!is_type(path, CGROUP_SUPER_MAGIC))
                continue;
            snprintf(path, sizeof path, "/sys/fs/cgroup/%s/cubby", cgroup_names[i]);
            if (mkdir(path, 0755) == 0 || (errno == EEXIST && access(path, W_OK) == 0))
                memcpy(host.v1[i], path, sizeof path);
        }
        weigh_v1(&host);
        probe_freezer(&host);
    }
    *ret_host = host;
}

/* All boxes together weigh as much as one busy program a processor. By default they would weigh as much as one program
 * of the host, and a single busy one would take half the machine from them. (On v2 programs of the host are in groups
 * themselves, and the default is a fair share among them.) */
static void weigh_v1(const struct cgroup_host *host) {
    char path[96], text[32];
    if (!*host->v1[CGROUP_CPU])
        return;
    snprintf(path, sizeof path, "%s/cpu.shares", host->v1[CGROUP_CPU]);
    snprintf(text, sizeof text, "%ld", V1_SHARES * sysconf(_SC_NPROCESSORS_ONLN));
    fd_write_file(AT_FDCWD, path, text); /* a share and not a limit: worse without, and nothing promised */
}

/* Only where v2 cannot freeze: boxes need not be in a further hierarchy elsewhere. */
static void probe_freezer(struct cgroup_host *host) {
    static const char path[] = "/sys/fs/cgroup/freezer/cubby";
    if (!host->freeze && is_type("/sys/fs/cgroup/freezer", CGROUP_SUPER_MAGIC) &&
        (mkdir(path, 0755) == 0 || (errno == EEXIST && access(path, W_OK) == 0)))
        memcpy(host->freezer, path, sizeof path);
}

static bool is_type(const char *path, long type) {
    struct statfs system;
    return statfs(path, &system) == 0 && (long)system.f_type == type;
}

static void probe_v2(struct cgroup_host *host, const char *root) {
    char parent[400] = "";
    if (geteuid() == 0)
        snprintf(parent, sizeof parent, "%s", root);
    else
        own_v2(root, parent, sizeof parent);
    char path[600];
    snprintf(path, sizeof path, "%s/cubby", parent);
    if (mkdir(path, 0755) < 0 && !(errno == EEXIST && access(path, W_OK) == 0)) {
        snprintf(host->why_not, sizeof host->why_not, "'%.100s' cannot be made: %s", path, strerror(errno));
        return;
    }
    snprintf(host->v2, sizeof host->v2, "%s/cubby", parent);
    enable(host, parent);
    /* cgroup.kill came with 5.14; only non-root groups have it */
    snprintf(path, sizeof path, "%s/cgroup.kill", host->v2);
    host->kill = access(path, W_OK) == 0;
    snprintf(path, sizeof path, "%s/cgroup.freeze", host->v2);
    host->freeze = access(path, W_OK) == 0;
}

/* Controllers for boxes. Asking the kernel what is on is cheaper than turning it on again. */
static void enable(struct cgroup_host *host, const char *parent) {
    char above[512], own[512], have[512], on[512], text[32];
    snprintf(above, sizeof above, "%s/cgroup.controllers", parent);
    snprintf(own, sizeof own, "%s/cgroup.subtree_control", host->v2);
    if (fd_read_file(AT_FDCWD, above, have, sizeof have) <= 0 || fd_read_file(AT_FDCWD, own, on, sizeof on) < 0)
        return;
    snprintf(above, sizeof above, "%s/cgroup.subtree_control", parent);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        snprintf(text, sizeof text, "+%s", cgroup_names[i]);
        host->v2_has[i] = has_word(on, cgroup_names[i]);
        if (host->v2_has[i] || !has_word(have, cgroup_names[i]))
            continue;
        int r = fd_write_file(AT_FDCWD, above, text); /* is on already, or cannot be: the last line tells */
        if (r == -EBUSY && make_room(parent))
            fd_write_file(AT_FDCWD, above, text);
        host->v2_has[i] = fd_write_file(AT_FDCWD, own, text) == 0;
    }
}

/* In cgroup v2 a group that gives controllers to groups below it may hold no process of its own, unless it is the
 * machine's root. So in a group that was given to us (a delegated one, a container's) whoever is in it, ourselves above
 * all, moves into a leaf. */
static bool make_room(const char *parent) {
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
            fd_write_file(AT_FDCWD, path, pid); /* has ended meanwhile, or stays: the kernel tells by refusing again */
    return true;
}

static bool has_word(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[len] == 0 || at[len] == ' ' || at[len] == '\n'))
            return true;
    return false;
}

static void own_v2(const char *root, char *out, size_t size) {
    char text[4096];
    if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
        return;
    char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return;
    line = strchr(line, '/');
    if (!line)
        return;
    line[strcspn(line, "\n")] = 0;
    char *leaf = strrchr(line, '/');
    if (!leaf[1] || strcmp(leaf, "/" DAEMON_LEAF) ==
                        0) /* the root itself, or moved there by make_room: our group is the one above */
        *leaf = 0;
    snprintf(out, size, "%s%s", root, line);
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

int cgroup_make(const struct cgroup_host *host, const char *name, const bool v1[CGROUP_CONTROLLERS], uid_t owner,
                struct cgroup *ret_cgroup, struct err *err) {
    struct cgroup cgroup = {0};
    char path[600];
    snprintf(cgroup.name, sizeof cgroup.name, "%s", name);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!v1[i] || !*host->v1[i])
            continue;
        cgroup_v1_path(host, &cgroup, (enum cgroup_controller)i, "", path, sizeof path);
        if (mkdir(path, 0755) < 0 && errno != EEXIST) {
            int saved = errno;
            cgroup_remove(host, &cgroup);
            return err_errno(err, saved, "'%s'", path);
        }
        cgroup.v1[i] = true;
    }
    if (*host->v2) {
        cgroup_path(host, &cgroup, "", path, sizeof path);
        int r = mkdir(path, 0755);
        if (r < 0 && errno == EEXIST) { /* left by a box that was cut short; one that was killed cannot be born into */
            cgroup_kill(host, &cgroup);
            remove_v2(host, &cgroup);
            r = mkdir(path, 0755);
        }
        int number = errno;
        if (r == 0 && owner != geteuid()) { /* the runner makes leaves, and moves into them */
            r = chown(path, owner, owner);
            cgroup_path(host, &cgroup, "cgroup.procs", path, sizeof path);
            if (r == 0)
                r = chown(path, owner, owner);
            number = errno;
        }
        if (r < 0) {
            cgroup_remove(host, &cgroup);
            return err_errno(err, number, "'%s'", path);
        }
    }
    *ret_cgroup = cgroup;
    return 0;
}

/* What goes with the limit of memory. Where the kernel has no such file there is nothing to go around the limit with. */
static int limit_beside_memory(const struct cgroup_host *host, const struct cgroup *cgroup, uint64_t bytes,
                               struct err *err) {
    const struct {
        bool v2;
        const char *file, *none;
        uint64_t number;
    } rows[] = {
        {true, "memory.swap.max", "max", 0},                       /* v2 counts swap apart ... */
        {false, "memory.memsw.limit_in_bytes", "-1", bytes},       /* ... v1 together with memory */
        {false, "memory.kmem.tcp.limit_in_bytes", "-1", bytes / 4} /* v1 counts sockets apart, and only when limited */
    };
    bool on_v2 = *host->v2 && host->v2_has[CGROUP_MEMORY];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[600], text[32];
        if (rows[i].v2 != on_v2)
            continue;
        if (on_v2)
            cgroup_path(host, cgroup, rows[i].file, path, sizeof path);
        else
            cgroup_v1_path(host, cgroup, CGROUP_MEMORY, rows[i].file, path, sizeof path);
        snprintf(text, sizeof text, "%llu", (unsigned long long)rows[i].number);
        int r = fd_write_file(AT_FDCWD, path, bytes ? text : rows[i].none);
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
    if (memory && was->memory_mb) /* first: memory cannot be given more than both may have */
        r = limit_beside_memory(host, cgroup, 0, err);
    for (size_t i = 0; r == 0 && i < sizeof rows / sizeof *rows; i++) {
        if (!(rows[i].was < rows[i].now) && !(rows[i].was > rows[i].now))
            continue;
        bool on_v2 = *host->v2 && host->v2_has[rows[i].controller];
        if (on_v2)
            cgroup_path(host, cgroup, rows[i].v2, path, sizeof path);
        else
            cgroup_v1_path(host, cgroup, rows[i].controller, rows[i].v1, path, sizeof path);
        snprintf(text, sizeof text, "%llu", rows[i].number);
        const char *none = on_v2 ? "max" : rows[i].v1_none;
        r = write_limit(path, rows[i].now > 0 ? text : none, cgroup_names[rows[i].controller], err);
    }
    if (r == 0 && memory && limits->memory_mb)
        r = limit_beside_memory(host, cgroup, limits->memory_mb << 20, err);
    return r;
}

/* Among thousands of spinning commands it would wait seconds for its turn. Before them only inside a group of its own:
 * there it takes from its own box alone. */
void cgroup_favour(const struct cgroup_host *host, const struct cgroup *cgroup, pid_t pid) {
    sched_prompt_set(pid, cgroup->v1[CGROUP_CPU] || (*host->v2 && host->v2_has[CGROUP_CPU]), false);
}

static int write_limit(const char *path, const char *text, const char *what, struct err *err) {
    int r = fd_write_file(AT_FDCWD, path, text);
    return r < 0 ? err_errno(err, -r, "cannot set the %s limit ('%s')", what, path) : 0;
}

bool cgroup_kill(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    if (!*host->v2 || !host->kill)
        return false;
    cgroup_path(host, cgroup, "cgroup.kill", path, sizeof path);
    return fd_write_file(AT_FDCWD, path, "1") == 0;
}

/* The leaves of commands first. Their processes are gone, or just going: a few tries. Whoever is left after that was
 * outside the box's pid namespace, which should be nobody, and is killed. */
static void remove_v2(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    cgroup_path(host, cgroup, "", path, sizeof path);
    for (int tries = 0; tries < 100 && rmdir(path) < 0 && errno != ENOENT; tries++) {
        DIR *dir = opendir(path);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
        if (dir)
            closedir(dir);
        if (tries == 1)
            cgroup_kill(host, cgroup);
        if (tries > 2)
            usleep(1000);
    }
}

static void remove_v1(const char *path) {
    for (int tries = 0; tries < 100 && rmdir(path) < 0 && errno == EBUSY; tries++)
        usleep(1000);
}

void cgroup_remove(const struct cgroup_host *host, const struct cgroup *cgroup) {
    char path[600];
    if (*host->v2)
        remove_v2(host, cgroup);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!cgroup->v1[i] || !*host->v1[i])
            continue;
        cgroup_v1_path(host, cgroup, (enum cgroup_controller)i, "", path, sizeof path);
        remove_v1(path);
    }
    snprintf(path, sizeof path, "%s/%s", host->freezer, cgroup->name);
    if (*host->freezer)
        remove_v1(path);
}

/* ---- what is left ---- */

static void each_in(const char *path, void (*each)(void *user, const char *name), void *user) {
    DIR *dir = *path ? opendir(path) : NULL;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            each(user, entry->d_name);
    if (dir)
        closedir(dir);
}

void cgroup_each(const struct cgroup_host *host, void (*each)(void *user, const char *name), void *user) {
    each_in(host->v2, each, user);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        each_in(host->v1[i], each, user);
    each_in(host->freezer, each, user);
}

struct sweep {
    const char *path;
    bool stays;
};

static void sweep_leaf(void *user, const char *name) {
    const struct sweep *sweep = user;
    char path[900];
    snprintf(path, sizeof path, "%s/%s", sweep->path, name);
    rmdir(path); /* the kernel refuses where there are processes */
}

static void sweep_dir(struct sweep *sweep) {
    each_in(sweep->path, sweep_leaf, sweep);
    sweep->stays |= rmdir(sweep->path) < 0 && errno != ENOENT;
}

bool cgroup_sweep(const struct cgroup_host *host, const char *name) {
    char path[600];
    struct sweep sweep = {.path = path};
    for (int i = -2; i < CGROUP_CONTROLLERS; i++) {
        const char *top = i == -2 ? host->freezer : i == -1 ? host->v2 : host->v1[i];
        snprintf(path, sizeof path, "%s/%s", top, name);
        if (*top)
            sweep_dir(&sweep);
    }
    return !sweep.stays;
}

/* ---- usage ---- */

void cgroup_usage(const struct cgroup_host *host, const struct cgroup *cgroup, struct usage *usage) {
    char path[600];
    bool has_kills = false;
    if (*host->v2) { /* cpu.stat is there without any controller */
        cgroup_path(host, cgroup, "cpu.stat", path, sizeof path);
        usage->cpu_ms = read_number(path, "usage_usec ", &usage->has_cpu) / 1000;
    }
    if (*host->v2 && host->v2_has[CGROUP_MEMORY]) {
        cgroup_path(host, cgroup, "memory.current", path, sizeof path);
        usage->memory_bytes = read_number(path, "", &usage->has_memory);
        cgroup_path(host, cgroup, "memory.events", path, sizeof path);
        usage->oom_kills = read_number(path, "oom_kill ", &has_kills);
    } else if (cgroup->v1[CGROUP_MEMORY]) {
        cgroup_v1_path(host, cgroup, CGROUP_MEMORY, "memory.usage_in_bytes", path, sizeof path);
        usage->memory_bytes = read_number(path, "", &usage->has_memory);
        cgroup_v1_path(host, cgroup, CGROUP_MEMORY, "memory.oom_control", path, sizeof path);
        usage->oom_kills = read_number(path, "oom_kill ", &has_kills);
    }
    if (*host->v2 && host->v2_has[CGROUP_PIDS]) {
        cgroup_path(host, cgroup, "pids.current", path, sizeof path);
        usage->pids = read_number(path, "", &usage->has_pids);
    } else if (cgroup->v1[CGROUP_PIDS]) {
        cgroup_v1_path(host, cgroup, CGROUP_PIDS, "pids.current", path, sizeof path);
        usage->pids = read_number(path, "", &usage->has_pids);
    }
}

static uint64_t read_number(const char *path, const char *key, bool *ret_has) {
    char text[4096];
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *at = strstr(text, key);
    *ret_has = at != NULL;
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}
