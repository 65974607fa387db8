/* Checks of the host: the rows of `cubby doctor` and /v1/info, and the prerequisites of a jail. Invariant: every row
 * that is not ok carries a fix that can be typed. */
#include "backend/netcapture.h"
#include "backend/jail/probe.h"

#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "backend/jail/jail.h"
#include "backend/spawn.h"

#define FIX(...) snprintf(check->fix, sizeof check->fix, __VA_ARGS__)
#define CGROUPS "/sys/fs/cgroup"

/* The results of the trial: an errno each, 0 if it works, or TRIAL_UNKNOWN. */
enum trial_thing { TRIAL_USERNS, TRIAL_OVERLAY, TRIAL_PROC, TRIAL_IDMAP, TRIAL_COUNT };
#define TRIAL_UNKNOWN (-1)

struct probe_state {
    const struct backend_env *env;
    bool root;
    struct cgroup_host cgroups;
    int trial[TRIAL_COUNT];
    enum cgroup_controller controller; /* of the row that is run */
};

/* NEVER: jails work without it. ROOT: required by a daemon of root; an ordinary user's boxes do not use it, and it has
 * no row. ALLOWED: may be missing when the row's word is in allow_weaker. */
enum need { NEED_NEVER, NEED_ALWAYS, NEED_ROOT, NEED_ALLOWED };

struct probe_row {
    const char *name;
    const char *gives; /* what /v1/info calls it when it is there; NULL: nothing of its own */
    enum need need;
    bool (*run)(const struct probe_state *state, struct check *check);
    const char *weaker;
    bool wall, root_only;
    enum cgroup_controller controller;
};

#define WEAKER_LANDLOCK "landlock"
#define WEAKER_LIMITS "limits"

/* What was found, and what to do where that is not enough. Returns ok. */
__attribute__((format(printf, 4, 5))) static bool probe_found(struct check *check, bool ok, const char *fix,
                                                              const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(check->detail, sizeof check->detail, format, list);
    va_end(list);
    snprintf(check->fix, sizeof check->fix, "%s", fix);
    return ok;
}

/* Adds to a list of what is missing. */
static void probe_lacks(struct check *check, const char *before, const char *name) {
    size_t len = strlen(check->detail);
    snprintf(check->detail + len, sizeof check->detail - len, "%s%s", len ? ", " : before, name);
}

static bool probe_kernel(const struct probe_state *state, struct check *check) {
    struct utsname name;
    unsigned major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%u.%u", &major, &minor);
    /* idmapped overlay layers came with 5.19, an ordinary user's overlayfs with 5.11, close_range and friends before */
    return probe_found(check, major > 5 || (major == 5 && minor >= (state->root ? 19 : 11)),
                       state->root ? "install a kernel of at least 5.19" : "install a kernel of at least 5.11",
                       "%.100s", name.release);
}

/* Called with arguments that cannot succeed: only a kernel without the call, or a filter, says ENOSYS. */
static bool probe_calls(const struct probe_state *state, struct check *check) {
    static const struct {
        const char *name;
        long number;
    } calls[] = {{"openat2", SYS_openat2},        {"pidfd_open", SYS_pidfd_open}, {"clone3", SYS_clone3},
                 {"open_tree", SYS_open_tree},    {"move_mount", SYS_move_mount}, {"mount_setattr", SYS_mount_setattr},
                 {"close_range", SYS_close_range}};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (syscall(calls[i].number, -1, NULL, -1, NULL, 0) < 0 && errno == ENOSYS)
            probe_lacks(check, "missing: ", calls[i].name);
    FIX("the kernel is old, or a container's seccomp profile blocks them: docker run --privileged, or "
        "--security-opt seccomp=unconfined");
    return !check->detail[0] && probe_found(check, true, "", "all present");
}

static bool probe_capabilities(const struct probe_state *state, struct check *check) {
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
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (!(sets[caps[i].number / 32].effective >> caps[i].number % 32 & 1))
            probe_lacks(check, "root without ", caps[i].name);
    FIX("in a container: docker run --privileged; else run cubbyd as an ordinary user: setpriv --reuid=1000 "
        "--regid=1000 --clear-groups cubbyd");
    return !check->detail[0] && probe_found(check, true, "", "all present");
}

static bool probe_runner(const struct probe_state *state, struct check *check) {
    const char *path = state->env->runner_path;
    return probe_found(check, path && access(path, X_OK) == 0, "run `make`, or name cubby-runner in the configuration",
                       "%.150s", path ? path : "(none)");
}

