/* Previews with a host name: http://PORT-ID.localhost on this machine, PORT-ID.DOMAIN if preview_domain is set. Each
 * box and port is a separate origin, so its pages need no sandbox. Called through native_routes and by the server
 * before routing. Invariants: every path below such a host belongs to the box, none to the daemon; a ticket or cookie
 * opens only its own box and is compared in constant time; neither reaches the box; a page of another site cannot act
 * here. */
#include <openssl/crypto.h>
#include <strings.h>

#include "front/native/native.h"
#include "front/port_proxy.h"

#define PREVIEW_COOKIE "cubby-preview"
#define PREVIEW_TICKET "cubby_ticket="

enum {
    TICKET_MS = 60000,        /* life of a ticket */
    COOKIE_MS = 12 * 3600000, /* life of a cookie */
    PASS_BYTES = 96,          /* UNTIL-MS.64 HEX DIGITS */
};

/* ---- host names ---- */

/* Parses "PORT-ID" before ".DOMAIN[:PORT]". */
static bool preview_host(const char *host, const char *domain, char ret_id[17], unsigned *ret_port) {
    size_t len = strcspn(host, ":"), suffix = strcspn(domain, ":");
    if (!suffix || len < suffix + 2 || host[len - suffix - 1] != '.' ||
        strncasecmp(host + len - suffix, domain, suffix) != 0)
        return false;
    char number[8];
    uint64_t port;
    size_t digits = strspn(host, "0123456789"), name = len - suffix - 1;
    if (!digits || digits >= sizeof number || host[digits] != '-' || name - digits - 1 > 16)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)digits, host);
    snprintf(ret_id, 17, "%.*s", (int)(name - digits - 1), host + digits + 1);
    if (!text_id(ret_id) || !text_u64(number, 65535, &port) || !port)
        return false;
    *ret_port = (unsigned)port;
    return true;
}

const char *preview_locate(struct http_request *request, const void *own, const char *target) {
    const struct native_settings *settings = own;
    const char *host = http_host(request), *domain = settings ? settings->preview_domain : NULL;
    struct http_peer peer;
    char id[17];
    unsigned port;
    http_peer(request, &peer);
    bool local = peer.loopback || peer.unix_socket;
    if (!(local && preview_host(host, "localhost", id, &port)) && !(domain && preview_host(host, domain, id, &port)))
        return NULL;
    http_own_site(request);
    return arena_printf(http_arena(request), PREVIEW_PREFIX "%s/%u%s%s", id, port, *target == '/' ? "" : "/", target);
}

bool preview_is(const struct http_request *request) {
    return http_route(request) && !strncmp(http_route(request)->pattern, PREVIEW_PREFIX, strlen(PREVIEW_PREFIX));
}

/* ---- tickets and cookies ---- */

static void preview_pass(const struct native_state *state, const struct box *box, const char *kind, uint64_t until_ms,
                         char ret_text[PASS_BYTES]) {
    char text[128], digits[65];
    uint8_t digest[32];
    snprintf(text, sizeof text, "preview %s %s %llu %llu", kind, box->id, (unsigned long long)box->created_ms,
             (unsigned long long)until_ms);
    state_secret_derive(&state->secret, text, digest);
    text_hex(digits, digest, sizeof digest);
    snprintf(ret_text, PASS_BYTES, "%llu.%s", (unsigned long long)until_ms, digits);
}

static bool preview_fits(const struct native_state *state, const struct box *box, const char *kind, const char *text,
                         size_t len) {
    char number[24], made[PASS_BYTES];
    uint64_t until_ms;
    const char *dot = memchr(text, '.', len);
    if (!dot || (size_t)(dot - text) >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(dot - text), text);
    if (!text_u64(number, UINT64_MAX, &until_ms) || until_ms < clock_wall_ms())
        return false;
    preview_pass(state, box, kind, until_ms, made);
    return strlen(made) == len && CRYPTO_memcmp(made, text, len) == 0;
}

