/* The hash of a tree. Called by base, own and sync. Invariant: it depends only on paths, kinds and contents, not on
 * the order of digest_add. If the rule changed, every recorded skill would look modified. */
#include "skill/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "tree/treewalk.h"

enum { DIGEST_CHUNK_BYTES = 256 << 10 };

struct digest_entry {
    const char *path;
    uint8_t kind, sha256[32];
};

void digest_sha_begin(struct digest_sha *sha) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    xensure(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    sha->context = context;
}

void digest_sha_data(struct digest_sha *sha, const void *data, size_t len) {
    EVP_DigestUpdate(sha->context, data, len);
}

void digest_sha_end(struct digest_sha *sha, uint8_t ret_sha256[32]) {
    EVP_DigestFinal_ex(sha->context, ret_sha256, NULL);
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

void digest_init(struct digest *digest, size_t most) {
    *digest = (struct digest){.most = most};
    arena_init(&digest->arena);
}

int digest_add(struct digest *digest, const char *path, enum digest_kind kind, const uint8_t sha256[32], uint64_t size,
               struct err *err) {
    if (digest->count == digest->most)
        return err_set(err, ERR_TOO_LARGE, "the skill has more than %zu files", digest->most);
    struct digest_entry *entry = &vec_add(digest->entries, digest->count, digest->room);
    *entry = (struct digest_entry){.path = arena_strdup(&digest->arena, path), .kind = (uint8_t)kind};
    memcpy(entry->sha256, sha256, sizeof entry->sha256);
    digest->bytes += size;
    return 0;
}

static int digest_order(const void *left, const void *right) {
    return strcmp(((const struct digest_entry *)left)->path, ((const struct digest_entry *)right)->path);
}

void digest_end(struct digest *digest, uint8_t ret_sha256[32]) {
    struct digest_sha sha;
    if (digest->count)
        qsort(digest->entries, digest->count, sizeof *digest->entries, digest_order);
    digest_sha_begin(&sha);
    for (size_t i = 0; i < digest->count; i++) {
        const struct digest_entry *entry = &digest->entries[i];
        digest_sha_data(&sha, entry->path, strlen(entry->path) + 1);
        digest_sha_data(&sha, &entry->kind, 1);
        digest_sha_data(&sha, entry->sha256, sizeof entry->sha256);
    }
    digest_sha_end(&sha, ret_sha256);
}

void digest_done(struct digest *digest) {
    free(digest->entries);
    digest->entries = NULL;
    arena_done(&digest->arena);
}

int digest_fd(int fd, uint8_t ret_sha256[32], uint64_t *ret_size) {
    struct digest_sha sha;
    uint8_t *chunk = xmalloc(DIGEST_CHUNK_BYTES);
    ssize_t n;
    *ret_size = 0;
    digest_sha_begin(&sha);
    for (; (n = fd_read_at(fd, chunk, DIGEST_CHUNK_BYTES, *ret_size)) > 0; *ret_size += (uint64_t)n)
        digest_sha_data(&sha, chunk, (size_t)n);
    digest_sha_end(&sha, ret_sha256);
    free(chunk);
    return (int)n;
}

/* ---- a tree on this machine ---- */

static int digest_tree_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct digest *digest = user;
    uint8_t content[32];
    char target[LIMIT_PATH_BYTES + 1];
    uint64_t size = 0;
    if (entry->kind == 'l') {
        ssize_t n = readlinkat(entry->dir, entry->name, target, sizeof target);
        if (n < 0)
            return err_errno(err, errno, "'%.200s'", entry->path);
        sha256(target, (size_t)n, content);
        return digest_add(digest, entry->path, DIGEST_LINK, content, 0, err);
    }
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0;
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int number = fd < 0 ? -errno : digest_fd(fd, content, &size);
    if (number < 0)
        return err_errno(err, -number, "'%.200s'", entry->path);
    digest->files++;
    return digest_add(digest, entry->path, entry->kind == 'x' ? DIGEST_PROGRAM : DIGEST_FILE, content, size, err);
}

int digest_tree(int fd, uint8_t ret_sha256[32], uint64_t *ret_files, uint64_t *ret_bytes, struct err *err) {
    struct digest digest;
    digest_init(&digest, LIMIT_UNPACK_ENTRIES);
    int r = treewalk_own(fd, digest_tree_entry, &digest, err);
    if (r == 0) {
        digest_end(&digest, ret_sha256);
        *ret_files = digest.files;
        *ret_bytes = digest.bytes;
    }
    digest_done(&digest);
    return r;
}
