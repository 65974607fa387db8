/* The verb diff: what a box's files have that its template has not. Called by the doors. Invariant: records are decoded
 * one at a time into memory of fixed size, and a runner that sends more than was asked for is broken.
 *
 * In a container the runner cannot know: there the engine is asked, which tells names alone and nothing of the workspace that
 * is mounted into it; the rest is looked at through the box, where it is one's own. */
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

/* ---- told by an engine ---- */

struct told {
    struct box *box;
    struct diff *diff;
    bool workspace; /* some of it was told, so all of it is */
};

static bool below(const char *path, const char *dir) {
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len]);
}

static int told_change(void *user, const struct file_change *change) {
    struct told *told = user;
    struct file_change whole = *change;
    struct file_stat stat;
    struct err ignored;
    autoarena arena = ARENA_EMPTY;
    told->workspace |= below(change->path, box_workspace(told->box));
    if (change->event != WATCH_REMOVED && change->type == FILE_OTHER &&
        box_stat(told->box, change->path, &arena, &stat, &ignored) == 0) {
        whole.type = stat.type;
        whole.size = stat.type == FILE_DIR ? 0 : stat.size;
    }
    told->diff->left--;
    return told->diff->each(told->diff->user, &whole);
}

static int told_file(void *user, const struct file_stat *stat) {
    struct told *told = user;
    struct file_change change = {.path = stat->path,
                                 .event = WATCH_CREATED,
                                 .type = stat->type,
                                 .size = stat->type == FILE_DIR ? 0 : stat->size};
    told->diff->left--;
    return told->diff->each(told->diff->user, &change);
}

static bool own_workspace(const struct box *box) {
    for (size_t i = 0; i < box->spec.mount_count; i++)
        if (strcmp(box->spec.mounts[i].target, box_workspace(box)) == 0)
            return false;
    return true;
}

static int diff_told(struct box *box, struct diff *diff, int watch, bool *ret_truncated, struct err *err) {
    struct told told = {.box = box, .diff = diff};
    bool truncated = false;
    int r = box->ops->diff(box->backend, &box->spec, diff->left, told_change, &told, &truncated, err);
    if (r == 0 && !truncated && !told.workspace && own_workspace(box)) {
        struct list_request list = {.path = box_workspace(box), .depth = LIMIT_LIST_DEPTH, .limit = diff->left};
        if (diff->left)
            r = box_list(box, &list, watch, told_file, &told, &truncated, err);
        else
            truncated = true;
    }
    if (r == 0)
        *ret_truncated = truncated;
    return r;
}

int box_diff(struct box *box, uint64_t limit, int watch, int (*each)(void *user, const struct file_change *change),
             void *user, bool *ret_truncated, struct err *err) {
    static const struct verb_sink sink = {.item = diff_item};
    struct diff diff = {.each = each, .user = user, .left = limit};
    if (box->ops->diff)
        return diff_told(box, &diff, watch, ret_truncated, err);
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
