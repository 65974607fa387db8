/* What the files of this directory share: the connection to a machine whose runner is not ours (README.md), requests
 * on it, and the wires of its boxes. Invariants:
 *
 * 0. No work of a box is done on this host instead of on that machine.
 * 1. text->lock guards everything here; text->changed is signalled at every change. Nothing is sent or parsed under
 *    it.
 * 2. Input from the machine is bounded before it is parsed, and answers that wait for their callers are counted
 *    (held_bytes).
 * 3. Every holder of a pointer to a struct machine_text counts in its refs.
 * 4. A wire is in the list from before the machine may refer to it until the machine has nothing of it any more. */
#ifndef CUBBY_BACKEND_MACHINE_TEXT_CALL_H
#define CUBBY_BACKEND_MACHINE_TEXT_CALL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/remote/machine.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/limits.h"
#include "wire/frame.h"
#include "wire/piece.h"

#define TEXT_ASK_MS 30000u  /* a request that only looks or flips something */
#define TEXT_STOP_MS 30000u /* the runner ends its commands; runners of others give up after 8 s */
#define TEXT_ID_BYTES 24    /* "req_", 16 hex digits, a NUL */
#define TEXT_STACK_BYTES (256u << 10)

struct machine_text {
    atomic_uint refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct arena arena;
    const char *user, *name, *workspace, *shell;
    struct machine_text_options options; /* strings in arena */
    struct pump *pump;
    int (*tick)(void *user, struct err *err); /* of machine_text_serve */
    void *tick_user;
    bool dead;
    char why[200]; /* of dead */
    atomic_uint_fast64_t next_id;
    struct text_request *requests;
    unsigned request_count, unasked;
    size_t held_bytes;
    bool carrying, carried; /* a thread carries our runner to the machine; that is done: */
    bool runs;              /* it runs there, at: */
    char *runner;
    char few_why[300]; /* why it does not */
    struct text_wire *wires;
};

/* The wire of one box: its frames go in pieces to our runner there, or to few.c, which plays the runner. */
struct text_wire {
    struct text_wire *next;
    struct machine_text *text;
    char id[32], box[17];
    int fd, wake;
    bool carried, over; /* over: nothing comes from the machine any more */
    struct wire_reason *reason;
    bool started;
    struct pieces pieces;
    const char **env, *shell; /* of the box, in arena */
    size_t env_count;
    struct arena arena;
    struct text_call *calls; /* of few.c; changed: one was cancelled, got input or credit, or ended */
    pthread_mutex_t out;     /* one frame at a time; never taken with text->lock held */
};
void text_wire_over_locked(struct text_wire *wire, const char *why);
void text_wire_free(struct text_wire *wire); /* by its thread: the last use of it */

/* One connection: its end is the end of every call on it. hello and options are copied. */
struct machine_text *machine_text_new(const struct machine_hello *hello, const struct machine_text_options *options);
/* Serves until the connection ends; the reason in err, always negative. tick: as pump_events.tick. */
int machine_text_serve(struct machine_text *text, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err);
/* From any thread: machine_text_serve returns GONE with that reason. */
void machine_text_leave(void *text, const char *why);
extern const struct machine_ops machine_text_ops; /* connection: struct machine_text */
struct machine_text *machine_text_ref(struct machine_text *text);
void machine_text_unref(struct machine_text *text);
int machine_text_take(void *text, const void *data, size_t len, struct err *err); /* a message; negative: ends it */
int text_gone_locked(struct machine_text *text, struct err *err);
void text_few_locked(struct machine_text *text, const struct err *why); /* our runner does not run there */

/* ---- messages: text/text.c ---- */
struct text_answer {
    json_t *root;          /* owned */
    json_t *body;          /* the object that holds the members: root or its "body" */
    const char *type, *id; /* into root; id may be NULL */
    size_t cost;           /* counted in held_bytes */
};
/* members: as written by a struct json into an empty buffer. id may be NULL. */
int text_encode(const struct machine_text *text, const char *id, const char *type, const struct buf *members,
                struct buf *out, struct err *err);
int text_decode(const void *data, size_t len, struct text_answer *ret_answer, struct err *err);
/* The error that an answer of type error is; UNSUPPORTED: the runner does not know such requests. */
int text_error(const struct text_answer *answer, struct err *err);
const char *text_member(const struct text_answer *answer, const char *key, size_t *ret_len); /* NULL: not a string */
int64_t text_number(const struct text_answer *answer, const char *key);                      /* 0: not a number */
/* Output of an exec_result, as bytes. */
int text_output(const struct text_answer *answer, const char *key, struct buf *out, struct err *err);

/* ---- requests: text/text.c ---- */
/* Asks and waits for an answer of type good. cancelled (may be NULL) is read under the lock. An answer of type error
 * is an error. ret_answer NULL: only whether it succeeded; else text_answer_done. */
int text_ask(struct machine_text *text, const bool *cancelled, const char *type, const char *good,
             const struct buf *members, uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err);
void text_answer_done(struct machine_text *text, struct text_answer *answer);
/* A command line for /bin/sh, in the runner's own directory. env NULL-terminated, may be NULL; input UTF-8, may be
 * NULL. */
int text_ask_exec(struct machine_text *text, const bool *cancelled, const char *command, const char *const *env,
                  const struct buf *input, uint64_t timeout_s, struct text_answer *ret_answer, struct err *err);

/* ---- text/carry.c: our own runner on the machine; text/few.c: what a runner of another make can do itself ---- */
/* The runner is there and runs (*ret_runs), or it cannot: text->few_why. Once a connection. */
int text_carry(struct machine_text *text, bool *ret_runs, struct err *err);
int text_carry_start(struct text_wire *wire, const struct spec *spec, struct err *err);
int text_carry_take_locked(struct machine_text *text, const struct text_answer *push); /* 1: not of a stream */
void *text_carry_main(void *wire);                                                     /* of the threads of wires */
void *text_few_main(void *wire);

#endif
