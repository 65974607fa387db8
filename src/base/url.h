/* Percent-encoding (RFC 3986), both ways. Pure. */
#ifndef CUBBY_BASE_URL_H
#define CUBBY_BASE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"

#define URL_VALUE "-._~" /* in addition to letters and digits: bytes that stay as they are in a value */
#define URL_PATH "-._~/" /* ... and in a path */

/* Letters, digits and the bytes of `plain` stand for themselves; every other byte becomes %XX. */
void url_put(struct buf *out, const char *text, size_t len, const char *plain);
const char *url_encode(struct arena *arena, const char *text, const char *plain);
/* In place, with a NUL at the end. Returns the length, or -1 for an escape that is not %XX. */
ssize_t url_decode(char *text, bool plus_is_space);
int url_digit(char digit); /* 0..15, or -1 */

#endif
