/* Kept results: texts that grow in bounded memory, finding characters and lines in them against a plain count, searching them,
 * and rows and files that fit to each other whatever is killed when. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tool/offload/offload_store.h"
#include "tool/tools/recall_search.h"
#include "tap.h"

static char directory[] = "/tmp/cubby-offload.XXXXXX";

static struct tool_store *store_open(void) {
    struct tool_store *store = NULL;
    struct err err;
    if (tool_store_open(directory, &store, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return store;
}

/* ---- spool ---- */

static char *pattern_new(size_t len) {
    char *text = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + (i * 7 + i / 1000) % 26);
    text[len] = 0;
    return text;
}

static bool spools(int dir, const char *text, size_t len, size_t step, uint64_t kept) {
    struct spool spool;
    size_t got;
    spool_init(&spool, dir);
    for (size_t at = 0; at < len; at += step)
        spool_put(&spool, text + at, len - at < step ? len - at : step);
    const uint8_t *data = spool_view(&spool, &got);
    bool good = spool.total == len && got == kept &&
                (!len || memcmp(data, text, kept < len ? SPOOL_MEMORY_BYTES / 2 : len) == 0) &&
                spool.memory.cap <= 2 * SPOOL_MEMORY_BYTES;
    spool_put(&spool, "end", 3); /* a view is no end */
    data = spool_view(&spool, &got);
    good = good && spool.total == len + 3 && memcmp(data + got - 3, "end", 3) == 0;
    spool_done(&spool);
    return good;
}

/* A file that takes no more, as on a full disk. */
static void test_full(int dir, const char *text, size_t len) {
    struct rlimit before, less;
    struct spool spool;
    size_t got;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    less = (struct rlimit){.rlim_cur = 1500000, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &less);
    spool_init(&spool, dir);
    spool_put(&spool, text, len / 2);
    spool_put(&spool, text + len / 2, len - len / 2);
    const uint8_t *data = spool_view(&spool, &got);
    ok_all("where the disk is full the beginning stays, and the count", got == 1500000, memcmp(data, text, got) == 0,
           spool.total == len, spool.full);
    spool_done(&spool);
    setrlimit(RLIMIT_FSIZE, &before);
}

static void test_spool(struct tool_store *store) {
    size_t len = 5 * SPOOL_MEMORY_BYTES / 2 + 17;
    char *text = pattern_new(len);
    int dir = tool_store_dir(store);
    ok(spools(dir, text, 0, 1, 0), "nothing");
    ok(spools(dir, text, 100, 7, 100), "a short text");
    ok(spools(dir, text, SPOOL_MEMORY_BYTES, 4096, SPOOL_MEMORY_BYTES), "one as long as memory");
    ok(spools(dir, text, SPOOL_MEMORY_BYTES + 1, 4096, SPOOL_MEMORY_BYTES + 1), "one byte more");
    ok(spools(dir, text, len, 65536, len), "a long one, in pieces");
    ok(spools(dir, text, len, len, len), "a long one at once");
    ok(spools(-1, text, len, 65536, SPOOL_MEMORY_BYTES), "without a directory the middle goes");

    test_full(dir, text, len);

    struct spool spool, other;
    struct err err;
    size_t got;
    spool_init(&spool, dir);
    spool_put(&spool, text, len);
    spool_clear(&spool);
    ok(spool.total == 0 && spool.fd < 0, "cleared it is new");
    spool_init(&other, dir);
    spool_put(&other, text, len);
    spool_put(&spool, "before ", 7);
    spool_move(&spool, &other);
    const uint8_t *data = spool_view(&spool, &got);
    ok_all("one is moved behind another", got == len + 7, memcmp(data, "before ", 7) == 0,
           memcmp(data + 7, text, len) == 0, other.total == 0);
    ok(spool_link(&spool, "ol_linked", &err) == 0 && spool_link(&spool, "ol_linked", &err) == -ERR_EXISTS,
       "it gets a name, once");
    struct stat status;
    ok_all("under which it lies, closed to others", fstatat(dir, "ol_linked", &status, 0) == 0,
           (size_t)status.st_size == len + 7, (status.st_mode & 0777) == 0600);
    unlinkat(dir, "ol_linked", 0);
    spool_done(&spool);
    spool_done(&other);
    free(text);
}

