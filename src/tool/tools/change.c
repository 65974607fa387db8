/* Changes of files. Called by write_file, str_replace and edit. Invariant: a version that the thread has not seen is
 * never replaced. The runner checks this while it writes, because notes here may be out of date. */
#include "base/base.h"
#include "tool/tools/change.h"
#include "base/sha256.h"
#include "tool/seen.h"

/* Not a valid ETag: a version that no thread has seen. */
#define NEVER_SEEN "-"

static uint64_t change_author(const struct tool_call *call) {
    uint8_t digest[32];
    uint64_t author = 1; /* never 0 */
    sha256(call->thread, strlen(call->thread), digest);
    for (size_t i = 0; i < 8; i++)
        author = author << 8 ^ digest[i];
    return author ? author : 1;
}

static int change_judged(struct tool_call *call, const struct change *change) {
    const struct edit_request *edit = &change->edit;
    const struct edit_result *result = &change->result;
    bool regex = edit->kind == EDIT_REGEX;
    char range[80] = "";
    if (edit->first || edit->last)
        snprintf(range, sizeof range, " in lines %llu-%s", (unsigned long long)(edit->first ? edit->first : 1),
                 edit->last ? arena_printf(call->arena, "%llu", (unsigned long long)edit->last) : "end");
    if (result->count == 0 && regex)
        return tool_fail(call, "no match found for pattern%s: %s", range, edit->old);
    if (result->count == 0)
        tool_fail(call, "String to replace not found in file%s: %s", range, edit->path);
    else
        tool_fail(call, "%s %llu times%s: %s\nGive more of the text around it, or set replace_all.",
                  regex ? "pattern matches" : "String to replace is in the file", (unsigned long long)result->count,
                  range, edit->path);
    static const char *const heads[] = {[EDIT_NEAR_ALIKE] = "\nThe closest lines are:",
                                        [EDIT_NEAR_SPACES] = "\nThese lines differ only in white space:",
                                        [EDIT_NEAR_OUTSIDE] = "\nIt occurs outside these lines:"};
    if (result->near_count)
        tool_say(call, "%s", result->count ? "\nIt is here:" : heads[result->how]);
    /* The closest lines, or those with too many matches. */
    for (size_t i = 0; i < result->near_count; i++) {
        const struct edit_line *line = &result->near[i];
        tool_say(call, "\n%llu: ", (unsigned long long)line->line);
        tool_put(call, line->text, line->len);
    }
    if (result->count > result->near_count && result->near_count)
        tool_say(call, "\n(%llu places in all)", (unsigned long long)result->count);
    return 0;
}

static int change_fail(struct tool_call *call, const struct change *change, bool seen, const struct err *err) {
    const char *path = change->edit.path;
    struct file_stat stat;
    if (err->code == ERR_EXISTS) {
        if (change->fresh)
            return tool_fail(
                call, "file already exists: %s (use mode replace to modify existing files, or set overwrite=true)",
                change->edit.path);
        return tool_fail(
            call,
            "%s blocked — %s already exists and you have not read its current version.%s Call read_file on it (a "
            "ranged read of the relevant section is enough, e.g. the last ~30 lines before an append), check what "
            "is already there, then retry.",
            call->tool->name, change->edit.path, seen ? " It has changed since you last read or wrote it." : "");
    }
    if (change->result.judged)
        return change_judged(call, change);
    if (err->code == ERR_NOT_FOUND)
        return tool_fail(call, "File not found: %s", path);
    if (err->code == ERR_DENIED)
        return tool_fail(call, "Permission denied %s: %s", change->denied, path);
    if (err->code == ERR_INVALID && box_stat(call->box, path, call->arena, &stat, ERR_IGNORED) == 0 &&
        stat.type == FILE_DIR)
        return tool_fail(call, "Path is a directory, not a file: %s", path);
    return tool_fail(call, "%s '%s': %s", change->failed, path, err->text);
}

int change_run(struct tool_call *call, const struct row_text *path, struct change *change, struct err *err) {
    struct edit_request *edit = &change->edit;
    struct seen_version version;
    char etag[ETAG_BYTES];
    TRY(tool_path(call, path, &edit->path, err));
    if (path->len && path->data[path->len - 1] == '/') {
        tool_fail(call, "Path is a directory, not a file: %s", edit->path);
        return 1;
    }
    bool guarded = call->settings->read_before_write && !change->fresh;
    bool seen = guarded && seen_last(call, edit->path, &version);
    edit->author = change->fresh ? 0 : change_author(call);
    edit->create = edit->kind == EDIT_WHOLE || edit->kind == EDIT_APPEND;
    int code;
    do {
        const struct file_stat stat = {.inode = seen ? version.inode : 0,
                                       .size = seen ? version.size : 0,
                                       .mtime_ns = seen ? version.mtime_ns : 0};
        edit->if_match = seen ? file_etag(&stat, etag) : guarded || change->fresh ? NEVER_SEEN : NULL;
        edit->sha256 = seen && version.hashed ? version.sha256 : NULL;
        code = box_edit(call->box, edit, call->arena, call->watch, &change->result, err);
    } while (code == -ERR_EXISTS && guarded && seen_newer(call, edit->path, &version) && (seen = true));
    if (code == 0) {
        seen_wrote(call, edit->path, &change->result.stat, change->result.hashed ? change->result.sha256 : NULL);
        return 0;
    }
    if (code == -ERR_GONE || code == -ERR_PROTOCOL)
        return code;
    change_fail(call, change, seen, err);
    return 1;
}

void change_answer(struct tool_call *call, const struct change *change) {
    struct json *json = &call->result.json;
    json_open(json, '{');
    json_put_str(json, "path", change->edit.path);
    json_put_uint(json, "size", change->result.stat.size);
}
