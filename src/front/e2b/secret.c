/* Secrets: stored for whatever will use them at the edge, never given out. Called through e2b_secret_routes. Invariant:
 * no answer and no log holds a value. */
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/sync.h"
#include "base/text.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/secret.h"
#include "store/db.h"

enum { SECRETS_MOST = 1000, SECRET_VALUE_BYTES = 64 << 10, SECRET_METADATA_BYTES = 16 << 10 };

static const struct db_kind secret_kind = {
    .name = "e2b.db",
    .what = "secrets",
    .application = 0x63756265, /* "cube" */
    .version = 1,
    .schema =
        "CREATE TABLE secret(user TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL UNIQUE, value TEXT NOT NULL,"
        "version INTEGER NOT NULL, metadata TEXT NOT NULL, created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL,"
        "PRIMARY KEY(user, name))",
    .pragmas = "PRAGMA synchronous=FULL;PRAGMA secure_delete=ON",
    .closed = true,
};

struct e2b_secrets {
    struct db db;
    pthread_mutex_t lock; /* of the connection */
};

int e2b_secrets_open(const char *directory, struct e2b_secrets **ret_secrets, struct err *err) {
    struct e2b_secrets *secrets = xcalloc(1, sizeof *secrets);
    int failed = db_open(&secret_kind, directory, &secrets->db, err);
    if (failed) {
        free(secrets);
        return err_wrap(err, "STATE/e2b.db");
    }
    pthread_mutex_init(&secrets->lock, NULL);
    *ret_secrets = secrets;
    return 0;
}

void e2b_secrets_close(struct e2b_secrets *secrets) {
    if (!secrets)
        return;
    db_close(&secrets->db);
    pthread_mutex_destroy(&secrets->lock);
    free(secrets);
}

/* ---- requests ---- */

