/* Machines that join, seen from the provider: a machine is played by the other end of a pump, its runners are threads. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/remote/machine.h"
#include "tree/removal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "box/provider/provider.h"
#include "wire/frame.h"
#include "tap.h"

static bool eventually(bool (*condition)(void *user), void *user) {
    for (int i = 0; i < 6000; i++) {
        if (condition(user))
            return true;
        usleep(10000);
    }
    return false;
}

/* ---- a connection: packets of a socket pair ---- */

struct carrier {
    int fd;
    uint8_t data[200000];
};

static int carrier_recv(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    struct carrier *carrier = user;
    ssize_t n = recv(carrier->fd, carrier->data, sizeof carrier->data, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return err_set(err, ERR_GONE, "the cable was pulled");
    *ret_text = false;
    *ret_data = carrier->data;
    *ret_len = (size_t)n;
    return 1;
}

static int carrier_send(void *user, bool text, const void *data, size_t len, struct err *err) {
    struct carrier *carrier = user;
    (void)text;
    ssize_t n = send(carrier->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN)
        return 0;
    return n < 0 ? err_set(err, ERR_GONE, "the cable was pulled") : 1;
}

static bool carrier_pending(void *user) {
    (void)user;
    return false;
}

static int carrier_flush(void *user, struct err *err) {
    (void)user;
    (void)err;
    return 1;
}

static int carrier_ping(void *user, struct err *err) {
    (void)user;
    (void)err;
    return 0;
}

static uint64_t carrier_heard(void *user) {
    (void)user;
    return clock_ms();
}

static uint64_t carrier_latency(void *user) {
    (void)user;
    return 1500;
}

static struct pump_socket carrier_socket(struct carrier *carrier) {
    return (struct pump_socket){.user = carrier,
                                .fd = carrier->fd,
                                .recv = carrier_recv,
                                .pending = carrier_pending,
                                .send = carrier_send,
                                .flush = carrier_flush,
                                .ping = carrier_ping,
                                .heard_ms = carrier_heard,
                                .latency_us = carrier_latency};
}

/* ---- its runners ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: a command "wait" does not end */

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
    if (args.number[FIELD_OP] == OP_EXEC) {
        field_number(&out, FIELD_PID, 42);
        answer(fd, FRAME_STAT, frame->call, 0, out.data, out.len);
        if (strcmp(args.text[FIELD_COMMAND], "wait") == 0) {
            pthread_mutex_lock(&gate);
            pthread_mutex_unlock(&gate);
        }
        answer(fd, FRAME_DATA, frame->call, STREAM_STDOUT, "out", 3);
        buf_clear(&out);
        field_number(&out, FIELD_EXIT, 3);
    }
    answer(fd, FRAME_END, frame->call, 0, out.data, out.len);
}

static void *runner_main(void *argument) {
    int fd = (int)(intptr_t)argument;
    uint8_t *data = malloc(FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES);
    autobuf hello = buf_max(256);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, 0);
    field_text(&hello, FIELD_WORKSPACE, "/home/ann/project");
    answer(fd, FRAME_HELLO, 0, 0, hello.data, hello.len);
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

/* ---- a machine ---- */

enum { BOXES = 16, WIRES = 8 };

struct laptop {
    const char *user, *name;
    struct pump *pump;
    char session[33];
    pthread_mutex_t lock; /* of its boxes */
    struct {
        char id[17];
        int peers[WIRES]; /* copies of the runners' ends: shutting them down is their death */
        unsigned wires;
    } boxes[BOXES];
    unsigned starts, finds, stops, removals, pings;
    atomic_bool deaf;    /* it answers no question */
    atomic_bool babbles; /* it answers with what is none */
    bool vanishes;       /* the server does not hear that its end of a connection is over */
    /* of one connection */
    struct carrier *far, *near;
    pthread_t far_thread, near_thread;
    struct machine_conn *seat;
    uint64_t received;
    struct err ended; /* why the server's end says it is over */
    int ended_code;
};

static void box_end(struct laptop *laptop, size_t i) {
    for (unsigned w = 0; w < laptop->boxes[i].wires; w++) {
        shutdown(laptop->boxes[i].peers[w], SHUT_RDWR);
        close(laptop->boxes[i].peers[w]);
    }
    laptop->boxes[i].wires = 0;
    laptop->boxes[i].id[0] = 0;
}

