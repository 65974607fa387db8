/* The API of DeerFlow's provisioner for its gateway: a sandbox is one of our boxes, with the id that the gateway chose.
 * Called through deerflow_routes. Invariant: only boxes with our label are shown or deleted here; an id is always the
 * box of one user and one thread; a box is "Running" as long as a call on its URL would be served, because the gateway
 * discards other boxes. */
#include "front/deerflow/deerflow.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/log.h"
#include "front/detail.h"
#include "front/routes.h"

enum { CONTRACT = 2, THREAD_BYTES = 64, EXTRA_MOST = 1000, PLACES_MS = 10000 };

struct deerflow_create_args {
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
    {ROW(sandbox_id, TEXT, deerflow_create_args), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "the box's id: 16 or 8 lower-case hex digits"},
    {ROW(thread_id, TEXT, deerflow_create_args), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "1 to 64 letters, digits, _ and -; null: none"},
    {ROW(user_id, TEXT, deerflow_create_args), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "letters, digits, _ and -; default: default"},
    {ROW(include_legacy_skills, BOOL, deerflow_create_args), .text = "mount /mnt/skills/legacy"},
    {ROW(extra_mounts, OBJECTS, deerflow_create_args), .max = EXTRA_MOST, .fields = extra_fields,
     .item_size = sizeof(struct deerflow_extra), .text = "further directories of the gateway, at most 10"},
    {ROW(required_mount_contract_version, INT, deerflow_create_args), .max = UINT32_MAX,
     .text = "409 when the mounts are made by another contract than this"},
    {.name = NULL},
};
#undef ROW

struct deerflow_sandbox {
    const char *id, *url, *status, *user, *thread, *space, *incarnation;
    struct row_number contract;
};
#define SANDBOX(label, member, sentence) OUT_MAYBE(label, TEXT, deerflow_sandbox, member, sentence)
#define STATUS_ROW(words, sentence)                                                                                    \
    {                                                                                                                  \
        .name = "status", .type = ROW_TEXT, .offset = offsetof(struct deerflow_sandbox, status),                       \
        .item_size = sizeof(char *), .max = INT64_MAX, .choices = (words), .text = (sentence)                          \
    }
static const struct row sandbox_answer[] = {
    OUT("sandbox_id", TEXT, deerflow_sandbox, id, "the box's id"),
    OUT("sandbox_url", TEXT, deerflow_sandbox, url, "where it speaks the AIO dialect"),
    STATUS_ROW("Running|Unknown", "Unknown: on a machine that is offline"),
    OUT("user_id", TEXT, deerflow_sandbox, user, "the user it belongs to"),
    OUT("thread_id", TEXT, deerflow_sandbox, thread, "its conversation; without one its id"),
    OUT_INT("mount_contract_version", deerflow_sandbox, contract.value, "how its mounts are laid out"),
    {.name = NULL},
};
static const struct row reconciliation_answer[] = {
    OUT("sandbox_id", TEXT, deerflow_sandbox, id, "the requested id"),
    OUT("backend_namespace", TEXT, deerflow_sandbox, space, "cubby"),
    STATUS_ROW("found|absent", "whether it exists"),
    SANDBOX("incarnation_id", incarnation, "differs when the box was deleted and made again"),
    SANDBOX("sandbox_url", url, "as of the sandbox; this and the rest where it was found"),
    SANDBOX("user_id", user, "as of the sandbox"),
    SANDBOX("thread_id", thread, "as of the sandbox"),
    OUT_MAYBE("mount_contract_version", INT, deerflow_sandbox, contract, "as of the sandbox"),
    {.name = NULL},
};

struct deerflow_facts { /* members of all other answers */
    struct row_list sandboxes;
    uint64_t count, contract;
    bool ok, lark_cli;
    const char *id, *status;
};
static const struct row list_answer[] = {
    OUT_LIST("sandboxes", deerflow_facts, sandboxes, deerflow_sandbox, sandbox_answer, "all that were provisioned"),
    OUT_INT("count", deerflow_facts, count, "how many"),
    {.name = NULL},
};
static const struct row delete_answer[] = {OUT("ok", BOOL, deerflow_facts, ok, "true, also if it did not exist"),
                                           OUT("sandbox_id", TEXT, deerflow_facts, id, "the requested id"),
                                           {.name = NULL}};
