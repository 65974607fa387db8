/* Watchers and their threads. Called by the dialects that have them and, at its end, by front_done.
 *
 * 1. One lock guards the table and everything in watchers; nothing blocks under it. A watcher's condition is signalled
 *    at each of its changes.
 * 2. A watcher is reference-counted: by the table, by its thread, by each request that holds it.
 * 3. A thread ends when its pipe is closed (remove, free), when the box's wire ends (then the watcher leaves the
 *    table), or when the watched path is gone. Then the watcher can still be read, until it is removed, expires, or its
 *    slot is needed.
 * Invariant: a watcher keeps at most KEPT_EVENTS and KEPT_BYTES; it drops the oldest, and reports that. */
#include "front/watcher.h"

#include <poll.h>

#include "base/base.h"
#include "base/counted.h"
#include "base/sync.h"

enum {
    KEPT_EVENTS = 10000,
    KEPT_BYTES = 1 << 20,
    PENDING_MOST = 1024,
    ENDED_KEPT_MS = 600000,
    STACK_BYTES = 256 << 10,
    SLICE_MS = 250, /* how soon a request notices that its client has gone */
};

struct held { /* an event, followed by its texts */
    struct held *next;
    struct watched_change change;
    size_t bytes;
    uint64_t hash; /* of the path */
    char text[];
};

struct queue {
    struct held *first, **last;
    size_t count, bytes;
};

struct watcher {
    struct watchers *table;
    struct watcher *next;
    char id[WATCHER_ID_BYTES], box_id[17], user[LIMIT_USER_BYTES + 1];
    char *path, *key; /* key: the box and the whole request */
    bool recursive, own, entries;
    unsigned debounce_ms;
    uint64_t created_ms;
    struct box_watch *source; /* used by the thread, as the next two */
    int end_fd;               /* the other end of stop_fd */
    struct watch_sink sink;
    struct queue pending; /* used by the thread: not visible yet */
    uint64_t due_ms;
    bool top_gone;
    /* under the lock */
    pthread_cond_t changed;
    unsigned refs, leases, readers;
    bool counted; /* counts in COUNTED_WATCHERS until the last reference is gone */
    bool armed, ended, removed;
    struct err err; /* why it could not start */
    uint64_t ended_ms;
    int stop_fd; /* the thread ends when this pipe is closed */
    struct queue kept;
    uint64_t latest_seq, lost_seq; /* lost_seq: the last dropped one */
    uint64_t taken_seq;            /* watcher_take continues after it */
};

struct watchers {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* signalled when a thread ends */
    struct watcher *first;
    unsigned threads;
};

/* ---- queues ---- */

static void watcher_queue_init(struct queue *queue) {
    *queue = (struct queue){.last = &queue->first};
}

static void watcher_queue_add(struct queue *queue, struct held *held) {
    held->next = NULL;
    *queue->last = held;
    queue->last = &held->next;
    queue->count++;
    queue->bytes += held->bytes;
}

static struct held *watcher_queue_take(struct queue *queue) {
    struct held *held = queue->first;
    queue->first = held->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->count--;
    queue->bytes -= held->bytes;
    return held;
}

static void watcher_queue_clear(struct queue *queue) {
    while (queue->first)
        free(watcher_queue_take(queue));
}

static struct held *watcher_held_new(const struct watched_change *change) {
    size_t path = strlen(change->path) + 1, old = change->old_path ? strlen(change->old_path) + 1 : 0;
    struct held *held = xcalloc(1, sizeof *held + path + old);
    held->change = *change;
    held->bytes = sizeof *held + path + old;
    held->hash = 14695981039346656037u;
    for (const char *at = change->path; *at; at++)
        held->hash = (held->hash ^ (uint8_t)*at) * 1099511628211u;
    held->change.path = memcpy(held->text, change->path, path);
    if (old)
        held->change.old_path = memcpy(held->text + path, change->old_path, old);
    return held;
}

/* ---- changes ---- */

const char *change_name(enum change_type type) {
    static const char *const names[] = {
        [CHANGE_CREATE] = "create", [CHANGE_WRITE] = "write", [CHANGE_REMOVE] = "remove",
        [CHANGE_RENAME] = "rename", [CHANGE_CHMOD] = "chmod", [CHANGE_LOST] = "overflow"};
    return names[type];
}

