/* The table agent_skill_registry: which skills an agent has, public ones and its users' own. Called by base within its
 * changes, by own, and by whoever lists. Invariant: public rows follow agents/AGENT; base_known holds what that file said
 * when they were made, and where the two differ (a daemon died in between, the data base was lost) they are made anew. */
#include "skill/base/rows.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <errno.h>

#include "base/text.h"
#include "base/clock.h"
#include "base/log.h"
#include "skill/own/own.h"

/* ---- public ---- */

static int row_add(struct db *db, const char *agent, const char *skill, const char *user, uint64_t created_ms,
                   struct err *err) {
    int r = db_do(db, err, "INSERT OR IGNORE INTO temp.present VALUES (?1)", "t", skill);
    return r < 0 ? r
                 : db_do(db, err,
                         "INSERT OR IGNORE INTO agent_skill_registry (agent_id, skill_id, user_id, created_at)"
                         " VALUES (?1, ?2, ?3, ?4)",
                         "ttti", agent, skill, user, created_ms);
}

/* Of what is there now: those that stay keep their number and their time. */
static int rows_drop_others(struct db *db, const char *agent, const char *user, struct err *err) {
    return db_do(db, err,
                 "DELETE FROM agent_skill_registry WHERE agent_id = ?1 AND user_id IS ?2"
                 " AND skill_id NOT IN (SELECT skill FROM temp.present)",
                 "tt", agent, user);
}

static int present_clear(struct db *db, struct err *err) {
    return db_exec(db,
                   "CREATE TEMP TABLE IF NOT EXISTS present (skill TEXT PRIMARY KEY) WITHOUT ROWID;"
                   "DELETE FROM temp.present",
                   err);
}

int base_rows_set(struct db *db, const char *agent, const struct base_view *view, const struct base_stack *stack,
                  struct err *err) {
    char text[STACK_BYTES];
    int r = present_clear(db, err);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        const struct base_skill *skill = &view->skills[i];
        if (strcmp(skill->layer, view->creator) != 0)
            r = row_add(db, agent, skill->skill, NULL, skill->changed_ms, err);
    }
    if (r == 0)
        r = rows_drop_others(db, agent, NULL, err);
    base_stack_text(stack, text);
    return r < 0 ? r : db_do(db, err, "INSERT OR REPLACE INTO base_known VALUES (?1, ?2)", "tt", agent, text);
}

/* ---- behind the files ---- */

static int rows_look(struct skills *skills, const char *agent, bool *ret_current, struct base_stack *ret_stack,
                     struct err *err) {
    struct db *db;
    char text[STACK_BYTES];
    int64_t same = 0;
    int r = base_stack_read(skills, agent, ret_stack, err);
    if (r == 0)
        r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    base_stack_text(ret_stack, text);
    r = db_get(db, err, "SELECT layers = ?2 FROM base_known WHERE agent_id = ?1", "tt>i", agent, text, &same);
    skilldb_give(skills);
    *ret_current = r > 0 ? same : ret_stack->count == 0;
    return r < 0 ? r : 0;
}

static int rows_renew_locked(struct skills *skills, const char *agent, struct err *err) {
    struct base_view *view = NULL;
    struct base_stack stack;
    struct db *db;
    bool current = false;
    int r = rows_look(skills, agent, &current, &stack, err); /* another may have been quicker */
    if (r < 0 || current)
        return r;
    r = base_view_make(skills, &stack, &view, err);
    if (r == 0)
        r = skilldb_take(skills, &db, err);
    if (r == 0) {
        if ((r = db_begin(db, err)) == 0)
            r = db_end(db, base_rows_set(db, agent, view, &stack, err), err);
        skilldb_give(skills);
    }
    base_view_put(view);
    return r;
}

int base_rows_check(struct skills *skills, const char *agent, struct err *err) {
    struct base_stack stack;
    bool current = false;
    int r = rows_look(skills, agent, &current, &stack, err);
    if (r < 0 || current)
        return r;
    if ((r = skills_lock(skills, err)) < 0)
        return r;
    r = rows_renew_locked(skills, agent, err);
    skills_unlock(skills);
    return r;
}

