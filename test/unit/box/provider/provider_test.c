/* The rules at the head of provider.c, each by its number, over a backend made for the test. Time and memory are the
 * test's own: the wall clock jumps, and memory is as short as it says. */
#define clock_wall_ms real_wall_ms
#include "base/clock.c"
#undef clock_wall_ms

#include <stdatomic.h>

#include "base/text.h"
#include "box/provider/memory.h"
#include "box/provider/provider_private.h"
#include "fake_backend.h"

static _Atomic int64_t wall_jump_ms;
static _Atomic uint64_t free_bytes = UINT64_MAX;

uint64_t clock_wall_ms(void);
uint64_t clock_wall_ms(void) {
    return real_wall_ms() + (uint64_t)atomic_load(&wall_jump_ms);
}

uint64_t memory_available(const char *root, uint64_t enough) {
    (void)root, (void)enough;
    return atomic_load(&free_bytes);
}

static struct provider *provider, *other;
static struct err err;
static struct policy policy;
static const struct backend_env env = {.state_dir = state_dir, .runner_path = "/none"};

/* ---- events ---- */

static struct {
    pthread_mutex_t lock;
    char last[64][160]; /* "verb detail", of the box that is asked for */
    size_t count;
    char id[17];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *user, const struct box_event *event) {
    (void)user;
    pthread_mutex_lock(&heard.lock);
    if (event->id && strcmp(event->id, heard.id) == 0 && heard.count < 64)
        snprintf(heard.last[heard.count++], sizeof heard.last[0], "%s%s%s", event->verb, event->detail ? " " : "",
                 event->detail ? event->detail : "");
    pthread_mutex_unlock(&heard.lock);
}

static void listen_to(const char *id) {
    pthread_mutex_lock(&heard.lock);
    snprintf(heard.id, sizeof heard.id, "%s", id);
    heard.count = 0;
    pthread_mutex_unlock(&heard.lock);
}

static bool heard_all(const char *words) {
    char all[2048] = "";
    pthread_mutex_lock(&heard.lock);
    for (size_t i = 0; i < heard.count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", heard.last[i]);
    pthread_mutex_unlock(&heard.lock);
    if (strcmp(all, words) == 0)
        return true;
    printf("# heard: %s\n", all);
    return false;
}

/* ---- helpers ---- */

static struct box *acquire_of(struct provider *of, const char *user, const char *thread, bool *ret_created) {
    struct box_request request = {.user = user, .thread = thread, .thread_len = thread ? strlen(thread) : 0};
    struct box *box = NULL;
    bool created = false;
    if (provider_acquire(of, &request, &box, &created, &err) < 0)
        return NULL;
    if (ret_created)
        *ret_created = created;
    return box;
}

static struct box *acquire(const char *user, const char *thread) {
    return acquire_of(provider, user, thread, NULL);
}

/* Acquired, released, its reference given back: the id. */
static const char *shelve(const char *user, const char *thread) {
    static char ids[8][17];
    static unsigned next;
    struct box *box = acquire(user, thread);
    must(box, err.text);
    must(provider_release(provider, box, &err) == 0, "release");
    for (uint64_t now_ms = clock_ms(); clock_ms() == now_ms;) /* whose turn it is shows in milliseconds */
        sched_yield();
    char *id = ids[next++ % 8];
    memcpy(id, box->id, 17);
    provider_put(provider, box);
    return id;
}

static char *id_of(const char *user, const char *thread) {
    static char id[17];
    policy_id(user, thread, strlen(thread), id);
    return id;
}

static bool lives(const char *id) {
    pthread_mutex_lock(&fake.lock);
    const struct fake_runner *runner = fake_find_locked(id);
    bool yes = runner && !runner->dead;
    pthread_mutex_unlock(&fake.lock);
    return yes;
}

static enum box_state state_of(const char *id) {
    struct box *box;
    must(provider_look(provider, NULL, id, &box, &err) == 0, "look");
    enum box_state state = box->state;
    provider_look_end(provider, box);
    return state;
}

static int get_code(const char *id) {
    struct box *box;
    int r = provider_get(provider, NULL, id, &box, &err);
    if (r == 0)
        provider_put(provider, box);
    return r;
}

static void destroy(const char *of) {
    char id[17]; /* `of` may go with the box */
    text_id_copy(id, of);
    must(provider_destroy(provider, NULL, id, &err) == 0, err.text);
}

static bool file_there(const char *id, const char *name, bool make) {
    char path[200];
    snprintf(path, sizeof path, "%s/boxes/%s/%s", state_dir, id, name);
    if (make)
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return access(path, F_OK) == 0;
}

/* What the counts must be, by a walk over the places. */
static bool counts_exact(struct provider *of) {
    unsigned places = 0, running = 0;
    bool fine = true;
    pthread_mutex_lock(&of->lock);
    struct tally sums = {0};
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = of->buckets[i]; place; place = place->next) {
            const struct box *box = place->box;
            bool runs = place_marked(place) ? place->runs : box->wire || box->state == BOX_PAUSED;
            places++;
            running += runs;
            fine &= runs == place->runs;
            tally_change(&sums, box->user, (struct tally_sum){0},
                         (struct tally_sum){.boxes = 1,
                                            .memory_mb = runs ? box->spec.limits.memory_mb : 0,
                                            .disk_mb = box->spec.limits.disk_mb});
        }
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = of->buckets[i]; place; place = place->next) {
            struct tally_sum a = tally_of(&sums, place->box->user), b = tally_of(&of->tally, place->box->user);
            fine &= a.boxes == b.boxes && a.memory_mb == b.memory_mb && a.disk_mb == b.disk_mb;
        }
    fine &= places == of->count && running == of->running;
    pthread_mutex_unlock(&of->lock);
    tally_done(&sums);
    return fine;
}

