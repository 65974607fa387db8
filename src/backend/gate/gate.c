/* The daemon's side of the gate (gate.h). A thread reads what the gate sends and starts a new one when it ends; callers
 * send under the lock and wait for the answer. Invariants: a box is in the list from gate_box_put on, whether or not
 * the gate took it, so that a new gate gets the newest policy; a gate that says what no gate says is killed. */
#include "backend/gate/gate.h"
#include "backend/gate/far.h"
#include "backend/gate/wall.h"

#include <sys/mman.h>

#include "backend/cgroup.h"
#include "backend/ids.h"
#include "backend/places.h"
#include "backend/spawn.h"
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"

enum { GATE_BACK_OFF_MS = 100, GATE_BACK_OFF_MOST_MS = 5000, GATE_STEADY_MS = 10000, GATE_FAR_BACK_OFF_MOST_MS = 1000 };

struct gate_box {
    struct gate_box *next;
    char id[17];
    uint64_t generation, acked;
    bool keep, refused;
    char why[GATE_NAME_BYTES + 1]; /* refused by a machine */
    bool sealing;                  /* a seal of it is being made */
    uint64_t seals_since_ms;       /* how many were made since */
    unsigned seals;
    unsigned cut;
    char *json;
    struct gate_sockets sockets;
};

struct gate {
    /* Of another machine: it is dialed, not started, and its sockets are there. */
    int (*dial)(void *user, struct err *err);
    void *dial_user;
    uint64_t dials;    /* so far */
    struct err dialed; /* why the last one failed; code 0: it did not */
    bool wanted;       /* now rather than later */
    unsigned patience_ms;
    char program[PATH_MAX], root[PATH_MAX];
    char *hello; /* JSON */
    int tallies_fd;
    const _Atomic uint64_t *tallies;
    uid_t uid;
    unsigned slot; /* whose ids the gate has; valid with claimed */
    bool claimed;
    struct cgroup_host cgroups;
    struct cgroup cgroup; /* of its memory; name "": none */
    struct gate_hooks hooks;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, ready, closing;
    int socket; /* -1: no gate runs */
    pid_t pid;
    uint64_t restarts, counted; /* counted: answers to GATE_COUNT so far */
    struct gate_count count;
    struct gate_box *boxes;
    pthread_mutex_t counting; /* one GATE_COUNT at a time */
};

/* ---- sending ---- */

static int gate_memfd(const char *json) {
    autofd fd = memfd_create("policy", MFD_CLOEXEC);
    return fd >= 0 && fd_write_all(fd, json, strlen(json)) == 0 ? fd_take(&fd) : -1;
}

/* false: the gate is gone or does not read. Locked. */
static bool gate_send(struct gate *gate, const struct gate_message *message, const int *fds, size_t count) {
    char control[CMSG_SPACE(sizeof(int) * GATE_FDS)] = {0};
    if (gate->dial)
        return gate->socket >= 0 && far_send(gate->socket, message, NULL, 0);
    struct iovec part = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * count);
    }
    return gate->socket >= 0 && sendmsg(gate->socket, &header, MSG_NOSIGNAL) == (ssize_t)sizeof *message;
}

static struct gate_message gate_message(enum gate_kind kind, const char *id) {
    struct gate_message message = {.version = GATE_WIRE_VERSION, .kind = (uint16_t)kind};
    snprintf(message.id, sizeof message.id, "%s", id ? id : "");
    return message;
}

static bool gate_send_box(struct gate *gate, const struct gate_box *box, bool sockets) {
    struct gate_message message = gate_message(GATE_BOX, box->id);
    if (gate->dial) {
        message.generation = box->generation;
        message.keep = box->keep;
        return gate->socket >= 0 && far_send(gate->socket, &message, box->json, strlen(box->json));
    }
    int fds[GATE_FDS];
    size_t count = 0;
    autofd memfd = gate_memfd(box->json);
    const struct gate_sockets *own = &box->sockets;
    const int four[] = {own->tcp, own->dns_udp, own->dns_tcp, own->diag};
    message.generation = box->generation;
    message.keep = box->keep;
    fds[count++] = memfd;
    for (size_t i = 0; sockets && i < 4; i++) {
        message.value |= four[i] >= 0 ? 1u << i : 0;
        if (four[i] >= 0)
            fds[count++] = four[i];
    }
    for (size_t i = 0; sockets && i < own->udp_count; i++)
        fds[count++] = own->udp[i];
    return memfd >= 0 && gate_send(gate, &message, fds, count);
}

