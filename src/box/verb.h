/* Shared by all verbs: one call from its opening to its END. Private to box/. */
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
 * and item may set err themselves, else a sentence is made. PROTOCOL: the runner sent what no runner may, and its wire
 * ends. */
struct verb_sink {
    int (*stat)(void *user, struct view fields, int *fd, struct err *err); /* takes *fd by setting it to -1 */
    int (*data)(void *user, int stream, const uint8_t *data, size_t len, struct err *err);
    int (*item)(void *user, struct view fields, struct err *err); /* one record */
};

/* A field of a call. An empty value (no text, no path, no list, the number 0) is left out: the runner treats it as
 * absent. */
struct verb_field {
    enum field_id id;
    bool always; /* the number counts even if it is 0 */
    uint64_t number;
    const char *text, *path; /* a path is checked first */
    const void *bytes;
    size_t len;
    const char *const *list; /* NULL-terminated, a field each; TOO_LARGE beyond `most`, which names `what` */
    size_t most;
    const char *what; /* NULL: the list is of patterns, which have limits of their own */
};
#define F_NUM(name, value)                                                                                             \
    { .id = FIELD_##name, .number = (value) }
#define F_ALWAYS(name, value)                                                                                          \
    { .id = FIELD_##name, .number = (value), .always = true }
#define F_TEXT(name, value)                                                                                            \
    { .id = FIELD_##name, .text = (value) }
#define F_PATH(name, value)                                                                                            \
    { .id = FIELD_##name, .path = (value) }
#define F_BYTES(name, data, size)                                                                                      \
    { .id = FIELD_##name, .bytes = (data), .len = (size) }
#define F_LIST(name, texts, count, plural)                                                                             \
    { .id = FIELD_##name, .list = (texts), .most = (count), .what = (plural) }
#define F_GLOBS(name, patterns)                                                                                        \
    { .id = FIELD_##name, .list = (patterns) }
#define VERB_FIELDS(...)                                                                                               \
    (const struct verb_field[]){__VA_ARGS__},                                                                          \
        sizeof((const struct verb_field[]){__VA_ARGS__}) / sizeof(struct verb_field)
int verb_put_all(struct buf *args, const struct verb_field *fields, size_t count, struct err *err);
#define verb_put(args, err, ...) verb_put_all(args, VERB_FIELDS(__VA_ARGS__), err)

/* How the call is made. All may be zero but op and watch. */
struct verb {
    enum op op;
    const struct verb_field *fields; /* FIELDS(...) */
    size_t field_count;
    const struct buf *args;           /* fields that are encoded already, before those */
    uint64_t flags;                   /* CALL_ bits; CALL_ROOT needs a runner that knows it */
    unsigned needs;                   /* FEATURE_ bits: UNSUPPORTED without */
    const struct file_rights *rights; /* what they add to the call; may be NULL */
    bool gives;                       /* the call makes files, which have the owner that the rights name */
    int watch;                        /* -1: none */
    uint64_t timeout_ms;              /* of the whole call; 0: none */
    uint64_t bound_ms; /* the runner bounds the work itself: silent for that and VERB_SILENCE_MS, it is hung; 0: it
                          works as long as it takes, and answers when asked whether it lives */
    const struct verb_sink *sink;
    void *user;
    int (*idle)(void *user); /* called when nothing came for idle_ms; a negative return cancels the call; may be NULL */
    uint64_t idle_ms;
    box_reader read_fn; /* input of the call; NULL: none */
    void *read_user;
    uint64_t input_max; /* TOO_LARGE beyond; 0: no limit */
};
#define FIELDS(...)                                                                                                    \
    .fields = (const struct verb_field[]){__VA_ARGS__},                                                                \
    .field_count = sizeof((const struct verb_field[]){__VA_ARGS__}) / sizeof(struct verb_field)

/* The verb's fields, flags and rights into args (buf_max); UNSUPPORTED: an older runner would ignore some of it. */
int verb_args(const struct box *box, const struct verb *verb, struct buf *args, struct err *err);
/* The whole call. END's fields go to *ret_end, their texts to arena. */
int verb_run(struct box *box, const struct verb *verb, struct arena *arena, struct fields *ret_end, struct err *err);
/* The same where only END's numbers matter, or nothing of it. */
int verb_numbers(struct box *box, const struct verb *verb, struct fields *ret_end, struct err *err);
int verb_only(struct box *box, const struct verb *verb, struct err *err);
/* A short call that only succeeds or fails. */
#define verb_simple(box, opcode, err, ...)                                                                             \
    verb_only(                                                                                                         \
        box, &(const struct verb){.op = (opcode), FIELDS(__VA_ARGS__), .watch = -1, .timeout_ms = VERB_SHORT_MS}, err)
/* The rest of a call that is open already, with input or without; closes it. */
int verb_finish(struct box *box, struct call *call, const struct verb *verb, struct arena *arena,
                struct fields *ret_end, struct err *err);
/* box_processes with another time-out. */
int verb_processes(struct box *box, uint64_t pid, uint64_t timeout_ms,
                   void (*each)(void *user, const struct process *process), void *user, struct err *err);
/* The fields of a command, checked; flags: of the call. */
int verb_exec_args(const struct box *box, const struct exec_request *request, uint64_t flags, struct buf *args,
                   struct err *err);
/* Events of a command into the struct exec_sink that is the verb's user. */
extern const struct verb_sink verb_exec_sink;
void verb_exec_idle(struct verb *verb, const struct exec_sink *sink); /* the verb's idle call, where the sink has one */
int verb_exec_result(const struct event *end, struct exec_result *ret_result, struct err *err);
/* The runner sent something no runner may: the wire ends, the verb with it. */
int verb_broken(struct box *box, struct err *err);
/* A name of a record, with the NUL that the wire does not carry; PROTOCOL when it does not fit. */
int verb_text(char *out, size_t size, const struct field *field, struct err *err);
/* Fields of a {file} record. */
bool file_field(struct file_stat *stat, const struct field *field); /* one field into *stat; false: not a file's */
void file_from_fields(const struct fields *fields, struct file_stat *ret_stat); /* texts stay NULL */

#endif
