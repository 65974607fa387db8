/* The queue of the audit log and the one thread that writes it. Called by the dialects at the end of each request, by
 * the provider for its own events, and by the daemon at start and end. Invariant:
 *
 * 1. audit->lock guards everything but `db` and `writing`, which belong to the writer. It is never held while SQLite
 *    works.
 * 2. A put costs a copy under the lock. Only the first one into an empty queue wakes the writer, which then waits
 *    BATCH_MS for more. So a request never waits for the disk, and a thousand requests are one transaction.
 * 3. A row leaves the queue when it is on disk. While the disk fails, rows stay; rows that find the queue full are
 *    counted, and the count is the first row written afterwards. */
#include <inttypes.h>

#include "base/base.h"
#include "store/audit.h"
#include "base/log.h"
#include "base/sync.h"
#include "store/audit_db.h"

enum {
    BATCH_MS = 200,
    RETRY_MS = 1000,      /* while the disk fails */
    FULL_WAIT_MS = 1000,  /* how long a request waits for a full queue */
    LAST_TRIES = 3,       /* at the end */
    TRIM_TURN_MS = 60000, /* how often age and size are checked */
    LONG_MS = 1000,       /* a request that runs longer has a row before it ends; also the interval of checks */
    STRANGERS_PER_S = 10,
};
#define RECENT_READS 256u /* slots for reads of this batch, by hash */
#define KEPT_BYTES (256u << 10)
#define QUEUE_BYTES (4u << 20) /* some 15,000 rows; twice that in memory while a batch is being written */

struct audit_running {
    struct audit_running *prev, *next;
    uint64_t since_ms;
    bool written; /* as "running" */
    size_t len;
    uint8_t row[]; /* encoded */
};

struct audit {
    char *directory;
    uint64_t days, max_bytes;
    struct audit_db db;
    struct buf writing;
    pthread_t writer;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* wakes the writer: rows, hurry, ending */
    pthread_cond_t wrote; /* a batch is on disk: there is space, and news for readers */
    struct buf queue;
    struct {
        uint32_t at, len; /* position in the queue; len 0: none */
    } reads[RECENT_READS];
    struct audit_running *running; /* the newest first */
    uint64_t put, done;            /* rows ever put, and written */
    uint64_t writes;               /* transactions */
    uint64_t lost, lost_written, strangers, strangers_written;
    uint64_t stranger_second, stranger_count;
    bool hurry, failing, ending;
};

static void *audit_writer_main(void *argument);

/* ---- opening and closing ---- */

int audit_open(const struct audit_options *options, struct audit **ret_audit, struct err *err) {
    struct audit *audit = xcalloc(1, sizeof *audit);
    audit->directory = xstrdup(options->directory);
    audit->days = options->days;
    audit->max_bytes = options->max_bytes;
    int r = audit_db_open(audit->directory, &audit->db, err);
    if (r == -ERR_FULL) { /* the writer retries */
        log_error("cannot open the audit log, rows are kept in memory: %s", err->text);
        audit->failing = true;
    } else if (r < 0) {
        free(audit->directory);
        free(audit);
        return r;
    }
    buf_init(&audit->queue, QUEUE_BYTES);
    buf_init(&audit->writing, QUEUE_BYTES + 2 * AUDIT_ROW_BYTES); /* with space for rows that report losses */
    pthread_mutex_init(&audit->lock, NULL);
    cond_init(&audit->work);
    cond_init(&audit->wrote);
    audit->writer = thread_joined(audit_writer_main, audit, 512 << 10);
    *ret_audit = audit;
    return 0;
}

void audit_close(struct audit *audit) {
    if (!audit)
        return;
    pthread_mutex_lock(&audit->lock);
    audit->ending = true;
    pthread_cond_signal(&audit->work);
    pthread_mutex_unlock(&audit->lock);
    pthread_join(audit->writer, NULL);
    db_close(&audit->db.db);
    buf_done(&audit->queue);
    buf_done(&audit->writing);
    pthread_mutex_destroy(&audit->lock);
    pthread_cond_destroy(&audit->work);
    pthread_cond_destroy(&audit->wrote);
    free(audit->directory);
    free(audit);
}

