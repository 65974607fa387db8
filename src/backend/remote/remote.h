/* State of the backends `remote` and `fleet`, shared by remote.c and worker.c. */
#ifndef CUBBY_BACKEND_REMOTE_H
#define CUBBY_BACKEND_REMOTE_H

#include <pthread.h>

#include "backend/remote/fleet.h"
#include "backend/remote/machine.h"

enum { USAGE_SLOTS = 256 };

struct remote_note {
    char user[LIMIT_USER_BYTES + 1], machine[LIMIT_USER_BYTES + 1];
    bool keep_files; /* of what is owed */
};

struct remote_claim { /* a thread is sending the pending notices of this box */
    struct remote_claim *next;
    char id[17];
};

struct usage_slot {
    char id[17];
    uint64_t at_ms; /* when it was answered; 0: never */
    bool asked;     /* and has not answered yet */
    bool slow;      /* it did not answer in time when it was last waited for */
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
    unsigned tasks; /* threads */
    struct usage_slot usages[USAGE_SLOTS];
};

/* False: no readable note. */
bool remote_box_note(struct backend *backend, const char *id, struct remote_note *ret_note);
int remote_note_write(int dirfd, const char *path, const struct remote_note *note, bool owed, struct err *err);
/* Nothing is owed for this box when it returns 0. */
int remote_owed_settle(struct backend *backend, const char *id, struct err *err);

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
