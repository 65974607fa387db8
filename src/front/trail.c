/* The audit row of a request. Called by front.c around every handler, and by handlers that know a result or a box.
 * Invariant: a detail only contains text that passed redact, from rows marked ROW_AUDITED. */
#include "front/trail.h"

#include <jansson.h>

#include "store/redact.h"
#include "front/front.h"

struct trail *trail_of(const struct http_request *request) {
    return http_user_data(request);
}

void trail_begin(struct http_request *request) {
    struct trail *trail = arena_alloc(http_arena(request), sizeof *trail);
    http_set_user_data(request, trail);
    trail->at_ms = clock_wall_ms();
    if (front_of(request)->audit)
        trail->peer = http_peer_text(request); /* valid as long as the connection, which outlives the trail */
}

void trail_box(struct http_request *request, const struct box *box) {
    struct trail *trail = trail_of(request);
    trail->now = box;
    if (!box)
        return;
    memcpy(trail->box, box->id, sizeof trail->box);
    trail->user = arena_strdup(http_arena(request), box->user);
}

void trail_note(struct http_request *request, const char *text) {
    struct trail *trail = trail_of(request);
    if (!front_of(request)->audit)
        return;
    size_t before = trail->detail ? trail->detail_len + 1 : 0, len = strlen(text);
    char *detail = arena_alloc(http_arena(request), before + len + 1);
    if (before) {
        memcpy(detail, trail->detail, before - 1);
        detail[before - 1] = ' ';
    }
    memcpy(detail + before, text, len);
    trail->detail = detail;
    trail->detail_len = before + len;
}

void trail_code(struct http_request *request, int code) {
    trail_of(request)->code = code;
}

void trail_result(struct http_request *request, const struct exec_result *result) {
    struct trail *trail = trail_of(request);
    trail->has_result = true;
    trail->result = *result;
}

void trail_session(struct http_request *request, const struct session_result *result) {
    const struct exec_result as_exec = {
        .exited = result->exited,
        .exit_code = result->exit_code,
        .signal = result->exited ? 0 : SIGKILL,
        .timed_out = result->state == SESSION_HARD_TIMEOUT,
        .oom_killed = result->oom_killed,
        .stdout_bytes = result->to - result->from,
        .duration_ms = result->duration_ms,
    };
    if (result->state != SESSION_RUNNING && result->state != SESSION_QUIET)
        trail_result(request, &as_exec);
}

static void trail_row(struct http_request *request, struct audit_row *row);
static bool trail_reads(const struct http_request *request);

/* ---- the detail ---- */

struct trail_text {
    struct redact secrets;
    struct buf out;
    bool cut;
};

/* The values of headers, wherever in an object they are: a token may stand there as it is. */
static void trail_headers(json_t *value, struct redact *secrets) {
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(value, i, member) trail_headers(member, secrets);
    json_object_foreach(value, key, member) {
        const char *name;
        json_t *text;
        trail_headers(member, secrets);
        if (strcmp(key, "headers") == 0)
            json_object_foreach(member, name, text) {
                char *written = json_dumps(text, JSON_ENCODE_ANY | JSON_COMPACT);
                if (written && strlen(written) > 2) /* as it stands in the object, without its quotes */
                    redact_add(secrets, "redacted", 8, arena_copy(secrets->arena, written + 1, strlen(written) - 2),
                               strlen(written) - 2);
                free(written);
            }
    }
}

static void trail_secrets(struct http_request *request, const struct row *fields, const void *args,
                          struct redact *secrets) {
    const struct trail *trail = trail_of(request);
    const char *header = http_header(request, "authorization");
    for (const struct row *field = fields; field->name; field++)
        if (field->flags & ROW_SECRET && field->type == ROW_MAP)
            redact_env(secrets, *(const char *const *const *)((const char *)args + field->offset));
        else if (field->type == ROW_TEXT_OR_OBJECT) {
            const struct row_text *text = (const void *)((const char *)args + field->offset);
            json_auto_t *object = text->data && strstr(text->data, "headers") ? json_loads(text->data, 0, NULL) : NULL;
            trail_headers(object, secrets);
        }
    if (trail->now)
        redact_env(secrets, (const char *const *)trail->now->spec.env);
    redact_env(secrets, front_settings(request)->secret_env);
    for (const char *const *row = trail->secrets; row && *row; row++) {
        const char *value = strchr(*row, '=');
        if (value)
            redact_add(secrets, "redacted", 8, value + 1, strlen(value + 1));
    }
    if (header && !strncasecmp(header, "Bearer ", 7))
        redact_add(secrets, "token", 5, header + 7, strlen(header + 7));
}

