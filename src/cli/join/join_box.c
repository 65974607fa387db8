/* The boxes on a machine that joined: made, found again, counted and ended on the server's request. Called by the
 * connection's thread (requests) and by join.c (start and end). Invariant: a box sees only the directories that this
 * machine's user listed, whatever the server says; every box of this state directory is gone when join_boxes_close
 * returns. */
#include <jansson.h>
#include <sys/socket.h>

#include "base/base.h"
#include "backend/cgroup.h"
#include "backend/remote/transfer.h"
#include "backend/template.h"
#include "base/sync.h"
#include "tree/removal.h"
#include "box/box.h"
#include "cli/standalone.h"
#include "cli/join/join.h"

enum { ASK_STACK = 512 << 10 };

struct box_ask {
    struct join_session *session;
    uint32_t number;
    char op[16], id[17];
    json_t *body;
    struct arena arena;
    int box_fd; /* our end of the channel, once there is one */
    /* What remains to be done after the answer, with the other end of a socket whose first is box_fd. */
    int (*after)(struct join *join, struct box_ask *ask, struct err *err);
    struct transfer stream;
};

/* ---- starting ---- */

static void box_boxes_left(void *user, const char *what) {
    (void)user, (void)what; /* leftovers of a killed run are not reported */
}

static void box_boxes_found(void *user, const char *id) {
    struct join *join = user;
    if (join->box_count < LIMIT_CHANNELS)
        text_id_copy(join->boxes[join->box_count++], id);
}

static void box_template_found(void *user, const char *name) {
    struct join *join = user;
    join->templates = arena_printf(&join->cli->arena, "%s%s%s", join->templates, *join->templates ? " " : "", name);
}

int join_boxes_open(struct join *join, struct err *err) {
    join->ops = backend_find(join->isolated ? "jail" : "local");
    join->env.allow_local = !join->isolated;
    join->env.allow_weaker = (const char *const *)join->values.allow_weaker.items;
    int code = standalone_runner(&join->cli->arena, &join->env.runner_path, err)
                   ?: join->ops->open(&join->env, &join->backend, err);
    if (code < 0)
        return join->isolated ? err_wrap(err, "this machine cannot isolate boxes (`cubby doctor` says why; "
                                              "--isolation none runs them without isolation, with all your rights)")
                              : code;
    join_gate_init(join);
    join->ops->clean(join->backend, box_boxes_left, NULL);
    struct cgroup_host host;
    join->can = "";
    if (join->isolated) {
        cgroup_probe(&host);
        bool limits = true, pause = host.freeze || *host.freezer;
        for (int i = 0; i < CGROUP_CONTROLLERS; i++)
            limits = limits && cgroup_can(&host, (enum cgroup_controller)i);
        join->can = arena_printf(&join->cli->arena, "usage%s%s%s", limits ? " limits" : "", pause ? " pause" : "",
                                 geteuid() == 0 ? " network" : "");
    }
    if (join->values.worker) {
        join->templates = "base";
        if (mkdir(text_make(4300, "%s/layers", join->env.state_dir), 0700) < 0 && errno != EEXIST)
            return err_errno(err, errno, "%s/layers", join->env.state_dir);
        TRY(template_list(&join->env, box_template_found, join, err));
    }
    return join->ops->list(join->backend, box_boxes_found, join, err);
}

/* ---- ending ---- */

void join_boxes_close(struct join *join) {
    unsigned left = 0;
    struct err err;
    if (!join->backend)
        return;
    pthread_mutex_lock(&join->lock);
    while (join->asks)
        pthread_cond_wait(&join->changed, &join->lock);
    pthread_mutex_unlock(&join->lock);
    join_gate_close(join);
    if (join->values.worker) {
        join->ops->close(join->backend);
        join->backend = NULL;
        return;
    }
    do { /* ids first: a listing that is changed while it is read may name one twice or not at all */
        join->box_count = 0;
        join->ops->list(join->backend, box_boxes_found, join, &err);
        for (size_t i = 0; i < join->box_count; i++)
            if (join->ops->stop(join->backend, join->boxes[i], false, &err) < 0) {
                left++;
                err_wrap(&err, "box %s", join->boxes[i]);
                cli_fail(&err);
            }
    } while (join->box_count && !left);
    join->ops->close(join->backend);
    join->backend = NULL;
    if (!left)
        removal_tree(AT_FDCWD, join->env.state_dir);
}

