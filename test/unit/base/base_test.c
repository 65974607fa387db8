/* The ground everything stands on: buffers with a maximum, bounded views, text, JSON, paths below a root, descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tree/removal.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/counted.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/sync.h"
#include "base/text.h"
#include "base/url.h"
#include "tap.h"

static void test_buf(void) {
    autobuf buf = buf_max(10);
    buf_puts(&buf, "0123456789");
    ok(buf.len == 10 && !buf.failed, "a buffer takes its maximum");
    buf_byte(&buf, 'x');
    ok_all("one byte more fails and keeps the rest", buf.failed, buf.len == 10,
           memcmp(buf.data, "0123456789", 10) == 0);
    buf_clear(&buf);
    buf_puts(&buf, "abc");
    buf_put(&buf, "12345678", 8);
    buf_puts(&buf, "d");
    ok(buf.failed && buf.len == 3, "after a failure nothing is added, so that no gap can appear");
    buf_clear(&buf);
    ok(buf_reserve(&buf, SIZE_MAX) == NULL && buf.failed, "a size that would wrap is refused");
    buf_clear(&buf);
    buf_puts(&buf, "abcdef");
    buf_consume(&buf, 2);
    ok(strcmp(buf_cstr(&buf), "cdef") == 0 && buf.len == 4, "consume drops the front");
    autobuf big = buf_max(100000);
    char *text = malloc(5001);
    memset(text, 'y', 5000);
    text[5000] = 0;
    buf_printf(&big, "<%s>", text);
    ok(big.len == 5002 && big.data[5001] == '>', "printf beyond its small buffer");
    free(text);
    uint8_t raw[] = {1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0};
    struct view view = view_of(raw, sizeof raw);
    ok_all("a view reads little endian", view_u8(&view) == 1, view_u16(&view) == 2, view_u32(&view) == 3,
           view_u64(&view) == 4, !view.bad);
    ok(view_u8(&view) == 0 && view.bad, "and turns bad past its end");
    view = view_of(raw, 4);
    ok_all("a bad view stays bad", !view_take(&view, 5), view.bad, view_u8(&view) == 0);
}

static bool decodes(const char *text, const char *expected) {
    autobuf out = buf_max(64);
    bool good = text_unbase64(&out, text, strlen(text));
    return expected ? good && out.len == strlen(expected) && (out.len == 0 || memcmp(out.data, expected, out.len) == 0)
                    : !good;
}

static void test_text(void) {
    static const char *const good[] = {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xc3",
                                      "\xe2\x82",
                                      "a\xff"};
    bool all = true;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        all &= text_utf8(good[i], strlen(good[i]));
    ok(all, "well-formed UTF-8");
    all = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        all &= !text_utf8(bad[i], strlen(bad[i]));
    ok(all, "overlong forms, surrogates, stray and missing bytes are not");
    ok_all("a text is cut between characters", text_cut("abc", 3, 3) == 3, text_cut("abc", 3, 2) == 2,
           text_cut("a\303\244b", 4, 2) == 1, text_cut("a\303\244b", 4, 3) == 3, text_cut("\303\244", 2, 0) == 0);
    uint64_t value = 7;
    ok(text_u64("18446744073709551615", UINT64_MAX, &value) && value == UINT64_MAX, "the largest number");
    value = 7;
    static const char *const numbers[] = {"", " 1", "1 ", "+1", "-1", "0x1", "18446744073709551616", "1e3", "101"};
    all = true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        all &= !text_u64(numbers[i], i == 8 ? 100 : UINT64_MAX, &value) && value == 7;
    ok(all, "what is not a decimal number below the maximum is refused and changes nothing");
    ok_all("base64", decodes("", ""), decodes("Zg==", "f"), decodes("Zm8=", "fo"), decodes("Zm9vYmFy", "foobar"));
    ok_all("base64 that is not strict is refused", decodes("Zg", NULL), decodes("Zg=", NULL), decodes("Z===", NULL),
           decodes("Zg==Zg==", NULL), decodes("Zm9v\n", NULL), decodes("Zm9-", NULL), decodes("=", NULL));
    autobuf out = buf_max(64);
    text_base64(&out, "\xff\xfe\xfd\xfc", 4);
    ok(out.len == 8 && memcmp(out.data, "//79/A==", 8) == 0, "bytes to base64");
    text_base64_url(&out, "\xff\xfe\xfd\xfc", 4);
    ok(out.len == 14 && memcmp(out.data + 8, "__79_A", 6) == 0, "bytes to base64 for URLs");
    static const char *const same[] = {"//79/A==", "//79/A", "__79_A==", "__79_A"};
    static const char *const odd[] = {"//79/", "-", "A*==", "Zg==="};
    all = true;
    for (size_t i = 0; i < 4; i++) {
        autobuf bytes = buf_max(64), none = buf_max(64);
        all &= text_unbase64_any(&bytes, same[i], strlen(same[i])) && bytes.len == 4 && bytes.data[3] == 0xfc;
        all &= !text_unbase64_any(&none, odd[i], strlen(odd[i]));
    }
    ok(all, "base64 of either alphabet, padded or not");
    ok(text_id("0123456789abcdef") && !text_id("0123456789ABCDEF") && !text_id("0123456789abcde") &&
           !text_id("0123456789abcdef0") && text_id("01234567") && !text_id("0123456") && !text_id("012345678") &&
           !text_id("") && !text_id("../../etc/passwd"),
       "the grammar of ids");
}

static bool decoded(const char *text, bool plus, const char *expected) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    ssize_t len = url_decode(copy, plus);
    return expected ? len == (ssize_t)strlen(expected) && strcmp(copy, expected) == 0 : len < 0;
}

static void test_url(void) {
    autoarena arena = ARENA_EMPTY;
    autobuf out = buf_max(100);
    url_put(&out, "a b/ü%\n\"&+\0z", 13, URL_PATH);
    ok(strcmp(buf_cstr(&out), "a%20b/%C3%BC%25%0A%22%26%2B%00z") == 0, "bytes to percent escapes");
    ok(strcmp(url_encode(&arena, "a/b?c=%~", URL_VALUE), "a%2Fb%3Fc%3D%25~") == 0 && !*url_encode(&arena, "", ""),
       "a slash is escaped in a value");
    ok_all("and back", decoded("a%20b%2f%2F+", false, "a b//+"), decoded("+%2B", true, " +"), decoded("", false, ""));
    ok_all("an escape that is not one is refused", decoded("%", false, NULL), decoded("%4", false, NULL),
           decoded("%4g", false, NULL), decoded("a%-1", false, NULL));
}

static void test_json(void) {
    autobuf out = buf_max(4096);
    struct json json;
    json_init(&json, &out);
    json_open(&json, '{');
    json_key(&json, "a");
    json_str(&json, "\"\\\n\x01\x7f\xc3\xa9");
    json_key(&json, "b");
    json_open(&json, '[');
    json_int(&json, INT64_MIN);
    json_uint(&json, UINT64_MAX);
    json_bool(&json, true);
    json_nil(&json);
    json_double(&json, 1.5);
    json_close(&json, ']');
    json_key(&json, "c");
    json_strn(&json, "x\xffy", 3);
    json_key(&json, "d");
    json_bytes(&json, "\xff", 1, false);
    json_key(&json, "e");
    json_str(&json, NULL);
    json_close(&json, '}');
    const char *expected =
        "{\"a\":\"\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\",\"b\":[-9223372036854775808,18446744073709551615,"
        "true,null,1.500],\"c\":\"x\xef\xbf\xbdy\",\"d\":\"/w==\",\"e\":null}";
    ok(strcmp(buf_cstr(&out), expected) == 0, "commas, escapes, base64 and repair");
    if (strcmp((char *)out.data, expected) != 0)
        printf("# %s\n# %s\n", (char *)out.data, expected);
}

/* As a reader would write it: byte by byte. */
static size_t escape_slowly(const char *text, size_t len, char *out) {
    char *to = out;
    *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c && strchr("\"\\\b\f\n\r\t", c))
            to += snprintf(to, 8, "\\%c", c == '"' || c == '\\' ? c : "btn?fr"[c - 8]);
        else if (c < 32 || c == 127)
            to += snprintf(to, 8, "\\u%04x", c);
        else
            *to++ = (char)c;
    }
    *to++ = '"';
    return (size_t)(to - out);
}

