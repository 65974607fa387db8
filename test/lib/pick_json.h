/* JSON for pick.c: values, reading and writing them. What jq might do otherwise ends in unsure(). */
#ifndef CUBBY_TEST_PICK_JSON_H
#define CUBBY_TEST_PICK_JSON_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { NONE, NO, YES, NUMBER, STRING, ARRAY, OBJECT }; /* in the order of jq's sort; NO and YES are the booleans */

struct value {
    enum kind kind;
    const char *text; /* of a number, or of a string without quotes and escapes */
    size_t len;
    struct value **items, **keys; /* of an array or object */
    size_t count;
};

static char **arguments;
static char *data;
static size_t data_len;
static const char *at, *end; /* of what is being read: the filter, then the input */
/* jq is asked; nothing that was written so far is printed. */
static _Noreturn void unsure(void) {
    int input = memfd_create("input", 0);
    for (size_t done = 0; data && done < data_len;) {
        ssize_t n = write(input, data + done, data_len - done);
        if (n < 0)
            break;
        done += (size_t)n;
    }
    if (data) {
        lseek(input, 0, SEEK_SET);
        dup2(input, 0);
    }
    arguments[0] = "jq";
    execvp("jq", arguments);
    _exit(127);
}

static void *make(size_t count, size_t size) {
    void *new = calloc(count + 1, size);
    if (!new)
        unsure();
    return new;
}

static struct value *value_new(enum kind kind, const char *text, size_t len) {
    struct value *new = make(1, sizeof *new);
    *new = (struct value){kind, text, len, NULL, NULL, 0};
    return new;
}

static struct value *value_number(long long number) {
    char *text = make(24, 1);
    return value_new(NUMBER, text, (size_t)snprintf(text, 24, "%lld", number));
}

static void append(struct value *list, struct value *item) {
    if (!(list->count & (list->count - 1))) {
        list->items = realloc(list->items, (list->count ? list->count * 2 : 1) * sizeof *list->items);
        if (!list->items)
            unsure();
    }
    list->items[list->count++] = item;
}

static bool same_text(const struct value *a, const char *text, size_t len) {
    return a->len == len && memcmp(a->text, text, len) == 0;
}

/* ---- reading JSON ---- */

static char next(void) {
    while (at < end && strchr(" \t\r\n", *at))
        at++;
    return at < end ? *at : 0;
}

static bool take(const char *word) {
    size_t len = strlen(word);
    next();
    if ((size_t)(end - at) < len || memcmp(at, word, len) != 0)
        return false;
    at += len;
    return true;
}

static void must(const char *word) {
    if (!take(word))
        unsure();
}

static unsigned hex(const char *text) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = text + i < end && text[i] ? strchr("0123456789abcdef", text[i] | 0x20) : NULL;
        if (!digit)
            unsure();
        code = code << 4 | (unsigned)(digit - "0123456789abcdef");
    }
    return code;
}

static char *utf8_put(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)("\xc0\xe0\xf0"[more - 1] | (int)(code >> 6 * more));
    while (more--)
        *to++ = (char)(0x80 | (code >> 6 * more & 63));
    return to;
}

