/* A user's skills: those the user added or changed in /skills of their box for an agent. Everything goes through the
 * box's verbs, on every backend. Readers and commands share the box (box_share); a change of a whole skill holds it
 * exclusively (box_alone). So no call sees half of a skill. */
#ifndef CUBBY_SKILL_OWN_H
#define CUBBY_SKILL_OWN_H

#include "skill/base/base.h"
#include "skill/zip/zip.h"

struct own_change {            /* the result of a change */
    bool pending;              /* commands use the old version; applied when the last one ends, also after a restart */
    unsigned background;       /* background processes of the box, which may use the old version */
    const char *const *skills; /* names, sorted, NULL-terminated, in the arena */
};
/* Replaces the user's skills by those of a checked archive, each whole. The caller keeps `zip`; a pending change has
 * its own copy. merges: adds files of the public skill that the archive lacks. */
int own_put(struct skills *skills, struct box *box, struct zip *zip, bool merges, struct arena *arena,
            struct own_change *ret_change, int watch, struct err *err);
int own_remove(struct skills *skills, struct box *box, const char *skill, struct own_change *ret_change,
               struct err *err);
/* Copies a skill from the base to the user, and from the user to the base. If only the target has it, it is removed
 * there. NOT_FOUND: neither has it. */
int own_from_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err);
int own_to_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err);
enum own_status { OWN_UNCHANGED, OWN_MODIFIED, OWN_LOCAL_ONLY, OWN_OUT_OF_SYNC };
/* Compares contents, not times. synced_ms 0: never. */
int own_status(struct skills *skills, struct box *box, const char *agent, const char *skill,
               enum own_status *ret_status, uint64_t *ret_synced_ms, struct err *err);
/* How boxes get skills, for the provider's policy. before_use applies pending changes and the current base: at once if
 * nothing shares the box, else when the last sharer leaves. It is cheap when there is nothing to do, and also serves
 * boxes without an agent (sync.h). */
struct box_hooks own_hooks(struct skills *skills);
/* A verb is about to change files of the skill: the user now has their own version, started from the present base. */
void own_touched(struct skills *skills, struct box *box, const char *skill);
/* Called when a box was deleted with all its files: its rows are removed before they are read again. thread: the box's,
 * may be NULL. Never blocks, so it may be called under the provider's lock. */
void own_forget(struct skills *skills, const char *box_id, const char *user, const char *thread);
void own_forgotten(struct skills *skills); /* called by readers; removes the rows that own_forget noted */
/* Writes a ZIP of one skill as the box shows it; deterministic; entries SKILL/PATH. */
int own_zip(struct skills *skills, struct box *box, const char *skill, int watch,
            int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);

#endif