/* Finds the ticket in the query of a target. Returns where its parameter begins, or NULL. */
static const char *preview_ticket(const char *target, size_t *ret_len) {
    const char *at = strchr(target, '?');
    while (at && strncmp(at + 1, PREVIEW_TICKET, strlen(PREVIEW_TICKET)) != 0)
        at = strchr(at + 1, '&');
    if (at)
        *ret_len = strcspn(++at, "&");
    return at;
}

/* Checks all cookies: a page of another box may have set one of the same name for all hosts of the domain. */
static bool preview_cookie(struct http_request *request, const struct box *box) {
    const struct native_state *state = native_state(request);
    const char *name, *value;
    size_t own = strlen(PREVIEW_COOKIE);
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++)
        for (const char *at = strcmp(name, "cookie") == 0 ? value : ""; *at; at += strcspn(at, ";")) {
            at += strspn(at, "; \t");
            if (strncmp(at, PREVIEW_COOKIE "=", own + 1) == 0 &&
                preview_fits(state, box, "cookie", at + own + 1, strcspn(at + own + 1, "; \t")))
                return true;
        }
    return false;
}

/* ---- who asks ---- */

/* Following a link only shows a page to the person who follows it. Everything else must come from the preview's own
 * pages. */
static int preview_check_site(const struct http_request *request, struct err *err) {
    const char *origin = http_header(request, "origin"), *site = http_header(request, "sec-fetch-site");
    const char *mode = http_header(request, "sec-fetch-mode"), *host = origin ? strstr(origin, "://") : NULL;
    bool gets = !strcmp(http_method(request), "GET") || !strcmp(http_method(request), "HEAD");
    bool own_origin = host && !strcasecmp(host + 3, http_host(request));
    bool link = gets && mode && !strcasecmp(mode, "navigate");
    bool own_site = !site || !strcasecmp(site, "none") || !strcasecmp(site, "same-origin");
    if ((!origin || own_origin) && (own_site || link))
        return 0;
    return err_set(err, ERR_DENIED, "this request comes from another site (Origin: %.100s, Sec-Fetch-Site: %.40s)",
                   origin ? origin : "-", site ? site : "-");
}

/* Without a ticket or cookie: admits by a token of ours, or by where the request comes from. An Authorization that is
 * not a token of ours is for the server in the box. */
static int preview_admit_other(struct http_request *request, unsigned needs, const struct who **ret_who,
                               struct err *err) {
    struct auth *auth = front_of(request)->auth;
    int failed = auth_admit(auth, request, needs, ret_who, err);
    trail_of(request)->by_header = failed != -ERR_UNAUTHORIZED && http_header(request, "authorization");
    if (failed == -ERR_UNAUTHORIZED)
        failed = auth_admit_local(auth, request, needs, ret_who, err);
    if (failed == -ERR_UNAUTHORIZED)
        err_set(err, ERR_UNAUTHORIZED, "open this preview with the URL of a ticket: POST /v1/boxes/%s/tickets",
                http_param(request, "id"));
    return failed;
}

static int preview_admit_box(struct http_request *request, const struct box *box, unsigned needs,
                             const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    size_t len = 0, prefix = strlen(PREVIEW_TICKET);
    const char *ticket = preview_ticket(http_tail(request), &len);
    if (ticket && !preview_fits(native_state(request), box, "ticket", ticket + prefix, len - prefix))
        return err_set(err, ERR_UNAUTHORIZED, "this ticket is for another box or has expired; ask for another");
    if (!ticket && !preview_cookie(request, box))
        return preview_admit_other(request, needs, ret_who, err);
    memcpy(trail_of(request)->bound, box->id, sizeof trail_of(request)->bound);
    return auth_admit_user(auth, request, box->user, needs, ret_who, err);
}

int preview_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    STEP(preview_check_site(request, err));
    if (provider_look(provider, NULL, http_param(request, "id"), &box, err) < 0) /* answered like another user's box */
        return preview_admit_other(request, needs, ret_who, err);
    int failed = preview_admit_box(request, box, needs, ret_who, err);
    provider_look_end(provider, box);
    return failed;
}

