/* Boxes that change their worker, and layers that go where they are needed. Called through backend_fleet. Invariants:
 * the head's record of a box says where it is; whatever else has its files is noted before it gets them, and is owed
 * their removal.
 *
 *   1. STATE/boxes/ID/moving names the other worker         killed here: settle owes that one a removal
 *   2. the files are packed, sent, and whole there          the same
 *   3. the caller writes the record: it is there now        killed here: settle owes the old one a removal
 *   4. the removal is owed, the box's note names the worker, the mark goes
 *
 * A copy that is owed its removal is removed before the same box may come there again. */
#include "backend/remote/remote.h"
#include "backend/remote/transfer.h"
#include "base/base.h"
#include "base/json.h"
#include "base/sync.h"

enum { MOVE_OPEN_MS = 60000, HOLDERS_BYTES = 65536 };

/* ---- who has a layer ---- */

const char **worker_holders(struct backend *backend, const char *layer, struct arena *arena) {
    char *text = arena_alloc(arena, HOLDERS_BYTES), *rest = NULL;
    size_t count = 0;
    const char *path = text_make(40, "%.16s/worker", layer);
    ssize_t len = fd_read_file(backend->layers_fd, path, text, HOLDERS_BYTES);
    const char **list = arena_alloc(arena, ((size_t)(len > 0 ? len : 0) / 2 + 2) * sizeof *list);
    for (char *name = len > 0 ? strtok_r(text, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        list[count++] = name;
    list[count] = NULL;
    return list;
}

int worker_holders_set(struct backend *backend, const char *layer, const char *const *workers, struct err *err) {
    autobuf text = buf_max(HOLDERS_BYTES - 1);
    for (; *workers; workers++)
        buf_printf(&text, "%s\n", *workers);
    int r = text.failed
                ? -E2BIG
                : fd_replace_file(backend->layers_fd, text_make(40, "%.16s/worker", layer), text.data, text.len);
    return r < 0 ? err_errno(err, -r, "noting where layer %s is", layer) : 0;
}

/* ---- one stream from worker to worker ---- */

static int move_open(struct backend *backend, const char *machine, const char *op, const char *id, bool layer,
                     uint64_t disk_mb, struct transfer *ret_stream, struct err *err) {
    struct machine_session *session;
    autobuf members = buf_max(1024);
    struct json json = {.out = &members};
    json_put_bool(&json, "layer", layer);
    json_put_uint(&json, "disk_mb", disk_mb);
    TRY(machine_session_get(backend->env->machines, MACHINE_WORKERS, machine, &session, err));
    *ret_stream = (struct transfer){.fd = -1, .peer = machine};
    int r = session->ops->open(session->connection, op, id, &members, MOVE_OPEN_MS, &ret_stream->fd, err);
    machine_session_put(session);
    return r;
}

/* Whole at the other one when it returns 0. */
static int move_files(struct backend *backend, const char *id, bool layer, uint64_t disk_mb, const char *from,
                      const char *to, struct err *err) {
    struct transfer in = {.fd = -1}, out = {.fd = -1};
    int r = move_open(backend, from, "pack", id, layer, disk_mb, &in, err);
    if (r == 0)
        r = move_open(backend, to, "unpack", id, layer, disk_mb, &out, err);
    uint8_t *data = xmalloc(TRANSFER_PIECE_BYTES);
    ssize_t n = 1;
    while (r == 0 && n > 0) {
        n = transfer_get(&in, data, TRANSFER_PIECE_BYTES, err);
        r = n < 0 ? (int)n : n > 0 ? transfer_put(&out, data, (size_t)n, err) : 0;
    }
    free(data);
    if (out.fd >= 0)
        transfer_end(&out, r, err);
    struct err theirs; /* a target that failed says why, while sending to it only breaks */
    int answered = out.fd >= 0 ? transfer_answered(&out, &theirs) : r;
    if (answered < 0 && out.fd >= 0 && (r == 0 || theirs.code != ERR_GONE)) {
        *err = theirs;
        r = answered;
    }
    fd_close(&in.fd);
    fd_close(&out.fd);
    return r;
}

static bool move_online(struct backend *backend, const char *machine) {
    struct machine_session *session;
    if (machine_session_get(backend->env->machines, MACHINE_WORKERS, machine, &session, ERR_IGNORED) < 0)
        return false;
    machine_session_put(session);
    return true;
}

/* From the first worker that has it and is online. */
static int move_layer(struct backend *backend, const char *layer, const char *to, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const char **holders = worker_holders(backend, layer, &arena), *from = NULL;
    if (text_list_has((const char *const *)holders, to))
        return 0;
    for (size_t i = 0; holders[i] && !from; i++)
        from = move_online(backend, holders[i]) ? holders[i] : NULL;
    if (!from)
        return err_set(err, ERR_BUSY, "layer %.16s lies on %s, which is offline", layer,
                       *holders ? *holders : "no worker");
    size_t count = text_list_count((const char *const *)holders);
    const char **after = arena_alloc(&arena, (count + 2) * sizeof *after);
    memcpy(after, holders, count * sizeof *after);
    after[count] = to;
    const char *owed = text_make(REMOTE_OWED_BYTES, "%.16s+%s", layer, to);
    TRY(remote_owed_settle(backend, owed, err)
            ?: remote_owe_copy(backend, layer, to, "coming", err)
            ?: move_files(backend, layer, true, 0, from, to, err)
            ?: worker_holders_set(backend, layer, after, err));
    unlinkat(backend->owed_fd, owed, 0);
    return 0;
}

/* One at a time for all boxes: two that need the same layer do not send it twice. */
int worker_layers(struct backend *backend, const char *const *layers, const char *machine, struct err *err) {
    bool all = true;
    for (size_t i = 0; layers && layers[i] && all; i++) {
        autoarena arena = ARENA_EMPTY;
        const char **holders = worker_holders(backend, layers[i], &arena);
        all = !*holders || text_list_has((const char *const *)holders, machine);
    }
    if (all)
        return 0;
    autolock(&backend->layers_lock);
    for (; *layers; layers++)
        TRY(move_layer(backend, *layers, machine, err));
    return 0;
}

/* ---- a box ---- */

static const char *move_mark(const char *id, char path[40]) {
    snprintf(path, 40, "%.16s/moving", id);
    return path;
}

int worker_settle(struct backend *backend, const struct spec *spec, struct err *err) {
    struct remote_note note;
    char path[40], other[LIMIT_USER_BYTES + 1];
    if (fd_read_file(backend->boxes_fd, move_mark(spec->id, path), other, sizeof other) <= 0)
        return 0;
    if (!spec->machine || !remote_box_note(backend, spec->id, &note))
        return err_set(err, ERR_NOT_FOUND, "box %s is on no worker", spec->id);
    bool moved = strcmp(spec->machine, other) == 0;
    if (strcmp(note.machine, other) != 0)
        TRY(remote_owe_copy(backend, spec->id, moved ? note.machine : other, "all", err));
    if (moved && strcmp(note.machine, other) != 0) {
        fleet_count(backend->fleet, note.machine, -1);
        fleet_count(backend->fleet, other, 1);
        snprintf(note.machine, sizeof note.machine, "%s", other);
        TRY(remote_note_write(backend->boxes_fd, text_make(40, "%.16s/%s", spec->id, backend->mark), &note, false,
                              err));
    }
    unlinkat(backend->boxes_fd, path, 0);
    return 0;
}

/* A worker that was named, or the one that a new box would get. */
static int move_target(struct backend *backend, const struct spec *spec, const char *machine, struct arena *arena,
                       const char **ret_machine, struct err *err) {
    struct machine_facts facts;
    if (!machine)
        return fleet_place(backend->fleet, spec, spec->machine, arena, ret_machine, err);
    TRY(machine_facts(backend->env->machines, MACHINE_WORKERS, machine, arena, &facts, err));
    if (strcmp(machine, spec->machine) == 0)
        return err_set(err, ERR_INVALID, "box %s is on worker '%s' already", spec->id, machine);
    if (!facts.online)
        return err_set(err, ERR_BUSY, "worker '%s' is offline", machine);
    if (facts.boxes >= facts.hello.boxes_max)
        return err_set(err, ERR_LIMIT, "worker '%s' has %llu boxes, which is what it takes", machine,
                       (unsigned long long)facts.boxes);
    *ret_machine = machine;
    return 0;
}

int worker_move(struct backend *backend, const struct spec *spec, const char *const *more, const char *machine,
                struct arena *arena, const char **ret_machine, struct err *err) {
    const char *to;
    char path[40];
    TRY(worker_settle(backend, spec, err)
            ?: remote_owed_settle(backend, spec->id, err)
            ?: move_target(backend, spec, machine, arena, &to, err));
    TRY(remote_owed_settle(backend, text_make(REMOTE_OWED_BYTES, "%.16s+%s", spec->id, to), err));
    int r = fd_replace_file(backend->boxes_fd, move_mark(spec->id, path), to, strlen(to));
    if (r < 0)
        return err_errno(err, -r, "noting where box %s goes", spec->id);
    TRY(worker_layers(backend, spec->layers, to, err)
            ?: worker_layers(backend, more, to, err)
            ?: move_files(backend, spec->id, false, spec->limits.disk_mb, spec->machine, to, err));
    *ret_machine = to;
    return 0;
}

bool worker_leaving(struct backend *backend, const struct spec *spec) {
    return spec->machine && machine_leaving(backend->env->machines, MACHINE_WORKERS, spec->machine);
}
