/* A user's skills. Called by the fronts. Invariant: a new version is complete in the box before the box is locked, and
 * a change that was reported as pending is applied even if the daemon or the box ends first. */
#include "base/base.h"
#include "skill/own/own.h"
#include "skill/own/private.h"
#include "skill/registry/bundle.h"

static void own_count_running(void *user, const struct process *process) {
    *(unsigned *)user += process->running;
}

static struct own_change own_changed(struct box *box, bool pending, const char *const *skills) {
    struct own_change change = {.pending = pending, .skills = skills};
    box_processes(box, 0, own_count_running, &change.background, ERR_IGNORED);
    return change;
}

static int own_check(const struct box *box, const char *skill, struct err *err) {
    if (!box->spec.agent)
        return err_set(err, ERR_INVALID, "box %s has no agent, and so no " SKILL_PATH, box->id);
    return skill ? skill_id_check(skill, err) : 0;
}

/* Applies a complete change now, or when the last command has ended. waits: it may become pending; else BUSY. */
static int own_do(struct skills *skills, struct box *box, struct skill_change *change, bool waits, bool *ret_pending,
                  struct err *err) {
    int alone = box_alone(box, skills_settings(skills)->wait_ms, err);
    int r = alone == 0 || waits ? change_commit(box, change, err) : alone;
    if (r < 0)
        change_drop(box, change);
    *ret_pending = false;
    if (r == 0 && alone < 0) {
        own_update_later(skills, box);
        *ret_pending = atomic_load(&own_state(box)->waiting) == CHANGES_WAITING;
    } else if (r == 0) {
        atomic_store(&own_state(box)->waiting, CHANGES_WAITING);
        r = own_apply(skills, box, err);
    }
    if (alone == 0)
        box_alone_end(box);
    return r;
}

/* Records that the user's version starts from the present base. */
static void own_origin_is_base(struct skills *skills, struct box *box, const char *skill, uint64_t synced_ms) {
    struct base_skill base;
    autoarena arena = ARENA_EMPTY;
    if (base_find(skills, box->spec.agent, skill, &arena, &base, ERR_IGNORED) == 0)
        own_origin_set(skills, box, skill, base.sha256, synced_ms);
    else
        own_origin_drop(skills, box, skill);
}

int own_put(struct skills *skills, struct box *box, struct zip *zip, bool merges, struct arena *arena,
            struct own_change *ret_change, int watch, struct err *err) {
    static const char *const reserved[] = {BASE_CREATOR, NULL};
    const char *const *names;
    struct skill_change change;
    bool pending = false;
    size_t count = 0, merged = 0;
    int r = own_check(box, NULL, err) ?: zip_skills(zip, reserved, &names, err);
    if (r < 0)
        return r;
    count = text_list_count(names);
    struct change_source *sources = arena_alloc(arena, (count + 2) * sizeof *sources); /* terminated by read_fn NULL */
    struct skill_bundle *bundles = arena_alloc(arena, (count + 1) * sizeof *bundles);
    struct zip_tar *tar = zip_tar_new(zip);
    sources[0] = (struct change_source){zip_tar_read, tar, skills_settings(skills)->upload_entries};
    for (size_t i = 0; r == 0 && merges && names[i]; i++) { /* files of the public skill that the archive lacks */
        struct base_skill base;
        autofd fd = -1;
        r = base_find(skills, box->spec.agent, names[i], arena, &base, err);
        bool public = r == 0;
        r = r == -ERR_NOT_FOUND ? 0 : r;
        if (public)
            r = base_open(skills, &base, &fd, err)
                    ?: bundle_pack(skills, box->user, fd, names[i], zip, &bundles[merged], err);
        if (public && r == 0) {
            sources[merged + 1] = (struct change_source){bundle_read, &bundles[merged], LIMIT_UNPACK_ENTRIES};
            merged++;
        }
    }
    if (r == 0)
        r = change_put(box, names, sources, watch, &change, err);
    while (merged > 0)
        bundle_done(&bundles[--merged]);
    zip_tar_free(tar);
    if (r == 0)
        r = own_do(skills, box, &change, true, &pending, err);
    if (r < 0)
        return r;
    for (size_t i = 0; names[i]; i++)
        own_origin_is_base(skills, box, names[i], 0);
    *ret_change = own_changed(box, pending, names_copy(arena, names));
    return 0;
}

