/* Trees as tar streams. Called by own, base and registry. Invariant: input from a box is bounded before it is written,
 * and no link of a layer is followed. */
#include "base/base.h"
#include "skill/registry/bundle.h"
#include "skill/base/base.h"
#include "skill/digest.h"
#include "skill/skills.h"
#include "skill/stage.h"
#include "skill/zip/zip.h"
#include "tree/tar.h"
#include "tree/treewalk.h"

enum { BUNDLE_PIECE_BYTES = 128 << 10, BUNDLE_HEADS_BYTES = 64 << 20 }; /* HEADS: of names and padding */

static int bundle_new(struct skills *skills, const char *user, struct skill_bundle *ret_bundle, struct err *err) {
    ret_bundle->at = 0;
    return skills_scratch(skills, user, skills_settings(skills)->unpacked_bytes + BUNDLE_HEADS_BYTES,
                          "skill_unpacked_mb", &ret_bundle->file, err);
}

void bundle_done(struct skill_bundle *bundle) {
    scratch_done(&bundle->file);
}

/* ---- in ---- */

struct bundle_taking {
    struct skill_bundle bundle;
    struct err err; /* why a piece could not be written */
};

static int bundle_take_piece(void *user, const uint8_t *data, size_t len) {
    struct bundle_taking *taking = user;
    return scratch_write(&taking->bundle.file, data, len, &taking->err);
}

int bundle_take(struct skills *skills, struct box *box, const char *path, int watch, struct skill_bundle *ret_bundle,
                struct err *err) {
    struct bundle_taking taking = {0};
    TRY(bundle_new(skills, box->user, &taking.bundle, err));
    int r = box_tar_out(box, path, watch, bundle_take_piece, &taking, err);
    if (taking.err.code) {
        *err = taking.err;
        r = -err->code;
    }
    if (r < 0)
        bundle_done(&taking.bundle);
    else
        *ret_bundle = taking.bundle;
    return r;
}

struct bundle_packing {
    struct tar_out tar;
    const char *top;
    struct zip *over;
    struct bundle_totals totals;
};

/* Returns whether the archive has this path itself, or a file in place of one of its directories. */
static bool bundle_hidden(struct zip *over, const char *top, const char *below) {
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    snprintf(path, sizeof path, "%s/%s", top, below);
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        bool itself = *end == 0;
        *end = 0;
        const struct zip_entry *entry = zip_find(over, path);
        if (entry && (itself || !entry->dir))
            return true;
    }
    return false;
}

static int bundle_pack_entry(void *user, const struct tree_entry *entry, struct err *err) {
    struct bundle_packing *packing = user;
    char name[TAR_NAME_BYTES];
    if (packing->over && bundle_hidden(packing->over, packing->top, entry->path))
        return 0;
    if (entry->kind != 'd' && entry->kind != 'f' && entry->kind != 'x')
        return err_set(err, ERR_INVALID, "'%.300s' is neither a file nor a directory", entry->path);
    if (snprintf(name, sizeof name, "%s%s%s", packing->top, *packing->top ? "/" : "", entry->path) >= (int)sizeof name)
        return err_set(err, ERR_TOO_LARGE, "'%.200s...': the path is too long", entry->path);
    if (entry->kind == 'd')
        return tar_out_plain(&packing->tar, 'd', name, -1, 0, err);
    uint64_t size = (uint64_t)entry->status.st_size;
    autofd fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "'%.300s'", entry->path);
    packing->totals.files++;
    packing->totals.bytes += size;
    return tar_out_plain(&packing->tar, entry->kind, name, fd, size, err);
}

int bundle_tar(int dirfd, const char *top, struct zip *over,
               int (*put)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
               struct bundle_totals *ret_totals, struct err *err) {
    uint8_t *data = xmalloc(BUNDLE_PIECE_BYTES);
    struct bundle_packing packing = {
        .top = top,
        .over = over,
        .tar = {.put = put, .user = user, .data = data, .size = BUNDLE_PIECE_BYTES, .exact = true}};
    int r = (*top ? tar_out_plain(&packing.tar, 'd', top, -1, 0, err) : 0)
            ?: treewalk_own(dirfd, bundle_pack_entry, &packing, err)
            ?: tar_out_end(&packing.tar, err);
    free(data);
    *ret_totals = packing.totals;
    return r;
}

static int bundle_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    return scratch_write(user, data, len, err);
}

int bundle_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                struct skill_bundle *ret_bundle, struct err *err) {
    struct skill_bundle bundle;
    struct bundle_totals totals;
    TRY(bundle_new(skills, user, &bundle, err));
    int r = bundle_tar(dirfd, top, over, bundle_put, &bundle.file, &totals, err);
    if (r < 0)
        bundle_done(&bundle);
    else
        *ret_bundle = bundle;
    return r;
}

/* ---- out ---- */

