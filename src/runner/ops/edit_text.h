/* One change of a text in memory: a string, a range of lines, or a regular expression. Pure: op_edit reads and writes
 * the file. Lines end with a newline, which the last one may lack. */
#ifndef CUBBY_RUNNER_EDIT_TEXT_H
#define CUBBY_RUNNER_EDIT_TEXT_H

#include "base/base.h"

#define EDIT_NEAR_MAX 12         /* lines shown with a failure */
#define EDIT_NEAR_TEXT_BYTES 400 /* of each */

struct edit_near {
    uint64_t line; /* from 1 */
    const uint8_t *text;
    size_t len;
};

/* What near shows if the text does not occur. Numbers of the wire. */
enum edit_how {
    EDIT_ALIKE = 0,
    EDIT_SPACES = 1,  /* equal except for white space */
    EDIT_OUTSIDE = 2, /* the text itself, outside the lines that may change */
};

struct edit_text {
    bool lines, regex; /* neither: a string */
    bool all;          /* change every occurrence; else there must be exactly one */
    /* Treat it as text: NUL and UTF-16 are refused; a byte order mark belongs to no line; if every line of the file
     * ends with CRLF, LF means CRLF in the file and the arguments. Otherwise bytes are bytes. */
    bool text;
    /* Lines; 0: from the first, to the last. With `lines`, last may be first - 1: insert before `first`; first 0 means
     * after the last. */
    uint64_t first, last;
    const uint8_t *old, *new_text;
    size_t old_len, new_len;
    /* answer */
    uint64_t count, line, total; /* places changed; line of the first; lines now */
    bool judged;                 /* it failed because of its count; near shows where, or similar lines */
    enum edit_how how;           /* the meaning of near */
    struct edit_near near[EDIT_NEAR_MAX];
    size_t near_count;
    /* private */
    struct buf body, given_old, given_new;
};

/* Writes data with the change to *out, which bounds its size. near points into data and edit. */
int edit_text_apply(struct edit_text *edit, const uint8_t *data, size_t len, const char *shown, struct buf *out,
                    struct err *err);
void edit_text_done(struct edit_text *edit);

#endif
