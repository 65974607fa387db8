/* A template out of a stream: tar at the end of a pipe. Called by template.c for an upload. Invariants: the stream is
 * hostile, so tar strips "/" and ".." from names and links (never give it -P); the disk keeps a reserve for everybody
 * else; whatever fails, tar is gone when this returns. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/template.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

enum { STREAM_PIECE_BYTES = 256 << 10, STREAM_TICK_MS = 200, STREAM_RESERVE_PERCENT = 5 };

struct unpacking {
    const struct template_stream *stream;
    const char *to;
    uint64_t taken;
    uint8_t *data;
    size_t len;
    int pipe, pidfd;
    pid_t pid;
};

/* By its first bytes: tar recognizes what it can seek in, which a pipe is not. */
static const char *unpack_option(const uint8_t *data, size_t len) {
    static const struct {
        const char *magic, *option;
        size_t len;
    } kinds[] = {{"\x1f\x8b", "--gzip", 2},
                 {"\xfd\x37zXZ", "--xz", 5},
                 {"\x28\xb5\x2f\xfd", "--zstd", 4},
                 {"BZh", "--bzip2", 3}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (len >= kinds[i].len && memcmp(data, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].option;
    return NULL;
}

/* A compressed archive may be a thousand times as large as what was sent. */
static int unpack_room(const struct unpacking *unpacking, struct err *err) {
    struct statvfs disk;
    if (statvfs(unpacking->to, &disk) < 0)
        return err_errno(err, errno, "'%s'", unpacking->to);
    if (disk.f_bavail >= disk.f_blocks / 100 * STREAM_RESERVE_PERCENT)
        return 0;
    return err_set(err, ERR_LIMIT, "the template does not fit: less than %d %% of the disk of %s would be free",
                   STREAM_RESERVE_PERCENT, unpacking->to);
}

static int unpack_read(struct unpacking *unpacking, struct err *err) {
    ssize_t got = unpacking->stream->read(unpacking->stream->user, unpacking->data, STREAM_PIECE_BYTES, err);
    if (got < 0)
        return (int)got;
    unpacking->len = (size_t)got;
    unpacking->taken += (uint64_t)got;
    if (unpacking->taken > LIMIT_TEMPLATE_UPLOAD_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a template is uploaded with at most %llu bytes",
                       LIMIT_TEMPLATE_UPLOAD_BYTES);
    return 0;
}

static int unpack_spawn(struct unpacking *unpacking, struct err *err) {
    const char *option = unpack_option(unpacking->data, unpacking->len);
    const char *argv[] = {
        "tar",  "--extract", "--preserve-permissions", "--numeric-owner", "--directory", unpacking->to, "--file", "-",
        option, NULL};
    char path[4200];
    snprintf(path, sizeof path, "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/sbin:/usr/bin:/sbin:/bin");
    char *env[] = {path, "LC_ALL=C", NULL}; /* TAR_OPTIONS is not for the environment to change */
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe");
    autofd theirs = ends[0];
    unpacking->pipe = ends[1];
    fcntl(unpacking->pipe, F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int number = posix_spawnp(&unpacking->pid, "tar", &actions, &attributes, (char *const *)(uintptr_t)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (number) {
        unpacking->pid = 0;
        return number == ENOENT
                   ? err_set(err, ERR_UNSUPPORTED, "the program 'tar' is missing; install the package 'tar'")
                   : err_errno(err, number, "tar cannot be started");
    }
    unpacking->pidfd = pidfd_open(unpacking->pid, 0);
    return unpacking->pidfd < 0 ? err_errno(err, errno, "tar") : 0;
}

/* 1: tar reads no more. */
static int unpack_write(struct unpacking *unpacking, struct err *err) {
    for (size_t at = 0; at < unpacking->len;) {
        struct pollfd wait = {.fd = unpacking->pipe, .events = POLLOUT};
        int code = unpack_room(unpacking, err);
        if (code < 0)
            return code;
        if (poll(&wait, 1, STREAM_TICK_MS) <= 0)
            continue;
        ssize_t sent = write(unpacking->pipe, unpacking->data + at, unpacking->len - at);
        if (sent < 0 && errno == EPIPE)
            return 1;
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return err_errno(err, errno, "tar");
        at += sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* What it makes of its input may take longer than the input. */
static int unpack_wait(struct unpacking *unpacking, struct err *err) {
    struct pollfd wait = {.fd = unpacking->pidfd, .events = POLLIN};
    int status, code;
    fd_close(&unpacking->pipe);
    while ((code = unpack_room(unpacking, err)) == 0 && poll(&wait, 1, STREAM_TICK_MS) <= 0)
        ;
    if (code < 0)
        return code;
    while (waitpid(unpacking->pid, &status, 0) < 0 && errno == EINTR)
        ;
    unpacking->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "this is not a tar archive that can be unpacked: plain, or compressed by gzip, xz, "
                   "zstd or bzip2 whose program this machine has");
}

int template_unpack(const struct template_stream *stream, const char *to, struct err *err) {
    struct unpacking unpacking = {.stream = stream, .to = to, .pipe = -1, .pidfd = -1};
    unpacking.data = xmalloc(STREAM_PIECE_BYTES);
    int code = unpack_read(&unpacking, err);
    if (code == 0 && unpacking.len == 0)
        code = err_set(err, ERR_INVALID, "the upload is empty; it must be a tar archive");
    if (code == 0)
        code = unpack_spawn(&unpacking, err);
    while (code == 0 && unpacking.len) {
        code = unpack_write(&unpacking, err);
        if (code == 0)
            code = unpack_read(&unpacking, err);
    }
    bool early = code > 0; /* tar saw the end of the archive; only a whole upload is one */
    if (code >= 0)
        code = unpack_wait(&unpacking, err);
    while (code == 0 && early && unpacking.len)
        code = unpack_read(&unpacking, err);
    if (unpacking.pid) {
        kill(unpacking.pid, SIGKILL);
        while (waitpid(unpacking.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    fd_close(&unpacking.pipe);
    fd_close(&unpacking.pidfd);
    free(unpacking.data);
    return code;
}
