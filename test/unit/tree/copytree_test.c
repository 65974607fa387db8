/* Copies of a tree as a hostile box would leave it: everything is there, nothing is followed, nothing hangs. As root also
 * owners and whiteouts. TAP on standard output. */
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree/copytree.h"
#include "base/fd.h"
#include "tap.h"

enum { DEPTH = 400 };

static char top[256];

static bool shell(const char *command) {
    const char *const argv[] = {"/bin/bash", "-c", command, NULL};
    pid_t pid;
    int status = -1;
    if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        waitpid(pid, &status, 0);
    return status == 0;
}

static int open_dir(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", top, name);
    mkdir(path, 0700);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* As many levels as need their descriptors closed, with a file in each, and a directory that comes after the deep one. */
static void make_deep(int from) {
    int fd = openat(from, ".", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEPTH; i++) {
        mkdirat(fd, "d", 0755);
        mkdirat(fd, "z", 0711);
        mkdirat(fd, "a", 0711);
        close(openat(fd, "z/file", O_WRONLY | O_CREAT, 0640));
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(fd);
}

static bool make_tree(int from) {
    char command[400];
    snprintf(command, sizeof command, "%s/from", top);
    bool made = chdir(command) == 0;
    made &= shell("set -e; mkdir -p many/{1..1500} links/deep; for i in {1..1500}; do echo $i > many/f$i; done\n"
                  "echo one > links/a; ln links/a links/deep/b; ln links/a .links-0; ln -s /etc/passwd links/out\n"
                  "ln -s nowhere links/dangling; ln links/out links/out2; mkfifo -m 600 fifo\n"
                  "echo set > set; chmod 6755 set; echo none > none; chmod 000 none; mkdir -m 1777 sticky\n"
                  "truncate -s 64M sparse; echo end >> sparse; echo begin | dd of=sparse conv=notrunc status=none\n"
                  "head -c 3000000 /dev/urandom > data; touch \"$(printf 'a\\nb')\" $(printf %0255d 1)\n"
                  "touch -d @1000000000 links many data; touch -h -d @1100000000 links/out");
    if (geteuid() == 0)
        made &= shell("mknod gone c 0 0; ln gone links/gone; chown 1000:1001 data sticky; chown -h 7:8 links/dangling");
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    made &= bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    made &= setxattr("many", "user.overlay.opaque", "y", 1, 0) == 0 && setxattr("data", "user.own", "v", 1, 0) == 0;
    make_deep(from);
    return made;
}

static void test_same(void) {
    /* Sizes of files only, and no links of whiteouts, which the kernel may share. */
    ok(shell("show() { (cd \"$1\" && find . -printf '%P|%y|%m|%U|%G|%l|%T@|' -type f -printf '%s|%n' -printf '\\0' -o "
             "-type c -printf '\\0' -o -printf '%n\\0' | sort -z); }\n"
             "cmp <(show from) <(show to) && [ $(show to | tr -cd '\\0' | wc -c) -gt 4000 ]"),
       "every name has the kind, mode, owner, links, target, time and size that it had");
    ok(shell(
           "chmod -f 600 from/none to/none; diff -r --no-dereference --exclude=fifo --exclude=socket --exclude=gone from to"),
       "and the content");
    ok(shell(
           "[ to/links/a -ef to/links/deep/b ] && [ to/links/a -ef to/.links-0 ] && [ ! from/links/a -ef to/links/a ]"),
       "names of one file are names of one copy");
    ok(shell("[ $(stat -c %b to/sparse) -lt 100 ]"), "holes stay holes");
    char value[8];
    ok_all("extended attributes of directories and files",
           getxattr("to/many", "user.overlay.opaque", value, sizeof value) == 1, *value == 'y',
           getxattr("to/data", "user.own", value, sizeof value) == 1, *value == 'v');
    if (geteuid() == 0)
        ok(shell("[ \"$(stat -c '%F %t %T' to/gone)\" = 'character special file 0 0' ]"), "a whiteout");
    else
        tap_skip("a whiteout", "needs root");
}

static void test_refused(void) {
    struct err err = {0};
    struct copied copied;
    if (geteuid() != 0) {
        tap_skip("a device", "needs root");
        return;
    }
    autofd from = open_dir("device"), to = open_dir("device.to");
    ok_all("a device is refused", mknodat(from, "null", S_IFCHR | 0666, 0x103) == 0,
           copytree(from, to, &copied, &err) == -ERR_DENIED, strstr(err.text, "'null' is a device"));
}

static void test_file(void) {
    struct err err = {0};
    struct copied copied = {0};
    autofd from = open("from/sparse", O_RDONLY | O_CLOEXEC),
           to = open("sparse.to", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ok_all("one sparse file", copytree_file(from, to, &copied, &err) == 0, copied.bytes < 1 << 20,
           shell("cmp from/sparse sparse.to && [ $(stat -c %b sparse.to) -lt 100 ]"));
}

int main(void) {
    const char *base = getenv("TMPDIR");
    snprintf(top, sizeof top, "%.200s/copytree-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(top))
        return 1;
    struct err err = {0};
    struct copied copied = {0};
    autofd from = open_dir("from"), to = open_dir("to");
    ok(make_tree(from), "a tree");
    ok(copytree(from, to, &copied, &err) == 0, "it is copied");
    if (err.code)
        printf("# %s\n", err.text);
    printf("# %s, %llu bytes, %llu files\n", copied.method, (unsigned long long)copied.bytes,
           (unsigned long long)copied.files);
    ok(!copied.method || strcmp(copied.method, "copy") != 0 || (copied.bytes >= 3000000 && copied.bytes < 10000000),
       "the bytes are told");
    ok(chdir(top) == 0, "both are there");
    test_same();
    test_refused();
    test_file();
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", top);
    ok(chdir("/") == 0 && shell(command), "both are gone");
    return tap_end();
}
