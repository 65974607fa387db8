/* Glob: names of a tree that match a pattern. In a worker. Invariant: only directories that can lead to a match are
 * opened, and names that do not match need no memory.
 *
 * Unsorted, matches are sent as they are found. Sorted, all are compared and the best `limit` of them are kept, in a
 * heap with the worst on top, within a number of bytes. */

#include "base/base.h"
#include "runner/ops/op_file.h"
#include "runner/search/walk.h"

#pragma GCC optimize("O2")

enum { KEPT_BYTES = 64 << 20 };

struct found { /* a kept match */
    struct stat status;
    size_t len;
    const char *name; /* in path */
    char path[];
};

struct search {
    struct worker *worker;
    struct glob glob, exclude;
    struct glob_names ignore;
    struct walk walk;
    struct shown shown;
    bool dirs; /* directories are results too */
    uint64_t limit, sent;
    bool truncated;
    /* sorted */
    enum search_sort sort; /* 0: unsorted */
    bool descending;
    struct found **heap;
    size_t count, room, bytes;
    uint64_t matched;
};

/* Drops names that do not match while reading, so that only matches are sorted. */
static bool glob_keep(struct walk *walk, const char *name, size_t len, uint8_t type, bool *descend) {
    const struct search *search = walk->user;
    (void)descend; /* the traversal uses the pattern itself */
    if (type == DT_DIR ? !search->dirs : search->glob.dirs_only)
        return false;
    return glob_step(&search->glob, &walk->states[WALK_ONLY], name, len, NULL);
}

/* Returns 1 to continue, 0 if the limit is reached. */
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

/* ---- sorted ---- */

static int64_t glob_found_key(const struct search *search, const struct found *found) {
    if (search->sort == SORT_SIZE)
        return found->status.st_size;
    return (int64_t)((uint64_t)found->status.st_mtim.tv_sec * 1000000000u + (uint64_t)found->status.st_mtim.tv_nsec);
}

/* Returns negative if a comes first. */
static int glob_found_compare(const struct search *search, const struct found *a, const struct found *b) {
    int order = 0;
    if (search->sort == SORT_NAME) {
        order = strcmp(a->name, b->name);
    } else if (search->sort != SORT_PATH) {
        int64_t x = glob_found_key(search, a), y = glob_found_key(search, b);
        order = (x > y) - (x < y);
    }
    if (order == 0)
        order = strcmp(a->path, b->path);
    return search->descending ? -order : order;
}

