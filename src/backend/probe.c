/* Checks of the host: what `cubby doctor` and /v1/info show, and what a jail cannot do without. Not to break: every row
 * that is not ok carries a fix that can be typed. */
#include "backend/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend/jail.h"
#include "base/buf.h"
#include "base/fd.h"

struct probe_state {
    const struct backend_env *env;
    bool root;
    struct cgroup_host cgroups;
};

struct probe_row {
    const char *name;
    const char *gives; /* what /v1/info calls it when it is there; NULL: nothing of its own */
    bool required;
    bool root_only; /* counts only when we are root: an ordinary user's box has no use for it */
    bool (*run)(const struct probe_state *state, struct check *check);
};

static bool check_kernel(const struct probe_state *state, struct check *check);
static bool check_user_namespaces(const struct probe_state *state, struct check *check);
static bool check_overlay(const struct probe_state *state, struct check *check);
static bool check_privilege(const struct probe_state *state, struct check *check);
static bool check_idmap(const struct probe_state *state, struct check *check);
static bool check_cgroup(const struct probe_state *state, struct check *check);
static bool check_cgroup_kill(const struct probe_state *state, struct check *check);
static bool check_memory_limit(const struct probe_state *state, struct check *check);
static bool check_pids_limit(const struct probe_state *state, struct check *check);
static bool check_cpu_limit(const struct probe_state *state, struct check *check);
static bool check_landlock(const struct probe_state *state, struct check *check);
static bool check_seccomp(const struct probe_state *state, struct check *check);
static bool check_disk_limit(const struct probe_state *state, struct check *check);
static bool check_network(const struct probe_state *state, struct check *check);
static bool check_forwarding(const struct probe_state *state, struct check *check);
static bool check_runner(const struct probe_state *state, struct check *check);
static bool check_state(const struct probe_state *state, struct check *check);
static bool check_memory(const struct probe_state *state, struct check *check);
static bool check_files(const struct probe_state *state, struct check *check);
static bool check_pids_max(const struct probe_state *state, struct check *check);

static const struct probe_row rows[] = {
    {"kernel", NULL, true, false, check_kernel},
    {"runner", NULL, true, false, check_runner},
    {"state directory", NULL, true, false, check_state},
    {"user namespaces", NULL, true, false, check_user_namespaces},
    {"overlayfs", NULL, true, false, check_overlay},
    {"seccomp", "seccomp", true, false, check_seccomp},
    {"idmapped mounts", "root", true, true, check_idmap},
    {"privileges", "id ranges", false, false, check_privilege},
    {"Landlock", "landlock", false, false, check_landlock},
    {"cgroup v2", "cgroup per command", false, false, check_cgroup},
    {"cgroup.kill", NULL, false, false, check_cgroup_kill},
    {"memory limits", "limits.memory_mb", false, false, check_memory_limit},
    {"process limits", "limits.pids", false, false, check_pids_limit},
    {"cpu limits", "limits.cpus", false, false, check_cpu_limit},
    {"disk limits", "limits.disk_mb", false, false, check_disk_limit},
    {"open network", "network open", false, false, check_network},
    {"forwarding", NULL, false, true, check_forwarding},
    {"memory", NULL, false, false, check_memory},
    {"open files", NULL, false, false, check_files},
    {"processes", NULL, false, false, check_pids_max},
};
#define ROWS (sizeof rows / sizeof *rows)

#define DETAIL(...) snprintf(check->detail, sizeof check->detail, __VA_ARGS__)
#define FIX(...) snprintf(check->fix, sizeof check->fix, __VA_ARGS__)

static size_t run_rows(const struct backend_env *env, bool required_only, struct check *checks, size_t max) {
    struct probe_state state = {.env = env, .root = geteuid() == 0};
    if (!required_only)
        cgroup_probe(&state.cgroups);
    size_t count = 0;
    for (size_t i = 0; i < ROWS && count < max; i++) {
        if ((required_only && !rows[i].required) || (rows[i].root_only && !state.root))
            continue;
        struct check *check = &checks[count++];
        *check = (struct check){.name = rows[i].name, .required = rows[i].required};
        check->ok = rows[i].run(&state, check);
        if (check->ok)
            check->fix[0] = 0;
    }
    return count;
}

size_t backend_checks(const struct backend_env *env, struct check *checks, size_t max) {
    return run_rows(env, false, checks, max);
}

int probe_jail(const struct backend_env *env, struct err *err) {
    struct check checks[ROWS];
    size_t count = run_rows(env, true, checks, ROWS);
    for (size_t i = 0; i < count; i++)
        if (!checks[i].ok)
            return err_set(err, ERR_UNSUPPORTED, "jails do not work here: %s: %s; %s", checks[i].name, checks[i].detail,
                           checks[i].fix);
    return 0;
}

static const char *gives(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].gives;
    return NULL;
}

