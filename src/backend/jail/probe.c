/* Checks of the host: what `cubby doctor` and /v1/info show, and what a jail cannot do without. Invariant: every row
 * that is not ok carries a fix that can be typed. */
#include "backend/jail/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend/jail/jail.h"
#include "base/path.h"
#include "base/buf.h"
#include "base/fd.h"

struct probe_state {
    const struct backend_env *env;
    bool root;
    struct cgroup_host cgroups;
    struct trial trial;
};

/* NEVER: something else is missing then. ROOT: a daemon of root's cannot do without; an ordinary user's box has no use
 * for it, and no row. ALLOWED: may be missing when the row's word is in allow_weaker. */
enum need { NEED_NEVER, NEED_ALWAYS, NEED_ROOT, NEED_ALLOWED };

struct probe_row {
    const char *name;
    const char *gives; /* what /v1/info calls it when it is there; NULL: nothing of its own */
    enum need need;
    bool (*run)(const struct probe_state *state, struct check *check);
    const char *weaker;
    bool wall, root_only;
};

#define WEAKER_LANDLOCK "landlock"
#define WEAKER_LIMITS "limits"

static bool check_kernel(const struct probe_state *state, struct check *check);
static bool check_calls(const struct probe_state *state, struct check *check);
static bool check_capabilities(const struct probe_state *state, struct check *check);
static bool check_proc(const struct probe_state *state, struct check *check);
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
    {"kernel", NULL, NEED_ALWAYS, .run = check_kernel},
    {"system calls", NULL, NEED_ALWAYS, .run = check_calls},
    {"capabilities", NULL, NEED_ROOT, .run = check_capabilities},
    {"runner", NULL, NEED_ALWAYS, .run = check_runner},
    {"state directory", NULL, NEED_ALWAYS, .run = check_state},
    {"user namespaces", NULL, NEED_ALWAYS, .run = check_user_namespaces},
    {"overlayfs", NULL, NEED_ALWAYS, .run = check_overlay},
    {"own /proc", NULL, NEED_ALWAYS, .run = check_proc},
    {"seccomp", "seccomp", NEED_ALWAYS, .run = check_seccomp},
    {"idmapped mounts", "root", NEED_ROOT, .run = check_idmap},
    {"Landlock", "landlock", NEED_ALLOWED, .run = check_landlock, .weaker = WEAKER_LANDLOCK, .wall = true},
    {"privileges", "id ranges", NEED_NEVER, .run = check_privilege, .wall = true},
    {"cgroup v2", "cgroup per command", NEED_NEVER, .run = check_cgroup, .wall = true},
    {"cgroup.kill", NULL, NEED_NEVER, .run = check_cgroup_kill, .wall = true},
    {"memory limits", "limits.memory_mb", NEED_NEVER, .run = check_memory_limit, .weaker = WEAKER_LIMITS, .wall = true},
    {"process limits", "limits.pids", NEED_NEVER, .run = check_pids_limit, .weaker = WEAKER_LIMITS, .wall = true},
    {"cpu limits", "limits.cpus", NEED_NEVER, .run = check_cpu_limit},
    {"disk limits", "limits.disk_mb", NEED_NEVER, .run = check_disk_limit},
    {"open network", "network open", NEED_NEVER, .run = check_network},
    {"forwarding", NULL, NEED_NEVER, .run = check_forwarding, .root_only = true},
    {"memory", NULL, NEED_NEVER, .run = check_memory},
    {"open files", NULL, NEED_NEVER, .run = check_files},
    {"processes", NULL, NEED_NEVER, .run = check_pids_max},
};
#define ROWS (sizeof rows / sizeof *rows)

const char *const backend_weaker_words[] = {WEAKER_LANDLOCK, WEAKER_LIMITS, NULL};

#define DETAIL(...) snprintf(check->detail, sizeof check->detail, __VA_ARGS__)
#define FIX(...) snprintf(check->fix, sizeof check->fix, __VA_ARGS__)

