/* Volumes: directories that outlive sandboxes, mounted by name, with an API for their content. Called through
 * e2b_volume_routes and by create. Invariant: the token of a volume opens that volume alone; what is in it is reached
 * through box/volume.h, never by a path of the host. */
#include <openssl/crypto.h>

#include "base/path.h"
#include "box/volume.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"

enum { VOLUMES_MOST = 100, VOLUME_MOUNTS = 16 };
#define VOLUME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* ---- rows ---- */

/* By id (name NULL) or name. 1: found. user NULL: anybody's. */
static int volume_find(struct plane *plane, const char *user, const char *id, const char *name, struct arena *arena,
                       const char **ret_id, const char **ret_name, const char **ret_user, struct err *err) {
    autolock(&plane->lock);
    autoquery query = {0};
    int row = db_query(&plane->db, &query, err,
                       "SELECT id, name, user FROM volume WHERE (?1 IS NULL OR user=?1) AND (id=?2 OR name=?3)", "ttt",
                       user, id, name)
                  ?: query_next(&query, err);
    if (row <= 0)
        return row;
    *ret_id = arena_strdup(arena, query_text(&query, 0));
    *ret_name = arena_strdup(arena, query_text(&query, 1));
    *ret_user = arena_strdup(arena, query_text(&query, 2));
    return 1;
}

struct volume_args {
    struct row_text name;
};
static const struct row volume_body[] = {
    E2B_ROW("name", TEXT, volume_args, name, .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 128,
            .text = "Letters, digits, _ and -."),
    E2B_ROWS_END,
};

static void volume_put(struct http_request *request, struct json *json, const char *id, const char *name, bool token) {
    char text[65];
    json_open(json, '{');
    json_put_str(json, "volumeID", id);
    json_put_str(json, "name", name);
    if (token) {
        e2b_derive(e2b_state(request), text, "volume %.16s", id);
        json_put_str(json, "token", text);
    }
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    if (token && settings && settings->domain)
        json_put_str(json, "domain", settings->domain);
    json_close(json, '}');
}

static int volume_insert_locked(struct http_request *request, const char *id, const char *name, struct err *err) {
    struct plane *plane = plane_of(request);
    int64_t all = 0, same = 0;
    TRY(db_get(&plane->db, err, "SELECT count(*), sum(name=?2) FROM volume WHERE user=?1", "tt>ii", plane_user(request),
               name, &all, &same));
    if (same)
        return err_set(err, ERR_EXISTS, "there is a volume '%s' already", name);
    if (all >= VOLUMES_MOST)
        return err_set(err, ERR_LIMIT, "a user has at most %d volumes; delete some", VOLUMES_MOST);
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    const uint64_t mb = settings ? settings->volume_mb : 0;
    int failed = volume_make(plane->volumes_fd, id, mb, err);
    if (failed)
        return mb ? err_wrap(err, "a volume of at most %llu MB (e2b_volume_mb)", (unsigned long long)mb) : failed;
    failed = db_do(&plane->db, err, "INSERT INTO volume VALUES(?1, ?2, ?3, ?4)", "ttti", id, plane_user(request), name,
                   e2b_now_us());
    if (failed)
        volume_remove(plane->volumes_fd, id, ERR_IGNORED);
    return failed;
}

static int volume_create(struct http_request *request, struct box *, struct err *err) {
    struct volume_args args = {0};
    char id[17];
    autobuf out = buf_max(4096);
    STEP(e2b_body(request, &args, NULL, err));
    if (strspn(args.name.data, VOLUME_LETTERS) != args.name.len)
        return err_set(err, ERR_INVALID, "a volume's name is 1 to 128 letters, digits, _ and -");
    policy_random_id(id);
    {
        autolock(&plane_of(request)->lock);
        STEP(volume_insert_locked(request, id, args.name.data, err));
    }
    struct json json = {.out = &out};
    volume_put(request, &json, id, args.name.data, true);
    return e2b_json(request, 201, &out, err);
}

static int volume_all(struct http_request *request, struct box *, struct err *err) {
    struct plane *plane = plane_of(request);
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    autolock(&plane->lock);
    autoquery query = {0};
    int row = db_query(&plane->db, &query, err,
                       "SELECT id, name FROM volume WHERE ?1 IS NULL OR user=?1 ORDER BY created_us, id", "t",
                       front_who(request)->user);
    struct json json = json_list(&out);
    while (!row && (row = query_next(&query, err)) == 1) {
        volume_put(request, &json, query_text(&query, 0), query_text(&query, 1), false);
        row = 0;
    }
    json_close(&json, ']');
    return row < 0 ? row : e2b_json(request, 200, &out, err);
}

/* That of {volume}; positive: there is none, which has been answered. */
static int volume_named(struct http_request *request, const char **ret_id, const char **ret_name, struct err *err) {
    const char *id = http_param(request, "volume"), *user;
    int row = volume_find(plane_of(request), front_who(request)->user, id, NULL, http_arena(request), ret_id, ret_name,
                          &user, err);
    return row < 0 ? row : row ? 0 : e2b_fail(request, 404, ERR_NOT_FOUND, "volume '%.60s' not found", id);
}

