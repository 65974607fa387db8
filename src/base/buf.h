/* A growing byte buffer that cannot exist without a maximum, and a bounded reader over foreign bytes.
 *
 * Writers never return errors one by one: the first put that would pass the maximum sets `failed`, later puts do
 * nothing, and the owner checks once at the end. Running out of memory aborts. */
#ifndef CUBBY_BASE_BUF_H
#define CUBBY_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t len, cap, max;
    bool failed; /* something did not fit below max; data holds what came before */
};

/* An empty buffer: `autobuf text = buf_max(LIMIT);` */
static inline struct buf buf_max(size_t max) {
    return (struct buf){.max = max};
}
void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);                  /* frees; safe twice */
void buf_clear(struct buf *buf);                 /* empties, keeps the memory */
uint8_t *buf_reserve(struct buf *buf, size_t n); /* room for n more, or NULL and failed; then buf->len += used */
void buf_put(struct buf *buf, const void *data, size_t n);
void buf_puts(struct buf *buf, const char *text);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_byte(struct buf *buf, uint8_t byte);
void buf_u16(struct buf *buf, uint16_t value); /* little endian */
void buf_u32(struct buf *buf, uint32_t value);
void buf_u64(struct buf *buf, uint64_t value);
void buf_consume(struct buf *buf, size_t n); /* drops the first n bytes */
char *buf_cstr(struct buf *buf);             /* adds a NUL after the data (not counted); NULL when failed */

/* Reading: takes from the front; a take past the end sets `bad` and yields zeros, for one check at the end. */
struct view {
    const uint8_t *data;
    size_t len;
    bool bad;
};

struct view view_of(const void *data, size_t len);
uint8_t view_u8(struct view *view);
uint16_t view_u16(struct view *view);
uint32_t view_u32(struct view *view);
uint64_t view_u64(struct view *view);
const uint8_t *view_take(struct view *view, size_t n); /* NULL and bad when shorter */

#define autobuf __attribute__((cleanup(buf_done))) struct buf

#endif
