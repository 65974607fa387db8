/* The rows of users' own skills: agent_skill_registry, and the public version that each started from. Called by own.c
 * and update.c. Invariant: a wrong row never changes the files of a box; every value read here is compared with
 * files. */
#include <inttypes.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "skill/base/view.h"
#include "skill/own/private.h"

/* ---- rows ---- */

static int rows_add_row(void *user, const struct skill_row *row) {
    if (row->user)
        names_add(user, row->skill);
    return 0;
}

static int rows_add_base(void *user, const struct base_skill *skill) {
    names_add(user, skill->skill);
    return 0;
}

static int rows_add_file(void *user, const struct file_stat *stat) {
    if (stat->type == FILE_DIR && skill_id_check(stat->name, ERR_IGNORED) == 0)
        names_add(user, stat->name);
    return 0;
}

void own_rows_update(struct skills *skills, struct box *box, const char *const *added) {
    const struct list_request request = {.path = SKILL_PATH, .depth = 1, .limit = LIMIT_LIST_LIMIT};
    struct err err;
    bool truncated;
    autonames there = names_new(), rows = names_new(), base = names_new(), now = names_new();
    own_forgotten(skills);
    int r = box_list(box, &request, -1, rows_add_file, &there, &truncated, &err)
            ?: base_rows(skills, box->spec.agent, box->user, rows_add_row, &rows, &err)
            ?: base_each(skills, box->spec.agent, rows_add_base, &base, &err);
    for (size_t i = 0; added[i]; i++)
        names_add(&rows, added[i]);
    names_sort(&rows);
    names_sort(&base);
    for (size_t i = 0; i < there.count; i++)
        if (names_has(&rows, there.names[i]) || !names_has(&base, there.names[i]))
            names_add(&now, there.names[i]);
    if (r == 0)
        r = base_user_rows(skills, box->spec.agent, box->user, now.names, &err);
    if (r < 0)
        log_warn("box %s: the list of its user's skills may be out of date: %s", box->id, err.text);
}

/* ---- skills.db was lost ---- */

struct rows_rebuild {
    struct skills *skills;
    struct box *box;
    struct names *own;
};

/* A skill that cannot be compared now (removed, too large) is not listed as the user's. */
static int rows_compare(void *user, const struct base_skill *skill) {
    struct rows_rebuild *rebuild = user;
    enum own_status status = OWN_UNCHANGED;
    uint64_t synced_ms;
    if (own_status(rebuild->skills, rebuild->box, rebuild->box->spec.agent, skill->skill, &status, &synced_ms,
                   ERR_IGNORED) == 0 &&
        status != OWN_UNCHANGED)
        names_add(rebuild->own, skill->skill);
    return 0;
}

/* Receives a file of the box's own layer below /skills. Files come directory by directory. */
static int rows_changed(void *user, const struct file_change *change) {
    static const char top[] = SKILL_PATH "/";
    struct names *own = user;
    char name[LIMIT_NAME_BYTES + 1];
    if (strncmp(change->path, top, sizeof top - 1) != 0)
        return 0;
    const char *at = change->path + sizeof top - 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "/"), at);
    if (skill_id_check(name, ERR_IGNORED) == 0 && (own->count == 0 || strcmp(own->names[own->count - 1], name) != 0))
        names_add(own, name);
    return 0;
}

/* Uses the list of the box's own layer; if there is none, or it is too long, compares contents. */
void own_rows_rebuild(struct skills *skills, struct box *box) {
    struct err err;
    bool known = true, truncated = true;
    if (box->created_ms >= skills->opened_ms) /* its changes are recorded as they happen */
        return;
    int r = base_user_known(skills, box->spec.agent, box->user, &known, &err);
    if (r == 0 && known)
        return;
    autonames own = names_new();
    if (r == 0 && (box_diff(box, LIMIT_DIFF_LIMIT, -1, rows_changed, &own, &truncated, &err) < 0 || truncated))
        r = base_each(skills, box->spec.agent, rows_compare, &(struct rows_rebuild){skills, box, &own}, &err);
    if (r == 0)
        own_rows_update(skills, box, own.names);
    else
        log_warn("box %s: its user's skills are not listed: %s", box->id, err.text);
}