static int bundle_read_at(const struct skill_bundle *bundle, void *data, size_t len, uint64_t at, struct err *err) {
    ssize_t n = fd_read_at(bundle->file.fd, data, len, at);
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read a skill that was spooled");
    return (size_t)n < len ? err_set(err, ERR_PROTOCOL, "the box sent an archive that is cut off") : 0;
}

ssize_t bundle_read(void *user, void *data, size_t size, struct err *err) {
    struct skill_bundle *bundle = user;
    uint64_t left = bundle->file.bytes - bundle->at;
    if (size > left)
        size = (size_t)left;
    TRY(bundle_read_at(bundle, data, size, bundle->at, err));
    bundle->at += size;
    return (ssize_t)size;
}

/* Passes on a content in pieces. */
static int bundle_content(const struct skill_bundle *bundle, uint64_t offset, uint64_t size,
                          int (*sink)(void *user, const void *data, size_t len, struct err *err), void *user,
                          struct err *err) {
    uint8_t *data = xmalloc(BUNDLE_PIECE_BYTES);
    int r = 0;
    while (r == 0 && size > 0) {
        size_t n = size < BUNDLE_PIECE_BYTES ? (size_t)size : BUNDLE_PIECE_BYTES;
        r = bundle_read_at(bundle, data, n, offset, err) ?: sink(user, data, n, err);
        offset += n;
        size -= n;
    }
    free(data);
    return r;
}

struct bundle_reading {
    const struct skill_bundle *bundle;
    uint64_t at; /* offset after the head */
    int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err);
    void *user;
};

static int bundle_wrong(void *, const char *why, struct err *err) {
    return err_set(err, ERR_PROTOCOL, "the box sent a bad archive: %s", why);
}

static int bundle_begin(void *user, struct tar_entry *entry, struct err *err) {
    const struct bundle_reading *reading = user;
    uint64_t left = reading->bundle->file.bytes - reading->at;
    const char *why = "an entry extends past its end";
    if (entry->size > left || tar_padding(entry->size) > left - entry->size || !tar_safe_name(entry->name, &why))
        return bundle_wrong(user, why, err);
    return reading->each(reading->user, entry, reading->at, err);
}

int bundle_each(const struct skill_bundle *bundle,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err) {
    static const struct tar_sink sink = {.begin = bundle_begin, .wrong = bundle_wrong};
    struct bundle_reading reading = {.bundle = bundle, .each = each, .user = user};
    struct tar_in in = {.sink = &sink, .user = &reading};
    uint8_t block[TAR_BLOCK_BYTES];
    int r = 0;
    while (r == 0 && !in.ended) {
        uint64_t skipped;
        r = bundle_read_at(bundle, block, sizeof block, reading.at, err);
        reading.at += sizeof block;
        if (r == 0)
            r = tar_in_feed(&in, block, sizeof block, err) ?: tar_in_skip(&in, &skipped, err);
        if (r == 0)
            reading.at += skipped;
    }
    tar_in_done(&in);
    return r;
}

struct bundle_hashing {
    const struct skill_bundle *bundle;
    struct digest digest;
};

static int bundle_hash_piece(void *user, const void *data, size_t len, struct err *) {
    digest_sha_data(user, data, len);
    return 0;
}

static int bundle_hash_entry(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err) {
    struct bundle_hashing *hashing = user;
    struct digest_sha sha;
    uint8_t sha256[32];
    int r = 0;
    if (entry->type != TAR_FILE && entry->type != TAR_SYMLINK)
        return 0;
    digest_sha_begin(&sha);
    if (entry->type == TAR_FILE)
        r = bundle_content(hashing->bundle, offset, entry->size, bundle_hash_piece, &sha, err);
    else
        digest_sha_data(&sha, entry->link, strlen(entry->link));
    digest_sha_end(&sha, sha256);
    enum digest_kind kind = entry->type == TAR_SYMLINK ? DIGEST_LINK
                            : entry->mode & 0111       ? DIGEST_PROGRAM
                                                       : DIGEST_FILE;
    return r < 0 ? r : digest_add(&hashing->digest, entry->name, kind, sha256, entry->size, err);
}

int bundle_hash(const struct skill_bundle *bundle, size_t most, uint8_t ret_sha256[32], struct err *err) {
    struct bundle_hashing hashing = {.bundle = bundle};
    digest_init(&hashing.digest, most);
    int r = bundle_each(bundle, bundle_hash_entry, &hashing, err);
    if (r == 0)
        digest_end(&hashing.digest, ret_sha256);
    digest_done(&hashing.digest);
    return r;
}

/* ---- as a ZIP ---- */

/* Whatever a ZIP cannot hold is refused before its first byte is sent. */

enum { BUNDLE_ZIP_LINKS = 16 };

struct bundle_zip_item {
    const char *path, *link; /* link: its target; NULL: not a link */
    uint64_t offset, size;
    bool dir, executable, used; /* used: the directory is not empty */
};

