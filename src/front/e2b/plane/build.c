/* Template builds over HTTP: request, start, status, logs; and their rows in the database. Called through
 * e2b_build_routes, and by the builders. Invariant: a build is seen by its user alone; of its steps nothing is believed
 * before it was checked here. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"

enum {
    BUILDS_KEPT = 200,  /* of a user, with their logs */
    BUILDS_QUEUED = 16, /* of a user, not ended yet */
    BUILDS_ALL = 256,   /* of all users, the same */
    BUILD_STEPS = 500,
    BUILD_VARIABLES = 1000, /* that ENV steps set */
    BUILD_LINES = 10000,
    BUILD_LINE_BYTES = 4096,
    BUILD_PAGE = 100,
    BUILD_PLAN_BYTES = 1 << 20,
};

/* ---- rows ---- */

#define BUILD_COLUMNS                                                                                                  \
    "SELECT id, user, template, name, tags, status, plan, reason, step, cpus, memory_mb, box FROM build "

static void build_take(const struct query *query, struct arena *arena, struct build *ret_build) {
    *ret_build = (struct build){
        .user = arena_strdup(arena, query_text(query, 1)),
        .template_id = arena_strdup(arena, query_text(query, 2)),
        .name = arena_strdup(arena, query_text(query, 3)),
        .tags = arena_strdup(arena, query_text(query, 4)),
        .status = arena_strdup(arena, query_text(query, 5)),
        .plan = arena_strdup_or(arena, query_text(query, 6)),
        .reason = arena_strdup_or(arena, query_text(query, 7)),
        .step = arena_strdup_or(arena, query_text(query, 8)),
        .cpus = (uint64_t)query_int(query, 9),
        .memory_mb = (uint64_t)query_int(query, 10),
        .box = arena_strdup_or(arena, query_text(query, 11)),
    };
    text_id_copy(ret_build->id, query_text(query, 0));
}

/* Locks end with the process that holds them, so a build whose daemon was killed is free at once. */
static int build_lock(struct plane *plane, int64_t number) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    autofd fd = openat(plane->uploads_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0 ? fd_take(&fd) : -1;
}

static unsigned build_count_locked(const struct plane *plane, const char *user) {
    unsigned count = 0;
    for (unsigned i = 0; i < PLANE_BUILDERS; i++)
        count += plane->building[i] && !strcmp(plane->building[i], user);
    return count;
}

/* The next one of a user who has `running` under way. */
static int build_next_of_locked(struct plane *plane, unsigned running, struct arena *arena, struct build *ret_build,
                                int *ret_lock, bool *ret_others, struct err *err) {
    int64_t after = -1, number;
    for (;;) {
        autoquery query = {0};
        int row =
            db_query(&plane->db, &query, err,
                     "SELECT number, user FROM build WHERE status='building' AND number>?1 ORDER BY number LIMIT 1",
                     "i", after)
                ?: query_next(&query, err);
        if (row <= 0)
            return row;
        number = after = query_int(&query, 0);
        if (build_count_locked(plane, query_text(&query, 1)) != running)
            continue;
        query_end(&query);
        int lock = build_lock(plane, number);
        *ret_others |= lock < 0;
        if (lock < 0)
            continue;
        /* It may have ended between the two looks. */
        row = db_query(&plane->db, &query, err, BUILD_COLUMNS "WHERE number=?1 AND status='building'", "i", number)
                  ?: query_next(&query, err);
        if (row > 0) {
            build_take(&query, arena, ret_build);
            *ret_lock = lock;
            return 1;
        }
        close(lock);
        if (row < 0)
            return row;
    }
}

int build_next_locked(struct plane *plane, struct arena *arena, struct build *ret_build, int *ret_lock,
                      bool *ret_others, struct err *err) {
    int found = 0;
    for (unsigned running = 0; !found && running < PLANE_USER_BUILDS; running++)
        found = build_next_of_locked(plane, running, arena, ret_build, ret_lock, ret_others, err);
    return found;
}