/* After the backslash. */
static char *escape_read(char *to) {
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *letter = at < end && *at ? strchr(letters, *at) : NULL;
    if (letter) {
        at++;
        *to++ = means[letter - letters];
        return to;
    }
    if (at >= end || *at != 'u')
        unsure();
    unsigned code = hex(at + 1);
    at += 5;
    if (code >= 0xd800 && code < 0xe000) {
        unsigned low = code < 0xdc00 && end - at > 6 && at[0] == '\\' && at[1] == 'u' ? hex(at + 2) : 0;
        if (low < 0xdc00 || low > 0xdfff)
            unsure();
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    if (!code)
        unsure();
    return utf8_put(to, code);
}

/* One character of more than a byte, as UTF-8 has to be. */
static char *utf8_copy(char *to) {
    const unsigned char *from = (const unsigned char *)at;
    int more = *from >= 0xc2 && *from < 0xe0 ? 1 : *from >= 0xe1 && *from < 0xf0 && *from != 0xed ? 2 : 0;
    if (*from == 0xf0 && end - at > 1 && from[1] >= 0x90)
        more = 3;
    if (!more || end - at <= more)
        unsure();
    for (int i = 1; i <= more; i++)
        if ((from[i] & 0xc0) != 0x80)
            unsure();
    memcpy(to, at, (size_t)more + 1);
    at += more + 1;
    return to + more + 1;
}

/* A string up to its closing quote, or in a filter up to \(: then *ret_more. */
static struct value *string_read(bool *ret_more) {
    const char *close = at;
    while (close < end && *close != '"')
        close += *close == '\\' ? 2 : 1;
    if (close >= end && !ret_more)
        unsure();
    char *text = make((size_t)(end - at) < (size_t)(close - at) ? (size_t)(end - at) : (size_t)(close - at), 1),
         *to = text;
    while (at < end && *at != '"') {
        if (*at == '\\' && ret_more && at + 1 < end && at[1] == '(') {
            at += 2;
            *ret_more = true;
            return value_new(STRING, text, (size_t)(to - text));
        }
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            unsure();
        if (*at == '\\')
            at++, to = escape_read(to);
        else if (*at & 0x80)
            to = utf8_copy(to);
        else
            *to++ = *at++;
    }
    if (at >= end)
        unsure();
    at++;
    return value_new(STRING, text, (size_t)(to - text));
}

static struct value *number_read(void) {
    const char *start = at;
    while (at < end && *at && strchr("+-.eE0123456789", *at))
        at++;
    return value_new(NUMBER, start, (size_t)(at - start));
}

/* A number that is used: whole ones, which every program writes alike. */
static long long number(const struct value *value) {
    const char *digits = value->text + (*value->text == '-');
    size_t count = value->len - (size_t)(digits - value->text);
    if (!count || count > 15 || strspn(digits, "0123456789") < count || (*digits == '0' && value->len > 1))
        unsure();
    return strtoll(value->text, NULL, 10);
}

static void member_put(struct value *object, struct value *key, struct value *item) {
    for (size_t i = 0; i < object->count; i++)
        if (same_text(object->keys[i], key->text, key->len)) {
            object->items[i] = item; /* the last of several counts */
            return;
        }
    append(object, item);
    struct value list = {.items = object->keys, .count = object->count - 1};
    append(&list, key);
    object->keys = list.items;
}

static struct value *value_read(int depth) {
    char first = next();
    if (depth > 200)
        unsure();
    if (first == '"') {
        at++;
        return string_read(NULL);
    }
    if (first == '[' || first == '{') {
        struct value *list = value_new(first == '[' ? ARRAY : OBJECT, NULL, 0);
        const char *close = first == '[' ? "]" : "}";
        at++;
        if (take(close))
            return list;
        do {
            struct value *key = NULL;
            if (first == '{') {
                must("\"");
                key = string_read(NULL);
                must(":");
                member_put(list, key, value_read(depth + 1));
            } else {
                append(list, value_read(depth + 1));
            }
        } while (take(","));
        must(close);
        return list;
    }
    if (first == '-' || (first >= '0' && first <= '9'))
        return number_read();
    enum kind kind = take("null") ? NONE : take("true") ? YES : take("false") ? NO : OBJECT;
    if (kind == OBJECT || (at < end && !strchr(" \t\r\n,]}", *at)))
        unsure();
    return value_new(kind, NULL, 0);
}

/* ---- writing ---- */

static void string_write(FILE *to, const struct value *string) {
    putc('"', to);
    for (size_t i = 0; i < string->len; i++) {
        static const char letters[] = "\"\\bfnrt", means[] = "\"\\\b\f\n\r\t";
        unsigned char c = (unsigned char)string->text[i];
        const char *mean = c ? strchr(means, c) : NULL;
        if (mean)
            fprintf(to, "\\%c", letters[mean - means]);
        else if (c < 0x20 || c == 0x7f)
            unsure();
        else
            putc(c, to);
    }
    putc('"', to);
}

/* indent < 0: in one line */
static void value_write(FILE *to, const struct value *value, int indent) {
    static const char *const words[] = {"null", "false", "true"};
    if (value->kind <= YES) {
        fputs(words[value->kind], to);
        return;
    }
    if (value->kind == NUMBER) {
        fprintf(to, "%lld", number(value));
        return;
    }
    if (value->kind == STRING) {
        string_write(to, value);
        return;
    }
    putc(value->kind == ARRAY ? '[' : '{', to);
    int inner = indent < 0 || !value->count ? -1 : indent + 2;
    for (size_t i = 0; i < value->count; i++) {
        if (i)
            putc(',', to);
        if (inner >= 0)
            fprintf(to, "\n%*s", inner, "");
        if (value->kind == OBJECT) {
            string_write(to, value->keys[i]);
            fputs(inner < 0 ? ":" : ": ", to);
        }
        value_write(to, value->items[i], inner);
    }
    if (inner >= 0)
        fprintf(to, "\n%*s", indent, "");
    putc(value->kind == ARRAY ? ']' : '}', to);
}

#endif
