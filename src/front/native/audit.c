/* The audit log over HTTP. Called through native_routes.
 * Invariant: a token bound to a user sees rows of that user only, and of others who acted there neither token nor
 * address. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "box/signame.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"

enum { SYNC_MS = 2000, TURN_MS = 1000 }; /* TURN: another daemon's rows and a client that hung up announce nothing */

/* ---- one row ---- */

static void audit_json_text(struct json *json, const char *key, const struct audit_row *row, enum audit_field field) {
    const struct audit_text *text = &row->texts[field];
    json_key(json, key);
    if (text->data)
        json_strn(json, text->data, text->len);
    else
        json_nil(json);
}

static void audit_json_flag(struct json *json, const char *key, const struct audit_row *row, bool value) {
    json_key(json, key);
    if (row->has_result)
        json_bool(json, value);
    else
        json_nil(json);
}

static void audit_json_result(struct json *json, const struct audit_row *row) {
    char name[SIGNAME_BYTES];
    json_key(json, "exit_code");
    if (row->has_result && row->exited)
        json_int(json, row->exit_code);
    else
        json_nil(json);
    json_put_str(json, "signal",
                 row->has_result && !row->exited && row->signal ? signame_text(row->signal, name) : NULL);
    audit_json_flag(json, "timed_out", row, row->timed_out);
    audit_json_flag(json, "oom_killed", row, row->oom_killed);
}

struct audit_list {
    struct buf out;
    struct json json;
    const char *user; /* the reader's; NULL: any */
    uint64_t count;
};

/* Somebody else's token and address are not the reader's business: an admin acted on his box. */
static void audit_json_actor(struct audit_list *list, const struct audit_row *row) {
    const struct audit_text *actor = &row->texts[AUDIT_ACTOR];
    bool own = !list->user ||
               (actor->data && strlen(list->user) == actor->len && !memcmp(list->user, actor->data, actor->len));
    struct audit_row shown = *row;
    if (!own)
        shown.texts[AUDIT_TOKEN] = shown.texts[AUDIT_PEER] = (struct audit_text){0};
    audit_json_text(&list->json, "actor", &shown, AUDIT_ACTOR);
    audit_json_text(&list->json, "scope", &shown, AUDIT_SCOPE);
    audit_json_text(&list->json, "token", &shown, AUDIT_TOKEN);
    audit_json_text(&list->json, "peer", &shown, AUDIT_PEER);
}

static void audit_json(void *user, const struct audit_row *row) {
    struct audit_list *list = user;
    struct json *json = &list->json;
    const struct audit_text *detail = &row->texts[AUDIT_DETAIL];
    bool utf8 = !detail->data || text_utf8(detail->data, detail->len);
    char hash[65];
    json_open(json, '{');
    json_put_uint(json, "id", row->id);
    json_put_time(json, "at", row->at_ms);
    audit_json_text(json, "verb", row, AUDIT_VERB);
    audit_json_text(json, "box", row, AUDIT_BOX);
    audit_json_text(json, "user", row, AUDIT_USER);
    audit_json_actor(list, row);
    audit_json_text(json, "request_id", row, AUDIT_REQUEST_ID);
    json_key(json, "status");
    if (row->status)
        json_uint(json, row->status);
    else
        json_nil(json);
    audit_json_text(json, "outcome", row, AUDIT_OUTCOME);
    audit_json_result(json, row);
    json_put_uint(json, "count", row->count);
    json_put_uint(json, "bytes_in", row->bytes_in);
    json_put_uint(json, "bytes_out", row->bytes_out);
    json_put_double(json, "duration_ms", (double)row->duration_us / 1000);
    json_key(json, "detail");
    if (detail->data)
        json_bytes(json, detail->data, detail->len, utf8);
    else
        json_nil(json);
    json_put_str(json, "encoding", utf8 ? "utf-8" : "base64");
    json_key(json, "hash");
    text_hex(hash, row->hash, sizeof row->hash);
    json_str(json, list->user ? NULL : hash); /* it is made of others' rows, too: whoever guesses one could check it */
    json_close(json, '}');
    list->count++;
}

/* ---- pages ---- */

static int audit_time(const struct row_text *text, const char *name, uint64_t *ret_ms, struct err *err) {
    if (!text->data || clock_parse(text->data, ret_ms))
        return 0;
    return err_set(err, ERR_INVALID, "'%s' must be a time such as 2026-01-31T12:00:00Z, not '%.40s'", name, text->data);
}

