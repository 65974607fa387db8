/* DeerFlow's provisioner as it speaks to its gateway: a sandbox is one of our boxes, with the id that the gateway chose for
 * it. Called through deerflow_routes. Invariant: only boxes with our label are seen, told or ended here; one id is one
 * user's and one thread's box for ever; and a box is "Running" for as long as a call on its URL would be served, since the
 * gateway throws away what is not. */
#include "front/deerflow/deerflow.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "front/answer.h"
#include "front/detail.h"
#include "front/routes.h"
#include "front/trail.h"

#define NAMESPACE "cubby"
enum { CONTRACT = 2, THREAD_BYTES = 64, EXTRA_MOST = 1000, PLACES_MS = 10000 };

struct create_args {
    struct row_text sandbox_id, thread_id, user_id;
    bool include_legacy_skills;
    struct row_list extra_mounts;
    struct row_number required_mount_contract_version;
};

#define ROW(member, kind, within) .name = #member, .type = ROW_##kind, .offset = offsetof(struct within, member)
static const struct row extra_fields[] = {
    {ROW(host_path, TEXT, deerflow_extra), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "directory of the gateway's host, below its home"},
    {ROW(container_path, TEXT, deerflow_extra), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "where it is seen in the box: one of the paths that DeerFlow has"},
    {ROW(read_only, BOOL, deerflow_extra), .text = "nothing can be written there"},
    {.name = NULL},
};
static const struct row create_fields[] = {
    {ROW(sandbox_id, TEXT, create_args), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "the box's id: 16 or 8 lower-case hex digits"},
    {ROW(thread_id, TEXT, create_args), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "1 to 64 letters, digits, _ and -; null: none"},
    {ROW(user_id, TEXT, create_args), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "letters, digits, _ and -; default: default"},
    {ROW(include_legacy_skills, BOOL, create_args), .text = "mount /mnt/skills/legacy"},
    {ROW(extra_mounts, OBJECTS, create_args), .max = EXTRA_MOST, .fields = extra_fields,
     .item_size = sizeof(struct deerflow_extra), .text = "further directories of the gateway, at most 10"},
    {ROW(required_mount_contract_version, INT, create_args), .max = UINT32_MAX,
     .text = "409 when the mounts are made by another contract than this"},
    {.name = NULL},
};
#undef ROW

