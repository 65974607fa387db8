/* Where the characters and lines of a long text are: one mark every INDEX_STEP bytes, so that any place of a kept
 * result is found by reading one step of its file. */
#ifndef CUBBY_TOOL_OFFLOAD_INDEX_H
#define CUBBY_TOOL_OFFLOAD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#define INDEX_STEP 32768u

/* The index of a text: UTF-8, at most 4 GB. A character begins at its first byte; a line ends with its newline, the
 * last one also without. */
struct offload_index {
    uint64_t bytes, chars, lines;
    const uint32_t *marks; /* of step i (from 0): characters and newlines before byte i * INDEX_STEP */
    size_t mark_count;     /* pairs */
};

void offload_index_build(const uint8_t *text, size_t len, struct arena *arena, struct offload_index *ret_index);
/* Checks marks that were read from the database. false: they do not belong to a text of this size. */
bool offload_index_fits(const struct offload_index *index);

/* Find the byte at which character `number` (from 0; chars is the end) or line `number` (from 1; past the last is the
 * end) begins; the character that begins at a byte; the line that contains a byte. IO: the file has changed. */
int offload_index_char(const struct offload_index *index, int fd, uint64_t number, uint64_t *ret_byte, struct err *err);
int offload_index_line(const struct offload_index *index, int fd, uint64_t number, uint64_t *ret_byte, struct err *err);
int offload_index_at(const struct offload_index *index, int fd, uint64_t byte, uint64_t *ret_char, uint64_t *ret_line,
                     struct err *err);

#endif
