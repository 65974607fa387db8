/* Rows and files of kept results. Called by offload, recall and upkeep, from any thread. Invariants:
 * 1. A file gets its name in the transaction that adds its row. The sweep, which looks for files without a row, is a
 *    transaction too. SQLite allows one writer at a time across all daemons, so a file without a row is unused.
 * 2. A file is removed after the transaction that deletes its row. A daemon killed in between leaves a file for the
 *    sweep, never a row without a file. */
#include <sys/random.h>

#include "base/base.h"
#include "tool/offload/offload_store.h"

enum { SOURCES_MAX = 1000 }; /* one refresh checks only so many, the newest: each costs a hash in the box */

bool offload_id(const char *text, size_t len) {
    return len == OFFLOAD_ID_BYTES - 1 && strncmp(text, "ol_", 3) == 0 && strspn(text + 3, "0123456789abcdef") == 16;
}

/* Files to remove after the commit of the transaction that left them without a row. */
struct doomed {
    char (*names)[NAME_MAX + 1];
    size_t count, cap;
};

static void store_doomed_add(struct doomed *doomed, const char *name) {
    if (strchr(name, '/')) /* not written by us */
        return;
    vec_reserve(doomed->names, doomed->count, doomed->cap, 1);
    snprintf(doomed->names[doomed->count++], sizeof *doomed->names, "%s", name);
}

/* kept: the transaction was rolled back. */
static void store_doomed_end(struct doomed *doomed, int dir, bool kept) {
    for (size_t i = 0; i < doomed->count && !kept; i++)
        unlinkat(dir, doomed->names[i], 0);
    free(doomed->names);
}

/* Removes the oldest results of the user until `bytes` more fit. */
static int store_make_room(struct db *db, const char *user, uint64_t bytes, uint64_t max_bytes, struct doomed *doomed,
                           struct err *err) {
    uint64_t used = 0;
    int64_t last = -1;
    autoquery oldest = {0};
    int r = db_get(db, err, "SELECT coalesce(sum(bytes), 0) FROM offload WHERE user = ?", "t>i", user, &used);
    if (r < 0 || used + bytes <= max_bytes)
        return r < 0 ? r : 0;
    r = db_query(db, &oldest, err, "SELECT number, bytes, id FROM offload WHERE user = ? ORDER BY number", "t", user);
    while (r >= 0 && used + bytes > max_bytes && (r = query_next(&oldest, err)) > 0) {
        last = query_int(&oldest, 0);
        used -= (uint64_t)query_int(&oldest, 1);
        store_doomed_add(doomed, query_text(&oldest, 2));
    }
    query_end(&oldest);
    return r < 0 ? r : db_do(db, err, "DELETE FROM offload WHERE user = ? AND number <= ?", "ti", user, last);
}

int offload_add(struct tool_store *store, struct offload_row *row, struct spool *text, uint64_t max_bytes,
                struct err *err) {
    struct doomed doomed = {0};
    if (max_bytes && row->index.bytes > max_bytes)
        return err_set(err, ERR_LIMIT, "the result is larger than offload_max_mb, the limit of a user's kept results");
    uint8_t random[8];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "cannot get random bytes");
    memcpy(row->id, "ol_", 3);
    text_hex(row->id + 3, random, sizeof random);

    row->made_ms = clock_wall_ms();
    struct db *db = tool_store_lock(store);
    int r = db_begin(db, err);
    if (r == 0) {
        bool linked = false;
        if (max_bytes)
            r = store_make_room(db, row->user, row->index.bytes, max_bytes, &doomed, err);
        if (r == 0) {
            const struct offload_index *index = &row->index;
            r = db_do(
                db, err,
                "INSERT INTO offload (id, user, box, thread, tool, made_ms, bytes, chars, lines, marks, path, sha256)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                "tttttiiiibth", row->id, row->user, row->box, row->thread, row->tool, row->made_ms, index->bytes,
                index->chars, index->lines, index->marks, index->mark_count * 2 * sizeof *index->marks, row->path,
                row->path ? row->sha256 : NULL);
        }
        if (r == 0)
            linked = (r = spool_link(text, row->id, err)) == 0;
        r = db_end(db, r, err);
        if (r < 0 && linked)
            unlinkat(tool_store_dir(store), row->id, 0);
    }
    tool_store_unlock(store);
    store_doomed_end(&doomed, tool_store_dir(store), r < 0);
    return r;
}

