/* The file STATE/skills.db. Its tables belong to base, own and registry; all of it but the registry's entries can be made
 * again from files. Invariant: a statement that was begun is finished before the connection is given back.
 *
 * Synced at checkpoints only: what a power failure takes of the last changes is found out by comparing with the files
 * (base_known), and the registry says for itself when it must not be lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "skill/skills.h"

/* agent_skill_registry: user_id NULL is a public skill. base_known: what agents/AGENT said when the rows were made.
 * own_base: the base that a user's version is founded on, and when they were last made the same (own/rows.c).
 * own_stack: the public layers that a box had when it was last looked at (own/based.c).
 * base_version: what was found in a layer, which never changes. layer_left: in no stack any more, since then.
 * made: whether there were skills before this file was, so that users' boxes have to be looked at (own_known: they were). */
static const char schema[] =
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

static const struct db_kind kind = {
    .name = "skills.db",
    .what = "what is known of skills (skills.db)",
    .application = 0x6375736b, /* "cusk" */
    .version = 1,
    .schema = schema,
    .pragmas = "PRAGMA synchronous=NORMAL;PRAGMA journal_size_limit=16777216",
    .wal = true,
    .closed = true,
};

/* A damaged file is kept beside the new one: entries of the registry are nowhere else. */
static void put_aside(const struct skills *skills) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    uint64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *from = xasprintf("%s/%s%s", skills->state_dir, kind.name, ends[i]);
        char *to = xasprintf("%s/%s.damaged-%" PRIu64 "%s", skills->state_dir, kind.name, now_ms, ends[i]);
        if (rename(from, to) == 0)
            log_warn("%s is damaged; it was moved to %s, and what files tell is read from them again", from, to);
        free(from);
        free(to);
    }
}

/* The first who opens it says how it came to be: a file that was there answers whether it can be read at all. */
static int open_once(struct skills *skills, struct err *err) {
    int r = db_open(&kind, skills->state_dir, &skills->db, err);
    if (r == 0 && (r = db_do(&skills->db, err, "INSERT OR IGNORE INTO made VALUES (1, ?)", "n", skills->existed)) < 0)
        db_close(&skills->db);
    return r;
}

int skilldb_open(struct skills *skills, struct err *err) {
    int r = open_once(skills, err);
    if (r < 0 && err->why == WHY_DAMAGED) {
        put_aside(skills);
        r = open_once(skills, err);
    }
    skills->existed = true;
    return r < 0 ? err_wrap(err, "%.300s/%s", skills->state_dir, kind.name) : 0;
}

int skilldb_take(struct skills *skills, struct db **ret_db, struct err *err) {
    int r = 0;
    pthread_mutex_lock(&skills->db_lock);
    if (!skills->db.handle || db_replaced(&skills->db)) {
        db_close(&skills->db);
        r = skilldb_open(skills, err);
    }
    if (r < 0)
        pthread_mutex_unlock(&skills->db_lock);
    else
        *ret_db = &skills->db;
    return r;
}

void skilldb_give(struct skills *skills) {
    pthread_mutex_unlock(&skills->db_lock);
}