static bool probe_state(const struct probe_state *state, struct check *check) {
    const char *path = state->env->state_dir;
    struct stat status;
    probe_found(check, false, "", "%.150s", path ? path : "(none)");
    if (path && mkdir(path, 0700) < 0 && errno != EEXIST)
        FIX("make the directory, or choose another with --state: %s", strerror(errno));
    else if (path && stat(path, &status) == 0 && S_ISDIR(status.st_mode) && access(path, W_OK | X_OK) == 0)
        return true;
    else if (path)
        FIX("chown it to uid %u, or choose another with --state", geteuid());
    return false;
}

static bool probe_limit(const char *path, unsigned long long *ret_value) {
    char text[64];
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return false;
    *ret_value = strtoull(text, NULL, 10);
    return true;
}

static bool probe_user_namespaces(const struct probe_state *state, struct check *check) {
    static const struct {
        const char *path, *detail, *fix;
        unsigned long long bad;
        bool users; /* a wall for ordinary users alone */
    } limits[] = {{"user/max_user_namespaces", "user.max_user_namespaces is 0",
                   "sysctl -w user.max_user_namespaces=100000", 0, false},
                  {"kernel/unprivileged_userns_clone", "not for ordinary users",
                   "sysctl -w kernel.unprivileged_userns_clone=1, or run cubby as root", 0, true},
                  {"kernel/apparmor_restrict_unprivileged_userns", "AppArmor keeps them from ordinary users",
                   "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run cubby as root", 1, true}};
    if (access("/proc/self/ns/user", F_OK) < 0)
        return probe_found(check, false, "boot a kernel with CONFIG_USER_NS", "not in this kernel");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char path[96];
        unsigned long long value = 0;
        snprintf(path, sizeof path, "/proc/sys/%s", limits[i].path);
        if ((!limits[i].users || !state->root) && probe_limit(path, &value) && value == limits[i].bad)
            return probe_found(check, false, limits[i].fix, "%s", limits[i].detail);
    }
    int number = state->trial[TRIAL_USERNS];
    if (number <= 0)
        return probe_found(check, true, "", "available");
    return probe_found(check, false,
                       number == ENOSPC || number == EUSERS
                           ? "sysctl -w user.max_user_namespaces=100000, and its siblings in /proc/sys/user"
                           : "a container, a chroot or a security module blocks them: docker run --privileged",
                       "refused: %s", strerror(number));
}

/* A try also loads the module, where that is allowed. */
static bool probe_overlay(const struct probe_state *state, struct check *check) {
    static const char fix[] = "modprobe overlay";
    char text[16384];
    int number = state->trial[TRIAL_OVERLAY];
    bool listed = fd_read_file(AT_FDCWD, "/proc/filesystems", text, sizeof text) > 0 && strstr(text, "\toverlay\n");
    if (number > 0)
        return probe_found(check, false, fix, "refused: %s", strerror(number));
    return number == 0 || listed ? probe_found(check, true, "", "available")
                                 : probe_found(check, false, fix, "not in /proc/filesystems");
}

static bool probe_proc(const struct probe_state *state, struct check *check) {
    int number = state->trial[TRIAL_PROC];
    if (number <= 0)
        return probe_found(check, true, "", number == 0 ? "available" : "not tried");
    return probe_found(check, false,
                       "inside a container its /proc must not be masked: docker run --security-opt "
                       "systempaths=unconfined",
                       "a box cannot mount its own: %s", strerror(number));
}

static bool probe_seccomp(const struct probe_state *state, struct check *check) {
    (void)state;
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    bool there = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    return probe_found(check, there, "boot a kernel with CONFIG_SECCOMP_FILTER", there ? "available" : "not available");
}

static bool probe_idmap(const struct probe_state *state, struct check *check) {
    int number = state->trial[TRIAL_IDMAP];
    if (number > 0)
        return probe_found(check, false,
                           "put the state directory on ext4, xfs, btrfs or (from 6.3 on) tmpfs: --state DIR",
                           "not for %.110s: %s", state->env->state_dir, strerror(number));
    bool there = syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 && errno != ENOSYS;
    return probe_found(check, there, "install a kernel of at least 5.19",
                       there ? "available" : "mount_setattr is missing");
}

