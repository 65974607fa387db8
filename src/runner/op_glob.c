/* Glob: names of a tree that match a pattern. In a worker. Not to break: only directories that can lead to a match are
 * opened, and what does not match costs no memory. */
#include <dirent.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "runner/op_file.h"
#include "runner/ops.h"
#include "runner/walk.h"

#pragma GCC optimize("O2")

struct search {
    struct worker *worker;
    struct glob glob;
    struct glob_names ignore;
    struct walk walk;
    struct shown shown;
    bool dirs; /* directories are results too */
    uint64_t limit, sent;
    bool truncated;
};

/* Drops what does not match as it is read, so that only matches are sorted. */
static bool glob_keep(struct walk *walk, const char *name, size_t len, uint8_t type, bool *descend) {
    const struct search *search = walk->user;
    (void)descend; /* the walk asks the pattern itself */
    if (type == DT_DIR ? !search->dirs : search->glob.dirs_only)
        return false;
    return glob_step(&search->glob, &walk->state, name, len, NULL);
}

/* 1: go on. 0: the limit is reached. */
static int glob_entry(void *user, const struct walk_entry *entry, struct err *err) {
    struct search *search = user;
    struct walk *walk = &search->walk;
    if (entry->type == DT_UNKNOWN)
        return 1;
    size_t len = shown_set(&search->shown, walk->path, walk->path_len, walk_name(walk, entry), entry->len);
    if (search->sent == search->limit || len == 0) {
        search->truncated = true;
        return search->sent < search->limit;
    }
    field_bytes(worker_item(search->worker), FIELD_PATH, search->shown.text, len);
    search->sent++;
    int r = worker_item_end(search->worker, err);
    return r < 0 ? r : 1;
}

static int glob_prepare(struct search *search, const struct fields *args, struct err *err) {
    search->limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_GLOB_LIMIT;
    if (search->limit > LIMIT_GLOB_LIMIT)
        return err_set(err, ERR_INVALID, "limit must be at most %u", LIMIT_GLOB_LIMIT);
    if (!args->has[FIELD_PATTERN] || args->len[FIELD_PATTERN] > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    const char *why = glob_compile(&search->glob, args->text[FIELD_PATTERN], args->len[FIELD_PATTERN]);
    if (why)
        return err_set(err, ERR_INVALID, "pattern '%s': %s", args->text[FIELD_PATTERN], why);
    search->dirs = (args->number[FIELD_FLAGS] & CALL_DIRS) || search->glob.dirs_only;
    return 0;
}

static int glob_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct search search;
    static struct fields at;
    search.worker = worker;
    uint64_t timeout_ms = args->has[FIELD_TIMEOUT_MS] ? args->number[FIELD_TIMEOUT_MS] : DEFAULT_WALK_TIMEOUT_MS;
    uint64_t deadline_ms = clock_ms() + (timeout_ms < LIMIT_EXEC_TIMEOUT_MS ? timeout_ms : LIMIT_EXEC_TIMEOUT_MS);
    int r = glob_prepare(&search, args, err);
    if (r < 0)
        return r;
    at = *args;
    if (args->text[FIELD_PATTERN][0] == '/') { /* an absolute pattern says where by itself */
        at.has[FIELD_PATH] = true;
        at.text[FIELD_PATH] = "/";
        at.len[FIELD_PATH] = 1;
    }
    autofd fd = -1;
    r = op_open_dir(worker->config, &at, &fd, err);
    if (r < 0)
        return r;
    walk_init(&search.walk, fd);
    search.walk.glob = &search.glob;
    search.walk.keep = glob_keep;
    search.walk.user = &search;
    search.walk.keep_max = (size_t)search.limit + 1;
    search.walk.deadline_ms = deadline_ms;
    shown_init(&search.shown, at.has[FIELD_PATH] ? at.text[FIELD_PATH] : worker->config->workspace);
    r = op_ignore(args, &search.ignore, &search.walk, err);
    if (r == 0)
        r = walk_each(&search.walk, glob_entry, &search, err);
    bool timed_out = search.walk.timed_out;
    bool truncated = search.truncated || search.walk.too_long || search.walk.dropped || timed_out;
    walk_done(&search.walk);
    glob_done(&search.glob);
    if (r < 0)
        return r;
    autobuf out;
    buf_init(&out, 64);
    field_number(&out, FIELD_TRUNCATED, truncated);
    field_number(&out, FIELD_TIMED_OUT, timed_out);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_glob = {.op = OP_GLOB, .work = glob_work};
