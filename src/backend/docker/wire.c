/* From a container that was made to a wire, and to the wires of later daemons. Called by docker.c. Invariant:
 *
 * 1. A runner that dials gets what is outside of its container by descriptor alone, and only after all its mounts are
 *    there; it is recorded before its HELLO is answered: one that nobody recorded ends with its wire.
 * 2. What the runner says before it speaks frames (standard error, exit status) is the reason in the error, bounded.
 * 3. dial/sock is there only while the box starts: nobody inside can dial later. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/boxsock.h"
#include "backend/docker/docker.h"
#include "backend/ids.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "wire/dial.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { HELLO_MS = 10000, ENDED_MS = 2000, EXEC_ID_BYTES = 128 };

struct start { /* while a box is being started */
    struct backend *backend;
    const struct spec *spec;
    char name[DOCKER_NAME_BYTES];
    int box_fd, dial_dir_fd;
    int dial_fd;     /* listens at dial/sock; -1: it cannot be seen from the container */
    int listener_fd; /* STATE/boxes/ID/sock, for the runner */
    int stream_fd;   /* standard streams of the runner, as the engine carries them */
    struct engine_stream *stream;
};

/* ---- start ---- */

static int start_failed(struct start *start, enum err_code code, const char *what, struct err *err);

static int start_prepare(struct start *start, const struct docker_way *way, struct err *err) {
    struct backend *backend = start->backend;
    start->box_fd = openat(backend->boxes_fd, start->spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (start->box_fd < 0)
        return err_errno(err, errno, "the box's directory");
    if (!way->near)
        return docker_send(backend, start->spec, err);
    start->dial_dir_fd = openat(start->box_fd, "dial", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (start->dial_dir_fd < 0)
        return err_errno(err, errno, "the box's directory dial");
    int r = boxsock_listen(start->box_fd, &start->listener_fd, err);
    if (r == 0)
        r = boxsock_listen(start->dial_dir_fd, &start->dial_fd, err);
    /* The runner may be anybody; on this side the directory above is closed to everybody else. */
    if (r == 0 && fchmodat(start->dial_dir_fd, "sock", 0666, 0) < 0)
        r = err_errno(err, errno, "the box's socket");
    return r;
}

/* Starts a program beside what runs in the container, with our end of its standard streams. */
static int exec_attached(struct backend *backend, const char *name, const char *const *words, int *ret_fd,
                         struct engine_stream **ret_stream, struct err *err) {
    autobuf body = buf_max(LIMIT_CALL_ARGS_BYTES);
    struct json json;
    json_init(&json, &body);
    json_open(&json, '{');
    static const char *const streams[] = {"AttachStdin", "AttachStdout", "AttachStderr"};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        json_put_bool(&json, streams[i], true);
    json_put_open(&json, "Cmd", '[');
    for (; *words; words++)
        json_str(&json, *words);
    json_close(&json, ']');
    json_close(&json, '}');
    buf_byte(&body, 0);
    if (body.failed)
        return err_set(err, ERR_TOO_LARGE, "the variables of the box are too long for an exec in its container");
    char path[EXEC_ID_BYTES + 32];
    snprintf(path, sizeof path, "/containers/%s/exec", name);
    json_t *made = NULL;
    int r = engine_json(backend->engine, "POST", path, (char *)body.data, "starting the runner in the container", &made,
                        err);
    if (r < 0)
        return r;
    const char *id = json_string_value(json_object_get(made, "Id"));
    bool good = id && *id && strlen(id) <= EXEC_ID_BYTES && strspn(id, "0123456789abcdef") == strlen(id);
    if (good)
        snprintf(path, sizeof path, "/exec/%s/start", id);
    json_decref(made);
    if (!good)
        return err_set(err, ERR_PROTOCOL, "the engine made an exec without an id");
    return engine_hijack(backend->engine, "POST", path, "{\"Detach\":false,\"Tty\":false}", ret_fd, ret_stream, err);
}

/* Attached before it starts: not a byte is lost. Where the image's own program is the first one, the runner comes after. */
static int start_run(struct start *start, const struct docker_image *image, struct err *err) {
    struct engine *engine = start->backend->engine;
    bool beside = start->spec->container.image_init;
    char path[128], doing[64];
    int r = 0;
    snprintf(path, sizeof path, "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", start->name);
    if (!beside)
        r = engine_hijack(engine, "POST", path, NULL, &start->stream_fd, &start->stream, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "/containers/%s/start", start->name);
    snprintf(doing, sizeof doing, "starting container '%s'", start->name);
    r = engine_json(engine, "POST", path, NULL, doing, NULL, err);
    if (r < 0 || !beside)
        return r;
    autoarena arena = ARENA_EMPTY;
    r = exec_attached(start->backend, start->name, docker_spec_words(start->spec, image, &arena), &start->stream_fd,
                      &start->stream, err);
    return r == -ERR_BUSY || r == -ERR_INTERNAL /* what engines call it where that program has just ended */
               ? start_failed(start, ERR_INTERNAL, "the runner cannot be started beside the image's own program", err)
               : r;
}

/* ---- it speaks ---- */

/* The other end of a connection, as the kernel saw it connect or listen: no pid can be a later process's. */
static int peer_of(int fd, struct ucred *ret_peer, int *ret_pidfd, struct err *err) {
    socklen_t size = sizeof *ret_peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &size) < 0)
        return err_errno(err, errno, "who is at the other end of the box's socket");
    int pidfd = -1;
    size = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0)
        pidfd =
            ret_peer->pid > 0 ? pidfd_open(ret_peer->pid, 0) : -1; /* 0: in a pid namespace that is not below ours */
    *ret_pidfd = pidfd;
    return 0;
}

