/* The table of transfers (machine_transfer.h). Opened by machine_text_file.c, served by front/runner.c. Rules:
 *
 * 1. transfers->lock guards the table, a transfer's own lock the rest of it; the table's is taken first.
 * 2. A transfer has two holders, who opens it and who serves it; the table names it only until it was taken or given up.
 * 3. Whatever ends it is told to both: failed is set once, and everybody who waits is woken. */
#include "backend/machine_transfer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/counted.h"
#include "base/text.h"

enum { ROOM_BYTES = 256 << 10, WHY_BYTES = 200 };

struct machine_transfer {
    struct machine_transfer *next;
    struct machine_transfers *transfers;
    char id[MACHINE_TRANSFER_ID_BYTES];
    char *user, *machine;
    bool brings;
    uint64_t size, max;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders;
    bool taken;
    uint8_t *room; /* bytes on their way, a ring */
    size_t begin, held;
    uint64_t given; /* so far */
    bool complete;  /* no more will come */
    bool failed;
    int code;
    char why[WHY_BYTES];
};

struct machine_transfers {
    pthread_mutex_t lock;
    struct machine_transfer *first;
};

struct machine_transfers *machine_transfers_new(void) {
    struct machine_transfers *transfers = calloc(1, sizeof *transfers);
    if (!transfers)
        abort();
    pthread_mutex_init(&transfers->lock, NULL);
    return transfers;
}

void machine_transfers_free(struct machine_transfers *transfers) {
    if (!transfers)
        return;
    pthread_mutex_destroy(&transfers->lock);
    free(transfers);
}

static char *copy_of(const char *text) {
    char *copy = strdup(text);
    if (!copy)
        abort();
    return copy;
}

int machine_transfer_new(struct machine_transfers *transfers, const char *user, const char *machine, bool brings,
                         uint64_t size, uint64_t max, struct machine_transfer **ret_transfer, struct err *err) {
    uint8_t secret[16];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return err_errno(err, errno, "random bytes");
    int r = counted_take(COUNTED_TRANSFERS, user, 1, err);
    if (r < 0)
        return r;
    struct machine_transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer || !(transfer->room = malloc(ROOM_BYTES)))
        abort();
    transfer->transfers = transfers;
    text_hex(transfer->id, secret, sizeof secret);
    transfer->user = copy_of(user);
    transfer->machine = copy_of(machine);
    transfer->brings = brings;
    transfer->size = size;
    transfer->max = max;
    transfer->holders = 1;
    pthread_mutex_init(&transfer->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&transfer->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_lock(&transfers->lock);
    transfer->next = transfers->first;
    transfers->first = transfer;
    pthread_mutex_unlock(&transfers->lock);
    *ret_transfer = transfer;
    return 0;
}

const char *machine_transfer_id(const struct machine_transfer *transfer) {
    return transfer->id;
}

static void table_remove_locked(struct machine_transfers *transfers, const struct machine_transfer *transfer) {
    for (struct machine_transfer **at = &transfers->first; *at; at = &(*at)->next)
        if (*at == transfer) {
            *at = transfer->next;
            return;
        }
}

int machine_transfer_take(struct machine_transfers *transfers, const char *id, const char *user, const char *machine,
                          bool brings, struct machine_transfer **ret_transfer, uint64_t *ret_size, struct err *err) {
    pthread_mutex_lock(&transfers->lock);
    struct machine_transfer *transfer = transfers->first;
    while (transfer && (strcmp(transfer->id, id) != 0 || strcmp(transfer->user, user) != 0 ||
                        strcmp(transfer->machine, machine) != 0 || transfer->brings != brings))
        transfer = transfer->next;
    if (transfer) {
        table_remove_locked(transfers, transfer);
        pthread_mutex_lock(&transfer->lock);
        transfer->taken = true;
        transfer->holders++;
        pthread_cond_broadcast(&transfer->changed);
        pthread_mutex_unlock(&transfer->lock);
    }
    pthread_mutex_unlock(&transfers->lock);
    if (!transfer)
        return err_set(err, ERR_NOT_FOUND, "no such transfer: each is for one machine, once, and soon");
    *ret_size = brings ? transfer->max : transfer->size;
    *ret_transfer = transfer;
    return 0;
}

static void fail_locked(struct machine_transfer *transfer, enum err_code code, const char *why) {
    if (transfer->failed)
        return;
    transfer->failed = true;
    transfer->code = code;
    snprintf(transfer->why, sizeof transfer->why, "%s", why);
    pthread_cond_broadcast(&transfer->changed);
}

