/* The provider's inside, shared by provider.c (what callers ask), place.c (one box's place in the table), eviction.c
 * (which box has to go), work.c (work on one box) and housekeeping.c (what happens by itself). */
#ifndef CUBBY_BOX_TABLE_H
#define CUBBY_BOX_TABLE_H

#include <stdatomic.h>

#include "base/sync.h"
#include "box/provider/provider.h"
#include "box/provider/note.h"
#include "box/provider/record.h"
#include "box/provider/statelock.h"

enum { PLACE_BUCKETS = 4096, BACKENDS_MAX = 8, ADOPTERS = 8, TIMEKEEPERS = 4, PROVIDER_STACK_BYTES = 256 << 10 };

struct box_ids {
    char (*list)[17];
    size_t count, cap;
};

/* The usage of each user; under the provider's lock. */
struct tally_row;

struct tally {
    struct tally_row *buckets[256];
};

struct tally_sum {
    uint64_t boxes;
    uint64_t memory_mb; /* limits of those that run */
    uint64_t disk_mb;   /* limits of all */
};

struct tally_sum tally_of(const struct tally *tally, const char *user);
/* One box counted as `was` (nothing, when it comes) and counts as `now` (nothing, when it goes). */
void tally_change(struct tally *tally, const char *user, struct tally_sum was, struct tally_sum now);
void tally_done(struct tally *tally); /* frees the rest */

struct place {
    struct place *next;
    char id[17];
    struct box *box;
    enum box_state was;       /* while a thread works on it (STARTING, CLOSING): its state before */
    bool runs;                /* it has processes, or is just given some */
    bool counts;              /* ... and in provider->running: they are on this host */
    bool away;                /* its machine could not be asked what became of it */
    struct tally_sum counted; /* of its user */
    uint64_t terminals;       /* the same: COUNTED_TERMINALS */
    bool unsynced;            /* its record was written by us and is not surely on the disk yet */
    /* clock_ms, as every time in the table: the wall clock may jump, and decides nothing. */
    uint64_t written_ms;      /* when that was */
    uint64_t move_ms;         /* its machine drains: not tried again before this */
    uint64_t later_ms;        /* housekeeping failed here: not again before this */
    uint64_t touched_ns;      /* the time of its record when last seen: it changes when another daemon uses the box */
    uint64_t elsewhere_ms;    /* when that was last noticed */
    struct note *note;        /* what a dialect keeps of it; NULL: nothing */
    struct usage_ring *usage; /* what it used (usage.c); NULL: nothing was measured */
    bool due;                 /* its deadline has come, and a thread handles it */
    uint64_t busy_ms;         /* when something was last seen to run in the background; counts after used_ms */
};

struct provider {
    const struct backend_env *env;
    struct policy *policy; /* under lock; provider_policy for use without it */
    void (*event)(void *user, const struct box_event *event);
    void *event_user;
    struct box_hooks hooks;
    const char *default_backend;
    /* As backend_table; opened at first use. NULL after that: not available, and why. backend_lock is for these alone
     * and is never held together with lock. */
    pthread_mutex_t backend_lock;
    bool backend_tried[BACKENDS_MAX];
    struct backend *backends[BACKENDS_MAX];
    struct err backend_errors[BACKENDS_MAX];
    int boxes_fd;             /* STATE/boxes */
    int layers_fd;            /* STATE/layers */
    struct networks *network; /* network.c */
    struct squash *squash;    /* squash.c; NULL until it is wanted */
    struct statelock statelock;
    uint64_t clean_ms;       /* when the reaper looks again for what dead daemons left (clock_ms) */
    bool reaper;             /* of several daemons the one that ends idle boxes and cleans */
    bool crowded;            /* other daemons served this state directory too, a turn ago; provider_crowded for now */
    _Atomic uint64_t visits; /* of daemons here, up to when the table was last like the disk ... */
    atomic_bool stale;       /* ... and other daemons were here then or since: the table may be out of date */
    int epoll_fd;            /* runners: pidfd and wire, by id */
    int wake_fd;             /* ends the watcher */
    bool threads;
    bool ending;
    pthread_t watcher, keeper;
    unsigned settlers;            /* threads, each for one box on a machine that answers when it likes */
    pthread_t adopters[ADOPTERS]; /* for the boxes of an earlier daemon; joined at the end */
    unsigned adopter_count;
    struct box_ids adopting;
    size_t adopt_next, adopt_done;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a box's state */
    pthread_cond_t work;    /* for the housekeeper */
    pthread_cond_t due;     /* for those who see to deadlines */
    pthread_cond_t measure; /* ends the measurer's waiting */
    pthread_t measurer;
    pthread_cond_t move; /* ends the mover's waiting */
    pthread_t mover;
    pthread_t timekeepers[TIMEKEEPERS];
    unsigned timekeeper_count; /* started with the first deadline */
    struct place *buckets[PLACE_BUCKETS];
    unsigned count, running;
    struct tally tally;        /* of the same boxes, by user */
    pthread_mutex_t room_lock; /* evictions happen one at a time, or each would end a box for the same reason */
    _Atomic uint64_t memory_bytes, memory_ms; /* free memory, and when it was measured */
};

