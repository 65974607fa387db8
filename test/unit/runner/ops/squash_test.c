/* Layers merged as an overlay would show them: names, whiteouts, opaque directories, hard links, attributes; by links, and
 * by copies where the target is on another file system. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree/removal.h"
#include "base/fd.h"
#include "runner/ops/squash.h"
#include "tap.h"

static char top[64];

__attribute__((format(printf, 1, 2))) static const char *at(const char *format, ...) {
    static char paths[8][4200];
    static unsigned next;
    char *path = paths[next++ % 8];
    va_list list;
    va_start(list, format);
    int len = snprintf(path, sizeof paths[0], "%s/", top);
    vsnprintf(path + len, sizeof paths[0] - (size_t)len, format, list);
    va_end(list);
    return path;
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
}

static void whiteout(const char *path) {
    if (mknod(path, S_IFCHR, makedev(0, 0)) < 0)
        abort();
}

static void opaque(const char *path) {
    if (mkdir(path, 0755) < 0 || setxattr(path, STACK_OPAQUE, "y", 1, 0) < 0)
        abort();
}

static bool holds(const char *path, const char *text) {
    char have[64];
    return fd_read_file(AT_FDCWD, path, have, sizeof have) == (ssize_t)strlen(text) && strcmp(have, text) == 0;
}

static bool is_whiteout(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == 0;
}

static bool is_gone(const char *path) {
    return access(path, F_OK) < 0 && errno == ENOENT;
}

static bool is_opaque(const char *path) {
    char value = 0;
    return getxattr(path, STACK_OPAQUE, &value, 1) == 1 && value == 'y';
}

/* 0 is the uppermost. */
static void make_layers(void) {
    for (int i = 0; i < 3; i++)
        mkdir(at("%d", i), 0755);
    put(at("2/low"), "low");
    put(at("2/both"), "old");
    put(at("2/removed"), "x");
    put(at("0/both"), "new");
    whiteout(at("1/removed"));
    whiteout(at("1/of the template"));
    mkdir(at("2/dir"), 0755);
    put(at("2/dir/a"), "a");
    put(at("2/dir/b"), "b");
    mkdir(at("1/dir"), 0750);
    whiteout(at("1/dir/a"));
    put(at("1/dir/c"), "c");
    mkdir(at("0/dir"), 0711);
    put(at("0/dir/a"), "again");
    mkdir(at("2/anew"), 0755);
    put(at("2/anew/gone"), "x");
    opaque(at("1/anew"));
    put(at("1/anew/here"), "here");
    mkdir(at("0/anew"), 0755);
    whiteout(at("0/anew/of the template"));
    put(at("0/anew/above"), "above");
    put(at("2/file then dir"), "x");
    mkdir(at("0/file then dir"), 0755);
    put(at("0/file then dir/in"), "in");
    mkdir(at("2/dir then file"), 0755);
    put(at("2/dir then file/x"), "x");
    put(at("0/dir then file"), "file");
    put(at("1/twin"), "twin");
    ok(link(at("1/twin"), at("1/twin too")) == 0, "layers with hard links");
    setxattr(at("1/twin"), "user.note", "kept", 4, 0);
    mkdir(at("0/noted"), 0755);
    setxattr(at("0/noted"), "user.note", "dir", 3, 0);
    ok(symlink("low", at("1/link")) == 0 && chown(at("2/low"), 1000, 1001) == 0, "links and owners");
    /* a directory that was renamed: copied to its new name, and opaque there; whited out at the old one */
    mkdir(at("2/before"), 0755);
    put(at("2/before/f"), "f");
    whiteout(at("0/before"));
    opaque(at("0/after"));
    put(at("0/after/f"), "f");
}

