/* The verb diff: what a box's files have that its template has not. Called by the doors. Not to break: records are decoded
 * one at a time into memory of fixed size, and a runner that sends more than was asked for is broken. */
#include <string.h>

#include "base/limits.h"
#include "box/verb.h"

struct diff {
    int (*each)(void *user, const struct file_change *change);
    void *user;
    uint64_t left;
    char path[LIMIT_PATH_BYTES + 1];
};

static int diff_item(void *user, struct view view, struct err *err) {
    struct diff *diff = user;
    struct file_change change = {.type = FILE_OTHER};
    struct field field;
    int next;
    if (diff->left-- == 0)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for");
    while ((next = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_EVENT)
            change.event = (enum watch_event)field.number;
        else if (field.id == FIELD_TYPE)
            change.type = (enum file_type)field.number;
        else if (field.id == FIELD_SIZE)
            change.size = field.number;
        else if (field.id == FIELD_PATH && field.len < sizeof diff->path) {
            memcpy(diff->path, field.data, field.len);
            diff->path[field.len] = 0;
            change.path = diff->path;
        }
    }
    if (next < 0)
        return next;
    if (!change.path || change.event < WATCH_CREATED || change.event > WATCH_REMOVED)
        return err_set(err, ERR_PROTOCOL, "the runner told of a change without its name or kind");
    return diff->each(diff->user, &change);
}

int box_diff(struct box *box, uint64_t limit, int watch, int (*each)(void *user, const struct file_change *change),
             void *user, bool *ret_truncated, struct err *err) {
    static const struct verb_sink sink = {.item = diff_item};
    struct diff diff = {.each = each, .user = user, .left = limit};
    autobuf args;
    autoarena arena;
    struct fields end;
    buf_init(&args, 64);
    arena_init(&arena);
    field_number(&args, FIELD_LIMIT, limit);
    struct verb verb = {.op = OP_DIFF, .args = &args, .watch = watch, .sink = &sink, .user = &diff};
    int r = verb_run(box, &verb, &arena, &end, err);
    if (r == 0)
        *ret_truncated = end.number[FIELD_TRUNCATED];
    return r == -ERR_PROTOCOL ? verb_broken(box, err) : r;
}
