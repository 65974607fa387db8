/* The output of a command, kept until it has ended. Invariant: kept bytes count as held by its request. */
#include "front/collect.h"

#include "wire/proto.h"

void collect_init(struct collect *collect, struct http_request *request, size_t limit, struct err *err) {
    *collect = (struct collect){.request = request, .err = err};
    headtail_init(&collect->streams[0], limit);
    headtail_init(&collect->streams[1], limit);
}

void collect_done(struct collect *collect) {
    headtail_done(&collect->streams[0]);
    headtail_done(&collect->streams[1]);
}

/* Twice what is kept: buffers grow by doubling, and head and tail are joined at the end. */
int collect_bytes(struct headtail *bytes, struct http_request *request, const uint8_t *data, size_t len,
                  struct err *err) {
    size_t before = bytes->head.len + bytes->tail.len;
    headtail_put(bytes, data, len);
    return http_hold(request, 2 * (bytes->head.len + bytes->tail.len - before), err);
}

int collect_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct collect *collect = user;
    return collect_bytes(&collect->streams[stream == STREAM_STDERR], collect->request, data, len, collect->err);
}
