/* Checks and encodings of text. Called by dialects, verbs and the runner. Invariant: nothing here reads past len. */

#include "base/base.h"

/* How many continuation bytes follow lead byte c, or -1; *ret_low and *ret_high bound the first of them. */
static int text_sequence(uint8_t c, uint8_t *ret_low, uint8_t *ret_high) {
    *ret_low = 0x80;
    *ret_high = 0xbf;
    if (c >= 0xc2 && c <= 0xdf)
        return 1;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0)
            *ret_low = 0xa0;
        if (c == 0xed)
            *ret_high = 0x9f;
        return 2;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0)
            *ret_low = 0x90;
        if (c == 0xf4)
            *ret_high = 0x8f;
        return 3;
    }
    return -1;
}

bool text_utf8(const void *data, size_t len) {
    const uint8_t *p = data, *end = p + len;
    while (p < end) {
        uint64_t eight, four[4];
        while ((size_t)(end - p) >= sizeof four) {
            memcpy(four, p, sizeof four);
            if ((four[0] | four[1] | four[2] | four[3]) & 0x8080808080808080ull)
                break;
            p += sizeof four;
        }
        while ((size_t)(end - p) >= sizeof eight) {
            memcpy(&eight, p, sizeof eight);
            if (eight & 0x8080808080808080ull)
                break;
            p += sizeof eight;
        }
        if (p == end)
            break;
        uint8_t low, high, c = *p++;
        if (c < 0x80)
            continue;
        int more = text_sequence(c, &low, &high);
        if (more < 0 || end - p < more || *p < low || *p > high)
            return false;
        for (int i = 1; i < more; i++)
            if ((p[i] & 0xc0) != 0x80)
                return false;
        p += more;
    }
    return true;
}

bool text_u64(const char *text, uint64_t max, uint64_t *ret_value) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (value > max)
        return false;
    *ret_value = value;
    return true;
}

static const char text_digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64(struct buf *out, const void *data, size_t len) {
    const uint8_t *p = data;
    uint8_t *at = buf_reserve(out, (len + 2) / 3 * 4);
    if (!at)
        return;
    for (; len >= 3; len -= 3, p += 3) {
        *at++ = (uint8_t)text_digits64[p[0] >> 2];
        *at++ = (uint8_t)text_digits64[(p[0] & 3) << 4 | p[1] >> 4];
        *at++ = (uint8_t)text_digits64[(p[1] & 15) << 2 | p[2] >> 6];
        *at++ = (uint8_t)text_digits64[p[2] & 63];
    }
    if (len) {
        uint8_t second = len == 2 ? p[1] : 0;
        *at++ = (uint8_t)text_digits64[p[0] >> 2];
        *at++ = (uint8_t)text_digits64[(p[0] & 3) << 4 | second >> 4];
        *at++ = len == 2 ? (uint8_t)text_digits64[(second & 15) << 2] : '=';
        *at++ = '=';
    }
    out->len = (size_t)(at - out->data);
}

static int text_value64(uint8_t c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool text_unbase64(struct buf *out, const char *text, size_t len) {
    if (len % 4)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        int v[4], pad = 0;
        for (int k = 0; k < 4; k++) {
            v[k] = text_value64((uint8_t)text[i + (size_t)k]);
            if (v[k] >= 0 && !pad)
                continue;
            if (text[i + (size_t)k] != '=' || i + 4 != len || k < 2)
                return false;
            pad++;
            v[k] = 0;
        }
        if ((pad == 2 && (v[1] & 15)) || (pad == 1 && (v[2] & 3)))
            return false;
        uint8_t three[3] = {(uint8_t)(v[0] << 2 | v[1] >> 4), (uint8_t)(v[1] << 4 | v[2] >> 2),
                            (uint8_t)(v[2] << 6 | v[3])};
        buf_put(out, three, (size_t)(3 - pad));
    }
    return !out->failed;
}

void text_base64_url(struct buf *out, const void *data, size_t len) {
    size_t from = out->len;
    text_base64(out, data, len);
    while (out->len > from && out->data[out->len - 1] == '=')
        out->len--;
    for (uint8_t *at = out->data + from; at < out->data + out->len; at++)
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
}

