/* A user's skills. Called by the doors. Invariant: what is to replace a skill lies complete in the box before the box is
 * asked for alone, and a change that was answered as pending is done whatever ends before. */
#include "skill/own/own.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "skill/own/change.h"
#include "skill/own/rows.h"
#include "skill/own/settle.h"
#include "skill/registry/bundle.h"

static const char *const reserved[] = {"skill-creator", NULL};

static int own_agent(const struct box *box, struct err *err) {
    return box->spec.agent ? 0 : err_set(err, ERR_INVALID, "box %s has no agent, and so no " SKILL_PATH, box->id);
}

static void count_running(void *user, const struct process *process) {
    *(unsigned *)user += process->running;
}

static unsigned own_background(struct box *box) {
    unsigned count = 0;
    struct err ignored;
    box_processes(box, 0, count_running, &count, &ignored);
    return count;
}

/* A change that lies ready is done now, or as soon as the last command has ended. waits: it may become pending; else BUSY. */
static int own_do(struct skills *skills, struct box *box, struct change *change, bool waits, bool *ret_pending,
                  struct err *err) {
    int alone = box_alone(box, skills_settings(skills)->wait_ms, err);
    int r = alone == 0 || waits ? change_commit(box, change, err) : alone;
    if (r < 0)
        change_drop(box, change);
    *ret_pending = false;
    if (r == 0 && alone < 0) {
        own_settle_later(skills, box);
        *ret_pending = atomic_load(&own_state(box)->look) == LOOK_WAITING;
    } else if (r == 0) {
        atomic_store(&own_state(box)->look, LOOK_WAITING);
        r = own_apply(skills, box, err);
    }
    if (alone == 0)
        box_alone_end(box);
    return r;
}

/* What the base has now is what they are founded on. */
static void own_founded_on_base(struct skills *skills, struct box *box, const char *skill, uint64_t synced_ms) {
    struct base_skill base;
    struct err ignored;
    autoarena arena = ARENA_EMPTY;
    if (base_find(skills, box->spec.agent, skill, &arena, &base, &ignored) == 0)
        own_founded_set(skills, box, skill, base.sha256, synced_ms);
    else
        own_founded_drop(skills, box, skill);
}

/* The files of the public skills of these names that the archive lacks, as streams behind its own. */
struct own_merge {
    struct change_source *sources; /* ends with read_fn NULL */
    struct bundle *bundles;
    size_t count;
};

static int own_merge_add(struct skills *skills, const struct box *box, struct zip *zip, const char *skill,
                         struct own_merge *merge, struct err *err) {
    struct base_skill base;
    autofd fd = -1;
    autoarena arena = ARENA_EMPTY;
    int r = base_find(skills, box->spec.agent, skill, &arena, &base, err);
    if (r == -ERR_NOT_FOUND)
        return 0;
    struct bundle *bundle = &merge->bundles[merge->count];
    if (r == 0)
        r = base_open(skills, &base, &fd, err);
    if (r == 0)
        r = bundle_pack_below(skills, box->user, fd, skill, zip, bundle, err);
    if (r == 0)
        merge->sources[++merge->count] = (struct change_source){bundle_read, bundle, LIMIT_UNPACK_ENTRIES};
    return r;
}

static void own_merge_done(struct own_merge *merge) {
    for (size_t i = 0; i < merge->count; i++)
        bundle_done(&merge->bundles[i]);
}

static int own_unpack(struct skills *skills, struct box *box, struct zip *zip, bool merges, const char *const *names,
                      struct arena *arena, int watch, struct change *ret_change, struct err *err) {
    size_t count = 0;
    while (names[count])
        count++;
    struct own_merge merge = {.sources = arena_alloc(arena, (count + 2) * sizeof *merge.sources),
                              .bundles = arena_alloc(arena, (count + 1) * sizeof *merge.bundles)};
    struct zip_tar *tar = zip_tar_new(zip);
    merge.sources[0] = (struct change_source){zip_tar_read, tar, skills_settings(skills)->upload_entries};
    int r = 0;
    for (size_t i = 0; r == 0 && merges && names[i]; i++)
        r = own_merge_add(skills, box, zip, names[i], &merge, err);
    if (r == 0)
        r = change_put(box, names, merge.sources, watch, ret_change, err);
    own_merge_done(&merge);
    zip_tar_free(tar);
    return r;
}

