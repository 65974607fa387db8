/* Snapshots, forks, templates and their tags. Called through e2b_snapshot_routes. Invariant: a snapshot outlives its
 * sandbox; an id never holds a slash, because clients put it into paths. */

#include "backend/template.h"
#include "box/snapshot/snapshot.h"
#include "front/answer.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/template.h"

enum { FORKS_MOST = 100 };

struct e2b_snapshot_args {
    struct row_text name, target;
    struct row_number timeout, count;
    const char **tags;
    bool open;
};

/* ---- snapshots ---- */

static const struct row snapshot_body[] = {
    E2B_ROW("name", TEXT, e2b_snapshot_args, name, .max = 256, .text = "alias[:tag] of the template that it becomes."),
    E2B_ROWS_END,
};

static void snapshot_put(struct json *json, const struct e2b_build *build, const char *tag) {
    char id[200];
    snprintf(id, sizeof id, "%s:%s", build->template_id, tag);
    json_open(json, '{');
    json_put_str(json, "snapshotID", id);
    json_put_texts(json, "names", (const char *const[]){build->name, NULL});
    json_close(json, '}');
}

/* Under which template it comes: that of its name, where there is one already, or a new one. */
static int snapshot_place(struct http_request *request, const char *wanted, struct e2b_build *build, const char **tag,
                          struct err *err) {
    char fresh[17];
    struct e2b_build *builds;
    size_t count;
    *tag = "default";
    if (wanted && *wanted) {
        int failed = e2b_template_name(request, wanted, &build->name, tag, err)
                         ?: e2b_builds(e2b_owner(request), &builds, &count, err);
        if (failed)
            return failed;
        const struct e2b_build *before = e2b_build_find(builds, count, build->name, NULL);
        build->template_id = before ? before->template_id : NULL;
        if (!before && e2b_template_taken(request, build->name))
            return err_set(err, ERR_EXISTS, "there is a template '%s' already", build->name);
    }
    policy_random_id(fresh);
    if (!build->template_id)
        build->template_id = arena_strdup(http_arena(request), fresh);
    build->tags = arena_alloc(http_arena(request), 2 * sizeof *build->tags);
    build->tags[0] = *tag;
    return 0;
}

static int snapshot_make(struct http_request *request, const struct e2b_sandbox *sandbox, const char *name,
                         struct err *err) {
    struct e2b_build build = {
        .original = sandbox->record.template_id, .alias = sandbox->record.alias, .sandbox = sandbox->box->id};
    const char *tag, *text;
    autobuf out = buf_max(8192);
    STEP(snapshot_place(request, name, &build, &tag, err) ?: e2b_build_text(e2b_owner(request), &build, &text, err)
                     ?: kept_template_create(front_of(request)->provider, front_who(request)->user, sandbox->box->id,
                                             text, http_arena(request), &build.kept, err)
                     ?: e2b_build_tag(e2b_owner(request), &build, tag, true, err));
    struct json json = {.out = &out};
    snapshot_put(&json, &build, tag);
    return e2b_json(request, 201, &out, err);
}

static int e2b_snapshot(struct http_request *request, struct box *, struct err *err) {
    struct e2b_snapshot_args args = {0};
    autosandbox sandbox = {0};
    return e2b_body(request, &args, NULL, err) ?: e2b_sandbox_open(request, &sandbox, err)
               ?: snapshot_make(request, &sandbox, args.name.data, err);
}

