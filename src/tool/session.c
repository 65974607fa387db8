/* Working directories of threads. Called by tool_path and the cd tool. Not to break: what was set is on disk before the
 * model is told. */
#include "tool/session.h"

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
