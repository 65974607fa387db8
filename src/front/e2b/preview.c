/* Servers in a sandbox, by their host name PORT-ID.DOMAIN or by the two headers. Called through e2b_preview_routes; who
 * may was judged by e2b_admit (traffic token), which also wakes the sandbox. Invariant: what proves something to this
 * daemon does not get into the sandbox. */
#include <jansson.h>

#include "front/e2b/e2b.h"
#include "front/e2b/record.h"
#include "front/port_proxy.h"
#include "base/text.h"

enum { PREVIEW_LATE_MS = 1000 }; /* servers come up late: a refused connection is tried again for so long */

/* Host for the server: as the client sent it, or maskRequestHost with ${PORT} replaced. */
static const char *preview_masked(struct http_request *request, const json_t *network, unsigned port) {
    const char *mask = json_string_value(json_object_get(network, "maskRequestHost"));
    const char *place = mask ? strstr(mask, "${PORT}") : NULL;
    if (!mask || !*mask || strlen(mask) > 300 || strpbrk(mask, " \r\n\t"))
        return http_host(request);
    if (!place)
        return arena_strdup(http_arena(request), mask);
    return arena_printf(http_arena(request), "%.*s%u%s", (int)(place - mask), mask, port, place + strlen("${PORT}"));
}

/* httpsPorts: the servers there speak TLS. */
static bool preview_tls(const json_t *network, unsigned port) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(network, "httpsPorts"), i, item) {
        if (json_integer_value(item) == (json_int_t)port)
            return true;
    }
    return false;
}

static int preview_path(struct http_request *request, const struct box *box, struct port_path *ret_path,
                        struct err *err) {
    struct e2b_record record;
    uint64_t port;
    bool held;
    if (!text_u64(http_param(request, "port"), 65535, &port) || !port)
        return err_set(err, ERR_INVALID, "a port is a number from 1 to 65535");
    STEP(e2b_record_read(request, box->id, &record, &held, err));
    json_t *network = record.network ? json_loads(record.network, 0, NULL) : NULL;
    port_path_origin(ret_path, box->id, (uint16_t)port);
    ret_path->host = preview_masked(request, network, (unsigned)port);
    ret_path->tls = preview_tls(network, (unsigned)port);
    ret_path->drops = "e2b-traffic-access-token|e2b-sandbox-id|e2b-sandbox-port|x-access-token";
    json_decref(network);
    return 0;
}

static int e2b_preview(struct http_request *request, struct box *box, struct err *err) {
    struct port_path path;
    int result = preview_path(request, box, &path, err);
    if (result < 0)
        return result;
    port_proxy_audit(request, path.port, http_tail(request));
    result = port_proxy(request, box, &path, PREVIEW_LATE_MS, err);
    return result == -ERR_NOT_FOUND && !http_replied(request) ? e2b_gone(request, box->id, path.port) : result;
}

const struct route e2b_preview_routes[] = {
    {"ANY", E2B_PORT, front_handle, ROUTE_EMBED, "e2b_preview",
     "E2B: a server in the sandbox, by the Host PORT-ID.DOMAIN or by the headers E2b-Sandbox-Id and E2b-Sandbox-Port.",
     ENDPOINT(.run = e2b_preview, .flags = ENDPOINT_WRITES | ENDPOINT_LENIENT, .body_media = "*/*", .status = 200,
              .answer_media = "*/*")},
    {0},
};