void change_from(const struct watch_change *from, struct watched_change *ret_change) {
    static const enum change_type types[] = {
        [WATCH_CREATED] = CHANGE_CREATE, [WATCH_MODIFIED] = CHANGE_WRITE,   [WATCH_REMOVED] = CHANGE_REMOVE,
        [WATCH_MOVED] = CHANGE_RENAME,   [WATCH_ATTRIBUTES] = CHANGE_CHMOD, [WATCH_OVERFLOW] = CHANGE_LOST};
    *ret_change = (struct watched_change){.type = types[from->event],
                                          .path = from->to ? from->to : from->path,
                                          .old_path = from->to ? from->path : NULL,
                                          .dir = from->dir,
                                          .known = from->known,
                                          .out = from->out,
                                          .wall_ms = clock_wall_ms(),
                                          .size = from->size,
                                          .mtime_ns = from->mtime_ns,
                                          .inode = from->inode};
}

/* ---- the thread ---- */

static void watcher_publish(struct watcher *watcher) {
    pthread_mutex_lock(&watcher->table->lock);
    while (watcher->pending.first) {
        struct held *held = watcher_queue_take(&watcher->pending);
        held->change.seq = ++watcher->latest_seq;
        watcher_queue_add(&watcher->kept, held);
    }
    while (watcher->kept.count > KEPT_EVENTS || watcher->kept.bytes > KEPT_BYTES) {
        struct held *oldest = watcher_queue_take(&watcher->kept);
        watcher->lost_seq = oldest->change.seq;
        free(oldest);
    }
    pthread_cond_broadcast(&watcher->changed);
    pthread_mutex_unlock(&watcher->table->lock);
    watcher->sink.idle_ms = 0;
}

/* Merges repeated changes of a path within the debounce time into the last one, but not across a change after which the
 * path means another file, or none: the last of those must stay the last. */
static bool watcher_merge(struct watcher *watcher, const struct held *held) {
    const struct watched_change *now = &held->change;
    struct held *same = NULL;
    for (struct held *at = watcher->pending.first; at; at = at->next) {
        bool path = at->hash == held->hash && strcmp(at->change.path, now->path) == 0;
        enum change_type type = at->change.type;
        if (path && type == now->type && type != CHANGE_RENAME)
            same = at;
        else if (type == CHANGE_RENAME || (path && (type == CHANGE_CREATE || type == CHANGE_REMOVE)))
            same = NULL;
    }
    if (!same)
        return false;
    same->change.known = now->known;
    same->change.size = now->size;
    same->change.mtime_ns = now->mtime_ns;
    same->change.inode = now->inode;
    same->change.wall_ms = now->wall_ms;
    return true;
}

static int watcher_change(void *user, const struct watch_change *from) {
    struct watcher *watcher = user;
    struct watched_change change;
    change_from(from, &change);
    watcher->top_gone |= change.type == CHANGE_REMOVE && strcmp(change.path, watcher->path) == 0;
    struct held *held = watcher_held_new(&change);
    uint64_t now_ms = clock_ms();
    if (!watcher->pending.first)
        watcher->due_ms = now_ms + watcher->debounce_ms;
    if (watcher_merge(watcher, held))
        free(held);
    else
        watcher_queue_add(&watcher->pending, held);
    if (now_ms >= watcher->due_ms || watcher->pending.count >= PENDING_MOST)
        watcher_publish(watcher);
    else
        watcher->sink.idle_ms = watcher->due_ms - now_ms;
    return 0;
}

static int watcher_idle(void *user) {
    struct watcher *watcher = user;
    if (watcher->pending.first)
        watcher_publish(watcher);
    if (watcher->armed)
        return 0;
    autolock(&watcher->table->lock);
    watcher->armed = true;
    pthread_cond_broadcast(&watcher->changed);
    return 0;
}

static void watcher_unref_locked(struct watcher *watcher) {
    if (--watcher->refs > 0)
        return;
    counted_give(COUNTED_WATCHERS, watcher->user, watcher->counted);
    watcher_queue_clear(&watcher->kept);
    watcher_queue_clear(&watcher->pending);
    pthread_cond_destroy(&watcher->changed);
    free(watcher->path);
    free(watcher->key);
    free(watcher);
}

/* Removes it from the table: it cannot be found any more, and its thread ends. */
static void watcher_leave_locked(struct watcher *watcher) {
    struct watchers *table = watcher->table;
    if (watcher->removed)
        return;
    watcher->removed = true;
    fd_close(&watcher->stop_fd);
    struct watcher **at = &table->first;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    pthread_cond_broadcast(&watcher->changed);
    watcher_unref_locked(watcher);
}

