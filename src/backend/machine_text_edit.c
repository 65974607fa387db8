/* Edits of a file on a machine of the text form: read, changed here in memory, written back if it is still the same. Called
 * through the table of machine_text_wire.c. Not to break: edits of one machine go one after another, and what the author
 * has not seen is not overwritten. */
#include <stdlib.h>
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/sha256.h"
#include "runner/edit_text.h"

enum { AUTHORS_MAX = 256, TRIES = 5 };

struct text_author { /* what somebody wrote last in a file */
    struct text_author *next;
    uint64_t author;
    char etag[64];
    uint8_t sha256[32];
    char path[];
};

struct edit {
    struct text_call *call;
    const char *path;
    uint64_t flags;
    struct text_file file;
    bool created;
    struct buf input, old, out;
    struct edit_text text;
    uint8_t sha256[32];
};

void text_authors_free(struct machine_text *text) {
    for (struct text_author *author = text->authors, *next; author; author = next) {
        next = author->next;
        free(author);
    }
    text->authors = NULL;
}

static void author_note(struct edit *edit) {
    struct machine_text *text = edit->call->text;
    size_t len = strlen(edit->path) + 1;
    struct text_author *note = calloc(1, sizeof *note + len);
    if (!note)
        abort();
    note->author = edit->call->args.number[FIELD_AUTHOR];
    memcpy(note->path, edit->path, len);
    memcpy(note->sha256, edit->sha256, sizeof note->sha256);
    text_file_etag(&edit->file, note->etag);
    pthread_mutex_lock(&text->lock);
    note->next = text->authors;
    text->authors = note;
    unsigned count = 0;
    for (struct text_author **at = &note->next; *at; count++) {
        struct text_author *other = *at;
        if (count < AUTHORS_MAX && strcmp(other->path, edit->path) != 0) {
            at = &other->next;
            continue;
        }
        *at = other->next;
        free(other);
    }
    pthread_mutex_unlock(&text->lock);
}

static bool author_wrote(struct edit *edit, const char *etag, const uint8_t sha256[32]) {
    struct machine_text *text = edit->call->text;
    uint64_t author = edit->call->args.number[FIELD_AUTHOR];
    pthread_mutex_lock(&text->lock);
    const struct text_author *note = text->authors;
    while (note && strcmp(note->path, edit->path) != 0)
        note = note->next;
    bool wrote = note && author && note->author == author && strcmp(note->etag, etag) == 0 &&
                 (!sha256 || memcmp(note->sha256, sha256, 32) == 0);
    pthread_mutex_unlock(&text->lock);
    return wrote;
}

/* ---- one try ---- */

static int old_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct edit *edit = user;
    buf_put(&edit->old, data, len);
    return edit->old.failed ? err_set(err, ERR_TOO_LARGE, "'%s' is larger than %u bytes", edit->path, LIMIT_EDIT_BYTES)
                            : 0;
}

static int edit_check(struct edit *edit, struct err *err) {
    const struct fields *args = &edit->call->args;
    const char *wanted = args->text[FIELD_IF_MATCH];
    if (!wanted || (edit->created && edit->flags & CALL_CREATE))
        return 0;
    if (edit->created)
        return err_set(err, ERR_EXISTS, "no file '%s' that If-Match could be true of", edit->path);
    char etag[64];
    uint8_t digest[32];
    text_file_etag(&edit->file, etag);
    sha256(edit->old.data, edit->old.len, digest);
    bool hashed = args->len[FIELD_SHA256] == 32;
    /* Times of such runners are whole seconds: where there is a hash, it decides. */
    if (strcmp(wanted, "*") == 0 ||
        (strcmp(wanted, etag) == 0 && (!hashed || memcmp(args->text[FIELD_SHA256], digest, 32) == 0)) ||
        author_wrote(edit, etag, digest))
        return 0;
    return err_set(err, ERR_EXISTS, "'%s' has changed: its ETag is now %s", edit->path, etag);
}

static int edit_apply(struct edit *edit, struct err *err) {
    const struct fields *args = &edit->call->args;
    size_t old_len = (size_t)args->number[FIELD_LENGTH];
    const uint8_t *input = edit->input.data ? edit->input.data : (const uint8_t *)"";
    buf_clear(&edit->out);
    if (edit->flags & (CALL_OVERWRITE | CALL_APPEND)) {
        if (edit->flags & CALL_APPEND)
            buf_put(&edit->out, edit->old.data, edit->old.len);
        buf_put(&edit->out, input, edit->input.len);
        return edit->out.failed
                   ? err_set(err, ERR_TOO_LARGE, "'%s' would be larger than %u bytes", edit->path, LIMIT_EDIT_BYTES)
                   : 0;
    }
    edit_text_done(&edit->text);
    edit->text = (struct edit_text){.lines = edit->flags & CALL_LINES,
                                    .all = edit->flags & CALL_ALL,
                                    .text = edit->flags & CALL_TEXT,
                                    .first = args->number[FIELD_FIRST],
                                    .last = args->number[FIELD_LAST],
                                    .old = input,
                                    .old_len = old_len,
                                    .new_text = input + old_len,
                                    .new_len = edit->input.len - old_len};
    return edit_text_apply(&edit->text, edit->old.data, edit->old.len, edit->path, &edit->out, err);
}

static ssize_t out_read(void *user, void *data, size_t size, struct err *err) {
    (void)err;
    struct view *view = user;
    size_t n = view->len < size ? view->len : size;
    if (n)
        memcpy(data, view->data, n);
    view->data += n;
    view->len -= n;
    return (ssize_t)n;
}

