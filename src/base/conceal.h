/* Removes secret values from a stream of bytes: each becomes [redacted], however the stream is cut into pieces.
 * Values that overlap become one. Linear in the stream, whatever the values are. */
#ifndef CUBBY_BASE_CONCEAL_H
#define CUBBY_BASE_CONCEAL_H

#include <stddef.h>
#include <stdint.h>

struct buf;
struct conceal;

/* Shorter values are too common in any text to be replaced: a caller reports them (conceal_short). */
#define CONCEAL_MIN_BYTES 4
#define CONCEAL_TEXT "[redacted]"

/* rows: "NAME=VALUE", NULL-terminated, copied. Each value is also found without the blanks at its end (a shell drops
 * them), and as it is written in a JSON string. NULL: nothing to hide. */
struct conceal *conceal_new(const char *const *rows);
void conceal_free(struct conceal *conceal); /* NULL is fine */
/* Another kind: each value becomes another text of the same length, and nothing else changes. Values may be added until
 * the first byte comes. */
struct conceal *conceal_swaps(void);
void conceal_swap(struct conceal *conceal, const void *value, const void *text, size_t len);
/* Decided bytes go to out; bytes that may still become a value are held back, at most as many as the longest value
 * has. */
void conceal_put(struct conceal *conceal, const void *data, size_t len, struct buf *out);
void conceal_flush(struct conceal *conceal, struct buf *out); /* the stream is over; another may begin */
/* A whole text at once. */
void conceal_text(struct conceal *conceal, const void *data, size_t len, struct buf *out);
/* The first row whose value could not be hidden (empty ones have nothing to hide); NULL: none. */
const char *conceal_short(const char *const *rows);

#endif
