/* The jail backend: slots (boxes that are being made), their pool, the network, layers, and the end of boxes. */
#ifndef CUBBY_BACKEND_JAIL_H
#define CUBBY_BACKEND_JAIL_H

#include <pthread.h>

#include "backend/backend.h"
#include "base/limits.h"
#include "backend/cgroup.h"
#include "backend/netcapture.h"
#include "backend/jail/runner_program.h"
#include "backend/quota/quota.h"
#include "backend/template.h"
#include "backend/trash.h"

#define JAIL_START_TIMEOUT_MS 20000u

struct pool;
struct reaper;
struct slot;

struct jail_net {
    char id[17];
    struct netplace place; /* of an ordinary user's box its network namespace; of a pooled one its sockets */
};

struct backend {
    const struct backend_env *env;
    bool root; /* we are: id ranges, idmapped layers, limits */
    struct cgroup_host cgroups;
    struct quota quota;
    struct runner_program program; /* that boxes are started from */
    int null_fd, boxes_dir, state_dir;
    int layers_dir; /* on the same mount as boxes_dir: files move between them */
    struct trash *trash;
    struct pool *pool;
    struct reaper *reaper; /* NULL without a pool: a short run ends its box itself */
    struct slot *early;    /* of a short run: a runner that starts while we do, for the first slot; NULL: taken */
    struct jail_net *nets; /* what cannot be opened again, or was made ahead */
    size_t net_count, net_size;
    pthread_mutex_t lock; /* of early, nets */
    atomic_bool policies; /* a box with a network policy was started: blank jails are wired ahead from then on */
};

/* A jail that is being made. First a half: claimed ids, cgroups, a process in its namespaces that waits for a plan.
 * Then whole: its runner serves. It becomes one box, once, or is dropped. */
#define SLOT_WORKSPACE 64 /* boxes with a longer one are not made in advance */

struct slot {
    unsigned number; /* machine-wide */
    bool claimed;
    uint32_t uid_base;
    struct cgroup cgroup;
    bool has_cgroup;
    struct limits limits;                /* written to it */
    enum quota_form form;                /* of its files, which hold limits.disk_mb */
    bool net;                            /* it is attached to the network */
    char net_user[LIMIT_USER_BYTES + 1]; /* of a blank one with a network: by whose bounds */
    bool recorded;                       /* its directory has a record */
    char dir[32];                        /* prepared box directory, a name in state/boxes/ until a box takes it */
    pid_t outer_pid;                     /* stage one, to be waited for; 0: it was */
    pid_t pid;                           /* PID 1 of the box, seen from here; 0: not known yet */
    int pidfd;                           /* of that process, -1 as long as pid is 0 */
    uint64_t start;                      /* of that process, too */
    struct netplace place; /* its network namespace, of an ordinary user's box; of a pooled one it is wired */
    int stage_fd, errors_fd;
    struct wire *wire; /* NULL: a half */
    char template_path[4096];
    char workspace[SLOT_WORKSPACE]; /* of a blank one; "": WORKSPACE_PATH */
    unsigned passed;                /* boxes in a row that a pooled one was not for */
};

/* What a slot is made for. A pool makes slots for the template that was wanted last and for no box yet. */
struct slot_want {
    const struct template *template;
    const char *id;              /* the box with the files; NULL: new files, for a later box */
    bool kept;                   /* the box has files already, which stay whatever happens */
    const struct spec *spec;     /* of the layers between those files and the template; NULL: none */
    const struct limits *limits; /* of the box, or the likely limits of a pool's next box */
    bool one_shot;               /* on v1 only the controllers that limits need; no socket to find the box by */
};
int slot_make(struct backend *backend, const struct slot_want *want, struct slot *ret_slot,
              struct err *err);                                              /* does not wait for the process */
void slot_early(struct backend *backend);                                    /* starts backend->early */
void slot_early_drop(struct backend *backend);                               /* ends it if no slot took it */
int slot_ready(struct backend *backend, struct slot *slot, struct err *err); /* waits for the pid */
bool slot_alive(const struct slot *slot);                                    /* ready, and its PID 1 has not ended */
/* Writes struct jail_record into the directory `name`. */
int slot_record(struct backend *backend, struct slot *slot, const char *name, struct err *err);
void slot_drop(struct backend *backend, struct slot *slot); /* ends it, leaves nothing */

/* attach.c: /skills of an agent's box: at its start, before anybody else sees it, and again while it runs (the
 * backend's attach) */
int attach_first(struct backend *backend, const struct spec *spec, const struct slot *slot, struct err *err);
/* Files of this machine into a running box. */
int attach_mounts(struct backend *backend, const char *id, const struct mount *mounts, size_t count, struct err *err);
int attach_resolv(struct backend *backend, const char *id, const char *text, struct err *err); /* its resolv.conf */
int attach_again(struct backend *backend, const struct spec *spec, struct err *err);

