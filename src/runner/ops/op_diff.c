/* Diff: files of the box that differ from its template. In a worker that has the descriptors of the layers; the box's
 * own and kept layers are traversed, the template is only looked up. Invariant: commands may change the files at the
 * same time, and may have made them to cause harm: nothing is followed, and names, depth, time and results are
 * bounded. */
#include <sys/xattr.h>

#include "base/base.h"
#include "runner/ops/ops.h"
#include "runner/enter/stack.h"
#include "wire/spec.h"

struct diff {
    struct worker *worker;
    struct stack stack;
    const char *prefix; /* path of this stack in the box: "/" or "/usr/" */
    int below;          /* the layers below the stack; -1: only the overlay knows them (skills) */
    uint64_t limit, sent;
    bool truncated;
};

/* Returns 1 to continue, 0 if the limit is reached. */
static int diff_report(struct diff *diff, enum watch_event event, const char *name, const struct stat *status,
                       struct err *err) {
    char path[2 * LIMIT_PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s%s%s", diff->prefix, diff->stack.path, name);
    bool fits = len > 0 && (unsigned)len <= LIMIT_PATH_BYTES;
    if (diff->sent == diff->limit || !fits) {
        diff->truncated = true;
        return diff->sent < diff->limit;
    }
    struct buf *item = worker_item(diff->worker);
    field_number(item, FIELD_EVENT, event);
    field_bytes(item, FIELD_PATH, path, (size_t)len);
    field_number(item, FIELD_TYPE,
                 S_ISREG(status->st_mode)   ? FILE_REGULAR
                 : S_ISDIR(status->st_mode) ? FILE_DIR
                 : S_ISLNK(status->st_mode) ? FILE_SYMLINK
                                            : FILE_OTHER);
    field_number(item, FIELD_SIZE, S_ISDIR(status->st_mode) ? 0 : (uint64_t)status->st_size);
    diff->sent++;
    int r = worker_item_end(diff->worker, err);
    return r < 0 ? r : 1;
}

/* Finds copies without looking below: the overlay records where a copied-up file came from. */
static bool diff_is_copy(int dir, const char *name, const struct stat *status) {
    char value[256];
    if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode))
        return false;
    autofd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 && (fgetxattr(fd, STACK_ORIGIN, value, sizeof value) >= 0 || errno == ERANGE);
}

static int diff_skill(struct diff *diff, const struct stack_entry *entry, struct err *err) {
    struct stack *stack = &diff->stack;
    const char *name = stack_name(stack, entry);
    struct stat is = {0};
    if (strncmp(stack->path, SKILLS_CHANGES "/", strlen(SKILLS_CHANGES "/")) == 0 ||
        (stack->path_len == 0 && strcmp(name, SKILLS_CHANGES) == 0))
        return 1;                      /* an unfinished write does not count */
    if (entry->kind == STACK_WHITEOUT) /* a whiteout exists only if it hides something */
        return diff_report(diff, WATCH_REMOVED, name, &is, err);
    if (fstatat(stack->fds[entry->layer], name, &is, AT_SYMLINK_NOFOLLOW) < 0)
        return 1; /* already gone */
    bool copy = diff_is_copy(stack->fds[entry->layer], name, &is);
    if (copy && S_ISDIR(is.st_mode))
        return 1;
    return diff_report(diff, copy ? WATCH_MODIFIED : WATCH_CREATED, name, &is, err);
}

/* below: the same directory of the template, or -1. Returns as diff_report. */
static int diff_entry(struct diff *diff, const struct stack_entry *entry, int below, struct err *err) {
    struct stack *stack = &diff->stack;
    const char *name = stack_name(stack, entry);
    struct stat was = {0}, is = {0};
    bool had = below >= 0 && fstatat(below, name, &was, AT_SYMLINK_NOFOLLOW) == 0;
    if (entry->kind == STACK_WHITEOUT)
        return had ? diff_report(diff, WATCH_REMOVED, name, &was, err) : 1;
    if (fstatat(stack->fds[entry->layer], name, &is, AT_SYMLINK_NOFOLLOW) < 0)
        return 1; /* already gone */
    if (had && S_ISDIR(was.st_mode) && S_ISDIR(is.st_mode) && was.st_mode == is.st_mode && was.st_uid == is.st_uid &&
        was.st_gid == is.st_gid)
        return 1;
    return diff_report(diff, had ? WATCH_MODIFIED : WATCH_CREATED, name, &is, err);
}

