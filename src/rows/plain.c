/* The quick reader. Called by rows_load, which asks jansson whenever this one declines.
 * Invariant: what is accepted here jansson accepts with an equal value; declining is always right. */
#include "rows/plain.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { PLAIN_KEY_BYTES = 256 };

struct plain {
    const char *at, *end;
};

static json_t *plain_value(struct plain *plain);

static char plain_peek(struct plain *plain) {
    while (plain->at < plain->end &&
           (*plain->at == ' ' || *plain->at == '\n' || *plain->at == '\t' || *plain->at == '\r'))
        plain->at++;
    return plain->at < plain->end ? *plain->at : 0;
}

static bool plain_take(struct plain *plain, char c) {
    bool is = plain_peek(plain) == c;
    plain->at += is;
    return is;
}

/* Behind an opening quote: its text up to the closing one, as it stands. *ret_escapes: there are some in it. */
static bool plain_span(struct plain *plain, const char **ret_text, size_t *ret_len, bool *ret_escapes) {
    const char *start = plain->at, *at = start;
    *ret_escapes = false;
    for (; at < plain->end && *at != '"'; at++) {
        if ((unsigned char)*at < 32)
            return false;
        if (*at == '\\') {
            *ret_escapes = true;
            if (++at == plain->end)
                return false;
        }
    }
    if (at == plain->end || !text_utf8(start, (size_t)(at - start)))
        return false;
    *ret_text = start;
    *ret_len = (size_t)(at - start);
    plain->at = at + 1;
    return true;
}

static bool plain_unescape(char *to, const char *text, size_t len, size_t *ret_len) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char *start = to;
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\\') {
            *to++ = text[i];
            continue;
        }
        const char *known = memchr(from, text[++i], sizeof from - 1);
        if (!known)
            return false;
        *to++ = into[known - from];
    }
    *ret_len = (size_t)(to - start);
    return true;
}

static json_t *plain_string(struct plain *plain) {
    const char *text;
    size_t len;
    bool escapes;
    plain->at++;
    if (!plain_span(plain, &text, &len, &escapes))
        return NULL;
    if (!escapes)
        return json_stringn_nocheck(text, len);
    char *copy = malloc(len);
    json_t *value = copy && plain_unescape(copy, text, len, &len) ? json_stringn_nocheck(copy, len) : NULL;
    free(copy);
    return value;
}

static json_t *plain_integer(struct plain *plain) {
    bool minus = *plain->at == '-';
    const char *at = plain->at + minus, *start = at;
    int64_t value = 0;
    for (; at < plain->end && *at >= '0' && *at <= '9' && at - start < 18; at++)
        value = value * 10 + (*at - '0');
    if (at == start || (*start == '0' && at - start > 1) || (minus && value == 0) ||
        (at < plain->end && strchr("0123456789.eE", *at)))
        return NULL;
    plain->at = at;
    return json_integer(minus ? -value : value);
}

static json_t *plain_word(struct plain *plain) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(plain->end - plain->at) >= len && memcmp(plain->at, words[i], len) == 0) {
            plain->at += len;
            return i == 0 ? json_true() : i == 1 ? json_false() : json_null();
        }
    }
    return NULL;
}

static json_t *plain_array(struct plain *plain) {
    json_t *array = json_array();
    plain->at++;
    if (plain_take(plain, ']'))
        return array;
    do {
        json_t *value = plain_value(plain);
        if (!value || json_array_append_new(array, value) < 0) {
            json_decref(array);
            return NULL;
        }
    } while (plain_take(plain, ','));
    if (plain_take(plain, ']'))
        return array;
    json_decref(array);
    return NULL;
}

static bool plain_member(struct plain *plain, json_t *object) {
    const char *key;
    size_t len;
    bool escapes;
    if (!plain_take(plain, '"') || !plain_span(plain, &key, &len, &escapes) || escapes || len > PLAIN_KEY_BYTES ||
        !plain_take(plain, ':') || json_object_getn(object, key, len))
        return false;
    json_t *value = plain_value(plain);
    return value && json_object_setn_new_nocheck(object, key, len, value) == 0;
}

static json_t *plain_object(struct plain *plain) {
    json_t *object = json_object();
    plain->at++;
    if (plain_take(plain, '}'))
        return object;
    do {
        if (!plain_member(plain, object)) {
            json_decref(object);
            return NULL;
        }
    } while (plain_take(plain, ','));
    if (plain_take(plain, '}'))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *plain_value(struct plain *plain) {
    char c = plain_peek(plain);
    if (c == '"')
        return plain_string(plain);
    if (c == '{')
        return plain_object(plain);
    if (c == '[')
        return plain_array(plain);
    return c == '-' || (c >= '0' && c <= '9') ? plain_integer(plain) : plain_word(plain);
}

json_t *plain_load(const char *data, size_t len) {
    struct plain plain = {.at = data, .end = data + len};
    json_t *value = plain_value(&plain);
    if (value && (plain_peek(&plain), plain.at == plain.end))
        return value;
    json_decref(value);
    return NULL;
}
