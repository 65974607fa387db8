/* The audit log: rows come back as they were put, in one chain; nothing changes or removes one; what cannot be written
 * is counted; a damaged file is refused; two writers share one; secrets are replaced. */
#include "store/audit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/redact.h"
#include "tap.h"

static char root[] = "/tmp/cubby-audit.XXXXXX", directory[64];

static void fresh(void) {
    static int number;
    snprintf(directory, sizeof directory, "%s/%d", root, ++number);
    if (mkdir(directory, 0700))
        abort();
}

static struct audit *opened(uint64_t days, uint64_t max_bytes) {
    struct audit *audit = NULL;
    struct err err = {0};
    const struct audit_options options = {.directory = directory, .days = days, .max_bytes = max_bytes};
    if (audit_open(&options, &audit, &err) < 0)
        printf("# %s\n", err.text);
    return audit;
}

static bool sql(const char *text, char *ret_error, size_t size) {
    char path[128], *message = NULL;
    sqlite3 *handle;
    snprintf(path, sizeof path, "%s/audit.db", directory);
    if (sqlite3_open(path, &handle) != SQLITE_OK)
        abort();
    bool fine = sqlite3_exec(handle, text, NULL, NULL, &message) == SQLITE_OK;
    if (ret_error)
        snprintf(ret_error, size, "%s", message ? message : "");
    sqlite3_free(message);
    sqlite3_close(handle);
    return fine;
}

static void put(struct audit *audit, const char *verb, const char *box, const char *user, const char *outcome,
                uint64_t at_ms) {
    struct audit_row row = {.at_ms = at_ms, .status = 200};
    audit_set(&row, AUDIT_VERB, verb);
    audit_set(&row, AUDIT_BOX, box);
    audit_set(&row, AUDIT_USER, user);
    audit_set(&row, AUDIT_OUTCOME, outcome);
    audit_put(audit, &row);
}

struct seen {
    uint64_t count, first, last;
    struct audit_row row; /* the last, its detail in text */
    char detail[1100], verbs[4096];
};

static void see(void *user, const struct audit_row *row) {
    struct seen *seen = user;
    seen->first = seen->count++ ? seen->first : row->id;
    seen->last = row->id;
    seen->row = *row;
    if (row->texts[AUDIT_DETAIL].data)
        memcpy(seen->detail, row->texts[AUDIT_DETAIL].data, row->texts[AUDIT_DETAIL].len);
    size_t used = strlen(seen->verbs);
    snprintf(seen->verbs + used, sizeof seen->verbs - used, "%.*s ", (int)row->texts[AUDIT_VERB].len,
             row->texts[AUDIT_VERB].data);
}

static struct audit_page page_of(struct audit *audit, const struct audit_query *query, struct seen *seen) {
    struct audit_page page = {0};
    struct err err = {0};
    *seen = (struct seen){0};
    audit_sync(audit, 10000);
    if (audit_read(audit, query, see, seen, &page, &err) < 0) {
        printf("# %s\n", err.text);
        seen->count = UINT64_MAX;
    }
    return page;
}

static uint64_t found(struct audit *audit, const struct audit_query *query) {
    struct seen seen;
    page_of(audit, query, &seen);
    return seen.count;
}

static bool whole(struct audit *audit, uint64_t rows) {
    struct audit_verdict verdict = {0};
    struct err err = {0};
    audit_sync(audit, 10000);
    if (audit_verify(audit, &verdict, &err) < 0)
        return false;
    bool fine = !verdict.broken && !verdict.damage && verdict.rows == rows;
    if (!fine)
        printf("# rows %llu, broken at %llu, %s\n", (unsigned long long)verdict.rows,
               (unsigned long long)verdict.broken, verdict.damage ? verdict.damage : "no damage");
    free((char *)verdict.damage);
    return fine;
}

/* ---- rows ---- */

