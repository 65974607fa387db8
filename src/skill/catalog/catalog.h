/* The skills and sub-agents of a box, for a prompt and as data. Personal ones come before the agent's, then global
 * ones; the first of a name counts: {workspace}/skills, /skills, {workspace}/.skills; {workspace}/agents,
 * {workspace}/.agents. Read through verbs, on every backend; one bad file never makes it fail. The content of a file
 * is kept while a listing (one round trip per directory, at every call) shows the same name, size, time and inode.
 * All of /skills is kept while the box's runner counts no change (box_changes). */
#ifndef CUBBY_SKILL_CATALOG_H
#define CUBBY_SKILL_CATALOG_H

#include "base/buf.h"
#include "box/box.h"
#include "skill/catalog/meta.h"

/* Cached files, of many boxes; within bounds. From any thread. */
struct catalogs;
struct catalogs *catalogs_new(void);
void catalogs_free(struct catalogs *catalogs);                   /* NULL is fine */
void catalogs_keep(struct catalogs *catalogs, uint64_t keep_ms); /* 5 minutes unless said */
/* The names of an agent's public skills, sorted, NULL-terminated, in the arena: other skills in /skills are the user's
 * own. Without it all of /skills is the agent's. Set before the first call. */
typedef int (*catalogs_base)(void *user, const char *agent, struct arena *arena, const char ***ret_names,
                             size_t *ret_count, struct err *err);
void catalogs_public(struct catalogs *catalogs, catalogs_base base, void *user);

struct catalog_entry {
    const char *id;     /* folder, or file without .md */
    const char *path;   /* folder, or file of a sub-agent, in the box */
    const char *file;   /* that describes it; NULL: the folder has none */
    const char *source; /* "personal", "agent", "global" */
    struct meta meta;   /* without its body */
};
struct catalog {
    const struct catalog_entry *entries; /* by name */
    size_t count;
    const char *const *bad; /* "PATH: why" of what could not be read; UTF-8, NULL-terminated */
};
/* catalogs NULL: nothing is kept. */
int catalog_skills(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
int catalog_agents(struct catalogs *catalogs, struct box *box, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
/* Every folder of one directory, by id. Equal names hide nothing, and a folder that cannot be read has its own name. */
int catalog_folder(struct catalogs *catalogs, struct box *box, const char *dir, struct arena *arena, int watch,
                   struct catalog *ret_catalog, struct err *err);
/* By id, else by name; NULL: none. */
const struct catalog_entry *catalog_find(const struct catalog *catalog, const char *name);
/* The names, the first 50 of them, with commas. */
const char *catalog_names(const struct catalog *catalog, struct arena *arena);
int catalog_read(struct box *box, const char *path, size_t most, struct arena *arena, int watch, const char **ret_text,
                 size_t *ret_len, struct err *err);
/* The block for a system prompt, escaped; nothing for an empty catalogue. */
void catalog_prompt_skills(const struct catalog *catalog, const char *workspace, struct buf *out);
void catalog_prompt_agents(const struct catalog *catalog, const char *workspace, struct buf *out);

#endif