bool backend_allows_weaker(const struct backend_env *env, const char *word) {
    for (const char *const *allowed = env->allow_weaker; allowed && *allowed; allowed++)
        if (strcmp(*allowed, word) == 0)
            return true;
    return false;
}

static bool row_required(const struct backend_env *env, const struct probe_row *row) {
    return row->need == NEED_ALWAYS || row->need == NEED_ROOT ||
           (row->need == NEED_ALLOWED && !backend_allows_weaker(env, row->weaker));
}

/* try: the runner is asked to; else it was, or its first box does. */
static size_t run_rows(const struct backend_env *env, bool required_only, bool try, struct check *checks, size_t max) {
    struct probe_state state = {.env = env, .root = geteuid() == 0};
    for (int i = 0; i < TRIAL_COUNT; i++)
        state.trial.number[i] = TRIAL_UNKNOWN;
    if (!required_only)
        cgroup_probe(&state.cgroups);
    if (try) {
        if (env->state_dir)
            mkdir(env->state_dir, 0700); /* its row tells when that fails */
        trial_run(env, &state.trial);
    }
    size_t count = 0;
    for (size_t i = 0; i < ROWS && count < max; i++) {
        const struct probe_row *row = &rows[i];
        bool required = row_required(env, row);
        if ((required_only && !required) || ((row->root_only || row->need == NEED_ROOT) && !state.root))
            continue;
        struct check *check = &checks[count++];
        *check = (struct check){.name = row->name, .weaker = row->weaker, .required = required, .wall = row->wall};
        check->ok = row->run(&state, check);
        if (check->ok && !check->partly)
            check->fix[0] = 0;
    }
    return count;
}

size_t backend_checks(const struct backend_env *env, struct check *checks, size_t max) {
    return run_rows(env, false, true, checks, max);
}

