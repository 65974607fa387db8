/* Servers in a box: HTTP and WebSocket by proxy, anything else as bytes over our own WebSocket. Called through
 * native_routes. */
#include "front/native/ticket.h"
#include "front/port_proxy.h"
#include "front/ws_pump.h"

static int ports_path(struct http_request *request, struct box *box, struct port_path *ret_path, struct err *err) {
    uint64_t number;
    const char *text = http_param(request, "port");
    if (!text_u64(text, 65535, &number) || number == 0)
        return err_set(err, ERR_INVALID, "'%.40s' is not a port: use a number from 1 to 65535", text);
    port_path_init(ret_path, box->id, (uint16_t)number);
    return 0;
}

/* If nothing listens or the connection broke, that is a gateway's failure. */
static int ports_result(int result, struct err *err) {
    return result == -ERR_NOT_FOUND || result == -ERR_IO ? port_proxy_fault(err) : result;
}

int native_port(struct http_request *request, struct box *box, struct err *err) {
    struct port_path path;
    const char *to = http_header(request, "sec-fetch-dest");
    if (http_header(request, "service-worker") || (to && !strcasecmp(to, "serviceworker")))
        return err_set(err, ERR_DENIED, /* it would outlive the sandbox of the page */
                       "a page from a box may not register a service worker here");
    TRY(ports_path(request, box, &path, err));
    port_proxy_audit(request, path.port, http_tail(request));
    return ports_result(port_proxy(request, box, &path, 0, err), err);
}

/* ---- any protocol: bytes in binary messages ---- */

static int ports_message(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err) {
    struct box_duplex *duplex = user;
    duplex->eof = duplex->eof || (kind == WS_TEXT && len == 3 && !memcmp(data, "eof", 3));
    duplex->moved_ms = clock_ms();
    return box_duplex_put(duplex, data, kind == WS_BINARY && !duplex->eof ? len : 0, err);
}

int native_forward(struct http_request *request, struct box *box, struct err *err) {
    static const struct ws_pump_hooks hooks = {.message = ports_message};
    struct ws_pump pump;
    struct port_path path;
    TRY(ports_path(request, box, &path, err));
    if (port_proxy_upgrade(request, PORT_BYTES)) {
        port_proxy_audit(request, path.port, "");
        return ports_result(port_proxy_bytes(request, box, &path, err), err);
    }
    if (!port_proxy_upgrade(request, "websocket")) {
        http_reply_header(request, "Location", arena_printf(http_arena(request), "%s/", path.prefix));
        return front_empty(request, 308);
    }
    port_proxy_audit(request, path.port, "");
    ticket_protocol(request);
    ws_pump_init(&pump, request, WS_PUMP_MESSAGE_BYTES, &hooks, &pump.duplex);
    int result = ports_result(box_connect(box, path.port, &pump.duplex, err), err) ?: ws_pump_accept(&pump, err) ?: ws_pump_run(&pump, err);
    return ws_pump_close(&pump, result, result < 0 ? "the server closed the connection" : "done");
}