static void start_provider(struct provider **ret_provider) {
    must(provider_new(&env, &policy, "fake", ret_provider, &err) == 0, err.text);
}

static void restart(void) {
    provider_free(provider, false);
    start_provider(&provider);
}

static char waited_id[17];
static bool waited_gone(void) {
    return !lives(waited_id) && state_of(waited_id) == BOX_WARM;
}
static bool soon_gone(const char *id) {
    text_id_copy(waited_id, id);
    return soon(waited_gone);
}

/* ---- one test a rule ---- */

static void *race_main(void *argument) {
    struct box_request request = {.user = "race", .thread = "one", .thread_len = 3};
    struct box *box = NULL;
    bool created = false;
    struct err own;
    if (provider_acquire(argument, &request, &box, &created, &own) < 0)
        return (void *)(intptr_t)-1;
    provider_put(argument, box);
    return (void *)(intptr_t)created;
}

static void test_1_one_box(void) {
    pthread_t threads[16];
    unsigned starts = fake.starts;
    intptr_t made = 0;
    bool failed = false;
    start_provider(&other);
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, race_main, i % 2 ? provider : other);
    for (int i = 0; i < 16; i++) {
        void *created;
        pthread_join(threads[i], &created);
        failed |= (intptr_t)created < 0;
        made += (intptr_t)created;
    }
    ok_all("invariant 1: one pair asked for by all at once is one box", !failed, made == 1, fake.starts == starts + 1);
    provider_free(other, false);
    restart();
    bool created = true;
    struct box *box = acquire_of(provider, "race", "one", &created);
    ok_all("invariant 1: and the same one for the next daemon", box, !created, fake.starts == starts + 1);
    char id[17];
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    destroy(id);
    box = acquire_of(provider, "race", "one", &created);
    ok_all("invariant 1: deleted and asked for again it is a new one", box, created, strcmp(box->id, id) == 0);
    provider_put(provider, box);
    destroy(id);
    /* Any bytes but NUL, of any length up to the limit; the pair is compared, not its hash alone. */
    char longest[LIMIT_THREAD_BYTES + 1];
    memset(longest, 0xfe, sizeof longest);
    struct box_request odd = {.user = "odd", .thread = longest, .thread_len = LIMIT_THREAD_BYTES};
    bool fine = provider_acquire(provider, &odd, &box, &created, &err) == 0;
    ok(fine && strlen(box->thread) == LIMIT_THREAD_BYTES, "invariant 1: a thread of any bytes up to the limit");
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    destroy(id);
    odd.thread_len++;
    ok(provider_acquire(provider, &odd, &box, &created, &err) == -ERR_INVALID, "invariant 1: a longer one is refused");
    odd = (struct box_request){.user = "odd", .thread = "a\0b", .thread_len = 3};
    ok(provider_acquire(provider, &odd, &box, &created, &err) == -ERR_INVALID, "invariant 1: and one with a NUL");
}