static const struct row capabilities_answer[] = {
    OUT("lark_cli_init_image", BOOL, deerflow_facts, lark_cli, "false"),
    OUT("lark_cli_broker_image", BOOL, deerflow_facts, lark_cli, "false"),
    OUT_INT("mount_contract_version", deerflow_facts, contract, "how mounts are laid out"),
    {.name = NULL}};
static const struct row health_answer[] = {OUT("status", TEXT, deerflow_facts, status, "ok"), {.name = NULL}};

#define FLAGS (ENDPOINT_ADMIN | ENDPOINT_NO_BOX | ENDPOINT_LENIENT)
#define FINE(...) ENDPOINT(.status = 200, __VA_ARGS__)

/* ---- refusals ---- */

static bool deerflow_claims(const char *path) {
    return !strncmp(path, "/api/", 5);
}

static int deerflow_refuse(struct http_request *request, int status, const char *, const char *text, struct buf *out) {
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    json_put_str(&json, "detail",
                 http_route(request) ? text
                 : status == 404     ? "Not Found"
                 : status == 405     ? "Method Not Allowed"
                                     : text);
    json_close(&json, '}');
    return status;
}

/* ---- who asks ---- */

static const struct provision_settings *deerflow_settings(const struct http_request *request) {
    return front_own(request, &deerflow_dialect);
}

/* A configured key is required wherever the request comes from. Without one, requests are admitted as in other
 * dialects, and where that requires a token the key may be one. A token that was sent is always checked. */
static int deerflow_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    struct auth *auth = front_of(request)->auth;
    const char *wanted = deerflow_settings(request)->api_key, *key = http_header(request, "x-api-key");
    bool token = http_header(request, "authorization");
    uint8_t a[32], b[32];
    int failed;
    if (wanted && !token) {
        /* compares hashes, so that timing reveals nothing about the key, not even its length */
        SHA256((const unsigned char *)(key ? key : ""), key ? strlen(key) : 0, a);
        SHA256((const unsigned char *)wanted, strlen(wanted), b);
        failed = key && !CRYPTO_memcmp(a, b, sizeof a)
                     ? auth_admit_user(auth, request, NULL, needs, ret_who, err)
                     : err_set(err, ERR_UNAUTHORIZED, "X-API-Key is missing or wrong");
    } else {
        failed = auth_admit(auth, request, needs, ret_who, err);
    }
    if (failed == -ERR_UNAUTHORIZED && !wanted && key && !token)
        failed = auth_admit_token(auth, request, key, needs, ret_who, err);
    return failed == -ERR_UNAUTHORIZED ? err_wrap(err, "Unauthorized") : failed;
}

/* ---- one box ---- */

static bool deerflow_ours(const struct box *box) {
    for (char **label = box->labels; label && *label; label++)
        if (!strcmp(*label, DEERFLOW_LABEL))
            return true;
    return false;
}

/* Running in any state of its processes: a call on its URL waits for them or starts them. */
static struct deerflow_sandbox deerflow_sandbox(struct http_request *request, struct box *box) {
    bool offline = box->state != BOX_EXPORTING && box_offline(box);
    return (struct deerflow_sandbox){.id = box->id,
                                     .url = routes_client()->url(request, box),
                                     .status = offline ? "Unknown" : "Running",
                                     .user = box->user,
                                     .thread = box->thread ? box->thread : box->id,
                                     .contract = {true, CONTRACT}};
}

static int deerflow_answer(struct http_request *request, struct box *box, struct err *err) {
    struct deerflow_sandbox sandbox = deerflow_sandbox(request, box);
    int failed = answer_rows(request, 200, sandbox_answer, &sandbox, err);
    trail_box(request, box);
    trail_box(request, NULL);
    return failed;
}

/* Gets a box for reading, until provider_look_end. NULL: no box with our label. */
static struct box *deerflow_find(struct http_request *request) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    if (provider_look(provider, NULL, http_param(request, "id"), &box, ERR_IGNORED) == 0 && deerflow_ours(box))
        return box;
    provider_look_end(provider, box);
    return NULL;
}

