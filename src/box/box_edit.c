/* The verb of editing. Called by the doors and tools. Invariant: what is told with a failure is bounded, it comes from a
 * box. */
#include <string.h>

#include "base/limits.h"
#include "box/file.h"

enum { NEAR_MAX = 16 };

static const uint64_t kind_flags[] = {[EDIT_STRING] = 0,
                                      [EDIT_LINES] = CALL_LINES,
                                      [EDIT_REGEX] = CALL_REGEX,
                                      [EDIT_WHOLE] = CALL_OVERWRITE,
                                      [EDIT_APPEND] = CALL_APPEND};

struct edit_call {
    const char *part[2];
    size_t left[2];
    struct arena *arena;
    struct edit_result *result;
};

static ssize_t edit_read(void *user, void *data, size_t size, struct err *err) {
    (void)err;
    struct edit_call *call = user;
    int i = call->left[0] ? 0 : 1;
    size_t n = call->left[i] < size ? call->left[i] : size;
    if (n)
        memcpy(data, call->part[i], n);
    call->part[i] += n;
    call->left[i] -= n;
    return (ssize_t)n;
}

static int edit_item(void *user, struct view fields, struct err *err) {
    struct edit_call *call = user;
    struct edit_result *result = call->result;
    struct edit_line line = {0};
    struct field field;
    int r;
    while ((r = field_next(&fields, &field, err)) > 0) {
        if (field.id == FIELD_FILES)
            result->count = field.number;
        else if (field.id == FIELD_STATE)
            result->how = field.number == EDIT_NEAR_SPACES    ? EDIT_NEAR_SPACES
                          : field.number == EDIT_NEAR_OUTSIDE ? EDIT_NEAR_OUTSIDE
                                                              : EDIT_NEAR_ALIKE;
        else if (field.id == FIELD_LINE)
            line.line = field.number;
        else if (field.id == FIELD_TEXT)
            line.text = arena_copy(call->arena, field.data, field.len), line.len = field.len;
    }
    if (r < 0)
        return r;
    result->judged = true;
    if (!result->near)
        result->near = arena_alloc(call->arena, NEAR_MAX * sizeof *result->near);
    if (line.line && line.text && result->near_count < NEAR_MAX)
        result->near[result->near_count++] = line;
    return 0;
}

static int edit_args(const struct box *box, const struct edit_request *request, struct buf *args, struct err *err) {
    int r = verb_path(args, FIELD_PATH, request->path, err);
    if (r < 0)
        return r;
    uint64_t flags = kind_flags[request->kind] | (request->all ? CALL_ALL : 0) | (request->text ? CALL_TEXT : 0) |
                     (request->parents ? CALL_PARENTS : 0) | (request->create ? CALL_CREATE : 0) |
                     (request->root ? CALL_ROOT : 0);
    if (request->root && (r = verb_root(box, err)) < 0)
        return r;
    bool plain = request->kind == EDIT_STRING && !request->text && !request->first && !request->last &&
                 !request->if_match && !request->author;
    if (!plain && !(wire_features(box->wire) & FEATURE_EDIT))
        return err_set(err, ERR_UNSUPPORTED,
                       "this box was started by an older cubby, whose runner cannot do that: restart the box");
    if (request->old_len == 0 && (request->kind == EDIT_STRING || request->kind == EDIT_REGEX))
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    field_number(args, FIELD_LENGTH, request->old_len);
    field_number(args, FIELD_SIZE, request->old_len + request->new_len);
    field_number(args, FIELD_FLAGS, flags);
    if (request->first)
        field_number(args, FIELD_FIRST, request->first);
    if (request->last)
        field_number(args, FIELD_LAST, request->last);
    if (request->if_match)
        field_text(args, FIELD_IF_MATCH, request->if_match);
    if (request->sha256)
        field_bytes(args, FIELD_SHA256, request->sha256, 32);
    if (request->author)
        field_number(args, FIELD_AUTHOR, request->author);
    return 0;
}

int box_edit(struct box *box, const struct edit_request *request, struct arena *arena, int watch,
             struct edit_result *ret_result, struct err *err) {
    static const struct verb_sink sink = {.item = edit_item};
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    *ret_result = (struct edit_result){0};
    int r = edit_args(box, request, &args, err);
    if (r < 0)
        return r;
    struct edit_call call = {
        {request->old, request->new_text}, {request->old_len, request->new_len}, arena, ret_result};
    struct verb verb = {.op = OP_EDIT,
                        .args = &args,
                        .watch = watch,
                        .sink = &sink,
                        .user = &call,
                        .read_fn = edit_read,
                        .read_user = &call};
    struct fields end;
    r = verb_run(box, &verb, arena, &end, err);
    if (r < 0)
        return r;
    file_from_fields(&end, &ret_result->stat);
    ret_result->count = end.number[FIELD_FILES];
    ret_result->line = end.number[FIELD_LINE];
    ret_result->lines = end.number[FIELD_LINES];
    ret_result->created = end.number[FIELD_CREATED];
    ret_result->hashed = end.len[FIELD_SHA256] == sizeof ret_result->sha256;
    if (ret_result->hashed)
        memcpy(ret_result->sha256, end.text[FIELD_SHA256], sizeof ret_result->sha256);
    return 0;
}
