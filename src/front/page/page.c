/* The page at /ui: its files come out of this program, packed by tools/web. Called through page_routes.
 *
 * The files are one blob: a text index of lines "NAME OFFSET PACKED_BYTES BYTES", an empty line, then the files; offsets
 * count from there. index.html is plain; every other file is packed by gzip, and its name holds a hash of its content.
 * A first line "fallback REASON" says that the page could not be built.
 *
 * Invariants:
 * - Only index.html is served under other names than its own, and with a nonce that no other answer has.
 * - Nothing here depends on the sender: the page is public, what it asks for is not. */
#include "front/page/page.h"

#include <zlib.h>

/* WEB_BLOB: from the Makefile */
extern const char page_blob[], page_blob_end[];
__asm__(".section .rodata\n"
        ".global page_blob\n.type page_blob, @object\n"
        "page_blob:\n.incbin \"" WEB_BLOB "\"\n"
        ".global page_blob_end\npage_blob_end:\n.byte 0\n"
        ".size page_blob, . - page_blob\n"
        ".previous\n");

enum { PAGE_FILES = 200, PAGE_NAME_BYTES = 64, NONCE_BYTES = 16, HTML_MAX = 64 << 10 };

struct page_file {
    char name[PAGE_NAME_BYTES];
    size_t offset, packed, bytes;
};

static struct {
    struct page_file files[PAGE_FILES];
    size_t count;
    const char *data; /* where offsets begin */
    char fallback[120];
} page;

/* The index was written by tools/web in the same build; a bad one is a bug there. */
static int page_open(const char *, void **, struct err *err) {
    const char *at = page_blob;
    page.count = 0;
    if (sscanf(at, "fallback %119[^\n]", page.fallback) == 1)
        at = strchr(at, '\n') + 1;
    for (; *at && *at != '\n'; at = strchr(at, '\n') + 1) {
        struct page_file *file = &page.files[page.count];
        if (page.count == PAGE_FILES ||
            sscanf(at, "%63s %zu %zu %zu", file->name, &file->offset, &file->packed, &file->bytes) != 4)
            return err_set(err, ERR_INTERNAL, "the page's index is damaged; build again");
        page.count++;
    }
    page.data = at + 1;
    return 0;
}

static const struct page_file *page_find(const char *name, size_t len) {
    for (size_t i = 0; i < page.count; i++)
        if (strlen(page.files[i].name) == len && memcmp(page.files[i].name, name, len) == 0)
            return &page.files[i];
    return NULL;
}

static bool page_off(const struct http_request *request) {
    const struct page_settings *settings = front_own(request, &page_dialect);
    return settings && settings->off;
}

static int page_missing(struct http_request *request, struct err *err) {
    http_reply_header(request, "Cache-Control", "no-store");
    return err_set(err, ERR_NOT_FOUND, "no such file of the page: reload it, the daemon was updated");
}

