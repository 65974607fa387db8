/* Files of a box kept under a name, put back, and given to a new box. */
#ifndef CUBBY_BOX_SNAPSHOT_H
#define CUBBY_BOX_SNAPSHOT_H

#include "base/arena.h"
#include "base/limits.h"
#include "box/provider/provider.h"

struct snapshot {
    char name[LIMIT_SNAPSHOT_NAME + 1];
    uint64_t created_ms;
    const char *method;  /* "layer", "btrfs", "reflink", "copy" */
    uint64_t pause_us;   /* how long what runs in the box stood still */
    uint64_t bytes;      /* that had to be copied */
    bool stopped;        /* an idle runner was ended for it; the box's next use starts another */
    const char **layers; /* below which nothing is but the template; uppermost first, NULL-terminated */
};

/* user NULL: any owner; else another user's box answers as unknown. name NULL: one is made from the time. EXISTS,
 * LIMIT, UNSUPPORTED. ret_snapshot's strings are arena's. Waits while another call works on the box. */
int snapshot_create(struct provider *provider, const char *user, const char *id, const char *name, struct arena *arena,
                    struct snapshot *ret_snapshot, struct err *err);
/* The oldest first. */
int snapshot_list(struct provider *provider, const char *user, const char *id, struct arena *arena,
                  struct snapshot **ret_snapshots, size_t *ret_count, struct err *err);
int snapshot_remove(struct provider *provider, const char *user, const char *id, const char *name, struct err *err);
/* Its processes end (*ret_ended: how many there were), its files are those of the snapshot. */
int snapshot_rollback(struct provider *provider, const char *user, const char *id, const char *name,
                      uint64_t *ret_ended, struct err *err);

struct fork_request {
    const char *snapshot; /* NULL: the files as they are now */
    const char *user;     /* NULL: the box's own */
    const char *thread;   /* NULL: none */
    size_t thread_len;
    const char *id;          /* NULL: made of the pair, or random */
    const char *const *env;  /* "K=V", NULL-terminated: instead of those of these names; may be NULL */
    const struct note *note; /* that it begins with; NULL: none */
};
/* A new box with the same files and the same spec; EXISTS when the pair has one. It does not run before its first
 * use. The caller gets a reference. */
int snapshot_fork(struct provider *provider, const char *user, const char *id, const struct fork_request *request,
                  struct box **ret_box, struct err *err);

/* ---- for box/ ---- */

struct record;
struct work;
/* The files of a box in work as they are now: layers that `owner` holds, against the quota of `user`; in work's
 * arena. */
int snapshot_take(struct work *work, const char *owner, const char *user, const char ***ret_layers, struct err *err);
/* STATE/boxes/ID/snapshots/NAME.json, whole or not at all. */
int snapshot_write(int boxes_fd, const char *id, const struct snapshot *snapshot, struct err *err);
int snapshot_read(int boxes_fd, const char *id, const char *name, struct arena *arena, struct snapshot *ret_snapshot,
                  struct err *err);
int snapshot_unlink(int boxes_fd, const char *id, const char *name, struct err *err);
/* Unsorted; damaged ones are left out. */
void snapshot_read_all(int boxes_fd, const char *id, struct arena *arena, struct snapshot **ret_snapshots,
                       size_t *ret_count);
size_t snapshot_count(int boxes_fd, const char *id);
bool snapshot_exists(int boxes_fd, const char *id, const char *name); /* damaged or not */
bool snapshot_name_ok(const char *name);

/* Before a recorded box is used: completes an interrupted rollback. Under the box's lock. */
int snapshot_settle(struct provider *provider, struct record *record, struct err *err);
/* The layers of a box that is being removed: noted before (NULL: none), let go of after. */
struct snapshot_holding;
struct snapshot_holding *snapshot_note(struct provider *provider, const struct box *box);
void snapshot_forget(struct provider *provider, const struct box *box, struct snapshot_holding *holding, bool gone);

#endif