int own_put(struct skills *skills, struct box *box, struct zip *zip, bool merges, struct arena *arena,
            struct own_change *ret_change, int watch, struct err *err) {
    const char *const *names;
    struct change change;
    bool pending;
    int r = own_agent(box, err);
    if (r == 0)
        r = zip_skills(zip, reserved, &names, err);
    if (r < 0)
        return r;
    r = own_unpack(skills, box, zip, merges, names, arena, watch, &change, err);
    if (r == 0)
        r = own_do(skills, box, &change, true, &pending, err);
    if (r < 0)
        return r;
    for (size_t i = 0; names[i]; i++)
        own_founded_on_base(skills, box, names[i], 0);
    *ret_change =
        (struct own_change){.pending = pending, .background = own_background(box), .skills = names_copy(arena, names)};
    return 0;
}

static int own_there(struct box *box, const char *skill, bool *ret_there, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct file_stat stat;
    autoarena arena = ARENA_EMPTY;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    int r = box_stat(box, path, &arena, &stat, err);
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    *ret_there = r == 0 && stat.type == FILE_DIR;
    return 0;
}

static int own_names(const struct box *box, const char *skill, struct err *err) {
    int r = own_agent(box, err);
    return r < 0 ? r : skill_id_check(skill, err);
}

/* By whoever knows that it is there. */
static int own_drop(struct skills *skills, struct box *box, const char *skill, bool waits, bool *ret_pending,
                    struct err *err) {
    struct change change;
    int r = change_remove(box, skill, &change, err);
    if (r == 0)
        r = own_do(skills, box, &change, waits, ret_pending, err);
    if (r < 0)
        return r;
    own_founded_drop(skills, box, skill);
    return 0;
}

int own_remove(struct skills *skills, struct box *box, const char *skill, struct own_change *ret_change,
               struct err *err) {
    bool there, pending;
    int r = own_names(box, skill, err);
    if (r == 0)
        r = own_there(box, skill, &there, err);
    if (r == 0 && !there && atomic_load(&own_state(box)->look) != LOOK_WAITING) /* an upload of it may be waiting */
        return err_set(err, ERR_NOT_FOUND, "no skill '%s'", skill);
    if (r == 0)
        r = own_drop(skills, box, skill, true, &pending, err);
    if (r < 0)
        return r;
    *ret_change = (struct own_change){.pending = pending, .background = own_background(box)};
    return 0;
}

/* ---- to and from the base ---- */

static int from_base(struct skills *skills, struct box *box, const struct base_skill *base, struct err *err) {
    autofd fd = -1;
    struct bundle bundle;
    struct change change;
    bool pending;
    int r = base_open(skills, base, &fd, err);
    if (r == 0)
        r = bundle_pack(skills, box->user, fd, base->skill, &bundle, err);
    if (r < 0)
        return r;
    const struct change_source sources[] = {{bundle_read, &bundle, LIMIT_UNPACK_ENTRIES}, {NULL, NULL, 0}};
    r = change_put(box, (const char *const[]){base->skill, NULL}, sources, -1, &change, err);
    bundle_done(&bundle);
    if (r == 0)
        r = own_do(skills, box, &change, false, &pending, err);
    if (r < 0)
        return r;
    own_founded_set(skills, box, base->skill, base->sha256, clock_wall_ms());
    return 0;
}

int own_from_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err) {
    struct base_skill base;
    bool there, pending;
    autoarena arena = ARENA_EMPTY;
    int r = own_names(box, skill, err);
    if (r < 0)
        return r;
    r = base_find(skills, agent, skill, &arena, &base, err);
    if (r == 0)
        return from_base(skills, box, &base, err);
    if (r != -ERR_NOT_FOUND)
        return r;
    r = own_there(box, skill, &there, err);
    if (r == 0 && !there)
        return err_set(err, ERR_NOT_FOUND, "no skill '%s', neither public nor the user's own", skill);
    return r < 0 ? r : own_drop(skills, box, skill, false, &pending, err);
}

