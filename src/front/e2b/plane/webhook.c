/* Webhooks: lifecycle events sent to servers of users. Called through e2b_webhook_routes; a thread of its own turns rows
 * of the audit log into deliveries and sends them. Invariants: an event that was recorded is sent at least once, also by
 * the next daemon, or given up after its retries; nothing is sent to a host that the configuration does not name. */
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/e2b/history.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"
#include "front/trail.h"
#include "http/client/client.h"

enum {
    WEBHOOKS_MOST = 20,    /* of a user */
    WEBHOOK_QUEUE = 10000, /* deliveries of all together; more are given up */
    WEBHOOK_ROWS = 500,    /* of the audit log at once */
    WEBHOOK_TRIES = 4,     /* the first one, and three more */
    WEBHOOK_RETRY_MS = 10000,
    WEBHOOK_CLAIM_MS = 30000, /* so long a delivery is one daemon's */
    WEBHOOK_ANSWER_MS = 10000,
    WEBHOOK_LOOK_MS = 1000,
    WEBHOOK_STACK_BYTES = 512 << 10,
};

/* ---- where to ---- */

/* "http://host[:port]" of a URL, and its length; 0: it is not one. */
static size_t webhook_origin(const char *url) {
    size_t scheme = !strncmp(url, "http://", 7) ? 7 : !strncmp(url, "https://", 8) ? 8 : 0;
    size_t host =
        scheme ? strspn(url + scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") : 0;
    const char *end = url + scheme + host;
    return host && (!*end || *end == '/' || *end == '?') ? scheme + host : 0;
}

/* hosts: "name[:port]", "*.name": all below it. A host that is named itself may be one of this network, one that users
 * choose below a name may not; an address means itself. */
static bool webhook_host(const char *url, const char *const *hosts, enum http_reach *ret_reach) {
    size_t len = webhook_origin(url), from = len ? (size_t)(strstr(url, "//") + 2 - url) : 0;
    const char *host = url + from, *colon = memchr(host, ':', len - from);
    for (; len && hosts && *hosts; hosts++) {
        size_t bare = colon && !strchr(*hosts, ':') ? (size_t)(colon - host) : len - from, want = strlen(*hosts);
        bool below =
            !strncmp(*hosts, "*.", 2) && bare >= want && !strncasecmp(host + bare - want + 1, *hosts + 1, want - 1);
        bool same = bare == want && !strncasecmp(host, *hosts, want);
        *ret_reach = below                                                        ? HTTP_PUBLIC
                     : *host == '[' || strspn(host, "0123456789.:") >= len - from ? HTTP_ANYWHERE
                                                                                  : HTTP_NAMED;
        if (below || same)
            return true;
    }
    return false;
}

static int webhook_allowed(const struct e2b_settings *settings, const char *url, enum http_reach *ret_reach,
                           struct err *err) {
    if (!webhook_origin(url))
        return err_set(err, ERR_INVALID, "url must be http://HOST[:PORT]/... or https://...");
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 127)
            return err_set(err, ERR_INVALID, "url must be http://HOST[:PORT]/... or https://...");
    if (!settings || !webhook_host(url, settings->webhook_hosts, ret_reach))
        return err_set(err, ERR_DENIED, "webhooks go only to hosts that the option e2b_webhook_hosts names");
    return 0;
}

/* ---- requests ---- */

struct webhook_args {
    struct row_text name, url, secret;
    const char **events;
};
static const struct row webhook_body[] = {
    E2B_ROW("name", TEXT, webhook_args, name, .min = 1, .max = 128, .text = "Any text."),
    E2B_ROW("url", TEXT, webhook_args, url, .min = 1, .max = 2048, .text = "Where events are sent."),
    E2B_ROW("events", TEXTS, webhook_args, events, .max = 16,
            .text = "Types of events, sandbox.lifecycle.created and so on."),
    E2B_ROW("signatureSecret", TEXT, webhook_args, secret, .max = 256, .text = "Signs what is sent."),
    E2B_ROWS_END,
};

/* A URL of a request. Its host alone is recorded: the rest may hold a token. */
static int webhook_url(struct http_request *request, const char *url, struct err *err) {
    enum http_reach reach;
    STEP(webhook_allowed(front_own(request, &e2b_dialect), url, &reach, err));
    trail_note(request, arena_copy(http_arena(request), url, webhook_origin(url)));
    return 0;
}