static void *watcher_main(void *user) {
    struct watcher *watcher = user;
    struct watchers *table = watcher->table;
    struct err err = {0};
    box_watch_run(watcher->source, &watcher->sink, watcher->end_fd, &err);
    close(watcher->end_fd);
    watcher_publish(watcher);
    autolock(&table->lock);
    watcher->ended = true;
    watcher->ended_ms = clock_ms();
    watcher->err = err;
    fd_close(&watcher->stop_fd);
    pthread_cond_broadcast(&watcher->changed);
    if (!watcher->top_gone)
        watcher_leave_locked(watcher); /* the box ended */
    watcher_unref_locked(watcher);
    table->threads--;
    pthread_cond_broadcast(&table->idle);
    return NULL;
}

/* ---- the table ---- */

struct watchers *watchers_new(void) {
    struct watchers *watchers = xcalloc(1, sizeof *watchers);
    pthread_mutex_init(&watchers->lock, NULL);
    pthread_cond_init(&watchers->idle, NULL);
    return watchers;
}

void watchers_free(struct watchers *watchers) {
    pthread_mutex_lock(&watchers->lock);
    while (watchers->first)
        watcher_leave_locked(watchers->first);
    while (watchers->threads)
        pthread_cond_wait(&watchers->idle, &watchers->lock);
    pthread_mutex_unlock(&watchers->lock);
    pthread_cond_destroy(&watchers->idle);
    pthread_mutex_destroy(&watchers->lock);
    free(watchers);
}

static struct watcher *watcher_find_locked(struct watchers *watchers, const char *box_id, const char *id) {
    for (struct watcher *at = watchers->first; at; at = at->next)
        if (strcmp(at->id, id) == 0 && strcmp(at->box_id, box_id) == 0)
            return at;
    return NULL;
}

/* Chooses the ended watcher that makes space for a new one: an expired one of any user, else the first that ended of
 * the same box or user. A watcher is never removed for another user's. */
static struct watcher *watchers_victim_locked(struct watchers *watchers, const struct watcher *fresh, bool box_full) {
    uint64_t now_ms = clock_ms();
    struct watcher *victim = NULL;
    for (struct watcher *at = watchers->first; at; at = at->next) {
        bool old = at->ended && now_ms - at->ended_ms > ENDED_KEPT_MS;
        bool own = at->ended && strcmp(box_full ? at->box_id : at->user, box_full ? fresh->box_id : fresh->user) == 0;
        if ((old || own) && (!victim || at->ended_ms < victim->ended_ms))
            victim = at;
    }
    return victim;
}

static int watchers_room_locked(struct watchers *watchers, struct watcher *fresh, struct err *err) {
    for (;;) {
        unsigned of_box = 0;
        for (struct watcher *at = watchers->first; at; at = at->next)
            of_box += strcmp(at->box_id, fresh->box_id) == 0;
        bool box_full = of_box >= LIMIT_WATCHERS_PER_BOX;
        int r = box_full ? err_set(err, ERR_LIMIT, "max watcher limit reached (%u of a box)", LIMIT_WATCHERS_PER_BOX)
                         : counted_take(COUNTED_WATCHERS, fresh->user, 1, err);
        fresh->counted = r == 0;
        struct watcher *victim = r < 0 ? watchers_victim_locked(watchers, fresh, box_full) : NULL;
        if (!victim)
            return r < 0 && !box_full ? err_wrap(err, "max watcher limit reached") : r;
        watcher_leave_locked(victim);
    }
}

/* Writes the whole request with lengths, so that a newline in a glob is not taken for a separator. */
static char *watcher_key(const char *box_id, const struct watcher_request *request) {
    autobuf key = buf_max(4 * LIMIT_FRAME_PAYLOAD_BYTES);
    const char *const *lists[] = {request->include, request->exclude};
    buf_printf(&key, "%s %d %u %zu %s", box_id, request->recursive, request->debounce_ms, strlen(request->path),
               request->path);
    for (int list = 0; list < 2; list++)
        for (const char *const *glob = lists[list]; glob && *glob; glob++) {
            buf_printf(&key, "%c%zu ", "+-"[list], strlen(*glob));
            buf_puts(&key, *glob);
        }
    return xstrdup(buf_cstr(&key) ? buf_cstr(&key) : "");
}

