/* Resources that all users share and one of them could use up: one table, a row per resource, with the most for this
 * machine and the most for one user. Used where such a resource is handed out, from any thread.
 *
 * Invariant: a user never holds more than is still free. So one user gets half of a resource at most, two a third
 * each, and the next user always finds some. */
#ifndef CUBBY_BASE_COUNTED_H
#define CUBBY_BASE_COUNTED_H

#include <stdint.h>

#include "base/err.h"

/* name, unit in a sentence, most for the machine, most for a user, advice when none is left */
#define COUNTED_LIST(X)                                                                                                \
    X(TERMINALS, "terminals", LIMIT_TERMINALS, LIMIT_TERMINALS_PER_USER, "stop boxes, or raise kernel.pty.max")        \
    X(WATCHERS, "watchers", LIMIT_WATCHERS, LIMIT_WATCHERS_PER_USER, "remove some")                                    \
    X(SPOOL, "bytes of uploads", LIMIT_SPOOL_BYTES, LIMIT_SPOOL_BYTES_PER_USER, "try again when others are done")      \
    X(SEARCHES, "searches", LIMIT_SEARCHES, LIMIT_SEARCHES_PER_USER, "try again later")                                \
    X(UNDO, "bytes of undo history", LIMIT_UNDO_BYTES, LIMIT_UNDO_BYTES_PER_USER, "older changes are forgotten")       \
    X(FLOWS, "network flows", LIMIT_FLOWS, LIMIT_FLOWS_PER_USER, "close connections")

enum counted {
#define X(name, unit, machine, user, advice) COUNTED_##name,
    COUNTED_LIST(X)
#undef X
        COUNTED_KINDS
};

/* LIMIT, with a sentence that names the user, the number and what to do. On success counted_give must follow, of as
 * much in all. */
int counted_take(enum counted what, const char *user, uint64_t amount, struct err *err);
/* The same; waits until there is some, wait_ms at most. watch: a client's socket, whose hang-up is GONE; -1: none. */
int counted_wait(enum counted what, const char *user, uint64_t amount, unsigned wait_ms, int watch, struct err *err);
/* Counts without a check: resources that an adopted box holds already. */
void counted_hold(enum counted what, const char *user, uint64_t amount);
void counted_give(enum counted what, const char *user, uint64_t amount);

uint64_t counted_of(enum counted what, const char *user); /* the amount that user holds */
uint64_t counted_most(enum counted what);                 /* the most for a user, whatever others hold */
/* Limits that depend on the machine or the configuration; before anything is taken. */
void counted_limit(enum counted what, uint64_t machine, uint64_t user);

#endif