static void gate_sockets_close(struct gate_sockets *own) {
    int *const four[] = {&own->tcp, &own->dns_udp, &own->dns_tcp, &own->diag};
    for (size_t i = 0; i < 4; i++)
        fd_close(four[i]);
    for (size_t i = 0; i < own->udp_count; i++)
        fd_close(&own->udp[i]);
    own->udp_count = 0;
}

/* ---- a gate's life ---- */

/* One that cannot be limited runs without: what a box can make grow is bounded in the gate itself. */
static void gate_cgroup(struct gate *gate) {
    static const bool v1[CGROUP_CONTROLLERS] = {[CGROUP_MEMORY] = true};
    const struct limits limits = {.memory_mb = LIMIT_GATE_MEMORY_MB};
    struct err err;
    cgroup_probe(&gate->cgroups);
    if (!cgroup_can(&gate->cgroups, CGROUP_MEMORY))
        return;
    if (cgroup_make(&gate->cgroups, text_make(32, "%u", gate->slot), v1, geteuid(), &gate->cgroup, &err) < 0 ||
        cgroup_limit(&gate->cgroups, &gate->cgroup, &(struct limits){0}, &limits, &err) < 0)
        log_warn("cubby-gate has no limit of memory: %s", err.text);
}

/* Before it serves anybody. */
static void gate_cgroup_join(const struct gate *gate) {
    char path[600];
    const char *pid = text_make(16, "%d", gate->pid);
    if (!*gate->cgroup.name)
        return;
    if (*gate->cgroups.v2) {
        cgroup_path(&gate->cgroups, &gate->cgroup, "cgroup.procs", path, sizeof path);
        fd_write_file(AT_FDCWD, path, pid);
    }
    if (gate->cgroup.v1[CGROUP_MEMORY]) {
        cgroup_v1_path(&gate->cgroups, &gate->cgroup, CGROUP_MEMORY, "tasks", path, sizeof path);
        fd_write_file(AT_FDCWD, path, pid);
    }
}

static int gate_spawn(struct gate *gate, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "cannot make the gate's socket");
    const char *argv[] = {"cubby-gate", NULL};
    struct spawn spawn = {
        .program = gate->program, .argv = argv, .in = -1, .out = -1, .errors = 2, .fds = {pair[1]}, .fd_count = 1};
    int result = spawn_start(&spawn, &gate->pid, err);
    close(pair[1]);
    if (result < 0) {
        close(pair[0]);
        return result;
    }
    gate->socket = pair[0];
    gate_cgroup_join(gate);
    /* One that does not read is found out by the send: no caller waits longer for it than for an answer. */
    struct timeval patience = {.tv_sec = LIMIT_GATE_ACK_MS / 1000};
    setsockopt(gate->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    autofd memfd = gate_memfd(gate->hello);
    struct gate_message hello = gate_message(GATE_HELLO, NULL);
    if (memfd < 0 || !gate_send(gate, &hello, (int[]){memfd, gate->tallies_fd}, 2))
        return err_set(err, ERR_BUSY, "cubby-gate ended at once");
    return 0;
}

/* Not locked while it waits. */
static int gate_dial(struct gate *gate, struct err *err) {
    struct timeval patience = {.tv_sec = LIMIT_GATE_ACK_MS / 1000};
    gate->wanted = false;
    pthread_mutex_unlock(&gate->lock);
    int socket = gate->dial(gate->dial_user, err);
    pthread_mutex_lock(&gate->lock);
    gate->dials++;
    gate->dialed = socket < 0 ? *err : (struct err){0};
    gate->ready = socket >= 0;
    gate->socket = socket >= 0 ? socket : -1;
    if (socket >= 0)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    pthread_cond_broadcast(&gate->changed);
    return 0;
}

