/* Trees as tars by content. Called by registry.c. Invariant: the bytes depend on names, contents and the x bit alone; and
 * a blob is on the disk, with its name, before a row can be. */
#include "skill/registry/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/tarfmt.h"
#include "base/text.h"
#include "skill/skills.h"

#define BLOBS "blobs"
#define NEW_PREFIX ".new-"
enum { BLOB_DEPTH = 64, BLOB_PIECE = 64 << 10, HALF_MADE_SECONDS = 3600, SHA_TEXT = 64 };

static int blobs_open(struct skills *skills, int *ret_fd, struct err *err) {
    if (mkdirat(skills->dir, BLOBS, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "the directory of published trees");
    int fd = openat(skills->dir, BLOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "the directory of published trees");
    *ret_fd = fd;
    return 0;
}

/* ---- making ---- */

struct writing {
    int fd;
    struct digest_sha sha;
    struct blob *blob;
    uint8_t piece[BLOB_PIECE];
};

static int writing_put(struct writing *writing, const void *data, size_t len, struct err *err) {
    int r = fd_write_all(writing->fd, data, len);
    if (r < 0)
        return err_errno(err, -r, "keeping a published tree");
    digest_sha_data(&writing->sha, data, len);
    return 0;
}

static int writing_head(struct writing *writing, char type, const char *path, uint32_t mode, uint64_t size,
                        struct err *err) {
    struct tar_entry *entry = xcalloc(1, sizeof *entry); /* two names of 4 KiB: not on every level's stack */
    uint8_t *head = xmalloc(TAR_HEAD_BYTES);
    entry->type = type;
    entry->mode = mode;
    entry->size = size;
    snprintf(entry->name, sizeof entry->name, "%s", path);
    int r = writing_put(writing, head, tar_format(head, entry, 0, 0), err);
    free(head);
    free(entry);
    return r;
}

static int writing_file(struct writing *writing, int dir, const char *name, const char *path, struct err *err) {
    static const uint8_t zeros[TAR_BLOCK_BYTES];
    struct stat status;
    autofd file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        return err_errno(err, errno, "'%.300s'", path);
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "'%.300s' is neither a file nor a directory", path);
    uint64_t left = (uint64_t)status.st_size;
    int r = writing_head(writing, TAR_FILE, path, status.st_mode & 0111 ? 0755 : 0644, left, err);
    while (r == 0 && left > 0) {
        ssize_t n = fd_read_full(file, writing->piece, left < BLOB_PIECE ? (size_t)left : BLOB_PIECE);
        if (n <= 0)
            return err_errno(err, n < 0 ? (int)-n : EIO, "'%.300s'", path);
        r = writing_put(writing, writing->piece, (size_t)n, err);
        left -= (uint64_t)n;
    }
    if (r == 0)
        r = writing_put(writing, zeros, (size_t)tar_padding((uint64_t)status.st_size), err);
    writing->blob->files++;
    writing->blob->bytes += (uint64_t)status.st_size;
    return r;
}

static int name_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a directory, sorted as bytes. */
static int names_read(int dir, struct arena *arena, const char ***ret_names, size_t *ret_count, struct err *err) {
    size_t count = 0, room = 64;
    const char **names = arena_alloc(arena, room * sizeof *names);
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    if (!stream) {
        int number = errno;
        fd_close(&copy);
        return err_errno(err, number, "a published directory");
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (count == room) {
            const char **more = arena_alloc(arena, 2 * room * sizeof *more);
            memcpy(more, names, room * sizeof *more);
            names = more;
            room *= 2;
        }
        names[count++] = arena_strdup(arena, entry->d_name);
    }
    closedir(stream);
    qsort(names, count, sizeof *names, name_order);
    *ret_names = names;
    *ret_count = count;
    return 0;
}

static int writing_tree(struct writing *writing, int dir, const char *above, unsigned depth, struct err *err) {
    autoarena arena;
    const char **names;
    size_t count;
    arena_init(&arena);
    if (depth > BLOB_DEPTH)
        return err_set(err, ERR_TOO_LARGE, "'%.300s' lies deeper than %d directories", above, BLOB_DEPTH);
    int r = names_read(dir, &arena, &names, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const char *path = *above ? arena_printf(&arena, "%s/%s", above, names[i]) : names[i];
        if (strlen(path) >= TAR_NAME_BYTES)
            return err_set(err, ERR_TOO_LARGE, "'%.300s…' is too long a path", path);
        autofd below = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            r = writing_file(writing, dir, names[i], path, err);
            continue;
        }
        r = writing_head(writing, TAR_DIR, path, 0755, 0, err);
        if (r == 0)
            r = writing_tree(writing, below, path, depth + 1, err);
    }
    return r;
}

