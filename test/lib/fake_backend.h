/* A backend made for tests of the provider: its runners are threads that can be told to die or stand still, and that answer
 * a few ops, some of them as no honest runner would. Checks what the provider promises its backends: one call an id at a
 * time, a runner only where none is left, and no word to one that stands still. Included once, by the test's program. */
#ifndef CUBBY_TEST_FAKE_BACKEND_H
#define CUBBY_TEST_FAKE_BACKEND_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/removal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "box/provider/provider.h"
#include "wire/frame.h"
#include "tap.h"

/* ---- a runner ---- */

static void answer(int fd, uint8_t type, uint32_t call, uint8_t flags, const void *payload, size_t len) {
    autobuf out = buf_max(2 * LIMIT_FRAME_PAYLOAD_BYTES);
    frame_put(&out, type, call, flags, payload, len);
    ssize_t n = fd_send(fd, out.data, out.len, -1, 0);
    (void)n;
}

static void answer_call(int fd, const struct frame *frame) {
    autoarena arena = ARENA_EMPTY;
    struct fields args;
    struct err err;
    autobuf out = buf_max(4096);
    if (fields_parse(view_of(frame->payload, frame->len), &arena, &args, &err) < 0)
        return;
    if (args.number[FIELD_OP] == OP_EXEC && strcmp(args.text[FIELD_COMMAND], "hang") == 0)
        return;
    if (args.number[FIELD_OP] == OP_EXEC) {
        field_number(&out, FIELD_PID, 42);
        answer(fd, FRAME_STAT, frame->call, 0, out.data, out.len);
        answer(fd, FRAME_DATA, frame->call, STREAM_STDOUT, args.text[FIELD_COMMAND], args.len[FIELD_COMMAND]);
        buf_clear(&out);
        field_number(&out, FIELD_EXIT, 3);
    } else if (args.number[FIELD_OP] == OP_LIST || args.number[FIELD_OP] == OP_GLOB) {
        /* Two records whatever the limit; the name of the directory asked for says what is wrong with them. */
        const char *path = args.text[FIELD_PATH] ? args.text[FIELD_PATH] : "";
        for (int i = 0; i < 2; i++) {
            size_t item = item_begin(&out);
            if (strcmp(path, "/nameless") != 0)
                field_text(&out, FIELD_NAME, "n");
            field_text(&out, FIELD_PATH, "/n");
            item_end(&out, item);
        }
        if (strcmp(path, "/cut") == 0)
            out.len -= 3;
        answer(fd, FRAME_ITEM, frame->call, 0, out.data, out.len);
        buf_clear(&out);
    } else if (args.number[FIELD_OP] == OP_HASH) {
        field_bytes(&out, FIELD_SHA256, "short", 5);
    } else if (args.number[FIELD_OP] == OP_STAT) {
        answer(fd, FRAME_DATA, frame->call, 1, "x", 1);
    }
    answer(fd, FRAME_END, frame->call, 0, out.data, out.len);
}

static void *runner_main(void *argument) {
    int fd = (int)(intptr_t)argument;
    uint8_t *data = malloc(FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES);
    for (;;) {
        struct frame frame;
        struct err err;
        if (fd_read_full(fd, data, FRAME_HEAD_BYTES) != FRAME_HEAD_BYTES)
            break;
        size_t len = (size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
        if (fd_read_full(fd, data + FRAME_HEAD_BYTES, len) != (ssize_t)len ||
            frame_parse(data, FRAME_HEAD_BYTES + len, &frame, &err) != 1)
            break;
        if (frame.type == FRAME_CALL)
            answer_call(fd, &frame);
    }
    free(data);
    close(fd);
    return NULL;
}

/* ---- a backend ---- */

enum { FAKE_RUNNERS = 256, FAKE_WIRES = 16, FAKE_CALLS = 64 };

static struct {
    pthread_mutex_t lock;
    unsigned starts, stops, removals;
    bool fail_start, fail_stop, fail_pause;
    unsigned slow_us;                               /* a call takes up to that long, at random: races become likely */
    char calls[FAKE_CALLS][17];                     /* ids that a call works on now; "": none */
    void (*ended)(const char *id, bool keep_files); /* told of every stop of a runner that lived; under lock */
    struct fake_runner {
        char id[17];
        bool dead, paused;
        int peers[FAKE_WIRES]; /* copies of the runner's ends: shutting them down is its death */
        unsigned wires;
    } runners[FAKE_RUNNERS]; /* id "": none */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char state_dir[] = "/tmp/box-test-XXXXXX";

/* Two at once for one id: the provider has broken its word. */
static char *fake_enter(const char *id) {
    char *mine = NULL;
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < FAKE_CALLS; i++) {
        must(strcmp(fake.calls[i], id) != 0, "a backend never sees two calls for one id at once");
        mine = mine || fake.calls[i][0] ? mine : fake.calls[i];
    }
    must(mine, "few calls at once");
    snprintf(mine, 17, "%s", id);
    unsigned slow_us = fake.slow_us;
    pthread_mutex_unlock(&fake.lock);
    if (slow_us)
        usleep((unsigned)random() % slow_us);
    return mine;
}

static void fake_leave(char **call) {
    pthread_mutex_lock(&fake.lock);
    (*call)[0] = 0;
    pthread_mutex_unlock(&fake.lock);
}
#define FAKE_CALL(id) __attribute__((cleanup(fake_leave), unused)) char *fake_call = fake_enter(id)

static int fake_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    (void)env;
    (void)err;
    *ret_backend = (struct backend *)&fake;
    return 0;
}

