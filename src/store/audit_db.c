/* The file of the audit log: schema, writing, cutting. Called by the writer thread of audit.c. Invariant: the schema
 * itself refuses to change or remove a row; every transaction begins IMMEDIATE, so that two daemons on one file
 * continue one chain.
 *
 * A log that is too large loses the oldest rows of the user with the most: no user's rows are lost because another
 * wrote many. A missing part is a row of `gap`, with the hash of its last row, so that the chain continues after it;
 * neighbouring gaps are one. If no user has far more rows than others, and for age, the log is cut at its beginning. */
#include <inttypes.h>

#include "base/base.h"
#include "store/audit_db.h"

enum {
    DB_TRIM_ROWS = 20000, /* rows cut at once, while the writer's queue waits */
    DB_CHECK_ROWS = 64,   /* last rows of the chain, checked at opening */
    DB_FIRST_TEXT = 11,   /* column of verb */
    DB_SHARES = 8,        /* a user with more than 1/8 of the rows is cut first */
};

/* A row can only be added with the next id, and never changed. It is removed only at the beginning, after `cut` has
 * noted the new beginning, which itself only grows. REPLACE would remove rows without the trigger of DELETE, so the
 * trigger of INSERT refuses it. */
static const char db_schema[] =
    "CREATE TABLE audit (id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, status INTEGER NOT NULL, exit_code INTEGER,"
    " signal INTEGER, timed_out INTEGER, oom_killed INTEGER, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,"
    " duration_us INTEGER NOT NULL, count INTEGER NOT NULL, verb TEXT NOT NULL, box TEXT, user TEXT, actor TEXT, scope TEXT,"
    " token TEXT,"
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

/* Added to files of an older cubby: a row may also be removed after a gap that contains it was noted. */
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

#define AUDIT_DB_COLUMNS                                                                                                \
    "id, at_ms, status, exit_code, signal, timed_out, oom_killed, bytes_in, bytes_out, duration_us, count, verb, box, " \
    "user, actor, scope, token, peer, outcome, detail, request_id, hash"

/* ---- rows ---- */

