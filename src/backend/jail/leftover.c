/* What dead daemons left: runners that no record leads to, claims, cgroups, interfaces, directories of slots. Called by
 * jail.c for the daemon that cleans, and for `cubbyd --cleanup`. Invariant: whoever is alive, his things stay. A claim
 * tells who made it (ids.h): its slot goes only when its process is gone, or when its maker is gone and no box of this
 * state directory is recorded with it. */
#include "backend/jail/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

enum { KILL_WAIT_MS = 5000 };

struct leftover {
    struct backend *backend;
    void (*each)(void *user, const char *what);
    void *user;
    struct recorded {
        pid_t pid;
        uint64_t start;
    } * recorded; /* PID 1 of every box of this state directory */
    size_t recorded_count;
};

__attribute__((format(printf, 2, 3))) static void tell(const struct leftover *leftover, const char *format, ...) {
    char text[4400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    leftover->each(leftover->user, text);
}

/* ---- slots ---- */

static void note_recorded(void *user, const char *id) {
    struct leftover *leftover = user;
    struct jail_record record;
    if (jail_record_read(leftover->backend, id, &record) < 0)
        return;
    size_t count = leftover->recorded_count++;
    if ((count & (count - 1)) == 0) { /* grows to the next power of two */
        leftover->recorded = xrealloc(leftover->recorded, (count ? count * 2 : 1) * sizeof *leftover->recorded);
    }
    leftover->recorded[count] = (struct recorded){record.pid, record.start};
}

static bool is_recorded(const struct leftover *leftover, const struct claim *claim) {
    for (size_t i = 0; i < leftover->recorded_count; i++)
        if (leftover->recorded[i].pid == claim->pid && leftover->recorded[i].start == claim->start)
            return true;
    return false;
}

static void take_apart(struct backend *backend, unsigned slot) {
    struct cgroup cgroup = {0};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        cgroup.v1[i] = true;
    snprintf(cgroup.name, sizeof cgroup.name, "%u", slot);
    cgroup_kill(&backend->cgroups, &cgroup);
    cgroup_remove(&backend->cgroups, &cgroup);
    if (net_attached(slot))
        net_detach(slot);
}

static bool end_process(pid_t pid, uint64_t start) {
    autofd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || !process_alive(pid, start)) /* the descriptor first: so it is of that very process */
        return true;
    struct pollfd polls = {.fd = pidfd, .events = POLLIN};
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return poll(&polls, 1, KILL_WAIT_MS) == 1;
}

/* While the maker lives it is his to clean up. */
static bool claim_gone(void *user, const struct claim *claim) {
    struct leftover *leftover = user;
    if (process_alive(claim->owner, claim->owner_start))
        return false;
    bool orphan = !claim_dead(claim) && strcmp(claim->state, leftover->backend->env->state_dir) == 0 &&
                  !is_recorded(leftover, claim);
    if (orphan ? !end_process(claim->pid, claim->start) : !claim_dead(claim))
        return false;
    take_apart(leftover->backend, claim->slot);
    tell(leftover, "slot %u of %s%s", claim->slot, *claim->state ? claim->state : "an older daemon",
         orphan ? ", with its processes" : "");
    return true;
}

/* A slot's directory, until a box takes it, lies beside the boxes. */
static void clean_directories(const struct leftover *leftover) {
    struct backend *backend = leftover->backend;
    int fd = openat(backend->boxes_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct err ignored;
    bool used = false;
    while (dir && (entry = readdir(dir))) {
        unsigned slot;
        used |= text_id(entry->d_name);
        if (sscanf(entry->d_name, ".slot-%u", &slot) != 1)
            continue;
        if (ids_claimed(slot, backend->env->state_dir))
            used = true;
        else if (trash_put(backend->trash, backend->boxes_dir, entry->d_name, &ignored) == 0)
            tell(leftover, "directory boxes/%s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (dir && !used)
        template_prune(backend->env, backend->trash);
}

/* ---- what no claim leads to ---- */

/* Claimed first: so nobody makes anything of that number meanwhile. */
static bool take_number(const struct leftover *leftover, const char *text, unsigned *ret_slot) {
    uint64_t slot;
    if (!text_u64(text, IDS_SLOTS - 1, &slot) || !ids_take((unsigned)slot, leftover->backend->env->state_dir))
        return false;
    *ret_slot = (unsigned)slot;
    return true;
}

/* Processes in it would be somebody's whose claims cannot be seen from here (a container with its own /run): they stay. */
static void clean_cgroup(void *user, const char *name) {
    const struct leftover *leftover = user;
    unsigned slot;
    if (!take_number(leftover, name, &slot))
        return;
    if (cgroup_sweep(&leftover->backend->cgroups, name))
        tell(leftover, "cgroup %s", name);
    ids_release(slot);
}

static void clean_interfaces(const struct leftover *leftover) {
    struct if_nameindex *links = if_nameindex();
    for (size_t i = 0; links && links[i].if_index; i++) {
        unsigned slot;
        if (strncmp(links[i].if_name, "cubby-", 6) != 0 || !take_number(leftover, links[i].if_name + 6, &slot))
            continue;
        net_detach(slot);
        tell(leftover, "interface %s", links[i].if_name);
        ids_release(slot);
    }
    if_freenameindex(links);
}

void leftover_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    struct leftover leftover = {.backend = backend, .each = each, .user = user};
    struct err ignored;
    if (backend->root) {
        backend_list_boxes(backend->boxes_dir, "jail", note_recorded, &leftover, &ignored);
        ids_each(claim_gone, &leftover);
        free(leftover.recorded);
        cgroup_each(&backend->cgroups, clean_cgroup, &leftover);
        clean_interfaces(&leftover);
    }
    clean_directories(&leftover);
    if (trash_wake(backend->trash))
        tell(&leftover, "files in trash/");
}
