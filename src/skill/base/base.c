/* Changes of a base: a new layer on top; a deep stack is merged into one layer again. Called by own, the fronts that
 * upload, and the sync. Invariants:
 *
 * 1. A layer is complete, on the disk and immutable before agents/AGENT names it. That file defines the base and is
 *    replaced by one rename. A daemon that dies earlier leaves an unnamed layer, which base_collect removes.
 * 2. A change happens under the change lock; the long work (hashing, syncing) is done before.
 * 3. The rows of skills.db change in one transaction around that rename. If it fails, either the rename is undone or
 *    the next read makes the rows again (base_known records their source). */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "skill/base/base.h"
#include "skill/base/view.h"
#include "skill/stage.h"

/* ---- a stage becomes a layer ---- */

/* Makes every skill of the stage opaque, so that it hides those of lower layers, and records it. */
static int base_seal(struct stage *stage, const char *layer, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    autonames names = names_new();
    int r = names_dir(&names, stage->fd, "a new version of skills", err);
    struct base_skill *versions = arena_alloc(&arena, (names.count + 1) * sizeof *versions);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        const char *name = names.names[i];
        r = skill_id_check(name, err);
        if (r == 0 && strcmp(name, BASE_CREATOR) == 0)
            r = err_set(err, ERR_DENIED, "%s belongs to every agent and cannot be replaced", BASE_CREATOR);
        if (r == 0)
            r = base_version(stage->fd, layer, name, &arena, &versions[i], err);
        autofd dir = r == 0 ? skills_dir(stage->fd, name) : -1;
        if (r == 0 && (dir < 0 || fsetxattr(dir, SKILLS_OPAQUE, "y", 1, 0) < 0))
            r = err_errno(
                err, errno,
                "cannot mark the skill '%.200s' (does the state directory's file system keep user.* attributes?)",
                name);
    }
    if (r == 0 && names.count == 0)
        r = err_set(err, ERR_INVALID, "it contains no skill");
    /* agents/AGENT may survive a power failure, and then the layer it names must too. */
    return r < 0 ? r : stage_seal(stage, err) ?: base_versions_keep(stage->skills, versions, names.count, err);
}

/* ---- the change ---- */

/* Links every visible skill into one layer. */
static int base_compact_locked(struct skills *skills, const struct base_view *view, struct base_stack *ret_stack,
                               struct err *err) {
    struct stage stage;
    struct base_stack stack = {.count = 1};
    size_t count = 0;
    autoarena arena = ARENA_EMPTY;
    int r = stage_open(skills, &stage, err);
    if (r < 0)
        return r;
    policy_random_id(stack.names[0]);
    struct base_skill *versions = arena_alloc(&arena, (view->count + 1) * sizeof *versions);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        const struct base_skill *skill = &view->skills[i];
        if (strcmp(skill->layer, view->creator) == 0)
            continue;
        r = stage_link(&stage, skill->layer, skill->skill, err);
        versions[count] = *skill;
        versions[count++].layer = stack.names[0];
    }
    if (r == 0)
        r = stage_seal(&stage, err)
                ?: base_versions_keep(skills, versions, count, err)
                ?: stage_publish(&stage, skills->layers_dir, stack.names[0], err);
    stage_abort(&stage);
    if (r == 0)
        *ret_stack = stack;
    return r;
}

/* Makes the stage the uppermost layer. Rows and agents/AGENT change together: if the rows cannot be written, the file
 * gets its old content. */
static int base_push_locked(struct skills *skills, const char *agent, const struct base_stack *before,
                            struct stage *stage, const char *layer, struct err *err) {
    struct base_stack after = {.count = before->count + 1};
    struct base_view *view = NULL;
    struct db *db;
    memcpy(after.names[0], layer, LAYER_NAME_BYTES);
    memcpy(after.names[1], before->names[0], before->count * LAYER_NAME_BYTES);
    TRY(stage_publish(stage, skills->layers_dir, layer, err));
    int r = base_view_make(skills, &after, &view, err);
    if (r == 0 && after.count > BASE_LAYERS)
        r = base_compact_locked(skills, view, &after, err); /* shows the same skills */
    if (r == 0 && (r = skilldb_begin(skills, &db, err)) == 0) {
        r = base_rows_set(db, agent, view, &after, err) ?: base_stack_write(skills, agent, &after, err);
        if ((r = skilldb_end(skills, r, err)) < 0)
            base_stack_write(skills, agent, before, ERR_IGNORED);
    }
    base_view_put(view);
    if (r < 0)
        skills_discard(skills, skills->layers_dir, layer);
    return r;
}

/* instead: the version that must still be public. removed: the skill that must exist. Both may be NULL. They are
 * checked under the lock: of two requests that remove the same skill, only one succeeds. */
static int base_apply(struct skills *skills, const char *agent, const struct base_skill *instead, const char *removed,
                      struct stage *stage, const char *layer, struct err *err) {
    struct base_stack before;
    struct base_view *view = NULL;
    TRY(skills_lock(skills, err));
    int r = base_stack_read(skills, agent, &before, err);
    const char *skill = instead ? instead->skill : removed;
    if (r == 0 && skill)
        r = base_view_make(skills, &before, &view, err);
    const struct base_skill *now = view && skill ? base_view_find(view, skill) : NULL;
    if (r == 0 && removed && !now)
        r = err_set(err, ERR_NOT_FOUND, "agent '%s' has no public skill '%s'", agent, removed);
    else if (r == 0 && instead && (!now || memcmp(now->sha256, instead->sha256, sizeof now->sha256) != 0))
        r = err_set(err, ERR_EXISTS, "the skill '%.200s' was changed by another request; read it and try again",
                    instead->skill);
    base_view_put(view);
    if (r == 0)
        r = base_push_locked(skills, agent, &before, stage, layer, err);
    skills_unlock(skills);
    return r;
}

int base_put(struct skills *skills, const char *agent, struct stage *stage, struct err *err) {
    return base_put_instead(skills, agent, NULL, stage, err);
}

int base_put_instead(struct skills *skills, const char *agent, const struct base_skill *instead, struct stage *stage,
                     struct err *err) {
    char layer[LAYER_NAME_BYTES];
    policy_random_id(layer);
    int r = policy_agent(agent, err)
            ?: base_seal(stage, layer, err)
            ?: base_apply(skills, agent, instead, NULL, stage, layer, err);
    stage_abort(stage);
    return r;
}

int base_remove(struct skills *skills, const char *agent, const char *skill, struct err *err) {
    struct stage stage;
    char layer[LAYER_NAME_BYTES];
    policy_random_id(layer);
    int r = policy_agent(agent, err) ?: skill_id_check(skill, err);
    if (r == 0 && strcmp(skill, BASE_CREATOR) == 0)
        r = err_set(err, ERR_DENIED, "%s belongs to every agent and cannot be removed", BASE_CREATOR);
    if (r < 0 || (r = stage_open(skills, &stage, err)) < 0)
        return r;
    if (mknodat(stage.fd, skill, S_IFCHR | 0600, makedev(0, 0)) < 0)
        r = err_errno(err, errno, "cannot make the whiteout that removes '%.200s'", skill);
    if (r == 0)
        r = stage_seal(&stage, err) ?: base_apply(skills, agent, NULL, skill, &stage, layer, err);
    stage_abort(&stage);
    return r;
}
