/* The hash of a skill's tree on this machine, by the rule of digest.h. Called by base, creator and sync. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "skill/base/base.h"
#include "skill/digest.h"
#include "tree/treewalk.h"

enum { CHUNK_BYTES = 256 << 10 };

struct hashing {
    struct digest digest;
    uint64_t files;
    uint8_t *chunk;
};

static int hash_file(struct hashing *hashing, const struct tree_entry *entry, uint64_t *ret_size,
                     uint8_t ret_sha256[32], struct err *err) {
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "'%.200s'", entry->path);
    struct digest_sha sha;
    digest_sha_begin(&sha);
    ssize_t n;
    uint64_t size = 0;
    while ((n = fd_read_full(fd, hashing->chunk, CHUNK_BYTES)) > 0) {
        digest_sha_data(&sha, hashing->chunk, (size_t)n);
        size += (uint64_t)n;
    }
    digest_sha_end(&sha, ret_sha256);
    *ret_size = size;
    return n < 0 ? err_errno(err, (int)-n, "'%.200s'", entry->path) : 0;
}

static int hash_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct hashing *hashing = user;
    uint8_t content[32];
    char target[LIMIT_PATH_BYTES + 1];
    uint64_t size = 0;
    if (entry->kind == 'l') {
        ssize_t n = readlinkat(entry->dir, entry->name, target, sizeof target);
        if (n < 0)
            return err_errno(err, errno, "'%.200s'", entry->path);
        sha256(target, (size_t)n, content);
        return digest_add(&hashing->digest, entry->path, DIGEST_LINK, content, 0, err);
    }
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0;
    hashing->files++;
    int r = hash_file(hashing, entry, &size, content, err);
    return r < 0 ? r
                 : digest_add(&hashing->digest, entry->path, entry->kind == 'x' ? DIGEST_PROGRAM : DIGEST_FILE, content,
                              size, err);
}

int base_tree_hash(int fd, uint8_t ret_sha256[32], uint64_t *ret_files, uint64_t *ret_bytes, struct err *err) {
    struct hashing hashing = {.chunk = xmalloc(CHUNK_BYTES)};
    digest_init(&hashing.digest, LIMIT_UNPACK_ENTRIES);
    int r = treewalk_own(fd, hash_entry, &hashing, err);
    if (r == 0) {
        digest_end(&hashing.digest, ret_sha256);
        *ret_files = hashing.files;
        *ret_bytes = hashing.digest.bytes;
    }
    digest_done(&hashing.digest);
    free(hashing.chunk);
    return r;
}