/* ---- the index ---- */

/* The same by going through the text byte by byte. */
static uint64_t plain_char(const char *text, size_t len, uint64_t number) {
    size_t at = 0;
    for (uint64_t seen = 0; at < len; at++)
        if ((text[at] & 0xc0) != 0x80 && seen++ == number)
            break;
    return at;
}

static uint64_t plain_line(const char *text, size_t len, uint64_t number) {
    size_t at = 0;
    for (uint64_t line = 1; at < len && line < number; at++)
        line += text[at] == '\n';
    return at;
}

static int file_of(const char *text, size_t len) {
    char path[64];
    snprintf(path, sizeof path, "%s/text", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || fd_write_all(fd, text, len) < 0)
        abort();
    unlink(path);
    return fd;
}

/* kind 0: ASCII lines, 1: characters of all lengths, 2: one line, 3: only newlines */
static char *text_new(int kind, size_t len) {
    static const char *const pieces[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n", "b "};
    char *text = malloc(len + 1);
    size_t at = 0;
    while (at < len) {
        const char *piece = kind == 3   ? "\n"
                            : kind == 2 ? "x"
                            : kind == 0 ? (rand() % 40 ? "y" : "\n")
                                        : pieces[rand() % 6];
        size_t n = strlen(piece);
        if (at + n > len)
            piece = ".", n = 1;
        memcpy(text + at, piece, n);
        at += n;
    }
    text[len] = 0;
    return text;
}

static bool index_right(int kind, size_t len) {
    char *text = text_new(kind, len);
    autoarena arena;
    struct offload_index index;
    struct err err;
    int fd = file_of(text, len);
    arena_init(&arena);
    offload_index_build((const uint8_t *)text, len, &arena, &index);
    bool good = offload_index_fits(&index) && index.bytes == len && plain_char(text, len, index.chars) == len &&
                (!index.chars || plain_char(text, len, index.chars - 1) < len) &&
                plain_line(text, len, index.lines + 1) == len && (!len || plain_line(text, len, index.lines) < len);
    for (int i = 0; i < 60 && good; i++) {
        uint64_t number = i < 4   ? (uint64_t)i
                          : i < 8 ? index.chars + 2 - (uint64_t)(i - 4)
                                  : (uint64_t)rand() % (index.chars + 2);
        uint64_t byte, character, line, begin;
        good = offload_index_char(&index, fd, number, &byte, &err) == 0 && byte == plain_char(text, len, number) &&
               offload_index_at(&index, fd, byte, &character, &line, &err) == 0 &&
               character == (number < index.chars ? number : index.chars);
        good = good && offload_index_line(&index, fd, line, &begin, &err) == 0 && (begin <= byte || byte == len) &&
               begin == plain_line(text, len, line);
        number = (uint64_t)rand() % (index.lines + 3);
        good = good && offload_index_line(&index, fd, number, &byte, &err) == 0 &&
               byte == (number > index.lines ? len : plain_line(text, len, number));
    }
    close(fd);
    free(text);
    return good;
}

static void test_index(void) {
    static const size_t sizes[] = {0, 1, 7, 100, INDEX_STEP - 1, INDEX_STEP, INDEX_STEP + 1, 3 * INDEX_STEP, 200001};
    char what[80];
    for (int kind = 0; kind < 4; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            snprintf(what, sizeof what, "characters and lines are found: kind %d, %zu bytes", kind, sizes[i]);
            ok(index_right(kind, sizes[i]), what);
        }
    uint32_t bad[] = {0, 0, 5, 0};
    struct offload_index index = {.bytes = INDEX_STEP + 1, .chars = 4, .lines = 1, .marks = bad, .mark_count = 2};
    ok(!offload_index_fits(&index), "marks beyond the text are refused");
    bad[0] = 4, bad[2] = 3;
    ok(!offload_index_fits(&index), "and such that go back");
    index.mark_count = 1;
    ok(!offload_index_fits(&index), "and too few");
}

/* ---- searching ---- */

static bool finds(const char *name, const char *text, size_t len, struct recall_search search, const char *want,
                  uint64_t matches, uint64_t next) {
    autoarena arena;
    autobuf out;
    struct offload_index index;
    struct recall_found found = {0};
    struct err err = {0};
    arena_init(&arena);
    buf_init(&out, RECALL_SEARCH_BYTES);
    offload_index_build((const uint8_t *)text, len, &arena, &index);
    search.index = &index;
    search.fd = file_of(text, len);
    search.user = "ann";
    search.watch = -1;
    search.pattern_len = strlen(search.pattern);
    search.max_results = search.max_results ? search.max_results : 50;
    search.max_chars = search.max_chars ? search.max_chars : 8000;
    search.first_line = search.first_line ? search.first_line : 1;
    search.last_line = search.last_line ? search.last_line : index.lines;
    int r = recall_search(&search, &out, &found, &err);
    close(search.fd);
    bool good = r == 0 && (!want || (out.len == strlen(want) && (!out.len || memcmp(out.data, want, out.len) == 0))) &&
                found.matches == matches && found.next_line == next;
    if (!good)
        printf("# %s: %d %s, %d matches, next %d\n# %.*s\n", name, r, err.text, (int)found.matches,
               (int)found.next_line, (int)out.len, out.len ? (const char *)out.data : "");
    ok(good, name);
    return good;
}

static void test_search(void) {
    static const char lines[] = "one\ntwo\nthree\r\nfour\nfive\nsix\nseven\neight\nnine\nten";
    size_t len = sizeof lines - 1;
#define FINDS(name, want, matches, next, ...)                                                                          \
    finds(name, lines, len, (struct recall_search){__VA_ARGS__}, want, matches, next)
    FINDS("a word", "2: two\n", 1, 0, .pattern = "tw");
    FINDS("none", "", 0, 0, .pattern = "zero");
    FINDS("the last line, without its newline", "10: ten\n", 1, 0, .pattern = "^ten$");
    FINDS("a line that ends in CR", "3: three\r\n", 1, 0, .pattern = "ee$", .last_line = 4);
    FINDS("case", "1: one\n", 1, 0, .pattern = "ONE", .ignore_case = true);
    FINDS("literal", "", 0, 0, .pattern = "o.e", .literal = true);
    FINDS("neighbours", "1- one\n2: two\n3- three\r\n--\n5- five\n6: six\n7- seven\n", 2, 0, .pattern = "two|six",
          .context = 1);
    FINDS("neighbours of a plain text", "5- five\n6: six\n7- seven\n", 1, 0, .pattern = "six", .context = 1);
    FINDS("a plain text in many lines", "1: one\n7: seven\n9: nine\n10: ten\n", 4, 0, .pattern = "n");
    FINDS("neighbours that meet", "1: one\n2: two\n3- three\r\n4- four\n", 2, 0, .pattern = "one|two", .context = 2);
    FINDS("neighbours stay within the lines asked for", "4- four\n5: five\n6- six\n", 1, 0, .pattern = "five",
          .context = 3, .first_line = 4, .last_line = 6);
    FINDS("only so many", "1: one\n2: two\n", 2, 3, .pattern = ".", .max_results = 2);
    FINDS("only so many, and that was all", "1: one\n2: two\n", 2, 0, .pattern = "one|two", .max_results = 2);
    FINDS("only so long", "1: one\n2: two\n", 2, 3, .pattern = ".", .max_chars = 14);
    FINDS("from a line on", "9: nine\n", 1, 0, .pattern = "in", .first_line = 8);

    /* a line longer than any window, with a match across the border of two */
    size_t size = 3u << 20, at = (256u << 10) - 2;
    char *text = malloc(size + 8), want[600];
    memset(text, 'x', size);
    memcpy(text, "first\n", 6);
    memcpy(text + 6 + at, "needle", 6);
    memcpy(text + size, "\nlast\n", 7);
    snprintf(want, sizeof want, "2: ...%.*s... (offset=%zu)\n", 500, text + 6 + at - 120, 6 + at - 120);
    finds("a match in a long line shows its place", text, size + 6, (struct recall_search){.pattern = "needle"}, want,
          1, 0);
    finds("behind it lines are counted on", text, size + 6, (struct recall_search){.pattern = "^last$"}, "3: last\n", 1,
          0);
    finds("its pieces are no lines", text, size + 6, (struct recall_search){.pattern = "^x"}, NULL, 1, 0);
    memset(text, 'a', size);
    uint64_t begin_ms = clock_ms();
    finds("a pattern that would take for ever is given up", text, size, (struct recall_search){.pattern = "(a+)+[^a]"},
          "", 0, 0);
    ok(clock_ms() - begin_ms < 20000, "soon");
    free(text);

    struct recall_found found;
    struct err err;
    struct offload_index index = {0};
    struct recall_search bad = {
        .index = &index, .fd = -1, .user = "ann", .watch = -1, .pattern = "(", .pattern_len = 1};
    ok(recall_search(&bad, NULL, &found, &err) == -ERR_INVALID && strstr(err.text, "at byte 1"), "a bad pattern");
    bad.pattern = "a\nb", bad.pattern_len = 3;
    ok(recall_search(&bad, NULL, &found, &err) == -ERR_INVALID, "a pattern with a newline");
}

/* ---- rows and files ---- */

static int add(struct tool_store *store, const char *user, const char *box, size_t len, uint64_t max_bytes,
               struct offload_row *ret_row) {
    struct spool spool;
    struct err err;
    autoarena arena;
    char *text = pattern_new(len);
    struct offload_row row = {.user = user, .box = box, .thread = "t", .tool = "bash"};
    arena_init(&arena);
    spool_init(&spool, tool_store_dir(store));
    spool_put(&spool, text, len);
    offload_index_build((const uint8_t *)text, len, &arena, &row.index);
    int r = offload_add(store, &row, &spool, max_bytes, &err);
    spool_done(&spool);
    free(text);
    if (ret_row)
        *ret_row = row;
    return r;
}

static int find(struct tool_store *store, const char *user, const char *box, const char *id, uint64_t since_ms) {
    struct offload_row row;
    struct err err;
    autoarena arena;
    autofd fd = -1;
    arena_init(&arena);
    return offload_find(store, user, box, id, since_ms, &arena, &row, &fd, &err);
}

static size_t files(struct tool_store *store) {
    size_t n = 0;
    DIR *names = fdopendir(openat(tool_store_dir(store), ".", O_RDONLY | O_DIRECTORY));
    for (const struct dirent *entry; (entry = readdir(names));)
        n += entry->d_name[0] != '.';
    closedir(names);
    return n;
}

static size_t rows(struct tool_store *store) {
    int64_t n = -1;
    struct err err;
    db_number(tool_store_lock(store), "SELECT count(*) FROM offload", &n, &err);
    tool_store_unlock(store);
    return (size_t)n;
}

static void test_rows(struct tool_store *store) {
    struct offload_row one, two, three;
    struct err err;
    ok(add(store, "ann", "box1", 1000, 0, &one) == 0 && add(store, "ann", "box2", 1000, 0, &two) == 0, "two are kept");
    ok(find(store, "ann", "box1", one.id, 0) == 0, "one is found");
    ok(find(store, "bob", "box1", one.id, 0) == -ERR_NOT_FOUND, "not by another user");
    ok(find(store, "ann", "box2", one.id, 0) == -ERR_NOT_FOUND, "nor from another box");
    ok(find(store, "ann", "box1", one.id, one.made_ms + 1) == -ERR_NOT_FOUND, "nor when it is too old");
    ok(find(store, "ann", "box1", "ol_0123456789abcdef", 0) == -ERR_NOT_FOUND, "nor one that never was");
    ok(add(store, "bob", "box3", 3000, 2999, NULL) == -ERR_LIMIT, "one larger than all may be is refused");
    ok(add(store, "ann", "box1", 1500, 3000, &three) == 0, "a third, when there is room for two");
    ok_all("the oldest goes", find(store, "ann", "box1", one.id, 0) == -ERR_NOT_FOUND,
           find(store, "ann", "box2", two.id, 0) == 0, find(store, "ann", "box1", three.id, 0) == 0, files(store) == 2,
           rows(store) == 2);
    ok_all("a box's go with it", offload_forget(store, "box2", INT64_MAX, &err) == 0, files(store) == 1,
           rows(store) == 1, find(store, "ann", "box1", three.id, 0) == 0);
    ok(offload_forget(store, "box1", three.made_ms - 1, &err) == 0 && rows(store) == 1,
       "those of a box that got its id later stay");
    static const char *const bad[] = {"",
                                      "ol_",
                                      "ol_0123456789abcde",
                                      "ol_0123456789abcdef0",
                                      "ol_0123456789ABCDEF",
                                      "../0123456789abcdef",
                                      "ol_../../etc/passwd",
                                      "ol_0123456789abcde/"};
    bool refused = offload_id(three.id, strlen(three.id));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused = refused && !offload_id(bad[i], strlen(bad[i]));
    ok(refused, "ids have one form");
    int dir = tool_store_dir(store);
    close(openat(dir, "ol_00000000000000aa", O_CREAT | O_WRONLY, 0600));
    close(openat(dir, "new-1-2", O_CREAT | O_WRONLY, 0600));
    struct offload_row four;
    add(store, "ann", "box1", 10, 0, &four);
    unlinkat(dir, four.id, 0);
    ok(find(store, "ann", "box1", four.id, 0) == -ERR_NOT_FOUND, "a row without a file is none");
    ok_all("the sweep takes what is half", offload_sweep(store, 0, &err) == 0, files(store) == 1, rows(store) == 1);
    ok_all("and what is too old", offload_sweep(store, three.made_ms + 1, &err) == 0, files(store) == 0,
           rows(store) == 0);
    add(store, "ann", "box1", 100, 0, &one);
    int fd = openat(dir, one.id, O_WRONLY | O_TRUNC);
    close(fd);
    ok(find(store, "ann", "box1", one.id, 0) == -ERR_NOT_FOUND, "one whose bytes a crash took is none");
    offload_forget(store, "box1", INT64_MAX, &err);
}

static void test_stale(struct tool_store *store) {
    struct offload_row row = {.user = "ann", .box = "box1", .thread = "t", .tool = "read_file", .path = "/w/f"}, *found;
    struct spool spool;
    struct err err;
    autoarena arena;
    size_t n = 0;
    bool first = false, again = true;
    arena_init(&arena);
    memset(row.sha256, 7, 32);
    spool_init(&spool, tool_store_dir(store));
    spool_put(&spool, "text", 4);
    offload_index_build((const uint8_t *)"text", 4, &arena, &row.index);
    offload_add(store, &row, &spool, 0, &err);
    spool_done(&spool);
    add(store, "ann", "box1", 10, 0, NULL);
    ok_all("those that show a file are told",
           offload_sources(store, "ann", "box1", "t", 0, &arena, &found, &n, &err) == 0, n == 1,
           strcmp(found->id, row.id) == 0, strcmp(found->path, "/w/f") == 0,
           memcmp(found->sha256, row.sha256, 32) == 0);
    ok(offload_sources(store, "ann", "box1", "other", 0, &arena, &found, &n, &err) == 0 && n == 0,
       "to their conversation");
    ok_all("one becomes stale once", offload_mark_stale(store, row.id, &first, &err) == 0, first,
           offload_mark_stale(store, row.id, &again, &err) == 0, !again);
    ok(offload_sources(store, "ann", "box1", "t", 0, &arena, &found, &n, &err) == 0 && n == 0, "and is told no more");
    offload_forget(store, "box1", INT64_MAX, &err);
}

/* Somebody keeps results, which makes others go, until he is killed; somebody sweeps meanwhile. Afterwards every row has its
 * whole file, and every file its row. */
static void busy(bool sweeps) {
    struct tool_store *store = store_open();
    struct err err;
    for (unsigned i = 0;; i++)
        if (sweeps)
            offload_sweep(store, 0, &err);
        else
            add(store, "ann", i % 2 ? "box1" : "box2", 1000 + i % 3000, 20000, NULL);
}

static pid_t busy_start(bool sweeps) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        busy(sweeps);
        _exit(1);
    }
    return pid;
}

