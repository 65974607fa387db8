/* Users and agents that this daemon knows, with how many boxes they have. Called through native_routes, for admins. */
#include "front/native/native.h"
#include "skill/base/view.h"

struct roster_out {
    const char *name;
    uint64_t boxes, running;
};
struct roster {
    struct arena *arena;
    bool agents;
    struct roster_out *items;
    size_t count, room;
};
static const struct row user_answer[] = {
    OUT("user", TEXT, roster_out, name, "owner of boxes"),
    OUT_INT("boxes", roster_out, boxes, "how many"),
    OUT_INT("running", roster_out, running, "of these, that have processes"),
    ROW_NAMED("User"),
};
const struct row users_answer[] = {
    {.name = "users", .type = ROW_OBJECTS, .fields = user_answer, .text = "by name"},
    ROW_NAMED("Users"),
};
static const struct row agent_name_answer[] = {
    OUT("agent", TEXT, roster_out, name, "as POST /v1/boxes takes it"),
    OUT_INT("boxes", roster_out, boxes, "how many"),
    OUT_INT("running", roster_out, running, "of these, that have processes"),
    ROW_NAMED("AgentName"),
};
const struct row agent_names_answer[] = {
    {.name = "agents", .type = ROW_OBJECTS, .fields = agent_name_answer, .text = "by name"},
    ROW_NAMED("AgentNames"),
};

static void roster_add(struct roster *roster, const char *name, unsigned boxes, unsigned running) {
    arena_add(roster->arena, roster->items, roster->count, roster->room) =
        (struct roster_out){arena_strdup(roster->arena, name), boxes, running};
}

static int roster_each(void *user, struct box *box) {
    struct roster *roster = user;
    const char *name = roster->agents ? box->spec.agent : box->user;
    if (name)
        roster_add(roster, name, 1, box_started(box));
    return 0;
}

static int roster_order(const void *a, const void *b) {
    return strcmp(((const struct roster_out *)a)->name, ((const struct roster_out *)b)->name);
}

static int roster_answer(struct http_request *request, struct roster *roster, const struct row *rows, struct err *err) {
    autoanswer answer;
    provider_each(front_of(request)->provider, roster_each, roster);
    if (roster->count)
        qsort(roster->items, roster->count, sizeof *roster->items, roster_order);
    answer_list(&answer, request, rows);
    for (size_t i = 0, next; i < roster->count; i = next) {
        struct roster_out sum = roster->items[i];
        for (next = i + 1; next < roster->count && strcmp(sum.name, roster->items[next].name) == 0; next++) {
            sum.boxes += roster->items[next].boxes;
            sum.running += roster->items[next].running;
        }
        if (answer_item(&answer, &sum) < 0)
            break;
    }
    return answer_list_end(&answer, NULL, 0, err);
}

int native_users(struct http_request *request, struct box *, struct err *err) {
    struct roster roster = {.arena = http_arena(request)};
    return roster_answer(request, &roster, users_answer, err);
}

int native_agents(struct http_request *request, struct box *, struct err *err) {
    struct roster roster = {.arena = http_arena(request), .agents = true};
    struct skills *skills = front_of(request)->skills;
    autonames names = names_new();
    STEP(skills ? base_agents(skills, &names, err) : 0);
    for (size_t i = 0; i < names.count; i++)
        roster_add(&roster, names.names[i], 0, 0);
    return roster_answer(request, &roster, agent_names_answer, err);
}
