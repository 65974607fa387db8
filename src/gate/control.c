/* What the daemon says, and the boxes (program.h). Invariants: a box's rules are replaced in one step; the ACK of a
 * generation is sent after every connection has been judged under it. Without a daemon there is no gate: the program
 * ends, and the kernel refuses what boxes send. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/sha256.h"
#include "gate/program.h"

enum { CONTROL_BOXES = 256, CONTROL_READ_ONCE = 16 };

struct gate_machine machine;
static struct watch control_watch;
static struct box *control_boxes[CONTROL_BOXES];
static struct rules *control_rules;
static _Atomic uint64_t *control_tallies;
static struct gate_count control_gone; /* of boxes that were dropped */

struct control_in {
    struct gate_message message;
    int fds[GATE_FDS];
    size_t count;
};

/* ---- bytes in and out ---- */

void control_send(enum gate_kind kind, const struct box *box, uint64_t generation, uint64_t value, bool allow,
                  const void *rest, size_t len) {
    struct gate_message message = {
        .version = GATE_WIRE_VERSION, .kind = (uint16_t)kind, .allow = allow, .generation = generation, .value = value};
    if (box)
        memcpy(message.id, box->id, sizeof message.id);
    if (kind == GATE_WANT_SEAL)
        snprintf(message.name, sizeof message.name, "%s", (const char *)rest);
    struct iovec parts[] = {{&message, sizeof message}, {(void *)(uintptr_t)rest, kind == GATE_WANT_SEAL ? 0 : len}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    if (kind != GATE_ROWS)
        report_flush();
    sendmsg(control_watch.fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 1, 0: nothing there, -1: the daemon is gone or speaks another version. */
static int control_receive(int fd, struct control_in *in, int flags) {
    char control[CMSG_SPACE(sizeof(int) * GATE_FDS)];
    struct iovec part = {&in->message, sizeof in->message};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
    in->count = 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&header); part_of; part_of = CMSG_NXTHDR(&header, part_of)) {
        if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS)
            continue;
        in->count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(in->fds, CMSG_DATA(part_of), in->count * sizeof(int));
    }
    bool fine = n == (ssize_t)sizeof in->message && in->message.version == GATE_WIRE_VERSION &&
                !(header.msg_flags & MSG_CTRUNC);
    in->message.id[sizeof in->message.id - 1] = 0;
    return fine ? 1 : -1;
}

/* The whole text of a memfd, to be freed; NULL: it is empty or too long. */
static char *control_text(int fd, size_t *ret_len) {
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || size > GATE_JSON_BYTES + 1024)
        return NULL;
    char *text = xmalloc((size_t)size);
    ssize_t n = fd_read_at(fd, text, (size_t)size, 0);
    *ret_len = n > 0 ? (size_t)n : 0;
    return text;
}

json_t *control_hello(int fd) {
    struct control_in in;
    size_t len = 0;
    if (control_receive(fd, &in, 0) != 1 || in.message.kind != GATE_HELLO || in.count != 2)
        exit(1);
    char *text = control_text(in.fds[0], &len);
    json_t *hello = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    free(text);
    control_tallies =
        mmap(NULL, GATE_TALLIES * sizeof *control_tallies, PROT_READ | PROT_WRITE, MAP_SHARED, in.fds[1], 0);
    close(in.fds[0]);
    close(in.fds[1]);
    if (!hello || control_tallies == MAP_FAILED)
        exit(1);
    return hello;
}

/* ---- rules ---- */

static void control_rules_drop(struct rules *rules) {
    if (!rules || --rules->users)
        return;
    list_remove(control_rules, rules);
    for (size_t i = 0; i < rules->count; i++)
        gate_policy_free(rules->levels[i]);
    free(rules->inspect);
    json_decref(rules->root);
    free(rules);
}

static uint64_t control_least(uint64_t a, uint64_t b) {
    return !a || (b && b < a) ? b : a;
}

/* The smallest limit of all levels counts; the box's own level says what is logged and how long a question lasts. */
static void control_rules_limits(struct rules *rules) {
    for (size_t i = 0; i < rules->count; i++) {
        const struct gate_limits *level = &rules->levels[i]->limits;
        struct gate_limits *all = &rules->limits;
        all->mbit = control_least(all->mbit, level->mbit);
        all->bytes = control_least(all->bytes, level->bytes);
        all->connections = control_least(all->connections, level->connections);
        all->per_second = control_least(all->per_second, level->per_second);
        rules->log = rules->levels[i]->log;
        rules->ask_timeout_ms = rules->levels[i]->ask_timeout_ms;
    }
    rules->limits.connections = rules->limits.connections ? rules->limits.connections : LIMIT_GATE_CONNECTIONS;
    rules->limits.per_second = rules->limits.per_second ? rules->limits.per_second : LIMIT_GATE_PER_SECOND;
    rules->ask_timeout_ms = rules->ask_timeout_ms ? rules->ask_timeout_ms : LIMIT_GATE_ASK_MS;
}

