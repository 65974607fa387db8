/* Slots: numbers claimed machine-wide. A slot's number gives a box its range of host ids, its cgroup's name, its
 * address and its interface; two boxes of two daemons never share one. */
#ifndef CUBBY_BACKEND_IDS_H
#define CUBBY_BACKEND_IDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define IDS_PER_BOX 65536u
#define IDS_FIRST 0x10000000u /* above every range that useradd or newuidmap hand out */
#define IDS_SLOTS 57344u      /* up to 0xf0000000 */
#define IDS_DIR "/run/cubby/ids"
#define IDS_AGENT 1000u /* of a box's user on the disk, whatever the user's id in the box */

/* A process as it can be found again: its pid and when it began (ticks since boot; 0: no such process). */
uint64_t process_start(pid_t pid);
bool process_alive(pid_t pid, uint64_t start);
int process_pidfd(pid_t pid, uint64_t start);   /* of that very process; -1: it is gone */
bool process_asleep(pid_t pid, uint64_t start); /* waits for something, and a signal would end that */

struct claim {
    unsigned slot;
    pid_t pid; /* the owner: the box's PID 1, or the process that makes or removes the box */
    uint64_t start;
    pid_t owner; /* the daemon that made the box; it may be gone, and the box adopted by another */
    uint64_t owner_start;
    char state[4096]; /* directory of the box */
};
bool claim_dead(const struct claim *claim); /* its process is gone */

/* Claims a free slot for the calling process. Claims of processes that are gone are taken over. */
int ids_claim(const char *state_dir, unsigned *ret_slot, struct err *err);
int ids_assign(unsigned slot, pid_t pid, uint64_t start, struct err *err); /* hands the claim to the box's PID 1 */
/* Takes over the claim of a PID 1 that is gone, so that no other process does while the rest of the box is removed.
 * false: it is no longer that PID 1's. */
bool ids_inherit(unsigned slot, pid_t pid, uint64_t start);
void ids_release(unsigned slot);
/* Every claim, while no process can take over a stale one. `gone` decides which ones are released. */
void ids_each(bool (*gone)(void *user, const struct claim *claim), void *user);
bool ids_claimed(unsigned slot, const char *state_dir); /* for that state directory */
bool ids_take(unsigned slot, const char *state_dir);    /* claims exactly this one, if it is free */

#endif
