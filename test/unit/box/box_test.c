/* The provider and the verbs over a backend made for the test. */
#include "fake_backend.h"

#include "box/provider/statelock.h"

/* ---- the tests ---- */

static struct provider *provider;
static struct err err;

static struct box *acquire(const char *user, const char *thread, bool *ret_created) {
    struct box_request request = {.user = user, .thread = thread, .thread_len = thread ? strlen(thread) : 0};
    struct box *box = NULL;
    bool created = false;
    if (provider_acquire(provider, &request, &box, &created, &err) < 0)
        return NULL;
    if (ret_created)
        *ret_created = created;
    return box;
}

static int keep_output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)stream;
    buf_put(user, data, len);
    return 0;
}

static int run(struct box *box, const char *command, struct buf *out) {
    struct exec_request request = {.command = command, .timeout_ms = 60000};
    struct exec_sink sink = {.output = keep_output, .user = out};
    struct exec_result result;
    struct err own;
    int r = box_exec(box, &request, &sink, -1, &result, &own);
    return r < 0 ? r : result.exit_code;
}

static void *acquire_main(void *argument) {
    (void)argument;
    struct box_request request = {.user = "u", .thread = "race", .thread_len = 4};
    struct box *box = NULL;
    bool created = false;
    struct err own;
    int r = provider_acquire(provider, &request, &box, &created, &own);
    return r < 0 ? NULL : box;
}

static void test_acquire(void) {
    bool created = false;
    struct box *a = acquire("u", "t", &created), *b = acquire("u", "t", NULL), *c = acquire("v", "t", NULL);
    ok_all("one box a user and thread", a, created, a == b, c, a != c);
    struct box *d = acquire("u", NULL, NULL), *e = acquire("u", NULL, NULL), *found = NULL;
    ok_all("without a thread a new one each time", d, e, d != e);
    ok(provider_get(provider, "v", a->id, &found, &err) == -ERR_NOT_FOUND, "somebody else's answers as none");
    char foreign[600];
    snprintf(foreign, sizeof foreign, "%s", err.text);
    ok(provider_get(provider, "v", "0000000000000000", &found, &err) == -ERR_NOT_FOUND, "an unknown one too");
    ok(provider_get(provider, NULL, "../../etc", &found, &err) == -ERR_NOT_FOUND, "and what is not an id");
    ok(provider_get(provider, "u", a->id, &found, &err) == 0 && found == a, "its owner gets it");
    provider_put(provider, found);
    autobuf out = buf_max(100);
    ok(run(a, "hello", &out) == 3 && strcmp(buf_cstr(&out), "hello") == 0, "a command runs in it");
    ok(provider_release(provider, a, &err) == 0 && a->state == BOX_WARM, "released it is warm");
    ok_all("looked at it stays", provider_look(provider, "u", a->id, &found, &err) == 0, found == a,
           a->state == BOX_WARM);
    provider_look_end(provider, found);
    ok(provider_look(provider, "v", a->id, &found, &err) == -ERR_NOT_FOUND, "a stranger cannot even look");
    ok(provider_get(provider, "u", a->id, &found, &err) == 0 && a->state == BOX_READY, "used again it is ready");
    provider_put(provider, found);
    unsigned before = fake.starts;
    pthread_t threads[16];
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, acquire_main, NULL);
    void *first = NULL;
    bool same = true;
    for (int i = 0; i < 16; i++) {
        void *box;
        pthread_join(threads[i], &box);
        first = first ? first : box;
        same &= box && box == first;
        provider_put(provider, box);
    }
    ok(same && fake.starts == before + 1, "16 at once for the same pair start one box");
    fake.fail_start = true;
    ok(!acquire("u", "unlucky", NULL) && err.code == ERR_UNSUPPORTED, "a start that fails says why");
    fake.fail_start = false;
    struct box *lucky = acquire("u", "unlucky", &created);
    ok(lucky && created, "and leaves nothing in the way of the next");
    struct box *all[] = {a, b, c, d, e, lucky};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        provider_put(provider, all[i]);
    struct provider_counts counts;
    provider_count(provider, &counts);
    ok(counts.by_backend_state[0][BOX_READY] == 6, "they are counted");
    struct box_request bad = {.user = "a b"};
    ok(provider_acquire(provider, &bad, &found, &created, &err) == -ERR_INVALID, "a bad user is INVALID");
    bad = (struct box_request){.backend = "none"};
    ok(provider_acquire(provider, &bad, &found, &created, &err) == -ERR_INVALID, "an unknown backend too");
}

