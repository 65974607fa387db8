/* Files and kept layers of boxes on workers: each of these is a question to the worker that has them. Called through
 * backend_fleet. Invariant: a layer is on the workers that STATE/layers/LAYER/worker names, written before one is asked
 * to make it; here it has no files, and its empty directory `fs` says that it is complete. */

#include "backend/remote/remote.h"
#include "backend/trash.h"
#include "base/base.h"
#include "base/json.h"

enum { WORKER_LOOK_MS = 5000, WORKER_WORK_MS = 600000, WORKER_QUESTION_BYTES = 65536 };

/* The id's worker; else one that has the layer, if possible one that is online. */
static int worker_of(struct backend *backend, const char *id, const char *layer, struct remote_note *ret_note,
                     struct err *err) {
    autoarena arena = ARENA_EMPTY;
    if (id && remote_box_note(backend, id, ret_note))
        return 0;
    const char **holders = layer ? worker_holders(backend, layer, &arena) : NULL, *chosen = holders ? *holders : NULL;
    if (!chosen)
        return err_set(err, ERR_NOT_FOUND, "%s '%.16s' is on no worker", id ? "box" : "layer", id ? id : layer);
    for (; *holders; holders++) {
        struct machine_facts facts;
        if (machine_facts(backend->env->machines, MACHINE_WORKERS, *holders, &arena, &facts, ERR_IGNORED) == 0 &&
            facts.online) {
            chosen = *holders;
            break;
        }
    }
    *ret_note = (struct remote_note){.user = MACHINE_WORKERS};
    snprintf(ret_note->machine, sizeof ret_note->machine, "%s", chosen);
    return 0;
}

int worker_ask(struct backend *backend, const struct remote_note *note, const char *op, const char *id,
               const struct buf *members, const struct spec *spec, uint64_t timeout_ms, json_t **ret_answer,
               struct err *err) {
    struct machine_session *session;
    json_t *answer = NULL;
    TRY(machine_session_get(backend->env->machines, note->user, note->machine, &session, err));
    int r = session->ops->ask(session->connection, op, id, members, spec, timeout_ms, &answer, err);
    machine_session_put(session);
    if (r == 0 && ret_answer)
        *ret_answer = answer;
    else
        json_decref(answer);
    return r;
}

static uint64_t worker_number(const json_t *answer, const char *name) {
    json_int_t value = json_integer_value(json_object_get(answer, name));
    return value > 0 ? (uint64_t)value : 0;
}

enum backend_files worker_files(struct backend *backend, const char *id) {
    struct remote_note note;
    json_auto_t *answer = NULL;
    if (worker_of(backend, id, NULL, &note, ERR_IGNORED) < 0 ||
        worker_ask(backend, &note, "files", id, NULL, NULL, WORKER_LOOK_MS, &answer, ERR_IGNORED) < 0)
        return FILES_BUSY;
    uint64_t files = worker_number(answer, "files");
    return files <= FILES_BUSY ? (enum backend_files)files : FILES_BUSY;
}

int worker_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err) {
    struct remote_note note;
    json_auto_t *answer = NULL;
    autobuf members = buf_max(WORKER_QUESTION_BYTES);
    struct json json = {.out = &members};
    json_put_bool(&json, "layer", layer);
    TRY(worker_of(backend, layer ? NULL : name, layer ? name : NULL, &note, err)
            ?: worker_ask(backend, &note, "measure", name, &members, NULL, WORKER_WORK_MS, &answer, err));
    *ret_bytes = worker_number(answer, "bytes");
    return 0;
}

/* ---- keeping ---- */

static int worker_layer_begin(struct backend *backend, const char *layer, const struct remote_note *note,
                              struct err *err) {
    return worker_holders_set(backend, layer, (const char *const[]){note->machine, NULL}, err);
}

static int worker_layer_end(struct backend *backend, const char *layer, struct err *err) {
    return mkdirat(backend->layers_fd, text_make(40, "%.16s/fs", layer), 0700) < 0 && errno != EEXIST
               ? err_errno(err, errno, "noting that layer %s is complete", layer)
               : 0;
}

int worker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err) {
    static const char *const methods[] = {"layer", "btrfs", "reflink", "copy"};
    struct remote_note note;
    json_auto_t *answer = NULL;
    autobuf members = buf_max(WORKER_QUESTION_BYTES);
    struct json json = {.out = &members};
    json_put_str(&json, "layer", layer);
    json_put_bool(&json, "move", move);
    TRY(worker_of(backend, spec->id, NULL, &note, err)
            ?: worker_layer_begin(backend, layer, &note, err)
            ?: worker_ask(backend, &note, "keep", spec->id, &members, spec, WORKER_WORK_MS, &answer, err)
            ?: worker_layer_end(backend, layer, err));
    *ret_kept = (struct kept){.ahead = ret_kept->ahead,
                              .moved = json_is_true(json_object_get(answer, "moved")),
                              .method = "copy",
                              .pause_us = worker_number(answer, "pause_us"),
                              .bytes = worker_number(answer, "bytes")};
    const char *method = json_string_value(json_object_get(answer, "method"));
    for (size_t i = 0; method && i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method, methods[i]) == 0)
            ret_kept->method = methods[i];
    return 0;
}

/* Of a fork, which has layers and no note yet, too. */
int worker_fresh(struct backend *backend, const struct spec *spec, struct err *err) {
    struct remote_note note;
    bool known = remote_box_note(backend, spec->id, &note);
    if (!known) {
        note = (struct remote_note){.user = MACHINE_WORKERS};
        snprintf(note.machine, sizeof note.machine, "%s", spec->machine ? spec->machine : "");
    }
    TRY(remote_owed_settle(backend, spec->id, err));
    if (!known) {
        TRY(remote_note_write(backend->boxes_fd, text_make(40, "%.16s/%s", spec->id, backend->mark), &note, false,
                              err));
        fleet_count(backend->fleet, note.machine, 1);
    }
    TRY(worker_layers(backend, spec->layers, note.machine, err));
    return worker_ask(backend, &note, "fresh", spec->id, NULL, spec, WORKER_WORK_MS, NULL, err);
}

/* By a worker that has all of them. */
int worker_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *,
                  struct err *err) {
    struct remote_note note;
    autobuf members = buf_max(WORKER_QUESTION_BYTES);
    struct json json = {.out = &members};
    json_put_str(&json, "layer", layer);
    json_put_texts(&json, "layers", layers);
    return worker_of(backend, NULL, layers[0], &note, err)
               ?: worker_layers(backend, layers, note.machine, err)
               ?: worker_layer_begin(backend, layer, &note, err)
               ?: worker_ask(backend, &note, "squash", layer, &members, NULL, WORKER_WORK_MS, NULL, err)
               ?: worker_layer_end(backend, layer, err);
}

/* Of every worker that has it; one that is away removes it when it is back. */
int worker_drop_layer(struct backend *backend, const char *layer, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    if (!text_id(layer))
        return err_set(err, ERR_INVALID, "'%.40s' is not a layer", layer);
    for (const char **holder = worker_holders(backend, layer, &arena); *holder; holder++)
        TRY(remote_owe_copy(backend, layer, *holder, "layer", err));
    return trash_put(backend->trash, backend->layers_fd, layer, err);
}
