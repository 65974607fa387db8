/* The tar format as bytes: heads of 512-byte blocks, pax records, GNU long names. No I/O, and only libc, so that it is
 * unit-tested and fuzzed on the host. */
#ifndef CUBBY_TREE_TARFMT_H
#define CUBBY_TREE_TARFMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK_BYTES 512u
#define TAR_NAME_BYTES 4096u       /* with its NUL */
#define TAR_EXTENSION_BYTES 65536u /* largest pax head or long name */

enum tar_type {
    TAR_FILE = '0',
    TAR_HARD_LINK = '1',
    TAR_SYMLINK = '2',
    TAR_DIR = '5',
    TAR_FIFO = '6',
    TAR_PAX = 'x',
    TAR_PAX_GLOBAL = 'g',
    TAR_LONG_NAME = 'L',
    TAR_LONG_LINK = 'K',
};

struct tar_entry {
    char type; /* as in the archive; 0 and '7' become TAR_FILE */
    char name[TAR_NAME_BYTES], link[TAR_NAME_BYTES];
    uint64_t size;
    uint32_t mode;
    int64_t mtime;
    bool has_name, has_link, has_size, has_mtime; /* set by an extension, which overrides the head after it */
};

/* Reads a head into entry, keeping values set by extensions. Returns NULL, or the error (a static text). *ret_zero: the
 * block is empty, which ends the archive. */
const char *tar_parse(const uint8_t block[TAR_BLOCK_BYTES], struct tar_entry *entry, bool *ret_zero);
/* Reads the content of a pax head, a long name or a long link, for the entry that follows. */
const char *tar_extend(struct tar_entry *entry, char type, const char *data, size_t len);
/* The next "LENGTH KEY=VALUE\n" of a pax head's content, which is not empty; false: it is malformed. */
struct tar_record {
    const char *key, *value; /* not terminated */
    size_t key_len, len;
};
bool tar_record_next(const char **data, size_t *len, struct tar_record *ret_record);
/* Resets extensions and names for the next entry. */
void tar_reset(struct tar_entry *entry);
/* Makes a name safe, in place: no "./" or '/' around it; "" for the top itself. NULL and *ret_why: it is absolute,
 * contains ".." or is too long. */
const char *tar_safe_name(char *name, const char **ret_why);

/* Writes the head, after a pax head if the names or the size need one. out has TAR_HEAD_BYTES. Returns the bytes used.
 * name and link have at most TAR_NAME_BYTES - 1 bytes. */
#define TAR_HEAD_BYTES (2 * TAR_BLOCK_BYTES + 2 * TAR_NAME_BYTES + 2 * TAR_BLOCK_BYTES)
size_t tar_format(uint8_t out[TAR_HEAD_BYTES], const struct tar_entry *entry, uint32_t uid, uint32_t gid);
static inline uint64_t tar_padding(uint64_t size) {
    return (TAR_BLOCK_BYTES - size % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES;
}

#endif
