/* `cubby-runner trial [DIR]`: tries the kernel features that every jail needs, and prints a line for each: its name and
 * the errno, 0 if it works. Called by backend/jail/probe.c: files below /proc show the kernel's features, but only a
 * try shows which ones this process may use (containers, security modules). DIR: the state directory, whose file system
 * must support an idmapped mount if we are root. Invariant: it changes nothing outside its own namespaces. */
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/base.h"
#include "runner/enter/enter.h"
#include "runner/runner.h"

static void trial_say(const char *name, int number) {
    char line[64];
    int len = snprintf(line, sizeof line, "%s %d\n", name, number);
    fd_write_all(STDOUT_FILENO, line, (size_t)len);
}

/* Inside: tries an overlay and /proc. Ends when the outer side is done with its user namespace. */
static _Noreturn void trial_inside(int done_fd) {
    char byte;
    int context = (int)syscall(SYS_fsopen, "overlay", 0);
    trial_say("overlay", context < 0 ? errno : 0);
    trial_say("proc", mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? errno : 0);
    while (read(done_fd, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

/* Tries to show files of this directory with other owners to the child's user namespace. */
static int trial_idmap(pid_t child, const char *directory) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    int r = fd_write_file(AT_FDCWD, path, "0 100000 1\n");
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    if (r == 0)
        r = fd_write_file(AT_FDCWD, path, "0 100000 1\n");
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    autofd userns = r < 0 ? r : open(path, O_RDONLY | O_CLOEXEC);
    autofd tree = userns < 0 ? -1 : sys_open_tree(AT_FDCWD, directory, OPEN_TREE_CLONE);
    if (r < 0)
        return -r;
    if (userns < 0)
        return errno;
    r = tree < 0 ? tree : sys_mount_setattr(tree, MOUNT_ATTR_IDMAP, userns);
    return r < 0 ? -r : 0;
}

int trial_main(const char *directory) {
    int done[2];
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
        .exit_signal = SIGCHLD,
    };
    if (pipe2(done, O_CLOEXEC) < 0)
        return 125;
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) {
        close(done[1]);
        trial_inside(done[0]);
    }
    trial_say("userns", child < 0 ? errno : 0);
    if (child < 0)
        return 0;
    if (directory && geteuid() == 0)
        trial_say("idmap", trial_idmap((pid_t)child, directory));
    close(done[1]);
    while (waitpid((pid_t)child, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}