static size_t box_find(struct laptop *laptop, const char *id) {
    size_t i = 0;
    while (i < BOXES && strcmp(laptop->boxes[i].id, id) != 0)
        i++;
    return i;
}

static void box_wire(struct laptop *laptop, size_t i, uint32_t number) {
    int pair[2];
    pthread_t thread;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a socket pair");
    must(laptop->boxes[i].wires < WIRES, "few wires");
    laptop->boxes[i].peers[laptop->boxes[i].wires++] = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
    must(pthread_create(&thread, NULL, runner_main, (void *)(intptr_t)pair[1]) == 0, "a thread");
    pthread_detach(thread);
    pump_open(laptop->pump, number, pair[0]);
}

static void tell(struct laptop *laptop, uint32_t number, const char *json) {
    pump_answer(laptop->pump, number, json, strlen(json));
}

static void laptop_do(struct laptop *laptop, uint32_t number, const char *op, const char *id, bool keep) {
    size_t i = box_find(laptop, id);
    if (strcmp(op, "start") == 0) {
        if (i < BOXES)
            box_end(laptop, i);
        i = box_find(laptop, "");
        must(i < BOXES, "few boxes");
        snprintf(laptop->boxes[i].id, 17, "%s", id);
        laptop->starts++;
        box_wire(laptop, i, number);
    } else if (strcmp(op, "discover") == 0) {
        if (i == BOXES) {
            tell(laptop, number, "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"no such box\"}}");
            return;
        }
        laptop->finds++;
        box_wire(laptop, i, number);
    } else if (strcmp(op, "stop") == 0) {
        laptop->stops++;
        laptop->removals += !keep;
        if (i < BOXES)
            box_end(laptop, i);
    } else if (strcmp(op, "usage") == 0) {
        tell(laptop, number, "{\"ok\":true,\"memory_bytes\":4096,\"pids\":-1,\"cpu_ms\":\"7\"}");
        return;
    }
    laptop->pings += strcmp(op, "ping") == 0;
    tell(laptop, number, "{\"ok\":true}");
}

static void laptop_ask(void *user, uint32_t number, const void *data, size_t len) {
    struct laptop *laptop = user;
    if (laptop->deaf)
        return;
    if (laptop->babbles) {
        tell(laptop, number, "[\"what?\"]");
        return;
    }
    json_t *json = json_loadb(data, len, 0, NULL);
    const char *op = json_string_value(json_object_get(json, "op")),
               *id = json_string_value(json_object_get(json, "id"));
    must(op != NULL, "a question has an op");
    pthread_mutex_lock(&laptop->lock);
    laptop_do(laptop, number, op, id ? id : "-", json_is_true(json_object_get(json, "keep_files")));
    pthread_mutex_unlock(&laptop->lock);
    json_decref(json);
}

static const struct pump_events laptop_events = {.ask = laptop_ask};

static void *far_main(void *user) {
    struct laptop *laptop = user;
    struct pump_socket socket = carrier_socket(laptop->far);
    struct err err;
    pump_run(laptop->pump, &socket, laptop->received, &err);
    if (!laptop->vanishes)
        shutdown(((struct carrier *)socket.user)->fd, SHUT_RDWR);
    return NULL;
}

static void *near_main(void *user) {
    struct laptop *laptop = user;
    struct pump_socket socket = carrier_socket(laptop->near);
    laptop->ended_code = machine_serve_link(laptop->seat, &socket, NULL, NULL, &laptop->ended);
    shutdown(((struct carrier *)socket.user)->fd, SHUT_RDWR);
    return NULL;
}

static struct machines *machines;

static struct machine_hello hello_of(const char *user, const char *name) {
    return (struct machine_hello){.user = user,
                                  .name = name,
                                  .workspace = "/home/ann/project",
                                  .shell = "/bin/sh",
                                  .version = "7.7",
                                  .isolation = "jail",
                                  .platform = "Linux",
                                  .address = "10.0.0.9:1",
                                  .can = ""};
}

