/* Trees as tars by content. Called by registry.c. Invariant: the bytes depend on names, contents and the x bit alone; and
 * a blob is on the disk, with its name, before a row can be. */
#include "skill/registry/blob.h"

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
#include "base/text.h"
#include "skill/skills.h"
#include "tree/tar.h"
#include "tree/treewalk.h"

#define BLOBS "blobs"
#define NEW_PREFIX ".new-"
enum { BLOB_PIECE = 64 << 10, HALF_MADE_SECONDS = 3600, SHA_TEXT = 64 };

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
    struct tar_out tar;
    uint8_t piece[BLOB_PIECE];
};

static int writing_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct writing *writing = user;
    int r = fd_write_all(writing->fd, data, len);
    if (r < 0)
        return err_errno(err, -r, "keeping a published tree");
    digest_sha_data(&writing->sha, data, len);
    return 0;
}

static int writing_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct writing *writing = user;
    if (entry->kind == 'd')
        return tar_out_plain(&writing->tar, 'd', entry->path, -1, 0, err);
    if (entry->kind != 'f' && entry->kind != 'x')
        return err_set(err, ERR_INVALID, "'%.300s' is neither a file nor a directory", entry->path);
    autofd file = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return err_errno(err, errno, "'%.300s'", entry->path);
    uint64_t size = (uint64_t)entry->status.st_size;
    writing->blob->files++;
    writing->blob->bytes += size;
    return tar_out_plain(&writing->tar, entry->kind, entry->path, file, size, err);
}

static int writing_all(struct writing *writing, int tree, struct err *err) {
    writing->tar = (struct tar_out){
        .put = writing_put, .user = writing, .data = writing->piece, .size = BLOB_PIECE, .exact = true};
    int r = treewalk_own(tree, writing_entry, writing, err);
    if (r == 0)
        r = tar_out_end(&writing->tar, err);
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

struct sweeping {
    bool (*named)(void *user, const char *sha256);
    void *user;
};

static bool blob_unneeded(const struct sweeping *sweeping, const struct tree_entry *entry) {
    char sha256[SHA_TEXT + 1];
    if (strncmp(entry->name, NEW_PREFIX, sizeof NEW_PREFIX - 1) == 0)
        return entry->status.st_mtime < time(NULL) - HALF_MADE_SECONDS;
    if (strlen(entry->name) != SHA_TEXT + 4 || strcmp(entry->name + SHA_TEXT, ".tar") != 0)
        return false; /* not a blob */
    snprintf(sha256, sizeof sha256, "%.64s", entry->name);
    return !sweeping->named(sweeping->user, sha256);
}

static int sweep_entry(void *user, const struct tree_entry *entry, struct err *err) {
    (void)err;
    if (blob_unneeded(user, entry))
        unlinkat(entry->dir, entry->name, 0);
    return TREE_SKIP;
}

void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user) {
    autofd blobs = -1;
    struct err ignored;
    if (blobs_open(skills, &blobs, &ignored) == 0)
        treewalk(blobs, sweep_entry, &(struct sweeping){named, user}, &ignored);
}
