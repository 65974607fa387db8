/* Traverses a tree, one directory at a time, sorted by name within each. Used by list, glob, grep, tar, watch and
 * moves. No descriptor but the current directory's is held, links are never followed, memory is the names of one
 * directory and of the directories still to come. */
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
    WALK_ONLY,   /* a directory in which nothing can match is not visited; keep() itself checks for matches */
    WALK_ALSO,   /* the same, in addition */
    WALK_EXCEPT, /* matching entries are left out, with all below */
    WALK_GLOBS,
};

struct walk_level;
struct walk {
    int start_fd;       /* not closed here */
    unsigned max_depth; /* 1: only the start */
    bool sorted;
    /* Which entries to keep; NULL: all. Directories not kept are still visited when *descend stays set. */
    bool (*keep)(struct walk *walk, const char *name, size_t len, uint8_t type, bool *descend);
    /* Patterns over paths from the start on; each may be NULL. Their states are kept from directory to directory. */
    const struct glob *globs[WALK_GLOBS];
    /* Names that match it are left out, at any depth but the start; with keep_ignored they are kept and not
     * descended into. */
    const struct glob_names *ignore;
    bool keep_ignored;
    void *user;
    size_t keep_max;      /* 0: all. Of one directory only so many entries are wanted, the first by name */
    uint64_t deadline_ms; /* 0: none. Then the traversal ends */
    /* the current directory */
    int dirfd;
    unsigned depth;                  /* 1: the start */
    char path[LIMIT_PATH_BYTES + 2]; /* relative, with a final '/'; "" for the start */
    size_t path_len;
    struct glob_state states[WALK_GLOBS];
    struct walk_entry *entries;
    size_t count;
    /* entries that could not be read */
    uint64_t unreadable; /* directories that could not be opened or read */
    bool too_long;       /* a path longer than LIMIT_PATH_BYTES was left out */
    bool dropped;        /* there was more than keep_max */
    bool timed_out;      /* the deadline came */
    /* private */
    char *names;
    size_t names_len, names_cap, entries_cap, cut_at;
    struct walk_level *level;
    bool started, skip_virtual;
    char *buffer;
};

void walk_init(struct walk *walk, int start_fd);
/* 1: the next directory is in the fields above; 0: the end. */
int walk_next(struct walk *walk);
/* Every entry of every directory, until each() returns 0 (enough) or a negative code, which is returned. */
struct err;
int walk_each(struct walk *walk, int (*each)(void *user, const struct walk_entry *entry, struct err *err), void *user,
              struct err *err);
void walk_done(struct walk *walk);

static inline const char *walk_name(const struct walk *walk, const struct walk_entry *entry) {
    return walk->names + entry->name;
}

#endif
