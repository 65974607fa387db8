/* Cutting texts to a number of characters, never inside a UTF-8 sequence; the marker counts. */
#ifndef CUBBY_TOOL_TRUNCATE_H
#define CUBBY_TOOL_TRUNCATE_H

#include "tool/tool.h"

size_t truncate_chars(const uint8_t *text, size_t len); /* how many there are; text is UTF-8 */
/* Bytes of the first (last) n characters. */
size_t truncate_head(const uint8_t *text, size_t len, size_t n);
size_t truncate_tail(const uint8_t *text, size_t len, size_t n);
/* The result by its tool's rule; what fits stays as it is. */
void truncate_result(struct tool_call *call);

#endif