static int own_exists(struct box *box, const char *skill, bool *ret_exists, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct file_stat stat;
    autoarena arena = ARENA_EMPTY;
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    int r = box_stat(box, path, &arena, &stat, err);
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    *ret_exists = r == 0 && stat.type == FILE_DIR;
    return 0;
}

/* The caller knows that the skill exists. */
static int own_drop(struct skills *skills, struct box *box, const char *skill, bool waits, bool *ret_pending,
                    struct err *err) {
    struct skill_change change;
    int r = change_remove(box, skill, &change, err) ?: own_do(skills, box, &change, waits, ret_pending, err);
    if (r == 0)
        own_origin_drop(skills, box, skill);
    return r;
}

int own_remove(struct skills *skills, struct box *box, const char *skill, struct own_change *ret_change,
               struct err *err) {
    bool exists, pending;
    int r = own_check(box, skill, err) ?: own_exists(box, skill, &exists, err);
    if (r == 0 && !exists &&
        atomic_load(&own_state(box)->waiting) != CHANGES_WAITING) /* an upload of it may be pending */
        return err_set(err, ERR_NOT_FOUND, "no skill '%s'", skill);
    if (r == 0)
        r = own_drop(skills, box, skill, true, &pending, err);
    if (r < 0)
        return r;
    *ret_change = own_changed(box, pending, NULL);
    return 0;
}

/* ---- to and from the base ---- */

static int own_copy_base(struct skills *skills, struct box *box, const struct base_skill *base, struct err *err) {
    autofd fd = -1;
    struct skill_bundle bundle;
    struct skill_change change;
    bool pending;
    TRY(base_open(skills, base, &fd, err) ?: bundle_pack(skills, box->user, fd, base->skill, NULL, &bundle, err));
    const struct change_source sources[] = {{bundle_read, &bundle, LIMIT_UNPACK_ENTRIES}, {NULL, NULL, 0}};
    int r = change_put(box, (const char *const[]){base->skill, NULL}, sources, -1, &change, err);
    bundle_done(&bundle);
    if (r == 0)
        r = own_do(skills, box, &change, false, &pending, err);
    if (r == 0)
        own_origin_set(skills, box, base->skill, base->sha256, clock_wall_ms());
    return r;
}

int own_from_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err) {
    struct base_skill base;
    bool exists, pending;
    autoarena arena = ARENA_EMPTY;
    TRY(own_check(box, skill, err));
    int r = base_find(skills, agent, skill, &arena, &base, err);
    if (r == 0)
        return own_copy_base(skills, box, &base, err);
    if (r != -ERR_NOT_FOUND)
        return r;
    r = own_exists(box, skill, &exists, err);
    if (r == 0 && !exists)
        return err_set(err, ERR_NOT_FOUND, "no skill '%s', neither public nor the user's own", skill);
    return r < 0 ? r : own_drop(skills, box, skill, false, &pending, err);
}

int own_to_base(struct skills *skills, struct box *box, const char *agent, const char *skill, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    struct stage stage;
    bool exists = false;
    int r = own_check(box, skill, err) ?: own_exists(box, skill, &exists, err);
    if (r == 0 && !exists)
        r = base_remove(skills, agent, skill, err);
    if (r == 0 && exists && (r = stage_open(skills, &stage, err)) == 0) {
        snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
        r = stage_box(&stage, box, path, skill, -1, err) ?: base_put(skills, agent, &stage, err);
        stage_abort(&stage);
    }
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no skill '%s', neither the user's own nor public", skill);
    if (r == 0)
        own_origin_is_base(skills, box, skill, clock_wall_ms());
    return r;
}

