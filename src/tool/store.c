/* The database of tools. Called by memo, seen, offload, upkeep; opened by the daemon and `cubby mcp`. Invariant:
 * store->lock guards the connection, and is never held while a box works.
 *
 * Its write-ahead log is synced only at checkpoints (synchronous=NORMAL): tools write in nearly every call, and a
 * rollback journal would wait for the disk twice each time. A killed daemon loses nothing. A power failure may lose the
 * last directories, seen files and results; the sweep removes files without a row. */

#include "base/base.h"
#include "tool/store.h"
#include "tool/seen.h"

struct tool_store {
    int dir;
    pthread_mutex_t lock; /* guards the members below */
    struct db db;
    struct seen_table *seen;
};

/* offload: `number` orders results by age; `marks` finds characters and lines in a long one (offload_index.h). */
static const char schema[] =
    "CREATE TABLE cwd (box TEXT, thread TEXT, path TEXT NOT NULL,"
    " at_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),"
    " PRIMARY KEY (box, thread)) WITHOUT ROWID;" SEEN_SCHEMA
    "CREATE TABLE looked (number INTEGER PRIMARY KEY, box TEXT NOT NULL, thread TEXT NOT NULL, pid INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL, stdout INTEGER NOT NULL, stderr INTEGER NOT NULL, UNIQUE (box, thread, pid));"
    "CREATE TABLE offload (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, user TEXT NOT NULL, box TEXT NOT NULL,"
    " thread TEXT NOT NULL, tool TEXT NOT NULL, made_ms INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " chars INTEGER NOT NULL, lines INTEGER NOT NULL, marks BLOB NOT NULL, path TEXT, sha256 BLOB,"
    " stale INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX offload_user ON offload (user, number, bytes);"
    "CREATE INDEX offload_box ON offload (box, thread);"
    "CREATE INDEX offload_made ON offload (made_ms);";

static const struct db_kind kind = {
    .name = "tools.db",
    .what = "the database of tools (tools.db)",
    .application = 0x63756f6c, /* "cuol" */
    .version = 1,
    .schema = schema,
    .additions = "CREATE TABLE IF NOT EXISTS bang (box TEXT, thread TEXT, command TEXT, chat TEXT,"
                 " at_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),"
                 " PRIMARY KEY (box, thread)) WITHOUT ROWID",
    .pragmas = "PRAGMA synchronous=NORMAL;PRAGMA journal_size_limit=16777216",
    .wal = true,
    .closed = true,
};

int tool_store_open(const char *directory, struct tool_store **ret_store, struct err *err) {
    char files[LIMIT_PATH_BYTES + 16];
    snprintf(files, sizeof files, "%s/offload", directory);
    if (mkdir(files, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot create %.400s", files);
    struct tool_store *store = xcalloc(1, sizeof *store);
    pthread_mutex_init(&store->lock, NULL);
    store->dir = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = store->dir < 0 ? err_errno(err, errno, "%.400s", files) : db_open(&kind, directory, &store->db, err);
    if (r < 0) {
        tool_store_close(store);
        /* An operator reads this when the daemon refuses to start. */
        char why[sizeof err->text];
        memcpy(why, err->text, sizeof why);
        if (err->code == ERR_FULL)
            return err_text(err, ENOSPC, "no space left on the disk of %.300s; free some and start again", directory);
        return err_set(
            err, (enum err_code)err->code,
            "%.200s/%s: %.200s; you can move it away, but working directories and kept results are then lost",
            directory, kind.name, why);
    }
    store->seen = seen_table_new(store);
    *ret_store = store;
    return 0;
}

void tool_store_close(struct tool_store *store) {
    if (!store)
        return;
    seen_table_free(store->seen);
    db_close(&store->db);
    fd_close(&store->dir);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

struct db *tool_store_lock(struct tool_store *store) {
    pthread_mutex_lock(&store->lock);
    return &store->db;
}

void tool_store_unlock(struct tool_store *store) {
    pthread_mutex_unlock(&store->lock);
}

int tool_store_dir(const struct tool_store *store) {
    return store->dir;
}

struct seen_table *tool_store_seen(const struct tool_store *store) {
    return store->seen;
}

int tool_store_boxes(struct tool_store *store, void (*each)(void *user, const char *box), void *user, struct err *err) {
    struct query query;
    int r = db_query(
        tool_store_lock(store), &query, err,
        "SELECT box FROM cwd UNION SELECT box FROM bang UNION SELECT box FROM seen UNION SELECT box FROM offload", "");
    while (r >= 0 && (r = query_next(&query, err)) > 0)
        each(user, query_text(&query, 0));
    tool_store_unlock(store);
    return r;
}