void build_log_locked(struct plane *plane, const struct build *build, const char *level, const char *step,
                      const char *text, size_t len) {
    char line[BUILD_LINE_BYTES + 1];
    size_t take = len < BUILD_LINE_BYTES ? len : BUILD_LINE_BYTES;
    memcpy(line, text, take);
    line[take] = 0;
    for (size_t i = 0; i < take; i++)
        line[i] = line[i] ? line[i] : ' ';
    db_do(&plane->db, ERR_IGNORED,
          "INSERT INTO log SELECT ?1, n, ?2, ?3, ?4, CASE n WHEN ?6 THEN 'more lines are not kept' ELSE ?5 END FROM "
          "(SELECT ifnull((SELECT number FROM log WHERE build=?1 ORDER BY number DESC LIMIT 1), -1) + 1 AS n) "
          "WHERE n <= ?6 AND EXISTS(SELECT 1 FROM build WHERE id=?1)",
          "tittti", build->id, e2b_now_us(), level, step, line, (int64_t)BUILD_LINES);
}

void build_log(struct plane *plane, const struct build *build, const char *level, const char *step, const char *text,
               size_t len) {
    autolock(&plane->lock);
    build_log_locked(plane, build, level, step, text, len);
}

int build_in(struct plane *plane, const struct build *build, const char *box, struct err *err) {
    autolock(&plane->lock);
    return db_do(&plane->db, err, "UPDATE build SET box=?2 WHERE id=?1", "tt", build->id, box);
}

bool build_there(struct plane *plane, const struct build *build) {
    autolock(&plane->lock);
    return db_get(&plane->db, ERR_IGNORED, "SELECT 1 FROM build WHERE id=?1 AND status='building'", "t>", build->id) ==
           1;
}

bool build_ended(struct plane *plane, const struct build *build, const char *reason, const char *step) {
    bool there = build_there(plane, build);
    autolock(&plane->lock);
    db_do(&plane->db, ERR_IGNORED, "UPDATE build SET status=?2, reason=?3, step=?4 WHERE id=?1", "tttt", build->id,
          reason ? "error" : "ready", reason, step);
    return there;
}

#define BUILDS_OLD                                                                                                     \
    "FROM build WHERE user=?1 AND status!='building' AND number NOT IN "                                               \
    "(SELECT number FROM build WHERE user=?1 ORDER BY number DESC LIMIT ?2)"
#define BUILDS_NAMED "FROM build WHERE (template=?1 OR name=?1) AND (?2 IS NULL OR user=?2)"

/* Logs first: those of a build that is gone would stay for good. */
static void build_prune_locked(struct plane *plane, const char *user) {
    const int64_t kept = BUILDS_KEPT;
    db_do(&plane->db, ERR_IGNORED, "DELETE FROM log WHERE build IN (SELECT id " BUILDS_OLD ")", "ti", user, kept);
    db_do(&plane->db, ERR_IGNORED, "DELETE " BUILDS_OLD, "ti", user, kept);
}

/* The build of {template} and {build}; positive: there is none, which has been answered. */
static int build_find(struct http_request *request, struct build *ret_build, struct err *err) {
    struct plane *plane = plane_of(request);
    const char *uuid = http_param(request, "build"), *template_id = http_param(request, "template");
    char id[17] = "", again[E2B_UUID_BYTES];
    if (strlen(uuid) == E2B_UUID_BYTES - 1)
        snprintf(id, sizeof id, "%.8s%.4s%.4s", uuid, uuid + 9, uuid + 32);
    e2b_uuid(text_id(id) ? id : "0000000000000000", again);
    autolock(&plane->lock);
    autoquery query = {0};
    int row = db_query(&plane->db, &query, err,
                       BUILD_COLUMNS "WHERE id=?1 AND (template=?2 OR name=?2) AND (?3 IS NULL OR user=?3)", "ttt", id,
                       template_id, front_who(request)->user)
                  ?: query_next(&query, err);
    if (row < 0)
        return row;
    if (!row || strcmp(uuid, again) != 0)
        return e2b_fail(request, 404, ERR_NOT_FOUND, "build '%.60s' not found", uuid);
    build_take(&query, http_arena(request), ret_build);
    return 0;
}