static void test_1_chosen_id(void) {
    struct box_request request = {.user = "chosen", .thread = "t", .thread_len = 1, .id = "0badcafe"};
    struct box *box = NULL, *again = NULL;
    bool created = false;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    ok_all("invariant 1: a client's own id is the box's", created, strcmp(box->id, "0badcafe") == 0,
           strcmp(box->thread, "t") == 0);
    provider_put(provider, box);
    restart();
    must(provider_acquire(provider, &request, &again, &created, &err) == 0, err.text);
    ok(!created && strcmp(again->id, "0badcafe") == 0, "invariant 1: of the next daemon as well");
    provider_put(provider, again);
    request.thread = "u";
    ok(provider_acquire(provider, &request, &again, &created, &err) == -ERR_EXISTS,
       "invariant 1: with another thread it is somebody else's");
    runner_dies("0badcafe");
    ok(soon_gone("0badcafe"), "invariant 11: its death is noticed by a number that a longer id could have");
    destroy("0badcafe");
    const char *const bad[] = {"", "0badcaf", "0BADCAFE", "0badcafe0", "../../../../etc/", "0badcafe0badcafe0"};
    bool refused = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        request.id = bad[i];
        refused &= provider_acquire(provider, &request, &again, &created, &err) == -ERR_INVALID;
    }
    ok(refused, "invariant 1: what is no id makes no box");
}

static void *churn_main(void *argument) {
    struct err own;
    for (int i = 0; i < 60; i++) {
        struct box_request request = {.user = "churn", .thread = "one", .thread_len = 3};
        struct box *box = NULL;
        bool created;
        if (provider_acquire(argument, &request, &box, &created, &own) < 0)
            continue;
        char id[17];
        memcpy(id, box->id, sizeof id);
        provider_put(argument, box);
        if (i % 3 == 0)
            provider_destroy(argument, NULL, id, &own);
    }
    return NULL;
}

/* The backend itself ends the test when two calls for one id meet. */
static void test_2_one_at_a_time(void) {
    pthread_t threads[8];
    start_provider(&other);
    fake.slow_us = 200;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, churn_main, i % 2 ? provider : other);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    fake.slow_us = 0;
    provider_free(other, false);
    ok(true, "invariant 2: a backend never sees two calls for one id at once, of threads and daemons");
    struct box *box = acquire("churn", "one");
    must(box, err.text);
    provider_put(provider, box);
    destroy(box->id);
}

static void test_3_struct_and_runner(void) {
    struct box *box = acquire("three", "t");
    must(box, err.text);
    runner_dies(box->id);
    struct box *again = acquire("three", "t");
    ok_all("invariant 3: a new runner is a new struct, and the old one stays dead for who holds it", again,
           again != box, strcmp(again->id, box->id) == 0, !wire_alive(box->wire), wire_alive(again->wire));
    provider_put(provider, box);
    provider_put(provider, again);
    destroy(again->id);
}

static void test_4_files(void) {
    struct box_request request = {
        .user = "four", .thread = "t", .thread_len = 1, .has_idle_timeout = true, .idle_timeout_ms = 1};
    struct box *box;
    bool created;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    listen_to(id);
    file_there(id, "mine", true);
    provider_put(provider, box);
    ok_all("invariant 4: an idle time-out keeps the files", soon_gone(id), file_there(id, "mine", false),
           heard_all("box_evicted idle"));
    request.has_idle_timeout = false;
    must(get_code(id) == 0, err.text);
    runner_dies(id);
    ok(soon_gone(id) && file_there(id, "mine", false), "invariant 4: a death does");
    provider_free(provider, true);
    start_provider(&provider);
    ok(file_there(id, "mine", false), "invariant 4: the daemon's end does");
    destroy(id);
    ok(!file_there(id, "mine", false), "invariant 4: destroy alone removes them");
}

