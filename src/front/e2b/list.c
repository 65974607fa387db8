/* Lists of sandboxes, and the cursors of all lists. Called through e2b_sandbox_routes. Invariant: a page begins
 * strictly after the last row of the one before it, whatever came or went meanwhile. */

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/url.h"
#include "front/answer.h"
#include "front/e2b/sandbox.h"

/* ---- cursors ---- */

static int list_bad_token(struct err *err) {
    return err_set(err, ERR_INVALID, "Invalid next token");
}

static int list_token(struct http_request *request, const char *text, struct e2b_page *page, struct err *err) {
    size_t len = strlen(text);
    autobuf plain = buf_max(256);
    if (len > 200 || !text_unbase64_any(&plain, text, len) || memchr(plain.data, 0, plain.len))
        return list_bad_token(err);
    char *copy = arena_copy(http_arena(request), plain.data, plain.len), *rest = copy;
    const char *number = strsep(&rest, "|"), *id = strsep(&rest, "|"), *order = rest;
    if (!id || !order || !text_u64(number, UINT64_MAX >> 1, &page->after) ||
        strcmp(order, page->ascending ? "asc" : "desc") != 0)
        return list_bad_token(err);
    page->after_id = id;
    return 0;
}

int e2b_page(struct http_request *request, bool ascending, struct e2b_page *ret_page, struct err *err) {
    struct e2b_page page = {.limit = 100, .ascending = ascending};
    const char *limit = http_query(request, "limit", NULL), *token = http_query(request, "nextToken", NULL);
    if (limit && (!text_u64(limit, 100, &page.limit) || !page.limit))
        return err_set(err, ERR_INVALID, "limit must be 1 to 100");
    int failed = token && *token ? list_token(request, token, &page, err) : 0;
    if (!failed)
        *ret_page = page;
    return failed;
}

void e2b_page_next(struct http_request *request, const struct e2b_page *page, uint64_t number, const char *id) {
    char text[128];
    autobuf out = buf_max(256);
    int len =
        snprintf(text, sizeof text, "%llu|%s|%s", (unsigned long long)number, id, page->ascending ? "asc" : "desc");
    text_base64_url(&out, text, (size_t)len);
    http_reply_header(request, "X-Next-Token", arena_copy(http_arena(request), out.data, out.len));
}

static int list_compare(uint64_t a, const char *a_id, uint64_t b, const char *b_id) {
    return a != b ? (a < b ? -1 : 1) : strcmp(a_id, b_id);
}

bool e2b_page_after(const struct e2b_page *page, uint64_t number, const char *id) {
    if (!page->after_id)
        return true;
    int order = list_compare(number, id, page->after, page->after_id);
    return page->ascending ? order > 0 : order < 0;
}

/* ---- filters ---- */

struct list_pair {
    const char *key, *value;
};

struct list_filter {
    struct list_pair *pairs;
    size_t pair_count;
    bool running, paused;
    const char *template;
    uint64_t after_us;
};

/* Encoded twice: a form text whose parts are percent-encoded once more. */
static int list_metadata(struct http_request *request, struct list_filter *filter, struct err *err) {
    const char *text = http_query(request, "metadata", NULL);
    size_t cap = 0;
    if (!text || !*text)
        return 0;
    for (char *piece, *rest = arena_strdup(http_arena(request), text); (piece = strsep(&rest, "&"));) {
        char *value = strchr(piece, '=');
        if (!*piece)
            continue;
        if (value)
            *value++ = 0;
        else
            value = piece + strlen(piece);
        if (url_decode(piece, true) < 0 || url_decode(value, true) < 0 || url_decode(piece, false) < 0 ||
            url_decode(value, false) < 0)
            return err_set(err, ERR_INVALID, "metadata: a bad percent escape");
        arena_add(http_arena(request), filter->pairs, filter->pair_count, cap) = (struct list_pair){piece, value};
    }
    return 0;
}

static int list_states(struct http_request *request, struct list_filter *filter, struct err *err) {
    const char *text = http_query(request, "state", NULL);
    filter->running = filter->paused = !text || !*text;
    for (char *piece, *rest = text && *text ? arena_strdup(http_arena(request), text) : NULL;
         (piece = strsep(&rest, ","));) {
        if (strcmp(piece, "running") != 0 && strcmp(piece, "paused") != 0)
            return err_set(err, ERR_INVALID, "state must be running, paused or both, not '%.40s'", piece);
        *(piece[0] == 'r' ? &filter->running : &filter->paused) = true;
    }
    return 0;
}

static int list_filter(struct http_request *request, struct list_filter *filter, struct err *err) {
    const char *after = http_query(request, "startedAfter", NULL), *template = http_query(request, "template", NULL);
    uint64_t after_ms = 0;
    if (after && *after && !clock_parse(after, &after_ms))
        return err_set(err, ERR_INVALID, "startedAfter must be a time as in RFC 3339");
    if (template && strchr(template, ':'))
        return err_set(err, ERR_INVALID, "template must be an id or an alias without a tag");
    filter->after_us = after_ms * 1000;
    filter->template = template && *template ? template : NULL;
    return list_metadata(request, filter, err) ?: list_states(request, filter, err);
}

