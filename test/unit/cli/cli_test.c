/* The command line's own parts: names made safe, tables, event streams, and trees out of hostile archives. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "cli/rest/event.h"
#include "tap.h"
#include "tree/removal.h"

static void shown_is(const char *text, size_t len, const char *expected, const char *name) {
    autobuf out = buf_max(1024);
    text_shown(&out, text, len);
    const char *got = buf_cstr(&out);
    ok(got && strcmp(got, expected) == 0, name);
    if (!got || strcmp(got, expected) != 0)
        printf("# got: %s\n", got ? got : "(none)");
}

static void test_shown(void) {
    shown_is("plain é 漢", strlen("plain é 漢"), "plain é 漢", "text is shown as it is");
    shown_is("\x1b]0;x\x07", 6, "\\x1b]0;x\\x07", "terminal sequences are escaped");
    shown_is("a\nb\tc\r\0d", 8, "a\\nb\\tc\\r\\x00d", "line breaks and NUL are escaped");
    shown_is("\xc2\x9b"
             "31m",
             5, "\\u009b31m", "8-bit controls are escaped");
    shown_is("\xe2\x80\xaetxt", 6, "\\u202etxt", "direction overrides are escaped");
    shown_is("\xff\xc3", 2, "\\xff\\xc3", "bytes that are not UTF-8 are escaped");
}

static void test_table(void) {
    autoarena arena = ARENA_EMPTY;
    struct table table = {.arena = &arena, .columns = 2};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    table_cell(&table, "A");
    table_cell(&table, "NAME");
    table_cell(&table, "éé");
    table_cell(&table, "x\ny");
    table_cell(&table, NULL);
    table_cell(&table, "z");
    table_print(&table, out);
    fclose(out);
    ok(strcmp(text, "A   NAME\néé  x\\ny\n-   z\n") == 0, "columns line up by characters, a row is a line");
    free(text);
    ok_all("sizes for people", strcmp(table_size(&arena, 1023), "1023") == 0,
           strcmp(table_size(&arena, 4096), "4.0K") == 0, strcmp(table_size(&arena, 1u << 30), "1.0G") == 0);
}

/* ---- events ---- */

static char events[4096];

static int note_event(void *user, const char *name, const char *data, size_t len) {
    (void)user;
    size_t at = strlen(events);
    snprintf(events + at, sizeof events - at, "%s=%.*s;", name, (int)len, data);
    return 0;
}

static void test_events(void) {
    static const char stream[] =
        ": hello\n\nevent: started\ndata: {\"pid\":7}\n\nevent:stdout\r\ndata:a\r\ndata: b\r\n\r\n";
    bool same = true;
    for (size_t piece = 1; piece < sizeof stream; piece++) {
        struct event_reader reader;
        events[0] = 0;
        event_init(&reader, note_event, NULL);
        for (size_t at = 0; at < sizeof stream - 1; at += piece)
            event_feed(&reader, stream + at, sizeof stream - 1 - at < piece ? sizeof stream - 1 - at : piece);
        event_done(&reader);
        same = same && strcmp(events, "started={\"pid\":7};stdout=a\nb;") == 0;
    }
    ok(same, "an event stream means the same wherever it is cut");
    struct event_reader reader;
    int code = 0;
    char *line = malloc(1 << 20);
    memset(line, 'x', 1 << 20);
    event_init(&reader, note_event, NULL);
    for (int i = 0; i < 64 && code == 0; i++)
        code = event_feed(&reader, line, 1 << 20);
    ok(code < 0, "a line without an end is given up");
    event_done(&reader);
    free(line);
}

static void data_is(const char *json, bool taken, const char *expected, size_t len, const char *name) {
    autobuf out = buf_max(1024);
    bool got = event_data(json, strlen(json), &out);
    ok(got == taken && (!taken || (out.len == len && (len == 0 || memcmp(out.data, expected, len) == 0))), name);
}

static void test_data(void) {
    data_is("{\"data\":\"plain é\",\"encoding\":\"utf-8\"}", true, "plain é", 8, "output: text");
    data_is("{\"data\":\"a\\n\\\"\\\\\\u0000\\u001b\\/\",\"encoding\":\"utf-8\"}", true, "a\n\"\\\0\x1b/", 7,
            "output: escapes");
    data_is("{\"data\":\"/wA=\",\"encoding\":\"base64\"}", true, "\xff\0", 2, "output: base64");
    data_is("{\"data\":\"\",\"encoding\":\"utf-8\"}", true, "", 0, "output: nothing");
    data_is("{\"data\":\"\\u00e9\",\"encoding\":\"utf-8\"}", false, "", 0, "output: other escapes are the parser's");
    data_is("{\"data\":\"a\"b\",\"encoding\":\"utf-8\"}", false, "", 0, "output: a quote inside is the parser's");
    data_is("{\"data\":\"a\\\",\"encoding\":\"utf-8\"}", false, "", 0, "output: a cut escape is the parser's");
    data_is("{\"data\":\"ab\",\"encoding\":\"base64\"}", false, "", 0, "output: bad base64 is the parser's");
    data_is("{}", false, "", 0, "output: something else is the parser's");
}

