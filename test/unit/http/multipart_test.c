/* Forms with a file: what is read does not depend on where the body is cut; malformed and oversized ones are refused; a real
 * request through the server. */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/counted.h"
#include "http_lab.h"
#include "http/multipart.h"

static int seen_part(void *user, const struct multipart_part *part, struct err *err) {
    (void)err;
    buf_printf(user, "[%s|%s|%s]", part->name, part->file_name ? part->file_name : "-", part->type ? part->type : "-");
    return 0;
}

static int seen_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    (void)err;
    buf_put(user, data, len);
    return 0;
}

/* What comes of a body fed in pieces of step bytes: parts and contents, or the refusal. */
static int read_body(const char *type, const char *body, size_t len, size_t step, struct buf *out, struct err *err) {
    struct multipart_sink sink = {.part = seen_part, .data = seen_data, .user = out};
    struct multipart *multipart = NULL;
    int r = multipart_new(type, &sink, &multipart, err);
    for (size_t at = 0; r == 0 && at < len; at += step)
        r = multipart_feed(multipart, body + at, len - at < step ? len - at : step, err);
    r = r < 0 ? r : multipart_end(multipart, err);
    multipart_free(multipart);
    return r;
}

static const char type_b[] = "multipart/form-data; boundary=b";

static const struct {
    const char *name, *type, *body, *want; /* want NULL: refused */
} rows[] = {
    {"one field", type_b, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", "[a|-|-]1"},
    {"no line end behind the last boundary", type_b, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--",
     "[a|-|-]1"},
    {"a file with its type", type_b,
     "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"x.zip\"\r\nContent-Type: application/zip\r\n\r\n"
     "PK\r\n--b--",
     "[file|x.zip|application/zip]PK"},
    {"two parts", type_b,
     "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; "
     "name=\"c\"\r\n\r\n2\r\n--b--",
     "[a|-|-]1[c|-|-]2"},
    {"empty content", type_b, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b--", "[a|-|-]"},
    {"content that nearly is a boundary", type_b,
     "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n\r\r\n-\r\n--\r\n-b--b\r\r\n--b--",
     "[a|-|-]\r\n\r\r\n-\r\n--\r\n-b--b\r"},
    {"text before and behind", type_b,
     "hello\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b-- \r\ngood bye", "[a|-|-]1"},
    {"blanks behind a boundary", type_b, "--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--",
     "[a|-|-]1"},
    {"a quoted boundary and other parameters", "Multipart/Form-Data; charset=utf-8; BOUNDARY=\"a b:c\"",
     "--a b:c\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--a b:c--", "[a|-|-]1"},
    {"an escaped quote and a path of the client's", type_b,
     "--b\r\nContent-Disposition: form-data; name=a; filename=\"C:\\tmp\\a\\\"b\\\\c.zip\"\r\n\r\n\r\n--b--",
     "[a|C:\\tmp\\a\"b\\c.zip|-]"},
    {"a file name in UTF-8", type_b,
     "--b\r\nContent-Disposition: form-data; name=a; filename=\"天气.zip\"\r\n\r\n\r\n--b--", "[a|天气.zip|-]"},
    {"the extended file name counts", type_b,
     "--b\r\nContent-Disposition: form-data; name=a; filename=x; filename*=UTF-8''%e5%a4%A9.zip\r\n\r\n\r\n--b--",
     "[a|天.zip|-]"},
    {"other headers and a plain encoding", type_b,
     "--b\r\nContent-Length: 7\r\nContent-Transfer-Encoding: binary\r\nContent-Disposition: form-data; "
     "name=a;\r\n\r\n1\r\n--b--",
     "[a|-|-]1"},
    {"no parts", type_b, "--b--\r\n", ""},
    {"not multipart", "application/json", "{}", NULL},
    {"no type", NULL, "", NULL},
    {"another multipart", "multipart/mixed; boundary=b", "--b--", NULL},
    {"a type that only begins so", "multipart/form-dataX; boundary=b", "--b--", NULL},
    {"no boundary", "multipart/form-data", "--b--", NULL},
    {"an empty boundary", "multipart/form-data; boundary=\"\"", "----", NULL},
    {"two boundaries", "multipart/form-data; boundary=b; boundary=c", "--b--", NULL},
    {"a boundary with a line end", "multipart/form-data; boundary=\"a\\\r\nb\"", "--b--", NULL},
    {"a boundary of 71 bytes",
     "multipart/form-data; boundary=aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhh", "",
     NULL},
    {"an unfinished quote", "multipart/form-data; boundary=\"b", "--b--", NULL},
    {"nothing", type_b, "", NULL},
    {"no last boundary", type_b, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b\r\n", NULL},
    {"cut in a head", type_b, "--b\r\nContent-Disposition: form-data; na", NULL},
    {"cut in content", type_b, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1", NULL},
    {"a boundary that goes on", type_b, "--bc\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--", NULL},
    {"one dash behind the boundary", type_b, "--b-\r\n", NULL},
    {"no name", type_b, "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", NULL},
    {"no head", type_b, "--b\r\n\r\n1\r\n--b--", NULL},
    {"two names", type_b, "--b\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n1\r\n--b--", NULL},
    {"two dispositions", type_b,
     "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n1\r\n--b--", NULL},
    {"an attachment", type_b, "--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--", NULL},
    {"base64", type_b,
     "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nMQ==\r\n--b--", NULL},
    {"a folded header", type_b, "--b\r\nContent-Disposition: form-data;\r\n name=a\r\n\r\n1\r\n--b--", NULL},
    {"a bare line feed", type_b, "--b\r\nContent-Disposition: form-data; name=a\nX: y\r\n\r\n1\r\n--b--", NULL},
    {"a name that is not UTF-8", type_b, "--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n1\r\n--b--",
     NULL},
    {"a hidden NUL", type_b, "--b\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''a%00b\r\n\r\n1\r\n--b--",
     NULL},
    {"a hidden line end", type_b,
     "--b\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''a%0ab\r\n\r\n1\r\n--b--", NULL},
    {"an unknown encoding of a name", type_b,
     "--b\r\nContent-Disposition: form-data; name=a; filename*=GBK''a\r\n\r\n1\r\n--b--", NULL},
};

static void test_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].body);
        bool good = true;
        for (size_t step = 1; step <= len + 1 && good; step++) { /* however it is cut */
            autobuf out;
            struct err err = {0};
            buf_init(&out, 1 << 20);
            int r = read_body(rows[i].type, rows[i].body, len, step, &out, &err);
            const char *got = buf_cstr(&out);
            good = rows[i].want ? r == 0 && strcmp(got, rows[i].want) == 0 : r == -ERR_INVALID && err.text[0];
            if (!good)
                printf("# pieces of %zu: %d %s, %s\n", step, r, err.text, got);
        }
        ok(good, rows[i].name);
    }
}

