/* Working directories of threads. Called by tool_path, the cd tool and commands. Not to break: what was set is written
 * before the model is told. */
#include "tool/session.h"

#include <string.h>

#include "tool/store.h"

int session_cwd(struct tool_call *call, const char **ret_path, struct err *err) {
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

int session_cd(struct tool_call *call, const char *path, struct err *err) {
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

static int session_any(void *user, const struct file_stat *stat) {
    (void)user;
    (void)stat;
    return 0;
}

bool session_vanished(struct tool_call *call, const char *path, struct err *err) {
    const char *workspace = box_workspace(call->box);
    const struct list_request look = {.path = path, .depth = 1, .limit = 1};
    struct err why;
    bool truncated;
    if (strcmp(path, workspace) == 0)
        return false;
    int code = box_list(call->box, &look, call->watch, session_any, NULL, &truncated, &why);
    if (code != -ERR_NOT_FOUND && code != -ERR_INVALID)
        return false;
    if (session_cd(call, workspace, err) == 0)
        err_set(
            err, ERR_NOT_FOUND,
            "the working directory '%s' is no longer there, so nothing was run. It is '%s' again: repeat the call if "
            "that is where it should run",
            path, workspace);
    return true;
}
