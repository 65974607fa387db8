/* The table of boxes: acquire, get, release, destroy. */
#ifndef CUBBY_BOX_PROVIDER_H
#define CUBBY_BOX_PROVIDER_H

#include "box/box.h"
#include "box/policy.h"
#include "box/provider/note.h"
#include "backend/backend.h"

struct provider;

/* Opens the backends that this machine allows; adopts boxes that outlived an earlier daemon on env->state_dir and
 * cleans what cannot be adopted. default_backend must be available, or it is an error. */
int provider_new(const struct backend_env *env, struct policy *policy, const char *default_backend,
                 struct provider **ret_provider, struct err *err);
/* The settings for boxes made from now on; existing boxes keep the settings they were made with. */
void provider_configure(struct provider *provider, struct policy *policy);
void provider_free(struct provider *provider, bool end_boxes);

/* Finds the box of (user, thread) or makes one; with no thread always makes one. The caller gets a reference. One
 * that is paused is given as such: nothing but provider_resume reaches it. */
int provider_acquire(struct provider *provider, const struct box_request *request, struct box **ret_box,
                     bool *ret_created, struct err *err);
/* NOT_FOUND for unknown, GONE for a box of a thread whose runner died (with the reason; a box without a thread is
 * started again), PAUSED for a paused one. user NULL: any owner; else another user's box answers as unknown. Updates
 * last_used. The caller gets a reference. */
int provider_get(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
/* The same, but one whose runner died is started again with its files, as an acquire by its owner would; GONE only
 * when that cannot be. */
int provider_wake(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
/* To look at it only: in whatever state it is, dead or stopped too; nothing is started or touched. NOT_FOUND as above.
 * The reference goes back with provider_look_end. */
int provider_look(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
void provider_look_end(struct provider *provider, struct box *box);
/* FULL: the disk has so little left that boxes may not start again. Cheap. */
int provider_room(const struct provider *provider, struct err *err);
void provider_put(struct provider *provider, struct box *box); /* gives a reference back; NULL is fine */
int provider_release(struct provider *provider, struct box *box, struct err *err); /* to the warm shelf */
/* Pauses its processes, and resumes them. Both idempotent. INVALID: it has none; GONE: they died. */
int provider_pause(struct provider *provider, const char *user, const char *id, struct err *err);
int provider_resume(struct provider *provider, const char *user, const char *id, struct err *err);
int provider_destroy(struct provider *provider, const char *user, const char *id, struct err *err);
/* Its processes end, its files stay, and nothing but provider_resume starts it again: to others it is PAUSED. */
int provider_stop(struct provider *provider, const char *user, const char *id, struct err *err);

/* ---- move.c: a box goes to another machine of its backend ---- */

struct moved {
    const char *from, *to; /* in arena */
    uint64_t duration_ms;
    uint64_t ended; /* processes that ran in it */
};
/* machine NULL: the best one. Its snapshots go with it. BUSY: something runs in it, unless `stop`, which ends that. On
 * failure it is where it was, stopped. The machine of a box that drains is emptied without this call. */
int provider_move(struct provider *provider, const char *user, const char *id, const char *machine, bool stop,
                  struct arena *arena, struct moved *ret_moved, struct err *err);

/* ---- deadline.c: what a dialect keeps of a box, and when it ends ---- */

/* As it is now, in arena. NOT_FOUND: there is no such box, or it has none. */
int provider_note(struct provider *provider, const char *id, struct arena *arena, struct note *ret_note,
                  struct err *err);
bool provider_noted(struct provider *provider, const char *id); /* it has one; cheap */
/* Another one, on the disk when this returns. note->held counts for nothing: provider_stop and provider_resume set
 * it. */
int provider_note_set(struct provider *provider, const char *id, const struct note *note, struct err *err);

/* ---- usage.c: what a box used over time ---- */

struct usage_sample {
    uint64_t at_ms; /* wall clock */
    struct usage usage;
};
/* What was measured while it ran, every few seconds or, of one that has run for long, less often; the oldest first, in
 * arena. At most a few hundred; of this daemon's time alone. NOT_FOUND: no such box. */
int provider_usage(struct provider *provider, const char *id, uint64_t since_ms, uint64_t until_ms, struct arena *arena,
                   struct usage_sample **ret_samples, size_t *ret_count, struct err *err);

/* Attaches the current trees of box_hooks.contribute to the box (backend_ops.attach), and records it. Has the box
 * alone (boxlock.h), for which it waits wait_ms; its caller may have it already. BUSY: commands, or background
 * processes, use the attached trees. Nothing happens if they are unchanged; INVALID: it has no agent; UNSUPPORTED:
 * its backend cannot mount. */
int provider_attach(struct provider *provider, struct box *box, uint64_t wait_ms, struct err *err);
/* The names of all layers that are or may be attached to boxes, on the disk and in this table; some more than once.
 * A record that cannot be read is an error: the layers of that box are unknown. */
int provider_attached(struct provider *provider, void (*each)(void *user, const char *layer), void *user,
                      struct err *err);

/* box_hooks.before_use of a box that a request is about to use. */
int provider_before_use(struct provider *provider, struct box *box, struct err *err);

/* Calls each with a reference held, without the table's lock. */
int provider_each(struct provider *provider, int (*each)(void *user, struct box *box), void *user);

struct provider_counts {
    unsigned by_backend_state[8][BOX_STATES]; /* backend_table index, box_state */
};
void provider_count(struct provider *provider, struct provider_counts *ret_counts);
/* For /v1/info: an array with a row a backend. */
void provider_info(struct provider *provider, struct json *json);

/* ---- cleanup.c: `cubbyd --cleanup` ---- */

/* All boxes of env->state_dir with their files, and what dead daemons left on the machine; each thing is named.
 * Templates and the audit log stay. BUSY while a daemon serves that directory. *ret_left: things that could not be
 * removed. */
int cleanup_run(const struct backend_env *env, void (*each)(void *user, const char *what), void *user,
                unsigned *ret_left, struct err *err);

#endif