/* ---- requests of the server ---- */

/* Returns its index among the boxes, or their count. */
static size_t box_boxes_at(const struct join *join, const char *id) {
    size_t at = 0;
    while (at < join->box_count && strcmp(join->boxes[at], id) != 0)
        at++;
    return at;
}

static int box_boxes_add(struct join *join, const char *id, struct err *err) {
    autolock(&join->lock);
    if (box_boxes_at(join, id) < join->box_count)
        return 0;
    size_t most = join->values.worker ? join->values.boxes : LIMIT_CHANNELS;
    if (join->box_count >= most)
        return err_set(err, ERR_LIMIT, "this machine has %zu boxes, which is the limit", join->box_count);
    text_id_copy(join->boxes[join->box_count++], id);
    return 0;
}

static void box_boxes_remove(struct join *join, const char *id) {
    autolock(&join->lock);
    size_t at = box_boxes_at(join, id);
    if (at < join->box_count)
        memmove(join->boxes[at], join->boxes[--join->box_count], 17);
}

static const char *box_text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static bool box_limit_of(const json_t *limits, const char *key, uint64_t *ret_value) {
    const json_t *value = json_object_get(limits, key);
    if (!json_is_number(value) || !(json_number_value(value) > 0) || json_number_value(value) > 1e15)
        return false;
    *ret_value = (uint64_t)json_number_value(value);
    return true;
}

static int box_ask_texts(struct box_ask *ask, const json_t *list, const char *name, struct row_texts *texts,
                         struct err *err) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return err_set(err, ERR_INVALID, "%s is a list of texts", name);
        rows_texts_add(&ask->arena, texts, text);
    }
    return 0;
}

static int box_ask_spec(struct join *join, struct box_ask *ask, struct spec *ret_spec, struct err *err) {
    const json_t *asked = json_object_get(ask->body, "spec"), *limits = json_object_get(asked, "limits");
    struct row_texts layers = {0};
    struct policy policy = {.any_mount_source = true};
    struct box_request request = {.agent = box_text_of(asked, "agent"),
                                  .shell = box_text_of(asked, "shell"),
                                  .network = box_text_of(asked, "network"),
                                  .template_name = box_text_of(asked, "template"),
                                  .mounts = join->mounts,
                                  .mount_count = join->mount_count,
                                  .no_limits = !join->isolated};
    if (!request.shell)
        request.shell = join->values.shell;
    TRY(box_ask_texts(ask, json_object_get(asked, "layers"), "layers", &layers, err));
    request.layers = layers.items;
    request.has_memory = box_limit_of(limits, "memory_mb", &request.limits.memory_mb);
    request.has_pids = box_limit_of(limits, "pids", &request.limits.pids);
    request.has_disk = box_limit_of(limits, "disk_mb", &request.limits.disk_mb);
    request.has_open_files = box_limit_of(limits, "open_files", &request.limits.open_files);
    request.has_output = box_limit_of(limits, "output_bytes", &request.limits.output_bytes);
    request.limits.cpus = json_number_value(json_object_get(limits, "cpus"));
    request.has_cpus = request.limits.cpus > 0;
    struct row_texts env = {0}; /* this machine's variables, then the server's */
    for (const char **own = join->box_env; *own; own++)
        rows_texts_add(&ask->arena, &env, *own);
    TRY(box_ask_texts(ask, json_object_get(asked, "env"), "env", &env, err));
    request.env = env.items;
    TRY(policy_spec(&policy, &request, ask->id, &ask->arena, ret_spec, err));
    if (!join->values.worker)
        ret_spec->workspace = join->workspace;
    return 0;
}

static int box_ask_start(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    struct spec spec;
    struct wire *wire;
    autofd pidfd = -1;
    TRY(box_ask_spec(join, ask, &spec, err));
    TRY(box_boxes_add(join, ask->id, err));
    int code = join->ops->stop(join->backend, ask->id, true, err)
                   ?: join->ops->start(join->backend, &spec, &wire, &pidfd, err);
    if (code < 0) {
        box_boxes_remove(join, ask->id);
        return code;
    }
    join_gate_started(join, ask->id);
    if (join->isolated &&
        !join->values.worker) { /* programs want a home that is there; where it cannot be made they do without */
        struct box box = {.spec = spec, .wire = wire, .pidfd = -1, .state = BOX_READY};
        text_id_copy(box.id, ask->id);
        box_mkdir(&box, JOIN_HOME, 0700, false, ERR_IGNORED);
    }
    code = join->ops->connect(join->backend, ask->id, &ask->box_fd, err);
    wire_unref(wire); /* not earlier: a runner without a connection ends unless it is known */
    return code;
}