/* For a directory that hides the template's: reports what only the template's has. Returns as diff_report. */
static int diff_hidden(struct diff *diff, int below, struct err *err) {
    int r = 1;
    autodir *dir = fd_opendir(below, ".", 0);
    for (struct dirent *entry; r == 1 && (entry = fd_readdir(dir));) {
        struct stat was;
        if (!stack_find(&diff->stack, entry->d_name) && fstatat(below, entry->d_name, &was, AT_SYMLINK_NOFOLLOW) == 0)
            r = diff_report(diff, WATCH_REMOVED, entry->d_name, &was, err);
    }
    return r;
}

static int diff_stack(struct diff *diff, struct err *err) {
    struct stack *stack = &diff->stack;
    int r = 1;
    while (r == 1 && stack_next(stack)) {
        autofd below = diff->below < 0 ? -1 : path_below(diff->below, stack->path, O_RDONLY | O_DIRECTORY, true);
        for (size_t i = 0; r == 1 && i < stack->count_entries; i++)
            r = diff->below < 0 ? diff_skill(diff, &stack->entries[i], err)
                                : diff_entry(diff, &stack->entries[i], below, err);
        if (r == 1 && below >= 0 && stack->hidden)
            r = diff_hidden(diff, below, err);
    }
    diff->truncated |= stack->too_deep || stack->timed_out;
    return r;
}

/* name: the relevant directory of each layer. Returns as diff_report. */
static int diff_part(struct diff *diff, const struct stack_roots *roots, const char *name, uint64_t deadline_ms,
                     struct err *err) {
    struct stack *stack = &diff->stack;
    stack_init(stack);
    stack->deadline_ms = deadline_ms;
    stack_add_root(stack, roots->own, name);
    for (size_t i = 0; i < roots->kept_count; i++)
        stack_add_root(stack, roots->kept[i], name);
    int r = diff_stack(diff, err);
    stack_done(stack);
    return r;
}

static int diff_work(struct worker *worker, const struct fields *args, struct err *err) {
    const struct stack_roots *roots = worker->config->layers;
    static struct diff diff;
    if (!roots)
        return err_set(err, ERR_UNSUPPORTED,
                       "this box has no layers of its own to compare: its files are the host's; use the backend jail");
    diff.worker = worker;
    diff.limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_DIFF_LIMIT;
    if (diff.limit > LIMIT_DIFF_LIMIT)
        return err_set(err, ERR_INVALID, "limit must be at most %u", LIMIT_DIFF_LIMIT);
    uint64_t deadline_ms = clock_ms() + DEFAULT_WALK_TIMEOUT_MS;
    diff.prefix = "/";
    diff.below = roots->template;
    int r = diff_part(&diff, roots, "upper", deadline_ms, err);
    for (size_t i = 0; r == 1 && i < roots->system_count; i++) {
        diff.prefix = text_make(LIMIT_PATH_BYTES + 2, "%s/", roots->system[i].path);
        diff.below = roots->system[i].fd;
        r = diff_part(&diff, roots, text_make(32, "upper.%zu", i), deadline_ms, err);
    }
    diff.prefix = SKILLS_PATH "/";
    diff.below = -1;
    if (r == 1)
        r = diff_part(&diff, roots, "skills", deadline_ms, err);
    TRY(r);
    autobuf out = buf_max(64);
    field_number(&out, FIELD_TRUNCATED, diff.truncated);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_diff = {.op = OP_DIFF, .looks = true, .work = diff_work, .layers = true};
