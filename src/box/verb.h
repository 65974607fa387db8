/* What all verbs share: one call from its opening to its END. Private to box/. */
#ifndef CUBBY_BOX_VERB_H
#define CUBBY_BOX_VERB_H

#include "base/arena.h"
#include "box/box.h"
#include "wire/call.h"
#include "wire/frame.h"

enum {
    VERB_SHORT_MS = 60000,   /* a verb that only looks or flips something takes no longer, or the runner hangs */
    VERB_SILENCE_MS = 30000, /* nothing came for so long: the runner is asked whether it lives, and may take as long */
};

/* Where a call's events go; NULL: the op may not send them. A negative return cancels the call and is returned; data
 * and item may set err themselves, else a sentence is made. */
struct verb_sink {
    int (*stat)(void *user, struct view fields, int *fd, struct err *err); /* takes *fd by setting it to -1 */
    int (*data)(void *user, int stream, const uint8_t *data, size_t len, struct err *err);
    int (*item)(void *user, struct view fields, struct err *err); /* one record */
};

/* How the call is made. All may be zero but op and watch. */
struct verb {
    enum op op;
    const struct buf *args;
    int watch;           /* -1: none */
    uint64_t timeout_ms; /* of the whole call; 0: none */
    uint64_t bound_ms;   /* the runner bounds the work itself: silent for that and VERB_SILENCE_MS, it is hung; 0: it
                            works as long as it takes, and answers when asked whether it lives */
    const struct verb_sink *sink;
    void *user;
    int (*idle)(void *user); /* called when nothing came for idle_ms; a negative return cancels the call; may be NULL */
    uint64_t idle_ms;
    box_reader read_fn; /* input of the call; NULL: none */
    void *read_user;
    uint64_t input_max; /* TOO_LARGE beyond; 0: no limit */
};

/* The whole call. END's fields go to *ret_end, their texts to arena. */
int verb_run(struct box *box, const struct verb *verb, struct arena *arena, struct fields *ret_end, struct err *err);
/* The rest of a call that is open already, with input or without; closes it. */
int verb_finish(struct box *box, struct call *call, const struct verb *verb, struct arena *arena,
                struct fields *ret_end, struct err *err);
/* box_processes with another time-out. */
int verb_processes(struct box *box, uint64_t pid, uint64_t timeout_ms,
                   void (*each)(void *user, const struct process *process), void *user, struct err *err);
/* For ops that answer with END alone. */
int verb_short(struct box *box, enum op op, const struct buf *args, struct arena *arena, struct fields *ret_end,
               struct err *err);
/* The fields of a command, checked; flags: of the call. */
int verb_exec_args(const struct exec_request *request, uint64_t flags, struct buf *args, struct err *err);
int verb_exec_result(const struct event *end, struct exec_result *ret_result, struct err *err);
/* The runner sent something no runner may: the wire ends, the verb with it. */
int verb_broken(struct box *box, struct err *err);
/* UNSUPPORTED: an older runner would do it with the agent's. */
int verb_root(const struct box *box, struct err *err);
int verb_path(struct buf *args, enum field_id id, const char *path, struct err *err); /* checked, then put */
/* A list of patterns, NULL-terminated or NULL: checked, then put. How many there are, or negative. */
int verb_globs(struct buf *args, enum field_id id, const char *const *globs, struct err *err);
/* A name of a record, with the NUL that the wire does not carry; PROTOCOL when it does not fit. */
int verb_text(char *out, size_t size, const struct field *field, struct err *err);

#endif
