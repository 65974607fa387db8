/* What a text goes through before a model sees it: made UTF-8, and cut to a number of characters (code points), never inside
 * a UTF-8 sequence. The marker that says what was left out counts as well. */
#ifndef CUBBY_TOOL_TRUNCATE_H
#define CUBBY_TOOL_TRUNCATE_H

#include "tool/tool.h"

size_t truncate_chars(const uint8_t *text, size_t len); /* how many there are; text is UTF-8 */
/* Bytes of the first (last) n characters. */
size_t truncate_head(const uint8_t *text, size_t len, size_t n);
size_t truncate_tail(const uint8_t *text, size_t len, size_t n);

/* At most limit characters of a text that has more: TOOL_HEAD ends in a marker with the hint, TOOL_MIDDLE has one in its
 * middle. total: characters there were, at least those of text; what is missing of them lies behind it (in its middle). */
void truncate_text(const uint8_t *text, size_t len, uint64_t total, size_t limit, enum tool_cut cut, const char *hint,
                   struct buf *out);

/* Bytes that are no UTF-8 become U+FFFD, and what the spool could not keep is told where it is missing. */
void truncate_repair(struct tool_call *call);
/* The bound of this call's tool, in characters; 0: none. */
uint64_t truncate_limit(const struct tool_call *call);
/* The result by its tool's rule; what fits stays as it is. */
void truncate_result(struct tool_call *call);
/* The same for a tool that has only the head of what it could show: it is over the bound with `total` characters. */
void truncate_part(struct tool_call *call, uint64_t total);

#endif
