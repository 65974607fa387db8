/* What is written down of users' own skills. Called by own*.c. Invariant: a row more or less never changes what a box
 * has; whatever is read from here is compared with files. */
#include "skill/own/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "skill/names.h"
#include "skill/skills.h"

/* ---- rows ---- */

static int add_row(void *user, const struct skill_row *row) {
    if (row->user)
        names_add(user, row->skill);
    return 0;
}

static int add_base(void *user, const struct base_skill *skill) {
    names_add(user, skill->skill);
    return 0;
}

static int add_file(void *user, const struct file_stat *stat) {
    struct err ignored;
    if (stat->type == FILE_DIR && skill_id_check(stat->name, &ignored) == 0)
        names_add(user, stat->name);
    return 0;
}

static int rows_change(struct skills *skills, struct box *box, struct names sets[4], const char *const *added,
                       struct err *err) {
    struct names *there = &sets[0], *rows = &sets[1], *base = &sets[2], *now = &sets[3];
    const struct list_request request = {.path = SKILL_PATH, .depth = 1, .limit = LIMIT_LIST_LIMIT};
    bool truncated;
    int r = box_list(box, &request, -1, add_file, there, &truncated, err);
    if (r == 0)
        r = base_rows(skills, box->spec.agent, box->user, add_row, rows, err);
    if (r == 0)
        r = base_each(skills, box->spec.agent, add_base, base, err);
    if (r < 0)
        return r;
    for (size_t i = 0; added[i]; i++)
        names_add(rows, added[i]);
    names_sort(rows);
    names_sort(base);
    for (size_t i = 0; i < there->count; i++) {
        const char *name = there->names[i];
        if (names_has(rows, name) || !names_has(base, name))
            names_add(now, name);
    }
    return base_user_rows(skills, box->spec.agent, box->user, now->names, err);
}

void own_rows_update(struct skills *skills, struct box *box, const char *const *added) {
    struct names sets[4];
    struct err err;
    own_forgotten(skills);
    for (size_t i = 0; i < 4; i++)
        names_init(&sets[i]);
    if (rows_change(skills, box, sets, added, &err) < 0)
        log_warn("box %s: its skills are not listed as they are: %s", box->id, err.text);
    for (size_t i = 0; i < 4; i++)
        names_done(&sets[i]);
}

/* ---- what they are founded on ---- */

const char *own_key(const struct box *box, char key[OWN_KEY_BYTES]) {
    snprintf(key, OWN_KEY_BYTES, "%s-%" PRIu64, box->id, box->created_ms);
    return key;
}

int own_founded_get(struct skills *skills, const struct box *box, const char *skill, struct own_founded *ret_founded,
                    struct err *err) {
    struct db *db;
    char key[OWN_KEY_BYTES];
    struct own_founded founded = {0};
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    r = db_get(db, err, "SELECT sha256, synced_ms FROM own_base WHERE box = ? AND skill = ?", "tt>hi",
               own_key(box, key), skill, founded.sha256, &founded.synced_ms);
    skilldb_give(skills);
    founded.known = r > 0;
    *ret_founded = founded;
    return r < 0 ? r : 0;
}

/* What a statement does not name is not bound. */
static void founded_run(struct skills *skills, const char *sql, const char *types, const char *key, const char *skill,
                        const uint8_t *sha256, uint64_t synced_ms) {
    struct db *db;
    struct err err;
    int r = skilldb_take(skills, &db, &err);
    if (r == 0) {
        r = db_do(db, &err, sql, types, key, skill, sha256, synced_ms);
        skilldb_give(skills);
    }
    if (r < 0)
        log_warn("box %s: what its skills are founded on is not written down: %s", key, err.text);
}

void own_founded_set(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32],
                     uint64_t synced_ms) {
    char key[OWN_KEY_BYTES];
    founded_run(skills, "INSERT OR REPLACE INTO own_base (box, skill, sha256, synced_ms) VALUES (?, ?, ?, ?)", "tthi",
                own_key(box, key), skill, sha256, synced_ms);
}

void own_founded_first(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32]) {
    char key[OWN_KEY_BYTES];
    founded_run(skills, "INSERT OR IGNORE INTO own_base (box, skill, sha256, synced_ms) VALUES (?, ?, ?, ?)", "tthi",
                own_key(box, key), skill, sha256, 0);
}

void own_founded_drop(struct skills *skills, const struct box *box, const char *skill) {
    char key[OWN_KEY_BYTES];
    founded_run(skills, "DELETE FROM own_base WHERE box = ? AND skill = ?", "tt", own_key(box, key), skill, NULL, 0);
}

/* ---- deleted boxes ---- */

struct gone {
    struct gone *next;
    char id[17];
    const char *user, *agent;
    char texts[];
};

struct gone_list {
    pthread_mutex_t lock;
    struct gone *first;
};

static void *gone_make(struct skills *skills) {
    (void)skills;
    struct gone_list *list = xcalloc(1, sizeof *list);
    pthread_mutex_init(&list->lock, NULL);
    return list;
}

static struct gone *gone_take(struct gone_list *list) {
    pthread_mutex_lock(&list->lock);
    struct gone *gone = list->first;
    list->first = NULL;
    pthread_mutex_unlock(&list->lock);
    return gone;
}

static void gone_done(void *data) {
    for (struct gone *gone = gone_take(data), *next; gone; gone = next) {
        next = gone->next;
        free(gone);
    }
    free(data);
}

static struct gone_list *gone_of(struct skills *skills) {
    return skills_part(skills, PART_OWN, gone_make, gone_done);
}

void own_forget(struct skills *skills, const char *box_id, const char *user, const char *thread) {
    size_t prefix = strlen(POLICY_AGENT_THREAD), user_bytes = strlen(user) + 1;
    if (!thread || strncmp(thread, POLICY_AGENT_THREAD, prefix) != 0)
        return;
    const char *agent = thread + prefix;
    struct gone_list *list = gone_of(skills);
    size_t agent_bytes = strlen(agent) + 1;
    struct gone *gone = xcalloc(1, sizeof *gone + user_bytes + agent_bytes);
    snprintf(gone->id, sizeof gone->id, "%s", box_id);
    gone->user = memcpy(gone->texts, user, user_bytes);
    gone->agent = memcpy(gone->texts + user_bytes, agent, agent_bytes);
    pthread_mutex_lock(&list->lock);
    gone->next = list->first;
    list->first = gone;
    pthread_mutex_unlock(&list->lock);
}

/* Of a box that was made again meanwhile the rows are told anew by whoever changes it; a row less is no harm. */
void own_forgotten(struct skills *skills) {
    static const char *const none[] = {NULL};
    struct err err;
    char key[OWN_KEY_BYTES];
    for (struct gone *gone = gone_take(gone_of(skills)), *next; gone; gone = next) {
        next = gone->next;
        snprintf(key, sizeof key, "%s-*", gone->id);
        founded_run(skills, "DELETE FROM own_base WHERE box GLOB ?", "t", key, NULL, NULL, 0);
        founded_run(skills, "DELETE FROM own_stack WHERE box GLOB ?", "t", key, NULL, NULL, 0);
        if (base_user_rows(skills, gone->agent, gone->user, none, &err) < 0)
            log_warn("the rows of %s for agent %s stay: %s", gone->user, gone->agent, err.text);
        free(gone);
    }
}
