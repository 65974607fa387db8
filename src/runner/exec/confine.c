/* The last restrictions, from inside: capabilities, no_new_privs, Landlock, seccomp. confine_early, confine_bounding
 * and confine_runner are called once per box by stage one; confine by every child of the runner before it becomes a
 * command or a worker. Invariant: nothing is regained after confine: ids first, the filter last. It does not set errno,
 * because a command's child shares the runner's memory until it execs. */
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#include "base/base.h"
#include "runner/enter/enter.h"
#include "runner/raw.h"
#include "runner/runner.h"
#include "seccomp_filter.h"

/* The capabilities of root commands, all inside the box's user namespace. No SYS_CHROOT, MKNOD, NET_RAW, SYS_*. */
static const unsigned char root_caps[] = {
    CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,           /* own any file of the box */
    CAP_KILL,  CAP_SETGID,       CAP_SETUID, CAP_NET_BIND_SERVICE, /* become others, end others, low ports */
};
#define CAP_BIT(cap) (1ull << (cap))
#define ALL_CAPS UINT64_MAX
#define LAST_CAP 63

/* Newer than the headers this may be built with. */
struct landlock_ruleset_scoped {
    uint64_t handled_access_fs, handled_access_net, scoped;
};
#define SCOPE_ABSTRACT_UNIX_SOCKET 1u
#define SCOPE_SIGNAL 2u
#define ACCESS_FS_REFER (1u << 13)
/* Commands cannot make device nodes anywhere. */
#define COMMAND_ACCESS (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | ACCESS_FS_REFER)

static int confine_install_filter(const struct sock_filter *filter, size_t count, struct err *err) {
    struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)(uintptr_t)filter};
    long number = raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    return number < 0 ? err_errno(err, (int)-number, "cannot install the system call filter") : 0;
}

static int confine_landlock_scope(int abi, bool shared, struct err *err);
static int confine_landlock_commands(struct err *err);
#define INSTALL(filter, err) confine_install_filter(filter, sizeof(filter) / sizeof *(filter), err)

int confine_early(struct enter *, struct err *err) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(err, errno, "prctl");
    return INSTALL(seccomp_box, err);
}

static uint64_t confine_root_cap_set(void) {
    uint64_t set = 0;
    for (size_t i = 0; i < sizeof root_caps; i++)
        set |= CAP_BIT(root_caps[i]);
    return set;
}

static int confine_drop_bounding(struct err *err) {
    for (int cap = 0; cap <= LAST_CAP; cap++) {
        int have = prctl(PR_CAPBSET_READ, cap);
        if (have < 0)
            break; /* past the kernel's last capability */
        if (have && prctl(PR_CAPBSET_DROP, cap) < 0)
            return err_errno(err, errno, "cannot drop capability %d", cap);
    }
    return 0;
}

/* set: effective and permitted; ALL_CAPS: whatever there is. */
static int confine_set_caps(uint64_t set, uint64_t inheritable, struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)set, .permitted = (uint32_t)set},
        {.effective = (uint32_t)(set >> 32), .permitted = (uint32_t)(set >> 32)},
    };
    long number = set == ALL_CAPS ? raw(SYS_capget, &head, data) : 0;
    data[0].inheritable = (uint32_t)inheritable;
    data[1].inheritable = (uint32_t)(inheritable >> 32);
    if (number == 0)
        number = raw(SYS_capset, &head, data);
    return number < 0 ? err_errno(err, (int)-number, "cannot set capabilities") : 0;
}

int confine_bounding(struct enter *enter, struct err *err) {
    /* Root commands get theirs through the inheritable set, which for uid 0 counts like the bounding set. So the
     * bounding set is emptied once, here; inheritable first, because it cannot grow beyond the bounding set. */
    int r = enter->ranged ? confine_set_caps(ALL_CAPS, confine_root_cap_set(), err) : 0;
    return r < 0 ? r : confine_drop_bounding(err);
}

/* Until it execs, a command's child has the runner's memory and already the user's ids. fs.suid_dumpable decides
 * whether that memory becomes readable when ids change. If it is 1, a separate domain for each command keeps the others
 * out. */
