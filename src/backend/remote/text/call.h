/* What the files of the text form share (text/text.h): the connection, and requests on it. Rules:
 *
 * 1. text->lock guards everything here; text->changed is signalled at every change. Nothing is sent or parsed under it.
 * 2. What the machine sends is bounded before it is parsed, and what waits for somebody is counted (held_bytes).
 * 3. Whoever holds a pointer to a struct machine_text counts in its refs. */
#ifndef CUBBY_BACKEND_MACHINE_TEXT_CALL_H
#define CUBBY_BACKEND_MACHINE_TEXT_CALL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/remote/text/text.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/limits.h"

#define TEXT_ASK_MS 30000u /* a request that only looks or flips something */
#define TEXT_ID_BYTES 24   /* "req_", 16 hex digits, a NUL */

struct text_request;
struct text_stream;
struct few_wire;

struct machine_text {
    atomic_uint refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct arena arena;
    const char *user, *name, *workspace, *shell;
    struct machine_text_options options; /* strings in arena */
    int wake;                            /* eventfd: the serving thread has something to send, or is to end */
    bool dead;
    char why[200]; /* dead, or to end: why */
    bool leave, ping;
    uint64_t heard_ms, next_id;
    struct text_request *requests[64];
    unsigned request_count;
    struct text_message *first, **last; /* to be sent */
    size_t queued_bytes, held_bytes;
    unsigned unasked;
    bool carrying, carried; /* somebody carries our runner to the machine; that is over: */
    bool runs;              /* it runs there, at: */
    char *runner;
    char few_why[300]; /* why it does not */
    struct text_stream *streams;
    struct few_wire *wires;
};

struct machine_text *machine_text_ref(struct machine_text *text);
void machine_text_unref(struct machine_text *text);
/* One message of the machine's. Negative: the connection ends for that reason. */
int machine_text_take(struct machine_text *text, const void *data, size_t len, struct err *err);

/* ---- text/message.c: bytes and JSON ---- */

enum text_type {
    TEXT_EXEC,
    TEXT_READ_FILE,
    TEXT_WRITE_FILE,
    TEXT_STAT,
    TEXT_READ_DIR,
    TEXT_MKDIR_ALL,
    TEXT_REMOVE,
    TEXT_REMOVE_ALL,
    TEXT_STDIO_START,
    TEXT_STDIO_WRITE,
    TEXT_STDIO_CLOSE,
};

struct text_answer {
    json_t *root;     /* owned */
    json_t *body;     /* the object that holds the members: root or its "body" */
    const char *type; /* into root, as id; id NULL: none */
    const char *id;
    size_t cost; /* counted in held_bytes */
};
const char *text_type_name(enum text_type type);
const char *text_type_answer(enum text_type type); /* the type of its good answer; NULL: it has none */
/* members: as written by a struct json into an empty buffer. id may be NULL. */
void text_encode(struct buf *out, bool nested, const char *id, const char *type, const char *user,
                 const struct buf *members);
int text_decode(const void *data, size_t len, struct text_answer *ret_answer, struct err *err);
/* The error that an answer of type error is; UNSUPPORTED: the runner does not know such requests. */
int text_error(const struct text_answer *answer, struct err *err);
const char *text_member(const struct text_answer *answer, const char *key, size_t *ret_len); /* NULL: no string */
int64_t text_number(const struct text_answer *answer, const char *key, int64_t fallback);
bool text_truth(const struct text_answer *answer, const char *key);
/* Output of an exec_result, as bytes. */
int text_output(const struct text_answer *answer, const char *key, struct buf *out, struct err *err);

/* ---- requests: text/text.c ---- */

/* Asks and waits. cancelled (may be NULL) is looked at under the lock. An answer of type error is an error. ret_answer NULL:
 * only whether; else text_answer_done. */
int text_ask(struct machine_text *text, const bool *cancelled, enum text_type type, const struct buf *members,
             uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err);
/* Sends what has no answer. */
int text_send(struct machine_text *text, enum text_type type, const struct buf *members, struct err *err);
void text_answer_done(struct machine_text *text, struct text_answer *answer);
/* A command line for /bin/sh, in the runner's own directory. env NULL-terminated, may be NULL; input UTF-8, may be NULL. */
int text_ask_exec(struct machine_text *text, const bool *cancelled, const char *command, const char *const *env,
                  const struct buf *input, uint64_t timeout_s, struct text_answer *ret_answer, struct err *err);
/* Waits for a change; the caller holds the lock. False: deadline_ms (clock_ms; 0: none) is over. */
bool text_wait_locked(struct machine_text *text, uint64_t deadline_ms);
int text_gone_locked(struct machine_text *text, struct err *err);
int text_thread(void *(*main)(void *argument), void *argument, struct err *err); /* detached, with a small stack */

/* ---- text/carry.c: our own runner on the machine ---- */

/* The runner is there and runs (*ret_runs), or it cannot: text->few_why. Once a connection. */
int text_carry(struct machine_text *text, bool *ret_runs, struct err *err);
void text_carry_lacks(struct machine_text *text, const char *why); /* it is there, and cannot be started */
int text_carry_open(struct machine_text *text, const struct spec *spec, struct wire **ret_wire, struct err *err);
int text_carry_stop(struct machine_text *text, const char *box_id, struct err *err);
/* A push. 1: it belongs to no stream. */
int text_carry_take_locked(struct machine_text *text, const struct text_answer *push);
void text_carry_end_locked(struct machine_text *text, const char *why);

/* ---- text/few.c: what a runner of another make can do itself ---- */

int text_few_open(struct machine_text *text, const struct spec *spec, struct wire **ret_wire, struct err *err);
void text_few_end_locked(struct machine_text *text, const char *why);

#endif
