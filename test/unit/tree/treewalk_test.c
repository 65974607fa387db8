/* Trees as a hostile box would leave them, walked, copied and removed: everything is met once, nothing is followed, nothing
 * outside is ever seen or touched, however deep it is and whoever moves directories meanwhile. TAP on standard output. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tree/copytree.h"
#include "tree/removal.h"
#include "tree/treewalk.h"
#include "base/fd.h"
#include "base/limits.h"
#include "tap.h"

enum { DEPTH = 3000, WIDTH = 3000, ROUNDS = 60, RACE_DEPTH = 70 };

static char top[256];

static int open_new(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", top, name);
    mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void touch(int dir, const char *name) {
    autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)fd;
}

struct seen {
    size_t entries, directories, named;
    char path[LIMIT_PATH_BYTES + 1];
    const char *skip, *stop;
    int top, outside; /* for move */
};

static int see(void *user, const struct tree_entry *entry, struct err *err) {
    struct seen *seen = user;
    seen->entries++;
    seen->directories += S_ISDIR(entry->status.st_mode);
    if (entry->path) {
        seen->named++;
        snprintf(seen->path, sizeof seen->path, "%s", entry->path);
    }
    if (seen->stop && strcmp(entry->name, seen->stop) == 0)
        return err_set(err, ERR_LIMIT, "stopped");
    return seen->skip && strcmp(entry->name, seen->skip) == 0 ? TREE_SKIP : TREE_DESCEND;
}

/* What the walk stands in goes elsewhere, beside a tree that is not its business. */
static int move(void *user, const struct tree_entry *entry, struct err *err) {
    struct seen *seen = user;
    (void)err;
    seen->entries++;
    ok(strcmp(entry->name, "secret") != 0, "nothing outside of the tree is met");
    if (strcmp(entry->name, "deep") == 0)
        renameat(seen->top, "a/b", seen->outside, "b");
    return TREE_DESCEND;
}

static int order(void *user, const struct tree_entry *entry, struct err *err) {
    struct seen *seen = user;
    size_t len = strlen(seen->path);
    (void)err;
    snprintf(seen->path + len, sizeof seen->path - len, "%s ", entry->path);
    return TREE_DESCEND;
}

static void deep_test(void) {
    struct seen seen = {0};
    struct err err;
    autofd from = open_new("deep");
    int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        touch(fd, "a");
        mkdirat(fd, "dir", 0700);
        touch(fd, "z");
        int next = openat(fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    ok_all("of a deep tree all is met, once", treewalk(from, see, &seen, &err) == 0, seen.entries == 3 * DEPTH,
           seen.directories == DEPTH);
    ok(seen.named < seen.entries && seen.named > LIMIT_PATH_BYTES / 4, "paths are told as far as they are any");
}

static void wide_test(void) {
    struct seen seen = {0};
    struct err err;
    autofd from = open_new("wide");
    char name[64];
    for (int i = 0; i < WIDTH; i++) {
        snprintf(name, sizeof name, "%d-a-name-that-fills-what-is-read-at-once", i);
        i % 3 ? touch(from, name) : (void)mkdirat(from, name, 0700);
    }
    ok_all("of a wide one", treewalk(from, see, &seen, &err) == 0, seen.entries == WIDTH,
           seen.directories == WIDTH / 3);
}

static void strange_test(void) {
    struct seen seen = {0};
    struct err err;
    autofd from = open_new("strange");
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == 0, "an empty one");
    mkdirat(from, "d", 0700);
    mkdirat(from, "d/sub", 0700);
    touch(from, "d/sub/file");
    ok_all("links, and what would wait", symlinkat("/", from, "root") == 0, symlinkat("..", from, "d/up") == 0,
           mkfifoat(from, "d/fifo", 0600) == 0);
    seen = (struct seen){0};
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == 6, "are met and not followed");
    seen = (struct seen){.skip = "sub"};
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == 5, "a directory may be left out");
    seen = (struct seen){.stop = "sub"};
    ok(treewalk(from, see, &seen, &err) == -ERR_LIMIT && strcmp(err.text, "stopped") == 0, "and all of the rest");
}

