/* Globs over paths: `**` crosses directories, `*` and `?` stay in one name, `[a-z]`, `[!a]`, `\x`, and `{a,b}`.
 *
 * A pattern is compiled into components. A path is matched one name at a time by a set of positions, so the cost of a
 * step is bounded by the number of components, and a traversal prunes directories that cannot match. Leading dots are
 * matched like any other byte, unless set otherwise. Depends only on libc: unit-tested and fuzzed on the host. */
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
    bool visible;   /* set by the caller: only a part that begins with a dot matches a leading dot */
    struct glob_state start;
    char *text;
};

/* Returns NULL, or why the pattern is refused (a static text). Absolute patterns lose their leading '/'. */
const char *glob_compile(struct glob *glob, const char *pattern, size_t len);
/* Compiles several patterns, any of which suffices. Those without a '/' match the last name, at any depth. *ret_bad:
 * the refused one. */
const char *glob_compile_any(struct glob *glob, const char *const *patterns, size_t count, const char **ret_bad);
void glob_done(struct glob *glob);

/* Matches one more name. Returns true if the path ending in this name matches. *ret_next (may be NULL): what its
 * children may match; all zero: nothing. */
bool glob_step(const struct glob *glob, const struct glob_state *state, const char *name, size_t len,
               struct glob_state *ret_next);
bool glob_alive(const struct glob_state *state);
bool glob_match(const struct glob *glob, const char *path);  /* a whole relative path */
bool glob_covers(const struct glob *glob, const char *path); /* matches it or a parent directory */

/* Many alternatives for one name, checked for every name of a traversal: for most names the first and last byte show
 * that none can match. */
struct glob_names {
    struct glob glob;
    uint64_t first[4], last[4]; /* bytes with which a matching name may begin or end */
    bool any;                   /* any bytes may match */
};
const char *glob_names_compile(struct glob_names *names, const char *pattern, size_t len); /* as glob_compile */
bool glob_names_match(const struct glob_names *names, const char *name, size_t len);

#endif