static void test_5_6_replicas(void) {
    policy.replicas = 3;
    const char *a = shelve("five", "a"), *b = shelve("five", "b");
    struct box *active = acquire("five", "c");
    ok(lives(a) && lives(b), "invariant 6: as many as replicas run");
    shelve("five", "a"); /* used again: b is now the one used longest ago */
    listen_to(b);
    struct box *more = acquire("five", "d");
    ok_all("invariant 6: beyond it the released one used longest ago is evicted", more, lives(a), !lives(b),
           heard_all("box_evicted replicas"));
    ok(file_there(b, "box.json", false), "invariant 4: with its files kept");
    struct box *last = acquire("five", "e");
    ok_all("invariant 6: and then the next", last, !lives(a), lives(active->id), lives(more->id));
    struct box *beyond = acquire("five", "f");
    ok_all("invariant 5: an active one never; with all of them active there are more than replicas", beyond,
           lives(active->id), lives(more->id), lives(last->id), provider->running == 4);
    provider_release(provider, more, &err);
    ok(lives(more->id), "invariant 5: nor one that somebody holds, though it was released");
    char id[17];
    memcpy(id, more->id, sizeof id);
    provider_put(provider, more);
    ok(soon_gone(id), "invariant 6: a release makes up for it");
    ok(counts_exact(provider) && provider->running == 3, "invariant 9: which the counts show");
    struct box *held[] = {active, last, beyond};
    for (size_t i = 0; i < 3; i++)
        provider_put(provider, held[i]);
    restart();
    ok(state_of(id_of("five", "f")) == BOX_READY, "invariant 5: who was active is so for the next daemon");
    policy.replicas = 0;
    const char *shelved = shelve("five", "b");
    restart();
    ok(state_of(shelved) == BOX_WARM && lives(shelved), "invariant 5: and who was released too");
}

static void set_free(uint64_t bytes) {
    atomic_store(&free_bytes, bytes);
    atomic_store(&provider->memory_ms, 0); /* what was seen a moment ago does not count */
}

static void test_7_memory(void) {
    policy.memory_reserve_mb = 100;
    set_free(200ull << 20);
    const char *old = shelve("seven", "a"), *young = shelve("seven", "b");
    struct box *active = acquire("seven", "c");
    must(active, err.text);
    listen_to(old);
    set_free(50ull << 20);
    struct box *refused = acquire("seven", "d");
    ok_all("invariant 7: below the reserve nothing is started", !refused, err.code == ERR_BUSY,
           strstr(err.text, "memory_reserve_mb"));
    ok_all("invariant 7: after the released ones were evicted; active ones go on", !lives(old), !lives(young),
           heard_all("box_evicted memory"), lives(active->id));
    ok(acquire("seven", "c") == active, "invariant 7: what runs is still found");
    provider_put(provider, active); /* once more below */
    ok(get_code(old) == -ERR_BUSY, "invariant 7: by id nothing is started either");
    ok(counts_exact(provider) && !file_there("0123456789abcdef", "", false), "invariant 15: a refusal leaves no count");
    set_free(200ull << 20);
    ok(get_code(old) == 0, "invariant 7: with memory back it is");
    provider_release(provider, active, &err);
    char id[17];
    memcpy(id, active->id, sizeof id);
    provider_put(provider, active);
    set_free(50ull << 20);
    ok(soon_gone(id), "invariant 7: the keeper notices by itself");
    set_free(UINT64_MAX);
    policy.memory_reserve_mb = 0;
}