static void test_round(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    static const char detail[] = "echo \x1b]0;x\x07 \0 \xff \xe2\x80\xae";
    struct audit_row row = {.at_ms = 1700000000123,
                            .bytes_in = UINT32_MAX + 5ull,
                            .bytes_out = 7,
                            .duration_us = 1234567,
                            .status = 200,
                            .has_result = true,
                            .oom_killed = true,
                            .signal = 9};
    audit_set(&row, AUDIT_VERB, "exec");
    audit_set(&row, AUDIT_BOX, "0123456789abcdef");
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_setn(&row, AUDIT_DETAIL, detail, sizeof detail - 1);
    audit_put(audit, &row);
    struct seen seen;
    struct audit_page page = page_of(audit, &(struct audit_query){.limit = 10}, &seen);
    ok_all("a row is read, and is the first", seen.count == 1, page.next == 1, !page.more, seen.row.id == 1);
    ok_all("its numbers are as they were", seen.row.at_ms == row.at_ms, seen.row.bytes_in == row.bytes_in,
           seen.row.bytes_out == 7, seen.row.duration_us == 1234567, seen.row.status == 200);
    ok_all("its result too", seen.row.has_result, !seen.row.exited, seen.row.signal == 9, seen.row.oom_killed,
           !seen.row.timed_out);
    ok(seen.row.texts[AUDIT_DETAIL].len == sizeof detail - 1 && !memcmp(seen.detail, detail, sizeof detail - 1),
       "its detail byte by byte, NUL and control characters included");
    ok(!seen.row.texts[AUDIT_USER].data && !seen.row.texts[AUDIT_PEER].data, "what was not given is not there");
    struct stat file;
    char path[128];
    snprintf(path, sizeof path, "%s/audit.db", directory);
    ok(!stat(path, &file) && (file.st_mode & 0777) == 0600, "the file is its owner's alone");
    snprintf(path, sizeof path, "%s/audit.db-wal", directory);
    ok(!stat(path, &file) && (file.st_mode & 0777) == 0600, "so is its journal");
    char text[2000];
    memset(text, 'x', sizeof text);
    audit_setn(&row, AUDIT_DETAIL, text, sizeof text);
    audit_put(audit, &row);
    page_of(audit, &(struct audit_query){.limit = 10}, &seen);
    ok(seen.row.texts[AUDIT_DETAIL].len == 1024, "a long detail is cut");
    audit_close(audit);
    audit = opened(0, 0);
    ok(audit && found(audit, &(struct audit_query){.limit = 10}) == 2, "rows are there after a restart");
    put(audit, "again", NULL, NULL, "ok", 0);
    ok(whole(audit, 3), "the chain goes on behind them");
    audit_close(audit);
}

static void test_queries(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    for (int i = 0; i < 100; i++)
        put(audit, i % 2 ? "exec" : "file_get", i % 4 < 2 ? "aaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbb",
            i < 50 ? "ann" : "bob", i % 10 ? "ok" : "NOT_FOUND", 1000 + (uint64_t)i);
    ok(found(audit, &(struct audit_query){.limit = 1000}) == 100, "all rows");
    ok(found(audit, &(struct audit_query){.limit = 1000, .box = "aaaaaaaaaaaaaaaa"}) == 50, "of one box");
    ok(found(audit, &(struct audit_query){.limit = 1000, .user = "ann", .verb = "exec"}) == 25, "user and verb");
    ok(found(audit, &(struct audit_query){.limit = 1000, .outcome = "failed"}) == 10, "what failed");
    ok(found(audit, &(struct audit_query){.limit = 1000, .outcome = "NOT_FOUND"}) == 10, "one outcome");
    ok(found(audit, &(struct audit_query){.limit = 1000, .since_ms = 1010, .until_ms = 1020}) == 10, "a time");
    ok(found(audit, &(struct audit_query){.limit = 1000, .box = "' OR 1=1 --"}) == 0, "nothing becomes SQL");
    struct seen seen;
    struct audit_page page = page_of(audit, &(struct audit_query){.limit = 30, .user = "bob"}, &seen);
    ok_all("a page says where to go on", seen.count == 30, page.more, page.next == seen.last);
    page = page_of(audit, &(struct audit_query){.limit = 30, .user = "bob", .after = page.next}, &seen);
    ok_all("the last page reaches the end", seen.count == 20, !page.more, page.next == 100, seen.last == 100);
    page = page_of(audit, &(struct audit_query){.limit = 30, .user = "none"}, &seen);
    ok(seen.count == 0 && page.next == 100, "a page without rows too");
    page = page_of(audit, &(struct audit_query){.limit = 3, .tail = true, .user = "bob"}, &seen);
    ok_all("the newest, in order", seen.count == 3, seen.first == 98, seen.last == 100, page.next == 100);
    page = page_of(audit, &(struct audit_query){.limit = 3, .after = 5000}, &seen);
    ok(seen.count == 0 && page.next == 5000, "behind the end there is nothing, and no step back");
    audit_close(audit);
}

