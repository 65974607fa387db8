/* Names of a ZIP archive's entries: from bytes of some encoding to a path that can be made below a directory. Called by zip.c.
 * Invariant: a name is decoded first and judged then (a GBK character may hold the byte of a backslash), and what is
 * judged is what is used. */
#include <ctype.h>
#include <errno.h>
#include <iconv.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/text.h"
#include "skill/zip/zip_dir.h"

enum { NAME_BYTES = 3072 /* leaves room for where the tree will lie */ };

const char *zip_shown(char out[ZIP_SHOWN_BYTES], const char *name, size_t len) {
    size_t at = 0, used = 0;
    char shown[8];
    for (size_t i = 0; i < len; i += used) {
        size_t n = text_show(name + i, len - i, shown, &used);
        if (at + n + 4 > ZIP_SHOWN_BYTES) {
            memcpy(out + at, "...", 3);
            at += 3;
            break;
        }
        memcpy(out + at, shown, n);
        at += n;
    }
    out[at] = 0;
    return out;
}

static bool said_utf8(const struct zip_raw *raw) {
    return raw->flags & ZIP_FLAG_UTF8 || raw->unicode;
}

bool zip_names_gbk(const struct zip_dir *dir) {
    for (size_t i = 0; i < dir->count; i++)
        if (!said_utf8(&dir->raws[i]) && !text_utf8(dir->raws[i].name, dir->raws[i].name_len))
            return true;
    return false;
}

static int refuse(const struct zip_raw *raw, struct err *err, const char *why) {
    char shown[ZIP_SHOWN_BYTES];
    return err_set(err, ERR_INVALID, "entry '%s': %s", zip_shown(shown, raw->name, raw->name_len), why);
}

/* Each GBK character becomes at most three bytes. */
static int from_gbk(const struct zip_raw *raw, struct arena *arena, char **ret_text, size_t *ret_len, struct err *err) {
    size_t in_left = raw->name_len, room = 3 * in_left, out_left = room;
    char *in = arena_copy(arena, raw->name, in_left), *out = arena_alloc(arena, room + 1), *start = out;
    iconv_t convert = iconv_open("UTF-8", "GBK");
    if (convert == (iconv_t)-1)
        return err_errno(err, errno, "this machine's C library cannot read GBK names");
    size_t n = iconv(convert, &in, &in_left, &out, &out_left);
    iconv_close(convert);
    if (n == (size_t)-1 || in_left)
        return refuse(raw, err, "its name is neither UTF-8 nor GBK");
    *ret_text = start;
    *ret_len = room - out_left;
    return 0;
}

/* The name as text, with a NUL behind. */
static int decode(const struct zip_raw *raw, bool gbk, struct arena *arena, char **ret_text, size_t *ret_len,
                  struct err *err) {
    const char *name = raw->unicode ? raw->unicode : raw->name;
    size_t len = raw->unicode ? raw->unicode_len : raw->name_len;
    if (memchr(raw->name, 0, raw->name_len) || memchr(name, 0, len))
        return refuse(raw, err, "its name holds a NUL");
    if (gbk && !said_utf8(raw))
        return from_gbk(raw, arena, ret_text, ret_len, err);
    if (!text_utf8(name, len))
        return refuse(raw, err, "its name is said to be UTF-8 and is not");
    *ret_text = arena_copy(arena, name, len);
    *ret_len = len;
    return 0;
}

/* Where a backslash may be part of a name, nobody can tell what it was meant to be. */
static int backslashes(const struct zip_raw *raw, char *text, struct err *err) {
    bool is_unix = raw->host == ZIP_HOST_UNIX || raw->host == ZIP_HOST_DARWIN;
    char *at = strchr(text, '\\');
    if (at && is_unix)
        return refuse(raw, err, "a backslash in its name");
    for (; at; at = strchr(at, '\\'))
        *at = '/';
    return 0;
}

static const char *part_wrong(const char *part, size_t len) {
    if (len == 2 && memcmp(part, "..", 2) == 0)
        return "\"..\" in its path";
    if (len > LIMIT_NAME_BYTES)
        return "a name of more than 255 bytes";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f)
            return "a control character in its name";
    return NULL;
}

/* Leaves out "." and empty parts, in place. */
static const char *normal(char *text) {
    char *out = text;
    for (char *part = text, *next; part; part = next) {
        char *slash = strchr(part, '/');
        size_t len = slash ? (size_t)(slash - part) : strlen(part);
        next = slash ? slash + 1 : NULL;
        if (len == 0 || (len == 1 && *part == '.'))
            continue;
        const char *why = part_wrong(part, len);
        if (why)
            return why;
        if (out != text)
            *out++ = '/';
        memmove(out, part, len);
        out += len;
    }
    *out = 0;
    return NULL;
}

int zip_name(const struct zip_raw *raw, bool gbk, struct arena *arena, const char **ret_path, bool *ret_dir,
             struct err *err) {
    char *text = NULL;
    size_t len = 0;
    if (raw->name_len == 0)
        return err_set(err, ERR_INVALID, "an entry has no name");
    int r = decode(raw, gbk, arena, &text, &len, err);
    if (r == 0)
        r = backslashes(raw, text, err);
    if (r < 0)
        return r;
    if (text[0] == '/' || (isalpha((unsigned char)text[0]) && text[1] == ':'))
        return refuse(raw, err, "its path is absolute");
    if (len > NAME_BYTES)
        return refuse(raw, err, "its path is too long");
    bool dir = len > 0 && text[len - 1] == '/';
    const char *why = normal(text);
    if (why)
        return refuse(raw, err, why);
    *ret_path = text;
    *ret_dir = dir;
    return 0;
}

bool zip_name_ignored(const char *path) {
    if (strncmp(path, "__MACOSX", 8) == 0 && (path[8] == 0 || path[8] == '/'))
        return true;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "._", 2) == 0 || strcmp(part, ".DS_Store") == 0)
            return true;
    }
    return false;
}

/* The C library's table for Unicode; without it ASCII is folded alone. Made once, kept for ever. */
static locale_t fold_locale;
static void fold_locale_make(void) {
    fold_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static wint_t fold(wint_t c) {
    if (!fold_locale)
        return c < 0x80 ? (wint_t)tolower((int)c) : c;
    return towlower_l(towupper_l(c, fold_locale), fold_locale);
}

static wint_t next_character(const unsigned char **at) {
    const unsigned char *c = *at;
    int more = *c < 0x80 ? 0 : *c < 0xe0 ? 1 : *c < 0xf0 ? 2 : 3;
    wint_t value = more ? (wint_t)(*c & (0x3f >> more)) : *c;
    for (int i = 1; i <= more; i++)
        value = value << 6 | (c[i] & 0x3f);
    *at = c + 1 + more;
    return value;
}

/* To compare, never to show: four bytes a character beyond ASCII. */
const char *zip_name_folded(struct arena *arena, const char *path) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fold_locale_make);
    char *out = arena_alloc(arena, 2 * strlen(path) + 1), *end = out;
    for (const unsigned char *at = (const unsigned char *)path; *at;) {
        wint_t c = fold(next_character(&at));
        if (c < 0x80) {
            *end++ = (char)c;
            continue;
        }
        for (int shift = 18; shift >= 0; shift -= 6)
            *end++ = (char)(0x80 | (c >> shift & 0x3f));
    }
    *end = 0;
    return out;
}
