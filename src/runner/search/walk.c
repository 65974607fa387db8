/* Traverses trees. Called by every op that looks at a tree. Invariant: directories are opened by their path below the
 * start, without links in it, so a tree that changes during the traversal can hide entries but not lead out. */
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "runner/search/walk.h"
#include "tree/dent.h"

#pragma GCC optimize("O2")

enum {
    DENTS_BYTES = 256 << 10,
    CUT_ENTRIES = 4096, /* in addition to the requested ones */
};

struct walk_level { /* directories of one directory, still to be visited */
    struct walk_level *up;
    size_t path_len, count, next;
    char *names; /* NUL-separated */
    char *name;  /* the next one */
    struct glob_state (*states)[WALK_GLOBS];
};

static int walk_read(struct walk *walk);
static void walk_sort(struct walk *walk);
static void walk_push(struct walk *walk);

void walk_init(struct walk *walk, int start_fd) {
    memset(walk, 0, sizeof *walk);
    walk->start_fd = start_fd;
    walk->max_depth = UINT32_MAX;
    walk->sorted = true;
    walk->dirfd = -1;
    walk->buffer = xmalloc(DENTS_BYTES);
}

int walk_each(struct walk *walk, int (*each)(void *user, const struct walk_entry *entry, struct err *err), void *user,
              struct err *err) {
    while (walk_next(walk) > 0)
        for (size_t i = 0; i < walk->count; i++) {
            int r = each(user, &walk->entries[i], err);
            if (r <= 0)
                return r;
        }
    return 0;
}

void walk_done(struct walk *walk) {
    fd_close(&walk->dirfd);
    while (walk->level) {
        struct walk_level *level = walk->level;
        walk->level = level->up;
        free(level->names);
        free(level->states);
        free(level);
    }
    free(walk->names);
    free(walk->entries);
    free(walk->buffer);
    walk->names = walk->buffer = NULL;
    walk->entries = NULL;
}

/* procfs and sysfs are not files of the box: a traversal from above skips them. */
static bool walk_is_virtual(int fd) {
    struct statfs system;
    return fstatfs(fd, &system) == 0 && (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC);
}

static int walk_enter(struct walk *walk) {
    fd_close(&walk->dirfd);
    int fd = path_below(walk->start_fd, walk->path, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0)
        return fd;
    walk->dirfd = fd;
    bool is = walk_is_virtual(fd);
    if (walk->path_len == 0)
        walk->skip_virtual = !is;
    else if (is && walk->skip_virtual)
        return -ENOENT;
    return walk_read(walk);
}

static bool walk_pop(struct walk *walk) {
    while (walk->level && walk->level->next == walk->level->count) {
        struct walk_level *level = walk->level;
        walk->level = level->up;
        free(level->names);
        free(level->states);
        free(level);
    }
    struct walk_level *level = walk->level;
    if (!level)
        return false;
    size_t len = strlen(level->name);
    memcpy(walk->path + level->path_len, level->name, len);
    walk->path_len = level->path_len + len + 1;
    walk->path[walk->path_len - 1] = '/';
    walk->path[walk->path_len] = 0;
    walk->depth = 1;
    for (struct walk_level *up = level; up; up = up->up)
        walk->depth++;
    if (level->states)
        memcpy(walk->states, level->states[level->next], sizeof walk->states);
    level->next++;
    level->name += len + 1;
    return true;
}

int walk_next(struct walk *walk) {
    if (!walk->started) {
        walk->started = true;
        walk->depth = 1;
        for (size_t i = 0; i < WALK_GLOBS; i++)
            if (walk->globs[i])
                walk->states[i] = walk->globs[i]->start;
    } else {
        walk_push(walk);
        if (!walk_pop(walk))
            return 0;
    }
    for (;;) {
        if (walk->timed_out)
            return 0;
        int r = walk_enter(walk);
        if (r == 0)
            break;
        if (r == -ENAMETOOLONG)
            walk->too_long = true;
        else if (r != -ENOENT)
            walk->unreadable++;
        walk->count = 0;
        if (!walk_pop(walk))
            return 0;
    }
    if (walk->sorted)
        walk_sort(walk);
    return 1;
}