/* One version of it, as the box shows it. */
static int to_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct stage stage;
    int r = stage_open(skills, &stage, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    struct stage_tar *tar = stage_tar_new(&stage, skill);
    r = box_share(box, skills_settings(skills)->wait_ms, err);
    if (r == 0) {
        r = box_tar_out(box, path, -1, stage_tar_feed, tar, err);
        box_share_end(box);
    }
    struct err why;
    int ended = stage_tar_end(tar, &why);
    if (ended < 0 && r != -ERR_NOT_FOUND && r != -ERR_GONE && r != -ERR_BUSY) { /* it says what the sink could not */
        *err = why;
        r = ended;
    }
    if (r == 0)
        r = base_put(skills, agent, &stage, err);
    stage_abort(&stage);
    return r;
}

int own_to_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err) {
    bool there;
    int r = own_names(box, skill, err);
    if (r == 0)
        r = own_there(box, skill, &there, err);
    if (r < 0)
        return r;
    r = there ? to_base(skills, box, agent, skill, err) : base_remove(skills, agent, skill, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no skill '%s', neither the user's own nor public", skill);
    if (r < 0)
        return r;
    own_founded_on_base(skills, box, skill, clock_wall_ms());
    return 0;
}

/* ---- how it stands ---- */

int own_hash(struct skills *skills, struct box *box, const char *skill, uint8_t ret_sha256[32], struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct bundle bundle;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    int r = box_share(box, skills_settings(skills)->wait_ms, err);
    if (r < 0)
        return r;
    r = bundle_take(skills, box, path, -1, &bundle, err);
    box_share_end(box);
    if (r == 0) {
        r = bundle_hash(&bundle, LIMIT_UNPACK_ENTRIES, ret_sha256, err);
        bundle_done(&bundle);
    }
    return r;
}

int own_status(struct skills *skills, struct box *box, const char *agent, const char *skill,
               enum own_status *ret_status, uint64_t *ret_synced_ms, struct err *err) {
    struct base_skill base;
    struct own_founded founded;
    uint8_t sha256[32];
    autoarena arena = ARENA_EMPTY;
    int r = own_names(box, skill, err);
    if (r == 0)
        r = own_founded_get(skills, box, skill, &founded, err);
    if (r < 0)
        return r;
    int found = base_find(skills, agent, skill, &arena, &base, err);
    if (found < 0 && found != -ERR_NOT_FOUND)
        return found;
    r = own_hash(skills, box, skill, sha256, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no skill '%s'", skill) : r;
    bool told = founded.known;
    if (found == 0 && !told && own_behind(skills, box))
        own_based_on(skills, box, skill, &founded);
    bool same = found == 0 && memcmp(sha256, base.sha256, sizeof sha256) == 0;
    bool moved = found == 0 && founded.known && memcmp(founded.sha256, base.sha256, sizeof sha256) != 0;
    bool changed = !founded.known || memcmp(founded.sha256, sha256, sizeof sha256) != 0;
    if (same && moved && told) /* whatever it was founded on, it is the base's now */
        own_founded_set(skills, box, skill, base.sha256, founded.synced_ms);
    if (found == 0 && !same && !told && changed) { /* by a command: seen for the first time */
        own_founded_first(skills, box, skill, founded.known ? founded.sha256 : base.sha256);
        own_rows_update(skills, box, (const char *const[]){skill, NULL});
    }
    *ret_status = found < 0 ? OWN_LOCAL_ONLY : same ? OWN_UNCHANGED : moved ? OWN_OUT_OF_SYNC : OWN_MODIFIED;
    *ret_synced_ms = founded.synced_ms;
    return 0;
}

void own_touched(struct skills *skills, struct box *box, const char *skill) {
    struct base_skill base;
    struct own_founded founded;
    struct err err;
    autoarena arena = ARENA_EMPTY;
    if (own_names(box, skill, &err) < 0 || own_founded_get(skills, box, skill, &founded, &err) < 0 || founded.known)
        return;
    if (base_find(skills, box->spec.agent, skill, &arena, &base, &err) == 0)
        own_founded_first(skills, box, skill, base.sha256);
    own_rows_update(skills, box, (const char *const[]){skill, NULL});
}
