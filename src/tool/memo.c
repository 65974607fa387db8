/* Working directories of threads. Called by tool_path, the cd tool and commands. Invariant: a new directory is
 * written before the model gets its answer. */
#include "tool/memo.h"

#include "tool/store.h"

int memo_cwd(struct tool_call *call, const char **ret_path, struct err *err) {
    struct tool_store *store = call->host->store;
    struct query find;
    int r = db_query(tool_store_lock(store), &find, err, "SELECT path FROM cwd WHERE box = ? AND thread = ?", "tt",
                     call->box->id, call->thread);
    if (r == 0)
        *ret_path =
            query_next(&find, err) > 0 ? arena_strdup(call->arena, query_text(&find, 0)) : box_workspace(call->box);
    query_end(&find);
    tool_store_unlock(store);
    return r;
}

int memo_cd(struct tool_call *call, const char *path, struct err *err) {
    struct tool_store *store = call->host->store;
    int r = db_do(tool_store_lock(store), err, "INSERT OR REPLACE INTO cwd (box, thread, path) VALUES (?, ?, ?)", "ttt",
                  call->box->id, call->thread, path);
    tool_store_unlock(store);
    return r < 0 ? err_wrap(err, "cannot save the working directory") : 0;
}

int memo_looked(struct tool_call *call, uint64_t pid, uint64_t started_ms, uint64_t ret_offsets[2], struct err *err) {
    struct tool_store *store = call->host->store;
    ret_offsets[0] = ret_offsets[1] = 0;
    int r = db_get(tool_store_lock(store), err,
                   "SELECT stdout, stderr FROM looked WHERE box = ? AND thread = ? AND pid = ? AND started_ms = ?",
                   "ttii>ii", call->box->id, call->thread, pid, started_ms, &ret_offsets[0], &ret_offsets[1]);
    tool_store_unlock(store);
    return r < 0 ? r : 0;
}

/* 256 rows are kept, more than the commands that a runner keeps (LIMIT_PROCESSES). */
int memo_look(struct tool_call *call, uint64_t pid, uint64_t started_ms, const uint64_t offsets[2], struct err *err) {
    struct tool_store *store = call->host->store;
    struct db *db = tool_store_lock(store);
    int r = db_do(db, err,
                  "INSERT OR REPLACE INTO looked (box, thread, pid, started_ms, stdout, stderr) "
                  "VALUES (?, ?, ?, ?, ?, ?)",
                  "ttiiii", call->box->id, call->thread, pid, started_ms, offsets[0], offsets[1])
                ?: db_do(db, err,
                         "DELETE FROM looked WHERE box = ?1 AND thread = ?2 AND number <= (SELECT number FROM looked "
                         "WHERE box = ?1 AND thread = ?2 ORDER BY number DESC LIMIT 1 OFFSET 256)",
                         "tt", call->box->id, call->thread);
    tool_store_unlock(store);
    return r < 0 ? err_wrap(err, "cannot save the read position") : 0;
}

/* column: "command" or "chat" of table bang. */
static int memo_text(struct tool_call *call, const char *column, const char **ret_text, struct err *err) {
    struct query find;
    *ret_text = NULL;
    int r = db_query(tool_store_lock(call->host->store), &find, err,
                     text_make(96, "SELECT %s FROM bang WHERE box = ? AND thread = ?", column), "tt", call->box->id,
                     call->thread);
    if (r == 0 && query_next(&find, err) > 0 && query_text(&find, 0))
        *ret_text = arena_strdup(call->arena, query_text(&find, 0));
    query_end(&find);
    tool_store_unlock(call->host->store);
    return r;
}

static int memo_set(struct tool_call *call, const char *column, const char *text, struct err *err) {
    int r = db_do(tool_store_lock(call->host->store), err,
                  text_make(160,
                            "INSERT INTO bang (box, thread, %s) VALUES (?1, ?2, ?3) "
                            "ON CONFLICT (box, thread) DO UPDATE SET %s = ?3",
                            column, column),
                  "ttt", call->box->id, call->thread, text);
    tool_store_unlock(call->host->store);
    return r < 0 ? r : 0;
}

int memo_last(struct tool_call *call, const char **ret_command, struct err *err) {
    return memo_text(call, "command", ret_command, err);
}

int memo_ran(struct tool_call *call, const char *command, struct err *err) {
    return memo_set(call, "command", command, err);
}

static int memo_any(void *, const struct file_stat *) {
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
        err_set(err, ERR_NOT_FOUND,
                "the working directory '%s' is no longer there, so nothing was run. It is now '%s': repeat the call to "
                "run it there",
                path, workspace);
    return true;
}

int memo_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err) {
    struct db *db = tool_store_lock(store);
    int r = db_do(db, err, "DELETE FROM cwd WHERE box = ? AND at_ms <= ?", "ti", box, until_ms)
                ?: db_do(db, err, "DELETE FROM bang WHERE box = ? AND at_ms <= ?", "ti", box, until_ms)
                ?: db_do(db, err, "DELETE FROM looked WHERE box = ? AND started_ms <= ?", "ti", box, until_ms);
    tool_store_unlock(store);
    return r;
}