struct bundle_zip {
    struct skills *skills;
    const char *skill;
    const struct skill_bundle *bundle;
    struct arena arena;
    struct bundle_zip_item *items;
    size_t count, room;
    struct zip_writer *writer;
};

static int bundle_zip_item(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err) {
    struct bundle_zip *packing = user;
    if (entry->name[0] == 0)
        return 0;
    if (packing->count == LIMIT_UNPACK_ENTRIES)
        return err_set(err, ERR_TOO_LARGE, "the skill has more than %u files", LIMIT_UNPACK_ENTRIES);
    arena_add(&packing->arena, packing->items, packing->count, packing->room) = (struct bundle_zip_item){
        .path = arena_strdup(&packing->arena, entry->name),
        .link = entry->type == TAR_SYMLINK ? arena_strdup(&packing->arena, entry->link) : NULL,
        .offset = offset,
        .size = entry->size,
        .dir = entry->type == TAR_DIR,
        .executable = entry->mode & 0111,
    };
    return 0;
}

static int bundle_zip_order(const void *left, const void *right) {
    return strcmp(((const struct bundle_zip_item *)left)->path, ((const struct bundle_zip_item *)right)->path);
}

static struct bundle_zip_item *bundle_zip_find(const struct bundle_zip *packing, const char *path) {
    const struct bundle_zip_item key = {.path = path};
    return packing->count ? bsearch(&key, packing->items, packing->count, sizeof key, bundle_zip_order) : NULL;
}

/* Replaces a link by the file it leads to. */
static int bundle_zip_resolve(const struct bundle_zip *packing, struct bundle_zip_item *item, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    const struct bundle_zip_item *at = item;
    for (unsigned n = 0; at && at->link && n < BUNDLE_ZIP_LINKS; n++)
        at = stage_link_target(packing->skills, packing->skill, at->path, at->link, path)
                 ? bundle_zip_find(packing, path)
                 : NULL;
    if (!at || at->link || at->dir)
        return err_set(err, ERR_INVALID,
                       "'%s/%s' is a link that does not lead to a file of the skill; a ZIP cannot hold it",
                       packing->skill, item->path);
    item->offset = at->offset;
    item->size = at->size;
    item->executable = at->executable;
    return 0;
}

static int bundle_zip_check(struct bundle_zip *packing, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int r = 0;
    if (packing->count)
        qsort(packing->items, packing->count, sizeof *packing->items, bundle_zip_order);
    for (size_t i = 0; r == 0 && i < packing->count; i++) {
        struct bundle_zip_item *item = &packing->items[i], *parent;
        snprintf(path, sizeof path, "%s", item->path);
        char *slash = strrchr(path, '/');
        if (slash && (*slash = 0, parent = bundle_zip_find(packing, path)))
            parent->used = true;
        if (item->link)
            r = bundle_zip_resolve(packing, item, err);
    }
    return r;
}

static int bundle_zip_piece(void *user, const void *data, size_t len, struct err *err) {
    return zip_writer_data(user, data, len, err);
}

/* Writes files, and directories that are empty. */
static int bundle_zip_write(struct bundle_zip *packing, const struct bundle_zip_item *item, struct err *err) {
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    if (item->dir && item->used)
        return 0;
    snprintf(path, sizeof path, "%s/%s", packing->skill, item->path);
    const struct zip_entry entry = {
        .path = path, .dir = item->dir, .executable = item->executable && !item->dir, .size = item->size};
    int r = zip_writer_entry(packing->writer, &entry, err);
    if (r == 0 && !item->dir)
        r = bundle_content(packing->bundle, item->offset, item->size, bundle_zip_piece, packing->writer, err);
    return r;
}

int bundle_zip(struct skills *skills, struct skill_bundle *bundle, const char *skill,
               int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    struct bundle_zip packing = {.skills = skills, .skill = skill, .bundle = bundle, .arena = ARENA_EMPTY};
    int r = bundle_each(bundle, bundle_zip_item, &packing, err) ?: bundle_zip_check(&packing, err);
    if (r == 0) {
        packing.writer = zip_writer_new(sink, user);
        for (size_t i = 0; r == 0 && i < packing.count; i++)
            r = bundle_zip_write(&packing, &packing.items[i], err);
        if (r == 0)
            r = zip_writer_end(packing.writer, err);
        zip_writer_free(packing.writer);
    }
    arena_done(&packing.arena);
    bundle_done(bundle);
    return r;
}

int base_zip(struct skills *skills, const char *owner, const char *agent, const char *skill,
             int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    struct base_skill found;
    struct skill_bundle bundle;
    autofd dir = -1;
    autoarena arena = ARENA_EMPTY;
    int r = base_find(skills, agent, skill, &arena, &found, err)
            ?: base_open(skills, &found, &dir, err)
            ?: bundle_pack(skills, owner, dir, "", NULL, &bundle, err);
    return r < 0 ? r : bundle_zip(skills, &bundle, skill, sink, user, err);
}
