/* Grep: lines of a tree that match a pattern, in a worker. Called through the table of ops.
 *
 * 1. Threads take batches of files from one traversal, under the lock, each with the next number.
 * 2. Results are sent in the order of these numbers, so they are the same every time: a finished batch waits in the
 *    ring until those before it are sent. Only the holder of the lock sends.
 * 3. The main thread waits for them or for the deadline. At the deadline it answers with the results so far and the
 *    process ends, even if a regex still runs in a thread. */

#include "base/base.h"
#include "base/sync.h"
#include "runner/search/grep_scan.h"
#include "runner/ops/op_file.h"
#include "runner/search/walk.h"

#pragma GCC optimize("O2")

enum {
    BATCH_FILES = 64,
    RING = 64,              /* batches done but not sent */
    HELD_BYTES = 256 << 10, /* results held of a batch; with more it waits for its turn */
    RECORD_BYTES = LIMIT_FRAME_PAYLOAD_BYTES,
    THREADS_MAX = 4,
    STACK_BYTES = 256 << 10,
};

struct batch {
    uint64_t number;
    size_t count;
    char dir[LIMIT_PATH_BYTES + 2];
    size_t dir_len;
    char names[BATCH_FILES][LIMIT_NAME_BYTES + 1];
};

struct grep {
    struct worker *worker;
    struct pattern pattern;
    struct glob glob, include, exclude;
    struct glob_names ignore;
    const struct glob *use[WALK_GLOBS]; /* those of these that were given */
    unsigned before, after;
    uint64_t limit, offset, max_bytes, deadline_ms;
    const char *path; /* of the client */
    int file_fd;      /* the path is a file; else -1 */
    int dir_fd;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct walk walk;
    size_t walk_at; /* next entry of the walk's directory */
    uint64_t next_number, sent_number, sent, skipped;
    struct buf ring[RING];
    bool ring_full[RING];
    unsigned active;
    bool ended, truncated, timed_out;
    struct err err;
    /* --- */
    atomic_bool stop, left_out;
    atomic_ullong files, gave_up;
};

struct searcher { /* one thread */
    struct grep *grep;
    struct scanner scanner;
    struct batch batch;
    struct shown shown;
    size_t shown_len;
    bool searching; /* under the lock: the batch is not sent yet */
    struct buf out; /* records: u32 length, fields; changed under the lock */
    uint64_t hits;  /* of this batch */
};

/* ---- files to search, under the lock ---- */

static bool grep_keep_file(struct walk *walk, const char *name, size_t len, uint8_t type, bool *) {
    if (type != DT_REG)
        return false;
    for (size_t i = WALK_ONLY; i <= WALK_ALSO; i++)
        if (walk->globs[i] && !glob_step(walk->globs[i], &walk->states[i], name, len, NULL))
            return false;
    return true;
}

/* Advances the traversal to the next file. Returns false if there is none. */
static bool grep_walk_to_file(struct grep *grep) {
    for (;;) {
        while (grep->walk_at < grep->walk.count && grep->walk.entries[grep->walk_at].type != DT_REG)
            grep->walk_at++;
        if (grep->walk_at < grep->walk.count)
            return true;
        grep->walk_at = 0;
        bool more = !atomic_load(&grep->stop) && walk_next(&grep->walk) > 0;
        fd_close(&grep->walk.dirfd); /* closed here: the next thread may have another table of descriptors */
        if (!more) {
            grep->walk.count = 0;
            return false;
        }
    }
}

static bool grep_take_batch(struct grep *grep, struct batch *batch) {
    if (clock_ms() >= grep->deadline_ms && !grep->ended) {
        grep->timed_out = true;
        atomic_store(&grep->stop, true);
    }
    if (atomic_load(&grep->stop) || grep->ended)
        return false;
    if (grep->file_fd >= 0) {
        grep->ended = true;
    } else if (!grep_walk_to_file(grep)) {
        grep->ended = true;
        return false;
    }
    batch->number = grep->next_number++;
    batch->count = 0;
    batch->dir_len = grep->walk.path_len;
    memcpy(batch->dir, grep->walk.path, grep->walk.path_len + 1);
    for (; grep->walk_at < grep->walk.count && batch->count < BATCH_FILES; grep->walk_at++) {
        const struct walk_entry *entry = &grep->walk.entries[grep->walk_at];
        if (entry->type == DT_REG && entry->len <= LIMIT_NAME_BYTES)
            memcpy(batch->names[batch->count++], walk_name(&grep->walk, entry), entry->len + 1u);
    }
    return true;
}

