/* The audit log over HTTP. Called through native_routes. Invariant: a token bound to a user only sees rows of that
 * user, without the token and address of others who acted there. */
#include <poll.h>

#include "box/signame.h"
#include "front/native/native.h"

enum { SYNC_MS = 2000, TURN_MS = 1000 }; /* TURN: polls for rows of another daemon and for a hang-up */

struct audit_list {
    struct buf out;
    struct json json;
    const char *user; /* the reader's; NULL: any */
    uint64_t count;
};

static void audit_json(void *user, const struct audit_row *row) {
    struct audit_list *list = user;
    char hash[65], signal[SIGNAME_BYTES];
    text_hex(hash, row->hash, sizeof row->hash);
    struct event_out out = {
        .row = *row,
        .status = {row->status, row->status},
        .exit_code = {row->has_result && row->exited, (uint64_t)row->exit_code},
        .signal = row->has_result && !row->exited && row->signal ? signame_text(row->signal, signal) : NULL,
        .timed_out = {row->has_result, row->timed_out},
        .oom_killed = {row->has_result, row->oom_killed},
        .duration_ms = (double)row->duration_us / 1000,
        .hash = list->user ? NULL : hash, /* it covers other users' rows, and guesses could be checked against it */
    };
    for (size_t i = 0; i < AUDIT_TEXTS; i++)
        out.texts[i] = (struct row_text){.data = row->texts[i].data, .len = row->texts[i].len};
    const struct row_text *actor = &out.texts[AUDIT_ACTOR];
    if (list->user &&
        !(actor->data && strlen(list->user) == actor->len && !memcmp(list->user, actor->data, actor->len)))
        /* an admin's are hidden from the user of the box */
        out.texts[AUDIT_TOKEN] = out.texts[AUDIT_PEER] = (struct row_text){0};
    rows_write(&list->json, audit_answer->fields, &out);
    list->count++;
}

/* ---- pages ---- */

static int audit_time(const struct row_text *text, const char *name, uint64_t *ret_ms, struct err *err) {
    if (!text->data || clock_parse(text->data, ret_ms))
        return 0;
    return err_set(err, ERR_INVALID, "'%s' must be a time such as 2026-01-31T12:00:00Z, not '%.40s'", name, text->data);
}

static int audit_parse(struct http_request *request, struct native_args *args, struct audit_query *ret_query,
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
    STEP(failed ?: audit_time(&args->since, "since", &query.since_ms, err)
                 ?: audit_time(&args->until, "until", &query.until_ms, err));
    *ret_query = query;
    return 0;
}

/* Reads until there is a row or wait_ms have passed. */
static int audit_page(struct http_request *request, const struct audit_query *query, uint64_t wait_ms,
                      struct audit_list *list, struct audit_page *ret_page, struct err *err) {
    struct front *front = front_of(request);
    struct audit_query rest = *query;
    for (uint64_t end_ms = clock_ms() + wait_ms;;) {
        uint64_t writes = audit_writes(front->audit), now_ms;
        buf_clear(&list->out);
        json_init(&list->json, &list->out);
        json_open(&list->json, '{');
        json_put_open(&list->json, audit_answer->name, '[');
        list->count = 0;
        int failed = audit_read(front->audit, &rest, audit_json, list, ret_page, err);
        if (failed || list->count || (now_ms = clock_ms()) >= end_ms || http_server_stopping(front->server))
            return failed;
        struct pollfd client = {.fd = http_fd(request), .events = POLLRDHUP};
        if (poll(&client, 1, 0) > 0)
            return err_set(err, ERR_GONE, "the client hung up");
        audit_wait(front->audit, writes, (unsigned)(end_ms - now_ms < TURN_MS ? end_ms - now_ms : TURN_MS));
        rest.after = ret_page->next; /* rows that were checked are skipped */
    }
}

static int audit_there(const struct front *front, struct err *err) {
    return front->audit ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon keeps no audit log (audit: false)");
}

int native_audit(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    const struct who *who = front_who(request);
    struct native_args args = {0};
    struct audit_query query;
    struct audit_page page = {0};
    struct audit_list list = {.user = who->user};
    STEP(audit_parse(request, &args, &query, err) ?: audit_there(front, err));
    buf_init(&list.out, LIMIT_JSON_BYTES);
    bool foreign = who->user && query.user && strcmp(who->user, query.user) != 0; /* answered as an empty list */
    if (who->user)
        query.user = who->user;
    if (foreign)
        query.after = INT64_MAX;
    audit_sync(front->audit, SYNC_MS); /* makes rows of ended requests visible */
    int failed = audit_page(request, &query, args.wait_ms.value, &list, &page, err);
    if (!failed) {
        const struct audit_out rest = {foreign ? args.after.value : page.next, page.more};
        json_close(&list.json, ']');
        rows_members(&list.json, audit_answer + 1, &rest);
        json_close(&list.json, '}');
        failed = list.out.failed ? err_set(err, ERR_INTERNAL, "the answer is too long; ask for fewer rows")
                                 : http_reply(request, 200, "application/json", list.out.data, list.out.len);
    }
    buf_done(&list.out);
    return failed;
}

int native_audit_verify(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    struct audit_verdict verdict = {0};
    if (front_who(request)->user)
        return err_set(err, ERR_DENIED, "checking the audit log needs a token that is not bound to a user");
    STEP(audit_there(front, err));
    audit_sync(front->audit, SYNC_MS);
    STEP(audit_verify(front->audit, &verdict, err));
    char hash[65];
    text_hex(hash, verdict.hash, sizeof verdict.hash);
    const struct verify_out out = {.verdict = verdict,
                                   .intact = !verdict.broken && !verdict.damage,
                                   .hash = hash,
                                   .broken_at = {verdict.broken != 0, verdict.broken}};
    int failed = answer_rows(request, 200, verify_answer, &out, err);
    free((char *)verdict.damage);
    return failed;
}