static uint64_t walk_name_key(const char *name, size_t len) {
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < len ? (unsigned char)name[i] : 0);
    return key;
}

static void walk_add(struct walk *walk, const char *name, size_t len, uint8_t type, bool descend) {
    walk->names = vec_room(walk->names, &walk->names_cap, walk->names_len + len + 1, 1);
    walk->entries = vec_room(walk->entries, &walk->entries_cap, walk->count + 1, sizeof *walk->entries);
    memcpy(walk->names + walk->names_len, name, len + 1);
    walk->entries[walk->count++] = (struct walk_entry){.key = walk_name_key(name, len),
                                                       .name = (uint32_t)walk->names_len,
                                                       .len = (uint16_t)len,
                                                       .type = type,
                                                       .descend = descend};
    walk->names_len += len + 1;
}

static void walk_dent(struct walk *walk, const struct dent *dent) {
    const char *name = dent->name;
    if (name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0)))
        return;
    size_t len = strlen(name);
    uint8_t type = dent->type;
    struct stat status;
    if (type == DT_UNKNOWN && fstatat(walk->dirfd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        type = (uint8_t)IFTODT(status.st_mode);
    if (walk->path_len + len > LIMIT_PATH_BYTES || walk->names_len > UINT32_MAX - 65536) {
        walk->too_long = true;
        return;
    }
    bool ignored = walk->ignore && glob_names_match(walk->ignore, name, len);
    if (ignored && !walk->keep_ignored)
        return;
    if (walk->globs[WALK_EXCEPT] && glob_step(walk->globs[WALK_EXCEPT], &walk->states[WALK_EXCEPT], name, len, NULL))
        return;
    bool descend = type == DT_DIR && !ignored;
    bool keep = !walk->keep || walk->keep(walk, name, len, type, &descend);
    descend = descend && type == DT_DIR && walk->depth < walk->max_depth;
    if (keep || descend)
        walk_add(walk, name, len, keep ? type : DT_UNKNOWN, descend);
}

/* A directory of a million names costs no more memory than the wanted entries. If more match than are wanted, the
 * caller stops in this directory, so entries that are only to be descended into are dropped too. */
static void walk_cut(struct walk *walk) {
    size_t wanted = 0, kept = 0, bytes = 0;
    for (size_t i = 0; i < walk->count; i++)
        wanted += walk->entries[i].type != DT_UNKNOWN;
    if (wanted > walk->keep_max) {
        walk_sort(walk);
        walk->dropped = true;
        for (size_t i = 0; kept < walk->keep_max; i++)
            if (walk->entries[i].type != DT_UNKNOWN)
                walk->entries[kept++] = walk->entries[i];
        walk->count = kept;
        for (size_t i = 0; i < kept; i++)
            bytes += walk->entries[i].len + 1u;
        char *names = xmalloc(bytes);
        walk->names_cap = bytes;
        walk->names_len = 0;
        for (size_t i = 0; i < kept; i++) {
            struct walk_entry *entry = &walk->entries[i];
            memcpy(names + walk->names_len, walk_name(walk, entry), entry->len + 1u);
            entry->name = (uint32_t)walk->names_len;
            walk->names_len += entry->len + 1u;
        }
        free(walk->names);
        walk->names = names;
    }
    walk->cut_at = 2 * walk->count + CUT_ENTRIES;
}

/* Reads all entries of the current directory. An entry that is only to be descended into has type DT_UNKNOWN. */
static int walk_read(struct walk *walk) {
    walk->count = 0;
    walk->names_len = 0;
    walk->cut_at = CUT_ENTRIES;
    for (;;) {
        if (walk->keep_max && walk->count >= walk->cut_at)
            walk_cut(walk);
        walk->timed_out |= walk->deadline_ms && clock_ms() >= walk->deadline_ms;
        if (walk->timed_out)
            return 0;
        long n = syscall(SYS_getdents64, walk->dirfd, walk->buffer, (size_t)DENTS_BYTES);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        for (long at = 0; at < n;) {
            const struct dent *dent = (const struct dent *)(const void *)(walk->buffer + at);
            walk_dent(walk, dent);
            at += dent->size;
        }
    }
}

/* ---- directories to visit ---- */

static size_t walk_count_descend(const struct walk *walk, size_t *ret_bytes) {
    size_t count = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->entries[i].descend) {
            count++;
            *ret_bytes += walk->entries[i].len + 1u;
        }
    }
    return count;
}