static struct rules *control_rules_make(int fd) {
    uint8_t digest[32];
    size_t len = 0;
    char *text = control_text(fd, &len);
    if (!text)
        return NULL;
    sha256(text, len, digest);
    struct rules *rules = list_find(control_rules, item, memcmp(item->digest, digest, sizeof digest) == 0);
    json_t *root = rules ? NULL : json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    if (rules)
        rules->users++;
    if (rules || !root)
        return rules;
    const json_t *levels = json_object_get(root, "levels"), *inspect = json_object_get(root, "inspect");
    rules = xcalloc(1, sizeof *rules);
    rules->users = 1;
    rules->root = root;
    memcpy(rules->digest, digest, sizeof digest);
    list_push(control_rules, rules);
    size_t count = json_array_size(levels), hosts = json_array_size(inspect);
    bool fine = count && count <= GATE_LEVELS;
    while (fine && rules->count < count)
        fine = gate_policy_parse(json_array_get(levels, rules->count), &rules->levels[rules->count], NULL,
                                 ERR_IGNORED) == 0 &&
               ++rules->count;
    rules->inspect = xcalloc(hosts + 1, sizeof *rules->inspect);
    for (size_t i = 0; i < hosts; i++)
        rules->inspect[i] = json_string_value(json_array_get(inspect, i));
    if (fine) {
        control_rules_limits(rules);
        return rules;
    }
    control_rules_drop(rules);
    return NULL;
}

/* ---- boxes ---- */

static struct box **control_bucket(const char *id) {
    return &control_boxes[gate_tally(id) % CONTROL_BOXES];
}

static struct box *control_find(const char *id) {
    return list_find(*control_bucket(id), box, strcmp(box->id, id) == 0);
}

static bool control_box_granted(const struct box *box, const struct gate_subject *subject) {
    for (const struct grant *grant = box->grants; grant && subject->name; grant = grant->next)
        if ((!subject->port || grant->port == subject->port) && grant->until_ms > loop_now_ms() &&
            strcmp(grant->name, subject->name) == 0)
            return true;
    return false;
}

void box_refused(const struct box *box) {
    atomic_fetch_add(&control_tallies[gate_tally(box->id)], 1);
}

void box_judge(const struct box *box, const struct gate_subject *subject, struct gate_verdict *ret_verdict) {
    const struct rules *rules = box->rules;
    gate_decide(&machine, (const struct gate_policy *const *)rules->levels, rules->count, rules->inspect, subject,
                ret_verdict);
    if (ret_verdict->ask && control_box_granted(box, subject)) {
        ret_verdict->allowed = true;
        ret_verdict->ask = false;
    }
    if (ret_verdict->allowed && rules->limits.bytes &&
        box->count.bytes_in + box->count.bytes_out > rules->limits.bytes) {
        ret_verdict->allowed = false;
        snprintf(ret_verdict->why, sizeof ret_verdict->why, "limit:bytes");
    }
    if (!ret_verdict->allowed)
        box_refused(box);
}

static void control_box_sockets_close(struct box *box) {
    watch_close(&box->tcp);
    watch_close(&box->dns_udp);
    watch_close(&box->dns_tcp);
    fd_close(&box->diag);
    udp_box_end(box);
}

/* The order of gate_send_box: four that may be missing, then those of UDP. */
static bool control_box_sockets(struct box *box, struct control_in *in) {
    int *const four[] = {&box->tcp.fd, &box->dns_udp.fd, &box->dns_tcp.fd, &box->diag};
    size_t at = 1;
    control_box_sockets_close(box);
    for (size_t i = 0; i < 4; i++)
        if ((in->message.value >> i & 1) && at < in->count)
            *four[i] = fd_take(&in->fds[at++]);
    box->udp = xcalloc(GATE_UDP_PORTS, sizeof *box->udp);
    for (; at < in->count && box->udp_count < GATE_UDP_PORTS; at++)
        box->udp[box->udp_count++].watch.fd = fd_take(&in->fds[at]);
    if (box->tcp.fd < 0 || box->dns_udp.fd < 0)
        return false;
    conn_begin(box);
    dns_serve_begin(box);
    udp_begin(box);
    return true;
}

