/* The dialect's envelope, names, arguments, and the steps of each request. Called through its routes, and by the server
 * for its own refusals. Invariant: every body below our paths is {"status","data"}, and a token acts only for its own
 * user. */
#include <jansson.h>

#include "box/boxlock.h"
#include "front/filesecbox/filesecbox.h"

enum { SECOND_WAIT_MS = 5000 }; /* how long the second family waits for its share */

/* ---- answers ---- */

static void answer_envelope(struct buf *out, bool success, const char *data) {
    struct json json = json_begin(out);
    json_put_str(&json, "status", success ? "success" : "error");
    json_put_str(&json, "data", data);
    json_close(&json, '}');
}

static bool filesecbox_claims(const char *path) {
    static const char *const ours[] = {"/v1/skills/", "/v1/sandbox/", "/v1/files/"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(path, ours[i], strlen(ours[i])))
            return true;
    return fsb2_claims(path);
}

int filesecbox_refuse(struct http_request *request, int status, const char *, const char *text, struct buf *out) {
    if (!filesecbox_claims(http_path(request)))
        return 0; /* "/v1/boxes/x/write": belongs to another dialect */
    answer_envelope(out, false, text);
    return status;
}

const struct row filesecbox_answer[] = {
    {.name = "status", .type = ROW_TEXT, .choices = "success|error", .text = "whether it worked"},
    {.name = "data", .type = ROW_OBJECT, .flags = ROW_NULLABLE, .text = "of any type: what was asked for, or why not"},
    {.name = NULL},
};

static const struct route *const answer_tables[] = {filesecbox_routes, fsb2_routes, NULL};
const struct dialect filesecbox_dialect = {
    .name = "filesecbox", .routes = answer_tables, .claims = filesecbox_claims, .refuse = filesecbox_refuse};

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

static int answer_reply(struct filesecbox *call, int status, bool success, const char *data) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    filesecbox_unshare(call);
    answer_envelope(&out, success, data);
    return http_reply(call->request, status, "application/json", out.data, out.len);
}

int filesecbox_text(struct filesecbox *call, const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    xensure(vasprintf(&text, format, args) >= 0);
    va_end(args);
    int failed = answer_reply(call, 200, true, text);
    free(text);
    return failed;
}

int filesecbox_error(struct filesecbox *call, int code, const char *data) {
    int failed = answer_reply(call, call->status, false, data);
    return failed < 0 ? failed : code;
}

