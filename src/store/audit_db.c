/* The file of the audit log: schema, writing, cutting. Called by the writer thread of audit.c.
 * Invariant: the schema itself refuses to change or remove a row; every transaction begins IMMEDIATE, so that two
 * daemons on one file continue one chain.
 *
 * A log that is too large loses the oldest rows of the user who has most of them: nobody's rows go because somebody else
 * wrote many. What is missing inside is a row of `gap`, with the hash of the last row that went, so that the chain goes
 * on behind it; neighbouring gaps are one. Where no user stands out, and for age, the log is cut at its beginning. */
#include "store/audit_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

enum {
    DB_TRIM_ROWS = 20000, /* cut at once: the writer's queue waits for it */
    DB_CHECK_ROWS = 64,   /* of the end of the chain, looked at when the file is opened */
    DB_FIRST_TEXT = 11,   /* column of verb */
    DB_SHARES = 8,        /* who has more than one of so many parts of the rows is cut before others */
};

/* A row can only be added with the next id, never changed, and removed only at the beginning by whoever first notes in
 * `cut` up to where, which itself only grows. REPLACE would remove without asking the trigger of DELETE: the one of
 * INSERT refuses it. */
static const char db_schema[] =
    "CREATE TABLE audit (id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, status INTEGER NOT NULL, exit_code INTEGER,"
    " signal INTEGER, timed_out INTEGER, oom_killed INTEGER, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,"
    " duration_us INTEGER NOT NULL, count INTEGER NOT NULL, verb TEXT NOT NULL, box TEXT, user TEXT, actor TEXT, scope TEXT, token TEXT,"
    " peer TEXT, outcome TEXT NOT NULL, detail TEXT, request_id TEXT, hash BLOB NOT NULL);"
    "CREATE INDEX audit_box ON audit (box) WHERE box IS NOT NULL;"
    "CREATE INDEX audit_user ON audit (user) WHERE user IS NOT NULL;"
    "CREATE TABLE cut (one INTEGER PRIMARY KEY CHECK (one = 1), id INTEGER NOT NULL, hash BLOB NOT NULL);"
    "INSERT INTO cut VALUES (1, 0, zeroblob(32));"
    "CREATE TRIGGER audit_insert BEFORE INSERT ON audit"
    " WHEN NEW.id <> 1 + coalesce((SELECT max(id) FROM audit), (SELECT id FROM cut))"
    " BEGIN SELECT raise(ABORT, 'the audit log only grows at its end'); END;"
    "CREATE TRIGGER audit_update BEFORE UPDATE ON audit"
    " BEGIN SELECT raise(ABORT, 'the audit log cannot be changed'); END;"
    "CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT id FROM cut)"
    " BEGIN SELECT raise(ABORT, 'the audit log is only cut at its beginning'); END;"
    "CREATE TRIGGER cut_update BEFORE UPDATE ON cut WHEN NEW.id <= OLD.id"
    " BEGIN SELECT raise(ABORT, 'a cut cannot be taken back'); END;"
    "CREATE TRIGGER cut_delete BEFORE DELETE ON cut"
    " BEGIN SELECT raise(ABORT, 'a cut cannot be taken back'); END;";

/* What files of an older cubby lack: a row may also be removed after a gap that holds it was noted. */
static const char db_gaps[] =
    "CREATE TABLE gap (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, hash BLOB NOT NULL);"
    "DROP TRIGGER audit_delete;"
    "CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT id FROM cut) AND OLD.id >"
    " coalesce((SELECT last FROM gap WHERE first <= OLD.id ORDER BY first DESC LIMIT 1), 0)"
    " BEGIN SELECT raise(ABORT, 'the audit log is only cut at its beginning, or where a gap says so'); END;";

static const struct db_kind kind = {
    .name = "audit.db",
    .what = "audit log",
    .application = 0x63756264, /* "cubd" */
    .version = 1,
    .schema = db_schema,
    .pragmas = "PRAGMA synchronous=NORMAL;PRAGMA wal_autocheckpoint=8000;PRAGMA journal_size_limit=67108864",
    .wal = true,
};

/* ---- opening ---- */

/* What an operator reads when the daemon refuses to start. */
static int db_refuse(const char *directory, struct err *err) {
    char why[sizeof err->text];
    memcpy(why, err->text, sizeof why);
    if (err->code == ERR_FULL)
        return -ERR_FULL;
    return err_set(
        err, (enum err_code)err->code,
        "audit log %s/%s: %.300s; keep the file as it is, move it away and start again (a new one is begun), or "
        "set audit: false",
        directory, kind.name, why);
}