/* ---- only appended ---- */

static void test_append_only(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    for (int i = 0; i < 5; i++)
        put(audit, "exec", NULL, NULL, "ok", 0);
    audit_sync(audit, 10000);
    char why[200];
    ok(!sql("UPDATE audit SET user='x' WHERE id=3", why, sizeof why) && strstr(why, "cannot be changed"),
       "UPDATE is refused");
    ok(!sql("DELETE FROM audit WHERE id=5", why, sizeof why) && strstr(why, "cut at its beginning"),
       "DELETE is refused");
    ok(!sql("DELETE FROM audit", why, sizeof why), "of all rows too");
    ok(!sql("INSERT OR REPLACE INTO audit SELECT id,at_ms,status,NULL,NULL,NULL,NULL,0,0,0,1,'x',NULL,NULL,NULL,NULL,"
            "NULL,NULL,'ok',NULL,NULL,hash FROM audit WHERE id=2",
            why, sizeof why) &&
           strstr(why, "grows at its end"),
       "REPLACE is refused");
    ok(!sql("UPDATE cut SET id = 0", NULL, 0) && !sql("DELETE FROM cut", NULL, 0), "the mark of the cut stays");
    ok(whole(audit, 5), "the chain is whole");
    /* whoever takes the triggers away leaves a trace in the chain */
    sql("DROP TRIGGER audit_update; UPDATE audit SET user='mallory' WHERE id=3", NULL, 0);
    struct audit_verdict verdict = {0};
    struct err err = {0};
    ok(!audit_verify(audit, &verdict, &err) && verdict.broken == 3, "a changed row is found");
    audit_close(audit);
    struct audit *again = opened(0, 0);
    ok(!again, "a log whose end was changed is refused at the start");
    fresh();
    audit = opened(0, 0);
    for (int i = 0; i < 5; i++)
        put(audit, "exec", NULL, NULL, "ok", 0);
    audit_sync(audit, 10000);
    sql("DROP TRIGGER audit_delete; DELETE FROM audit WHERE id=2", NULL, 0);
    ok(!audit_verify(audit, &verdict, &err) && verdict.broken == 3, "a missing row is found");
    audit_close(audit);
}

/* ---- many ---- */

static void *putter(void *argument) {
    for (int i = 0; i < 5000; i++)
        put(argument, "exec", "aaaaaaaaaaaaaaaa", "ann", "ok", 0);
    return NULL;
}

static void test_threads(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, putter, audit);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    struct audit_counts counts;
    ok(whole(audit, 40000), "40,000 rows of eight threads, none lost, one chain");
    audit_count(audit, &counts);
    ok_all("and counted", counts.written == 40000, counts.lost == 0, !counts.failing);
    ok(audit_writes(audit) < 2000, "in batches");
    audit_close(audit);
}

