/* Reading the audit log: pages of rows, and whether its chain is whole. Called by the doors, on their own threads and
 * connections. Invariant: nothing of a query becomes SQL text, and no read stays open while a client is answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "store/audit_db.h"

enum { READ_MS = 5000, READ_STEPS = 10000 }; /* instructions of SQLite between two looks at the clock */

static int read_late(void *user) {
    return clock_ms() > *(const uint64_t *)user;
}

/* ---- pages ---- */

/* One row a filter: its SQL, and what is bound to it. */
struct read_filter {
    const char *sql;
    const char *text;
    uint64_t number;
};

static size_t read_filters(const struct audit_query *query, struct read_filter filters[8]) {
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

static int read_prepare(struct audit_db *db, const struct audit_query *query, struct query *ret_rows, struct err *err) {
    struct read_filter filters[8];
    size_t count = read_filters(query, filters);
    autobuf sql = buf_max(2048);
    if (query->tail)
        buf_puts(&sql, "SELECT * FROM (");
    buf_puts(&sql, "SELECT " AUDIT_DB_COLUMNS " FROM audit");
    for (size_t i = 0; i < count; i++)
        buf_printf(&sql, " %s %s", i ? "AND" : "WHERE", filters[i].sql);
    buf_puts(&sql, query->tail ? " ORDER BY id DESC LIMIT ?) ORDER BY id" : " ORDER BY id LIMIT ?");
    int r = db_query(&db->db, ret_rows, err, buf_cstr(&sql), "");
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        if (filters[i].text)
            sqlite3_bind_text(ret_rows->row, (int)i + 1, filters[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_int64(ret_rows->row, (int)i + 1, (sqlite3_int64)filters[i].number);
    /* one more than asked for tells whether there are more */
    sqlite3_bind_int64(ret_rows->row, (int)count + 1, (sqlite3_int64)query->limit + (query->tail ? 0 : 1));
    return 0;
}

static int read_rows(struct audit_db *db, const struct audit_query *query,
                     void (*each)(void *user, const struct audit_row *row), void *user, struct audit_page *ret_page,
                     struct err *err) {
    struct audit_page page = {0};
    autoquery rows = {0};
    uint64_t count = 0, last = 0;
    int64_t newest = 0;
    int r = db_number(&db->db, "SELECT coalesce(max(id), (SELECT id FROM cut)) FROM audit", &newest, err);
    page.next = (uint64_t)newest;
    if (r == 0)
        r = read_prepare(db, query, &rows, err);
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
    int r = audit_db_open_reading(audit_directory(audit), &db, err);
    if (r < 0)
        return r;
    sqlite3_progress_handler(db.db.handle, READ_STEPS, read_late, &end_ms);
    /* one snapshot for the newest id and the rows: `next` skips nothing */
    r = db_exec(&db.db, "BEGIN", err);
    if (r == 0)
        r = read_rows(&db, query, each, user, ret_page, err);
    audit_db_close(&db);
    return r;
}

/* ---- the chain ---- */

static int verify_rows(struct audit_db *db, struct audit_verdict *verdict, struct err *err) {
    autoquery rows = {0};
    uint64_t id = 0;
    int r = audit_db_start(db, &id, verdict->hash, err);
    if (r == 0)
        r = db_query(&db->db, &rows, err, "SELECT " AUDIT_DB_COLUMNS " FROM audit ORDER BY id", "");
    while (r == 0 && (r = query_next(&rows, err)) > 0) {
        r = 0;
        struct audit_row row;
        audit_db_row(rows.row, &row);
        struct err missing;
        bool whole = row.id == id + 1 || audit_db_gap(db, id + 1, row.id - 1, verdict->hash, &missing) == 0;
        if (!verdict->broken && (!whole || !audit_db_row_fits(&row, verdict->hash)))
            verdict->broken = row.id;
        memcpy(verdict->hash, row.hash, sizeof row.hash);
        verdict->first = verdict->first ? verdict->first : row.id;
        verdict->last = id = row.id;
        verdict->rows++;
    }
    return r;
}

static int verify_file(struct audit_db *db, struct audit_verdict *verdict, struct err *err) {
    autoquery query;
    int r = db_query(&db->db, &query, err, "PRAGMA quick_check(1)", "");
    if (r == 0 && sqlite3_step(query.row) == SQLITE_ROW) {
        const char *text = query_text(&query, 0);
        if (text && strcmp(text, "ok") != 0)
            verdict->damage = xstrdup(text);
    }
    return r;
}

int audit_verify(struct audit *audit, struct audit_verdict *ret_verdict, struct err *err) {
    struct audit_db db = {0};
    struct audit_verdict verdict = {0};
    int r = audit_db_open_reading(audit_directory(audit), &db, err);
    if (r == 0)
        r = verify_rows(&db, &verdict, err);
    if (r == 0)
        r = verify_file(&db, &verdict, err);
    audit_db_close(&db);
    if (r == 0)
        *ret_verdict = verdict;
    return r;
}
