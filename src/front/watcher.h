/* Watchers: changes in a box are kept until clients ask for them. Each has a thread of this daemon, which listens to
 * the box without holding it: a watched box idles and ends as usual, and its watchers end with it and with the daemon.
 * All is bounded: watchers, and the events and bytes that they keep. Used by several dialects. */
#ifndef CUBBY_FRONT_WATCHER_H
#define CUBBY_FRONT_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/box.h"

#define WATCHER_ID_BYTES 13 /* 12 digits, as clients expect */

struct watchers; /* of one daemon */
struct watcher;

struct watchers *watchers_new(void);
void watchers_free(struct watchers *watchers); /* ends all watchers, and waits */

struct watcher_request {
    const char *path; /* absolute */
    bool recursive;
    const char *const *include;
    const char *const *exclude;
    unsigned debounce_ms;
    bool own;                         /* never shared, for watcher_take by one client */
    bool entries;                     /* copied to watcher_info.entries for the caller */
    const struct file_rights *rights; /* may be NULL */
};
struct watcher_info {
    char id[WATCHER_ID_BYTES];
    const char *path; /* valid while the watcher is held, or during the callback */
    bool recursive, running, entries;
    unsigned readers; /* requests that are listening */
    uint64_t events, latest_seq, created_ms;
};
/* Shares an identical watcher (*ret_reused), which must then be removed as often. Changes are seen from the return on.
 * LIMIT: too many. watch: the client's socket. */
int watchers_add(struct watchers *watchers, struct box *box, const struct watcher_request *request, int watch,
                 struct watcher_info *ret_info, bool *ret_reused, struct err *err);
/* *ret_running: others still use it. NOT_FOUND: no such watcher. */
int watchers_remove(struct watchers *watchers, const char *box_id, const char *id, bool *ret_running, struct err *err);
void watchers_each(struct watchers *watchers, const char *box_id,
                   void (*each)(void *user, const struct watcher_info *info), void *user);

/* Gets it for reading until watcher_put; it may end before. NOT_FOUND: no such watcher. */
int watchers_hold(struct watchers *watchers, const char *box_id, const char *id, struct watcher **ret_watcher,
                  struct err *err);
void watcher_put(struct watcher *watcher);
void watcher_report(struct watcher *watcher, struct watcher_info *ret_info);

enum change_type { CHANGE_CREATE, CHANGE_WRITE, CHANGE_REMOVE, CHANGE_RENAME, CHANGE_CHMOD, CHANGE_LOST };
#define CHANGE_TYPES CHANGE_LOST
const char *change_name(enum change_type type); /* "create" */
struct watched_change {
    uint64_t seq;
    enum change_type type;
    const char *path, *old_path;
    bool dir, known; /* known: it exists, and the numbers are valid */
    bool out;        /* CHANGE_REMOVE: it was moved out of the watched tree */
    uint64_t wall_ms, size, mtime_ns, inode;
};
/* Fills in the type and the paths, which point into `from`. */
void change_from(const struct watch_change *from, struct watched_change *ret_change);

struct watcher_slice {
    uint64_t cursor; /* where to continue */
    bool lost;       /* events were dropped: list the directory again */
    bool ended;      /* no more events will come */
};
/* Reads events after the cursor, at most limit; waits up to wait_ms for the first. each is called without a lock; a
 * negative return stops and is returned. */
int watcher_read(struct watcher *watcher, uint64_t cursor, unsigned limit, uint64_t wait_ms,
                 int (*each)(void *user, const struct watched_change *change), void *user,
                 struct watcher_slice *ret_slice);
/* Reads events that were not taken yet, without waiting. A call that fails takes none. */
int watcher_take(struct watcher *watcher, unsigned limit, int (*each)(void *user, const struct watched_change *change),
                 void *user);

#endif