/* ---- place.c ---- */

struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record);
struct record
box_record(const struct box *box); /* what its record says, but for its bindings; the strings are the box's */
struct box *box_again(const struct box *box); /* the same box without a runner */
void box_unref(struct box *box);
void box_reap(void);                                     /* runners of ours that another process ended; now and then */
int box_stopped(const struct box *box, struct err *err); /* GONE: why its runner ended, and how to start it again */
bool box_owned(const struct box *box, const char *user, const char *thread); /* thread NULL: a box without one */

struct place *place_get_locked(struct provider *provider, const char *id);
struct place *place_add_locked(struct provider *provider, struct box *box);
void place_remove_locked(struct provider *provider, struct place *place);
/* The place once no thread works on it, or that is being exported, which takes long (place_reach); NULL if it does
 * not exist. */
struct place *place_settled_locked(struct provider *provider, const char *id);
/* No other thread touches it until it is unmarked or opened; mark: STARTING, EXPORTING or CLOSING. */
void place_mark_locked(struct place *place, enum box_state mark);
/* Its state before, or a state that was set during the work. */
void place_unmark_locked(struct provider *provider, struct place *place);
bool place_marked(const struct place *place);
bool place_runs(const struct place *place); /* a runner that answers, not paused; false while it is marked */
/* Its share of the counts, with processes or without. */
void place_count_locked(struct provider *provider, struct place *place, bool runs);
struct box *place_use_locked(struct provider *provider, struct place *place); /* a reference, and it counts as used */
/* Its runner is gone: running verbs end, and the next caller opens it again. */
void place_dead_locked(struct provider *provider, struct place *place);

/* Bits, and the combinations that callers use. */
enum place_how {
    HOW_MAKES = 1,     /* whatever is missing is made, the record too */
    HOW_ALONE = 2,     /* a record that is there is EXISTS */
    HOW_STARTS = 4,    /* a runner is started, whatever the reason that none runs */
    HOW_STOPPED = 8,   /* ... only if the box was stopped; one whose runner died is GONE */
    HOW_USES = 16,     /* it leaves the warm shelf */
    HOW_WAKES = 32,    /* a paused box is resumed */
    HOW_ADOPTS = 64,   /* the daemon has just started: processes that a runner left are ended; if no other daemon
                     * serves, that is not a death */
    HOW_HELD = 128,    /* the caller holds the box's lock between daemons and continues: lock and mark stay */
    HOW_REVIVES = 256, /* ... after HOW_STOPPED: also one whose runner died */
    PLACE_FRESH = HOW_MAKES | HOW_STARTS | HOW_USES,
    PLACE_NEW = HOW_MAKES | HOW_ALONE, /* not started: its first use does that */
    PLACE_AGAIN = HOW_STARTS | HOW_USES,
    PLACE_GET = HOW_STOPPED | HOW_USES,
    PLACE_WAKE = PLACE_GET | HOW_REVIVES,
    PLACE_RESUME = HOW_WAKES | HOW_USES,
    PLACE_SETTLE = 0, /* after a death: nothing is started; processes that the runner left are ended, the reason is
                       * recorded */
    PLACE_ADOPT = HOW_ADOPTS,
};
/* Updates the place from the disk, under the box's lock between daemons. The box is STARTING or CLOSING, marked by
 * the caller, who does not hold the lock. NOT_FOUND: another daemon deleted it, and the place is gone. If it was
 * deleted during the call: NOT_FOUND, with HOW_STARTS 1: try again for a new one. A paused box is opened as such by
 * HOW_STARTS, and PAUSED for a caller that only wants to use it. ret_box, ret_created may be NULL. */
