/* Trees in transit. Called by own*.c. Invariant: what comes from a box is bounded before it is written, and no link of a
 * layer is followed. */
#include "skill/registry/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "skill/digest.h"
#include "skill/skills.h"
#include "skill/stage.h"
#include "skill/zip/zip.h"
#include "tree/tar.h"
#include "tree/treewalk.h"

enum { PIECE_BYTES = 128 << 10, HEADS_BYTES = 64 << 20 }; /* HEADS: of names and padding */

static int bundle_new(struct skills *skills, const char *user, struct bundle *ret_bundle, struct err *err) {
    ret_bundle->at = 0;
    return skills_scratch(skills, user, skills_settings(skills)->unpacked_bytes + HEADS_BYTES, "skill_unpacked_mb",
                          &ret_bundle->file, err);
}

void bundle_done(struct bundle *bundle) {
    scratch_done(&bundle->file);
}

/* ---- in ---- */

struct taking {
    struct bundle *bundle;
    struct err err; /* of a piece that could not be kept */
};

static int take_piece(void *user, const uint8_t *data, size_t len) {
    struct taking *taking = user;
    return scratch_write(&taking->bundle->file, data, len, &taking->err);
}

int bundle_take(struct skills *skills, struct box *box, const char *path, int watch, struct bundle *ret_bundle,
                struct err *err) {
    struct bundle bundle;
    int r = bundle_new(skills, box->user, &bundle, err);
    if (r < 0)
        return r;
    struct taking taking = {.bundle = &bundle};
    r = box_tar_out(box, path, watch, take_piece, &taking, err);
    if (taking.err.code) {
        *err = taking.err;
        r = -err->code;
    }
    if (r < 0)
        bundle_done(&bundle);
    else
        *ret_bundle = bundle;
    return r;
}

struct packing {
    struct bundle bundle;
    struct tar_out tar;
    const char *top;
    struct zip *over; /* what it has is left out; NULL: nothing */
};

static int pack_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct packing *packing = user;
    return scratch_write(&packing->bundle.file, data, len, err);
}

static int pack_one(struct packing *packing, const char *path, char kind, int fd, uint64_t size, struct err *err) {
    char name[TAR_NAME_BYTES];
    int len = snprintf(name, sizeof name, "%s%s%s%s", packing->top, *packing->top && *path ? "/" : "", path,
                       kind == 'd' ? "/" : "");
    if (len >= (int)sizeof name)
        return err_set(err, ERR_TOO_LARGE, "a path of the skill is too long");
    return tar_out_plain(&packing->tar, kind, name, fd, size, err);
}

/* The archive has this path itself, or a file where one of its directories would have to be. */
static bool pack_hidden(const struct packing *packing, const char *below) {
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    if (!packing->over)
        return false;
    snprintf(path, sizeof path, "%s/%s", packing->top, below);
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        bool itself = *end == 0;
        *end = 0;
        const struct zip_entry *entry = zip_find(packing->over, path);
        if (entry && (itself || !entry->dir))
            return true;
    }
    return false;
}

static int pack_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct packing *packing = user;
    if (pack_hidden(packing, entry->path))
        return 0;
    if (entry->kind == 'd')
        return pack_one(packing, entry->path, 'd', -1, 0, err);
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0; /* a layer has nothing else */
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "reading a public skill");
    return pack_one(packing, entry->path, entry->kind, fd, (uint64_t)entry->status.st_size, err);
}

int bundle_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct bundle *ret_bundle,
                struct err *err) {
    return bundle_pack_below(skills, user, dirfd, top, NULL, ret_bundle, err);
}

int bundle_pack_below(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                      struct bundle *ret_bundle, struct err *err) {
    struct packing packing = {.top = top, .over = over};
    int r = bundle_new(skills, user, &packing.bundle, err);
    if (r < 0)
        return r;
    packing.tar = (struct tar_out){
        .put = pack_put, .user = &packing, .data = xmalloc(PIECE_BYTES), .size = PIECE_BYTES, .exact = true};
    if (*top)
        r = pack_one(&packing, "", 'd', -1, 0, err);
    if (r == 0)
        r = treewalk_own(dirfd, pack_entry, &packing, err);
    if (r == 0)
        r = tar_out_end(&packing.tar, err);
    free(packing.tar.data);
    if (r < 0)
        bundle_done(&packing.bundle);
    else
        *ret_bundle = packing.bundle;
    return r;
}

/* ---- out ---- */

