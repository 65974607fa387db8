/* Trees as tar files, named by content. Called by registry.c. Invariant: the bytes depend only on names, contents and
 * the x bit; a blob is on the disk, under its name, before a row names it. */

#include "base/base.h"
#include "skill/registry/blob.h"
#include "skill/digest.h"
#include "skill/skills.h"

#define BLOB_TAR "tar" /* in its stage */
enum { BLOB_UNFINISHED_SECONDS = 3600, BLOB_SHA_TEXT = 64 };

static int blob_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    int r = fd_write_all(*(const int *)user, data, len);
    return r < 0 ? err_errno(err, -r, "cannot write a published tree") : 0;
}

int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err) {
    struct blob blob;
    uint8_t sha256[32];
    uint64_t size;
    TRY(stage_open(skills, &blob.stage, err));
    autofd fd = openat(blob.stage.fd, BLOB_TAR, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? err_errno(err, errno, "cannot write a published tree")
                   : bundle_tar(tree, "", NULL, blob_put, &fd, &blob.totals, err);
    if (r == 0 && (digest_fd(fd, sha256, &size) < 0 || fsync(fd) < 0))
        r = err_errno(err, errno, "cannot write a published tree");
    if (r < 0) {
        blob_drop(&blob);
        return r;
    }
    text_hex(blob.sha256, sha256, sizeof sha256);
    *ret_blob = blob;
    return 0;
}

int blob_keep(struct blob *blob, struct err *err) {
    int blobs = blob->stage.skills->blobs_dir;
    /* May replace a blob of that name: it has the same content, or is damaged. */
    if (renameat(blob->stage.fd, BLOB_TAR, blobs, text_make(80, "%s.tar", blob->sha256)) < 0 || fsync(blobs) < 0)
        return err_errno(err, errno, "cannot write a published tree");
    return 0;
}

void blob_drop(struct blob *blob) {
    stage_abort(&blob->stage);
}

int blob_open(struct skills *skills, const char *sha256, int *ret_fd, struct err *err) {
    uint8_t bytes[32];
    char found[BLOB_SHA_TEXT + 1];
    uint64_t size;
    autofd fd = openat(skills->blobs_dir, text_make(80, "%.64s.tar", sha256), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "the published tree is gone");
    int number = digest_fd(fd, bytes, &size);
    if (number < 0)
        return err_errno(err, -number, "cannot read a published tree");
    text_hex(found, bytes, sizeof bytes);
    if (strcmp(found, sha256) != 0)
        return err_set(err, ERR_IO, "the published tree is damaged (its SHA-256 differs); publish it again");
    *ret_fd = fd_take(&fd);
    return 0;
}

ssize_t blob_read(void *user, void *data, size_t size, struct err *err) {
    ssize_t n = fd_read_full(*(const int *)user, data, size);
    return n < 0 ? err_errno(err, (int)-n, "cannot read a published tree") : n;
}

/* ---- blobs without a row ---- */

struct blob_sweeping {
    int blobs;
    bool (*named)(void *user, const char *sha256);
    void *user;
};

/* Hidden names are unfinished blobs of older versions of cubby. They are removed after an hour. */
static bool blob_unused(void *user, const char *name, int *) {
    const struct blob_sweeping *sweeping = user;
    struct stat status;
    if (name[0] == '.')
        return fstatat(sweeping->blobs, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               status.st_mtime < time(NULL) - BLOB_UNFINISHED_SECONDS;
    return strlen(name) == BLOB_SHA_TEXT + 4 && strcmp(name + BLOB_SHA_TEXT, ".tar") == 0 &&
           !sweeping->named(sweeping->user, text_make(80, "%.64s", name));
}

void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user) {
    struct blob_sweeping sweeping = {skills->blobs_dir, named, user};
    skills_sweep(skills, skills->blobs_dir, blob_unused, &sweeping, ERR_IGNORED);
}