int place_open(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
               bool *ret_created, struct err *err);

/* ---- provider.c ---- */

/* A box from a record instead of a request, with its id; EXISTS when that is taken. Counted and recorded as acquire
 * does, and not started: it is as one whose processes were ended. */
int provider_make(struct provider *provider, const struct record *record, struct box **ret_box, struct err *err);
int provider_id(const struct box_request *request, char ret_id[17], struct err *err); /* of the pair, or a random one */

/* provider_destroy without a request; why: of the event, NULL: it was requested. */
int provider_destroy_for(struct provider *provider, const char *user, const char *id, const char *why, struct err *err);

/* ---- work.c ---- */

/* A box while one caller alone works on it: everybody else waits, other daemons too. */
struct work {
    struct provider *provider;
    struct box *box;      /* the current content of its place; without a wire: it does not run */
    struct record record; /* as on the disk; changes by the work are written when `changed` */
    struct arena *arena;  /* for its own strings */
    bool changed;         /* set by the work: it no longer runs, and continues as recorded */
    bool recorded;        /* work_record has written it, and it was not changed since */
    enum box_state state; /* READY, WARM or PAUSED: its state before, and afterwards unless `changed` */
};
/* Its processes and mounts go, its files stay. Idempotent; the place notices. */
int work_stop(struct work *work, const char *why, struct err *err);
void work_layers(struct work *work, const char **layers); /* the record names these, NULL-terminated */
int work_record(struct work *work, struct err *err);      /* the record is written now */
uint64_t work_processes(const struct box *box);           /* how many a box has that runs, its runner aside */
/* user NULL: any owner; else another user's box answers as unknown. Nothing is started. Not for one-shot boxes. If
 * the work fails, or its record cannot be written, the box continues as recorded on the disk. */
int provider_work(struct provider *provider, const char *user, const char *id,
                  int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err);
/* The same for work that takes long: other callers get BUSY during it (EXPORTING), and do not wait. */
int provider_work_long(struct provider *provider, const char *user, const char *id,
                       int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err);

/* Whether it can be asked anything now: always, but for a box on a machine that is offline or that is being exported
 * (BUSY). Cheap. */
int place_reach(const struct place *place, struct err *err);
int place_paused(const char *id, struct err *err); /* the error for a call on a paused box */
/* The box that a joined machine itself is. */
bool place_is_machine(const struct place *place);

/* ---- deadline.c ---- */

/* A place has a note with a deadline, or another one than before. */
void deadline_changed_locked(struct provider *provider);
int deadline_release(struct provider *provider, const char *id, struct err *err); /* it may start again */
struct box *provider_look_locked(struct box *box); /* a reference for looking: provider_look_end */
void move_begin(struct provider *provider);        /* empties machines that are draining */
void move_end(struct provider *provider);          /* as usage_end */
void usage_begin(struct provider *provider);
void usage_end(struct provider *provider);    /* provider->ending is set; without the lock */
void deadline_end(struct provider *provider); /* provider->ending is set; without the lock */

/* ---- eviction.c ---- */

/* How many a user may have, and whether this one can be counted. For a box that is to be added. */
int eviction_for_box_locked(const struct provider *provider, const struct box *box, uint64_t kept_mb, struct err *err);
uint64_t eviction_kept_mb(struct provider *provider, const char *user); /* in layers; 0 where no limit counts them */
bool eviction_counts_layers(struct provider *provider, const char *user, uint64_t disk_mb); /* some limit does */
/* After the layer was recorded and referenced: whether the kept files of the box `id` of that user are within their
 * limits (LIMIT), and the disk has space for its next start (FULL). */
int eviction_for_layer(struct provider *provider, const char *user, const char *id, uint64_t disk_mb, struct err *err);
/* The box in its place is to have processes: it is counted so, or refused (LIMIT). */
/* Terminals for a box of that user that is about to run: fewer, the more its other boxes have. They are taken:
 * eviction_terminals_end, when the table counts them itself. */
