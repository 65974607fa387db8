/* Names of a ZIP archive's entries: from bytes of some encoding to a path that can be created below a directory. Called
 * by zip.c. Invariant: a name is decoded before it is checked (a GBK character may contain the byte of a backslash),
 * and the checked name is the one that is used. */
#include <ctype.h>
#include <iconv.h>
#include <locale.h>
#include <pthread.h>
#include <wctype.h>

#include "base/base.h"
#include "skill/zip/zip_dir.h"

enum { NAME_BYTES = 3072 /* leaves space for the path of the tree */ };

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

static bool zip_name_is_utf8(const struct zip_raw *raw) {
    return raw->flags & ZIP_FLAG_UTF8 || raw->unicode;
}

bool zip_names_gbk(const struct zip_dir *dir) {
    for (size_t i = 0; i < dir->count; i++)
        if (!zip_name_is_utf8(&dir->raws[i]) && !text_utf8(dir->raws[i].name, dir->raws[i].name_len))
            return true;
    return false;
}

/* Each GBK character becomes at most three bytes. */
static int zip_name_from_gbk(const struct zip_raw *raw, struct arena *arena, char **ret_text, size_t *ret_len,
                             struct err *err) {
    size_t in_left = raw->name_len, room = 3 * in_left, out_left = room;
    char *in = arena_copy(arena, raw->name, in_left), *out = arena_alloc(arena, room + 1);
    *ret_text = out;
    iconv_t convert = iconv_open("UTF-8", "GBK");
    if (convert == (iconv_t)-1)
        return err_errno(err, errno, "this machine's C library cannot read GBK names");
    size_t n = iconv(convert, &in, &in_left, &out, &out_left);
    iconv_close(convert);
    *ret_len = room - out_left;
    return n == (size_t)-1 || in_left ? zip_refuse(raw, ERR_INVALID, err, "its name is neither UTF-8 nor GBK") : 0;
}

/* Decodes the name to text with a NUL at its end. */
static int zip_name_decode(const struct zip_raw *raw, bool gbk, struct arena *arena, char **ret_text, size_t *ret_len,
                           struct err *err) {
    const char *name = raw->unicode ? raw->unicode : raw->name;
    size_t len = raw->unicode ? raw->unicode_len : raw->name_len;
    if (memchr(raw->name, 0, raw->name_len) || memchr(name, 0, len))
        return zip_refuse(raw, ERR_INVALID, err, "its name holds a NUL");
    if (gbk && !zip_name_is_utf8(raw))
        return zip_name_from_gbk(raw, arena, ret_text, ret_len, err);
    if (!text_utf8(name, len))
        return zip_refuse(raw, ERR_INVALID, err, "its name is marked as UTF-8 and is not");
    *ret_text = arena_copy(arena, name, len);
    *ret_len = len;
    return 0;
}

/* Removes "." and empty parts in place. Returns what is wrong, or NULL. */
static const char *zip_name_normalize(char *text) {
    char *out = text;
    for (char *part = text, *next; part; part = next) {
        char *slash = strchr(part, '/');
        size_t len = slash ? (size_t)(slash - part) : strlen(part);
        next = slash ? slash + 1 : NULL;
        if (len == 0 || (len == 1 && *part == '.'))
            continue;
        if (len == 2 && memcmp(part, "..", 2) == 0)
            return "its path contains \"..\"";
        if (len > LIMIT_NAME_BYTES)
            return "its path contains a name of more than 255 bytes";
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f)
                return "its name contains a control character";
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
    TRY(zip_name_decode(raw, gbk, arena, &text, &len, err));
    char *at = strchr(text, '\\');
    if (at &&
        (raw->host == ZIP_HOST_UNIX || raw->host == ZIP_HOST_DARWIN)) /* on these systems it may be part of a name */
        return zip_refuse(raw, ERR_INVALID, err, "its name contains a backslash");
    for (; at; at = strchr(at, '\\'))
        *at = '/';
    bool dir = len > 0 && text[len - 1] == '/';
    const char *why = text[0] == '/' || (isalpha((unsigned char)text[0]) && text[1] == ':') ? "its path is absolute"
                      : len > NAME_BYTES                                                    ? "its path is too long"
                                                                                            : zip_name_normalize(text);
    if (why)
        return zip_refuse(raw, ERR_INVALID, err, why);
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

/* The C library's case table for Unicode; without it only ASCII is folded. Made once, never freed. */
static locale_t zip_name_locale;
static void zip_name_locale_make(void) {
    zip_name_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Only for comparing: four bytes per character beyond ASCII. */
const char *zip_name_folded(struct arena *arena, const char *path) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t len = strlen(path);
    pthread_once(&once, zip_name_locale_make);
    char *out = arena_alloc(arena, 2 * len + 1), *end = out;
    for (size_t i = 0, used; i < len; i += used) {
        uint32_t c = 0;
        used = text_character(path + i, len - i, &c); /* never 0: the path is UTF-8 */
        if (zip_name_locale)
            c = (uint32_t)towlower_l(towupper_l((wint_t)c, zip_name_locale), zip_name_locale);
        else if (c < 0x80)
            c = (uint32_t)tolower((int)c);
        if (c < 0x80)
            *end++ = (char)c;
        for (int shift = 18; c >= 0x80 && shift >= 0; shift -= 6)
            *end++ = (char)(0x80 | (c >> shift & 0x3f));
        used = used ? used : 1;
    }
    *end = 0;
    return out;
}
