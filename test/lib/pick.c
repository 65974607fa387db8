/* pick .a.b < JSON: prints one value of an object as `jq -r` does, in a hundredth of its time: tests ask ten thousand times.
 * Whatever is not plain (a value that is no scalar, a number jq might write otherwise, text that is not JSON) is exit status
 * 3 and nothing printed: then jq is asked. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *at, *end;
static const char *found;
static size_t found_len;

static void unsure(void) {
    _exit(3); /* nothing that was written so far is printed */
}

static void space(void) {
    while (at < end && strchr(" \t\r\n", *at))
        at++;
}

static char next(void) {
    space();
    if (at >= end)
        unsure();
    return *at;
}

/* A string with its quotes. */
static void string(void) {
    for (at++; at < end && *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            unsure();
        if (*at == '\\')
            at++;
    }
    if (at >= end)
        unsure();
    at++;
}

static void value(const char *path, int depth);

static void object(const char *path, int depth) {
    size_t len = path ? strcspn(path + 1, ".") : 0;
    at++;
    if (next() == '}') {
        at++;
        return;
    }
    for (;;) {
        if (next() != '"')
            unsure();
        const char *key = at + 1;
        string();
        bool here = path && (size_t)(at - 1 - key) == len && strncmp(key, path + 1, len) == 0;
        if (memchr(key, '\\', (size_t)(at - 1 - key)))
            unsure();
        if (next() != ':')
            unsure();
        at++;
        if (here) /* the last of several counts */
            found = NULL;
        value(here ? path + 1 + len : NULL, depth + 1);
        if (next() != ',')
            break;
        at++;
    }
    if (*at++ != '}')
        unsure();
}

static void array(int depth) {
    at++;
    if (next() == ']') {
        at++;
        return;
    }
    for (;;) {
        value(NULL, depth + 1);
        if (next() != ',')
            break;
        at++;
    }
    if (*at++ != ']')
        unsure();
}

/* path: what is left of it, "" for the value itself, NULL: another one's. */
static void value(const char *path, int depth) {
    char first = next(), *start = at;
    bool wanted = path && !*path;
    if (depth > 64 || (path && *path && first != '{' && first != 'n')) /* jq complains */
        unsure();
    if (first == '{')
        object(wanted ? NULL : path, depth);
    else if (first == '[')
        array(depth);
    else if (first == '"')
        string();
    else
        at += strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    if (wanted) {
        found = start;
        found_len = (size_t)(at - start);
    }
}

static void utf8(unsigned code) {
    if (code < 0x80)
        putchar((int)code);
    else if (code < 0x800)
        printf("%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
    else if (code < 0x10000)
        printf("%c%c%c", 0xe0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
    else
        printf("%c%c%c%c", 0xf0 | code >> 18, 0x80 | (code >> 12 & 63), 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
}

static unsigned hex(const char *text) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = strchr("0123456789abcdef", text[i] | 0x20);
        if (!digit || !text[i])
            unsure();
        code = code << 4 | (unsigned)(digit - "0123456789abcdef");
    }
    return code;
}

static void say_string(const char *text, size_t len) {
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\\') {
            putchar(text[i]);
            continue;
        }
        const char *letter = strchr(letters, text[++i]);
        if (letter && text[i]) {
            putchar(means[letter - letters]);
            continue;
        }
        if (text[i] != 'u' || i + 4 >= len + 1)
            unsure();
        unsigned code = hex(text + i + 1);
        i += 4;
        if (code >= 0xd800 && code < 0xdc00 && i + 6 < len + 1 && text[i + 1] == '\\' && text[i + 2] == 'u') {
            unsigned low = hex(text + i + 3);
            if (low < 0xdc00 || low > 0xdfff)
                unsure();
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            i += 6;
        } else if (code >= 0xd800 && code < 0xe000) {
            unsure();
        }
        utf8(code);
    }
}

int main(int argc, char **argv) {
    size_t size = 1 << 16, len = 0;
    ssize_t n;
    char *data = malloc(size + 1);
    if (argc != 2 || !data)
        return 3;
    while ((n = read(0, data + len, size - len)) > 0)
        if ((len += (size_t)n) == size && !(data = realloc(data, (size *= 2) + 1)))
            return 3;
    data[len] = 0;
    at = data, end = data + len;
    value(argv[1], 0);
    space();
    if (at != end || memchr(data, 0, len))
        return 3;
    const char *text = found ? found : "null";
    size_t text_len = found ? found_len : 4;
    bool number = text_len && text_len <= 15 &&
                  strspn(text + (*text == '-'), "0123456789") == text_len - (*text == '-') &&
                  (text[*text == '-'] != '0' || text_len == 1);
    setvbuf(stdout, malloc(text_len + 64), _IOFBF, text_len + 64); /* escaped it is longer */
    if (*text == '"') {
        for (size_t i = 1; i + 1 < text_len; i++)
            if (text[i] & 0x80) /* jq repairs what is not UTF-8 */
                return 3;
        say_string(text + 1, text_len - 2);
    } else if (number || (text_len == 4 && (!memcmp(text, "true", 4) || !memcmp(text, "null", 4))) ||
               (text_len == 5 && !memcmp(text, "false", 5))) {
        fwrite(text, 1, text_len, stdout);
    } else {
        return 3;
    }
    putchar('\n');
    return fflush(stdout) ? 3 : 0;
}
