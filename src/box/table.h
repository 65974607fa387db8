/* The provider's inside, shared by provider.c (what callers ask), place.c (one box's place in the table) and table.c
 * (what happens by itself). */
#ifndef CUBBY_BOX_TABLE_H
#define CUBBY_BOX_TABLE_H

#include <pthread.h>

#include "box/provider.h"
#include "box/record.h"
#include "box/tally.h"
#include "box/statelock.h"

enum { PLACE_BUCKETS = 4096, BACKENDS_MAX = 8, ADOPTERS = 8 };

struct box_ids {
    char (*list)[17];
    size_t count;
};

struct place {
    struct place *next;
    char id[17];
    struct box *box;
    bool unsynced;     /* its record was written by us and is not surely on the disk yet */
    uint64_t later_ms; /* the housekeeper failed here: not again before (clock_ms) */
};

struct provider {
    const struct backend_env *env;
    struct policy *policy; /* under lock; table_policy for use without it */
    void (*event)(void *user, const struct box_event *event);
    void *event_user;
    const char *default_backend;
    /* As backend_table; opened at first use. NULL after that: not available, and why. backend_lock is for these alone
     * and is never held together with lock. */
    pthread_mutex_t backend_lock;
    bool backend_tried[BACKENDS_MAX];
    struct backend *backends[BACKENDS_MAX];
    struct err backend_errors[BACKENDS_MAX];
    int boxes_fd; /* STATE/boxes */
    struct statelock statelock;
    uint64_t clean_ms; /* when the reaper looks again for what dead daemons left (clock_ms) */
    bool reaper;       /* of several daemons the one that evicts and cleans */
    bool crowded;      /* other daemons serve this state directory too, when last looked */
    int epoll_fd;      /* runners: pidfd and wire, by id */
    int wake_fd;       /* ends the watcher */
    bool threads;
    bool ending;
    pthread_t watcher, keeper;
    pthread_t adopters[ADOPTERS]; /* for the boxes of an earlier daemon; joined at the end */
    unsigned adopter_count;
    struct box_ids adopting;
    size_t adopt_next, adopt_done;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a box's state */
    pthread_cond_t work;    /* for the housekeeper */
    struct place *buckets[PLACE_BUCKETS];
    unsigned count;
    struct tally tally; /* of the same boxes, by user */
};

/* ---- place.c ---- */

struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record);
struct box *box_again(const struct box *box); /* the same box without a runner */
void box_unref(struct box *box);
bool box_owned(const struct box *box, const char *user, const char *thread); /* thread NULL: a box without one */

struct place *place_get_locked(struct provider *provider, const char *id);
struct place *place_add_locked(struct provider *provider, struct box *box);
void place_remove_locked(struct provider *provider, struct place *place);
/* The place once nobody works on it; NULL when there is none. */
struct place *place_settled_locked(struct provider *provider, const char *id);
struct box *place_use_locked(struct provider *provider, struct place *place); /* a reference, and it counts as used */
/* Its runner is gone: running verbs end, and whoever comes next opens it again. */
void place_dead_locked(struct provider *provider, struct place *place);

enum place_how {
    PLACE_FRESH,  /* made from a request: whatever is missing is made, the record too */
    PLACE_AGAIN,  /* it was there: started if it does not run, whyever */
    PLACE_GET,    /* started if it was stopped; GONE if its runner died */
    PLACE_SETTLE, /* after a death: nothing is started; what the runner left is ended, the reason is noted */
    PLACE_ADOPT,  /* the daemon has just come: nothing is started; what the runner left is ended */
};
/* What the disk says of the box, under its lock between daemons, becomes what is in its place. The box is STARTING or
 * CLOSING, marked by the caller, who does not hold the lock. NOT_FOUND: another daemon deleted it, and the place is gone.
 * ret_box, ret_created may be NULL. */
int place_open(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
               bool *ret_created, struct err *err);

/* ---- work.c ---- */

/* A box while one caller alone works on it: everybody else waits, other daemons too. */
struct work {
    struct provider *provider;
    struct box *box;      /* what is in its place now; without a wire: it does not run */
    struct record record; /* as on the disk; what the work changes of it is written when `changed` */
    struct arena *arena;  /* for what it puts there */
    bool changed;         /* set by the work: it runs no more, and goes on as the record says */
};
/* Its processes and mounts go, its files stay. Idempotent; the place notices. */
int work_stop(struct work *work, const char *why, struct err *err);
/* user NULL: any owner; else somebody else's answers as unknown. Nothing is started. Not for one-shot boxes. */
int provider_work(struct provider *provider, const char *user, const char *id,
                  int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err);

/* ---- table.c ---- */

struct policy *table_policy(struct provider *provider); /* with a reference for the caller; takes the lock */
int table_backend(struct provider *provider, const char *name, const struct backend_ops **ret_ops,
                  struct backend **ret_backend, struct err *err);
void table_watch_locked(struct provider *provider, struct box *box);
/* A runner's socket is closed a moment before it counts as ended: waits for that, and knows why it ended. For who has
 * marked the box; without the lock. */
void table_death(struct provider *provider, struct box *box);
bool table_readable(int fd); /* a descriptor of a process: it has ended */
pthread_t table_thread(void *(*main)(void *), void *argument);
/* Tells whoever keeps the audit log. With or without the lock; id, user and detail may be NULL. */
void provider_event(const struct provider *provider, const char *verb, const char *id, const char *user,
                    const char *detail);

/* ---- adoption.c ---- */

void adoption_load(struct provider *provider, const char *id); /* a box known only on disk comes into the table */
void adoption_refresh(struct provider *provider);              /* what other daemons made and removed */
void adoption_begin(struct provider *provider);                /* of all on the disk, by threads */
void adoption_wait(struct provider *provider);                 /* until they are through, or it takes too long */
void adoption_end(struct provider *provider);
/* The reaper's: what dead daemons left, boxes never finished. first: files without a record are told of. */
void adoption_clean(struct provider *provider, bool first);

#endif
