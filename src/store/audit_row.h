/* One row of the audit log: its fields, and the encoding used by the queue and the chain of hashes. */
#ifndef CUBBY_BOX_AUDIT_ROW_H
#define CUBBY_BOX_AUDIT_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct view;

/* name, column, most bytes kept */
#define AUDIT_TEXT_LIST(X)                                                                                             \
    X(VERB, "verb", 64)             /* a route's name, or an event's: box_died */                                      \
    X(BOX, "box", 16)               /* its id */                                                                       \
    X(USER, "user", 128)            /* owner of the box; without a box the sender's user */                            \
    X(ACTOR, "actor", 128)          /* user of the token that asked; NULL: not bound to one */                         \
    X(SCOPE, "scope", 8)            /* admin, user, read; NULL: no sender, or unknown */                               \
    X(TOKEN, "token", 16)           /* which token: first digits of its SHA-256 */                                     \
    X(PEER, "peer", 64)             /* uid:1000, or 10.0.0.7:4711 */                                                   \
    X(OUTCOME, "outcome", 16)       /* ok, or the error's code */                                                      \
    X(DETAIL, "detail", 1024)       /* command or path, without values of secrets */                                   \
    X(REQUEST_ID, "request_id", 64) /* as in the answer and the daemon's log; the last: alike rows differ in it */

enum audit_field {
#define X(name, column, max) AUDIT_##name,
    AUDIT_TEXT_LIST(X)
#undef X
        AUDIT_TEXTS
};

#define AUDIT_ROW_BYTES 2048 /* an encoded row is never longer */

struct audit_text {
    const char *data; /* NULL: none */
    size_t len;
};

struct audit_row {
    uint64_t id; /* 1, 2, 3 ...; given when it is written */
    uint64_t at_ms, bytes_in, bytes_out, duration_us;
    uint32_t status; /* HTTP; 0: not a request */
    uint32_t count;  /* how many similar reads this row stands for; sizes and time are sums. 0 means 1 */
    bool has_result, exited, timed_out, oom_killed; /* has_result: the command was waited for */
    int32_t exit_code, signal;
    struct audit_text texts[AUDIT_TEXTS];
    uint8_t hash[32]; /* of the row before, the id, and the encoding */
};

extern const struct audit_column {
    const char *name;
    size_t max;
} audit_columns[AUDIT_TEXTS];

/* Cuts a text at its column's maximum. NULL: empty. */
void audit_set(struct audit_row *row, enum audit_field field, const char *text);
void audit_setn(struct audit_row *row, enum audit_field field, const char *text, size_t len);
/* Encodes everything but id and hash. */
void audit_encode(const struct audit_row *row, struct buf *out);
bool audit_decode(struct view *from, struct audit_row *ret_row); /* texts point into from; false: not an encoding */
/* Returns whether two encodings differ only in times, sizes, counts and request ids, so that one row can stand for
 * both. */
bool audit_alike(const void *one, size_t one_len, const void *other, size_t other_len);
void audit_add(void *into, const struct audit_row *row); /* adds a row to an encoding */
void audit_hash(const uint8_t before[32], uint64_t id, const void *encoded, size_t len, uint8_t ret_hash[32]);

#endif