/* ---- origins ---- */

enum { ROWS_KEY_BYTES = 48 };

/* A box that was deleted and made again has the same id, so the key includes its time of creation. */
static const char *rows_key(const struct box *box, char key[ROWS_KEY_BYTES]) {
    snprintf(key, ROWS_KEY_BYTES, "%s-%" PRIu64, box->id, box->created_ms);
    return key;
}

int own_origin_get(struct skills *skills, const struct box *box, const char *skill, struct own_origin *ret_origin,
                   struct err *err) {
    struct db *db;
    char key[ROWS_KEY_BYTES];
    struct own_origin origin = {0};
    TRY(skilldb_take(skills, &db, err));
    int r = db_get(db, err, "SELECT sha256, synced_ms FROM own_base WHERE box = ? AND skill = ?", "tt>hi",
                   rows_key(box, key), skill, origin.sha256, &origin.synced_ms);
    skilldb_give(skills);
    origin.known = r > 0;
    *ret_origin = origin;
    return r < 0 ? r : 0;
}

/* Binds only the parameters that the statement uses. */
static void rows_run(struct skills *skills, const char *sql, const char *key, const char *skill, const uint8_t *sha256,
                     uint64_t synced_ms) {
    struct db *db;
    struct err err;
    int r = skilldb_take(skills, &db, &err);
    if (r == 0) {
        r = db_do(db, &err, sql, "tthi", key, skill, sha256, synced_ms);
        skilldb_give(skills);
    }
    if (r < 0)
        log_warn("box %s: the origin of its skills is not recorded: %s", key, err.text);
}

void own_origin_set(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32],
                    uint64_t synced_ms) {
    rows_run(skills, "INSERT OR REPLACE INTO own_base (box, skill, sha256, synced_ms) VALUES (?1, ?2, ?3, ?4)",
             rows_key(box, (char[ROWS_KEY_BYTES]){0}), skill, sha256, synced_ms);
}

void own_origin_first(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32]) {
    rows_run(skills, "INSERT OR IGNORE INTO own_base (box, skill, sha256, synced_ms) VALUES (?1, ?2, ?3, 0)",
             rows_key(box, (char[ROWS_KEY_BYTES]){0}), skill, sha256, 0);
}

void own_origin_drop(struct skills *skills, const struct box *box, const char *skill) {
    rows_run(skills, "DELETE FROM own_base WHERE box = ?1 AND skill = ?2", rows_key(box, (char[ROWS_KEY_BYTES]){0}),
             skill, NULL, 0);
}

/* ---- what commands changed ---- */

/* Commands change files without notice. So the stack of public layers of each box is recorded. When it differs from the
 * current one, the public skills that changed are compared with the box: a skill that is not the new version was
 * changed by the user, on top of the old one. Only changed public skills cost anything. */

/* Reads the recorded stack; empty if there is none. */
static int rows_stack(struct db *db, const char *key, char ret_text[STACK_BYTES], struct err *err) {
    autoquery query;
    ret_text[0] = 0;
    int r = db_query(db, &query, err, "SELECT layers FROM own_stack WHERE box = ?", "t", key);
    if (r == 0 && query_next(&query, err) > 0)
        snprintf(ret_text, STACK_BYTES, "%s", query_text(&query, 0));
    return r;
}

static int rows_compare_stacks(struct skills *skills, struct box *box, const struct base_view *now, struct err *err) {
    char text[STACK_BYTES], old_text[STACK_BYTES], key[ROWS_KEY_BYTES];
    struct base_stack stack;
    struct base_view *old;
    struct db *db;
    uint8_t sha256[32];
    base_stack_text(&now->stack, text);
    TRY(skilldb_take(skills, &db, err));
    int r = rows_stack(db, rows_key(box, key), old_text, err);
    if (r == 0 && strcmp(old_text, text) != 0)
        r = db_do(db, err, "INSERT OR REPLACE INTO own_stack (box, layers) VALUES (?, ?)", "tt", key, text);
    skilldb_give(skills);
    if (r < 0 || strcmp(old_text, text) == 0 || !*old_text || !base_stack_parse(old_text, &stack))
        return r;
    TRY(base_view_make(skills, &stack, &old, err));
    for (size_t i = 0; i < now->count; i++) {
        const struct base_skill *skill = &now->skills[i], *before = base_view_find(old, skill->skill);
        if (before && memcmp(before->sha256, skill->sha256, sizeof sha256) != 0 &&
            own_hash(skills, box, skill->skill, sha256, ERR_IGNORED) == 0 &&
            memcmp(sha256, skill->sha256, sizeof sha256) != 0)
            own_origin_first(skills, box, skill->skill, before->sha256);
    }
    base_view_put(old);
    return 0;
}