/* ---- results, under the lock ---- */

static void grep_send_records(struct grep *grep, const struct buf *records) {
    struct view view = view_of(records->data, records->len), fields;
    struct err err;
    while (!atomic_load(&grep->stop) && item_next(&view, &fields, &err) > 0) {
        if (grep->skipped < grep->offset) {
            grep->skipped++;
            continue;
        }
        if (grep->sent == grep->limit) {
            grep->truncated = true;
            atomic_store(&grep->stop, true);
            return;
        }
        buf_put(worker_item(grep->worker), fields.data, fields.len);
        if (worker_item_end(grep->worker, &err) < 0) {
            if (!grep->err.code)
                grep->err = err;
            atomic_store(&grep->stop, true);
            return;
        }
        grep->sent++;
    }
}

static void grep_send_batch(struct grep *grep, struct searcher *searcher) {
    uint64_t number = searcher->batch.number;
    while (number - grep->sent_number >= RING && !atomic_load(&grep->stop))
        pthread_cond_wait(&grep->changed, &grep->lock);
    if (atomic_load(&grep->stop))
        return;
    size_t slot = number % RING;
    struct buf swap = grep->ring[slot]; /* reuses the slot's old memory */
    grep->ring[slot] = searcher->out;
    grep->ring_full[slot] = true;
    searcher->out = swap;
    buf_clear(&searcher->out);
    if (number != grep->sent_number)
        return;
    while (grep->ring_full[grep->sent_number % RING]) {
        size_t next = grep->sent_number % RING;
        grep_send_records(grep, &grep->ring[next]);
        grep->ring_full[next] = false;
        grep->sent_number++;
    }
    pthread_cond_broadcast(&grep->changed);
}

/* Sends many results of one batch while it is still searched, when all earlier batches were sent. */
static void grep_wait_turn_and_send(struct searcher *searcher) {
    struct grep *grep = searcher->grep;
    pthread_mutex_lock(&grep->lock);
    while (grep->sent_number != searcher->batch.number && !atomic_load(&grep->stop))
        pthread_cond_wait(&grep->changed, &grep->lock);
    grep_send_records(grep, &searcher->out);
    buf_clear(&searcher->out);
    pthread_cond_broadcast(&grep->changed);
    pthread_mutex_unlock(&grep->lock);
}

/* ---- a thread ---- */

static bool grep_on_hit(void *user, const struct grep_hit *hit) {
    struct searcher *searcher = user;
    struct buf *out = &searcher->out;
    if (atomic_load(&searcher->grep->stop) || searcher->hits > searcher->grep->limit + searcher->grep->offset)
        return false;
    if (out->len > HELD_BYTES)
        grep_wait_turn_and_send(searcher);
    pthread_mutex_lock(&searcher->grep->lock); /* at the deadline the main thread takes complete records from here */
    size_t begin = item_begin(out);
    field_bytes(out, FIELD_PATH, searcher->shown.text, searcher->shown_len);
    field_number(out, FIELD_LINE, hit->line);
    field_bytes(out, FIELD_TEXT, hit->text, hit->text_len);
    if (hit->before)
        field_bytes(out, FIELD_BEFORE, hit->before, hit->before_len);
    if (hit->after)
        field_bytes(out, FIELD_AFTER, hit->after, hit->after_len);
    item_end(out, begin);
    pthread_mutex_unlock(&searcher->grep->lock);
    searcher->hits++;
    return true;
}

static void grep_search_file(struct searcher *searcher, int dirfd, const char *name) {
    struct grep *grep = searcher->grep;
    struct batch *batch = &searcher->batch;
    searcher->shown_len = shown_set(&searcher->shown, batch->dir, batch->dir_len, name, strlen(name));
    if (searcher->shown_len == 0)
        return;
    autofd fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && scanner_file(&searcher->scanner, fd))
        atomic_fetch_add_explicit(&grep->files, 1, memory_order_relaxed);
}

static void grep_search_batch(struct searcher *searcher) {
    struct grep *grep = searcher->grep;
    struct batch *batch = &searcher->batch;
    searcher->hits = 0;
    if (grep->file_fd >= 0) {
        searcher->shown_len = strlen(grep->path);
        memcpy(searcher->shown.text, grep->path, searcher->shown_len);
        if (scanner_file(&searcher->scanner, grep->file_fd))
            atomic_fetch_add(&grep->files, 1);
        return;
    }
    autofd dirfd = path_below(grep->dir_fd, batch->dir_len ? batch->dir : ".", O_PATH | O_DIRECTORY, false);
    for (size_t i = 0; dirfd >= 0 && i < batch->count && !atomic_load(&grep->stop); i++)
        grep_search_file(searcher, dirfd, batch->names[i]);
}