/* ---- POST /v3/templates ---- */

struct build_args {
    struct row_text name, alias;
    const char **tags;
    struct row_number cpus, memory_mb;
};
static const struct row request_body[] = {
    E2B_ROW("name", TEXT, build_args, name, .flags = ROW_AUDITED, .max = 256, .text = "alias[:tag] of the template."),
    E2B_ROW("alias", TEXT, build_args, alias, .max = 256, .text = "The same, of older clients."),
    E2B_ROW("tags", TEXTS, build_args, tags, .max = 64, .text = "More tags."),
    E2B_ROW("cpuCount", INT, build_args, cpus, .min = 1, .max = 1024, .text = "Processors of its sandboxes."),
    E2B_ROW("memoryMB", INT, build_args, memory_mb, .min = 128, .max = 1u << 24, .text = "Memory of its sandboxes."),
    E2B_ROWS_END,
};

/* Those of the name and of the list, each once. */
static int build_tags(struct http_request *request, const char *name, const char *tag, const char **more,
                      const char ***ret_tags, struct err *err) {
    size_t count = 0, most = text_list_count(more);
    const char **tags = arena_alloc(http_arena(request), (most + 2) * sizeof *tags);
    if (strchr(name, ':') || !most)
        tags[count++] = tag;
    for (size_t i = 0; i < most; i++) {
        STEP(e2b_template_tag(request, more[i], &tag, err));
        if (!text_list_has(tags, tag))
            tags[count++] = tag;
    }
    *ret_tags = tags;
    return 0;
}

/* A name that was built before, or is being built, keeps its template. */
static int build_template_id(struct http_request *request, const char *name, char ret_id[17], struct err *err) {
    struct plane *plane = plane_of(request);
    struct e2b_build *builds;
    size_t count;
    STEP(e2b_builds(e2b_owner(request), &builds, &count, err));
    const struct e2b_build *before = e2b_build_find(builds, count, name, NULL);
    if (before && before->name && !strcmp(before->name, name)) {
        snprintf(ret_id, 17, "%s", before->template_id);
        return 0;
    }
    if (e2b_template_taken(request, name))
        return err_set(err, ERR_EXISTS, "there is a template '%s' already", name);
    policy_random_id(ret_id);
    autolock(&plane->lock);
    autoquery query = {0};
    int row = db_query(&plane->db, &query, err,
                       "SELECT template FROM build WHERE user=?1 AND name=?2 AND status IN ('waiting', 'building') "
                       "ORDER BY number DESC LIMIT 1",
                       "tt", plane_user(request), name)
                  ?: query_next(&query, err);
    if (row > 0)
        snprintf(ret_id, 17, "%s", query_text(&query, 0));
    return row < 0 ? row : 0;
}

static int build_insert(struct http_request *request, const char *id, const char *template_id, const char *name,
                        const char *tags, const struct build_args *args, struct err *err) {
    struct plane *plane = plane_of(request);
    int64_t queued = 0, all = 0;
    autolock(&plane->lock);
    TRY(db_get(&plane->db, err,
               "SELECT sum(user=?1), count(*) FROM build WHERE status='building' OR "
               "(status='waiting' AND created_ms>?2)",
               "ti>ii", plane_user(request), clock_wall_ms() - 3600000, &queued, &all));
    if (all >= BUILDS_ALL)
        return err_set(err, ERR_LIMIT, "%d builds of all users have not ended yet: try again later", BUILDS_ALL);
    if (queued >= BUILDS_QUEUED)
        return err_set(err, ERR_LIMIT, "%d builds have not ended yet, which is the most of a user", BUILDS_QUEUED);
    build_prune_locked(plane, plane_user(request));
    return db_do(&plane->db, err,
                 "INSERT INTO build(id, number, user, template, name, tags, cpus, memory_mb, status, created_ms) "
                 "SELECT ?1, ifnull(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, 'waiting', ?8 FROM build",
                 "tttttiii", id, plane_user(request), template_id, name, tags, args->cpus.value, args->memory_mb.value,
                 clock_wall_ms());
}