/* An outdated box is checked later, when it has the current layers. */
void own_origin_check(struct skills *skills, struct box *box) {
    struct base_view *now;
    struct err err;
    int r = base_view_get(skills, box->spec.agent, &now, &err);
    if (r == 0) {
        if (now->stack.count && now->generation == atomic_load(&box->attached_generation))
            r = rows_compare_stacks(skills, box, now, &err);
        base_view_put(now);
    }
    if (r < 0)
        log_warn("box %s: the origin of its skills is not known: %s", box->id, err.text);
}

void own_origin_below(struct skills *skills, struct box *box, const char *skill, struct own_origin *ret_origin) {
    char text[STACK_BYTES], key[ROWS_KEY_BYTES];
    struct base_stack stack;
    struct base_view *view;
    struct db *db;
    if (skilldb_take(skills, &db, ERR_IGNORED) < 0)
        return;
    int r = rows_stack(db, rows_key(box, key), text, ERR_IGNORED);
    skilldb_give(skills);
    if (r < 0 || !*text || !base_stack_parse(text, &stack) || base_view_make(skills, &stack, &view, ERR_IGNORED) < 0)
        return;
    const struct base_skill *found = base_view_find(view, skill);
    if (found) {
        ret_origin->known = true;
        memcpy(ret_origin->sha256, found->sha256, sizeof ret_origin->sha256);
    }
    base_view_put(view);
}

/* ---- deleted boxes ---- */

struct own_gone { /* a list of id, user, agent, id, ... */
    pthread_mutex_t lock;
    struct names texts;
};

static void *rows_gone_make(struct skills *) {
    struct own_gone *gone = xcalloc(1, sizeof *gone);
    pthread_mutex_init(&gone->lock, NULL);
    gone->texts = names_new();
    return gone;
}

static void rows_gone_done(void *data) {
    names_done(&((struct own_gone *)data)->texts);
    free(data);
}

void own_forget(struct skills *skills, const char *box_id, const char *user, const char *thread) {
    size_t prefix = strlen(POLICY_AGENT_THREAD);
    if (!thread || strncmp(thread, POLICY_AGENT_THREAD, prefix) != 0)
        return;
    struct own_gone *gone = skills_part(skills, PART_OWN, rows_gone_make, rows_gone_done);
    autolock(&gone->lock);
    names_add(&gone->texts, box_id);
    names_add(&gone->texts, user);
    names_add(&gone->texts, thread + prefix);
}

/* A box that exists again gets its rows with its next change; a missing row does no harm. */
void own_forgotten(struct skills *skills) {
    static const char *const none[] = {NULL};
    struct err err;
    char key[ROWS_KEY_BYTES];
    struct own_gone *gone = skills_part(skills, PART_OWN, rows_gone_make, rows_gone_done);
    autonames fresh = names_new();
    pthread_mutex_lock(&gone->lock);
    struct names texts = gone->texts;
    gone->texts = fresh;
    fresh = texts; /* freed at the end */
    pthread_mutex_unlock(&gone->lock);
    for (size_t i = 0; i + 2 < texts.count; i += 3) {
        snprintf(key, sizeof key, "%.16s-*", texts.names[i]);
        rows_run(skills, "DELETE FROM own_base WHERE box GLOB ?1", key, NULL, NULL, 0);
        rows_run(skills, "DELETE FROM own_stack WHERE box GLOB ?1", key, NULL, NULL, 0);
        if (base_user_rows(skills, texts.names[i + 2], texts.names[i + 1], none, &err) < 0)
            log_warn("the rows of %s for agent %s stay: %s", texts.names[i + 1], texts.names[i + 2], err.text);
    }
}