/* Returns false for a row that was not written by us. */
static bool store_row_read(const struct query *found, struct arena *arena, struct offload_row *ret_row) {
    size_t len = (size_t)sqlite3_column_bytes(found->row, 5);
    const char *path = query_text(found, 6);
    struct offload_row row = {
        .tool = arena_strdup(arena, query_text(found, 0)),
        .path = path ? arena_strdup(arena, path) : NULL,
        .made_ms = (uint64_t)query_int(found, 1),
        .index = {.bytes = (uint64_t)query_int(found, 2),
                  .chars = (uint64_t)query_int(found, 3),
                  .lines = (uint64_t)query_int(found, 4),
                  .mark_count = len / (2 * sizeof *row.index.marks)},
        .stale = query_int(found, 7),
    };
    query_hash(found, 8, row.sha256);
    row.index.marks = (const uint32_t *)(const void *)arena_copy(arena, sqlite3_column_blob(found->row, 5), len);
    *ret_row = row;
    return offload_index_fits(&row.index);
}

int offload_find(struct tool_store *store, const char *user, const char *box, const char *id, uint64_t since_ms,
                 struct arena *arena, struct offload_row *ret_row, int *ret_fd, struct err *err) {
    struct offload_row row;
    struct stat status;
    bool there = false;
    struct db *db = tool_store_lock(store);
    struct query find;
    int r = db_query(db, &find, err,
                     "SELECT tool, made_ms, bytes, chars, lines, marks, path, stale, sha256 FROM offload"
                     " WHERE id = ? AND user = ? AND box = ? AND made_ms >= ?",
                     "ttti", id, user, box, since_ms);
    if (r == 0 && (r = query_next(&find, err)) > 0) {
        there = store_row_read(&find, arena, &row);
        r = 0;
    }
    query_end(&find);
    tool_store_unlock(store);
    autofd fd = there ? openat(tool_store_dir(store), id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (r == 0 && (fd < 0 || fstat(fd, &status) < 0 || (uint64_t)status.st_size != row.index.bytes))
        r = err_set(err, ERR_NOT_FOUND, "no kept result '%s'", id);
    if (r < 0)
        return r;
    memcpy(row.id, id, sizeof row.id);
    *ret_row = row;
    *ret_fd = fd_take(&fd);
    return 0;
}

int offload_sources(struct tool_store *store, const char *user, const char *box, const char *thread, uint64_t since_ms,
                    struct arena *arena, struct offload_row **ret_rows, size_t *ret_count, struct err *err) {
    struct offload_row *rows = NULL;
    size_t count = 0;
    struct db *db = tool_store_lock(store);
    struct query find;
    int r = db_query(
        db, &find, err,
        "SELECT id, path, sha256 FROM (SELECT * FROM offload WHERE user = ? AND box = ? AND thread = ? AND made_ms >= ?"
        " AND path IS NOT NULL AND NOT stale ORDER BY number DESC LIMIT ?) ORDER BY path, number",
        "tttin", user, box, thread, since_ms, SOURCES_MAX);
    while (r >= 0 && count < SOURCES_MAX && (r = query_next(&find, err)) > 0) {
        if (!rows)
            rows = arena_alloc(arena, SOURCES_MAX * sizeof *rows);
        const char *id = query_text(&find, 0);
        if (!offload_id(id, strlen(id)) || !query_hash(&find, 2, rows[count].sha256))
            continue;
        memcpy(rows[count].id, id, OFFLOAD_ID_BYTES);
        rows[count++].path = arena_strdup(arena, query_text(&find, 1));
    }
    query_end(&find);
    tool_store_unlock(store);
    if (r < 0)
        return r;
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int offload_mark_stale(struct tool_store *store, const char *id, bool *ret_first, struct err *err) {
    struct db *db = tool_store_lock(store);
    int r = db_do(db, err, "UPDATE offload SET stale = 1 WHERE id = ? AND NOT stale", "t", id);
    if (r == 0)
        *ret_first = sqlite3_changes(db->handle) == 1;
    tool_store_unlock(store);
    return r;
}

static int store_forget_locked(struct db *db, const char *box, uint64_t until_ms, struct doomed *doomed,
                               struct err *err) {
    autoquery all;
    int r = db_query(db, &all, err, "SELECT id FROM offload WHERE box = ? AND made_ms <= ?", "ti", box, until_ms);
    while (r >= 0 && (r = query_next(&all, err)) > 0)
        store_doomed_add(doomed, query_text(&all, 0));
    if (r < 0 || doomed->count == 0)
        return r;
    return db_do(db, err, "DELETE FROM offload WHERE box = ? AND made_ms <= ?", "ti", box, until_ms);
}

int offload_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err) {
    struct doomed doomed = {0};
    struct db *db = tool_store_lock(store);
    int r = db_begin(db, err) ?: db_end(db, store_forget_locked(db, box, until_ms, &doomed, err), err);
    tool_store_unlock(store);
    store_doomed_end(&doomed, tool_store_dir(store), r < 0);
    return r;
}

/* ---- sweeping ---- */

/* Finds files without a row, including unnamed ones whose daemon was killed before it could unlink them. */
static int store_sweep_files(int dir, struct db *db, struct doomed *doomed, struct err *err) {
    autodir *names = fd_opendir(dir, ".", 0);
    int r = names ? 0 : err_errno(err, errno, "cannot list the kept results");
    for (const struct dirent *entry; r == 0 && (entry = fd_readdir(names));)
        if (entry->d_name[0] == '.')
            continue;
        else if ((r = db_get(db, err, "SELECT 1 FROM offload WHERE id = ?", "t>", entry->d_name)) == 0)
            store_doomed_add(doomed, entry->d_name);
        else
            r = r < 0 ? r : 0;
    /* A daemon killed within its COMMIT may have written everything but the mark that publishes it. The row is
     * invisible now, but returns after the last connection closes, unless a commit of ours, which changes a page,
     * overwrites it. */
    return r == 0 && doomed->count ? db_touch(db, err) : r;
}

static int store_sweep_rows(int dir, struct db *db, struct err *err) {
    struct doomed lost = {0};
    autoquery all;
    int r = db_query(db, &all, err, "SELECT id FROM offload", "");
    while (r >= 0 && (r = query_next(&all, err)) > 0) {
        const char *id = query_text(&all, 0);
        if (faccessat(dir, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
            store_doomed_add(&lost, id);
    }
    for (size_t i = 0; i < lost.count && r == 0; i++)
        r = db_do(db, err, "DELETE FROM offload WHERE id = ?", "t", lost.names[i]);
    store_doomed_end(&lost, -1, true);
    return r;
}

int offload_sweep(struct tool_store *store, uint64_t since_ms, struct err *err) {
    struct doomed doomed = {0};
    int dir = tool_store_dir(store);
    struct db *db = tool_store_lock(store);
    int r = db_begin(db, err);
    if (r == 0)
        r = db_end(db,
                   db_do(db, err, "DELETE FROM offload WHERE made_ms < ?", "i", since_ms)
                       ?: store_sweep_files(dir, db, &doomed, err)
                       ?: store_sweep_rows(dir, db, err),
                   err);
    tool_store_unlock(store);
    store_doomed_end(&doomed, dir, r < 0);
    return r;
}
