/* Changing a base: a layer more on top, a deep stack made one again, layers that nobody needs removed. Called by own, the
 * fronts that upload, and the sync. Invariant:
 *
 * 1. A layer is whole, on the disk and never changed again before agents/AGENT names it; that file is the truth, and is
 *    replaced by one rename. Whatever dies before it leaves a layer that nobody names, and that goes (base_collect).
 * 2. All of it under the change lock; the long work (hashing, syncing) before it.
 * 3. The rows of skills.db change in one transaction around that rename. It ends with the rename undone, or is made good
 *    by the next look (base_known says what the rows tell of). */
#include "skill/base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/fd.h"
#include "skill/base/rows.h"
#include "skill/base/view.h"
#include "skill/garbage.h"
#include "skill/stage.h"

/* ---- a stage becomes a layer ---- */

struct sealing {
    struct arena *arena;
    const char *layer;
    struct base_skill *versions;
    size_t count, cap;
};

/* A whole skill: nothing of the layers below is seen through it. */
static int seal_skill(struct sealing *sealing, int stage_dir, const char *name, struct err *err) {
    if (sealing->count == sealing->cap) {
        sealing->cap = sealing->cap ? sealing->cap * 2 : 16;
        struct base_skill *more = arena_alloc(sealing->arena, sealing->cap * sizeof *more);
        if (sealing->count)
            memcpy(more, sealing->versions, sealing->count * sizeof *more);
        sealing->versions = more;
    }
    int r = base_version(stage_dir, sealing->layer, name, sealing->arena, &sealing->versions[sealing->count], err);
    if (r < 0)
        return r;
    autofd dir = openat(stage_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0)
        return err_errno(err, errno,
                         "the skill '%.200s' (does the state directory's file system keep user.* attributes?)", name);
    sealing->count++;
    return 0;
}

static int seal_skills(struct sealing *sealing, const struct stage *stage, struct err *err) {
    int fd = openat(stage->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "a new version of skills");
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = skill_id_check(entry->d_name, err);
        if (r == 0 && strcmp(entry->d_name, BASE_CREATOR) == 0)
            r = err_set(err, ERR_DENIED, "%s belongs to every agent and cannot be replaced", BASE_CREATOR);
        if (r == 0)
            r = seal_skill(sealing, fd, entry->d_name, err);
    }
    closedir(dir);
    return r;
}

/* On the disk, all of it: the file that names it may outlive a power failure, and then so must it. */
static int seal_end(const struct stage *stage, struct err *err) {
    if ((geteuid() == 0 && fchown(stage->fd, IDS_AGENT, IDS_AGENT) < 0) || fchmod(stage->fd, 0755) < 0)
        return err_errno(err, errno, "a new version of skills");
    return stage_sync(stage, err);
}

static int versions_keep(struct skills *skills, const struct sealing *sealing, struct err *err) {
    struct db *db;
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    if ((r = db_begin(db, err)) == 0)
        r = db_end(db, base_versions_keep(db, sealing->versions, sealing->count, err), err);
    skilldb_give(skills);
    return r;
}

/* ---- the change ---- */

struct change {
    struct skills *skills;
    const char *agent;
    struct base_stack before, after;
    const struct base_skill *instead; /* it counts only while this is the version; NULL: in any case */
};

/* Rows and truth together. Where the rows cannot be kept, the truth goes back to what it was. */
static int change_write_locked(struct change *change, const struct base_view *view, struct err *err) {
    struct db *db;
    struct err ignored;
    int r = skilldb_take(change->skills, &db, err);
    if (r < 0)
        return r;
    if ((r = db_begin(db, err)) == 0) {
        r = base_rows_set(db, change->agent, view, &change->after, err);
        if (r == 0)
            r = base_stack_write(change->skills, change->agent, &change->after, err);
        if ((r = db_end(db, r, err)) < 0)
            base_stack_write(change->skills, change->agent, &change->before, &ignored);
    }
    skilldb_give(change->skills);
    return r;
}

/* Every skill that is seen, by links, in one layer. */
static int compact_locked(struct change *change, const struct base_view *view, struct err *err) {
    struct stage stage;
    char name[LAYER_NAME_BYTES];
    autoarena arena = ARENA_EMPTY;
    struct sealing sealing = {.arena = &arena, .layer = name, .versions = NULL};
    policy_random_id(name);
    int r = stage_open(change->skills, &stage, err);
    if (r < 0)
        return r;
    sealing.versions = arena_alloc(&arena, (view->count + 1) * sizeof *sealing.versions);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        const struct base_skill *skill = &view->skills[i];
        if (strcmp(skill->layer, view->creator) == 0)
            continue;
        r = stage_link(&stage, skill->layer, skill->skill, err);
        sealing.versions[sealing.count] = *skill;
        sealing.versions[sealing.count++].layer = name;
    }
    if (r == 0)
        r = seal_end(&stage, err);
    if (r == 0)
        r = versions_keep(change->skills, &sealing, err);
    if (r == 0)
        r = stage_take(&stage, change->skills->layers_dir, name, err);
    stage_abort(&stage);
    if (r == 0) {
        change->after = (struct base_stack){.count = 1};
        memcpy(change->after.names[0], name, sizeof name);
    }
    return r;
}

