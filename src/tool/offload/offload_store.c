/* Rows and files of kept results. Called by offload, recall and upkeep, from any thread. Invariant:
 *
 * 1. A file gets its name within the transaction that adds its row, and the sweep, which removes files without a row, runs in
 *    a transaction as well. SQLite lets one of them write at a time, over all daemons: a file without a row is nobody's.
 * 2. A row goes before its file. A daemon killed between the two leaves a file to the sweep, never a row to nothing. */
#include "tool/offload/offload_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

enum { SOURCES_MAX = 1000 }; /* looked at by one refresh, the newest: each costs a hash in the box */

bool offload_id(const char *text, size_t len) {
    return len == OFFLOAD_ID_BYTES - 1 && strncmp(text, "ol_", 3) == 0 && strspn(text + 3, "0123456789abcdef") == 16;
}

static int id_new(char id[OFFLOAD_ID_BYTES], struct err *err) {
    uint8_t random[8];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "random bytes");
    memcpy(id, "ol_", 3);
    text_hex(id + 3, random, sizeof random);
    return 0;
}

/* ---- files that go when their rows are gone for good ---- */

struct doomed {
    char (*ids)[OFFLOAD_ID_BYTES];
    size_t count, cap;
};

static void doomed_add(struct doomed *doomed, const char *id) {
    if (!offload_id(id, strlen(id)))
        return;
    if (doomed->count == doomed->cap) {
        doomed->cap = doomed->cap ? 2 * doomed->cap : 16;
        doomed->ids = xrealloc(doomed->ids, doomed->cap * sizeof *doomed->ids);
    }
    memcpy(doomed->ids[doomed->count++], id, OFFLOAD_ID_BYTES);
}

/* kept: the transaction was taken back. */
static void doomed_end(struct doomed *doomed, int dir, bool kept) {
    for (size_t i = 0; i < doomed->count && !kept; i++)
        unlinkat(dir, doomed->ids[i], 0);
    free(doomed->ids);
}

/* ---- adding ---- */

/* Runs it and makes it ready for the next time. */
static int step_done(struct db *db, sqlite3_stmt *statement, struct err *err) {
    int r = sqlite3_step(statement) == SQLITE_DONE ? 0 : db_fail(db, err);
    sqlite3_reset(statement);
    return r;
}

/* The oldest of the user, until `bytes` more have room. */
static int make_room(struct tool_store *store, struct db *db, const char *user, uint64_t bytes, uint64_t max_bytes,
                     struct doomed *doomed, struct err *err) {
    uint64_t used = 0;
    int64_t last = -1;
    sqlite3_stmt *sum = tool_store_statement(store, "SELECT coalesce(sum(bytes), 0) FROM offload WHERE user = ?", err);
    sqlite3_stmt *oldest =
        tool_store_statement(store, "SELECT number, bytes, id FROM offload WHERE user = ? ORDER BY number", err);
    sqlite3_stmt *forget = tool_store_statement(store, "DELETE FROM offload WHERE user = ? AND number <= ?", err);
    if (!sum || !oldest || !forget)
        return -err->code;
    sqlite3_bind_text(sum, 1, user, -1, SQLITE_STATIC);
    if (sqlite3_step(sum) == SQLITE_ROW)
        used = (uint64_t)sqlite3_column_int64(sum, 0);
    sqlite3_reset(sum);
    if (used + bytes <= max_bytes)
        return 0;
    sqlite3_bind_text(oldest, 1, user, -1, SQLITE_STATIC);
    while (used + bytes > max_bytes && sqlite3_step(oldest) == SQLITE_ROW) {
        last = sqlite3_column_int64(oldest, 0);
        used -= (uint64_t)sqlite3_column_int64(oldest, 1);
        doomed_add(doomed, (const char *)sqlite3_column_text(oldest, 2));
    }
    sqlite3_reset(oldest);
    sqlite3_bind_text(forget, 1, user, -1, SQLITE_STATIC);
    sqlite3_bind_int64(forget, 2, last);
    return step_done(db, forget, err);
}