/* The last rows fit to each other: the file is no older, cut or patched copy, as far as that is cheap to see. */
static int db_check_end(struct audit_db *db, struct err *err) {
    uint8_t before[32];
    uint64_t start, last = 0;
    autoquery query = {0};
    int r = audit_db_start(db, &start, before, err);
    if (r == 0)
        r = db_query(&db->db, &query, err,
                     "SELECT " AUDIT_DB_COLUMNS " FROM audit WHERE id >= (SELECT max(id) FROM audit) - ?1"
                     " ORDER BY id",
                     "n", DB_CHECK_ROWS);
    bool known = false; /* the hash before the row is */
    while (r == 0 && (r = query_next(&query, err)) > 0) {
        struct audit_row row;
        audit_db_row(query.row, &row);
        r = known && row.id != last + 1 ? audit_db_gap(db, last + 1, row.id - 1, before, err) : 0;
        if (r == 0 && (known || row.id == start + 1) && !audit_db_row_fits(&row, before))
            r = err_set(err, ERR_IO, "row %" PRIu64 " does not follow from the one before it", row.id);
        memcpy(before, row.hash, sizeof before);
        last = row.id;
        known = true;
    }
    return r;
}

static int db_upgrade(struct audit_db *db, struct err *err) {
    int64_t there = 0;
    int r = db_begin(&db->db, err);
    if (r < 0)
        return r;
    r = db_number(&db->db, "SELECT count(*) FROM sqlite_master WHERE name = 'gap'", &there, err);
    if (r == 0 && !there)
        r = db_exec(&db->db, db_gaps, err);
    return db_end(&db->db, r, err);
}

int audit_db_open(const char *directory, struct audit_db *ret_db, struct err *err) {
    struct audit_db db = {0};
    int r = db_open(&kind, directory, &db.db, err);
    if (r == 0)
        r = db_upgrade(&db, err);
    if (r == 0)
        r = db_check_end(&db, err);
    if (r < 0) {
        audit_db_close(&db);
        return db_refuse(directory, err);
    }
    *ret_db = db;
    return 0;
}

int audit_db_open_reading(const char *directory, struct audit_db *ret_db, struct err *err) {
    struct audit_db db = {0};
    int r = db_open_reading(&kind, directory, &db.db, err);
    if (r == 0)
        *ret_db = db;
    return r;
}

void audit_db_close(struct audit_db *db) {
    db_close(&db->db);
}

/* ---- rows ---- */

void audit_db_row(sqlite3_stmt *statement, struct audit_row *ret_row) {
    *ret_row = (struct audit_row){
        .id = (uint64_t)sqlite3_column_int64(statement, 0),
        .at_ms = (uint64_t)sqlite3_column_int64(statement, 1),
        .status = (uint32_t)sqlite3_column_int64(statement, 2),
        .has_result = sqlite3_column_type(statement, 5) != SQLITE_NULL,
        .exited = sqlite3_column_type(statement, 3) != SQLITE_NULL,
        .exit_code = sqlite3_column_int(statement, 3),
        .signal = sqlite3_column_int(statement, 4),
        .timed_out = sqlite3_column_int(statement, 5),
        .oom_killed = sqlite3_column_int(statement, 6),
        .bytes_in = (uint64_t)sqlite3_column_int64(statement, 7),
        .bytes_out = (uint64_t)sqlite3_column_int64(statement, 8),
        .duration_us = (uint64_t)sqlite3_column_int64(statement, 9),
        .count = (uint32_t)sqlite3_column_int64(statement, 10),
    };
    for (int i = 0; i < AUDIT_TEXTS; i++) {
        const char *text = sqlite3_column_blob(statement, DB_FIRST_TEXT + i);
        size_t len = (size_t)sqlite3_column_bytes(statement, DB_FIRST_TEXT + i);
        if (sqlite3_column_type(statement, DB_FIRST_TEXT + i) != SQLITE_NULL)
            audit_setn(ret_row, (enum audit_field)i, text ? text : "", len);
    }
    const void *hash = sqlite3_column_blob(statement, DB_FIRST_TEXT + AUDIT_TEXTS);
    if (hash && sqlite3_column_bytes(statement, DB_FIRST_TEXT + AUDIT_TEXTS) == sizeof ret_row->hash)
        memcpy(ret_row->hash, hash, sizeof ret_row->hash);
}

