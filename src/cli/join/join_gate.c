/* Network policies of boxes on this machine: its own cubby-gate enforces them, the server sends them and gets the
 * reports, over one channel of the link (backend/gate/far.h). Called by join_box.c. Invariants: what the server sent last
 * holds while it is away; the gate's thread never waits for the link; a box whose policy this machine cannot enforce
 * has no route. */
#include <jansson.h>
#include <sys/socket.h>

#include "backend/gate/far.h"
#include "backend/gate/served.h"
#include "base/base.h"
#include "base/json.h"
#include "base/sync.h"
#include "cli/join/join.h"

enum { GATE_STACK = 512 << 10, GATE_QUEUE_BYTES = 1 << 20, GATE_DEPTH = 16, GATE_VALUES = 20000 };

struct gate_entry_of { /* a box that started here, or is served */
    struct gate_entry_of *next;
    char id[17];
    bool fresh, on; /* fresh: nothing of it was ever wired */
    struct served served;
};

struct join_gate {
    pthread_mutex_t work; /* one policy at a time; guards entries and gate */
    struct gate_entry_of *entries;
    struct gate *gate; /* NULL: no policy yet */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int channel;      /* -1: the server has none open */
    bool running;     /* the threads of one */
    struct buf queue; /* whole messages for the server */
    uint64_t lost;    /* rows that did not fit */
};

/* ---- to the server ---- */

static bool gate_queue_locked(struct join_gate *own, const struct gate_message *message, const void *more, size_t len) {
    uint32_t size = (uint32_t)(sizeof *message + len);
    if (own->queue.len + size + sizeof size > GATE_QUEUE_BYTES)
        return false;
    buf_put(&own->queue, &size, sizeof size);
    buf_put(&own->queue, message, sizeof *message);
    buf_put(&own->queue, more, len);
    pthread_cond_broadcast(&own->changed);
    return true;
}

static bool gate_queue(struct join_gate *own, const struct gate_message *message, const void *more, size_t len) {
    autolock(&own->lock);
    return gate_queue_locked(own, message, more, len);
}

static struct gate_message gate_reply(enum gate_kind kind, const char *id) {
    struct gate_message message = {.version = GATE_WIRE_VERSION, .kind = (uint16_t)kind};
    text_id_copy(message.id, id);
    return message;
}

/* On the gate's thread. */
static void gate_row_taken(void *user, const struct gate_row *row) {
    struct join_gate *own = user;
    struct gate_message message = gate_reply(GATE_ROWS, row->id);
    struct gate_row rows[2] = {*row, {.kind = GATE_ROW_LOST, .denied = true}};
    autolock(&own->lock);
    memcpy(rows[1].id, row->id, sizeof row->id);
    rows[1].count = own->lost;
    message.value = own->lost ? 2 : 1;
    if (gate_queue_locked(own, &message, rows, message.value * sizeof *rows))
        own->lost = 0;
    else
        own->lost += row->count ? row->count : 1;
}