void trail_quote(struct http_request *request, const char *text) {
    static const struct row nothing[] = {{.name = NULL}};
    struct redact secrets = {.arena = http_arena(request)};
    autobuf out = buf_max(audit_columns[AUDIT_DETAIL].max);
    trail_secrets(request, nothing, NULL, &secrets);
    if (front_of(request)->audit && front_settings(request)->audit_detail &&
        !redact_text(&secrets, &out, text, strlen(text)))
        trail_note(request, buf_cstr(&out));
}

static void trail_say(struct trail_text *text, const char *name, const char *data, size_t len) {
    static const struct redact nothing;
    text->cut = text->cut || (text->out.len && redact_text(&nothing, &text->out, " ", 1));
    if (name)
        text->cut = text->cut || redact_text(&nothing, &text->out, name, strlen(name)) ||
                    redact_text(&nothing, &text->out, "=", 1);
    text->cut = text->cut || redact_text(&text->secrets, &text->out, data, len);
}

static void trail_say_field(struct trail_text *text, const struct row *field, const char *name, const void *args) {
    const void *value = (const char *)args + field->offset;
    const struct row_text *one = value;
    const struct row_list *list = value;
    autobuf joined = buf_max(LIMIT_CALL_ARGS_BYTES);
    switch (field->type) {
    case ROW_TEXT:
    case ROW_TEXT_OR_INT:
    case ROW_TEXT_OR_OBJECT:
        if (one->data)
            trail_say(text, name, one->data, one->len);
        break;
    case ROW_TEXTS: /* joined, so that a secret that spans two items is found */
        for (const char *const *item = *(const char *const *const *)value; item && *item; item++) {
            buf_puts(&joined, item == *(const char *const *const *)value ? "" : " ");
            buf_puts(&joined, *item);
        }
        text->cut |= joined.failed; /* a cut list might end in half a secret */
        if (*(const char *const *const *)value && !joined.failed)
            trail_say(text, name, (const char *)joined.data, joined.len);
        break;
    case ROW_OBJECTS:
        for (size_t i = 0; i < list->count; i++)
            for (const struct row *inner = field->fields; inner->name; inner++)
                if (inner->flags & ROW_AUDITED)
                    trail_say_field(text, inner, inner->name, (const char *)list->items + i * field->item_size);
        break;
    default:
        break;
    }
}

/* Cuts between characters, and adds a mark. */
static void trail_cut(struct buf *out) {
    static const char mark[] = "\xe2\x80\xa6";
    size_t end = out->max - (sizeof mark - 1);
    if (out->len > end)
        out->len = end;
    while (out->len && (out->data[out->len - 1] & 0xc0) == 0x80 && !text_utf8(out->data, out->len))
        out->len--;
    if (out->len && out->data[out->len - 1] >= 0xc0)
        out->len--;
    buf_puts(out, mark);
}

/* Writes the first audited row without its name, the others with theirs. */
void trail_args(struct http_request *request, const struct row *fields, const void *args) {
    struct trail *trail = trail_of(request);
    struct trail_text text = {.secrets = {.arena = http_arena(request)}};
    bool first = true;
    if (!front_of(request)->audit || !front_settings(request)->audit_detail || !fields)
        return;
    buf_init(&text.out, audit_columns[AUDIT_DETAIL].max);
    trail_secrets(request, fields, args, &text.secrets);
    for (const struct row *field = fields; field->name && !text.cut; field++)
        if (field->flags & ROW_AUDITED) {
            trail_say_field(&text, field, first ? NULL : field->name, args);
            first = false;
        }
    if (text.cut)
        trail_cut(&text.out);
    if (text.out.len) {
        trail->detail = arena_copy(http_arena(request), text.out.data, text.out.len);
        trail->detail_len = text.out.len;
    }
    buf_done(&text.out);
}

void trail_running(struct http_request *request) {
    struct trail *trail = trail_of(request);
    const struct front *front = front_of(request);
    if (front->audit && !trail->running && !trail_reads(request)) {
        struct audit_row row = {0};
        trail_row(request, &row);
        audit_set(&row, AUDIT_OUTCOME, "running");
        trail->running = audit_begin(front->audit, &row);
    }
}