/* Connects; fresh: as one that knows of no session. */
static int laptop_connect(struct laptop *laptop, bool fresh, bool *ret_resumed, struct err *err) {
    struct machine_hello hello = hello_of(laptop->user, laptop->name);
    uint64_t have = laptop->pump ? pump_received(laptop->pump) : 0;
    bool resumed = false;
    int pair[2];
    int r = machine_enter(machines, &hello, false, fresh ? "" : laptop->session, fresh ? 0 : have, laptop->session,
                          &resumed, &laptop->received, &laptop->seat, err);
    if (r < 0)
        return r;
    if (!resumed) {
        pump_free(laptop->pump);
        laptop->pump = pump_new(&laptop_events, laptop);
        laptop->received = 0;
    }
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "a socket pair");
    laptop->near = calloc(1, sizeof *laptop->near);
    laptop->far = calloc(1, sizeof *laptop->far);
    laptop->near->fd = pair[0];
    laptop->far->fd = pair[1];
    pthread_create(&laptop->near_thread, NULL, near_main, laptop);
    pthread_create(&laptop->far_thread, NULL, far_main, laptop);
    if (ret_resumed)
        *ret_resumed = resumed;
    return 0;
}

/* The server's end is over by itself, or is made so. */
static void laptop_cut(struct laptop *laptop, bool pull) {
    if (pull)
        shutdown(laptop->near->fd, SHUT_RDWR);
    pthread_join(laptop->near_thread, NULL);
    pthread_join(laptop->far_thread, NULL);
    close(laptop->near->fd);
    close(laptop->far->fd);
    free(laptop->near);
    free(laptop->far);
    laptop->near = laptop->far = NULL;
}

static void laptop_done(struct laptop *laptop) {
    for (size_t i = 0; i < BOXES; i++)
        if (laptop->boxes[i].id[0])
            box_end(laptop, i);
    if (laptop->pump)
        pump_free(laptop->pump);
}

static bool online(const char *user, const char *name) {
    autoarena arena;
    struct machine_facts facts;
    struct err err;
    arena_init(&arena);
    return machine_facts(machines, user, name, &arena, &facts, &err) == 0 && facts.online;
}

static bool laptop_online(void *user) {
    struct laptop *laptop = user;
    return online(laptop->user, laptop->name);
}

/* ---- the house around it ---- */

static char state_dir[] = "/tmp/machine-test-XXXXXX";
static struct provider *provider;
static struct policy policy;
static struct backend_env env;
static atomic_uint greetings, greetings_again, farewells;

static void greeted(void *context, const char *user, const char *name, bool again) {
    (void)context;
    (void)user;
    (void)name;
    greetings++;
    greetings_again += again;
}

static void farewell(void *context, const char *user, const char *name, const char *why) {
    (void)context;
    (void)user;
    (void)name;
    farewells += why[0] != 0;
}

static void house_open(uint64_t grace_ms) {
    struct err err;
    const struct machines_settings settings = {
        .grace_ms = grace_ms, .max = 3, .max_per_user = 2, .online = greeted, .offline = farewell};
    machines = machines_new(&settings);
    env = (struct backend_env){.state_dir = state_dir, .runner_path = "/bin/false", .machines = machines};
    policy = (struct policy){.share = {.idle_timeout_ms = 0, .memory_mb = 1, .disk_mb = 1}, .replicas = 1};
    atomic_init(&policy.refs, 1);
    int r = provider_new(&env, &policy, "remote", &provider, &err);
    must(r == 0, r < 0 ? err.text : "");
}

static void house_close(void) {
    machines_close(machines, "the server stops");
    provider_free(provider, false);
    machines_free(machines);
}

static int acquire(const char *user, const char *machine, const char *thread, struct box **ret_box, struct err *err) {
    bool created;
    struct box_request request = {
        .user = user, .machine = machine, .thread = thread, .thread_len = thread ? strlen(thread) : 0};
    return provider_acquire(provider, &request, ret_box, &created, err);
}

static int output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)stream;
    buf_put(user, data, len);
    return 0;
}

static int exec(struct box *box, const char *command, struct err *err) {
    autobuf out = buf_max(100);
    struct exec_request request = {.command = command, .timeout_ms = 20000};
    struct exec_sink sink = {.output = output, .user = &out};
    struct exec_result result;
    int r = box_exec(box, &request, &sink, -1, &result, err);
    return r < 0 ? r : out.len == 3 && memcmp(out.data, "out", 3) == 0 ? result.exit_code : -99;
}