void probe_info(const struct backend_env *env, bool available, struct json *json) {
    struct check checks[ROWS];
    size_t count = backend_checks(env, checks, ROWS);
    json_key(json, "available");
    json_bool(json, available);
    json_key(json, "can");
    json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        if (checks[i].ok && gives(checks[i].name))
            json_str(json, gives(checks[i].name));
    json_close(json, ']');
    json_key(json, "missing");
    json_open(json, '[');
    for (size_t i = 0; i < count; i++) {
        if (checks[i].ok)
            continue;
        json_open(json, '{');
        json_key(json, "what");
        json_str(json, checks[i].name);
        json_key(json, "detail");
        json_str(json, checks[i].detail);
        json_key(json, "fix");
        json_str(json, checks[i].fix);
        json_close(json, '}');
    }
    json_close(json, ']');
    struct err err;
    const struct quota_method *method = quota_probe(env, &err);
    json_key(json, "disk_quota");
    json_str(json, method ? method->name : NULL);
}

/* ---- rows ---- */

static bool check_kernel(const struct probe_state *state, struct check *check) {
    struct utsname name;
    unsigned major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%u.%u", &major, &minor);
    DETAIL("%.100s", name.release);
    /* idmapped overlay layers came with 5.19, an ordinary user's overlayfs with 5.11, close_range and friends before */
    unsigned need_minor = state->root ? 19 : 11;
    FIX("install a kernel of at least 5.%u", need_minor);
    return major > 5 || (major == 5 && minor >= need_minor);
}

static bool check_runner(const struct probe_state *state, struct check *check) {
    const char *path = state->env->runner_path ? state->env->runner_path : "(none)";
    DETAIL("%.150s", path);
    FIX("run `make`, or name cubby-runner in the configuration");
    return state->env->runner_path && access(path, X_OK) == 0;
}

static bool check_state(const struct probe_state *state, struct check *check) {
    const char *path = state->env->state_dir ? state->env->state_dir : "(none)";
    struct stat status;
    DETAIL("%.150s", path);
    if (!state->env->state_dir)
        return false;
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        FIX("make the directory, or choose another with --state: %s", strerror(errno));
        return false;
    }
    if (stat(path, &status) < 0 || !S_ISDIR(status.st_mode) || access(path, W_OK | X_OK) < 0) {
        FIX("chown it to uid %u, or choose another with --state", geteuid());
        return false;
    }
    return true;
}

static bool read_limit(const char *path, unsigned long long *ret_value) {
    char text[64];
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return false;
    *ret_value = strtoull(text, NULL, 10);
    return true;
}

static bool check_user_namespaces(const struct probe_state *state, struct check *check) {
    unsigned long long value = 0;
    if (access("/proc/self/ns/user", F_OK) < 0) {
        DETAIL("not in this kernel");
        FIX("boot a kernel with CONFIG_USER_NS");
        return false;
    }
    if (read_limit("/proc/sys/user/max_user_namespaces", &value) && value == 0) {
        DETAIL("user.max_user_namespaces is 0");
        FIX("sysctl -w user.max_user_namespaces=100000");
        return false;
    }
    if (!state->root && read_limit("/proc/sys/kernel/unprivileged_userns_clone", &value) && value == 0) {
        DETAIL("not for ordinary users");
        FIX("sysctl -w kernel.unprivileged_userns_clone=1, or run cubby as root");
        return false;
    }
    if (!state->root && read_limit("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &value) && value == 1) {
        DETAIL("AppArmor keeps them from ordinary users");
        FIX("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run cubby as root");
        return false;
    }
    DETAIL("there");
    return true;
}

static bool check_overlay(const struct probe_state *state, struct check *check) {
    (void)state;
    char text[16384];
    bool there = fd_read_file(AT_FDCWD, "/proc/filesystems", text, sizeof text) > 0 && strstr(text, "\toverlay\n");
    DETAIL(there ? "there" : "not in /proc/filesystems");
    FIX("modprobe overlay");
    return there;
}

static bool check_seccomp(const struct probe_state *state, struct check *check) {
    (void)state;
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    bool there = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    DETAIL(there ? "there" : "not available");
    FIX("boot a kernel with CONFIG_SECCOMP_FILTER");
    return there;
}

/* Whether the state directory's file system can be idmapped shows only at the first box; the kernel is asked here. */
static bool check_idmap(const struct probe_state *state, struct check *check) {
    (void)state;
    bool there = syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno != ENOSYS;
    DETAIL(there ? "there" : "mount_setattr is missing");
    FIX("install a kernel of at least 5.19");
    return there;
}

static bool check_privilege(const struct probe_state *state, struct check *check) {
    DETAIL(state->root ? "root: every box has ids of its own, and a root user inside"
                       : "ordinary user: one id a box, no user 'root' inside, no limits unless delegated");
    FIX("run cubbyd as root");
    return state->root;
}

static bool check_landlock(const struct probe_state *state, struct check *check) {
    (void)state;
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0) {
        DETAIL("not available: %s", strerror(errno));
        FIX("boot with lsm=landlock,... (CONFIG_SECURITY_LANDLOCK)");
        return false;
    }
    DETAIL("ABI %d%s", abi, abi >= 6 ? "" : " (signals and abstract sockets are scoped from 6 on)");
    FIX("install a kernel of at least 5.19 for ABI 2");
    return abi >= 2;
}

