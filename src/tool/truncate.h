/* Prepares a text for a model: makes it UTF-8 and truncates it to a number of characters (code points), never inside
 * a UTF-8 sequence. The marker of the omitted part counts too. */
#ifndef CUBBY_TOOL_TRUNCATE_H
#define CUBBY_TOOL_TRUNCATE_H

#include "tool/tool.h"

size_t truncate_chars(const uint8_t *text, size_t len); /* counts characters of UTF-8 text */
/* Return the bytes of the first (last) n characters. */
size_t truncate_head(const uint8_t *text, size_t len, size_t n);
size_t truncate_tail(const uint8_t *text, size_t len, size_t n);

/* Cuts a longer text to at most limit characters. TOOL_HEAD ends with a marker and the hint, TOOL_MIDDLE has a marker
 * in its middle. total: characters of the original, which may be more than text has: the rest is missing at the end (in
 * the middle). */
void truncate_text(const uint8_t *text, size_t len, uint64_t total, size_t limit, enum tool_cut cut, const char *hint,
                   struct buf *out);

/* Replaces bytes that are not UTF-8 by U+FFFD, and marks where the spool dropped text. */
void truncate_repair(struct tool_call *call);
/* The limit of this call's tool, in characters; 0: none. */
uint64_t truncate_limit(const struct tool_call *call);
/* Truncates the result by its tool's rule. A text that fits stays as it is. */
void truncate_result(struct tool_call *call);
/* The same for a tool that made only the head of a text of `total` characters, which is over the limit. */
void truncate_part(struct tool_call *call, uint64_t total);

#endif