static bool escapes_alike(const char *text, size_t len, size_t more) {
    char *want = malloc(6 * len + 16);
    size_t want_len = escape_slowly(text, len, want);
    struct json json;
    autobuf out = buf_max(want_len + more);
    json_init(&json, &out);
    json_strn(&json, text, len);
    bool alike = !out.failed && out.len == want_len && memcmp(out.data, want, want_len) == 0;
    autobuf tight = buf_max(want_len - 1);
    json_init(&json, &tight);
    json_strn(&json, text, len);
    alike = alike && tight.failed && tight.len <= tight.max;
    free(want);
    return alike;
}

static void test_json_escapes(void) {
    char text[4000];
    unsigned wrong = 0;
    for (int byte = 0; byte < 128; byte++)
        for (size_t len = 1; len < 20; len++)
            for (size_t at = 0; at < len; at++) {
                memset(text, 'a', len);
                text[at] = (char)byte;
                text[(at * 7 + 3) % len] = (char)(byte ^ 0x5d);
                wrong += !escapes_alike(text, len, at % 2 ? 0 : 20000);
            }
    ok(wrong == 0, "every byte at every place of a word is escaped as it should be, also in a buffer that just fits");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 3 ? 1 : 'x');
    ok(escapes_alike(text, sizeof text, 0) && escapes_alike(text, sizeof text, 100000), "so are long texts of escapes");
}

