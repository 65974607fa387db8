/* The life of a sandbox: look, connect, resume, pause, time-outs, kill. Called through e2b_sandbox_routes. Invariants:
 * the deadline of a box is what endAt says while it runs, and a paused one has none; a record is read, changed and
 * written under one lock. */
#include "front/e2b/sandbox.h"

#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/sync.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/setup.h"
#include "front/trail.h"

/* ---- what all of them need ---- */

uint64_t e2b_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void e2b_put_time(struct json *json, const char *key, uint64_t wall_us) {
    char text[64];
    struct tm parts;
    time_t seconds = (time_t)(wall_us / 1000000);
    gmtime_r(&seconds, &parts);
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + len, sizeof text - len, ".%06uZ", (unsigned)(wall_us % 1000000));
    json_put_str(json, key, text);
}

int e2b_body(struct http_request *request, void *ret_args, json_t **ret_root, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    char *data;
    size_t len;
    json_t *root = NULL;
    int failed = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err) ?: rows_load(data, len, &root, err)
                     ?: rows_bind(root, endpoint->body, http_arena(request), ret_args, err);
    if (failed || !ret_root)
        json_decref(root);
    else
        *ret_root = root;
    return failed;
}

const char *e2b_member(struct http_request *request, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    char *text = value && !json_is_null(value) ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const char *copy = arena_strdup_or(http_arena(request), text);
    free(text);
    return copy;
}

int e2b_sandbox_put(struct http_request *request, struct box *box, struct e2b_sandbox *ret_sandbox, struct err *err) {
    struct e2b_sandbox sandbox = {.box = box};
    int failed = e2b_record_read(request, box->id, &sandbox.record, &sandbox.held, err);
    sandbox.paused = sandbox.held || atomic_load(&box->state) == BOX_PAUSED;
    if (!failed)
        *ret_sandbox = sandbox;
    return failed;
}

int e2b_sandbox_open(struct http_request *request, struct e2b_sandbox *ret_sandbox, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *id = e2b_id(request);
    struct box *box;
    if (!*id || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(id))
        return err_set(err, ERR_INVALID, "Invalid sandbox ID");
    STEP(provider_look(provider, front_who(request)->user, id, &box, err));
    int failed = e2b_sandbox_put(request, box, ret_sandbox, err);
    if (failed) {
        provider_look_end(provider, box);
        return failed;
    }
    ret_sandbox->opened = request;
    trail_box(request, box);
    return 0;
}

void e2b_sandbox_close(struct e2b_sandbox *sandbox) {
    if (!sandbox->opened)
        return;
    trail_box(sandbox->opened, NULL);
    provider_look_end(front_of(sandbox->opened)->provider, sandbox->box);
    *sandbox = (struct e2b_sandbox){0};
}

/* ---- answers ---- */

uint64_t e2b_cpus(const struct box *box) {
    double cpus = box->spec.limits.cpus;
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus > 0 ? (uint64_t)(cpus < 1 ? 1 : cpus + 0.5) : all > 0 ? (uint64_t)all : 1;
}

uint64_t e2b_memory_mb(const struct box *box) {
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
    return box->spec.limits.memory_mb ? box->spec.limits.memory_mb : all;
}

uint64_t e2b_disk_mb(struct http_request *request, const struct box *box) {
    const struct backend_env *env = front_of(request)->env;
    struct statvfs status;
    if (box->spec.limits.disk_mb)
        return box->spec.limits.disk_mb;
    return env && statvfs(env->state_dir, &status) == 0 ? (uint64_t)status.f_blocks * status.f_frsize >> 20 : 0;
}

static const char *sandbox_domain(struct http_request *request) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    return settings ? settings->domain : NULL;
}

