/* Walks over trees of skills on this machine. Private to skill/. Their hash is by the rule of digest.h: base_tree_hash. */
#ifndef CUBBY_SKILL_TREE_H
#define CUBBY_SKILL_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A tree of ours (immutable or nobody else's), parents first; at most LIMIT_LIST_DEPTH deep. Nothing is followed. */
struct tree_entry {
    const char *path;
    char kind;  /* 'd', 'f', 'x', 'l'; 0: something else */
    int parent; /* its directory, and its name there */
    const char *name;
    uint64_t size, changed_ms;
};
int tree_walk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
              struct err *err);

#endif