static bool probe_landlock(const struct probe_state *state, struct check *check) {
    static const char fix[] =
        "boot with lsm=landlock,... on a kernel of at least 5.19; or do without this second wall: "
        "allow_weaker: [landlock]";
    (void)state;
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0)
        return probe_found(check, false, fix,
                           errno == EOPNOTSUPP ? "in the kernel, not switched on" : "not in this kernel");
    if (abi < 2)
        return probe_found(check, false, fix, "ABI %d, and 2 is needed", abi);
    check->partly = abi < 6;
    return probe_found(check, true,
                       "nothing is needed; a kernel of at least 6.12 adds a second wall around signals and abstract "
                       "sockets",
                       "ABI %d%s", abi, check->partly ? "; signals and abstract sockets are scoped from 6 on" : "");
}

static bool probe_privilege(const struct probe_state *state, struct check *check) {
    return probe_found(check, state->root, "run cubbyd as root",
                       state->root ? "root: every box has ids of its own, and a root user inside"
                                   : "ordinary user: one id a box, no user 'root' inside, no limits unless delegated");
}

/* How to get cgroups here, for root or an ordinary user: one controller, or v2 where it is NULL. */
static void probe_fix_cgroup(const struct probe_state *state, const char *controller, struct check *check) {
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

static bool probe_cgroup(const struct probe_state *state, struct check *check) {
    bool there = *state->cgroups.v2;
    probe_found(check, there, "", "%.150s", there ? state->cgroups.v2 : state->cgroups.why_not);
    probe_fix_cgroup(state, NULL, check);
    return there;
}

static bool probe_cgroup_kill(const struct probe_state *state, struct check *check) {
    bool there = probe_found(check, state->cgroups.kill, "install a kernel of at least 5.14",
                             state->cgroups.kill ? "available" : "missing: commands are ended one process at a time");
    if (!*state->cgroups.v2)
        probe_fix_cgroup(state, NULL, check);
    return there;
}

static bool probe_controller(const struct probe_state *state, struct check *check) {
    enum cgroup_controller which = state->controller;
    bool there = cgroup_can(&state->cgroups, which);
    probe_found(check, there, "", "controller %s: %s", cgroup_names[which],
                !there                      ? "not usable"
                : *state->cgroups.v1[which] ? "cgroup v1"
                                            : "cgroup v2");
    probe_fix_cgroup(state, cgroup_names[which], check);
    return there;
}

/* Where no method works, the row is about `loop`, which needs the least. */
static bool probe_disk_limit(const struct probe_state *state, struct check *check) {
    struct err err;
    const struct quota_method *method = quota_probe(state->env, &err);
    if (method)
        return probe_found(check, true, "", "method %s", method->name);
    quota_loop.probe(state->env, &err);
    size_t what = strcspn(err.text, ";");
    probe_found(check, false, "", "none; loop: %.*s", (int)what, err.text);
    FIX("%s, or disk_quota: tmpfs", err.text[what] ? err.text + what + 2 : "run cubbyd as root");
    return false;
}

static bool probe_network(const struct probe_state *state, struct check *check) {
    if (!state->root)
        return probe_found(check, false, "run cubbyd as root", "not as an ordinary user");
    autofd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (fd < 0)
        return probe_found(check, false, "modprobe nf_tables", "the kernel has no nf_tables");
    return probe_found(check, true, "", "veth and nf_tables");
}

/* In a network namespace of its own, which goes with the thread. */
static void *probe_policy_table(void *user) {
    struct err *err = user;
    const struct netcapture_ports ports = {0};
    int fds[CAPTURE_MAX];
    if (unshare(CLONE_NEWNET) < 0)
        err_errno(err, errno, "a network namespace");
    else if (capture_make(false, NULL, 0, fds, err) == 0) {
        netcapture_table(fds, &ports, true, err);
        capture_close(fds);
    }
    return NULL;
}

static bool probe_policy(const struct probe_state *state, struct check *check) {
    char path[4200];
    struct err err = {0};
    pthread_t thread;
    const char *slash = state->env->runner_path ? strrchr(state->env->runner_path, '/') : NULL;
    snprintf(path, sizeof path, "%.*s/cubby-gate", slash ? (int)(slash - state->env->runner_path) : 1,
             slash ? state->env->runner_path : ".");
    if (access(path, X_OK) < 0)
        return probe_found(check, false, "install cubby-gate next to cubby-runner",
                           "the program cubby-gate is missing");
    if (state->root && pthread_create(&thread, NULL, probe_policy_table, &err) == 0)
        pthread_join(thread, NULL);
    if (err.code)
        return probe_found(check, false, "modprobe nf_tables nft_tproxy nft_reject_inet; Linux 5.9 or later", "%.140s",
                           err.text);
    return probe_found(check, true, "", "cubby-gate%s", state->root ? ", nf_tables with tproxy" : "");
}

static bool probe_forwarding(const struct probe_state *state, struct check *check) {
    (void)state;
    unsigned long long value = 0;
    probe_limit("/proc/sys/net/ipv4/ip_forward", &value);
    return probe_found(check, value == 1, "sysctl -w net.ipv4.ip_forward=1 (only boxes with network 'open' need it)",
                       "net.ipv4.ip_forward is %llu", value);
}

static bool probe_memory(const struct probe_state *state, struct check *check) {
    (void)state;
    struct sysinfo info;
    sysinfo(&info);
    unsigned long long free_mb = (unsigned long long)(info.freeram + info.bufferram) * info.mem_unit >> 20;
    return probe_found(check, free_mb >= 256, "free memory, or bound boxes with limits.memory_mb",
                       "%llu MB free, about 1 MB an idle box", free_mb);
}

static bool probe_files(const struct probe_state *state, struct check *check) {
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return probe_found(check, limit.rlim_max >= 8192,
                       "ulimit -Hn 65536, or systemd LimitNOFILE=65536 (some 4 a box, 1 a connection)",
                       "at most %llu open files", (unsigned long long)limit.rlim_max);
}

static bool probe_pids_max(const struct probe_state *state, struct check *check) {
    (void)state;
    unsigned long long pids = 0;
    probe_limit("/proc/sys/kernel/pid_max", &pids);
    return probe_found(check, pids >= 32768, "sysctl -w kernel.pid_max=4194304", "kernel.pid_max is %llu", pids);
}

static const struct probe_row probe_rows[] = {
    {"kernel", NULL, NEED_ALWAYS, .run = probe_kernel},
    {"system calls", NULL, NEED_ALWAYS, .run = probe_calls},
    {"capabilities", NULL, NEED_ROOT, .run = probe_capabilities},
    {"runner", NULL, NEED_ALWAYS, .run = probe_runner},
    {"state directory", NULL, NEED_ALWAYS, .run = probe_state},
    {"user namespaces", NULL, NEED_ALWAYS, .run = probe_user_namespaces},
    {"overlayfs", NULL, NEED_ALWAYS, .run = probe_overlay},
    {"own /proc", NULL, NEED_ALWAYS, .run = probe_proc},
    {"seccomp", "seccomp", NEED_ALWAYS, .run = probe_seccomp},
    {"idmapped mounts", "root", NEED_ROOT, .run = probe_idmap},
    {"Landlock", "landlock", NEED_ALLOWED, .run = probe_landlock, .weaker = WEAKER_LANDLOCK, .wall = true},
    {"privileges", "id ranges", NEED_NEVER, .run = probe_privilege, .wall = true},
    {"cgroup v2", "cgroup per command", NEED_NEVER, .run = probe_cgroup, .wall = true},
    {"cgroup.kill", NULL, NEED_NEVER, .run = probe_cgroup_kill, .wall = true},
    {"memory limits", "limits.memory_mb", NEED_NEVER, .run = probe_controller, .controller = CGROUP_MEMORY,
     .weaker = WEAKER_LIMITS, .wall = true},
    {"process limits", "limits.pids", NEED_NEVER, .run = probe_controller, .controller = CGROUP_PIDS,
     .weaker = WEAKER_LIMITS, .wall = true},
    {"cpu limits", "limits.cpus", NEED_NEVER, .run = probe_controller, .controller = CGROUP_CPU},
    {"disk limits", "limits.disk_mb", NEED_NEVER, .run = probe_disk_limit},
    {"open network", "network open", NEED_NEVER, .run = probe_network},
    {"network policy", "network policy", NEED_NEVER, .run = probe_policy},
    {"forwarding", NULL, NEED_NEVER, .run = probe_forwarding, .root_only = true},
    {"memory", NULL, NEED_NEVER, .run = probe_memory},
    {"open files", NULL, NEED_NEVER, .run = probe_files},
    {"processes", NULL, NEED_NEVER, .run = probe_pids_max},
};
#define ROWS (sizeof probe_rows / sizeof *probe_rows)

static const char *const backend_weaker_words[] = {WEAKER_LANDLOCK, WEAKER_LIMITS, NULL};

bool backend_allows_weaker(const struct backend_env *env, const char *word) {
    for (const char *const *allowed = env->allow_weaker; allowed && *allowed; allowed++)
        if (strcmp(*allowed, word) == 0)
            return true;
    return false;
}

/* What the kernel allows when cubby-runner's `trial` tries it. A trial that did not happen is not a yes: its rows fall
 * back to what /proc says, and say so. */
static void probe_trial(const struct backend_env *env, int trial[TRIAL_COUNT]) {
    static const char *const names[TRIAL_COUNT] = {
        [TRIAL_USERNS] = "userns", [TRIAL_OVERLAY] = "overlay", [TRIAL_PROC] = "proc", [TRIAL_IDMAP] = "idmap"};
    const char *const argv[] = {"cubby-runner", "trial", env->state_dir, NULL};
    char text[512], name[16];
    int pair[2], number;
    struct err ignored;
    pid_t pid;
    if (!env->runner_path || pipe2(pair, O_CLOEXEC) < 0)
        return;
    autofd in = pair[0], out = pair[1];
    const struct spawn spawn = {.program = env->runner_path, .argv = argv, .in = -1, .out = out, .errors = -1};
    if (spawn_start(&spawn, &pid, &ignored) < 0)
        return;
    fd_close(&out);
    ssize_t len = fd_read_full(in, text, sizeof text - 1);
    spawn_wait(pid);
    text[len < 0 ? 0 : len] = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) /* NAME NUMBER */
        for (int i = 0; i < TRIAL_COUNT; i++)
            if (sscanf(line, "%15s %d", name, &number) == 2 && strcmp(names[i], name) == 0)
                trial[i] = number;
}

