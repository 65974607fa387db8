/* Watchers: changes in a box are kept until clients ask for them. Each has a thread of this daemon, which listens to the
 * box without holding it: a watched box idles and ends as usual, and its watchers end with it and with the daemon. All is
 * bounded: watchers, events and bytes they keep. Used by the dialects that have such calls. */
#ifndef CUBBY_FRONT_WATCHER_H
#define CUBBY_FRONT_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/box.h"

#define WATCHER_ID_BYTES 13 /* 12 digits, as its clients know them */

struct watchers; /* of one daemon */
struct watcher;

struct watchers *watchers_new(void);
void watchers_free(struct watchers *watchers); /* ends them all, and waits for that */

struct watcher_request {
    const char *path; /* absolute */
    bool recursive;
    const char *const *include;
    const char *const *exclude;
    unsigned debounce_ms;
    bool own;                         /* never shared: watcher_take is for one client */
    bool entries;                     /* kept for the caller: watcher_info.entries */
    const struct file_rights *rights; /* may be NULL */
};
struct watcher_info {
    char id[WATCHER_ID_BYTES];
    const char *path; /* valid while the watcher is held, or during the callback */
    bool recursive, running, entries;
    unsigned readers; /* requests that listen now */
    uint64_t events, latest_seq, created_ms;
};
/* An identical one is shared (*ret_reused) and must then be ended as often. Changes are seen from the return on.
 * LIMIT: too many. watch: the client's socket. */
int watchers_add(struct watchers *watchers, struct box *box, const struct watcher_request *request, int watch,
                 struct watcher_info *ret_info, bool *ret_reused, struct err *err);
/* NOT_FOUND. *ret_running: others still use it. */
int watchers_remove(struct watchers *watchers, const char *box_id, const char *id, bool *ret_running, struct err *err);
void watchers_each(struct watchers *watchers, const char *box_id,
                   void (*each)(void *user, const struct watcher_info *info), void *user);

/* To read from it: held until watcher_put, though it may end before. NOT_FOUND. */
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
    bool dir, known; /* known: it is there, and the numbers count */
    bool out;        /* CHANGE_REMOVE: it was moved out of what is watched */
    uint64_t wall_ms, size, mtime_ns, inode;
};
/* The type and the paths of one; path and old_path are those of the change. */
void change_from(const struct watch_change *from, struct watched_change *ret_change);

struct watcher_slice {
    uint64_t cursor; /* where to continue */
    bool lost;       /* there was more than could be kept: look for yourself */
    bool ended;      /* nothing will come any more */
};
/* Those after the cursor, at most limit; waits up to wait_ms for the first. each is called without any lock; negative:
 * stop, and the code is returned. */
int watcher_read(struct watcher *watcher, uint64_t cursor, unsigned limit, uint64_t wait_ms,
                 int (*each)(void *user, const struct watched_change *change), void *user,
                 struct watcher_slice *ret_slice);
/* Those that were not taken yet, at once. A call that fails has taken none. */
int watcher_take(struct watcher *watcher, unsigned limit, int (*each)(void *user, const struct watched_change *change),
                 void *user);

#endif