static int build_request(struct http_request *request, struct box *, struct err *err) {
    struct build_args args = {0};
    char id[17], template_id[17], uuid[E2B_UUID_BYTES];
    const char *name, *tag, **tags;
    STEP(e2b_body(request, &args, NULL, err));
    const char *wanted = args.name.data ? args.name.data : args.alias.data;
    if (!wanted)
        return err_set(err, ERR_INVALID, "name is missing");
    STEP(e2b_template_name(request, wanted, &name, &tag, err));
    STEP(build_tags(request, wanted, tag, args.tags, &tags, err));
    STEP(build_template_id(request, name, template_id, err));
    struct json json;
    autobuf list = buf_max(65536), out = buf_max(131072);
    json_init(&json, &list);
    json_open(&json, '[');
    for (const char **item = tags; *item; item++)
        json_str(&json, *item);
    json_close(&json, ']');
    const char *listed = arena_copy(http_arena(request), list.data, list.len);
    policy_random_id(id);
    STEP(build_insert(request, id, template_id, name, listed, &args, err));
    e2b_uuid(id, uuid);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_str(&json, "templateID", template_id);
    json_put_str(&json, "buildID", uuid);
    json_put_bool(&json, "public", false);
    json_put_texts(&json, "names", (const char *const[]){name, NULL});
    json_put_raw(&json, "tags", listed, strlen(listed));
    json_put_texts(&json, "aliases", (const char *const[]){name, NULL});
    json_close(&json, '}');
    return e2b_json(request, 202, &out, err);
}

/* ---- POST /v2/templates/{template}/builds/{build} ---- */

static bool build_hash(const char *text) {
    return text && strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static int build_step_check(const json_t *step, size_t number, struct err *err) {
    static const struct {
        const char *type;
        size_t least, most; /* arguments */
    } known[] = {{"RUN", 1, 2}, {"COPY", 2, 4}, {"ENV", 2, 2000}, {"WORKDIR", 1, 1}, {"USER", 1, 1}};
    const char *type = json_string_value(json_object_get(step, "type"));
    const json_t *args = json_object_get(step, "args");
    size_t i = 0, count = json_array_size(args), texts = 0;
    while (i < sizeof known / sizeof *known && !(type && !strcasecmp(type, known[i].type)))
        i++;
    if (i == sizeof known / sizeof *known)
        return err_set(err, ERR_INVALID, "step %zu: '%.40s' is not RUN, COPY, ENV, WORKDIR or USER", number,
                       type ? type : "");
    for (size_t k = 0; k < count; k++) {
        const json_t *arg = json_array_get(args, k);
        texts += json_is_string(arg) && strlen(json_string_value(arg)) == json_string_length(arg);
    }
    if (texts != count || count < known[i].least || count > known[i].most || (*known[i].type == 'E' && count % 2))
        return err_set(err, ERR_INVALID, "step %zu: %s has %zu to %zu texts as args", number, known[i].type,
                       known[i].least, known[i].most);
    if (!strcmp(known[i].type, "COPY") && !build_hash(json_string_value(json_object_get(step, "filesHash"))))
        return err_set(err, ERR_INVALID, "step %zu: filesHash must be 64 hex digits", number);
    return 0;
}

static int build_steps_check(const json_t *root, struct err *err) {
    static const char *const texts[] = {"startCmd", "readyCmd", "fromImage", "fromTemplate"};
    const json_t *steps = json_object_get(root, "steps");
    size_t count = json_array_size(steps), variables = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *value = json_object_get(root, texts[i]);
        if (value && !json_is_null(value) && !json_is_string(value))
            return err_set(err, ERR_INVALID, "%s must be a text", texts[i]);
    }
    if (steps && !json_is_array(steps) && !json_is_null(steps))
        return err_set(err, ERR_INVALID, "steps must be a list");
    if (count > BUILD_STEPS)
        return err_set(err, ERR_INVALID, "steps: at most %d", BUILD_STEPS);
    for (size_t i = 0; i < count; i++) {
        const json_t *step = json_array_get(steps, i);
        STEP(build_step_check(step, i + 1, err));
        if (!strcasecmp(json_string_value(json_object_get(step, "type")), "ENV"))
            variables += json_array_size(json_object_get(step, "args")) / 2;
    }
    return variables > BUILD_VARIABLES
               ? err_set(err, ERR_INVALID, "steps: ENV sets at most %d variables", BUILD_VARIABLES)
               : 0;
}