static int try_open(int root, const char *path) {
    struct err err;
    autofd fd = -1;
    return path_open_file(root, "", path, O_RDONLY, 0, &fd, &err);
}

static bool reads(int root, const char *path, const char *expected) {
    struct err err;
    autofd fd = -1;
    char text[64] = "";
    return path_open_file(root, "", path, O_RDONLY, 0, &fd, &err) == 0 && read(fd, text, sizeof text - 1) >= 0 &&
           strcmp(text, expected) == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void make_file(int dir, const char *name, const char *text) {
    autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0, name);
}

/* path_walk must end where the kernel's own resolution ends, with the same errno where there is nothing. */
static void test_path_walk(int root) {
    static const char *const paths[] = {"file",
                                        "/file",
                                        "//etc/../file",
                                        "../../file",
                                        "/..",
                                        ".",
                                        "/",
                                        "etc/",
                                        "etc/.",
                                        "etc/..",
                                        "file/",
                                        "file/x",
                                        "absolute",
                                        "absolute/",
                                        "up",
                                        "loop",
                                        "loop/x",
                                        "magic",
                                        "fifo",
                                        "sock",
                                        "none",
                                        "none/x",
                                        "etc/none",
                                        "dir",
                                        "dir/",
                                        "dir/passwd",
                                        "dir/../file",
                                        "dir/../../file",
                                        "chain",
                                        "chain/passwd",
                                        "dangling",
                                        "dangling/",
                                        ""};
    static const int flags[] = {O_RDONLY | O_NONBLOCK,
                                O_PATH,
                                O_PATH | O_NOFOLLOW,
                                O_RDONLY | O_DIRECTORY,
                                O_PATH | O_DIRECTORY | O_NOFOLLOW,
                                O_WRONLY | O_NONBLOCK | O_APPEND};
    must(symlinkat("etc", root, "dir") == 0 && symlinkat("../dir/.", root, "chain") == 0 &&
             symlinkat("etc/nothing", root, "dangling") == 0,
         "symlink");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        bool same = true;
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
            autofd a = path_open(root, paths[i], flags[k], 0), b = path_walk(root, paths[i], flags[k] | O_CLOEXEC, 0);
            struct stat one = {0}, two = {0};
            bool fits =
                a < 0 ? a == b : b >= 0 && fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_ino == two.st_ino;
            if (!fits)
                printf("# '%s' flags %o: %d and %d\n", paths[i], (unsigned)flags[k], a, b);
            same &= fits;
        }
        ok(same, paths[i]);
    }
    autofd made = path_walk(root, "dangling", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ok(made >= 0 && faccessat(root, "etc/nothing", F_OK, 0) == 0, "a walk makes a file where a link points");
    autofd slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ok(path_walk(slash, "/proc/self/root/etc/passwd", O_RDONLY | O_CLOEXEC, 0) == -ELOOP &&
           path_walk(slash, "/proc/self/fd/0", O_RDONLY | O_CLOEXEC, 0) == -ELOOP,
       "a walk takes no magic link");
    unlinkat(root, "etc/nothing", 0);
}