static int box_ask_discover(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    int code = join->ops->connect(join->backend, ask->id, &ask->box_fd, err);
    return code == 0 ? box_boxes_add(join, ask->id, err) : code;
}

static int box_ask_stop(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    bool keep = json_is_true(json_object_get(ask->body, "keep_files"));
    join_gate_ended(join, ask->id);
    int code = join->ops->stop(join->backend, ask->id, keep, err);
    if (code == 0 && !(keep && join->values.worker)) /* a worker's boxes count while they have files */
        box_boxes_remove(join, ask->id);
    return code;
}

static int box_ask_usage(struct join *join, struct box_ask *ask, struct json *out, struct err *err) {
    struct usage usage = {0};
    TRY(join->ops->usage(join->backend, ask->id, &usage, err));
    const struct {
        const char *key;
        bool has;
        uint64_t value;
    } rows[] = {
        {"memory_bytes", usage.has_memory, usage.memory_bytes},
        {"cpu_ms", usage.has_cpu, usage.cpu_ms},
        {"pids", usage.has_pids, usage.pids},
        {"disk_bytes", usage.has_disk, usage.disk_bytes},
        {"oom_kills", usage.has_memory, usage.oom_kills},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].has)
            json_put_uint(out, rows[i].key, rows[i].value);
    return 0;
}

static int box_ask_pause(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    if (!join->ops->pause)
        return err_set(err, ERR_UNSUPPORTED, "boxes without isolation cannot be paused");
    return join->ops->pause(join->backend, ask->id, strcmp(ask->op, "pause") == 0, err);
}

static int box_ask_gate(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    return join_gate_open(join, &ask->box_fd, err);
}

/* ---- files and layers, of a worker ---- */

static int box_ask_files(struct join *join, struct box_ask *ask, struct json *out, struct err *) {
    json_put_uint(out, "files", join->ops->files(join->backend, ask->id));
    return 0;
}

static int box_ask_measure(struct join *join, struct box_ask *ask, struct json *out, struct err *err) {
    uint64_t bytes;
    TRY(join->ops->measure(join->backend, ask->id, json_is_true(json_object_get(ask->body, "layer")), &bytes, err));
    json_put_uint(out, "bytes", bytes);
    return 0;
}

/* The directory of a layer that is to be made; one that failed before is made anew. */
static int box_layer_make(struct join *join, const json_t *body, const char **ret_layer, struct err *err) {
    const char *layer = box_text_of(body, "layer");
    if (!layer || !text_id(layer))
        return err_set(err, ERR_INVALID, "'layer' is not the name of a layer");
    const char *path = text_make(4300, "%s/layers/%s", join->env.state_dir, layer);
    if (mkdir(path, 0700) < 0)
        return err_errno(err, errno, "layer %s", layer);
    *ret_layer = layer;
    return 0;
}

/* What can be copied while the box runs is copied first. */
static int box_ask_keep(struct join *join, struct box_ask *ask, struct json *out, struct err *err) {
    struct spec spec;
    struct kept kept = {0};
    const char *layer;
    bool move = json_is_true(json_object_get(ask->body, "move"));
    TRY(box_ask_spec(join, ask, &spec, err) ?: box_layer_make(join, ask->body, &layer, err));
    if (!move && join->ops->files(join->backend, ask->id) == FILES_BUSY && join->ops->keep_ahead)
        join->ops->keep_ahead(join->backend, ask->id, &kept.ahead, ERR_IGNORED);
    int r = join->ops->keep(join->backend, &spec, layer, move, &kept, err);
    if (kept.ahead)
        join->ops->keep_ahead_end(join->backend, kept.ahead);
    if (r < 0) {
        join->ops->drop_layer(join->backend, layer, ERR_IGNORED);
        return r;
    }
    json_put_bool(out, "moved", kept.moved);
    json_put_str(out, "method", kept.method);
    json_put_uint(out, "pause_us", kept.pause_us);
    json_put_uint(out, "bytes", kept.bytes);
    return 0;
}

