/* /skills in a jail: what a box sees of its agent's layers and of its user's own, and how one set of layers takes the place
 * of another while the box runs. Needs root; the runner is the one built beside this program. TAP on standard output.
 * `attach_test bench N` measures instead. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/provider/provider.h"
#include "box/snapshot/snapshot.h"
#include "beside.h"
#include "tap.h"

static char state[256], runner[PATH_MAX + 16];
static const char *layers[LIMIT_SKILL_LAYERS + 1]; /* what is attached to boxes */
static const char *paths[3] = {"/workspace/skills"};
static uint64_t generation = 1;

static bool shell(const char *format, ...) {
    char command[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        waitpid(pid, &status, 0);
    return status == 0;
}

/* ---- layers, as skill/base makes them ---- */

static void layer(const char *name, const char *skill, const char *file, const char *text) {
    char path[600];
    shell("mkdir -p %s/skills/layers/%s/%s && printf '%%s' '%s' > %s/skills/layers/%s/%s/%s && "
          "chown -R 1000:1000 %s/skills/layers/%s",
          state, name, skill, text, state, name, skill, file, state, name);
    snprintf(path, sizeof path, "%s/skills/layers/%s/%s", state, name, skill);
    setxattr(path, "user.overlay.opaque", "y", 1, 0);
}

static void dressed(const char *first, const char *second) {
    layers[0] = first;
    layers[1] = second;
    generation++;
}

static int contribute(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *err) {
    (void)user, (void)mounts, (void)arena, (void)err;
    if (!spec->agent)
        return 0;
    spec->attached.layers = layers;
    spec->attached.paths = paths;
    spec->attached.generation = generation;
    return 0;
}

/* ---- boxes ---- */

static struct policy policy = {.hooks.contribute = contribute};
static struct provider *provider;

static int take_output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)stream;
    buf_put(user, data, len);
    return 0;
}

/* The output of a command without its last newline, or "error: ..." */
static const char *run_in(struct box *box, bool root, const char *command) {
    static struct buf out;
    struct exec_request request = {.command = command, .root = root, .timeout_ms = 20000};
    struct exec_sink sink = {.output = take_output, .user = &out};
    struct exec_result result;
    struct err err = {0};
    buf_done(&out);
    buf_init(&out, 1 << 20);
    if (box_exec(box, &request, &sink, -1, &result, &err) < 0) {
        buf_clear(&out);
        buf_printf(&out, "error: %s", err.text);
    }
    const char *text = buf_cstr(&out);
    size_t len = strlen(text);
    if (len && text[len - 1] == '\n')
        out.data[len - 1] = 0;
    return text;
}

static const char *run(struct box *box, const char *command) {
    return run_in(box, false, command);
}

static struct box *acquire_with(struct box_request *request) {
    struct box *box = NULL;
    bool created;
    struct err err = {0};
    if (provider_acquire(provider, request, &box, &created, &err) < 0) {
        printf("Bail out! acquire: %s\n", err.text);
        exit(1);
    }
    return box;
}

static struct box *acquire(const char *user, const char *agent) {
    struct box_request request = {.user = user, .agent = agent};
    return acquire_with(&request);
}

static int attach(struct box *box) {
    struct err err = {0};
    int r = provider_attach(provider, box, 1000, &err);
    if (r < 0)
        printf("# attach: %s: %s\n", err_name(-r), err.text);
    return r;
}