#define SHOW(member, kind, sentence)                                                                                   \
    { .name = member, .type = ROW_##kind, .text = sentence }
static const struct row sandbox_answer[] = {
    SHOW("sandbox_id", TEXT, "the box's id"),
    SHOW("sandbox_url", TEXT, "where it speaks the AIO dialect"),
    {.name = "status", .type = ROW_TEXT, .choices = "Running|Unknown", .text = "Unknown: on a machine that is offline"},
    SHOW("user_id", TEXT, "whose it is"),
    SHOW("thread_id", TEXT, "of which conversation; without one its id"),
    SHOW("mount_contract_version", INT, "how its mounts are laid out"),
    {.name = NULL},
};
static const struct row list_answer[] = {
    {.name = "sandboxes", .type = ROW_OBJECTS, .fields = sandbox_answer, .text = "all that were provisioned"},
    SHOW("count", INT, "how many"),
    {.name = NULL},
};
static const struct row delete_answer[] = {SHOW("ok", BOOL, "true, also where there was none"),
                                           SHOW("sandbox_id", TEXT, "that was asked for"),
                                           {.name = NULL}};
static const struct row capabilities_answer[] = {SHOW("lark_cli_init_image", BOOL, "false"),
                                                 SHOW("lark_cli_broker_image", BOOL, "false"),
                                                 SHOW("mount_contract_version", INT, "how mounts are laid out"),
                                                 {.name = NULL}};
static const struct row health_answer[] = {SHOW("status", TEXT, "ok"), {.name = NULL}};
static const struct row reconciliation_answer[] = {
    SHOW("sandbox_id", TEXT, "that was asked for"),
    SHOW("backend_namespace", TEXT, "cubby"),
    {.name = "status", .type = ROW_TEXT, .choices = "found|absent", .text = "whether there is one"},
    SHOW("incarnation_id", TEXT, "another one when the box was deleted and made again"),
    SHOW("sandbox_url", TEXT, "as of the sandbox; this and the rest where it was found"),
    SHOW("user_id", TEXT, "as of the sandbox"),
    SHOW("thread_id", TEXT, "as of the sandbox"),
    SHOW("mount_contract_version", INT, "as of the sandbox"),
    {.name = NULL},
};
#undef SHOW

static int create(struct http_request *request, struct box *unused, struct err *err);
static int look(struct http_request *request, struct box *unused, struct err *err);
static int end(struct http_request *request, struct box *unused, struct err *err);
static int list(struct http_request *request, struct box *unused, struct err *err);
static int reconcile(struct http_request *request, struct box *unused, struct err *err);
static int capabilities(struct http_request *request, struct box *unused, struct err *err);
static int health(struct http_request *request, struct box *unused, struct err *err);

#define FLAGS (ENDPOINT_ADMIN | ENDPOINT_NO_BOX | ENDPOINT_LENIENT)
#define FINE(...) ENDPOINT(.status = 200, __VA_ARGS__)

static const struct route deerflow_routes[] = {
    {"POST", "/api/sandboxes", front_handle, 0, "deerflow_create",
     "Provision: the box of this id, made when there is none; its URL speaks the AIO dialect.",
     FINE(.run = create, .flags = FLAGS, .body = create_fields, .answer = sandbox_answer)},
    {"GET", "/api/sandboxes", front_handle, 0, "deerflow_sandboxes", "All boxes that were provisioned here.",
     FINE(.run = list, .flags = FLAGS, .answer = list_answer)},
    {"GET", "/api/sandboxes/{id}", front_handle, 0, "deerflow_sandbox", "One of them; nothing is started.",
     FINE(.run = look, .flags = FLAGS, .answer = sandbox_answer)},
    {"DELETE", "/api/sandboxes/{id}", front_handle, 0, "deerflow_delete",
     "End it, with its own files; what is mounted stays. One that is not there is no error.",
     FINE(.run = end, .flags = FLAGS, .answer = delete_answer)},
    {"GET", "/api/reconciliation/sandboxes/{id}", front_handle, 0, "deerflow_reconciliation",
     "Whether it is there, and whether it is still the one that was made.",
     FINE(.run = reconcile, .flags = FLAGS, .answer = reconciliation_answer)},
    {"GET", "/api/capabilities", front_handle, 0, "deerflow_capabilities", "What this provisioner can do.",
     FINE(.run = capabilities, .flags = FLAGS | ENDPOINT_QUIET, .answer = capabilities_answer)},
    {"GET", "/health", front_handle, ROUTE_QUICK, "deerflow_health", "Whether it serves; needs no key.",
     FINE(.run = health, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET | ENDPOINT_LENIENT, .answer = health_answer)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

/* ---- refusals ---- */

static bool claims(const char *path) {
    return !strncmp(path, "/api/", 5);
}

static int refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    (void)code;
    struct json json;
    bool routed = http_route(request);
    json_init(&json, out);
    json_open(&json, '{');
    json_put_str(&json, "detail",
                 !routed && status == 404   ? "Not Found"
                 : !routed && status == 405 ? "Method Not Allowed"
                                            : text);
    json_close(&json, '}');
    return status;
}

/* ---- who asks ---- */

static const struct provision_settings *provision(const struct http_request *request) {
    return front_own(request, &deerflow_dialect);
}

/* By their hashes, so that how long it takes tells nothing of the key, its length included. */
static bool same_key(const char *key, const char *wanted) {
    uint8_t a[32], b[32];
    SHA256((const unsigned char *)key, strlen(key), a);
    SHA256((const unsigned char *)wanted, strlen(wanted), b);
    return !CRYPTO_memcmp(a, b, sizeof a);
}

/* With a configured key that key, wherever the request comes from; without, as everywhere, and where that needs a token the
 * key may be one. A token that was sent is always judged. */
static int admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    const char *wanted = provision(request)->api_key, *key = http_header(request, "x-api-key");
    int failed;
    if (wanted && !http_header(request, "authorization"))
        failed = key && same_key(key, wanted) ? auth_admit_user(auth, request, NULL, needs, ret_who, err)
                                              : err_set(err, ERR_UNAUTHORIZED, "X-API-Key is missing or wrong");
    else
        failed = auth_admit(auth, request, needs, ret_who, err);
    if (failed == -ERR_UNAUTHORIZED && !wanted && key && !http_header(request, "authorization"))
        failed = auth_admit_token(auth, request, key, needs, ret_who, err);
    return failed == -ERR_UNAUTHORIZED ? err_wrap(err, "Unauthorized") : failed;
}

/* ---- one box ---- */

static bool ours(const struct box *box) {
    for (char **label = box->labels; label && *label; label++)
        if (!strcmp(*label, DEERFLOW_LABEL))
            return true;
    return false;
}

/* Whatever state its processes are in, a call on its URL waits for them, starts or starts them again. */
static const char *status(struct box *box) {
    struct err ignored;
    return box->ops->reach && box->state != BOX_EXPORTING && box->ops->reach(box->backend, &box->spec, &ignored) < 0
               ? "Unknown"
               : "Running";
}

static void put_identity(struct json *json, const struct box *box) {
    json_put_str(json, "user_id", box->user);
    json_put_str(json, "thread_id", box->thread ? box->thread : box->id);
    json_put_uint(json, "mount_contract_version", CONTRACT);
}

static void put_sandbox(struct json *json, struct http_request *request, struct box *box) {
    json_open(json, '{');
    json_put_str(json, "sandbox_id", box->id);
    json_put_str(json, "sandbox_url", routes_client()->url(request, box));
    json_put_str(json, "status", status(box));
    put_identity(json, box);
    json_close(json, '}');
}

static int answer_sandbox(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, 200);
    put_sandbox(&answer.json, request, box);
    trail_box(request, box);
    trail_box(request, NULL);
    return answer_end(&answer, 0, err);
}