bool audit_db_row_fits(const struct audit_row *row, const uint8_t before[32]) {
    uint8_t hash[32];
    autobuf encoded = buf_max(AUDIT_ROW_BYTES);
    audit_encode(row, &encoded);
    if (encoded.failed)
        return false;
    audit_hash(before, row->id, encoded.data, encoded.len, hash);
    return !memcmp(hash, row->hash, sizeof hash);
}

int audit_db_start(struct audit_db *db, uint64_t *ret_id, uint8_t ret_hash[32], struct err *err) {
    int r = db_get(&db->db, err, "SELECT id, hash FROM cut", ">ih", ret_id, ret_hash);
    return r > 0 ? 0 : r < 0 ? r : err_set(err, ERR_IO, "the audit log is damaged (its beginning is not noted)");
}

int audit_db_gap(struct audit_db *db, uint64_t first, uint64_t last, uint8_t ret_hash[32], struct err *err) {
    int r = db_get(&db->db, err, "SELECT hash FROM gap WHERE first = ?1 AND last = ?2", "ii>h", first, last, ret_hash);
    return r > 0 ? 0 : err_set(err, ERR_IO, "rows %" PRIu64 " to %" PRIu64 " are missing", first, last);
}

/* The newest row, or where the log was cut. */
static int db_newest(struct audit_db *db, uint64_t *ret_id, uint8_t ret_hash[32], struct err *err) {
    int r = db_get(&db->db, err, "SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1", ">ih", ret_id, ret_hash);
    return r > 0 ? 0 : r < 0 ? r : audit_db_start(db, ret_id, ret_hash, err);
}

/* ---- writing ---- */

static void db_bind(sqlite3_stmt *insert, const struct audit_row *row) {
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)row->id);
    sqlite3_bind_int64(insert, 2, (sqlite3_int64)row->at_ms);
    sqlite3_bind_int64(insert, 3, row->status);
    if (row->has_result) {
        if (row->exited)
            sqlite3_bind_int(insert, 4, row->exit_code);
        else
            sqlite3_bind_int(insert, 5, row->signal);
        sqlite3_bind_int(insert, 6, row->timed_out);
        sqlite3_bind_int(insert, 7, row->oom_killed);
    }
    sqlite3_bind_int64(insert, 8, (sqlite3_int64)row->bytes_in);
    sqlite3_bind_int64(insert, 9, (sqlite3_int64)row->bytes_out);
    sqlite3_bind_int64(insert, 10, (sqlite3_int64)row->duration_us);
    sqlite3_bind_int64(insert, 11, row->count);
    for (int i = 0; i < AUDIT_TEXTS; i++)
        if (row->texts[i].data)
            sqlite3_bind_text(insert, DB_FIRST_TEXT + 1 + i, row->texts[i].data, (int)row->texts[i].len, SQLITE_STATIC);
    sqlite3_bind_blob(insert, DB_FIRST_TEXT + AUDIT_TEXTS + 1, row->hash, sizeof row->hash, SQLITE_STATIC);
}

static int db_insert(struct audit_db *db, const struct audit_row *row, struct err *err) {
    autoquery insert;
    int r = db_query(&db->db, &insert, err,
                     "INSERT INTO audit VALUES"
                     " (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)",
                     "");
    if (r < 0)
        return r;
    db_bind(insert.row, row);
    return query_next(&insert, err);
}

/* Within a transaction: rows of the batch behind the newest one. */
static int db_insert_all(struct audit_db *db, const struct buf *batch, uint64_t *ret_last, struct err *err) {
    uint8_t hash[32] = {0};
    uint64_t id = 0;
    int r = db_newest(db, &id, hash, err);
    struct view rest = view_of(batch->data, batch->len);
    while (r == 0 && rest.len) {
        const uint8_t *begin = rest.data;
        struct audit_row row;
        if (!audit_decode(&rest, &row))
            return err_set(err, ERR_INTERNAL, "audit: a queued row is not whole");
        row.id = ++id;
        audit_hash(hash, id, begin, (size_t)(rest.data - begin), row.hash);
        memcpy(hash, row.hash, sizeof hash);
        r = db_insert(db, &row, err);
    }
    *ret_last = id;
    return r;
}