static int box_ask_fresh(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    struct spec spec;
    const char *path = text_make(4300, "%s/boxes/%s", join->env.state_dir, ask->id);
    TRY(box_ask_spec(join, ask, &spec, err) ?: box_boxes_add(join, ask->id, err));
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "box %s", ask->id);
    return join->ops->fresh(join->backend, &spec, err);
}

static int box_ask_squash(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    static const atomic_bool never;
    const char *layer;
    struct row_texts layers = {0};
    TRY(box_ask_texts(ask, json_object_get(ask->body, "layers"), "layers", &layers, err)
            ?: box_layer_make(join, ask->body, &layer, err));
    int r = join->ops->squash(join->backend, layer, layers.items, &never, err);
    if (r < 0)
        join->ops->drop_layer(join->backend, layer, ERR_IGNORED);
    return r;
}

static int box_ask_drop_layer(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    int r = join->ops->drop_layer(join->backend, ask->id, err);
    return r == -ERR_NOT_FOUND ? 0 : r;
}

/* ---- files that go to another worker, or come from one ---- */

static int box_stream_open(struct box_ask *ask, int (*after)(struct join *join, struct box_ask *ask, struct err *err),
                           struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    ask->box_fd = pair[0];
    ask->stream = (struct transfer){.fd = pair[1], .peer = "the server"};
    ask->after = after;
    return 0;
}

static bool box_ask_layer(const struct box_ask *ask) {
    return json_is_true(json_object_get(ask->body, "layer"));
}

static int box_stream_pack(struct join *join, struct box_ask *ask, struct err *err) {
    const struct backend_stream stream = {.put = transfer_put, .user = &ask->stream};
    return join->ops->pack(join->backend, ask->id, box_ask_layer(ask), &stream, err);
}

static int box_ask_pack(struct join *, struct box_ask *ask, struct json *, struct err *err) {
    return box_stream_open(ask, box_stream_pack, err);
}

static int box_stream_unpack(struct join *join, struct box_ask *ask, struct err *err) {
    const struct backend_stream stream = {.get = transfer_get, .user = &ask->stream};
    uint64_t disk_mb = 0;
    box_limit_of(ask->body, "disk_mb", &disk_mb);
    int r = join->ops->unpack(join->backend, ask->id, box_ask_layer(ask), disk_mb, &stream, err);
    if (r < 0 && !box_ask_layer(ask))
        box_boxes_remove(join, ask->id);
    return r;
}

/* A box that lies here and is to come is one that was left: the server knows which counts. */
static int box_ask_unpack(struct join *join, struct box_ask *ask, struct json *, struct err *err) {
    if (!box_ask_layer(ask))
        TRY(join->ops->stop(join->backend, ask->id, false, err) ?: box_boxes_add(join, ask->id, err));
    return box_stream_open(ask, box_stream_unpack, err);
}

/* ---- one question ---- */

static const struct {
    const char *op;
    int (*run)(struct join *join, struct box_ask *ask, struct json *out, struct err *err);
    bool worker; /* a worker's alone */
} ask_table[] = {
    {"start", box_ask_start, false},
    {"discover", box_ask_discover, false},
    {"stop", box_ask_stop, false},
    {"usage", box_ask_usage, false},
    {"pause", box_ask_pause, false},
    {"resume", box_ask_pause, false},
    {"gate", box_ask_gate, false},
    {"files", box_ask_files, true},
    {"measure", box_ask_measure, true},
    {"keep", box_ask_keep, true},
    {"fresh", box_ask_fresh, true},
    {"squash", box_ask_squash, true},
    {"drop_layer", box_ask_drop_layer, true},
    {"pack", box_ask_pack, true},
    {"unpack", box_ask_unpack, true},
};

void join_session_unref(struct join_session *session) {
    struct join *join = session->join;
    pthread_mutex_lock(&join->lock);
    bool last = --session->refs == 0;
    pthread_mutex_unlock(&join->lock);
    if (!last)
        return;
    pump_free(session->pump);
    free(session);
}

/* Waits until no other thread works on that box, and takes a slot. */
static size_t box_ask_enter(struct join *join, const struct box_ask *ask) {
    size_t place = 0;
    autolock(&join->lock);
    for (size_t i = 0; i < JOIN_ASKS;)
        if (strcmp(join->asked[i], ask->id) == 0) {
            pthread_cond_wait(&join->changed, &join->lock);
            i = 0;
        } else {
            i++;
        }
    while (*join->asked[place]) /* one is free, because join->asks is bounded */
        place++;
    memcpy(join->asked[place], ask->id, sizeof ask->id);
    return place;
}

