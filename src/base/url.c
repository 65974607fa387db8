/* Percent-encoding: see base/url.h. Invariant: a decoded text is never longer than its source. */
#include "base/url.h"

#include <string.h>

void url_put(struct buf *out, const char *text, size_t len, const char *plain) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr(plain, c)))
            buf_byte(out, c);
        else
            buf_put(out, (const char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
    }
}

const char *url_encode(struct arena *arena, const char *text, const char *plain) {
    size_t len = strlen(text);
    autobuf out = buf_max(len * 3);
    url_put(&out, text, len, plain);
    return arena_copy(arena, out.data, out.len);
}

int url_digit(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 32);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

ssize_t url_decode(char *text, bool plus_is_space) {
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '%') {
            int high = url_digit(in[1]), low = high < 0 ? -1 : url_digit(in[2]);
            if (low < 0)
                return -1;
            *out++ = (char)(high << 4 | low);
            in += 2;
        } else {
            *out++ = *in == '+' && plus_is_space ? ' ' : *in;
        }
    }
    *out = 0;
    return out - text;
}
