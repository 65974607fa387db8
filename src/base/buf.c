/* Byte buffers with a maximum, and bounded reads. Called from everywhere. Invariant: a size from outside can never
 * make these wrap, over-read or grow past max. */
#include <assert.h>

#include "base/base.h"

void buf_init(struct buf *buf, size_t max) {
    assert(max > 0);
    *buf = (struct buf){.max = max};
}

void buf_done(struct buf *buf) {
    free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_clear(struct buf *buf) {
    buf->len = 0;
    buf->failed = false;
}

uint8_t *buf_reserve(struct buf *buf, size_t n) {
    assert(buf->max > 0);
    if (buf->failed || n > buf->max - buf->len) {
        buf->failed = true;
        return NULL;
    }
    if (buf->len + n > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 256;
        while (cap < buf->len + n)
            cap *= 2;
        buf->data = xrealloc(buf->data, cap);
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void buf_put(struct buf *buf, const void *data, size_t n) {
    uint8_t *at = n ? buf_reserve(buf, n) : NULL;
    if (at) {
        memcpy(at, data, n);
        buf->len += n;
    }
}

void buf_puts(struct buf *buf, const char *text) {
    buf_put(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...) {
    char small[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        buf_put(buf, small, (size_t)n);
    } else if (n > 0) {
        uint8_t *at = buf_reserve(buf, (size_t)n + 1);
        if (at) {
            vsnprintf((char *)at, (size_t)n + 1, format, again);
            buf->len += (size_t)n;
        }
    }
    va_end(again);
}

void buf_byte(struct buf *buf, uint8_t byte) {
    buf_put(buf, &byte, 1);
}

void buf_u16(struct buf *buf, uint16_t value) {
    uint8_t b[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    buf_put(buf, b, sizeof b);
}

void buf_u32(struct buf *buf, uint32_t value) {
    buf_u16(buf, (uint16_t)value);
    buf_u16(buf, (uint16_t)(value >> 16));
}

void buf_u64(struct buf *buf, uint64_t value) {
    buf_u32(buf, (uint32_t)value);
    buf_u32(buf, (uint32_t)(value >> 32));
}

void buf_consume(struct buf *buf, size_t n) {
    assert(n <= buf->len);
    if (n < buf->len)
        memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
}

char *buf_cstr(struct buf *buf) {
    uint8_t *at = buf_reserve(buf, 1);
    if (!at)
        return NULL;
    *at = 0;
    return (char *)buf->data;
}

struct view view_of(const void *data, size_t len) {
    return (struct view){.data = data, .len = len};
}

const uint8_t *view_take(struct view *view, size_t n) {
    if (view->bad || n > view->len) {
        view->bad = true;
        return NULL;
    }
    const uint8_t *at = view->data;
    view->data += n;
    view->len -= n;
    return at;
}

uint8_t view_u8(struct view *view) {
    const uint8_t *p = view_take(view, 1);
    return p ? *p : 0;
}

uint16_t view_u16(struct view *view) {
    const uint8_t *p = view_take(view, 2);
    return p ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

uint32_t view_u32(struct view *view) {
    const uint8_t *p = view_take(view, 4);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

uint64_t view_u64(struct view *view) {
    uint64_t low = view_u32(view);
    return low | (uint64_t)view_u32(view) << 32;
}