/* 1: the file changed meanwhile. */
static int edit_once(struct edit *edit, struct err *err) {
    struct text_call *call = edit->call;
    bool whole = edit->flags & (CALL_OVERWRITE | CALL_APPEND);
    int r = text_file_ready(call, edit->path, edit->flags & CALL_PARENTS, &edit->file, &edit->created, err);
    if (r == 0 && edit->created && !whole)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", edit->path);
    buf_clear(&edit->old);
    edit->old.failed = false;
    /* What is there matters to what becomes of it, or to whether it may be replaced. */
    bool look = !(edit->flags & CALL_OVERWRITE) || call->args.text[FIELD_IF_MATCH];
    if (r == 0 && !edit->created && look)
        r = edit->file.size > LIMIT_EDIT_BYTES
                ? err_set(err, ERR_TOO_LARGE, "'%s' is larger than %u bytes", edit->path, LIMIT_EDIT_BYTES)
                : text_file_read(call, edit->path, edit->file.size, old_put, edit, err);
    if (r == 0)
        r = edit_check(edit, err);
    if (r == 0)
        r = edit_apply(edit, err);
    if (r < 0)
        return r;
    struct text_file now = {0};
    char before[64], after[64];
    r = text_file_stat(call, edit->path, true, &now, err);
    text_file_etag(&edit->file, before);
    text_file_etag(&now, after);
    if (edit->created ? r != -ERR_NOT_FOUND : r < 0 || strcmp(before, after) != 0)
        return r < 0 && r != -ERR_NOT_FOUND ? r : 1;
    uint32_t mode = edit->created ? 0644 : edit->file.mode;
    if (call->args.number[FIELD_MODE])
        mode = (uint32_t)call->args.number[FIELD_MODE] & 0777;
    struct view view = view_of(edit->out.data, edit->out.len);
    struct text_source source = {.read = out_read, .user = &view, .size = edit->out.len};
    r = text_file_write(call, edit->path, mode, &source, err);
    return r < 0 ? r : text_file_stat(call, edit->path, true, &edit->file, err);
}

/* ---- the answer ---- */

static int edit_near(struct edit *edit, struct err *err) {
    autobuf item;
    buf_init(&item, LIMIT_FRAME_PAYLOAD_BYTES);
    field_number(&item, FIELD_FILES, edit->text.count);
    field_number(&item, FIELD_STATE, edit->text.how);
    int r = text_item(edit->call, &item, err);
    for (size_t i = 0; i < edit->text.near_count && r == 0; i++) {
        buf_clear(&item);
        field_number(&item, FIELD_LINE, edit->text.near[i].line);
        field_bytes(&item, FIELD_TEXT, edit->text.near[i].text, edit->text.near[i].len);
        r = text_item(edit->call, &item, err);
    }
    return r;
}

static void edit_answer(struct edit *edit) {
    struct buf *end = &edit->call->end;
    text_file_fields(end, &edit->file);
    field_number(end, FIELD_FILES, edit->text.count);
    field_number(end, FIELD_LINE, edit->text.line);
    field_number(end, FIELD_LINES, edit->text.total);
    field_number(end, FIELD_CREATED, edit->created);
    field_bytes(end, FIELD_SHA256, edit->sha256, sizeof edit->sha256);
}

static int edit_turn(struct edit *edit, struct err *err) {
    const struct fields *args = &edit->call->args;
    int r = text_path(edit->call, FIELD_PATH, &edit->path, err);
    if (r == 0)
        r = text_input_all(edit->call, &edit->input, err);
    if (r == 0 && (args->number[FIELD_LENGTH] > edit->input.len ||
                   (args->has[FIELD_SIZE] && args->number[FIELD_SIZE] != edit->input.len)))
        return err_set(err, ERR_GONE, "the input for '%s' ended early", edit->path);
    if (r == 0 && edit->flags & CALL_REGEX)
        return err_set(err, ERR_UNSUPPORTED,
                       "regular expressions in an edit need a runner of ours: use a command, or `cubby join`");
    r = r < 0 ? r : 1;
    for (int i = 0; i < TRIES && r == 1; i++)
        r = edit_once(edit, err);
    if (r == 1)
        return err_set(err, ERR_BUSY, "'%s' changes all the time", edit->path);
    if (r < 0)
        return r;
    sha256(edit->out.data, edit->out.len, edit->sha256);
    author_note(edit);
    edit_answer(edit);
    return 0;
}

int text_op_edit(struct text_call *call, struct err *err) {
    struct machine_text *text = call->text;
    struct edit edit = {.call = call, .flags = call->args.number[FIELD_FLAGS]};
    buf_init(&edit.input, 2u * LIMIT_EDIT_BYTES);
    buf_init(&edit.old, LIMIT_EDIT_BYTES);
    buf_init(&edit.out, LIMIT_EDIT_BYTES);
    pthread_mutex_lock(&text->lock);
    while (text->editing && !text->dead && !call->cancelled)
        text_wait_locked(text, 0);
    bool turn = !text->editing;
    text->editing = true;
    pthread_mutex_unlock(&text->lock);
    int r = turn ? edit_turn(&edit, err) : text_cancelled(call, err);
    if (r < 0 && edit.text.judged) {
        struct err unheard;
        edit_near(&edit, &unheard);
    }
    pthread_mutex_lock(&text->lock);
    text->editing = turn ? false : text->editing;
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    edit_text_done(&edit.text);
    buf_done(&edit.input);
    buf_done(&edit.old);
    buf_done(&edit.out);
    return r;
}