/* The template that an image stands for, by e2b_images or because it is E2B's own; NULL: none. */
static const char *build_image_template(struct http_request *request, const char *image) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    size_t bare = strlen(image) - (strrchr(image, ':') > strrchr(image, '/') ? strlen(strrchr(image, ':')) : 0);
    for (int exact = 1; exact >= 0; exact--)
        for (const char *const *entry = settings ? settings->images : NULL; entry && *entry; entry++) {
            size_t len = strcspn(*entry, "=");
            if (len == (exact ? strlen(image) : bare) && !strncmp(*entry, image, len))
                return *entry + len + 1;
        }
    return !strncmp(image, "e2bdev/base", bare) && bare == strlen("e2bdev/base") ? "base" : NULL;
}

/* What is below the first step. A failure is the build's own, at its step "base". */
static int build_base(struct http_request *request, const json_t *root, json_t *plan, struct err *err) {
    const char *image = json_string_value(json_object_get(root, "fromImage"));
    const char *name = json_string_value(json_object_get(root, "fromTemplate"));
    struct e2b_template template = {0};
    if (image && name)
        return err_set(err, ERR_INVALID, "fromImage and fromTemplate exclude each other");
    const char *mapped = image ? build_image_template(request, image) : name ? name : "base";
    if (mapped) {
        STEP(e2b_template_find(request, mapped, &template, err));
        const char *backend = template.backend ? template.backend : front_settings(request)->default_backend;
        json_object_set_new(plan, "base", json_string(template.base));
        json_object_set_new(plan, "backend", backend ? json_string(backend) : json_null());
        json_object_set_new(plan, "kept", template.build ? json_string(template.build) : json_null());
        json_object_set_new(plan, "setup", template.setup ? json_string(template.setup) : json_null());
        return 0;
    }
    const json_t *registry = json_object_get(root, "fromImageRegistry");
    if (registry && !json_is_null(registry)) /* it would have to be kept until the image was pulled */
        return err_set(err, ERR_UNSUPPORTED,
                       "image '%.200s': this server does not take credentials of registries; log its container engine "
                       "in to the registry, or name a template for the image (e2b_images)",
                       image);
    json_object_set_new(plan, "base", json_string(image));
    json_object_set_new(plan, "backend", json_string("docker"));
    return 0;
}

static int build_begin(struct http_request *request, const struct build *build, const json_t *plan, struct err *err) {
    struct plane *plane = plane_of(request);
    char *text = json_dumps(plan, JSON_COMPACT);
    int failed = !text || strlen(text) > BUILD_PLAN_BYTES
                     ? err_set(err, ERR_TOO_LARGE, "the steps have more than %d bytes", BUILD_PLAN_BYTES)
                     : 0;
    if (!failed) {
        autolock(&plane->lock);
        failed = db_do(&plane->db, err, "UPDATE build SET status='building', plan=?2 WHERE id=?1 AND status='waiting'",
                       "tt", build->id, text);
        if (!failed && sqlite3_changes(plane->db.handle) != 1)
            failed = err_set(err, ERR_INVALID, "the build is not waiting any more");
    }
    free(text);
    return failed;
}

