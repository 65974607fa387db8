/* The table of counted.h. Invariant: a user's row is removed with the last resource it holds, so that users who come
 * and go leave nothing, and the rows are bounded by the resources they hold. */
#include <assert.h>
#include <poll.h>

#include "base/base.h"
#include "base/counted.h"
#include "base/sync.h"

enum { BUCKETS = 256, SLICE_MS = 50 /* how soon a waiter notices that its client hung up */ };

static const struct {
    const char *unit, *advice;
} kinds[COUNTED_KINDS] = {
#define X(name, unit, machine, user, advice) {unit, advice},
    COUNTED_LIST(X)
#undef X
};

struct holder {
    struct holder *next;
    uint64_t held[COUNTED_KINDS];
    char user[];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct holder *buckets[BUCKETS];
    uint64_t total[COUNTED_KINDS];
    struct {
        uint64_t machine, user;
    } most[COUNTED_KINDS];
} table = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .given = PTHREAD_COND_INITIALIZER,
    .most =
        {
#define X(name, unit, machine, user, advice) {machine, user},
            COUNTED_LIST(X)
#undef X
        },
};

/* The row of user, or the place for it. */
static struct holder **counted_holder_find_locked(const char *user) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *at = user; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    struct holder **at = &table.buckets[hash % BUCKETS];
    while (*at && strcmp((*at)->user, user) != 0)
        at = &(*at)->next;
    return at;
}

static void counted_add_locked(enum counted what, const char *user, uint64_t amount) {
    struct holder **at = counted_holder_find_locked(user);
    if (!*at) {
        size_t size = strlen(user) + 1;
        *at = xcalloc(1, sizeof **at + size);
        memcpy((*at)->user, user, size);
    }
    (*at)->held[what] += amount;
    table.total[what] += amount;
}

static int counted_try_locked(enum counted what, const char *user, uint64_t amount, struct err *err) {
    const struct holder *holder = *counted_holder_find_locked(user);
    uint64_t held = holder ? holder->held[what] : 0, machine = table.most[what].machine, most = table.most[what].user;
    uint64_t left = table.total[what] < machine ? machine - table.total[what] : 0;
    if (!amount)
        return 0;
    if (amount > most || held > most - amount)
        return err_set(err, ERR_LIMIT, "user '%s' has %llu %s, and %llu more are above the limit of a user, %llu; %s",
                       user, (unsigned long long)held, kinds[what].unit, (unsigned long long)amount,
                       (unsigned long long)most, kinds[what].advice);
    if (amount > left || held + amount > left - amount)
        return err_set(err, ERR_LIMIT,
                       "user '%s' has %llu %s, and %llu more would leave too few for others: %llu of this machine's "
                       "%llu are left; %s",
                       user, (unsigned long long)held, kinds[what].unit, (unsigned long long)amount,
                       (unsigned long long)left, (unsigned long long)machine, kinds[what].advice);
    counted_add_locked(what, user, amount);
    return 0;
}

int counted_take(enum counted what, const char *user, uint64_t amount, struct err *err) {
    autolock(&table.lock);
    return counted_try_locked(what, user, amount, err);
}

int counted_wait(enum counted what, const char *user, uint64_t amount, unsigned wait_ms, int watch, struct err *err) {
    uint64_t until_ms = clock_ms() + wait_ms;
    autolock(&table.lock);
    int r;
    while ((r = counted_try_locked(what, user, amount, err)) < 0 && clock_ms() < until_ms) {
        struct pollfd client = {.fd = watch, .events = POLLRDHUP};
        if (watch >= 0 && poll(&client, 1, 0) > 0 && (client.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
            r = err_set(err, ERR_GONE, "the client hung up");
            break;
        }
        struct timespec slice;
        clock_gettime(CLOCK_REALTIME, &slice); /* the clock of a condition without attributes; a jump costs one slice */
        slice.tv_nsec += SLICE_MS * 1000000l;
        if (slice.tv_nsec >= 1000000000)
            slice.tv_sec++, slice.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&table.given, &table.lock, &slice);
    }
    return r;
}

void counted_hold(enum counted what, const char *user, uint64_t amount) {
    autolock(&table.lock);
    if (amount)
        counted_add_locked(what, user, amount);
}

void counted_give(enum counted what, const char *user, uint64_t amount) {
    if (!amount)
        return;
    autolock(&table.lock);
    struct holder **at = counted_holder_find_locked(user), *holder = *at;
    assert(holder && holder->held[what] >= amount);
    holder->held[what] -= amount;
    table.total[what] -= amount;
    bool empty = true;
    for (size_t i = 0; i < COUNTED_KINDS; i++)
        empty &= !holder->held[i];
    if (empty) {
        *at = holder->next;
        free(holder);
    }
    pthread_cond_broadcast(&table.given);
}

uint64_t counted_of(enum counted what, const char *user) {
    autolock(&table.lock);
    const struct holder *holder = *counted_holder_find_locked(user);
    return holder ? holder->held[what] : 0;
}

uint64_t counted_most(enum counted what) {
    autolock(&table.lock);
    return table.most[what].user;
}

void counted_limit(enum counted what, uint64_t machine, uint64_t user) {
    autolock(&table.lock);
    table.most[what].machine = machine;
    table.most[what].user = user;
}