struct job {
    struct box *box;
    pthread_t thread;
    int r;
    struct err err;
    uint64_t took_ms;
};

static void *job_main(void *user) {
    struct job *job = user;
    uint64_t begin = clock_ms();
    job->r = exec(job->box, "wait", &job->err);
    job->took_ms = clock_ms() - begin;
    return NULL;
}

static bool job_runs(void *user) {
    struct job *job = user;
    return wire_calls(job->box->wire) > 0;
}

static void job_start(struct job *job, struct box *box) {
    *job = (struct job){.box = box};
    pthread_create(&job->thread, NULL, job_main, job);
    must(eventually(job_runs, job), "a command runs");
}

/* ---- tests ---- */

static void test_joined(struct laptop *laptop) {
    struct err err;
    struct box *box, *again, *other;
    bool resumed;
    must(laptop_connect(laptop, true, &resumed, &err) == 0, "a machine joins");
    must(eventually(laptop_online, laptop), "it is online");
    ok(!resumed && strlen(laptop->session) == 32, "a machine that joins gets a session of its own");
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    ok(strcmp(box->thread, "machine:laptop") == 0 && strcmp(box->ops->name, "remote") == 0,
       "the box of a machine has its thread and backend remote");
    ok(strcmp(box_workspace(box), "/home/ann/project") == 0, "its workspace is the machine's own");
    ok(exec(box, "go", &err) == 3, "a command runs there");
    must(acquire("ann", NULL, "machine:laptop", &again, &err) == 0, err.text);
    ok(again == box && laptop->starts == 1, "the thread alone finds the same box");
    must(acquire("ann", "laptop", "chat", &other, &err) == 0, err.text);
    ok(other != box && laptop->starts == 2, "with a thread it is another box on the same machine");
    provider_put(provider, other);
    must(acquire("ann", NULL, "chat", &other, &err) == 0, err.text);
    ok(other->spec.machine && strcmp(other->spec.machine, "laptop") == 0, "and found again there without the machine");
    struct usage usage;
    ok_all("what a machine says it uses counts where it makes sense", box_usage(box, &usage, &err) == 0,
           usage.has_memory, usage.memory_bytes == 4096, !usage.has_pids, !usage.has_cpu);
    provider_put(provider, other);
    provider_put(provider, again);
    provider_put(provider, box);
}

static void test_words(void) {
    struct err err;
    struct box *box;
    bool created;
    ok(acquire("ann", "desk", NULL, &box, &err) == -ERR_BUSY && strstr(err.text, "'desk'"),
       "a machine that never came is BUSY, and nothing else is taken");
    ok(acquire("bob", "laptop", NULL, &box, &err) == -ERR_BUSY, "another user's machine is as one that never came");
    ok(acquire("ann", "desk", "chat", &box, &err) == -ERR_EXISTS, "a thread's box does not move to another machine");
    ok(acquire("ann", "../x", NULL, &box, &err) == -ERR_INVALID, "a machine's name has a grammar");
    ok(acquire("ann", "laptop", "machine:desk", &box, &err) == -ERR_INVALID, "a machine's thread is its own");
    struct box_request jail = {.user = "ann", .machine = "laptop", .backend = "jail"};
    ok(provider_acquire(provider, &jail, &box, &created, &err) == -ERR_INVALID, "a machine has no other backend");
    struct box_request none = {.user = "eve", .backend = "remote"};
    ok(provider_acquire(provider, &none, &box, &created, &err) == -ERR_BUSY && strstr(err.text, "'eve'"),
       "backend remote without a machine: the user's active one, BUSY without any");
    struct mount mount = {.source = "/etc", .target = "/x", .read_only = true};
    struct box_request mounts = {
        .user = "ann", .machine = "laptop", .thread = "m", .thread_len = 1, .mounts = &mount, .mount_count = 1};
    ok(provider_acquire(provider, &mounts, &box, &created, &err) == -ERR_UNSUPPORTED,
       "directories of the server are not on a machine");
}

