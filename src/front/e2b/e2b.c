/* The core of the E2B dialect: where a request goes, who may, and how it is refused. Called by front.c around every
 * handler and by the server before routing. Invariants: an access token or a signature opens its own sandbox alone, and
 * both are compared in constant time; a caller who may not see a sandbox gets the same answer as for one that does not exist. */
#include "front/e2b/e2b.h"

#include <openssl/crypto.h>

#include "base/mem.h"
#include "base/text.h"
#include "box/secret/secret.h"
#include "front/e2b/history.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/secret.h"
#include "front/e2b/sign.h"
#include "front/trail.h"
#include "front/watcher.h"

#define E2B_PREFIX "/_e2b/"
#define E2B_ENVD_PORT 49983u
#define E2B_CODE_PORT 49999u
#define E2B_WAKE_MS 300000u /* at least so long runs a sandbox that was woken by use */
#define E2B_NO_TRAFFIC                                                                                                 \
    "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing"
#define E2B_NO_TOKEN "unauthorized access, please provide a valid access token or method signing if supported"

/* ---- kept state ---- */

static void e2b_close(void *state) {
    struct e2b *e2b = state;
    if (!e2b)
        return;
    watchers_free(e2b->watchers);
    plane_close(e2b->plane);
    state_secret_done(&e2b->secret);
    pthread_mutex_destroy(&e2b->lock);
    free(e2b);
}

static int e2b_open(const char *directory, void **ret_state, struct err *err) {
    struct e2b *e2b = xcalloc(1, sizeof *e2b);
    e2b->watchers = watchers_new();
    pthread_mutex_init(&e2b->lock, NULL);
    int failed = state_secret_open(directory, "e2b-key", &e2b->secret, err) ?: plane_open(directory, &e2b->plane, err);
    if (failed)
        e2b_close(e2b);
    else
        *ret_state = e2b;
    return failed;
}

static void e2b_start(struct front *front, void *state) {
    if (front->secrets)
        e2b_secrets_begin(secrets_state_dir(front->secrets), front->secrets);
    plane_start(((struct e2b *)state)->plane, front);
}

static void e2b_stop(void *state) {
    plane_stop(((struct e2b *)state)->plane);
}

struct e2b *e2b_state(const struct http_request *request) {
    return front_state(front_of(request), &e2b_dialect);
}