void e2b_sandbox_members(struct http_request *request, const struct e2b_sandbox *sandbox, struct json *json) {
    char token[E2B_TOKEN_BYTES];
    const struct e2b_record *record = &sandbox->record;
    json_open(json, '{');
    json_put_str(json, "sandboxID", sandbox->box->id);
    json_put_str(json, "templateID", record->template_id);
    json_put_some(json, "alias", record->alias);
    json_put_str(json, "clientID", "cubby");
    json_put_str(json, "envdVersion", E2B_ENVD_VERSION);
    e2b_token(e2b_state(request), sandbox->box, false, token);
    json_put_str(json, "envdAccessToken", token);
    json_put_some(json, "domain", sandbox_domain(request));
    if (record->private_traffic) {
        e2b_token(e2b_state(request), sandbox->box, true, token);
        json_put_str(json, "trafficAccessToken", token);
    }
    json_close(json, '}');
}

int e2b_sandbox_answer(struct http_request *request, int status, const struct e2b_sandbox *sandbox, struct err *err) {
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    struct json json = {.out = &out};
    e2b_sandbox_members(request, sandbox, &json);
    return e2b_json(request, status, &out, err);
}

void e2b_sandbox_listed(struct http_request *request, const struct e2b_sandbox *sandbox, struct json *json) {
    const struct e2b_record *record = &sandbox->record;
    json_put_str(json, "sandboxID", sandbox->box->id);
    json_put_str(json, "templateID", record->template_id);
    json_put_some(json, "alias", record->alias);
    json_put_str(json, "clientID", "cubby");
    e2b_put_time(json, "startedAt", record->started_us);
    e2b_put_time(json, "endAt", record->end_ms * 1000);
    json_put_uint(json, "cpuCount", e2b_cpus(sandbox->box));
    json_put_uint(json, "memoryMB", e2b_memory_mb(sandbox->box));
    json_put_uint(json, "diskSizeMB", e2b_disk_mb(request, sandbox->box));
    json_put_str(json, "state", sandbox->paused ? "paused" : "running");
    json_put_str(json, "envdVersion", E2B_ENVD_VERSION);
    if (record->metadata)
        json_put_raw(json, "metadata", record->metadata, strlen(record->metadata));
    if (record->volumes)
        json_put_raw(json, "volumeMounts", record->volumes, strlen(record->volumes));
}

static int sandbox_info(struct http_request *request, struct box *, struct err *err) {
    autosandbox sandbox = {0};
    char token[E2B_TOKEN_BYTES];
    STEP(e2b_sandbox_open(request, &sandbox, err));
    const struct e2b_record *record = &sandbox.record;
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    struct json json = json_begin(&out);
    e2b_sandbox_listed(request, &sandbox, &json);
    if (plane_writes(request)) { /* it opens more than reading */
        e2b_token(e2b_state(request), sandbox.box, false, token);
        json_put_str(&json, "envdAccessToken", token);
    }
    json_put_some(&json, "domain", sandbox_domain(request));
    if (record->internet)
        json_put_bool(&json, "allowInternetAccess", record->internet == E2B_INTERNET_ON);
    if (record->network)
        json_put_raw(&json, "network", record->network, strlen(record->network));
    json_put_open(&json, "lifecycle", '{');
    json_put_str(&json, "onTimeout", record->auto_pause ? "pause" : "kill");
    json_put_bool(&json, "autoResume", record->auto_resume);
    json_close(&json, '}');
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

/* ---- kill ---- */

static int sandbox_kill(struct http_request *request, struct box *, struct err *err) {
    autosandbox sandbox = {0};
    char id[17];
    STEP(e2b_sandbox_open(request, &sandbox, err));
    memcpy(id, sandbox.box->id, sizeof id);
    e2b_sandbox_close(&sandbox);
    return provider_destroy(front_of(request)->provider, front_who(request)->user, id, err)
               ?: front_empty(request, 204);
}

/* ---- time ---- */

struct sandbox_change {
    uint64_t end_ms;                 /* when it ends; 0: as before */
    bool later;                      /* end_ms counts only if it is later than before */
    bool started, introduced, pause; /* it starts now; e2b_sandbox_introduce is done; it has no deadline from now on */
};

/* Of the record as it is now. */
static int sandbox_change(struct http_request *request, const char *id, const struct sandbox_change *change,
                          struct e2b_record *ret_record, struct err *err) {
    bool held;
    autolock(&e2b_state(request)->lock);
    STEP(e2b_record_read(request, id, ret_record, &held, err));
    if (change->end_ms && (!change->later || change->end_ms > ret_record->end_ms))
        ret_record->end_ms = change->end_ms;
    if (change->started)
        ret_record->started_us = e2b_now_us();
    if (change->introduced)
        ret_record->fresh = false;
    return e2b_record_write(request, id, ret_record, !change->pause, err);
}

int e2b_sandbox_traffic(struct http_request *request, const struct e2b_sandbox *sandbox, const json_t *traffic,
                        struct err *err) {
    static const char *const keys[] = {"allowOut", "denyOut", "rules"};
    struct e2b_record record;
    bool held;
    autolock(&e2b_state(request)->lock);
    STEP(e2b_record_read(request, sandbox->box->id, &record, &held, err));
    json_auto_t *network = record.network ? json_loads(record.network, 0, NULL) : NULL;
    network = network ? network : json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(traffic, keys[i]);
        if (value && !json_is_null(value))
            json_object_set(network, keys[i], value);
        else
            json_object_del(network, keys[i]);
    }
    char *text = json_object_size(network) ? json_dumps(network, JSON_COMPACT) : NULL;
    record.network = text ? arena_strdup(http_arena(request), text) : NULL;
    free(text);
    return e2b_record_write(request, sandbox->box->id, &record, !sandbox->paused, err);
}