static void moved_test(void) {
    struct err err = {0};
    struct seen seen = {.top = open_new("moved"), .outside = open_new("outside")};
    mkdirat(seen.top, "a", 0700);
    mkdirat(seen.top, "a/b", 0700);
    mkdirat(seen.top, "a/b/deep", 0700);
    touch(seen.outside, "secret");
    ok(treewalk(seen.top, move, &seen, &err) == -ERR_BUSY && seen.entries == 3, "who is carried out of the tree stops");
    close(seen.top);
    close(seen.outside);
}

static void own_test(void) {
    struct seen seen = {0};
    struct err err = {0};
    autofd from = open_new("own");
    static const char *const names[] = {"b", "a-", "a", "a/z", "a/b", "c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        i == 2 ? (void)mkdirat(from, names[i], 0700) : touch(from, names[i]);
    ok(treewalk_own(from, order, &seen, &err) == 0 && strcmp(seen.path, "a a/b a/z a- b c ") == 0,
       "what is ours comes in the order of its bytes");
    autofd deep = open_new("deep");
    ok(treewalk_own(deep, see, &seen, &err) == -ERR_TOO_LARGE && strstr(err.text, "too deep"),
       "and no deeper than it may");
}

/* ---- somebody else changes the tree ---- */

struct race {
    int top, outside;
    atomic_bool done;
};

/* A directory and a link to what is outside take turns under one name; a deep one goes out of the tree and comes back. */
static void *race_main(void *user) {
    struct race *race = user;
    while (!atomic_load(&race->done)) {
        renameat2(race->top, "tree/swap", race->top, "tree/link", RENAME_EXCHANGE);
        renameat2(race->top, "tree/deep", race->outside, "deep", RENAME_NOREPLACE);
        renameat2(race->outside, "deep", race->top, "tree/deep", RENAME_NOREPLACE);
    }
    return NULL;
}

static void race_fill(const struct race *race) {
    mkdirat(race->top, "tree", 0700);
    mkdirat(race->top, "tree/swap", 0700);
    touch(race->top, "tree/swap/file");
    symlinkat("../../outside", race->top, "tree/link");
    mkdirat(race->top, "tree/deep", 0700);
    int fd = openat(race->top, "tree/deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < RACE_DEPTH; i++) { /* more than keep their descriptors */
        mkdirat(fd, "d", 0700);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    fd_close(&fd);
}

static int race_see(void *user, const struct tree_entry *entry, struct err *err) {
    bool *secret = user;
    (void)err;
    *secret |= strcmp(entry->name, "secret") == 0;
    return TREE_DESCEND;
}

static void race_test(void) {
    struct race race = {.top = open_new("race"), .outside = open_new("outside")};
    struct err err;
    uint64_t removed = 0;
    bool secret = false;
    pthread_t thread;
    pthread_create(&thread, NULL, race_main, &race);
    for (int i = 0; i < ROUNDS; i++) {
        race_fill(&race);
        autofd tree = openat(race.top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        treewalk(tree, race_see, &secret, &err);
        copytree_shared(race.top, "tree", race.top, "copy", "tree", &err);
        autofd copy = openat(race.top, "copy", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (copy >= 0)
            treewalk(copy, race_see, &secret, &err);
        removal_shared(race.top, "tree", "tree", &removed, &err);
        removal_tree(race.top, "copy");
    }
    atomic_store(&race.done, true);
    pthread_join(thread, NULL);
    ok(!secret, "in a race nothing outside is met or copied");
    ok(faccessat(race.outside, "secret", F_OK, 0) == 0 && removed > ROUNDS, "and nothing outside is removed");
    close(race.top);
    close(race.outside);
}

int main(void) {
    const char *base = getenv("TMPDIR");
    snprintf(top, sizeof top, "%.200s/treewalk-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(top))
        return 1;
    deep_test();
    wide_test();
    strange_test();
    moved_test();
    own_test();
    race_test();
    ok(removal_tree(AT_FDCWD, top) == 0, "all of it goes");
    return tap_end();
}
