/* The audit log as E2B's logs and lifecycle events. Called by misc.c, and through e2b_event_routes. Invariant: rows of
 * other users are never looked at. */
#include "front/e2b/history.h"

#include "base/text.h"
#include "front/e2b/sandbox.h"

enum { HISTORY_SYNC_MS = 2000, HISTORY_ROWS = 10000, HISTORY_DAYS = 7 };

/* ---- reading ---- */

struct history_reading {
    struct http_request *request;
    struct e2b_history *history;
};

static const char *history_text(struct arena *arena, const struct audit_row *row, enum audit_field field) {
    const struct audit_text *text = &row->texts[field];
    return text->data ? arena_copy(arena, text->data, text->len) : "";
}

struct e2b_happened e2b_happened(const struct audit_row *row, struct arena *arena) {
    const char *verb = history_text(arena, row, AUDIT_VERB), *detail = history_text(arena, row, AUDIT_DETAIL);
    const char *outcome = history_text(arena, row, AUDIT_OUTCOME);
    return (struct e2b_happened){
        .number = row->id,
        .at_ms = row->at_ms,
        .verb = verb,
        .box = history_text(arena, row, AUDIT_BOX),
        .user = history_text(arena, row, AUDIT_USER),
        .message = arena_printf(arena, "%s%s%s", verb, *detail ? ": " : "", detail),
        .status = row->status,
        .failed = *outcome && strcmp(outcome, "ok") != 0 && strcmp(outcome, "running") != 0,
    };
}

static void history_each(void *user, const struct audit_row *row) {
    struct history_reading *reading = user;
    struct e2b_history *history = reading->history;
    struct arena *arena = http_arena(reading->request);
    arena_add(arena, history->items, history->count, history->cap) = e2b_happened(row, arena);
}

int e2b_history_read(struct http_request *request, struct e2b_history *history, struct err *err) {
    struct audit *audit = front_of(request)->audit;
    struct history_reading reading = {.request = request, .history = history};
    struct audit_page page;
    const struct audit_query query = {.box = history->box,
                                      .user = front_who(request)->user,
                                      .since_ms = history->since_ms,
                                      .until_ms = history->until_ms,
                                      .limit = history->limit,
                                      .tail = history->backward};
    if (!audit)
        return 0;
    audit_sync(audit, HISTORY_SYNC_MS);
    return audit_read(audit, &query, history_each, &reading, &page, err);
}

/* ---- events ---- */

const char *e2b_event_kind(const struct e2b_happened *happened) {
    static const struct {
        const char *verb, *kind;
        unsigned status; /* 0: any success */
    } table[] = {
        {"e2b_create", "created", 0},    {"e2b_create_v1", "created", 0},    {"e2b_kill", "killed", 0},
        {"box_deleted", "killed", 0},    {"e2b_pause", "paused", 0},         {"box_paused", "paused", 0},
        {"e2b_connect", "resumed", 201}, {"e2b_connect_v1", "resumed", 201}, {"e2b_resume", "resumed", 0},
        {"e2b_timeout", "updated", 0},   {"e2b_refresh", "updated", 0},      {"e2b_snapshot", "checkpointed", 0},
        {"e2b_connect", "updated", 200}, {"e2b_connect_v1", "updated", 200}, {"e2b_network", "updated", 0},
    };
    for (size_t i = 0; !happened->failed && i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].verb, happened->verb) && (!table[i].status || table[i].status == happened->status))
            return table[i].kind;
    return NULL;
}