void machine_transfer_fail(struct machine_transfer *transfer, const char *why) {
    pthread_mutex_lock(&transfer->lock);
    fail_locked(transfer, ERR_GONE, why);
    pthread_mutex_unlock(&transfer->lock);
}

/* Waits for the other side. It begins with the machine, which has to come first. */
static int wait_locked(struct machine_transfer *transfer, struct err *err) {
    uint64_t until_ms = clock_ms() + (transfer->taken ? MACHINE_TRANSFER_STALL_MS : MACHINE_TRANSFER_BEGIN_MS);
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
    if (pthread_cond_timedwait(&transfer->changed, &transfer->lock, &until) == ETIMEDOUT)
        fail_locked(transfer, ERR_TIMEOUT, transfer->taken ? "nothing moved for a minute" : "the machine did not come");
    return transfer->failed ? err_set(err, (enum err_code)transfer->code, "the transfer failed: %s", transfer->why) : 0;
}

ssize_t machine_transfer_get(struct machine_transfer *transfer, void *data, size_t size, struct err *err) {
    pthread_mutex_lock(&transfer->lock);
    int r = 0;
    while (r == 0 && transfer->held == 0 && !transfer->complete && !transfer->failed)
        r = wait_locked(transfer, err);
    if (r == 0 && transfer->failed)
        r = err_set(err, (enum err_code)transfer->code, "the transfer failed: %s", transfer->why);
    size_t n = transfer->held < size ? transfer->held : size;
    if (r == 0 && n > 0) {
        n = n < ROOM_BYTES - transfer->begin ? n : ROOM_BYTES - transfer->begin;
        memcpy(data, transfer->room + transfer->begin, n);
        transfer->begin = (transfer->begin + n) % ROOM_BYTES;
        transfer->held -= n;
        pthread_cond_broadcast(&transfer->changed);
    }
    pthread_mutex_unlock(&transfer->lock);
    return r < 0 ? r : (ssize_t)n;
}

static size_t put_some_locked(struct machine_transfer *transfer, const uint8_t *data, size_t len) {
    size_t end = (transfer->begin + transfer->held) % ROOM_BYTES;
    size_t n = ROOM_BYTES - transfer->held < len ? ROOM_BYTES - transfer->held : len;
    n = n < ROOM_BYTES - end ? n : ROOM_BYTES - end;
    if (n > 0)
        memcpy(transfer->room + end, data, n);
    transfer->held += n;
    pthread_cond_broadcast(&transfer->changed);
    return n;
}

int machine_transfer_put(struct machine_transfer *transfer, const void *data, size_t len, struct err *err) {
    pthread_mutex_lock(&transfer->lock);
    int r = 0;
    transfer->given += len;
    if (transfer->given > transfer->max) {
        r = err_set(err, ERR_TOO_LARGE, "the file is larger than the limit of %llu bytes",
                    (unsigned long long)transfer->max);
        fail_locked(transfer, ERR_TOO_LARGE, "the file is larger than the limit");
    }
    for (const uint8_t *at = data; r == 0 && len > 0;) {
        if (transfer->failed) {
            r = err_set(err, (enum err_code)transfer->code, "the transfer failed: %s", transfer->why);
            break;
        }
        size_t n = put_some_locked(transfer, at, len);
        at += n;
        len -= n;
        if (n == 0)
            r = wait_locked(transfer, err);
    }
    pthread_mutex_unlock(&transfer->lock);
    return r;
}

void machine_transfer_end(struct machine_transfer *transfer) {
    pthread_mutex_lock(&transfer->lock);
    transfer->complete = true;
    pthread_cond_broadcast(&transfer->changed);
    pthread_mutex_unlock(&transfer->lock);
}

void machine_transfer_close(struct machine_transfer *transfer, const char *why) {
    struct machine_transfers *transfers = transfer->transfers;
    pthread_mutex_lock(&transfers->lock);
    table_remove_locked(transfers, transfer);
    pthread_mutex_lock(&transfer->lock);
    if (why)
        fail_locked(transfer, ERR_GONE, why);
    transfer->complete = true;
    pthread_cond_broadcast(&transfer->changed);
    bool last = --transfer->holders == 0;
    pthread_mutex_unlock(&transfer->lock);
    pthread_mutex_unlock(&transfers->lock);
    if (!last)
        return;
    counted_give(COUNTED_TRANSFERS, transfer->user, 1);
    pthread_cond_destroy(&transfer->changed);
    pthread_mutex_destroy(&transfer->lock);
    free(transfer->room);
    free(transfer->user);
    free(transfer->machine);
    free(transfer);
}