static int e2b_snapshots(struct http_request *request, struct box *, struct err *err) {
    const char *sandbox = http_query(request, "sandboxID", NULL), *wanted = http_query(request, "name", NULL);
    const char *name = NULL, *tag = NULL;
    struct e2b_build *builds;
    struct e2b_page page;
    size_t count;
    int failed = e2b_page(request, false, &page, err) ?: e2b_builds(e2b_owner(request), &builds, &count, err);
    if (!failed && wanted && *wanted)
        failed = e2b_template_name(request, wanted, &name, &tag, err);
    if (failed)
        return failed;
    if (wanted && !strchr(wanted, ':'))
        tag = NULL;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    const struct e2b_build *last = NULL;
    uint64_t written = 0;
    struct json json = json_list(&out);
    for (size_t i = 0; i < count; i++) {
        const struct e2b_build *build = &builds[i];
        if ((sandbox && *sandbox && (!build->sandbox || strcmp(build->sandbox, sandbox) != 0)) ||
            (name && !e2b_build_find(&builds[i], 1, name, tag)) || !build->sandbox || !build->tags[0] ||
            !e2b_page_after(&page, build->kept.created_ms, build->kept.id))
            continue;
        if (written == page.limit) {
            e2b_page_next(request, &page, last->kept.created_ms, last->kept.id);
            break;
        }
        snapshot_put(&json, build, tag ? tag : build->tags[0]);
        last = build;
        written++;
    }
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

/* ---- forks ---- */

static const struct row fork_body[] = {
    E2B_ROW("timeout", INT, e2b_snapshot_args, timeout, .max = 31536000, .text = "Seconds until their end; 15."),
    E2B_ROW("count", INT, e2b_snapshot_args, count, .max = 1u << 30, .text = "How many, 1 to 100; 1."),
    E2B_ROWS_END,
};

/* A fork has no processes: what its template starts is started in it. */
static int snapshot_fork_started(struct http_request *request, const struct e2b_sandbox *fork, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct box *running;
    int failed = fork->record.setup ? provider_get(provider, NULL, fork->box->id, &running, err) : 0;
    if (failed || !fork->record.setup)
        return failed;
    failed = e2b_setup_sandbox(request, running, fork->record.setup, err);
    provider_put(provider, running);
    return failed;
}

static int snapshot_fork_one(struct http_request *request, const struct e2b_sandbox *from, const char *snapshot,
                             uint64_t timeout_ms, struct e2b_sandbox *ret_fork, struct err *err) {
    char id[17];
    struct note note;
    struct e2b_sandbox fork = {.record = from->record};
    fork.record.started_us = e2b_now_us();
    fork.record.timeout_ms = timeout_ms;
    fork.record.fresh = true;
    fork.record.end_ms = fork.record.started_us / 1000 + timeout_ms;
    policy_random_id(id);
    const char *env[] = {arena_printf(http_arena(request), "E2B_SANDBOX_ID=%s", id), NULL};
    const struct fork_request wanted = {.snapshot = snapshot, .id = id, .env = env, .note = &note};
    STEP(e2b_record_note(&fork.record, true, http_arena(request), &note, err) ?: front_make(request, err)
                     ?: snapshot_fork(front_of(request)->provider, front_who(request)->user, from->box->id, &wanted,
                                      &fork.box, err));
    int failed = snapshot_fork_started(request, &fork, err);
    if (failed) { /* its client never learns of it */
        provider_put(front_of(request)->provider, fork.box);
        provider_destroy(front_of(request)->provider, NULL, id, ERR_IGNORED);
        return failed;
    }
    *ret_fork = fork;
    return 0;
}

/* Several have the files of one moment, which are copied once. */
static int snapshot_fork_all(struct http_request *request, const struct e2b_sandbox *from, uint64_t timeout_ms,
                             uint64_t count, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *user = front_who(request)->user, *name = NULL;
    struct snapshot taken;
    char random[17];
    policy_random_id(random);
    if (count > 1) {
        name = arena_printf(http_arena(request), "fork-%s", random);
        TRY(snapshot_create(provider, user, from->box->id, name, http_arena(request), &taken, err));
    }
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    struct json json = json_list(&out);
    for (uint64_t i = 0; i < count; i++) {
        struct e2b_sandbox fork;
        struct err own = {0};
        json_open(&json, '{');
        if (snapshot_fork_one(request, from, name, timeout_ms, &fork, &own) == 0) {
            json_key(&json, "sandbox");
            e2b_sandbox_members(request, &fork, &json);
            provider_put(provider, fork.box);
        } else {
            json_put_open(&json, "error", '{');
            json_put_int(&json, "code", err_http_status(own.code));
            json_put_str(&json, "message", own.text);
            json_close(&json, '}');
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    if (name) /* the forks hold its layers */
        snapshot_remove(provider, user, from->box->id, name, ERR_IGNORED);
    return e2b_json(request, 201, &out, err);
}

static int e2b_fork(struct http_request *request, struct box *, struct err *err) {
    struct e2b_snapshot_args args = {0};
    autosandbox from = {0};
    STEP(e2b_body(request, &args, NULL, err));
    uint64_t count = args.count.has ? args.count.value : 1, seconds = args.timeout.has ? args.timeout.value : 15;
    if (count < 1 || count > FORKS_MOST)
        return err_set(err, ERR_INVALID, "count must be 1 to %d", FORKS_MOST);
    if (!seconds)
        return err_set(err, ERR_INVALID, "Timeout must be greater than 0");
    STEP(e2b_sandbox_open(request, &from, err));
    return from.paused ? e2b_fail(request, 409, ERR_PAUSED, "Sandbox \"%s\" is paused", from.box->id)
                       : snapshot_fork_all(request, &from, seconds * 1000, count, err);
}

/* ---- templates ---- */

static int snapshot_no_template(struct http_request *request, const char *name) {
    return e2b_fail(request, 404, ERR_NOT_FOUND, "template '%.200s' not found", name);
}

/* The build that {template} names; NULL: none of the caller's. */
static int snapshot_build(struct http_request *request, const char *text, bool any_tag, struct e2b_build **ret_build,
                          struct err *err) {
    struct e2b_named named;
    STEP(e2b_builds_named(request, text, &named, err));
    *ret_build =
        e2b_build_find(named.builds, named.count, named.name, any_tag && !strchr(text, ':') ? NULL : named.tag);
    return 0;
}

static int e2b_template_exists(struct http_request *request, struct box *, struct err *err) {
    struct e2b_template template;
    autobuf out = buf_max(4096);
    const char *alias = http_param(request, "alias");
    STEP(e2b_template_find(request, alias, &template, err));
    struct json json = json_begin(&out);
    json_put_str(&json, "templateID", template.id);
    json_put_bool(&json, "public", !template.build);
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

/* DELETE /templates/{id}, or of one tag: /templates/{id:tag}. */
static int e2b_template_delete(struct http_request *request, struct box *, struct err *err) {
    const char *text = http_param(request, "template");
    struct e2b_named named;
    bool found = false, tagged = strchr(text, ':');
    STEP(e2b_builds_named(request, text, &named, err));
    for (struct e2b_build *build = named.builds; build < named.builds + named.count; build++) {
        if (!e2b_build_find(build, 1, named.name, tagged ? named.tag : NULL))
            continue;
        found = true;
        STEP(tagged ? e2b_build_tag(e2b_owner(request), build, named.tag, false, err)
                    : kept_template_remove(front_of(request)->provider, build->kept.id, err));
    }
    found |= !tagged && build_forget(request, named.name);
    builder_forget(e2b_owner(request));
    return found ? front_empty(request, 204) : snapshot_no_template(request, text);
}

static void snapshot_put_template(struct http_request *request, struct json *json, const char *id, const char *name,
                                  const struct e2b_build *build) {
    char uuid[E2B_UUID_BYTES] = "00000000-0000-4000-8000-000000000000";
    const struct front *front = front_of(request);
    uint64_t created_ms = build ? build->kept.created_ms : front->started_ms;
    if (build)
        e2b_build_uuid(build, uuid);
    json_put_str(json, "templateID", id);
    json_put_str(json, "buildID", uuid);
    json_put_uint(json, "cpuCount", 2);
    json_put_uint(json, "memoryMB", 2048);
    json_put_uint(json, "diskSizeMB", 0);
    json_put_bool(json, "public", !build || build->open);
    json_put_texts(json, "aliases", (const char *const[]){name, NULL});
    json_put_texts(json, "names", (const char *const[]){name, NULL});
    e2b_put_time(json, "createdAt", created_ms * 1000);
    e2b_put_time(json, "updatedAt", created_ms * 1000);
    json_put_nil(json, "createdBy");
    json_put_nil(json, "lastSpawnedAt");
    json_put_uint(json, "spawnCount", 0);
    json_put_uint(json, "buildCount", 1);
    json_put_str(json, "envdVersion", E2B_ENVD_VERSION);
    json_put_str(json, "buildStatus", "ready");
}

struct template_list {
    struct http_request *request;
    struct json *json;
    bool base;
};

static void snapshot_put_own(void *user, const char *name) {
    struct template_list *list = user;
    list->base |= !strcmp(name, "base");
    json_open(list->json, '{');
    snapshot_put_template(list->request, list->json, name, name, NULL);
    json_close(list->json, '}');
}

static int e2b_templates(struct http_request *request, struct box *, struct err *err) {
    struct e2b_build *builds;
    size_t count;
    struct json json;
    struct template_list list = {.request = request, .json = &json};
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    json_init(&json, &out);
    json_open(&json, '[');
    int failed = e2b_builds(e2b_owner(request), &builds, &count, err);
    if (!failed && front_of(request)->env)
        failed = template_list(front_of(request)->env, snapshot_put_own, &list, err);
    if (failed)
        return failed;
    if (!list.base)
        snapshot_put_own(&list, "base");
    for (size_t i = 0; i < count; i++)
        if (e2b_build_find(builds, i, builds[i].template_id, NULL) == NULL) { /* the newest build of each */
            json_open(&json, '{');
            snapshot_put_template(request, &json, builds[i].template_id, builds[i].name, &builds[i]);
            json_close(&json, '}');
        }
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

static int e2b_template_look(struct http_request *request, struct box *, struct err *err) {
    const char *text = http_param(request, "template");
    struct e2b_template template;
    struct e2b_build *build;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    int failed = snapshot_build(request, text, true, &build, err);
    if (!failed && !build)
        failed = e2b_template_find(request, text, &template, err);
    if (failed)
        return failed;
    struct json json = json_begin(&out);
    snapshot_put_template(request, &json, build ? build->template_id : template.id,
                          build ? build->name : template.alias, build);
    json_put_open(&json, "builds", '[');
    json_close(&json, ']');
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

static const struct row publish_body[] = {
    E2B_ROW("public", BOOL, e2b_snapshot_args, open, .text = "Noted; templates are their owner's alone here."),
    E2B_ROWS_END};

static int e2b_template_publish(struct http_request *request, struct box *, struct err *err) {
    const char *text = http_param(request, "template");
    struct e2b_snapshot_args args = {0};
    struct e2b_build *build;
    autobuf out = buf_max(4096);
    STEP(e2b_body(request, &args, NULL, err));
    STEP(snapshot_build(request, text, true, &build, err));
    if (!build)
        return snapshot_no_template(request, text);
    build->open = args.open;
    STEP(e2b_build_write(e2b_owner(request), build, err));
    struct json json = json_begin(&out);
    json_put_texts(&json, "names", (const char *const[]){build->name, NULL});
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

/* ---- tags ---- */

static const struct row tag_body[] = {
    E2B_ROW("target", TEXT, e2b_snapshot_args, target, .flags = ROW_REQUIRED, .max = 256, .text = "name[:tag]"),
    E2B_ROW("tags", TEXTS, e2b_snapshot_args, tags, .flags = ROW_REQUIRED, .max = 64, .text = "That it gets."),
    E2B_ROWS_END,
};
static const struct row untag_body[] = {
    E2B_ROW("name", TEXT, e2b_snapshot_args, name, .flags = ROW_REQUIRED, .max = 256, .text = "A template."),
    E2B_ROW("tags", TEXTS, e2b_snapshot_args, tags, .flags = ROW_REQUIRED, .max = 64, .text = "That go."),
    E2B_ROWS_END,
};

static int e2b_tag(struct http_request *request, struct box *, struct err *err) {
    struct e2b_snapshot_args args = {0};
    struct e2b_build *build = NULL;
    char uuid[E2B_UUID_BYTES];
    const char *tag;
    autobuf out = buf_max(65536);
    STEP(e2b_body(request, &args, NULL, err));
    STEP(snapshot_build(request, args.target.data, false, &build, err));
    if (!build)
        return snapshot_no_template(request, args.target.data);
    e2b_build_uuid(build, uuid);
    struct json json = json_begin(&out);
    json_put_str(&json, "buildID", uuid);
    json_put_open(&json, "tags", '[');
    int failed = 0;
    for (const char **item = args.tags; !failed && *item; item++) {
        failed =
            e2b_template_tag(request, *item, &tag, err) ?: e2b_build_tag(e2b_owner(request), build, tag, true, err);
        if (!failed)
            json_str(&json, tag);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    return failed ? failed : e2b_json(request, 201, &out, err);
}

static int e2b_untag(struct http_request *request, struct box *, struct err *err) {
    struct e2b_snapshot_args args = {0};
    struct e2b_named named;
    const char *tag;
    STEP(e2b_body(request, &args, NULL, err) ?: e2b_builds_named(request, args.name.data, &named, err));
    for (const char **item = args.tags; *item; item++) {
        STEP(e2b_template_tag(request, *item, &tag, err));
        struct e2b_build *build = e2b_build_find(named.builds, named.count, named.name, tag);
        if (!build)
            return snapshot_no_template(request, arena_printf(http_arena(request), "%s:%s", named.name, tag));
        STEP(e2b_build_tag(e2b_owner(request), build, tag, false, err));
    }
    return front_empty(request, 204);
}

static int e2b_tags(struct http_request *request, struct box *, struct err *err) {
    const char *text = http_param(request, "template");
    struct e2b_named named;
    bool found = false;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    STEP(e2b_builds_named(request, text, &named, err));
    struct json json = json_list(&out);
    for (struct e2b_build *build = named.builds; build < named.builds + named.count; build++) {
        char uuid[E2B_UUID_BYTES];
        if (!e2b_build_find(build, 1, named.name, NULL))
            continue;
        found = true;
        e2b_build_uuid(build, uuid);
        for (const char **tag = build->tags; *tag; tag++) {
            json_open(&json, '{');
            json_put_str(&json, "tag", *tag);
            json_put_str(&json, "buildID", uuid);
            e2b_put_time(&json, "createdAt", build->kept.created_ms * 1000);
            json_close(&json, '}');
        }
    }
    json_close(&json, ']');
    return found ? e2b_json(request, 200, &out, err) : snapshot_no_template(request, text);
}

static const struct row snapshots_query[] = {E2B_QUERY("sandboxID", 512, "Only those of this sandbox."),
                                             E2B_QUERY("name", 512, "Only those of this name."),
                                             E2B_QUERY("limit", 512, "1 to 100; 100."),
                                             E2B_QUERY("nextToken", 512, "X-Next-Token of the page before."),
                                             {0}};

const struct route e2b_snapshot_routes[] = {
    E2B_ROUTE("POST", "/sandboxes/{id}/snapshots", 0, "e2b_snapshot", "keep a sandbox's files as a template",
              .run = e2b_snapshot, .body = snapshot_body, .status = 201),
    E2B_ROUTE("GET", "/snapshots", 0, "e2b_snapshots", "snapshots, by pages", .run = e2b_snapshots,
              .query = snapshots_query, .status = 200),
    E2B_ROUTE("POST", "/sandboxes/{id}/fork", 0, "e2b_fork", "sandboxes with the same files", .run = e2b_fork,
              .body = fork_body, .status = 201),
    E2B_ROUTE("GET", "/templates/aliases/{alias}", 0, "e2b_template_exists", "whether there is a template",
              .run = e2b_template_exists, .status = 200),
    E2B_ROUTE("GET", "/templates", 0, "e2b_templates_v1", "templates", .run = e2b_templates, .status = 200),
    E2B_ROUTE("GET", "/v2/templates", 0, "e2b_templates", "templates", .run = e2b_templates, .status = 200),
    E2B_ROUTE("GET", "/templates/{template}", 0, "e2b_template", "one template", .run = e2b_template_look,
              .status = 200),
    E2B_ROUTE("DELETE", "/templates/{template}", 0, "e2b_template_delete", "remove a template or snapshot",
              .run = e2b_template_delete, .status = 204),
    E2B_ROUTE("PATCH", "/v2/templates/{template}", 0, "e2b_template_publish", "note that a template is public",
              .run = e2b_template_publish, .body = publish_body, .status = 200),
    E2B_ROUTE("POST", "/templates/tags", 0, "e2b_tag", "tag a build", .run = e2b_tag, .body = tag_body, .status = 201),
    E2B_ROUTE("DELETE", "/templates/tags", 0, "e2b_untag", "take tags away", .run = e2b_untag, .body = untag_body,
              .status = 204),
    E2B_ROUTE("GET", "/templates/{template}/tags", 0, "e2b_tags", "tags of a template", .run = e2b_tags, .status = 200),
    {0},
};