int filesecbox_fail(struct filesecbox *call, struct err *err) {
    bool form = err->code == ERR_UNAUTHORIZED || err->code == ERR_DENIED;
    bool limit = err->code == ERR_TOO_LARGE || err->code == ERR_LIMIT || err->code == ERR_BUSY ||
                 err->code == ERR_FULL || err->code == ERR_PAUSED;
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s%.500s", call->prefix ? call->prefix : "", err->text);
    if (http_replied(call->request))
        return -err->code;
    if (form || (limit && call->status != 200)) {
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

/* ---- users ---- */

bool filesecbox_reserved(const char *user, size_t len) {
    /* words of other APIs where the second family has a user's name */
    static const char *const words[] = {"boxes", "tools",  "threads", "skills", "sandbox", "files",    "file",  "shell",
                                        "bash",  "events", "audit",   "info",   "tokens",  "registry", "agents"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == len && !memcmp(user, words[i], len))
            return true;
    return false;
}

/* Checks the names, and that the token may act for that user. */
static int answer_begin(struct filesecbox *call, struct err *err) {
    const struct who *who = front_who(call->request);
    call->skills = front_of(call->request)->skills;
    call->user = http_param(call->request, "user");
    call->agent = http_param(call->request, "agent");
    call->skill = http_param(call->request, "skill");
    call->admin = who->scope == SCOPE_ADMIN;
    if (filesecbox_reserved(call->user, strlen(call->user)))
        return err_set(err, ERR_INVALID, "'%s' cannot be a user's name: it is a reserved word of this API", call->user);
    if (*call->user == '.')
        return err_set(err, ERR_INVALID, "a user's name must not begin with a dot");
    STEP(text_user(call->user, err) ?: policy_agent(call->agent, err)
                     ?: (call->skill ? skill_id_check(call->skill, err) : 0));
    if (!call->admin && who->user && strcmp(who->user, call->user) != 0)
        return err_set(err, ERR_DENIED, "this token belongs to user %s and cannot act for %s", who->user, call->user);
    if (!call->skills)
        return err_set(err, ERR_UNSUPPORTED, "this daemon has no skills");
    if (call->route->needs & FILESECBOX_EITHER && skills_settings(call->skills)->second) {
        call->status = FSB2_STATUS;
        call->prefix = "";
    }
    return 0;
}

int filesecbox_admin(const struct filesecbox *call, const char *what, struct err *err) {
    return call->admin ? 0 : err_set(err, ERR_DENIED, "%s needs a token of scope admin", what);
}

int filesecbox_box(struct filesecbox *call, struct err *err) {
    struct http_request *request = call->request;
    const struct box_request wanted = {.user = call->user, .agent = call->agent};
    struct box *box = NULL;
    bool created, looks = strcmp(http_method(request), "GET") == 0;
    char id[17], thread[LIMIT_AGENT_BYTES + sizeof POLICY_AGENT_THREAD];
    snprintf(thread, sizeof thread, POLICY_AGENT_THREAD "%s", call->agent);
    policy_id(call->user, thread, strlen(thread), id);
    int failed = looks ? provider_wake(front_of(request)->provider, call->user, id, &box, err)
                       : front_acquire(request, id, &wanted, &box, &created, err);
    if (failed < 0 || !box)
        return looks && failed == -ERR_NOT_FOUND ? 0 : failed;
    call->box = box;
    trail_box(request, box);
    return front_enter(request, box, err);
}

int filesecbox_share(struct filesecbox *call, struct err *err) {
    int failed = call->box ? 0 : filesecbox_box(call, err);
    if (failed < 0 || !call->box)
        return failed;
    bool second = call->route->needs & FILESECBOX_SECOND;
    failed = box_share(call->box, second ? SECOND_WAIT_MS : skills_settings(call->skills)->wait_ms, err);
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

static void answer_call_end(struct filesecbox *call) {
    filesecbox_unshare(call);
    if (!call->box)
        return;
    front_leave(call->box);
    trail_box(call->request, NULL);
    provider_put(front_of(call->request)->provider, call->box);
    call->box = NULL;
}

/* ---- arguments ---- */

/* Wrong members get the dialect's own error texts; unknown members are ignored. */
static int answer_body(struct filesecbox *call, const struct row *rows, struct err *err) {
    json_t *root = NULL;
    char *data;
    size_t len;
    int code = filesecbox_form(
        call, http_body_all(call->request, LIMIT_JSON_BYTES, &data, &len, err) ?: rows_load(data, len, &root, err),
        err);
    for (const struct row *row = rows; code == 0 && row->name; row++) {
        const json_t *value = json_object_get(root, row->name);
        bool number = json_is_integer(value) && json_integer_value(value) >= 0;
        if (row->type == ROW_TEXT && !json_is_string(value))
            code = err_set(err, ERR_INVALID, "Validation Error: '%s' is required and must be a string.", row->name);
        else if (row->type == ROW_INT && value && !json_is_null(value) && !number)
            code = err_set(err, ERR_INVALID, "Validation Error: '%s' must be a number, at least 0.", row->name);
    }
    if (code == 0)
        code = rows_bind(root, rows, http_arena(call->request), &call->args, err);
    if (code == 0)
        trail_args(call->request, rows, &call->args);
    json_decref(root);
    return code;
}

static int answer_arguments(struct filesecbox *call, struct err *err) {
    const struct endpoint *endpoint = &call->route->endpoint;
    const struct row *query = endpoint->query;
    struct http_request *request = call->request;
    if (call->route->needs & FILESECBOX_SECOND && rows_find(query, "path", 4) && !http_query(request, "path", NULL))
        return err_set(err, ERR_INVALID, "Security Error: Path cannot be null.");
    int code = query ? rows_query(query, front_get, request, http_arena(request), &call->args, err) : 0;
    if (!code)
        trail_args(request, query, &call->args);
    code = filesecbox_form(call, code, err);
    return code || !endpoint->body ? code : answer_body(call, endpoint->body, err);
}

/* ---- every request ---- */

int filesecbox_run(struct http_request *request, struct box *, struct err *err) {
    const struct filesecbox_route *route =
        container_of(http_route(request)->extra, const struct filesecbox_route, endpoint);
    unsigned needs = route->needs;
    if (!filesecbox_claims(http_path(request))) /* an unknown path of another dialect */
        return err_set(err, ERR_NOT_FOUND, "no such path: '%.300s'", http_path(request));
    __attribute__((cleanup(answer_call_end))) struct filesecbox call = {
        .request = request, .route = route, .status = route->status, .prefix = route->prefix};
    int code = answer_begin(&call, err);
    if (code < 0 && !(needs & FILESECBOX_SECOND))
        return code;
    if (code == 0)
        code = answer_arguments(&call, err);
    if (code == 0 && needs & (FILESECBOX_BOX | FILESECBOX_SHARE))
        code = filesecbox_box(&call, err);
    if (code == 0 && needs & FILESECBOX_SHARE && call.box)
        code = filesecbox_share(&call, err);
    if (code == 0)
        code = route->work(&call, err);
    if (code >= 0 || http_replied(request))
        return code;
    bool busy = err->code == ERR_BUSY || err->code == ERR_PAUSED;
    if (busy && call.box && needs & FILESECBOX_SECOND && call.status == FSB2_STATUS)
        return filesecbox_error(&call, ERR_BUSY,
                                needs & FILESECBOX_CHANGES
                                    ? "Server busy: Update operation timed out. Please try again."
                                    : "Server busy: Read operation timed out. Please try again.");
    return filesecbox_fail(&call, err);
}