static void test_killed(void) {
    bool whole = true, some = false;
    for (int round = 0; round < 12 && whole; round++) {
        pid_t pids[] = {busy_start(false), busy_start(false), busy_start(true)};
        usleep(20000 + (useconds_t)(rand() % 60000)); /* when it hits is what is tried */
        for (int i = 0; i < 3; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        struct tool_store *store = store_open();
        struct err err;
        size_t before = rows(store);
        whole = offload_sweep(store, 0, &err) == 0 && rows(store) == before && files(store) == before;
        if (!whole)
            printf("# round %d: %zu rows, then %zu, %zu files\n", round, before, rows(store), files(store));
        some |= before > 0;
        tool_store_close(store);
    }
    ok(whole, "killed at any moment, beside others: every row has its file, and the sweep leaves no other file");
    ok(some, "and there were some");
}

/* A daemon that is killed within its COMMIT may have written all of it to the log, but not to the index of the log that
 * the others read. Its row is not seen by them; but when all of them are killed too, the next one reads the log itself,
 * and the row is there. Here the index is set back, as if the first had died before it wrote that. */
static bool unannounced(void) {
    enum { INDEX_HEAD = 96 }; /* both copies of it */
    char path[64], head[INDEX_HEAD], byte;
    int go[2], done[2];
    struct err err;
    must(pipe(go) == 0 && pipe(done) == 0, "pipes");
    pid_t pid = fork(); /* before a connection is there: SQLite's must not be inherited */
    if (pid == 0) {
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        add(store_open(), "ann", "box1", 1000, 0, NULL);
        (void)!write(done[1], "x", 1);
        pause();
    }
    struct tool_store *store = store_open();
    add(store, "ann", "box1", 1000, 0, NULL);
    size_t before = rows(store);
    snprintf(path, sizeof path, "%s/tools.db-shm", directory);
    int index = open(path, O_RDWR | O_CLOEXEC);
    must(pread(index, head, sizeof head, 0) == sizeof head, "the index of the log");
    must(write(go[1], "x", 1) == 1 && read(done[0], &byte, 1) == 1, "another daemon keeps a result");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    must(pwrite(index, head, sizeof head, 0) == sizeof head, "and dies before it has announced that");
    close(index);
    return rows(store) == before && files(store) == before + 1 && offload_sweep(store, 0, &err) == 0 &&
           files(store) == before;
}

static void test_unannounced(void) {
    int report[2];
    char swept = 'n';
    struct err err;
    must(pipe(report) == 0, "a pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        (void)!write(report[1], unannounced() ? "y" : "n", 1);
        kill(getpid(), SIGKILL); /* the connection is not closed */
    }
    must(read(report[0], &swept, 1) == 1, "a report");
    waitpid(pid, NULL, 0);
    ok(swept == 'y', "a file whose row was not announced is swept");
    struct tool_store *store = store_open();
    ok(rows(store) == files(store), "and the row does not come back without it");
    offload_forget(store, "box1", INT64_MAX, &err);
    tool_store_close(store);
    close(report[0]);
    close(report[1]);
}

static void clean(const char *below) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", directory, below);
    DIR *names = opendir(path);
    for (const struct dirent *entry; names && (entry = readdir(names));)
        if (unlinkat(dirfd(names), entry->d_name, 0) < 0 && entry->d_name[0] != '.')
            unlinkat(dirfd(names), entry->d_name, AT_REMOVEDIR);
    closedir(names);
}

int main(void) {
    if (!mkdtemp(directory))
        return 1;
    srand(5);
    struct tool_store *store = store_open();
    test_spool(store);
    test_index();
    test_search();
    test_rows(store);
    test_stale(store);
    tool_store_close(store);
    test_killed();
    test_unannounced();
    clean("offload");
    clean(".");
    rmdir(directory);
    return tap_end();
}