int e2b_sandbox_introduce(struct http_request *request, const struct e2b_sandbox *sandbox, struct err *err) {
    static const struct file_rights rights = {.root = true};
    struct provider *provider = front_of(request)->provider;
    const char *const values[][2] = {{"/run/e2b/.E2B_SANDBOX", "true"},
                                     {"/run/e2b/.E2B_SANDBOX_ID", sandbox->box->id},
                                     {"/run/e2b/.E2B_TEMPLATE_ID", sandbox->record.template_id}};
    struct e2b_record record;
    struct file_stat stat;
    struct box *box;
    bool created;
    STEP(provider_get(provider, NULL, sandbox->box->id, &box, err));
    int failed = 0;
    for (size_t i = 0; !failed && box_has_root(box) && i < sizeof values / sizeof *values; i++) {
        struct view text = view_of(values[i][1], strlen(values[i][1]));
        const struct write_request file = {
            .path = values[i][0], .mode = 0644, .parents = true, .rights = &rights, .size = -1, .max = 4096};
        failed = box_write(box, &file, box_read_view, &text, -1, &created, &stat, err);
    }
    if (!failed)
        failed = sandbox_change(request, box->id, &(struct sandbox_change){.introduced = true}, &record, err);
    provider_put(provider, box);
    return failed;
}

struct time_args {
    struct row_number timeout, duration;
    bool auto_pause, memory;
};

static const struct row timeout_body[] = {
    E2B_ROW("timeout", INT, time_args, timeout, .max = 31536000, .text = "Seconds from now."), E2B_ROWS_END};
static const struct row refresh_body[] = {
    E2B_ROW("duration", INT, time_args, duration, .max = 3600, .text = "Seconds from now, at least."), E2B_ROWS_END};
static const struct row connect_body[] = {
    E2B_ROW("timeout", INT, time_args, timeout, .max = 31536000, .text = "Seconds from now, at least."),
    E2B_ROW("memory", BOOL, time_args, memory, .text = "false: a paused one starts over with its files."),
    E2B_ROW("autoPause", BOOL, time_args, auto_pause, .text = "As at create."),
    E2B_ROWS_END,
};
static const struct row pause_body[] = {
    E2B_ROW("memory", BOOL, time_args, memory, .text = "false: its processes end, its files stay."),
    E2B_ROWS_END,
};

