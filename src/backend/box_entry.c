/* Spawns the runner's processes that enter boxes, and reads their errors. Called by slot.c and attach.c for jails, and
 * by docker/mount.c for containers. Invariant: a pid may be another process's by the time its namespaces are opened, so
 * its identity is checked after that. */
#include "backend/box_entry.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/spawn.h"
#include "wire/plan.h"

enum { ENTRY_MS = 20000 };

int box_entry_spawn(const char *program, int null_fd, const char *const *argv, const int *fds, size_t count,
                    pid_t *ret_pid, struct err *err) {
    struct spawn spawn = {.program = program,
                          .argv = argv,
                          .in = null_fd,
                          .out = null_fd,
                          .errors = null_fd,
                          .fd_count = count,
                          .session = true};
    memcpy(spawn.fds, fds, count * sizeof *fds);
    return spawn_start(&spawn, ret_pid, err);
}

int box_entry_said(char *text, ssize_t len, const char *otherwise, struct err *err) {
    if (len < 2)
        return err_set(err, ERR_INTERNAL, "%s", otherwise);
    /* The first of several is the reason, the others are consequences; each begins with its code. */
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
    plan_text(message, PLAN_SKILL_STORE, text_make(4200, "%s/skills/layers", state_dir));
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

/* ---- the process ---- */

static int box_entry_open(pid_t pid, const char *name, struct err *err) {
    const char *path = text_make(64, "/proc/%d/ns/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%s'", path) : fd;
}

int box_entry_run(const struct box_entry *entry, struct buf *message, pid_t *ret_left, struct err *err) {
    static const char *const argv[] = {"cubby-runner", "attach", NULL};
    int pair[2];
    *ret_left = 0;
    autofd user = box_entry_open(entry->pid, "user", err);
    if (user < 0)
        return user;
    autofd mounts = box_entry_open(entry->pid, "mnt", err);
    if (mounts < 0)
        return mounts;
    if (!process_alive(entry->pid, entry->start)) /* and not another process with its number */
        return err_set(err, ERR_GONE, "box %s has ended", entry->id);
    if (message->failed)
        return err_set(err, ERR_TOO_LARGE, "the list of mounts is larger than %u bytes", PLAN_MAX_BYTES);
    uint32_t len = (uint32_t)message->len - 4;
    memcpy(message->data, &len, sizeof len);
    autofd file = memfd_create("attach", MFD_CLOEXEC);
    int r = file < 0 ? -errno : fd_write_all(file, message->data, message->len);
    if (r < 0 || lseek(file, 0, SEEK_SET) < 0)
        return err_errno(err, r < 0 ? -r : errno, "memfd");
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    autofd theirs = pair[1], errors = pair[0];
    pid_t pid = 0;
    r = box_entry_spawn(entry->program, entry->null_fd, argv, (int[]){file, theirs, user, mounts}, 4, &pid, err);
    fd_close(&theirs);
    if (r < 0)
        return r;
    char text[sizeof err->text + 1] = "";
    struct pollfd polls = {.fd = errors, .events = POLLIN};
    int n = poll(&polls, 1, ENTRY_MS);
    ssize_t got = n == 1 ? read(errors, text, sizeof text - 1) : 0;
    if (n != 1) {
        r = err_set(err, ERR_TIMEOUT, "nothing was mounted within %u s", ENTRY_MS / 1000);
        kill(pid, SIGKILL);                /* our child, not waited for */
    } else if (got != 1 || text[0] != 0) { /* one zero byte: all is mounted */
        r = box_entry_said(text, got, "the runner ended before all was mounted", err);
    }
    *ret_left = waitpid(pid, NULL, WNOHANG) == 0 ? pid : 0;
    return r;
}
