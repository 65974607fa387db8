/* Traverses a tree, one directory at a time, sorted by name within each. Used by list, glob, grep, tar, watch and
 * moves. Only the current directory's descriptor is open, links are never followed, and memory holds the names of one
 * directory and of directories still to be visited. */
#ifndef CUBBY_RUNNER_WALK_H
#define CUBBY_RUNNER_WALK_H

#include "base/base.h"
#include "runner/ops/globmatch.h"

struct walk_entry {
    uint64_t key;  /* first bytes of the name, for sorting */
    uint32_t name; /* offset into walk->names: use walk_name */
    uint16_t len;
    uint8_t type; /* DT_ */
    bool descend; /* a directory: visit it later; the caller may clear it */
};

enum walk_glob {
    WALK_ONLY,   /* directories without possible matches are skipped; keep() itself checks for matches */
    WALK_ALSO,   /* the same, a second pattern */
    WALK_EXCEPT, /* skips matching entries and everything below */
    WALK_GLOBS,
};

struct walk_level;
struct walk {
    int start_fd;       /* not closed here */
    unsigned max_depth; /* 1: only the start */
    bool sorted;
    /* Which entries to keep; NULL: all. Directories that are not kept are still visited if *descend stays set. */
    bool (*keep)(struct walk *walk, const char *name, size_t len, uint8_t type, bool *descend);
    /* Patterns over paths from the start; each may be NULL. */
    const struct glob *globs[WALK_GLOBS];
    /* Skips matching names, at any depth but the start; with keep_ignored they are kept and not descended into. */
    const struct glob_names *ignore;
    bool keep_ignored;
    void *user;
    size_t keep_max;      /* how many entries of a directory are wanted, the first by name; 0: all */
    uint64_t deadline_ms; /* when the traversal ends; 0: no deadline */
    /* the current directory */
    int dirfd;
    unsigned depth;                  /* 1: the start */
    char path[LIMIT_PATH_BYTES + 2]; /* relative, with a final '/'; "" for the start */
    size_t path_len;
    struct glob_state states[WALK_GLOBS];
    struct walk_entry *entries;
    size_t count;
    /* what was skipped */
    uint64_t unreadable; /* directories that could not be opened or read */
    bool too_long;       /* a path longer than LIMIT_PATH_BYTES was skipped */
    bool dropped;        /* there were more than keep_max */
    bool timed_out;      /* the deadline has passed */
    /* private */
    char *names;
    size_t names_len, names_cap, entries_cap, cut_at;
    struct walk_level *level;
    bool started, skip_virtual;
    char *buffer;
};

void walk_init(struct walk *walk, int start_fd);
/* Returns 1: the next directory is in the fields above; 0: the end. */
int walk_next(struct walk *walk);
/* Calls each() for every entry of every directory until it returns 0 (enough) or a negative code, which is returned. */
struct err;
int walk_each(struct walk *walk, int (*each)(void *user, const struct walk_entry *entry, struct err *err), void *user,
              struct err *err);
void walk_done(struct walk *walk);

static inline const char *walk_name(const struct walk *walk, const struct walk_entry *entry) {
    return walk->names + entry->name;
}

#endif
