/* The provider against a model of it: threads drive two providers on one state directory, as two daemons have it, through
 * acquire, get, release, pause, resume, delete, deaths, restarts and evictions at random, and every rule at the head of
 * provider.c is checked on the way and at the end. usage: provider_model_test [SECONDS [SEED]]; also MODEL_SECONDS, MODEL_SEED.
 *
 * Every key (a user and a thread) is either `calm`: one thread at a time works on it, so the model knows what each answer
 * must be, while idleness, replicas and restarts act by themselves; or a `storm`: all at once, and only rules are checked. */
#include <stdatomic.h>

#include "box/provider/provider_private.h"
#include "fake_backend.h"

enum { KEYS = 24, STORM_KEYS = 4, THREADS = 8, PROVIDERS = 2, REPLICAS = 7, USER_BOXES = 5, IDLE_MS = 40 };

struct key {
    pthread_mutex_t lock;
    char user[16], thread[48], id[17];
    bool storm, idles;
    /* the model */
    bool exists, paused;
    atomic_bool died;          /* its runner was killed, and nobody has acquired it since */
    bool told_dead;            /* and get has said so: it must go on to */
    unsigned number;           /* written into its files when it was made */
    atomic_bool active, still; /* must not be evicted: acquired and not released; paused */
    atomic_uint held;          /* references that are held just now */
    atomic_int made;           /* storm: created minus deleted */
};

static struct key keys[KEYS];
static struct provider *providers[PROVIDERS];
static pthread_rwlock_t provider_locks[PROVIDERS];
static struct policy policy = {.replicas = REPLICAS, .share = {.max_boxes = 0}};
static const struct backend_env env = {.state_dir = state_dir, .runner_path = "/none"};
static atomic_bool ending;
static atomic_uint operations, wrong, numbers;
static _Thread_local unsigned seed;

static unsigned dice(unsigned sides) {
    return (unsigned)rand_r(&seed) % sides;
}

static void expect(bool condition, const struct key *key, const char *what, int got) {
    if (condition)
        return;
    if (atomic_fetch_add(&wrong, 1) < 20)
        printf("# %s/%s (%s): %s: got %d\n", key->user, key->thread, key->storm ? "storm" : "calm", what, got);
}

/* ---- what must never happen, seen by the backend ---- */

static struct key *key_of(const char *id) {
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].id, id) == 0)
            return &keys[i];
    return NULL;
}

static void on_end(const char *id, bool keep_files) {
    struct key *key = key_of(id);
    if (!key || key->storm || !keep_files || atomic_load(&key->died)) /* what is left of a dead one is nobody's */
        return;
    expect(!atomic_load(&key->held), key, "rule 5: evicted while somebody holds it", 1);
    expect(!atomic_load(&key->still), key, "rule 10: evicted while it is paused", 1);
    expect(key->idles || !atomic_load(&key->active), key, "rule 5: evicted while it is active", 1);
}

/* ---- files ---- */

static void number_path(const struct key *key, char path[128]) {
    snprintf(path, 128, "%s/boxes/%s/number", state_dir, key->id);
}

static void number_write(struct key *key) {
    char path[128], text[16];
    number_path(key, path);
    key->number = atomic_fetch_add(&numbers, 1) + 1;
    snprintf(text, sizeof text, "%u", key->number);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0, "a box's files");
    close(fd);
}

