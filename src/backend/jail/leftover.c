/* Remains of dead daemons: runners without a record, claims, cgroups, interfaces, directories of slots. Called by
 * jail.c for the daemon that cleans, and for `cubbyd --cleanup`. Invariant: things of living processes stay. A claim
 * names its maker (ids.h): its slot is removed only when its process is gone, or when its maker is gone and no box
 * of this state directory is recorded with it. */
#include <net/if.h>
#include <poll.h>
#include <sys/pidfd.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"

enum { KILL_WAIT_MS = 5000 };

struct leftover_box { /* its PID 1 */
    pid_t pid;
    uint64_t start;
};

struct leftover {
    struct backend *backend;
    void (*each)(void *user, const char *what);
    void *user;
    struct leftover_box *recorded; /* every box of this state directory */
    size_t count, cap;
};

__attribute__((format(printf, 2, 3))) static void leftover_report(const struct leftover *leftover, const char *format,
                                                                  ...) {
    char text[4400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    leftover->each(leftover->user, text);
}

/* ---- slots ---- */

static void leftover_note(void *user, const char *id) {
    struct leftover *leftover = user;
    struct jail_record record;
    if (jail_record_read(leftover->backend, id, &record) == 0)
        vec_add(leftover->recorded, leftover->count, leftover->cap) = (struct leftover_box){record.pid, record.start};
}

/* Whether a claim is to be released. While its maker lives, it is the maker's to clean up. */
static bool leftover_claim(void *user, const struct claim *claim) {
    struct leftover *leftover = user;
    struct backend *backend = leftover->backend;
    bool dead = claim_dead(claim), orphan = !dead && strcmp(claim->state, backend->env->state_dir) == 0;
    if (process_alive(claim->owner, claim->owner_start))
        return false;
    for (size_t i = 0; i < leftover->count; i++)
        orphan &= leftover->recorded[i].pid != claim->pid || leftover->recorded[i].start != claim->start;
    if (!orphan && !dead)
        return false;
    autofd pidfd = orphan ? process_pidfd(claim->pid, claim->start) : -1;
    struct pollfd polls = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0 && (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 || poll(&polls, 1, KILL_WAIT_MS) != 1))
        return false;
    struct cgroup cgroup = {.v1 = {true, true, true}};
    snprintf(cgroup.name, sizeof cgroup.name, "%u", claim->slot);
    cgroup_kill(&backend->cgroups, &cgroup);
    cgroup_remove(&backend->cgroups, &cgroup);
    if (net_attached(claim->slot))
        net_detach(claim->slot);
    leftover_report(leftover, "slot %u of %s%s", claim->slot, *claim->state ? claim->state : "an older daemon",
                    orphan ? ", with its processes" : "");
    return true;
}

/* A slot's directory, until a box takes it, lies next to the boxes. */
static void leftover_directories(const struct leftover *leftover) {
    struct backend *backend = leftover->backend;
    autodir *dir = fd_opendir(backend->boxes_dir, ".", 0);
    struct err ignored;
    bool used = false;
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        unsigned slot;
        used |= text_id(entry->d_name);
        if (sscanf(entry->d_name, ".slot-%u", &slot) != 1)
            continue;
        if (ids_claimed(slot, backend->env->state_dir))
            used = true;
        else if (trash_put(backend->trash, backend->boxes_dir, entry->d_name, &ignored) == 0)
            leftover_report(leftover, "directory boxes/%s", entry->d_name);
    }
    if (dir && !used)
        template_prune(backend->env, backend->trash);
}

/* Files that were coming from another machine and are not whole. */
static void leftover_staged(const struct leftover *leftover, int dirfd) {
    autodir *dir = fd_opendir(dirfd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        if (strncmp(entry->d_name, PACK_STAGED, strlen(PACK_STAGED)) == 0 &&
            trash_put(leftover->backend->trash, dirfd, entry->d_name, ERR_IGNORED) == 0)
            leftover_report(leftover, "half of a stream of files, %s", entry->d_name);
}

/* ---- without a claim ---- */

/* Claimed first, so that no process makes anything with that number now. */
static bool leftover_take(const struct leftover *leftover, const char *text, unsigned *ret_slot) {
    uint64_t slot;
    if (!text_u64(text, IDS_SLOTS - 1, &slot) || !ids_take((unsigned)slot, leftover->backend->env->state_dir))
        return false;
    *ret_slot = (unsigned)slot;
    return true;
}

/* Processes in it belong to a daemon whose claims cannot be seen from here (a container with its own /run): they
 * stay. */
static void leftover_cgroup(void *user, const char *name) {
    const struct leftover *leftover = user;
    unsigned slot;
    if (!leftover_take(leftover, name, &slot))
        return;
    if (cgroup_sweep(&leftover->backend->cgroups, name))
        leftover_report(leftover, "cgroup %s", name);
    ids_release(slot);
}

static void leftover_interfaces(const struct leftover *leftover) {
    struct if_nameindex *links = if_nameindex();
    for (size_t i = 0; links && links[i].if_index; i++) {
        unsigned slot;
        if (strncmp(links[i].if_name, "cubby-", 6) != 0 || !leftover_take(leftover, links[i].if_name + 6, &slot))
            continue;
        net_detach(slot);
        leftover_report(leftover, "interface %s", links[i].if_name);
        ids_release(slot);
    }
    if (links) /* NULL: no descriptor was left for the question */
        if_freenameindex(links);
}

void leftover_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    struct leftover leftover = {.backend = backend, .each = each, .user = user};
    struct err ignored;
    if (backend->root) {
        backend_list_boxes(backend->boxes_dir, "jail", leftover_note, &leftover, &ignored);
        ids_each(leftover_claim, &leftover);
        free(leftover.recorded);
        cgroup_each(&backend->cgroups, leftover_cgroup, &leftover);
        leftover_interfaces(&leftover);
    }
    leftover_directories(&leftover);
    leftover_staged(&leftover, backend->boxes_dir);
    leftover_staged(&leftover, backend->layers_dir);
    if (trash_wake(backend->trash))
        leftover_report(&leftover, "files in trash/");
}