static int change_end_locked(struct change *change, struct err *err) {
    struct base_view *view = NULL;
    int r = base_view_make(change->skills, &change->after, &view, err);
    if (r == 0 && change->after.count > BASE_LAYERS)
        r = compact_locked(change, view, err); /* the same is seen through it */
    if (r == 0)
        r = change_write_locked(change, view, err);
    base_view_put(view);
    return r;
}

/* The layer is there, and nobody's yet. */
static int change_on_top_locked(struct change *change, const char *layer, struct err *err) {
    change->after = (struct base_stack){.count = change->before.count + 1};
    memcpy(change->after.names[0], layer, LAYER_NAME_BYTES);
    memcpy(change->after.names[1], change->before.names[0], change->before.count * LAYER_NAME_BYTES);
    return change_end_locked(change, err);
}

/* A layer that did not become anybody's. */
static void layer_drop(struct skills *skills, const char *layer) {
    skills_discard(skills, "layers", layer);
}

static int change_due_locked(const struct change *change, struct err *err) {
    struct base_view *view = NULL;
    if (!change->instead)
        return 0;
    int r = base_view_make(change->skills, &change->before, &view, err);
    const struct base_skill *now = r == 0 ? base_view_find(view, change->instead->skill) : NULL;
    if (r == 0 && (!now || memcmp(now->sha256, change->instead->sha256, sizeof now->sha256) != 0))
        r = err_set(err, ERR_EXISTS, "the skill '%.200s' has changed meanwhile", change->instead->skill);
    base_view_put(view);
    return r;
}

static int change_run(struct change *change, struct stage *stage, const char *layer, struct err *err) {
    struct skills *skills = change->skills;
    int r = skills_lock(skills, err);
    if (r < 0)
        return r;
    r = base_stack_read(skills, change->agent, &change->before, err);
    if (r == 0)
        r = change_due_locked(change, err);
    if (r == 0 && (r = stage_take(stage, skills->layers_dir, layer, err)) == 0 &&
        (r = change_on_top_locked(change, layer, err)) < 0)
        layer_drop(skills, layer);
    skills_unlock(skills);
    return r;
}

static int put(struct skills *skills, const char *agent, const struct base_skill *instead, struct stage *stage,
               struct err *err) {
    autoarena arena = ARENA_EMPTY;
    char layer[LAYER_NAME_BYTES];
    struct sealing sealing = {.arena = &arena, .layer = layer};
    struct change change = {.skills = skills, .agent = agent, .instead = instead};
    policy_random_id(layer);
    int r = skill_agent_check(agent, err);
    if (r == 0)
        r = seal_skills(&sealing, stage, err);
    if (r == 0 && sealing.count == 0)
        r = err_set(err, ERR_INVALID, "there is no skill in it");
    if (r == 0)
        r = seal_end(stage, err);
    if (r == 0)
        r = versions_keep(skills, &sealing, err);
    return r < 0 ? r : change_run(&change, stage, layer, err);
}

int base_put(struct skills *skills, const char *agent, struct stage *stage, struct err *err) {
    return base_put_instead(skills, agent, NULL, stage, err);
}

int base_put_instead(struct skills *skills, const char *agent, const struct base_skill *instead, struct stage *stage,
                     struct err *err) {
    int r = put(skills, agent, instead, stage, err);
    stage_abort(stage);
    return r;
}

/* Looked for under the lock: two who remove the same do not both succeed. */
static int remove_locked(struct change *change, const char *skill, struct stage *stage, const char *layer,
                         struct err *err) {
    struct skills *skills = change->skills;
    struct base_view *view = NULL;
    int r = base_stack_read(skills, change->agent, &change->before, err);
    if (r == 0)
        r = base_view_make(skills, &change->before, &view, err);
    const struct base_skill *found = r == 0 ? base_view_find(view, skill) : NULL;
    if (r == 0 && !found)
        r = err_set(err, ERR_NOT_FOUND, "agent '%s' has no public skill '%s'", change->agent, skill);
    base_view_put(view);
    if (r == 0)
        r = stage_take(stage, skills->layers_dir, layer, err);
    if (r == 0 && (r = change_on_top_locked(change, layer, err)) < 0)
        layer_drop(skills, layer);
    return r;
}

int base_remove(struct skills *skills, const char *agent, const char *skill, struct err *err) {
    struct stage stage;
    struct change change = {.skills = skills, .agent = agent};
    char layer[LAYER_NAME_BYTES];
    policy_random_id(layer);
    int r = skill_agent_check(agent, err);
    if (r == 0)
        r = skill_id_check(skill, err);
    if (r == 0 && strcmp(skill, BASE_CREATOR) == 0)
        r = err_set(err, ERR_DENIED, "%s belongs to every agent and cannot be removed", BASE_CREATOR);
    if (r < 0 || (r = stage_open(skills, &stage, err)) < 0)
        return r;
    if (mknodat(stage.fd, skill, S_IFCHR | 0600, makedev(0, 0)) < 0)
        r = err_errno(err, errno, "the removal of '%.200s'", skill);
    if (r == 0)
        r = seal_end(&stage, err);
    if (r == 0 && (r = skills_lock(skills, err)) == 0) {
        r = remove_locked(&change, skill, &stage, layer, err);
        skills_unlock(skills);
    }
    stage_abort(&stage);
    return r;
}