uint64_t eviction_terminals(const char *user);
void eviction_terminals_end(const char *user, uint64_t terminals);
uint64_t eviction_terminals_of(const struct box *box); /* how many those are that it was dealt */
void eviction_terminals_limit(void);                   /* sets the machine's, from the kernel's */
int eviction_for_runner_locked(struct provider *provider, struct place *place, struct err *err);
/* Evicts released boxes, the least recently used first, until replicas and memory have room for those that are counted.
 * BUSY: memory has not. look: how much is free now, not a while ago. Without the lock; may take long. */
int eviction_make(struct provider *provider, bool look, struct err *err);
bool eviction_wanted_locked(struct provider *provider); /* eviction_make would evict, as far as replicas go */
/* It has been without a call for its idle time-out. */
bool eviction_idle_locked(const struct place *place, uint64_t now_ms);
/* Ends its processes and keeps its files; releases the lock during that time. why: "idle", "replicas", "memory". */
void eviction_evict_locked(struct provider *provider, struct place *place, const char *why);

/* It is temporary and has been without a call for its idle time-out: it can be deleted. */
bool eviction_over_locked(const struct place *place, uint64_t now_ms);
/* Deletes it, unless another daemon uses it; releases the lock during that time. */
void eviction_delete_locked(struct provider *provider, struct place *place);

/* ---- attach.c ---- */

/* A copy of the box's spec with all that it is to start with; in arena. */
int attached_spec(struct provider *provider, const struct box *box, const struct spec *from, struct arena *arena,
                  struct spec *ret_spec, struct err *err);
/* The box has started with these, or got them attached: spec.attached, copied. true: they differ from before. By the
 * thread that has marked the box, or holds the lock. */
bool attached_take(struct box *box, const struct spec *spec);
/* A running box has got its first secret or inspected host: its programs trust the seal from now on, or from its next
 * start. */
void attached_trust(struct work *work);

/* ---- housekeeping.c ---- */

/* Other daemons serve this state directory, or did, and the table does not follow yet. Cheap. */
bool provider_crowded(struct provider *provider);
struct policy *provider_policy(struct provider *provider); /* with a reference for the caller; takes the lock */
int provider_backend(struct provider *provider, const char *name, const struct backend_ops **ret_ops,
                     struct backend **ret_backend, struct err *err);
void provider_watch_locked(struct provider *provider, struct box *box);
/* A runner's socket is closed a moment before it counts as ended: waits for its end, and finds the reason. For the
 * thread that has marked the box; without the lock. */
void provider_death(struct provider *provider, struct box *box);
bool provider_readable(int fd); /* a descriptor of a process: it has ended */
void provider_check_locked(struct provider *provider, struct place *place); /* has its runner ended? */
/* Details of events that no request of this daemon caused. */
#define EVENT_ELSEWHERE "by another daemon"
#define EVENT_TEMPORARY "temporary and idle"
#define EVENT_DEADLINE "its time was over"
#define EVENT_BUSY "idle; something runs in it"
/* Reports the event. With or without the lock; detail may be NULL. */
void provider_box_event(const struct provider *provider, const char *verb, const struct box *box, const char *detail);
/* Of something that is no longer a box; id and detail may be NULL. */
void provider_event(const struct provider *provider, const char *verb, const char *id, const char *user,
                    const char *detail);

/* ---- adoption.c ---- */

/* Adds a box that is known only on disk to the table, or updates a known one with changes by other daemons. */
void adoption_load(struct provider *provider, const char *id);
void adoption_ids(struct provider *provider, struct box_ids *ids); /* of all directories of boxes; adds to ids->list */
/* Applies the boxes that other daemons made, changed and removed. false: another thread was just working on one of
 * them. */
bool adoption_refresh(struct provider *provider);
void adoption_begin(struct provider *provider); /* of all on the disk, by threads */
void adoption_wait(struct provider *provider);  /* until they are through, or it takes too long */
void adoption_end(struct provider *provider);
/* For the reaper: removes leftovers of dead daemons and unfinished boxes. first: files without a record are logged. */
void adoption_clean(struct provider *provider, bool first);

#endif