/* setTimeout and refreshes: of a sandbox that runs. */
static int sandbox_time(struct http_request *request, uint64_t seconds, bool later, struct err *err) {
    autosandbox sandbox = {0};
    STEP(e2b_sandbox_open(request, &sandbox, err));
    const struct sandbox_change change = {.end_ms = clock_wall_ms() + seconds * 1000, .later = later};
    if (sandbox.paused)
        return e2b_fail(request, 404, ERR_NOT_FOUND, "Sandbox \"%s\" doesn't exist or you don't have access to it",
                        sandbox.box->id);
    return sandbox_change(request, sandbox.box->id, &change, &sandbox.record, err) ?: front_empty(request, 204);
}

static int sandbox_timeout(struct http_request *request, struct box *, struct err *err) {
    struct time_args args = {0};
    STEP(e2b_body(request, &args, NULL, err));
    if (!args.timeout.has)
        return err_set(err, ERR_INVALID, "timeout is missing");
    return sandbox_time(request, args.timeout.value, false, err);
}

static int sandbox_refresh(struct http_request *request, struct box *, struct err *err) {
    struct time_args args = {0};
    return e2b_body(request, &args, NULL, err) ?: sandbox_time(request, args.duration.value, true, err);
}

/* ---- pause, resume, connect ---- */

static int sandbox_pause(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    autosandbox sandbox = {0};
    struct time_args args = {.memory = true};
    STEP(e2b_body(request, &args, NULL, err) ?: e2b_sandbox_open(request, &sandbox, err));
    const char *id = sandbox.box->id, *user = front_who(request)->user;
    if (sandbox.paused)
        return e2b_fail(request, 409, ERR_PAUSED, "Sandbox \"%s\" is already paused", id);
    return (args.memory ? provider_pause(provider, user, id, err) : provider_stop(provider, user, id, err))
               ?: sandbox_change(request, id, &(struct sandbox_change){.pause = true}, &sandbox.record, err)
               ?: front_empty(request, 204);
}

int e2b_sandbox_wake(struct http_request *request, const struct box *box, bool memory, uint64_t timeout_ms,
                     struct e2b_record *ret_record, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct box *running = NULL;
    char id[17];
    bool held = false;
    memcpy(id, box->id, sizeof id);
    int failed = (memory ? 0 : provider_stop(provider, NULL, id, err))
                     ?: e2b_record_read(request, id, ret_record, &held, err)
                     ?: provider_resume(provider, NULL, id, err)
                     ?: provider_get(provider, NULL, id, &running, err);
    if (!failed && held) /* nothing of it ran any more */
        failed = e2b_setup_sandbox(request, running, ret_record->setup, err);
    const struct sandbox_change change = {.end_ms = clock_wall_ms() + timeout_ms, .started = true};
    if (!failed)
        failed = sandbox_change(request, id, &change, ret_record, err);
    provider_put(provider, running);
    return failed;
}

static int sandbox_connect_to(struct http_request *request, const struct time_args *args, uint64_t fallback_s,
                              bool only_paused, struct err *err) {
    autosandbox sandbox = {0};
    uint64_t timeout_ms = (args->timeout.has ? args->timeout.value : fallback_s) * 1000;
    STEP(e2b_sandbox_open(request, &sandbox, err));
    const struct sandbox_change change = {.end_ms = clock_wall_ms() + timeout_ms, .later = true};
    int status = sandbox.paused ? 201 : 200;
    if (!sandbox.paused && only_paused)
        return e2b_fail(request, 409, ERR_EXISTS, "Sandbox \"%s\" is already running", sandbox.box->id);
    STEP(sandbox.paused ? e2b_sandbox_wake(request, sandbox.box, args->memory, timeout_ms, &sandbox.record, err)
                        : sandbox_change(request, sandbox.box->id, &change, &sandbox.record, err));
    return e2b_sandbox_answer(request, status, &sandbox, err);
}

