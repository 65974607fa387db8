/* The cache of catalogues between calls: content of the files of a box. Used by catalog alone. */
#ifndef CUBBY_SKILL_CATALOG_CACHE_H
#define CUBBY_SKILL_CATALOG_CACHE_H

#include "skill/catalog/catalog.h"

struct catalog_item { /* a candidate for an entry */
    const char *id, *path, *file, *source;
    unsigned rank;                  /* of the source: 0 goes first */
    uint64_t size, mtime_ns, inode; /* of the file */
    bool fixed;                     /* those are known and belong to a regular file: its content may be kept */
    bool listed;                    /* false: whether there is a file is to be found out */
    bool read;                      /* meta or bad is filled */
    uint64_t read_ms, read_wall_ns;
    struct meta meta;
    const char *bad; /* why it cannot be an entry; NULL: it can */
};

/* Without its body; *bytes grows by its size. */
struct meta catalog_copy(struct arena *arena, const struct meta *meta, size_t *bytes);
/* what: which of a box's catalogues. Fills items from valid cached ones (read, meta, bad; in the arena). Returns how
 * many were not cached. */
size_t catalogs_fill(struct catalogs *catalogs, const char *box, const char *what, struct catalog_item *items,
                     size_t count, struct arena *arena, size_t *bytes);
void catalogs_store(struct catalogs *catalogs, const char *box, const char *what, const struct catalog_item *items,
                    size_t count);
/* A whole catalogue of one directory, kept while its token stays. */
struct catalog_token {
    uint64_t changes, generation; /* box_changes; of the public skills that the box has */
};
bool catalogs_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                    struct arena *arena, struct catalog *ret_catalog);
void catalogs_keep_whole(struct catalogs *catalogs, const char *box, const char *what, struct catalog_token token,
                         const struct catalog *catalog);
catalogs_base catalogs_base_of(const struct catalogs *catalogs, void **ret_user);

#endif