static void test_two_processes(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    audit_close(audit);
    pid_t children[2];
    for (int i = 0; i < 2; i++)
        if (!(children[i] = fork())) {
            struct audit *mine = opened(0, 0);
            for (int turn = 0; mine && turn < 20; turn++) {
                for (int n = 0; n < 50; n++)
                    put(mine, i ? "one" : "two", NULL, NULL, "ok", 0);
                audit_sync(mine, 10000);
            }
            audit_close(mine);
            _exit(!mine);
        }
    int status, bad = 0;
    for (int i = 0; i < 2; i++)
        bad += waitpid(children[i], &status, 0) < 0 || status;
    audit = opened(0, 0);
    ok(!bad && whole(audit, 2000), "two daemons on one file write one chain");
    audit_close(audit);
    fresh(); /* and make the file at the same moment */
    for (int i = 0; i < 2; i++)
        if (!(children[i] = fork())) {
            struct audit *mine = opened(0, 0);
            put(mine, "first", NULL, NULL, "ok", 0);
            audit_close(mine);
            _exit(!mine);
        }
    for (int i = 0; i < 2; i++)
        bad += waitpid(children[i], &status, 0) < 0 || status;
    audit = opened(0, 0);
    ok(!bad && whole(audit, 2), "and may begin it together");
    audit_close(audit);
}

/* ---- what goes wrong ---- */

static void test_killed(void) {
    fresh();
    int ready[2];
    char byte;
    if (pipe(ready))
        abort();
    pid_t child = fork();
    if (!child) {
        struct audit *mine = opened(0, 0);
        for (int i = 0; i < 1000; i++)
            put(mine, "exec", NULL, NULL, "ok", 0);
        audit_sync(mine, 10000);
        for (int i = 0; i < 10; i++)
            put(mine, "late", NULL, NULL, "ok", 0);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    bool told = read(ready[0], &byte, 1) == 1;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]), close(ready[1]);
    struct audit *audit = opened(0, 0);
    uint64_t exec = found(audit, &(struct audit_query){.limit = 2000, .verb = "exec"});
    uint64_t late = found(audit, &(struct audit_query){.limit = 2000, .verb = "late"});
    ok(told && exec == 1000, "kill -9: what was written is there");
    ok(late <= 10 && whole(audit, 1000 + late), "and the chain is whole");
    audit_close(audit);
}

/* A file system without room: here a limit on the file's size, which SQLite sees as a full disk or an I/O error. */
static void test_full(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    put(audit, "before", NULL, NULL, "ok", 0);
    audit_sync(audit, 10000);
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 8192;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    struct audit_counts counts = {0};
    uint64_t put_count = 0, begin_ms = clock_ms();
    char detail[1024];
    memset(detail, 'd', sizeof detail);
    struct audit_row row = {.at_ms = 1};
    audit_set(&row, AUDIT_VERB, "many");
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_setn(&row, AUDIT_DETAIL, detail, sizeof detail);
    while (counts.lost < 100 && clock_ms() < begin_ms + 20000) {
        audit_put(audit, &row);
        put_count++;
        audit_count(audit, &counts);
    }
    ok(counts.failing && counts.lost == 100, "a full disk: rows wait in memory, then are counted");
    ok(counts.queued_bytes <= 4u << 20, "memory is bounded");
    setrlimit(RLIMIT_FSIZE, &limit);
    uint64_t rows = 0;
    while (rows < put_count - 100 && clock_ms() < begin_ms + 40000) {
        audit_sync(audit, 3000);
        audit_count(audit, &counts);
        rows = counts.written;
    }
    struct seen seen;
    page_of(audit, &(struct audit_query){.limit = 10, .verb = "audit_gap"}, &seen);
    ok(seen.count == 1 && !strncmp(seen.detail, "100 rows were lost", 18), "with room again a row says how many");
    audit_count(audit, &counts);
    ok(!counts.failing && whole(audit, put_count - 100 + 2), "nothing else is missing");
    audit_close(audit);
}

static bool refused(const char *name, const char *word) {
    struct audit *audit = NULL;
    struct err err = {0};
    const struct audit_options options = {.directory = directory};
    int r = audit_open(&options, &audit, &err);
    bool fine =
        r < 0 && !audit && strstr(err.text, "audit.db") && strstr(err.text, "move it away") && strstr(err.text, word);
    ok(fine, name);
    if (!fine)
        printf("# %d: %s\n", r, err.text);
    audit_close(audit);
    return fine;
}