static int row_insert(struct tool_store *store, struct db *db, const struct offload_row *row, struct err *err) {
    sqlite3_stmt *insert = tool_store_statement(
        store,
        "INSERT INTO offload (id, user, box, thread, tool, made_ms, bytes, chars, lines, marks, path, sha256)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        err);
    if (!insert)
        return -err->code;
    const char *const texts[] = {row->id, row->user, row->box, row->thread, row->tool};
    const uint64_t numbers[] = {row->made_ms, row->index.bytes, row->index.chars, row->index.lines};
    for (int i = 0; i < 5; i++)
        sqlite3_bind_text(insert, 1 + i, texts[i], -1, SQLITE_STATIC);
    for (int i = 0; i < 4; i++)
        sqlite3_bind_int64(insert, 6 + i, (int64_t)numbers[i]);
    sqlite3_bind_blob(insert, 10, row->index.marks, (int)(row->index.mark_count * 2 * sizeof *row->index.marks),
                      SQLITE_STATIC);
    if (row->path) {
        sqlite3_bind_text(insert, 11, row->path, -1, SQLITE_STATIC);
        sqlite3_bind_blob(insert, 12, row->sha256, sizeof row->sha256, SQLITE_STATIC);
    }
    return step_done(db, insert, err);
}

int offload_add(struct tool_store *store, struct offload_row *row, struct spool *text, uint64_t max_bytes,
                struct err *err) {
    struct doomed doomed = {0};
    if (max_bytes && row->index.bytes > max_bytes)
        return err_set(err, ERR_LIMIT, "the result is larger than all kept results of a user may be");
    int r = id_new(row->id, err);
    if (r < 0)
        return r;
    row->made_ms = clock_wall_ms();
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    r = db_begin(db, err);
    if (r == 0) {
        bool linked = false;
        if (max_bytes)
            r = make_room(store, db, row->user, row->index.bytes, max_bytes, &doomed, err);
        if (r == 0)
            r = row_insert(store, db, row, err);
        if (r == 0)
            linked = (r = spool_link(text, row->id, err)) == 0;
        r = db_end(db, r, err);
        if (r < 0 && linked)
            unlinkat(tool_store_dir(store), row->id, 0);
    }
    tool_store_unlock(store);
    doomed_end(&doomed, tool_store_dir(store), r < 0);
    return r;
}

/* ---- finding ---- */

/* False: a row that no version of ours wrote. */
static bool row_read(sqlite3_stmt *found, struct arena *arena, struct offload_row *ret_row) {
    size_t len = (size_t)sqlite3_column_bytes(found, 5);
    struct offload_row row = {
        .tool = arena_strdup(arena, (const char *)sqlite3_column_text(found, 0)),
        .made_ms = (uint64_t)sqlite3_column_int64(found, 1),
        .index = {.bytes = (uint64_t)sqlite3_column_int64(found, 2),
                  .chars = (uint64_t)sqlite3_column_int64(found, 3),
                  .lines = (uint64_t)sqlite3_column_int64(found, 4),
                  .mark_count = len / (2 * sizeof *row.index.marks)},
        .stale = sqlite3_column_int(found, 7),
    };
    if (sqlite3_column_type(found, 6) != SQLITE_NULL)
        row.path = arena_strdup(arena, (const char *)sqlite3_column_text(found, 6));
    if (sqlite3_column_bytes(found, 8) == sizeof row.sha256)
        memcpy(row.sha256, sqlite3_column_blob(found, 8), sizeof row.sha256);
    row.index.marks = (const uint32_t *)(const void *)arena_copy(arena, sqlite3_column_blob(found, 5), len);
    *ret_row = row;
    return offload_index_fits(&row.index);
}

int offload_find(struct tool_store *store, const char *user, const char *box, const char *id, uint64_t since_ms,
                 struct arena *arena, struct offload_row *ret_row, int *ret_fd, struct err *err) {
    struct offload_row row;
    struct stat status;
    bool there = false;
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    sqlite3_stmt *find =
        tool_store_statement(store,
                             "SELECT tool, made_ms, bytes, chars, lines, marks, path, stale, sha256 FROM offload"
                             " WHERE id = ? AND user = ? AND box = ? AND made_ms >= ?",
                             err);
    int r = find ? 0 : -err->code;
    if (r == 0) {
        sqlite3_bind_text(find, 1, id, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 2, user, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 3, box, -1, SQLITE_STATIC);
        sqlite3_bind_int64(find, 4, (int64_t)since_ms);
        int step = sqlite3_step(find);
        there = step == SQLITE_ROW && row_read(find, arena, &row);
        if (step != SQLITE_ROW && step != SQLITE_DONE)
            r = db_fail(db, err);
        sqlite3_reset(find);
    }
    tool_store_unlock(store);
    autofd fd = there ? openat(tool_store_dir(store), id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (r == 0 && (fd < 0 || fstat(fd, &status) < 0 || (uint64_t)status.st_size != row.index.bytes))
        r = err_set(err, ERR_NOT_FOUND, "there is no kept result '%s'", id);
    if (r < 0)
        return r;
    memcpy(row.id, id, sizeof row.id);
    *ret_row = row;
    *ret_fd = fd_take(&fd);
    return 0;
}

/* ---- files that results show ---- */

int offload_sources(struct tool_store *store, const char *user, const char *box, const char *thread, uint64_t since_ms,
                    struct arena *arena, struct offload_row **ret_rows, size_t *ret_count, struct err *err) {
    struct offload_row *rows = NULL;
    size_t count = 0;
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    sqlite3_stmt *find = tool_store_statement(
        store,
        "SELECT id, path, sha256 FROM (SELECT * FROM offload WHERE user = ? AND box = ? AND thread = ? AND made_ms >= ?"
        " AND path IS NOT NULL AND NOT stale ORDER BY number DESC LIMIT ?) ORDER BY path, number",
        err);
    int step = SQLITE_DONE, r = find ? 0 : -err->code;
    if (r == 0) {
        sqlite3_bind_text(find, 1, user, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 2, box, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 3, thread, -1, SQLITE_STATIC);
        sqlite3_bind_int64(find, 4, (int64_t)since_ms);
        sqlite3_bind_int(find, 5, SOURCES_MAX);
        while (count < SOURCES_MAX && (step = sqlite3_step(find)) == SQLITE_ROW) {
            if (!rows)
                rows = arena_alloc(arena, SOURCES_MAX * sizeof *rows);
            const char *id = (const char *)sqlite3_column_text(find, 0);
            if (!offload_id(id, strlen(id)) || sqlite3_column_bytes(find, 2) != sizeof rows->sha256)
                continue;
            memcpy(rows[count].id, id, OFFLOAD_ID_BYTES);
            memcpy(rows[count].sha256, sqlite3_column_blob(find, 2), sizeof rows->sha256);
            rows[count++].path = arena_strdup(arena, (const char *)sqlite3_column_text(find, 1));
        }
        if (step != SQLITE_DONE && step != SQLITE_ROW)
            r = db_fail(db, err);
        sqlite3_reset(find);
    }
    tool_store_unlock(store);
    if (r < 0)
        return r;
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int offload_mark_stale(struct tool_store *store, const char *id, bool *ret_first, struct err *err) {
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    sqlite3_stmt *mark = tool_store_statement(store, "UPDATE offload SET stale = 1 WHERE id = ? AND NOT stale", err);
    int r = mark ? 0 : -err->code;
    if (r == 0) {
        sqlite3_bind_text(mark, 1, id, -1, SQLITE_STATIC);
        r = step_done(db, mark, err);
    }
    if (r == 0)
        *ret_first = sqlite3_changes(db->handle) == 1;
    tool_store_unlock(store);
    return r;
}

/* ---- forgetting ---- */

static int forget_locked(struct tool_store *store, struct db *db, const char *box, uint64_t until_ms,
                         struct doomed *doomed, struct err *err) {
    sqlite3_stmt *all = tool_store_statement(store, "SELECT id FROM offload WHERE box = ? AND made_ms <= ?", err);
    sqlite3_stmt *forget = tool_store_statement(store, "DELETE FROM offload WHERE box = ? AND made_ms <= ?", err);
    if (!all || !forget)
        return -err->code;
    sqlite3_bind_text(all, 1, box, -1, SQLITE_STATIC);
    sqlite3_bind_int64(all, 2, (int64_t)until_ms);
    while (sqlite3_step(all) == SQLITE_ROW)
        doomed_add(doomed, (const char *)sqlite3_column_text(all, 0));
    sqlite3_reset(all);
    if (doomed->count == 0)
        return 0;
    sqlite3_bind_text(forget, 1, box, -1, SQLITE_STATIC);
    sqlite3_bind_int64(forget, 2, (int64_t)until_ms);
    return step_done(db, forget, err);
}

int offload_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err) {
    struct doomed doomed = {0};
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    int r = db_begin(db, err);
    if (r == 0)
        r = db_end(db, forget_locked(store, db, box, until_ms, &doomed, err), err);
    tool_store_unlock(store);
    doomed_end(&doomed, tool_store_dir(store), r < 0);
    return r;
}

/* ---- sweeping ---- */

/* Files without a row, also the nameless ones of a daemon killed before it could take their names away. */
static int sweep_files(struct tool_store *store, struct db *db, DIR *names, struct err *err) {
    sqlite3_stmt *find = tool_store_statement(store, "SELECT 1 FROM offload WHERE id = ?", err);
    int r = find ? 0 : -err->code;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(names))) {
        if (entry->d_name[0] == '.')
            continue;
        sqlite3_bind_text(find, 1, entry->d_name, -1, SQLITE_STATIC);
        int step = sqlite3_step(find);
        if (step == SQLITE_DONE)
            unlinkat(tool_store_dir(store), entry->d_name, 0);
        else if (step != SQLITE_ROW)
            r = db_fail(db, err);
        sqlite3_reset(find);
    }
    return r;
}