static int audit_parse(struct http_request *request, struct audit_args *args, struct audit_query *ret_query,
                       struct err *err) {
    int failed = front_query(request, args, err);
    struct audit_query query = {
        .box = args->box.data,
        .user = args->user.data,
        .verb = args->verb.data,
        .outcome = args->outcome.data,
        .after = args->after.value,
        .limit = args->limit.value,
        .tail = args->tail,
    };
    if (!failed)
        failed = audit_time(&args->since, "since", &query.since_ms, err);
    if (!failed)
        failed = audit_time(&args->until, "until", &query.until_ms, err);
    if (!failed)
        *ret_query = query;
    return failed;
}

static bool audit_gone(struct http_request *request) {
    struct pollfd look = {.fd = http_fd(request), .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0 && look.revents & (POLLRDHUP | POLLERR | POLLHUP);
}

static void audit_list_begin(struct audit_list *list) {
    buf_clear(&list->out);
    json_init(&list->json, &list->out);
    json_open(&list->json, '{');
    json_put_open(&list->json, "events", '[');
    list->count = 0;
}

/* Reads until there is a row, or wait_ms are over. */
static int audit_page(struct http_request *request, const struct audit_query *query, uint64_t wait_ms,
                      struct audit_list *list, struct audit_page *ret_page, struct err *err) {
    struct front *front = front_of(request);
    struct audit_query rest = *query;
    for (uint64_t end_ms = clock_ms() + wait_ms;;) {
        uint64_t writes = audit_writes(front->audit), now_ms;
        audit_list_begin(list);
        int failed = audit_read(front->audit, &rest, audit_json, list, ret_page, err);
        if (failed || list->count || (now_ms = clock_ms()) >= end_ms || http_server_stopping(front->server))
            return failed;
        if (audit_gone(request))
            return err_set(err, ERR_GONE, "the client hung up");
        audit_wait(front->audit, writes, (unsigned)(end_ms - now_ms < TURN_MS ? end_ms - now_ms : TURN_MS));
        rest.after = ret_page->next; /* what has been looked at need not be again */
    }
}

static int audit_there(const struct front *front, struct err *err) {
    return front->audit ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon keeps no audit log (audit: false)");
}

int native_audit(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct front *front = front_of(request);
    const struct who *who = front_who(request);
    struct audit_args args = {0};
    struct audit_query query;
    struct audit_page page = {0};
    struct audit_list list = {.user = who->user};
    int failed = audit_parse(request, &args, &query, err);
    if (!failed)
        failed = audit_there(front, err);
    if (failed)
        return failed;
    buf_init(&list.out, LIMIT_JSON_BYTES);
    bool foreign = who->user && query.user && strcmp(who->user, query.user) != 0; /* as if there were none */
    if (who->user)
        query.user = who->user;
    if (foreign)
        query.after = INT64_MAX;
    audit_sync(front->audit, SYNC_MS); /* what has ended is there to be seen */
    failed = audit_page(request, &query, args.wait_ms.value, &list, &page, err);
    if (!failed) {
        json_close(&list.json, ']');
        json_put_uint(&list.json, "next", foreign ? args.after.value : page.next);
        json_put_bool(&list.json, "truncated", page.more);
        json_close(&list.json, '}');
        failed = list.out.failed ? err_set(err, ERR_INTERNAL, "the answer is too long; ask for fewer rows")
                                 : http_reply(request, 200, "application/json", list.out.data, list.out.len);
    }
    buf_done(&list.out);
    return failed;
}

/* ---- the chain ---- */

int native_audit_verify(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct front *front = front_of(request);
    struct audit_verdict verdict = {0};
    if (front_who(request)->user)
        return err_set(err, ERR_DENIED, "checking the audit log is for tokens that are not bound to a user");
    int failed = audit_there(front, err);
    if (failed)
        return failed;
    audit_sync(front->audit, SYNC_MS);
    failed = audit_verify(front->audit, &verdict, err);
    if (failed)
        return failed;
    char hash[65];
    text_hex(hash, verdict.hash, sizeof verdict.hash);
    const struct verify_out out = {.verdict = verdict,
                                   .intact = !verdict.broken && !verdict.damage,
                                   .hash = hash,
                                   .broken_at = {verdict.broken != 0, verdict.broken}};
    failed = answer_rows(request, 200, verify_answer, &out, err);
    free((char *)verdict.damage);
    return failed;
}