static void gate_kill(struct gate *gate) {
    if (gate->dial && gate->socket >= 0)
        shutdown(gate->socket, SHUT_RDWR);
    if (gate->pid > 0)
        kill(gate->pid, SIGKILL); /* reaped by the thread alone: the number is still this process's */
}

static struct gate_box *gate_find(struct gate *gate, const char *id) {
    return list_find(gate->boxes, box, strcmp(box->id, id) == 0);
}

static bool gate_has(struct gate *gate, const char *id) {
    autolock(&gate->lock);
    return gate_find(gate, id);
}

static bool gate_texts_end(const struct gate_row *row) {
    return memchr(row->id, 0, sizeof row->id) && memchr(row->name, 0, sizeof row->name) &&
           memchr(row->address, 0, sizeof row->address) && memchr(row->why, 0, sizeof row->why) &&
           memchr(row->method, 0, sizeof row->method) && row->kind <= GATE_ROW_LOST && row->protocol <= GATE_HTTP;
}

/* A gate asks once until it is answered, and again when a seal has ended; one that was taken over might never stop.
 * Locked. */
static bool gate_may_seal(struct gate_box *box) {
    if (clock_ms() - box->seals_since_ms >= LIMIT_GATE_SEALS_MS) {
        box->seals_since_ms = clock_ms();
        box->seals = 0;
    }
    if (box->sealing || box->seals >= LIMIT_GATE_SEALS)
        return false;
    box->seals++;
    return box->sealing = true;
}

/* A seal is made on a thread of its own: that may take a while, and other boxes go on. */
struct gate_want {
    struct gate *gate;
    char id[17], name[GATE_NAME_BYTES + 1];
};

static void *gate_seal_thread(void *argument) {
    struct gate_want *want = argument;
    struct gate *gate = want->gate;
    autofd seal = gate->hooks.seal ? gate->hooks.seal(gate->hooks.user, want->id, want->name) : -1;
    struct gate_message message = gate_message(GATE_SEAL, want->id);
    autolock(&gate->lock);
    struct gate_box *box = gate_find(gate, want->id);
    if (box)
        box->sealing = false;
    gate_send(gate, &message, &seal, seal >= 0);
    free(want);
    return NULL;
}

/* false: not what a gate says. */
static bool gate_take(struct gate *gate, const struct gate_message *message, const uint8_t *rest, size_t len) {
    if (message->version != GATE_WIRE_VERSION || !memchr(message->id, 0, sizeof message->id) ||
        !memchr(message->name, 0, sizeof message->name))
        return false;
    if (message->kind == GATE_ROWS) {
        const struct gate_row *rows = (const struct gate_row *)(const void *)rest;
        if (message->value > len / sizeof *rows || message->value * sizeof *rows != len)
            return false;
        for (size_t i = 0; i < message->value; i++) {
            if (!gate_texts_end(&rows[i]))
                return false;
            if (gate->dial && !gate_has(gate, rows[i].id)) /* a machine speaks of its own boxes */
                continue;
            if (gate->hooks.event)
                gate->hooks.event(gate->hooks.user, &rows[i]);
        }
        return true;
    }
    autolock(&gate->lock);
    struct gate_box *box = gate_find(gate, message->id);
    switch (message->kind) {
    case GATE_READY:
        gate->ready = true;
        break;
    case GATE_ACK: /* of a box that was dropped meanwhile: nobody waits */
        if (box && message->generation > box->generation)
            return false;
        if (box && message->generation == box->generation) {
            box->acked = message->generation;
            box->refused = !message->allow;
            memcpy(box->why, message->name, sizeof box->why);
            if (box->refused && !gate->dial) { /* nobody would take what the box sends: the kernel refuses it */
                log_error("cubby-gate refused the policy or the sockets of box %s", box->id);
                gate_sockets_close(&box->sockets);
            }
            box->cut = (unsigned)message->value;
        }
        break;
    case GATE_COUNTED:
        if (len != sizeof gate->count)
            return false;
        memcpy(&gate->count, rest, len);
        gate->counted++;
        break;
    case GATE_WANT_SEAL: {
        if (!box || !gate_may_seal(box)) {
            struct gate_message none = gate_message(GATE_SEAL, message->id);
            if (box && !box->sealing)
                gate_send(gate, &none, NULL, 0);
            break;
        }
        struct gate_want *want = xcalloc(1, sizeof *want);
        want->gate = gate;
        memcpy(want->id, message->id, sizeof want->id);
        memcpy(want->name, message->name, sizeof want->name);
        if (thread_detached(gate_seal_thread, want, 256 << 10) != 0) {
            box->sealing = false;
            free(want);
        }
        break;
    }
    default:
        return false;
    }
    pthread_cond_broadcast(&gate->changed);
    return true;
}

