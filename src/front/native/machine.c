/* The machines that joined, over HTTP: listed, and sent away. Called through native_routes. The rows of these routes stand
 * here. Invariant: a token that is bound to a user sees that user's machines and no others. */
#include <string.h>

#include "base/limits.h"
#include "box/policy.h"
#include "front/answer.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "front/native/rows.h"
#include "front/join/join.h"
#include "front/trail.h"

const struct row machines_query[] = {
    {ROW("user", TEXT, machines_args, user), .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose; default: those of the token's user, else of all when they are listed, of 'default' otherwise"},
    END,
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
    {ROW("form", TEXT, machine_out, form), .choices = "link|text", .text = "how it is spoken to"},
    ROW_NAMED("Machine"),
};
const struct row machines_answer[] = {
    {.name = "machines", .type = ROW_OBJECTS, .fields = machine_answer, .text = "by no order"},
    ROW_NAMED("Machines"),
};

static void machine_each(void *context, const struct machine_facts *facts) {
    const struct machine_out out = {.facts = *facts,
                                    .latency_ms = {facts->latency_us != 0, (double)facts->latency_us / 1000},
                                    .form = facts->text ? "text" : "link"};
    answer_item(context, &out);
}

/* A user's token may name its own user alone; somebody else's machines are as if there were none. */
static int machine_whose(struct http_request *request, const char **ret_user, struct err *err) {
    struct machines_args args = {0};
    const char *own = front_who(request)->user;
    int failed = front_query(request, &args, err);
    if (!failed && args.user.data)
        failed = policy_user(args.user.data, err);
    if (!failed && args.user.data && own && strcmp(own, args.user.data) != 0)
        failed = err_set(err, ERR_DENIED, "this token is for the user '%s'", own);
    if (!failed)
        *ret_user = args.user.data ? args.user.data : own;
    return failed;
}

int native_machines(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *user = NULL;
    int failed = machine_whose(request, &user, err);
    if (failed)
        return failed;
    autoanswer answer;
    answer_list(&answer, request, machines_answer);
    if (front_of(request)->machines)
        machines_each(front_of(request)->machines, user, machine_each, &answer);
    return answer_list_end(&answer, NULL, 0, err);
}

int native_machine_send_away(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    const char *user = NULL, *name = http_param(request, "name");
    int failed = machine_whose(request, &user, err);
    if (failed)
        return failed;
    trail_quote(request, arena_printf(http_arena(request), "machine=%.64s", name));
    failed = runner_send_away(front_of(request), user ? user : RUNNER_USER, name, "it was sent away by its user", err);
    return failed ? failed : front_empty(request, 204);
}
