/* ZIP archives: each of the hostile corpus (test/lib/zips.py) is refused, with its entry named; each of the good ones has the
 * names and contents it should; what is written is read back, the same each time. Run from the source's top directory. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tree/tarfmt.h"
#include "skill/zip/zip.h"
#include "tap.h"

extern char **environ;
static const struct zip_limits limits = {
    .bytes = 10 << 20, .unpacked_bytes = 256 << 20, .entries = 10000}; /* the defaults of uploads */
static const char *const reserved[] = {"skill-creator", NULL};

static bool run(char *const argv[]) {
    pid_t pid;
    int status = -1;
    return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid &&
           status == 0;
}

static int put(void *user, const uint8_t *data, size_t len) {
    buf_put(user, data, len);
    return 0;
}

/* As an upload does it. */
static int unpack(int fd, struct zip **ret_zip, struct buf *tar, struct err *err) {
    const char *const *names;
    uint8_t data[1000]; /* not a divisor of anything */
    int r = zip_open(fd, &limits, ret_zip, err);
    if (r < 0)
        return r;
    r = zip_skills(*ret_zip, reserved, &names, err);
    struct zip_tar *stream = zip_tar_new(*ret_zip);
    ssize_t n = r;
    while (r == 0 && (n = zip_tar_read(stream, data, sizeof data, err)) > 0)
        buf_put(tar, data, (size_t)n);
    zip_tar_free(stream);
    return (int)n;
}