/* From a half to a whole: sends the plan, then waits for HELLO and sets slot->wire. */
int slot_plan(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err);
int slot_greet(struct backend *backend, struct slot *slot, const char *name, struct err *err);
void slot_part(struct backend *backend, struct slot *slot, bool later); /* then: waits for the end of its stage one */
/* The same for no box yet, with the limits it was made with ... */
int slot_plan_blank(struct backend *backend, struct slot *slot, struct err *err);
bool slot_plain(const struct spec *spec); /* ... which can become any such box of the same limits */
void slot_wire_ahead(struct slot *slot);  /* for a network policy, should its box have one */
int slot_bind(struct backend *backend, struct slot *slot, const struct spec *spec, struct err *err);

/* pool.c: slots kept ready by one thread. NULL when env->pool_size is 0. */
struct pool *pool_new(struct backend *backend);
void pool_free(struct pool *pool);
/* A slot for that box, which has no files yet: a blank jail (its wire is set) where that suffices, or a half. false:
 * none is ready. The next ones are made for boxes like the last one. */
bool pool_take(struct pool *pool, const struct template *template, const struct spec *spec, struct slot *ret_slot);

/* net.c: a veth pair and NAT for one slot */
/* networks: private ones that boxes may reach, "A.B.C.D[/BITS]", NULL-terminated, may be NULL. user: all boxes of one
 * user share the flows that a user may have (COUNTED_FLOWS); the kernel counts them. ret_resolv: its resolv.conf. */
enum { NET_RESOLV_BYTES = 1024 };
int net_attach(unsigned slot, pid_t pid, const char *user, const char *const *networks,
               char ret_resolv[NET_RESOLV_BYTES], struct err *err);
void net_detach(unsigned slot);
bool net_attached(unsigned slot);

/* The record of a live box: state/boxes/ID/jail */
struct jail_record {
    pid_t pid;
    uint64_t start;
    unsigned slot;
    bool ranged, net;
    bool disk; /* its files are limited, and so counted */
    char cgroup[32];
    bool v1[CGROUP_CONTROLLERS];
};
/* How much of a box's end is waited for. */
enum jail_wait {
    WAIT_ALL,
    WAIT_PROCESSES, /* its mounts are taken apart in the background */
    WAIT_NONE,      /* also a runner that sleeps alone in its box: once killed, it never does anything again */
};
/* Ends its processes; its files stay where they are. Until all of it is waited for, a process that mounts those
 * files must not write to them. Idempotent. */
int jail_end(struct backend *backend, const char *id, enum jail_wait wait, struct err *err);
bool jail_await(pid_t pid, uint64_t start); /* of a killed process; true: it is gone, also where pid is 0 */
bool jail_alone(pid_t pid);                 /* PID 1 of a box in which nothing else runs */
int jail_record_read(struct backend *backend, const char *id, struct jail_record *ret_record); /* 0 or -errno */
int jail_record_write(struct backend *backend, const char *id, const struct jail_record *record, struct err *err);
struct cgroup jail_record_cgroup(const struct jail_record *record);

/* reaper.c: takes ended boxes apart in the background, with two threads, or four in a storm. */
struct reaper_job {   /* a box whose processes are gone, or only the outer process of one that has just started */
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
/* Takes the descriptor. Waits when too much is queued, so that a storm of deletions cannot pile up mounts. */
void reaper_put(struct reaper *reaper, const struct reaper_job *job);
void reaper_run(struct backend *backend, struct reaper_job *job); /* at once, in the caller's thread */

/* leftover.c: ends and removes what dead daemons left, and names each thing. Leaves alone boxes that are recorded, or
 * that a living daemon makes. */
void leftover_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user);

/* layer.c: the verbs of backend.h about files. A kept layer is STATE/layers/NAME/fs, in one of the forms of quota.h. */
enum backend_files layer_files(struct backend *backend, const char *id);
int layer_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
               struct err *err);
int layer_keep_ahead(struct backend *backend, const char *id, struct kept_ahead **ret_ahead, struct err *err);
void layer_keep_ahead_end(struct backend *backend, struct kept_ahead *ahead);
int layer_let_go(struct backend *backend, const char *id, struct err *err);
int layer_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err);
int layer_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int layer_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                 struct err *err);
int layer_drop(struct backend *backend, const char *layer, struct err *err);

/* pack.c: files that go to another machine, or come from one. What is coming lies in boxes or layers, as .unpack-NAME,
 * until it is whole. */
#define PACK_STAGED ".unpack-"
int pack_send(struct backend *backend, const char *name, bool layer, const struct backend_stream *stream,
              struct err *err);
int pack_receive(struct backend *backend, const char *name, bool layer, uint64_t disk_mb,
                 const struct backend_stream *stream, struct err *err);

/* freeze.c: the backend's pause and paused */
int freeze_set(struct backend *backend, const char *id, bool pause, struct err *err);
bool freeze_is(struct backend *backend, const char *id);
/* Freezes it for this daemon's own work, under the box's lock; marked on the disk first, so that the next daemon thaws
 * it. */
int freeze_hold(struct backend *backend, const char *id, struct err *err);
bool freeze_alone(struct backend *backend, pid_t pid); /* nothing but that runner runs in its box */
int freeze_let_go(struct backend *backend, const char *id, struct err *err); /* nothing to do where it is not held */
/* The box's processes were killed: removes what would keep frozen ones from ending. */
void freeze_killed(const struct cgroup_host *host, const struct cgroup *cgroup);

#endif