static unsigned number_read(const struct key *key) {
    char path[128], text[16];
    number_path(key, path);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* ---- operations ---- */

static int acquire(struct provider *provider, struct key *key, struct box **ret_box, bool *ret_created) {
    struct box_request request = {.user = key->user,
                                  .thread = key->thread,
                                  .thread_len = strlen(key->thread),
                                  .has_memory = true,
                                  .has_disk = true,
                                  .limits = {.memory_mb = 16, .disk_mb = 8},
                                  .has_idle_timeout = key->idles,
                                  .idle_timeout_ms = IDLE_MS};
    struct err err;
    return provider_acquire(provider, &request, ret_box, ret_created, &err);
}

static int ignore(void *user, int stream, const uint8_t *data, size_t len) {
    (void)user, (void)stream, (void)data, (void)len;
    return 0;
}

static int run(struct box *box) {
    struct exec_request request = {.command = "echo", .timeout_ms = 10000};
    struct exec_sink sink = {.output = ignore};
    struct exec_result result;
    struct err err;
    int r = box_exec(box, &request, &sink, -1, &result, &err);
    return r < 0 ? r : result.exit_code;
}

/* Who was killed a moment ago may still be given out as alive; a command tells. */
static void use(struct provider *provider, struct key *key, struct box *box, bool always) {
    int r = always || key->died ? run(box) : 3;
    expect(r == 3 || (key->died && r == -ERR_GONE), key, "a command in it", r);
    if (r == 3)
        key->died = key->told_dead = false;
    else
        atomic_store(&key->active, false);
    atomic_fetch_sub(&key->held, 1);
    provider_put(provider, box);
}

static void calm_acquire(struct provider *provider, struct key *key) {
    struct box *box = NULL;
    bool created = false;
    int r = acquire(provider, key, &box, &created);
    expect(r == 0, key, "acquire", r);
    if (r < 0)
        return;
    atomic_fetch_add(&key->held, 1);
    atomic_store(&key->active, !key->paused);
    expect(created == !key->exists, key, "rule 1: made although it was there, or found although it was not", created);
    expect(strcmp(box->id, key->id) == 0, key, "rule 1: its id", 0);
    if (created)
        number_write(key);
    else
        expect(number_read(key) == key->number, key, "rule 4: its files", (int)number_read(key));
    key->exists = true;
    if (key->paused && box->state == BOX_PAUSED) {
        atomic_fetch_sub(&key->held, 1);
        provider_put(provider, box);
        return;
    }
    expect(!key->paused || key->died, key, "rule 10: paused, and acquired as something else", (int)box->state);
    key->paused = key->told_dead = false;
    atomic_store(&key->still, false);
    atomic_store(&key->active, true);
    use(provider, key, box, dice(3) == 0);
}

static void calm_get(struct provider *provider, struct key *key) {
    struct box *box = NULL;
    struct err err;
    int r = provider_get(provider, key->user, key->id, &box, &err);
    if (r == 0) {
        atomic_fetch_add(&key->held, 1);
        expect(key->exists && !key->paused && !key->told_dead, key, "get", r);
        expect(number_read(key) == key->number, key, "rule 4: its files", (int)number_read(key));
        atomic_store(&key->active, true);
        use(provider, key, box, true);
    } else if (!key->exists) {
        expect(r == -ERR_NOT_FOUND, key, "get of what is not there", r);
    } else if (key->paused) {
        expect(r == -ERR_PAUSED || (r == -ERR_GONE && key->died), key, "get of a paused one", r);
    } else {
        expect(r == -ERR_GONE && key->died, key, "get of one that is there", r);
        key->told_dead = true;
    }
}

static void calm_release(struct provider *provider, struct key *key) {
    struct box *box = NULL;
    struct err err;
    if (provider_get(provider, key->user, key->id, &box, &err) < 0)
        return;
    atomic_fetch_add(&key->held, 1);
    expect(key->exists && !key->paused, key, "get, to release it", 0);
    atomic_store(&key->active, false);
    provider_release(provider, box, &err);
    use(provider, key, box, dice(2)); /* released and still held */
}

static void calm_pause(struct provider *provider, struct key *key) {
    struct err err;
    bool was = key->paused;
    int r = provider_pause(provider, key->user, key->id, &err);
    if (!key->exists)
        expect(r == -ERR_NOT_FOUND, key, "pause of what is not there", r);
    else if (r == 0)
        key->paused = true;
    else /* it may have been ended for idleness, for others, or by its death */
        expect((!was && r == -ERR_INVALID) || (r == -ERR_GONE && key->died), key, "pause", r);
    key->paused &= r != -ERR_GONE;
    atomic_store(&key->still, key->paused); /* not before: an eviction that began earlier may have won */
}

static void calm_resume(struct provider *provider, struct key *key) {
    struct err err;
    atomic_store(&key->still, false);
    int r = provider_resume(provider, key->user, key->id, &err);
    expect(r == (key->exists ? 0 : -ERR_NOT_FOUND), key, "resume", r);
    if (key->paused && r == 0)
        atomic_store(&key->active, !key->died);
    key->paused = false;
}

static void calm_delete(struct provider *provider, struct key *key) {
    struct err err;
    atomic_store(&key->active, false);
    atomic_store(&key->still, false);
    int r = provider_destroy(provider, key->user, key->id, &err);
    expect(r == (key->exists ? 0 : -ERR_NOT_FOUND), key, "delete", r);
    atomic_store(&key->died, false);
    key->exists = key->paused = key->told_dead = false;
    expect(number_read(key) == 0, key, "rule 4: files after delete", (int)number_read(key));
}

static void calm_kill(struct provider *provider, struct key *key) {
    (void)provider;
    if (!key->exists)
        return;
    atomic_store(&key->active, false); /* what is left of it may be ended */
    atomic_store(&key->still, false);
    bool before = atomic_exchange(&key->died, true);
    if (!runner_dies(key->id) && !before) {
        atomic_store(&key->died, false);
        atomic_store(&key->still, key->paused);
    }
}

static void calm_look(struct provider *provider, struct key *key) {
    struct box *box = NULL;
    struct err err;
    int r = provider_look(provider, dice(2) ? key->user : NULL, key->id, &box, &err);
    expect(r == (key->exists ? 0 : -ERR_NOT_FOUND), key, "look", r);
    if (r == 0) {
        enum box_state state = box->state;
        /* starting, closing: somebody in this process is just finding out what others did to it */
        bool unsettled = state == BOX_STARTING || state == BOX_CLOSING;
        expect(!key->paused || key->died || state == BOX_PAUSED || unsettled, key, "rule 10: the state of a paused one",
               (int)state);
        expect(key->paused || key->died || state != BOX_PAUSED, key, "the state of one that is not paused", (int)state);
        provider_look_end(provider, box);
    }
    r = provider_look(provider, "stranger", key->id, &box, &err);
    expect(r == -ERR_NOT_FOUND, key, "a stranger's look", r);
}

static void storm(struct provider *provider, struct key *key) {
    struct box *box = NULL;
    bool created = false;
    struct err err;
    int r = 0;
    switch (dice(8)) {
    case 0:
        r = provider_destroy(provider, key->user, key->id, &err);
        expect(r == 0 || r == -ERR_NOT_FOUND || r == -ERR_BUSY, key, "delete", r);
        if (r == 0)
            atomic_fetch_sub(&key->made, 1);
        return;
    case 1:
        runner_dies(key->id);
        return;
    case 2:
        r = provider_get(provider, key->user, key->id, &box, &err);
        expect(r == 0 || r == -ERR_NOT_FOUND || r == -ERR_GONE || r == -ERR_PAUSED || r == -ERR_BUSY, key, "get", r);
        break;
    case 3:
        r = dice(2) ? provider_pause(provider, key->user, key->id, &err)
                    : provider_resume(provider, key->user, key->id, &err);
        return;
    default:
        r = acquire(provider, key, &box, &created);
        expect(r == 0 || r == -ERR_BUSY || r == -ERR_GONE, key, "acquire", r); /* gone: killed while it started */
        if (created)
            atomic_fetch_add(&key->made, 1);
    }
    if (r < 0)
        return;
    if (dice(2))
        provider_release(provider, box, &err);
    if (box->state != BOX_PAUSED && dice(2) && box->wire)
        r = run(box);
    provider_put(provider, box);
}

/* Rule 9, and what follows from it: sums of the places. */
static bool counts_exact(struct provider *provider) {
    unsigned places = 0, running = 0;
    struct tally_sum sum = {0}, told = {0};
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next) {
            bool runs = place_marked(place) ? place->runs : place->box->wire || place->box->state == BOX_PAUSED;
            places++;
            running += runs && place->runs;
            sum.boxes++;
            sum.memory_mb += runs ? place->box->spec.limits.memory_mb : 0;
            sum.disk_mb += place->box->spec.limits.disk_mb;
        }
    for (size_t i = 0; i < KEYS; i += USER_BOXES) { /* the first key of each user */
        struct tally_sum one = tally_of(&provider->tally, keys[i].user);
        told = (struct tally_sum){told.boxes + one.boxes, told.memory_mb + one.memory_mb, told.disk_mb + one.disk_mb};
    }
    bool exact = places == provider->count && running == provider->running && memcmp(&sum, &told, sizeof sum) == 0;
    pthread_mutex_unlock(&provider->lock);
    return exact;
}

