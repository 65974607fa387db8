/* The table of boxes: acquire, get, release, destroy. */
#ifndef CUBBY_BOX_PROVIDER_H
#define CUBBY_BOX_PROVIDER_H

#include "box/box.h"
#include "box/policy.h"

struct provider;

/* Opens the backends that this machine allows; adopts boxes that outlived an earlier daemon on env->state_dir and
 * cleans what cannot be adopted. default_backend must be available, or it is an error. */
int provider_new(const struct backend_env *env, struct policy *policy, const char *default_backend,
                 struct provider **ret_provider, struct err *err);
/* What counts from now on, for boxes that are made; boxes that are there keep what they were made with. */
void provider_configure(struct provider *provider, struct policy *policy);
void provider_free(struct provider *provider, bool end_boxes);

/* Finds the box of (user, thread) or makes one; with no thread always makes one. The caller gets a reference. One that is
 * paused is given as such: nothing but provider_resume reaches it. */
int provider_acquire(struct provider *provider, const struct box_request *request, struct box **ret_box,
                     bool *ret_created, struct err *err);
/* NOT_FOUND for unknown, GONE for one of a thread whose runner died (with the reason; one without a thread is started
 * again), PAUSED for a paused one. user NULL: any owner; else somebody else's answers as unknown. Touches last_used. The
 * caller gets a reference. */
int provider_get(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
/* The same, but one whose runner died is started again with its files, as an acquire by its owner would; GONE only when that
 * cannot be. */
int provider_wake(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
/* To look at it only: in whatever state it is, dead or stopped too; nothing is started or touched. NOT_FOUND as above.
 * The reference goes back with provider_look_end. */
int provider_look(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err);
void provider_look_end(struct provider *provider, struct box *box);
/* FULL: the disk has so little left that boxes may not start again. Cheap. */
int provider_room(const struct provider *provider, struct err *err);
void provider_put(struct provider *provider, struct box *box); /* gives a reference back; NULL is fine */
int provider_release(struct provider *provider, struct box *box, struct err *err); /* to the warm shelf */
/* Its processes stand still, and go on. Both idempotent. INVALID: there are none; GONE: they died. */
int provider_pause(struct provider *provider, const char *user, const char *id, struct err *err);
int provider_resume(struct provider *provider, const char *user, const char *id, struct err *err);
int provider_destroy(struct provider *provider, const char *user, const char *id, struct err *err);

/* Attaches to the box what box_hooks.contribute has for it now (backend_ops.attach), and the record says so. Has the box
 * alone (turn.h), for which it waits wait_ms; its caller may have it already. BUSY: commands, or processes in the
 * background, use what is there. Nothing happens where it has that already; INVALID: it has no agent; UNSUPPORTED: its
 * backend mounts nothing. */
int provider_attach(struct provider *provider, struct box *box, uint64_t wait_ms, struct err *err);
/* The names of all layers that are or may be attached to boxes, on the disk and in this table; some more than once.
 * A record that cannot be read is an error: nobody knows what that box has. */
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

#endif