static void grep_searcher_run(struct searcher *searcher) {
    struct grep *grep = searcher->grep;
    buf_init(&searcher->out, HELD_BYTES + 2 * RECORD_BYTES);
    shown_init(&searcher->shown, grep->path);
    scanner_init(&searcher->scanner, &grep->pattern);
    searcher->scanner.before = grep->before;
    searcher->scanner.after = grep->after;
    searcher->scanner.max_bytes = grep->max_bytes;
    searcher->scanner.left_out = &grep->left_out;
    searcher->scanner.stop = &grep->stop;
    searcher->scanner.gave_up = &grep->gave_up;
    searcher->scanner.hit = grep_on_hit;
    searcher->scanner.user = searcher;
    pthread_mutex_lock(&grep->lock);
    while (grep_take_batch(grep, &searcher->batch)) {
        searcher->searching = true;
        pthread_mutex_unlock(&grep->lock);
        grep_search_batch(searcher);
        pthread_mutex_lock(&grep->lock);
        grep_send_batch(grep, searcher);
        searcher->searching = false;
    }
    grep->active--;
    pthread_cond_broadcast(&grep->changed);
    pthread_mutex_unlock(&grep->lock);
    scanner_done(&searcher->scanner);
    buf_done(&searcher->out);
}

static void *grep_searcher_main(void *user) {
    /* Its own table of descriptors: open and close then need no lock shared with other threads. */
    (void)!unshare(CLONE_FILES);
    grep_searcher_run(user);
    return NULL;
}

/* ---- the call ---- */

static uint64_t grep_number_or(const struct fields *args, enum field_id id, uint64_t otherwise) {
    return args->has[id] ? args->number[id] : otherwise;
}

static int grep_bounds(struct grep *grep, const struct fields *args, struct err *err) {
    uint64_t timeout_ms = grep_number_or(args, FIELD_TIMEOUT_MS, DEFAULT_GREP_TIMEOUT_MS);
    uint64_t before = args->number[FIELD_CONTEXT], after = grep_number_or(args, FIELD_CONTEXT_AFTER, before);
    grep->deadline_ms = timer_after(timeout_ms);
    grep->limit = grep_number_or(args, FIELD_LIMIT, DEFAULT_GREP_LIMIT);
    grep->offset = args->number[FIELD_OFFSET];
    if (grep->limit > LIMIT_GREP_LIMIT || before > LIMIT_GREP_CONTEXT || after > LIMIT_GREP_CONTEXT)
        return err_set(err, ERR_INVALID, "at most %u results and %u lines of context are possible", LIMIT_GREP_LIMIT,
                       LIMIT_GREP_CONTEXT);
    if (grep->offset > INT64_MAX)
        return err_set(err, ERR_INVALID, "the offset must be at most %lld", (long long)INT64_MAX);
    grep->before = (unsigned)before;
    grep->after = (unsigned)after;
    grep->max_bytes = args->number[FIELD_SIZE];
    return 0;
}

static int grep_compile(struct grep *grep, const struct fields *args, struct err *err) {
    uint64_t flags = args->number[FIELD_FLAGS];
    const char *const only[] = {args->text[FIELD_GLOB]};
    TRY(grep_bounds(grep, args, err));
    TRY(op_globs(only, args->has[FIELD_GLOB] && *only[0], "glob", &grep->glob, &grep->use[WALK_ONLY], err));
    TRY(op_globs(args->include, args->include_count, "include", &grep->include, &grep->use[WALK_ALSO], err));
    TRY(op_globs(args->exclude, args->exclude_count, "exclude", &grep->exclude, &grep->use[WALK_EXCEPT], err));
    if (!args->has[FIELD_PATTERN])
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern is missing");
    return pattern_compile(&grep->pattern, args->text[FIELD_PATTERN], args->len[FIELD_PATTERN],
                           (flags & CALL_LITERAL ? PATTERN_LITERAL : 0) |
                               (flags & CALL_IGNORE_CASE ? PATTERN_IGNORE_CASE : 0) |
                               (flags & CALL_MULTILINE ? PATTERN_MULTILINE : 0),
                           err);
}

/* Patterns about directories do not apply to a file that was named itself. */
static bool grep_about_names(const char *const *patterns, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strchr(patterns[i], '/'))
            return false;
    return count > 0;
}

