/* Lines of a text, read and replaced by the dialect's rules. Pure: bytes in, bytes out.
 *
 * LF, CR and CRLF each end a line of an existing text. Replacing writes every line with a final LF. New text is
 * split at LF and CRLF; empty pieces at its end do not count. So "" is one empty line, and "\n" is no line, which
 * deletes the range. */
#ifndef CUBBY_SKILL_LINES_H
#define CUBBY_SKILL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { LINES_PAD_MAX = 10000 }; /* most empty lines added to reach a start past the end */

struct lines { /* the text not read yet */
    const char *at, *end;
};
bool lines_next(struct lines *lines, const char **ret_line,
                size_t *ret_len); /* without its line ending; false: no more lines */

struct lines_range { /* counted from 1, inclusive; end = start - 1 inserts before start */
    bool has_start, has_end;
    int64_t start, end;
};
/* Replaces the lines of range by those of fresh. Without a start the range begins at the first line, without an end it
 * ends at the last. A start past the end is reached by adding empty lines. INVALID: end before start - 1, a start too
 * far past the end, a text that is not UTF-8. TOO_LARGE: the result does not fit into out. */
int lines_replace(const char *text, size_t len, const char *fresh, size_t fresh_len, const struct lines_range *range,
                  struct buf *out, struct err *err);

#endif
