/* The versions of files that threads have seen. Called by the tools that read and write; the table belongs to the
 * store.
 * Rules:
 * 1. table->lock guards the rows and the pending notes; it is never held while SQLite or a box works.
 * 2. One thread writes pending notes in batches: a note never waits for a disk. Notes that do not fit are lost to the
 *    next daemon, which then asks for the file to be read again.
 * 3. Of two notes about one file the later one counts, whichever daemon made it. */

#include "base/base.h"
#include "tool/seen.h"
#include "base/sha256.h"
#include "base/sync.h"
#include "tool/store.h"

enum {
    SETS = 4096,
    WAYS = 4, /* each set drops its least recently used row: 16,384 notes, 2 MiB */
    WAITING_MAX = 4096,
    PRUNE_EVERY = 4096, /* rows written between two checks of their number */
    ROWS_MAX = 200000,
    DAYS_MAX = 30,
    TICK_MS = 25, /* coarsest clock of a file system (10 ms with HZ=100), and a margin */
    KEY_BYTES = 16,
    BOX_BYTES = 24,
};

struct seen_row {
    char box[BOX_BYTES];
    uint8_t key[KEY_BYTES];
    struct seen_version version;
    uint64_t at_ms;   /* when it was noted; 0: free */
    uint64_t used_at; /* of table->turn */
};

struct seen_table {
    struct tool_store *store;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t writer;
    bool started, ending;
    uint64_t turn;
    struct seen_row rows[SETS][WAYS];
    struct seen_row waiting[WAITING_MAX];
    size_t waiting_count;
    size_t written; /* since the last prune; used by the writer only */
};

/* ---- rows ---- */

static struct seen_row *seen_row_find_locked(struct seen_table *table, const char *box, const uint8_t *key) {
    struct seen_row *set = table->rows[(key[0] | key[1] << 8) % SETS];
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].at_ms && memcmp(set[i].key, key, KEY_BYTES) == 0 && strcmp(set[i].box, box) == 0) {
            set[i].used_at = ++table->turn;
            return &set[i];
        }
    return NULL;
}

static void seen_row_put_locked(struct seen_table *table, const struct seen_row *row) {
    struct seen_row *at = seen_row_find_locked(table, row->box, row->key);
    if (!at) {
        struct seen_row *set = table->rows[(row->key[0] | row->key[1] << 8) % SETS];
        at = set;
        for (size_t i = 1; i < WAYS; i++)
            if (set[i].used_at < at->used_at) /* free rows have 0 */
                at = &set[i];
    }
    *at = *row;
    at->used_at = ++table->turn;
}

static bool seen_same_version(const struct seen_version *a, const struct seen_version *b) {
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns && a->hashed == b->hashed &&
           (!a->hashed || memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0);
}

static void *seen_writer(void *user) {
    struct seen_table *table = user;
    struct seen_row *batch = xmalloc(sizeof table->waiting);
    pthread_mutex_lock(&table->lock);
    for (;;) {
        while (table->waiting_count == 0 && !table->ending)
            pthread_cond_wait(&table->wake, &table->lock);
        size_t count = table->waiting_count;
        if (count == 0)
            break;
        memcpy(batch, table->waiting, count * sizeof *batch);
        table->waiting_count = 0;
        pthread_mutex_unlock(&table->lock);
        struct err err;
        struct db *db = tool_store_lock(table->store);
        int r = db_begin(db, &err);
        for (size_t i = 0; i < count && r == 0; i++) {
            const struct seen_version *version = &batch[i].version;
            r = db_do(db, &err,
                      "INSERT INTO seen VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (box, key) DO UPDATE SET"
                      " inode = excluded.inode, size = excluded.size, mtime_ns = excluded.mtime_ns,"
                      " sha256 = excluded.sha256, at = excluded.at WHERE excluded.at >= at",
                      "tbiiihi", batch[i].box, batch[i].key, (size_t)KEY_BYTES, version->inode, version->size,
                      version->mtime_ns, version->hashed ? version->sha256 : NULL, batch[i].at_ms);
        }
        table->written += count;
        if (table->written >= PRUNE_EVERY) {
            table->written = 0;
            if (r == 0)
                r = db_do(db, &err, "DELETE FROM seen WHERE at < ?", "i", clock_wall_ms() - DAYS_MAX * 86400000ull)
                        ?: db_do(db, &err,
                                 "DELETE FROM seen WHERE (box, key) IN"
                                 " (SELECT box, key FROM seen ORDER BY at DESC LIMIT -1 OFFSET ?)",
                                 "n", ROWS_MAX);
        }
        db_end(db, 0, &err); /* keeps what was written, even if some rows failed */
        tool_store_unlock(table->store);
        pthread_mutex_lock(&table->lock);
    }
    pthread_mutex_unlock(&table->lock);
    free(batch);
    return NULL;
}

static bool seen_row_read(struct seen_table *table, const char *box, const uint8_t *key, struct seen_row *ret_row) {
    struct err err;
    struct query find;
    struct seen_version *version = &ret_row->version;
    int r = db_query(tool_store_lock(table->store), &find, &err,
                     "SELECT inode, size, mtime_ns, sha256, at FROM seen WHERE box = ? AND key = ?", "tb", box, key,
                     (size_t)KEY_BYTES);
    if (r == 0 && (r = query_next(&find, &err)) > 0) {
        version->inode = (uint64_t)query_int(&find, 0);
        version->size = (uint64_t)query_int(&find, 1);
        version->mtime_ns = (uint64_t)query_int(&find, 2);
        version->hashed = query_hash(&find, 3, version->sha256);
        ret_row->at_ms = (uint64_t)query_int(&find, 4);
    }
    query_end(&find);
    tool_store_unlock(table->store);
    return r > 0;
}

