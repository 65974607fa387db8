/* What remains of ended boxes: mounts, cgroups, interfaces, claims. Taken apart in the background by two threads. */
#ifndef CUBBY_BACKEND_REAPER_H
#define CUBBY_BACKEND_REAPER_H

#include "backend/jail/jail.h"

/* One box whose processes are gone, or only the outer half of one that has just begun. */
struct remains {
    int mounts_fd;    /* its mount namespace, held so that no exiting process had to take it apart; -1: none */
    bool mounts_sent; /* set by the reaper: it is on its way to a thread */
    struct cgroup cgroup;
    unsigned slot;
    bool net, claimed;
    pid_t pid; /* its PID 1, killed and not waited for yet; 0: it is gone */
    uint64_t start;
    pid_t outer_pid; /* to be waited for, and nothing else; 0: all the above */
};

struct reaper *reaper_new(struct backend *backend);
void reaper_free(struct reaper *reaper); /* waits until all is gone */
/* Takes the descriptor. Waits when too much is queued: a storm of deletions cannot pile up mounts. */
void reaper_put(struct reaper *reaper, const struct remains *remains);
void reaper_bury(struct backend *backend, struct remains *remains); /* at once, in the caller's thread */

#endif