static int webhook_events(struct http_request *request, const char **events, const char **ret_text, struct err *err) {
    static const char *const kinds[] = {"created", "updated", "paused", "resumed", "killed", "checkpointed", NULL};
    autobuf out = buf_max(4096);
    struct json json = json_list(&out);
    for (; events && *events; events++) {
        const char *kind = strncmp(*events, "sandbox.lifecycle.", 18) ? "" : *events + 18;
        if (!text_list_has(kinds, kind))
            return err_set(err, ERR_INVALID, "events: there is no '%.60s'", *events);
        json_str(&json, *events);
    }
    json_close(&json, ']');
    *ret_text = arena_copy(http_arena(request), out.data, out.len);
    return 0;
}

#define WEBHOOK_COLUMNS "SELECT id, name, url, enabled, events, created_us FROM webhook "

static void webhook_put(struct json *json, const struct query *query, const char *team) {
    const char *events = query_text(query, 4);
    json_open(json, '{');
    json_put_str(json, "id", query_text(query, 0));
    json_put_str(json, "teamId", team);
    json_put_str(json, "name", query_text(query, 1));
    json_put_str(json, "url", query_text(query, 2));
    json_put_bool(json, "enabled", query_int(query, 3) != 0);
    json_put_raw(json, "events", events, strlen(events));
    e2b_put_time(json, "createdAt", (uint64_t)query_int(query, 5));
    json_close(json, '}');
}

/* One (id) or all (NULL), of the caller. */
static int webhook_answer(struct http_request *request, int status, const char *id, struct err *err) {
    struct plane *plane = plane_of(request);
    size_t count = 0;
    autobuf out = buf_max(1 << 20);
    struct json json = {.out = &out};
    if (!id)
        json_open(&json, '[');
    {
        autolock(&plane->lock);
        autoquery query = {0};
        int row = db_query(&plane->db, &query, err,
                           WEBHOOK_COLUMNS "WHERE user=?1 AND (?2 IS NULL OR id=?2) ORDER BY created_us", "tt",
                           plane_user(request), id);
        for (; !row && (row = query_next(&query, err)) == 1; row = 0, count++)
            webhook_put(&json, &query, plane_user(request));
        if (row < 0)
            return row;
    }
    if (id && !count)
        return e2b_fail(request, 404, ERR_NOT_FOUND, "webhook '%.60s' not found", id);
    if (!id)
        json_close(&json, ']');
    return e2b_json(request, status, &out, err);
}

/* The newest row of the audit log: only what comes later is sent. */
static void webhook_newest(void *user, const struct audit_row *row) {
    *(uint64_t *)user = row->id;
}

static int webhook_insert(struct http_request *request, const struct webhook_args *args, bool enabled, const char *id,
                          const char *events, struct err *err) {
    struct plane *plane = plane_of(request);
    struct audit_page page;
    int64_t all = 0, own = 0;
    uint64_t newest = 0;
    const struct audit_query last = {.limit = 1, .tail = true};
    STEP(audit_read(front_of(request)->audit, &last, webhook_newest, &newest, &page, err));
    autolock(&plane->lock);
    TRY(db_get(&plane->db, err, "SELECT count(*), sum(user=?1) FROM webhook", "t>ii", plane_user(request), &all, &own));
    if (own >= WEBHOOKS_MOST)
        return err_set(err, ERR_LIMIT, "a user has at most %d webhooks; delete some", WEBHOOKS_MOST);
    if (!all)
        STEP(db_do(&plane->db, err, "DELETE FROM cursor", "")
                 ?: db_do(&plane->db, err, "INSERT INTO cursor VALUES(?1)", "i", newest));
    return db_do(&plane->db, err, "INSERT INTO webhook VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", "ttttntti", id,
                 plane_user(request), args->name.data ? args->name.data : "", args->url.data, enabled, events,
                 args->secret.data ? args->secret.data : "", e2b_now_us());
}

static int webhook_create(struct http_request *request, struct box *, struct err *err) {
    struct webhook_args args = {0};
    char id[17];
    const char *events;
    json_t *root;
    STEP(e2b_body(request, &args, &root, err));
    bool enabled = !json_is_false(json_object_get(root, "enabled"));
    json_decref(root);
    if (!args.url.data || !args.events || !*args.events)
        return err_set(err, ERR_INVALID, "a webhook has a url and events");
    if (!front_of(request)->audit)
        return err_set(err, ERR_UNSUPPORTED, "webhooks need the audit log, which is switched off (audit)");
    STEP(webhook_url(request, args.url.data, err) ?: webhook_events(request, args.events, &events, err));
    policy_random_id(id);
    STEP(webhook_insert(request, &args, enabled, id, events, err));
    webhook_send(plane_of(request));
    return webhook_answer(request, 201, id, err);
}

