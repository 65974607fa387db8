/* Uploads taken apart. Called by files.c. The reader of multipart bodies pushes what it finds; here that is kept, one
 * piece of the body at a time, until the file it belongs to is read. Invariant: memory is one piece, whatever the body
 * holds or unpacks to. */
#include "front/e2b/upload.h"

#include "base/mem.h"
#include "http/gunzip.h"
#include "http/multipart.h"

enum { UPLOAD_PIECE_BYTES = 64 << 10, UPLOAD_PARTS = 10000 };

struct upload_part {
    struct upload_part *next;
    size_t at; /* in the piece: where its bytes begin */
    bool file;
    const char *name;
};

struct upload_body {
    struct http_request *request;
    struct gunzip *gunzip;             /* NULL: the body is sent as it is */
    struct multipart *multipart;       /* NULL: the body is one file */
    struct buf piece;                  /* content of parts, from the last bytes of the body that were read */
    size_t at;                         /* in it */
    struct upload_part *first, **last; /* that begin in the piece, or at its end, and were not asked for yet */
    bool asked, ended;
    uint64_t left, most;
    uint8_t *raw;
};

/* ---- the bytes of the body ---- */

static ssize_t upload_body_read(void *user, void *data, size_t size, struct err *err) {
    return http_body_read(user, data, size, err);
}

static ssize_t upload_raw(struct upload_body *body, void *data, size_t size, struct err *err) {
    ssize_t n =
        body->gunzip ? gunzip_read(body->gunzip, data, size, err) : http_body_read(body->request, data, size, err);
    if (n > 0 && (uint64_t)n > body->left)
        return err_set(err, ERR_TOO_LARGE, "the upload has more than %llu bytes", (unsigned long long)body->most);
    if (n > 0)
        body->left -= (uint64_t)n;
    return n;
}

/* ---- parts ---- */

/* Browsers and fetch escape only these three in a name, and nothing else that looks like an escape. */
static const char *upload_name(struct arena *arena, const char *sent) {
    char *name = sent ? arena_strdup(arena, sent) : NULL, *to = name;
    for (const char *from = name; from && *from; to++) {
        char byte = !strncasecmp(from, "%22", 3)   ? '"'
                    : !strncasecmp(from, "%0d", 3) ? '\r'
                    : !strncasecmp(from, "%0a", 3) ? '\n'
                                                   : 0;
        *to = byte ? byte : *from;
        from += byte ? 3 : 1;
    }
    if (name)
        *to = 0;
    return name;
}

static int upload_part(void *user, const struct multipart_part *part, struct err *err) {
    struct upload_body *body = user;
    struct arena *arena = http_arena(body->request);
    struct upload_part *next = arena_alloc(arena, sizeof *next);
    STEP(http_hold(body->request, sizeof *next + (part->file_name ? strlen(part->file_name) : 0), err));
    *next = (struct upload_part){
        .at = body->piece.len, .file = !strcmp(part->name, "file"), .name = upload_name(arena, part->file_name)};
    *body->last = next;
    body->last = &next->next;
    return 0;
}

static int upload_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct upload_body *body = user;
    buf_put(&body->piece, data, len);
    return body->piece.failed ? err_set(err, ERR_INTERNAL, "a piece of an upload is too large") : 0;
}

/* The next piece, once the one before is used up. 1: there is one, maybe without content; 0: the end. */
static int upload_fill(struct upload_body *body, struct err *err) {
    if (body->ended)
        return 0;
    buf_clear(&body->piece);
    body->at = 0;
    ssize_t n = upload_raw(body, body->raw, UPLOAD_PIECE_BYTES, err);
    if (n < 0)
        return (int)n;
    body->ended = n == 0;
    int failed = n ? multipart_feed(body->multipart, body->raw, (size_t)n, err) : multipart_end(body->multipart, err);
    return failed ?: n != 0;
}

static size_t upload_held(const struct upload_body *body) {
    return (body->first ? body->first->at : body->piece.len) - body->at;
}

ssize_t upload_read(void *user, void *data, size_t size, struct err *err) {
    struct upload_body *body = user;
    if (!body->multipart)
        return upload_raw(body, data, size, err);
    while (!upload_held(body)) {
        int r = body->first ? 0 : upload_fill(body, err);
        if (r <= 0)
            return r;
    }
    size_t held = upload_held(body), n = held < size ? held : size;
    memcpy(data, body->piece.data + body->at, n);
    body->at += n;
    return (ssize_t)n;
}

int64_t upload_size(const struct upload_body *body) {
    return body->multipart || body->gunzip ? -1 : http_body_length(body->request);
}

int upload_next(struct upload_body *body, const char **ret_name, struct err *err) {
    *ret_name = NULL;
    if (!body->multipart) {
        bool first = !body->asked;
        body->asked = true;
        return first;
    }
    for (;;) {
        body->at += upload_held(body);
        struct upload_part *part = body->first;
        if (!part) {
            int r = upload_fill(body, err);
            if (r <= 0)
                return r;
            continue;
        }
        body->first = part->next;
        if (!body->first)
            body->last = &body->first;
        *ret_name = part->name;
        if (part->file)
            return 1;
    }
}

/* ---- open and close ---- */

static bool upload_is(const char *type, const char *media) {
    size_t len = strlen(media);
    return type && !strncasecmp(type, media, len) && (!type[len] || strchr("; \t", type[len]));
}

int upload_open(struct http_request *request, uint64_t most, struct upload_body **ret_body, struct err *err) {
    const char *type = http_header(request, "content-type"), *coding = http_header(request, "content-encoding");
    bool packed = coding && !strcasecmp(coding, "gzip"), form = upload_is(type, "multipart/form-data");
    if (coding && *coding && !packed && strcasecmp(coding, "identity") != 0)
        return err_set(err, ERR_INVALID, "unsupported Content-Encoding '%.40s': send gzip or identity", coding);
    if (!form && !upload_is(type, "application/octet-stream"))
        return err_set(err, ERR_INVALID,
                       "unsupported Content-Type '%.100s': send multipart/form-data or application/octet-stream",
                       type ? type : "");
    struct upload_body *body = xcalloc(1, sizeof *body);
    body->request = request;
    body->left = body->most = most;
    body->last = &body->first;
    buf_init(&body->piece, 2 * UPLOAD_PIECE_BYTES);
    body->gunzip = packed ? gunzip_new(upload_body_read, request) : NULL;
    const struct multipart_sink sink = {.part = upload_part, .data = upload_data, .user = body, .parts = UPLOAD_PARTS};
    int failed = form ? multipart_new(type, &sink, &body->multipart, err) : 0;
    if (failed) {
        upload_close(body);
        return failed;
    }
    body->raw = form ? xmalloc(UPLOAD_PIECE_BYTES) : NULL;
    *ret_body = body;
    return 0;
}

void upload_close(struct upload_body *body) {
    if (!body)
        return;
    if (body->multipart)
        multipart_free(body->multipart);
    gunzip_free(body->gunzip);
    buf_done(&body->piece);
    free(body->raw);
    free(body);
}
