/* A walk over a tree as a hostile box would leave it: everything is met once, nothing is followed, nothing outside is ever
 * seen, however deep it is and whoever moves directories meanwhile. TAP on standard output. */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tree/removal.h"
#include "tree/treewalk.h"
#include "base/fd.h"
#include "base/limits.h"

enum { DEPTH = 3000, WIDTH = 3000 };

static int count, failures;
static char top[256];

static void ok(bool condition, const char *name) {
    printf("%sok %d - %s\n", condition ? "" : "not ", ++count, name);
    failures += !condition;
}

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
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == 3 * DEPTH && seen.directories == DEPTH,
       "of a deep tree all is met, once");
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
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == WIDTH && seen.directories == WIDTH / 3,
       "of a wide one");
}

static void strange_test(void) {
    struct seen seen = {0};
    struct err err;
    autofd from = open_new("strange");
    ok(treewalk(from, see, &seen, &err) == 0 && seen.entries == 0, "an empty one");
    mkdirat(from, "d", 0700);
    mkdirat(from, "d/sub", 0700);
    touch(from, "d/sub/file");
    ok(symlinkat("/", from, "root") == 0 && symlinkat("..", from, "d/up") == 0 && mkfifoat(from, "d/fifo", 0600) == 0,
       "links, and what would wait");
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

int main(void) {
    const char *base = getenv("TMPDIR");
    snprintf(top, sizeof top, "%.200s/treewalk-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(top))
        return 1;
    deep_test();
    wide_test();
    strange_test();
    moved_test();
    ok(removal_tree(AT_FDCWD, top) == 0, "all of it goes");
    printf("1..%d\n", count);
    return failures != 0;
}