static int build_start(struct http_request *request, struct box *, struct err *err) {
    static const char *const kept[] = {"steps", "force", "startCmd", "readyCmd"};
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    struct build build;
    struct err base = {0};
    json_t *root;
    STEP(build_find(request, &build, err));
    STEP(e2b_body(request, NULL, &root, err));
    int failed = build_steps_check(root, err);
    if (!failed && strcmp(build.status, "waiting") != 0)
        failed = err_set(err, ERR_INVALID, "the build is not waiting any more: it is %s", build.status);
    json_t *plan = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(root, kept[i]))
            json_object_set(plan, kept[i], json_object_get(root, kept[i]));
    if (settings && settings->network)
        json_object_set_new(plan, "network", json_string(settings->network));
    if (!failed)
        build_base(request, root, plan, &base);
    if (!failed && !base.code) /* without a base it must not begin: a builder might be faster than its end */
        failed = front_make(request, err) ?: build_begin(request, &build, plan, err);
    json_decref(plan);
    json_decref(root);
    if (failed)
        return failed;
    if (base.code) {
        build_log(plane_of(request), &build, "error", "base", base.text, strlen(base.text));
        build_ended(plane_of(request), &build, base.text, "base");
    } else {
        plane_build(plane_of(request));
    }
    return front_empty(request, 202);
}

/* ---- status and logs ---- */

struct build_page {
    uint64_t offset, limit;
    bool backward;
    const char *level, *key; /* key: of the list in the answer */
};

static int build_page(struct http_request *request, const char *from, struct build_page *page, struct err *err) {
    const char *offset = http_query(request, from, NULL), *limit = http_query(request, "limit", NULL);
    const char *direction = http_query(request, "direction", NULL);
    page->limit = BUILD_PAGE;
    page->level = http_query(request, "level", NULL);
    page->backward = direction && !strcmp(direction, "backward");
    if (offset && *offset && !text_u64(offset, INT64_MAX, &page->offset))
        return err_set(err, ERR_INVALID, "%s must be a number", from);
    if (limit && *limit && (!text_u64(limit, BUILD_PAGE, &page->limit)))
        return err_set(err, ERR_INVALID, "limit must be 0 to %d", BUILD_PAGE);
    return 0;
}

static int build_level(const char *level) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    int i = 0;
    while (i < 4 && !(level && !strcmp(level, levels[i])))
        i++;
    return i < 4 ? i : 0;
}

/* forward: `since` is a number of an entry (status), or (logs) a time in milliseconds. */
static int build_put_logs(struct http_request *request, const struct build *build, const struct build_page *page,
                          bool by_time, struct json *json, struct err *err) {
    struct plane *plane = plane_of(request);
    int64_t since = (int64_t)page->offset, until = INT64_MAX;
    if (page->backward)
        until = since ? since : INT64_MAX, since = 0;
    if (by_time) {
        since = since > INT64_MAX / 1000 ? INT64_MAX : since * 1000;
        until = until > INT64_MAX / 1000 ? INT64_MAX : until * 1000;
    }
    autolock(&plane->lock);
    autoquery query = {0};
    const char *sql =
        by_time ? page->backward
                      ? "SELECT at_us, level, step, message FROM log WHERE build=?1 AND at_us>=?2 AND at_us<?3 "
                        "ORDER BY number DESC LIMIT ?4"
                      : "SELECT at_us, level, step, message FROM log WHERE build=?1 AND at_us>=?2 AND at_us<?3 "
                        "ORDER BY number LIMIT ?4"
                : "SELECT at_us, level, step, message FROM log WHERE build=?1 AND number>=?2 AND number<?3 "
                  "ORDER BY number LIMIT ?4";
    int row = db_query(&plane->db, &query, err, sql, "tiii", build->id, since, until, page->limit);
    json_put_open(json, page->key, '[');
    while (!row && (row = query_next(&query, err)) == 1) {
        row = 0;
        if (page->level && build_level(query_text(&query, 1)) < build_level(page->level))
            continue;
        json_open(json, '{');
        e2b_put_time(json, "timestamp", (uint64_t)query_int(&query, 0));
        json_put_str(json, "message", query_text(&query, 3));
        json_put_str(json, "level", query_text(&query, 1));
        if (query_text(&query, 2))
            json_put_str(json, "step", query_text(&query, 2));
        json_close(json, '}');
    }
    json_close(json, ']');
    return row;
}

