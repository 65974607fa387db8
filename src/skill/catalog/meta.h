/* The metadata of a skill or a sub-agent: the front matter of SKILL.md (a small YAML: plain, quoted, block and
 * folded texts, lists), else the first heading of skill.md or README.md, else the folder's name. Pure: bytes in,
 * texts out. */
#ifndef CUBBY_SKILL_META_H
#define CUBBY_SKILL_META_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct meta {
    const char *name, *description;                           /* UTF-8, in the arena; never NULL */
    const char *author, *version, *license, *model, *sharing; /* NULL: not said */
    const char *const *tags, *const *tools;                   /* NULL-terminated; NULL: not said */
    bool memory, send_message, spawn_agent;                   /* a sub-agent's capabilities */
    const char *body;                                         /* below the front matter, trimmed */
    bool described;                                           /* description was there; else it is the default text */
};
enum { META_BYTES = 64 << 10 }; /* of a file that is looked at */

/* UTF-8 without a mark and without NULs, lines ended by \n alone; in the arena. At most its first 4 MiB. */
const char *meta_text(struct arena *arena, const void *bytes, size_t len, size_t *ret_len);
/* folder: the name to fall back to. UTF-8 with or without a mark, UTF-16 by its mark; whatever else is repaired. */
void meta_skill(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
void meta_heading(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
/* false: not a sub-agent's file (no front matter, a name outside its grammar); why in the arena */
bool meta_agent(struct arena *arena, const char *file, const char *text, size_t len, struct meta *ret_meta,
                const char **ret_why);

#endif
