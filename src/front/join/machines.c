/* The machines that joined, over HTTP: listed, and sent away. Called through join_routes. Invariant: a token
 * that is bound to a user sees that user's machines and no others. */

#include "box/policy.h"
#include "front/join/join.h"

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
struct machine_out {
    struct machine_facts facts;
    struct row_real latency_ms;
    const char *form;
};
static const struct row machine_answer[] = {
    OUT("name", TEXT, machine_out, facts.hello.name, "its name, from its token"),
    OUT("user", TEXT, machine_out, facts.hello.user, "whose it is"),
    OUT("online", BOOL, machine_out, facts.online, "it is connected now"),
    OUT("since", TIME, machine_out, facts.since_ms, "online or offline since then"),
    OUT_NULL("latency_ms", REAL, machine_out, latency_ms, "there and back; null: not known"),
    OUT_INT("connections", machine_out, facts.connections, "how often it connected"),
    OUT("workspace", TEXT, machine_out, facts.hello.workspace, "its directory, on the machine"),
    OUT("shell", TEXT, machine_out, facts.hello.shell, "of its commands"),
    OUT("version", TEXT, machine_out, facts.hello.version, "of its runner"),
    OUT("isolation", TEXT, machine_out, facts.hello.isolation, "jail, none, or empty: it does not say"),
    OUT("platform", TEXT, machine_out, facts.hello.platform, "system and processor"),
    OUT("address", TEXT, machine_out, facts.hello.address, "where it connects from"),
    {.name = "form",
     .type = ROW_TEXT,
     .offset = offsetof(struct machine_out, form),
     .choices = "link|text",
     .text = "how messages are sent to it"},
    ROW_NAMED("Machine"),
};
static const struct row machines_answer[] = {
    {.name = "machines", .type = ROW_OBJECTS, .fields = machine_answer, .text = "in no order"},
    ROW_NAMED("Machines"),
};

static void machine_each(void *context, const struct machine_facts *facts) {
    if (strcmp(facts->hello.user, MACHINE_WORKERS) == 0)
        return;
    const struct machine_out out = {.facts = *facts,
                                    .latency_ms = {facts->latency_us != 0, (double)facts->latency_us / 1000},
                                    .form = facts->text ? "text" : "link"};
    answer_item(context, &out);
}

/* A user's token may name its own user alone; machines of others are not shown. */
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

static int join_machines(struct http_request *request, struct box *, struct err *err) {
    const char *user = NULL;
    STEP(machine_whose(request, &user, err));
    autoanswer answer;
    answer_list(&answer, request, machines_answer);
    machines_each(front_of(request)->env->machines, user, machine_each, &answer);
    return answer_list_end(&answer, NULL, 0, err);
}

static int join_send_away(struct http_request *request, struct box *, struct err *err) {
    const char *user = NULL, *name = http_param(request, "name");
    STEP(machine_whose(request, &user, err));
    trail_quote(request, arena_printf(http_arena(request), "machine=%.64s", name));
    return runner_send_away(front_of(request), user ? user : RUNNER_USER, name, "it was sent away by its user", err)
               ?: front_empty(request, 204);
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
    metrics_one(out, "cubby_machine_resumed_total", "counter", "Connections that resumed a session.", counts.resumed);
    metrics_one(out, "cubby_machine_refused_total", "counter", "Registrations refused by the table of machines.",
                counts.refused);
    metrics_one(out, "cubby_machine_expired_total", "counter", "Sessions whose machine did not come back in time.",
                counts.expired);
    workers_measure(front, out);
}

const struct route machine_routes[] = {
    {"GET", "/v1/machines", front_handle, 0, "machine_list", "Machines that joined, online or not.",
     ENDPOINT(.run = join_machines, .query = machines_query, .status = 200, .answer = machines_answer)},
    {"DELETE", "/v1/machines/{name}", front_handle, 0, "machine_send_away",
     "End a machine's connection and what waits for it; it does not come back by itself. Its token stays good.",
     ENDPOINT(.run = join_send_away, .query = machines_query, .status = 204)},

    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
