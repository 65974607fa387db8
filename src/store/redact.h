/* Removes values of secrets from a text before it is recorded: the audit log shows the action, never the secret. */
#ifndef CUBBY_BOX_REDACT_H
#define CUBBY_BOX_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct buf;

/* Shorter values ("1", "yes") are too common in texts to be replaced. */
#define REDACT_MIN_BYTES 4
/* How much of a text is searched: only its beginning is kept, and the work grows with the number of secrets. */
#define REDACT_SCAN_BYTES 16384

struct redact_value {
    const char *name, *value;
    size_t name_len, len;
};

struct redact { /* zeroed: no secrets; texts added must outlive it */
    struct arena *arena;
    struct redact_value *values;
    size_t count, cap;
    unsigned char first[32]; /* a bit per byte: a value begins with it */
};

void redact_add(struct redact *redact, const char *name, size_t name_len, const char *value, size_t len);
void redact_env(struct redact *redact, const char *const *env); /* "K=V", NULL-terminated; may be NULL */
/* Copies text into out, up to out->max: each value becomes [NAME], the longest first, also one that crosses the cut.
 * Returns true if text did not fit. */
bool redact_text(const struct redact *redact, struct buf *out, const char *text, size_t len);

#endif