static int webhook_change(struct http_request *request, struct box *, struct err *err) {
    struct plane *plane = plane_of(request);
    struct webhook_args args = {0};
    const char *events = NULL, *id = http_param(request, "webhook");
    json_t *root;
    STEP(e2b_body(request, &args, &root, err));
    const json_t *wish = json_object_get(root, "enabled");
    int enabled = json_is_boolean(wish) ? json_is_true(wish) : -1;
    json_decref(root);
    if (args.url.data)
        STEP(webhook_url(request, args.url.data, err));
    if (args.events)
        STEP(webhook_events(request, args.events, &events, err));
    {
        autolock(&plane->lock);
        STEP(db_do(&plane->db, err,
                   "UPDATE webhook SET name=ifnull(?3, name), url=ifnull(?4, url), events=ifnull(?5, events), "
                   "secret=ifnull(?6, secret), enabled=CASE ?7 WHEN -1 THEN enabled ELSE ?7 END "
                   "WHERE user=?1 AND id=?2",
                   "ttttttn", plane_user(request), id, args.name.data, args.url.data, events, args.secret.data, enabled)
                 ?: db_do(&plane->db, err,
                          "DELETE FROM delivery WHERE webhook IN (SELECT id FROM webhook WHERE NOT enabled)", ""));
    }
    return webhook_answer(request, 200, id, err);
}

static int webhook_look(struct http_request *request, struct box *, struct err *err) {
    return webhook_answer(request, 200, http_param(request, "webhook"), err);
}

static int webhook_delete(struct http_request *request, struct box *, struct err *err) {
    struct plane *plane = plane_of(request);
    const char *id = http_param(request, "webhook");
    bool found;
    {
        autolock(&plane->lock);
        STEP(db_do(&plane->db, err, "DELETE FROM webhook WHERE user=?1 AND id=?2", "tt", plane_user(request), id));
        found = sqlite3_changes(plane->db.handle) > 0;
        db_do(&plane->db, ERR_IGNORED, "DELETE FROM delivery WHERE webhook NOT IN (SELECT id FROM webhook)", "");
    }
    return found ? front_empty(request, 204) : e2b_fail(request, 404, ERR_NOT_FOUND, "webhook '%.60s' not found", id);
}

/* ---- rows of the audit log become deliveries ---- */

struct webhook_rows {
    struct plane *plane;
    struct arena arena;
    struct e2b_happened *items;
    size_t count, cap;
};

static void webhook_row(void *user, const struct audit_row *row) {
    struct webhook_rows *rows = user;
    struct e2b_happened happened = e2b_happened(row, &rows->arena);
    if (e2b_event_kind(&happened) && text_id(happened.box))
        arena_add(&rows->arena, rows->items, rows->count, rows->cap) = happened;
}

static int webhook_queue_locked(struct webhook_rows *rows, const struct e2b_happened *happened, struct err *err) {
    struct plane *plane = rows->plane;
    char type[64];
    autobuf out = buf_max(256 << 10);
    struct json json = {.out = &out};
    e2b_event_put(plane->front->provider, &rows->arena, &json, happened, happened->user);
    snprintf(type, sizeof type, "\"sandbox.lifecycle.%s\"", e2b_event_kind(happened));
    return db_do(&plane->db, err,
                 "INSERT INTO delivery SELECT lower(hex(randomblob(16))), id, ?3, 0, 0 FROM webhook "
                 "WHERE user=?1 AND enabled AND instr(events, ?2) AND (SELECT count(*) FROM delivery) < ?4",
                 "ttti", happened->user, type, arena_copy(&rows->arena, out.data, out.len), (int64_t)WEBHOOK_QUEUE);
}

