/* Secrets of E2B's clients: the same store as cubby's own, with metadata instead of hosts. Called through
 * e2b_secret_routes. Invariant: no answer and no log holds a value. */
#include <ctype.h>

#include "base/base.h"
#include "base/log.h"
#include "box/secret/secret.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/secret.h"
#include "store/db.h"

enum { SECRET_VALUE_BYTES = LIMIT_STORED_SECRET_BYTES, SECRET_METADATA_BYTES = 16 << 10 };

/* Values of before secrets were sealed lie in a file of their own: each is taken over once, and the file goes. */
static const struct db_kind secret_kind = {
    .name = "e2b.db", .what = "secrets", .application = 0x63756265, .version = 1};

void e2b_secrets_begin(const char *directory, struct secrets *secrets) {
    struct db db = {0};
    struct err err = {0};
    const char *path = text_make(LIMIT_PATH_BYTES, "%s/e2b.db", directory);
    if (!secrets || access(path, F_OK) < 0)
        return;
    autoquery query = {0};
    int row = db_open_reading(&secret_kind, directory, &db, &err)
                  ?: db_query(&db, &query, &err, "SELECT user, name, value, metadata FROM secret", "");
    while (row >= 0 && (row = query_next(&query, &err)) > 0) {
        const struct secret_use use = {.metadata = query_text(&query, 3)};
        const char *value = query_text(&query, 2);
        row = secret_save(secrets, query_text(&query, 0), query_text(&query, 1), SECRET_NEW, &use, value, strlen(value),
                          &err);
        row = row == -ERR_EXISTS ? 0 : row;
    }
    query_end(&query);
    db_close(&db);
    if (row < 0)
        log_warn("STATE/e2b.db: %s", err.text);
    else
        unlink(path);
}

/* ---- requests ---- */

struct e2b_secret_args {
    struct row_text name, value;
};
#define SECRET_ROW(member)                                                                                             \
    .name = #member, .type = ROW_TEXT, .flags = ROW_REQUIRED, .offset = offsetof(struct e2b_secret_args, member)
static const struct row secret_create_body[] = {
    {SECRET_ROW(name), .min = 1, .max = 128, .text = "Letters, digits, _ and -."},
    {SECRET_ROW(value), .max = SECRET_VALUE_BYTES, .text = "Never given out again."},
    {.name = NULL, .flags = ROW_LENIENT},
};

static const char *secret_user(struct http_request *request) {
    const char *user = front_who(request)->user;
    return user ? user : "default";
}

/* In lower case; INVALID. */
static int secret_name(struct http_request *request, const char *text, const char **ret_name, struct err *err) {
    char *name = arena_strdup(http_arena(request), text);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!*name || strlen(name) > 128 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(name))
        return err_set(err, ERR_INVALID, "a secret's name is 1 to 128 letters, digits, _ and -");
    *ret_name = name;
    return 0;
}

static int secret_metadata(struct http_request *request, const json_t *root, const char **ret_text, struct err *err) {
    const json_t *metadata = json_object_get(root, "metadata");
    const char *key;
    json_t *value;
    if (metadata && !json_is_null(metadata) && !json_is_object(metadata))
        return err_set(err, ERR_INVALID, "metadata must be an object of strings");
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "metadata: the value of '%.100s' must be a string", key);
    }
    *ret_text = e2b_member(request, root, "metadata");
    if (*ret_text && strlen(*ret_text) > SECRET_METADATA_BYTES)
        return err_set(err, ERR_INVALID, "metadata has more than %d bytes", SECRET_METADATA_BYTES);
    return 0;
}

static void secret_put_json(struct json *json, const struct secret *secret) {
    const char *metadata = secret->use.metadata ? secret->use.metadata : "{}";
    json_open(json, '{');
    json_put_str(json, "secretID", secret->row.id);
    json_put_str(json, "name", secret->row.name);
    json_put_uint(json, "currentVersion", secret->row.version);
    json_key(json, "metadata");
    json_raw(json, metadata, strlen(metadata));
    e2b_put_time(json, "createdAt", secret->row.created_us);
    e2b_put_time(json, "updatedAt", secret->row.updated_us);
    json_close(json, '}');
}

/* The one by id or name; positive: it is not there, which has been answered. */
static int secret_look_up(struct http_request *request, const char *name, struct secret *ret_secret, struct err *err) {
    struct secrets *secrets = front_of(request)->secrets;
    if (!secrets)
        return err_set(err, ERR_UNSUPPORTED, "this daemon keeps no secrets");
    int failed = secret_get(secrets, secret_user(request), name, http_arena(request), ret_secret, err);
    return failed == -ERR_NOT_FOUND ? e2b_fail(request, 404, ERR_NOT_FOUND, "secret '%.130s' not found", name) : failed;
}