static void test_path(void) {
    char base[] = "/tmp/base-test-XXXXXX";
    must(mkdtemp(base) != NULL, "mkdtemp");
    autofd outside = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(outside, "root", 0755) == 0 && mkdirat(outside, "root/etc", 0755) == 0, "mkdir");
    make_file(outside, "secret", "secret");
    make_file(outside, "root/file", "file");
    make_file(outside, "root/etc/passwd", "inside");
    autofd root = openat(outside, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(symlinkat("/etc/passwd", root, "absolute") == 0 && symlinkat("../../../../secret", root, "up") == 0 &&
             symlinkat("loop", root, "loop") == 0 && symlinkat("/proc/self/root/etc/passwd", root, "magic") == 0,
         "symlink");
    must(mkfifoat(root, "fifo", 0644) == 0, "mkfifo");
    autofd sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/root/sock", base);
    must(bind(sock, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    ok_all("plain paths", reads(root, "file", "file"), reads(root, "/file", "file"),
           reads(root, "//etc/../file", "file"));
    ok(reads(root, "../../../../file", "file") && reads(root, "/../file", "file"), ".. stops at the root");
    ok(reads(root, "absolute", "inside"), "an absolute link is resolved inside");
    ok(try_open(root, "up") == -ERR_NOT_FOUND, "a link that climbs out ends inside");
    ok(try_open(root, "loop") == -ERR_INVALID, "a loop is INVALID");
    ok(try_open(root, "magic") == -ERR_NOT_FOUND, "a link through /proc resolves inside, where it is not");
    uint64_t start = clock_ms();
    ok_all("a FIFO, a socket and a directory are INVALID at once", try_open(root, "fifo") == -ERR_INVALID,
           try_open(root, "sock") == -ERR_INVALID, try_open(root, "etc") == -ERR_INVALID, clock_ms() - start < 15000);
    autofd slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ok(try_open(slash, "/dev/zero") == -ERR_INVALID && try_open(slash, "/proc/self/status") == -ERR_INVALID,
       "devices and procfs are INVALID");
    ok_all("magic links are refused", try_open(slash, "/proc/self/root/etc/passwd") < 0,
           try_open(slash, "/proc/self/fd/0") < 0, try_open(slash, "/proc/self/cwd/x") < 0);
    struct err err;
    char long_path[LIMIT_PATH_BYTES + 2], name[256];
    memset(long_path, 'a', sizeof long_path);
    ok_all("empty, NUL and too long", path_check("", 0, &err) == -ERR_INVALID,
           path_check("a\0b", 3, &err) == -ERR_INVALID,
           path_check(long_path, LIMIT_PATH_BYTES + 1, &err) == -ERR_INVALID, path_check("x", 1, &err) == 0);
    static const char *const no_name[] = {"/", "", ".", "..", "a/..", "a/.", "///"};
    bool all = true;
    for (size_t i = 0; i < sizeof no_name / sizeof *no_name; i++) {
        int dir;
        all &= path_open_parent(root, "", no_name[i], &dir, name, &err) == -ERR_INVALID;
    }
    ok(all, "a path without a last name has no parent");
    autofd parent = -1;
    ok(path_open_parent(root, "", "etc/new/", &parent, name, &err) == 0 && strcmp(name, "new") == 0, "parent and name");
    test_path_walk(root);
    char out[16];
    ok_all("joining", path_join(out, sizeof out, "/w", "x"), strcmp(out, "/w/x") == 0,
           path_join(out, sizeof out, "/w", "/x"), strcmp(out, "/x") == 0,
           !path_join(out, sizeof out, "/workspace", "too-long"));
    fd_close(&root);
    ok(removal_tree(AT_FDCWD, base) == 0 && access(base, F_OK) < 0, "removal of the tree");
}

static void test_removal(void) {
    char base[] = "/tmp/base-test-XXXXXX";
    must(mkdtemp(base) != NULL, "mkdtemp");
    autofd top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(top, "tree", 0700) == 0, "mkdir");
    int at = openat(top, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) { /* deeper than any path name reaches */
        must(mkdirat(at, "d", 0700) == 0, "mkdir");
        must(mkdirat(at, ".gone-1", 0500) == 0, "mkdir"); /* a name that removal itself would use */
        must(symlinkat(base, at, "link") == 0, "symlink");
        int next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    make_file(top, "keep", "k");
    ok(removal_tree(top, "tree") == 0 && faccessat(top, "tree", F_OK, 0) < 0, "a tree 3000 deep goes");
    ok(faccessat(top, "keep", F_OK, 0) == 0, "and what its links pointed to stays");
    ok(removal_tree(top, "tree") == 0, "what is not there is removed already");
    must(mkdirat(top, "tree", 0700) == 0, "mkdir");
    autofd tree = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 2000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        make_file(tree, name, "x");
    }
    struct rusage before, after;
    atomic_bool hurry = false;
    must(getrusage(RUSAGE_THREAD, &before) == 0, "getrusage");
    background_hold(clock_us());
    ok(removal_tree_gently(top, "tree", &hurry) == 0 && faccessat(top, "tree", F_OK, 0) < 0,
       "gently goes all as well, beside a request that does not end");
    background_let_go();
    must(getrusage(RUSAGE_THREAD, &after) == 0, "getrusage");
    ok(after.ru_nvcsw > before.ru_nvcsw, "with pauses");
    removal_tree(AT_FDCWD, base);
}

static void test_background(void) {
    ok(background_yield(1000), "background work goes on while there is no request");
    background_hold(clock_us());
    uint64_t begin_us = clock_us();
    ok(!background_yield(10) && clock_us() - begin_us >= 10000, "beside a request it waits as long as it is told to");
    ok(background_yield(60000), "and a request that takes long does not hold it");
    background_hold(clock_us());
    ok(!background_yield(1), "until there is the next one");
    background_let_go();
    background_let_go();
    ok(background_yield(1000), "whose end lets it go on");
}

static void test_fd(void) {
    char base[] = "/tmp/base-test-XXXXXX";
    must(mkdtemp(base) != NULL, "mkdtemp");
    autofd dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    make_file(dir, "f", "12345");
    char text[6];
    ok(fd_read_file(dir, "f", text, 6) == 5 && strcmp(text, "12345") == 0, "a small file that fits with its NUL");
    ok(fd_read_file(dir, "f", text, 5) == -EFBIG, "one that does not is EFBIG");
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    int pass;
    ok_all("a descriptor passes, close-on-exec", fd_send(pair[0], "x", 1, dir, 0) == 1,
           fd_recv(pair[1], text, 6, &pass, 0) == 1, pass >= 0, (fcntl(pass, F_GETFD) & FD_CLOEXEC));
    fd_close(&pass);
    int two[2] = {dir, dir};
    union {
        char space[CMSG_SPACE(sizeof two)];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &(struct iovec){.iov_base = text, .iov_len = 1},
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    *CMSG_FIRSTHDR(&message) =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof two), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), two, sizeof two);
    ok_all("several at once are refused, and closed", sendmsg(pair[0], &message, 0) == 1,
           fd_recv(pair[1], text, 6, &pass, 0) == -EBADMSG, pass == -1);
    close(pair[0]);
    ok(fd_recv(pair[1], text, 6, &pass, 0) == 0 && pass == -1, "then the end");
    close(pair[1]);
    removal_tree(AT_FDCWD, base);
}