/* Each is a little beyond a limit. */
static void test_limits(void) {
    autobuf body, out;
    struct err err;
    buf_init(&body, 1 << 20);
    buf_init(&out, 1 << 20);
    for (int i = 0; i < 65; i++)
        buf_printf(&body, "--b\r\nContent-Disposition: form-data; name=n%d\r\n\r\n1\r\n", i);
    buf_puts(&body, "--b--");
    ok(read_body(type_b, (char *)body.data, body.len, 1000, &out, &err) == -ERR_TOO_LARGE, "more than 64 parts");
    buf_clear(&body);
    buf_puts(&body, "--b\r\nContent-Disposition: form-data; name=a; filename=\"");
    for (int i = 0; i < 8192; i++)
        buf_byte(&body, 'x');
    buf_puts(&body, "\"\r\n\r\n1\r\n--b--");
    ok(read_body(type_b, (char *)body.data, body.len, 1000, &out, &err) == -ERR_TOO_LARGE, "a head of 8 KiB");
    buf_clear(&body);
    for (int i = 0; i < 9000; i++)
        buf_byte(&body, 'x');
    ok(read_body(type_b, (char *)body.data, body.len, 1000, &out, &err) == -ERR_INVALID, "9000 bytes before it");
    buf_clear(&body);
    buf_puts(&body, "--b--\r\n");
    for (int i = 0; i < 9000; i++)
        buf_byte(&body, 'x');
    ok(read_body(type_b, (char *)body.data, body.len, 1000, &out, &err) == -ERR_INVALID, "9000 bytes behind it");
}

