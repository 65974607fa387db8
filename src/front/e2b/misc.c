/* What a sandbox uses, what was done in it, and the little that teams are here. Called through e2b_misc_routes.
 * Invariant: nobody sees more than their own sandboxes. */

#include "base/clock.h"
#include "base/text.h"
#include "front/e2b/history.h"
#include "front/e2b/sandbox.h"

/* ---- metrics ---- */

/* 100 is one whole processor. From `before` to `sample`; before NULL: since the box was made. */
static double misc_cpu(const struct box *box, const struct usage_sample *before, const struct usage_sample *sample) {
    uint64_t from_ms = before ? before->at_ms : box->created_ms, cpu_ms = before ? before->usage.cpu_ms : 0;
    if (!sample->usage.has_cpu || sample->at_ms <= from_ms || sample->usage.cpu_ms < cpu_ms)
        return 0;
    return (double)(sample->usage.cpu_ms - cpu_ms) * 100 / (double)(sample->at_ms - from_ms);
}

static void misc_metric(struct http_request *request, const struct box *box, const struct usage_sample *before,
                        const struct usage_sample *sample, struct json *json) {
    json_open(json, '{');
    e2b_put_time(json, "timestamp", sample->at_ms * 1000);
    json_put_uint(json, "timestampUnix", sample->at_ms / 1000);
    json_put_uint(json, "cpuCount", e2b_cpus(box));
    json_put_double(json, "cpuUsedPct", misc_cpu(box, before, sample));
    json_put_uint(json, "memUsed", sample->usage.memory_bytes);
    json_put_uint(json, "memTotal", e2b_memory_mb(box) << 20);
    json_put_uint(json, "memCache", sample->usage.cache_bytes);
    json_put_uint(json, "diskUsed", sample->usage.disk_bytes);
    json_put_uint(json, "diskTotal", e2b_disk_mb(request, box) << 20);
    json_close(json, '}');
}

static struct usage_sample misc_now(struct box *box) {
    struct usage_sample now = {.at_ms = clock_wall_ms()};
    if (box_usage(box, &now.usage, ERR_IGNORED) < 0)
        now.usage = (struct usage){0};
    return now;
}