static void test_cut(struct laptop *laptop) {
    struct err err;
    struct box *box, *other;
    struct job job;
    bool resumed = false;
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    pthread_mutex_lock(&gate);
    job_start(&job, box);
    laptop_cut(laptop, true);
    ok(!online("ann", "laptop"), "a lost connection is an offline machine at once");
    uint64_t begin = clock_ms();
    int r = provider_get(provider, "ann", box->id, &other, &err);
    ok_all("who comes meanwhile is told at once, with the reason", r == -ERR_BUSY,
           strstr(err.text, "the cable was pulled"), clock_ms() - begin < 15000);
    ok(acquire("ann", NULL, "machine:laptop", &other, &err) == -ERR_BUSY, "and so is who acquires it");
    must(laptop_connect(laptop, false, &resumed, &err) == 0, "it comes back");
    must(eventually(laptop_online, laptop), "it is online");
    ok(resumed, "a machine that names its session goes on with it");
    pthread_mutex_unlock(&gate);
    pthread_join(job.thread, NULL);
    ok(job.r == 3, "a command that was under way gets its answer");
    ok(exec(box, "go", &err) == 3 && laptop->starts == 2, "on the same runner");
    provider_put(provider, box);
}

/* Rule 2. */
static void test_second(struct laptop *laptop) {
    struct err err;
    struct machines_counts before, after;
    struct box *box;
    machines_count(machines, &before);
    struct laptop twin = {.user = "ann", .name = "laptop", .lock = PTHREAD_MUTEX_INITIALIZER};
    ok(laptop_connect(&twin, true, NULL, &err) == -ERR_EXISTS && strstr(err.text, "10.0.0.9"),
       "a second machine of that name is refused while the first answers");
    machines_count(machines, &after);
    ok_all("the first was asked, and nothing happened to it", laptop->pings == 1, after.refused == before.refused + 1,
           after.connections == before.connections);
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    ok(exec(box, "go", &err) == 3, "its box goes on");
    /* The same session on a new connection, while the server takes the old one for alive. */
    pthread_t old = laptop->near_thread;
    struct carrier *near = laptop->near, *far = laptop->far;
    bool resumed = false;
    laptop->vanishes = true;
    pump_leave(laptop->pump, "another network");
    pthread_join(laptop->far_thread, NULL);
    laptop->vanishes = false;
    must(laptop_connect(laptop, false, &resumed, &err) == 0, err.text);
    pthread_join(old, NULL);
    ok(resumed && eventually(laptop_online, laptop), "the same machine takes its own place again");
    usleep(20000);
    ok(online("ann", "laptop") && exec(box, "go", &err) == 3,
       "the end of the old connection removes nothing of the new");
    close(near->fd);
    close(far->fd);
    free(near);
    free(far);
    provider_put(provider, box);
}

static void test_deaf(void) {
    struct err err;
    struct laptop first = {.user = "carl", .name = "laptop", .lock = PTHREAD_MUTEX_INITIALIZER};
    struct laptop second = first;
    must(laptop_connect(&first, true, NULL, &err) == 0, err.text);
    must(eventually(laptop_online, &first), "it is online");
    first.deaf = true;
    uint64_t begin = clock_ms();
    int r = laptop_connect(&second, true, NULL, &err);
    ok(r == 0 && clock_ms() - begin >= MACHINE_ANSWER_MS, "one that does not answer loses its place to the next");
    laptop_cut(&first, false);
    ok(first.ended.code == ERR_GONE && strstr(first.ended.text, "did not answer"), "and hears why");
    ok(eventually(laptop_online, &second), "which is online");
    laptop_cut(&second, true);
    laptop_done(&first);
    laptop_done(&second);
}

static bool owes_nothing(void *user) {
    struct laptop *laptop = user;
    pthread_mutex_lock(&laptop->lock);
    bool done = laptop->removals == 1;
    pthread_mutex_unlock(&laptop->lock);
    return done;
}

static bool owed_file_gone(void *user) {
    char path[200];
    snprintf(path, sizeof path, "%s/owed/%s", state_dir, (const char *)user);
    return access(path, F_OK) != 0;
}

static bool box_back(void *user) {
    struct box *box;
    struct err err;
    if (provider_look(provider, "ann", user, &box, &err) < 0)
        return false;
    bool back = box->wire && !box->died[0];
    provider_look_end(provider, box);
    return back;
}

