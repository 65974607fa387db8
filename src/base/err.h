/* One short list of failures, shared by every directory and by the wire: a code, and a sentence for the user.
 *
 * A function that can fail returns 0 (or a count) or a negative ERR_ code, takes `struct err *err` last, and leaves
 * its outputs untouched on failure. `err` may not be NULL. Wrap once per directory: err_wrap(err, "box %s", id). */
#ifndef CUBBY_BASE_ERR_H
#define CUBBY_BASE_ERR_H

#include <stdarg.h>

/* name, number on the wire (never reused), HTTP status */
#define ERR_LIST(X)                                                                                                    \
    X(INVALID, 1, 400)                                                                                                 \
    X(UNAUTHORIZED, 2, 401)                                                                                            \
    X(DENIED, 3, 403)                                                                                                  \
    X(NOT_FOUND, 4, 404)                                                                                               \
    X(EXISTS, 5, 409)                                                                                                  \
    X(GONE, 6, 410)                                                                                                    \
    X(TOO_LARGE, 7, 413)                                                                                               \
    X(LIMIT, 8, 429)                                                                                                   \
    X(INTERNAL, 9, 500)                                                                                                \
    X(IO, 10, 500)                                                                                                     \
    X(UNSUPPORTED, 11, 501)                                                                                            \
    X(PROTOCOL, 12, 502)                                                                                               \
    X(BUSY, 13, 503)                                                                                                   \
    X(TIMEOUT, 14, 504)                                                                                                \
    X(FULL, 15, 507)                                                                                                   \
    X(PAUSED, 16, 409)

enum err_code {
#define X(name, number, status) ERR_##name = (number),
    ERR_LIST(X)
#undef X
};

/* The reason, where a caller decides by it and the code is not enough: never by the words of a sentence. The numbers go
 * over the wire and are never reused. */
enum err_why {
    WHY_NONE,
    WHY_PATTERN = 1,    /* INVALID: the pattern of a search is malformed */
    WHY_NO_SHELL = 2,   /* NOT_FOUND: the box lacks the shell that runs commands */
    WHY_NO_COMMAND = 3, /* NOT_FOUND: the box lacks the program */
    WHY_NO_BOX = 4,     /* NOT_FOUND */
    WHY_DAMAGED = 5,    /* IO: a database file has to be replaced */
    WHY_PAUSED = 6,     /* the container is paused already */
    WHY_UNSEEN = 7,     /* the container engine does not see a directory of this machine */
    WHY_UNREACHED = 8,  /* BUSY: nothing was sent, because no process answers there */
    WHY_LEFT = 9,       /* GONE: the machine left for good */
    WHY_COUNT
};

struct err {
    int code;         /* a positive ERR_ number, 0 when unset */
    enum err_why why; /* WHY_NONE: no caller decides by more than the code */
    int number;       /* the errno that it came from; 0: none */
    char text[600];   /* names the thing and, where there is one, the fix */
};

/* For a call whose reason is not needed. */
#define ERR_IGNORED (&(struct err){0})

/* A step whose failure is the function's own: it returns the step's code. */
#define TRY(step)                                                                                                      \
    do {                                                                                                               \
        int try_code = (step);                                                                                         \
        if (try_code < 0)                                                                                              \
            return try_code;                                                                                           \
    } while (0)

/* Sets code and sentence; returns -code so that callers can write `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with a reason. */
int err_set_why(struct err *err, enum err_code code, enum err_why why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same from an errno: the code is chosen by err_from_errno, ": strerror" is added to the sentence. */
int err_errno(struct err *err, int number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, and the sentence is used as it is. */
int err_text(struct err *err, int number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the sentence; returns -err->code. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum err_code err_from_errno(int number);
const char *err_name(int code);     /* "NOT_FOUND"; "INTERNAL" for an unknown number */
int err_http_status(int code);      /* 404; 500 for an unknown number */
int err_from_wire(unsigned number); /* a number from a peer, made a known positive code */
/* errno and reason as one number: errno in the low 12 bits, where the kernel has no more. A peer that knows no reasons
 * ignores numbers above those. 0: neither. */
unsigned err_wire_number(const struct err *err);
void err_wire_take(struct err *err, unsigned long long number); /* from a peer; an unknown reason is WHY_NONE */

#endif
