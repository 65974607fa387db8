/* From a container to its wire, and to the wires of later daemons. Called by docker.c. Invariants:
 *
 * 1. A runner that dials gets resources outside of its container by descriptor alone, and only after all its mounts
 *    are made; it is recorded before its HELLO is answered: an unrecorded runner ends with its wire.
 * 2. Output of the runner before its first frame (standard error, exit status) is quoted in the error, bounded.
 * 3. dial/sock exists only while the box starts: no process inside can connect later. */
#include <poll.h>
#include <sys/pidfd.h>

#include "base/base.h"
#include "backend/boxsock.h"
#include "backend/docker/docker.h"
#include "backend/ids.h"
#include "wire/dial.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { START_MS = 30000, HELLO_MS = 10000, ENDED_MS = 2000, EXEC_ID_BYTES = 128 };

/* ---- start ---- */

static int wire_prepare(struct docker_start *start, struct err *err) {
    if (!start->near)
        return docker_send(start->backend, start->spec, err);
    start->dial_dir_fd = openat(start->box_fd, "dial", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (start->dial_dir_fd < 0)
        return err_errno(err, errno, "the box's directory dial");
    int r = boxsock_listen(start->box_fd, &start->listener_fd, err)
                ?: boxsock_listen(start->dial_dir_fd, &start->dial_fd, err);
    /* The runner may have any uid; on this side the directory above is closed to all other users. */
    if (r == 0 && fchmodat(start->dial_dir_fd, "sock", 0666, 0) < 0)
        r = err_errno(err, errno, "the box's socket");
    return r;
}

/* Starts a program in the running container, with our end of its standard streams. */
static int wire_exec(struct backend *backend, const char *box, const char *const *words, int *ret_fd,
                     struct engine_stream **ret_stream, struct err *err) {
    autobuf body = buf_max(LIMIT_CALL_ARGS_BYTES);
    json_t *made = NULL;
    struct json json = json_begin(&body);
    json_put_bool(&json, "AttachStdin", true);
    json_put_bool(&json, "AttachStdout", true);
    json_put_bool(&json, "AttachStderr", true);
    json_put_texts(&json, "Cmd", words);
    json_close(&json, '}');
    buf_byte(&body, 0);
    if (body.failed)
        return err_set(err, ERR_TOO_LARGE, "the variables of the box are too long for an exec in its container");
    TRY(docker_ask(backend, box, "POST", "/exec", (char *)body.data, "starting the runner in", &made, err));
    const char *id = engine_text(made, "Id");
    bool good = *id && strlen(id) <= EXEC_ID_BYTES && strspn(id, "0123456789abcdef") == strlen(id);
    const char *path = text_make(EXEC_ID_BYTES + 32, "/exec/%.*s/start", EXEC_ID_BYTES, id);
    json_decref(made);
    if (!good)
        return err_set(err, ERR_PROTOCOL, "the engine made an exec without an id");
    return engine_hijack(backend->engine, "POST", path, "{\"Detach\":false,\"Tty\":false}", ret_fd, ret_stream, err);
}

/* The other end of a connection, as the kernel saw it connect or listen: no pid can be a later process's. */
static int wire_peer(int fd, struct ucred *ret_peer, int *ret_pidfd, struct err *err) {
    socklen_t size = sizeof *ret_peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &size) < 0)
        return err_errno(err, errno, "the peer of the box's socket");
    int pidfd = -1;
    size = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0) /* pid 0: in a pid namespace not below ours */
        pidfd = ret_peer->pid > 0 ? pidfd_open(ret_peer->pid, 0) : -1;
    *ret_pidfd = pidfd;
    return 0;
}

/* The runner is there: mounts what only entering it can mount, and records it. peer NULL: it did not connect. */
static int wire_admit(struct docker_start *start, const struct ucred *peer, struct err *err) {
    const struct ucred unknown = {0}, *who = peer ? peer : &unknown;
    struct docker_record record;
    TRY(docker_mount_enter(start->backend, start->spec, who, err));
    int r = docker_record_read(start->backend, start->spec->id, &record);
    if (r < 0)
        return err_errno(err, -r, "the record of box %s", start->spec->id);
    record.dialled = peer != NULL;
    record.relayed = peer == NULL;
    record.pid = who->pid > 0 ? who->pid : 0;
    record.start = record.pid ? process_start(record.pid) : 0;
    record.uid = who->uid;
    record.gid = who->gid;
    return docker_record_write(start->backend, start->spec->id, &record, err);
}