static int sandbox_connect(struct http_request *request, struct box *, struct err *err) {
    struct time_args args = {.memory = true};
    STEP(e2b_body(request, &args, NULL, err));
    if (!args.timeout.has && strncmp(http_path(request), "/v2/", 4) != 0)
        return err_set(err, ERR_INVALID, "timeout is missing");
    return sandbox_connect_to(request, &args, 300, false, err);
}

static int sandbox_resume(struct http_request *request, struct box *, struct err *err) {
    struct time_args args = {.memory = true};
    return e2b_body(request, &args, NULL, err) ?: sandbox_connect_to(request, &args, 15, true, err);
}

/* ---- the table ---- */

static const struct row sandbox_answer_rows[] = {
    {.name = "sandboxID", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "Its id."},
    {.name = "templateID", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "What it was made from."},
    {.name = "clientID", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "Always cubby."},
    {.name = "envdVersion", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "What its inside can do."},
    {.name = "envdAccessToken", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "Opens its inside."},
    {.name = "domain", .type = ROW_TEXT, .flags = ROW_MAYBE, .text = "Below which its ports have hosts."},
    {0},
};

static const struct row network_body[] = {E2B_ROWS_END};

const struct route e2b_sandbox_routes[] = {
    E2B_ROUTE("POST", "/v2/sandboxes", 0, "e2b_create", "make a sandbox", .run = e2b_create, .body = e2b_create_body,
              .status = 201, .answer = sandbox_answer_rows),
    E2B_ROUTE("POST", "/sandboxes", 0, "e2b_create_v1", "make a sandbox (older clients)", .run = e2b_create,
              .body = e2b_create_body, .status = 201, .answer = sandbox_answer_rows),
    E2B_ROUTE("GET", "/v2/sandboxes", 0, "e2b_list", "sandboxes, by pages", .run = e2b_list, .query = e2b_list_query,
              .status = 200),
    E2B_ROUTE("GET", "/sandboxes", 0, "e2b_list_v1", "sandboxes that run", .run = e2b_list_old, .query = e2b_list_query,
              .status = 200),
    E2B_ROUTE("GET", "/sandboxes/{id}", 0, "e2b_info", "one sandbox", .run = sandbox_info, .status = 200),
    E2B_ROUTE("DELETE", "/sandboxes/{id}", 0, "e2b_kill", "end a sandbox", .run = sandbox_kill, .status = 204),
    E2B_ROUTE("POST", "/sandboxes/{id}/timeout", 0, "e2b_timeout", "set when a sandbox ends", .run = sandbox_timeout,
              .body = timeout_body, .status = 204),
    E2B_ROUTE("POST", "/sandboxes/{id}/refreshes", 0, "e2b_refresh", "let a sandbox end later", .run = sandbox_refresh,
              .body = refresh_body, .status = 204),
    E2B_ROUTE("POST", "/sandboxes/{id}/pause", 0, "e2b_pause", "pause a sandbox", .run = sandbox_pause,
              .body = pause_body, .status = 204),
    E2B_ROUTE("POST", "/sandboxes/{id}/resume", 0, "e2b_resume", "resume a paused sandbox", .run = sandbox_resume,
              .body = connect_body, .status = 201, .answer = sandbox_answer_rows),
    E2B_ROUTE("POST", "/sandboxes/{id}/connect", 0, "e2b_connect_v1", "connect (older clients)", .run = sandbox_connect,
              .body = connect_body, .status = 200, .other_status = 201, .answer = sandbox_answer_rows),
    E2B_ROUTE("POST", "/v2/sandboxes/{id}/connect", 0, "e2b_connect", "connect to a sandbox, paused or not",
              .run = sandbox_connect, .body = connect_body, .status = 200, .other_status = 201,
              .answer = sandbox_answer_rows),
    E2B_ROUTE("PUT", "/sandboxes/{id}/network", 0, "e2b_network", "the traffic of a sandbox", .run = e2b_network,
              .body = network_body, .status = 204),
    {0},
};
