/* What a user has of his own, found out from his box: for a skills.db that was lost. Called once a box by own_settle. Invariant:
 * nothing in the box changes, and a box that is new costs nothing. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "skill/names.h"
#include "skill/own/rows.h"
#include "skill/skills.h"

struct rebuild {
    struct skills *skills;
    struct box *box;
    struct names *own;
};

/* One that cannot be compared now (it went, it is too large) is not said to be his. */
static int compare(void *user, const struct base_skill *skill) {
    struct rebuild *rebuild = user;
    enum own_status status = OWN_UNCHANGED;
    uint64_t synced_ms;
    struct err ignored;
    if (own_status(rebuild->skills, rebuild->box, rebuild->box->spec.agent, skill->skill, &status, &synced_ms,
                   &ignored) == 0 &&
        status != OWN_UNCHANGED)
        names_add(rebuild->own, skill->skill);
    return 0;
}

/* A file of his own below /skills. They come directory by directory. */
static int changed(void *user, const struct file_change *change) {
    static const char top[] = SKILL_PATH "/";
    struct names *own = user;
    char name[LIMIT_NAME_BYTES + 1];
    struct err ignored;
    if (strncmp(change->path, top, sizeof top - 1) != 0)
        return 0;
    const char *at = change->path + sizeof top - 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "/"), at);
    if (skill_id_check(name, &ignored) == 0 && (own->count == 0 || strcmp(own->names[own->count - 1], name) != 0))
        names_add(own, name);
    return 0;
}

/* The box's own layer tells; where it has none, or too much is in it, contents are compared. */
static int rebuild_look(struct rebuild *rebuild, struct err *err) {
    bool truncated = true;
    int r = box_diff(rebuild->box, LIMIT_DIFF_LIMIT, -1, changed, rebuild->own, &truncated, err);
    if (r == 0 && !truncated)
        return 0;
    return base_each(rebuild->skills, rebuild->box->spec.agent, compare, rebuild, err);
}

void own_rows_rebuild(struct skills *skills, struct box *box) {
    struct names own;
    struct err err;
    bool known = true;
    if (box->created_ms >= skills->opened_ms) /* what he puts into it is written down as it comes */
        return;
    struct rebuild rebuild = {.skills = skills, .box = box, .own = &own};
    int r = base_user_known(skills, box->spec.agent, box->user, &known, &err);
    if (r == 0 && known)
        return;
    names_init(&own);
    if (r == 0)
        r = rebuild_look(&rebuild, &err);
    if (r == 0)
        own_rows_update(skills, box, own.names);
    else
        log_warn("box %s: its skills are not listed: %s", box->id, err.text);
    names_done(&own);
}
