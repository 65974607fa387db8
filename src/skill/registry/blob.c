/* Trees as tars by content. Called by registry.c. Invariant: the bytes depend on names, contents and the x bit alone;
 * and a blob is on the disk, with its name, before a row can be. */
#include "skill/registry/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "skill/skills.h"
#include "tree/treewalk.h"

#define BLOB_DIR "blobs"
#define BLOB_NEW ".new-"
enum { BLOB_UNFINISHED_SECONDS = 3600, BLOB_SHA_TEXT = 64 };

static int blob_dir(struct skills *skills, int *ret_fd, struct err *err) {
    if (mkdirat(skills->dir, BLOB_DIR, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot make the directory of published trees");
    *ret_fd = skills_dir(skills->dir, BLOB_DIR);
    return *ret_fd < 0 ? err_errno(err, errno, "cannot open the directory of published trees") : 0;
}

/* ---- making ---- */

struct blob_writing {
    int fd;
    struct digest_sha sha;
};

static int blob_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct blob_writing *writing = user;
    int r = fd_write_all(writing->fd, data, len);
    if (r < 0)
        return err_errno(err, -r, "cannot write a published tree");
    digest_sha_data(&writing->sha, data, len);
    return 0;
}

int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err) {
    struct blob blob = {.skills = skills};
    struct blob_writing writing;
    uint8_t bytes[32], random[16];
    char hex[33];
    autofd blobs = -1;
    TRY(blob_dir(skills, &blobs, err));
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "cannot get random bytes");
    text_hex(hex, random, sizeof random);
    snprintf(blob.name, sizeof blob.name, BLOB_NEW "%s", hex);
    autofd fd = openat(blobs, blob.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno, "cannot write a published tree");
    writing.fd = fd;
    digest_sha_begin(&writing.sha);
    int r = bundle_tar(tree, "", NULL, blob_put, &writing, &blob.totals, err);
    digest_sha_end(&writing.sha, bytes);
    if (r == 0 && fsync(fd) < 0)
        r = err_errno(err, errno, "cannot write a published tree");
    text_hex(blob.sha256, bytes, sizeof bytes);
    if (r < 0)
        blob_drop(&blob);
    else
        *ret_blob = blob;
    return r;
}

int blob_keep(struct blob *blob, struct err *err) {
    char name[BLOB_SHA_TEXT + 8];
    autofd blobs = -1;
    TRY(blob_dir(blob->skills, &blobs, err));
    snprintf(name, sizeof name, "%s.tar", blob->sha256);
    /* Also over one of that name: it is the same, or was damaged since. */
    if (renameat(blobs, blob->name, blobs, name) < 0 || fsync(blobs) < 0)
        return err_errno(err, errno, "cannot write a published tree");
    blob->name[0] = 0;
    return 0;
}

void blob_drop(struct blob *blob) {
    autofd blobs = -1;
    if (blob->name[0] && blob_dir(blob->skills, &blobs, ERR_IGNORED) == 0)
        unlinkat(blobs, blob->name, 0);
    blob->name[0] = 0;
}

/* ---- reading ---- */

int blob_open(struct skills *skills, const char *sha256, struct blob_reader *ret_reader, struct err *err) {
    char name[BLOB_SHA_TEXT + 8];
    autofd blobs = -1;
    TRY(blob_dir(skills, &blobs, err));
    snprintf(name, sizeof name, "%.64s.tar", sha256);
    int fd = openat(blobs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "the published tree is gone");
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
        return 0; /* at the end */
    ssize_t n = fd_read_full(reader->fd, data, size);
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read a published tree");
    if (n > 0) {
        digest_sha_data(&reader->sha, data, (size_t)n);
        return n;
    }
    digest_sha_end(&reader->sha, bytes);
    text_hex(hex, bytes, sizeof bytes);
    return strcmp(hex, reader->sha256) == 0 ? 0
                                            : err_set(err, ERR_IO,
                                                      "the published tree is damaged (its SHA-256 differs); publish it "
                                                      "again");
}

void blob_close(struct blob_reader *reader) {
    if (reader->fd < 0)
        return;
    digest_sha_drop(&reader->sha);
    fd_close(&reader->fd);
}

/* ---- blobs without a row ---- */

struct blob_sweeping {
    bool (*named)(void *user, const char *sha256);
    void *user;
};

static int blob_sweep_entry(void *user, const struct tree_entry *entry, struct err *) {
    const struct blob_sweeping *sweeping = user;
    char sha256[BLOB_SHA_TEXT + 1];
    bool unneeded = false;
    snprintf(sha256, sizeof sha256, "%.64s", entry->name);
    if (strncmp(entry->name, BLOB_NEW, sizeof BLOB_NEW - 1) == 0)
        unneeded = entry->status.st_mtime < time(NULL) - BLOB_UNFINISHED_SECONDS;
    else if (strlen(entry->name) == BLOB_SHA_TEXT + 4 && strcmp(entry->name + BLOB_SHA_TEXT, ".tar") == 0)
        unneeded = !sweeping->named(sweeping->user, sha256);
    if (unneeded)
        unlinkat(entry->dir, entry->name, 0);
    return TREE_SKIP;
}

void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user) {
    autofd blobs = -1;
    if (blob_dir(skills, &blobs, ERR_IGNORED) == 0)
        treewalk(blobs, blob_sweep_entry, &(struct blob_sweeping){named, user}, ERR_IGNORED);
}