static int ask(const char *user, const char *thread, uint64_t memory_mb, uint64_t disk_mb) {
    struct box_request request = {.user = user,
                                  .thread = thread,
                                  .thread_len = strlen(thread),
                                  .has_memory = memory_mb,
                                  .has_disk = disk_mb,
                                  .limits = {.memory_mb = memory_mb, .disk_mb = disk_mb}};
    struct box *box;
    bool created;
    int r = provider_acquire(provider, &request, &box, &created, &err);
    if (r == 0)
        provider_put(provider, box);
    return r;
}

static void test_8_quotas(void) {
    static const struct share_user rich = {.user = "rich", .share = {.memory_mb = 1000, .disk_mb = 1000}};
    policy.share.max_boxes = 3;
    policy.share.memory_mb = 100;
    policy.share.disk_mb = 50;
    policy.users = &rich;
    policy.user_count = 1;
    ok(ask("poor", "a", 60, 20) == 0 && ask("poor", "b", 40, 20) == 0, "invariant 8: up to the quota boxes are made");
    ok(ask("poor", "c", 16, 10) == -ERR_LIMIT && strstr(err.text, "user_memory_mb"), "invariant 8: memory beyond it");
    char id[17];
    memcpy(id, id_of("poor", "b"), sizeof id);
    runner_dies(id);
    must(soon_gone(id), "the death");
    ok(ask("poor", "c", 16, 11) == -ERR_LIMIT && strstr(err.text, "user_disk_mb"),
       "invariant 8: disk beyond it, also of boxes that do not run");
    ok(ask("poor", "c", 30, 10) == 0, "invariant 8: memory is that of running ones");
    ok(ask("poor", "b", 0, 0) == -ERR_LIMIT && strstr(err.text, "user_memory_mb"),
       "invariant 8: so what was stopped may find no room");
    ok(get_code(id) == -ERR_GONE || err.code == ERR_LIMIT, "invariant 8: nor by its id");
    ok(ask("poor", "d", 16, 1) == -ERR_LIMIT && strstr(err.text, "max_boxes_per_user"), "invariant 8: boxes beyond it");
    ok(ask("none", "a", 0, 10) == -ERR_LIMIT && strstr(err.text, "memory_mb"),
       "invariant 8: a box without the limit cannot be counted");
    ok(ask("none", "a", 16, 0) == -ERR_LIMIT && strstr(err.text, "disk_mb"), "invariant 8: of disk too");
    ok(ask("rich", "a", 600, 600) == 0, "invariant 8: a user may have a share of his own");
    ok(ask("rich", "b", 600, 10) == -ERR_LIMIT, "invariant 8: with its own end");
    ok(ask("rich", "b", UINT64_MAX, 10) == -ERR_INVALID && ask("rich", "b", 16, UINT64_MAX) == -ERR_INVALID,
       "invariant 8: an absurd limit is refused before it is counted");
    ok(counts_exact(provider) && tally_of(&provider->tally, "none").boxes == 0, "invariant 9: counts are exact");
    policy.share = (struct share){0};
    policy.user_count = 0;
    must(ask("poor", "b", 0, 0) == 0, err.text);
}

