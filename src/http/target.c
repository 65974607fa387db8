/* The request target: origin-form or absolute-form, strict percent-decoding in place, query parameters.
 *
 * Called by head.c. Invariant: what leaves here has no encoded slash, NUL, "." or ".." in its path, so that no later
 * layer can see another path than the router did. Only what "{x...}" takes stays as it was sent: it is somebody else's
 * path, and nobody here reads it. */
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "http/internal.h"

static char *target_absolute(struct http_request *request, char *target, struct err *err);
static int target_path(struct http_request *request, char *path, struct err *err);
static int target_query(struct http_request *request, char *query, struct err *err);

int head_target(struct http_request *request, char *target, struct err *err) {
    if (strcmp(target, "*") == 0 && strcmp(request->method, "OPTIONS") == 0) {
        request->path = target;
        return 0;
    }
    if (strchr(target, '#')) {
        err_set(err, ERR_INVALID, "a fragment ('#') has no place in a request");
        return 400;
    }
    if (target[0] != '/') {
        target = target_absolute(request, target, err);
        if (!target)
            return 400;
    }
    size_t before = request->server ? route_tail(request->server->tree, target) : 0;
    if (before) {
        request->tail = arena_strdup(&request->arena, target + before);
        target[before] = 0;
    }
    char *query = strchr(target, '?');
    if (query)
        *query++ = 0;
    int status = target_path(request, target, err);
    if (status)
        return status;
    return query ? target_query(request, query, err) : 0;
}

/* "http://host/path": its host counts, not the header's (RFC 9112 3.2.2). Returns the path, NULL when malformed. */
static char *target_absolute(struct http_request *request, char *target, struct err *err) {
    static char root[] = "/";
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    char *host = target + scheme;
    size_t len = strcspn(host, "/?");
    if (!scheme || !len || memchr(host, '@', len)) {
        err_set(err, ERR_INVALID, "the request target is neither a path nor an http address");
        return NULL;
    }
    request->host = arena_copy(&request->arena, host, len);
    char *path = host + len;
    if (*path == '/')
        return path;
    /* "http://host?query" has an empty path; the byte before it is the host's, already copied. */
    if (*path == '?') {
        path[-1] = '/';
        return path - 1;
    }
    return arena_strdup(&request->arena, root);
}

static bool dot_segment(const char *path) {
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t len = strcspn(p, "/");
        if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return true;
    }
    return false;
}

static int target_path(struct http_request *request, char *path, struct err *err) {
    size_t slashes = 0, after = 0;
    for (const char *p = path; *p; p++)
        slashes += *p == '/';
    ssize_t len = url_decode(path, false);
    const char *fault = len < 0 ? "has a bad percent escape" : NULL;
    if (!fault && memchr(path, 0, (size_t)len))
        fault = "has an encoded NUL";
    for (ssize_t i = 0; !fault && i < len; i++)
        after += path[i] == '/';
    if (!fault && after != slashes)
        fault = "has an encoded slash";
    if (!fault) /* a refusal of dots has the shape of the dialect whose path it is */
        request->path = path;
    if (!fault && dot_segment(path))
        fault = "has a segment '.' or '..'";
    if (!fault)
        return 0;
    err_set(err, ERR_INVALID, "the request path %s", fault);
    return 400;
}

static int target_query(struct http_request *request, char *query, struct err *err) {
    char *rest = query;
    for (char *piece; (piece = strsep(&rest, "&"));) {
        if (!*piece)
            continue;
        char *value = strchr(piece, '=');
        if (value)
            *value++ = 0;
        ssize_t name_len = url_decode(piece, true);
        ssize_t len = value ? url_decode(value, true) : 0;
        if (name_len < 0 || len < 0 || memchr(piece, 0, (size_t)name_len)) {
            err_set(err, ERR_INVALID, "the query has a bad percent escape");
            return 400;
        }
        for (size_t i = 0; i < request->query_count; i++) {
            if (strcmp(request->queries[i].name, piece) == 0) {
                err_set(err, ERR_INVALID, "query parameter '%.100s' is given twice", piece);
                return 400;
            }
        }
        if (request->query_count == HTTP_QUERIES) {
            err_set(err, ERR_INVALID, "more than %d query parameters", HTTP_QUERIES);
            return 400;
        }
        request->queries[request->query_count++] = (struct query){piece, value ? value : "", (size_t)len};
    }
    return 0;
}
