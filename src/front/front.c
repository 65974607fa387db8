/* Prologue and end of every handler, for all doors. Called by the HTTP server through the route table.
 * Not to break: whoever may not see a box gets the very answer of a box that does not exist. */
#include "front/front.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"

struct front *front_of(const struct http_request *request) {
    return http_context(request);
}

const struct who *front_who(const struct http_request *request) {
    return http_user_data(request);
}

int front_admit(struct http_request *request, struct err *err) {
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route ? route->extra : NULL;
    if (!endpoint)
        return 0;
    if (!(endpoint->flags & ENDPOINT_OPEN)) {
        int failed = auth_admit(front_of(request)->auth, request, endpoint->flags & ENDPOINT_WRITES, err);
        if (failed)
            return failed;
    }
    const char *name;
    for (size_t i = 0; (name = http_query_name(request, i)); i++)
        if (!body_find(endpoint->query, name, strlen(name)))
            return body_unknown(endpoint->query, "query parameter", name, err);
    return 0;
}

void front_handle(struct http_request *request) {
    struct front *front = front_of(request);
    const struct endpoint *endpoint = http_route(request)->extra;
    const struct who *who = front_who(request);
    const char *id = endpoint->flags & ENDPOINT_NO_BOX ? NULL : http_param(request, "id");
    bool look = endpoint->flags & ENDPOINT_LOOK;
    struct err err = {0};
    struct box *box = NULL;
    int result = 0;
    if (id)
        result = (look ? provider_look : provider_get)(front->provider, who->user, id, &box, &err);
    if (result >= 0)
        result = endpoint->run(request, box, &err);
    if (box)
        (look ? provider_look_end : provider_put)(front->provider, box);
    metrics_call(front->metrics, http_route(request), result < 0 ? -result : result);
    if (result >= 0)
        return;
    if (http_replied(request))
        http_reply_abort(request);
    else
        http_reply_error(request, &err);
}

void front_finished(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us) {
    const struct route *route = http_route(request);
    const struct who *who = front_who(request);
    metrics_request(front_of(request)->metrics, route, status, us);
    log_info("%s %s %s %d in=%" PRIu64 " out=%" PRIu64 " us=%" PRIu64 " user=%s route=%s", http_request_id(request),
             http_method(request), http_path(request), status, bytes_in, bytes_out, us,
             who && who->user ? who->user : "-", route ? route->name : "-");
}

static const char *front_get(void *user, const char *name, size_t *ret_len) {
    return http_query(user, name, ret_len);
}

int front_query(struct http_request *request, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    return body_query(endpoint->query, front_get, request, http_arena(request), ret_args, err);
}

int front_body(struct http_request *request, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    char *data;
    size_t len;
    int failed = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err);
    if (failed < 0)
        return failed;
    return body_parse(data, len, endpoint->body, http_arena(request), ret_args, err);
}

int front_empty(struct http_request *request, int status) {
    return http_reply(request, status, NULL, NULL, 0);
}