static int sweep_rows(struct tool_store *store, struct db *db, struct err *err) {
    sqlite3_stmt *all = tool_store_statement(store, "SELECT id FROM offload", err);
    sqlite3_stmt *forget = tool_store_statement(store, "DELETE FROM offload WHERE id = ?", err);
    struct doomed lost = {0};
    int step, r = all && forget ? 0 : -err->code;
    if (r < 0)
        return r;
    while ((step = sqlite3_step(all)) == SQLITE_ROW) {
        const char *id = (const char *)sqlite3_column_text(all, 0);
        if (faccessat(tool_store_dir(store), id, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
            doomed_add(&lost, id);
    }
    if (step != SQLITE_DONE)
        r = db_fail(db, err);
    sqlite3_reset(all);
    for (size_t i = 0; i < lost.count && r == 0; i++) {
        sqlite3_bind_text(forget, 1, lost.ids[i], -1, SQLITE_STATIC);
        r = step_done(db, forget, err);
    }
    doomed_end(&lost, -1, true);
    return r;
}

static int sweep_old(struct tool_store *store, struct db *db, uint64_t since_ms, struct err *err) {
    sqlite3_stmt *forget = tool_store_statement(store, "DELETE FROM offload WHERE made_ms < ?", err);
    if (!forget)
        return -err->code;
    sqlite3_bind_int64(forget, 1, (int64_t)since_ms);
    return step_done(db, forget, err);
}

int offload_sweep(struct tool_store *store, uint64_t since_ms, struct err *err) {
    int dir = openat(tool_store_dir(store), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = dir < 0 ? NULL : fdopendir(dir);
    if (!names) {
        int number = errno;
        fd_close(&dir);
        return err_errno(err, number, "kept results");
    }
    struct db *db = tool_store_db(store);
    tool_store_lock(store);
    int r = db_begin(db, err); /* what is too old goes first and alone: its files may only go when that is certain */
    if (r == 0)
        r = db_end(db, sweep_old(store, db, since_ms, err), err);
    if (r == 0)
        r = db_begin(db, err);
    if (r == 0) {
        r = sweep_files(store, db, names, err);
        if (r == 0)
            r = sweep_rows(store, db, err);
        r = db_end(db, r, err);
    }
    tool_store_unlock(store);
    closedir(names);
    return r;
}