static void *gate_writer(void *argument) {
    struct join_gate *own = argument;
    pthread_mutex_lock(&own->lock);
    int channel = own->channel;
    while (own->channel == channel && channel >= 0) {
        if (!own->queue.len) {
            pthread_cond_wait(&own->changed, &own->lock);
            continue;
        }
        struct buf out = own->queue;
        buf_init(&own->queue, GATE_QUEUE_BYTES);
        pthread_mutex_unlock(&own->lock);
        size_t at = 0;
        for (ssize_t n; at < out.len && (n = send(channel, out.data + at, out.len - at, MSG_NOSIGNAL)) > 0;)
            at += (size_t)n;
        bool sent = at == out.len;
        buf_done(&out);
        pthread_mutex_lock(&own->lock);
        if (!sent)
            break;
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

/* ---- boxes ---- */

static struct gate_entry_of *gate_entry_find(struct join_gate *own, const char *id) {
    return list_find(own->entries, entry, strcmp(entry->id, id) == 0);
}

static void gate_entry_drop(struct join *join, const char *id, bool unwire) {
    struct join_gate *own = join->gate;
    struct gate_entry_of *entry = gate_entry_find(own, id);
    if (!entry)
        return;
    if (own->gate)
        gate_box_drop(own->gate, id);
    if (unwire && entry->on)
        served_unwire(join->ops, join->backend, id, ERR_IGNORED);
    list_remove(own->entries, entry);
    free(entry);
}

static struct gate_entry_of *gate_entry_add(struct join_gate *own, const char *id, bool fresh) {
    struct gate_entry_of *entry = xcalloc(1, sizeof *entry);
    text_id_copy(entry->id, id);
    entry->fresh = fresh;
    list_push(own->entries, entry);
    return entry;
}

void join_gate_started(struct join *join, const char *id) {
    autolock(&join->gate->work);
    gate_entry_drop(join, id, false);
    gate_entry_add(join->gate, id, true);
}

void join_gate_ended(struct join *join, const char *id) {
    autolock(&join->gate->work);
    gate_entry_drop(join, id, false);
}

/* ---- from the server ---- */

static int gate_start(struct join *join, struct err *err) {
    struct join_gate *own = join->gate;
    const struct gate_settings settings = {.runner_path = join->env.runner_path,
                                           .state_dir = join->env.state_dir,
                                           .open_networks = join->env.open_networks};
    const struct gate_hooks hooks = {.event = gate_row_taken, .user = own};
    return own->gate ? 0 : gate_open(&settings, &hooks, &own->gate, err);
}

static int gate_put_levels(struct join *join, const struct gate_message *message, const json_t *levels,
                           struct gate_policy *policies[GATE_LEVELS], struct served_ports *ports, struct err *err) {
    if (json_array_size(levels) > GATE_LEVELS)
        return err_set(err, ERR_INVALID, "the policy of box %s has more than %d levels", message->id, GATE_LEVELS);
    for (size_t i = 0; i < json_array_size(levels); i++) {
        autobuf warnings = buf_max(GATE_POLICY_BYTES);
        TRY(gate_policy_parse(json_array_get(levels, i), &policies[i], &warnings, err));
        for (size_t k = 0; k < policies[i]->allow.count; k++)
            if (gate_entry_inspects(&policies[i]->allow.items[k]))
                return err_set(err, ERR_UNSUPPORTED,
                               "'%.80s' has rules about requests, for which TLS is opened; that is done on the server "
                               "alone",
                               policies[i]->allow.items[k].text);
    }
    return gate_start(join, err) ?: served_ports(policies, ports, err);
}

static int gate_put_box(struct join *join, const struct served_rules *box, unsigned *ret_cut, struct err *err) {
    struct gate_entry_of *entry = gate_entry_find(join->gate, box->id);
    if (entry && entry->on && served_fits(&entry->served, box->ports))
        return served_change(box, ret_cut, err);
    struct served_rules begun = *box;
    begun.fresh = entry && entry->fresh;
    if (entry && entry->on)
        gate_box_drop(box->gate, box->id);
    if (!entry)
        entry = gate_entry_add(join->gate, box->id, false);
    entry->fresh = false;
    TRY(served_begin(&begun, &entry->served, err));
    entry->on = true;
    return 0;
}

static int gate_put(struct join *join, const struct gate_message *message, const uint8_t *more, size_t len,
                    unsigned *ret_cut, struct err *err) {
    struct gate_policy *policies[GATE_LEVELS] = {NULL};
    struct served_ports ports;
    bool fits = json_measure((const char *)more, len, GATE_DEPTH, GATE_VALUES) == JSON_FITS;
    json_auto_t *rules = fits ? json_loadb((const char *)more, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *inspect = json_object_get(rules, "inspect");
    int r = !rules ? err_set(err, ERR_INVALID, "the policy of box %s is not JSON, or too large", message->id)
            : json_array_size(inspect)
                ? err_set(err, ERR_UNSUPPORTED, "secrets are swapped on the server's own machines alone")
                : gate_put_levels(join, message, json_object_get(rules, "levels"), policies, &ports, err);
    char *levels = r == 0 ? json_dumps(json_object_get(rules, "levels"), JSON_COMPACT) : NULL;
    const struct served_rules box = {.gate = join->gate->gate,
                                     .ops = join->ops,
                                     .backend = join->backend,
                                     .id = message->id,
                                     .generation = message->generation,
                                     .levels = levels ? levels : "[]",
                                     .ports = &ports,
                                     .keep = message->keep};
    if (r == 0)
        r = gate_put_box(join, &box, ret_cut, err);
    free(levels);
    for (size_t i = 0; i < GATE_LEVELS; i++)
        gate_policy_free(policies[i]);
    return r;
}

/* False: not what a server says. */
static bool gate_take_message(struct join *join, const struct gate_message *message, const uint8_t *more, size_t len) {
    struct join_gate *own = join->gate;
    struct gate_count count = {0};
    struct err err = {0};
    bool id = memchr(message->id, 0, sizeof message->id) && text_id(message->id);
    if (message->version != GATE_WIRE_VERSION || (!id && (message->kind != GATE_COUNT || message->id[0])))
        return false;
    struct gate_message reply = gate_reply(message->kind == GATE_COUNT ? GATE_COUNTED : GATE_ACK, message->id);
    unsigned cut = 0;
    autolock(&own->work);
    switch (message->kind) {
    case GATE_BOX:
        reply.allow = gate_put(join, message, more, len, &cut, &err) == 0;
        reply.generation = message->generation;
        reply.value = cut;
        if (!reply.allow)
            snprintf(reply.name, sizeof reply.name, "%.253s", err.text);
        break;
    case GATE_COUNT: /* when it is answered, every row before it is in the queue */
        if (own->gate)
            gate_counts(own->gate, message->id[0] ? message->id : NULL, &count);
        break;
    case GATE_DROP:
        gate_entry_drop(join, message->id, true);
        return true;
    case GATE_ANSWER:
        if (own->gate)
            gate_answer(own->gate, message->id, message->value, message->allow, message->generation, ERR_IGNORED);
        return true;
    case GATE_SEAL:
        return true;
    default:
        return false;
    }
    return gate_queue(own, &reply, &count, message->kind == GATE_COUNT ? sizeof count : 0);
}

static void *gate_reader(void *argument) {
    struct join *join = argument;
    struct join_gate *own = join->gate;
    uint8_t *bytes = xmalloc(FAR_BYTES);
    pthread_mutex_lock(&own->lock);
    int channel = own->channel;
    pthread_mutex_unlock(&own->lock);
    pthread_t writer = thread_joined(gate_writer, own, GATE_STACK);
    for (size_t n; (n = far_recv(channel, bytes, FAR_BYTES));) {
        struct gate_message message;
        memcpy(&message, bytes, sizeof message);
        if (!gate_take_message(join, &message, bytes + sizeof message, n - sizeof message))
            break;
    }
    free(bytes);
    pthread_mutex_lock(&own->lock);
    own->channel = -1;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    shutdown(channel, SHUT_RDWR);
    pthread_join(writer, NULL);
    close(channel);
    autolock(&own->lock);
    own->running = false;
    pthread_cond_broadcast(&own->changed);
    return NULL;
}

static void gate_hang_up_locked(struct join_gate *own) {
    if (own->channel >= 0)
        shutdown(own->channel, SHUT_RDWR);
    while (own->running)
        pthread_cond_wait(&own->changed, &own->lock);
}

int join_gate_open(struct join *join, int *ret_fd, struct err *err) {
    struct join_gate *own = join->gate;
    int pair[2];
    if (!join->isolated)
        return err_set(err, ERR_UNSUPPORTED,
                       "boxes without isolation have this machine's network; a policy needs --isolation jail");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autolock(&own->lock);
    gate_hang_up_locked(own); /* the server has begun anew */
    own->channel = pair[1];
    own->running = thread_detached(gate_reader, join, GATE_STACK) == 0;
    if (!own->running) {
        fd_close(&own->channel);
        close(pair[0]);
        return err_set(err, ERR_LIMIT, "no thread for network policies");
    }
    *ret_fd = pair[0];
    return 0;
}

void join_gate_init(struct join *join) {
    struct join_gate *own = xcalloc(1, sizeof *own);
    pthread_mutex_init(&own->work, NULL);
    pthread_mutex_init(&own->lock, NULL);
    cond_init(&own->changed);
    buf_init(&own->queue, GATE_QUEUE_BYTES);
    own->channel = -1;
    join->gate = own;
}

void join_gate_close(struct join *join) {
    struct join_gate *own = join->gate;
    pthread_mutex_lock(&own->lock);
    gate_hang_up_locked(own);
    pthread_mutex_unlock(&own->lock);
    gate_close(own->gate);
    while (own->entries) {
        struct gate_entry_of *entry = own->entries;
        own->entries = entry->next;
        free(entry);
    }
    buf_done(&own->queue);
    free(own);
    join->gate = NULL;
}