/* Reads until the gate ends. */
static void gate_listen(struct gate *gate, int socket) {
    uint8_t *bytes = xmalloc(GATE_MESSAGE_BYTES);
    for (;;) {
        ssize_t n = gate->dial ? (ssize_t)far_recv(socket, bytes, GATE_MESSAGE_BYTES)
                               : recv(socket, bytes, GATE_MESSAGE_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        struct gate_message message = {0};
        size_t head = sizeof message;
        if ((size_t)n >= head)
            memcpy(&message, bytes, head);
        if ((size_t)n < head || !gate_take(gate, &message, bytes + head, (size_t)n - head)) {
            log_error("cubby-gate%s sent what it never sends: %s", gate->dial ? " of a machine" : "",
                      gate->dial ? "asked again" : "killed");
            break;
        }
    }
    free(bytes);
}

static size_t gate_hand_over(struct gate *gate) {
    size_t count = 0;
    for (struct gate_box *box = gate->boxes; box; box = box->next)
        count += gate_send_box(gate, box, true);
    return count;
}

static void *gate_thread(void *argument) {
    struct gate *gate = argument;
    uint64_t down_ms = 0, wait_ms = GATE_BACK_OFF_MS;
    pthread_mutex_lock(&gate->lock);
    while (!gate->closing) {
        struct err err = {0};
        uint64_t begun_ms = clock_ms();
        if ((gate->dial ? gate_dial(gate, &err) : gate_spawn(gate, &err)) < 0)
            log_error("%s", err.text);
        size_t boxes = gate_hand_over(gate);
        int socket = gate->socket;
        pid_t pid = gate->pid;
        pthread_mutex_unlock(&gate->lock);
        if (down_ms && !gate->dial) {
            log_warn("cubby-gate runs again after %llu ms", (unsigned long long)(clock_ms() - down_ms));
            if (gate->hooks.restarted)
                gate->hooks.restarted(gate->hooks.user, clock_ms() - down_ms, boxes);
        }
        if (socket >= 0)
            gate_listen(gate, socket);
        down_ms = clock_ms();
        pthread_mutex_lock(&gate->lock);
        gate_kill(gate);
        gate->ready = false;
        gate->pid = -1;
        fd_close(&gate->socket);
        pthread_cond_broadcast(&gate->changed);
        pthread_mutex_unlock(&gate->lock);
        if (pid > 0)
            spawn_wait(pid);
        pthread_mutex_lock(&gate->lock);
        wait_ms = clock_ms() - begun_ms > GATE_STEADY_MS ? GATE_BACK_OFF_MS : wait_ms;
        if (!gate->closing && clock_ms() - begun_ms < GATE_STEADY_MS) {
            uint64_t until = clock_ms() + wait_ms;
            while (!gate->closing && !gate->wanted && cond_wait_until(&gate->changed, &gate->lock, until))
                ;
            uint64_t most = gate->dial ? GATE_FAR_BACK_OFF_MOST_MS : GATE_BACK_OFF_MOST_MS;
            wait_ms = wait_ms * 2 < most ? wait_ms * 2 : most;
        }
        gate->restarts += !gate->closing && !gate->dial;
    }
    pthread_mutex_unlock(&gate->lock);
    return NULL;
}

/* ---- open, close ---- */

static json_t *gate_texts(const char *const *list) {
    json_t *array = json_array();
    for (; list && *list; list++)
        json_array_append_new(array, json_string(*list));
    return array;
}

/* The host's own, loopback ones included: the gate stands in the host's namespace. */
static json_t *gate_resolvers(const char *const *chosen) {
    char text[8192], word[64];
    if (chosen && *chosen)
        return gate_texts(chosen);
    json_t *array = json_array();
    if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) < 0)
        text[0] = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (sscanf(line, "nameserver %63s", word) == 1 && json_array_size(array) < 8)
            json_array_append_new(array, json_string(word));
    return array;
}