static void overwrite(long offset, const char *bytes, size_t len) {
    char path[128];
    snprintf(path, sizeof path, "%s/audit.db", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (pwrite(fd, bytes, len, offset) != (ssize_t)len)
        abort();
    close(fd);
}

static void test_damaged(void) {
    char noise[4096];
    memset(noise, 0x5a, sizeof noise);
    fresh();
    overwrite(0, noise, sizeof noise);
    refused("a file that is no data base", "damaged");
    fresh();
    sql("CREATE TABLE t (x)", NULL, 0);
    refused("another program's data base", "other program");
    fresh();
    audit_close(opened(0, 0));
    sql("PRAGMA user_version=99", NULL, 0);
    refused("one of a newer cubby", "another version");
    fresh();
    struct audit *audit = opened(0, 0);
    for (int i = 0; i < 200; i++)
        put(audit, "exec", "aaaaaaaaaaaaaaaa", NULL, "ok", 0);
    audit_close(audit);
    char path[128];
    struct stat file;
    snprintf(path, sizeof path, "%s/audit.db", directory);
    for (long page = 1; !stat(path, &file) && page * 4096 < file.st_size; page++)
        overwrite(page * 4096, noise, sizeof noise);
    refused("one whose pages were overwritten", "damaged");
    fresh();
    snprintf(path, sizeof path, "%s/audit.db", directory);
    if (symlink("/etc/hostname", path))
        abort();
    refused("a link", "audit");
    fresh();
    snprintf(path, sizeof path, "%s/audit.db", directory);
    mkdir(path, 0700);
    refused("a directory", "audit");
}

/* ---- cutting ---- */

static void test_trim(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    uint64_t now_ms = clock_wall_ms(), day_ms = 86400000;
    for (int i = 0; i < 300; i++)
        put(audit, i < 100 ? "old" : "young", NULL, NULL, "ok", i < 100 ? now_ms - 40 * day_ms : now_ms - day_ms);
    audit_close(audit);
    audit = opened(30, 0);
    put(audit, "new", NULL, NULL, "ok", 0); /* the writer looks at ages after its first batch */
    audit_sync(audit, 10000);
    struct seen seen;
    uint64_t end_ms = clock_ms() + 60000;
    do
        page_of(audit, &(struct audit_query){.limit = 10, .verb = "audit_cut"}, &seen);
    while (!seen.count && clock_ms() < end_ms);
    ok(seen.count == 1 && !strcmp(seen.detail, "rows 1 to 100 were cut"), "rows too old are cut, and a row says so");
    ok(found(audit, &(struct audit_query){.limit = 1000, .verb = "old"}) == 0 &&
           found(audit, &(struct audit_query){.limit = 1000, .verb = "young"}) == 200,
       "those and no others");
    ok(whole(audit, 202), "the chain begins behind the cut");
    ok(!sql("DELETE FROM audit WHERE id=101", NULL, 0), "the next row still cannot be removed");
    audit_close(audit);

    fresh();
    audit = opened(0, 0);
    char detail[1024];
    memset(detail, 'd', sizeof detail);
    struct audit_row row = {0};
    audit_set(&row, AUDIT_VERB, "large");
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_setn(&row, AUDIT_DETAIL, detail, sizeof detail);
    for (int i = 0; i < 6000; i++)
        audit_put(audit, &row);
    audit_close(audit);
    audit = opened(0, 2 << 20);
    audit_put(audit, &row);
    end_ms = clock_ms() + 60000;
    do
        page_of(audit, &(struct audit_query){.limit = 10, .verb = "audit_cut"}, &seen);
    while (!seen.count && clock_ms() < end_ms);
    uint64_t left = found(audit, &(struct audit_query){.limit = 10000, .verb = "large"});
    ok_all("a log that is too large loses its oldest rows", seen.count == 1, left > 1000, left < 2000);
    ok(whole(audit, left + 1), "and stays whole");
    audit_close(audit);
    audit = opened(0, 2 << 20);
    ok(audit != NULL, "and opens again");
    audit_close(audit);
}

/* One user writes until the log is too large: that user's oldest rows go, and nobody else's. */
static void test_share(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    char detail[1024];
    memset(detail, 'd', sizeof detail);
    for (int i = 0; i < 6000; i++) {
        struct audit_row row = {0};
        bool victim = i % 100 == 50;
        audit_set(&row, AUDIT_VERB, victim ? "mine" : "flood");
        audit_set(&row, AUDIT_USER, victim ? "victim" : "mallory");
        audit_set(&row, AUDIT_OUTCOME, "ok");
        audit_setn(&row, AUDIT_DETAIL, detail, victim ? 10 : sizeof detail);
        audit_put(audit, &row);
    }
    audit_close(audit);
    for (int turn = 0; turn < 3; turn++) { /* each more than is there: gaps become one */
        uint64_t most = (3u - (unsigned)turn) << 20, end_ms = clock_ms() + 60000;
        struct seen seen;
        audit = opened(0, most);
        put(audit, "begin", NULL, NULL, "ok", 0);
        audit_sync(audit, 10000);
        do
            page_of(audit, &(struct audit_query){.limit = 1000, .verb = "audit_cut"}, &seen);
        while (seen.count < (size_t)turn + 1 && clock_ms() < end_ms);
        audit_close(audit);
        audit = opened(0, 0);
        uint64_t left = found(audit, &(struct audit_query){.limit = 10000, .verb = "flood"});
        page_of(audit, &(struct audit_query){.limit = 1000, .verb = "audit_cut"}, &seen);
        ok_all("a log that is too large loses rows of the user who has most",
               strstr(seen.detail, "rows of user 'mallory', who had most, were cut"), left<5940, left> 100);
        ok(found(audit, &(struct audit_query){.limit = 10000, .verb = "mine"}) == 60, "and nobody else's");
        struct audit_verdict verdict;
        struct err err;
        ok_all("it is still a chain", audit_verify(audit, &verdict, &err) == 0, !verdict.broken, !verdict.damage);
        audit_close(audit);
    }
    audit = opened(0, 0);
    ok(!sql("DELETE FROM audit WHERE user = 'victim'", NULL, 0), "no row goes without a gap");
    ok(sql("UPDATE gap SET hash = zeroblob(32) WHERE first = (SELECT min(first) FROM gap)", NULL, 0), "a forged gap");
    struct audit_verdict verdict;
    struct err err;
    ok(audit_verify(audit, &verdict, &err) == 0 && verdict.broken, "is found");
    audit_close(audit);
}

static void test_strangers(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    struct audit_row row = {.status = 401};
    audit_set(&row, AUDIT_VERB, "exec");
    audit_set(&row, AUDIT_OUTCOME, "UNAUTHORIZED");
    for (int i = 0; i < 5000; i++)
        audit_put_stranger(audit, &row);
    uint64_t rows = found(audit, &(struct audit_query){.limit = 10000, .verb = "exec"});
    struct audit_counts counts;
    audit_count(audit, &counts);
    ok(rows >= 10 && rows <= 200, "refused strangers have few rows");
    ok(rows + counts.strangers == 5000, "the rest is counted");
    audit_close(audit);
    audit = opened(0, 0);
    struct seen seen;
    page_of(audit, &(struct audit_query){.limit = 100, .verb = "audit_strangers"}, &seen);
    ok(seen.count >= 1 && strstr(seen.detail, "more requests"), "and a row tells the count");
    audit_close(audit);
}

static void test_reads(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    struct audit_row row = {.at_ms = 5000, .status = 200, .bytes_in = 10, .bytes_out = 4096, .duration_us = 30};
    audit_set(&row, AUDIT_VERB, "file_get");
    audit_set(&row, AUDIT_BOX, "aaaaaaaaaaaaaaaa");
    audit_set(&row, AUDIT_OUTCOME, "ok");
    audit_set(&row, AUDIT_DETAIL, "small");
    char id[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "request-%d", i);
        audit_set(&row, AUDIT_REQUEST_ID, id);
        audit_set(&row, AUDIT_DETAIL, i % 2 ? "small" : "other");
        audit_put_read(audit, &row);
    }
    struct audit_row failed = row;
    failed.status = 404;
    audit_set(&failed, AUDIT_OUTCOME, "NOT_FOUND");
    audit_put_read(audit, &failed);
    audit_sync(audit, 10000);
    audit_put_read(audit, &row); /* another batch */
    struct seen seen;
    page_of(audit, &(struct audit_query){.limit = 1000}, &seen);
    /* a batch may end in between: some more rows, never less counted */
    ok_all("reads alike of one batch are one row", seen.count >= 4, seen.count < 50, seen.row.count == 1);
    uint64_t total = 0, bytes = 0;
    char sum[400];
    snprintf(sum, sizeof sum, "%s/audit.db", directory);
    sqlite3 *handle;
    sqlite3_stmt *statement;
    sqlite3_open(sum, &handle);
    sqlite3_prepare_v2(handle, "SELECT sum(count), sum(bytes_out) FROM audit", -1, &statement, NULL);
    if (sqlite3_step(statement) == SQLITE_ROW)
        total = (uint64_t)sqlite3_column_int64(statement, 0), bytes = (uint64_t)sqlite3_column_int64(statement, 1);
    sqlite3_finalize(statement);
    sqlite3_close(handle);
    ok(total == 1002 && bytes == 1002 * 4096, "with their number and the sum of their sizes");
    ok(found(audit, &(struct audit_query){.limit = 10, .outcome = "NOT_FOUND"}) == 1, "another outcome is another row");
    ok(whole(audit, seen.count), "and the chain is whole");
    audit_close(audit);
}