static int volume_look(struct http_request *request, struct box *, struct err *err) {
    const char *id, *name;
    autobuf out = buf_max(4096);
    STEP(volume_named(request, &id, &name, err));
    struct json json = {.out = &out};
    volume_put(request, &json, id, name, plane_writes(request));
    return e2b_json(request, 200, &out, err);
}

struct volume_use {
    const char *source;
    char box[17];
};

static int volume_used(void *user, struct box *box) {
    struct volume_use *use = user;
    for (size_t i = 0; i < box->spec.mount_count; i++)
        if (!strcmp(box->spec.mounts[i].source, use->source))
            memcpy(use->box, box->id, sizeof use->box);
    return 0;
}

static int volume_destroy(struct http_request *request, struct box *, struct err *err) {
    struct plane *plane = plane_of(request);
    const char *id, *name;
    STEP(volume_named(request, &id, &name, err));
    struct volume_use use = {.source = arena_printf(http_arena(request), "%s/%s", plane->volumes, id)};
    provider_each(front_of(request)->provider, volume_used, &use);
    if (use.box[0])
        return err_set(err, ERR_EXISTS, "volume '%s' is mounted in sandbox %s: kill that first", name, use.box);
    {
        autolock(&plane->lock);
        STEP(db_do(&plane->db, err, "UPDATE volume SET name='.'||id WHERE id=?1", "t", id));
    }
    /* From here on nobody finds it by its name. Its row goes last: a removal that was cut off can be repeated. */
    int failed = volume_remove(plane->volumes_fd, id, err);
    if (failed && failed != -ERR_NOT_FOUND)
        return failed;
    {
        autolock(&plane->lock);
        STEP(db_do(&plane->db, err, "DELETE FROM volume WHERE id=?1", "t", id));
    }
    return front_empty(request, 204);
}

/* ---- mounts ---- */

static int volume_mount(struct http_request *request, const json_t *item, struct mount *ret_mount, struct err *err) {
    struct plane *plane = plane_of(request);
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *path = json_string_value(json_object_get(item, "path")), *id, *found, *user;
    if (!name || !path)
        return err_set(err, ERR_INVALID, "volumeMounts: each has a name and a path");
    if (!path_normal(path))
        return err_set(err, ERR_INVALID, "volumeMounts: '%.100s' is not an absolute, clean path", path);
    int row = volume_find(plane, plane_user(request), NULL, name, http_arena(request), &id, &found, &user, err);
    if (row < 0)
        return row;
    if (!row)
        return err_set(err, ERR_INVALID, "volumeMounts: there is no volume '%.100s'", name);
    *ret_mount = (struct mount){.source = arena_printf(http_arena(request), "%s/%s", plane->volumes, id),
                                .target = arena_strdup(http_arena(request), path),
                                .by_dialect = true};
    return 0;
}

int e2b_volume_mounts(struct http_request *request, const json_t *list, const struct mount **ret_mounts,
                      size_t *ret_count, struct err *err) {
    size_t count = json_array_size(list);
    struct mount *mounts = arena_alloc(http_arena(request), (count + 1) * sizeof *mounts);
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(err, ERR_INVALID, "volumeMounts must be a list");
    if (count > VOLUME_MOUNTS)
        return err_set(err, ERR_INVALID, "volumeMounts: at most %d", VOLUME_MOUNTS);
    for (size_t i = 0; i < count; i++) {
        STEP(volume_mount(request, json_array_get(list, i), &mounts[i], err));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(mounts[k].target, mounts[i].target))
                return err_set(err, ERR_INVALID, "volumeMounts: '%.100s' is there twice", mounts[i].target);
    }
    *ret_mounts = mounts;
    *ret_count = count;
    return 0;
}

/* ---- content ---- */

int e2b_volume_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    const char *header = http_header(request, "authorization"), *id = http_param(request, "volume"), *found, *name,
               *user;
    char token[65];
    e2b_derive(e2b_state(request), token, "volume %.16s", id);
    if (!header || strncasecmp(header, "Bearer ", 7) != 0 || strlen(header + 7) != 64 ||
        CRYPTO_memcmp(header + 7, token, 64) != 0)
        return err_set(err, ERR_UNAUTHORIZED, "this is not the token of the volume");
    int row = volume_find(plane_of(request), NULL, id, NULL, http_arena(request), &found, &name, &user, err);
    if (row <= 0)
        return row ? row : err_set(err, ERR_UNAUTHORIZED, "this is not the token of the volume");
    return auth_admit_user(front_of(request)->auth, request, user, needs, ret_who, err);
}

/* ---- the table ---- */

const struct route e2b_volume_routes[] = {
    E2B_ROUTE("POST", "/volumes", 0, "e2b_volume_create", "make a volume", .run = volume_create, .body = volume_body,
              .status = 201),
    E2B_ROUTE("GET", "/volumes", 0, "e2b_volumes", "volumes", .run = volume_all, .status = 200),
    E2B_ROUTE("GET", "/volumes/{volume}", 0, "e2b_volume", "a volume and its token", .run = volume_look, .status = 200),
    E2B_ROUTE("DELETE", "/volumes/{volume}", 0, "e2b_volume_delete", "remove a volume", .run = volume_destroy,
              .status = 204),
    {0},
};