static void *box_ask_thread(void *user) {
    struct box_ask *ask = user;
    struct join *join = ask->session->join;
    arena_init(&ask->arena);
    size_t place = box_ask_enter(join, ask);
    /* Opens the channel first: its bytes may arrive as soon as the server has the answer. */
    struct err err;
    autobuf out = buf_max(16384);
    struct json json = json_begin(&out);
    size_t row = 0, rows = sizeof ask_table / sizeof *ask_table;
    json_put_bool(&json, "ok", true);
    while (row < rows && strcmp(ask->op, ask_table[row].op) != 0)
        row++;
    int code = row < rows && (join->values.worker || !ask_table[row].worker)
                   ? ask_table[row].run(join, ask, &json, &err)
                   : err_set(&err, ERR_UNSUPPORTED, "this machine does not know '%s'", ask->op);
    json_close(&json, '}');
    if (code < 0) {
        buf_clear(&out);
        json_init(&json, &out);
        json_failure(&json, err_name(err.code), err.text);
    }
    if (code == 0 && ask->box_fd >= 0)
        pump_open(ask->session->pump, ask->number, fd_take(&ask->box_fd));
    pump_answer(ask->session->pump, ask->number, out.data, out.len);
    if (code == 0 && ask->after)
        transfer_end(&ask->stream, ask->after(join, ask, &err), &err);
    if (ask->after)
        fd_close(&ask->stream.fd);
    pthread_mutex_lock(&join->lock);
    *join->asked[place] = 0;
    pthread_mutex_unlock(&join->lock);
    fd_close(&ask->box_fd);
    json_decref(ask->body);
    arena_done(&ask->arena);
    join_session_unref(ask->session);
    free(ask);
    pthread_mutex_lock(&join->lock); /* must be last: a waiting thread may end the process */
    join->asks--;
    pthread_cond_broadcast(&join->changed);
    pthread_mutex_unlock(&join->lock);
    return NULL;
}

static int box_ask_read(struct box_ask *ask, const void *json, size_t len, struct err *err) {
    const char *op, *id;
    json_error_t bad;
    ask->body = json_loadb(json, len, JSON_REJECT_DUPLICATES, &bad);
    if (!ask->body || json_unpack(ask->body, "{s:s,s:s}", "op", &op, "id", &id) < 0)
        return err_set(err, ERR_INVALID, "the request is not an object with op and id");
    if (!text_id(id) || strlen(op) >= sizeof ask->op)
        return err_set(err, ERR_INVALID, "'%.40s' is not a box id, or '%.40s' is not an operation", id, op);
    text_id_copy(ask->id, id);
    memcpy(ask->op, op, strlen(op) + 1);
    return 0;
}

static int box_ask_spawn(struct join *join, struct box_ask *ask, struct err *err) {
    pthread_mutex_lock(&join->lock);
    bool room = join->asks < JOIN_ASKS && !join->ending;
    join->asks += room;
    ask->session->refs += room;
    pthread_mutex_unlock(&join->lock);
    if (!room)
        return err_set(err, ERR_BUSY, "this machine is leaving, or has %u requests running, which is the limit",
                       JOIN_ASKS);
    int number = thread_detached(box_ask_thread, ask, ASK_STACK);
    if (number == 0)
        return 0;
    pthread_mutex_lock(&join->lock);
    join->asks--;
    ask->session->refs--;
    pthread_mutex_unlock(&join->lock);
    return err_errno(err, number, "a thread");
}

void join_ask(void *user, uint32_t number, const void *json, size_t len) {
    struct join_session *session = user;
    struct box_ask *ask = xcalloc(1, sizeof *ask);
    struct err err;
    *ask = (struct box_ask){.session = session, .number = number, .box_fd = -1};
    int code = box_ask_read(ask, json, len, &err);
    if (code == 0)
        code = box_ask_spawn(session->join, ask, &err);
    if (code == 0)
        return;
    autobuf out;
    buf_init(&out, 8192);
    struct json writer = {.out = &out};
    json_failure(&writer, err_name(err.code), err.text);
    pump_answer(session->pump, number, out.data, out.len);
    json_decref(ask->body);
    free(ask);
}