static int gate_place(struct gate *gate, const struct gate_settings *settings, struct err *err) {
    const char *slash = strrchr(settings->runner_path, '/');
    snprintf(gate->program, sizeof gate->program, "%.*scubby-gate",
             slash ? (int)(slash - settings->runner_path + 1) : 0, settings->runner_path);
    if (access(gate->program, X_OK) < 0)
        return err_set(err, ERR_UNSUPPORTED, "a network policy needs cubby-gate next to the runner: %s is missing",
                       gate->program);
    snprintf(gate->root, sizeof gate->root, "%.4000s/gate/root", settings->state_dir);
    return places_make(gate->root, 0700, err);
}

static void gate_tallies(struct gate *gate) {
    enum { SIZE = GATE_TALLIES * sizeof *gate->tallies };
    gate->tallies_fd = memfd_create("tallies", MFD_CLOEXEC);
    void *shared = gate->tallies_fd < 0 || ftruncate(gate->tallies_fd, SIZE) < 0
                       ? MAP_FAILED
                       : mmap(NULL, SIZE, PROT_READ, MAP_SHARED, gate->tallies_fd, 0);
    gate->tallies = xchecked(shared == MAP_FAILED ? NULL : shared);
}

/* Only a second wall: without it the gate's own decision stands alone. */
static void gate_wall(const struct gate *gate, const struct gate_settings *settings, const json_t *resolvers) {
    const char *texts[GATE_HELLO_ADDRESSES + 1] = {NULL};
    for (size_t i = 0; i < json_array_size(resolvers) && i < GATE_HELLO_ADDRESSES; i++)
        texts[i] = json_string_value(json_array_get(resolvers, i));
    int r = wall_make(gate->slot, gate->uid, texts, settings->open_networks, settings->host_ports);
    if (r < 0)
        log_warn("cubby-gate has no second wall: nf_tables with nft_fib_inet and nft_reject_inet: %s", strerror(-r));
}

/* Numbers that a daemon of this directory had for its gate, and that was killed. */
static bool gate_claim_left(void *root, const struct claim *claim) {
    return strcmp(claim->state, root) == 0 && claim_dead(claim);
}

/* What a gate of this machine needs before it is started. */
static int gate_open_here(struct gate *gate, const struct gate_settings *settings, struct err *err) {
    int result = gate_place(gate, settings, err);
    if (result == 0 && geteuid() == 0) { /* a user of its own, from the numbers that no other program has */
        ids_each(gate_claim_left, gate->root);
        result = ids_claim(gate->root, &gate->slot, err);
        gate->claimed = result == 0;
        gate->uid = IDS_FIRST + gate->slot * IDS_PER_BOX;
    }
    if (result < 0)
        return result;
    json_t *hello =
        json_pack("{so,so,so,sI,ss}", "resolvers", gate_resolvers(settings->resolvers), "open_networks",
                  gate_texts(settings->open_networks), "host_ports", gate_texts(settings->host_ports), "uid",
                  (json_int_t)(gate->claimed ? gate->uid : 0), "root", gate->claimed ? gate->root : "");
    gate->hello = xchecked(json_dumps(hello, JSON_COMPACT));
    if (gate->claimed)
        gate_cgroup(gate);
    if (gate->claimed)
        gate_wall(gate, settings, json_object_get(hello, "resolvers"));
    json_decref(hello);
    gate_tallies(gate);
    return 0;
}

