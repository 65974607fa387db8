/* The file STATE/skills.db, whose tables belong to base and own. It can be rebuilt from files. Invariant: a thread
 * finishes its statements before it gives the connection back.
 *
 * Synced at checkpoints only. After a power failure, comparing with the files (base_known) finds lost changes. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "skill/skills.h"

/* agent_skill_registry: a row with user_id NULL is a public skill. base_known: the content of agents/AGENT from which
 * the rows were made. own_base: the public version that a user's version started from, and when the two were last equal
 * (own/rows.c). own_stack: the public layers of a box at the last check (own/rows.c). base_version: facts about a skill
 * in a layer, which never changes. layer_left: since when no stack has had a layer. made: whether skills existed before
 * this file. If so, users' boxes must be compared; own_known has those done. */
static const char skilldb_schema[] =
    "CREATE TABLE agent_skill_registry (id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL,"
    " skill_id TEXT NOT NULL, user_id TEXT, created_at INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX registry_one ON agent_skill_registry (agent_id, ifnull(user_id, ''), skill_id);"
    "CREATE TABLE base_known (agent_id TEXT PRIMARY KEY, layers TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE base_version (layer TEXT, skill TEXT, name TEXT NOT NULL, description TEXT NOT NULL,"
    " sha256 BLOB NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, changed_ms INTEGER NOT NULL,"
    " PRIMARY KEY (layer, skill)) WITHOUT ROWID;"
    "CREATE TABLE made (one INTEGER PRIMARY KEY CHECK (one = 1), anew INTEGER NOT NULL);"
    "CREATE TABLE layer_left (layer TEXT PRIMARY KEY, left_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE own_known (agent_id TEXT, user_id TEXT, PRIMARY KEY (agent_id, user_id)) WITHOUT ROWID;"
    "CREATE TABLE own_base (box TEXT, skill TEXT, sha256 BLOB NOT NULL, synced_ms INTEGER NOT NULL,"
    " PRIMARY KEY (box, skill)) WITHOUT ROWID;"
    "CREATE TABLE own_stack (box TEXT PRIMARY KEY, layers TEXT NOT NULL) WITHOUT ROWID;";

static const struct db_kind skilldb_kind = {
    .name = "skills.db",
    .what = "the database of skills (skills.db)",
    .application = 0x6375736b, /* "cusk" */
    .version = 1,
    .schema = skilldb_schema,
    .pragmas = "PRAGMA synchronous=NORMAL;PRAGMA journal_size_limit=16777216",
    .wal = true,
    .closed = true,
};

static void skilldb_put_aside(const struct skills *skills) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    uint64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *from = xasprintf("%s/%s%s", skills->state_dir, skilldb_kind.name, ends[i]);
        char *to = xasprintf("%s/%s.damaged-%" PRIu64 "%s", skills->state_dir, skilldb_kind.name, now_ms, ends[i]);
        if (rename(from, to) == 0)
            log_warn("%s is damaged; it was moved to %s and is rebuilt from the files of skills", from, to);
        free(from);
        free(to);
    }
}

/* The first daemon to open the file records whether skills existed. This also shows whether the file is readable. */
static int skilldb_ready(struct skills *skills, struct err *err) {
    int r = db_ready(&skills->db, &skilldb_kind, skills->state_dir, err);
    if (r > 0 && (r = db_do(&skills->db, err, "INSERT OR IGNORE INTO made VALUES (1, ?)", "n", skills->existed)) < 0)
        db_close(&skills->db);
    return r;
}

int skilldb_take(struct skills *skills, struct db **ret_db, struct err *err) {
    pthread_mutex_lock(&skills->db_lock);
    int r = skilldb_ready(skills, err);
    if (r < 0 && err->why == WHY_DAMAGED) {
        skilldb_put_aside(skills);
        r = skilldb_ready(skills, err);
    }
    skills->existed = true;
    *ret_db = &skills->db;
    if (r == 0)
        return 0;
    pthread_mutex_unlock(&skills->db_lock);
    return err_wrap(err, "%.300s/%s", skills->state_dir, skilldb_kind.name);
}

void skilldb_give(struct skills *skills) {
    pthread_mutex_unlock(&skills->db_lock);
}

int skilldb_begin(struct skills *skills, struct db **ret_db, struct err *err) {
    int r = skilldb_take(skills, ret_db, err);
    if (r == 0 && (r = db_begin(*ret_db, err)) < 0)
        skilldb_give(skills);
    return r;
}

int skilldb_end(struct skills *skills, int code, struct err *err) {
    int r = db_end(&skills->db, code, err);
    skilldb_give(skills);
    return r;
}