static int build_status(struct http_request *request, struct box *, struct err *err) {
    struct build build;
    struct build_page page = {.key = "logEntries"};
    char uuid[E2B_UUID_BYTES];
    autobuf out = buf_max(4 << 20);
    STEP(build_find(request, &build, err));
    STEP(build_page(request, "logsOffset", &page, err));
    page.backward = false;
    struct json json = json_begin(&out);
    json_put_str(&json, "templateID", build.template_id);
    e2b_uuid(build.id, uuid);
    json_put_str(&json, "buildID", uuid);
    json_put_str(&json, "status", build.status);
    json_put_open(&json, "logs", '[');
    json_close(&json, ']');
    STEP(build_put_logs(request, &build, &page, false, &json, err));
    if (build.reason) {
        json_put_open(&json, "reason", '{');
        json_put_str(&json, "message", build.reason);
        json_put_some(&json, "step", build.step);
        json_close(&json, '}');
    }
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

static int build_logs(struct http_request *request, struct box *, struct err *err) {
    struct build build;
    struct build_page page = {.key = "logs"};
    autobuf out = buf_max(4 << 20);
    STEP(build_find(request, &build, err));
    STEP(build_page(request, "cursor", &page, err));
    struct json json = json_begin(&out);
    STEP(build_put_logs(request, &build, &page, true, &json, err));
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

bool build_forget(struct http_request *request, const char *name) {
    struct plane *plane = plane_of(request);
    const char *user = front_who(request)->user;
    autolock(&plane->lock);
    db_do(&plane->db, ERR_IGNORED, "DELETE FROM log WHERE build IN (SELECT id " BUILDS_NAMED ")", "tt", name, user);
    db_do(&plane->db, ERR_IGNORED, "DELETE " BUILDS_NAMED, "tt", name, user);
    return sqlite3_changes(plane->db.handle) > 0;
}

/* ---- the table ---- */

static const struct row start_body[] = {E2B_ROWS_END};
static const struct row status_query[] = {E2B_QUERY("logsOffset", 64, "How many entries to leave out."),
                                          E2B_QUERY("limit", 64, "0 to 100; 100."),
                                          E2B_QUERY("level", 64, "debug, info, warn or error; debug."),
                                          {0}};
static const struct row build_logs_query[] = {E2B_QUERY("cursor", 64, "Milliseconds since 1970."),
                                              E2B_QUERY("limit", 64, "0 to 100; 100."),
                                              E2B_QUERY("direction", 64, "forward or backward; forward."),
                                              E2B_QUERY("level", 64, "debug, info, warn or error; debug."),
                                              E2B_QUERY("source", 64, "Ignored: there is one."),
                                              {0}};

const struct route e2b_build_routes[] = {
    E2B_ROUTE("POST", "/v3/templates", 0, "e2b_build", "ask for the build of a template", .run = build_request,
              .body = request_body, .status = 202),
    E2B_ROUTE("POST", "/v2/templates/{template}/builds/{build}", 0, "e2b_build_start", "start a build",
              .run = build_start, .body = start_body, .status = 202),
    E2B_ROUTE("GET", "/templates/{template}/builds/{build}/status", ENDPOINT_QUIET, "e2b_build_status",
              "how far a build is", .run = build_status, .query = status_query, .status = 200),
    E2B_ROUTE("GET", "/templates/{template}/builds/{build}/logs", ENDPOINT_QUIET, "e2b_build_logs",
              "what a build printed", .run = build_logs, .query = build_logs_query, .status = 200),
    E2B_ROUTE("GET", "/templates/{template}/files/{hash}", 0, "e2b_build_files", "where files for a build go",
              .run = archive_link, .status = 201),
    E2B_ROUTE("PUT", "/templates/{template}/files/{hash}/{token}", ENDPOINT_OPEN, "e2b_build_upload",
              "files for a build", .run = archive_put, .body_media = "application/octet-stream", .status = 201),
    {0},
};
