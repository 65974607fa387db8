/* The dialect's envelope, names, arguments, and how each of its requests is run. Called through its routes, and by the server
 * for refusals of its own. Invariant: every body below our paths is {"status","data"}, and a token acts for its own user. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/limits.h"
#include "base/mem.h"
#include "box/turn.h"
#include "front/filesecbox/fsb2.h"
#include "front/trail.h"

/* ---- answers ---- */

static void envelope(struct buf *out, bool success, const char *data) {
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    json_put_str(&json, "status", success ? "success" : "error");
    json_put_str(&json, "data", data);
    json_close(&json, '}');
}

int filesecbox_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    (void)code;
    if (!filesecbox_claims(http_path(request)))
        return 0; /* "/v1/boxes/x/write": told as the door does whose word it is */
    envelope(out, false, text);
    return status;
}

bool filesecbox_claims(const char *path) {
    static const char *const ours[] = {"/v1/skills/", "/v1/sandbox/", "/v1/files/"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(path, ours[i], strlen(ours[i])))
            return true;
    return fsb2_claims(path);
}

const struct row filesecbox_answer[] = {
    {.name = "status", .type = ROW_TEXT, .choices = "success|error", .text = "whether it worked"},
    {.name = "data", .type = ROW_OBJECT, .flags = ROW_NULLABLE, .text = "of any type: what was asked for, or why not"},
    {.name = NULL},
};

static const struct route *const tables[] = {filesecbox_routes, fsb2_routes, NULL};
const struct dialect filesecbox_dialect = {.routes = tables, .claims = filesecbox_claims, .refuse = filesecbox_refuse};

void filesecbox_open(struct answer *answer, struct filesecbox *call) {
    filesecbox_unshare(call);
    answer_init(answer, call->request, 200);
    json_open(&answer->json, '{');
    json_put_str(&answer->json, "status", "success");
    json_key(&answer->json, "data");
}

int filesecbox_close(struct answer *answer, int result, struct err *err) {
    json_close(&answer->json, '}');
    return answer_end(answer, result, err);
}

static int reply(struct filesecbox *call, int status, bool success, const char *data) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    filesecbox_unshare(call);
    envelope(&out, success, data);
    return http_reply(call->request, status, "application/json", out.data, out.len);
}

int filesecbox_text(struct filesecbox *call, const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    int failed = reply(call, 200, true, text);
    free(text);
    return failed;
}

int filesecbox_error(struct filesecbox *call, int code, const char *data) {
    int failed = reply(call, call->status, false, data);
    return failed < 0 ? failed : code;
}

int filesecbox_fail(struct filesecbox *call, struct err *err) {
    bool form = err->code == ERR_UNAUTHORIZED || err->code == ERR_DENIED;
    bool room = err->code == ERR_TOO_LARGE || err->code == ERR_LIMIT || err->code == ERR_BUSY ||
                err->code == ERR_FULL || err->code == ERR_PAUSED;
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s%.500s", call->prefix ? call->prefix : "", err->text);
    if (http_replied(call->request))
        return -err->code;
    if (form || (room && call->status != 200)) {
        memcpy(err->text, text, sizeof text);
        return -err->code;
    }
    return filesecbox_error(call, err->code, call->prefix ? text : NULL);
}

int filesecbox_form(struct filesecbox *call, int code, struct err *err) {
    if (code >= 0)
        return code;
    filesecbox_unshare(call);
    http_reply_error(call->request, err);
    return -code;
}

/* ---- who asks, for whom ---- */

/* Words of our own that stand where the later family has a user's name; routes of ours win over it, these never pass. */
static const char *const reserved_users[] = {"boxes",  "tools",    "threads", "skills", "sandbox", "files",
                                             "file",   "shell",    "bash",    "events", "audit",   "info",
                                             "tokens", "registry", "agents",  NULL};

bool filesecbox_reserved(const char *user, size_t len) {
    for (const char *const *word = reserved_users; *word; word++)
        if (strlen(*word) == len && !memcmp(user, *word, len))
            return true;
    return false;
}

