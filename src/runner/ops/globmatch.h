/* Globs over paths: `**` crosses directories, `*` and `?` stay in one name, `[a-z]`, `[!a]`, `\x`, and `{a,b}`.
 *
 * A pattern is compiled into components; a path is matched one name at a time by a set of positions, so the cost of
 * a step is bounded by the number of components whatever the pattern, and a traversal prunes directories that lead
 * nowhere. Leading dots are matched like any other byte, unless it is set otherwise. Depends on libc alone:
 * unit-tested and fuzzed on the host. */
#ifndef CUBBY_RUNNER_GLOBMATCH_H
#define CUBBY_RUNNER_GLOBMATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLOB_PARTS 256u   /* components of all alternatives together */
#define GLOB_BYTES 65536u /* of all alternatives together */

enum glob_kind { GLOB_LITERAL, GLOB_ANY, GLOB_SUFFIX, GLOB_GENERAL, GLOB_DEEP };

struct glob_part {
    enum glob_kind kind;
    bool last;        /* the path ends here */
    const char *text; /* for SUFFIX without its star; into struct glob */
    uint32_t len;
};

struct glob_state { /* which parts the next name may match */
    uint64_t bits[GLOB_PARTS / 64];
};

struct glob {
    struct glob_part parts[GLOB_PARTS];
    size_t count;
    bool dirs_only; /* the pattern ended in '/' */
    bool visible;   /* set by the caller: a leading dot is matched only by a part that begins with one */
    struct glob_state start;
    char *text;
};

/* NULL, or why the pattern is refused (a static text). Absolute patterns lose their leading '/'. */
const char *glob_compile(struct glob *glob, const char *pattern, size_t len);
/* Several patterns, any of which is enough. Those without a '/' are about the last name, at any depth. *ret_bad:
 * which one. */
const char *glob_compile_any(struct glob *glob, const char *const *patterns, size_t count, const char **ret_bad);
void glob_done(struct glob *glob);

/* One name further. True when the path ending in this name matches; *ret_next is what its children may match (all zero:
 * none can). ret_next may be NULL. */
bool glob_step(const struct glob *glob, const struct glob_state *state, const char *name, size_t len,
               struct glob_state *ret_next);
bool glob_alive(const struct glob_state *state);
bool glob_match(const struct glob *glob, const char *path);  /* a whole relative path */
bool glob_covers(const struct glob *glob, const char *path); /* it, or a directory that it lies in */

/* Many alternatives for one name, checked for every name of a traversal: for most names the first and last byte show
 * that none can match. */
struct glob_names {
    struct glob glob;
    uint64_t first[4], last[4]; /* bytes that a name may begin or end with to match */
    bool any;                   /* or it may whatever they are */
};
const char *glob_names_compile(struct glob_names *names, const char *pattern, size_t len); /* as glob_compile */
bool glob_names_match(const struct glob_names *names, const char *name, size_t len);

#endif