/* ---- archives ---- */

/* One ustar member. */
static void member(int fd, const char *name, char type, unsigned mode, const char *target, const char *content) {
    char block[512] = {0}, data[512] = {0};
    size_t len = content ? strlen(content) : 0;
    snprintf(block, 100, "%s", name);
    snprintf(block + 100, 8, "%07o", mode);
    snprintf(block + 108, 8, "%07o", 0);
    snprintf(block + 116, 8, "%07o", 0);
    snprintf(block + 124, 12, "%011o", (unsigned)len & 0777777);
    snprintf(block + 136, 12, "%011o", 1);
    block[156] = type;
    snprintf(block + 157, 100, "%s", target ? target : "");
    memcpy(block + 257, "ustar\00000", 8);
    snprintf(block + 329, 8, "%07o", 1);
    snprintf(block + 337, 8, "%07o", 3);
    memset(block + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    fd_write_all(fd, block, 512);
    if (len) {
        memcpy(data, content, len);
        fd_write_all(fd, data, 512);
    }
}

static void hostile_members(int fd, const char *outside) {
    char absolute[200];
    snprintf(absolute, sizeof absolute, "%s/absolute", outside);
    member(fd, "./", '5', 0777, NULL, NULL);
    member(fd, "fine", '0', 0666, NULL, "fine");
    member(fd, "setuid", '0', 06755, NULL, "#!/bin/sh\n");
    member(fd, "fifo", '6', 0666, NULL, NULL);
    member(fd, "memory", '3', 0666, NULL, NULL); /* the device 1:3 */
    member(fd, "link", '2', 0777, outside, NULL);
    member(fd, "link/through", '0', 0666, NULL, "escaped");
    member(fd, absolute, '0', 0666, NULL, "escaped");
    member(fd, "../up", '0', 0666, NULL, "escaped");
    member(fd, "sub/../../up", '0', 0666, NULL, "escaped");
    member(fd, "up-link", '2', 0777, "..", NULL);
    member(fd, "up-link/up", '0', 0666, NULL, "escaped");
    char end[1024] = {0};
    fd_write_all(fd, end, sizeof end);
}

static bool is_there(const char *dir, const char *name, struct stat *status) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, status) == 0;
}

static void test_archive(void) {
    char base[] = "/tmp/cubby-archive-XXXXXX", inside[100], outside[100];
    struct archive archive;
    struct err err = {0};
    struct stat status;
    unsigned removed = 0;
    if (!mkdtemp(base))
        exit(1);
    snprintf(inside, sizeof inside, "%s/inside", base);
    snprintf(outside, sizeof outside, "%s/outside", base);
    mkdir(inside, 0700);
    mkdir(outside, 0700);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), real = fcntl(2, F_DUPFD_CLOEXEC, 10);
    dup2(null, 2); /* tar complains, as it should */
    ok(archive_unpack(inside, &archive, &err) == 0, "tar starts");
    hostile_members(archive.fd, outside);
    archive_end(&archive, &err);
    dup2(real, 2);
    ok(archive_clean(inside, &removed, &err) == 0, "what was unpacked is looked through");
    ok(is_there(inside, "fine", &status) && S_ISREG(status.st_mode), "files are there");
    ok(is_there(inside, "setuid", &status) && (status.st_mode & 06000) == 0, "without set-user-ID bits");
    ok_all("no FIFO, no device", !is_there(inside, "fifo", &status), !is_there(inside, "memory", &status),
           removed >= 1);
    ok(!is_there(outside, "through", &status), "nothing went through a link of the archive");
    ok(!is_there(outside, "absolute", &status), "nothing went to an absolute name");
    ok(!is_there(base, "up", &status), "nothing went up");
    removal_tree(AT_FDCWD, base);
    ok(!is_there(base, "", &status), "a tree is removed");
    close(null);
    close(real);
}

int main(void) {
    test_shown();
    test_table();
    test_events();
    test_data();
    test_archive();
    return tap_end();
}
