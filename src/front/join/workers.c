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
    OUT_INT("memory_free_mb", worker_out, facts.free_mb, "of it, as the worker last reported"),
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

/* ---- moving a box ---- */

struct move_args {
    struct row_text worker;
    bool stop;
};
static const struct row move_fields[] = {
    {.name = "worker",
     .type = ROW_TEXT,
     .offset = offsetof(struct move_args, worker),
     .flags = ROW_AUDITED,
     .min = 1,
     .max = LIMIT_RUNNER_BYTES,
     .text = "where it goes; without it, where a new box would be made"},
    {.name = "stop",
     .type = ROW_BOOL,
     .offset = offsetof(struct move_args, stop),
     .text = "end what runs in it; without it, a box in use is BUSY"},
    {.name = NULL},
};
static const struct row move_answer[] = {
    OUT("from", TEXT, moved, from, "worker that it was on"),
    OUT("to", TEXT, moved, to, "worker that it is on"),
    OUT_INT("duration_ms", moved, duration_ms, "how long it took"),
    OUT_INT("processes_ended", moved, ended, "processes that ran in the box"),
    ROW_NAMED("Relocation"),
};

static int join_move(struct http_request *request, struct box *, struct err *err) {
    struct move_args args = {0};
    struct moved moved;
    STEP(front_body(request, &args, err)
             ?: provider_move(front_of(request)->provider, NULL, http_param(request, "id"), args.worker.data, args.stop,
                              http_arena(request), &moved, err));
    return answer_rows(request, 200, move_answer, &moved, err);
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
     "From now on no new box is made on this worker. Boxes in which nothing runs move to other workers, one by one; "
     "those in use stay until they are idle.",
     ENDPOINT(.run = join_drain, .flags = ENDPOINT_ADMIN, .status = 200, .answer = worker_answer)},
    {"DELETE", "/v1/workers/{name}/drain", front_handle, 0, "worker_open", "The worker gets new boxes again.",
     ENDPOINT(.run = join_drain, .flags = ENDPOINT_ADMIN, .status = 200, .answer = worker_answer)},
    {"POST", "/v1/boxes/{id}/relocate", front_handle, 0, "box_relocate",
     "A box on a worker moves to another one, with its files and snapshots; its next use starts it there. Until then "
     "other calls answer BUSY. On failure it is where it was.",
     ENDPOINT(.run = join_move, .flags = ENDPOINT_ADMIN | ENDPOINT_NO_BOX, .body = move_fields, .status = 200,
              .answer = move_answer)},

    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