const char *audit_directory(const struct audit *audit) {
    return audit->directory;
}

/* ---- putting ---- */

static bool audit_full_locked(const struct audit *audit) {
    return audit->queue.max - audit->queue.len < AUDIT_ROW_BYTES;
}

static void audit_put_locked(struct audit *audit, const struct audit_row *row, bool wait) {
    uint64_t until_ms = audit_full_locked(audit) ? clock_ms() + FULL_WAIT_MS : 0;
    while (wait && audit_full_locked(audit) && !audit->failing && !audit->ending)
        wait = cond_wait_until(&audit->wrote, &audit->lock, until_ms);
    if (audit_full_locked(audit)) {
        audit->lost++;
        return;
    }
    struct audit_row copy = *row;
    copy.at_ms = row->at_ms ? row->at_ms : clock_wall_ms();
    bool first = !audit->queue.len, half = audit->queue.len < QUEUE_BYTES / 2;
    audit_encode(&copy, &audit->queue);
    audit->put++;
    if (first || (half && audit->queue.len >= QUEUE_BYTES / 2))
        pthread_cond_signal(&audit->work);
}

void audit_put(struct audit *audit, const struct audit_row *row) {
    if (!audit)
        return;
    autolock(&audit->lock);
    audit_put_locked(audit, row, true);
}

void audit_put_read(struct audit *audit, const struct audit_row *row) {
    if (!audit)
        return;
    uint8_t bytes[AUDIT_ROW_BYTES];
    struct buf encoded = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes}; /* on the stack: it never grows */
    audit_encode(row, &encoded);
    uint64_t hash = 14695981039346656037u; /* FNV-1a over what distinguishes reads most */
    static const enum audit_field fields[] = {AUDIT_VERB, AUDIT_BOX, AUDIT_PEER, AUDIT_DETAIL};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t at = 0; at < row->texts[fields[i]].len; at++)
            hash = (hash ^ (uint8_t)row->texts[fields[i]].data[at]) * 1099511628211u;
    size_t place = hash % RECENT_READS;
    autolock(&audit->lock);
    size_t at = audit->reads[place].at, len = audit->reads[place].len;
    if (len && audit_alike(audit->queue.data + at, len, encoded.data, encoded.len)) {
        audit_add(audit->queue.data + at, row);
    } else {
        uint64_t put = audit->put;
        audit_put_locked(audit, row, true);
        if (audit->put > put) { /* the queue may have been emptied, but this row is now at its end */
            audit->reads[place].len = (uint32_t)encoded.len;
            audit->reads[place].at = (uint32_t)(audit->queue.len - encoded.len);
        }
    }
}

void audit_put_stranger(struct audit *audit, const struct audit_row *row) {
    if (!audit)
        return;
    uint64_t second = clock_ms() / 1000;
    autolock(&audit->lock);
    if (audit->stranger_second != second)
        audit->stranger_second = second, audit->stranger_count = 0;
    if (audit->stranger_count++ < STRANGERS_PER_S) {
        audit_put_locked(audit, row, true);
    } else {
        audit->strangers++;
        if (!audit->queue.len)
            pthread_cond_signal(&audit->work);
    }
}

struct audit_running *audit_begin(struct audit *audit, const struct audit_row *row) {
    if (!audit)
        return NULL;
    uint8_t bytes[AUDIT_ROW_BYTES];
    struct buf encoded = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes};
    audit_encode(row, &encoded);
    struct audit_running *running = xmalloc(sizeof *running + encoded.len);
    *running = (struct audit_running){.since_ms = clock_ms(), .len = encoded.len};
    memcpy(running->row, encoded.data, encoded.len);
    autolock(&audit->lock);
    running->next = audit->running;
    if (running->next)
        running->next->prev = running;
    audit->running = running;
    return running;
}

