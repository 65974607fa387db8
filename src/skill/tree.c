/* Walks over trees of skills on this machine, and their hash. Called by base and stage. Invariant: nothing is followed,
 * and depth is bounded (a descriptor a level). */
#include "skill/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "skill/base/base.h"
#include "skill/digest.h"

/* ---- walking ---- */

struct tree_walk {
    int (*each)(void *user, const struct tree_entry *entry, struct err *err);
    void *user;
    char path[LIMIT_PATH_BYTES + 1];
    size_t len;
};

static char kind_of(mode_t mode) {
    return S_ISDIR(mode) ? 'd' : S_ISREG(mode) && (mode & 0111) ? 'x' : S_ISREG(mode) ? 'f' : S_ISLNK(mode) ? 'l' : 0;
}

/* Deep trees cannot be: a path's length bounds them, and recursion holds a descriptor a level. */
static int walk_dir(struct tree_walk *walk, int fd, unsigned depth, struct err *err);

static int walk_entry(struct tree_walk *walk, int dir, const char *name, unsigned depth, struct err *err) {
    struct stat status;
    size_t len = walk->len;
    int n = snprintf(walk->path + len, sizeof walk->path - len, "%s%s", len ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof walk->path - len || depth > LIMIT_LIST_DEPTH)
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is too deep", walk->path);
    if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%.200s'", walk->path);
    walk->len += (size_t)n;
    struct tree_entry entry = {.path = walk->path,
                               .kind = kind_of(status.st_mode),
                               .parent = dir,
                               .name = name,
                               .size = S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0,
                               .changed_ms =
                                   (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000};
    int r = walk->each(walk->user, &entry, err);
    if (r == 0 && entry.kind == 'd') {
        autofd below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = below < 0 ? err_errno(err, errno, "'%.200s'", walk->path) : walk_dir(walk, fd_take(&below), depth + 1, err);
    }
    walk->len = len;
    walk->path[len] = 0;
    return r;
}

static int walk_dir(struct tree_walk *walk, int fd, unsigned depth, struct err *err) {
    DIR *dir = fdopendir(fd);
    if (!dir)
        abort();
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = walk_entry(walk, fd, entry->d_name, depth, err);
    if (r == 0 && errno)
        r = err_errno(err, errno, "'%.200s'", walk->path);
    closedir(dir);
    return r;
}

int tree_walk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
              struct err *err) {
    struct tree_walk walk = {.each = each, .user = user};
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "a skill") : walk_dir(&walk, fd, 0, err);
}

/* ---- the hash of a tree ---- */

enum { CHUNK_BYTES = 256 << 10 };

struct hashing {
    struct digest digest;
    uint64_t files;
    uint8_t *chunk;
};

static int hash_file(struct hashing *hashing, const struct tree_entry *entry, uint64_t *ret_size,
                     uint8_t ret_sha256[32], struct err *err) {
    autofd fd = openat(entry->parent, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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
        ssize_t n = readlinkat(entry->parent, entry->name, target, sizeof target);
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
    int r = tree_walk(fd, hash_entry, &hashing, err);
    if (r == 0) {
        digest_end(&hashing.digest, ret_sha256);
        *ret_files = hashing.files;
        *ret_bytes = hashing.digest.bytes;
    }
    digest_done(&hashing.digest);
    free(hashing.chunk);
    return r;
}