int audit_db_append(struct audit_db *db, const struct buf *batch, struct err *err) {
    uint64_t last = 0;
    int r = db_begin(&db->db, err);
    if (r < 0)
        return r;
    r = db_end(&db->db, db_insert_all(db, batch, &last, err), err);
    if (r == 0)
        db->last = last;
    return r;
}

/* ---- cutting ---- */

/* What a cut has to do. */
struct trim {
    uint64_t start;   /* the log begins behind this row */
    int64_t rows;     /* that it has */
    int64_t surplus;  /* of them, that are too many for max_bytes */
    int64_t age_id;   /* rows up to this one are too old */
    char detail[320]; /* what the row says that tells of the cut */
};

static int trim_look(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, struct trim *trim, struct err *err) {
    int64_t pages = 0, unused = 0, size = 0;
    uint8_t hash[32];
    int r = audit_db_start(db, &trim->start, hash, err);
    if (r == 0)
        r = db_number(&db->db, "PRAGMA page_count", &pages, err);
    if (r == 0)
        r = db_number(&db->db, "PRAGMA freelist_count", &unused, err);
    if (r == 0)
        r = db_number(&db->db, "PRAGMA page_size", &size, err);
    uint64_t used = (uint64_t)((pages - unused) * size);
    if (r == 0 && max_bytes && used > max_bytes) { /* a tenth below, so that it is not done all the time */
        r = db_number(&db->db, "SELECT count(*) FROM audit", &trim->rows, err);
        trim->surplus = 1 + (int64_t)((1 - 0.9 * (double)max_bytes / (double)used) * (double)trim->rows);
    }
    if (r == 0 && before_ms) /* the first young one; rows come in order of their end */
        r = db_get(&db->db, err,
                   "SELECT coalesce((SELECT id - 1 FROM audit WHERE at_ms >= ?1 ORDER BY id LIMIT 1),"
                   " (SELECT max(id) FROM audit), 0)",
                   "i>i", before_ms, &trim->age_id);
    return r < 0 ? r : 0;
}

/* Before rows go: the newest may be among them. */
static int trim_tell(struct audit_db *db, const char *detail, struct err *err) {
    struct audit_row row = {.at_ms = clock_wall_ms()};
    uint64_t last;
    autobuf batch = buf_max(AUDIT_ROW_BYTES);
    audit_set(&row, AUDIT_VERB, "audit_cut");
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_set(&row, AUDIT_DETAIL, detail);
    audit_encode(&row, &batch);
    return db_insert_all(db, &batch, &last, err);
}

/* ---- cutting at the beginning ---- */

static int trim_beginning(struct audit_db *db, int64_t count, struct trim *trim, bool *ret_more, struct err *err) {
    int64_t id = 0;
    int r = 0;
    count = count < DB_TRIM_ROWS ? count : DB_TRIM_ROWS;
    if (count > 0)
        r = db_get(&db->db, err,
                   "SELECT coalesce((SELECT id FROM audit ORDER BY id LIMIT 1 OFFSET ?1),"
                   " (SELECT max(id) FROM audit), 0)",
                   "i>i", count - 1, &id);
    id = id > trim->age_id ? id : trim->age_id;
    if (r < 0 || id <= (int64_t)trim->start)
        return r < 0 ? r : 0;
    int64_t most = (int64_t)trim->start + DB_TRIM_ROWS;
    *ret_more = count == DB_TRIM_ROWS || trim->age_id > most;
    if (id == trim->age_id && id > most)
        id = most;
    r = db_get(&db->db, err, /* to the end of a gap, whose hash is known */
               "SELECT coalesce((SELECT last FROM gap WHERE first <= ?1 AND last >= ?1), ?1)", "i>i", id, &id);
    snprintf(trim->detail, sizeof trim->detail, "rows %" PRIu64 " to %" PRId64 " were cut", trim->start + 1, id);
    if (r >= 0)
        r = trim_tell(db, trim->detail, err);
    if (r == 0)
        r = db_do(&db->db, err,
                  "UPDATE cut SET id = ?1, hash = coalesce((SELECT hash FROM audit WHERE id = ?1),"
                  " (SELECT hash FROM gap WHERE last = ?1))",
                  "i", id);
    if (r == 0)
        r = db_do(&db->db, err, "DELETE FROM audit WHERE id <= ?1", "i", id);
    return r < 0 ? r : db_do(&db->db, err, "DELETE FROM gap WHERE last <= ?1", "i", id);
}

