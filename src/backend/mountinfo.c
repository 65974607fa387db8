/* Called by docker/mount.c, for mounts that an engine made by name: a user who may write above a directory could
 * have put a link in its path between our check and the engine's. Invariant: names are compared as the kernel has
 * them, without looking at the file systems, which may have changed again. */
#include "backend/mountinfo.h"
#include "base/base.h"

enum { TEXT_BYTES = 4 << 20 };

struct mountinfo_row {
    unsigned major_id, minor_id;
    char *root, *at; /* in the file system, and where that is seen */
};

/* "ID PARENT MAJOR:MINOR ROOT AT ..." */
static bool mountinfo_parse(char *line, struct mountinfo_row *ret_row) {
    char *words[5], *rest = line;
    for (size_t i = 0; i < 5; i++)
        if (!(words[i] = strsep(&rest, " ")))
            return false;
    struct mountinfo_row row = {.root = words[3], .at = words[4]};
    if (sscanf(words[2], "%u:%u", &row.major_id, &row.minor_id) != 2)
        return false;
    path_unescape(row.root);
    path_unescape(row.at);
    *ret_row = row;
    return true;
}

/* The length of what of `path` lies at or above `at`; 0: it does not. */
static size_t mountinfo_within(const char *path, const char *at) {
    size_t len = strcmp(at, "/") == 0 ? 0 : strlen(at);
    return strncmp(path, at, len) == 0 && (path[len] == '/' || !path[len]) ? len + 1 : 0;
}

/* The mount that shows `path`, or the one exactly there: the last of the deepest covers the others. */
static int mountinfo_find(pid_t pid, const char *path, bool exact, char *text, struct mountinfo_row *ret_row,
                          struct err *err) {
    char name[64];
    size_t best = 0;
    if (pid)
        snprintf(name, sizeof name, "/proc/%d/mountinfo", (int)pid);
    else
        snprintf(name, sizeof name, "/proc/self/mountinfo");
    ssize_t n = fd_read_file(AT_FDCWD, name, text, TEXT_BYTES);
    if (n < 0)
        return err_errno(err, (int)-n, "'%s'", name);
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct mountinfo_row row;
        if (!mountinfo_parse(line, &row))
            continue;
        size_t len = exact ? strcmp(row.at, path) == 0 : mountinfo_within(path, row.at);
        if (len && len >= best) {
            best = len;
            *ret_row = row;
        }
    }
    return best ? 0 : err_set(err, ERR_NOT_FOUND, "nothing is mounted at '%.200s'", path);
}

int mountinfo_is(const char *source, pid_t pid, const char *target, bool *ret_is, struct err *err) {
    struct mountinfo_row here, there;
    char *texts = xmalloc(2 * (size_t)TEXT_BYTES), wanted[2 * LIMIT_PATH_BYTES + 2];
    int r = mountinfo_find(0, source, false, texts, &here, err);
    if (r == 0)
        r = mountinfo_find(pid, target, true, texts + TEXT_BYTES, &there, err);
    if (r == 0) {
        const char *rest = source + mountinfo_within(source, here.at) - 1;
        const char *root = strcmp(here.root, "/") == 0 && *rest ? "" : here.root;
        snprintf(wanted, sizeof wanted, "%s%s", root, rest);
        *ret_is = strcmp(wanted, there.root) == 0 && here.major_id == there.major_id && here.minor_id == there.minor_id;
    }
    free(texts);
    return r;
}
