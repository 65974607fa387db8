/* A skill of a box as a ZIP. Called by the doors. Invariant: the box is shared only while its files are taken, never while
 * a client reads; and whatever cannot be in a ZIP is found before its first byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "skill/own/own.h"
#include "skill/registry/bundle.h"

enum { LINKS_FOLLOWED = 16 };

struct item {
    const char *path, *link; /* link: NULL when it is none */
    uint64_t offset, size;
    bool dir, executable, used; /* used: something lies in that directory */
};

struct packing {
    const char *skill;
    const struct bundle *bundle;
    struct arena arena;
    struct item *items;
    size_t count, room;
    struct zip_writer *writer;
};

static int pack_item(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err) {
    struct packing *packing = user;
    if (entry->name[0] == 0)
        return 0;
    if (packing->count == LIMIT_UNPACK_ENTRIES)
        return err_set(err, ERR_TOO_LARGE, "the skill has more than %u files", LIMIT_UNPACK_ENTRIES);
    vec_add(packing->items, packing->count, packing->room) = (struct item){
        .path = arena_strdup(&packing->arena, entry->name),
        .link = entry->type == TAR_SYMLINK ? arena_strdup(&packing->arena, entry->link) : NULL,
        .offset = offset,
        .size = entry->size,
        .dir = entry->type == TAR_DIR,
        .executable = entry->mode & 0111,
    };
    return 0;
}

static int by_path(const void *left, const void *right) {
    return strcmp(((const struct item *)left)->path, ((const struct item *)right)->path);
}

static struct item *item_find(const struct packing *packing, const char *path) {
    const struct item key = {.path = path};
    return packing->count ? bsearch(&key, packing->items, packing->count, sizeof key, by_path) : NULL;
}

/* Where a link leads, within the skill; false: out of it. By its text alone: every part of the way is one of our items. */
static bool link_target(const struct packing *packing, const struct item *item, char path[LIMIT_PATH_BYTES + 1]) {
    const char *slash = strrchr(item->path, '/'), *text = item->link;
    size_t len = slash ? (size_t)(slash - item->path) : 0;
    char own[LIMIT_NAME_BYTES + 32];
    int prefix = snprintf(own, sizeof own, SKILL_PATH "/%s/", packing->skill);
    memcpy(path, item->path, len);
    if (text[0] == '/') {
        if (strncmp(text, own, (size_t)prefix) != 0)
            return false;
        text += prefix;
        len = 0;
    }
    for (size_t n; *text; text += n + (text[n] == '/')) {
        n = strcspn(text, "/");
        if (n == 0 || (n == 1 && text[0] == '.'))
            continue;
        if (n == 2 && memcmp(text, "..", 2) == 0) {
            if (len == 0)
                return false;
            while (len > 0 && path[--len] != '/')
                continue;
            continue;
        }
        if (len + n + 2 > LIMIT_PATH_BYTES)
            return false;
        if (len)
            path[len++] = '/';
        memcpy(path + len, text, n);
        len += n;
    }
    path[len] = 0;
    return true;
}

/* A link becomes the file it leads to. */
static int pack_resolve(const struct packing *packing, struct item *item, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    const struct item *at = item;
    for (unsigned n = 0; at && at->link && n < LINKS_FOLLOWED; n++)
        at = link_target(packing, at, path) ? item_find(packing, path) : NULL;
    if (!at || at->link || at->dir)
        return err_set(err, ERR_INVALID, "'%s/%s' is a link that leads to no file of the skill; a ZIP cannot hold it",
                       packing->skill, item->path);
    item->offset = at->offset;
    item->size = at->size;
    item->executable = at->executable;
    return 0;
}

static int pack_check(struct packing *packing, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int r = 0;
    if (packing->count)
        qsort(packing->items, packing->count, sizeof *packing->items, by_path);
    for (size_t i = 0; r == 0 && i < packing->count; i++) {
        struct item *item = &packing->items[i], *parent;
        snprintf(path, sizeof path, "%s", item->path);
        char *slash = strrchr(path, '/');
        if (slash && (*slash = 0, parent = item_find(packing, path)))
            parent->used = true;
        if (item->link)
            r = pack_resolve(packing, item, err);
    }
    return r;
}

static int pack_piece(void *user, const void *data, size_t len, struct err *err) {
    return zip_writer_data(user, data, len, err);
}

/* Files, and directories that would not be there without an entry of their own. */
static int pack_write(struct packing *packing, const struct item *item, struct err *err) {
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    if (item->dir && item->used)
        return 0;
    snprintf(path, sizeof path, "%s/%s", packing->skill, item->path);
    const struct zip_entry entry = {
        .path = path, .dir = item->dir, .executable = item->executable && !item->dir, .size = item->size};
    int r = zip_writer_entry(packing->writer, &entry, err);
    if (r == 0 && !item->dir)
        r = bundle_content(packing->bundle, item->offset, item->size, pack_piece, packing->writer, err);
    return r;
}

static int pack_all(struct packing *packing, int (*sink)(void *user, const uint8_t *data, size_t len), void *user,
                    struct err *err) {
    int r = bundle_each(packing->bundle, pack_item, packing, err);
    if (r == 0)
        r = pack_check(packing, err);
    if (r < 0)
        return r;
    packing->writer = zip_writer_new(sink, user);
    for (size_t i = 0; r == 0 && i < packing->count; i++)
        r = pack_write(packing, &packing->items[i], err);
    if (r == 0)
        r = zip_writer_end(packing->writer, err);
    zip_writer_free(packing->writer);
    return r;
}

static int pack_parcel(struct bundle *bundle, const char *skill,
                       int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    struct packing packing = {.skill = skill, .bundle = bundle};
    arena_init(&packing.arena);
    int r = pack_all(&packing, sink, user, err);
    free(packing.items);
    arena_done(&packing.arena);
    bundle_done(bundle);
    return r;
}

int base_zip(struct skills *skills, const char *owner, const char *agent, const char *skill,
             int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    struct base_skill found;
    struct bundle bundle;
    autofd dir = -1;
    autoarena arena = ARENA_EMPTY;
    int r = base_find(skills, agent, skill, &arena, &found, err);
    if (r == 0)
        r = base_open(skills, &found, &dir, err);
    if (r == 0)
        r = bundle_pack(skills, owner, dir, "", &bundle, err);
    return r < 0 ? r : pack_parcel(&bundle, skill, sink, user, err);
}

int own_zip(struct skills *skills, struct box *box, const char *skill, int watch,
            int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct bundle bundle;
    int r = skill_id_check(skill, err);
    if (r == 0)
        r = box_share(box, skills_settings(skills)->wait_ms, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    r = bundle_take(skills, box, path, watch, &bundle, err);
    box_share_end(box);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no skill '%s'", skill) : r;
    return pack_parcel(&bundle, skill, sink, user, err);
}
