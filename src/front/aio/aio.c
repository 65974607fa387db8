/* The AIO dialect's core: its envelope, tickets, and what a box does not have. Called by its groups
 * and, for refusals, by the server. Invariant: every body below /aio/ is the envelope or {"detail":...}, and no failure
 * goes out with a status of success from here. */
#include "front/aio/aio.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "front/aio/key.h"

#define AIO_MESSAGE "Operation successful"

/* ---- answers ---- */

static void envelope_open(struct json *json, bool success, const char *message) {
    json_open(json, '{');
    json_put_bool(json, "success", success);
    json_put_str(json, "message", message);
    json_key(json, "data");
}

static void envelope_close(struct json *json) {
    json_put_nil(json, "hint");
    json_close(json, '}');
}

static void envelope_empty(struct buf *out, bool success, const char *message) {
    struct json json;
    json_init(&json, out);
    envelope_open(&json, success, message);
    json_nil(&json);
    envelope_close(&json);
}

static void detail(struct buf *out, const char *text) {
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    json_put_str(&json, "detail", text);
    json_close(&json, '}');
}

bool aio_claims(const char *path) {
    return !strncmp(path, AIO_PREFIX, strlen(AIO_PREFIX));
}

int aio_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    (void)code;
    bool routed = http_route(request);
    const char *rest = strchr(http_path(request) + strlen(AIO_PREFIX), '/');
    if (routed && status == 404 && rest && !strncmp(rest, "/v1/bash/", 9) && http_why(request) == WHY_NO_BOX)
        status = 410; /* clients take a 404 there for a server that lacks the route, and never ask again */
    if (!routed && status == 404)
        detail(out, "Not Found");
    else if (!routed && status == 405)
        detail(out, "Method Not Allowed");
    else
        envelope_empty(out, false, text);
    return status;
}

void aio_open(struct answer *answer, struct http_request *request, const char *message) {
    answer_init(answer, request, 200);
    envelope_open(&answer->json, true, message ? message : AIO_MESSAGE);
}

int aio_close(struct answer *answer, int result, struct err *err) {
    envelope_close(&answer->json);
    return answer_end(answer, result, err);
}

static int reply(struct http_request *request, int status, bool success, const char *message) {
    autobuf out;
    buf_init(&out, 64u << 10); /* a message is a sentence */
    envelope_empty(&out, success, message);
    if (out.failed) {
        buf_clear(&out);
        out.failed = false;
        envelope_empty(&out, success, NULL);
    }
    return http_reply(request, status, "application/json", out.data, out.len);
}

int aio_done(struct http_request *request, const char *message) {
    return reply(request, 200, true, message ? message : AIO_MESSAGE);
}

int aio_fail(struct http_request *request, int status, int code, const char *text) {
    int failed = reply(request, status, false, text);
    return failed < 0 ? failed : code;
}

void aio_text(struct answer *answer, const uint8_t *data, size_t len) {
    answer_long(answer, data, len, true);
}

void aio_time(struct json *json, uint64_t wall_ms) {
    char text[48];
    struct tm parts;
    time_t seconds = (time_t)(wall_ms / 1000);
    gmtime_r(&seconds, &parts);
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + len, sizeof text - len, ".%06u", (unsigned)(wall_ms % 1000) * 1000);
    json_str(json, text);
}

static void member_value(struct json *json, const struct aio_member *member) {
    switch (member->type) {
    case AIO_IS_INT:
        json_int(json, member->number);
        break;
    case AIO_IS_REAL:
        json_double(json, member->real);
        break;
    case AIO_IS_BOOL:
        json_bool(json, member->number);
        break;
    case AIO_IS_TIME:
        aio_time(json, (uint64_t)member->number);
        break;
    case AIO_IS_NIL:
        json_nil(json);
        break;
    default:
        json_str(json, member->text);
    }
}

void aio_members(struct json *json, const struct aio_member *members) {
    for (; members->key; members++) {
        json_key(json, members->key);
        member_value(json, members);
    }
}

void aio_put(struct answer *answer, const struct aio_member *members) {
    for (; members->key; members++) {
        json_key(&answer->json, members->key);
        if (members->type == AIO_IS_TEXT)
            aio_text(answer, members->text, (size_t)members->number);
        else
            member_value(&answer->json, members);
    }
}

void aio_object(struct answer *answer, const struct aio_member *members) {
    json_open(&answer->json, '{');
    aio_put(answer, members);
    json_close(&answer->json, '}');
    answer_spill(answer);
}

int aio_reply(struct http_request *request, const char *message, const struct aio_member *members, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, message);
    aio_object(&answer, members);
    return aio_close(&answer, 0, err);
}