void e2b_derive(const struct e2b *e2b, char ret_token[E2B_TOKEN_BYTES], const char *format, ...) {
    char text[160];
    uint8_t digest[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    state_secret_derive(&e2b->secret, text, digest);
    text_hex(ret_token, digest, sizeof digest);
}

void e2b_token(const struct e2b *e2b, const struct box *box, bool traffic, char ret_token[E2B_TOKEN_BYTES]) {
    e2b_derive(e2b, ret_token, "%s %s %llu", traffic ? "traffic" : "envd", box->id,
               (unsigned long long)box->created_ms);
}

/* ---- where a request goes ---- */

static bool e2b_id_text(const char *id, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!((id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9')))
            return false;
    return len > 0 && len <= 32;
}

static const char *e2b_target(struct http_request *request, const char *id, size_t len, unsigned port,
                              const char *target) {
    struct arena *arena = http_arena(request);
    const char *slash = *target == '/' ? "" : "/";
    if (port == E2B_ENVD_PORT || port == E2B_CODE_PORT)
        return arena_printf(arena, E2B_PREFIX "%.*s/%u%s%s", (int)len, id, port, slash, target);
    return arena_printf(arena, E2B_PREFIX "%.*s/port/%u%s%s", (int)len, id, port, slash, target);
}

/* "PORT-ID.DOMAIN[:PORT]". False: the host is not a name below the domain. *ret_id NULL: it is, and names nothing. */
static bool e2b_host(const char *host, const char *domain, const char **ret_id, size_t *ret_len, unsigned *ret_port) {
    size_t len = strcspn(host, ":"), suffix = domain ? strcspn(domain, ":") : 0;
    *ret_id = NULL;
    if (!suffix || len <= suffix + 1 || host[len - suffix - 1] != '.' ||
        strncasecmp(host + len - suffix, domain, suffix) != 0)
        return false;
    size_t digits = strspn(host, "0123456789"), name = len - suffix - 1;
    char number[8];
    uint64_t port;
    if (!digits || digits >= sizeof number || host[digits] != '-' || digits + 1 >= name)
        return true;
    memcpy(number, host, digits);
    number[digits] = 0;
    if (!text_u64(number, 65535, &port) || !port || !e2b_id_text(host + digits + 1, name - digits - 1))
        return true;
    *ret_id = host + digits + 1;
    *ret_len = name - digits - 1;
    *ret_port = (unsigned)port;
    return true;
}

/* Requests of the SDKs name the sandbox in two headers; one alone is a mistake. */
static const char *e2b_by_headers(struct http_request *request, const char *target) {
    const char *id = http_header(request, "e2b-sandbox-id"), *port = http_header(request, "e2b-sandbox-port");
    uint64_t number;
    if (!id && !port)
        return NULL;
    if (!id || !port || !text_u64(port, 65535, &number) || !number)
        return E2B_PREFIX "-/bad";
    size_t len = strcspn(id, "-");
    return e2b_id_text(id, len) ? e2b_target(request, id, len, (unsigned)number, target) : E2B_PREFIX "-/bad";
}

static const char *e2b_locate(struct http_request *request, const void *own, const char *target) {
    const struct e2b_settings *settings = own;
    const char *id;
    size_t len;
    unsigned port;
    if (e2b_host(http_host(request), settings ? settings->domain : NULL, &id, &len, &port)) {
        if (id) {
            http_own_site(request);
            return e2b_target(request, id, len, port, target);
        }
        if (strncasecmp(http_host(request), "sandbox.", 8) != 0 && strncasecmp(http_host(request), "api.", 4) != 0)
            return E2B_PREFIX "-/bad";
    }
    const char *found = e2b_by_headers(request, target);
    if (found || strncmp(target, "/files?", 7) != 0)
        return found;
    id = e2b_sign_find(request, target);
    return id ? e2b_target(request, id, strlen(id), E2B_ENVD_PORT, target) : NULL;
}

/* It is about the inside of a sandbox. */
static bool e2b_is_data(const struct http_request *request) {
    return !strncmp(http_path(request), E2B_PREFIX, strlen(E2B_PREFIX));
}

const char *e2b_id(struct http_request *request) {
    const char *id = http_param(request, "id");
    return id ? arena_copy(http_arena(request), id, strcspn(id, "-")) : NULL;
}

/* ---- answers ---- */

int e2b_json(struct http_request *request, int status, struct buf *out, struct err *err) {
    if (out->failed)
        return err_set(err, ERR_TOO_LARGE, "the answer has more than %zu bytes", out->max);
    return http_reply(request, status, "application/json", out->data, out->len);
}

static void e2b_failure(struct buf *out, int status, const char *text) {
    struct json json = json_begin(out);
    json_put_int(&json, "code", status);
    json_put_str(&json, "message", text);
    json_close(&json, '}');
}

static void e2b_failure_gone(struct buf *out, const char *id, unsigned port) {
    struct json json = json_begin(out);
    json_put_str(&json, "sandboxId", id);
    json_put_str(&json, "message", port ? "The sandbox is running but port is not open" : "The sandbox was not found");
    if (port)
        json_put_uint(&json, "port", port);
    json_put_int(&json, "code", 502);
    json_close(&json, '}');
}

int e2b_fail(struct http_request *request, int status, int code, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    autobuf out = buf_max(8192);
    e2b_failure(&out, status, text);
    int failed = http_reply(request, status, "application/json", out.data, out.len);
    return failed < 0 ? failed : code;
}

/* Somebody looks at it in a browser; a page's own requests want JSON. */
static bool e2b_browses(const struct http_request *request) {
    const char *agent = http_header(request, "user-agent"), *dest = http_header(request, "sec-fetch-dest");
    return agent && strstr(agent, "Mozilla/") && (!dest || !strcmp(dest, "document") || !strcmp(dest, "iframe"));
}

int e2b_gone(struct http_request *request, const char *id, unsigned port) {
    autobuf out = buf_max(1024);
    bool page = port && e2b_browses(request);
    if (page)
        buf_printf(&out,
                   "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Closed Port Error</title>"
                   "</head><body><h1>Closed Port Error</h1><p>The sandbox %s is running but port is not open: nothing "
                   "listens on port %u. Start a server there and reload this page.</p></body></html>\n",
                   id, port);
    else
        e2b_failure_gone(&out, id, port);
    int failed = http_reply(request, 502, page ? "text/html; charset=utf-8" : "application/json; charset=utf-8",
                            out.data, out.len);
    return failed < 0 ? failed : ERR_GONE;
}

static int e2b_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    const char *id = http_route(request) ? e2b_id(request) : NULL;
    bool gone = http_why(request) == WHY_NO_BOX || !strcmp(code, "GONE") || !strcmp(code, "PAUSED");
    if (e2b_is_data(request) && id && gone) {
        e2b_failure_gone(out, id, 0);
        return 502;
    }
    if (e2b_is_data(request) && id && status == 403) {
        buf_printf(out, "{\"sandboxId\":\"%s\",\"message\":\"%s\",\"code\":403}", id, E2B_NO_TRAFFIC);
        return 403;
    }
    if (!http_route(request) && !strncmp(http_path(request), E2B_PREFIX "-/", strlen(E2B_PREFIX) + 2)) {
        e2b_failure(out, 400, "the sandbox is named by both E2b-Sandbox-Id and E2b-Sandbox-Port, or by PORT-ID.DOMAIN");
        return 400;
    }
    if (!e2b_is_data(request) && id && http_why(request) == WHY_NO_BOX) {
        char sentence[200];
        snprintf(sentence, sizeof sentence, "Sandbox \"%.64s\" doesn't exist or you don't have access to it", id);
        e2b_failure(out, 404, sentence);
        return 404;
    }
    e2b_failure(out, status, text);
    return status;
}

static bool e2b_claims(const char *path) {
    static const char *const first[] = {"sandboxes",     "v2",      "v3",    "templates", "snapshots", "volumes",
                                        "volumecontent", "secrets", "teams", "events",    "_e2b"};
    size_t len = path[0] == '/' ? strcspn(path + 1, "/") : 0;
    for (size_t i = 0; len && i < sizeof first / sizeof *first; i++)
        if (strlen(first[i]) == len && !memcmp(path + 1, first[i], len))
            return true;
    return false;
}

/* ---- who may ---- */

const char *e2b_default(const struct box *box, const char *name) {
    for (size_t i = 0; box && i < box->spec.env_count; i++)
        if (!strncmp(box->spec.env[i], name, strlen(name)))
            return box->spec.env[i] + strlen(name);
    return NULL;
}

const char *e2b_basic(struct http_request *request) {
    const char *header = http_header(request, "authorization");
    if (!header || strncasecmp(header, "Basic ", 6) != 0)
        return NULL;
    autobuf out = buf_max(1024);
    const char *text = header + 6 + strspn(header + 6, " ");
    if (!text_unbase64(&out, text, strlen(text)) || memchr(out.data, 0, out.len))
        return "?";
    const char *colon = out.len ? memchr(out.data, ':', out.len) : NULL;
    return arena_copy(http_arena(request), out.data, colon ? (size_t)(colon - (const char *)out.data) : out.len);
}

/* e2b_HEX and cubby_HEX are the same secret: older clients accept only keys that begin with e2b_. */
static int e2b_admit_key(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    const char *key = http_header(request, "x-api-key");
    if (!key || http_header(request, "authorization"))
        return auth_admit(auth, request, needs, ret_who, err);
    int failed = -ERR_UNAUTHORIZED;
    if (!strncmp(key, "e2b_", 4))
        failed = auth_admit_token(auth, request, arena_printf(http_arena(request), "cubby_%s", key + 4), needs, ret_who,
                                  err);
    if (failed == -ERR_UNAUTHORIZED)
        failed = auth_admit_token(auth, request, key, needs, ret_who, err);
    /* Clients insist on sending some key, also to a daemon that wants none. */
    if (failed == -ERR_UNAUTHORIZED && auth_is_open(auth, request))
        failed = auth_admit_user(auth, request, NULL, needs, ret_who, err);
    return failed;
}

/* What a request to the inside has to show, by its port and path. */
static int e2b_judge(struct http_request *request, const struct e2b_sandbox *sandbox, struct err *err) {
    const struct e2b *e2b = e2b_state(request);
    const char *rest = strchr(http_path(request) + strlen(E2B_PREFIX), '/');
    const bool envd = !strncmp(rest, "/49983/", 7);
    const char *sent = http_header(request, envd ? "x-access-token" : "e2b-traffic-access-token");
    char token[E2B_TOKEN_BYTES];
    e2b_token(e2b, sandbox->box, !envd, token);
    bool fits = sent && strlen(sent) == strlen(token) && !CRYPTO_memcmp(sent, token, strlen(token));
    if (!envd)
        return fits || !sandbox->record.private_traffic ? 0 : err_set(err, ERR_DENIED, E2B_NO_TRAFFIC);
    if (!strcmp(rest, "/49983/health") && !sandbox->paused)
        return 0;
    if (!strcmp(rest, "/49983/files") && !fits)
        return sent ? err_set(err, ERR_UNAUTHORIZED, "access token present in header but does not match")
                    : e2b_sign_judge(request, token, err);
    return fits ? 0 : err_set(err, ERR_UNAUTHORIZED, E2B_NO_TOKEN);
}

/* With its memory only: a fresh start by mere traffic would surprise its owner. */
static bool e2b_wakes(const struct e2b_sandbox *sandbox) {
    return sandbox->record.auto_resume && sandbox->record.keep_memory && !sandbox->held;
}

static int e2b_admit_box(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *id = e2b_id(request);
    struct e2b_sandbox sandbox = {0};
    struct box *box = NULL;
    STEP(provider_look(provider, NULL, id, &box, err));
    int failed = e2b_sandbox_put(request, box, &sandbox, err);
    if (!failed && sandbox.paused && !e2b_wakes(&sandbox))
        failed = err_set(err, ERR_PAUSED, "the sandbox is paused");
    if (!failed)
        failed = e2b_judge(request, &sandbox, err);
    if (!failed && sandbox.paused)
        failed = e2b_sandbox_wake(request, box, true,
                                  sandbox.record.timeout_ms > E2B_WAKE_MS ? sandbox.record.timeout_ms : E2B_WAKE_MS,
                                  &sandbox.record, err);
    if (!failed && sandbox.record.fresh)
        failed = e2b_sandbox_introduce(request, &sandbox, err);
    if (!failed) {
        memcpy(trail_of(request)->bound, box->id, sizeof trail_of(request)->bound);
        failed = auth_admit_user(front_of(request)->auth, request, box->user, needs, ret_who, err);
    }
    provider_look_end(provider, box);
    return failed;
}

static int e2b_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    if (!strncmp(http_path(request), "/volumecontent/", 15))
        return e2b_volume_admit(request, needs, ret_who, err);
    return e2b_is_data(request) ? e2b_admit_box(request, needs, ret_who, err)
                                : e2b_admit_key(request, needs, ret_who, err);
}

static int e2b_health(struct http_request *request, struct box *, struct err *) {
    return front_empty(request, 204);
}

static const struct route e2b_routes[] = {
    {"GET", E2B_ENVD "/health", front_handle, 0, "e2b_health", "E2B: whether a sandbox is there",
     ENDPOINT(.run = e2b_health, .flags = ENDPOINT_LENIENT | ENDPOINT_QUIET, .status = 204)},
    {0},
};

/* clang-format off */
static const struct route *const e2b_tables[] = {
    e2b_routes, /* one line each */
    e2b_sandbox_routes,
    e2b_snapshot_routes,
    e2b_misc_routes,
    e2b_event_routes,
    e2b_build_routes,
    e2b_volume_routes,
    e2b_content_routes,
    e2b_webhook_routes,
    e2b_secret_routes,
    e2b_process_routes,
    e2b_file_routes,
    e2b_filesystem_routes,
    e2b_interpreter_routes,
    e2b_preview_routes,
    NULL,
};
/* clang-format on */

static void e2b_check(const struct http_request *request, struct check *ret_check) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    const char *domain = settings ? settings->domain : NULL;
    *ret_check = (struct check){.name = "E2B clients", .ok = true};
    snprintf(ret_check->detail, sizeof ret_check->detail,
             domain ? "served; sandboxes have hosts below %.100s"
                    : "served; getHost() needs e2b_domain and a certificate (`cubby tls`)",
             domain);
}

const struct dialect e2b_dialect = {
    .name = "e2b",
    .routes = e2b_tables,
    .title = "the E2B dialect",
    .open = e2b_open,
    .start = e2b_start,
    .stop = e2b_stop,
    .close = e2b_close,
    .locate = e2b_locate,
    .identify = e2b_id,
    .admit = e2b_admit,
    .claims = e2b_claims,
    .refuse = e2b_refuse,
    .mask = archive_mask,
    .check = e2b_check,
};