/* ---- cutting one user's rows ---- */

/* Rows [first, last] are about to go; last has that hash. Gaps that touch become one. */
static int gap_put(struct audit_db *db, int64_t first, int64_t last, const void *hash, struct err *err) {
    int64_t before = first, behind = last;
    int r = db_get(&db->db, err, "SELECT first FROM gap WHERE first < ?1 AND last = ?1 - 1", "i>i", first, &before);
    if (r >= 0)
        r = db_get(&db->db, err, "SELECT last FROM gap WHERE first = ?1", "i>i", last + 1, &behind);
    if (r >= 0)
        r = db_do(&db->db, err,
                  "INSERT OR REPLACE INTO gap VALUES (?1, ?2, coalesce((SELECT hash FROM gap WHERE first = ?3), ?4))",
                  "iiih", before, behind, last + 1, hash);
    return r < 0 || behind == last ? r : db_do(&db->db, err, "DELETE FROM gap WHERE first = ?1", "i", last + 1);
}

/* Notes gaps for the oldest `count` rows of the user; *ret_last: the last of them. */
static int gaps_note(struct audit_db *db, const char *user, int64_t count, int64_t *ret_last, struct err *err) {
    autoquery query;
    int r = db_query(&db->db, &query, err, "SELECT id, hash FROM audit WHERE user = ?1 ORDER BY id LIMIT ?2", "ti",
                     user, count);
    int64_t first = 0, last = 0;
    uint8_t hash[32] = {0};
    while (r == 0 && (r = query_next(&query, err)) > 0) {
        int64_t id = query_int(&query, 0);
        r = last && id != last + 1 ? gap_put(db, first, last, hash, err) : 0;
        first = last && id == last + 1 ? first : id;
        last = id;
        query_hash(&query, 1, hash);
    }
    if (r == 0 && last)
        r = gap_put(db, first, last, hash, err);
    *ret_last = last;
    return r;
}

/* The user with most rows. *ret_count 0: nobody has more than a share of them. */
static int largest_writer(struct audit_db *db, int64_t rows, char *user, size_t size, int64_t *ret_count,
                          struct err *err) {
    autoquery query;
    int r =
        db_query(&db->db, &query, err,
                 "SELECT user, count(*) FROM audit WHERE user IS NOT NULL GROUP BY user ORDER BY 2 DESC LIMIT 1", "");
    *ret_count = 0;
    if (r == 0 && (r = query_next(&query, err)) > 0) {
        snprintf(user, size, "%s", query_text(&query, 0));
        int64_t count = query_int(&query, 1), share = rows / DB_SHARES;
        *ret_count = count > share ? count - share : 0;
    }
    return r < 0 ? r : 0;
}

static int trim_writer(struct audit_db *db, const char *user, int64_t count, struct trim *trim, bool *ret_more,
                       struct err *err) {
    int64_t last = 0;
    count = count < DB_TRIM_ROWS ? count : DB_TRIM_ROWS;
    *ret_more = true; /* somebody else may be the largest now */
    snprintf(trim->detail, sizeof trim->detail, "%" PRId64 " rows of user '%s', who had most, were cut", count, user);
    int r = trim_tell(db, trim->detail, err);
    if (r == 0)
        r = gaps_note(db, user, count, &last, err);
    return r < 0 ? r : db_do(&db->db, err, "DELETE FROM audit WHERE user = ?1 AND id <= ?2", "ti", user, last);
}

static int db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err) {
    struct trim trim = {0};
    char user[160] = "";
    int64_t above = 0;
    int r = trim_look(db, before_ms, max_bytes, &trim, err);
    if (r == 0 && trim.surplus && trim.age_id <= (int64_t)trim.start)
        r = largest_writer(db, trim.rows, user, sizeof user, &above, err);
    if (r < 0)
        return r;
    if (above)
        return trim_writer(db, user, above < trim.surplus ? above : trim.surplus, &trim, ret_more, err);
    return trim_beginning(db, trim.surplus, &trim, ret_more, err);
}

int audit_db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err) {
    *ret_more = false;
    int r = db_begin(&db->db, err);
    return r < 0 ? r : db_end(&db->db, db_trim(db, before_ms, max_bytes, ret_more, err), err);
}
