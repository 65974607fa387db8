/* Merges layers, directory by directory. Called by op_diff.c and squash.c. Invariant: the rules are overlayfs's own
 * (with userxattr): the uppermost name wins; directories merge down to the first that is opaque, or to the first entry
 * that is not a directory; a character device 0:0 is a whiteout. Names are hostile: no link is followed, no mount
 * entered, and stack and descriptors do not grow with the size of a tree. */
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "runner/enter/stack.h"
#include "tree/dent.h"
#include "runner/search/walk.h"

enum { DENTS_BYTES = 65536 };

struct stack_child {
    uint32_t name;
    bool hidden;
    uint64_t mask;
};

/* Directories of one directory that are still to be visited. */
struct stack_level {
    struct stack_level *up;
    size_t path_len, count, next;
    char *names;
    struct stack_child *children;
};

static void stack_read(struct stack *stack, size_t layer);
static void stack_merge(struct stack *stack);

size_t stack_roots_fds(const struct stack_roots *roots, int *ret_fds) {
    size_t count = 0;
    ret_fds[count++] = roots->own;
    ret_fds[count++] = roots->template;
    for (size_t i = 0; i < roots->kept_count; i++)
        ret_fds[count++] = roots->kept[i];
    for (size_t i = 0; i < roots->system_count; i++)
        ret_fds[count++] = roots->system[i].fd;
    return count;
}

void stack_init(struct stack *stack) {
    *stack = (struct stack){.buffer = xmalloc(DENTS_BYTES)};
    for (size_t i = 0; i < STACK_MAX; i++)
        stack->fds[i] = -1;
}

void stack_add_root(struct stack *stack, int layer, const char *name) {
    int fd = openat(layer, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        stack->roots[stack->count++] = fd;
}

static void stack_leave(struct stack *stack) {
    for (size_t i = 0; i < stack->count; i++)
        fd_close(&stack->fds[i]);
}

static bool stack_pop(struct stack *stack, uint64_t *ret_mask, bool *ret_hidden) {
    while (stack->level && stack->level->next == stack->level->count) {
        struct stack_level *level = stack->level;
        stack->level = level->up;
        free(level->names);
        free(level->children);
        free(level);
    }
    struct stack_level *level = stack->level;
    if (!level)
        return false;
    const struct stack_child *child = &level->children[level->next++];
    const char *name = level->names + child->name;
    size_t len = strlen(name);
    memcpy(stack->path + level->path_len, name, len);
    stack->path_len = level->path_len + len + 1;
    stack->path[stack->path_len - 1] = '/';
    stack->path[stack->path_len] = 0;
    *ret_mask = child->mask;
    *ret_hidden = child->hidden;
    return true;
}

void stack_done(struct stack *stack) {
    uint64_t mask;
    bool hidden;
    stack_leave(stack);
    for (size_t i = 0; i < stack->count; i++)
        fd_close(&stack->roots[i]);
    while (stack_pop(stack, &mask, &hidden))
        ;
    free(stack->entries);
    free(stack->names);
    free(stack->buffer);
}

static bool stack_enter(struct stack *stack, uint64_t mask, bool hidden) {
    stack_leave(stack);
    stack->hidden = hidden;
    stack->opaque = false;
    stack->count_entries = stack->names_len = 0;
    bool any = false;
    for (size_t i = 0; i < stack->count && !stack->opaque; i++) {
        if (!(mask >> i & 1) ||
            (stack->fds[i] = path_below(stack->roots[i], stack->path, O_RDONLY | O_DIRECTORY, true)) < 0)
            continue;
        if (!any)
            stack->top = i;
        any = true;
        char value;
        stack->opaque = fgetxattr(stack->fds[i], STACK_OPAQUE, &value, 1) == 1 && value == 'y';
        stack_read(stack, i);
    }
    stack->hidden |= stack->opaque;
    if (any)
        stack_merge(stack);
    return any;
}

static void stack_push(struct stack *stack) {
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < stack->count_entries; i++)
        if (stack->entries[i].kind == STACK_DIR) {
            count++;
            bytes += stack->entries[i].len + 1u;
        }
    if (count == 0)
        return;
    struct stack_level *level = xcalloc(1, sizeof *level);
    level->names = xmalloc(bytes);
    level->children = xcalloc(count, sizeof *level->children);
    level->up = stack->level;
    level->path_len = stack->path_len;
    size_t at = 0;
    for (size_t i = 0; i < stack->count_entries; i++) {
        const struct stack_entry *entry = &stack->entries[i];
        if (entry->kind != STACK_DIR)
            continue;
        memcpy(level->names + at, stack_name(stack, entry), entry->len + 1u);
        level->children[level->count++] =
            (struct stack_child){.name = (uint32_t)at, .hidden = stack->hidden || entry->cut, .mask = entry->mask};
        at += entry->len + 1u;
    }
    stack->level = level;
}