/* Opens the path: a directory to traverse, or one file. */
static int grep_open(struct grep *grep, const struct fields *args, struct err *err) {
    const struct runner_config *config = grep->worker->config;
    struct place at;
    grep->path = args->has[FIELD_PATH] ? args->text[FIELD_PATH] : config->workspace;
    grep->file_fd = grep->dir_fd = -1;
    TRY(op_path_or_workspace(config, args, &at, err));
    grep->dir_fd = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
    if (grep->dir_fd == -ENOTDIR) {
        /* The path is one file. Globs for base names apply to it too. */
        const char *slash = strrchr(at.path, '/'), *name = slash ? slash + 1 : at.path;
        const char *const only[] = {args->text[FIELD_GLOB]};
        bool wanted = true;
        if (grep->use[WALK_ONLY] && grep_about_names(only, 1))
            wanted = glob_match(&grep->glob, name);
        if (wanted && grep_about_names(args->include, args->include_count))
            wanted = glob_match(&grep->include, name);
        if (wanted && grep_about_names(args->exclude, args->exclude_count))
            wanted = !glob_match(&grep->exclude, name);
        grep->ended = !wanted;
        return wanted ? path_open_file(at.root, at.above, at.path, O_RDONLY, 0, &grep->file_fd, err) : 0;
    }
    if (grep->dir_fd < 0)
        return err_errno(err, -grep->dir_fd, "'%s'", grep->path);
    walk_init(&grep->walk, grep->dir_fd);
    grep->walk.keep = grep_keep_file;
    memcpy(grep->walk.globs, grep->use, sizeof grep->use);
    grep->walk.user = grep;
    if (args->number[FIELD_DEPTH])
        grep->walk.max_depth =
            args->number[FIELD_DEPTH] < UINT32_MAX ? (unsigned)args->number[FIELD_DEPTH] : UINT32_MAX;
    return op_ignore(args, &grep->ignore, &grep->walk, err);
}

static unsigned grep_threads(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

static int grep_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct grep grep;
    static struct searcher searchers[THREADS_MAX];
    grep.worker = worker;
    TRY(grep_compile(&grep, args, err) ?: grep_open(&grep, args, err));
    for (size_t i = 0; i < RING; i++)
        buf_init(&grep.ring[i], HELD_BYTES + 2 * RECORD_BYTES);
    pthread_mutex_init(&grep.lock, NULL);
    cond_init(&grep.changed);
    pthread_mutex_lock(&grep.lock);
    unsigned wanted = grep.file_fd >= 0 ? 1 : grep_threads();
    for (unsigned i = 0; i < wanted; i++) {
        searchers[i].grep = &grep;
        if (thread_detached(grep_searcher_main, &searchers[i], STACK_BYTES) != 0)
            break; /* the box may not allow more threads: uses fewer */
        grep.active++;
    }
    if (grep.active == 0) {
        searchers[0].grep = &grep;
        grep.active = 1;
        pthread_mutex_unlock(&grep.lock);
        grep_searcher_run(&searchers[0]);
        pthread_mutex_lock(&grep.lock);
    }
    /* Waits until all are done or time is up. Returns with the lock held: nothing may be sent after END. */
    while (grep.active > 0 && !(atomic_load(&grep.stop) && (grep.truncated || grep.err.code)))
        if (!cond_wait_until(&grep.changed, &grep.lock, grep.deadline_ms)) {
            grep.timed_out |= grep.active > 0 && !atomic_load(&grep.stop);
            break;
        }
    if (grep.timed_out && !atomic_load(&grep.stop)) {
        /* At the deadline: sends the results so far, in order, from finished and running batches. */
        for (uint64_t number = grep.sent_number; number < grep.next_number; number++) {
            if (grep.ring_full[number % RING] && number - grep.sent_number < RING)
                grep_send_records(&grep, &grep.ring[number % RING]);
            for (unsigned i = 0; i < THREADS_MAX; i++)
                if (searchers[i].searching && searchers[i].batch.number == number)
                    grep_send_records(&grep, &searchers[i].out);
        }
    }
    atomic_store(&grep.stop, true);
    if (grep.err.code) {
        *err = grep.err;
        return -err->code;
    }
    autobuf out = buf_max(128);
    field_number(&out, FIELD_TRUNCATED, grep.truncated || grep.walk.too_long || atomic_load(&grep.left_out));
    field_number(&out, FIELD_TIMED_OUT, grep.timed_out);
    field_number(&out, FIELD_FILES, atomic_load(&grep.files));
    field_number(&out, FIELD_LINES, atomic_load(&grep.gave_up));
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_grep = {.op = OP_GREP, .looks = true, .work = grep_work, .root = &op_grep};