static int secret_answer_one(struct http_request *request, int status, const char *name, struct err *err) {
    autobuf out = buf_max(65536);
    struct secret secret;
    struct json json;
    STEP(secret_look_up(request, name, &secret, err));
    json_init(&json, &out);
    secret_put_json(&json, &secret);
    return e2b_json(request, status, &out, err);
}

static int secret_create(struct http_request *request, struct box *, struct err *err) {
    struct e2b_secret_args args = {0};
    json_t *root;
    const char *name = NULL, *metadata = NULL;
    int failed = e2b_body(request, &args, &root, err);
    if (failed)
        return failed;
    failed = secret_name(request, args.name.data, &name, err) ?: secret_metadata(request, root, &metadata, err);
    json_decref(root);
    if (!failed && !front_of(request)->secrets)
        failed = err_set(err, ERR_UNSUPPORTED, "this daemon keeps no secrets");
    const struct secret_use use = {.metadata = metadata};
    if (!failed)
        failed = secret_save(front_of(request)->secrets, secret_user(request), name, SECRET_NEW, &use, args.value.data,
                             args.value.len, err);
    return failed ? failed : secret_answer_one(request, 201, name, err);
}

/* What the secret is for stays, also where another dialect set it. */
static int secret_change(struct http_request *request, struct box *, struct err *err) {
    struct e2b_secret_args args = {0};
    struct secret secret;
    json_t *root;
    const char *name = http_param(request, "secret"), *metadata = NULL;
    int failed = e2b_body(request, &args, &root, err);
    if (failed)
        return failed;
    failed = secret_metadata(request, root, &metadata, err);
    json_decref(root);
    STEP(failed ?: secret_look_up(request, name, &secret, err));
    secret.use.metadata = metadata ? metadata : secret.use.metadata;
    STEP(secret_save(front_of(request)->secrets, secret_user(request), secret.row.name, SECRET_OLD, &secret.use,
                     args.value.data, args.value.len, err));
    return secret_answer_one(request, 200, name, err);
}

static int secret_look(struct http_request *request, struct box *, struct err *err) {
    return secret_answer_one(request, 200, http_param(request, "secret"), err);
}

static int secret_delete(struct http_request *request, struct box *, struct err *err) {
    const char *name = http_param(request, "secret");
    struct secret secret;
    STEP(secret_look_up(request, name, &secret, err));
    return secret_remove(front_of(request)->secrets, secret_user(request), name, err) ?: front_empty(request, 204);
}

/* The newest first. */
static int secret_newer(const void *left, const void *right) {
    const struct secret *a = left, *b = right;
    if (a->row.created_us != b->row.created_us)
        return a->row.created_us < b->row.created_us ? 1 : -1;
    return strcmp(b->row.id, a->row.id);
}

static int secret_list_all(struct http_request *request, struct box *, struct err *err) {
    struct e2b_page page;
    struct json json;
    struct secret *list = NULL;
    size_t count = 0;
    uint64_t written = 0;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    STEP(e2b_page(request, false, &page, err));
    if (front_of(request)->secrets)
        TRY(secret_list(front_of(request)->secrets, false, secret_user(request), http_arena(request), &list, &count,
                        err));
    qsort(list, count, sizeof *list, secret_newer);
    json_init(&json, &out);
    json_open(&json, '[');
    for (size_t i = 0, last = 0; i < count; i++) {
        if (!e2b_page_after(&page, list[i].row.created_us, list[i].row.id))
            continue;
        if (written == page.limit) {
            e2b_page_next(request, &page, list[last].row.created_us, list[last].row.id);
            break;
        }
        secret_put_json(&json, &list[i]);
        last = i;
        written++;
    }
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

#define SECRET_ROUTE(method, path, name, summary, ...)                                                                 \
    {                                                                                                                  \
        (method), (path), front_handle, 0, (name), (summary),                                                          \
            ENDPOINT(.flags = ENDPOINT_LENIENT | ENDPOINT_NO_BOX, __VA_ARGS__)                                         \
    }
const struct route e2b_secret_routes[] = {
    SECRET_ROUTE("POST", "/secrets", "e2b_secret_create", "E2B: store a secret", .run = secret_create,
                 .body = secret_create_body, .status = 201),
    SECRET_ROUTE("GET", "/secrets", "e2b_secrets", "E2B: secrets without their values", .run = secret_list_all,
                 .status = 200),
    SECRET_ROUTE("GET", "/secrets/{secret}", "e2b_secret", "E2B: a secret without its value", .run = secret_look,
                 .status = 200),
    SECRET_ROUTE("POST", "/secrets/{secret}", "e2b_secret_change", "E2B: another value of a secret",
                 .run = secret_change, .body = secret_create_body + 1 /* the value alone */, .status = 200),
    SECRET_ROUTE("DELETE", "/secrets/{secret}", "e2b_secret_delete", "E2B: remove a secret", .run = secret_delete,
                 .status = 204),
    {0},
};
