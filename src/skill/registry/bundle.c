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
#include "skill/tree.h"
#include "skill/zip/zip.h"

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
    const char *top;
    struct zip *over; /* what it has is left out; NULL: nothing */
};

static int pack_bytes(struct packing *packing, const void *data, size_t len, struct err *err) {
    return scratch_write(&packing->bundle.file, data, len, err);
}

static int pack_head(struct packing *packing, const char *path, char kind, uint64_t size, struct err *err) {
    struct tar_entry entry = {.type = kind == 'd' ? TAR_DIR : TAR_FILE, .size = size};
    uint8_t head[TAR_HEAD_BYTES];
    int len = snprintf(entry.name, sizeof entry.name, "%s%s%s%s", packing->top, *packing->top && *path ? "/" : "", path,
                       kind == 'd' ? "/" : "");
    if (len >= (int)sizeof entry.name)
        return err_set(err, ERR_TOO_LARGE, "a path of the skill is too long");
    entry.mode = kind == 'f' ? 0644 : 0755;
    return pack_bytes(packing, head, tar_format(head, &entry, 0, 0), err);
}

static int pack_content(struct packing *packing, int fd, uint64_t size, struct err *err) {
    static const uint8_t zeros[TAR_BLOCK_BYTES];
    uint8_t *data = xmalloc(PIECE_BYTES);
    int r = 0;
    for (uint64_t left = size; r == 0 && left > 0;) {
        ssize_t n = fd_read_full(fd, data, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES);
        if (n <= 0)
            r = err_errno(err, n < 0 ? (int)-n : EIO, "reading a public skill");
        else
            r = pack_bytes(packing, data, (size_t)n, err);
        left -= n > 0 ? (uint64_t)n : 0;
    }
    free(data);
    return r == 0 ? pack_bytes(packing, zeros, (size_t)tar_padding(size), err) : r;
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
        return pack_head(packing, entry->path, 'd', 0, err);
    if (entry->kind != 'f' && entry->kind != 'x')
        return 0; /* a layer has nothing else */
    autofd fd = openat(entry->parent, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "reading a public skill");
    int r = pack_head(packing, entry->path, entry->kind, entry->size, err);
    return r < 0 ? r : pack_content(packing, fd, entry->size, err);
}

int bundle_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct bundle *ret_bundle,
                struct err *err) {
    return bundle_pack_below(skills, user, dirfd, top, NULL, ret_bundle, err);
}

int bundle_pack_below(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                      struct bundle *ret_bundle, struct err *err) {
    static const uint8_t end[2 * TAR_BLOCK_BYTES];
    struct packing packing = {.top = top, .over = over};
    int r = bundle_new(skills, user, &packing.bundle, err);
    if (r < 0)
        return r;
    if (*top)
        r = pack_head(&packing, "", 'd', 0, err);
    if (r == 0)
        r = tree_walk(dirfd, pack_entry, &packing, err);
    if (r == 0)
        r = pack_bytes(&packing, end, sizeof end, err);
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

static int each_extension(const struct bundle *bundle, struct tar_entry *entry, uint64_t at, struct err *err) {
    if (entry->size > TAR_EXTENSION_BYTES)
        return err_set(err, ERR_PROTOCOL, "the box sent an archive with a head that is too large");
    char *data = xmalloc((size_t)entry->size + 1);
    int r = read_at(bundle, data, (size_t)entry->size, at, err);
    const char *why = r < 0 ? NULL : tar_extend(entry, entry->type, data, (size_t)entry->size);
    free(data);
    return why ? err_set(err, ERR_PROTOCOL, "the box sent a bad archive: %s", why) : r;
}

int bundle_each(const struct bundle *bundle,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err) {
    struct tar_entry entry = {0};
    uint8_t block[TAR_BLOCK_BYTES];
    for (uint64_t at = 0;;) {
        bool zero;
        int r = read_at(bundle, block, sizeof block, at, err);
        const char *why = r < 0 ? NULL : tar_parse(block, &entry, &zero);
        if (r < 0)
            return r;
        if (!why && zero)
            return 0;
        at += sizeof block;
        uint64_t padded = why ? 0 : entry.size + tar_padding(entry.size);
        bool extension = !why && strchr("xgLK", entry.type);
        if (why || padded < entry.size || padded > bundle->file.bytes - at ||
            (!extension && !tar_safe_name(entry.name, &why)))
            return err_set(err, ERR_PROTOCOL, "the box sent a bad archive: %s", why ? why : "an entry beyond its end");
        r = extension ? each_extension(bundle, &entry, at, err) : each(user, &entry, at, err);
        if (r < 0)
            return r;
        if (!extension)
            tar_reset(&entry);
        at += padded;
    }
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