/* Reads AUDIT_DB_COLUMNS into a row; texts are valid until the statement's next step. */
static void audit_db_row(sqlite3_stmt *statement, struct audit_row *ret_row) {
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

/* Returns whether its hash matches its content. */
static bool audit_db_row_fits(const struct audit_row *row, const uint8_t before[32]) {
    uint8_t hash[32];
    autobuf encoded = buf_max(AUDIT_ROW_BYTES);
    audit_encode(row, &encoded);
    if (encoded.failed)
        return false;
    audit_hash(before, row->id, encoded.data, encoded.len, hash);
    return !memcmp(hash, row->hash, sizeof hash);
}

/* Gets where the chain begins: the newest cut row, or 0 and zeros. */
static int audit_db_start(struct audit_db *db, uint64_t *ret_id, uint8_t ret_hash[32], struct err *err) {
    int r = db_get(&db->db, err, "SELECT id, hash FROM cut", ">ih", ret_id, ret_hash);
    return r > 0 ? 0 : r < 0 ? r : err_set(err, ERR_IO, "the audit log is damaged (its beginning is missing)");
}

/* Gets the hash of the last of rows that were cut between others. IO: these rows are missing without a gap. */
static int audit_db_gap(struct audit_db *db, uint64_t first, uint64_t last, uint8_t ret_hash[32], struct err *err) {
    int r = db_get(&db->db, err, "SELECT hash FROM gap WHERE first = ?1 AND last = ?2", "ii>h", first, last, ret_hash);
    return r > 0 ? 0 : err_set(err, ERR_IO, "rows %" PRIu64 " to %" PRIu64 " are missing", first, last);
}

/* ---- opening ---- */

/* Checks that the last rows fit together: a cheap check for an older, cut or patched copy. */
static int db_check_end(struct audit_db *db, struct err *err) {
    uint8_t before[32];
    uint64_t start, last = 0;
    autoquery query = {0};
    int r = audit_db_start(db, &start, before, err)
                ?: db_query(&db->db, &query, err,
                            "SELECT " AUDIT_DB_COLUMNS " FROM audit WHERE id >= (SELECT max(id) FROM audit) - ?1"
                            " ORDER BY id",
                            "n", DB_CHECK_ROWS);
    bool known = false; /* the hash before the row is known */
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

int audit_db_open(const char *directory, struct audit_db *ret_db, struct err *err) {
    struct audit_db db = {0};
    int64_t there = 0;
    int r = db_open(&kind, directory, &db.db, err) ?: db_begin(&db.db, err);
    if (r == 0) {
        r = db_number(&db.db, "SELECT count(*) FROM sqlite_master WHERE name = 'gap'", &there, err);
        r = db_end(&db.db, r == 0 && !there ? db_exec(&db.db, db_gaps, err) : r, err) ?: db_check_end(&db, err);
    }
    if (r < 0) {
        db_close(&db.db);
        /* An operator reads this when the daemon refuses to start. */
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
    *ret_db = db;
    return 0;
}

/* ---- writing ---- */

static int db_insert(struct audit_db *db, const struct audit_row *row, struct err *err) {
    autoquery query;
    TRY(db_query(&db->db, &query, err,
                 "INSERT INTO audit VALUES"
                 " (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)",
                 ""));
    sqlite3_stmt *insert = query.row;
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
    return query_next(&query, err);
}

/* Within a transaction: inserts rows of the batch after the newest one. */
static int db_insert_all(struct audit_db *db, const struct buf *batch, uint64_t *ret_last, struct err *err) {
    uint8_t hash[32] = {0};
    uint64_t id = 0;
    /* The newest row, or where the log was cut. */
    int r = db_get(&db->db, err, "SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1", ">ih", &id, hash);
    r = r > 0 ? 0 : r < 0 ? r : audit_db_start(db, &id, hash, err);
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
    TRY(db_begin(&db->db, err));
    int r = db_end(&db->db, db_insert_all(db, batch, &last, err), err);
    if (r == 0)
        db->last = last;
    return r;
}

/* ---- cutting ---- */

struct trim {
    uint64_t start;   /* the log begins after this row */
    int64_t rows;     /* rows in the log */
    int64_t surplus;  /* rows too many for max_bytes */
    int64_t age_id;   /* rows up to this one are too old */
    char detail[320]; /* the text of the row that reports the cut */
};

/* Called before rows are removed: the newest may be among them. */
static int db_trim_note(struct audit_db *db, const char *detail, struct err *err) {
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

static int db_trim_beginning(struct audit_db *db, int64_t count, struct trim *trim, bool *ret_more, struct err *err) {
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
    r = db_get(&db->db, err, /* moves to the end of a gap, whose hash is known */
               "SELECT coalesce((SELECT last FROM gap WHERE first <= ?1 AND last >= ?1), ?1)", "i>i", id, &id);
    snprintf(trim->detail, sizeof trim->detail, "rows %" PRIu64 " to %" PRId64 " were cut", trim->start + 1, id);
    if (r >= 0)
        r = db_trim_note(db, trim->detail, err);
    if (r == 0)
        r = db_do(&db->db, err,
                  "UPDATE cut SET id = ?1, hash = coalesce((SELECT hash FROM audit WHERE id = ?1),"
                  " (SELECT hash FROM gap WHERE last = ?1))",
                  "i", id)
                ?: db_do(&db->db, err, "DELETE FROM audit WHERE id <= ?1", "i", id);
    return r < 0 ? r : db_do(&db->db, err, "DELETE FROM gap WHERE last <= ?1", "i", id);
}

/* ---- cutting one user's rows ---- */

/* Rows [first, last] are about to be removed; last has that hash. Adjacent gaps become one. */
static int db_gap_put(struct audit_db *db, int64_t first, int64_t last, const void *hash, struct err *err) {
    int64_t before = first, after = last;
    int r = db_get(&db->db, err, "SELECT first FROM gap WHERE first < ?1 AND last = ?1 - 1", "i>i", first, &before);
    if (r >= 0)
        r = db_get(&db->db, err, "SELECT last FROM gap WHERE first = ?1", "i>i", last + 1, &after);
    if (r >= 0)
        r = db_do(&db->db, err,
                  "INSERT OR REPLACE INTO gap VALUES (?1, ?2, coalesce((SELECT hash FROM gap WHERE first = ?3), ?4))",
                  "iiih", before, after, last + 1, hash);
    return r < 0 || after == last ? r : db_do(&db->db, err, "DELETE FROM gap WHERE first = ?1", "i", last + 1);
}

/* Notes gaps for the oldest `count` rows of the user. *ret_last: the last of them. */
static int db_gaps_note(struct audit_db *db, const char *user, int64_t count, int64_t *ret_last, struct err *err) {
    autoquery query;
    int r = db_query(&db->db, &query, err, "SELECT id, hash FROM audit WHERE user = ?1 ORDER BY id LIMIT ?2", "ti",
                     user, count);
    int64_t first = 0, last = 0;
    uint8_t hash[32] = {0};
    while (r == 0 && (r = query_next(&query, err)) > 0) {
        int64_t id = query_int(&query, 0);
        r = last && id != last + 1 ? db_gap_put(db, first, last, hash, err) : 0;
        first = last && id == last + 1 ? first : id;
        last = id;
        query_hash(&query, 1, hash);
    }
    if (r == 0 && last)
        r = db_gap_put(db, first, last, hash, err);
    *ret_last = last;
    return r;
}

/* Removes the oldest rows of the user with the most, down to a share. Returns 0 if no user has so many. */
static int db_trim_writer(struct audit_db *db, struct trim *trim, bool *ret_more, struct err *err) {
    char user[160] = "";
    int64_t count = 0, last = 0;
    autoquery query;
    int r =
        db_query(&db->db, &query, err,
                 "SELECT user, count(*) FROM audit WHERE user IS NOT NULL GROUP BY user ORDER BY 2 DESC LIMIT 1", "");
    if (r == 0 && (r = query_next(&query, err)) > 0) {
        snprintf(user, sizeof user, "%s", query_text(&query, 0));
        count = query_int(&query, 1) - trim->rows / DB_SHARES;
    }
    query_end(&query);
    if (r < 0 || count <= 0)
        return r < 0 ? r : 0;
    count = count < trim->surplus ? count : trim->surplus;
    count = count < DB_TRIM_ROWS ? count : DB_TRIM_ROWS;
    *ret_more = true; /* another user may have the most now */
    snprintf(trim->detail, sizeof trim->detail, "%" PRId64 " rows of user '%s', who had most, were cut", count, user);
    r = db_trim_note(db, trim->detail, err)
        ?: db_gaps_note(db, user, count, &last, err)
        ?: db_do(&db->db, err, "DELETE FROM audit WHERE user = ?1 AND id <= ?2", "ti", user, last);
    return r < 0 ? r : 1;
}

static int db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err) {
    struct trim trim = {0};
    int64_t pages = 0, unused = 0, size = 0;
    uint8_t hash[32];
    int r = audit_db_start(db, &trim.start, hash, err)
            ?: db_number(&db->db, "PRAGMA page_count", &pages, err)
            ?: db_number(&db->db, "PRAGMA freelist_count", &unused, err)
            ?: db_number(&db->db, "PRAGMA page_size", &size, err);
    uint64_t used = (uint64_t)((pages - unused) * size);
    if (r == 0 && max_bytes && used > max_bytes) { /* down to a tenth below, so that this is rare */
        r = db_number(&db->db, "SELECT count(*) FROM audit", &trim.rows, err);
        trim.surplus = 1 + (int64_t)((1 - 0.9 * (double)max_bytes / (double)used) * (double)trim.rows);
    }
    if (r == 0 && before_ms) /* finds the first young row; rows are ordered by their end */
        r = db_get(&db->db, err,
                   "SELECT coalesce((SELECT id - 1 FROM audit WHERE at_ms >= ?1 ORDER BY id LIMIT 1),"
                   " (SELECT max(id) FROM audit), 0)",
                   "i>i", before_ms, &trim.age_id);
    r = r < 0 ? r : 0;
    if (r == 0 && trim.surplus && trim.age_id <= (int64_t)trim.start)
        r = db_trim_writer(db, &trim, ret_more, err);
    return r < 0 ? r : r > 0 ? 0 : db_trim_beginning(db, trim.surplus, &trim, ret_more, err);
}

int audit_db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err) {
    *ret_more = false;
    int r = db_begin(&db->db, err);
    return r < 0 ? r : db_end(&db->db, db_trim(db, before_ms, max_bytes, ret_more, err), err);
}

/* ---- reading: for clients, on their own threads and connections ----
 * Invariant: no part of a query becomes SQL text, and no read stays open while a client is answered. */

enum { READ_MS = 5000, READ_STEPS = 10000 }; /* SQLite instructions between two looks at the clock */

static int db_read_late(void *user) {
    return clock_ms() > *(const uint64_t *)user;
}

/* ---- pages ---- */

/* A filter: its SQL, and the value bound to it. */
struct read_filter {
    const char *sql;
    const char *text;
    uint64_t number;
};

static size_t db_read_filters(const struct audit_query *query, struct read_filter filters[8]) {
    bool failed = query->outcome && !strcmp(query->outcome, "failed");
    const struct read_filter all[] = {
        {"id > ?", NULL, query->after},
        {"box = ?", query->box, 0},
        {"user = ?", query->user, 0},
        {"verb = ?", query->verb, 0},
        {"outcome = ?", failed ? NULL : query->outcome, 0},
        {"outcome NOT IN ('running', ?)", failed ? "ok" : NULL, 0},
        {"at_ms >= ?", NULL, query->since_ms},
        {"at_ms < ?", NULL, query->until_ms},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].text || all[i].number)
            filters[count++] = all[i];
    return count;
}

static int db_read_prepare(struct audit_db *db, const struct audit_query *query, struct query *ret_rows,
                           struct err *err) {
    struct read_filter filters[8];
    size_t count = db_read_filters(query, filters);
    autobuf sql = buf_max(2048);
    if (query->tail)
        buf_puts(&sql, "SELECT * FROM (");
    buf_puts(&sql, "SELECT " AUDIT_DB_COLUMNS " FROM audit");
    for (size_t i = 0; i < count; i++)
        buf_printf(&sql, " %s %s", i ? "AND" : "WHERE", filters[i].sql);
    buf_puts(&sql, query->tail ? " ORDER BY id DESC LIMIT ?) ORDER BY id" : " ORDER BY id LIMIT ?");
    TRY(db_query(&db->db, ret_rows, err, buf_cstr(&sql), ""));
    for (size_t i = 0; i < count; i++)
        if (filters[i].text)
            sqlite3_bind_text(ret_rows->row, (int)i + 1, filters[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_int64(ret_rows->row, (int)i + 1, (sqlite3_int64)filters[i].number);
    /* one more than asked for shows whether there are more */
    sqlite3_bind_int64(ret_rows->row, (int)count + 1, (sqlite3_int64)query->limit + (query->tail ? 0 : 1));
    return 0;
}

static int db_read_rows(struct audit_db *db, const struct audit_query *query,
                        void (*each)(void *user, const struct audit_row *row), void *user, struct audit_page *ret_page,
                        struct err *err) {
    struct audit_page page = {0};
    autoquery rows = {0};
    uint64_t count = 0, last = 0;
    int64_t newest = 0;
    int r = db_number(&db->db, "SELECT coalesce(max(id), (SELECT id FROM cut)) FROM audit", &newest, err);
    page.next = (uint64_t)newest;
    if (r == 0)
        r = db_read_prepare(db, query, &rows, err);
    while (r == 0 && (r = query_next(&rows, err)) > 0) {
        struct audit_row row;
        r = 0;
        if (count == query->limit) {
            page.more = true;
            page.next = last;
            break;
        }
        audit_db_row(rows.row, &row);
        each(user, &row);
        last = row.id;
        count++;
    }
    if (r == 0) {
        page.next = page.next > query->after ? page.next : query->after;
        *ret_page = page;
    }
    return r;
}

int audit_read(struct audit *audit, const struct audit_query *query,
               void (*each)(void *user, const struct audit_row *row), void *user, struct audit_page *ret_page,
               struct err *err) {
    struct audit_db db = {0};
    uint64_t end_ms = clock_ms() + READ_MS;
    TRY(db_open_reading(&kind, audit_directory(audit), &db.db, err));
    sqlite3_progress_handler(db.db.handle, READ_STEPS, db_read_late, &end_ms);
    /* one snapshot for the newest id and the rows: `next` skips nothing */
    int r = db_exec(&db.db, "BEGIN", err) ?: db_read_rows(&db, query, each, user, ret_page, err);
    db_close(&db.db);
    return r;
}

/* ---- the chain ---- */

int audit_verify(struct audit *audit, struct audit_verdict *ret_verdict, struct err *err) {
    struct audit_db db = {0};
    struct audit_verdict verdict = {0};
    struct query rows = {0}, check = {0};
    uint64_t id = 0;
    TRY(db_open_reading(&kind, audit_directory(audit), &db.db, err));
    int r = audit_db_start(&db, &id, verdict.hash, err)
                ?: db_query(&db.db, &rows, err, "SELECT " AUDIT_DB_COLUMNS " FROM audit ORDER BY id", "");
    while (r == 0 && (r = query_next(&rows, err)) > 0) {
        r = 0;
        struct audit_row row;
        audit_db_row(rows.row, &row);
        bool whole = row.id == id + 1 || audit_db_gap(&db, id + 1, row.id - 1, verdict.hash, ERR_IGNORED) == 0;
        if (!verdict.broken && (!whole || !audit_db_row_fits(&row, verdict.hash)))
            verdict.broken = row.id;
        memcpy(verdict.hash, row.hash, sizeof row.hash);
        verdict.first = verdict.first ? verdict.first : row.id;
        verdict.last = id = row.id;
        verdict.rows++;
    }
    if (r == 0 && (r = db_query(&db.db, &check, err, "PRAGMA quick_check(1)", "")) == 0 &&
        sqlite3_step(check.row) == SQLITE_ROW && strcmp(query_text(&check, 0) ?: "ok", "ok") != 0)
        verdict.damage = xstrdup(query_text(&check, 0));
    query_end(&rows);
    query_end(&check);
    db_close(&db.db);
    if (r == 0)
        *ret_verdict = verdict;
    return r;
}
