/* What the editor's last changes replaced, so that they can be taken back. In memory: where a user has no share left
 * (COUNTED_UNDO), that user's oldest change goes. Called by aio/file_edit.c. Invariant: nobody's history goes for another
 * user's edit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counted.h"
#include "base/limits.h"
#include "base/mem.h"
#include "front/aio/file.h"

#define HISTORY_OF_FILE 10u            /* changes of one file */
#define HISTORY_LEAST_BYTES (8u << 10) /* that a change counts as: they are looked through one by one */

struct change {
    struct change *newer, *older;
    char box[17], user[LIMIT_USER_BYTES + 1];
    uint64_t created_ms; /* of the box: another one may get its id */
    char *path, *etag, *old;
    size_t len, bytes;
};

struct aio_history {
    pthread_mutex_t lock;
    struct change *newest, *oldest;
};

struct aio_history *aio_history_new(void) {
    struct aio_history *history = xcalloc(1, sizeof *history);
    pthread_mutex_init(&history->lock, NULL);
    return history;
}

static void change_free(struct change *change) {
    free(change->path);
    free(change->etag);
    free(change->old);
    free(change);
}

static void unlink_locked(struct aio_history *history, struct change *change) {
    *(change->newer ? &change->newer->older : &history->newest) = change->older;
    *(change->older ? &change->older->newer : &history->oldest) = change->newer;
    counted_give(COUNTED_UNDO, change->user, change->bytes);
}

static void drop_locked(struct aio_history *history, struct change *change) {
    unlink_locked(history, change);
    change_free(change);
}

void aio_history_free(struct aio_history *history) {
    if (!history)
        return;
    while (history->oldest)
        drop_locked(history, history->oldest);
    pthread_mutex_destroy(&history->lock);
    free(history);
}

static bool is_of(const struct change *change, const struct box *box, const char *path) {
    return !strcmp(change->box, box->id) && change->created_ms == box->created_ms && !strcmp(change->path, path);
}

/* The oldest change of this file goes beyond its share. */
static void trim_locked(struct aio_history *history, const struct box *box, const char *path) {
    unsigned count = 0;
    struct change *last = NULL;
    for (struct change *change = history->newest; change; change = change->older)
        if (is_of(change, box, path)) {
            count++;
            last = change;
        }
    if (count > HISTORY_OF_FILE)
        drop_locked(history, last);
}

/* The user's own oldest changes go for a new one. False: it is too large all the same. */
static bool count_locked(struct aio_history *history, const struct change *fresh) {
    struct change *oldest = history->oldest;
    struct err ignored;
    while (counted_take(COUNTED_UNDO, fresh->user, fresh->bytes, &ignored) < 0) {
        while (oldest && strcmp(oldest->user, fresh->user) != 0)
            oldest = oldest->newer;
        if (!oldest)
            return false;
        struct change *next = oldest->newer;
        drop_locked(history, oldest);
        oldest = next;
    }
    return true;
}

void aio_history_put(struct aio_history *history, const struct box *box, const char *path, const void *old, size_t len,
                     const char *etag) {
    struct change *change = xcalloc(1, sizeof *change);
    snprintf(change->box, sizeof change->box, "%s", box->id);
    change->created_ms = box->created_ms;
    change->path = xstrdup(path);
    change->etag = xstrdup(etag);
    change->old = old ? memcpy(xmalloc(len + 1), old, len) : NULL;
    change->len = len;
    snprintf(change->user, sizeof change->user, "%s", box->user);
    change->bytes = sizeof *change + strlen(path) + strlen(etag) + len + 3;
    change->bytes = change->bytes > HISTORY_LEAST_BYTES ? change->bytes : HISTORY_LEAST_BYTES;
    pthread_mutex_lock(&history->lock);
    if (count_locked(history, change)) {
        change->older = history->newest;
        *(history->newest ? &history->newest->newer : &history->oldest) = change;
        history->newest = change;
        trim_locked(history, box, path);
    } else {
        change_free(change);
    }
    pthread_mutex_unlock(&history->lock);
}

bool aio_history_take(struct aio_history *history, const struct box *box, const char *path, char **ret_old,
                      size_t *ret_len, char **ret_etag) {
    pthread_mutex_lock(&history->lock);
    struct change *change = history->newest;
    while (change && !is_of(change, box, path))
        change = change->older;
    if (change)
        unlink_locked(history, change);
    pthread_mutex_unlock(&history->lock);
    if (!change)
        return false;
    *ret_old = change->old;
    *ret_len = change->len;
    *ret_etag = change->etag;
    change->old = change->etag = NULL;
    change_free(change);
    return true;
}
