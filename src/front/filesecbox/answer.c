/* The dialect's envelope, names and parameters. Called by its handlers, and by the server for refusals of its own.
 * Invariant: every body below our paths is {"status","data"}, and nobody acts for a user that is not his token's. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/limits.h"
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

static const struct route *const tables[] = {filesecbox_routes, fsb2_routes, NULL};
const struct dialect filesecbox_dialect = {.routes = tables, .claims = filesecbox_claims, .refuse = filesecbox_refuse};

void filesecbox_open(struct answer *answer, struct http_request *request) {
    answer_init(answer, request, 200);
    json_open(&answer->json, '{');
    json_put_str(&answer->json, "status", "success");
    json_key(&answer->json, "data");
}

int filesecbox_close(struct answer *answer, int result, struct err *err) {
    json_close(&answer->json, '}');
    return answer_end(answer, result, err);
}

static int reply(struct http_request *request, int status, bool success, const char *data) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    envelope(&out, success, data);
    return http_reply(request, status, "application/json", out.data, out.len);
}

int filesecbox_text(struct http_request *request, const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    int failed = reply(request, 200, true, text);
    free(text);
    return failed;
}

int filesecbox_error(struct http_request *request, int status, int code, const char *data) {
    int failed = reply(request, status, false, data);
    return failed < 0 ? failed : code;
}

int filesecbox_fail(struct http_request *request, int status, const char *prefix, struct err *err) {
    bool form = err->code == ERR_UNAUTHORIZED || err->code == ERR_DENIED;
    bool room = err->code == ERR_TOO_LARGE || err->code == ERR_LIMIT || err->code == ERR_BUSY ||
                err->code == ERR_FULL || err->code == ERR_PAUSED;
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s%.500s", prefix ? prefix : "", err->text);
    if (http_replied(request))
        return -err->code;
    if (form || (room && status != 200)) {
        memcpy(err->text, text, sizeof text);
        return -err->code;
    }
    return filesecbox_error(request, status, err->code, prefix ? text : NULL);
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

int filesecbox_begin(struct http_request *request, struct filesecbox *ret_call, struct err *err) {
    const struct who *who = front_who(request);
    struct filesecbox *call = ret_call;
    *call = (struct filesecbox){
        .request = request,
        .skills = front_of(request)->skills,
        .user = http_param(request, "user"),
        .agent = http_param(request, "agent"),
        .skill = http_param(request, "skill"),
        .admin = who->scope == SCOPE_ADMIN,
    };
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
    return front_enter(call->request, box, err);
}

int filesecbox_share(struct filesecbox *call, struct err *err) {
    int failed = filesecbox_box(call, err);
    if (failed < 0 || !call->box)
        return failed;
    failed = box_share(call->box, skills_settings(call->skills)->wait_ms, err);
    call->shared = failed >= 0;
    return failed;
}

const char *filesecbox_workspace(const struct filesecbox *call) {
    return call->box ? box_workspace(call->box) : WORKSPACE_PATH;
}

void filesecbox_unshare(struct filesecbox *call) {
    if (call->shared)
        box_share_end(call->box);
    call->shared = false;
}

void filesecbox_end(struct filesecbox *call) {
    filesecbox_unshare(call);
    if (!call->box)
        return;
    front_leave(call->box);
    trail_box(call->request, NULL);
    provider_put(front_of(call->request)->provider, call->box);
    call->box = NULL;
}

/* ---- parameters ---- */

int filesecbox_int(struct http_request *request, const char *name, bool *ret_has, int64_t *ret_value, struct err *err) {
    size_t len;
    const char *text = http_query(request, name, &len);
    *ret_has = text && len;
    if (!*ret_has)
        return 0;
    size_t sign = *text == '-' || *text == '+', digits = strspn(text + sign, "0123456789");
    long long value = digits && digits <= 10 && sign + digits == len ? strtoll(text, NULL, 10) : INT64_MAX;
    if (value > INT32_MAX || value < INT32_MIN)
        return err_set(err, ERR_INVALID, "'%s' is not a whole number of 32 bits: '%.40s'", name, text);
    *ret_value = value;
    return 0;
}

int filesecbox_need(struct http_request *request, const char *name, const char **ret_text, struct err *err) {
    size_t len;
    const char *text = http_query(request, name, &len);
    if (!text)
        return err_set(err, ERR_INVALID, "the parameter '%s' is missing", name);
    if (strlen(text) != len)
        return err_set(err, ERR_INVALID, "the parameter '%s' holds a NUL", name);
    *ret_text = text;
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
