/* Free memory: /proc/meminfo, and the limits of the daemon's own control groups, as in a container or a service with
 * MemoryMax. Called by eviction.c. Invariant: an unreadable value limits nothing here; boxes have limits of their
 * own. */
#include "box/provider/memory.h"

#include "base/base.h"

enum { MEMORY_FILE_BYTES = 16384 };

static bool memory_read(const char *root, const char *path, char text[MEMORY_FILE_BYTES]) {
    char whole[PATH_MAX];
    return snprintf(whole, sizeof whole, "%s%s", root, path) < (int)sizeof whole &&
           fd_read_file(AT_FDCWD, whole, text, MEMORY_FILE_BYTES) > 0;
}

/* The number after `name` at the beginning of a line. */
static uint64_t memory_member(const char *text, const char *name) {
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0)
            return strtoull(line + len, NULL, 10);
    }
    return 0;
}

static uint64_t memory_of_machine(const char *root, uint64_t *ret_total) {
    char text[MEMORY_FILE_BYTES];
    *ret_total = UINT64_MAX;
    if (!memory_read(root, "/proc/meminfo", text) || !strstr(text, "MemAvailable:"))
        return UINT64_MAX;
    *ret_total = memory_member(text, "MemTotal:") * 1024;
    return memory_member(text, "MemAvailable:") * 1024;
}

struct wanted {
    const char *root;
    uint64_t total,
        enough; /* a limit above the machine's memory does not count; with so much left, no closer look is taken */
};

struct hierarchy {
    const char *mount, *limit, *usage, *file_pages; /* pages of files that were not used lately are as good as free */
};

static uint64_t memory_of_group(const struct wanted *wanted, const struct hierarchy *on, const char *group) {
    char path[PATH_MAX + 64], text[MEMORY_FILE_BYTES];
    snprintf(path, sizeof path, "%s%s/%s", on->mount, group, on->limit);
    if (!memory_read(wanted->root, path, text) || text[0] < '0' || text[0] > '9') /* "max" */
        return UINT64_MAX;
    uint64_t limit = strtoull(text, NULL, 10);
    snprintf(path, sizeof path, "%s%s/%s", on->mount, group, on->usage);
    if (limit >= wanted->total || !memory_read(wanted->root, path, text))
        return UINT64_MAX;
    uint64_t used = strtoull(text, NULL, 10);
    if (used < limit && limit - used >= wanted->enough)
        return limit - used; /* without memory.stat, for which the kernel adds up every processor's counters */
    snprintf(path, sizeof path, "%s%s/memory.stat", on->mount, group);
    uint64_t pages = memory_read(wanted->root, path, text) ? memory_member(text, on->file_pages) : 0;
    used -= pages < used ? pages : used;
    return used < limit ? limit - used : 0;
}

/* The group and all above it. */
static uint64_t memory_of_groups(const struct wanted *wanted, const struct hierarchy *on, const char *group,
                                 size_t len) {
    char name[PATH_MAX - 64];
    uint64_t least = UINT64_MAX;
    if (len >= sizeof name)
        return least;
    memcpy(name, group, len);
    for (;;) {
        while (len && name[len - 1] == '/')
            len--;
        name[len] = 0;
        uint64_t here = memory_of_group(wanted, on, name);
        least = here < least ? here : least;
        if (!len)
            return least;
        while (len && name[len - 1] != '/')
            len--;
    }
}

uint64_t memory_available(const char *root, uint64_t enough) {
    static const struct hierarchy hierarchies[] = {
        {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
        {"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file "},
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};
    char text[MEMORY_FILE_BYTES];
    struct wanted wanted = {.root = root, .enough = enough};
    uint64_t least = memory_of_machine(root, &wanted.total);
    if (!memory_read(root, "/proc/self/cgroup", text))
        return least;
    /* Lines as "0::/a/b" and "4:memory:/a/b". */
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            break;
        bool v2 = group == names + 1, v1 = memmem(names, (size_t)(group - names), "memory", 6) != NULL;
        for (size_t i = 0; i < 3; i++) {
            uint64_t here = (i < 2 ? v2 : v1)
                                ? memory_of_groups(&wanted, &hierarchies[i], group + 1, strcspn(group + 1, "\n"))
                                : UINT64_MAX;
            least = here < least ? here : least;
        }
    }
    return least;
}