void e2b_event_put(struct provider *provider, struct arena *arena, struct json *json,
                   const struct e2b_happened *happened, const char *team) {
    struct e2b_record record = {0};
    bool held, known = e2b_record_of(provider, happened->box, arena, &record, &held, ERR_IGNORED) == 0;
    const char *kind = e2b_event_kind(happened);
    char text[80];
    json_open(json, '{');
    snprintf(text, sizeof text, "00000000-0000-4000-8000-%012llx", (unsigned long long)happened->number);
    json_put_str(json, "id", text);
    json_put_str(json, "version", "v2");
    snprintf(text, sizeof text, "sandbox.lifecycle.%s", kind);
    json_put_str(json, "type", text);
    e2b_put_time(json, "timestamp", happened->at_ms * 1000);
    json_put_str(json, "sandbox_id", happened->box);
    json_put_str(json, "sandbox_execution_id", happened->box);
    json_put_str(json, "sandbox_template_id", known ? record.template_id : "");
    json_put_str(json, "sandbox_build_id", known && record.build_id ? record.build_id : "");
    json_put_str(json, "sandbox_team_id", team);
    json_put_open(json, "event_data", '{');
    json_key(json, "sandbox_metadata");
    const char *metadata = known && record.metadata ? record.metadata : "{}";
    json_raw(json, metadata, strlen(metadata));
    json_close(json, '}');
    json_put_str(json, "event_category", "lifecycle");
    json_put_str(json, "event_label", kind);
    json_close(json, '}');
}

struct history_page {
    uint64_t offset, limit;
    bool ascending;
    const char *types;
};

static bool history_wanted(const struct history_page *page, const char *kind) {
    char full[64];
    if (!kind)
        return false;
    snprintf(full, sizeof full, "sandbox.lifecycle.%s", kind);
    return !page->types || !*page->types || http_list_has(page->types, full);
}

static int history_page(struct http_request *request, struct history_page *page, struct err *err) {
    const char *offset = http_query(request, "offset", NULL), *limit = http_query(request, "limit", NULL);
    const char *ascending = http_query(request, "orderAsc", NULL);
    page->limit = 10;
    page->types = http_query(request, "types", NULL);
    page->ascending = ascending && !strcmp(ascending, "true");
    if (offset && !text_u64(offset, HISTORY_ROWS, &page->offset))
        return err_set(err, ERR_INVALID, "offset must be 0 to %d", HISTORY_ROWS);
    if (limit && (!text_u64(limit, 100, &page->limit) || !page->limit))
        return err_set(err, ERR_INVALID, "limit must be 1 to 100");
    return 0;
}

static int history_events(struct http_request *request, struct box *, struct err *err) {
    const char *id = e2b_id(request);
    const char *team = front_who(request)->user ? front_who(request)->user : "default";
    struct history_page page = {0};
    struct e2b_history history = {.box = id, .limit = HISTORY_ROWS, .backward = true};
    autobuf out = buf_max(LIMIT_JSON_BYTES);
    history.since_ms = e2b_now_us() / 1000 - HISTORY_DAYS * 86400000ull;
    if (id && !text_id(id))
        return err_set(err, ERR_INVALID, "Invalid sandbox ID");
    STEP(history_page(request, &page, err) ?: e2b_history_read(request, &history, err));
    struct json json = json_list(&out);
    for (size_t i = 0; i < history.count && page.limit; i++) {
        const struct e2b_happened *item = &history.items[page.ascending ? i : history.count - 1 - i];
        const char *kind = e2b_event_kind(item);
        if (!text_id(item->box) || !history_wanted(&page, kind))
            continue;
        if (page.offset) {
            page.offset--;
            continue;
        }
        e2b_event_put(front_of(request)->provider, http_arena(request), &json, item, team);
        page.limit--;
    }
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

static const struct row history_query[] = {E2B_QUERY("offset", 512, "How many to leave out."),
                                           E2B_QUERY("limit", 512, "1 to 100; 10."),
                                           E2B_QUERY("orderAsc", 512, "true: the oldest first."),
                                           E2B_QUERY("types", 512, "Types, with commas; all."),
                                           {0}};

const struct route e2b_event_routes[] = {
    E2B_ROUTE("GET", "/events/sandboxes", ENDPOINT_QUIET, "e2b_events", "what happened to sandboxes, 7 days back",
              .run = history_events, .status = 200, .query = history_query),
    E2B_ROUTE("GET", "/events/sandboxes/{id}", ENDPOINT_QUIET, "e2b_sandbox_events", "what happened to a sandbox",
              .run = history_events, .status = 200, .query = history_query),
    {0},
};