int stack_next(struct stack *stack) {
    uint64_t mask = stack->count == STACK_MAX ? UINT64_MAX : (1ull << stack->count) - 1;
    bool hidden = false;
    if (stack->started)
        stack_push(stack);
    bool more = !stack->started || stack_pop(stack, &mask, &hidden);
    stack->started = true;
    while (more && !stack->timed_out && !stack_enter(stack, mask, hidden)) /* already gone */
        more = stack_pop(stack, &mask, &hidden);
    return more && !stack->timed_out;
}

const struct stack_entry *stack_find(const struct stack *stack, const char *name) {
    size_t low = 0, high = stack->count_entries;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(stack_name(stack, &stack->entries[middle]), name);
        if (order == 0)
            return &stack->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- one directory ---- */

static uint8_t stack_entry_kind(int fd, const struct dent *dent) {
    struct stat status;
    if (dent->type == DT_DIR)
        return STACK_DIR;
    if (dent->type != DT_CHR && dent->type != DT_UNKNOWN)
        return STACK_OTHER;
    if (fstatat(fd, dent->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return STACK_OTHER;
    if (S_ISDIR(status.st_mode))
        return STACK_DIR;
    return S_ISCHR(status.st_mode) && status.st_rdev == 0 ? STACK_WHITEOUT : STACK_OTHER;
}

static void stack_add(struct stack *stack, size_t layer, const struct dent *dent) {
    size_t len = strlen(dent->name);
    if (dent_dots(dent->name))
        return;
    if (stack->path_len + len >= LIMIT_PATH_BYTES || stack->names_len > UINT32_MAX - 65536) {
        stack->too_deep = true;
        return;
    }
    stack->names = vec_room(stack->names, &stack->names_cap, stack->names_len + len + 1, 1);
    stack->entries = vec_room(stack->entries, &stack->entries_cap, stack->count_entries + 1, sizeof *stack->entries);
    memcpy(stack->names + stack->names_len, dent->name, len + 1);
    stack->entries[stack->count_entries++] = (struct stack_entry){.name = (uint32_t)stack->names_len,
                                                                  .len = (uint16_t)len,
                                                                  .kind = stack_entry_kind(stack->fds[layer], dent),
                                                                  .layer = (uint8_t)layer};
    stack->names_len += len + 1;
}

static void stack_read(struct stack *stack, size_t layer) {
    for (;;) {
        stack->timed_out |= stack->deadline_ms && clock_ms() >= stack->deadline_ms;
        long n = stack->timed_out ? 0 : syscall(SYS_getdents64, stack->fds[layer], stack->buffer, (size_t)DENTS_BYTES);
        if (n <= 0)
            return;
        for (long at = 0; at < n;) {
            const struct dent *dent = (const struct dent *)(const void *)(stack->buffer + at);
            stack_add(stack, layer, dent);
            at += dent->size;
        }
    }
}

static int stack_by_name(const void *a, const void *b, void *names) {
    const struct stack_entry *x = a, *y = b;
    int order = strcmp((const char *)names + x->name, (const char *)names + y->name);
    return order ? order : (int)x->layer - (int)y->layer;
}

/* Merges what the layers have under one name into one entry. */
static struct stack_entry stack_merge_group(const struct stack_entry *group, size_t count) {
    struct stack_entry merged = group[0];
    size_t i = 0;
    for (; merged.kind == STACK_DIR && i < count && group[i].kind == STACK_DIR; i++)
        merged.mask |= 1ull << group[i].layer;
    merged.cut = merged.kind == STACK_DIR && i < count;
    return merged;
}

static void stack_merge(struct stack *stack) {
    size_t kept = 0;
    if (stack->count_entries) /* musl has qsort_r since 1.2.3 */
        qsort_r(stack->entries, stack->count_entries, sizeof *stack->entries, stack_by_name, stack->names);
    for (size_t i = 0, end; i < stack->count_entries; i = end) {
        for (end = i + 1; end < stack->count_entries &&
                          strcmp(stack_name(stack, &stack->entries[i]), stack_name(stack, &stack->entries[end])) == 0;)
            end++;
        stack->entries[kept++] = stack_merge_group(stack->entries + i, end - i);
    }
    stack->count_entries = kept;
}