static void test_err(void) {
    struct err err;
    ok_all("a failure with its sentence and context",
           err_set(&err, ERR_NOT_FOUND, "no file '%s'", "x") == -ERR_NOT_FOUND, strcmp(err.text, "no file 'x'") == 0,
           err_wrap(&err, "box %d", 7) == -ERR_NOT_FOUND, strcmp(err.text, "box 7: no file 'x'") == 0);
    ok(err_errno(&err, ENOSPC, "writing") == -ERR_FULL && strstr(err.text, "No space"), "an errno says itself");
    ok_all("codes, names, statuses", err_http_status(ERR_NOT_FOUND) == 404, err_http_status(12345) == 500,
           err_from_wire(4) == ERR_NOT_FOUND, err_from_wire(99) == ERR_PROTOCOL,
           strcmp(err_name(ERR_GONE), "GONE") == 0);
}

static void test_arena(void) {
    autoarena arena = ARENA_EMPTY;
    bool good = true;
    for (size_t i = 1; i < 3000; i += 7) {
        char *p = arena_alloc(&arena, i);
        good &= ((uintptr_t)p & 15) == 0 && p[0] == 0 && p[i - 1] == 0;
        memset(p, 0xff, i);
    }
    ok(good, "arena memory is aligned, zero and its own");
    ok(strcmp(arena_printf(&arena, "%d-%s", 5, "x"), "5-x") == 0 && strcmp(arena_copy(&arena, "abc", 2), "ab") == 0,
       "text in an arena");
}