/* To look at only, to be given back; NULL: there is none, or it is somebody else's business. */
static struct box *find(struct http_request *request) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    struct err ignored;
    if (provider_look(provider, NULL, http_param(request, "id"), &box, &ignored) == 0 && ours(box))
        return box;
    provider_look_end(provider, box);
    return NULL;
}

static int look(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct box *box = find(request);
    if (!box)
        return err_set(err, ERR_NOT_FOUND, "Sandbox '%.100s' not found", http_param(request, "id"));
    int failed = answer_sandbox(request, box, err);
    provider_look_end(front_of(request)->provider, box);
    return failed;
}

static int reconcile(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    char incarnation[40];
    autoanswer answer;
    answer_init(&answer, request, 200);
    struct json *json = &answer.json;
    struct box *box = find(request);
    json_open(json, '{');
    json_put_str(json, "sandbox_id", http_param(request, "id"));
    json_put_str(json, "backend_namespace", NAMESPACE);
    json_put_str(json, "status", box ? "found" : "absent");
    if (box) {
        snprintf(incarnation, sizeof incarnation, "%s-%" PRIu64, box->id, box->created_ms);
        json_put_str(json, "incarnation_id", incarnation);
        json_put_str(json, "sandbox_url", routes_client()->url(request, box));
        put_identity(json, box);
        provider_look_end(front_of(request)->provider, box);
    }
    json_close(json, '}');
    return answer_end(&answer, 0, err);
}

/* ---- making ---- */

static bool is_word(const struct row_text *text, size_t most) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return text->len > 0 && text->len <= most && strspn(text->data, letters) == text->len;
}

/* 0, or a refusal that has been answered. */
static int create_check(struct http_request *request, const struct create_args *args) {
    char text[200];
    if (!text_id(args->sandbox_id.data) || strlen(args->sandbox_id.data) != args->sandbox_id.len)
        return detail_unfit(request, "sandbox_id", "String should be 16 or 8 lower-case hexadecimal digits");
    if (args->thread_id.data && !is_word(&args->thread_id, THREAD_BYTES))
        return detail_unfit(request, "thread_id", "String should match pattern '^[A-Za-z0-9_-]{1,64}$'");
    if (args->user_id.data && !is_word(&args->user_id, LIMIT_USER_BYTES)) {
        snprintf(text, sizeof text, "String should match pattern '^[A-Za-z0-9_\\-]+$' and have at most %u characters",
                 LIMIT_USER_BYTES);
        return detail_unfit(request, "user_id", text);
    }
    const struct row_number *wanted = &args->required_mount_contract_version;
    if (!wanted->has || wanted->value == CONTRACT)
        return 0;
    static const char changed[] = "{\"detail\":{\"code\":\"mount_contract_changed\",\"actual\":2}}";
    int failed = http_reply(request, 409, "application/json", changed, strlen(changed));
    return failed < 0 ? failed : ERR_EXISTS;
}

static int ignore_output(void *user, int stream, const uint8_t *data, size_t len) {
    (void)user, (void)stream, (void)data, (void)len;
    return 0;
}

/* What its clients expect to be there, where nothing of the host is: directories of the box's own. */
static void make_places(struct http_request *request, struct box *box) {
    const char *argv[16] = {"mkdir", "-p", "-m", "0777"};
    size_t count = 4;
    for (size_t i = 0; deerflow_places[i]; i++)
        argv[count++] = deerflow_places[i];
    const struct exec_request command = {.argv = argv, .cwd = "/", .root = true, .timeout_ms = PLACES_MS};
    const struct exec_sink sink = {.output = ignore_output};
    struct exec_result result = {0};
    struct err err = {0};
    int failed = box_exec(box, &command, &sink, http_fd(request), &result, &err);
    if (failed < 0 || !result.exited || result.exit_code)
        log_warn("box %s: its directories below /mnt could not be made%s%s", box->id, failed < 0 ? ": " : "",
                 failed < 0 ? err.text : "");
}

