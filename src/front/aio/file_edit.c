/* Editing files: replacing every occurrence of a text, and the editor's commands. Called through aio_file_routes.
 * Invariant: an edit applies to the version that was read, or starts over; no concurrent change is lost. */
#include "base/counted.h"
#include "base/sha256.h"
#include "base/sync.h"
#include "front/aio/file.h"

#define EDIT_TRIES 8u
#define SNIPPET_LINES 4u
#define VIEW_BYTES (2 * AIO_TEXT_BYTES) /* with line numbers */
#define NO_VERSION "\"0-0-0\""          /* an ETag that no file has */

/* ---- replace ---- */

static const struct row replace_fields[] = {
    AIO_PATH_ROW(file, "absolute path"),
    {AIO_IN(old_str, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .min = 1, .max = LIMIT_EDIT_BYTES,
     .text = "what is replaced, wherever it is"},
    {AIO_IN(new_str, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_EDIT_BYTES, .text = "what takes its place"},
    {AIO_IN(sudo, BOOL), .text = "with the rights of the box's root"},
    {0},
};

static int file_replace(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct edit_result result = {0};
    STEP(detail_body(request, &args, err));
    struct edit_request edit = {.kind = EDIT_STRING,
                                .all = true,
                                .root = args.sudo,
                                .old = args.old_str.data,
                                .old_len = args.old_str.len,
                                .new_text = args.new_str.data,
                                .new_len = args.new_str.len};
    int failed = front_target(request, box, &args.file, &edit.path, err)
                     ?: box_edit(box, &edit, http_arena(request), http_fd(request), &result, err);
    bool none = failed == -ERR_NOT_FOUND && result.judged;
    if (failed && !none)
        return aio_file_fail(request, "Failed to replace in file", "replace", args.file.data, err);
    return aio_reply(request, none ? "old_str not found in file: nothing was replaced" : "Replacement completed",
                     AIO_MEMBERS(AIO_STR("file", args.file.data), AIO_INT("replaced_count", none ? 0 : result.count)),
                     err);
}

/* ---- the undo history ----
 *
 * In memory. Invariant: if a user's share (COUNTED_UNDO) is used up, only that user's oldest change is dropped. */

#define HISTORY_OF_FILE 10u            /* changes of one file */
#define HISTORY_LEAST_BYTES (8u << 10) /* least that a change counts as, because the list is searched linearly */

struct undo {
    struct undo *newer, *older;
    char box[17], user[LIMIT_USER_BYTES + 1];
    uint64_t created_ms; /* of the box, since ids are reused */
    char *path, *etag, *old;
    size_t len, bytes;
};

struct aio_history {
    pthread_mutex_t lock;
    struct undo *newest, *oldest;
};

struct aio_history *aio_history_new(void) {
    struct aio_history *history = xcalloc(1, sizeof *history);
    pthread_mutex_init(&history->lock, NULL);
    return history;
}

static void edit_undo_free(struct undo *change) {
    free(change->path);
    free(change->etag);
    free(change->old);
    free(change);
}

static void edit_undo_unlink_locked(struct aio_history *history, struct undo *change) {
    *(change->newer ? &change->newer->older : &history->newest) = change->older;
    *(change->older ? &change->older->newer : &history->oldest) = change->newer;
    counted_give(COUNTED_UNDO, change->user, change->bytes);
}

static void edit_undo_drop_locked(struct aio_history *history, struct undo *change) {
    edit_undo_unlink_locked(history, change);
    edit_undo_free(change);
}

void aio_history_free(struct aio_history *history) {
    if (!history)
        return;
    while (history->oldest)
        edit_undo_drop_locked(history, history->oldest);
    pthread_mutex_destroy(&history->lock);
    free(history);
}

static bool edit_undo_is_of(const struct undo *change, const struct box *box, const char *path) {
    return !strcmp(change->box, box->id) && change->created_ms == box->created_ms && !strcmp(change->path, path);
}

/* Drops the oldest change of this file if it has more than its share. */
static void edit_undo_trim_locked(struct aio_history *history, const struct box *box, const char *path) {
    unsigned count = 0;
    struct undo *last = NULL;
    for (struct undo *change = history->newest; change; change = change->older)
        if (edit_undo_is_of(change, box, path)) {
            count++;
            last = change;
        }
    if (count > HISTORY_OF_FILE)
        edit_undo_drop_locked(history, last);
}

/* Drops the user's oldest changes to make space. Returns false if the new one is still too large. */
static bool edit_undo_count_locked(struct aio_history *history, const struct undo *fresh) {
    struct undo *oldest = history->oldest;
    while (counted_take(COUNTED_UNDO, fresh->user, fresh->bytes, ERR_IGNORED) < 0) {
        while (oldest && strcmp(oldest->user, fresh->user) != 0)
            oldest = oldest->newer;
        if (!oldest)
            return false;
        struct undo *next = oldest->newer;
        edit_undo_drop_locked(history, oldest);
        oldest = next;
    }
    return true;
}

static void edit_undo_put(struct aio_history *history, const struct box *box, const char *path, const void *old,
                          size_t len, const char *etag) {
    struct undo *change = xcalloc(1, sizeof *change);
    snprintf(change->box, sizeof change->box, "%s", box->id);
    change->created_ms = box->created_ms;
    change->path = xstrdup(path);
    change->etag = xstrdup(etag);
    change->old = old ? memcpy(xmalloc(len + 1), old, len) : NULL;
    change->len = len;
    snprintf(change->user, sizeof change->user, "%s", box->user);
    change->bytes = sizeof *change + strlen(path) + strlen(etag) + len + 3;
    change->bytes = change->bytes > HISTORY_LEAST_BYTES ? change->bytes : HISTORY_LEAST_BYTES;
    autolock(&history->lock);
    if (edit_undo_count_locked(history, change)) {
        change->older = history->newest;
        *(history->newest ? &history->newest->newer : &history->oldest) = change;
        history->newest = change;
        edit_undo_trim_locked(history, box, path);
    } else {
        edit_undo_free(change);
    }
}

static bool edit_undo_take(struct aio_history *history, const struct box *box, const char *path, char **ret_old,
                           size_t *ret_len, char **ret_etag) {
    pthread_mutex_lock(&history->lock);
    struct undo *change = history->newest;
    while (change && !edit_undo_is_of(change, box, path))
        change = change->older;
    if (change)
        edit_undo_unlink_locked(history, change);
    pthread_mutex_unlock(&history->lock);
    if (!change)
        return false;
    *ret_old = change->old;
    *ret_len = change->len;
    *ret_etag = change->etag;
    change->old = change->etag = NULL;
    edit_undo_free(change);
    return true;
}

/* ---- the editor ---- */

static const struct row editor_fields[] = {
    {AIO_IN(command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .choices = "view|create|str_replace|insert|undo_edit",
     .text = "what to do"},
    AIO_PATH_ROW(path, "absolute path of a file; to view, of a directory as well"),
    {AIO_IN(file_text, TEXT), .flags = ROW_NUL, .max = AIO_TEXT_BYTES, .text = "create: the content"},
    {AIO_IN(old_str, TEXT), .flags = ROW_NUL, .max = AIO_TEXT_BYTES, .text = "str_replace: what is replaced"},
    {AIO_IN(new_str, TEXT), .flags = ROW_NUL, .max = AIO_TEXT_BYTES,
     .text = "str_replace: what takes its place; insert: the new lines"},
    {AIO_IN(insert_line, INT), .max = INT64_MAX, .text = "insert: after this line; 0: before the first"},
    {AIO_IN(view_range, TEXTS), .max = 2, .text = "view: first and last line, counted from 1; -1: to the end"},
    {AIO_IN(replace_mode, TEXT), .choices = "ALL|FIRST|LAST",
     .text = "str_replace: which of several places; without it there may be only one"},
    {0},
};

struct editor {
    struct http_request *request;
    struct box *box;
    const struct aio_args *args;
    const char *path;
    struct buf old, new_text, output; /* the file before and after; the text for a model */
    struct file_stat stat;
    bool existed, changed; /* the file existed before; old and new_text are in the answer */
};

static int edit_editor_answer(struct editor *editor, struct err *err) {
    const struct buf *old = editor->changed && editor->existed ? &editor->old : NULL,
                     *fresh = editor->changed ? &editor->new_text : NULL;
    if (editor->output.failed)
        return err_set(err, ERR_TOO_LARGE, AIO_TEXT_LIMIT);
    return aio_reply(editor->request, NULL,
                     AIO_MEMBERS(AIO_TEXT("output", editor->output.data, editor->output.len), AIO_STR("error", NULL),
                                 AIO_STR("path", editor->args->path.data), AIO_BOOL("prev_exist", editor->existed),
                                 AIO_TEXT_IF(old, "old_content", old->data, old->len),
                                 AIO_TEXT_IF(fresh, "new_content", fresh->data, fresh->len), AIO_STR("metadata", NULL)),
                     err);
}

static int edit_editor_failed(struct editor *editor, struct err *err) {
    return aio_file_fail(editor->request, "Failed to edit file", editor->args->command.data, editor->args->path.data,
                         err);
}

static int edit_editor_refuse(struct editor *editor, const char *text) {
    return aio_fail(editor->request, 400, ERR_INVALID, text);
}

static int edit_editor_load(struct editor *editor, struct err *err) {
    struct front_load load = {.path = editor->path, .out = &editor->old};
    buf_clear(&editor->old);
    int failed = aio_load_text(editor->request, editor->box, &load, err);
    editor->stat = load.stat;
    editor->existed = !failed;
    return failed;
}

/* Writes lines first to last (from 1) with their numbers. */
static void edit_show_lines(struct editor *editor, const struct buf *text, uint64_t first, uint64_t last) {
    const uint8_t *at = text->data, *end = at + text->len;
    for (uint64_t line = 1; at < end && line <= last; line++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) : (size_t)(end - at);
        if (line >= first) {
            buf_printf(&editor->output, "%6llu\t", (unsigned long long)line);
            buf_put(&editor->output, at, n);
            buf_byte(&editor->output, '\n');
        }
        at += n + 1;
    }
}

static uint64_t file_edit_count_lines(const void *data, size_t len) {
    uint64_t count = 0;
    const uint8_t *at = data, *end = at + len;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        count++;
        at++;
    }
    return count + (len && ((const uint8_t *)data)[len - 1] != '\n');
}

/* ---- view ---- */

static int edit_view_each(void *user, const struct file_stat *stat) {
    struct editor *editor = user;
    if (stat->name[0] == '.')
        return 0;
    buf_puts(&editor->output, stat->path);
    buf_puts(&editor->output, stat->type == FILE_DIR ? "/\n" : "\n");
    return 0;
}

/* Returns positive if answered. */
static int edit_view_range(struct editor *editor, uint64_t lines, uint64_t *ret_first, uint64_t *ret_last) {
    const char *const *range = editor->args->view_range;
    *ret_first = 1;
    *ret_last = UINT64_MAX;
    if (!range || !range[0])
        return 0;
    bool open = range[1] && !strcmp(range[1], "-1");
    if (!range[1] || !text_u64(range[0], INT64_MAX, ret_first) || (!open && !text_u64(range[1], INT64_MAX, ret_last)))
        return edit_editor_refuse(editor, "view_range must be two line numbers; the second may be -1");
    if (*ret_first < 1 || *ret_first > (lines ? lines : 1) || *ret_last < *ret_first)
        return edit_editor_refuse(editor,
                                  arena_printf(http_arena(editor->request),
                                               "view_range must be inside the file, which has %llu lines, and its end "
                                               "not before its start",
                                               (unsigned long long)lines));
    return 0;
}

static int edit_editor_directory(struct editor *editor, struct err *err) {
    bool truncated = false;
    const struct list_request list = {
        .path = editor->path, .depth = 2, .limit = DEFAULT_LIST_LIMIT, .ignore = ".*", .follow = true};
    if (editor->args->view_range && editor->args->view_range[0])
        return edit_editor_refuse(editor, "view_range is only for files, and this is a directory");
    buf_printf(&editor->output, "%s and what is in it, two levels deep, without hidden names:\n",
               editor->args->path.data);
    if (box_list(editor->box, &list, http_fd(editor->request), edit_view_each, editor, &truncated, err))
        return edit_editor_failed(editor, err);
    buf_puts(&editor->output, truncated ? "(there is more)\n" : "");
    editor->existed = true;
    return edit_editor_answer(editor, err);
}

static int edit_editor_view(struct editor *editor, struct err *err) {
    uint64_t first, last;
    int failed = edit_editor_load(editor, err);
    if (failed && err->number == EISDIR)
        return edit_editor_directory(editor, err);
    if (failed)
        return edit_editor_failed(editor, err);
    STEP(edit_view_range(editor, file_edit_count_lines(editor->old.data, editor->old.len), &first, &last));
    buf_printf(&editor->output, "%s as `cat -n` shows it:\n", editor->args->path.data);
    edit_show_lines(editor, &editor->old, first, last);
    return edit_editor_answer(editor, err);
}

/* ---- changes ---- */

/* Replaces the version with this ETag (and, for a file, this content) by the new text. */
static int edit_editor_store(struct editor *editor, const char *etag, const struct buf *old, struct err *err) {
    struct edit_result result = {0};
    uint8_t digest[32];
    char after[ETAG_BYTES];
    if (old)
        sha256(old->data, old->len, digest);
    const struct edit_request edit = {.path = editor->path,
                                      .kind = EDIT_WHOLE,
                                      .parents = true,
                                      .create = !old && !strcmp(etag, NO_VERSION),
                                      .new_text = (const char *)editor->new_text.data,
                                      .new_len = editor->new_text.len,
                                      .if_match = etag,
                                      .sha256 = old ? digest : NULL};
    STEP(box_edit(editor->box, &edit, http_arena(editor->request), http_fd(editor->request), &result, err));
    editor->changed = true;
    edit_undo_put(aio_state(editor->request)->history, editor->box, editor->path, old ? old->data : NULL,
                  old ? old->len : 0, file_etag(&result.stat, after));
    return 0;
}

/* Makes the new text by replacing the selected occurrences. Returns positive if answered. */
static int edit_replaced(struct editor *editor, size_t *ret_at) {
    const struct aio_args *args = editor->args;
    const char *mode = args->replace_mode.data;
    const uint8_t *from = editor->old.data, *end = from + editor->old.len, *first = NULL, *last = NULL;
    size_t len = args->old_str.len, count = 0;
    for (const uint8_t *at = from; (at = memmem(at, (size_t)(end - at), args->old_str.data, len)); at += len) {
        first = first ? first : at;
        last = at;
        count++;
    }
    if (!count)
        return edit_editor_refuse(editor, "old_str not found in file");
    if (count > 1 && !mode)
        return edit_editor_refuse(editor, "old_str has multiple occurrences; replace_mode is required");
    bool all = mode && !strcmp(mode, "ALL");
    const uint8_t *only = mode && !strcmp(mode, "LAST") ? last : first;
    buf_clear(&editor->new_text);
    *ret_at = (size_t)(only - from);
    for (const uint8_t *at = all ? first : only; at;
         at = all ? memmem(at, (size_t)(end - at), args->old_str.data, len) : NULL) {
        buf_put(&editor->new_text, from, (size_t)(at - from));
        buf_put(&editor->new_text, args->new_str.data, args->new_str.len);
        from = at += len;
    }
    buf_put(&editor->new_text, from, (size_t)(end - from));
    return 0;
}

static int edit_inserted(struct editor *editor, size_t *ret_at) {
    const struct row_text *text = &editor->args->new_str;
    const uint8_t *from = editor->old.data, *at = from, *end = from + editor->old.len;
    uint64_t lines = file_edit_count_lines(from, editor->old.len), line = editor->args->insert_line.value;
    if (line > lines)
        return edit_editor_refuse(editor, arena_printf(http_arena(editor->request), "insert_line must be 0 to %llu",
                                                       (unsigned long long)lines));
    for (uint64_t i = 0; i < line; i++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    buf_clear(&editor->new_text);
    buf_put(&editor->new_text, from, (size_t)(at - from));
    if (at > from && at[-1] != '\n') /* the last line has no newline */
        buf_byte(&editor->new_text, '\n');
    *ret_at = editor->new_text.len;
    buf_put(&editor->new_text, text->data, text->len);
    if (!text->len || text->data[text->len - 1] != '\n')
        buf_byte(&editor->new_text, '\n');
    buf_put(&editor->new_text, at, (size_t)(end - at));
    return 0;
}

static int edit_editor_change(struct editor *editor, int (*change)(struct editor *editor, size_t *ret_at), size_t len,
                              struct err *err) {
    char etag[ETAG_BYTES];
    size_t at = 0;
    int failed = -ERR_EXISTS;
    for (unsigned tries = 0; failed == -ERR_EXISTS && tries < EDIT_TRIES; tries++) {
        failed = edit_editor_load(editor, err);
        if (!failed && (failed = change(editor, &at)) > 0)
            return failed;
        if (!failed && editor->new_text.failed)
            failed = err_set(err, ERR_TOO_LARGE, AIO_TEXT_LIMIT);
        if (!failed)
            failed = edit_editor_store(editor, file_etag(&editor->stat, etag), &editor->old, err);
    }
    if (failed)
        return edit_editor_failed(editor, err);
    uint64_t line = file_edit_count_lines(editor->new_text.data, at) + 1,
             lines = file_edit_count_lines(editor->new_text.data + at, len);
    line -= at && editor->new_text.data[at - 1] != '\n';
    uint64_t first = line > SNIPPET_LINES ? line - SNIPPET_LINES : 1;
    buf_printf(&editor->output, "%s has been edited. Lines %llu and on, as `cat -n` shows them:\n",
               editor->args->path.data, (unsigned long long)first);
    edit_show_lines(editor, &editor->new_text, first, line + lines + SNIPPET_LINES - (lines > 0));
    buf_puts(&editor->output, "Check that this is what was meant, and edit again if it is not.\n");
    return edit_editor_answer(editor, err);
}

static int edit_editor_str_replace(struct editor *editor, struct err *err) {
    if (!editor->args->old_str.data || !editor->args->old_str.len)
        return detail_unfit(editor->request, "old_str", "old_str is required for str_replace, and not empty");
    return edit_editor_change(editor, edit_replaced, editor->args->new_str.len, err);
}

static int edit_editor_insert(struct editor *editor, struct err *err) {
    if (!editor->args->insert_line.has)
        return detail_unfit(editor->request, "insert_line", "insert_line is required for insert");
    if (!editor->args->new_str.data)
        return detail_unfit(editor->request, "new_str", "new_str is required for insert");
    return edit_editor_change(editor, edit_inserted, editor->args->new_str.len, err);
}

static int edit_editor_create(struct editor *editor, struct err *err) {
    const struct row_text *text = &editor->args->file_text;
    if (!text->data)
        return detail_unfit(editor->request, "file_text", "file_text is required for create");
    buf_put(&editor->new_text, text->data, text->len);
    int failed = edit_editor_store(editor, NO_VERSION, NULL, err);
    if (failed == -ERR_EXISTS)
        err_set(err, ERR_EXISTS, "'%s' already exists: change it with str_replace or insert", editor->args->path.data);
    if (failed)
        return edit_editor_failed(editor, err);
    buf_printf(&editor->output, "%s has been created.\n", editor->args->path.data);
    return edit_editor_answer(editor, err);
}

/* ---- undo ---- */

/* The file must still be the result of the change: otherwise a later change would be lost. */
static int edit_undo_store(struct editor *editor, const char *old, size_t len, const char *etag, struct err *err) {
    char now[ETAG_BYTES];
    struct edit_result result;
    int failed = edit_editor_load(editor, err);
    if (!failed && strcmp(file_etag(&editor->stat, now), etag) != 0)
        failed = -ERR_EXISTS;
    if (!failed && !old)
        failed = box_remove(editor->box, editor->path, false, http_fd(editor->request), err);
    else if (!failed)
        failed =
            box_edit(editor->box,
                     &(const struct edit_request){
                         .path = editor->path, .kind = EDIT_WHOLE, .new_text = old, .new_len = len, .if_match = etag},
                     http_arena(editor->request), http_fd(editor->request), &result, err);
    if (failed == -ERR_EXISTS)
        err_set(err, ERR_EXISTS, "'%s' has changed since its last edit, which can no longer be undone",
                editor->args->path.data);
    return failed;
}

static int edit_editor_undo(struct editor *editor, struct err *err) {
    char *old = NULL, *etag = NULL;
    size_t len = 0;
    if (!edit_undo_take(aio_state(editor->request)->history, editor->box, editor->path, &old, &len, &etag))
        return edit_editor_refuse(
            editor, arena_printf(http_arena(editor->request), "No edit history found for %s", editor->args->path.data));
    int failed = edit_undo_store(editor, old, len, etag, err);
    if (!failed && old) {
        buf_put(&editor->new_text, old, len);
        editor->changed = true;
        buf_printf(&editor->output, "The last edit of %s was taken back. It is now, as `cat -n` shows it:\n",
                   editor->args->path.data);
        edit_show_lines(editor, &editor->new_text, 1, UINT64_MAX);
    } else if (!failed) {
        buf_printf(&editor->output, "The last edit of %s had created it: it has been removed.\n",
                   editor->args->path.data);
    }
    free(old);
    free(etag);
    return failed ? edit_editor_failed(editor, err) : edit_editor_answer(editor, err);
}

static const struct {
    const char *name;
    int (*run)(struct editor *editor, struct err *err);
    bool changes;
} commands[] = {
    {"view", edit_editor_view, false},
    {"create", edit_editor_create, true},
    {"str_replace", edit_editor_str_replace, true},
    {"insert", edit_editor_insert, true},
    {"undo_edit", edit_editor_undo, true},
};

static int file_editor(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct editor editor = {.request = request, .box = box, .args = &args};
    size_t i = 0;
    STEP(detail_body(request, &args, err));
    while (strcmp(args.command.data, commands[i].name) != 0)
        i++;
    buf_init(&editor.old, AIO_TEXT_BYTES);
    buf_init(&editor.new_text, AIO_TEXT_BYTES);
    buf_init(&editor.output, VIEW_BYTES);
    int failed = (commands[i].changes ? front_target(request, box, &args.path, &editor.path, err)
                                      : front_path(request, box, &args.path, false, &editor.path, err))
                     ?: http_hold(request, args.file_text.len + args.new_str.len, err);
    failed = failed ? edit_editor_failed(&editor, err) : commands[i].run(&editor, err);
    buf_done(&editor.old);
    buf_done(&editor.new_text);
    buf_done(&editor.output);
    return failed;
}

const struct route aio_edit_routes[] = {
    AIO_ROUTE("POST", "/file/replace", "aio_file_replace", "Replace every place of a text in a file",
              .run = file_replace, .body = replace_fields),
    AIO_ROUTE("POST", "/file/str_replace_editor", "aio_file_editor",
              "View, create, change a file, and take the last change back", .run = file_editor, .body = editor_fields),
    {0},
};