/* try: the runner tries things; else it has, or its first box does. */
static size_t probe_run(const struct backend_env *env, bool required_only, bool try, struct check *checks, size_t max) {
    struct probe_state state = {.env = env, .root = geteuid() == 0};
    for (int i = 0; i < TRIAL_COUNT; i++)
        state.trial[i] = TRIAL_UNKNOWN;
    if (!required_only)
        cgroup_probe(&state.cgroups);
    if (try && env->state_dir)
        mkdir(env->state_dir, 0700); /* its row reports a failure */
    if (try)
        probe_trial(env, state.trial);
    size_t count = 0;
    for (size_t i = 0; i < ROWS && count < max; i++) {
        const struct probe_row *row = &probe_rows[i];
        bool required = row->need == NEED_ALWAYS || row->need == NEED_ROOT ||
                        (row->need == NEED_ALLOWED && !backend_allows_weaker(env, row->weaker));
        if ((required_only && !required) || ((row->root_only || row->need == NEED_ROOT) && !state.root))
            continue;
        struct check *check = &checks[count++];
        *check = (struct check){.name = row->name, .weaker = row->weaker, .required = required, .wall = row->wall};
        state.controller = row->controller;
        check->ok = row->run(&state, check);
        if (check->ok && !check->partly)
            check->fix[0] = 0;
    }
    return count;
}