/* 1: there may be more. */
static int webhook_gather(struct plane *plane, struct err *err) {
    struct webhook_rows rows = {.plane = plane};
    struct audit_query query = {.limit = WEBHOOK_ROWS};
    struct audit_page page = {0};
    int64_t cursor = 0;
    pthread_mutex_lock(&plane->lock);
    int failed = db_number(&plane->db, "SELECT audit FROM cursor", &cursor, err);
    pthread_mutex_unlock(&plane->lock);
    query.after = (uint64_t)cursor;
    if (!failed)
        failed = audit_read(plane->front->audit, &query, webhook_row, &rows, &page, err);
    if (!failed && page.next > query.after) {
        autolock(&plane->lock);
        failed = db_begin(&plane->db, err);
        if (!failed) {
            failed = db_do(&plane->db, err, "UPDATE cursor SET audit=?2 WHERE audit=?1", "ii", query.after, page.next);
            bool ours = !failed && sqlite3_changes(plane->db.handle) == 1; /* not another daemon's by now */
            for (size_t i = 0; ours && !failed && i < rows.count; i++)
                failed = webhook_queue_locked(&rows, &rows.items[i], err);
            failed = db_end(&plane->db, failed, err);
        }
    }
    arena_done(&rows.arena);
    return failed ? failed : page.more;
}

/* ---- sending ---- */

struct webhook_delivery {
    char id[40], webhook[17];
    int64_t tries;
    const char *event, *url, *secret;
};

/* 1: one is due, and this daemon's for a while. */
static int webhook_claim(struct plane *plane, struct arena *arena, struct webhook_delivery *ret, struct err *err) {
    uint64_t now_ms = clock_wall_ms();
    autolock(&plane->lock);
    autoquery query = {0};
    int row = db_query(&plane->db, &query, err,
                       "SELECT delivery.id, webhook, tries, event, url, secret FROM delivery JOIN webhook "
                       "ON webhook.id=webhook WHERE next_ms<=?1 ORDER BY next_ms, delivery.rowid LIMIT 1",
                       "i", now_ms)
                  ?: query_next(&query, err);
    if (row <= 0)
        return row;
    snprintf(ret->id, sizeof ret->id, "%s", query_text(&query, 0));
    snprintf(ret->webhook, sizeof ret->webhook, "%s", query_text(&query, 1));
    ret->tries = query_int(&query, 2) + 1;
    ret->event = arena_strdup(arena, query_text(&query, 3));
    ret->url = arena_strdup(arena, query_text(&query, 4));
    ret->secret = arena_strdup(arena, query_text(&query, 5));
    query_end(&query);
    row = db_do(&plane->db, err, "UPDATE delivery SET tries=tries+1, next_ms=?2 WHERE id=?1 AND next_ms<=?3", "tii",
                ret->id, now_ms + WEBHOOK_CLAIM_MS, now_ms);
    return row < 0 ? row : sqlite3_changes(plane->db.handle);
}

/* The configuration may have changed since the webhook was made. */
static int webhook_still_allowed(struct plane *plane, const char *url, enum http_reach *ret_reach, struct err *err) {
    struct front_settings *settings = front_settings_take(plane->front);
    int refused = webhook_allowed(front_own_in(settings, &e2b_dialect), url, ret_reach, err);
    front_settings_unref(settings);
    return refused;
}

static int webhook_post(struct plane *plane, const struct webhook_delivery *delivery, struct arena *arena,
                        struct err *err) {
    size_t origin = webhook_origin(delivery->url), len = strlen(delivery->event);
    uint8_t digest[32];
    unsigned digest_len = sizeof digest;
    char hex[65];
    int status = 0;
    struct http_client *client;
    enum http_reach reach;
    autobuf coded = buf_max(128), answer = buf_max(65536);
    STEP(webhook_still_allowed(plane, delivery->url, &reach, err));
    const char *both = arena_printf(arena, "%s%s", delivery->secret, delivery->event);
    SHA256((const uint8_t *)both, strlen(both), digest);
    text_base64(&coded, digest, sizeof digest);
    while (coded.len && coded.data[coded.len - 1] == '=')
        coded.len--;
    HMAC(EVP_sha256(), delivery->secret, (int)strlen(delivery->secret), (const uint8_t *)delivery->event, len, digest,
         &digest_len);
    text_hex(hex, digest, sizeof digest);
    const char *headers[] = {"Content-Type: application/json",
                             arena_printf(arena, "e2b-webhook-id: %s", delivery->webhook),
                             arena_printf(arena, "e2b-delivery-id: %s", delivery->id),
                             "e2b-signature-version: v1",
                             arena_printf(arena, "e2b-signature: %.*s", (int)coded.len, (const char *)coded.data),
                             arena_printf(arena, "cubby-signature: hmac-sha256=%s", hex),
                             NULL};
    const char *path = delivery->url + origin;
    const struct http_call call = {.method = "POST",
                                   .path = *path == '/' ? path : arena_printf(arena, "/%s", path),
                                   .headers = headers,
                                   .body = delivery->event,
                                   .body_len = len,
                                   .timeout_ms = WEBHOOK_ANSWER_MS,
                                   .wake_fd = plane->stop[0]};
    STEP(http_client_new(arena_copy(arena, delivery->url, origin), NULL, &client, err));
    http_client_reach(client, reach);
    int failed = http_client_call(client, &call, &status, &answer, err);
    http_client_free(client);
    if (!failed && (status < 200 || status > 299))
        failed = err_set(err, ERR_IO, "it answered %d", status);
    return failed;
}