static int check_user(const char *user, struct err *err) {
    if (filesecbox_reserved(user, strlen(user)))
        return err_set(err, ERR_INVALID, "'%s' cannot be a user: it is a word of this API", user);
    if (*user == '.')
        return err_set(err, ERR_INVALID, "a user's name does not begin with a dot");
    return text_user(user, err);
}

/* Checks the names, and that the token may act for that user. */
static int call_begin(struct filesecbox *call, struct err *err) {
    const struct who *who = front_who(call->request);
    call->skills = front_of(call->request)->skills;
    call->user = http_param(call->request, "user");
    call->agent = http_param(call->request, "agent");
    call->skill = http_param(call->request, "skill");
    call->admin = who->scope == SCOPE_ADMIN;
    int failed = check_user(call->user, err);
    if (!failed)
        failed = skill_agent_check(call->agent, err);
    if (!failed && call->skill)
        failed = skill_id_check(call->skill, err);
    if (failed)
        return failed;
    if (!call->admin && who->user && strcmp(who->user, call->user) != 0)
        return err_set(err, ERR_DENIED, "this token is user %s's, and cannot act for %s", who->user, call->user);
    if (!call->skills)
        return err_set(err, ERR_UNSUPPORTED, "this daemon has no skills");
    if (call->route->needs & FILESECBOX_EITHER && skills_settings(call->skills)->newest) {
        call->status = NEWEST_STATUS;
        call->prefix = "";
    }
    return 0;
}

int filesecbox_admin(const struct filesecbox *call, const char *what, struct err *err) {
    return call->admin ? 0 : err_set(err, ERR_DENIED, "%s is for tokens of scope admin", what);
}

void filesecbox_id(const struct filesecbox *call, char ret_id[17]) {
    char thread[LIMIT_AGENT_BYTES + sizeof POLICY_AGENT_THREAD];
    snprintf(thread, sizeof thread, POLICY_AGENT_THREAD "%s", call->agent);
    policy_id(call->user, thread, strlen(thread), ret_id);
}

/* Looking makes nothing: *ret_box stays NULL. */
static int find_or_make(struct filesecbox *call, struct box **ret_box, struct err *err) {
    struct http_request *request = call->request;
    const struct box_request wanted = {.user = call->user, .agent = call->agent};
    bool created;
    char id[17];
    filesecbox_id(call, id);
    if (strcmp(http_method(request), "GET") != 0)
        return front_acquire(request, id, &wanted, ret_box, &created, err);
    int failed = provider_wake(front_of(request)->provider, call->user, id, ret_box, err);
    return failed == -ERR_NOT_FOUND ? 0 : failed;
}

int filesecbox_box(struct filesecbox *call, struct err *err) {
    struct box *box = NULL;
    int failed = find_or_make(call, &box, err);
    if (failed < 0 || !box)
        return failed;
    call->box = box;
    trail_box(call->request, box);
    failed = front_enter(call->request, box, err);
    return failed < 0 ? failed : 0;
}

int filesecbox_share(struct filesecbox *call, struct err *err) {
    int failed = call->box ? 0 : filesecbox_box(call, err);
    if (failed < 0 || !call->box)
        return failed;
    bool second = call->route->needs & FILESECBOX_SECOND;
    failed = box_share(call->box, second ? NEWEST_READ_WAIT_MS : skills_settings(call->skills)->wait_ms, err);
    call->shared = failed >= 0;
    return failed < 0 ? failed : 0;
}

const char *filesecbox_workspace(const struct filesecbox *call) {
    return call->box ? box_workspace(call->box) : WORKSPACE_PATH;
}

void filesecbox_unshare(struct filesecbox *call) {
    if (call->shared)
        box_share_end(call->box);
    call->shared = false;
}

static void call_end(struct filesecbox *call) {
    filesecbox_unshare(call);
    if (!call->box)
        return;
    front_leave(call->box);
    trail_box(call->request, NULL);
    provider_put(front_of(call->request)->provider, call->box);
    call->box = NULL;
}

/* ---- arguments ---- */