static void test_10_paused(void) {
    struct box *box = acquire("ten", "t");
    must(box, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    listen_to(id);
    ok(provider_pause(provider, "other", id, &err) == -ERR_NOT_FOUND, "invariant 10: a stranger cannot pause it");
    ok_all("invariant 10: its owner can, twice as well", provider_pause(provider, "ten", id, &err) == 0,
           provider_pause(provider, "ten", id, &err) == 0, state_of(id) == BOX_PAUSED);
    ok(get_code(id) == -ERR_PAUSED && strstr(err.text, "paused"), "invariant 10: no call reaches it");
    bool created;
    struct box *found = acquire_of(provider, "ten", "t", &created);
    ok_all("invariant 10: acquire gives it as it is", found, !created, found->state == BOX_PAUSED);
    provider_put(provider, found);
    policy.replicas = 1;
    provider_put(provider, acquire("ten", "other"));
    ok_all("invariant 10: it is counted, never evicted", lives(id), state_of(id) == BOX_PAUSED, provider->running >= 2);
    policy.replicas = 0;
    restart();
    ok(state_of(id) == BOX_PAUSED && get_code(id) == -ERR_PAUSED, "invariant 10: it is paused for the next daemon too");
    ok(counts_exact(provider), "invariant 9: and counted there");
    listen_to(id);
    ok_all("invariant 10: resumed it goes on", provider_resume(provider, NULL, id, &err) == 0,
           provider_resume(provider, NULL, id, &err) == 0, state_of(id) == BOX_READY, get_code(id) == 0,
           heard_all("box_resumed"));
    policy.wake_paused = true;
    must(provider_pause(provider, NULL, id, &err) == 0, err.text);
    listen_to(id);
    ok_all("invariant 10: or wakes by itself where that is wanted", get_code(id) == 0, state_of(id) == BOX_READY,
           heard_all("box_resumed it was used"));
    policy.wake_paused = false;
    fake.fail_pause = true;
    ok(provider_pause(provider, NULL, id, &err) == -ERR_IO && get_code(id) == 0,
       "invariant 15: a pause that fails changes nothing");
    fake.fail_pause = false;
    start_provider(&other);
    must(provider_pause(other, NULL, id, &err) == 0, err.text);
    ok(get_code(id) == -ERR_PAUSED && state_of(id) == BOX_PAUSED,
       "invariant 10: paused by another daemon it is so here");
    must(provider_resume(provider, NULL, id, &err) == 0, err.text);
    provider_free(other, false);
    must(provider_pause(provider, NULL, id, &err) == 0, err.text);
    runner_dies(id);
    ok(soon_gone(id) && get_code(id) == -ERR_GONE, "invariant 11: a paused one that died is noticed");
    ok(provider_pause(provider, NULL, id, &err) == -ERR_GONE, "invariant 10: and cannot be paused");
    box = acquire("ten", "t");
    must(box && provider_pause(provider, NULL, id, &err) == 0, "acquired and paused");
    provider_put(provider, box);
    listen_to(id);
    ok_all("invariant 10: destroy ends it", provider_destroy(provider, NULL, id, &err) == 0, !lives(id),
           heard_all("box_deleted"));
}

static void test_11_death(void) {
    struct box *box = acquire("eleven", "t");
    must(box, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    listen_to(id);
    runner_dies(id);
    ok(soon_gone(id), "invariant 11: a death is noticed without a call");
    struct box *seen;
    must(provider_look(provider, NULL, id, &seen, &err) == 0, "look");
    char why[sizeof seen->died];
    memcpy(why, seen->died, sizeof why);
    provider_look_end(provider, seen);
    char wanted[200];
    snprintf(wanted, sizeof wanted, "box_died %s", why);
    ok(why[0] && heard_all(wanted), "invariant 11: told with its reason, by an event and to who looks");
    ok(get_code(id) == -ERR_GONE && strstr(err.text, why), "invariant 11: and to who wants to use it");
    restart();
    ok(get_code(id) == -ERR_GONE && strstr(err.text, why), "invariant 11: by the next daemon as well");
    listen_to(id);
    box = acquire("eleven", "t");
    ok_all("invariant 11: and undone by the next acquire", box, lives(id), !box->died[0], heard_all("box_ready"));
    ok(strcmp(box->restarted, why) == 0, "invariant 11: which remembers the reason");
    provider_put(provider, box);
    runner_dies(id);
    must(soon_gone(id), "the death");
    ok(provider_wake(provider, NULL, id, &box, &err) == 0 && lives(id), "invariant 11: or by a wake");
    provider_put(provider, box);
    box = acquire("eleven", NULL);
    must(box, err.text);
    char plain[17];
    memcpy(plain, box->id, sizeof plain);
    provider_put(provider, box);
    runner_dies(plain);
    ok_all("invariant 11: of a box without a thread by any use", soon_gone(plain), get_code(plain) == 0, lives(plain));
    destroy(plain);
    listen_to(id);
    runner_dies(id);
    ok_all("invariant 11: and by who wakes it by its id", soon_gone(id),
           provider_wake(provider, "eleven", id, &box, &err) == 0, lives(id), !box->died[0]);
    provider_put(provider, box);
    ok(provider_wake(provider, "twelve", id, &box, &err) == -ERR_NOT_FOUND, "invariant 11: which is its owner's to do");
    must(provider_pause(provider, NULL, id, &err) == 0, err.text);
    ok(provider_wake(provider, "eleven", id, &box, &err) == -ERR_PAUSED, "invariant 10: waking is not resuming");
    destroy(id);
    ok(provider_wake(provider, NULL, id, &box, &err) == -ERR_NOT_FOUND, "invariant 11: nor making");
}

static void test_12_clock(void) {
    struct box_request request = {
        .user = "twelve", .thread = "t", .thread_len = 1, .has_idle_timeout = true, .idle_timeout_ms = 3600000};
    struct box *box;
    bool created;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    const int64_t jumps_ms[] = {365ll * 86400000, -365ll * 86400000};
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&wall_jump_ms, jumps_ms[i]);
        pthread_mutex_lock(&provider->lock);
        struct place *place = place_get_locked(provider, id);
        uint64_t used_ms = atomic_load(&place->box->used_ms);
        bool now = eviction_idle_locked(place, clock_ms()), then = eviction_idle_locked(place, used_ms + 3600000),
             before = eviction_idle_locked(place, used_ms + 3599999);
        pthread_mutex_unlock(&provider->lock);
        ok_all(i ? "invariant 12: a clock set back a year ends nothing later"
                 : "invariant 12: a clock set forward a year ends nothing early",
               !now, then, !before);
        struct box *seen;
        must(provider_look(provider, NULL, id, &seen, &err) == 0, "look");
        uint64_t shown = box_last_used_ms(seen), wall = clock_wall_ms();
        provider_look_end(provider, seen);
        ok(shown <= wall && wall - shown < 60000, "invariant 12: last_used_at goes with the clock");
    }
    /* Used a moment ago by another daemon, with its clock a year off. */
    start_provider(&other);
    struct box *used = acquire_of(other, "twelve", "t", &created);
    must(used, err.text);
    provider_put(other, used);
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    atomic_store(&place->box->used_ms, clock_ms() - 2 * 3600000);
    eviction_evict_locked(provider, place, "idle");
    pthread_mutex_unlock(&provider->lock);
    ok(lives(id), "invariant 12: nor is it idle because another daemon's clock says so");
    provider_free(other, false);
    atomic_store(&wall_jump_ms, 0);
    destroy(id);
}