static void webhook_deliver(struct plane *plane, const struct webhook_delivery *delivery, struct arena *arena) {
    struct err err = {0};
    int failed = webhook_post(plane, delivery, arena, &err);
    autolock(&plane->lock);
    if (failed && delivery->tries >= WEBHOOK_TRIES)
        log_warn("webhook %s: an event was given up: %s", delivery->webhook, err.text);
    if (!failed || delivery->tries >= WEBHOOK_TRIES)
        db_do(&plane->db, ERR_IGNORED, "DELETE FROM delivery WHERE id=?1", "t", delivery->id);
    else
        db_do(&plane->db, ERR_IGNORED, "UPDATE delivery SET next_ms=?2 WHERE id=?1", "ti", delivery->id,
              plane->ending ? 0 : clock_wall_ms() + WEBHOOK_RETRY_MS);
}

static bool webhook_wanted(struct plane *plane) {
    int64_t webhooks = 0;
    autolock(&plane->lock);
    db_number(&plane->db, "SELECT count(*) FROM webhook", &webhooks, ERR_IGNORED);
    while (!webhooks && !plane->ending) {
        pthread_cond_wait(&plane->news, &plane->lock);
        db_number(&plane->db, "SELECT count(*) FROM webhook", &webhooks, ERR_IGNORED);
    }
    return !plane->ending;
}

static void *webhook_main(void *argument) {
    struct plane *plane = argument;
    while (webhook_wanted(plane)) {
        autoarena arena = ARENA_EMPTY;
        struct err err = {0};
        struct webhook_delivery delivery;
        uint64_t seen = audit_writes(plane->front->audit);
        int more = webhook_gather(plane, &err), due = webhook_claim(plane, &arena, &delivery, &err);
        if (more < 0 || due < 0)
            log_warn("webhooks: %s", err.text);
        if (due > 0)
            webhook_deliver(plane, &delivery, &arena);
        else if (more <= 0)
            audit_wait(plane->front->audit, seen, WEBHOOK_LOOK_MS);
    }
    return NULL;
}

void webhook_send(struct plane *plane) {
    autolock(&plane->lock);
    if (!plane->courier_runs && !plane->ending && plane->front->audit) {
        plane->courier = thread_joined(webhook_main, plane, WEBHOOK_STACK_BYTES);
        plane->courier_runs = true;
    }
    pthread_cond_broadcast(&plane->news);
}

/* ---- the table ---- */

static int webhook_list(struct http_request *request, struct box *, struct err *err) {
    return webhook_answer(request, 200, NULL, err);
}

const struct route e2b_webhook_routes[] = {
    E2B_ROUTE("POST", "/events/webhooks", 0, "e2b_webhook_create", "have events sent", .run = webhook_create,
              .body = webhook_body, .status = 201),
    E2B_ROUTE("GET", "/events/webhooks", 0, "e2b_webhooks", "where events are sent", .run = webhook_list,
              .status = 200),
    E2B_ROUTE("GET", "/events/webhooks/{webhook}", 0, "e2b_webhook", "one webhook", .run = webhook_look, .status = 200),
    E2B_ROUTE("PATCH", "/events/webhooks/{webhook}", 0, "e2b_webhook_change", "change a webhook", .run = webhook_change,
              .body = webhook_body, .status = 200),
    E2B_ROUTE("DELETE", "/events/webhooks/{webhook}", 0, "e2b_webhook_delete", "send no more events",
              .run = webhook_delete, .status = 204),
    {0},
};