static void restart(size_t which) {
    struct err err;
    pthread_rwlock_wrlock(&provider_locks[which]);
    provider_free(providers[which], false);
    must(provider_new(&env, &policy, "fake", &providers[which], &err) == 0, "a provider starts again");
    pthread_rwlock_unlock(&provider_locks[which]);
}

static void (*const calm[])(struct provider *provider, struct key *key) = {
    calm_acquire, calm_acquire, calm_acquire, calm_get,  calm_get,    calm_release, calm_release,
    calm_pause,   calm_resume,  calm_resume,  calm_kill, calm_delete, calm_look};

static void *driver_main(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&ending)) {
        size_t which = dice(PROVIDERS);
        struct key *key = &keys[dice(KEYS)];
        atomic_fetch_add(&operations, 1);
        if (dice(2000) == 0) {
            restart(which);
            continue;
        }
        pthread_rwlock_rdlock(&provider_locks[which]);
        struct provider *provider = providers[which];
        if (dice(16) == 0)
            expect(counts_exact(provider), key, "rule 9: the counts", 0);
        if (key->storm) {
            storm(provider, key);
        } else {
            pthread_mutex_lock(&key->lock);
            calm[dice(sizeof calm / sizeof *calm)](provider, key);
            pthread_mutex_unlock(&key->lock);
        }
        pthread_rwlock_unlock(&provider_locks[which]);
    }
    return NULL;
}

