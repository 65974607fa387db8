/* A template out of a stream: tar at the end of a pipe. Called by template.c for an upload. Invariants: the stream
 * is hostile, so tar strips "/" and ".." from names and links (never give it -P); the disk keeps a reserve for other
 * users; on every failure, tar is gone when this returns. */
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/statvfs.h>

#include "base/base.h"
#include "backend/spawn.h"
#include "backend/template.h"

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

/* A compressed archive may be a thousand times larger unpacked. */
static int stream_unpack_room(const struct unpacking *unpacking, struct err *err) {
    struct statvfs disk;
    if (statvfs(unpacking->to, &disk) < 0)
        return err_errno(err, errno, "'%s'", unpacking->to);
    if (disk.f_bavail >= disk.f_blocks / 100 * STREAM_RESERVE_PERCENT)
        return 0;
    return err_set(err, ERR_LIMIT, "the template does not fit: less than %d %% of the disk of %s would be free",
                   STREAM_RESERVE_PERCENT, unpacking->to);
}

static int stream_unpack_read(struct unpacking *unpacking, struct err *err) {
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

static int stream_unpack_spawn(struct unpacking *unpacking, struct err *err) {
    static const struct {
        const char *magic, *option;
        size_t len;
    } kinds[] = {{"\x1f\x8b", "--gzip", 2},
                 {"\xfd\x37zXZ", "--xz", 5},
                 {"\x28\xb5\x2f\xfd", "--zstd", 4},
                 {"BZh", "--bzip2", 3}};
    const char *argv[] = {
        "tar", "--extract", "--preserve-permissions", "--numeric-owner", "--directory", unpacking->to, "--file", "-",
        NULL,  NULL};
    /* By its first bytes: tar recognizes the compression only of seekable input, which a pipe is not. */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (unpacking->len >= kinds[i].len && memcmp(unpacking->data, kinds[i].magic, kinds[i].len) == 0)
            argv[8] = kinds[i].option;
    char *path = text_make(4200, "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/sbin:/usr/bin:/sbin:/bin");
    char *env[] = {path, "LC_ALL=C", NULL}; /* TAR_OPTIONS is not for the environment to change */
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe");
    autofd theirs = ends[0];
    unpacking->pipe = ends[1];
    fcntl(unpacking->pipe, F_SETFL, O_NONBLOCK);
    const struct spawn spawn = {.program = "tar", .argv = argv, .env = env, .in = theirs, .out = 1, .errors = 2};
    int r = spawn_start(&spawn, &unpacking->pid, err);
    if (r < 0) {
        unpacking->pid = 0;
        return r == -ERR_NOT_FOUND
                   ? err_set(err, ERR_UNSUPPORTED, "the program 'tar' is missing; install the package 'tar'")
                   : r;
    }
    unpacking->pidfd = pidfd_open(unpacking->pid, 0);
    return unpacking->pidfd < 0 ? err_errno(err, errno, "tar") : 0;
}

/* 1: tar reads no more. */
static int stream_unpack_write(struct unpacking *unpacking, struct err *err) {
    for (size_t at = 0; at < unpacking->len;) {
        struct pollfd wait = {.fd = unpacking->pipe, .events = POLLOUT};
        int code = stream_unpack_room(unpacking, err);
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

/* Unpacking may take longer than reading. */
static int stream_unpack_wait(struct unpacking *unpacking, struct err *err) {
    struct pollfd wait = {.fd = unpacking->pidfd, .events = POLLIN};
    int code;
    fd_close(&unpacking->pipe);
    while ((code = stream_unpack_room(unpacking, err)) == 0 && poll(&wait, 1, STREAM_TICK_MS) <= 0)
        ;
    if (code < 0)
        return code;
    int status = spawn_wait(unpacking->pid);
    unpacking->pid = 0;
    return status == 0 ? 0
                       : err_set(err, ERR_INVALID,
                                 "this is not a tar archive that can be unpacked: plain, or compressed by gzip, xz, "
                                 "zstd or bzip2 whose program this machine has");
}

int template_unpack(const struct template_stream *stream, const char *to, struct err *err) {
    struct unpacking unpacking = {.stream = stream, .to = to, .pipe = -1, .pidfd = -1};
    unpacking.data = xmalloc(STREAM_PIECE_BYTES);
    int code = stream_unpack_read(&unpacking, err);
    if (code == 0 && unpacking.len == 0)
        code = err_set(err, ERR_INVALID, "the upload is empty; it must be a tar archive");
    if (code == 0)
        code = stream_unpack_spawn(&unpacking, err);
    while (code == 0 && unpacking.len) {
        code = stream_unpack_write(&unpacking, err);
        if (code == 0)
            code = stream_unpack_read(&unpacking, err);
    }
    bool early = code > 0; /* tar saw the end of the archive; only a whole upload is one */
    if (code >= 0)
        code = stream_unpack_wait(&unpacking, err);
    while (code == 0 && early && unpacking.len)
        code = stream_unpack_read(&unpacking, err);
    if (unpacking.pid) {
        kill(unpacking.pid, SIGKILL);
        spawn_wait(unpacking.pid);
    }
    fd_close(&unpacking.pipe);
    fd_close(&unpacking.pidfd);
    free(unpacking.data);
    return code;
}
