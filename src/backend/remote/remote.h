/* State of the backends `remote` and `fleet`, shared by remote.c and worker.c. */
#ifndef CUBBY_BACKEND_REMOTE_H
#define CUBBY_BACKEND_REMOTE_H

#include <jansson.h>
#include <pthread.h>

#include "backend/remote/fleet.h"
#include "backend/remote/machine.h"

enum { USAGE_SLOTS = 256 };

/* A file of STATE/owed: ID, for a box on its machine; ID+MACHINE, for a copy of a box or layer that does not count. */
#define REMOTE_OWED_BYTES (17 + 1 + LIMIT_USER_BYTES)

struct remote_note {
    char user[LIMIT_USER_BYTES + 1], machine[LIMIT_USER_BYTES + 1];
    bool keep_files; /* of what is owed */
    bool layer;      /* likewise: not a box, a layer goes there; coming: unless it is noted to be there */
    bool coming;
};

struct remote_claim { /* a thread is sending this notice */
    struct remote_claim *next;
    char name[REMOTE_OWED_BYTES];
};

struct usage_slot {
    char id[17];
    uint64_t at_ms; /* when it was answered; 0: never */
    bool asked;     /* and has not answered yet */
    bool slow;      /* it did not answer in time when it was last waited for */
    uint32_t turn;  /* of the box: an answer about an earlier box of that id is dropped */
    struct usage usage;
};

struct backend {
    const struct backend_env *env;
    struct fleet *fleet; /* NULL: backend remote */
    const char *mark;    /* the name of notes */
    int boxes_fd, owed_fd, layers_fd;
    struct trash *trash;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct remote_claim *claims;
    pthread_mutex_t layers_lock; /* of layers that are sent from worker to worker */
    unsigned tasks;              /* threads */
    struct usage_slot usages[USAGE_SLOTS];
};

/* False: no readable note. */
bool remote_box_note(struct backend *backend, const char *id, struct remote_note *ret_note);
int remote_note_write(int dirfd, const char *path, const struct remote_note *note, bool owed, struct err *err);
/* Nothing is owed under this name when it returns 0. */
int remote_owed_settle(struct backend *backend, const char *name, struct err *err);
/* The copy on that machine goes: now, or when the machine is back. how: "all" of a box, "layer", or "coming": a layer
 * that is being sent there, when it did not arrive and this is settled, or the machine comes back. */
int remote_owe_copy(struct backend *backend, const char *id, const char *machine, const char *how, struct err *err);

/* Asks the worker of the note. ret_answer may be NULL. */
int worker_ask(struct backend *backend, const struct remote_note *note, const char *op, const char *id,
               const struct buf *members, const struct spec *spec, uint64_t timeout_ms, json_t **ret_answer,
               struct err *err);

/* move.c: boxes that change their worker, and layers that go where they are needed. */
int worker_move(struct backend *backend, const struct spec *spec, const char *const *more, const char *machine,
                struct arena *arena, const char **ret_machine, struct err *err);
int worker_settle(struct backend *backend, const struct spec *spec, struct err *err);
bool worker_leaving(struct backend *backend, const struct spec *spec);
/* Every layer of the list is on that worker. */
int worker_layers(struct backend *backend, const char *const *layers, const char *machine, struct err *err);
/* Workers that have a layer: STATE/layers/LAYER/worker, a name a line, NULL-terminated, in arena. */
const char **worker_holders(struct backend *backend, const char *layer, struct arena *arena);
int worker_holders_set(struct backend *backend, const char *layer, const char *const *workers, struct err *err);

/* worker.c: files and kept layers of boxes on workers, as in backend_ops. */
enum backend_files worker_files(struct backend *backend, const char *id);
int worker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err);
int worker_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err);
int worker_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int worker_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                  struct err *err);
int worker_drop_layer(struct backend *backend, const char *layer, struct err *err);

#endif