static char died_id[17];

static bool is_gone(void) {
    struct box *box;
    struct err own;
    int r = provider_get(provider, NULL, died_id, &box, &own);
    if (r == 0)
        provider_put(provider, box);
    return r == -ERR_GONE;
}

static void test_death(void) {
    struct box *box = acquire("u", "mortal", NULL), *again;
    bool created = true;
    memcpy(died_id, box->id, sizeof died_id);
    unsigned stops = fake.stops;
    runner_dies(box->id);
    autobuf out = buf_max(100);
    ok(run(box, "x", &out) == -ERR_GONE, "a verb on a dead box is GONE");
    ok(soon(is_gone), "its death is noticed, and get says GONE");
    again = acquire("u", "mortal", &created);
    ok_all("acquire gives it a new runner", again, !created, again != box, strcmp(again->id, box->id) == 0);
    ok(fake.stops > stops, "after what the old one left behind was ended");
    ok(run(again, "y", &out) == 3 && run(box, "y", &out) == -ERR_GONE, "old references stay dead, new ones work");
    provider_put(provider, box);
    provider_put(provider, again);
}

static void *hang_main(void *argument) {
    autobuf out = buf_max(100);
    return (void *)(intptr_t)run(argument, "hang", &out);
}

static void test_destroy(void) {
    struct box *box = acquire("u", "short", NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, hang_main, box);
    while (wire_calls(box->wire) == 0)
        sched_yield();
    unsigned removals = fake.removals;
    ok(provider_destroy(provider, "v", box->id, &err) == -ERR_NOT_FOUND, "a stranger cannot delete it");
    ok(provider_destroy(provider, "u", box->id, &err) == 0 && fake.removals == removals + 1, "its owner can");
    void *r;
    pthread_join(thread, &r);
    ok((intptr_t)r == -ERR_GONE, "a running verb ends");
    struct box *found;
    ok(provider_get(provider, NULL, box->id, &found, &err) == -ERR_NOT_FOUND, "then it is unknown");
    ok(provider_destroy(provider, NULL, box->id, &err) == -ERR_NOT_FOUND, "and cannot be deleted twice");
    provider_put(provider, box);
}

static void again_acquired(const struct box_request *request) {
    struct box *box;
    bool created;
    ok(provider_acquire(provider, request, &box, &created, &err) == 0 && !created, "until it is acquired again");
    provider_put(provider, box);
}

static unsigned stops_before;

static bool stopped(void) {
    pthread_mutex_lock(&fake.lock);
    bool more = fake.stops > stops_before;
    pthread_mutex_unlock(&fake.lock);
    return more;
}

static void test_idle(void) {
    struct box_request request = {.user = "u", .has_idle_timeout = true, .idle_timeout_ms = 1};
    struct box *box, *again;
    bool created;
    stops_before = fake.stops;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, "acquire");
    char id[17];
    memcpy(id, box->id, sizeof id);
    unsigned removals = fake.removals, starts = fake.starts;
    provider_put(provider, box);
    ok(soon(stopped) && fake.removals == removals, "an idle box is stopped and keeps its files");
    ok(provider_look(provider, "u", id, &again, &err) == 0 && fake.starts == starts, "looking does not start it");
    provider_look_end(provider, again);
    ok(provider_get(provider, "u", id, &again, &err) == 0 && fake.starts == starts + 1, "use does");
    autobuf out = buf_max(100);
    ok(run(again, "z", &out) == 3, "and works");
    provider_put(provider, again);
}

static void put_record(const char *id, const char *text) {
    char dir[128], path[160];
    fake_path(dir, sizeof dir, id);
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/box.json", dir);
    FILE *file = fopen(path, "w");
    must(file && fputs(text, file) >= 0 && fclose(file) == 0, "a record");
}

static char *id_path(const char *id, const char *name) {
    static char path[200];
    char dir[128];
    fake_path(dir, sizeof dir, id);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void restart(bool runners_live) {
    static struct backend_env env;
    static struct policy policy;
    env = (struct backend_env){.state_dir = state_dir, .runner_path = "/none", .pool_size = 1};
    provider_free(provider, false);
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < FAKE_RUNNERS && !runners_live; i++) {
        fake.runners[i].dead = true;
        fake_end_locked(&fake.runners[i]);
    }
    pthread_mutex_unlock(&fake.lock);
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, "provider_new");
}