static void open_provider(void) {
    static struct backend_env env;
    struct err err = {0};
    env = (struct backend_env){.state_dir = state, .runner_path = runner, .pool_size = 2};
    if (provider_new(&env, &policy, "jail", &provider, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

/* ---- tests ---- */

static void test_merged(struct box *box) {
    is(run(box, "cat /skills/greet/SKILL.md /workspace/skills/greet/SKILL.md"), "hellohello",
       "a skill of the agent is at /skills, and where the configuration says");
    is(run(box, "cd /skills/greet && echo mine > own.txt && printf HELLO > SKILL.md && ls; cat SKILL.md"),
       "SKILL.md\nown.txt\nHELLO", "it can be changed in the box");
    is(run(box, "cat /workspace/skills/greet/SKILL.md"), "HELLO", "which shows at once at the other path");
    struct box *other = acquire("bob", "app");
    is(run(other, "cat /skills/greet/SKILL.md; ls /skills/greet"), "helloSKILL.md",
       "another user's box has the agent's, and nothing of this user's");
    is(run(other, "rm -r /skills/greet && ls /skills"), "", "one can be removed in a box");
    is(run(box, "ls /skills"), "greet", "and stays in another's");
    provider_put(provider, other);
    ok(shell("test \"$(cat %s/skills/layers/aaaaaaaaaaaaaaaa/greet/SKILL.md)\" = hello && "
             "test \"$(ls -A %s/skills/layers/aaaaaaaaaaaaaaaa/greet)\" = SKILL.md",
             state, state),
       "the layer's bytes are as they were");
    is(run(box, "stat -c %u:%g:%a /skills /skills/greet; grep -c ' /skills ' /proc/self/mountinfo"),
       "1000:1000:755\n1000:1000:755\n1", "they are the agent's");
    is(run_in(box, true, "grep -e skills /proc/self/mountinfo | grep -c -e boxes -e layers"), "0",
       "no name of the host shows in the box");
}

static int each_change(void *user, const struct file_change *change) {
    static const char *const words[] = {[WATCH_CREATED] = "+", [WATCH_MODIFIED] = "*", [WATCH_REMOVED] = "-"};
    if (strncmp(change->path, "/skills/", 8) == 0)
        buf_printf(user, "%s%s ", words[change->event], change->path);
    return 0;
}

static void test_diff(void) {
    struct err err = {0};
    bool truncated;
    autobuf out = buf_max(4096);
    layer("eeeeeeeeeeeeeeee", "gone", "SKILL.md", "x");
    dressed("eeeeeeeeeeeeeeee", "aaaaaaaaaaaaaaaa");
    struct box *other = acquire("erin", "app");
    run(other, "rm -r /skills/gone; mkdir -p /skills/new/sub; echo x > /skills/new/sub/file; echo y > /skills/greet/y; "
               "echo >> /skills/greet/SKILL.md");
    ok(box_diff(other, 1000, -1, each_change, &out, &truncated, &err) == 0, "what the user changed can be told");
    is(buf_cstr(&out),
       "-/skills/gone +/skills/new */skills/greet/SKILL.md +/skills/greet/y +/skills/new/sub "
       "+/skills/new/sub/file ",
       "and is");
    dressed("aaaaaaaaaaaaaaaa", NULL);
    provider_put(provider, other);
}

static void test_attach(struct box *box) {
    layer("bbbbbbbbbbbbbbbb", "greet", "SKILL.md", "hello again");
    layer("bbbbbbbbbbbbbbbb", "greet", "new.txt", "new");
    layer("bbbbbbbbbbbbbbbb", "more", "SKILL.md", "more");
    dressed("bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa");
    ok(attach(box) == 0, "a layer is attached while the box runs");
    is(run(box, "ls /skills /skills/greet /workspace/skills; cat /skills/greet/new.txt /skills/greet/SKILL.md"),
       "/skills:\ngreet\nmore\n\n/skills/greet:\nSKILL.md\nnew.txt\nown.txt\n\n/workspace/skills:\ngreet\nmore\nnewHELLO",
       "it shows at every path, below what the user changed");
    ok(atomic_load(&box->attached_generation) == generation, "the box knows what it has");
}

static void test_busy(struct box *box) {
    struct err err = {0};
    uint64_t pid, started_ms;
    struct exec_request request = {.command = "cd /skills/more; echo ready; read line; ls /skills; cat SKILL.md",
                                   .stdin_open = true};
    layer("cccccccccccccccc", "more", "SKILL.md", "much more");
    dressed("cccccccccccccccc", "aaaaaaaaaaaaaaaa");
    ok(box_spawn(box, &request, &pid, &started_ms, &err) == 0, "a process in the background stands in a skill");
    autobuf out = buf_max(4096);
    struct output_slice slice = {0};
    box_output(box, pid, STREAM_STDOUT, 0, 5000, -1, &out, &slice, &err);
    ok(attach(box) == -ERR_BUSY, "what a process uses is not replaced");
    is(run(box, "cat /skills/more/SKILL.md /workspace/skills/more/SKILL.md; ls /skills"), "moremoregreet\nmore",
       "everything is as before, at every path");
    box_signal(box, pid, SIGKILL, &err);
    bool running = true;
    while (running)
        box_output_wait(box, pid, (uint64_t[]){1000, 1000}, 5000, -1, &running, &err);
    ok(attach(box) == 0, "when it has ended it is");
    is(run(box, "cat /skills/more/SKILL.md; ls /skills/greet"), "much moreSKILL.md\nown.txt", "and the newest shows");
}

/* A process that looks all the time, and uses nothing, sees the old or the new and nothing else. */
static void test_whole(struct box *box) {
    struct err err = {0};
    uint64_t pid, started_ms;
    struct exec_request request = {
        .command = "n=0; while [ ! -e /tmp/end ]; do t=$(cat /skills/more/SKILL.md 2>&1); case $t in more|'much more') "
                   ";; *) echo \"bad: $t\";; esac; n=$((n+1)); [ $n = 50 ] && touch /tmp/often; done; echo seen"};
    box_spawn(box, &request, &pid, &started_ms, &err);
    unsigned done = 0, busy = 0;
    for (unsigned i = 0; i < 2000 && (done < 20 || strcmp(run(box, "ls /tmp"), "often") != 0); i++) {
        dressed(done % 2 ? "cccccccccccccccc" : "bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa");
        struct err own = {0};
        int r = provider_attach(provider, box, 1000, &own);
        done += r == 0;
        busy += r == -ERR_BUSY;
        if (r < 0 && r != -ERR_BUSY) {
            printf("# %s\n", own.text);
            break;
        }
    }
    printf("# %u attached, %u times busy\n", done, busy);
    ok(done >= 20, "they are replaced again and again beside a process that reads them");
    run(box, "touch /tmp/end");
    autobuf out = buf_max(4096);
    struct output_slice slice = {.running = true};
    while (slice.running)
        if (box_output(box, pid, STREAM_STDOUT, slice.next, 5000, -1, &out, &slice, &err) < 0)
            break;
    is(buf_cstr(&out), "seen\n", "which sees one version or the other, never anything between");
}

static void test_again(struct box **box) {
    char id[17];
    memcpy(id, (*box)->id, sizeof id);
    provider_put(provider, *box);
    provider_free(provider, false);
    open_provider();
    *box = acquire("alice", "app");
    ok(strcmp((*box)->id, id) == 0, "the next daemon finds the box by user and agent");
    is(run(*box, "ls /skills; cat /skills/greet/SKILL.md"), "greet\nmore\nHELLO", "with its skills as they were");
    ok_all("attaching what it has costs nothing", atomic_load(&(*box)->attached_generation) == 0, attach(*box) == 0,
           atomic_load(&(*box)->attached_generation) == generation);
    provider_put(provider, *box);
    provider_free(provider, true);
    open_provider();
    dressed("bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa");
    *box = acquire("alice", "app");
    is(run(*box, "cat /skills/more/SKILL.md /skills/greet/SKILL.md; ls /workspace/skills/greet"),
       "moreHELLOSKILL.md\nnew.txt\nown.txt", "and one that was ended starts with the newest");
}

/* A daemon that was killed while it attached has left a record that says so. */
static void test_unsure(struct box **box) {
    struct err err = {0};
    uint64_t pid, started_ms;
    provider_put(provider, *box);
    provider_free(provider, false);
    ok(shell("cd %s/boxes && grep -l '\"agent\":\"app\"' */box.json | xargs sed -i "
             "'s/\"skill_unsure\":false/\"skill_unsure\":true/'",
             state),
       "nobody knows what the boxes have");
    open_provider();
    *box = acquire("alice", "app");
    struct exec_request request = {.command = "cd /skills; echo in; sleep 1000"};
    box_spawn(*box, &request, &pid, &started_ms, &err);
    autobuf out = buf_max(4096);
    struct output_slice slice;
    box_output(*box, pid, STREAM_STDOUT, 0, 5000, -1, &out, &slice, &err);
    ok(attach(*box) == -ERR_BUSY, "the same layers are attached again");
    ok(shell("grep -q '\"skill_unsure\":true' %s/boxes/%s/box.json", state, (*box)->id), "as long as it is not done");
    box_signal_tree(*box, pid, SIGKILL, &err);
    bool running = true;
    while (running)
        box_output_wait(*box, pid, (uint64_t[]){1000, 1000}, 5000, -1, &running, &err);
    ok(attach(*box) == 0, "and when that can be");
    ok(shell("grep -q '\"skill_unsure\":false' %s/boxes/%s/box.json", state, (*box)->id), "it is known again");
}

static void test_kept(struct box *box) {
    struct err err = {0};
    autoarena arena = ARENA_EMPTY;
    struct snapshot snapshot;
    char id[17];
    memcpy(id, box->id, sizeof id);
    run(box, "rm -r /skills/more; echo one > /skills/greet/one");
    provider_put(provider, box);
    ok(snapshot_create(provider, NULL, id, "s1", &arena, &snapshot, &err) == 0, "a box with skills is kept");
    box = acquire("alice", "app");
    is(run(box, "ls /skills /skills/greet; cat /skills/greet/SKILL.md"),
       "/skills:\ngreet\n\n/skills/greet:\nSKILL.md\nnew.txt\none\nown.txt\nHELLO", "its user's skills are part of it");
    run(box, "rm /skills/greet/one /skills/greet/own.txt; mkdir /skills/late; echo x > /skills/late/SKILL.md");
    is(run(box, "ls /skills /skills/greet"), "/skills:\ngreet\nlate\n\n/skills/greet:\nSKILL.md\nnew.txt",
       "and change");
    provider_put(provider, box);
    uint64_t ended;
    ok(snapshot_rollback(provider, NULL, id, "s1", &ended, &err) == 0, "a rollback");
    box = acquire("alice", "app");
    is(run(box, "ls /skills /skills/greet"), "/skills:\ngreet\n\n/skills/greet:\nSKILL.md\nnew.txt\none\nown.txt",
       "brings them back");
    struct fork_request request = {.snapshot = "s1", .user = "carol", .thread = "agent:app", .thread_len = 9};
    struct box *fork = NULL;
    ok(snapshot_fork(provider, NULL, id, &request, &fork, &err) == 0, "a fork");
    provider_put(provider, fork);
    fork = acquire("carol", "app");
    is(run(fork, "ls /skills /skills/greet; cat /workspace/skills/greet/own.txt"),
       "/skills:\ngreet\n\n/skills/greet:\nSKILL.md\nnew.txt\none\nown.txt\nmine", "has them, too");
    provider_put(provider, fork);
    provider_put(provider, box);
}

static void test_squash(void) {
    ok(shell(
           "cd %s && mkdir -p one/skills/a two/skills/a two/skills/b made && echo 1 > one/skills/a/x && "
           "echo 2 > two/skills/a/x && mknod one/skills/b c 0 0 && mknod one/skills/c c 0 0 && %s squash made one two && "
           "test $(cat made/skills/a/x) = 1 && test -c made/skills/b && test -c made/skills/c",
           state, runner),
       "kept layers that become one keep the skills in them, and what they hide");
}

static void test_disk(void) {
    struct box_request request = {.user = "dave", .agent = "app", .has_disk = true, .limits = {.disk_mb = 64}};
    struct box *box = acquire_with(&request);
    is(run(box, "cat /skills/greet/new.txt; echo d > /skills/greet/d; ls /workspace/skills/greet"),
       "newSKILL.md\nd\nnew.txt", "a box with a disk of its own has skills");
    is(run(box, "head -c 80M /dev/zero 2>&1 > /skills/big; rm /skills/big; echo $?"),
       "head: error writing 'standard output': No space left on device\n0", "which count as its files");
    dressed("cccccccccccccccc", "aaaaaaaaaaaaaaaa");
    ok(attach(box) == 0, "and are attached");
    is(run(box, "ls /skills/greet; cat /skills/more/SKILL.md"), "SKILL.md\nd\nmuch more", "to what is there");
    is(run_in(box, true, "ls /skills; cat /proc/self/mountinfo | grep -c ' /skills '"), "greet\nmore\n2",
       "the disk itself is not to be seen");
    provider_put(provider, box);
}

/* A mount follows the directory it is on, and that may be renamed by the box's root. */
static void test_strays(void) {
    paths[1] = "/data/deep/skills";
    struct box *box = acquire("frank", "app");
    is(run_in(box, true, "mv /data '/a b' && cat '/a b/deep/skills/greet/SKILL.md'"), "hello",
       "skills that were moved");
    dressed("bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa");
    ok(attach(box) == 0, "are replaced");
    is(run_in(
           box, true,
           "grep -o ' /[^ ]*skills ' /proc/self/mountinfo; ls '/a b/deep/skills'; cat /data/deep/skills/more/SKILL.md"),
       " /skills \n /workspace/skills \n /data/deep/skills \nmore", "where they belong, and are nowhere else");
    paths[1] = NULL;
    provider_put(provider, box);
}

static void test_words(void) {
    struct err err = {0};
    struct box *box = NULL;
    bool created;
    struct box_request both = {.agent = "app", .thread = "t", .thread_len = 1};
    ok(provider_acquire(provider, &both, &box, &created, &err) == -ERR_INVALID, "an agent has no other thread");
    static const char *const bad[] = {"", ".x", "a/b", "skill-creator", "a b", NULL};
    for (size_t i = 0; bad[i]; i++) {
        struct box_request request = {.agent = bad[i]};
        ok(provider_acquire(provider, &request, &box, &created, &err) == -ERR_INVALID, "a name that no agent has");
    }
    struct box_request thread = {.user = "alice", .thread = "agent:app", .thread_len = 9};
    struct box *one = acquire("alice", "app"), *two = acquire_with(&thread);
    ok(one == two, "the agent's thread is the agent's box");
    provider_put(provider, one);
    provider_put(provider, two);
    struct box_request plain = {.user = "alice", .thread = "x", .thread_len = 1};
    box = acquire_with(&plain);
    is(run(box, "ls -d /skills 2>&1"), "ls: cannot access '/skills': No such file or directory",
       "a box without an agent has none");
    ok(attach(box) == -ERR_INVALID, "and none are attached to it");
    provider_put(provider, box);
}

/* ---- bench ---- */

static int by_value(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double middle_ms(uint64_t *samples, unsigned count) {
    qsort(samples, count, sizeof *samples, by_value);
    return (double)samples[count / 2] / 1000;
}

static int bench(unsigned rounds) {
    char name[32];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "skill%u", i);
        layer("dddddddddddddddd", name, "SKILL.md", "x");
    }
    uint64_t *samples[3];
    for (size_t i = 0; i < 3; i++)
        samples[i] = calloc(rounds, sizeof **samples);
    for (unsigned i = 0; i < 2 * rounds; i++) {
        struct err err;
        bool skills = i % 2;
        struct box_request request = {.user = "bench", .agent = skills ? "app" : NULL};
        dressed("dddddddddddddddd", NULL);
        usleep(100000); /* the pool fills again */
        uint64_t begin_us = clock_us();
        struct box *box = acquire_with(&request);
        samples[skills][i / 2] = clock_us() - begin_us;
        if (skills) {
            dressed("aaaaaaaaaaaaaaaa", "dddddddddddddddd");
            begin_us = clock_us();
            provider_attach(provider, box, 1000, &err);
            samples[2][i / 2] = clock_us() - begin_us;
        }
        char id[17];
        memcpy(id, box->id, sizeof id);
        provider_put(provider, box);
        provider_destroy(provider, NULL, id, &err);
    }
    printf("without %.3f ms, with 100 skills %.3f ms, attached live %.3f ms\n", middle_ms(samples[0], rounds),
           middle_ms(samples[1], rounds), middle_ms(samples[2], rounds));
    for (size_t i = 0; i < 3; i++)
        free(samples[i]);
    return 0;
}

int main(int argc, char **argv) {
    beside(runner, "cubby-runner");
    if (geteuid() != 0) {
        puts("1..0 # SKIP needs root");
        return 0;
    }
    snprintf(state, sizeof state, "%s/cubby-attach-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(state))
        return 1;
    policy.share.limits = (struct limits){.memory_mb = 512, .pids = 256, .open_files = 1024, .output_bytes = 1 << 20};
    atomic_init(&policy.refs, 1);
    layer("aaaaaaaaaaaaaaaa", "greet", "SKILL.md", "hello");
    dressed("aaaaaaaaaaaaaaaa", NULL);
    open_provider();
    int r = 0;
    if (argc == 3 && strcmp(argv[1], "bench") == 0) {
        r = bench((unsigned)strtoul(argv[2], NULL, 10));
    } else {
        struct box *box = acquire("alice", "app");
        test_merged(box);
        test_diff();
        test_attach(box);
        test_busy(box);
        test_whole(box);
        test_again(&box);
        test_unsure(&box);
        test_kept(box);
        test_squash();
        test_disk();
        test_strays();
        test_words();
        r = tap_end();
    }
    provider_free(provider, true);
    shell("rm -rf %s", state);
    return r;
}