static void test_running(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    struct audit_row row = {.at_ms = 7000};
    audit_set(&row, AUDIT_VERB, "exec");
    audit_set(&row, AUDIT_OUTCOME, "running");
    audit_set(&row, AUDIT_DETAIL, "sleep");
    for (int i = 0; i < 100; i++)
        audit_end(audit, audit_begin(audit, &row));
    struct audit_running *running[3];
    for (int i = 0; i < 3; i++)
        running[i] = audit_begin(audit, &row);
    audit_end(audit, running[1]);
    struct seen seen;
    uint64_t begin_ms = clock_ms();
    do
        page_of(audit, &(struct audit_query){.limit = 10, .verb = "exec"}, &seen);
    while (seen.count < 2 && clock_ms() < begin_ms + 10000);
    ok_all("what lasts has a row meanwhile", seen.count == 2, seen.row.at_ms == 7000, !strcmp(seen.detail, "sleep"));
    ok(found(audit, &(struct audit_query){.limit = 10, .outcome = "failed"}) == 0, "which is no failure");
    audit_end(audit, running[0]);
    audit_end(audit, running[2]);
    audit_end(audit, NULL);
    ok(!audit_begin(NULL, &row) && whole(audit, 2), "once, and only what lasts");
    audit_close(audit);
}