static const char *page_type(const char *name) {
    static const char *const types[][2] = {{".js", "text/javascript; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".svg", "image/svg+xml"},
                                           {".txt", "text/plain; charset=utf-8"}};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
        if (strcmp(end, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

/* For a client that does not know gzip. */
static int page_unpacked(struct http_request *request, const struct page_file *file, struct err *err) {
    uint8_t *out = arena_alloc(http_arena(request), file->bytes + 1);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)(page.data + file->offset),
                       .avail_in = (uInt)file->packed,
                       .next_out = out,
                       .avail_out = (uInt)file->bytes + 1};
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
        return err_set(err, ERR_INTERNAL, "cannot unpack a file of the page");
    int end = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (end != Z_STREAM_END || stream.total_out != file->bytes)
        return err_set(err, ERR_INTERNAL, "a file of the page is damaged; build again");
    return http_reply(request, 200, page_type(file->name), out, file->bytes);
}

static int page_asset(struct http_request *request, const char *name, struct err *err) {
    size_t len = strcspn(name, "?");
    const struct page_file *file = page_find(name, len);
    if (!file || strcmp(file->name, "index.html") == 0)
        return page_missing(request, err);
    const char *accepts = http_header(request, "accept-encoding");
    bool hashed = strchr(file->name, '.') != strrchr(file->name, '.');
    http_reply_header(request, "Cache-Control", hashed ? "public, max-age=31536000, immutable" : "no-cache");
    http_reply_header(request, "Vary", "Accept-Encoding");
    http_reply_header(request, "X-Content-Type-Options", "nosniff");
    http_reply_header(request, "Cross-Origin-Resource-Policy", "same-origin");
    if (!accepts || !strstr(accepts, "gzip"))
        return page_unpacked(request, file, err);
    http_reply_header(request, "Content-Encoding", "gzip");
    return http_reply(request, 200, page_type(file->name), page.data + file->offset, file->packed);
}

/* Frames may come from this origin and from hosts of boxes: PORT-ID.localhost on any port, PORT-ID.DOMAIN. */
static void page_policy(struct http_request *request, const char *nonce) {
    const struct page_settings *settings = front_own(request, &page_dialect);
    const char *domain = settings ? settings->preview_domain : NULL, *port = domain && strchr(domain, ':') ? "" : ":*";
    const char *frames =
        domain ? arena_printf(http_arena(request), " http://*.%s%s https://*.%s%s", domain, port, domain, port) : "";
    const char *policy = arena_printf(
        http_arena(request),
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' blob: data:; "
        "font-src 'self'; connect-src 'self'; media-src blob:; "
        "frame-src 'self' blob: http://*.localhost:* https://*.localhost:*%s; worker-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
        "trusted-types cubby; require-trusted-types-for 'script'",
        nonce, frames);
    http_reply_header(request, "Content-Security-Policy", policy);
    http_reply_header(request, "X-Content-Type-Options", "nosniff");
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    http_reply_header(request, "Cross-Origin-Opener-Policy", "same-origin");
    http_reply_header(request, "Cross-Origin-Resource-Policy", "same-origin");
    http_reply_header(request, "Permissions-Policy", "camera=(), microphone=(), geolocation=()");
    http_reply_header(request, "Cache-Control", "no-store");
}

static int page_html(struct http_request *request, struct err *err) {
    static const char mark[] = "@NONCE@";
    const struct page_file *file = page_find("index.html", sizeof "index.html" - 1);
    uint8_t random[NONCE_BYTES];
    char nonce[2 * NONCE_BYTES + 1];
    if (!file)
        return err_set(err, ERR_INTERNAL, "this daemon was built without its page; build again");
    xrandom(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    page_policy(request, nonce);
    autobuf out = buf_max(HTML_MAX);
    const char *at = page.data + file->offset, *end = at + file->bytes;
    for (const char *next; (next = memmem(at, (size_t)(end - at), mark, sizeof mark - 1));
         at = next + sizeof mark - 1) {
        buf_put(&out, at, (size_t)(next - at));
        buf_puts(&out, nonce);
    }
    buf_put(&out, at, (size_t)(end - at));
    return http_reply(request, 200, "text/html; charset=utf-8", out.data, out.len);
}

static int page_get(struct http_request *request, struct box *, struct err *err) {
    const char *path = http_tail(request);
    if (page_off(request))
        return err_set(err, ERR_NOT_FOUND, "the page is turned off on this daemon (option page)");
    return path && strncmp(path, "/a/", 3) == 0 ? page_asset(request, path + 3, err) : page_html(request, err);
}

static int page_home(struct http_request *request, struct box *box, struct err *err) {
    if (page_off(request))
        return page_get(request, box, err);
    http_reply_header(request, "Location", "/ui/boxes");
    http_reply_header(request, "Cache-Control", "no-store");
    return http_reply(request, 302, "text/plain; charset=utf-8", "/ui/boxes\n", sizeof "/ui/boxes\n" - 1);
}

/* A browser at / gets the page; other clients get the text that is there. */
static const char *page_locate(struct http_request *request, const void *own, const char *target) {
    const struct page_settings *settings = own;
    const char *accepts = http_header(request, "accept");
    bool browser = strcmp(target, "/") == 0 && accepts && strstr(accepts, "text/html");
    return browser && !(settings && settings->off) ? "/ui" : NULL;
}

static void page_check(const struct http_request *request, struct check *ret_check) {
    bool off = page_off(request);
    *ret_check = (struct check){.name = "page", .ok = !page.fallback[0] || off};
    snprintf(ret_check->detail, sizeof ret_check->detail, "%s",
             off                ? "turned off (option page)"
             : page.fallback[0] ? page.fallback
                                : "at /ui");
    if (!ret_check->ok)
        snprintf(ret_check->fix, sizeof ret_check->fix, "make web, where npm can reach its registry, then make");
}

static const struct route page_routes[] = {
    {"GET", "/ui", front_handle, ROUTE_QUICK, "page_home", "To the page, at /ui/boxes.",
     ENDPOINT(.run = page_home, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET | ENDPOINT_LENIENT, .status = 302,
              .answer_media = "text/plain")},
    {"GET", "/ui/{path...}", front_handle, ROUTE_QUICK, "page", "The page for browsers, and its files below /ui/a/.",
     ENDPOINT(.run = page_get, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET | ENDPOINT_LENIENT, .status = 200,
              .answer_media = "text/html")},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static const struct route *const page_tables[] = {page_routes, NULL};
const struct dialect page_dialect = {
    .name = "page", .routes = page_tables, .open = page_open, .locate = page_locate, .check = page_check};
