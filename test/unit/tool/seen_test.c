/* What threads have seen of files: more notes than memory holds, a store that is opened again, threads and boxes apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/seen.h"
#include "tool/store.h"
#include "tap.h"

enum { FILES = 20000 }; /* more than the table has rows */

static struct box box;
static struct tool_host host;

/* A call needs no more than this here: files are old, so none is hashed in a box. */
static void call_init(struct tool_call *call, struct arena *arena, const char *thread) {
    arena_init(arena);
    *call = (struct tool_call){.host = &host, .box = &box, .thread = thread, .arena = arena, .watch = -1};
}

static void note(const char *thread, const char *path, uint64_t inode, const uint8_t *sha256) {
    struct arena arena;
    struct tool_call call;
    call_init(&call, &arena, thread);
    const struct file_stat stat = {.inode = inode, .size = 7, .mtime_ns = 1000000000};
    if (sha256)
        seen_wrote(&call, path, &stat, sha256);
    else
        seen_note(&call, path, &stat);
    arena_done(&arena);
}

static uint64_t last(const char *thread, const char *path, bool *ret_hashed) {
    struct arena arena;
    struct tool_call call;
    call_init(&call, &arena, thread);
    struct seen_version version = {0};
    bool found = seen_last(&call, path, &version);
    *ret_hashed = version.hashed && version.sha256[0] == 9;
    arena_done(&arena);
    return found ? version.inode : 0;
}

static bool all_known(void) {
    char path[64];
    bool hashed;
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "/workspace/%u", i);
        if (last("t", path, &hashed) != i + 1)
            return printf("# %s: not %u\n", path, i + 1), false;
    }
    return true;
}

static void reopen(const char *directory) {
    struct err err;
    tool_store_close(host.store);
    if (tool_store_open(directory, &host.store, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

int main(void) {
    char directory[] = "/tmp/seen-test.XXXXXX", path[64];
    const uint8_t sha256[32] = {9};
    bool hashed;
    if (!mkdtemp(directory))
        return 1;
    memcpy(box.id, "0123456789abcdef", sizeof box.id);
    reopen(directory);
    ok(last("t", "/workspace/0", &hashed) == 0, "what nobody noted nobody has seen");
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "/workspace/%u", i);
        note("t", path, i + 1, NULL);
        if (i % 2000 == 1999)
            reopen(directory); /* all that waits is written: notes that do not fit are not kept */
    }
    ok(all_known(), "more than memory holds is found on the disk");
    reopen(directory);
    ok(all_known(), "and by the next daemon");
    note("t", "/workspace/0", 99, sha256);
    ok(last("t", "/workspace/0", &hashed) == 99 && hashed, "the later note counts, with its hash");
    reopen(directory);
    ok(last("t", "/workspace/0", &hashed) == 99 && hashed, "also later");
    ok(last("u", "/workspace/0", &hashed) == 0, "another thread has not seen it");
    note("a/workspace", "/x", 5, NULL);
    ok(last("a", "/workspace/x", &hashed) == 0, "a thread is not a part of a path");
    memcpy(box.id, "fedcba9876543210", sizeof box.id);
    ok(last("t", "/workspace/0", &hashed) == 0, "another box has not");
    note("t", "/workspace/0", 3, NULL);
    seen_forget(host.store, "0123456789abcdef", INT64_MAX);
    ok(last("t", "/workspace/0", &hashed) == 3, "a box that is forgotten takes nothing of another with it");
    memcpy(box.id, "0123456789abcdef", sizeof box.id);
    ok(last("t", "/workspace/0", &hashed) == 0 && last("t", "/workspace/7", &hashed) == 0, "but all of its own");
    tool_store_close(host.store);
    if (fork() == 0)
        execlp("rm", "rm", "-rf", directory, (char *)NULL);
    int status = -1;
    wait(&status);
    ok(status == 0, "(cleaned up)");
    return tap_end();
}