/* ---- status ---- */

/* Packs the skill as the box shows it. The box is shared only while the skill is read. */
static int own_bundle(struct skills *skills, struct box *box, const char *skill, int watch,
                      struct skill_bundle *ret_bundle, struct err *err) {
    char path[LIMIT_NAME_BYTES + 32];
    snprintf(path, sizeof path, SKILL_PATH "/%s", skill);
    TRY(box_share(box, skills_settings(skills)->wait_ms, err));
    int r = bundle_take(skills, box, path, watch, ret_bundle, err);
    box_share_end(box);
    return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "no skill '%s'", skill) : r;
}

int own_hash(struct skills *skills, struct box *box, const char *skill, uint8_t ret_sha256[32], struct err *err) {
    struct skill_bundle bundle;
    int r = own_bundle(skills, box, skill, -1, &bundle, err);
    if (r == 0) {
        r = bundle_hash(&bundle, LIMIT_UNPACK_ENTRIES, ret_sha256, err);
        bundle_done(&bundle);
    }
    return r;
}

int own_status(struct skills *skills, struct box *box, const char *agent, const char *skill,
               enum own_status *ret_status, uint64_t *ret_synced_ms, struct err *err) {
    struct base_skill base;
    struct own_origin origin;
    uint8_t sha256[32];
    autoarena arena = ARENA_EMPTY;
    TRY(own_check(box, skill, err) ?: own_origin_get(skills, box, skill, &origin, err));
    int found = base_find(skills, agent, skill, &arena, &base, err);
    if (found < 0 && found != -ERR_NOT_FOUND)
        return found;
    TRY(own_hash(skills, box, skill, sha256, err));
    bool recorded = origin.known;
    if (found == 0 && !recorded && own_outdated(skills, box))
        own_origin_below(skills, box, skill, &origin);
    bool same = found == 0 && memcmp(sha256, base.sha256, sizeof sha256) == 0;
    bool moved = found == 0 && origin.known && memcmp(origin.sha256, base.sha256, sizeof sha256) != 0;
    bool changed = !origin.known || memcmp(origin.sha256, sha256, sizeof sha256) != 0;
    if (same && moved && recorded) /* now equal to the base, whatever it started from */
        own_origin_set(skills, box, skill, base.sha256, origin.synced_ms);
    if (found == 0 && !same && !recorded && changed) { /* changed by a command and not noticed before */
        own_origin_first(skills, box, skill, origin.known ? origin.sha256 : base.sha256);
        own_rows_update(skills, box, (const char *const[]){skill, NULL});
    }
    *ret_status = found < 0 ? OWN_LOCAL_ONLY : same ? OWN_UNCHANGED : moved ? OWN_OUT_OF_SYNC : OWN_MODIFIED;
    *ret_synced_ms = origin.synced_ms;
    return 0;
}

void own_touched(struct skills *skills, struct box *box, const char *skill) {
    struct base_skill base;
    struct own_origin origin;
    struct err err;
    autoarena arena = ARENA_EMPTY;
    if (own_check(box, skill, &err) < 0 || own_origin_get(skills, box, skill, &origin, &err) < 0 || origin.known)
        return;
    if (base_find(skills, box->spec.agent, skill, &arena, &base, &err) == 0)
        own_origin_first(skills, box, skill, base.sha256);
    own_rows_update(skills, box, (const char *const[]){skill, NULL});
}

int own_zip(struct skills *skills, struct box *box, const char *skill, int watch,
            int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    struct skill_bundle bundle;
    int r = skill_id_check(skill, err) ?: own_bundle(skills, box, skill, watch, &bundle, err);
    return r < 0 ? r : bundle_zip(skills, &bundle, skill, sink, user, err);
}