/* ---- handlers ---- */

/* Turns the ticket into a cookie and removes it from the URL, which pages can read and people share. */
static int preview_enter(struct http_request *request, const struct box *box, const char *ticket, size_t len) {
    char pass[PASS_BYTES];
    const char *target = http_tail(request);
    struct arena *arena = http_arena(request);
    const char *after = ticket + len + (ticket[len] == '&');
    size_t before = (size_t)(ticket - target) - (*after == 0); /* including '?' or '&' unless nothing follows */
    preview_pass(native_state(request), box, "cookie", clock_wall_ms() + COOKIE_MS, pass);
    http_reply_header(request, "Set-Cookie",
                      arena_printf(arena, PREVIEW_COOKIE "=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax%s", pass,
                                   COOKIE_MS / 1000, http_is_tls(request) ? "; Secure" : ""));
    size_t slashes = strspn(target, "/\\"); /* "//x" would be another host */
    http_reply_header(request, "Location",
                      arena_printf(arena, "/%.*s%s", (int)(before - slashes), target + slashes, after));
    http_reply_header(request, "Cache-Control", "no-store");
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    return front_empty(request, 303);
}

int native_preview(struct http_request *request, struct box *box, struct err *err) {
    struct port_path path;
    uint64_t port;
    size_t len = 0;
    const char *ticket = preview_ticket(http_tail(request), &len);
    if (ticket)
        return preview_enter(request, box, ticket, len);
    if (!text_u64(http_param(request, "port"), 65535, &port) || !port)
        return err_set(err, ERR_INVALID, "a port must be a number from 1 to 65535");
    port_path_origin(&path, box->id, (uint16_t)port);
    path.own_cookie = PREVIEW_COOKIE;
    path.drops = trail_of(request)->by_header ? "authorization" : NULL;
    port_proxy_audit(request, path.port, http_tail(request));
    int result = port_proxy(request, box, &path, 0, err);
    return result == -ERR_NOT_FOUND || result == -ERR_IO ? port_proxy_fault(err) : result;
}

/* Makes "http://8000-ID.DOMAIN:7070" as this client can reach it. */
static int preview_url(struct http_request *request, const struct box *box, uint64_t port, const char **ret_url,
                       struct err *err) {
    const struct native_settings *settings = front_own(request, &native_dialect);
    const char *domain = settings ? settings->preview_domain : NULL, *host = http_host(request);
    const char *scheme = http_is_tls(request) ? "https" : "http", *colon = strrchr(host, ':');
    struct http_peer peer;
    http_peer(request, &peer);
    if (peer.unix_socket) {
        host = http_server_address(front_of(request)->server);
        colon = strncmp(host, "unix:", 5) == 0 ? NULL : strrchr(host, ':');
    }
    if (!domain && !peer.loopback && !(peer.unix_socket && colon))
        return err_set(err, ERR_UNSUPPORTED,
                       "previews with a host name of their own need the option preview_domain here; "
                       "use /v1/boxes/%s/ports/%llu/",
                       box->id, (unsigned long long)port);
    const char *suffix = domain && strchr(domain, ':') ? "" : colon && !strchr(colon, ']') ? colon : "";
    *ret_url = arena_printf(http_arena(request), "%s://%llu-%s.%s%s", scheme, (unsigned long long)port, box->id,
                            domain ? domain : "localhost", suffix);
    return 0;
}

int native_ticket(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *url = NULL;
    char pass[PASS_BYTES];
    STEP(front_body(request, &args, err) ?: preview_url(request, box, args.port.value, &url, err));
    uint64_t until_ms = clock_wall_ms() + TICKET_MS;
    preview_pass(native_state(request), box, "ticket", until_ms, pass);
    const struct ticket_out out = {pass, arena_printf(http_arena(request), "%s/?" PREVIEW_TICKET "%s", url, pass), url,
                                   until_ms};
    return answer_rows(request, 201, ticket_answer, &out, err);
}