static void test_restart(void) {
    struct box_request request = {.user = "u",
                                  .thread = "\xff\xfe odd \"bytes\"",
                                  .thread_len = 14,
                                  .env = (const char *[]){"A=\xff", NULL},
                                  .labels = (const char *[]){"k=v", NULL}};
    struct box *box;
    bool created;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, "acquire");
    char id[17];
    memcpy(id, box->id, sizeof id);
    uint64_t made = box->created_ms;
    provider_put(provider, box);
    unsigned starts = fake.starts, removals = fake.removals;
    restart(true);
    ok(provider_get(provider, "u", id, &box, &err) == 0 && fake.starts == starts,
       "a restarted daemon adopts its boxes");
    ok_all("with all they were, whatever bytes", strcmp(box->thread, request.thread) == 0,
           strcmp(box->spec.env[0], "A=\xff") == 0, box->created_ms == made, strcmp(box->labels[0], "k=v") == 0);
    autobuf out = buf_max(100);
    ok(run(box, "on", &out) == 3, "and they work");
    provider_put(provider, box);
    restart(false);
    ok(provider_get(provider, "u", id, &box, &err) == 0 && fake.starts == starts + 1,
       "a box whose runner is gone is started on its files");
    provider_put(provider, box);
    runner_dies(id);
    memcpy(died_id, id, sizeof died_id);
    ok(soon(is_gone), "one whose runner died by itself is GONE");
    restart(true);
    ok(is_gone(), "and after a restart still");
    again_acquired(&request);
    ok(fake.removals == removals, "nothing of them was removed");
}

/* Directories without a good record: what was never finished goes, what a user may have been told of stays. */
static void test_records(void) {
    static const struct {
        const char *name, *text;
    } bad[] = {
        {"cut off", "{\"id\":"},
        {"empty", ""},
        {"no object", "[1]"},
        {"another id", "{\"id\":\"2222222222222222\",\"backend\":\"fake\",\"user\":\"u\",\"template\":\"host\"}"},
        {"a number as user", "{\"id\":\"1111111111111111\",\"backend\":\"fake\",\"user\":1,\"template\":\"host\"}"},
        {"a limit as text", "{\"id\":\"1111111111111111\",\"backend\":\"fake\",\"user\":\"u\",\"template\":\"host\","
                            "\"memory_mb\":\"64\"}"},
        {"a limit below nothing", "{\"id\":\"1111111111111111\",\"backend\":\"fake\",\"user\":\"u\","
                                  "\"template\":\"host\",\"pids\":-1}"},
        {"mounts that are none", "{\"id\":\"1111111111111111\",\"backend\":\"fake\",\"user\":\"u\","
                                 "\"template\":\"host\",\"mounts\":[7]}"}};
    const char *lost = "1111111111111111";
    struct box *box;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[80];
        put_record(lost, bad[i].text);
        snprintf(name, sizeof name, "a damaged record is no box: %s", bad[i].name);
        ok(provider_get(provider, NULL, lost, &box, &err) == -ERR_NOT_FOUND, name);
    }
    unlink(id_path(lost, "box.json"));
    must(symlink("/etc/passwd", id_path(lost, "box.json")) == 0, "symlink");
    ok(provider_get(provider, NULL, lost, &box, &err) == -ERR_NOT_FOUND, "nor is a link");
    unlink(id_path(lost, "box.json"));
    must(mkfifo(id_path(lost, "box.json"), 0600) == 0, "mkfifo");
    ok(provider_get(provider, NULL, lost, &box, &err) == -ERR_NOT_FOUND, "nor a FIFO, and nobody waits for it");
    unlink(id_path(lost, "box.json"));
    char unfinished[128];
    fake_path(unfinished, sizeof unfinished, "3333333333333333");
    must(mkdir(unfinished, BACKEND_UNFINISHED_MODE) == 0 && chmod(unfinished, BACKEND_UNFINISHED_MODE) == 0, "mkdir");
    restart(true);
    ok(access(id_path(lost, ""), F_OK) == 0, "files that lost their record stay");
    ok(access(unfinished, F_OK) < 0, "a box that was never finished goes");
    ok(provider_destroy(provider, "u", lost, &err) == -ERR_NOT_FOUND, "a user cannot delete what lost its record");
    ok(provider_destroy(provider, NULL, lost, &err) == 0 && access(id_path(lost, ""), F_OK) < 0, "an admin can");
    char mine[17];
    policy_id("u", "mine", 4, mine);
    put_record(mine, "{");
    bool created = false;
    box = acquire("u", "mine", &created);
    ok_all("who has the user and thread takes them up", box, created, access(id_path(mine, "box.json"), F_OK) == 0);
    provider_put(provider, box);
    restart(true);
    ok(provider_get(provider, "u", mine, &box, &err) == 0, "with a record again");
    provider_put(provider, box);
    /* Somebody else's record under the id of this pair: a clash. */
    char clash[17], text[200];
    policy_id("u", "clash", 5, clash);
    snprintf(text, sizeof text,
             "{\"id\":\"%s\",\"backend\":\"fake\",\"user\":\"w\",\"thread\":\"x\",\"template\":\"host\"}", clash);
    put_record(clash, text);
    ok(!acquire("u", "clash", NULL) && err.code == ERR_EXISTS, "a clash of ids is an error");
}