void audit_end(struct audit *audit, struct audit_running *running) {
    if (!running)
        return;
    pthread_mutex_lock(&audit->lock);
    *(running->prev ? &running->prev->next : &audit->running) = running->next;
    if (running->next)
        running->next->prev = running->prev;
    pthread_mutex_unlock(&audit->lock);
    free(running);
}

void audit_event(struct audit *audit, const char *verb, const char *box, const char *user, const char *detail) {
    struct audit_row row = {0};
    if (!audit)
        return;
    audit_set(&row, AUDIT_VERB, verb);
    audit_set(&row, AUDIT_BOX, box);
    audit_set(&row, AUDIT_USER, user);
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_set(&row, AUDIT_DETAIL, detail);
    autolock(&audit->lock);
    audit_put_locked(audit, &row, false); /* does not wait: the table of boxes may be locked */
}

/* ---- waiting ---- */

void audit_sync(struct audit *audit, unsigned timeout_ms) {
    uint64_t until_ms = clock_ms() + timeout_ms;
    autolock(&audit->lock);
    uint64_t wanted = audit->put;
    if (audit->done < wanted) {
        audit->hurry = true;
        pthread_cond_signal(&audit->work);
    }
    while (audit->done < wanted && cond_wait_until(&audit->wrote, &audit->lock, until_ms))
        ;
}

uint64_t audit_writes(struct audit *audit) {
    autolock(&audit->lock);
    return audit->writes;
}

void audit_wait(struct audit *audit, uint64_t seen, unsigned timeout_ms) {
    uint64_t until_ms = clock_ms() + timeout_ms;
    autolock(&audit->lock);
    while (audit->writes == seen && !audit->ending && cond_wait_until(&audit->wrote, &audit->lock, until_ms))
        ;
}

void audit_count(struct audit *audit, struct audit_counts *ret_counts) {
    autolock(&audit->lock);
    *ret_counts = (struct audit_counts){.written = audit->done,
                                        .lost = audit->lost,
                                        .strangers = audit->strangers,
                                        .queued_bytes = audit->queue.len,
                                        .failing = audit->failing};
}

/* ---- the writer ---- */

/* Writes a row that reports a loss, before the rows that follow. */
static void audit_writer_note(struct audit *audit, const char *verb, uint64_t count, const char *what) {
    char detail[128];
    struct audit_row row = {.at_ms = clock_wall_ms()};
    snprintf(detail, sizeof detail, "%" PRIu64 " %s", count, what);
    audit_set(&row, AUDIT_VERB, verb);
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_set(&row, AUDIT_DETAIL, detail);
    audit_encode(&row, &audit->writing);
}

/* Waits for rows and takes them. Returns false if a turn is over, or at the end. */
static bool audit_writer_take_locked(struct audit *audit, uint64_t *ret_rows) {
    uint64_t now_ms = clock_ms(), turn_ms = now_ms + LONG_MS;
    for (struct audit_running *running = audit->running; running; running = running->next) {
        struct view view = view_of(running->row, running->len);
        struct audit_row row;
        if (running->written || now_ms < running->since_ms + LONG_MS || !audit_decode(&view, &row))
            continue;
        running->written = true;
        audit_put_locked(audit, &row, false);
    }
    while (!audit->queue.len && audit->lost == audit->lost_written && audit->strangers == audit->strangers_written &&
           !audit->ending)
        if (!cond_wait_until(&audit->work, &audit->lock, turn_ms))
            return false;
    uint64_t batch_ms = clock_ms() + BATCH_MS;
    while (!audit->ending && !audit->hurry && audit->queue.len < QUEUE_BYTES / 2)
        if (!cond_wait_until(&audit->work, &audit->lock, batch_ms))
            break;
    audit->hurry = false;
    buf_clear(&audit->writing);
    if (audit->lost > audit->lost_written)
        audit_writer_note(audit, "audit_gap", audit->lost - audit->lost_written,
                          "rows were lost: the log could not be written");
    if (audit->strangers > audit->strangers_written)
        audit_writer_note(audit, "audit_strangers", audit->strangers - audit->strangers_written,
                          "more requests without a known token were refused");
    audit->lost_written = audit->lost;
    audit->strangers_written = audit->strangers;
    buf_put(&audit->writing, audit->queue.data, audit->queue.len);
    buf_clear(&audit->queue);
    memset(audit->reads, 0, sizeof audit->reads);
    *ret_rows = audit->put;
    return audit->writing.len > 0;
}

