/* The machines that joined, over HTTP: listed, and sent away. Called through join_routes. Invariant: a token that is bound to a user sees that user's machines and no others. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "base/limits.h"
#include "box/policy.h"
#include "front/answer.h"
#include "front/join/join.h"
#include "front/trail.h"

struct machines_args {
    struct row_text user;
};

static const struct row machines_query[] = {
    {.name = "user",
     .type = ROW_TEXT,
     .offset = offsetof(struct machines_args, user),
     .min = 1,
     .max = LIMIT_USER_BYTES,
     .text = "whose; default: those of the token's user, else of all when they are listed, of 'default' otherwise"},
    {.name = NULL},
};
static const struct row machine_answer[] = {
    {.name = "name", .type = ROW_TEXT, .text = "its name, from its token"},
    {.name = "user", .type = ROW_TEXT, .text = "whose it is"},
    {.name = "online", .type = ROW_BOOL, .text = "it is connected now"},
    {.name = "since", .type = ROW_TIME, .text = "online or offline since then"},
    {.name = "latency_ms", .type = ROW_REAL, .flags = ROW_NULLABLE, .text = "there and back; null: not known"},
    {.name = "connections", .type = ROW_INT, .text = "how often it connected"},
    {.name = "workspace", .type = ROW_TEXT, .text = "its directory, on the machine"},
    {.name = "shell", .type = ROW_TEXT, .text = "of its commands"},
    {.name = "version", .type = ROW_TEXT, .text = "of its runner"},
    {.name = "isolation", .type = ROW_TEXT, .text = "jail, none, or empty: it does not say"},
    {.name = "platform", .type = ROW_TEXT, .text = "system and processor"},
    {.name = "address", .type = ROW_TEXT, .text = "where it connects from"},
    {.name = "form", .type = ROW_TEXT, .choices = "link|text", .text = "how it is spoken to"},
    ROW_NAMED("Machine"),
};
static const struct row machines_answer[] = {
    {.name = "machines", .type = ROW_OBJECTS, .fields = machine_answer, .text = "by no order"},
    ROW_NAMED("Machines"),
};

static void machine_json(struct json *json, const struct machine_facts *facts) {
    const struct machine_hello *hello = &facts->hello;
    const struct {
        const char *key, *value;
    } texts[] = {{"name", hello->name},         {"user", hello->user},       {"workspace", hello->workspace},
                 {"shell", hello->shell},       {"version", hello->version}, {"isolation", hello->isolation},
                 {"platform", hello->platform}, {"address", hello->address}, {"form", facts->text ? "text" : "link"}};
    json_open(json, '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_put_str(json, texts[i].key, texts[i].value ? texts[i].value : "");
    json_put_bool(json, "online", facts->online);
    json_put_time(json, "since", facts->since_ms);
    json_key(json, "latency_ms");
    if (facts->latency_us)
        json_double(json, (double)facts->latency_us / 1000);
    else
        json_nil(json);
    json_put_uint(json, "connections", facts->connections);
    json_close(json, '}');
}

static void machine_each(void *context, const struct machine_facts *facts) {
    struct answer *answer = context;
    if (answer_spill(answer) >= 0)
        machine_json(&answer->json, facts);
}

/* A user's token may name its own user alone; somebody else's machines are as if there were none. */
static int machine_whose(struct http_request *request, const char **ret_user, struct err *err) {
    struct machines_args args = {0};
    const char *own = front_who(request)->user;
    int failed = front_query(request, &args, err);
    if (!failed && args.user.data)
        failed = text_user(args.user.data, err);
    if (!failed && args.user.data && own && strcmp(own, args.user.data) != 0)
        failed = err_set(err, ERR_DENIED, "this token is for the user '%s'", own);
    if (!failed)
        *ret_user = args.user.data ? args.user.data : own;
    return failed;
}

static int join_machines(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *user = NULL;
    int failed = machine_whose(request, &user, err);
    if (failed)
        return failed;
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "machines", '[');
    machines_each(front_of(request)->env->machines, user, machine_each, &answer);
    json_close(&answer.json, ']');
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static int join_send_away(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *user = NULL, *name = http_param(request, "name");
    int failed = machine_whose(request, &user, err);
    if (failed)
        return failed;
    trail_quote(request, arena_printf(http_arena(request), "machine=%.64s", name));
    failed = runner_send_away(front_of(request), user ? user : RUNNER_USER, name, "it was sent away by its user", err);
    return failed ? failed : front_empty(request, 204);
}

/* ---- /metrics ---- */

void join_measure(const struct front *front, struct buf *out) {
    struct machines_counts counts;
    machines_count(front->env->machines, &counts);
    metrics_head(out, "cubby_machines", "gauge",
                 "Machines that joined since the start, by whether they are connected.");
    buf_printf(out, "cubby_machines{state=\"online\"} %u\n", counts.online);
    buf_printf(out, "cubby_machines{state=\"offline\"} %u\n", counts.known - counts.online);
    metrics_one(out, "cubby_machine_connections_total", "counter", "Connections of machines.", counts.connections);
    metrics_one(out, "cubby_machine_resumed_total", "counter", "Connections that went on with a session.",
                counts.resumed);
    metrics_one(out, "cubby_machine_refused_total", "counter", "Registrations refused by the table of machines.",
                counts.refused);
    metrics_one(out, "cubby_machine_expired_total", "counter", "Sessions whose machine did not come back in time.",
                counts.expired);
}

const struct route machine_routes[] = {
    {"GET", "/v1/machines", front_handle, 0, "machine_list", "Machines that joined, online or not.",
     ENDPOINT(.run = join_machines, .query = machines_query, .status = 200, .answer = machines_answer)},
    {"DELETE", "/v1/machines/{name}", front_handle, 0, "machine_send_away",
     "End a machine's connection and what waits for it; it does not come back by itself. Its token stays good.",
     ENDPOINT(.run = join_send_away, .query = machines_query, .status = 204)},

    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