static int writing_all(struct writing *writing, int tree, struct err *err) {
    static const uint8_t end[2 * TAR_BLOCK_BYTES];
    int r = writing_tree(writing, tree, "", 1, err);
    if (r == 0)
        r = writing_put(writing, end, sizeof end, err);
    if (r == 0 && fsync(writing->fd) < 0)
        r = err_errno(err, errno, "keeping a published tree");
    return r;
}

int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err) {
    struct blob blob = {.skills = skills};
    uint8_t bytes[32], random[16];
    char hex[33];
    autofd blobs = -1;
    int r = blobs_open(skills, &blobs, err);
    if (r < 0)
        return r;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "random bytes");
    text_hex(hex, random, sizeof random);
    snprintf(blob.name, sizeof blob.name, NEW_PREFIX "%s", hex);
    struct writing *writing = xcalloc(1, sizeof *writing);
    writing->blob = &blob;
    writing->fd = openat(blobs, blob.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (writing->fd < 0) {
        r = err_errno(err, errno, "keeping a published tree");
        free(writing);
        return r;
    }
    digest_sha_begin(&writing->sha);
    r = writing_all(writing, tree, err);
    digest_sha_end(&writing->sha, bytes);
    fd_close(&writing->fd);
    free(writing);
    if (r < 0) {
        blob_drop(&blob);
        return r;
    }
    text_hex(blob.sha256, bytes, sizeof bytes);
    *ret_blob = blob;
    return 0;
}

int blob_keep(struct blob *blob, struct err *err) {
    char name[SHA_TEXT + 8];
    autofd blobs = -1;
    int r = blobs_open(blob->skills, &blobs, err);
    if (r < 0)
        return r;
    snprintf(name, sizeof name, "%s.tar", blob->sha256);
    /* Also over one of that name: it is the same, or was damaged since. */
    if (renameat(blobs, blob->name, blobs, name) < 0 || fsync(blobs) < 0)
        return err_errno(err, errno, "keeping a published tree");
    blob->name[0] = 0;
    return 0;
}

void blob_drop(struct blob *blob) {
    autofd blobs = -1;
    struct err ignored;
    if (blob->name[0] && blobs_open(blob->skills, &blobs, &ignored) == 0)
        unlinkat(blobs, blob->name, 0);
    blob->name[0] = 0;
}

/* ---- reading ---- */

int blob_open(struct skills *skills, const char *sha256, struct blob_reader *ret_reader, struct err *err) {
    char name[SHA_TEXT + 8];
    autofd blobs = -1;
    int r = blobs_open(skills, &blobs, err);
    if (r < 0)
        return r;
    snprintf(name, sizeof name, "%.64s.tar", sha256);
    int fd = openat(blobs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "what was published is not there any more");
    *ret_reader = (struct blob_reader){.fd = fd};
    snprintf(ret_reader->sha256, sizeof ret_reader->sha256, "%.64s", sha256);
    digest_sha_begin(&ret_reader->sha);
    return 0;
}

ssize_t blob_read(void *user, void *data, size_t size, struct err *err) {
    struct blob_reader *reader = user;
    uint8_t bytes[32];
    char hex[65];
    if (!reader->sha.context)
        return 0; /* the end was told */
    ssize_t n = fd_read_full(reader->fd, data, size);
    if (n < 0)
        return err_errno(err, (int)-n, "what was published");
    if (n > 0) {
        digest_sha_data(&reader->sha, data, (size_t)n);
        return n;
    }
    digest_sha_end(&reader->sha, bytes);
    text_hex(hex, bytes, sizeof bytes);
    if (strcmp(hex, reader->sha256) != 0)
        return err_set(err, ERR_IO,
                       "what was published has been damaged since (its SHA-256 is another); publish it again");
    return 0;
}

void blob_close(struct blob_reader *reader) {
    if (reader->fd < 0)
        return;
    digest_sha_drop(&reader->sha);
    fd_close(&reader->fd);
}

/* ---- what nobody needs ---- */

static bool blob_unneeded(int blobs, const char *name, bool (*named)(void *user, const char *sha256), void *user) {
    struct stat status;
    char sha256[SHA_TEXT + 1];
    if (strncmp(name, NEW_PREFIX, sizeof NEW_PREFIX - 1) == 0)
        return fstatat(blobs, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               status.st_mtime < time(NULL) - HALF_MADE_SECONDS;
    if (strlen(name) != SHA_TEXT + 4 || strcmp(name + SHA_TEXT, ".tar") != 0)
        return false; /* none of ours */
    snprintf(sha256, sizeof sha256, "%.64s", name);
    return !named(user, sha256);
}

void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user) {
    autofd blobs = -1;
    autoarena arena;
    struct err ignored;
    const char **names;
    size_t count;
    arena_init(&arena);
    if (blobs_open(skills, &blobs, &ignored) < 0 || names_read(blobs, &arena, &names, &count, &ignored) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (blob_unneeded(blobs, names[i], named, user))
            unlinkat(blobs, names[i], 0);
}
