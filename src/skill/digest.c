/* The hash of a tree. Used by base.c and own*.c. Invariant: it depends on paths, kinds and contents alone, never on the
 * order in which they were told; a changed rule makes every recorded state look modified. */
#include "base/mem.h"
#include "skill/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct digest_entry {
    const char *path;
    uint8_t kind, sha256[32];
};

void digest_sha_begin(struct digest_sha *sha) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
        abort(); /* out of memory */
    sha->context = context;
}

void digest_sha_data(struct digest_sha *sha, const void *data, size_t len) {
    EVP_DigestUpdate(sha->context, data, len);
}

void digest_sha_end(struct digest_sha *sha, uint8_t ret_sha256[32]) {
    EVP_DigestFinal_ex(sha->context, ret_sha256, NULL);
    digest_sha_drop(sha);
}

void digest_sha_drop(struct digest_sha *sha) {
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

static int by_path(const void *left, const void *right) {
    return strcmp(((const struct digest_entry *)left)->path, ((const struct digest_entry *)right)->path);
}

void digest_end(struct digest *digest, uint8_t ret_sha256[32]) {
    struct digest_sha sha;
    if (digest->count)
        qsort(digest->entries, digest->count, sizeof *digest->entries, by_path);
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
