/* The content of boxes' skills and sub-agents, cached by box. Called by catalog.
 *
 * Invariants: 1. `lock` guards the records; nothing is read from a box under it. 2. A record is replaced whole,
 * never changed: a call gets a copy of it. 3. A file read within a second of its last change is not cached: a second
 * change in the same tick of the clock would not show. 4. The least recently used records are dropped first. */

#include "base/base.h"
#include "skill/catalog/catalog_cache.h"
#include "base/sync.h"

enum { CATALOGS_BOXES = 512, CATALOGS_KEEP_MS = 300000, CATALOGS_SETTLE_NS = 1000000000 };
#define CATALOGS_BYTES ((size_t)64 << 20)

struct catalog_record {
    struct catalog_record *next;
    char box[17];
    const char *what;
    struct arena arena;
    struct catalog_item *items;    /* sorted by file */
    struct catalog_entry *entries; /* of a whole catalogue, in order */
    struct catalog_token token;
    uint64_t made_ms;
    size_t count, bytes; /* of items, or of entries */
};

struct catalogs {
    pthread_mutex_t lock;
    struct catalog_record *records; /* most recently used first */
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

static void catalogs_free_records(struct catalog_record *record) {
    for (struct catalog_record *next; record; record = next) {
        next = record->next;
        arena_done(&record->arena);
        free(record);
    }
}

void catalogs_free(struct catalogs *catalogs) {
    if (!catalogs)
        return;
    catalogs_free_records(catalogs->records);
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

static const char *catalog_copy_text(struct arena *arena, const char *text, size_t *bytes) {
    if (!text)
        return NULL;
    *bytes += strlen(text) + 1;
    return arena_strdup(arena, text);
}

static const char *const *catalog_copy_texts(struct arena *arena, const char *const *texts, size_t *bytes) {
    size_t count = text_list_count(texts);
    if (!texts)
        return NULL;
    const char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    *bytes += (count + 1) * sizeof *copy;
    for (size_t i = 0; i < count; i++)
        copy[i] = catalog_copy_text(arena, texts[i], bytes);
    return copy;
}

struct meta catalog_copy(struct arena *arena, const struct meta *meta, size_t *bytes) {
    struct meta copy = *meta;
    const char **const texts[] = {&copy.name,    &copy.description, &copy.author, &copy.version,
                                  &copy.license, &copy.model,       &copy.sharing};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = catalog_copy_text(arena, *texts[i], bytes);
    copy.tags = catalog_copy_texts(arena, meta->tags, bytes);
    copy.tools = catalog_copy_texts(arena, meta->tools, bytes);
    copy.body = "";
    return copy;
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

static int catalogs_order(const void *a, const void *b) {
    return strcmp(((const struct catalog_item *)a)->file, ((const struct catalog_item *)b)->file);
}

size_t catalogs_fill(struct catalogs *catalogs, const char *box, const char *what, struct catalog_item *items,
                     size_t count, struct arena *arena, size_t *bytes) {
    size_t missing = 0;
    autolock(&catalogs->lock);
    struct catalog_record **at = catalogs_find(catalogs, box, what), *record = *at;
    if (record)
        catalogs_first(catalogs, catalogs_take(catalogs, at));
    for (size_t i = 0; i < count; i++) {
        struct catalog_item *item = &items[i];
        const struct catalog_item *kept =
            record && item->fixed && record->count
                ? bsearch(item, record->items, record->count, sizeof *record->items, catalogs_order)
                : NULL;
        if (kept && kept->size == item->size && kept->mtime_ns == item->mtime_ns && kept->inode == item->inode &&
            clock_ms() - kept->read_ms < catalogs->keep_ms) {
            item->read = true;
            item->read_ms = kept->read_ms;
            item->read_wall_ns = kept->read_wall_ns;
            item->bad = catalog_copy_text(arena, kept->bad, bytes);
            if (!item->bad)
                item->meta = catalog_copy(arena, &kept->meta, bytes);
        }
        missing += !item->read;
    }
    return missing;
}

static struct catalog_record *catalogs_record(const char *box, const char *prefix, const char *what) {
    struct catalog_record *record = xcalloc(1, sizeof *record);
    arena_init(&record->arena);
    strncpy(record->box, box, sizeof record->box - 1);
    record->what = arena_printf(&record->arena, "%s%.290s", prefix, what);
    record->bytes = sizeof *record;
    return record;
}

/* Replaces an older record of the same box and kind. */
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
    catalogs_free_records(gone);
}

void catalogs_store(struct catalogs *catalogs, const char *box, const char *what, const struct catalog_item *items,
                    size_t count) {
    struct catalog_record *record = catalogs_record(box, "", what);
    record->items = arena_alloc(&record->arena, (count + 1) * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        const struct catalog_item *item = &items[i];
        if (!item->fixed || !item->read || item->read_wall_ns <= item->mtime_ns ||
            item->read_wall_ns - item->mtime_ns <= CATALOGS_SETTLE_NS)
            continue;
        struct catalog_item *kept = &record->items[record->count++];
        *kept = *item;
        kept->id = kept->path = kept->source = NULL;
        kept->file = catalog_copy_text(&record->arena, item->file, &record->bytes);
        kept->bad = catalog_copy_text(&record->arena, item->bad, &record->bytes);
        if (!kept->bad)
            kept->meta = catalog_copy(&record->arena, &item->meta, &record->bytes);
    }
    record->bytes += (count + 1) * sizeof *items;
    if (record->count)
        qsort(record->items, record->count, sizeof *record->items, catalogs_order);
    catalogs_put(catalogs, record);
}

/* ---- whole catalogues ---- */

static struct catalog_entry *catalog_copy_entries(struct arena *arena, const struct catalog_entry *entries,
                                                  size_t count, size_t *bytes) {
    struct catalog_entry *copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    *bytes += (count + 1) * sizeof *copy;
    for (size_t i = 0; i < count; i++)
        copy[i] = (struct catalog_entry){catalog_copy_text(arena, entries[i].id, bytes),
                                         catalog_copy_text(arena, entries[i].path, bytes),
                                         catalog_copy_text(arena, entries[i].file, bytes), entries[i].source,
                                         catalog_copy(arena, &entries[i].meta, bytes)};
    return copy;
}

bool catalogs_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                    struct arena *arena, struct catalog *ret_catalog) {
    static const char *const none[] = {NULL};
    char name[300];
    size_t bytes = 0;
    snprintf(name, sizeof name, "all of %s", what);
    autolock(&catalogs->lock);
    struct catalog_record **at = catalogs_find(catalogs, box, name), *record = *at;
    bool holds = record && record->token.changes == token.changes && record->token.generation == token.generation &&
                 clock_ms() - record->made_ms < catalogs->keep_ms;
    if (holds) {
        catalogs_first(catalogs, catalogs_take(catalogs, at));
        *ret_catalog =
            (struct catalog){catalog_copy_entries(arena, record->entries, record->count, &bytes), record->count, none};
    }
    return holds;
}

void catalogs_keep_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                         const struct catalog *catalog) {
    struct catalog_record *record = catalogs_record(box, "all of ", what);
    record->token = token;
    record->made_ms = clock_ms();
    record->count = catalog->count;
    record->entries = catalog_copy_entries(&record->arena, catalog->entries, catalog->count, &record->bytes);
    catalogs_put(catalogs, record);
}
