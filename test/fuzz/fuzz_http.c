/* Fuzzes everything between the socket and a handler: byte check, llhttp, framing, target, query, router, chunks.
 * Beyond crashes it checks what the rest relies on: cuts do not matter, accepted heads are clean. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void handle(struct http_request *request) {
    (void)request;
}

static const struct route routes[] = {
    {"GET", "/", handle, 0, "root", "", NULL},
    {"GET", "/v1/boxes/{id}", handle, 0, "box", "", NULL},
    {"POST", "/v1/boxes/{id}/exec", handle, 0, "exec", "", NULL},
    {"GET", "/v1/boxes/info", handle, 0, "info", "", NULL},
    {"GET", "/v1/{user}/{a}/{b}", handle, 0, "deep", "", NULL},
    {"PUT", "/v1/boxes/{id}/files", handle, 0, "files", "", NULL},
    {"ANY", "/v1/boxes/{id}/ports/{port}/{path...}", handle, 0, "port", "", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static struct route_node *tree;
static struct http_server server;

static void check_target(struct http_request *request) {
    const char *path = request->path;
    assert(path[0] == '/' || strcmp(path, "*") == 0);
    assert(!strstr(path, "/../") && !strstr(path, "/./"));
    for (size_t i = 0; i < request->query_count; i++) {
        assert(memchr(request->queries[i].value, 0, request->queries[i].len + 1));
        for (size_t k = 0; k < i; k++)
            assert(strcmp(request->queries[i].name, request->queries[k].name) != 0);
    }
    struct route_found found;
    route_find(tree, request->method, path, request->tail, &found);
    assert(!request->tail || (request->tail[0] == '/' && found.route && found.count == 2 && !request->query_count));
    for (const char *c = request->tail; c && *c; c++)
        assert(*c > 0x20 && *c < 0x7f);
    for (size_t i = 0; i < found.count && found.route; i++)
        assert(found.params[i].len && !memchr(found.params[i].at, '/', found.params[i].len));
}

/* The decoder must give the same content whether it gets the bytes at once or one at a time. */
static void check_chunks(const char *data, size_t len) {
    struct chunk whole = {0}, single = {0};
    const char *content;
    size_t content_len, total = 0, total_single = 0, at = 0;
    bool bad = false, bad_single = false;
    while (at < len && !chunk_done(&whole) && !bad) {
        ssize_t used = chunk_take(&whole, data + at, len - at, &content, &content_len);
        bad = used < 0;
        assert(bad || used > 0);
        at += bad ? 0 : (size_t)used;
        total += content_len;
        assert(!content_len || (content >= data && content + content_len <= data + len));
    }
    for (size_t i = 0; i < len && !chunk_done(&single) && !bad_single; i++) {
        bad_single = chunk_take(&single, data + i, 1, &content, &content_len) < 0;
        total_single += content_len;
    }
    assert(bad == bad_single && total == total_single && chunk_done(&whole) == chunk_done(&single));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct http_request request;
    struct err err = {0};
    if (!tree && route_tree_new(routes, &tree, &err) < 0)
        abort();
    if (size > HTTP_SCRATCH_BYTES)
        return 0;
    struct head_scan scan = {0}, pieces = {0};
    int end = head_scan(&scan, (const char *)data, size), cut = 0;
    for (size_t n = 1; n <= size && cut == 0; n += 1 + n / 64)
        cut = head_scan(&pieces, (const char *)data, n);
    if (cut == 0)
        cut = head_scan(&pieces, (const char *)data, size);
    assert(end == cut);
    if (end <= 0) {
        check_chunks((const char *)data, size);
        return 0;
    }
    size_t len = (size_t)end - scan.start;
    char *head = malloc(len); /* of just that size: an over-read shows */
    memcpy(head, data + scan.start, len);
    memset(&request, 0, offsetof(struct http_request, headers));
    arena_init(&request.arena);
    request.method = request.path = "-";
    server.tree = tree;
    request.server = &server;
    int status = head_parse(&request, head, len, &err);
    assert(status == 0 || (status >= 400 && status <= 599 && err.text[0]));
    if (status == 0)
        check_target(&request);
    arena_done(&request.arena);
    free(head);
    check_chunks((const char *)data + end, size - (size_t)end);
    return 0;
}
