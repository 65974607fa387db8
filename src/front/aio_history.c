/* What the editor's last changes replaced, so that they can be taken back. In memory, for all boxes together: the oldest goes
 * when there is too much. Called by aio_file_edit.c. Not to break: it holds HISTORY_BYTES at most, whoever edits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/aio_file.h"

#define HISTORY_BYTES (64u << 20) /* of all of them */
#define HISTORY_OF_FILE 10u       /* changes of one file */
#define HISTORY_CHANGES 4096u     /* of all: they are looked through one by one */

struct change {
    struct change *newer, *older;
    char box[17];
    uint64_t created_ms; /* of the box: another one may get its id */
    char *path, *etag, *old;
    size_t len, bytes;
};

struct aio_history {
    pthread_mutex_t lock;
    struct change *newest, *oldest;
    size_t bytes, count;
};

struct aio_history *aio_history_new(void) {
    struct aio_history *history = calloc(1, sizeof *history);
    if (!history)
        abort();
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
    history->bytes -= change->bytes;
    history->count--;
}

void aio_history_free(struct aio_history *history) {
    struct change *change;
    if (!history)
        return;
    while ((change = history->oldest)) {
        unlink_locked(history, change);
        change_free(change);
    }
    pthread_mutex_destroy(&history->lock);
    free(history);
}

static bool is_of(const struct change *change, const struct box *box, const char *path) {
    return !strcmp(change->box, box->id) && change->created_ms == box->created_ms && !strcmp(change->path, path);
}

/* The oldest ones go: of this file beyond its share, and of all beyond the whole. */
static void trim_locked(struct aio_history *history, const struct box *box, const char *path) {
    unsigned count = 0;
    struct change *last = NULL;
    for (struct change *change = history->newest; change; change = change->older)
        if (is_of(change, box, path)) {
            count++;
            last = change;
        }
    if (count > HISTORY_OF_FILE) {
        unlink_locked(history, last);
        change_free(last);
    }
    while (history->bytes > HISTORY_BYTES || history->count > HISTORY_CHANGES) {
        last = history->oldest;
        unlink_locked(history, last);
        change_free(last);
    }
}

static char *copy(const void *data, size_t len) {
    char *text = malloc(len + 1);
    if (!text)
        abort();
    if (len)
        memcpy(text, data, len);
    text[len] = 0;
    return text;
}

void aio_history_put(struct aio_history *history, const struct box *box, const char *path, const void *old, size_t len,
                     const char *etag) {
    struct change *change = calloc(1, sizeof *change);
    if (!change)
        abort();
    snprintf(change->box, sizeof change->box, "%s", box->id);
    change->created_ms = box->created_ms;
    change->path = copy(path, strlen(path));
    change->etag = copy(etag, strlen(etag));
    change->old = old ? copy(old, len) : NULL;
    change->len = len;
    change->bytes = sizeof *change + strlen(path) + strlen(etag) + len + 3;
    pthread_mutex_lock(&history->lock);
    change->older = history->newest;
    *(history->newest ? &history->newest->newer : &history->oldest) = change;
    history->newest = change;
    history->bytes += change->bytes;
    history->count++;
    trim_locked(history, box, path);
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