/* ---- through a server ---- */

enum { FILE_MAX = 300000 };

static void handle(struct http_request *request) {
    struct multipart_form form;
    struct err err = {0};
    char text[400];
    struct scratch file;
    scratch_begin(&file, memfd_create("file", MFD_CLOEXEC), "ann", FILE_MAX, "a test");
    int r = multipart_form(request, "file", &file, &form, &err);
    if (r < 0) {
        scratch_done(&file);
        http_reply_error(request, &err);
        return;
    }
    size_t len = 0;
    const char *other = multipart_field(&form, "other", &len);
    snprintf(text, sizeof text, "%d %s %llu %lld %zu %s %zu", form.has_file, form.has_file ? form.file.file_name : "-",
             (unsigned long long)file.bytes, (long long)lseek(file.fd, 0, SEEK_END), form.field_count,
             other ? other : "-", len);
    scratch_done(&file);
    ok(!counted_of(COUNTED_SPOOL, "ann"), "nothing stays counted");
    http_reply(request, 200, "text/plain", text, strlen(text));
}

static const struct route routes[] = {{"POST", "/", handle, 0, "form", "", NULL}, {0}};

/* The answer to a form with a file of so many bytes; declared: with its length, else in chunks. */
static bool upload(struct lab *lab, size_t bytes, bool declared, const char *want) {
    autobuf body = buf_max(4 << 20);
    autobuf text = buf_max(4 << 20);
    buf_puts(&body, "--b\r\nContent-Disposition: form-data; name=other\r\n\r\nvalue\r\n--b\r\nContent-Disposition: "
                    "form-data; name=file; filename=f.zip\r\n\r\n");
    for (size_t i = 0; i < bytes; i++)
        buf_byte(&body, (uint8_t)(i * 31 >> 3));
    buf_puts(&body, "\r\n--b--\r\n");
    buf_printf(&text, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n", type_b);
    if (declared)
        buf_printf(&text, "Content-Length: %zu\r\n\r\n", body.len);
    else
        buf_printf(&text, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body.len);
    buf_put(&text, body.data, body.len);
    buf_puts(&text, declared ? "" : "\r\n0\r\n\r\n");
    int fd = lab_connect_to(http_server_address(lab->server));
    char answer[4096] = "";
    size_t len = 0;
    ssize_t n = 0;
    lab_send(fd, text.data, text.len); /* refused early, the rest may not be taken */
    while (n >= 0 && len < sizeof answer - 1 && (n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)n;
    close(fd);
    bool good = strstr(answer, want);
    if (!good)
        printf("# wanted %s in %s\n", want, answer);
    return good;
}

static void test_server(void) {
    struct lab lab;
    struct http_config config = {.routes = routes,
                                 .head_timeout_ms = 10000,
                                 .body_timeout_ms = 10000,
                                 .write_timeout_ms = 10000,
                                 .idle_timeout_ms = 10000,
                                 .max_connections = 100,
                                 .max_threads = 10};
    lab_start(&lab, "127.0.0.1:0", &config);
    ok(upload(&lab, 100, true, "1 f.zip 100 100 1 value 5"), "a file and a field");
    ok(upload(&lab, FILE_MAX, true, "1 f.zip 300000 300000 1 value 5"), "a file just as large as allowed");
    ok(upload(&lab, FILE_MAX, false, "1 f.zip 300000 300000 1 value 5"), "the same in chunks");
    ok(upload(&lab, FILE_MAX + 1, true, " 413 "), "one byte more");
    ok(upload(&lab, FILE_MAX + 1, false, " 413 "), "one byte more in chunks");
    lab_stop(&lab, 1000);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    test_rows();
    test_limits();
    test_server();
    return tap_end();
}
