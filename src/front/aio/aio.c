/* The core of the AIO dialect: its envelope, tickets, unsupported routes, the URL of a box, and who asks. Called by its
 * groups, by front.c around every handler, and by the server for refusals. Invariants: every body below /aio/ is the
 * envelope or {"detail":...}; a failure never has a status of success here; a key or a ticket opens only its own
 * box. */
#include "front/aio/aio.h"

#include "front/aio/file.h"
#include "front/aio/key.h"
#include "front/aio/shell.h"
#include "front/watcher.h"
#include "front/mcp_http.h"

#define AIO_MESSAGE "Operation successful"

/* ---- answers ---- */

static void aio_envelope_open(struct json *json, bool success, const char *message) {
    json_open(json, '{');
    json_put_bool(json, "success", success);
    json_put_str(json, "message", message);
    json_key(json, "data");
}

static void aio_envelope_close(struct json *json) {
    json_put_nil(json, "hint");
    json_close(json, '}');
}

static void aio_envelope_empty(struct buf *out, bool success, const char *message) {
    struct json json = {.out = out};
    aio_envelope_open(&json, success, message);
    json_nil(&json);
    aio_envelope_close(&json);
}

static bool aio_claims(const char *path) {
    return !strncmp(path, AIO_PREFIX, strlen(AIO_PREFIX));
}

int aio_refuse(struct http_request *request, int status, const char *, const char *text, struct buf *out) {
    bool routed = http_route(request);
    const char *rest = strchr(http_path(request) + strlen(AIO_PREFIX), '/');
    if (routed && status == 404 && rest && !strncmp(rest, "/v1/bash/", 9) && http_why(request) == WHY_NO_BOX)
        status = 410; /* clients take a 404 here for a missing route, and never ask again */
    if (!routed && (status == 404 || status == 405))
        buf_printf(out, "{\"detail\":\"%s\"}", status == 404 ? "Not Found" : "Method Not Allowed");
    else
        aio_envelope_empty(out, false, text);
    return status;
}

void aio_open(struct answer *answer, struct http_request *request, const char *message, char bracket) {
    answer_init(answer, request, 200);
    aio_envelope_open(&answer->json, true, message ? message : AIO_MESSAGE);
    if (bracket)
        json_open(&answer->json, bracket);
}

int aio_close(struct answer *answer, char bracket, int result, struct err *err) {
    if (bracket)
        json_close(&answer->json, bracket);
    aio_envelope_close(&answer->json);
    return answer_end(answer, result, err);
}

static int aio_reply_empty(struct http_request *request, int status, bool success, const char *message) {
    autobuf out = buf_max(64u << 10); /* a message is one sentence */
    aio_envelope_empty(&out, success, message);
    if (out.failed) {
        buf_clear(&out);
        out.failed = false;
        aio_envelope_empty(&out, success, NULL);
    }
    return http_reply(request, status, "application/json", out.data, out.len);
}

int aio_done(struct http_request *request, const char *message) {
    return aio_reply_empty(request, 200, true, message ? message : AIO_MESSAGE);
}

int aio_fail(struct http_request *request, int status, int code, const char *text) {
    int failed = aio_reply_empty(request, status, false, text);
    return failed < 0 ? failed : code;
}

/* "2026-11-16T19:43:22.123456", as its server writes times. */
static void aio_time(struct json *json, uint64_t wall_ms) {
    char text[48];
    struct tm parts;
    time_t seconds = (time_t)(wall_ms / 1000);
    gmtime_r(&seconds, &parts);
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + len, sizeof text - len, ".%06u", (unsigned)(wall_ms % 1000) * 1000);
    json_str(json, text);
}

static void aio_member_value(struct json *json, const struct aio_member *member) {
    switch (member->type) {
    case AIO_IS_INT:
        json_int(json, member->number);
        break;
    case AIO_IS_REAL:
        json_double(json, member->real);
        break;
    case AIO_IS_BOOL:
        json_bool(json, member->number);
        break;
    case AIO_IS_TIME:
        aio_time(json, (uint64_t)member->number);
        break;
    case AIO_IS_NIL:
        json_nil(json);
        break;
    default:
        json_str(json, member->text);
    }
}

