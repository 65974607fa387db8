/* Whether what is mounted is what was meant, told by names alone: directories, files, mounts of mounts, strange names, and links
 * that came into the way. In mounts of its own; without root, skipped. TAP on standard output. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/mountinfo.h"
#include "tap.h"

static char top[256];

static const char *at(const char *name) {
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, 600, "%s/%s", top, name);
    return path;
}

static bool bind_mount(const char *source, const char *target) {
    return mount(at(source), at(target), NULL, MS_BIND, NULL) == 0;
}

/* What is said of `source` and what is at `target`: 1 the same, 0 not, negative an error. */
static int said(const char *source, const char *target) {
    struct err err;
    bool is = false;
    int r = mountinfo_is(at(source), getpid(), at(target), &is, &err);
    return r < 0 ? r : is;
}

int main(void) {
    static const char *const names[] = {"a", "a/sub", "b", "c", "d", "with a space\\040\n", "target", "other", "fs"};
    snprintf(top, sizeof top, "/tmp/mountinfo-XXXXXX");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || !mkdtemp(top) ||
        mount("tmpfs", top, "tmpfs", 0, NULL) < 0) {
        tap_skip("mounts of its own", "needs root");
        return tap_end();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mkdir(at(names[i]), 0700);
    close(open(at("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(open(at("file-target"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));

    ok(said("a/sub", "target") == -ERR_NOT_FOUND, "nothing is mounted there");
    ok(bind_mount("a/sub", "target") && said("a/sub", "target") == 1, "a directory is itself");
    ok_all("and no other", said("a", "target") == 0, said("b", "target") == 0, said("a/su", "target") == 0);
    ok(said("a/sub", "target/x") == -ERR_NOT_FOUND, "what lies below a mount is none");
    ok_all("what covers it counts", bind_mount("b", "target"), said("b", "target") == 1, said("a/sub", "target") == 0);
    ok(bind_mount("file", "file-target") && said("file", "file-target") == 1, "a file");
    ok(bind_mount("with a space\\040\n", "c") && said("with a space\\040\n", "c") == 1, "a strange name");
    ok_all("a link leads elsewhere", symlink("b", at("link")) == 0, bind_mount("link", "d"), said("link", "d") == 0,
           said("b", "d") == 1);
    ok_all("a whole file system", mount("tmpfs", at("fs"), "tmpfs", 0, NULL) == 0, mkdir(at("fs/in"), 0700) == 0,
           bind_mount("fs", "other"), said("fs", "other") == 1, said("fs/in", "other") == 0);
    ok_all("a part of it", bind_mount("fs/in", "a"), said("fs/in", "a") == 1, said("fs/in", "other") == 0);
    ok(said("a", "a") == 1, "which is what is mounted there");
    umount2(top, MNT_DETACH);
    rmdir(top);
    return tap_end();
}
