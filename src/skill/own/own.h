/* A user's skills: those the user added or changed in /skills of their box for an agent. Everything goes through the
 * box's verbs, on every backend. Readers and commands share the box (box_share), a change of a whole skill has it
 * alone (box_alone): no call sees half of a skill. */
#ifndef CUBBY_SKILL_OWN_H
#define CUBBY_SKILL_OWN_H

#include "skill/base/base.h"
#include "skill/zip/zip.h"

struct own_change {      /* the result of a change */
    bool pending;        /* commands still use the old version: applied when the last has ended, also after a restart */
    unsigned background; /* background processes that run in the box and may hold the old version */
    const char *const *skills; /* names, sorted, NULL-terminated, in the arena */
};
/* The skills of a checked archive replace the user's, each whole. `zip` stays the caller's; a pending one is copied.
 * merges: files of the public skill that the archive lacks are added. */
int own_put(struct skills *skills, struct box *box, struct zip *zip, bool merges, struct arena *arena,
            struct own_change *ret_change, int watch, struct err *err);
int own_remove(struct skills *skills, struct box *box, const char *skill, struct own_change *ret_change,
               struct err *err);
/* Base to user (the user's copy becomes the base's) and user to base. NOT_FOUND: in neither; where only the target has
 * it, it is removed there. */
int own_from_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err);
int own_to_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err);
enum own_status { OWN_UNCHANGED, OWN_MODIFIED, OWN_LOCAL_ONLY, OWN_OUT_OF_SYNC };
/* By content, never by time. synced_ms 0: never. */
int own_status(struct skills *skills, struct box *box, const char *agent, const char *skill,
               enum own_status *ret_status, uint64_t *ret_synced_ms, struct err *err);
/* How boxes get skills: for the provider's policy. before_use applies pending changes and the newest base if the box
 * is available alone at once, else when no thread shares it any more; cheap when there is nothing to do. Also for
 * boxes without an agent (sync.h). */
struct box_hooks own_hooks(struct skills *skills);
/* A verb is about to change files of the skill: from now on the user has their own version, started from the present
 * base. */
void own_touched(struct skills *skills, struct box *box, const char *skill);
/* The box was deleted, with all files of its user: its rows are removed before they are read again. thread: the
 * box's, may be NULL. Never waits: it may be called under the provider's lock. */
void own_forget(struct skills *skills, const char *box_id, const char *user, const char *thread);
void own_forgotten(struct skills *skills); /* called by readers: does what own_forget left to do */
/* A ZIP of one skill as the box shows it; deterministic; entries SKILL/PATH. */
int own_zip(struct skills *skills, struct box *box, const char *skill, int watch,
            int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);

#endif
