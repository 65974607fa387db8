/* Private to zip*.c: an archive's entries as its bytes have them, and as they were found to be. */
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
    ZIP_DIRECTORY_BYTES = 64 << 20, /* of a central directory that is looked at */
};

struct zip_raw {                /* a row of the central directory */
    const char *name, *unicode; /* raw bytes; unicode: of a Unicode Path field that fits the name, or NULL */
    uint16_t name_len, unicode_len;
    uint16_t flags, method, host, dos_time, dos_date;
    uint32_t crc, attributes;
    uint64_t packed, size, head; /* head: where its local head lies */
    uint64_t content;            /* where its content lies; set by zip_dir_local */
};

struct zip_dir {
    const uint8_t *bytes; /* of the directory; the rows point into them */
    struct zip_raw *raws;
    size_t count;
    uint64_t at; /* where the central directory lies: contents end before it */
};

/* Entries beyond max are TOO_LARGE. */
int zip_dir_read(int fd, uint64_t file_bytes, size_t max, struct arena *arena, struct zip_dir *ret_dir,
                 struct err *err);
/* Compares an entry's local head with its row; finds the content. */
int zip_dir_local(int fd, const struct zip_dir *dir, struct zip_raw *raw, struct err *err);

/* "entry NAME: WHY" */
int zip_refuse(const struct zip_raw *raw, enum err_code code, struct err *err, const char *why);

/* ---- names ---- */

enum { ZIP_SHOWN_BYTES = 200 };
/* A name for an error text: printable, cut. */
const char *zip_shown(char out[ZIP_SHOWN_BYTES], const char *name, size_t len);
/* One for all rows: true when those without the UTF-8 flag are not all UTF-8. */
bool zip_names_gbk(const struct zip_dir *dir);
/* The path of a row: decoded, normal, relative, safe. *ret_dir: it ends in a slash. "" for the top itself. */
int zip_name(const struct zip_raw *raw, bool gbk, struct arena *arena, const char **ret_path, bool *ret_dir,
             struct err *err);
bool zip_name_ignored(const char *path);                            /* files made by Finder */
const char *zip_name_folded(struct arena *arena, const char *path); /* without regard to case */

/* ---- contents ---- */

struct zip_item { /* an entry that is kept */
    struct zip_entry entry;
    const struct zip_raw *raw; /* NULL: a directory without an entry of its own */
};

struct zip {
    int fd;
    bool gbk;
    struct arena arena;
    struct zip_dir dir;
    struct zip_item *items; /* by path */
    size_t count;
    const char **skills;
};

#endif
