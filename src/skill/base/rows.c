/* The table agent_skill_registry: which skills an agent has, public ones and its users' own. Called by base within its
 * changes, by own, and for lists. Invariant: public rows follow agents/AGENT; base_known holds the content of that file
 * when they were made. Where the two differ (a daemon died, the database was lost) the rows are made again. */
#include "base/base.h"
#include "base/log.h"
#include "skill/base/view.h"
#include "skill/own/own.h"

/* Each transaction fills the table `present` with what exists now, then deletes all other rows. Rows that stay keep
 * their id and time. */
static int rows_begin(struct db *db, struct err *err) {
    return db_exec(db,
                   "CREATE TEMP TABLE IF NOT EXISTS present (skill TEXT PRIMARY KEY) WITHOUT ROWID;"
                   "DELETE FROM temp.present",
                   err);
}

static int rows_add(struct db *db, const char *agent, const char *skill, const char *user, uint64_t created_ms,
                    struct err *err) {
    int r = db_do(db, err, "INSERT OR IGNORE INTO temp.present VALUES (?1)", "t", skill);
    return r < 0 ? r
                 : db_do(db, err,
                         "INSERT OR IGNORE INTO agent_skill_registry (agent_id, skill_id, user_id, created_at)"
                         " VALUES (?1, ?2, ?3, ?4)",
                         "ttti", agent, skill, user, created_ms);
}

static int rows_drop_others(struct db *db, const char *agent, const char *user, struct err *err) {
    return db_do(db, err,
                 "DELETE FROM agent_skill_registry WHERE agent_id = ?1 AND user_id IS ?2"
                 " AND skill_id NOT IN (SELECT skill FROM temp.present)",
                 "tt", agent, user);
}

int base_rows_set(struct db *db, const char *agent, const struct base_view *view, const struct base_stack *stack,
                  struct err *err) {
    char text[STACK_BYTES];
    int r = rows_begin(db, err);
    for (size_t i = 0; r == 0 && i < view->count; i++) {
        const struct base_skill *skill = &view->skills[i];
        if (strcmp(skill->layer, view->creator) != 0)
            r = rows_add(db, agent, skill->skill, NULL, skill->changed_ms, err);
    }
    if (r == 0)
        r = rows_drop_others(db, agent, NULL, err);
    base_stack_text(stack, text);
    return r < 0 ? r : db_do(db, err, "INSERT OR REPLACE INTO base_known VALUES (?1, ?2)", "tt", agent, text);
}

/* ---- rows older than the files ---- */

static int rows_look(struct skills *skills, const char *agent, bool *ret_current, struct base_stack *ret_stack,
                     struct err *err) {
    struct db *db;
    char text[STACK_BYTES];
    int64_t same = 0;
    TRY(base_stack_read(skills, agent, ret_stack, err) ?: skilldb_take(skills, &db, err));
    base_stack_text(ret_stack, text);
    int r = db_get(db, err, "SELECT layers = ?2 FROM base_known WHERE agent_id = ?1", "tt>i", agent, text, &same);
    skilldb_give(skills);
    *ret_current = r > 0 ? same : ret_stack->count == 0;
    return r < 0 ? r : 0;
}

static int rows_check(struct skills *skills, const char *agent, struct err *err) {
    struct base_view *view = NULL;
    struct base_stack stack;
    struct db *db;
    bool current = false;
    int r = rows_look(skills, agent, &current, &stack, err);
    if (r < 0 || current || (r = skills_lock(skills, err)) < 0)
        return r;
    r = rows_look(skills, agent, &current, &stack, err); /* another thread may have done it */
    if (r == 0 && !current)
        r = base_view_make(skills, &stack, &view, err);
    if (r == 0 && view && (r = skilldb_begin(skills, &db, err)) == 0)
        r = skilldb_end(skills, base_rows_set(db, agent, view, &stack, err), err);
    base_view_put(view);
    skills_unlock(skills);
    return r;
}

int base_agents(struct skills *skills, struct names *ret_agents, struct err *err) {
    autonames all = names_new();
    int r = names_dir(&all, skills->agents_dir, "the agents", err);
    for (size_t i = 0; r == 0 && i < all.count; i++)
        if (policy_agent(all.names[i], ERR_IGNORED) == 0)
            names_add(ret_agents, all.names[i]);
    return r;
}

int base_rows_check(struct skills *skills, const char *agent, struct err *err) {
    struct db *db;
    if (agent)
        return rows_check(skills, agent, err);
    autonames agents = names_new();
    int r = base_agents(skills, &agents, err);
    for (size_t i = 0; r == 0 && i < agents.count; i++) /* one damaged agent does not stop the others */
        if (rows_check(skills, agents.names[i], err) < 0)
            log_warn("cannot list the skills of agent '%s': %s", agents.names[i], err->text);
    if (r < 0 || (r = skilldb_take(skills, &db, err)) < 0)
        return r;
    r = db_exec(db, /* rows of agents whose file is gone */
                "DELETE FROM agent_skill_registry WHERE user_id IS NULL AND agent_id NOT IN"
                " (SELECT agent_id FROM base_known)",
                err);
    skilldb_give(skills);
    return r;
}

/* ---- reading and changing rows ---- */

int base_rows(struct skills *skills, const char *agent, const char *user,
              int (*each)(void *each_user, const struct skill_row *row), void *each_user, struct err *err) {
    struct db *db;
    own_forgotten(skills);
    TRY(base_rows_check(skills, agent, err) ?: skilldb_take(skills, &db, err));
    struct query query;
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
    query_end(&query);
    skilldb_give(skills);
    return r < 0 ? r : 0;
}

int base_user_rows(struct skills *skills, const char *agent, const char *user, const char *const *skill_ids,
                   struct err *err) {
    struct db *db;
    TRY(policy_agent(agent, err) ?: text_user(user, err) ?: skilldb_begin(skills, &db, err));
    int r = rows_begin(db, err);
    for (size_t i = 0; r == 0 && skill_ids[i]; i++)
        r = rows_add(db, agent, skill_ids[i], user, clock_wall_ms(), err);
    if (r == 0)
        r = rows_drop_others(db, agent, user, err)
                ?: db_do(db, err, "INSERT OR IGNORE INTO own_known VALUES (?1, ?2)", "tt", agent, user);
    return skilldb_end(skills, r, err);
}

int base_user_known(struct skills *skills, const char *agent, const char *user, bool *ret_known, struct err *err) {
    struct db *db;
    TRY(skilldb_take(skills, &db, err));
    int r = db_get(db, err,
                   "SELECT 1 FROM made WHERE NOT anew UNION ALL"
                   " SELECT 1 FROM own_known WHERE agent_id = ?1 AND user_id = ?2",
                   "tt>", agent, user);
    *ret_known = r > 0;
    skilldb_give(skills);
    return r < 0 ? r : 0;
}