static int wire_by_socket(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    autofd fd = accept4(start->dial_fd, NULL, NULL, SOCK_CLOEXEC), pidfd = -1;
    struct ucred peer;
    int pair[2] = {-1, -1};
    if (fd < 0)
        return err_errno(err, errno, "the runner's connection");
    int r = wire_peer(fd, &peer, &pidfd, err) ?: wire_admit(start, &peer, err);
    if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        r = err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    if (r == 0 && (fd_send(fd, (char[]){DIAL_WIRE}, 1, theirs, MSG_NOSIGNAL) != 1 ||
                   fd_send(fd, (char[]){DIAL_LISTEN}, 1, start->listener_fd, MSG_NOSIGNAL) != 1))
        r = err_set(err, ERR_GONE, "the runner hung up before it had its socket");
    fd_close(&theirs);
    if (r == 0)
        r = wire_new(fd_take(&ours), WIRE_PASS_FILES, HELLO_MS, ret_wire, err);
    if (r == 0)
        *ret_pidfd = fd_take(&pidfd);
    return r;
}

static int wire_by_streams(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    TRY(wire_admit(start, NULL, err)
            ?: wire_new(fd_take(&start->stream_fd), WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err));
    engine_stream_leave(start->stream);
    start->stream = NULL;
    *ret_pidfd = -1;
    return 0;
}

/* ---- it does not ---- */

/* The runner's output, safe to show, without the last newline. */
static const char *wire_printed(struct engine_stream *stream, struct buf *out) {
    char text[ENGINE_STDERR_BYTES + 1];
    size_t len = stream ? engine_stream_stderr(stream, text, sizeof text) : 0;
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text_shown(out, text, len > 300 ? 300 : len);
    buf_byte(out, 0);
    return (const char *)out->data;
}

/* Says why. The engine knows how the container ended a moment after its streams did. */
static int wire_failed(struct docker_start *start, enum err_code code, const char *what, struct err *err) {
    autobuf said = buf_max(4096);
    const char *text = wire_printed(start->stream, &said);
    json_t *inspection = NULL;
    struct err ignored;
    uint64_t until_ms = clock_ms() + ENDED_MS;
    bool runs = true;
    for (;;) {
        if (docker_inspect(start->backend, start->spec->id, &inspection, &ignored) < 0)
            return err_set(err, ERR_GONE, "%s%s%s", what, *text ? ": " : "", text);
        runs = docker_running(inspection);
        if (!runs || clock_ms() >= until_ms)
            break;
        json_decref(inspection);
        poll(NULL, 0, 20);
    }
    if (!runs && start->spec->container.image_init) {
        what = "container.init: the image's own program exits";
        code = ERR_INVALID;
    }
    const char *why = engine_text(inspection, "State", "Error");
    char end[64] = "";
    if (!runs)
        snprintf(end, sizeof end, " (the container ended, status %lld%s)",
                 (long long)json_integer_value(engine_value(inspection, "State", "ExitCode")),
                 json_is_true(engine_value(inspection, "State", "OOMKilled")) ? ", out of memory" : "");
    err_set(err, code, "%s%s%s%s%s%.200s", what, end, *text ? ": " : "", text, *why ? ": " : "", why);
    json_decref(inspection);
    return -err->code;
}

/* Attaches before it starts, so that no byte is lost. Where the image's own program is the first one, the runner comes
 * after. */
static int wire_run(struct docker_start *start, struct err *err) {
    struct backend *backend = start->backend;
    const char *id = start->spec->id;
    bool beside = start->spec->container.image_init;
    char path[DOCKER_PATH_BYTES];
    int r = 0;
    docker_path(backend, id, "/attach?stream=1&stdin=1&stdout=1&stderr=1", path);
    if (!beside)
        r = engine_hijack(backend->engine, "POST", path, NULL, &start->stream_fd, &start->stream, err);
    if (r == 0)
        r = docker_ask(backend, id, "POST", "/start", NULL, "starting", NULL, err);
    if (r < 0 || !beside)
        return r;
    const char *const *words = docker_spec_words(start->spec, &start->image, start->arena);
    r = wire_exec(backend, id, words, &start->stream_fd, &start->stream, err);
    return r == -ERR_BUSY || r == -ERR_INTERNAL /* how engines report that the image's program has just ended */
               ? wire_failed(start, ERR_INTERNAL, "the runner cannot be started next to the image's own program", err)
               : r;
}

