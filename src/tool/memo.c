/* Working directories of threads. Called by tool_path, the cd tool and commands. Invariant: what was set is written
 * before the model is told. */
#include "tool/memo.h"

#include <string.h>

#include "tool/store.h"

int memo_cwd(struct tool_call *call, const char **ret_path, struct err *err) {
    struct tool_store *store = call->host->store;
    const char *path = box_workspace(call->box);
    int code = 0;
    tool_store_lock(store);
    sqlite3_stmt *find = tool_store_statement(store, "SELECT path FROM cwd WHERE box = ? AND thread = ?", err);
    if (find) {
        sqlite3_bind_text(find, 1, call->box->id, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 2, call->thread, -1, SQLITE_STATIC);
        if (sqlite3_step(find) == SQLITE_ROW)
            path = arena_strdup(call->arena, (const char *)sqlite3_column_text(find, 0));
        sqlite3_reset(find);
    } else {
        code = -err->code;
    }
    tool_store_unlock(store);
    if (code == 0)
        *ret_path = path;
    return code;
}

int memo_cd(struct tool_call *call, const char *path, struct err *err) {
    struct tool_store *store = call->host->store;
    sqlite3 *handle = tool_store_lock(store);
    sqlite3_stmt *put =
        tool_store_statement(store, "INSERT OR REPLACE INTO cwd (box, thread, path) VALUES (?, ?, ?)", err);
    int code = put ? 0 : -err->code;
    if (put) {
        sqlite3_bind_text(put, 1, call->box->id, -1, SQLITE_STATIC);
        sqlite3_bind_text(put, 2, call->thread, -1, SQLITE_STATIC);
        sqlite3_bind_text(put, 3, path, -1, SQLITE_STATIC);
        if (sqlite3_step(put) != SQLITE_DONE)
            code = err_set(err, ERR_IO, "the working directory cannot be kept: %s", sqlite3_errmsg(handle));
        sqlite3_reset(put);
    }
    tool_store_unlock(store);
    return code;
}

int memo_looked(struct tool_call *call, uint64_t pid, uint64_t started_ms, uint64_t ret_offsets[2], struct err *err) {
    struct tool_store *store = call->host->store;
    ret_offsets[0] = ret_offsets[1] = 0;
    tool_store_lock(store);
    sqlite3_stmt *find = tool_store_statement(
        store, "SELECT stdout, stderr FROM looked WHERE box = ? AND thread = ? AND pid = ? AND started_ms = ?", err);
    if (find) {
        sqlite3_bind_text(find, 1, call->box->id, -1, SQLITE_STATIC);
        sqlite3_bind_text(find, 2, call->thread, -1, SQLITE_STATIC);
        sqlite3_bind_int64(find, 3, (sqlite3_int64)pid);
        sqlite3_bind_int64(find, 4, (sqlite3_int64)started_ms);
        bool known = sqlite3_step(find) == SQLITE_ROW;
        for (int i = 0; i < 2 && known; i++)
            ret_offsets[i] = (uint64_t)sqlite3_column_int64(find, i);
        sqlite3_reset(find);
    }
    tool_store_unlock(store);
    return find ? 0 : -err->code;
}

/* One statement under the lock; its parameters are those of memo_look. */
static int memo_write(struct tool_call *call, const char *sql, const sqlite3_int64 *numbers, int count,
                      struct err *err) {
    struct tool_store *store = call->host->store;
    sqlite3 *handle = tool_store_lock(store);
    sqlite3_stmt *put = tool_store_statement(store, sql, err);
    int code = put ? 0 : -err->code;
    if (put) {
        sqlite3_bind_text(put, 1, call->box->id, -1, SQLITE_STATIC);
        sqlite3_bind_text(put, 2, call->thread, -1, SQLITE_STATIC);
        for (int i = 0; i < count; i++)
            sqlite3_bind_int64(put, 3 + i, numbers[i]);
        if (sqlite3_step(put) != SQLITE_DONE)
            code = err_set(err, ERR_IO, "what was read cannot be kept: %s", sqlite3_errmsg(handle));
        sqlite3_reset(put);
    }
    tool_store_unlock(store);
    return code;
}

/* A runner keeps fewer commands than rows stay: LIMIT_PROCESSES. */
int memo_look(struct tool_call *call, uint64_t pid, uint64_t started_ms, const uint64_t offsets[2], struct err *err) {
    const sqlite3_int64 numbers[] = {(sqlite3_int64)pid, (sqlite3_int64)started_ms, (sqlite3_int64)offsets[0],
                                     (sqlite3_int64)offsets[1]};
    int code = memo_write(call,
                          "INSERT OR REPLACE INTO looked (box, thread, pid, started_ms, stdout, stderr) "
                          "VALUES (?, ?, ?, ?, ?, ?)",
                          numbers, 4, err);
    if (code == 0)
        code = memo_write(call,
                          "DELETE FROM looked WHERE box = ?1 AND thread = ?2 AND number <= (SELECT number FROM looked "
                          "WHERE box = ?1 AND thread = ?2 ORDER BY number DESC LIMIT 1 OFFSET 256)",
                          NULL, 0, err);
    return code;
}

static int memo_any(void *user, const struct file_stat *stat) {
    (void)user;
    (void)stat;
    return 0;
}

bool memo_vanished(struct tool_call *call, const char *path, struct err *err) {
    const char *workspace = box_workspace(call->box);
    const struct list_request look = {.path = path, .depth = 1, .limit = 1};
    struct err why;
    bool truncated;
    if (strcmp(path, workspace) == 0)
        return false;
    int code = box_list(call->box, &look, call->watch, memo_any, NULL, &truncated, &why);
    if (code != -ERR_NOT_FOUND && code != -ERR_INVALID)
        return false;
    if (memo_cd(call, workspace, err) == 0)
        err_set(
            err, ERR_NOT_FOUND,
            "the working directory '%s' is no longer there, so nothing was run. It is '%s' again: repeat the call if "
            "that is where it should run",
            path, workspace);
    return true;
}

int memo_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err) {
    static const char *const tables[] = {"DELETE FROM cwd WHERE box = ? AND at_ms <= ?",
                                         "DELETE FROM looked WHERE box = ? AND started_ms <= ?"};
    int code = 0;
    tool_store_lock(store);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && code == 0; i++) {
        sqlite3_stmt *forget = tool_store_statement(store, tables[i], err);
        code = forget ? 0 : -err->code;
        if (!forget)
            break;
        sqlite3_bind_text(forget, 1, box, -1, SQLITE_STATIC);
        sqlite3_bind_int64(forget, 2, (sqlite3_int64)until_ms);
        if (sqlite3_step(forget) != SQLITE_DONE)
            code = db_fail(tool_store_db(store), err);
        sqlite3_reset(forget);
    }
    tool_store_unlock(store);
    return code;
}