void aio_members(struct json *json, const struct aio_member *members) {
    for (; members->key; members++) {
        json_key(json, members->key);
        aio_member_value(json, members);
    }
}

void aio_put(struct answer *answer, const struct aio_member *members) {
    for (; members->key; members++) {
        json_key(&answer->json, members->key);
        if (members->type == AIO_IS_TEXT)
            answer_long(answer, members->text, (size_t)members->number, true);
        else
            aio_member_value(&answer->json, members);
    }
}

void aio_object(struct answer *answer, const struct aio_member *members) {
    json_open(&answer->json, '{');
    aio_put(answer, members);
    json_close(&answer->json, '}');
    answer_spill(answer);
}

int aio_reply(struct http_request *request, const char *message, const struct aio_member *members, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, message, '{');
    aio_put(&answer, members);
    return aio_close(&answer, '}', 0, err);
}

const struct row aio_answer[] = {
    {.name = "success", .type = ROW_BOOL, .flags = ROW_REQUIRED, .text = "false: nothing was done as asked"},
    {.name = "message", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "What happened, in a sentence."},
    {.name = "data",
     .type = ROW_OBJECT,
     .flags = ROW_NULLABLE,
     .text = "The answer; its members by route: cubby-aio(7)."},
    {.name = "hint", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Always null."},
    {0},
};

/* ---- tickets ---- */

struct aio_ticket_out {
    const char *ticket;
    unsigned expires_in;
};
static const struct row ticket_answer[] = {
    OUT_ROW("ticket", TEXT, aio_ticket_out, ticket, ROW_REQUIRED, "For ?ticket=, of this box only."),
    {.name = "expires_in",
     .type = ROW_INT,
     .flags = ROW_REQUIRED,
     .offset = offsetof(struct aio_ticket_out, expires_in),
     .item_size = sizeof(unsigned),
     .max = UINT32_MAX,
     .text = "Seconds."},
    {0},
};

static int aio_ticket(struct http_request *request, struct box *box, struct err *err) {
    char text[AIO_TICKET_BYTES];
    aio_ticket_make(aio_state(request)->key, box, clock_wall_ms() + AIO_TICKET_SECONDS * 1000, text);
    return answer_rows(request, 200, ticket_answer, &(const struct aio_ticket_out){text, AIO_TICKET_SECONDS}, err);
}

static int aio_admitted(struct http_request *request, struct box *, struct err *) {
    return aio_done(request, NULL);
}

/* ---- unsupported routes ---- */

struct aio_missing {
    struct endpoint endpoint;
    const char *text;
};

static int aio_not_here(struct http_request *request, struct box *, struct err *) {
    const struct aio_missing *missing = container_of(http_route(request)->extra, const struct aio_missing, endpoint);
    return aio_fail(request, 501, ERR_UNSUPPORTED, missing->text);
}

static const struct row sandbox_answer[] = {
    {.name = "success", .type = ROW_BOOL, .flags = ROW_REQUIRED, .text = "true"},
    {.name = "message", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "A sentence."},
    {.name = "data", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "The box in a sentence."},
    {.name = "home_dir", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "The home of the user that commands run as."},
    {.name = "workspace", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Where commands begin."},
    {.name = "version", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "The version of cubby."},
    {.name = "detail", .type = ROW_OBJECT, .flags = ROW_REQUIRED, .text = "system, runtime and utils: cubby-aio(7)."},
    {.name = "hint", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Always null."},
    {0},
};

#define MISSING(sentence)                                                                                              \
    &((const struct aio_missing){.endpoint = {.run = aio_not_here,                                                     \
                                              .flags = AIO_FLAGS | ENDPOINT_NO_BOX | ENDPOINT_QUIET,                   \
                                              .status = 501,                                                           \
                                              .answer = aio_answer},                                                   \
                                 .text = (sentence)})                                                                  \
         .endpoint
#define NO_SKILLS                                                                                                      \
    MISSING("Skills are not registered through this API; boxes get those of their agent: cubby-dialect(7).")
#define NO_HOOKS MISSING("There are no shutdown hooks: a box ends without notice, and its files stay.")
const struct route aio_routes[] = {
    {"GET", "/aio/{id}/v1/sandbox", front_handle, 0, "aio_sandbox", "What a box is; a box that answers is ready",
     ENDPOINT(.run = aio_sandbox, .flags = AIO_FLAGS, .status = 200, .answer = sandbox_answer)},
    {"POST", "/aio/{id}/tickets", front_handle, 0, "aio_tickets", "A ticket for a box, for half a minute",
     ENDPOINT(.run = aio_ticket, .flags = AIO_FLAGS, .status = 200, .answer = ticket_answer)},
    {"GET", "/aio/{id}/auth", front_handle, 0, "aio_auth", "Whether a request to a box would be let in",
     ENDPOINT(.run = aio_admitted, .flags = (AIO_FLAGS & ~ENDPOINT_WAKE) | ENDPOINT_LOOK, .status = 200,
              .answer = aio_answer)},
    {"ANY", "/aio/{id}/v1/browser/{rest...}", front_handle, 0, "aio_browser", "There is no browser: 501",
     MISSING("A box has no browser. Run one in it if its template has one, or use another service for web pages.")},
    {"ANY", "/aio/{id}/v1/proxy/{rest...}", front_handle, 0, "aio_proxy", "There is no proxy to set: 501",
     MISSING("There is no proxy to set: what a box may reach is decided by its network when it is made.")},
    {"ANY", "/aio/{id}/v1/display/{rest...}", front_handle, 0, "aio_display", "There is no display: 501",
     MISSING("A box has no display that could be recorded.")},
    {"ANY", "/aio/{id}/v1/skills", front_handle, 0, "aio_skills", "Skills come another way: 501", NO_SKILLS},
    {"ANY", "/aio/{id}/v1/skills/{rest...}", front_handle, 0, "aio_skill", "Skills come another way: 501", NO_SKILLS},
    {"ANY", "/aio/{id}/v1/sandbox/observe/{rest...}", front_handle, 0, "aio_observe", "Nothing is observed: 501",
     MISSING("Processes are not observed here; GET /v1/boxes/{id} has what a box uses, GET /v1/audit what was done.")},
    {"POST", "/aio/{id}/v1/util/convert_to_markdown", front_handle, 0, "aio_convert",
     "Documents are not converted: 501", MISSING("Documents are not converted here: run a converter in the box.")},
    {"ANY", "/aio/{id}/v1/sandbox/hooks", front_handle, 0, "aio_hooks", "There are no hooks: 501", NO_HOOKS},
    {"ANY", "/aio/{id}/v1/sandbox/hooks/{name}", front_handle, 0, "aio_hook", "There are no hooks: 501", NO_HOOKS},
    {0},
};

/* ---- kept state ---- */

static void aio_dialect_close(void *state) {
    struct aio *aio = state;
    if (!aio)
        return;
    mcp_http_free(aio->mcp);
    aio_history_free(aio->history);
    watchers_free(aio->watchers);
    aio_key_free(aio->key);
    free(aio);
}

static int aio_dialect_open(const char *directory, void **ret_state, struct err *err) {
    struct aio_key *key;
    STEP(aio_key_open(directory, &key, err));
    struct aio *aio = *ret_state = xcalloc(1, sizeof *aio);
    *aio = (struct aio){.key = key, .watchers = watchers_new(), .history = aio_history_new(), .mcp = mcp_http_new()};
    return 0;
}

struct aio *aio_state(const struct http_request *request) {
    return front_state(front_of(request), &aio_dialect);
}

/* ---- URLs of boxes ---- */

/* Returns {id} of a route without the key, in the request's arena. *ret_key: the key, or NULL. */
static const char *aio_id(struct http_request *request, const char **ret_key) {
    const char *param = http_param(request, "id"), *tilde = param ? strchr(param, '~') : NULL;
    *ret_key = tilde ? tilde + 1 : NULL;
    return tilde ? arena_copy(http_arena(request), param, (size_t)(tilde - param)) : param;
}

const char *aio_url(struct http_request *request, const struct box *box) {
    struct front *front = front_of(request);
    struct arena *arena = http_arena(request);
    char key[AIO_KEY_BYTES] = "";
    const char *host = http_host(request), *base = front_settings(request)->url;
    if (!auth_is_open(front->auth, request))
        aio_key_make(aio_state(request)->key, box, key);
    if (!base)
        base = arena_printf(arena, "%s://%s", http_is_tls(request) ? "https" : "http",
                            *host ? host : http_server_address(front->server));
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    return arena_printf(arena, "%.*s" AIO_PREFIX "%s%s%s", (int)len, base, box->id, *key ? "~" : "", key);
}

/* A key in a path of another dialect is still a secret. */
static const char *aio_dialect_mask(struct http_request *request, const char *path) {
    const char *tilde = strchr(path, '~');
    while (tilde && !aio_claims(path) && strspn(tilde + 1, "0123456789abcdef") != AIO_KEY_BYTES - 1)
        tilde = strchr(tilde + 1, '~');
    if (!tilde)
        return path;
    return arena_printf(http_arena(request), "%.*s~...%s", (int)(tilde - path), path, tilde + strcspn(tilde, "/"));
}

/* Starts the default session before the first call that uses it. */
static void aio_dialect_prepare(struct box *box) {
    const struct session_request shell = {.name = AIO_SHELL_DEFAULT, .quiet_ms = AIO_SHELL_QUIET_MS};
    box_session_begin(box, &shell);
}

/* ---- who asks ---- */

static const char *aio_dialect_identify(struct http_request *request) {
    const char *key;
    return aio_id(request, &key);
}

/* Clients have more ways to authenticate: a token of ours in their header or parameter, a ticket, or the box's key. A
 * token or key that was sent is always checked, whatever else comes with it. box NULL: no such box, so any key is
 * wrong. */
static int aio_dialect_judge(struct http_request *request, const struct box *box, unsigned needs,
                             const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    const struct aio_key *secret = aio_state(request)->key;
    const char *key, *aio_ticket = http_query(request, "ticket", NULL);
    const char *token = http_header(request, "x-aio-api-key");
    aio_id(request, &key);
    if (key && !aio_key_fits(secret, box, key))
        return err_set(err, ERR_UNAUTHORIZED, "this is not the key of this box; ask for its URL again");
    if (!token)
        token = http_query(request, "api_key", NULL);
    if (http_header(request, "authorization"))
        return auth_admit(auth, request, needs, ret_who, err);
    if (token)
        return auth_admit_token(auth, request, token, needs, ret_who, err);
    if (aio_ticket && !aio_ticket_fits(secret, box, clock_wall_ms(), aio_ticket))
        return err_set(err, ERR_UNAUTHORIZED, "this ticket is for another box or has expired; ask for another");
    if (aio_ticket || key) {
        memcpy(trail_of(request)->bound, box->id, sizeof trail_of(request)->bound);
        return auth_admit_user(auth, request, box->user, needs, ret_who, err);
    }
    return auth_admit(auth, request, needs, ret_who, err);
}

static int aio_dialect_admit(struct http_request *request, unsigned needs, const struct who **ret_who,
                             struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *key, *id = aio_id(request, &key);
    struct box *box = NULL;
    int failed = key || http_query(request, "ticket", NULL) ? provider_look(provider, NULL, id, &box, err) : 0;
    if (failed) /* if the box is gone, clients expect 404, and its key opens nothing */
        return failed;
    failed = aio_dialect_judge(request, box, needs, ret_who, err);
    provider_look_end(provider, box);
    return failed;
}

static const struct route *const aio_dialect_routes[] = {
    aio_routes,      aio_mcp_routes,  aio_search_routes, aio_watch_routes, aio_code_routes,
    aio_bash_routes, aio_file_routes, aio_edit_routes,   aio_shell_routes, NULL,
};
const struct dialect aio_dialect = {
    .name = "aio",
    .routes = aio_dialect_routes,
    .open = aio_dialect_open,
    .close = aio_dialect_close,
    .identify = aio_dialect_identify,
    .admit = aio_dialect_admit,
    .claims = aio_claims,
    .refuse = aio_refuse,
    .mask = aio_dialect_mask,
    .url = aio_url,
    .prepare = aio_dialect_prepare,
};
