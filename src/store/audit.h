/* The audit log: who did what to which box, when, and with which outcome. It survives the boxes.
 *
 * Rows are queued without waiting for the disk; one thread writes them in batches, within about a second. No row is
 * lost silently: if the disk fails for so long that the queue is full, a row, a counter and the log say how many were
 * lost. The file is STATE/audit.db, shared by all daemons on that directory. */
#ifndef CUBBY_BOX_AUDIT_H
#define CUBBY_BOX_AUDIT_H

#include "base/err.h"
#include "store/audit_row.h"

struct audit;

struct audit_options {
    const char *directory; /* of the file; copied */
    uint64_t days;         /* older rows are cut; 0: age does not matter */
    uint64_t max_bytes;    /* rows are cut if the file is larger; 0: no limit */
};

/* Fails closed: a damaged or foreign file, or one of a newer cubby, is an error that names the fix. */
int audit_open(const struct audit_options *options, struct audit **ret_audit, struct err *err);
void audit_close(struct audit *audit); /* writes queued rows first; NULL is allowed */

/* Copies the row into the queue; at_ms 0: now. If the queue is full, waits a moment for the writer unless the disk
 * fails. audit may be NULL: nothing is recorded. */
void audit_put(struct audit *audit, const struct audit_row *row);
/* The same for a request that only read. Within one batch, requests that differ only in time and size become one row
 * with a count, so that polling neither hides other rows nor fills the disk. */
void audit_put_read(struct audit *audit, const struct audit_row *row);
/* The same for an unauthenticated request: at most a few per second; the rest is counted in one row, so that a stranger
 * cannot fill the disk. */
void audit_put_stranger(struct audit *audit, const struct audit_row *row);
/* A request that may take long: after a second, a row with outcome "running" reports it, so that it is known even if
 * the daemon is killed. Copies the row. audit_end must follow, before the row of its end. */
struct audit_running;
struct audit_running *audit_begin(struct audit *audit, const struct audit_row *row); /* NULL without an audit */
void audit_end(struct audit *audit, struct audit_running *running);                  /* NULL is allowed */
/* An event that is not a request; user, box and detail may be NULL. Never blocks. */
void audit_event(struct audit *audit, const char *verb, const char *box, const char *user, const char *detail);

/* Waits until everything put so far is written, at most timeout_ms. */
void audit_sync(struct audit *audit, unsigned timeout_ms);
/* Counts writes of this process. audit_wait returns when the count differs from `seen`, or after timeout_ms. */
uint64_t audit_writes(struct audit *audit);
void audit_wait(struct audit *audit, uint64_t seen, unsigned timeout_ms);

struct audit_counts {
    uint64_t written, lost, strangers; /* rows; strangers: refused requests that were only counted */
    uint64_t queued_bytes;
    bool failing;
};
void audit_count(struct audit *audit, struct audit_counts *ret_counts);

/* ---- reading (audit_db.c) ---- */

struct audit_query {
    const char *box, *user, *verb; /* NULL: any */
    const char *outcome;           /* "failed": everything but ok */
    uint64_t since_ms, until_ms;   /* start times; 0: any. until_ms is exclusive */
    uint64_t after;                /* rows after this id */
    uint64_t limit;
    bool tail; /* the newest `limit` rows instead of the oldest; still in order */
};
struct audit_page {
    uint64_t next; /* `after` of the next query */
    bool more;     /* there are more now */
};
/* each gets the rows in order of id. TIMEOUT: it took more than a few seconds. */
int audit_read(struct audit *audit, const struct audit_query *query,
               void (*each)(void *user, const struct audit_row *row), void *user, struct audit_page *ret_page,
               struct err *err);

struct audit_verdict {
    uint64_t rows, first, last; /* first and last id */
    uint64_t broken;            /* the first row that does not follow from the one before; 0: none */
    uint8_t hash[32];           /* of the last row: if kept elsewhere, it shows whether earlier rows were rewritten */
    const char *damage;         /* SQLite's message about the file, freed by the caller; may be NULL */
};
int audit_verify(struct audit *audit, struct audit_verdict *ret_verdict, struct err *err);

const char *audit_directory(const struct audit *audit);

#endif
