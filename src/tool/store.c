/* The file of what tools remember. Called by session, seen, offload; opened by the daemon and `cubby mcp`. Not to break:
 * store->lock guards the connection, and nobody holds it while a box works. */
#include "tool/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "tool/seen.h"

enum { STATEMENTS = 32, BUSY_MS = 5000 };

struct tool_store {
    int dir;
    pthread_mutex_t lock;
    sqlite3 *handle;
    struct seen_table *seen;
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[STATEMENTS];
};

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "CREATE TABLE IF NOT EXISTS cwd (box TEXT, thread TEXT, path TEXT NOT NULL, PRIMARY KEY (box, thread)) WITHOUT ROWID;" SEEN_SCHEMA;

int tool_store_open(const char *directory, struct tool_store **ret_store, struct err *err) {
    char path[4400], files[4400];
    snprintf(path, sizeof path, "%s/tools.db", directory);
    snprintf(files, sizeof files, "%s/offload", directory);
    if (mkdir(files, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot make %s", files);
    struct tool_store *store = calloc(1, sizeof *store);
    if (!store)
        abort();
    pthread_mutex_init(&store->lock, NULL);
    store->dir = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store->dir < 0 || sqlite3_open(path, &store->handle) != SQLITE_OK ||
        sqlite3_busy_timeout(store->handle, BUSY_MS) != SQLITE_OK ||
        sqlite3_exec(store->handle, schema, NULL, NULL, NULL) != SQLITE_OK) {
        err_set(err, ERR_IO, "%s: %s", path, store->handle ? sqlite3_errmsg(store->handle) : "cannot be opened");
        tool_store_close(store);
        return -ERR_IO;
    }
    store->seen = seen_table_new(store);
    *ret_store = store;
    return 0;
}

void tool_store_close(struct tool_store *store) {
    if (!store)
        return;
    seen_table_free(store->seen);
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i].statement);
    sqlite3_close(store->handle);
    fd_close(&store->dir);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

sqlite3 *tool_store_lock(struct tool_store *store) {
    pthread_mutex_lock(&store->lock);
    return store->handle;
}

void tool_store_unlock(struct tool_store *store) {
    pthread_mutex_unlock(&store->lock);
}

sqlite3_stmt *tool_store_statement(struct tool_store *store, const char *sql, struct err *err) {
    for (size_t i = 0; i < STATEMENTS; i++) {
        if (store->statements[i].sql == sql) {
            sqlite3_reset(store->statements[i].statement);
            sqlite3_clear_bindings(store->statements[i].statement);
            return store->statements[i].statement;
        }
        if (!store->statements[i].sql) {
            if (sqlite3_prepare_v3(store->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i].statement,
                                   NULL) != SQLITE_OK)
                break;
            store->statements[i].sql = sql;
            return store->statements[i].statement;
        }
    }
    err_set(err, ERR_IO, "tools.db: %s", sqlite3_errmsg(store->handle));
    return NULL;
}

struct seen_table *tool_store_seen(const struct tool_store *store) {
    return store->seen;
}

int tool_store_dir(const struct tool_store *store) {
    return store->dir;
}
