/* Prepares a text for a model: it is made UTF-8 and truncated to a number of characters (code points), never inside
 * a UTF-8 sequence. The marker of the omitted part counts too. */
#ifndef CUBBY_TOOL_TRUNCATE_H
#define CUBBY_TOOL_TRUNCATE_H

#include "tool/tool.h"

size_t truncate_chars(const uint8_t *text, size_t len); /* how many there are; text is UTF-8 */
/* Bytes of the first (last) n characters. */
size_t truncate_head(const uint8_t *text, size_t len, size_t n);
size_t truncate_tail(const uint8_t *text, size_t len, size_t n);

/* At most limit characters of a longer text: TOOL_HEAD ends in a marker with the hint, TOOL_MIDDLE has one in its
 * middle. total: characters of the original, at least those of text; missing ones are after its end (in its middle). */
void truncate_text(const uint8_t *text, size_t len, uint64_t total, size_t limit, enum tool_cut cut, const char *hint,
                   struct buf *out);

/* Replaces bytes that are not UTF-8 by U+FFFD, and marks where the spool dropped text. */
void truncate_repair(struct tool_call *call);
/* The bound of this call's tool, in characters; 0: none. */
uint64_t truncate_limit(const struct tool_call *call);
/* The result by its tool's rule; a text that fits stays as it is. */
void truncate_result(struct tool_call *call);
/* The same for a tool that has only the head of its text: it is over the bound with `total` characters. */
void truncate_part(struct tool_call *call, uint64_t total);

#endif