/* ---- two daemons ---- */

static struct provider *other;

static bool other_has_wire(void) {
    struct box *box;
    struct err own;
    if (provider_look(other, NULL, died_id, &box, &own) < 0)
        return false;
    bool has = box->wire;
    provider_look_end(other, box);
    return has;
}

static bool other_stopped(void) {
    return !other_has_wire();
}

static void *both_main(void *argument) {
    struct box_request request = {.user = "u", .thread = "both", .thread_len = 4};
    struct box *box = NULL;
    bool created;
    struct err own;
    int r = provider_acquire(argument, &request, &box, &created, &own);
    provider_put(argument, box);
    return (void *)(intptr_t)(r < 0 ? r : created);
}

static void test_two(void) {
    static struct backend_env env;
    static struct policy policy;
    env = (struct backend_env){.state_dir = state_dir, .runner_path = "/none", .pool_size = 1};
    must(provider_new(&env, &policy, "fake", &other, &err) == 0, "a second provider");
    struct statelock lock;
    struct provider *third = NULL;
    autofd state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(statelock_open(&lock, state, &err) == 0, "the lock");
    ok(statelock_alone(&lock, &err) == -ERR_BUSY, "nobody is alone while others serve");
    statelock_done(&lock);
    struct provider *const first = provider;
    pthread_t threads[16];
    unsigned starts = fake.starts;
    for (size_t i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, both_main, i % 2 ? other : first);
    intptr_t made = 0;
    for (size_t i = 0; i < 16; i++) {
        void *r;
        pthread_join(threads[i], &r);
        made += (intptr_t)r;
    }
    ok(made == 1 && fake.starts == starts + 1, "one pair asked for in both at once is one box");
    struct box *box = acquire("u", "both", NULL), *same;
    memcpy(died_id, box->id, sizeof died_id);
    ok(provider_get(other, "u", box->id, &same, &err) == 0, "the other knows it");
    autobuf out = buf_max(100);
    ok(run(box, "x", &out) == 3 && run(same, "x", &out) == 3, "both work in it");
    provider_put(provider, box);
    provider_put(other, same);
    runner_dies(died_id);
    ok(provider_get(other, "u", died_id, &same, &err) == -ERR_GONE && is_gone(), "its runner's death is GONE in both");
    box = acquire("u", "both", NULL);
    ok(box && provider_get(other, "u", died_id, &same, &err) == 0, "started again by one, it runs in both");
    provider_put(provider, box);
    provider_put(other, same);
    ok(provider_destroy(other, "u", died_id, &err) == 0, "deleted by one");
    ok(provider_get(provider, "u", died_id, &box, &err) == -ERR_NOT_FOUND, "it is unknown to the other, not GONE");
    ok(provider_look(provider, "u", died_id, &box, &err) == -ERR_NOT_FOUND, "also to look at");
    ok(provider_destroy(provider, "u", died_id, &err) == -ERR_NOT_FOUND, "and cannot be deleted again");
    struct box_request idle = {.user = "u", .has_idle_timeout = true, .idle_timeout_ms = 1};
    bool created;
    must(provider_acquire(other, &idle, &box, &created, &err) == 0, "acquire");
    memcpy(died_id, box->id, sizeof died_id);
    provider_put(other, box);
    must(provider_look(other, "u", died_id, &box, &err) == 0, "look");
    ok(soon(other_stopped), "one made by the other is stopped by the reaper when it is idle, whoever looks at it");
    provider_look_end(other, box);
    starts = fake.starts;
    ok(provider_get(other, "u", died_id, &box, &err) == 0 && fake.starts == starts + 1, "and starts again, not GONE");
    provider_put(other, box);
    unsigned stops = fake.stops;
    provider_free(first, true);
    provider = other;
    ok(fake.stops == stops, "a daemon that ends its boxes leaves them to the other one");
    must(provider_acquire(other, &idle, &box, &created, &err) == 0, "acquire");
    memcpy(died_id, box->id, sizeof died_id);
    provider_put(other, box);
    ok(soon(other_stopped), "which is the reaper then");
    provider_free(provider, false);
    must(statelock_open(&lock, state, &err) == 0 && statelock_alone(&lock, &err) == 0, "alone");
    ok(provider_new(&env, &policy, "fake", &third, &err) == -ERR_BUSY, "and nobody serves while one is alone");
    statelock_done(&lock);
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, "provider_new");
}

