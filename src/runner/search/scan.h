/* Fast searches in bytes: a literal, a newline forwards and backwards, a count of newlines. Vectors where the compiler
 * has SSE2, plain loops elsewhere. Used by grep. */
#ifndef CUBBY_RUNNER_SCAN_H
#define CUBBY_RUNNER_SCAN_H

#include <stddef.h>
#include <stdint.h>

struct scan_literal {
    const uint8_t *text;
    size_t len;
    size_t first, second; /* positions of the two rare bytes that are searched for */
};

void scan_literal_init(struct scan_literal *literal, const void *text, size_t len); /* len > 0; text is kept */
const uint8_t *scan_literal_find(const struct scan_literal *literal, const uint8_t *at, const uint8_t *end);
const uint8_t *scan_byte(const uint8_t *at, const uint8_t *end, uint8_t byte);         /* NULL: not found */
const uint8_t *scan_byte_back(const uint8_t *begin, const uint8_t *end, uint8_t byte); /* the last one, or NULL */
uint64_t scan_count(const uint8_t *at, const uint8_t *end, uint8_t byte);

#endif