static int wire_wait(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    uint64_t until_ms = clock_ms() + START_MS;
    for (;;) {
        struct pollfd polls[] = {{.fd = start->dial_fd, .events = POLLIN}, {.fd = start->stream_fd, .events = POLLIN}};
        uint64_t now_ms = clock_ms();
        int n = now_ms >= until_ms ? 0 : poll(polls, 2, (int)(until_ms - now_ms));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return wire_failed(start, ERR_TIMEOUT, "the runner in the container does not answer", err);
        char first;
        ssize_t got = polls[0].revents ? 1 : recv(start->stream_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            continue;
        if (got <= 0)
            return wire_failed(start, ERR_INTERNAL, "the runner could not start in the container", err);
        int r = (polls[0].revents ? wire_by_socket : wire_by_streams)(start, ret_wire, ret_pidfd, err);
        return r == -ERR_GONE ? wire_failed(start, ERR_INTERNAL, "the runner ended as soon as it spoke", err) : r;
    }
}

int docker_wire_start(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    int r = wire_prepare(start, err) ?: wire_run(start, err) ?: wire_wait(start, ret_wire, ret_pidfd, err);
    if (start->dial_dir_fd >= 0)
        unlinkat(start->dial_dir_fd, "sock", 0);
    fd_close(&start->dial_fd);
    fd_close(&start->dial_dir_fd);
    fd_close(&start->listener_fd);
    fd_close(&start->stream_fd);
    engine_stream_free(start->stream);
    return r;
}

/* ---- found again ---- */

/* By its socket, or by a relay (*ret_stream). */
static int wire_connect(struct backend *backend, const char *id, int *ret_fd, int *ret_pidfd,
                        struct engine_stream **ret_stream, struct err *err) {
    static const char *const relay[] = {DOCKER_RUN "/runner", "relay", NULL};
    struct docker_record record;
    struct ucred peer;
    json_t *inspection = NULL;
    if (docker_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "box %s has no container", id);
    *ret_pidfd = -1;
    *ret_stream = NULL;
    if (record.dialled) {
        autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
        if (boxsock_connect(box, &fd) < 0)
            return err_set(err, ERR_GONE, "the runner of box %s does not answer", id);
        int r = wire_peer(fd, &peer, ret_pidfd, err);
        if (r == 0)
            *ret_fd = fd_take(&fd);
        return r;
    }
    int r = record.relayed ? docker_inspect(backend, id, &inspection, err) : 0;
    bool runs = r == 0 && docker_running(inspection);
    json_decref(inspection);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_GONE, "the container of box %s is gone", id);
    if (r < 0)
        return r;
    return runs ? wire_exec(backend, id, relay, ret_fd, ret_stream, err)
                : err_set(err, ERR_GONE, "the container of box %s does not run", id);
}

int docker_wire_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err) {
    autofd pidfd = -1;
    struct engine_stream *stream = NULL;
    int r = wire_connect(backend, id, ret_fd, &pidfd, &stream, err);
    if (r == 0)
        engine_stream_leave(stream);
    return r;
}

int docker_wire_find(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    autofd fd = -1, pidfd = -1;
    struct engine_stream *stream = NULL;
    TRY(wire_connect(backend, id, &fd, &pidfd, &stream, err));
    if (wire_new(fd_take(&fd), stream ? WIRE_PASS_NOTHING : WIRE_PASS_FILES, HELLO_MS, ret_wire, err) < 0) {
        autobuf said = buf_max(4096);
        const char *text = wire_printed(stream, &said);
        engine_stream_free(stream);
        return err_set(err, ERR_GONE, "the runner of box %s does not answer%s%s", id, *text ? ": " : "", text);
    }
    engine_stream_leave(stream);
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}
