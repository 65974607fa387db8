/* The file of users' MCP servers. Called by servers.c. Invariant: whatever another daemon on the same directory wrote counts
 * at the next look, so nothing is kept in memory. */
#include "tool/servers/servers_db.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "store/db.h"

struct servers_db {
    char *directory, *path;
    pthread_mutex_t lock; /* of what is below */
    struct db db;         /* zeroed: not opened */
};

static const struct db_kind kind = {
    .name = "servers.db",
    .what = "MCP servers",
    .application = 0x6375626d, /* "cubm" */
    .version = 1,
    .schema = "CREATE TABLE server (user TEXT NOT NULL, name TEXT NOT NULL, spec TEXT NOT NULL,"
              " PRIMARY KEY (user, name)) WITHOUT ROWID;",
    .pragmas = "PRAGMA synchronous=FULL;PRAGMA secure_delete=ON",
    .closed = true,
};

struct servers_db *servers_db_new(const char *directory) {
    struct servers_db *db = xcalloc(1, sizeof *db);
    db->directory = xstrdup(directory);
    db->path = xasprintf("%s/%s", directory, kind.name);
    pthread_mutex_init(&db->lock, NULL);
    return db;
}

void servers_db_free(struct servers_db *db) {
    if (!db)
        return;
    db_close(&db->db);
    pthread_mutex_destroy(&db->lock);
    free(db->path);
    free(db->directory);
    free(db);
}

/* 1: there is none, and none is made. */
static int file_ready_locked(struct servers_db *db, bool make, struct err *err) {
    if (db->db.handle && !db_replaced(&db->db))
        return 0;
    db_close(&db->db);
    if (!make && access(db->path, F_OK) < 0)
        return 1;
    return db_open(&kind, db->directory, &db->db, err);
}

static int rows_read_locked(struct servers_db *db, const char *user, const char *name, struct arena *arena,
                            struct servers_row *rows, size_t *ret_count, struct err *err) {
    autoquery query;
    size_t count = 0;
    int code = db_query(&db->db, &query, err,
                        "SELECT name, spec FROM server WHERE user = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name",
                        "tt", user, name);
    while (code >= 0 && count < LIMIT_SERVERS_PER_USER && (code = query_next(&query, err)) > 0)
        rows[count++] = (struct servers_row){
            .user = user,
            .name = arena_strdup(arena, query_text(&query, 0)),
            .text = arena_strdup(arena, query_text(&query, 1)),
        };
    *ret_count = count;
    return code < 0 ? code : 0;
}

int servers_db_rows(struct servers_db *db, const char *user, const char *name, struct arena *arena,
                    struct servers_row **ret_rows, size_t *ret_count, struct err *err) {
    struct servers_row *rows = arena_alloc(arena, LIMIT_SERVERS_PER_USER * sizeof *rows);
    size_t count = 0;
    pthread_mutex_lock(&db->lock);
    int code = file_ready_locked(db, false, err);
    if (code == 0)
        code = rows_read_locked(db, user, name, arena, rows, &count, err);
    pthread_mutex_unlock(&db->lock);
    if (code < 0)
        return code;
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int servers_db_put(struct servers_db *db, const char *user, const char *name, const char *text, bool *ret_created,
                   struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct servers_row *rows = arena_alloc(&arena, LIMIT_SERVERS_PER_USER * sizeof *rows);
    size_t count = 0;
    bool known = false;
    pthread_mutex_lock(&db->lock);
    int code = file_ready_locked(db, true, err);
    bool begun = code == 0 && (code = db_begin(&db->db, err)) == 0;
    if (code == 0)
        code = rows_read_locked(db, user, NULL, &arena, rows, &count, err);
    for (size_t i = 0; i < count; i++)
        known |= strcmp(rows[i].name, name) == 0;
    if (code == 0 && !known && count >= LIMIT_SERVERS_PER_USER)
        code = err_set(err, ERR_LIMIT, "a user has at most %u MCP servers; remove one first", LIMIT_SERVERS_PER_USER);
    if (code == 0)
        code = db_do(&db->db, err, "INSERT OR REPLACE INTO server (user, name, spec) VALUES (?, ?, ?)", "ttt", user,
                     name, text);
    if (begun)
        code = db_end(&db->db, code, err);
    pthread_mutex_unlock(&db->lock);
    if (code == 0)
        *ret_created = !known;
    return code;
}

int servers_db_remove(struct servers_db *db, const char *user, const char *name, struct err *err) {
    pthread_mutex_lock(&db->lock);
    int code = file_ready_locked(db, false, err), changed = 0;
    if (code == 0)
        code = db_do(&db->db, err, "DELETE FROM server WHERE user = ? AND name = ?", "tt", user, name);
    if (code == 0)
        changed = sqlite3_changes(db->db.handle);
    pthread_mutex_unlock(&db->lock);
    if (code >= 0 && !changed)
        return err_set(err, ERR_NOT_FOUND, "there is no MCP server '%.64s'", name);
    return code;
}
