/* What a model is told of a result that was kept, beside its head and tail: facts, a line each. */
#ifndef CUBBY_TOOL_OFFLOAD_SUMMARY_H
#define CUBBY_TOOL_OFFLOAD_SUMMARY_H

#include "tool/tool.h"

/* Of a file: its name and the names it defines; of a command: how it ended; of a search: how many. */
void offload_summary(struct buf *out, const struct tool_call *call, const uint8_t *text, size_t len, uint64_t lines);

#endif