static bool walk_has_globs(const struct walk *walk) {
    return walk->globs[WALK_ONLY] || walk->globs[WALK_ALSO] || walk->globs[WALK_EXCEPT];
}

/* Gets the states of a directory to visit. Returns false if nothing in it can be wanted. */
static bool walk_states(const struct walk *walk, const char *name, size_t len, struct glob_state *ret_states) {
    for (size_t i = 0; i < WALK_GLOBS; i++) {
        if (!walk->globs[i])
            continue;
        glob_step(walk->globs[i], &walk->states[i], name, len, &ret_states[i]);
        if (i != WALK_EXCEPT && !glob_alive(&ret_states[i]))
            return false;
    }
    return true;
}

static void walk_push(struct walk *walk) {
    size_t bytes, count = walk_count_descend(walk, &bytes);
    if (count == 0)
        return;
    struct walk_level *level = xcalloc(1, sizeof *level);
    *level = (struct walk_level){.up = walk->level, .path_len = walk->path_len, .names = xmalloc(bytes)};
    bool globs = walk_has_globs(walk);
    if (globs)
        level->states = xmalloc(count * sizeof *level->states);
    char *at = level->names;
    for (size_t i = 0; i < walk->count; i++) {
        const struct walk_entry *entry = &walk->entries[i];
        if (!entry->descend)
            continue;
        const char *name = walk_name(walk, entry);
        if (globs && !walk_states(walk, name, entry->len, level->states[level->count]))
            continue;
        memcpy(at, name, entry->len + 1u);
        at += entry->len + 1u;
        level->count++;
    }
    level->name = level->names;
    walk->level = level;
}

/* ---- sorting ---- */

static bool walk_before(const struct walk *walk, const struct walk_entry *a, const struct walk_entry *b) {
    if (a->key != b->key)
        return a->key < b->key;
    return strcmp(walk_name(walk, a), walk_name(walk, b)) < 0;
}

/* A merge sort from small runs up: libc's is several times slower, and this one has no bad case. */
static void walk_sort(struct walk *walk) {
    enum { RUN = 8 };
    size_t count = walk->count;
    struct walk_entry *from = walk->entries;
    for (size_t start = 0; start < count; start += RUN) {
        size_t end = start + RUN < count ? start + RUN : count;
        for (size_t i = start + 1; i < end; i++) {
            struct walk_entry entry = from[i];
            size_t j = i;
            for (; j > start && walk_before(walk, &entry, &from[j - 1]); j--)
                from[j] = from[j - 1];
            from[j] = entry;
        }
    }
    if (count <= RUN)
        return;
    struct walk_entry *to = xmalloc(walk->entries_cap * sizeof *to);
    for (size_t width = RUN; width < count; width *= 2) {
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t a = start, middle = start + width < count ? start + width : count, b = middle;
            size_t end = start + 2 * width < count ? start + 2 * width : count;
            for (size_t at = start; at < end; at++)
                to[at] = b == end || (a < middle && !walk_before(walk, &from[b], &from[a])) ? from[a++] : from[b++];
        }
        struct walk_entry *swap = from;
        from = to;
        to = swap;
    }
    walk->entries = from;
    free(to);
}