/* ---- the end ---- */

/* Rule 6: at most REPLICAS run, or none of those that do is released. */
static bool replicas_hold(void) {
    struct provider *provider = providers[0];
    bool shelved = false;
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            shelved |= place_marked(place) || (place_runs(place) && place->box->state == BOX_WARM);
    bool holds = provider->running <= REPLICAS || !shelved;
    pthread_mutex_unlock(&provider->lock);
    return holds;
}

static bool nothing_left(void) {
    unsigned runners = 0, files = 0;
    char path[64];
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < FAKE_RUNNERS; i++)
        runners += fake.runners[i].id[0] != 0;
    pthread_mutex_unlock(&fake.lock);
    snprintf(path, sizeof path, "%s/boxes", state_dir);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        files += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    if (runners || files)
        printf("# left: %u runners, %u boxes' files\n", runners, files);
    return !runners && !files;
}

static void check_end(void) {
    struct err err;
    struct box *box;
    unsigned missing = 0;
    provider_free(providers[1], false);
    ok(soon(replicas_hold), "invariant 6: at most as many run as may, or all of them are active");
    ok(counts_exact(providers[0]), "invariant 9: counts are exact at the end");
    for (size_t i = 0; i < KEYS; i++) {
        int r = provider_look(providers[0], NULL, keys[i].id, &box, &err);
        bool there = r == 0;
        if (there)
            provider_look_end(providers[0], box);
        missing += there != (keys[i].storm ? atomic_load(&keys[i].made) == 1 : keys[i].exists);
        expect(!keys[i].storm || (atomic_load(&keys[i].made) & ~1) == 0, &keys[i], "made minus deleted",
               atomic_load(&keys[i].made));
        atomic_store(&keys[i].still, false);
        atomic_store(&keys[i].active, false);
        if (there && (r = provider_destroy(providers[0], NULL, keys[i].id, &err)) < 0)
            expect(false, &keys[i], "the last delete", r);
    }
    ok(missing == 0, "invariant 1: what is there is what was made and not deleted");
    ok_all("invariant 4: deleted, nothing is left", nothing_left(), providers[0]->count == 0,
           providers[0]->running == 0);
    provider_free(providers[0], true);
}

static void open_keys(void) {
    for (size_t i = 0; i < KEYS; i++) {
        struct key *key = &keys[i];
        pthread_mutex_init(&key->lock, NULL);
        snprintf(key->user, sizeof key->user, "user%zu", i / USER_BOXES);
        snprintf(key->thread, sizeof key->thread, "thread/%zu \xff\"ü", i);
        policy_id(key->user, key->thread, strlen(key->thread), key->id);
        key->storm = i >= KEYS - STORM_KEYS;
        key->idles = i % 4 == 0;
    }
}

int main(int argc, char **argv) {
    const char *seconds_text = argc > 1 ? argv[1] : getenv("MODEL_SECONDS"),
               *seed_text = argc > 2 ? argv[2] : getenv("MODEL_SEED");
    uint64_t seconds = seconds_text ? strtoull(seconds_text, NULL, 10) : 4;
    unsigned first = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : (unsigned)clock_us() % 1000000;
    struct err err;
    pthread_t threads[THREADS];
    printf("# seed %u: MODEL_SEED=%u repeats the order of operations\n", first, first);
    must(mkdtemp(state_dir) != NULL, "mkdtemp");
    open_keys();
    fake.ended = on_end;
    fake.slow_us = 100;
    for (size_t i = 0; i < PROVIDERS; i++) {
        pthread_rwlock_init(&provider_locks[i], NULL);
        must(provider_new(&env, &policy, "fake", &providers[i], &err) == 0, "provider_new");
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, driver_main, (void *)(first + i * 7919));
    for (uint64_t until_ms = clock_ms() + seconds * 1000; clock_ms() < until_ms && atomic_load(&wrong) < 20;)
        usleep(20000);
    atomic_store(&ending, true);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ok(atomic_load(&wrong) == 0, "invariants 1 to 15: every answer is one that the model allows");
    ok(atomic_load(&operations) > 100 * seconds, "with many operations");
    check_end();
    ok(atomic_load(&wrong) == 0, "to the end");
    printf("# %u operations in %llu s, %u starts, %u stops\n", atomic_load(&operations), (unsigned long long)seconds,
           fake.starts, fake.stops);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