static void audit_writer_failing(struct audit *audit, bool failing, const struct err *err) {
    pthread_mutex_lock(&audit->lock);
    bool changed = audit->failing != failing;
    uint64_t lost = audit->lost;
    audit->failing = failing;
    pthread_cond_broadcast(&audit->wrote); /* requests that wait for space can continue */
    pthread_mutex_unlock(&audit->lock);
    if (changed && failing)
        log_error("cannot write the audit log, rows are kept in memory: %s", err->text);
    else if (changed)
        log_warn("the audit log can be written again; rows lost since the start: %" PRIu64, lost);
}

/* Frees the memory of a burst, and keeps what an ordinary batch needs. */
static void audit_writer_shrink(struct buf *buf) {
    if (!buf->len && buf->cap > KEPT_BYTES)
        buf_done(buf);
}

/* Retries until the batch is on disk; at the end only a few times. */
static bool audit_writer_write(struct audit *audit) {
    struct err err;
    for (int tries = 1; (audit->db.db.handle ? 0 : audit_db_open(audit->directory, &audit->db, &err)) < 0 ||
                        audit_db_append(&audit->db, &audit->writing, &err) < 0;
         tries++) {
        audit_writer_failing(audit, true, &err);
        uint64_t retry_ms = clock_ms() + RETRY_MS;
        pthread_mutex_lock(&audit->lock);
        bool ending = audit->ending;
        if (!ending)
            cond_wait_until(&audit->work, &audit->lock, retry_ms);
        pthread_mutex_unlock(&audit->lock);
        if (ending && tries >= LAST_TRIES)
            return false;
    }
    audit_writer_failing(audit, false, NULL);
    return true;
}

static void audit_writer_trim(struct audit *audit) {
    uint64_t now_ms = clock_wall_ms(), age_ms = audit->days * 86400000;
    bool more = (audit->days || audit->max_bytes) && audit->db.db.handle;
    struct err err;
    while (more)
        if (audit_db_trim(&audit->db, audit->days && now_ms > age_ms ? now_ms - age_ms : 0, audit->max_bytes, &more,
                          &err) < 0) {
            log_warn("cannot cut the audit log: %s", err.text);
            return;
        }
}

static void *audit_writer_main(void *argument) {
    struct audit *audit = argument;
    uint64_t trim_ms = 0;
    for (bool ending = false; !ending;) {
        uint64_t rows = 0;
        pthread_mutex_lock(&audit->lock);
        bool taken = audit_writer_take_locked(audit, &rows);
        pthread_mutex_unlock(&audit->lock);
        bool wrote = taken && audit_writer_write(audit);
        if (taken && !wrote)
            log_error("cannot write the rest of the audit log: up to %" PRIu64 " rows are lost", rows - audit->done);
        pthread_mutex_lock(&audit->lock);
        if (wrote)
            audit->done = rows, audit->writes++;
        buf_clear(&audit->writing);
        audit_writer_shrink(&audit->writing);
        audit_writer_shrink(&audit->queue);
        pthread_cond_broadcast(&audit->wrote);
        ending = audit->ending && (!audit->queue.len || (taken && !wrote));
        pthread_mutex_unlock(&audit->lock);
        if (!ending && (!trim_ms || clock_ms() >= trim_ms)) {
            trim_ms = clock_ms() + TRIM_TURN_MS;
            audit_writer_trim(audit);
        }
    }
    return NULL;
}
