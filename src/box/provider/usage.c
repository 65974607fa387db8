/* What running boxes used over time: one thread measures each every few seconds. Called by dialects for what it found.
 * Invariant: a box costs the same memory however long it runs. When its samples are full, every second one goes and the
 * time between two doubles, so they always reach back to its start. */

#include "base/clock.h"
#include "base/mem.h"
#include "box/provider/provider_private.h"

enum { USAGE_SAMPLES = 240, USAGE_EVERY_MS = 5000 };

struct usage_ring {
    uint64_t every_ms, next_ms; /* next: clock_ms */
    size_t count;
    struct usage_sample samples[USAGE_SAMPLES];
};

static void usage_add_locked(struct place *place, const struct usage *usage) {
    struct usage_ring *ring = place->usage;
    if (!ring) {
        ring = place->usage = xcalloc(1, sizeof *ring);
        ring->every_ms = USAGE_EVERY_MS;
    }
    if (ring->count == USAGE_SAMPLES) {
        for (size_t i = 0; i < USAGE_SAMPLES / 2; i++)
            ring->samples[i] = ring->samples[2 * i];
        ring->count = USAGE_SAMPLES / 2;
        ring->every_ms *= 2;
    }
    ring->next_ms = clock_ms() + ring->every_ms;
    ring->samples[ring->count++] = (struct usage_sample){.at_ms = clock_wall_ms(), .usage = *usage};
}

/* The box that is due next, with a reference; NULL: none is. */
static struct box *usage_due_locked(struct provider *provider, uint64_t now_ms) {
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            if (place_runs(place) && !place->box->spec.machine && now_ms >= (place->usage ? place->usage->next_ms : 0))
                return provider_look_locked(place->box);
    return NULL;
}

static void usage_turn_locked(struct provider *provider) {
    uint64_t now_ms = clock_ms();
    for (struct box *box; !provider->ending && (box = usage_due_locked(provider, now_ms));) {
        struct usage usage = {0};
        pthread_mutex_unlock(&provider->lock);
        box_usage(box, &usage, ERR_IGNORED);
        pthread_mutex_lock(&provider->lock);
        struct place *place = place_get_locked(provider, box->id);
        if (place)
            usage_add_locked(place, &usage);
        pthread_mutex_unlock(&provider->lock);
        provider_look_end(provider, box);
        pthread_mutex_lock(&provider->lock);
    }
}

static void *usage_main(void *argument) {
    struct provider *provider = argument;
    autolock(&provider->lock);
    while (!provider->ending) {
        usage_turn_locked(provider);
        if (!provider->ending)
            cond_wait_until(&provider->measure, &provider->lock, clock_ms() + USAGE_EVERY_MS);
    }
    return NULL;
}

void usage_begin(struct provider *provider) {
    provider->measurer = thread_joined(usage_main, provider, PROVIDER_STACK_BYTES);
}

void usage_end(struct provider *provider) {
    pthread_mutex_lock(&provider->lock);
    pthread_cond_signal(&provider->measure);
    pthread_mutex_unlock(&provider->lock);
    pthread_join(provider->measurer, NULL);
}

int provider_usage(struct provider *provider, const char *id, uint64_t since_ms, uint64_t until_ms, struct arena *arena,
                   struct usage_sample **ret_samples, size_t *ret_count, struct err *err) {
    autolock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    if (!place)
        return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", id);
    const struct usage_ring *ring = place->usage;
    struct usage_sample *samples = arena_alloc(arena, (ring ? ring->count + 1 : 1) * sizeof *samples);
    size_t count = 0;
    for (size_t i = 0; ring && i < ring->count; i++)
        if (ring->samples[i].at_ms >= since_ms && ring->samples[i].at_ms <= until_ms)
            samples[count++] = ring->samples[i];
    *ret_samples = samples;
    *ret_count = count;
    return 0;
}