static void test_away(struct laptop *laptop) {
    struct err err;
    struct box *box, *chat;
    struct job job;
    bool resumed = true;
    char id[17];
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    must(acquire("ann", "laptop", "chat", &chat, &err) == 0, err.text);
    memcpy(id, chat->id, sizeof id);
    provider_put(provider, chat);
    pthread_mutex_lock(&gate);
    job_start(&job, box);
    laptop_cut(laptop, true);
    pthread_join(job.thread, NULL);
    ok_all("after the grace time a call fails, with the reason", job.r == -ERR_GONE,
           strstr(job.err.text, "did not come back"), job.took_ms >= 1000);
    pthread_mutex_unlock(&gate);
    provider_put(provider, box);
    unsigned starts = laptop->starts;
    ok_all("a box whose machine is offline can be deleted; the machine is owed the word",
           provider_destroy(provider, "ann", id, &err) == 0, laptop->removals == 0, !owed_file_gone(id));
    ok(provider_look(provider, "ann", id, &box, &err) == -ERR_NOT_FOUND, "and is gone for everybody");
    must(laptop_connect(laptop, false, &resumed, &err) == 0, "it comes back");
    must(eventually(laptop_online, laptop), "it is online");
    ok(!resumed, "the old session is over");
    ok(eventually(owes_nothing, laptop) && eventually(owed_file_gone, id),
       "the machine hears of the deletion when it is back");
    char own[17];
    policy_id("ann", "machine:laptop", 14, own);
    ok(eventually(box_back, own) && laptop->starts == starts,
       "what lived on there is found again by itself, not started");
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    ok(exec(box, "go", &err) == 3, "and works");
    provider_put(provider, box);
}

static void test_lies(struct laptop *laptop) {
    struct err err;
    struct box *box;
    laptop->babbles = true;
    ok(acquire("ann", "laptop", "babble", &box, &err) == -ERR_PROTOCOL, "an answer that is none is a broken protocol");
    laptop->babbles = false;
    ok(acquire("ann", "laptop", "babble", &box, &err) == 0, "and for that question only");
    provider_put(provider, box);
    must(acquire("ann", "laptop", NULL, &box, &err) == 0, err.text);
    struct job job;
    pthread_mutex_lock(&gate);
    job_start(&job, box);
    pump_open(laptop->pump, 4000000, -1); /* a channel that nobody asked for */
    pump_shut(laptop->pump, 4000000, "surprise");
    laptop_cut(laptop, false);
    ok(laptop->ended.code == ERR_PROTOCOL, "a machine that breaks the rules loses its connection");
    pthread_join(job.thread, NULL);
    ok(job.r == -ERR_GONE && job.took_ms < 15000, "and its session, at once");
    pthread_mutex_unlock(&gate);
    provider_put(provider, box);
    bool resumed = true;
    must(laptop_connect(laptop, false, &resumed, &err) == 0, err.text);
    ok(!resumed && eventually(laptop_online, laptop), "it may begin anew");
}

static bool stopped(void *user) {
    struct laptop *laptop = user;
    pthread_mutex_lock(&laptop->lock);
    bool done = laptop->stops == 1;
    pthread_mutex_unlock(&laptop->lock);
    return done;
}

static void test_idle(struct laptop *laptop) {
    struct err err;
    struct box *box;
    bool created;
    char id[17], own[17];
    struct box_request request = {.user = "ann",
                                  .machine = "laptop",
                                  .thread = "idle",
                                  .thread_len = 4,
                                  .has_idle_timeout = true,
                                  .idle_timeout_ms = 50};
    unsigned starts = laptop->starts;
    laptop->stops = 0;
    must(provider_acquire(provider, &request, &box, &created, &err) == 0, err.text);
    memcpy(id, box->id, sizeof id);
    provider_put(provider, box);
    ok(eventually(stopped, laptop) && laptop->removals == 1, "an idle box on a machine is ended there, its files stay");
    must(provider_get(provider, "ann", id, &box, &err) == 0, err.text);
    ok(exec(box, "go", &err) == 3 && laptop->starts == starts + 2, "and is started again when it is used");
    provider_put(provider, box);
    /* The machine itself never is: it is not the server's to end. */
    struct box_request machine = {.user = "ann", .machine = "laptop", .has_idle_timeout = true, .idle_timeout_ms = 50};
    policy_id("ann", "machine:laptop", 14, own);
    must(provider_destroy(provider, "ann", own, &err) == 0, err.text);
    must(provider_acquire(provider, &machine, &box, &created, &err) == 0, err.text);
    provider_put(provider, box);
    usleep(1500000); /* longer than the turn of whoever ends idle boxes */
    ok(created && box_back(own), "the machine's own box is never idle");
}