static void control_box_end(struct box *box) {
    list_remove(*control_bucket(box->id), box);
    conn_box_end(box);
    dns_serve_end(box);
    control_box_sockets_close(box);
    watch_close(&box->seal);
    timer_stop(&box->throttle);
    timer_stop(&box->seal_timer);
    resolve_box_end(box);
    report_box_end(box);
    while (box->grants) {
        struct grant *grant = box->grants;
        box->grants = grant->next;
        free(grant);
    }
    uint64_t *all = (uint64_t *)&control_gone;
    const uint64_t *own = (const uint64_t *)&box->count;
    for (size_t i = offsetof(struct gate_count, connections) / sizeof *all; i < sizeof control_gone / sizeof *all; i++)
        all[i] += own[i];
    control_rules_drop(box->rules);
    loop_free(box);
}

static unsigned control_box_again(struct box *box) {
    unsigned cut = 0;
    struct conn *conn = box->conns, *next;
    for (; conn; conn = next) {
        next = conn->next;
        cut += conn_again(conn);
    }
    return cut;
}

static void control_box(struct control_in *in) {
    struct box *box = control_find(in->message.id);
    struct rules *rules = in->count ? control_rules_make(in->fds[0]) : NULL;
    if (!rules) { /* never go on with what cannot be read */
        if (box)
            control_box_end(box);
        struct box unknown = {.generation = 0};
        memcpy(unknown.id, in->message.id, sizeof unknown.id);
        control_send(GATE_ACK, &unknown, in->message.generation, 0, false, NULL, 0);
        return;
    }
    if (!box) {
        box = xcalloc(1, sizeof *box);
        memcpy(box->id, in->message.id, sizeof box->id);
        box->tcp.fd = box->dns_udp.fd = box->dns_tcp.fd = box->seal.fd = box->diag = -1;
        list_push(*control_bucket(box->id), box);
    }
    struct rules *before = box->rules;
    box->rules = rules;
    box->generation = in->message.generation;
    bool fine = in->count > 1 ? control_box_sockets(box, in) : box->tcp.fd >= 0;
    unsigned cut = 0;
    if (before) {
        pin_drop_forbidden(box);
        udp_again(box);
        cut = in->message.keep ? 0 : control_box_again(box);
        control_rules_drop(before);
    }
    control_send(GATE_ACK, box, box->generation, cut, fine, NULL, 0);
    if (!fine)
        control_box_end(box);
}

static void control_seal(struct control_in *in) {
    struct box *box = control_find(in->message.id);
    if (!box)
        return;
    conn_seal_lost(box);
    watch_close(&box->seal);
    box->seal_wanted = false;
    timer_stop(&box->seal_timer);
    if (in->count)
        box->seal.fd = fd_take(&in->fds[0]);
    conn_seal_came(box);
}

void control_want_seal(struct box *box, const char *host) {
    if (!box->seal_wanted)
        control_send(GATE_WANT_SEAL, box, box->generation, 0, false, host, 0);
    box->seal_wanted = true;
}

static void control_count(const char *id) {
    struct gate_count sum = {.boxes = 0};
    const struct box *only = *id ? control_find(id) : NULL;
    uint64_t *all = (uint64_t *)&sum;
    if (!*id)
        sum = control_gone;
    for (size_t i = 0; i < CONTROL_BOXES; i++) {
        for (struct box *box = control_boxes[i]; box; box = box->next) {
            if (*id && box != only)
                continue;
            const uint64_t *own = (const uint64_t *)&box->count;
            for (size_t k = 0; k < sizeof sum / sizeof *all; k++)
                all[k] += own[k];
            sum.boxes++;
        }
    }
    control_send(GATE_COUNTED, only, 0, 0, true, &sum, sizeof sum);
}

static void control_message(struct control_in *in) {
    struct gate_message *message = &in->message;
    struct box *box = control_find(message->id);
    switch (message->kind) {
    case GATE_BOX:
        control_box(in);
        break;
    case GATE_DROP:
        if (box)
            control_box_end(box);
        break;
    case GATE_ANSWER:
        if (box)
            conn_answered(box, message->value, message->allow, message->generation);
        break;
    case GATE_SEAL:
        control_seal(in);
        break;
    case GATE_COUNT:
        control_count(message->id);
        break;
    default:
        exit(1);
    }
}

static void control_ready(struct watch *watch, uint32_t events) {
    (void)events;
    for (int i = 0; i < CONTROL_READ_ONCE; i++) {
        struct control_in in;
        int got = control_receive(watch->fd, &in, MSG_DONTWAIT);
        if (got < 0)
            _exit(0); /* the daemon has ended */
        if (got == 0)
            return;
        control_message(&in);
        for (size_t k = 0; k < in.count; k++)
            fd_close(&in.fds[k]);
    }
}

void control_begin(int fd) {
    watch_add(&control_watch, fd, EPOLLIN, control_ready);
    control_send(GATE_READY, NULL, 0, 0, true, NULL, 0);
}