static int create_box(struct http_request *request, const struct create_args *args, struct box **ret_box,
                      struct err *err) {
    static const char *labels[] = {DEERFLOW_LABEL, NULL};
    const struct provision_settings *settings = provision(request);
    const char *thread = args->thread_id.data;
    const struct deerflow_box asked = {.id = args->sandbox_id.data,
                                       .user = args->user_id.data ? args->user_id.data : "default",
                                       .thread = thread ? thread : args->sandbox_id.data,
                                       .legacy_skills = args->include_legacy_skills,
                                       .extra = args->extra_mounts.items,
                                       .extra_count = args->extra_mounts.count};
    struct box_request wanted = {.id = asked.id,
                                 .user = asked.user,
                                 .thread = thread,
                                 .thread_len = args->thread_id.len,
                                 .backend = settings->backend,
                                 .template_name = settings->template_name,
                                 .network = settings->network,
                                 .env = (const char **)(uintptr_t)settings->env,
                                 .labels = labels};
    bool created = false;
    int failed = deerflow_mounts(settings, &asked, http_arena(request), &wanted.mounts, &wanted.mount_count, err);
    if (!failed)
        failed = provider_acquire(front_of(request)->provider, &wanted, ret_box, &created, err);
    if (!failed && !ours(*ret_box)) {
        failed = err_set(err, ERR_EXISTS,
                         "Sandbox '%s' is a box that was not provisioned here: delete it first (DELETE /v1/boxes/%s)",
                         asked.id, asked.id);
        provider_put(front_of(request)->provider, *ret_box);
    }
    if (!failed && !settings->home)
        make_places(request, *ret_box);
    if (!failed && created) /* a gateway makes a box when there is a command for it: its shell starts meanwhile */
        routes_client()->prepare(*ret_box);
    return failed;
}

static int create(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct create_args args = {0};
    struct box *box = NULL;
    int failed = detail_body(request, &args, err);
    if (!failed)
        failed = create_check(request, &args);
    if (!failed)
        failed = create_box(request, &args, &box, err);
    if (failed)
        return failed;
    failed = answer_sandbox(request, box, err);
    provider_put(front_of(request)->provider, box);
    return failed;
}

/* ---- ending and listing ---- */

static int end(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct provider *provider = front_of(request)->provider;
    const char *id = http_param(request, "id");
    struct box *box = find(request);
    int failed = 0;
    if (box) {
        trail_box(request, box);
        trail_box(request, NULL);
        provider_look_end(provider, box);
        failed = provider_destroy(provider, NULL, id, err);
    }
    if (failed < 0 && failed != -ERR_NOT_FOUND) {
        err->code = ERR_IO; /* its gateway knows one status of a failure: 500 */
        return err_wrap(err, "Partial cleanup");
    }
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_bool(&answer.json, "ok", true);
    json_put_str(&answer.json, "sandbox_id", id);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

struct listing {
    struct http_request *request;
    struct answer *answer;
    uint64_t count;
};

static int list_one(void *user, struct box *box) {
    struct listing *listing = user;
    if (!ours(box))
        return 0;
    put_sandbox(&listing->answer->json, listing->request, box);
    listing->count++;
    return answer_spill(listing->answer);
}

static int list(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autoanswer answer;
    struct listing listing = {.request = request, .answer = &answer};
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "sandboxes", '[');
    provider_each(front_of(request)->provider, list_one, &listing);
    json_close(&answer.json, ']');
    json_put_uint(&answer.json, "count", listing.count);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

/* ---- itself ---- */

static int capabilities(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    autoanswer answer;
    answer_init(&answer, request, 200);
    struct json *json = &answer.json;
    json_open(json, '{');
    json_put_bool(json, "lark_cli_init_image", false);
    json_put_bool(json, "lark_cli_broker_image", false);
    json_put_uint(json, "mount_contract_version", CONTRACT);
    json_close(json, '}');
    return answer_end(&answer, 0, err);
}

static int health(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    static const char fine[] = "{\"status\":\"ok\"}";
    (void)err;
    return http_reply(request, 200, "application/json", fine, strlen(fine));
}

static const struct route *const tables[] = {deerflow_routes, NULL};
const struct dialect deerflow_dialect = {.routes = tables,
                                         .label = DEERFLOW_LABEL,
                                         .title = "DeerFlow provisioner",
                                         .admit = admit,
                                         .claims = claims,
                                         .refuse = refuse};