static void test_silent(struct laptop *laptop) {
    struct err err;
    struct box *box;
    struct usage usage;
    must(acquire("ann", "laptop", "mute", &box, &err) == 0, err.text);
    laptop->deaf = true;
    uint64_t begin = clock_ms();
    int first = box_usage(box, &usage, &err);
    uint64_t middle = clock_ms();
    int second = box_usage(box, &usage, &err);
    ok_all("who looks at many boxes waits a moment for a silent machine, and only once", first == 0, second == 0,
           !usage.has_memory, middle - begin < 20000, clock_ms() - middle < middle - begin);
    laptop->deaf = false;
    provider_put(provider, box);
}

static void test_many(void) {
    struct err err;
    struct laptop second = {.user = "ann", .name = "desk", .lock = PTHREAD_MUTEX_INITIALIZER};
    struct laptop third = {.user = "ann", .name = "attic", .lock = PTHREAD_MUTEX_INITIALIZER};
    struct laptop other = {.user = "bob", .name = "laptop", .lock = PTHREAD_MUTEX_INITIALIZER};
    must(laptop_connect(&second, true, NULL, &err) == 0, "another machine");
    ok(laptop_connect(&third, true, NULL, &err) == -ERR_LIMIT, "a user has so many machines at most");
    ok(laptop_connect(&other, true, NULL, &err) == 0, "another user may have one of the same name");
    must(eventually(laptop_online, &other), "it is online");
    struct box *box;
    must(acquire("bob", "laptop", NULL, &box, &err) == 0, err.text);
    ok(other.starts == 1, "a box goes to the machine of its own user");
    provider_put(provider, box);
    machines_leave(machines, "ann", "desk", true, "its token was revoked");
    laptop_cut(&second, false);
    ok(second.ended.code == ERR_GONE && strcmp(second.ended.text, "its token was revoked") == 0,
       "a machine that is sent away hears why");
    laptop_cut(&other, true);
    laptop_done(&second);
    laptop_done(&third);
    laptop_done(&other);
}

static void test_restart(struct laptop *laptop) {
    struct err err;
    struct box *box;
    unsigned starts = laptop->starts;
    char own[17];
    policy_id("ann", "machine:laptop", 14, own);
    laptop_cut(laptop, true);
    house_close();
    house_open(60000);
    must(provider_look(provider, "ann", own, &box, &err) == 0, err.text);
    ok(strcmp(box_workspace(box), "/home/ann/project") == 0, "the next daemon knows where a machine's box is");
    provider_look_end(provider, box);
    ok(provider_get(provider, "ann", own, &box, &err) == -ERR_BUSY, "and that it cannot be reached");
    must(laptop_connect(laptop, false, NULL, &err) == 0, err.text);
    must(eventually(laptop_online, laptop), "it is online");
    must(provider_get(provider, "ann", own, &box, &err) == 0, err.text);
    ok(laptop->starts == starts && exec(box, "go", &err) == 3, "what lived on is found by the next daemon");
    provider_put(provider, box);
    laptop_cut(laptop, true);
    house_close();
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    must(mkdtemp(state_dir) != NULL, "a state directory");
    struct laptop laptop = {.user = "ann", .name = "laptop", .lock = PTHREAD_MUTEX_INITIALIZER};
    house_open(1000);
    test_joined(&laptop);
    test_words();
    test_cut(&laptop);
    test_second(&laptop);
    test_away(&laptop);
    test_lies(&laptop);
    test_idle(&laptop);
    test_silent(&laptop);
    test_many();
    test_deaf();
    ok_all("whoever wants to hears of coming and going", greetings > 3, greetings_again >= 2, farewells > 3);
    test_restart(&laptop);
    laptop_done(&laptop);
    removal_tree(AT_FDCWD, state_dir);
    return tap_end();
}