static int record_runner(struct start *start, const struct ucred *peer, struct err *err) {
    struct docker_record record;
    int r = docker_record_read(start->backend, start->spec->id, &record);
    if (r < 0)
        return err_errno(err, -r, "the record of box %s", start->spec->id);
    record.dialled = peer != NULL;
    record.relayed = peer == NULL;
    record.pid = peer && peer->pid > 0 ? peer->pid : 0;
    record.start = record.pid ? process_start(record.pid) : 0;
    record.uid = peer ? peer->uid : 0;
    record.gid = peer ? peer->gid : 0;
    return docker_record_write(start->backend, start->spec->id, &record, err);
}

static int pass(int fd, char name, int passed, struct err *err) {
    ssize_t n = fd_send(fd, &name, 1, passed, MSG_NOSIGNAL);
    return n == 1 ? 0 : err_set(err, ERR_GONE, "the runner hung up before it had its socket");
}

static int by_socket(struct start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    autofd fd = accept4(start->dial_fd, NULL, NULL, SOCK_CLOEXEC), pidfd = -1;
    if (fd < 0)
        return err_errno(err, errno, "the runner's connection");
    struct ucred peer;
    int r = peer_of(fd, &peer, &pidfd, err);
    if (r == 0)
        r = docker_mount_enter(start->backend, start->spec, peer.pid, peer.uid, peer.gid, err);
    if (r == 0)
        r = record_runner(start, &peer, err);
    int pair[2] = {-1, -1};
    if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        r = err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    if (r == 0)
        r = pass(fd, DIAL_WIRE, theirs, err);
    if (r == 0)
        r = pass(fd, DIAL_LISTEN, start->listener_fd, err);
    fd_close(&theirs);
    if (r == 0)
        r = wire_new(fd_take(&ours), WIRE_PASS_FILES, HELLO_MS, ret_wire, err);
    if (r == 0)
        *ret_pidfd = fd_take(&pidfd);
    return r;
}

static int by_streams(struct start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    int r = docker_mount_enter(start->backend, start->spec, 0, 0, 0, err);
    if (r == 0)
        r = record_runner(start, NULL, err);
    if (r == 0)
        r = wire_new(fd_take(&start->stream_fd), WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err);
    if (r < 0)
        return r;
    engine_stream_leave(start->stream);
    start->stream = NULL;
    *ret_pidfd = -1;
    return 0;
}

/* ---- it does not ---- */

/* What it printed, safe to show, without the end of the last line. */
static void printed(struct engine_stream *stream, struct buf *out) {
    char text[ENGINE_STDERR_BYTES + 1];
    size_t len = stream ? engine_stream_stderr(stream, text, sizeof text) : 0;
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text_shown(out, text, len > 300 ? 300 : len);
    buf_byte(out, 0);
}

/* Why: the engine knows how the container ended, a moment after its streams did. */
static int start_failed(struct start *start, enum err_code code, const char *what, struct err *err) {
    autobuf said = buf_max(4096);
    printed(start->stream, &said);
    const char *text = (const char *)said.data;
    json_t *inspection = NULL;
    struct err ignored;
    uint64_t until_ms = clock_ms() + ENDED_MS;
    bool runs = true;
    for (;;) {
        if (docker_inspect(start->backend, start->spec->id, &inspection, &ignored) < 0)
            return err_set(err, ERR_GONE, "%s%s%s", what, *text ? ": " : "", text);
        runs = docker_running(inspection, NULL);
        if (!runs || clock_ms() >= until_ms)
            break;
        json_decref(inspection);
        poll(NULL, 0, 20);
    }
    if (!runs && start->spec->container.image_init) {
        what = "container.init: the image's own program does not stay";
        code = ERR_INVALID;
    }
    const json_t *state = json_object_get(inspection, "State");
    const char *why = json_string_value(json_object_get(state, "Error"));
    char end[64] = "";
    if (!runs)
        snprintf(end, sizeof end, " (the container ended, status %lld%s)",
                 (long long)json_integer_value(json_object_get(state, "ExitCode")),
                 json_is_true(json_object_get(state, "OOMKilled")) ? ", out of memory" : "");
    err_set(err, code, "%s%s%s%s%s%.200s", what, end, *text ? ": " : "", text, why && *why ? ": " : "", why ? why : "");
    json_decref(inspection);
    return -err->code;
}