static int merge(int target, struct err *err) {
    struct stack stack;
    stack_init(&stack);
    for (; stack.count < 3; stack.count++)
        stack.roots[stack.count] = open(at("%zu", stack.count), O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = squash_merge(&stack, target, err);
    stack_done(&stack);
    return r;
}

static void check_merged(const char *to) {
    struct stat a, b;
    char value[16] = "";
    ok(holds(at("%s/low", to), "low") && holds(at("%s/both", to), "new"), "%s: the uppermost name wins", to);
    ok(is_whiteout(at("%s/removed", to)) && is_whiteout(at("%s/of the template", to)), "%s: whiteouts stay", to);
    ok(holds(at("%s/dir/a", to), "again") && holds(at("%s/dir/b", to), "b") && holds(at("%s/dir/c", to), "c"),
       "%s: directories merge", to);
    ok(stat(at("%s/dir", to), &a) == 0 && (a.st_mode & 07777) == 0711 && !is_opaque(at("%s/dir", to)),
       "%s: with the mode of the uppermost", to);
    ok(is_opaque(at("%s/anew", to)) && is_gone(at("%s/anew/gone", to)) && holds(at("%s/anew/here", to), "here") &&
           holds(at("%s/anew/above", to), "above"),
       "%s: an opaque directory in the middle hides what is below, not what is above", to);
    ok(is_gone(at("%s/anew/of the template", to)), "%s: in it a whiteout is not needed", to);
    ok(is_opaque(at("%s/file then dir", to)) && holds(at("%s/file then dir/in", to), "in"),
       "%s: a directory over a file is opaque", to);
    ok(holds(at("%s/dir then file", to), "file"), "%s: a file over a directory", to);
    ok(stat(at("%s/twin", to), &a) == 0 && stat(at("%s/twin too", to), &b) == 0 && a.st_ino == b.st_ino,
       "%s: hard links stay linked", to);
    ok(getxattr(at("%s/twin", to), "user.note", value, sizeof value) == 4 && strncmp(value, "kept", 4) == 0 &&
           getxattr(at("%s/noted", to), "user.note", value, sizeof value) == 3,
       "%s: attributes of files and directories", to);
    ok(readlink(at("%s/link", to), value, sizeof value) == 3, "%s: links are links", to);
    ok(lstat(at("%s/low", to), &a) == 0 && a.st_uid == 1000 && a.st_gid == 1001 && (a.st_mode & 07777) == 0640,
       "%s: owners and modes", to);
    ok(is_whiteout(at("%s/before", to)) && is_opaque(at("%s/after", to)) && holds(at("%s/after/f", to), "f"),
       "%s: a renamed directory", to);
}

static void test_links(void) {
    struct err err = {0};
    mkdir(at("linked"), 0755);
    int target = open(at("linked"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(merge(target, &err) == 0, "three layers become one, by links%s", err.code ? err.text : "");
    close(target);
    check_merged("linked");
}

/* Onto another file system, where nothing can be linked. */
static void test_copies(void) {
    struct err err = {0};
    mkdir(at("copied"), 0755);
    if (mount("tmpfs", at("copied"), "tmpfs", 0, "mode=0755") < 0) {
        tap_skip("copies", strerror(errno));
        return;
    }
    int target = open(at("copied"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(merge(target, &err) == 0, "three layers become one, by copies%s", err.code ? err.text : "");
    close(target);
    check_merged("copied");
    umount2(at("copied"), MNT_DETACH);
}

static void test_deep(void) {
    struct err err = {0};
    int dir = open(at("0"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000 && dir >= 0; i++) {
        mkdirat(dir, "dd", 0755);
        int next = openat(dir, "dd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    mkdir(at("deep"), 0755);
    int target = open(at("deep"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(merge(target, &err) == -ERR_TOO_LARGE, "a tree deeper than a path may be long is refused");
    close(target);
}

int main(void) {
    if (geteuid() != 0) {
        tap_skip("squashing layers", "only root makes whiteouts");
        return tap_end();
    }
    snprintf(top, sizeof top, "/var/tmp/squash-test.XXXXXX");
    if (!mkdtemp(top))
        abort();
    make_layers();
    test_links();
    test_copies();
    test_deep();
    char *name = strrchr(top, '/');
    *name = 0;
    int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(removal_tree(dir, name + 1) == 0, "cleaned up");
    return tap_end();
}