/* ---- for tools ---- */

static struct seen_table *seen_row_of(const struct tool_call *call, const char *path, struct seen_row *row) {
    struct seen_table *table = call->host->store ? tool_store_seen(call->host->store) : NULL;
    *row = (struct seen_row){.at_ms = clock_wall_ms()};
    strncpy(row->box, call->box->id, BOX_BYTES - 1);
    /* The thread's length separates thread and path, whatever they contain. */
    uint8_t digest[32];
    const char *text = arena_printf(call->arena, "%zu:%s%s", strlen(call->thread), call->thread, path);
    sha256(text, strlen(text), digest);
    memcpy(row->key, digest, KEY_BYTES);
    return table;
}

void seen_wrote(struct tool_call *call, const char *path, const struct file_stat *stat, const uint8_t *sha256) {
    struct seen_row row;
    struct seen_table *table = seen_row_of(call, path, &row);
    if (!table)
        return;
    row.version = (struct seen_version){
        .inode = stat->inode, .size = stat->size, .mtime_ns = stat->mtime_ns, .hashed = sha256 != NULL};
    if (sha256)
        memcpy(row.version.sha256, sha256, sizeof row.version.sha256);
    autolock(&table->lock);
    struct seen_row *old = seen_row_find_locked(table, row.box, row.key);
    bool news = !old || !seen_same_version(&old->version, &row.version);
    seen_row_put_locked(table, &row);
    if (news && table->waiting_count < WAITING_MAX)
        table->waiting[table->waiting_count++] = row;
    if (news && !table->started)
        table->started = pthread_create(&table->writer, NULL, seen_writer, table) == 0;
    if (news) /* a known version need not be written */
        pthread_cond_signal(&table->wake);
}

void seen_note(struct tool_call *call, const char *path, const struct file_stat *stat) {
    uint8_t sha256[32];
    uint64_t size;
    struct err err;
    bool young = stat->mtime_ns / 1000000 + TICK_MS > clock_wall_ms() && stat->size <= LIMIT_EDIT_BYTES;
    if (young && box_hash(call->box, path, call->watch, sha256, &size, &err) < 0)
        young = false;
    seen_wrote(call, path, stat, young ? sha256 : NULL);
}

bool seen_last(struct tool_call *call, const char *path, struct seen_version *ret_version) {
    struct seen_row row;
    struct seen_table *table = seen_row_of(call, path, &row);
    if (!table)
        return false;
    pthread_mutex_lock(&table->lock);
    const struct seen_row *held = seen_row_find_locked(table, row.box, row.key);
    if (held)
        *ret_version = held->version;
    pthread_mutex_unlock(&table->lock);
    return held || seen_newer(call, path, ret_version);
}

bool seen_newer(struct tool_call *call, const char *path, struct seen_version *version) {
    struct seen_row row;
    struct seen_table *table = seen_row_of(call, path, &row);
    if (!table || !seen_row_read(table, row.box, row.key, &row))
        return false;
    pthread_mutex_lock(&table->lock);
    const struct seen_row *held = seen_row_find_locked(table, row.box, row.key);
    bool newer = !held || (row.at_ms > held->at_ms && !seen_same_version(&row.version, &held->version));
    if (newer)
        seen_row_put_locked(table, &row);
    pthread_mutex_unlock(&table->lock);
    if (newer)
        *version = row.version;
    return newer;
}

/* ---- the table ---- */

struct seen_table *seen_table_new(struct tool_store *store) {
    struct seen_table *table = xcalloc(1, sizeof *table);
    table->store = store;
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->wake, NULL);
    return table;
}

void seen_table_free(struct seen_table *table) {
    if (!table)
        return;
    pthread_mutex_lock(&table->lock);
    table->ending = true;
    pthread_cond_signal(&table->wake);
    pthread_mutex_unlock(&table->lock);
    if (table->started)
        pthread_join(table->writer, NULL);
    pthread_cond_destroy(&table->wake);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

void seen_forget(struct tool_store *store, const char *box, uint64_t until_ms) {
    struct seen_table *table = tool_store_seen(store);
    struct err err;
    pthread_mutex_lock(&table->lock);
    struct seen_row *rows = table->rows[0];
    for (size_t i = 0; i < (size_t)SETS * WAYS; i++)
        if (strcmp(rows[i].box, box) == 0 && rows[i].at_ms <= until_ms)
            rows[i] = (struct seen_row){0};
    for (size_t i = 0; i < table->waiting_count; i++)
        if (strcmp(table->waiting[i].box, box) == 0 && table->waiting[i].at_ms <= until_ms)
            table->waiting[i--] = table->waiting[--table->waiting_count];
    pthread_mutex_unlock(&table->lock);
    db_do(tool_store_lock(store), &err, "DELETE FROM seen WHERE box = ? AND at <= ?", "ti", box, until_ms);
    tool_store_unlock(store);
}