bool text_unbase64_any(struct buf *out, const char *text, size_t len) {
    size_t all = len;
    while (len && text[len - 1] == '=')
        len--;
    autobuf standard = buf_max(len + 4);
    for (size_t i = 0; i < len; i++)
        buf_byte(&standard, text[i] == '-' ? '+' : text[i] == '_' ? '/' : (uint8_t)text[i]);
    buf_put(&standard, "===", (4 - len % 4) % 4);
    return all - len <= 2 && text_unbase64(out, (const char *)standard.data, standard.len);
}

size_t text_cut(const void *text, size_t len, size_t max) {
    if (len <= max)
        return len;
    size_t cut = max;
    while (cut && max - cut < 4 && (((const uint8_t *)text)[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

void text_hex(char *out, const uint8_t *data, size_t len) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * len] = 0;
}

char *text_format(char *out, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(out, size, format, list);
    va_end(list);
    return out;
}

void text_quote(struct buf *out, const char *word) {
    buf_byte(out, '\'');
    for (const char *quote; (quote = strchr(word, '\'')); word = quote + 1) {
        buf_put(out, word, (size_t)(quote - word));
        buf_puts(out, "'\\''");
    }
    buf_puts(out, word);
    buf_byte(out, '\'');
}

void text_quote_all(struct buf *out, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        buf_byte(out, ' ');
        text_quote(out, words[i]);
    }
}

bool text_name(const char *text, size_t max) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:@-";
    size_t len = strlen(text);
    return len && len <= max && strspn(text, letters) == len;
}

bool text_id(const char *text) {
    size_t len = strlen(text);
    return (len == 16 || len == 8) && strspn(text, "0123456789abcdef") == len;
}

void text_id_copy(char ret_id[17], const char *id) {
    snprintf(ret_id, 17, "%s", id);
}

/* ---- showing ---- */

size_t text_character(const void *data, size_t len, uint32_t *ret_character) {
    const uint8_t *text = data;
    size_t need = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (need > len || !text_utf8(text, need))
        return 0;
    uint32_t character = need == 1 ? text[0] : text[0] & (0x7fu >> need);
    for (size_t i = 1; i < need; i++)
        character = character << 6 | (text[i] & 0x3fu);
    *ret_character = character;
    return need;
}

size_t text_fitting(const char *text, size_t len, size_t max) {
    if (len <= max)
        return len;
    while (max && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

void text_point(struct buf *out, uint32_t point) {
    if (!point || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        point = 0xfffd;
    unsigned more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    buf_byte(out, (uint8_t)(lead[more] | point >> 6 * more));
    while (more--)
        buf_byte(out, (uint8_t)(0x80 | (point >> 6 * more & 0x3f)));
}

bool text_harmful(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xe0000 && c <= 0xe007f);
}

size_t text_show(const char *text, size_t len, char out[8], size_t *ret_used) {
    const uint8_t *p = (const uint8_t *)text;
    uint32_t character = 0;
    size_t used = text_character(p, len, &character);
    *ret_used = used ? used : 1;
    if (used && !text_harmful(character)) {
        memcpy(out, p, used);
        return used;
    }
    if (character == '\n' || character == '\t' || character == '\r') {
        out[0] = '\\';
        out[1] = character == '\n' ? 'n' : character == '\t' ? 't' : 'r';
        return 2;
    }
    return (size_t)(used > 1 ? snprintf(out, 8, "\\u%04x", character) : snprintf(out, 8, "\\x%02x", p[0]));
}

void text_shown(struct buf *out, const char *text, size_t len) {
    for (size_t i = 0, used; i < len; i += used) {
        char one[8];
        buf_put(out, one, text_show(text + i, len - i, one, &used));
    }
}

int text_user(const char *user, struct err *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-";
    size_t len = strlen(user);
    if (len == 0 || len > LIMIT_USER_BYTES || strspn(user, letters) != len)
        return err_set(err, ERR_INVALID, "user must be 1 to %u characters of A-Z a-z 0-9 _ . @ -", LIMIT_USER_BYTES);
    return 0;
}

size_t text_list_count(const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

bool text_list_has(const char *const *list, const char *word) {
    while (list && *list && strcmp(*list, word) != 0)
        list++;
    return list && *list;
}