static bool list_has_metadata(const struct list_filter *filter, const char *metadata) {
    if (!filter->pair_count)
        return true;
    json_t *root = metadata ? json_loads(metadata, 0, NULL) : NULL;
    bool all = root;
    for (size_t i = 0; all && i < filter->pair_count; i++) {
        const char *value = json_string_value(json_object_get(root, filter->pairs[i].key));
        all = value && !strcmp(value, filter->pairs[i].value);
    }
    json_decref(root);
    return all;
}

static bool list_wanted(const struct list_filter *filter, const struct e2b_sandbox *sandbox) {
    const struct e2b_record *record = &sandbox->record;
    if (!(sandbox->paused ? filter->paused : filter->running) || record->started_us < filter->after_us)
        return false;
    if (filter->template && strcmp(filter->template, record->template_id) != 0 &&
        (!record->alias || strcmp(filter->template, record->alias) != 0))
        return false;
    return list_has_metadata(filter, record->metadata);
}

/* ---- gathering ---- */

struct list_all {
    struct http_request *request;
    const struct list_filter *filter;
    struct list_row {
        char id[17];
        uint64_t started_us;
    } * rows;
    size_t count, cap;
    uint64_t running;
};

static int list_gather(void *user, struct box *box) {
    struct list_all *all = user;
    const char *owner = front_who(all->request)->user;
    struct e2b_sandbox sandbox;
    struct err ignored;
    if ((owner && strcmp(box->user, owner) != 0) || !e2b_record_has(all->request, box) ||
        e2b_sandbox_put(all->request, box, &sandbox, &ignored) < 0)
        return 0;
    all->running += !sandbox.paused;
    if (!list_wanted(all->filter, &sandbox))
        return 0;
    struct list_row *row = &vec_add(all->rows, all->count, all->cap);
    memcpy(row->id, box->id, sizeof row->id);
    row->started_us = sandbox.record.started_us;
    return 0;
}

static int list_ascending(const void *a, const void *b) {
    const struct list_row *x = a, *y = b;
    return list_compare(x->started_us, x->id, y->started_us, y->id);
}

static int list_descending(const void *a, const void *b) {
    return -list_ascending(a, b);
}

static int list_write_row(struct http_request *request, struct answer *answer, const char *id) {
    struct provider *provider = front_of(request)->provider;
    struct e2b_sandbox sandbox;
    struct err ignored;
    struct box *box;
    if (provider_look(provider, NULL, id, &box, &ignored) < 0)
        return 0; /* it has gone meanwhile */
    if (e2b_sandbox_put(request, box, &sandbox, &ignored) == 0) {
        json_open(&answer->json, '{');
        e2b_sandbox_listed(request, &sandbox, &answer->json);
        json_close(&answer->json, '}');
    }
    provider_look_end(provider, box);
    return answer_spill(answer);
}

static int list_answer(struct http_request *request, const struct list_filter *filter, const struct e2b_page *page,
                       struct err *err) {
    struct list_all all = {.request = request, .filter = filter};
    char total[24];
    provider_each(front_of(request)->provider, list_gather, &all);
    if (all.count)
        qsort(all.rows, all.count, sizeof *all.rows, page->ascending ? list_ascending : list_descending);
    size_t from = 0;
    while (from < all.count && !e2b_page_after(page, all.rows[from].started_us, all.rows[from].id))
        from++;
    size_t to = all.count - from > page->limit ? from + page->limit : all.count;
    if (to < all.count)
        e2b_page_next(request, page, all.rows[to - 1].started_us, all.rows[to - 1].id);
    snprintf(total, sizeof total, "%llu", (unsigned long long)all.running);
    http_reply_header(request, "X-Total-Running", total);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '[');
    int failed = 0;
    for (size_t i = from; i < to && !failed; i++)
        failed = list_write_row(request, &answer, all.rows[i].id);
    json_close(&answer.json, ']');
    free(all.rows);
    return answer_end(&answer, failed, err);
}

int e2b_list(struct http_request *request, struct box *, struct err *err) {
    struct list_filter filter = {0};
    struct e2b_page page;
    const char *order = http_query(request, "order", NULL);
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return err_set(err, ERR_INVALID, "order must be asc or desc");
    return list_filter(request, &filter, err) ?: e2b_page(request, order && *order == 'a', &page, err)
               ?: list_answer(request, &filter, &page, err);
}

int e2b_list_old(struct http_request *request, struct box *, struct err *err) {
    struct list_filter filter = {.running = true};
    struct e2b_page page = {.limit = SIZE_MAX};
    return list_metadata(request, &filter, err) ?: list_answer(request, &filter, &page, err);
}

const struct row e2b_list_query[] = {
    E2B_QUERY("metadata", 8192, "k=v&k2=v2, each part encoded once more."),
    E2B_QUERY("state", 8192, "running, paused, or both with a comma; both."),
    E2B_QUERY("order", 8192, "asc or desc by startedAt; desc."),
    E2B_QUERY("startedAfter", 8192, "RFC 3339, inclusive."),
    E2B_QUERY("template", 8192, "An id or alias."),
    E2B_QUERY("limit", 8192, "1 to 100; 100."),
    E2B_QUERY("nextToken", 8192, "X-Next-Token of the page before."),
    {0},
};
