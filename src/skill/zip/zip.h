/* ZIP archives from untrusted sources. A whole archive is checked before a byte of it is used: the central directory
 * against the local heads, names (UTF-8 by flag or by content, else GBK for the whole archive), kinds, sizes, ratio,
 * depth, duplicates (also by case folding), overlaps, encryption. Then contents are streamed out and their length and
 * CRC compared. INVALID and TOO_LARGE name the entry. One parser both checks and reads, so that they cannot disagree.
 * Independent of boxes.
 *
 * zip.c the checks, zip_dir.c the bytes, zip_name.c names, zip_read.c contents and tar, zip_writer.c writing (zlib and
 * base alone: the command line has it too). */
#ifndef CUBBY_SKILL_ZIP_H
#define CUBBY_SKILL_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct zip_limits {
    uint64_t bytes, unpacked_bytes; /* of the file; of all unpacked entries */
    unsigned entries;               /* files and directories, also directories without an entry */
    unsigned depth, ratio; /* 0: 32 and 200. ratio: unpacked to packed, of an entry above 1 MiB and of the whole */
};

struct zip_entry {
    const char *path; /* UTF-8, relative, no "." or "..", '/' between; directories without their slash */
    bool dir, executable;
    bool loose; /* a file at the top, which belongs to no skill */
    uint64_t size;
};

struct zip;
/* fd is a regular file, which the caller keeps open as long as the archive. Entries of __MACOSX, ._x and .DS_Store are
 * skipped. A folder A that contains only a folder A becomes that one. */
int zip_open(int fd, const struct zip_limits *limits, struct zip **ret_zip, struct err *err);
void zip_close(struct zip *zip); /* NULL is allowed */
size_t zip_count(const struct zip *zip);
/* Sorted by path, every directory before its content, also directories that have no entry in the archive. */
const struct zip_entry *zip_entry(const struct zip *zip, size_t i);
const struct zip_entry *zip_find(const struct zip *zip, const char *path); /* NULL: not found */
bool zip_is_gbk(const struct zip *zip);
/* The names of top directories, sorted, NULL-terminated, owned by the archive. reserved: refused names,
 * NULL-terminated; may be NULL. INVALID: "No valid skill directory found.", "Skill name 'X' is reserved for system
 * tools and cannot be uploaded.", or an invalid skill name. */
int zip_skills(struct zip *zip, const char *const *reserved, const char *const **ret_names, struct err *err);
/* The content of one entry. */
int zip_read(struct zip *zip, size_t i, int (*sink)(void *user, const uint8_t *data, size_t len), void *user,
             struct err *err);
/* All skills as one tar stream (ustar/pax), for box_tar_in: a box_reader. Files at the top are skipped. */
struct zip_tar;
struct zip_tar *zip_tar_new(struct zip *zip);
ssize_t zip_tar_read(void *tar, void *data, size_t size, struct err *err);
void zip_tar_free(struct zip_tar *tar);

/* ---- writing: streamed, deflated, UTF-8 names, times fixed so that the same files give the same bytes ---- */
struct zip_writer;
struct zip_writer *zip_writer_new(int (*sink)(void *user, const uint8_t *data, size_t len), void *user);
/* Its content must follow: exactly entry->size bytes. Paths are as in a box: bytes that are not UTF-8 are kept. */
int zip_writer_entry(struct zip_writer *writer, const struct zip_entry *entry, struct err *err);
int zip_writer_data(struct zip_writer *writer, const void *data, size_t len, struct err *err);
int zip_writer_end(struct zip_writer *writer, struct err *err); /* ends the archive */
void zip_writer_free(struct zip_writer *writer);

#endif