static int deerflow_look(struct http_request *request, struct box *, struct err *err) {
    struct box *box = deerflow_find(request);
    if (!box)
        return err_set(err, ERR_NOT_FOUND, "Sandbox '%.100s' not found", http_param(request, "id"));
    int failed = deerflow_answer(request, box, err);
    provider_look_end(front_of(request)->provider, box);
    return failed;
}

static int deerflow_reconcile(struct http_request *request, struct box *, struct err *err) {
    struct box *box = deerflow_find(request);
    struct deerflow_sandbox sandbox = {0};
    if (box) {
        sandbox = deerflow_sandbox(request, box);
        sandbox.incarnation = arena_printf(http_arena(request), "%s-%" PRIu64, box->id, box->created_ms);
    }
    sandbox.id = http_param(request, "id");
    sandbox.space = "cubby";
    sandbox.status = box ? "found" : "absent";
    int failed = answer_rows(request, 200, reconciliation_answer, &sandbox, err);
    provider_look_end(front_of(request)->provider, box);
    return failed;
}

/* ---- making ---- */

static bool deerflow_word(const struct row_text *text, size_t most) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return text->len > 0 && text->len <= most && strspn(text->data, letters) == text->len;
}

/* Returns 0, or a refusal that was answered. */
static int deerflow_check(struct http_request *request, const struct deerflow_create_args *args) {
    char text[200];
    if (!text_id(args->sandbox_id.data) || strlen(args->sandbox_id.data) != args->sandbox_id.len)
        return detail_unfit(request, "sandbox_id", "String should be 16 or 8 lower-case hexadecimal digits");
    if (args->thread_id.data && !deerflow_word(&args->thread_id, THREAD_BYTES))
        return detail_unfit(request, "thread_id", "String should match pattern '^[A-Za-z0-9_-]{1,64}$'");
    if (args->user_id.data && !deerflow_word(&args->user_id, LIMIT_USER_BYTES)) {
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

/* Makes the directories that clients expect, where nothing of the host is mounted. */
static void deerflow_make_places(struct http_request *request, struct box *box) {
    const char *argv[16] = {"mkdir", "-p", "-m", "0777"};
    size_t count = 4;
    for (size_t i = 0; deerflow_places[i]; i++)
        argv[count++] = deerflow_places[i];
    const struct exec_request command = {.argv = argv, .cwd = "/", .root = true, .timeout_ms = PLACES_MS};
    const struct exec_sink sink = {0};
    struct exec_result result = {0};
    struct err err = {0};
    int failed = box_exec(box, &command, &sink, http_fd(request), &result, &err);
    if (failed < 0 || !result.exited || result.exit_code)
        log_warn("box %s: cannot make its directories below /mnt%s%s", box->id, failed < 0 ? ": " : "",
                 failed < 0 ? err.text : "");
}

static int deerflow_make(struct http_request *request, const struct deerflow_create_args *args, struct box **ret_box,
                         struct err *err) {
    static const char *labels[] = {DEERFLOW_LABEL, NULL};
    const struct provision_settings *settings = deerflow_settings(request);
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
    int failed = deerflow_mounts(settings, &asked, http_arena(request), &wanted.mounts, &wanted.mount_count, err)
                     ?: provider_acquire(front_of(request)->provider, &wanted, ret_box, &created, err);
    if (!failed && !deerflow_ours(*ret_box)) {
        failed = err_set(err, ERR_EXISTS,
                         "Sandbox '%s' is a box that was not provisioned here: delete it first (DELETE /v1/boxes/%s)",
                         asked.id, asked.id);
        provider_put(front_of(request)->provider, *ret_box);
    }
    if (!failed && !settings->home)
        deerflow_make_places(request, *ret_box);
    if (!failed && created) /* a gateway makes a box when it has a command, so start the shell now */
        routes_client()->prepare(*ret_box);
    return failed;
}

static int deerflow_create(struct http_request *request, struct box *, struct err *err) {
    struct deerflow_create_args args = {0};
    struct box *box = NULL;
    STEP(detail_body(request, &args, err)
                 ?: deerflow_check(request, &args)
                 ?: deerflow_make(request, &args, &box, err));
    int failed = deerflow_answer(request, box, err);
    provider_put(front_of(request)->provider, box);
    return failed;
}

/* ---- deleting and listing ---- */

static int deerflow_delete(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const struct deerflow_facts facts = {.ok = true, .id = http_param(request, "id")};
    struct box *box = deerflow_find(request);
    int failed = 0;
    if (box) {
        trail_box(request, box);
        trail_box(request, NULL);
        provider_look_end(provider, box);
        failed = provider_destroy(provider, NULL, facts.id, err);
    }
    if (failed < 0 && failed != -ERR_NOT_FOUND) {
        err->code = ERR_IO; /* the gateway only knows 500 as a failure */
        return err_wrap(err, "Partial cleanup");
    }
    return answer_rows(request, 200, delete_answer, &facts, err);
}

struct deerflow_listing {
    struct http_request *request;
    struct answer answer;
    struct deerflow_facts facts;
};

static int deerflow_list_one(void *user, struct box *box) {
    struct deerflow_listing *listing = user;
    if (!deerflow_ours(box))
        return 0;
    struct deerflow_sandbox sandbox = deerflow_sandbox(listing->request, box);
    listing->facts.count++;
    return answer_item(&listing->answer, &sandbox);
}

static int deerflow_list(struct http_request *request, struct box *, struct err *err) {
    struct deerflow_listing listing = {.request = request};
    answer_list(&listing.answer, request, list_answer);
    provider_each(front_of(request)->provider, deerflow_list_one, &listing);
    int failed = answer_list_end(&listing.answer, &listing.facts, 0, err);
    answer_done(&listing.answer);
    return failed;
}

/* ---- the provisioner itself ---- */

static int deerflow_capabilities(struct http_request *request, struct box *, struct err *err) {
    const struct deerflow_facts facts = {.contract = CONTRACT};
    return answer_rows(request, 200, capabilities_answer, &facts, err);
}

static int deerflow_health(struct http_request *request, struct box *, struct err *err) {
    const struct deerflow_facts facts = {.status = "ok"};
    return answer_rows(request, 200, health_answer, &facts, err);
}

/* ---- routes ---- */

static const struct route deerflow_routes[] = {
    {"POST", "/api/sandboxes", front_handle, 0, "deerflow_create",
     "Provision: the box of this id, made if it does not exist; its URL speaks the AIO dialect.",
     FINE(.run = deerflow_create, .flags = FLAGS, .body = create_fields, .answer = sandbox_answer)},
    {"GET", "/api/sandboxes", front_handle, 0, "deerflow_sandboxes", "All boxes that were provisioned here.",
     FINE(.run = deerflow_list, .flags = FLAGS, .answer = list_answer)},
    {"GET", "/api/sandboxes/{id}", front_handle, 0, "deerflow_sandbox", "One of them; nothing is started.",
     FINE(.run = deerflow_look, .flags = FLAGS, .answer = sandbox_answer)},
    {"DELETE", "/api/sandboxes/{id}", front_handle, 0, "deerflow_delete",
     "Delete it with its own files; what is mounted stays. Success also if it does not exist.",
     FINE(.run = deerflow_delete, .flags = FLAGS, .answer = delete_answer)},
    {"GET", "/api/reconciliation/sandboxes/{id}", front_handle, 0, "deerflow_reconciliation",
     "Whether it is there, and whether it is still the one that was made.",
     FINE(.run = deerflow_reconcile, .flags = FLAGS, .answer = reconciliation_answer)},
    {"GET", "/api/capabilities", front_handle, 0, "deerflow_capabilities", "What this provisioner can do.",
     FINE(.run = deerflow_capabilities, .flags = FLAGS | ENDPOINT_QUIET, .answer = capabilities_answer)},
    {"GET", "/health", front_handle, ROUTE_QUICK, "deerflow_health", "Whether the daemon serves; needs no key.",
     FINE(.run = deerflow_health, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET | ENDPOINT_LENIENT, .answer = health_answer)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static const struct route *const deerflow_tables[] = {deerflow_routes, NULL};
const struct dialect deerflow_dialect = {.name = "deerflow",
                                         .routes = deerflow_tables,
                                         .label = DEERFLOW_LABEL,
                                         .title = "DeerFlow provisioner",
                                         .admit = deerflow_admit,
                                         .claims = deerflow_claims,
                                         .refuse = deerflow_refuse};
