/* What was read of boxes' skills and sub-agents, kept by box. Called by catalog.
 *
 * Rules: 1. `lock` guards the records; nothing is read from a box under it. 2. A record is replaced whole, never changed:
 * what a call gets of it is a copy. 3. What was read of a file within a second of its last change is not kept: a second
 * change in the same tick of the clock would not show. 4. Boxes that were not asked about for longest go first. */
#include "skill/catalog/catalog_cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { CATALOGS_BOXES = 512, CATALOGS_KEEP_MS = 300000, CATALOGS_SETTLE_NS = 1000000000 };
#define CATALOGS_BYTES ((size_t)64 << 20)

struct catalog_record {
    struct catalog_record *next;
    char box[17];
    const char *what;
    struct arena arena;
    struct catalog_item *items;    /* by file */
    struct catalog_entry *entries; /* whole: in order */
    struct catalog_token token;
    uint64_t made_ms;
    size_t count, bytes; /* of items, or of entries */
};

struct catalogs {
    pthread_mutex_t lock;
    struct catalog_record *records; /* the last used first */
    size_t count, bytes;
    _Atomic uint64_t keep_ms;
    catalogs_base base;
    void *base_user;
};

struct catalogs *catalogs_new(void) {
    struct catalogs *catalogs = xcalloc(1, sizeof *catalogs);
    pthread_mutex_init(&catalogs->lock, NULL);
    catalogs->keep_ms = CATALOGS_KEEP_MS;
    return catalogs;
}

static void catalog_record_free(struct catalog_record *record) {
    arena_done(&record->arena);
    free(record);
}

void catalogs_free(struct catalogs *catalogs) {
    if (!catalogs)
        return;
    while (catalogs->records) {
        struct catalog_record *next = catalogs->records->next;
        catalog_record_free(catalogs->records);
        catalogs->records = next;
    }
    pthread_mutex_destroy(&catalogs->lock);
    free(catalogs);
}

void catalogs_keep(struct catalogs *catalogs, uint64_t keep_ms) {
    catalogs->keep_ms = keep_ms;
}

void catalogs_public(struct catalogs *catalogs, catalogs_base base, void *user) {
    catalogs->base = base;
    catalogs->base_user = user;
}

catalogs_base catalogs_base_of(const struct catalogs *catalogs, void **ret_user) {
    *ret_user = catalogs ? catalogs->base_user : NULL;
    return catalogs ? catalogs->base : NULL;
}

/* ---- copies ---- */

static const char *copy_text(struct arena *arena, const char *text, size_t *bytes) {
    if (!text)
        return NULL;
    *bytes += strlen(text) + 1;
    return arena_strdup(arena, text);
}

static const char *const *copy_texts(struct arena *arena, const char *const *texts, size_t *bytes) {
    size_t count = 0;
    if (!texts)
        return NULL;
    while (texts[count])
        count++;
    const char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    *bytes += (count + 1) * sizeof *copy;
    for (size_t i = 0; i < count; i++)
        copy[i] = copy_text(arena, texts[i], bytes);
    return copy;
}

struct meta catalog_copy(struct arena *arena, const struct meta *meta, size_t *bytes) {
    struct meta copy = *meta;
    copy.name = copy_text(arena, meta->name, bytes);
    copy.description = copy_text(arena, meta->description, bytes);
    copy.author = copy_text(arena, meta->author, bytes);
    copy.version = copy_text(arena, meta->version, bytes);
    copy.license = copy_text(arena, meta->license, bytes);
    copy.model = copy_text(arena, meta->model, bytes);
    copy.sharing = copy_text(arena, meta->sharing, bytes);
    copy.tags = copy_texts(arena, meta->tags, bytes);
    copy.tools = copy_texts(arena, meta->tools, bytes);
    copy.body = "";
    return copy;
}

static bool copy_kept(const struct catalog_item *item) {
    return item->fixed && item->read && item->read_wall_ns > item->mtime_ns &&
           item->read_wall_ns - item->mtime_ns > CATALOGS_SETTLE_NS;
}

/* ---- records ---- */

static struct catalog_record **catalogs_find(struct catalogs *catalogs, const char *box, const char *what) {
    struct catalog_record **at = &catalogs->records;
    while (*at && (strcmp((*at)->what, what) != 0 || strcmp((*at)->box, box) != 0))
        at = &(*at)->next;
    return at;
}

static struct catalog_record *catalogs_take(struct catalogs *catalogs, struct catalog_record **at) {
    struct catalog_record *record = *at;
    *at = record->next;
    catalogs->count--;
    catalogs->bytes -= record->bytes;
    return record;
}

static void catalogs_first(struct catalogs *catalogs, struct catalog_record *record) {
    record->next = catalogs->records;
    catalogs->records = record;
    catalogs->count++;
    catalogs->bytes += record->bytes;
}

static int item_order(const void *a, const void *b) {
    return strcmp(((const struct catalog_item *)a)->file, ((const struct catalog_item *)b)->file);
}