static int count_file(void *user, const struct file_stat *stat) {
    (void)stat;
    ++*(int *)user;
    return 0;
}

static int count_path(void *user, const char *path, size_t len) {
    (void)path;
    (void)len;
    ++*(int *)user;
    return *(int *)user == 1 ? -ERR_LIMIT : 0;
}

static int hostile_list(const char *path, uint64_t limit, int *ret_seen) {
    struct box *box = acquire("h", NULL, NULL);
    bool truncated;
    *ret_seen = 0;
    int r = box_list(box, &(struct list_request){.path = path, .depth = 1, .limit = limit}, -1, count_file, ret_seen,
                     &truncated, &err);
    bool dead = !wire_alive(box->wire);
    provider_put(provider, box);
    return r == 0 ? 0 : dead ? r : -ERR_INTERNAL;
}

static void test_verbs(void) {
    int seen;
    ok(hostile_list("/", 2, &seen) == 0 && seen == 2, "an honest list");
    ok(hostile_list("/", 1, &seen) == -ERR_PROTOCOL && seen == 1, "more than was asked for ends the wire");
    ok(hostile_list("/nameless", 5, &seen) == -ERR_PROTOCOL && seen == 0, "a file without a name ends the wire");
    ok(hostile_list("/cut", 5, &seen) == -ERR_PROTOCOL, "a record cut off ends the wire");
    struct box *box = acquire("h", NULL, NULL);
    uint8_t digest[32];
    uint64_t size;
    ok(box_hash(box, "/x", -1, digest, &size, &err) == -ERR_PROTOCOL, "a hash of 5 bytes ends the wire");
    provider_put(provider, box);
    box = acquire("h", NULL, NULL);
    autoarena arena = ARENA_EMPTY;
    struct file_stat stat;
    ok(box_stat(box, "/x", &arena, &stat, &err) == -ERR_PROTOCOL, "a stream where none belongs ends the wire");
    provider_put(provider, box);
    box = acquire("h", NULL, NULL);
    seen = 0;
    struct glob_request glob = {.pattern = "*", .limit = 9};
    struct glob_result globbed;
    ok_all("a sink that says no ends its verb and nothing else",
           box_glob(box, &glob, -1, count_path, &seen, &globbed, &err) == -ERR_LIMIT, seen == 1, wire_alive(box->wire));
    ok(box_stat(box, "", &arena, &stat, &err) == -ERR_INVALID, "an empty path is INVALID");
    int client[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client) == 0, "socketpair");
    close(client[1]);
    struct exec_request request = {.command = "hang", .timeout_ms = 60000};
    autobuf out = buf_max(100);
    struct exec_sink sink = {.output = keep_output, .user = &out};
    struct exec_result result;
    ok(box_exec(box, &request, &sink, client[0], &result, &err) == -ERR_GONE && wire_alive(box->wire),
       "a client's hang-up ends its command");
    close(client[0]);
    provider_put(provider, box);
}

int main(void) {
    must(mkdtemp(state_dir) != NULL, "mkdtemp");
    struct backend_env env = {.state_dir = state_dir, .runner_path = "/none", .pool_size = 1};
    static struct policy policy;
    must(provider_new(&env, &policy, "fake", &provider, &err) == 0, "provider_new");
    test_acquire();
    test_death();
    test_destroy();
    test_idle();
    test_verbs();
    test_restart();
    test_records();
    test_two();
    provider_free(provider, true);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
