/* Workers over HTTP: listed, drained, counted. Called through worker_routes, for administrators alone, and by
 * machines.c for /metrics. */
#include "backend/remote/fleet.h"
#include "front/join/join.h"

struct worker_out {
    struct machine_facts facts;
    struct row_real latency_ms;
    const char **templates;
};
static const struct row worker_answer[] = {
    OUT("name", TEXT, worker_out, facts.hello.name, "its name, from its token"),
    OUT("online", BOOL, worker_out, facts.online, "it is connected now"),
    OUT("draining", BOOL, worker_out, facts.draining, "it gets no new boxes"),
    OUT("since", TIME, worker_out, facts.since_ms, "online or offline since then"),
    OUT_NULL("latency_ms", REAL, worker_out, latency_ms, "there and back; null: not known"),
    OUT_INT("boxes", worker_out, facts.boxes, "that it has, running or not"),
    OUT_INT("boxes_max", worker_out, facts.hello.boxes_max, "that it takes"),
    OUT_INT("memory_mb", worker_out, facts.hello.memory_mb, "that its boxes may take"),
    OUT("templates", TEXTS, worker_out, templates, "that boxes on it can be made from"),
    OUT("version", TEXT, worker_out, facts.hello.version, "of its program"),
    OUT("platform", TEXT, worker_out, facts.hello.platform, "system and processor"),
    OUT("address", TEXT, worker_out, facts.hello.address, "where it connects from"),
    ROW_NAMED("Worker"),
};
static const struct row workers_answer[] = {
    {.name = "workers", .type = ROW_OBJECTS, .fields = worker_answer, .text = "in no order"},
    ROW_NAMED("Workers"),
};

static struct worker_out worker_of(const struct machine_facts *facts, struct arena *arena) {
    struct worker_out out = {.facts = *facts, .latency_ms = {facts->latency_us != 0, (double)facts->latency_us / 1000}};
    char *words = arena_strdup(arena, facts->hello.templates), *rest = NULL;
    size_t count = 0;
    out.templates = arena_alloc(arena, (strlen(words) / 2 + 2) * sizeof *out.templates);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        out.templates[count++] = word;
    return out;
}

static void worker_each(void *context, const struct machine_facts *facts) {
    autoarena arena = ARENA_EMPTY;
    const struct worker_out out = worker_of(facts, &arena);
    answer_item(context, &out);
}

static int join_workers(struct http_request *request, struct box *, struct err *err) {
    autoanswer answer;
    answer_list(&answer, request, workers_answer);
    machines_each(front_of(request)->env->machines, MACHINE_WORKERS, worker_each, &answer);
    return answer_list_end(&answer, NULL, 0, err);
}

static int join_drain(struct http_request *request, struct box *, struct err *err) {
    const struct backend_env *env = front_of(request)->env;
    const char *name = http_param(request, "name");
    struct machine_facts facts;
    trail_quote(request, arena_printf(http_arena(request), "worker=%.64s", name));
    STEP(fleet_drain(env->machines, env->state_dir, name, strcmp(http_method(request), "POST") == 0, err)
             ?: machine_facts(env->machines, MACHINE_WORKERS, name, http_arena(request), &facts, err));
    const struct worker_out out = worker_of(&facts, http_arena(request));
    return answer_rows(request, 200, worker_answer, &out, err);
}

/* ---- /metrics ---- */

struct worker_sums {
    unsigned online, offline, draining;
    uint64_t boxes, room, spare;
};

static void worker_sum(void *context, const struct machine_facts *facts) {
    struct worker_sums *sums = context;
    uint64_t boxes = facts->boxes, room = facts->hello.boxes_max;
    sums->boxes += boxes;
    sums->draining += facts->online && facts->draining;
    sums->online += facts->online && !facts->draining;
    sums->offline += !facts->online;
    if (!facts->online || facts->draining)
        return;
    sums->room += room;
    sums->spare += room > boxes ? room - boxes : 0;
}

void workers_measure(const struct front *front, struct buf *out) {
    struct worker_sums sums = {0};
    machines_each(front->env->machines, MACHINE_WORKERS, worker_sum, &sums);
    metrics_head(out, "cubby_fleet_workers", "gauge", "Workers that joined since the start, by their state.");
    buf_printf(out, "cubby_fleet_workers{state=\"online\"} %u\n", sums.online);
    buf_printf(out, "cubby_fleet_workers{state=\"draining\"} %u\n", sums.draining);
    buf_printf(out, "cubby_fleet_workers{state=\"offline\"} %u\n", sums.offline);
    metrics_one(out, "cubby_fleet_boxes", "gauge", "Boxes on workers, running or not.", sums.boxes);
    metrics_one(out, "cubby_fleet_capacity", "gauge", "Boxes that workers which are online take.", sums.room);
    metrics_one(out, "cubby_fleet_spare", "gauge", "Boxes that they could take more.", sums.spare);
}

const struct route worker_routes[] = {
    {"GET", "/v1/workers", front_handle, 0, "worker_list", "Workers that joined, online or not.",
     ENDPOINT(.run = join_workers, .flags = ENDPOINT_ADMIN, .status = 200, .answer = workers_answer)},
    {"POST", "/v1/workers/{name}/drain", front_handle, 0, "worker_drain",
     "From now on no new box is made on this worker. Boxes that it has stay there and can be used.",
     ENDPOINT(.run = join_drain, .flags = ENDPOINT_ADMIN, .status = 200, .answer = worker_answer)},
    {"DELETE", "/v1/workers/{name}/drain", front_handle, 0, "worker_open", "The worker gets new boxes again.",
     ENDPOINT(.run = join_drain, .flags = ENDPOINT_ADMIN, .status = 200, .answer = worker_answer)},

    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
