/* The jail backend's own rooms: slots (halves of boxes), their pool, and the network. */
#ifndef CUBBY_BACKEND_JAIL_H
#define CUBBY_BACKEND_JAIL_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/cgroup.h"
#include "backend/jail/runner_program.h"
#include "backend/quota/quota.h"
#include "backend/template.h"
#include "backend/trash.h"

#define JAIL_START_TIMEOUT_MS 20000u

struct pool;
struct reaper;
struct slot;

struct backend {
    const struct backend_env *env;
    bool root; /* we are: id ranges, idmapped layers, limits */
    struct cgroup_host cgroups;
    struct quota quota;
    struct image image; /* what boxes are started from */
    int null_fd, boxes_dir, state_dir;
    int layers_dir; /* on the same mount as boxes_dir: files move between them */
    struct trash *trash;
    struct pool *pool;
    struct reaper *reaper; /* NULL without a pool: a short run ends its box itself */
    struct slot *early;    /* of a short run: a runner that starts while we do, for the first slot; NULL when taken */
    pthread_mutex_t lock;  /* of early */
};

/* A jail being made. First the half that needs no owner: claimed ids, cgroups, a process waiting in its namespaces for a
 * plan. Then the whole: its runner serves. It is one box's, once; or dropped. */
struct slot {
    unsigned number; /* machine-wide */
    bool claimed;
    uint32_t uid_base;
    struct cgroup cgroup;
    bool has_cgroup;
    struct limits limits; /* written to it */
    enum quota_form form; /* of its files, which hold limits.disk_mb */
    bool net;             /* it is attached to the network */
    bool recorded;        /* its directory has a record */
    char dir[32];         /* prepared box directory, a name in state/boxes/ until a box takes it */
    pid_t outer_pid;      /* stage one, to be waited for; 0: it was */
    pid_t pid;            /* PID 1 of the box, seen from here; 0: not told yet */
    int pidfd;            /* of that process, -1 as long as pid is 0 */
    uint64_t start;       /* of that process, too */
    int stage_fd, errors_fd;
    struct wire *wire; /* NULL: a half */
    char template_path[4096];
};

/* What a slot is made for. A pool makes them for the template `host` and for nobody yet. */
struct slot_want {
    const struct template *template;
    const char *id;              /* whose files; NULL: new ones, taken over later by some box */
    bool kept;                   /* id has files already, which stay whatever happens */
    const struct spec *spec;     /* of the layers between those files and the template; NULL: none */
    const struct limits *limits; /* of the box, or what a pool's next box will probably have */
    bool one_shot;               /* on v1 only the controllers that limits need; no socket to find the box by */
};
int slot_make(struct backend *backend, const struct slot_want *want, struct slot *ret_slot,
              struct err *err);                                              /* does not wait for the process */
void slot_early(struct backend *backend);                                    /* starts backend->early */
void slot_early_drop(struct backend *backend);                               /* ends it if nobody took it */
int slot_ready(struct backend *backend, struct slot *slot, struct err *err); /* waits for the pid */
bool slot_alive(const struct slot *slot);                                    /* ready, and its PID 1 has not ended */
/* Writes struct jail_record into the directory `name`. */
int slot_record(struct backend *backend, struct slot *slot, const char *name, struct err *err);
void slot_drop(struct backend *backend, struct slot *slot); /* ends it, leaves nothing */
/* A message of wire/plan.h, whose first 4 bytes are left for its length. */
int slot_send(struct slot *slot, struct buf *message, struct err *err);
/* What a failed step wrote; err is set from it, or to `otherwise` when it wrote nothing. */
int slot_error(struct slot *slot, const char *otherwise, struct err *err);

/* attach.c: /skills of an agent's box: at its start, before anybody else sees it, and again while it runs (the backend's
 * attach) */
int attach_first(struct backend *backend, const struct spec *spec, const struct slot *slot, struct err *err);
int attach_again(struct backend *backend, const struct spec *spec, struct err *err);

/* slot_plan.c: from a half to a whole: told what it is, then greeted in the directory `name`; slot->wire is set. */
int slot_tell(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err);
int slot_greet(struct backend *backend, struct slot *slot, const char *name, struct err *err);
void slot_part(struct backend *backend, struct slot *slot,
               bool later); /* then: its stage one ends, and is waited for */
/* The same for nobody, with the limits it was made with ... */
int slot_tell_blank(struct backend *backend, struct slot *slot, struct err *err);
bool slot_plain(const struct spec *spec); /* ... which can become any box of the same limits that this is true of */
int slot_bind(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err);

/* pool.c: slots kept ready by one thread. NULL when env->pool_size is 0. */
struct pool *pool_new(struct backend *backend);
void pool_free(struct pool *pool);
/* A slot for that box, which has no files yet: a blank jail (its wire is set) where that will do, or a half. false: none
 * is ready. The next ones are made for boxes like the last one asked for. */
bool pool_take(struct pool *pool, const struct template *template, const struct spec *spec, struct slot *ret_slot);

/* net.c: a veth pair and NAT for one slot */
struct net_plan {
    uint32_t address; /* of the box */
    char resolv[1024];
};
/* networks: private ones that boxes may reach, "A.B.C.D[/BITS]", NULL-terminated, may be NULL. user: all boxes of one user
 * share the flows that a user may have (COUNTED_FLOWS); the kernel counts them. */
int net_attach(unsigned slot, pid_t pid, const char *user, const char *const *networks, struct net_plan *ret_plan,
               struct err *err);
void net_detach(unsigned slot);
bool net_attached(unsigned slot);

/* What is written down of a live box: state/boxes/ID/jail */
struct jail_record {
    pid_t pid;
    uint64_t start;
    unsigned slot;
    bool ranged, net;
    bool disk; /* its files are bounded, and so counted */
    char cgroup[32];
    bool v1[CGROUP_CONTROLLERS];
};
/* What of a box's end is waited for. */
enum jail_wait {
    WAIT_ALL,
    WAIT_PROCESSES, /* its mounts are taken apart in the background */
    WAIT_NONE,      /* and so ends a runner that sleeps alone in its box: killed, it never does anything again */
};
/* Its processes end, its files stay where they are. Unless all is waited for, whoever mounts those files as they are must
 * not write to them. Idempotent. */
int jail_end(struct backend *backend, const char *id, enum jail_wait wait, struct err *err);
bool jail_await(pid_t pid, uint64_t start); /* of one that was killed; true: it is gone, also where pid is 0 */
bool jail_alone(pid_t pid);                 /* PID 1 of a box in which nothing else runs */
int jail_record_read(struct backend *backend, const char *id, struct jail_record *ret_record); /* 0 or -errno */
struct cgroup jail_record_cgroup(const struct jail_record *record);

/* freeze.c: the backend's pause and paused */
int freeze_set(struct backend *backend, const char *id, bool pause, struct err *err);
bool freeze_is(struct backend *backend, const char *id);
/* Frozen for work of this daemon, under the box's lock: marked on the disk first, so that the next daemon lets go of it. */
int freeze_hold(struct backend *backend, const char *id, struct err *err);
bool freeze_alone(struct backend *backend, pid_t pid); /* nothing but that runner runs in its box */
int freeze_let_go(struct backend *backend, const char *id, struct err *err); /* nothing to do where nobody holds it */
/* The box's processes have been killed: what would keep frozen ones from ending goes. */
void freeze_killed(const struct cgroup_host *host, const struct cgroup *cgroup);

#endif