int filesecbox_int(const char *name, const struct row_text *text, bool *ret_has, int64_t *ret_value, struct err *err) {
    const char *data = text->data;
    *ret_has = text->len;
    if (!*ret_has)
        return 0;
    size_t sign = *data == '-' || *data == '+', digits = strspn(data + sign, "0123456789");
    long long value = digits && digits <= 10 && sign + digits == text->len ? strtoll(data, NULL, 10) : INT64_MAX;
    if (value > INT32_MAX || value < INT32_MIN)
        return err_set(err, ERR_INVALID, "'%s' is not a whole number of 32 bits: '%.40s'", name, data);
    *ret_value = value;
    return 0;
}

int filesecbox_json(struct http_request *request, struct json_t **ret_root, struct err *err) {
    char *data;
    size_t len;
    *ret_root = NULL;
    int failed = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err);
    if (failed < 0 || !len)
        return failed;
    return rows_load(data, len, ret_root, err);
}

/* Faults of a member have the dialect's sentences; one that no row names is ignored. */
static int call_body(struct filesecbox *call, const struct row *rows, struct err *err) {
    json_t *root = NULL;
    int code = filesecbox_form(call, filesecbox_json(call->request, &root, err), err);
    for (const struct row *row = rows; code == 0 && row->name; row++) {
        const json_t *value = json_object_get(root, row->name);
        bool number = json_is_integer(value) && json_integer_value(value) >= 0;
        if (row->type == ROW_TEXT && !json_is_string(value))
            code = err_set(err, ERR_INVALID, "Validation Error: '%s' is required and must be a string.", row->name);
        else if (row->type == ROW_INT && value && !json_is_null(value) && !number)
            code = err_set(err, ERR_INVALID, "Validation Error: '%s' must be a number from 0 on.", row->name);
    }
    if (code == 0)
        code = rows_bind(root, rows, http_arena(call->request), &call->args, err);
    if (code == 0)
        trail_told(call->request, rows, &call->args);
    json_decref(root);
    return code;
}

static const char *call_get(void *user, const char *name, size_t *ret_len) {
    return http_query(user, name, ret_len);
}

static int call_arguments(struct filesecbox *call, struct err *err) {
    const struct endpoint *endpoint = &call->route->endpoint;
    const struct row *query = endpoint->query;
    struct http_request *request = call->request;
    if (call->route->needs & FILESECBOX_SECOND && rows_find(query, "path", 4) && !http_query(request, "path", NULL))
        return err_set(err, ERR_INVALID, "Security Error: Path cannot be null.");
    int code = query ? rows_query(query, call_get, request, http_arena(request), &call->args, err) : 0;
    if (!code)
        trail_told(request, query, &call->args);
    code = filesecbox_form(call, code, err);
    return code || !endpoint->body ? code : call_body(call, endpoint->body, err);
}

/* ---- every request ---- */

int filesecbox_run(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const struct filesecbox_route *route =
        container_of(http_route(request)->extra, const struct filesecbox_route, endpoint);
    unsigned needs = route->needs;
    if (!filesecbox_claims(http_path(request))) /* another dialect's path that does not exist */
        return err_set(err, ERR_NOT_FOUND, "no such path: '%.300s'", http_path(request));
    __attribute__((cleanup(call_end))) struct filesecbox call = {
        .request = request, .route = route, .status = route->status, .prefix = route->prefix};
    int code = call_begin(&call, err);
    if (code < 0 && !(needs & FILESECBOX_SECOND))
        return code;
    if (code == 0)
        code = call_arguments(&call, err);
    if (code == 0 && needs & (FILESECBOX_BOX | FILESECBOX_SHARE))
        code = filesecbox_box(&call, err);
    if (code == 0 && needs & FILESECBOX_SHARE && call.box)
        code = filesecbox_share(&call, err);
    if (code == 0)
        code = route->work(&call, err);
    if (code >= 0 || http_replied(request))
        return code;
    bool busy = err->code == ERR_BUSY || err->code == ERR_PAUSED;
    if (busy && call.box && needs & FILESECBOX_SECOND && call.status == NEWEST_STATUS)
        return filesecbox_error(&call, ERR_BUSY,
                                needs & FILESECBOX_CHANGES
                                    ? "Server busy: Update operation timed out. Please try again."
                                    : "Server busy: Read operation timed out. Please try again.");
    return filesecbox_fail(&call, err);
}