int gate_open(const struct gate_settings *settings, const struct gate_hooks *hooks, struct gate **ret_gate,
              struct err *err) {
    struct gate *gate = xcalloc(1, sizeof *gate);
    int result = settings->dial ? 0 : gate_open_here(gate, settings, err);
    if (result < 0) {
        free(gate);
        return result;
    }
    gate->dial = settings->dial;
    gate->dial_user = settings->dial_user;
    gate->patience_ms = settings->dial ? LIMIT_GATE_FAR_ACK_MS : LIMIT_GATE_ACK_MS;
    gate->hooks = *hooks;
    gate->socket = gate->pid = -1;
    pthread_mutex_init(&gate->lock, NULL);
    pthread_mutex_init(&gate->counting, NULL);
    cond_init(&gate->changed);
    *ret_gate = gate;
    return 0;
}

static void gate_box_free(struct gate_box *box) {
    gate_sockets_close(&box->sockets);
    free(box->json);
    free(box);
}

void gate_close(struct gate *gate) {
    if (!gate)
        return;
    pthread_mutex_lock(&gate->lock);
    gate->closing = true;
    gate_kill(gate);
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
    if (gate->started)
        pthread_join(gate->thread, NULL);
    while (gate->boxes) {
        struct gate_box *box = gate->boxes;
        gate->boxes = box->next;
        gate_box_free(box);
    }
    if (gate->claimed) {
        wall_drop(gate->slot);
        if (*gate->cgroup.name)
            cgroup_remove(&gate->cgroups, &gate->cgroup);
        ids_release(gate->slot);
    }
    if (gate->tallies) {
        munmap((void *)(uintptr_t)gate->tallies, GATE_TALLIES * sizeof *gate->tallies);
        fd_close(&gate->tallies_fd);
    }
    free(gate->hello);
    free(gate);
}

/* ---- boxes ---- */

static void gate_sockets_copy(struct gate_sockets *to, const struct gate_sockets *from) {
    const int four[] = {from->tcp, from->dns_udp, from->dns_tcp, from->diag};
    int *const into[] = {&to->tcp, &to->dns_udp, &to->dns_tcp, &to->diag};
    gate_sockets_close(to);
    for (size_t i = 0; i < 4; i++)
        *into[i] = four[i] >= 0 ? fcntl(four[i], F_DUPFD_CLOEXEC, 3) : -1;
    to->udp_count = from->udp_count < GATE_UDP_PORTS ? from->udp_count : GATE_UDP_PORTS;
    for (size_t i = 0; i < to->udp_count; i++)
        to->udp[i] = fcntl(from->udp[i], F_DUPFD_CLOEXEC, 3);
}