static void glob_heap_down(struct search *search, size_t at, size_t count) {
    struct found **heap = search->heap, *moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && glob_found_compare(search, heap[child + 1], heap[child]) > 0)
            child++;
        if (glob_found_compare(search, heap[child], moving) <= 0)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static int glob_sorted_entry(void *user, const struct walk_entry *entry, struct err *) {
    struct search *search = user;
    struct walk *walk = &search->walk;
    const char *name = walk_name(walk, entry);
    struct stat status;
    if (entry->type == DT_UNKNOWN || fstatat(walk->dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 1;
    size_t len = shown_set(&search->shown, walk->path, walk->path_len, name, entry->len);
    if (len == 0) {
        search->truncated = true;
        return 1;
    }
    struct found *found = xmalloc(sizeof *found + len + 1);
    found->status = status;
    found->len = len;
    memcpy(found->path, search->shown.text, len + 1);
    found->name = found->path + len - entry->len;
    search->matched++;
    search->heap = vec_room(search->heap, &search->room, search->count + 1, sizeof *search->heap);
    size_t at = search->count++;
    for (; at > 0 && glob_found_compare(search, found, search->heap[(at - 1) / 2]) > 0; at = (at - 1) / 2)
        search->heap[at] = search->heap[(at - 1) / 2];
    search->heap[at] = found;
    search->bytes += sizeof *found + found->len + 1;
    while (search->count > search->limit || search->bytes > KEPT_BYTES) {
        struct found *worst = search->heap[0];
        search->bytes -= sizeof *worst + worst->len + 1;
        free(worst);
        search->heap[0] = search->heap[--search->count];
        if (search->count)
            glob_heap_down(search, 0, search->count);
        search->truncated = true;
    }
    return 1;
}

/* Sorts the heap in place and sends it. */
static int glob_sorted_send(struct search *search, struct err *err) {
    int r = 0;
    for (size_t left = search->count; left > 1; left--) {
        struct found *worst = search->heap[0];
        search->heap[0] = search->heap[left - 1];
        search->heap[left - 1] = worst;
        glob_heap_down(search, 0, left - 1);
    }
    for (size_t i = 0; i < search->count && r >= 0; i++) {
        const struct found *found = search->heap[i];
        struct buf *item = worker_item(search->worker);
        field_bytes(item, FIELD_PATH, found->path, found->len);
        runner_put_file(item, -1, "", &found->status);
        r = worker_item_end(search->worker, err);
    }
    return r < 0 ? r : 0;
}

/* ---- the call ---- */

static int glob_prepare(struct search *search, const struct fields *args, struct err *err) {
    search->limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_GLOB_LIMIT;
    if (search->limit > LIMIT_GLOB_LIMIT)
        return err_set(err, ERR_INVALID, "limit must be at most %u", LIMIT_GLOB_LIMIT);
    if (!args->has[FIELD_PATTERN] || args->len[FIELD_PATTERN] > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    if (args->number[FIELD_SORT] > SORT_MODIFIED)
        return err_set(err, ERR_INVALID, "unknown sort order %llu", (unsigned long long)args->number[FIELD_SORT]);
    const char *why = glob_compile(&search->glob, args->text[FIELD_PATTERN], args->len[FIELD_PATTERN]);
    if (why)
        return err_set(err, ERR_INVALID, "pattern '%s': %s", args->text[FIELD_PATTERN], why);
    search->glob.visible = args->number[FIELD_FLAGS] & CALL_VISIBLE;
    search->dirs = (args->number[FIELD_FLAGS] & CALL_DIRS) || search->glob.dirs_only;
    search->sort = (enum search_sort)args->number[FIELD_SORT];
    search->descending = args->number[FIELD_FLAGS] & CALL_DESCENDING;
    return 0;
}

static int glob_open(struct search *search, const struct fields *args, int *ret_fd, struct err *err) {
    static struct fields at;
    at = *args;
    if (args->text[FIELD_PATTERN][0] == '/') { /* an absolute pattern contains its directory */
        at.has[FIELD_PATH] = true;
        at.text[FIELD_PATH] = "/";
        at.len[FIELD_PATH] = 1;
    }
    TRY(op_open_dir(search->worker->config, &at, ret_fd, err));
    walk_init(&search->walk, *ret_fd);
    shown_init(&search->shown, at.has[FIELD_PATH] ? at.text[FIELD_PATH] : search->worker->config->workspace);
    return 0;
}

static int glob_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct search search;
    search.worker = worker;
    uint64_t timeout_ms = args->has[FIELD_TIMEOUT_MS] ? args->number[FIELD_TIMEOUT_MS] : DEFAULT_WALK_TIMEOUT_MS;
    uint64_t deadline_ms = timer_after(timeout_ms);
    autofd fd = -1;
    TRY(glob_prepare(&search, args, err) ?: glob_open(&search, args, &fd, err));
    search.walk.globs[WALK_ONLY] = &search.glob;
    search.walk.keep = glob_keep;
    search.walk.user = &search;
    search.walk.keep_max = search.sort ? 0 : (size_t)search.limit + 1;
    search.walk.sorted = !search.sort;
    search.walk.deadline_ms = deadline_ms;
    TRY(op_ignore(args, &search.ignore, &search.walk, err));
    TRY(op_globs(args->exclude, args->exclude_count, "exclude", &search.exclude, &search.walk.globs[WALK_EXCEPT], err));
    int r = walk_each(&search.walk, search.sort ? glob_sorted_entry : glob_entry, &search, err);
    if (r >= 0 && search.sort)
        r = glob_sorted_send(&search, err);
    TRY(r);
    bool timed_out = search.walk.timed_out;
    autobuf out = buf_max(64);
    field_number(&out, FIELD_TRUNCATED, search.truncated || search.walk.too_long || search.walk.dropped || timed_out);
    field_number(&out, FIELD_TIMED_OUT, timed_out);
    if (search.sort)
        field_number(&out, FIELD_FILES, search.matched);
    worker_end(search.worker, &out);
    return 0;
}

const struct op_def op_glob = {.op = OP_GLOB, .looks = true, .work = glob_work};