/* Rows of an agent whose file is gone, too. */
static int forget_lost(struct skills *skills, struct err *err) {
    struct db *db;
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    r = db_exec(db,
                "DELETE FROM agent_skill_registry WHERE user_id IS NULL AND agent_id NOT IN"
                " (SELECT agent_id FROM base_known)",
                err);
    skilldb_give(skills);
    return r;
}

int base_agents(struct skills *skills, int (*each)(void *user, const char *agent, struct err *err), void *user,
                struct err *err) {
    struct err ignored;
    int fd = openat(skills->agents_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "the agents");
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir)))
        if (skill_agent_check(entry->d_name, &ignored) == 0)
            r = each(user, entry->d_name, err);
    closedir(dir);
    return r;
}

/* One agent whose files are damaged keeps nobody else from his; who asks for it is told. */
static int check_one(void *user, const char *agent, struct err *err) {
    if (base_rows_check(user, agent, err) < 0)
        log_warn("skills of agent '%s': %s", agent, err->text);
    return 0;
}

int base_rows_check_all(struct skills *skills, struct err *err) {
    int r = base_agents(skills, check_one, skills, err);
    return r < 0 ? r : forget_lost(skills, err);
}

/* ---- the contract ---- */

static int rows_each(struct db *db, const char *agent, const char *user,
                     int (*each)(void *each_user, const struct skill_row *row), void *each_user, struct err *err) {
    autoquery query;
    int r = db_query(db, &query, err,
                     "SELECT id, agent_id, skill_id, user_id, created_at FROM agent_skill_registry"
                     " WHERE (?1 IS NULL OR agent_id = ?1) AND (?2 IS NULL OR user_id IS NULL OR user_id = ?2)"
                     " ORDER BY agent_id, skill_id, user_id",
                     "tt", agent, user);
    while (r >= 0 && (r = query_next(&query, err)) > 0) {
        struct skill_row row = {.id = query_int(&query, 0),
                                .agent = query_text(&query, 1),
                                .skill = query_text(&query, 2),
                                .user = query_text(&query, 3),
                                .created_ms = (uint64_t)query_int(&query, 4)};
        r = each(each_user, &row);
    }
    return r < 0 ? r : 0;
}

int base_rows(struct skills *skills, const char *agent, const char *user,
              int (*each)(void *each_user, const struct skill_row *row), void *each_user, struct err *err) {
    struct db *db;
    own_forgotten(skills);
    int r = agent ? base_rows_check(skills, agent, err) : base_rows_check_all(skills, err);
    if (r == 0)
        r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    r = rows_each(db, agent, user, each, each_user, err);
    skilldb_give(skills);
    return r;
}

static int user_rows_set(struct db *db, const char *agent, const char *user, const char *const *skill_ids,
                         struct err *err) {
    int r = present_clear(db, err);
    for (size_t i = 0; r == 0 && skill_ids[i]; i++)
        r = row_add(db, agent, skill_ids[i], user, clock_wall_ms(), err);
    if (r == 0)
        r = rows_drop_others(db, agent, user, err);
    return r < 0 ? r : db_do(db, err, "INSERT OR IGNORE INTO own_known VALUES (?1, ?2)", "tt", agent, user);
}

int base_user_rows(struct skills *skills, const char *agent, const char *user, const char *const *skill_ids,
                   struct err *err) {
    struct db *db;
    int r = skill_agent_check(agent, err);
    if (r == 0)
        r = text_user(user, err);
    if (r == 0)
        r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    if ((r = db_begin(db, err)) == 0)
        r = db_end(db, user_rows_set(db, agent, user, skill_ids, err), err);
    skilldb_give(skills);
    return r;
}

int base_user_known(struct skills *skills, const char *agent, const char *user, bool *ret_known, struct err *err) {
    struct db *db;
    int r = skilldb_take(skills, &db, err);
    if (r < 0)
        return r;
    r = db_get(db, err,
               "SELECT 1 FROM made WHERE NOT anew UNION ALL"
               " SELECT 1 FROM own_known WHERE agent_id = ?1 AND user_id = ?2",
               "tt>", agent, user);
    *ret_known = r > 0;
    skilldb_give(skills);
    return r < 0 ? r : 0;
}