static struct watcher *watcher_new(struct watchers *watchers, const struct box *box,
                                   const struct watcher_request *request) {
    struct watcher *watcher = xcalloc(1, sizeof *watcher);
    uint8_t random[6];
    xrandom(random, sizeof random);
    text_hex(watcher->id, random, sizeof random);
    text_id_copy(watcher->box_id, box->id);
    snprintf(watcher->user, sizeof watcher->user, "%s", box->user);
    watcher->table = watchers;
    watcher->path = xstrdup(request->path);
    watcher->recursive = request->recursive;
    watcher->own = request->own;
    watcher->entries = request->entries;
    watcher->debounce_ms = request->debounce_ms;
    watcher->created_ms = clock_wall_ms();
    watcher->sink = (struct watch_sink){.each = watcher_change, .idle = watcher_idle, .user = watcher};
    watcher->stop_fd = -1;
    watcher_queue_init(&watcher->kept);
    watcher_queue_init(&watcher->pending);
    cond_init(&watcher->changed);
    return watcher;
}

/* Adds it to the table. */
static int watcher_start_locked(struct watcher *watcher, struct err *err) {
    struct watchers *table = watcher->table;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, errno, "cannot make a watcher's pipe");
    watcher->end_fd = ends[0];
    int number = thread_detached(watcher_main, watcher, STACK_BYTES);
    if (number) {
        close(ends[0]);
        close(ends[1]);
        return err_errno(err, number, "cannot start a watcher's thread");
    }
    watcher->stop_fd = ends[1];
    watcher->refs += 2; /* for the table, and for the thread, which waits for the lock */
    table->threads++;
    struct watcher **last = &table->first;
    while (*last)
        last = &(*last)->next;
    *last = watcher;
    return 0;
}

static int watcher_await_locked(struct watcher *watcher, int watch, struct err *err) {
    struct pollfd client = {.fd = watch, .events = POLLRDHUP}; /* -1: never */
    while (!watcher->armed && !watcher->ended && !watcher->removed) {
        if (poll(&client, 1, 0) > 0)
            return err_set(err, ERR_GONE, "the client hung up");
        cond_wait_until(&watcher->changed, &watcher->table->lock, clock_ms() + SLICE_MS);
    }
    if (watcher->armed)
        return 0;
    if (!watcher->err.code)
        return err_set(err, ERR_GONE, "the watcher was ended");
    *err = watcher->err;
    return -err->code;
}

static void watcher_report_locked(const struct watcher *watcher, struct watcher_info *ret_info) {
    *ret_info = (struct watcher_info){.path = watcher->path,
                                      .recursive = watcher->recursive,
                                      .running = !watcher->ended,
                                      .entries = watcher->entries,
                                      .readers = watcher->readers,
                                      .events = watcher->kept.count,
                                      .latest_seq = watcher->latest_seq,
                                      .created_ms = watcher->created_ms};
    memcpy(ret_info->id, watcher->id, sizeof watcher->id);
}

int watchers_add(struct watchers *watchers, struct box *box, const struct watcher_request *request, int watch,
                 struct watcher_info *ret_info, bool *ret_reused, struct err *err) {
    char *key = watcher_key(box->id, request);
    pthread_mutex_lock(&watchers->lock);
    struct watcher *watcher = request->own ? NULL : watchers->first;
    while (watcher && (watcher->ended || watcher->own || strcmp(watcher->key, key) != 0))
        watcher = watcher->next;
    bool reused = watcher;
    if (reused) { /* counted as a user now, so that a concurrent removal is not the last */
        watcher->refs++;
        watcher->leases++;
    }
    pthread_mutex_unlock(&watchers->lock);
    int r = 0;
    if (!reused) { /* opened without the lock, because the wire may be slow */
        const struct watch_request watched = {.path = request->path,
                                              .recursive = request->recursive,
                                              .all = true,
                                              .include = request->include,
                                              .exclude = request->exclude,
                                              .rights = request->rights};
        struct box_watch *source;
        r = box_watch_open(box, &watched, &source, err);
        if (r == 0) {
            watcher = watcher_new(watchers, box, request);
            watcher->source = source;
            watcher->refs = 1; /* the caller's */
            watcher->key = key;
        }
    }
    if (reused || r < 0)
        free(key);
    if (r < 0)
        return r;
    pthread_mutex_lock(&watchers->lock);
    if (!reused &&
        ((r = watchers_room_locked(watchers, watcher, err)) < 0 || (r = watcher_start_locked(watcher, err)) < 0)) {
        box_watch_close(watcher->source);
        watcher_unref_locked(watcher);
        pthread_mutex_unlock(&watchers->lock);
        return r;
    }
    watcher->leases += !reused;
    r = watcher_await_locked(watcher, watch, err);
    if (r == 0) {
        *ret_reused = reused;
        watcher_report_locked(watcher, ret_info);
        ret_info->path = request->path;
    } else if (--watcher->leases == 0) {
        watcher_leave_locked(watcher);
    }
    watcher_unref_locked(watcher);
    pthread_mutex_unlock(&watchers->lock);
    return r;
}