static void test_wait(void) {
    fresh();
    struct audit *audit = opened(0, 0);
    uint64_t seen = audit_writes(audit), begin_ms = clock_ms();
    put(audit, "exec", NULL, NULL, "ok", 0);
    audit_wait(audit, seen, 10000);
    uint64_t took_ms = clock_ms() - begin_ms;
    ok(audit_writes(audit) == seen + 1 && took_ms < 30000, "who waits is told when a batch is written");
    printf("# on disk after %llu ms\n", (unsigned long long)took_ms);
    begin_ms = clock_ms();
    audit_wait(audit, seen + 1, 50);
    ok(clock_ms() - begin_ms >= 49, "or waits its time");
    audit_close(audit);
    audit_put(NULL, &(struct audit_row){0});
    audit_event(NULL, "x", NULL, NULL, NULL);
    ok(true, "no audit is fine");
}

/* ---- secrets ---- */

static void redacts(const char *const *env, const char *text, size_t max, const char *want, const char *name) {
    autoarena arena = ARENA_EMPTY;
    struct redact redact = {.arena = &arena};
    autobuf out = buf_max(max);
    redact_env(&redact, env);
    redact_text(&redact, &out, text, strlen(text));
    bool fine = out.len == strlen(want) && !memcmp(out.data ? (char *)out.data : "", want, out.len);
    ok(fine, name);
    if (!fine)
        printf("# got %.*s\n", (int)out.len, out.data ? (char *)out.data : "");
}