struct secret_args {
    struct row_text name, value;
};
static const struct row secret_create_body[] = {
    {.name = "name",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED,
     .min = 1,
     .max = 128,
     .offset = offsetof(struct secret_args, name),
     .text = "Letters, digits, _ and -."},
    {.name = "value",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED,
     .max = SECRET_VALUE_BYTES,
     .offset = offsetof(struct secret_args, value),
     .text = "Never given out again."},
    {.name = NULL, .flags = ROW_LENIENT},
};
static const struct row secret_change_body[] = {
    {.name = "value",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED,
     .max = SECRET_VALUE_BYTES,
     .offset = offsetof(struct secret_args, value),
     .text = "Never given out again."},
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

#define SECRET_COLUMNS "SELECT id, name, version, metadata, created_us, updated_us FROM secret "

static void secret_put(struct json *json, const struct query *query) {
    const char *metadata = query_text(query, 3);
    json_open(json, '{');
    json_put_str(json, "secretID", query_text(query, 0));
    json_put_str(json, "name", query_text(query, 1));
    json_put_int(json, "currentVersion", query_int(query, 2));
    json_key(json, "metadata");
    json_raw(json, metadata, strlen(metadata));
    e2b_put_time(json, "createdAt", (uint64_t)query_int(query, 4));
    e2b_put_time(json, "updatedAt", (uint64_t)query_int(query, 5));
    json_close(json, '}');
}

static int secret_none(struct http_request *request, const char *name) {
    return e2b_fail(request, 404, ERR_NOT_FOUND, "secret '%.130s' not found", name);
}

/* The one by id or name into out; positive: it is not there, which has been answered. Under the lock. */
static int secret_look_locked(struct http_request *request, const char *name, struct buf *out, struct err *err) {
    autoquery query = {0};
    struct json json;
    int failed = db_query(&e2b_state(request)->secrets->db, &query, err,
                          SECRET_COLUMNS "WHERE user=?1 AND (id=?2 OR name=?2)", "tt", secret_user(request), name);
    int row = failed ? failed : query_next(&query, err);
    if (row < 0)
        return row;
    if (row == 0)
        return secret_none(request, name);
    json_init(&json, out);
    secret_put(&json, &query);
    return 0;
}

static int secret_insert_locked(struct http_request *request, const char *name, const char *value, const char *metadata,
                                struct err *err) {
    struct db *db = &e2b_state(request)->secrets->db;
    autoquery query = {0};
    char id[17];
    uint64_t now_us = e2b_now_us();
    int failed = db_query(db, &query, err, "SELECT count(*), sum(name=?2) FROM secret WHERE user=?1", "tt",
                          secret_user(request), name);
    int row = failed ? failed : query_next(&query, err);
    if (row < 0)
        return row;
    int64_t all = query_int(&query, 0), same = query_int(&query, 1);
    query_end(&query);
    if (same)
        return err_set(err, ERR_EXISTS, "there is a secret '%s' already", name);
    if (all >= SECRETS_MOST)
        return err_set(err, ERR_LIMIT, "a user has at most %d secrets; delete some", SECRETS_MOST);
    policy_random_id(id);
    return db_do(db, err, "INSERT INTO secret VALUES(?1, ?2, ?3, ?4, 1, ?5, ?6, ?6)", "ttttti", secret_user(request),
                 name, id, value, metadata ? metadata : "{}", now_us);
}

static int secret_create(struct http_request *request, struct box *box, struct err *err) {
    struct secret_args args = {0};
    json_t *root;
    const char *name = NULL, *metadata = NULL;
    autobuf out = buf_max(65536);
    (void)box;
    int failed = e2b_body(request, &args, &root, err);
    if (failed)
        return failed;
    failed = secret_name(request, args.name.data, &name, err) ?: secret_metadata(request, root, &metadata, err);
    json_decref(root);
    if (failed)
        return failed;
    autolock(&e2b_state(request)->secrets->lock);
    failed = secret_insert_locked(request, name, args.value.data, metadata, err)
                 ?: secret_look_locked(request, name, &out, err);
    return failed ? failed : e2b_json(request, 201, &out, err);
}

static int secret_change(struct http_request *request, struct box *box, struct err *err) {
    struct secret_args args = {0};
    json_t *root;
    const char *name = http_param(request, "secret"), *metadata;
    autobuf out = buf_max(65536);
    (void)box;
    int failed = e2b_body(request, &args, &root, err);
    if (failed)
        return failed;
    failed = secret_metadata(request, root, &metadata, err);
    json_decref(root);
    if (failed)
        return failed;
    autolock(&e2b_state(request)->secrets->lock);
    failed = db_do(&e2b_state(request)->secrets->db, err,
                   "UPDATE secret SET value=?3, version=version+1, metadata=ifnull(?4, metadata), updated_us=?5 "
                   "WHERE user=?1 AND (id=?2 OR name=?2)",
                   "tttti", secret_user(request), name, args.value.data, metadata, e2b_now_us())
                 ?: secret_look_locked(request, name, &out, err);
    return failed ? failed : e2b_json(request, 200, &out, err);
}

static int secret_look(struct http_request *request, struct box *box, struct err *err) {
    autobuf out = buf_max(65536);
    (void)box;
    autolock(&e2b_state(request)->secrets->lock);
    int failed = secret_look_locked(request, http_param(request, "secret"), &out, err);
    return failed ? failed : e2b_json(request, 200, &out, err);
}

static int secret_delete(struct http_request *request, struct box *box, struct err *err) {
    const char *name = http_param(request, "secret");
    autobuf out = buf_max(65536);
    (void)box;
    autolock(&e2b_state(request)->secrets->lock);
    int failed = secret_look_locked(request, name, &out, err);
    if (failed)
        return failed;
    return db_do(&e2b_state(request)->secrets->db, err, "DELETE FROM secret WHERE user=?1 AND (id=?2 OR name=?2)", "tt",
                 secret_user(request), name)
               ?: front_empty(request, 204);
}

static int secret_list(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_page page;
    struct json json;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    (void)box;
    int failed = e2b_page(request, false, &page, err);
    if (failed)
        return failed;
    autolock(&e2b_state(request)->secrets->lock);
    autoquery query = {0};
    failed = db_query(&e2b_state(request)->secrets->db, &query, err,
                      SECRET_COLUMNS "WHERE user=?1 ORDER BY created_us DESC, id DESC", "t", secret_user(request));
    json_init(&json, &out);
    json_open(&json, '[');
    char last_id[33] = "";
    uint64_t written = 0, last_us = 0;
    int row = failed;
    while (!failed && (row = query_next(&query, err)) == 1) {
        if (!e2b_page_after(&page, (uint64_t)query_int(&query, 4), query_text(&query, 0)))
            continue;
        if (written == page.limit) {
            e2b_page_next(request, &page, last_us, last_id);
            break;
        }
        secret_put(&json, &query);
        last_us = (uint64_t)query_int(&query, 4);
        snprintf(last_id, sizeof last_id, "%s", query_text(&query, 0));
        written++;
    }
    if (row < 0)
        return row;
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
    SECRET_ROUTE("GET", "/secrets", "e2b_secrets", "E2B: secrets without their values", .run = secret_list,
                 .status = 200),
    SECRET_ROUTE("GET", "/secrets/{secret}", "e2b_secret", "E2B: a secret without its value", .run = secret_look,
                 .status = 200),
    SECRET_ROUTE("POST", "/secrets/{secret}", "e2b_secret_change", "E2B: another value of a secret",
                 .run = secret_change, .body = secret_change_body, .status = 200),
    SECRET_ROUTE("DELETE", "/secrets/{secret}", "e2b_secret_delete", "E2B: remove a secret", .run = secret_delete,
                 .status = 204),
    {0},
};