size_t backend_checks(const struct backend_env *env, struct check *checks, size_t max) {
    return probe_run(env, false, true, checks, max);
}

int probe_jail(const struct backend_env *env, struct err *err) {
    struct check checks[ROWS];
    size_t count = probe_run(env, true, !env->one_shot, checks, ROWS);
    for (size_t i = 0; i < count; i++)
        if (!checks[i].ok)
            return err_set(err, ERR_UNSUPPORTED, "jails do not work here: %s: %s; %s", checks[i].name, checks[i].detail,
                           checks[i].fix);
    return 0;
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
    size_t count = probe_run(env, false, !available, checks, ROWS);
    json_put_bool(json, "available", available);
    json_put_open(json, "can", '[');
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; checks[i].ok && k < ROWS; k++)
            if (probe_rows[k].gives && strcmp(probe_rows[k].name, checks[i].name) == 0)
                json_str(json, probe_rows[k].gives);
    json_close(json, ']');
    backend_missing(checks, count, json);
    json_put_open(json, "weaker", '[');
    for (const char *const *word = backend_weaker_words; *word; word++) {
        bool lacks = false;
        for (size_t i = 0; i < count; i++)
            lacks |= !checks[i].ok && checks[i].weaker && strcmp(checks[i].weaker, *word) == 0;
        if (lacks && backend_allows_weaker(env, *word))
            json_str(json, *word);
    }
    json_close(json, ']');
    struct err err;
    const struct quota_method *method = quota_probe(env, &err);
    json_put_str(json, "disk_quota", method ? method->name : NULL);
}