static void test_redact(void) {
    const char *const env[] = {"KEY=s3cr3t", "LONG=s3cr3t-and-more", "TINY=abc", "OVER=moreover", "EMPTY=", "ODD",
                               NULL};
    redacts(env, "curl -H s3cr3t x", 1024, "curl -H [KEY] x", "a value becomes its name");
    redacts(env, "s3cr3t-and-more", 1024, "[LONG]", "the longest one");
    redacts(env, "s3cr3t-and-moreover!", 1024, "[LONG]!", "two that overlap leave nothing of either");
    redacts(env, "abc ODD", 1024, "abc ODD", "short values and names stay");
    redacts(env, "s3cr3ts3cr3t", 1024, "[KEY][KEY]", "again and again");
    redacts(env, "0123456789s3cr3t", 12, "0123456789", "a value across the cut is not begun");
    redacts(env, "01234567 s3cr3t", 14, "01234567 [KEY]", "a placeholder that fits is there");
    redacts(NULL, "s3cr3t", 1024, "s3cr3t", "without secrets nothing changes");
}

/* ---- times ---- */

static void test_times(void) {
    static const struct {
        const char *text;
        uint64_t ms; /* 1: refused */
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-16T00:42:56Z", 1794789776000},
        {"2026-11-16T00:42:56.5Z", 1794789776500},
        {"2026-11-16t00:42:56.123456789z", 1794789776123},
        {"2026-11-16T02:42:56+02:00", 1794789776000},
        {"2026-11-15T19:12:56-05:30", 1794789776000},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2016-12-31T23:59:60Z", 1483228799000},
        {"9999-12-31T23:59:59Z", 253402300799000},
        {"2026-02-29T00:00:00Z", 1},
        {"2026-13-01T00:00:00Z", 1},
        {"2026-00-01T00:00:00Z", 1},
        {"2026-01-01T24:00:00Z", 1},
        {"2026-01-01T00:60:00Z", 1},
        {"2026-01-01T00:00:00", 1},
        {"2026-01-01 00:00:00Z", 1},
        {"2026-01-01T00:00:00.Z", 1},
        {"2026-01-01T00:00:00Zx", 1},
        {"2026-01-01T00:00:00+24:00", 1},
        {"2026-01-01T00:00:00+0100", 1},
        {"1969-12-31T23:59:59Z", 1},
        {"1970-01-01T00:00:00+00:01", 1},
        {"2026\r01\r01T00:00:00Z", 1},
        {"", 1},
        {"now", 1},
        {"-026-01-01T00:00:00Z", 1},
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t ms = 1;
        bool fine = clock_parse(rows[i].text, &ms);
        if (ms != rows[i].ms || fine != (rows[i].ms != 1)) {
            printf("# '%s' is %llu\n", rows[i].text, (unsigned long long)ms);
            wrong++;
        }
    }
    ok(!wrong, "times of RFC 3339");
}

int main(void) {
    if (!mkdtemp(root))
        abort();
    umask(022); /* the file's mode is ours, not the mask's */
    log_set_level(LOG_LEVEL_WARN);
    test_times();
    test_redact();
    test_round();
    test_queries();
    test_append_only();
    test_threads();
    test_two_processes();
    test_killed();
    test_full();
    test_damaged();
    test_trim();
    test_share();
    test_strangers();
    test_reads();
    test_running();
    test_wait();
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (fork() == 0)
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    wait(NULL);
    return tap_end();
}
