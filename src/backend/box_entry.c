/* Spawns the runner's processes that enter boxes, and hears what they say. Called by slot.c and attach.c for jails, by
 * docker/mount.c for containers. Invariant: a pid may be somebody else's by the time its namespaces are opened, so who it
 * is is checked after that. */
#include "backend/box_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/fd.h"
#include "wire/plan.h"

enum { VISIT_MS = 20000 };

int box_entry_spawn(const char *program, int null_fd, char *const argv[], const int *fds, size_t count, pid_t *ret_pid,
                    struct err *err) {
    int copies[USHER_FDS], r = 0; /* above the numbers that they are copied to, so that no copy covers another */
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_adddup2(&actions, null_fd, fd);
    for (size_t i = 0; i < count; i++) {
        copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + USHER_FDS);
        if (copies[i] < 0 && r == 0)
            r = err_errno(err, errno,
                          "the daemon has no file descriptors left (raise LimitNOFILE; a box needs about 3)");
        posix_spawn_file_actions_adddup2(&actions, copies[i], PLAN_STAGE_FD + (int)i);
    }
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    char *envp[] = {NULL};
    int failed = r == 0 ? posix_spawn(ret_pid, program, &actions, &attr, argv, envp) : 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    for (size_t i = 0; i < count; i++)
        if (copies[i] >= 0)
            close(copies[i]);
    return failed ? err_errno(err, failed, "cannot start '%s'", program) : r;
}

int box_entry_said(char *text, ssize_t len, const char *otherwise, struct err *err) {
    if (len < 2)
        return err_set(err, ERR_INTERNAL, "%s", otherwise);
    /* The first of several is the reason, the others are what came of it; each begins with its code. */
    char *end = text + 1;
    while ((unsigned char)*end >= ' ')
        end++;
    *end = 0;
    return err_set(err, (enum err_code)err_from_wire((unsigned char)text[0]), "%s", text + 1);
}

/* ---- the message ---- */

void box_entry_begin(struct buf *message) {
    buf_u32(message, 0); /* its length, when it is known */
    plan_number(message, PLAN_VERSION_KEY, PLAN_VERSION);
}

void box_entry_skills(const char *state_dir, const struct spec *spec, struct buf *message) {
    char path[4200];
    snprintf(path, sizeof path, "%s/skills/layers", state_dir);
    plan_text(message, PLAN_SKILL_STORE, path);
    for (size_t i = 0; i < spec->attached.count; i++)
        plan_text(message, PLAN_SKILL, spec->attached.layers[i]);
    plan_text(message, PLAN_SKILL_PATH, SKILLS_PATH);
    for (const char **at = spec->attached.paths; at && *at; at++)
        plan_text(message, PLAN_SKILL_PATH, *at);
}

void box_entry_mounts(const struct spec *spec, struct buf *message) {
    for (size_t i = 0; i < spec->mount_count; i++) {
        plan_text(message, PLAN_SOURCE, spec->mounts[i].source);
        plan_text(message, PLAN_TARGET, spec->mounts[i].target);
        plan_number(message, PLAN_READ_ONLY, spec->mounts[i].read_only);
    }
}

static int message_file(struct buf *message, int *ret_fd, struct err *err) {
    uint32_t len = (uint32_t)message->len - 4;
    if (message->failed)
        return err_set(err, ERR_TOO_LARGE, "the list of mounts is larger than %u bytes", PLAN_MAX_BYTES);
    memcpy(message->data, &len, sizeof len);
    autofd fd = memfd_create("attach", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, message->data, message->len);
    if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(err, r < 0 ? -r : errno, "memfd");
    *ret_fd = fd_take(&fd);
    return 0;
}

/* ---- the visit ---- */

static int open_space(pid_t pid, const char *name, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%s'", path) : fd;
}

static int hear(pid_t pid, int errors_fd, pid_t *ret_left, struct err *err) {
    char text[sizeof err->text + 1] = "";
    struct pollfd polls = {.fd = errors_fd, .events = POLLIN};
    int n = poll(&polls, 1, VISIT_MS);
    ssize_t len = n == 1 ? read(errors_fd, text, sizeof text - 1) : 0;
    bool done = len == 1 && text[0] == 0;
    int r = 0;
    if (n != 1) {
        r = err_set(err, ERR_TIMEOUT, "nothing was mounted within %u s", VISIT_MS / 1000);
        kill(pid, SIGKILL); /* our child, not waited for */
    } else if (!done) {
        r = box_entry_said(text, len, "the runner ended before all was mounted", err);
    }
    *ret_left = waitpid(pid, NULL, WNOHANG) == 0 ? pid : 0;
    return r;
}

int box_entry_visit(const struct usher *usher, struct buf *message, pid_t *ret_left, struct err *err) {
    int errors[2];
    *ret_left = 0;
    autofd user = open_space(usher->pid, "user", err);
    if (user < 0)
        return user;
    autofd mounts = open_space(usher->pid, "mnt", err);
    if (mounts < 0)
        return mounts;
    if (!process_alive(usher->pid, usher->start)) /* and not somebody with its number */
        return err_set(err, ERR_GONE, "box %s has ended", usher->id);
    autofd file = -1;
    int r = message_file(message, &file, err);
    if (r < 0)
        return r;
    if (pipe2(errors, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    autofd their_errors = errors[1], errors_fd = errors[0];
    pid_t pid = 0;
    char *argv[] = {"cubby-runner", "attach", NULL};
    r = box_entry_spawn(usher->program, usher->null_fd, argv, (int[]){file, their_errors, user, mounts}, USHER_FDS,
                        &pid, err);
    fd_close(&their_errors);
    return r == 0 ? hear(pid, errors_fd, ret_left, err) : r;
}