int watchers_remove(struct watchers *watchers, const char *box_id, const char *id, bool *ret_running, struct err *err) {
    autolock(&watchers->lock);
    struct watcher *watcher = watcher_find_locked(watchers, box_id, id);
    if (watcher) {
        *ret_running = watcher->leases > 1 && !watcher->ended;
        if (*ret_running)
            watcher->leases--;
        else
            watcher_leave_locked(watcher);
    }
    return watcher ? 0 : err_set(err, ERR_NOT_FOUND, "Watcher not found");
}

void watchers_each(struct watchers *watchers, const char *box_id,
                   void (*each)(void *user, const struct watcher_info *info), void *user) {
    autolock(&watchers->lock);
    for (const struct watcher *at = watchers->first; at; at = at->next) {
        struct watcher_info info;
        if (strcmp(at->box_id, box_id) != 0 || !at->leases)
            continue;
        watcher_report_locked(at, &info);
        each(user, &info);
    }
}

/* ---- reading ---- */

int watchers_hold(struct watchers *watchers, const char *box_id, const char *id, struct watcher **ret_watcher,
                  struct err *err) {
    autolock(&watchers->lock);
    struct watcher *watcher = watcher_find_locked(watchers, box_id, id);
    if (watcher) {
        watcher->refs++;
        watcher->readers++;
        *ret_watcher = watcher;
    }
    return watcher ? 0 : err_set(err, ERR_NOT_FOUND, "Watcher not found");
}

void watcher_put(struct watcher *watcher) {
    struct watchers *table = watcher->table;
    autolock(&table->lock);
    watcher->readers--;
    watcher_unref_locked(watcher);
}

void watcher_report(struct watcher *watcher, struct watcher_info *ret_info) {
    autolock(&watcher->table->lock);
    watcher_report_locked(watcher, ret_info);
}

int watcher_read(struct watcher *watcher, uint64_t cursor, unsigned limit, uint64_t wait_ms,
                 int (*each)(void *user, const struct watched_change *change), void *user,
                 struct watcher_slice *ret_slice) {
    struct queue copies;
    uint64_t until_ms = clock_ms() + wait_ms;
    watcher_queue_init(&copies);
    pthread_mutex_lock(&watcher->table->lock);
    if (cursor > watcher->latest_seq)
        cursor = watcher->latest_seq; /* the cursor belongs to another watcher */
    while (watcher->latest_seq == cursor && !watcher->ended && !watcher->removed && clock_ms() < until_ms)
        cond_wait_until(&watcher->changed, &watcher->table->lock, until_ms);
    struct watcher_slice slice = {.cursor = cursor, .lost = cursor < watcher->lost_seq};
    if (slice.lost)
        slice.cursor = watcher->lost_seq;
    for (const struct held *at = watcher->kept.first; at && copies.count < limit; at = at->next) {
        if (at->change.seq <= slice.cursor)
            continue;
        watcher_queue_add(&copies, watcher_held_new(&at->change));
        slice.cursor = at->change.seq;
        slice.lost |= at->change.type == CHANGE_LOST;
    }
    slice.ended = watcher->removed || (watcher->ended && slice.cursor == watcher->latest_seq);
    pthread_mutex_unlock(&watcher->table->lock);
    int r = 0;
    while (copies.first) {
        struct held *held = watcher_queue_take(&copies);
        if (r >= 0)
            r = each(user, &held->change);
        free(held);
    }
    if (r >= 0)
        *ret_slice = slice;
    return r < 0 ? r : 0;
}

int watcher_take(struct watcher *watcher, unsigned limit, int (*each)(void *user, const struct watched_change *change),
                 void *user) {
    struct watcher_slice slice;
    pthread_mutex_lock(&watcher->table->lock);
    uint64_t cursor = watcher->taken_seq;
    pthread_mutex_unlock(&watcher->table->lock);
    int r = watcher_read(watcher, cursor, limit, 0, each, user, &slice);
    pthread_mutex_lock(&watcher->table->lock);
    if (r == 0 && slice.cursor > watcher->taken_seq)
        watcher->taken_seq = slice.cursor;
    pthread_mutex_unlock(&watcher->table->lock);
    return r;
}