static bool confine_memory_stays_closed(void) {
    char text[16] = "";
    autofd fd = open("/proc/sys/fs/suid_dumpable", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    return n > 0 && (text[0] == '0' || text[0] == '2');
}

int confine_runner(bool ranged, bool no_set_id, int *ret_landlock_fd, struct err *err) {
    /* Not dumpable: no process inside can read its memory, descriptors or environment. Not earlier, because an ordinary
     * user could not write the id maps of such a process. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return err_errno(err, errno, "prctl");
    int landlock = -1;
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    bool shared = confine_memory_stays_closed();
    int r = abi >= 6 || (abi >= 2 && shared) ? confine_landlock_scope(abi, shared, err) : 0;
    if (r == 0 && abi >= 2 && !shared)
        landlock = r = confine_landlock_commands(err);
    TRY(r);
    if (no_set_id && (r = INSTALL(seccomp_set_id, err)) < 0)
        return r;
    TRY(ranged ? confine_set_caps(confine_root_cap_set(), confine_root_cap_set(), err)
               : confine_set_caps(CAP_BIT(CAP_KILL), 0, err));
    if (ranged) { /* the loop's file work has the agent's rights */
        setfsgid(ENTER_AGENT_ID);
        setfsuid(ENTER_AGENT_ID);
    }
    *ret_landlock_fd = landlock;
    return 0;
}

/* The engine provides the other restrictions. */
int confine_container(const struct runner_config *config, struct err *err) {
    if (!config->no_set_id)
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(err, errno, "prctl");
    return INSTALL(seccomp_container, err);
}

int confine_may_root(const struct runner_config *config, struct err *err) {
    if (config->can_root)
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "user 'root' needs %s",
                   config->container ? "a container that was made with it (container.user)"
                                     : "cubby to run as root on the host");
}

bool confine_step_down(int number) {
    if (number != EOVERFLOW || geteuid() != 0 || (uid_t)setfsuid((uid_t)-1) != 0)
        return false;
    setfsgid(ENTER_AGENT_ID);
    setfsuid(ENTER_AGENT_ID);
    return (uid_t)setfsuid((uid_t)-1) == ENTER_AGENT_ID;
}

int confine(const struct runner_config *config, enum confine_for who, uid_t uid, gid_t gid, struct err *err) {
    bool command = who == CONFINE_AGENT || who == CONFINE_ROOT,
         root = who == CONFINE_ROOT || who == CONFINE_ROOT_WORKER;
    if (!config->jail)
        return config->no_set_id && command ? INSTALL(seccomp_container_command, err) : 0;
    if (root && confine_may_root(config, err) < 0)
        return -err->code;
    uint64_t caps = root ? confine_root_cap_set() : 0;
    long number = raw(SYS_setresgid, gid, gid, gid);
    if (number == 0)
        number = raw(SYS_setresuid, uid, uid, uid);
    if (number < 0)
        return err_errno(err, (int)-number, "cannot set the user's ids");
    /* New ids make the memory dumpable as fs.suid_dumpable says, and it is still the runner's. */
    raw(SYS_prctl, PR_SET_DUMPABLE, 0);
    int r = confine_set_caps(caps, caps, err);
    if (r < 0 || who == CONFINE_WORKER)
        return r;
    number = config->landlock_fd < 0 ? 0 : raw(SYS_landlock_restrict_self, config->landlock_fd, 0);
    if (number < 0)
        return err_errno(err, (int)-number, "cannot apply Landlock");
    /* Our own code uses openat2 without such a mode; the runner's own filter checks its chmods. */
    return config->no_set_id && command ? INSTALL(seccomp_command_set_id, err) : INSTALL(seccomp_command, err);
}

/* ---- Landlock ---- */

/* Makes a ruleset that allows moving and linking files between directories: every domain forbids that unless it says
 * otherwise, even one that handles no file access. */
static int confine_landlock_rules(const struct landlock_ruleset_scoped *rules, size_t size, struct err *err) {
    autofd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd fd = (int)syscall(SYS_landlock_create_ruleset, rules, size, 0);
    struct landlock_path_beneath_attr refer = {.allowed_access = ACCESS_FS_REFER, .parent_fd = root};
    if (fd < 0 || syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &refer, 0) < 0)
        return err_errno(err, errno, "cannot prepare Landlock");
    return fd_take(&fd);
}

/* Applied to the runner itself, so that all commands of a box share one domain: they may signal and connect to each
 * other and see each other's environment, as processes of one user usually can, but no other process, should the
 * namespaces ever leak. shared: includes the restrictions of commands; the runner needs none of those rights. */
static int confine_landlock_scope(int abi, bool shared, struct err *err) {
    struct landlock_ruleset_scoped rules = {.handled_access_fs = shared ? COMMAND_ACCESS : ACCESS_FS_REFER,
                                            .scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0};
    autofd fd = confine_landlock_rules(&rules, abi >= 6 ? sizeof rules : sizeof(struct landlock_ruleset_attr), err);
    if (fd < 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return err_errno(err, errno, "cannot scope signals by Landlock");
    return 0;
}

static int confine_landlock_commands(struct err *err) {
    struct landlock_ruleset_scoped rules = {.handled_access_fs = COMMAND_ACCESS};
    return confine_landlock_rules(&rules, sizeof(struct landlock_ruleset_attr), err);
}