static void *hang_main(void *argument) {
    struct exec_request request = {.command = "hang", .timeout_ms = 60000};
    struct exec_result result;
    struct exec_sink sink = {0};
    struct err own;
    return (void *)(intptr_t)box_exec(argument, &request, &sink, -1, &result, &own);
}

static void test_13_nobody_waits(void) {
    const char *how[] = {"invariant 13: destroy ends running verbs", "invariant 13: death does"};
    for (int i = 0; i < 2; i++) {
        struct box *box = acquire("thirteen", "t");
        must(box, err.text);
        pthread_t thread;
        pthread_create(&thread, NULL, hang_main, box);
        while (wire_calls(box->wire) == 0)
            sched_yield();
        if (i)
            runner_dies(box->id);
        else
            destroy(box->id);
        void *r;
        pthread_join(thread, &r);
        ok((intptr_t)r == -ERR_GONE, how[i]);
        provider_put(provider, box);
    }
}

static int count_each(void *user, struct box *box) {
    (void)box;
    ++*(unsigned *)user;
    return 0;
}

static void test_14_looking(void) {
    const char *id = shelve("fourteen", "t");
    struct box *box;
    unsigned starts = fake.starts, seen = 0;
    must(provider_look(provider, NULL, id, &box, &err) == 0, "look");
    uint64_t used_ms = atomic_load(&box->used_ms);
    provider_look_end(provider, box);
    provider_each(provider, count_each, &seen);
    ok_all("invariant 14: looking starts, wakes and touches nothing", seen, state_of(id) == BOX_WARM,
           atomic_load(&box->used_ms) == used_ms, fake.starts == starts);
    destroy(id);
}

struct work_test {
    bool stop, fail, change, die;
    enum box_state seen;
};

