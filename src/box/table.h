/* The provider's inside, shared by provider.c (what callers ask) and table.c (what happens by itself). */
#ifndef CUBBY_BOX_TABLE_H
#define CUBBY_BOX_TABLE_H

#include <pthread.h>

#include "box/provider.h"
#include "box/record.h"

enum { SLOT_BUCKETS = 4096, BACKENDS_MAX = 8 };

struct slot {
    struct slot *next;
    char id[17];
    struct box *box;
    bool cleaned; /* of a box that died: what its runner left behind has been ended */
};

struct provider {
    const struct backend_env *env;
    struct policy policy;
    const char *default_backend;
    /* As backend_table; opened at first use. NULL after that: not available, and why. backend_lock is for these alone
     * and is never held together with lock. */
    pthread_mutex_t backend_lock;
    bool backend_tried[BACKENDS_MAX];
    struct backend *backends[BACKENDS_MAX];
    struct err backend_errors[BACKENDS_MAX];
    int boxes_fd;  /* STATE/boxes */
    int reaper_fd; /* lock file of the one daemon that evicts and cleans */
    bool reaper;   /* and we are it */
    int epoll_fd;  /* runners: pidfd and wire, by id */
    int wake_fd;   /* ends the watcher */
    bool threads;  /* started with the first box that lives longer than a command */
    bool ending;
    pthread_t watcher, keeper;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a box's state */
    pthread_cond_t work;    /* for the housekeeper */
    struct slot *buckets[SLOT_BUCKETS];
    unsigned count;
};

/* provider.c */
struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record);
struct box *box_again(const struct box *box); /* the same box without a runner */
void box_unref(struct box *box);
struct slot *slot_get_locked(struct provider *provider, const char *id);
struct slot *slot_add_locked(struct provider *provider, struct box *box);
/* The slot once nobody works on it; NULL when there is none. died_is_settled: do not wait for the cleaning of one
 * whose runner died. */
struct slot *slot_settled_locked(struct provider *provider, const char *id, bool died_is_settled);

/* table.c */
int table_backend(struct provider *provider, const char *name, const struct backend_ops **ret_ops,
                  struct backend **ret_backend, struct err *err);
void table_load(struct provider *provider, const char *id); /* a box known only on disk comes into the table */
void table_watch_locked(struct provider *provider, struct box *box);

#endif