const struct row aio_answer[] = {
    {.name = "success", .type = ROW_BOOL, .flags = ROW_REQUIRED, .text = "false: nothing was done as asked"},
    {.name = "message", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "What happened, in a sentence."},
    {.name = "data",
     .type = ROW_OBJECT,
     .flags = ROW_NULLABLE,
     .text = "The answer; its members by route: cubby-aio(7)."},
    {.name = "hint", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Always null."},
    {0},
};

/* ---- tickets ---- */

static int ticket(struct http_request *request, struct box *box, struct err *err) {
    (void)err;
    char text[AIO_TICKET_BYTES];
    struct json json;
    autobuf out = buf_max(1024);
    aio_ticket_make(aio_state(request)->key, box, clock_wall_ms() + AIO_TICKET_SECONDS * 1000, text);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_str(&json, "ticket", text);
    json_put_uint(&json, "expires_in", AIO_TICKET_SECONDS);
    json_close(&json, '}');
    return http_reply(request, 200, "application/json", out.data, out.len);
}

static int admitted(struct http_request *request, struct box *box, struct err *err) {
    (void)box;
    (void)err;
    return aio_done(request, NULL);
}

/* ---- what there is not ---- */

static const struct {
    const char *part, *text;
} missing[] = {
    {"/v1/browser",
     "A box has no browser. Run one in it if its template has one, or use another service for web pages."},
    {"/v1/proxy", "There is no proxy to set: what a box may reach is decided by its network when it is made."},
    {"/v1/display", "A box has no display that could be recorded."},
    {"/v1/skills", "Skills are not registered through this API; boxes get those of their agent: cubby-dialect(7)."},
    {"/v1/sandbox/observe",
     "Processes are not observed here; GET /v1/boxes/{id} has what a box uses, GET /v1/audit what was done."},
    {"/v1/util", "Documents are not converted here: run a converter in the box."},
    {"/v1/sandbox/hooks", "There are no shutdown hooks: a box ends without notice, and its files stay."},
};

static int not_here(struct http_request *request, struct box *box, struct err *err) {
    (void)box;
    (void)err;
    const char *path = strchr(http_path(request) + strlen(AIO_PREFIX), '/');
    for (size_t i = 0; path && i < sizeof missing / sizeof *missing; i++)
        if (!strncmp(path, missing[i].part, strlen(missing[i].part)))
            return aio_fail(request, 501, ERR_UNSUPPORTED, missing[i].text);
    return aio_fail(request, 501, ERR_UNSUPPORTED, "This is not here.");
}

static const struct row sandbox_answer[] = {
    {.name = "success", .type = ROW_BOOL, .flags = ROW_REQUIRED, .text = "true"},
    {.name = "message", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "A sentence."},
    {.name = "data", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "The box in a sentence."},
    {.name = "home_dir", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "The home of whoever runs commands."},
    {.name = "workspace", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Where commands begin."},
    {.name = "version", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "Ours."},
    {.name = "detail", .type = ROW_OBJECT, .flags = ROW_REQUIRED, .text = "system, runtime and utils: cubby-aio(7)."},
    {.name = "hint", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "Always null."},
    {0},
};

static const struct row ticket_answer[] = {
    {.name = "ticket", .type = ROW_TEXT, .flags = ROW_REQUIRED, .text = "For ?ticket=, of this box only."},
    {.name = "expires_in", .type = ROW_INT, .flags = ROW_REQUIRED, .max = UINT32_MAX, .text = "Seconds."},
    {0},
};

#define MISSING                                                                                                        \
    AIO_OTHER(.run = not_here, .flags = AIO_FLAGS | ENDPOINT_NO_BOX | ENDPOINT_QUIET, .status = 501,                   \
              .answer = aio_answer)
const struct route aio_routes[] = {
    {"GET", "/aio/{id}/v1/sandbox", front_handle, 0, "aio_sandbox", "What a box is; a box that answers is ready",
     AIO_OTHER(.run = aio_sandbox, .flags = AIO_FLAGS, .status = 200, .answer = sandbox_answer)},
    {"POST", "/aio/{id}/tickets", front_handle, 0, "aio_tickets", "A ticket for a box, for half a minute",
     AIO_OTHER(.run = ticket, .flags = AIO_FLAGS, .status = 200, .answer = ticket_answer)},
    {"GET", "/aio/{id}/auth", front_handle, 0, "aio_auth", "Whether a request to a box would be let in",
     AIO_OTHER(.run = admitted, .flags = (AIO_FLAGS & ~ENDPOINT_WAKE) | ENDPOINT_LOOK, .status = 200,
               .answer = aio_answer)},
    {"ANY", "/aio/{id}/v1/browser/{rest...}", front_handle, 0, "aio_browser", "There is no browser: 501", MISSING},
    {"ANY", "/aio/{id}/v1/proxy/{rest...}", front_handle, 0, "aio_proxy", "There is no proxy to set: 501", MISSING},
    {"ANY", "/aio/{id}/v1/display/{rest...}", front_handle, 0, "aio_display", "There is no display: 501", MISSING},
    {"ANY", "/aio/{id}/v1/skills", front_handle, 0, "aio_skills", "Skills come another way: 501", MISSING},
    {"ANY", "/aio/{id}/v1/skills/{rest...}", front_handle, 0, "aio_skill", "Skills come another way: 501", MISSING},
    {"ANY", "/aio/{id}/v1/sandbox/observe/{rest...}", front_handle, 0, "aio_observe", "Nothing is observed: 501",
     MISSING},
    {"POST", "/aio/{id}/v1/util/convert_to_markdown", front_handle, 0, "aio_convert",
     "Documents are not converted: 501", MISSING},
    {"ANY", "/aio/{id}/v1/sandbox/hooks", front_handle, 0, "aio_hooks", "There are no hooks: 501", MISSING},
    {"ANY", "/aio/{id}/v1/sandbox/hooks/{name}", front_handle, 0, "aio_hook", "There are no hooks: 501", MISSING},
    {0},
};
