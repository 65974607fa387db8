/* The metadata of a skill or a sub-agent: the front matter of SKILL.md (a small YAML: plain, quoted, block and
 * folded texts, lists), else the first heading of skill.md or README.md, else the folder's name. Pure. */
#ifndef CUBBY_SKILL_META_H
#define CUBBY_SKILL_META_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct meta {
    const char *name, *description;                           /* UTF-8, in the arena; never NULL */
    const char *author, *version, *license, *model, *sharing; /* NULL: not given */
    const char *const *tags, *const *tools;                   /* NULL-terminated; NULL: not given */
    bool memory, send_message, spawn_agent;                   /* a sub-agent's capabilities */
    const char *body;                                         /* the text after the front matter, trimmed */
    bool described;                                           /* false: description is the default text */
};
#define META_NO_DESCRIPTION "No description available." /* the default */
enum { META_BYTES = 64 << 10 };                         /* how much of a file is read */

/* Decodes to UTF-8 without a byte order mark or NULs, with \n as line ending; in the arena. Reads at most 4 MiB. */
const char *meta_text(struct arena *arena, const void *bytes, size_t len, size_t *ret_len);
/* folder: the fallback for the name. Reads UTF-8, UTF-16 with a byte order mark, and repairs anything else. */
void meta_skill(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
void meta_heading(struct arena *arena, const char *folder, const char *text, size_t len, struct meta *ret_meta);
/* false: not a sub-agent's file (no front matter, or an invalid name); *ret_why is in the arena. */
bool meta_agent(struct arena *arena, const char *file, const char *text, size_t len, struct meta *ret_meta,
                const char **ret_why);

#endif