static bool check_cgroup(const struct probe_state *state, struct check *check) {
    bool there = *state->cgroups.v2;
    DETAIL("%.150s", there ? state->cgroups.v2 : state->cgroups.why_not);
    FIX(state->root ? "mount -t cgroup2 none /sys/fs/cgroup/unified"
                    : "run inside a delegated group: systemd-run --user --scope -p Delegate=yes cubbyd ...");
    return there;
}

static bool check_cgroup_kill(const struct probe_state *state, struct check *check) {
    DETAIL(state->cgroups.kill ? "there" : "missing: commands are ended one process at a time");
    FIX("install a kernel of at least 5.14 with cgroup v2");
    return state->cgroups.kill;
}

static bool check_controller(const struct probe_state *state, enum cgroup_controller which, struct check *check) {
    bool there = cgroup_can(&state->cgroups, which);
    DETAIL("controller %s: %s", cgroup_names[which],
           !there                      ? "not usable"
           : *state->cgroups.v1[which] ? "cgroup v1"
                                       : "cgroup v2");
    if (state->root)
        FIX("echo +%s > /sys/fs/cgroup/cgroup.subtree_control", cgroup_names[which]);
    else
        FIX("run cubbyd as root, or delegate it: systemd Delegate=%s", cgroup_names[which]);
    return there;
}

static bool check_memory_limit(const struct probe_state *state, struct check *check) {
    return check_controller(state, CGROUP_MEMORY, check);
}

static bool check_pids_limit(const struct probe_state *state, struct check *check) {
    return check_controller(state, CGROUP_PIDS, check);
}

static bool check_cpu_limit(const struct probe_state *state, struct check *check) {
    return check_controller(state, CGROUP_CPU, check);
}

/* Where no method works, the row speaks of `loop`: it asks the least of a machine. */
static bool check_disk_limit(const struct probe_state *state, struct check *check) {
    struct err err;
    const struct quota_method *method = quota_probe(state->env, &err);
    if (method) {
        DETAIL("method %s", method->name);
        return true;
    }
    quota_loop.probe(state->env, &err);
    size_t what = strcspn(err.text, ";");
    DETAIL("none; loop: %.*s", (int)what, err.text);
    FIX("%s, or disk_quota: tmpfs", err.text[what] ? err.text + what + 2 : "run cubbyd as root");
    return false;
}

static bool check_network(const struct probe_state *state, struct check *check) {
    char path[64];
    if (!state->root) {
        DETAIL("not as an ordinary user");
        FIX("run cubbyd as root");
        return false;
    }
    if (!net_program("nft", path, sizeof path)) {
        DETAIL("the program nft is missing");
        FIX("apt-get install nftables");
        return false;
    }
    DETAIL("veth and %s", path);
    return true;
}

static bool check_forwarding(const struct probe_state *state, struct check *check) {
    (void)state;
    unsigned long long value = 0;
    read_limit("/proc/sys/net/ipv4/ip_forward", &value);
    DETAIL("net.ipv4.ip_forward is %llu", value);
    FIX("sysctl -w net.ipv4.ip_forward=1 (only boxes with network 'open' need it)");
    return value == 1;
}

static bool check_memory(const struct probe_state *state, struct check *check) {
    (void)state;
    struct sysinfo info;
    sysinfo(&info);
    unsigned long long free_mb = (unsigned long long)(info.freeram + info.bufferram) * info.mem_unit >> 20;
    DETAIL("%llu MB free, about 1 MB an idle box", free_mb);
    FIX("free memory, or bound boxes with limits.memory_mb");
    return free_mb >= 256;
}

static bool check_files(const struct probe_state *state, struct check *check) {
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    DETAIL("at most %llu open files", (unsigned long long)limit.rlim_max);
    FIX("ulimit -Hn 65536, or systemd LimitNOFILE=65536 (some 4 a box, 1 a connection)");
    return limit.rlim_max >= 8192;
}

static bool check_pids_max(const struct probe_state *state, struct check *check) {
    (void)state;
    unsigned long long pids = 0;
    read_limit("/proc/sys/kernel/pid_max", &pids);
    DETAIL("kernel.pid_max is %llu", pids);
    FIX("sysctl -w kernel.pid_max=4194304");
    return pids >= 32768;
}
