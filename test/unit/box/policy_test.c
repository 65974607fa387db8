/* What a client may ask for, word by word, and what an id is. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"
#include "box/policy.h"
#include "tap.h"

static struct arena arena;
static struct spec spec;
static struct err err;

static int ask(const struct policy *policy, const struct box_request *request) {
    return policy_spec(policy, request, "0123456789abcdef", &arena, &spec, &err);
}

static void refused(struct box_request request, const char *word, const char *name) {
    struct policy policy = {.any_mount_source = true};
    int r = ask(&policy, &request);
    ok(r == -ERR_INVALID && strstr(err.text, word), name);
    if (r == 0 || !strstr(err.text, word))
        printf("# %d %s\n", r, r ? err.text : "");
}

static void test_ids(void) {
    char id[17], other[17];
    uint8_t digest[32];
    char hex[65];
    sha256("abc", 3, digest);
    text_hex(hex, digest, 32);
    ok(strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0, "sha256 of abc");
    sha256("", 0, digest);
    text_hex(hex, digest, 32);
    ok(strcmp(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") == 0, "sha256 of nothing");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    sha256(million, 1000000, digest);
    text_hex(hex, digest, 32);
    ok(strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0, "sha256 of a million a");
    bool good = true;
    for (size_t len = 0; len < 200; len++) { /* every position of the padding: prefixes must all differ */
        uint8_t next[32];
        sha256(million, len, digest);
        sha256(million, len + 1, next);
        good &= memcmp(digest, next, 32) != 0;
    }
    ok(good, "sha256 of every short length");
    free(million);
    policy_id("alice", "t1", 2, id);
    ok(text_id(id) && strcmp(id, "b076b51a7d6fe4e2") == 0, "an id is the first 16 hex digits of sha256(user:thread)");
    policy_id("alice", "t1", 2, other);
    ok(strcmp(id, other) == 0, "the same pair has the same id");
    policy_id("alice:t1", "", 0, other);
    ok(strcmp(id, other) != 0, "another pair has another");
    policy_random_id(id);
    policy_random_id(other);
    ok(text_id(id) && strcmp(id, other) != 0, "random ids differ");
}

static void test_words(void) {
    char long_user[LIMIT_USER_BYTES + 2];
    memset(long_user, 'u', sizeof long_user - 1);
    long_user[sizeof long_user - 1] = 0;
    const char *bad_users[] = {"", "a b", "a/b", "a:b", "\xc3\xa9", "a\n", long_user};
    for (size_t i = 0; i < sizeof bad_users / sizeof *bad_users; i++)
        refused((struct box_request){.user = bad_users[i]}, "user", "a user outside the grammar");
    long_user[LIMIT_USER_BYTES] = 0;
    struct policy policy = {0};
    struct box_request fine = {.user = long_user};
    ok(ask(&policy, &fine) == 0, "a user of the full length");
    fine.user = "A.b_c@d-9";
    ok_all("network none is the default", ask(&policy, &fine) == 0, spec.network == NETWORK_NONE, !spec.network_asked);
    fine.network = "open";
    ok_all("network open", ask(&policy, &fine) == 0, spec.network == NETWORK_OPEN, spec.network_asked);
    refused((struct box_request){.network = "host"}, "network", "network host");
    refused((struct box_request){.template_name = "../x"}, "template", "a template with a path");
    refused((struct box_request){.template_name = ".x"}, "template", "a hidden template");
    refused((struct box_request){.template_name = ""}, "template", "an empty template");
    refused((struct box_request){.shell = "bash"}, "shell", "a relative shell");
    refused((struct box_request){.thread = "a\0b", .thread_len = 3}, "thread", "a thread with NUL");
    char *thread = calloc(1, LIMIT_THREAD_BYTES + 2);
    memset(thread, 't', LIMIT_THREAD_BYTES + 1);
    refused((struct box_request){.thread = thread, .thread_len = LIMIT_THREAD_BYTES + 1}, "thread", "a long thread");
    struct box_request whole = {.thread = thread, .thread_len = LIMIT_THREAD_BYTES};
    ok(ask(&policy, &whole) == 0 && strlen(spec.thread) == LIMIT_THREAD_BYTES, "a thread of the full length");
    free(thread);
    refused((struct box_request){.labels = (const char *[]){"a b=c", NULL}}, "labels", "a label's name with a space");
    refused((struct box_request){.labels = (const char *[]){"abc", NULL}}, "labels", "a label without =");
    struct box_request labelled = {.labels = (const char *[]){"team/x=any thing", NULL}};
    ok(ask(&policy, &labelled) == 0, "a label");
}

