/* One short list of failures, shared by every room and by the wire, and a sentence for the user beside the code.
 *
 * A function that can fail returns 0 (or a count) or a negative ERR_ code, takes `struct err *err` last, and leaves
 * its outputs untouched on failure. `err` may not be NULL. Wrap once per room: err_wrap(err, "box %s", id). */
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

struct err {
    int code;       /* a positive ERR_ number, 0 when unset */
    int number;     /* the errno that it came from; 0: none */
    char text[600]; /* names the thing and, where there is one, the fix */
};

/* Sets code and sentence; returns -code so that callers can write `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same from an errno: the code is chosen by err_from_errno, ": strerror" is added to the sentence. */
int err_errno(struct err *err, int number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the sentence as it is. */
int err_told(struct err *err, int number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the sentence; returns -err->code. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum err_code err_from_errno(int number);
const char *err_name(int code);     /* "NOT_FOUND"; "INTERNAL" for an unknown number */
int err_http_status(int code);      /* 404; 500 for an unknown number */
int err_from_wire(unsigned number); /* a number from a peer, made a known positive code */

#endif