static void catalogs_fill_one(const struct catalog_record *record, uint64_t keep_ms, struct catalog_item *item,
                              struct arena *arena, size_t *bytes) {
    if (!item->fixed || !record->count)
        return;
    const struct catalog_item *kept = bsearch(item, record->items, record->count, sizeof *record->items, item_order);
    if (!kept || kept->size != item->size || kept->mtime_ns != item->mtime_ns || kept->inode != item->inode ||
        clock_ms() - kept->read_ms >= keep_ms)
        return;
    item->read = true;
    item->read_ms = kept->read_ms;
    item->read_wall_ns = kept->read_wall_ns;
    item->bad = copy_text(arena, kept->bad, bytes);
    if (!item->bad)
        item->meta = catalog_copy(arena, &kept->meta, bytes);
}

size_t catalogs_fill(struct catalogs *catalogs, const char *box, const char *what, struct catalog_item *items,
                     size_t count, struct arena *arena, size_t *bytes) {
    size_t missing = 0;
    pthread_mutex_lock(&catalogs->lock);
    struct catalog_record **at = catalogs_find(catalogs, box, what), *record = *at;
    if (record)
        catalogs_first(catalogs, catalogs_take(catalogs, at));
    for (size_t i = 0; i < count; i++) {
        if (record)
            catalogs_fill_one(record, catalogs->keep_ms, &items[i], arena, bytes);
        missing += !items[i].read;
    }
    pthread_mutex_unlock(&catalogs->lock);
    return missing;
}

static struct catalog_record *catalog_record_new(const char *box, const char *what, const struct catalog_item *items,
                                                 size_t count) {
    struct catalog_record *record = xcalloc(1, sizeof *record);
    arena_init(&record->arena);
    strncpy(record->box, box, sizeof record->box - 1);
    record->what = arena_strdup(&record->arena, what);
    record->items = arena_alloc(&record->arena, (count + 1) * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        if (!copy_kept(&items[i]))
            continue;
        struct catalog_item *kept = &record->items[record->count++];
        *kept = items[i];
        kept->id = kept->path = kept->source = NULL;
        kept->file = copy_text(&record->arena, items[i].file, &record->bytes);
        kept->bad = copy_text(&record->arena, items[i].bad, &record->bytes);
        if (!kept->bad)
            kept->meta = catalog_copy(&record->arena, &items[i].meta, &record->bytes);
    }
    record->bytes += (count + 1) * sizeof *items + sizeof *record;
    if (record->count)
        qsort(record->items, record->count, sizeof *record->items, item_order);
    return record;
}

/* The record takes the place of what was kept as the same. */
static void catalogs_put(struct catalogs *catalogs, struct catalog_record *record) {
    struct catalog_record *gone = NULL;
    pthread_mutex_lock(&catalogs->lock);
    struct catalog_record **at = catalogs_find(catalogs, record->box, record->what);
    if (*at) {
        gone = catalogs_take(catalogs, at);
        gone->next = NULL;
    }
    catalogs_first(catalogs, record);
    while (catalogs->count > CATALOGS_BOXES || catalogs->bytes > CATALOGS_BYTES) {
        for (at = &catalogs->records; (*at)->next;)
            at = &(*at)->next;
        struct catalog_record *last = catalogs_take(catalogs, at);
        last->next = gone;
        gone = last;
    }
    pthread_mutex_unlock(&catalogs->lock);
    while (gone) {
        struct catalog_record *next = gone->next;
        catalog_record_free(gone);
        gone = next;
    }
}

void catalogs_store(struct catalogs *catalogs, const char *box, const char *what, const struct catalog_item *items,
                    size_t count) {
    catalogs_put(catalogs, catalog_record_new(box, what, items, count));
}

/* ---- whole catalogues ---- */

static struct catalog_entry *copy_entries(struct arena *arena, const struct catalog_entry *entries, size_t count,
                                          size_t *bytes) {
    struct catalog_entry *copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    *bytes += (count + 1) * sizeof *copy;
    for (size_t i = 0; i < count; i++)
        copy[i] = (struct catalog_entry){
            copy_text(arena, entries[i].id, bytes), copy_text(arena, entries[i].path, bytes),
            copy_text(arena, entries[i].file, bytes), entries[i].source, catalog_copy(arena, &entries[i].meta, bytes)};
    return copy;
}

bool catalogs_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                    struct arena *arena, struct catalog *ret_catalog) {
    static const char *const none[] = {NULL};
    char name[300];
    size_t bytes = 0;
    snprintf(name, sizeof name, "all of %s", what);
    pthread_mutex_lock(&catalogs->lock);
    struct catalog_record **at = catalogs_find(catalogs, box, name), *record = *at;
    bool holds = record && record->token.changes == token.changes && record->token.generation == token.generation &&
                 clock_ms() - record->made_ms < catalogs->keep_ms;
    if (holds) {
        catalogs_first(catalogs, catalogs_take(catalogs, at));
        *ret_catalog =
            (struct catalog){copy_entries(arena, record->entries, record->count, &bytes), record->count, none};
    }
    pthread_mutex_unlock(&catalogs->lock);
    return holds;
}

void catalogs_keep_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                         const struct catalog *catalog) {
    struct catalog_record *record = xcalloc(1, sizeof *record);
    arena_init(&record->arena);
    strncpy(record->box, box, sizeof record->box - 1);
    record->what = arena_printf(&record->arena, "all of %.290s", what);
    record->token = token;
    record->made_ms = clock_ms();
    record->bytes = sizeof *record;
    record->count = catalog->count;
    record->entries = copy_entries(&record->arena, catalog->entries, catalog->count, &record->bytes);
    catalogs_put(catalogs, record);
}