/* start and end are seconds since the epoch. What was measured while it ran, and of one that runs also now. */
static int misc_metrics(struct http_request *request, struct box *, struct err *err) {
    const char *start = http_query(request, "start", NULL), *end = http_query(request, "end", NULL);
    uint64_t from = 0, to = INT64_MAX / 1000;
    autosandbox sandbox = {0};
    struct usage_sample *samples;
    size_t count;
    autobuf out = buf_max(1 << 20);
    if ((start && !text_u64(start, INT64_MAX / 1000, &from)) || (end && !text_u64(end, INT64_MAX / 1000, &to)))
        return err_set(err, ERR_INVALID, "start and end are seconds since 1970");
    if (start && end && from > to)
        return err_set(err, ERR_INVALID, "start must not be after end");
    STEP(e2b_sandbox_open(request, &sandbox, err));
    STEP(provider_usage(front_of(request)->provider, sandbox.box->id, 0, UINT64_MAX, http_arena(request), &samples,
                        &count, err));
    if (!sandbox.paused)
        samples[count++] = misc_now(sandbox.box);
    struct json json = json_list(&out);
    for (size_t i = 0; i < count; i++)
        if (samples[i].at_ms >= from * 1000 && samples[i].at_ms / 1000 <= to)
            misc_metric(request, sandbox.box, i ? &samples[i - 1] : NULL, &samples[i], &json);
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

static int misc_metrics_all(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *ids = http_query(request, "sandbox_ids", NULL);
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    unsigned count = 0;

    struct json json = json_begin(&out);
    json_put_open(&json, "sandboxes", '{');
    for (char *id, *rest = ids ? arena_strdup(http_arena(request), ids) : NULL; (id = strsep(&rest, ","));) {
        struct e2b_sandbox sandbox;
        struct box *found;
        struct err ignored;
        if (++count > 100)
            return err_set(err, ERR_INVALID, "sandbox_ids: at most 100");
        id[strcspn(id, "-")] = 0;
        if (provider_look(provider, front_who(request)->user, id, &found, &ignored) < 0)
            continue;
        if (e2b_sandbox_put(request, found, &sandbox, &ignored) == 0) {
            const struct usage_sample now = misc_now(found);
            json_key(&json, found->id);
            misc_metric(request, found, NULL, &now, &json);
        }
        provider_look_end(provider, found);
    }
    json_close(&json, '}');
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

/* ---- logs ---- */

static void misc_log_entry(struct json *json, const struct e2b_happened *happened) {
    json_open(json, '{');
    e2b_put_time(json, "timestamp", happened->at_ms * 1000);
    json_put_str(json, "message", happened->message);
    json_put_str(json, "level", happened->failed ? "error" : "info");
    json_put_open(json, "fields", '{');
    json_put_str(json, "logger", happened->verb);
    json_close(json, '}');
    json_close(json, '}');
}

static void misc_log_line(struct json *json, const struct e2b_happened *happened) {
    autobuf line = buf_max(16384);
    struct json inner = json_begin(&line);
    json_put_str(&inner, "message", happened->message);
    json_put_str(&inner, "level", happened->failed ? "error" : "info");
    json_put_str(&inner, "logger", happened->verb);
    json_close(&inner, '}');
    json_open(json, '{');
    e2b_put_time(json, "timestamp", happened->at_ms * 1000);
    json_put_strn(json, "line", line.data, line.len);
    json_close(json, '}');
}

static int misc_logs_list(struct http_request *request, struct e2b_history *history, struct err *err) {
    autosandbox sandbox = {0};
    const char *limit = http_query(request, "limit", NULL);
    if (limit && (!text_u64(limit, 1000, &history->limit) || !history->limit))
        return err_set(err, ERR_INVALID, "limit must be 1 to 1000");
    STEP(e2b_sandbox_open(request, &sandbox, err));
    history->box = arena_strdup(http_arena(request), sandbox.box->id);
    return e2b_history_read(request, history, err);
}

static int misc_logs_old(struct http_request *request, struct box *, struct err *err) {
    const char *start = http_query(request, "start", NULL);
    struct e2b_history history = {.limit = 1000};
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    if (start && !text_u64(start, INT64_MAX, &history.since_ms))
        return err_set(err, ERR_INVALID, "start must be milliseconds since 1970");
    STEP(misc_logs_list(request, &history, err));
    struct json json = json_begin(&out);
    json_put_open(&json, "logs", '[');
    for (size_t i = 0; i < history.count; i++)
        misc_log_line(&json, &history.items[i]);
    json_close(&json, ']');
    json_put_open(&json, "logEntries", '[');
    for (size_t i = 0; i < history.count; i++)
        misc_log_entry(&json, &history.items[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

static int misc_logs(struct http_request *request, struct box *, struct err *err) {
    const char *cursor = http_query(request, "cursor", NULL), *direction = http_query(request, "direction", NULL);
    const char *level = http_query(request, "level", NULL), *search = http_query(request, "search", NULL);
    struct e2b_history history = {.limit = 1000};
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    uint64_t at_ms = 0;
    if (direction && strcmp(direction, "forward") != 0 && strcmp(direction, "backward") != 0)
        return err_set(err, ERR_INVALID, "direction must be forward or backward");
    if (cursor && *cursor && !text_u64(cursor, INT64_MAX, &at_ms))
        return err_set(err, ERR_INVALID, "cursor must be milliseconds since 1970");
    history.backward = direction && *direction == 'b';
    *(history.backward ? &history.until_ms : &history.since_ms) = at_ms;
    STEP(misc_logs_list(request, &history, err));
    struct json json = json_begin(&out);
    json_put_open(&json, "logs", '[');
    for (size_t i = 0; i < history.count; i++) {
        const struct e2b_happened *item = &history.items[history.backward ? history.count - 1 - i : i];
        if ((!level || !strcmp(level, "debug") || !strcmp(level, "info") || item->failed) &&
            (!search || strstr(item->message, search)))
            misc_log_entry(&json, item);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

/* ---- teams ---- */

static const char *misc_team(struct http_request *request) {
    const char *user = front_who(request)->user;
    return user ? user : "default";
}

static int misc_teams(struct http_request *request, struct box *, struct err *err) {
    autobuf out = buf_max(4096);
    struct json json = json_list(&out);
    json_open(&json, '{');
    json_put_str(&json, "teamID", misc_team(request));
    json_put_str(&json, "name", misc_team(request));
    json_put_str(&json, "apiKey", "");
    json_put_bool(&json, "isDefault", true);
    json_close(&json, '}');
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

struct misc_count {
    struct http_request *request;
    uint64_t running;
};

static int misc_count_one(void *user, struct box *box) {
    struct misc_count *count = user;
    const char *owner = front_who(count->request)->user;
    count->running += (!owner || !strcmp(owner, box->user)) && e2b_record_has(count->request, box) &&
                      atomic_load(&box->state) != BOX_PAUSED;
    return 0;
}

static int misc_team_metrics(struct http_request *request, struct box *, struct err *err) {
    struct misc_count count = {.request = request};
    bool max = strstr(http_path(request), "/max") != NULL;
    autobuf out = buf_max(4096);
    uint64_t now_us = e2b_now_us();
    if (strcmp(http_param(request, "team"), misc_team(request)) != 0)
        return e2b_fail(request, 404, ERR_NOT_FOUND, "no team '%.100s'", http_param(request, "team"));
    provider_each(front_of(request)->provider, misc_count_one, &count);
    struct json json = {.out = &out};
    if (!max)
        json_open(&json, '[');
    json_open(&json, '{');
    e2b_put_time(&json, "timestamp", now_us);
    json_put_uint(&json, "timestampUnix", now_us / 1000000);
    json_put_uint(&json, max ? "value" : "concurrentSandboxes", count.running);
    if (!max)
        json_put_uint(&json, "sandboxStartRate", 0);
    json_close(&json, '}');
    if (!max)
        json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

static const struct row metrics_query[] = {
    E2B_QUERY("start", 8192, "Seconds since 1970."), E2B_QUERY("end", 8192, "Seconds since 1970."), {0}};
static const struct row metrics_all_query[] = {E2B_QUERY("sandbox_ids", 8192, "Ids, with commas."), {0}};
static const struct row logs_query[] = {
    E2B_QUERY("start", 8192, "Milliseconds since 1970."), E2B_QUERY("limit", 8192, "1 to 1000; 1000."), {0}};
static const struct row logs_newer_query[] = {
    E2B_QUERY("cursor", 8192, "Milliseconds since 1970."),         E2B_QUERY("limit", 8192, "1 to 1000; 1000."),
    E2B_QUERY("direction", 8192, "forward or backward; forward."), E2B_QUERY("level", 8192, "info or error."),
    E2B_QUERY("search", 8192, "A part of the message."),           {0}};

const struct route e2b_misc_routes[] = {
    E2B_ROUTE("GET", "/sandboxes/{id}/metrics", ENDPOINT_QUIET, "e2b_metrics", "what a sandbox uses",
              .run = misc_metrics, .status = 200, .query = metrics_query),
    E2B_ROUTE("GET", "/sandboxes/metrics", ENDPOINT_QUIET, "e2b_metrics_all", "what several sandboxes use",
              .run = misc_metrics_all, .status = 200, .query = metrics_all_query),
    E2B_ROUTE("GET", "/sandboxes/{id}/logs", ENDPOINT_QUIET, "e2b_logs_v1",
              "what was done in a sandbox (older clients)", .run = misc_logs_old, .status = 200, .query = logs_query),
    E2B_ROUTE("GET", "/v2/sandboxes/{id}/logs", ENDPOINT_QUIET, "e2b_logs", "what was done in a sandbox",
              .run = misc_logs, .status = 200, .query = logs_newer_query),
    E2B_ROUTE("GET", "/teams", ENDPOINT_QUIET, "e2b_teams", "the caller's team", .run = misc_teams, .status = 200),
    E2B_ROUTE("GET", "/teams/{team}/metrics", ENDPOINT_QUIET, "e2b_team_metrics", "sandboxes of a team",
              .run = misc_team_metrics, .status = 200),
    E2B_ROUTE("GET", "/teams/{team}/metrics/max", ENDPOINT_QUIET, "e2b_team_metrics_max", "most sandboxes of a team",
              .run = misc_team_metrics, .status = 200),
    {0},
};
