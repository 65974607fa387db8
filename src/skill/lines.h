/* Lines of a text, read and replaced by the dialect's rules. Pure: bytes in, bytes out.
 *
 * LF, CR and CRLF each end a line of an existing text. Replacing writes every line with a final LF. New text is
 * split at LF and CRLF, and empty pieces at its end do not count: "" is one empty line, "\n" is zero lines, which
 * removes. */
#ifndef CUBBY_SKILL_LINES_H
#define CUBBY_SKILL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { LINES_PAD_MAX = 10000 }; /* empty lines that are made to reach a start after the end */

struct lines { /* all that is left */
    const char *at, *end;
};
bool lines_next(struct lines *lines, const char **ret_line, size_t *ret_len); /* without its end; false: no more */

struct lines_range { /* from 1, both included; end = start - 1: before start */
    bool has_start, has_end;
    int64_t start, end;
};
/* The lines of range in text become those of fresh; without a start from the first, without an end to the last; a start
 * after the end is reached by empty lines. INVALID: end before start - 1, a start too far away, a text that is not
 * UTF-8. TOO_LARGE: out is too small. */
int lines_replace(const char *text, size_t len, const char *fresh, size_t fresh_len, const struct lines_range *range,
                  struct buf *out, struct err *err);

#endif
