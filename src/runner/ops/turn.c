/* Turns. Called by worker.c, on the loop. Invariant: nothing here decides the content, only which call waits and which
 * wrote last. If the box moves its directories at the same time, the exchange of names still keeps edits safe. */
#include "base/base.h"
#include "runner/ops/turn.h"
#include "runner/ops/op_file.h"
#include "runner/ops/replace.h"
#include "runner/runner.h"

enum { VERSIONS = 256 };

struct turn_table {
    struct turn_version versions[VERSIONS];
};

void turn_of(const struct runner_config *config, const struct fields *args, struct turn *ret_turn) {
    struct place at;
    struct err err;
    struct stat status;
    struct replace replace = {.dirfd = -1, .fd = -1};
    *ret_turn = (struct turn){.author = args->number[FIELD_AUTHOR]};
    int r = op_path(config, args, FIELD_PATH, PATH_WRITE, &at, &err);
    if (r == 0 && (args->number[FIELD_FLAGS] & CALL_PARENTS) && !args->has[FIELD_UID]) /* else the worker makes them */
        r = replace_mkdirs(&at, at.path, 0755, true, NULL, &err);
    if (r >= 0)
        r = replace_resolve(&replace, &at, at.path, &err);
    if (r == 0 && fstat(replace.dirfd, &status) == 0) {
        *ret_turn = (struct turn){.keyed = true,
                                  .device = status.st_dev,
                                  .directory = status.st_ino,
                                  .name = 14695981039346656037ull, /* FNV-1a; a collision only causes a needless wait */
                                  .author = args->number[FIELD_AUTHOR]};
        for (const char *c = replace.name; *c; c++)
            ret_turn->name = (ret_turn->name ^ (uint8_t)*c) * 1099511628211ull;
    }
    replace_done(&replace);
}

bool turn_same(const struct turn *a, const struct turn *b) {
    return a->keyed && b->keyed && a->device == b->device && a->directory == b->directory && a->name == b->name;
}

static size_t turn_slot(const struct turn *turn) {
    return (size_t)((turn->name ^ turn->directory * 1099511628211ull) % VERSIONS);
}

void turn_wrote(struct turn_table **table, const struct turn *turn, const uint8_t *end, size_t len) {
    struct view view = view_of(end, len);
    struct field field;
    struct err err;
    if (!*table)
        *table = xcalloc(1, sizeof **table);
    struct turn_version version = {.turn = *turn};
    while (field_next(&view, &field, &err) > 0)
        switch (field.id) {
        case FIELD_INODE:
            version.inode = field.number;
            break;
        case FIELD_SIZE:
            version.size = field.number;
            break;
        case FIELD_MTIME_NS:
            version.mtime_ns = field.number;
            break;
        case FIELD_SHA256:
            version.hashed = field.len == sizeof version.sha256;
            if (version.hashed)
                memcpy(version.sha256, field.data, sizeof version.sha256);
            break;
        default:
            break;
        }
    (*table)->versions[turn_slot(turn)] = version;
}

const struct turn_version *turn_last(const struct turn_table *table, const struct turn *turn) {
    const struct turn_version *version = table ? &table->versions[turn_slot(turn)] : NULL;
    return version && turn_same(&version->turn, turn) ? version : NULL;
}