int probe_jail(const struct backend_env *env, struct err *err) {
    struct check checks[ROWS];
    size_t count = run_rows(env, true, !env->one_shot, checks, ROWS);
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

static bool lacks(const struct check *checks, size_t count, const char *weaker) {
    for (size_t i = 0; i < count; i++)
        if (!checks[i].ok && checks[i].weaker && strcmp(checks[i].weaker, weaker) == 0)
            return true;
    return false;
}

void backend_missing(const struct check *checks, size_t count, struct json *json) {
    json_put_open(json, "missing", '[');
    for (size_t i = 0; i < count; i++) {
        if (checks[i].ok && !checks[i].partly)
            continue;
        json_open(json, '{');
        json_put_str(json, "what", checks[i].name);
        json_put_str(json, "detail", checks[i].detail);
        json_put_str(json, "fix", checks[i].fix);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void probe_info(const struct backend_env *env, bool available, struct json *json) {
    struct check checks[ROWS];
    size_t count = run_rows(env, false, !available, checks, ROWS);
    json_put_bool(json, "available", available);
    json_put_open(json, "can", '[');
    for (size_t i = 0; i < count; i++)
        if (checks[i].ok && gives(checks[i].name))
            json_str(json, gives(checks[i].name));
    json_close(json, ']');
    backend_missing(checks, count, json);
    json_put_open(json, "weaker", '[');
    for (const char *const *word = backend_weaker_words; *word; word++)
        if (backend_allows_weaker(env, *word) && lacks(checks, count, *word))
            json_str(json, *word);
    json_close(json, ']');
    struct err err;
    const struct quota_method *method = quota_probe(env, &err);
    json_put_str(json, "disk_quota", method ? method->name : NULL);
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

/* Asked with arguments that cannot succeed: only a kernel without the call, or a filter around us, says ENOSYS. */
static bool check_calls(const struct probe_state *state, struct check *check) {
    static const struct {
        const char *name;
        long number;
    } calls[] = {{"openat2", SYS_openat2},        {"pidfd_open", SYS_pidfd_open}, {"clone3", SYS_clone3},
                 {"open_tree", SYS_open_tree},    {"move_mount", SYS_move_mount}, {"mount_setattr", SYS_mount_setattr},
                 {"close_range", SYS_close_range}};
    (void)state;
    size_t len = 0;
    check->detail[0] = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (syscall(calls[i].number, -1, NULL, -1, NULL, 0) < 0 && errno == ENOSYS && len < sizeof check->detail)
            len += (size_t)snprintf(check->detail + len, sizeof check->detail - len, "%s%s",
                                    len ? ", " : "missing: ", calls[i].name);
    if (len == 0)
        DETAIL("all there");
    FIX("the kernel is old, or a container's seccomp profile keeps them back: docker run --privileged, or "
        "--security-opt seccomp=unconfined");
    return len == 0;
}

static bool check_capabilities(const struct probe_state *state, struct check *check) {
    static const struct {
        const char *name;
        int number;
    } caps[] = {{"SYS_ADMIN", CAP_SYS_ADMIN},   {"NET_ADMIN", CAP_NET_ADMIN},
                {"SETUID", CAP_SETUID},         {"SETGID", CAP_SETGID},
                {"SETPCAP", CAP_SETPCAP},       {"CHOWN", CAP_CHOWN},
                {"SYS_PTRACE", CAP_SYS_PTRACE}, {"DAC_OVERRIDE", CAP_DAC_OVERRIDE},
                {"FOWNER", CAP_FOWNER},         {"KILL", CAP_KILL}};
    (void)state;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};
    syscall(SYS_capget, &head, sets);
    size_t len = 0;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (!(sets[caps[i].number / 32].effective >> caps[i].number % 32 & 1) && len < sizeof check->detail)
            len += (size_t)snprintf(check->detail + len, sizeof check->detail - len, "%s%s",
                                    len ? ", " : "root without ", caps[i].name);
    if (len == 0)
        DETAIL("all there");
    FIX("in a container: docker run --privileged; else run cubbyd as an ordinary user: setpriv --reuid=1000 "
        "--regid=1000 --clear-groups cubbyd");
    return len == 0;
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
    int number = state->trial.number[TRIAL_USERNS];
    if (number > 0) {
        DETAIL("refused: %s", strerror(number));
        FIX(number == ENOSPC || number == EUSERS
                ? "sysctl -w user.max_user_namespaces=100000, and its siblings in /proc/sys/user"
                : "a container, a chroot or a security module keeps them back: docker run --privileged");
        return false;
    }
    DETAIL("available");
    return true;
}

/* A try also loads the module, where somebody may. */
static bool check_overlay(const struct probe_state *state, struct check *check) {
    char text[16384];
    int number = state->trial.number[TRIAL_OVERLAY];
    bool listed = fd_read_file(AT_FDCWD, "/proc/filesystems", text, sizeof text) > 0 && strstr(text, "\toverlay\n");
    bool there = number == TRIAL_UNKNOWN ? listed : number == 0;
    if (there)
        DETAIL("available");
    else if (number > 0)
        DETAIL("refused: %s", strerror(number));
    else
        DETAIL("not in /proc/filesystems");
    FIX("modprobe overlay");
    return there;
}

static bool check_proc(const struct probe_state *state, struct check *check) {
    int number = state->trial.number[TRIAL_PROC];
    if (number > 0)
        DETAIL("a box cannot mount its own: %s", strerror(number));
    else
        DETAIL(number == 0 ? "available" : "not tried");
    FIX("inside a container its /proc must not be masked: docker run --security-opt systempaths=unconfined");
    return number <= 0;
}

static bool check_seccomp(const struct probe_state *state, struct check *check) {
    (void)state;
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    bool there = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    DETAIL(there ? "available" : "not available");
    FIX("boot a kernel with CONFIG_SECCOMP_FILTER");
    return there;
}

static bool check_idmap(const struct probe_state *state, struct check *check) {
    int number = state->trial.number[TRIAL_IDMAP];
    if (number > 0) {
        DETAIL("not for %.110s: %s", state->env->state_dir, strerror(number));
        FIX("put the state directory on ext4, xfs, btrfs or (from 6.3 on) tmpfs: --state DIR");
        return false;
    }
    bool there = syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno != ENOSYS;
    DETAIL(there ? "available" : "mount_setattr is missing");
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
    if (abi < 2) {
        if (abi < 0)
            DETAIL("%s", errno == EOPNOTSUPP ? "in the kernel, not switched on" : "not in this kernel");
        else
            DETAIL("ABI %d, and 2 is needed", abi);
        FIX("boot with lsm=landlock,... on a kernel of at least 5.19; or do without this second wall: allow_weaker: "
            "[landlock]");
        return false;
    }
    check->partly = abi < 6;
    DETAIL("ABI %d%s", abi, check->partly ? "; signals and abstract sockets are scoped from 6 on" : "");
    FIX("nothing is needed; a kernel of at least 6.12 adds a second wall around signals and abstract sockets");
    return true;
}

#define CGROUPS "/sys/fs/cgroup"

/* How the cgroups of this machine get there or open up, for whoever we are. Written for one controller, or for v2. */
static void fix_cgroup(const struct probe_state *state, const char *controller, struct check *check) {
    struct statfs system;
    char have[512] = "";
    bool mounted = statfs(CGROUPS, &system) == 0 && (long)system.f_type == CGROUP2_SUPER_MAGIC;
    bool on_v1 = !mounted && access(CGROUPS "/memory", F_OK) == 0;
    if (mounted)
        fd_read_file(AT_FDCWD, CGROUPS "/cgroup.controllers", have, sizeof have);
    if (statfs(CGROUPS, &system) == 0 && (system.f_flags & ST_RDONLY) && (mounted || on_v1))
        FIX("a container without cgroups of its own: docker run --privileged --cgroupns=private");
    else if (!state->root)
        FIX("run it inside a delegated group: systemd-run --user --scope -p Delegate=yes cubbyd; or run cubbyd as root");
    else if (!mounted && !on_v1)
        FIX("mount -t cgroup2 none " CGROUPS);
    else if (!controller)
        FIX("mkdir -p %s/unified && mount -t cgroup2 none %s/unified", CGROUPS, CGROUPS);
    else if (on_v1)
        FIX("mkdir -p %s/%s && mount -t cgroup -o %s none %s/%s", CGROUPS, controller, controller, CGROUPS, controller);
    else if (strstr(have, controller))
        FIX("echo +%s > " CGROUPS "/cgroup.subtree_control", controller);
    else
        FIX("boot with cgroup_enable=%s on a kernel that has the controller", controller);
}

static bool check_cgroup(const struct probe_state *state, struct check *check) {
    bool there = *state->cgroups.v2;
    DETAIL("%.150s", there ? state->cgroups.v2 : state->cgroups.why_not);
    fix_cgroup(state, NULL, check);
    return there;
}

static bool check_cgroup_kill(const struct probe_state *state, struct check *check) {
    DETAIL(state->cgroups.kill ? "available" : "missing: commands are ended one process at a time");
    if (*state->cgroups.v2)
        FIX("install a kernel of at least 5.14");
    else
        fix_cgroup(state, NULL, check);
    return state->cgroups.kill;
}

static bool check_controller(const struct probe_state *state, enum cgroup_controller which, struct check *check) {
    bool there = cgroup_can(&state->cgroups, which);
    DETAIL("controller %s: %s", cgroup_names[which],
           !there                      ? "not usable"
           : *state->cgroups.v1[which] ? "cgroup v1"
                                       : "cgroup v2");
    fix_cgroup(state, cgroup_names[which], check);
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
    if (!path_program("nft", path, sizeof path)) {
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
