/* The public skills of an agent: a stack of layers. Every layer holds whole skills; the uppermost layer that has a name
 * wins. A change adds a layer (a removal adds a whiteout); a deep stack is merged into one layer by hard links. The
 * file agents/AGENT defines the stack. It changes under STATE/skills/lock (flock; several daemons), with skills.db in
 * one transaction. */
#ifndef CUBBY_SKILL_BASE_H
#define CUBBY_SKILL_BASE_H

#include "skill/stage.h"

#define BASE_CREATOR "skill-creator" /* in every agent's base (settings.creator); agents cannot change it */

struct base_skill {
    const char *skill, *layer;      /* valid during the callback, or in the arena */
    const char *name, *description; /* from its SKILL.md (meta.h) */
    uint8_t sha256[32];             /* of its tree (digest.h) */
    uint64_t files, bytes, changed_ms;
};

/* Replaces, whole, each skill that is a top directory of the stage. Other skills stay. Takes ownership of the stage.
 * A running box gets the new version as soon as none of its commands uses the old one. */
int base_put(struct skills *skills, const char *agent, struct stage *stage, struct err *err);
/* The same, if that version of a skill is still the public one. EXISTS: it is not. */
int base_put_instead(struct skills *skills, const char *agent, const struct base_skill *instead, struct stage *stage,
                     struct err *err);
/* Applies `change` to one file of a public skill (as "" if the file does not exist). The other files of the skill are
 * linked. NOT_FOUND: no such skill. */
typedef int (*base_change)(void *user, const char *text, size_t len, struct buf *out, struct err *err);
int base_edit(struct skills *skills, const char *agent, const char *skill, const char *path, base_change change,
              void *user, struct err *err);
/* base_put with the skills of a checked archive, which the caller keeps (skill/base/archive.c). */
struct zip;
int base_put_zip(struct skills *skills, const char *agent, struct zip *zip, struct err *err);
int base_remove(struct skills *skills, const char *agent, const char *skill,
                struct err *err); /* NOT_FOUND: no such skill */
int base_each(struct skills *skills, const char *agent, int (*each)(void *user, const struct base_skill *skill),
              void *user, struct err *err); /* in order of name */
int base_find(struct skills *skills, const char *agent, const char *skill, struct arena *arena,
              struct base_skill *ret_skill, struct err *err);
/* Opens the skill's directory for reading. */
int base_open(struct skills *skills, const struct base_skill *skill, int *ret_fd, struct err *err);
/* Opens a file or directory of the public skills at "SKILL" or "SKILL/PATH", as the box of a user without changes shows
 * it. NOT_FOUND: no such file. */
struct stat;
int base_path_open(struct skills *skills, const char *agent, const char *path, int flags, int *ret_fd,
                   struct stat *ret_status, struct err *err);
/* Calls `each` for every regular file below such a directory ("": all skills), as "SKILL/PATH". */
int base_files(struct skills *skills, const char *agent, const char *path, int (*each)(void *user, const char *path),
               void *user, struct err *err);
/* own_zip of the public version (own/zip.c). */
int base_zip(struct skills *skills, const char *owner, const char *agent, const char *skill,
             int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);
/* Names of the layers, uppermost first, NULL-terminated, in the arena; the lowest holds skill-creator, if
 * configured. */
int base_layers(struct skills *skills, const char *agent, struct arena *arena, const char ***ret_layers,
                size_t *ret_count, struct err *err);
uint64_t base_generation(struct skills *skills, const char *agent); /* differs after every change; cheap */

/* ---- the table agent_skill_registry: user NULL means public ---- */
struct skill_row {
    int64_t id;
    const char *agent, *skill, *user; /* user NULL: public */
    uint64_t created_ms;
};
/* agent NULL: all agents. user: the public rows and that user's; NULL: those of all users. */
int base_rows(struct skills *skills, const char *agent, const char *user,
              int (*each)(void *each_user, const struct skill_row *row), void *each_user, struct err *err);
/* Replaces the rows of a user's own skills for an agent by these (NULL-terminated). */
int base_user_rows(struct skills *skills, const char *agent, const char *user, const char *const *skill_ids,
                   struct err *err);
/* false: skills.db was lost, and the user's rows must be made again from their box. */
int base_user_known(struct skills *skills, const char *agent, const char *user, bool *ret_known, struct err *err);

#endif