static void test_env(void) {
    struct policy policy = {.share = {.env = (const char *[]){"A=1", "B=2", NULL}}};
    struct box_request request = {.env = (const char *[]){"B=3", "_c9=", NULL}};
    bool good = ask(&policy, &request) == 0 && spec.env_count == 3 && strcmp(spec.env[0], "A=1") == 0 &&
                strcmp(spec.env[1], "B=3") == 0 && strcmp(spec.env[2], "_c9=") == 0 && !spec.env[3];
    ok(good, "the request's variables replace the configuration's");
    const char *bad[] = {"=x", "9a=1", "a-b=1", "novalue", "a b=1", "\xc3\xa9=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused((struct box_request){.env = (const char *[]){bad[i], NULL}}, "env", "a variable outside the grammar");
    const char **many = calloc(LIMIT_ENV_COUNT + 2, sizeof *many);
    for (size_t i = 0; i <= LIMIT_ENV_COUNT; i++)
        many[i] = "A=1";
    refused((struct box_request){.env = many}, "env", "too many variables");
    free(many);
}

static void test_limits(void) {
    struct policy policy = {.share = {.limits = {.memory_mb = 512, .pids = 100}}};
    struct box_request request = {.has_cpus = true, .limits = {.cpus = 0.5}};
    ok_all("defaults hold where the request says nothing", ask(&policy, &request) == 0, spec.limits.memory_mb == 512,
           spec.limits.pids == 100, spec.limits.cpus > 0.49, spec.limits.cpus < 0.51);
    refused((struct box_request){.has_memory = true, .limits = {.memory_mb = 15}}, "memory_mb", "15 MB");
    refused((struct box_request){.has_open_files = true, .limits = {.open_files = 15}}, "open_files", "15 open files");
    refused((struct box_request){.has_open_files = true, .limits = {.open_files = 1048577}}, "open_files", "2^20 + 1");
    refused((struct box_request){.has_output = true, .limits = {.output_bytes = 0}}, "output_bytes", "no output");
    refused((struct box_request){.has_output = true, .limits = {.output_bytes = 67108865}}, "output_bytes",
            "64 MiB + 1");
    refused((struct box_request){.has_memory = true, .limits = {.memory_mb = 1048577}}, "memory_mb", "beyond 1 TB");
    refused((struct box_request){.has_memory = true, .limits = {.memory_mb = UINT64_MAX}}, "memory_mb", "2^64");
    refused((struct box_request){.has_cpus = true, .limits = {.cpus = 0}}, "cpus", "no cpu");
    refused((struct box_request){.has_cpus = true, .limits = {.cpus = NAN}}, "cpus", "NaN cpus");
    refused((struct box_request){.has_cpus = true, .limits = {.cpus = 1025}}, "cpus", "1025 cpus");
    refused((struct box_request){.has_pids = true, .limits = {.pids = 7}}, "pids", "7 processes");
    refused((struct box_request){.has_disk = true, .limits = {.disk_mb = 0}}, "disk_mb", "no disk");
    struct box_request edge = {.has_memory = true,
                               .has_pids = true,
                               .has_disk = true,
                               .limits = {.memory_mb = 16, .pids = 4194304, .disk_mb = 1}};
    ok(ask(&policy, &edge) == 0, "the edges are inside");
}

static int mount_one(const struct policy *policy, const char *source, const char *target) {
    struct mount mount = {.source = source, .target = target};
    struct box_request request = {.mounts = &mount, .mount_count = 1};
    return ask(policy, &request);
}

static void test_mounts(void) {
    char base[] = "/tmp/policy-test-XXXXXX";
    if (!mkdtemp(base))
        exit(1);
    char data[64], database[64], link[64], inside[64];
    snprintf(data, sizeof data, "%s/data", base);
    snprintf(database, sizeof database, "%s/database", base);
    snprintf(link, sizeof link, "%s/data/link", base);
    snprintf(inside, sizeof inside, "%s/data/in", base);
    mkdir(data, 0700);
    mkdir(database, 0700);
    mkdir(inside, 0700);
    if (symlink(database, link) < 0)
        exit(1);
    struct policy policy = {.mount_sources = (const char *[]){data, NULL}}, none = {0},
                  any = {.any_mount_source = true};
    ok(mount_one(&policy, data, "/mnt/a") == 0, "the allowed directory itself");
    ok(mount_one(&policy, inside, "/mnt/a") == 0, "one inside it");
    ok(mount_one(&policy, database, "/mnt/a") == -ERR_DENIED, "one whose name only begins like it");
    ok(mount_one(&policy, link, "/mnt/a") == -ERR_DENIED, "a link inside it that leads out");
    char dots[128];
    snprintf(dots, sizeof dots, "%s/../database", data);
    ok(mount_one(&policy, dots, "/mnt/a") == -ERR_DENIED, "a way out with ..");
    ok(mount_one(&policy, "/nonexistent", "/mnt/a") == -ERR_DENIED,
       "what does not exist answers as what is not allowed");
    ok(mount_one(&none, data, "/mnt/a") == -ERR_DENIED, "nothing is allowed by default");
    ok(mount_one(&any, data, "/mnt/a") == 0, "anything, for the user's own command");
    ok(mount_one(&any, "/nonexistent", "/mnt/a") == -ERR_NOT_FOUND, "which hears what is missing");
    ok(mount_one(&any, "data", "/mnt/a") == -ERR_INVALID, "a relative source");
    const char *bad[] = {"", "/", "mnt", "/proc", "/proc/x", "/sys", "/dev/shm", "/a/../b", "/a/./b", "/a//b", "/a/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(mount_one(&any, data, bad[i]) == -ERR_INVALID, "a target that is not one");
    ok(mount_one(&any, data, "/process") == 0, "a target that only begins like /proc");
    struct mount two[] = {{data, "/mnt/a", false}, {inside, "/mnt/a", true}};
    refused((struct box_request){.mounts = two, .mount_count = 2}, "twice", "the same target twice");
    unlink(link);
    if (symlink(inside, link) < 0)
        exit(1);
    ok(mount_one(&policy, link, "/mnt/a") == -ERR_DENIED, "a link inside it, wherever it leads");
    unlink(link);
    struct mount below[] = {{inside, "/mnt/a/b", false}, {data, "/mnt/a", false}};
    struct box_request nested = {.mounts = below, .mount_count = 2};
    ok_all("what lies below another mount comes after it", ask(&any, &nested) == 0,
           strcmp(spec.mounts[0].target, "/mnt/a") == 0, strcmp(spec.mounts[1].target, "/mnt/a/b") == 0);
    rmdir(inside);
    rmdir(data);
    rmdir(database);
    rmdir(base);
}

/* ---- what the configuration gives ---- */

static int given(const char *base, const char *rest, bool create, const char *user, const char *thread) {
    char source[512];
    snprintf(source, sizeof source, "%s/%s", base, rest);
    struct share_mount mount = {.source = source, .target = "/workspace", .create = create};
    struct policy policy = {.share = {.mounts = &mount, .mount_count = 1}};
    struct box_request request = {.user = user, .thread = thread, .thread_len = thread ? strlen(thread) : 0};
    return ask(&policy, &request);
}

static bool lies(const char *base, const char *rest) {
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", base, rest);
    bool good = spec.mount_count == 1 && strcmp(spec.mounts[0].source, path) == 0 && stat(path, &status) == 0 &&
                S_ISDIR(status.st_mode) && (status.st_mode & 07777) == 0700;
    if (!good)
        printf("# %s\n", spec.mount_count ? spec.mounts[0].source : "none");
    return good;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void test_given(void) {
    char base[] = "/tmp/policy-test-XXXXXX", path[256], thread[301] = "";
    if (!mkdtemp(base))
        exit(1);
    const char *pattern = "{user}/threads/{thread}/work";
    ok(given(base, pattern, false, "ann", "t1") == -ERR_IO && strstr(err.text, "/ann/threads/t1/work"),
       "a source that is missing is named");
    ok(given(base, pattern, true, "ann", "t1") == 0 && lies(base, "ann/threads/t1/work"), "or made");
    ok(given(base, pattern, false, "ann", "t1") == 0, "and is there afterwards");
    ok(given(base, pattern, true, "..", "../../x\n") == 0 && lies(base, "%2E./threads/%2E.%2F..%2Fx%0A/work"),
       "user and thread are names, whatever they hold");
    memset(thread, 'x', 300);
    ok(given(base, pattern, true, "ann", thread) == 0 && strstr(spec.mounts[0].source, "/%sha256-"),
       "a long thread is hashed");
    ok(given(base, pattern, true, "ann", NULL) == 0 && lies(base, "ann/threads/%id-0123456789abcdef/work"),
       "without a thread the id stands for it");
    ok(given(base, "{id}", true, "ann", "t1") == 0 && lies(base, "0123456789abcdef"), "the id");
    ok(given(base, "no/such/{id}", true, "ann", "t1") == -ERR_IO, "the part that all boxes share is not made");
    snprintf(path, sizeof path, "%s/ann/threads/t2", base);
    if (symlink("/etc", path) < 0)
        exit(1);
    ok(given(base, pattern, true, "ann", "t2") == -ERR_IO && strstr(err.text, "link"), "a link is not followed");
    ok(given(base, "ann/threads/t2", false, "ann", "t2") == -ERR_IO && strstr(err.text, "link"),
       "nor one that is the source itself");
    if (nftw(base, remove_entry, 8, FTW_DEPTH | FTW_PHYS))
        exit(1);
}

static void test_checked(void) {
    static const struct {
        const char *source, *target, *word;
    } rows[] = {
        {"srv/x", "/mnt", "source"},        {"/", "/mnt", "source"},          {"/srv/../x", "/mnt", "source"},
        {"/srv/{name}", "/mnt", "braces"},  {"/srv/{user", "/mnt", "braces"}, {"/srv/}", "/mnt", "braces"},
        {"/srv/{thread}", "/mnt", "share"}, {"/srv", "/proc/1", "/proc"},     {"/srv", "/", "target"},
        {"/srv", "mnt", "target"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct share_mount mount = {.source = rows[i].source, .target = rows[i].target};
        ok(mounts_check(&mount, false, &err) == -ERR_INVALID && strstr(err.text, rows[i].word), rows[i].source);
    }
    struct share_mount fine = {.source = "/srv/{user}-{thread}/{id}", .target = "/mnt/x"};
    ok(mounts_check(&fine, false, &err) == 0, "a mount of the configuration");
    fine.source = "/srv/{thread}";
    ok(mounts_check(&fine, true, &err) == 0, "one by thread alone, where its names keep users apart");
}

static void test_users(void) {
    const struct share_user users[] = {
        {"ann", {.limits = {.pids = 7}, .networks = (const char *[]){"none", NULL}}},
        {"bob", {.template_name = "small", .templates = (const char *[]){"small", NULL}, .network = "open"}},
        {"eve", {.backend = "local", .backends = (const char *[]){"local", NULL}}},
    };
    const struct policy policy = {.share = {.limits = {.pids = 100}}, .users = users, .user_count = 3};
    ok_all("a user's own share, or everybody's", policy_for(&policy, "ann") == &users[0].share,
           policy_for(&policy, "bob") == &users[1].share, policy_for(&policy, "anna") == &policy.share,
           policy_for(&policy, "") == &policy.share);
    struct box_request request = {.user = "ann"};
    ok(ask(&policy, &request) == 0 && spec.limits.pids == 7, "his limits");
    request.network = "open";
    ok(ask(&policy, &request) == -ERR_DENIED && strstr(err.text, "networks"), "a network that he may not have");
    request.user = "bob";
    ok(ask(&policy, &request) == 0 && strcmp(spec.template_name, "small") == 0, "his template");
    request.network = NULL;
    ok_all("his network", ask(&policy, &request) == 0, spec.network == NETWORK_OPEN, !spec.network_asked);
    request.template_name = "host";
    ok(ask(&policy, &request) == -ERR_DENIED && strstr(err.text, "templates"), "a template that he may not have");
    const char *backend = NULL;
    ok(policy_backend(&users[2].share, &request, "jail", &backend, &err) == 0 && strcmp(backend, "local") == 0,
       "his backend");
    request.backend = "jail";
    ok(policy_backend(&users[2].share, &request, "jail", &backend, &err) == -ERR_DENIED, "one that he may not have");
    ok(policy_backend(&users[0].share, &request, "local", &backend, &err) == 0 && strcmp(backend, "jail") == 0,
       "the one that was asked for");
}

/* What one was given is not the other's. */
static void test_fork(void) {
    char base[] = "/tmp/policy-test-XXXXXX", pattern[64], want[64];
    if (!mkdtemp(base))
        exit(1);
    snprintf(pattern, sizeof pattern, "%s/{user}-{thread}", base);
    const struct share_mount mount = {.source = pattern, .target = "/workspace", .create = true};
    const struct share_user users[] = {
        {"ann", {.env = (const char *[]){"KEY=of-ann", "A=1", NULL}, .mounts = &mount, .mount_count = 1}},
        {"bob", {.env = (const char *[]){"KEY=of-bob", NULL}, .mounts = &mount, .mount_count = 1}},
    };
    const struct policy policy = {.mount_sources = (const char *[]){"/usr", NULL}, .users = users, .user_count = 2};
    const struct mount shared = {.source = "/usr", .target = "/mnt/usr", .read_only = true};
    struct box_request request = {.user = "ann",
                                  .thread = "t",
                                  .thread_len = 1,
                                  .env = (const char *[]){"OWN=2", NULL},
                                  .mounts = &shared,
                                  .mount_count = 1};
    ok_all("a box", ask(&policy, &request) == 0, spec.mount_count == 2, spec.env_count == 3);
    struct spec fork = spec;
    fork.user = "bob";
    fork.thread = "u";
    bool made = policy_fork(&policy, &spec, &arena, &fork, &err) == 0;
    snprintf(want, sizeof want, "%s/bob-u", base);
    ok_all("a fork for somebody else has his workspace, and what was asked for", made, fork.mount_count == 2,
           strcmp(fork.mounts[0].source, "/usr") == 0, strcmp(fork.mounts[1].source, want) == 0);
    ok_all("and his variables", made, fork.env_count == 2, strcmp(fork.env[0], "KEY=of-bob") == 0,
           strcmp(fork.env[1], "OWN=2") == 0);
    const struct policy narrow = {.users = users, .user_count = 2};
    ok(policy_fork(&narrow, &spec, &arena, &fork, &err) == -ERR_DENIED && strstr(err.text, "/usr"),
       "what may no longer be asked for is refused");
    if (nftw(base, remove_entry, 8, FTW_DEPTH | FTW_PHYS))
        exit(1);
}

int main(void) {
    arena_init(&arena);
    test_ids();
    test_words();
    test_env();
    test_limits();
    test_mounts();
    test_given();
    test_checked();
    test_users();
    test_fork();
    arena_done(&arena);
    return tap_end();
}