static int read_at(const struct bundle *bundle, void *data, size_t len, uint64_t at, struct err *err) {
    for (size_t got = 0; got < len;) {
        ssize_t n = pread(bundle->file.fd, (char *)data + got, len - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(err, errno, "a skill in transit")
                         : err_set(err, ERR_PROTOCOL, "the box sent an archive that is cut off");
        got += (size_t)n;
    }
    return 0;
}

ssize_t bundle_read(void *user, void *data, size_t size, struct err *err) {
    struct bundle *bundle = user;
    uint64_t left = bundle->file.bytes - bundle->at;
    if (size > left)
        size = (size_t)left;
    int r = read_at(bundle, data, size, bundle->at, err);
    if (r < 0)
        return r;
    bundle->at += size;
    return (ssize_t)size;
}

int bundle_content(const struct bundle *bundle, uint64_t offset, uint64_t size,
                   int (*sink)(void *user, const void *data, size_t len, struct err *err), void *user,
                   struct err *err) {
    uint8_t *data = xmalloc(PIECE_BYTES);
    int r = 0;
    while (r == 0 && size > 0) {
        size_t n = size < PIECE_BYTES ? (size_t)size : PIECE_BYTES;
        r = read_at(bundle, data, n, offset, err);
        if (r == 0)
            r = sink(user, data, n, err);
        offset += n;
        size -= n;
    }
    free(data);
    return r;
}

struct reading {
    const struct bundle *bundle;
    uint64_t at; /* behind the head */
    int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err);
    void *user;
};

static int read_wrong(void *user, const char *why, struct err *err) {
    (void)user;
    return err_set(err, ERR_PROTOCOL, "the box sent a bad archive: %s", why);
}

static int read_begin(void *user, struct tar_entry *entry, struct err *err) {
    const struct reading *reading = user;
    uint64_t left = reading->bundle->file.bytes - reading->at;
    const char *why = "an entry beyond its end";
    if (entry->size > left || tar_padding(entry->size) > left - entry->size || !tar_safe_name(entry->name, &why))
        return read_wrong(user, why, err);
    return reading->each(reading->user, entry, reading->at, err);
}

int bundle_each(const struct bundle *bundle,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err) {
    static const struct tar_sink sink = {.begin = read_begin, .wrong = read_wrong};
    struct reading reading = {.bundle = bundle, .each = each, .user = user};
    struct tar_in in = {.sink = &sink, .user = &reading};
    uint8_t block[TAR_BLOCK_BYTES];
    int r = 0;
    while (r == 0 && !in.ended) {
        uint64_t skipped;
        r = read_at(bundle, block, sizeof block, reading.at, err);
        reading.at += sizeof block;
        if (r == 0)
            r = tar_in_feed(&in, block, sizeof block, err);
        if (r == 0)
            r = tar_in_skip(&in, &skipped, err);
        if (r == 0)
            reading.at += skipped;
    }
    tar_in_done(&in);
    return r;
}

struct hashing {
    const struct bundle *bundle;
    struct digest digest;
};

static int hash_piece(void *user, const void *data, size_t len, struct err *err) {
    (void)err;
    digest_sha_data(user, data, len);
    return 0;
}

static int hash_entry(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err) {
    struct hashing *hashing = user;
    struct digest_sha sha;
    uint8_t sha256[32];
    int r = 0;
    if (entry->type != TAR_FILE && entry->type != TAR_SYMLINK)
        return 0;
    digest_sha_begin(&sha);
    if (entry->type == TAR_FILE)
        r = bundle_content(hashing->bundle, offset, entry->size, hash_piece, &sha, err);
    else
        digest_sha_data(&sha, entry->link, strlen(entry->link));
    digest_sha_end(&sha, sha256);
    enum digest_kind kind = entry->type == TAR_SYMLINK ? DIGEST_LINK
                            : entry->mode & 0111       ? DIGEST_PROGRAM
                                                       : DIGEST_FILE;
    return r < 0 ? r : digest_add(&hashing->digest, entry->name, kind, sha256, entry->size, err);
}

int bundle_hash(const struct bundle *bundle, size_t most, uint8_t ret_sha256[32], struct err *err) {
    struct hashing hashing = {.bundle = bundle};
    digest_init(&hashing.digest, most);
    int r = bundle_each(bundle, hash_entry, &hashing, err);
    if (r == 0)
        digest_end(&hashing.digest, ret_sha256);
    digest_done(&hashing.digest);
    return r;
}