int gate_box_put(struct gate *gate, const char *id, uint64_t generation, const char *levels, const char *inspect,
                 const struct gate_sockets *sockets, bool keep, unsigned *ret_cut, struct err *err) {
    char *json = xasprintf("{\"levels\":%s,\"inspect\":%s}", levels, inspect ? inspect : "[]");
    if (strlen(json) > GATE_JSON_BYTES) {
        free(json);
        return err_set(err, ERR_TOO_LARGE, "the policies of a box have more than %d bytes", GATE_JSON_BYTES);
    }
    autolock(&gate->lock);
    struct gate_box *box = gate_find(gate, id);
    if (!box) {
        box = xcalloc(1, sizeof *box);
        box->sockets = (struct gate_sockets){.tcp = -1, .dns_udp = -1, .dns_tcp = -1, .diag = -1};
        snprintf(box->id, sizeof box->id, "%s", id);
        list_push(gate->boxes, box);
    }
    free(box->json);
    box->json = json;
    box->generation = generation;
    box->acked = generation - 1;
    box->keep = keep;
    if (sockets)
        gate_sockets_copy(&box->sockets, sockets);
    if (!gate->started) {
        gate->started = true;
        gate->thread = thread_joined(gate_thread, gate, 512 << 10); /* hands the box over, as all that are there */
    } else if (gate->socket >= 0 && !gate_send_box(gate, box, sockets)) {
        gate_kill(gate);
    }
    if (!ret_cut && gate->ready)
        return 0;
    if (gate->socket < 0)
        gate->wanted = true;
    pthread_cond_broadcast(&gate->changed);
    uint64_t until = clock_ms() + gate->patience_ms, dials = gate->dials;
    while ((box = gate_find(gate, id)) && box->acked != generation) {
        if (gate->dialed.code && gate->dials >= dials + 2) { /* one of them began after the question */
            *err = gate->dialed;
            return -err->code;
        }
        if (cond_wait_until(&gate->changed, &gate->lock, until))
            continue;
        gate_kill(gate);
        if (gate->dial)
            return err_set(err, ERR_BUSY,
                           "the machine did not confirm the policy within %u ms: the one before it may still hold "
                           "there; it gets this one as soon as it answers",
                           gate->patience_ms);
        return err_set(
            err, ERR_BUSY,
            "the gate did not take the policy within %u ms and was ended; the box has no network until a new "
            "one has it",
            LIMIT_GATE_ACK_MS);
    }
    if (!box)
        return err_set(err, ERR_GONE, "the box was removed");
    if (box->refused && gate->dial)
        return err_set(err, ERR_UNSUPPORTED, "the machine: %s", *box->why ? box->why : "it refused the policy");
    if (box->refused)
        return err_set(err, ERR_INTERNAL, "the gate refused the policy or the sockets of the box");
    if (ret_cut)
        *ret_cut = box->cut;
    return 0;
}

void gate_box_drop(struct gate *gate, const char *id) {
    struct gate_message message = gate_message(GATE_DROP, id);
    autolock(&gate->lock);
    struct gate_box *box = gate_find(gate, id);
    if (!box)
        return;
    list_remove(gate->boxes, box);
    gate_box_free(box);
    if (gate->socket >= 0 && !gate_send(gate, &message, NULL, 0))
        gate_kill(gate);
    pthread_cond_broadcast(&gate->changed);
}

int gate_answer(struct gate *gate, const char *id, uint64_t question, bool allow, uint64_t for_ms, struct err *err) {
    struct gate_message message = gate_message(GATE_ANSWER, id);
    message.value = question;
    message.allow = allow;
    message.generation = for_ms;
    autolock(&gate->lock);
    return gate_send(gate, &message, NULL, 0) ? 0 : err_set(err, ERR_BUSY, "the gate is not running; ask again");
}

bool gate_counts(struct gate *gate, const char *id, struct gate_count *ret_count) {
    struct gate_message message = gate_message(GATE_COUNT, id);
    autolock(&gate->counting);
    pthread_mutex_lock(&gate->lock);
    uint64_t before = gate->counted, until = clock_ms() + gate->patience_ms;
    bool fine = gate->ready && gate_send(gate, &message, NULL, 0);
    while (fine && gate->counted == before)
        fine = gate->ready && cond_wait_until(&gate->changed, &gate->lock, until);
    if (fine && ret_count)
        *ret_count = gate->count;
    pthread_mutex_unlock(&gate->lock);
    return fine;
}

uint64_t gate_refusals(struct gate *gate, const char *id) {
    static _Atomic uint64_t unknown;
    if (!gate || !gate->tallies) /* a machine has to be asked each time */
        return atomic_fetch_add(&unknown, 1);
    return atomic_load(&gate->tallies[gate_tally(id)]);
}

uint64_t gate_restarts(struct gate *gate) {
    autolock(&gate->lock);
    return gate->restarts;
}
