/* The skills and sub-agents of a box, for a prompt and as data. Sources, in order: {workspace}/skills (personal),
 * /skills (the agent's), {workspace}/.skills (global); for sub-agents {workspace}/agents and {workspace}/.agents. The
 * first of a name counts. Everything is read through verbs, on every backend, and one bad file never makes it fail.
 * Cached content of a file is used while a listing (one round trip per directory and call) shows the same name, size,
 * time and inode; a catalogue of /skills is cached while the box's runner counts no change (box_changes). */
#ifndef CUBBY_SKILL_CATALOG_H
#define CUBBY_SKILL_CATALOG_H

#include "base/buf.h"
#include "box/box.h"
#include "skill/catalog/meta.h"

/* The cache of files of many boxes, bounded. Callable from any thread. */
struct catalogs;
struct catalogs *catalogs_new(void);
void catalogs_free(struct catalogs *catalogs);                   /* NULL is allowed */
void catalogs_keep(struct catalogs *catalogs, uint64_t keep_ms); /* the default is 5 minutes */
/* Returns the names of an agent's public skills, sorted, NULL-terminated, in the arena; other skills in /skills are the
 * user's own. Without this callback all of /skills is the agent's. Set before the first call. */
typedef int (*catalogs_base)(void *user, const char *agent, struct arena *arena, const char ***ret_names,
                             size_t *ret_count, struct err *err);
void catalogs_public(struct catalogs *catalogs, catalogs_base base, void *user);

struct catalog_entry {
    const char *id;     /* the folder's name, or the file's without .md */
    const char *path;   /* of the folder, or of a sub-agent's file, in the box */
    const char *file;   /* the file that describes it; NULL: the folder has none */
    const char *source; /* "personal", "agent", "global" */
    struct meta meta;   /* without its body */
};
struct catalog {
    const struct catalog_entry *entries; /* sorted by name */
    size_t count;
    const char *const *bad; /* "PATH: why" for whatever could not be read; UTF-8, NULL-terminated */
};
/* Without catalogs (NULL) nothing is cached. */
int catalog_skills(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
int catalog_agents(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
/* Every folder of a directory, sorted by id. Equal names hide nothing; a folder that cannot be read gets its own
 * name. */
int catalog_folder(struct catalogs *catalogs, struct box *box, const char *dir, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
/* Finds by id, else by name. NULL: not found. */
const struct catalog_entry *catalog_find(const struct catalog *catalog, const char *name);
/* Returns the first 50 names, separated by commas. */
const char *catalog_names(const struct catalog *catalog, struct arena *arena);
int catalog_read(struct box *box, const char *path, size_t most, struct arena *arena, int watch, const char **ret_text,
                 size_t *ret_len, struct err *err);
/* Writes the block for a system prompt, escaped; nothing for an empty catalogue. */
void catalog_prompt_skills(const struct catalog *catalog, const char *workspace, struct buf *out);
void catalog_prompt_agents(const struct catalog *catalog, const char *workspace, struct buf *out);

#endif