static int open_row(const char *top, const char *kind, const char *name) {
    char path[500];
    snprintf(path, sizeof path, "%s/%s/%s.zip", top, kind, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void check_bad(const char *top, const char *name, const char *code, const char *part) {
    struct zip *zip = NULL;
    struct err err = {0};
    char what[200], why[1200];
    autobuf tar = buf_max(300 << 20);
    int fd = open_row(top, "bad", name), r = fd < 0 ? 0 : unpack(fd, &zip, &tar, &err);
    snprintf(what, sizeof what, "%s is refused: %s", name, part);
    snprintf(why, sizeof why, "wanted %s '%s', got %d %s '%s'", code, part, r, err_name(err.code), err.text);
    ok_about(r < 0 && strcmp(err_name(err.code), code) == 0 && strstr(err.text, part), what, why);
    zip_close(zip);
    close(fd);
}

/* The names of files, joined by '|'. */
static void files_of(const struct zip *zip, struct buf *out) {
    for (size_t i = 0; i < zip_count(zip); i++)
        if (!zip_entry(zip, i)->dir)
            buf_printf(out, "%s%s", out->len ? "|" : "", zip_entry(zip, i)->path);
}

static bool parents_first(const struct zip *zip) {
    for (size_t i = 0; i < zip_count(zip); i++) {
        const char *path = zip_entry(zip, i)->path, *slash = strrchr(path, '/');
        bool found = !slash;
        for (size_t k = 0; !found && k < i; k++)
            found = zip_entry(zip, k)->dir && strlen(zip_entry(zip, k)->path) == (size_t)(slash - path) &&
                    strncmp(zip_entry(zip, k)->path, path, (size_t)(slash - path)) == 0;
        if (!found)
            return false;
    }
    return true;
}

static int copy_sink(void *user, const uint8_t *data, size_t len) {
    struct err err;
    return zip_writer_data(user, data, len, &err);
}

static int rewrite(struct zip *zip, struct buf *out, struct err *err) {
    struct zip_writer *writer = zip_writer_new(put, out);
    int r = 0;
    for (size_t i = 0; r == 0 && i < zip_count(zip); i++) {
        r = zip_writer_entry(writer, zip_entry(zip, i), err);
        if (r == 0)
            r = zip_read(zip, i, copy_sink, writer, err);
    }
    if (r == 0)
        r = zip_writer_end(writer, err);
    zip_writer_free(writer);
    return r;
}

static int as_file(const struct buf *data) {
    int fd = memfd_create("zip", MFD_CLOEXEC);
    return fd >= 0 && write(fd, data->data, data->len) == (ssize_t)data->len ? fd : -1;
}

/* Written, read, written again: the same names, the same bytes. */
static bool round_trip(struct zip *zip, const char *files, struct err *err) {
    autobuf one = buf_max(64 << 20);
    autobuf two = buf_max(64 << 20);
    autobuf names = buf_max(1 << 20);
    struct zip *again = NULL;
    int fd = -1;
    bool same = rewrite(zip, &one, err) == 0 && (fd = as_file(&one)) >= 0 && zip_open(fd, &limits, &again, err) == 0 &&
                rewrite(again, &two, err) == 0;
    if (same)
        files_of(again, &names);
    same = same && one.len == two.len && memcmp(one.data, two.data, one.len) == 0 && !zip_is_gbk(again) &&
           strcmp(buf_cstr(&names), files) == 0;
    zip_close(again);
    close(fd);
    return same;
}

static void check_good(const char *top, const char *name, const char *encoding, const char *files) {
    struct zip *zip = NULL;
    struct err err = {0};
    char what[200], why[1200];
    autobuf tar = buf_max(64 << 20);
    autobuf names = buf_max(1 << 20);
    int fd = open_row(top, "good", name), r = unpack(fd, &zip, &tar, &err);
    if (r == 0)
        files_of(zip, &names);
    const char *got = buf_cstr(&names);
    snprintf(what, sizeof what, "%s is taken, its names are %s", name, encoding);
    snprintf(why, sizeof why, "%d %.200s; wanted %.300s, got %.300s", r, err.text, files, got);
    ok_about(r == 0 && strcmp(got, files) == 0 && zip_is_gbk(zip) == (strcmp(encoding, "gbk") == 0) &&
                 parents_first(zip),
             what, why);
    snprintf(what, sizeof what, "%s: what is written is read back, the same each time", name);
    ok_about(r == 0 && round_trip(zip, files, &err), what, err.text);
    zip_close(zip);
    close(fd);
}

static void each_row(const char *top, const char *table,
                     void (*check)(const char *top, const char *name, const char *first, const char *second)) {
    char path[500], line[4096];
    snprintf(path, sizeof path, "%s/%s", top, table);
    FILE *file = fopen(path, "re");
    int rows = 0;
    while (file && fgets(line, sizeof line, file)) {
        char *first = strchr(line, '\t'), *second = first ? strchr(first + 1, '\t') : NULL;
        if (!second)
            break;
        *first = *second = 0;
        second[1 + strcspn(second + 1, "\n")] = 0;
        ok(top, line, first + 1, second + 1);
        rows++;
    }
    if (file)
        fclose(file);
    ok_about(rows > 20, table, "the table is missing or short");
}

/* What the tar stream of an archive says of its entries. */
static void test_tar(const char *top) {
    static struct tar_entry entry;
    struct zip *zip = NULL;
    struct err err = {0};
    autobuf tar = buf_max(1 << 20);
    autobuf seen = buf_max(1 << 16);
    int fd = open_row(top, "good", "loose"), r = unpack(fd, &zip, &tar, &err);
    bool zero = false;
    for (size_t at = 0; r == 0 && at + TAR_BLOCK_BYTES <= tar.len && !zero;) {
        tar_reset(&entry);
        const char *why = tar_parse(tar.data + at, &entry, &zero);
        if (why || zero)
            break;
        buf_printf(&seen, "%s %o %d;", entry.name, entry.mode, (int)entry.size);
        at += TAR_BLOCK_BYTES + entry.size + tar_padding(entry.size);
    }
    const char *want = "ok/ 755 0;ok/SKILL.md 644 1;", *got = buf_cstr(&seen);
    ok_about(zero && tar.len % TAR_BLOCK_BYTES == 0 && got && strcmp(got, want) == 0,
             "what lies loose is not in the tar stream", got);
    zip_close(zip);
    close(fd);
}

static struct zip *written(struct buf *data, int *ret_fd, const struct zip_limits *bounds, struct err *err) {
    struct zip *zip = NULL;
    *ret_fd = as_file(data);
    return *ret_fd >= 0 && zip_open(*ret_fd, bounds, &zip, err) == 0 ? zip : NULL;
}

static void test_many(void) {
    enum { MANY = 70000 }; /* more than 16 bits count */
    struct zip_limits bounds = {.bytes = 64 << 20, .unpacked_bytes = 64 << 20, .entries = MANY + 1};
    struct err err = {0};
    autobuf out = buf_max(64 << 20);
    struct zip_writer *writer = zip_writer_new(put, &out);
    int r = 0, fd;
    for (int i = 0; r == 0 && i < MANY; i++) {
        char path[32];
        snprintf(path, sizeof path, "many/%d", i);
        r = zip_writer_entry(writer, &(struct zip_entry){.path = path, .size = 1}, &err);
        if (r == 0)
            r = zip_writer_data(writer, "x", 1, &err);
    }
    r = r ? r : zip_writer_end(writer, &err);
    zip_writer_free(writer);
    struct zip *zip = r == 0 ? written(&out, &fd, &bounds, &err) : NULL;
    ok_about(zip && zip_count(zip) == MANY + 1, "an archive of 70000 files is written and read", err.text);
    zip_close(zip);
    if (r == 0)
        close(fd);
}

static void test_writer(void) {
    struct err err = {0};
    autobuf out = buf_max(1 << 20);
    int fd;
    struct zip_writer *writer = zip_writer_new(put, &out);
    zip_writer_entry(writer, &(struct zip_entry){.path = "s", .dir = true}, &err);
    zip_writer_entry(writer, &(struct zip_entry){.path = "s/run", .executable = true, .size = 4}, &err);
    int r = zip_writer_data(writer, "#!/b", 4, &err);
    ok_about(r == 0 && zip_writer_data(writer, "x", 1, &err) == -ERR_IO, "more than an entry's size is not taken",
             err.text);
    r = zip_writer_end(writer, &err);
    zip_writer_free(writer);
    struct zip *zip = r == 0 ? written(&out, &fd, &limits, &err) : NULL;
    ok_about(zip && zip_count(zip) == 2 && zip_entry(zip, 1)->executable && !zip_entry(zip, 0)->executable,
             "whether a file can be executed is kept", err.text);
    zip_close(zip);
    close(fd);
    buf_clear(&out);
    writer = zip_writer_new(put, &out);
    r = zip_writer_entry(writer, &(struct zip_entry){.path = "s/short", .size = 4}, &err);
    r = r ? r : zip_writer_data(writer, "abc", 3, &err);
    ok_about(r == 0 && zip_writer_end(writer, &err) == -ERR_IO && strstr(err.text, "s/short"),
             "less than an entry's size is no archive", err.text);
    zip_writer_free(writer);
}

/* The whole size is judged by what an archive says before anything is unpacked. */
static void test_limits(const char *top) {
    struct zip_limits small = limits;
    struct zip *zip = NULL;
    struct err err = {0};
    int fd = open_row(top, "good", "plain");
    off_t size = lseek(fd, 0, SEEK_END);
    small.bytes = (uint64_t)size;
    ok_about(zip_open(fd, &small, &zip, &err) == 0, "an archive just as large as allowed is taken", err.text);
    zip_close(zip);
    small.bytes--;
    ok_about(zip_open(fd, &small, &zip, &err) == -ERR_TOO_LARGE, "one byte more is not", err.text);
    small = limits;
    small.entries = 4;
    ok_about(zip_open(fd, &small, &zip, &err) == 0 && zip_count(zip) == 4, "as many entries as allowed are taken",
             err.text);
    zip_close(zip);
    small.entries = 3;
    ok_about(zip_open(fd, &small, &zip, &err) == -ERR_TOO_LARGE, "one more is not, though its directory has no entry",
             err.text);
    small = limits;
    small.unpacked_bytes = 1;
    ok_about(zip_open(fd, &small, &zip, &err) == -ERR_TOO_LARGE && strstr(err.text, "ok/a/b.txt"),
             "one byte unpacked too much names the entry", err.text);
    close(fd);
}

int main(void) {
    char top[] = "/tmp/zip_test.XXXXXX";
    if (!mkdtemp(top) || !run((char *[]){"python3", "test/lib/zips.py", top, NULL})) {
        printf("Bail out! test/lib/zips.py failed\n");
        return 1;
    }
    each_row(top, "bad.tsv", check_bad);
    each_row(top, "good.tsv", check_good);
    test_tar(top);
    test_limits(top);
    test_writer();
    test_many();
    run((char *[]){"rm", "-rf", top, NULL});
    return tap_end();
}