static int start_spoke(struct start *start, int r, struct err *err) {
    return r == -ERR_GONE ? start_failed(start, ERR_INTERNAL, "the runner ended as soon as it spoke", err) : r;
}

static int start_wait(struct start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    uint64_t until_ms = clock_ms() + DOCKER_START_MS;
    for (;;) {
        struct pollfd polls[] = {{.fd = start->dial_fd, .events = POLLIN}, {.fd = start->stream_fd, .events = POLLIN}};
        uint64_t now_ms = clock_ms();
        int n = now_ms >= until_ms ? 0 : poll(polls, 2, (int)(until_ms - now_ms));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return start_failed(start, ERR_TIMEOUT, "the runner in the container does not speak", err);
        if (polls[0].revents)
            return start_spoke(start, by_socket(start, ret_wire, ret_pidfd, err), err);
        char first;
        ssize_t got = recv(start->stream_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got > 0)
            return start_spoke(start, by_streams(start, ret_wire, ret_pidfd, err), err);
        if (got == 0 || errno != EAGAIN)
            return start_failed(start, ERR_INTERNAL, "the runner could not start in the container", err);
    }
}

static void start_done(struct start *start) {
    if (start->dial_dir_fd >= 0)
        unlinkat(start->dial_dir_fd, "sock", 0);
    fd_close(&start->dial_fd);
    fd_close(&start->dial_dir_fd);
    fd_close(&start->listener_fd);
    fd_close(&start->box_fd);
    fd_close(&start->stream_fd);
    engine_stream_free(start->stream);
}

int docker_wire_start(struct backend *backend, const struct spec *spec, const struct docker_way *way,
                      const struct docker_image *image, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    struct start start = {.backend = backend,
                          .spec = spec,
                          .box_fd = -1,
                          .dial_dir_fd = -1,
                          .dial_fd = -1,
                          .listener_fd = -1,
                          .stream_fd = -1};
    docker_name(backend, start.name, spec->id);
    int r = start_prepare(&start, way, err);
    if (r == 0)
        r = start_run(&start, image, err);
    if (r == 0)
        r = start_wait(&start, ret_wire, ret_pidfd, err);
    start_done(&start);
    return r;
}

/* ---- found again ---- */

static int connect_socket(struct backend *backend, const char *id, int *ret_fd, int *ret_pidfd, struct err *err) {
    autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd fd = -1;
    if (boxsock_connect(box, &fd) < 0)
        return err_set(err, ERR_GONE, "the runner of box %s does not answer", id);
    struct ucred peer;
    int r = peer_of(fd, &peer, ret_pidfd, err);
    if (r == 0)
        *ret_fd = fd_take(&fd);
    return r;
}

static int connect_relay(struct backend *backend, const char *id, int *ret_fd, struct engine_stream **ret_stream,
                         struct err *err) {
    static const char *const words[] = {DOCKER_RUN "/runner", "relay", NULL};
    json_t *inspection = NULL;
    int r = docker_inspect(backend, id, &inspection, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_GONE, "the container of box %s is gone", id) : r;
    bool runs = docker_running(inspection, NULL);
    json_decref(inspection);
    if (!runs)
        return err_set(err, ERR_GONE, "the container of box %s does not run", id);
    char name[DOCKER_NAME_BYTES];
    docker_name(backend, name, id);
    return exec_attached(backend, name, words, ret_fd, ret_stream, err);
}

static int connect_any(struct backend *backend, const char *id, int *ret_fd, int *ret_pidfd,
                       struct engine_stream **ret_stream, struct err *err) {
    struct docker_record record;
    if (docker_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "box %s has no container", id);
    *ret_pidfd = -1;
    *ret_stream = NULL;
    if (record.dialled)
        return connect_socket(backend, id, ret_fd, ret_pidfd, err);
    if (record.relayed)
        return connect_relay(backend, id, ret_fd, ret_stream, err);
    return err_set(err, ERR_GONE, "the container of box %s does not run", id);
}

int docker_wire_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err) {
    autofd pidfd = -1;
    struct engine_stream *stream;
    int r = connect_any(backend, id, ret_fd, &pidfd, &stream, err);
    if (r == 0 && stream)
        engine_stream_leave(stream);
    return r;
}

int docker_wire_find(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    autofd fd = -1, pidfd = -1;
    struct engine_stream *stream;
    int r = connect_any(backend, id, &fd, &pidfd, &stream, err);
    if (r < 0)
        return r;
    if (wire_new(fd_take(&fd), stream ? WIRE_PASS_NOTHING : WIRE_PASS_FILES, HELLO_MS, ret_wire, err) < 0) {
        autobuf said = buf_max(4096);
        printed(stream, &said);
        engine_stream_free(stream);
        return err_set(err, ERR_GONE, "the runner of box %s does not answer%s%s", id, said.len > 1 ? ": " : "",
                       (const char *)said.data);
    }
    if (stream)
        engine_stream_leave(stream);
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}