/* One user takes until there is no more; others then still get some, however many they are. */
static void test_counted(void) {
    struct err err = {0};
    counted_limit(COUNTED_WATCHERS, 64, 64);
    uint64_t held = 0, least = 64;
    while (counted_take(COUNTED_WATCHERS, "mallory", 1, &err) == 0)
        held++;
    ok(held == 32 && strstr(err.text, "would leave too few for others"), "half of all for one user");
    uint64_t got[3] = {0};
    for (int i = 0; i < 3; i++) {
        while (counted_take(COUNTED_WATCHERS, (char[]){(char)('a' + i), 0}, 1, &err) == 0)
            got[i]++;
        least = got[i] < least ? got[i] : least;
    }
    ok(got[0] == 16 && least >= 4, "whoever comes later gets some");
    counted_limit(COUNTED_WATCHERS, 64, 5);
    ok(counted_take(COUNTED_WATCHERS, "d", 6, &err) == -ERR_LIMIT && strstr(err.text, "limit of a user, 5"),
       "a limit of each user");
    ok(counted_take(COUNTED_WATCHERS, "d", UINT64_MAX, &err) == -ERR_LIMIT, "no number overflows");
    ok(counted_take(COUNTED_WATCHERS, "d", 0, &err) == 0, "nothing is always free");
    counted_give(COUNTED_WATCHERS, "mallory", held);
    for (int i = 0; i < 3; i++)
        counted_give(COUNTED_WATCHERS, (char[]){(char)('a' + i), 0}, got[i]);
    ok(counted_of(COUNTED_WATCHERS, "mallory") == 0 && counted_take(COUNTED_WATCHERS, "mallory", 5, &err) == 0,
       "what is given back is free again");
    ok(counted_wait(COUNTED_WATCHERS, "mallory", 1, 10, -1, &err) == -ERR_LIMIT, "waiting ends");
    counted_give(COUNTED_WATCHERS, "mallory", 5);
}

int main(void) {
    test_counted();
    test_buf();
    test_text();
    test_url();
    test_json();
    test_json_escapes();
    test_path();
    test_removal();
    test_background();
    test_fd();
    test_err();
    test_arena();
    return tap_end();
}