static void fake_close(struct backend *backend) {
    (void)backend;
}

/* id "": a free row. */
static struct fake_runner *fake_find_locked(const char *id) {
    for (size_t i = 0; i < FAKE_RUNNERS; i++)
        if (strcmp(fake.runners[i].id, id) == 0)
            return &fake.runners[i];
    return NULL;
}

static void fake_end_locked(struct fake_runner *runner) {
    for (unsigned i = 0; i < runner->wires; i++) {
        shutdown(runner->peers[i], SHUT_RDWR);
        close(runner->peers[i]);
    }
    runner->wires = 0;
}

static int fake_wire(const char *id, struct wire **ret_wire, struct err *err) {
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    autobuf hello = buf_max(64);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    answer(pair[1], FRAME_HELLO, 0, 0, hello.data, hello.len);
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    if (runner->wires == FAKE_WIRES) { /* of providers that are gone */
        for (unsigned i = 0; i < runner->wires; i++)
            close(runner->peers[i]);
        runner->wires = 0;
    }
    runner->peers[runner->wires++] = fcntl(pair[1], F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&fake.lock);
    pthread_t thread;
    pthread_create(&thread, NULL, runner_main, (void *)(intptr_t)pair[1]);
    pthread_detach(thread);
    return wire_new(pair[0], WIRE_PASS_FILES, 2000, ret_wire, err);
}

static void fake_path(char *out, size_t size, const char *id) {
    snprintf(out, size, "%s/boxes/%.16s", state_dir, id);
}

static int fake_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                      struct err *err) {
    (void)backend;
    FAKE_CALL(spec->id);
    pthread_mutex_lock(&fake.lock);
    fake.starts++;
    bool fail = fake.fail_start, twice = fake_find_locked(spec->id);
    struct fake_runner *runner = fake_find_locked("");
    if (!fail && !twice && runner)
        memcpy(runner->id, spec->id, sizeof runner->id);
    pthread_mutex_unlock(&fake.lock);
    if (fail)
        return err_set(err, ERR_UNSUPPORTED, "the test says no");
    must(!twice && runner, "a runner is started where none is left");
    runner->dead = runner->paused = false;
    char path[128];
    fake_path(path, sizeof path, spec->id);
    mkdir(path, BACKEND_UNFINISHED_MODE);
    *ret_pidfd = -1;
    return fake_wire(spec->id, ret_wire, err);
}

static int fake_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                         struct err *err) {
    (void)backend;
    FAKE_CALL(id);
    *ret_pidfd = -1;
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    bool found = runner, dead = found && runner->dead;
    must(!found || dead || !runner->paused, "a runner that stands still is not asked");
    pthread_mutex_unlock(&fake.lock);
    return found && !dead ? fake_wire(id, ret_wire, err) : err_set(err, dead ? ERR_GONE : ERR_NOT_FOUND, "gone");
}

static int fake_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    (void)backend;
    FAKE_CALL(id);
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    if (fake.fail_stop) {
        pthread_mutex_unlock(&fake.lock);
        return err_set(err, ERR_IO, "the test says no");
    }
    fake.stops++;
    fake.removals += !keep_files;
    if (runner) {
        if (fake.ended && !runner->dead)
            fake.ended(id, keep_files);
        fake_end_locked(runner);
        runner->id[0] = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    char path[128];
    fake_path(path, sizeof path, id);
    if (!keep_files)
        removal_tree(AT_FDCWD, path);
    return 0;
}

static int fake_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    (void)backend;
    (void)err;
    char path[64];
    snprintf(path, sizeof path, "%s/boxes", state_dir);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            each(user, entry->d_name);
    if (dir)
        closedir(dir);
    return 0;
}

static int fake_pause(struct backend *backend, const char *id, bool pause, struct err *err) {
    (void)backend;
    FAKE_CALL(id);
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    bool fail = fake.fail_pause || !runner;
    if (!fail)
        runner->paused = pause;
    pthread_mutex_unlock(&fake.lock);
    return fail ? err_set(err, ERR_IO, "the test says no") : 0;
}

static bool fake_paused(struct backend *backend, const char *id) {
    (void)backend;
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    bool paused = runner && runner->paused && !runner->dead;
    pthread_mutex_unlock(&fake.lock);
    return paused;
}

#ifndef FAKE_MORE
#define FAKE_MORE /* further members, of a test that has them */
#endif
static const struct backend_ops backend_fake = {.name = "fake",
                                                .open = fake_open,
                                                .close = fake_close,
                                                .start = fake_start,
                                                .discover = fake_discover,
                                                .stop = fake_stop,
                                                .list = fake_list,
                                                .pause = fake_pause,
                                                .paused = fake_paused,
                                                FAKE_MORE};
const struct backend_ops *const backend_table[] = {&backend_fake, NULL};

/* false: none lived. */
__attribute__((unused)) static bool runner_dies(const char *id) {
    pthread_mutex_lock(&fake.lock);
    struct fake_runner *runner = fake_find_locked(id);
    bool lived = runner && !runner->dead;
    if (runner) {
        runner->dead = true;
        fake_end_locked(runner);
    }
    pthread_mutex_unlock(&fake.lock);
    return lived;
}

__attribute__((unused)) static bool soon(bool (*condition)(void)) {
    for (uint64_t end_ms = clock_ms() + 60000; !condition(); usleep(1000))
        if (clock_ms() > end_ms)
            return false;
    return true;
}

#endif