void trail_fields(struct http_request *request, const struct row *fields, const void *args) {
    trail_args(request, fields, args);
    trail_running(request);
}

/* ---- the row ---- */

static void trail_who(const struct trail *trail, struct http_request *request, struct audit_row *row) {
    const struct who *who = trail->who;
    row->at_ms = trail->at_ms;
    if (who) {
        audit_set(row, AUDIT_ACTOR, who->user);
        audit_set(row, AUDIT_SCOPE, auth_scope_name(who->scope));
        audit_set(row, AUDIT_TOKEN, who->token[0] ? who->token : NULL);
    }
    audit_set(row, AUDIT_PEER, trail->peer && trail->peer[0] ? trail->peer : NULL);
    audit_set(row, AUDIT_REQUEST_ID, http_request_id(request));
}

void trail_also(struct http_request *request, const char *verb, const char *box, const char *user, int code) {
    struct audit_row row = {0};
    trail_who(trail_of(request), request, &row);
    audit_set(&row, AUDIT_VERB, verb);
    audit_set(&row, AUDIT_BOX, box);
    audit_set(&row, AUDIT_USER, user);
    audit_set(&row, AUDIT_OUTCOME, code ? err_name(code) : "ok");
    audit_setn(&row, AUDIT_DETAIL, trail_of(request)->detail, trail_of(request)->detail_len);
    audit_put(front_of(request)->audit, &row);
}

/* Fills in who did what to which box, and the detail. */
static void trail_row(struct http_request *request, struct audit_row *row) {
    const struct trail *trail = trail_of(request);
    const char *pid = http_param(request, "pid");
    const char *id = http_param(request, "id");
    uint64_t number;
    trail_who(trail, request, row);
    audit_set(row, AUDIT_BOX, trail->box[0] ? trail->box : id && text_id(id) ? id : NULL);
    audit_set(row, AUDIT_USER, trail->user ? trail->user : trail->who ? trail->who->user : NULL);
    audit_set(row, AUDIT_VERB, http_route(request)->name);
    audit_setn(row, AUDIT_DETAIL, trail->detail, trail->detail_len);
    if (pid && text_u64(pid, UINT32_MAX, &number))
        audit_set(row, AUDIT_DETAIL,
                  arena_printf(http_arena(request), "pid=%s%s%s", pid, trail->detail ? " " : "",
                               trail->detail ? trail->detail : ""));
}

/* Returns whether the request only read. */
static bool trail_reads(const struct http_request *request) {
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route->extra;
    return trail_of(request)->reads || (!strcmp(route->method, "GET") && !(endpoint->flags & ENDPOINT_WRITES));
}

/* A request that the server itself answered (its body never arrived) has only a status. */
static const char *trail_outcome(int code, int status) {
    for (int known = ERR_INVALID; !code && status >= 400 && known <= ERR_PAUSED; known++)
        if (err_http_status(known) == status)
            code = known;
    return code ? err_name(code) : status >= 400 ? "INVALID" : "ok";
}

void trail_end(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us) {
    struct trail *trail = trail_of(request);
    const struct route *route = http_route(request);
    const struct endpoint *endpoint = route ? route->extra : NULL;
    struct audit *audit = front_of(request)->audit;
    bool stranger =
        endpoint && trail && !trail->who && (!(endpoint->flags & ENDPOINT_OPEN) || endpoint->flags & ENDPOINT_RUNNER);
    if (!audit || !trail || !endpoint)
        return;
    audit_end(audit, trail->running);
    trail->running = NULL;
    if (endpoint->flags & ENDPOINT_QUIET && !stranger)
        return;
    struct audit_row row = {
        .status = (uint32_t)status, .bytes_in = bytes_in, .bytes_out = bytes_out, .duration_us = us};
    trail_row(request, &row);
    audit_set(&row, AUDIT_OUTCOME, trail_outcome(trail->code, status));
    if (trail->has_result) {
        row.has_result = true;
        row.exited = trail->result.exited;
        row.exit_code = trail->result.exit_code;
        row.signal = trail->result.signal;
        row.timed_out = trail->result.timed_out;
        row.oom_killed = trail->result.oom_killed;
    }
    (stranger ? audit_put_stranger : trail_reads(request) ? audit_put_read : audit_put)(audit, &row);
}
