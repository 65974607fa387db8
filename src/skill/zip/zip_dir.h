/* Private to zip*.c: the raw entries of an archive, and the checked ones. */
#ifndef CUBBY_SKILL_ZIP_DIR_H
#define CUBBY_SKILL_ZIP_DIR_H

#include "base/arena.h"
#include "skill/zip/zip.h"

enum {
    ZIP_FLAG_ENCRYPTED = 0x1,
    ZIP_FLAG_DESCRIPTOR = 0x8, /* sizes and CRC after the content */
    ZIP_FLAG_UTF8 = 0x800,
    ZIP_HOST_UNIX = 3,
    ZIP_HOST_DARWIN = 19,
    ZIP_STORED = 0,
    ZIP_DEFLATED = 8,
    ZIP_LOCAL_BYTES = 30,
    ZIP_CENTRAL_BYTES = 46,
    ZIP_DIRECTORY_BYTES = 64 << 20, /* largest central directory that is read */
};

struct zip_raw {                /* a row of the central directory */
    const char *name, *unicode; /* raw bytes; unicode: from a Unicode Path field that matches the name, or NULL */
    uint16_t name_len, unicode_len;
    uint16_t flags, method, host, dos_time, dos_date;
    uint32_t crc, attributes;
    uint64_t packed, size, head; /* head: offset of its local head */
    uint64_t content;            /* offset of its content, set by zip_dir_local */
};

struct zip_dir {
    const uint8_t *bytes; /* the directory; the rows point into it */
    struct zip_raw *raws;
    size_t count;
    uint64_t at; /* offset of the central directory; contents end before it */
};

/* TOO_LARGE: more than max entries. */
int zip_dir_read(int fd, uint64_t file_bytes, size_t max, struct arena *arena, struct zip_dir *ret_dir,
                 struct err *err);
/* Compares an entry's local head with its row, and finds its content. */
int zip_dir_local(int fd, const struct zip_dir *dir, struct zip_raw *raw, struct err *err);

/* "entry NAME: WHY" */
int zip_refuse(const struct zip_raw *raw, enum err_code code, struct err *err, const char *why);

/* ---- names ---- */

enum { ZIP_SHOWN_BYTES = 200 };
/* A name for an error text: printable and shortened. */
const char *zip_shown(char out[ZIP_SHOWN_BYTES], const char *name, size_t len);
/* true: names without the UTF-8 flag are not all UTF-8, so GBK is used for all of those. */
bool zip_names_gbk(const struct zip_dir *dir);
/* The path of a row: decoded, normalized, relative, safe. *ret_dir: it ends in a slash. "" is the top itself. */
int zip_name(const struct zip_raw *raw, bool gbk, struct arena *arena, const char **ret_path, bool *ret_dir,
             struct err *err);
bool zip_name_ignored(const char *path);                            /* files made by Finder */
const char *zip_name_folded(struct arena *arena, const char *path); /* case-folded */

/* ---- contents ---- */

struct zip_item { /* an entry in use */
    struct zip_entry entry;
    const struct zip_raw *raw; /* NULL: a directory without an entry */
};

struct zip {
    int fd;
    bool gbk;
    struct arena arena;
    struct zip_dir dir;
    struct zip_item *items; /* sorted by path */
    size_t count;
    const char **skills;
};

#endif