static int work_main(void *argument, struct work *work, struct err *ret_err) {
    static char changed[] = "k=changed", *labels[] = {changed, NULL};
    const struct work_test *test = argument;
    if (test->stop && work_stop(work, "the test", ret_err) < 0)
        return -ERR_IO;
    if (test->change)
        work->record.labels = labels;
    if (test->die)
        runner_dies(work->box->id);
    return test->fail ? err_set(ret_err, ERR_IO, "the test says no") : 0;
}

static void test_15_failures(void) {
    fake.fail_start = true;
    ok_all("invariant 15: a failed start leaves nothing", !acquire("fifteen", "t"), counts_exact(provider),
           !tally_of(&provider->tally, "fifteen").boxes);
    fake.fail_start = false;
    struct box_request request = {
        .user = "fifteen", .thread = "t", .thread_len = 1, .labels = (const char *[]){"k=v", NULL}};
    struct box *box;
    bool created;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    fake.fail_stop = true;
    ok(provider_destroy(provider, NULL, id, &err) == -ERR_IO && file_there(id, "box.json", false),
       "invariant 15: a failed destroy leaves it");
    fake.fail_stop = false;
    provider_put(provider, box);
    struct box *again = acquire("fifteen", "t"); /* its wire was cut before the stop failed */
    must(again, err.text);
    provider_put(provider, again);
    struct work_test test = {.stop = true, .change = true, .fail = true};
    ok(provider_work(provider, "x", id, work_main, &test, &err) == -ERR_NOT_FOUND, "invariant 15: no stranger's work");
    ok_all("invariant 15: a work that failed after it stopped the box",
           provider_work(provider, NULL, id, work_main, &test, &err) == -ERR_IO, !lives(id), counts_exact(provider));
    box = acquire("fifteen", "t");
    ok_all("invariant 15: leaves what the record says", box, strcmp(box->labels[0], "k=v") == 0, lives(id));
    provider_put(provider, box);
    test = (struct work_test){.stop = true, .change = true};
    must(provider_work(provider, NULL, id, work_main, &test, &err) == 0, err.text);
    box = acquire("fifteen", "t");
    ok(box && strcmp(box->labels[0], "k=changed") == 0, "invariant 15: one that did not fail, what it made of it");
    provider_put(provider, box);
    test = (struct work_test){.die = true};
    listen_to(id);
    must(provider_work(provider, NULL, id, work_main, &test, &err) == 0, err.text);
    ok(soon_gone(id) && get_code(id) == -ERR_GONE, "invariant 11: a death during a work is noticed after it");
    destroy(id);
}

static void test_events(void) {
    listen_to(id_of("events", "t"));
    struct box *box = acquire("events", "t");
    must(box, err.text);
    char id[17];
    memcpy(id, box->id, sizeof id);
    provider_release(provider, box, &err);
    provider_release(provider, box, &err);
    provider_put(provider, box);
    must(get_code(id) == 0 && provider_pause(provider, NULL, id, &err) == 0, err.text);
    must(provider_resume(provider, NULL, id, &err) == 0, err.text);
    provider_free(provider, true);
    start_provider(&provider);
    must(get_code(id) == 0, err.text);
    restart();
    destroy(id);
    ok(heard_all("box_created, box_ready, box_warm, box_ready, box_paused, box_resumed, box_evicted shutdown, "
                 "box_ready, box_adopted, box_deleted"),
       "a life is told step by step");
}

int main(void) {
    must(mkdtemp(state_dir) != NULL, "mkdtemp");
    policy.event = hear;
    start_provider(&provider);
    void (*const tests[])(void) = {test_1_one_box,  test_1_chosen_id,  test_2_one_at_a_time, test_3_struct_and_runner,
                                   test_4_files,    test_5_6_replicas, test_7_memory,        test_8_quotas,
                                   test_10_paused,  test_11_death,     test_12_clock,        test_13_nobody_waits,
                                   test_14_looking, test_15_failures,  test_events};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tests[i]();
        ok(counts_exact(provider), "invariant 9: counts are exact");
    }
    provider_free(provider, true);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
