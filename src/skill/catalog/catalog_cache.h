/* The cache of catalogues between calls. Used by catalog only. */
#ifndef CUBBY_SKILL_CATALOG_CACHE_H
#define CUBBY_SKILL_CATALOG_CACHE_H

#include "skill/catalog/catalog.h"

struct catalog_item { /* a candidate for an entry */
    const char *id, *path, *file, *source;
    unsigned rank;                  /* of the source; 0 is the first */
    uint64_t size, mtime_ns, inode; /* of the file */
    bool fixed;                     /* it is a regular file with known values, so its content may be cached */
    bool listed;                    /* false: not known yet whether it has a file */
    bool read;                      /* meta or bad is filled */
    uint64_t read_ms, read_wall_ns;
    struct meta meta;
    const char *bad; /* why it cannot be an entry; NULL: it can */
};

/* Copies without the body. Adds the size to *bytes. */
struct meta catalog_copy(struct arena *arena, const struct meta *meta, size_t *bytes);
/* what: which of a box's catalogues. Fills items from valid cached ones (read, meta, bad; in the arena). Returns how
 * many items were not cached. */
size_t catalogs_fill(struct catalogs *catalogs, const char *box, const char *what, struct catalog_item *items,
                     size_t count, struct arena *arena, size_t *bytes);
void catalogs_store(struct catalogs *catalogs, const char *box, const char *what, const struct catalog_item *items,
                    size_t count);
/* A whole catalogue of one directory, cached while its token stays the same. */
struct catalog_token {
    uint64_t changes, generation; /* box_changes; base_generation of the box's public skills */
};
bool catalogs_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                    struct arena *arena, struct catalog *ret_catalog);
void catalogs_keep_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                         const struct catalog *catalog);
catalogs_base catalogs_base_of(const struct catalogs *catalogs, void **ret_user);

#endif
