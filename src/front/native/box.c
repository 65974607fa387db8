/* Boxes over HTTP: acquire, list, look, release, pause, resume, destroy. Called through native_routes. Invariant: a
 * token bound to a user never makes, sees or ends another user's box. */
#include "box/network.h"
#include "base/clock.h"
#include "front/routes.h"
#include "front/native/native.h"

static int native_box_request(struct http_request *request, const struct acquire_args *args,
                              struct box_request *ret_request, struct err *err) {
    const struct who *who = front_who(request);
    if (who->user && args->user.data && strcmp(who->user, args->user.data) != 0)
        return err_set(err, ERR_DENIED, "this token may only make boxes of user '%s', not of '%s'", who->user,
                       args->user.data);
    for (const char **label = args->labels; label && *label && who->scope != SCOPE_ADMIN; label++)
        if (routes_labels(*label))
            return err_set(err, ERR_DENIED, "label %s: only the %s and admins may set it", *label,
                           routes_labels(*label)->title);
    const struct mount_args *from = args->mounts.items;
    struct mount *mounts = arena_alloc(http_arena(request), (args->mounts.count + 1) * sizeof *mounts);
    struct box_request wanted = {
        .user = who->user ? who->user : args->user.data,
        .thread = args->thread.data,
        .thread_len = args->thread.len,
        .agent = args->agent.data,
        .machine = args->machine.data,
        .backend = args->backend.data,
        .template_name = args->template_name.data,
        .shell = args->shell.data,
        .env = args->env,
        .has_memory = args->limits.memory_mb.has,
        .has_cpus = args->limits.cpus.has,
        .has_pids = args->limits.pids.has,
        .has_disk = args->limits.disk_mb.has,
        .has_open_files = args->limits.open_files.has,
        .has_output = args->limits.output_bytes.has,
        .limits = {.memory_mb = args->limits.memory_mb.value,
                   .cpus = args->limits.cpus.value,
                   .pids = args->limits.pids.value,
                   .disk_mb = args->limits.disk_mb.value,
                   .open_files = args->limits.open_files.value,
                   .output_bytes = args->limits.output_bytes.value},
        .container = {.user = args->container.user.data,
                      .runtime = args->container.runtime.data,
                      .platform = args->container.platform.data,
                      .pull = args->container.pull.data,
                      .read_only = args->container.read_only,
                      .image_init = args->container.init.data && strcmp(args->container.init.data, "image") == 0},
        .network = args->network.data,
        .has_idle_timeout = args->idle_timeout_ms.has,
        .idle_timeout_ms = args->idle_timeout_ms.value,
        .temporary = args->temporary,
        .labels = args->labels,
        .mounts = mounts,
        .mount_count = args->mounts.count,
        .exact = true,
    };
    TRY(native_bindings_wanted(request, wanted.user, wanted.network, (const char *const *)args->secrets,
                               &wanted.bindings, err));
    for (size_t i = 0; i < args->mounts.count; i++)
        mounts[i] = (struct mount){
            .source = from[i].source.data, .target = from[i].target.data, .read_only = from[i].read_only};
    *ret_request = wanted;
    return 0;
}

int native_acquire(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    struct acquire_args args = {0};
    struct box_request wanted;
    struct box *box;
    bool created = false;
    STEP(front_body(request, &args, err)
                     ?: native_box_request(request, &args, &wanted, err)
                     ?: front_acquire(request, NULL, &wanted, &box, &created, err));
    autoanswer answer;
    answer_init(&answer, request, created ? 201 : 200);
    front_restarted(request, box);
    native_box_json(&answer.json, box);
    trail_box(request, box);
    trail_box(request, NULL);
    provider_put(front->provider, box);
    return answer_end(&answer, 0, err);
}

/* ---- one box as JSON ---- */

static const char *native_box_state(struct box *box) {
    return box_offline(box) ? "offline" : box_state_name(box->state);
}

static const char *native_some(const char *text) {
    return text && *text ? text : NULL;
}

static struct usage_out native_usage_out(const struct usage *usage) {
    return (struct usage_out){.memory_bytes = {usage->has_memory, usage->memory_bytes},
                              .cpu_ms = {usage->has_cpu, usage->cpu_ms},
                              .pids = {usage->has_pids, usage->pids},
                              .disk_bytes = {usage->has_disk, usage->disk_bytes},
                              .net_rx_bytes = {usage->has_net, usage->net_rx_bytes},
                              .net_tx_bytes = {usage->has_net, usage->net_tx_bytes},
                              .read_bytes = {usage->has_io, usage->read_bytes},
                              .write_bytes = {usage->has_io, usage->write_bytes}};
}

struct box_writing {
    const struct row *rows; /* box_answer, or some of them */
    bool used, whole;       /* its usage is wanted; all of it */
    const struct usage_network_out *network;
};

static void native_box_write(struct json *json, struct box *box, const struct box_writing *writing) {
    const struct container *container = &box->spec.container;
    const struct container_out shown = {.container = *container,
                                        .pull = container->pull ? container->pull : "missing",
                                        .init = container->image_init ? "image" : "runner"};
    struct machine_facts facts;
    struct usage usage = {0};
    autoarena arena = ARENA_EMPTY;
    bool far = box_machine(box, &arena, &facts);
    const struct remote_out remote = {.online = facts.online,
                                      .since_ms = facts.since_ms,
                                      .latency_ms = {facts.latency_us != 0, (double)facts.latency_us / 1000},
                                      .version = native_some(facts.hello.version),
                                      .isolation = native_some(facts.hello.isolation),
                                      .platform = native_some(facts.hello.platform),
                                      .address = native_some(facts.hello.address)};
    if (writing->used && (writing->whole ? box_usage : box_usage_brief)(box, &usage, ERR_IGNORED))
        usage = (struct usage){0};
    struct usage_out used = native_usage_out(&usage);
    used.network = writing->network;
    const struct box_out out = {
        .id = box->id,
        .user = box->user,
        .thread = box->thread,
        .agent = box->spec.agent,
        .machine = box->spec.machine,
        .backend = box_backend(box),
        .state = native_box_state(box),
        .running = box_started(box),
        .died = box_offline(box) ? NULL : native_some(box->died), /* offline: its outcome is unknown */
        .ended = native_some(box->ended),
        .restarted = native_some(box->restarted),
        .workspace = box_workspace(box),
        .template_name = box->spec.template_name,
        .container = box_contained(box) ? &shown : NULL,
        .network = box_network(box, &arena, NULL),
        .idle_timeout_ms = box->idle_timeout_ms,
        .temporary = box->temporary,
        .created_ms = box->created_ms,
        .used_ms = box_last_used_ms(box),
        .limits = box->spec.limits,
        .usage = used,
        .remote = far ? &remote : NULL,
        .labels = (const char *const *)box->labels,
    };
    rows_write(json, writing->rows, &out);
}

void native_box_json(struct json *json, struct box *box) {
    native_box_write(json, box, &(const struct box_writing){.rows = box_answer, .used = true});
}

static int native_usage_time(const struct row_text *text, uint64_t *ret_ms, struct err *err) {
    if (text->data && !clock_parse(text->data, ret_ms))
        return err_set(err, ERR_INVALID, "'%.40s' is not a time as in RFC 3339", text->data);
    return 0;
}

int native_usage(struct http_request *request, struct box *box, struct err *err) {
    struct usage_args args = {0};
    uint64_t since_ms = 0, until_ms = UINT64_MAX, now_ms = clock_wall_ms();
    struct usage_sample *samples, now = {.at_ms = now_ms};
    size_t count;
    STEP(front_query(request, &args, err));
    STEP(native_usage_time(&args.since, &since_ms, err) ?: native_usage_time(&args.until, &until_ms, err));
    STEP(provider_usage(front_of(request)->provider, box->id, since_ms, until_ms, http_arena(request), &samples, &count,
                        err));
    if (box->wire && now_ms >= since_ms && now_ms <= until_ms && box_usage(box, &now.usage, ERR_IGNORED) == 0)
        samples[count++] = now;
    autoanswer answer;
    answer_list(&answer, request, usages_answer);
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = answer_item(&answer, &(struct usage_at_out){samples[i].at_ms, native_usage_out(&samples[i].usage)});
    return answer_list_end(&answer, NULL, failed, err);
}

/* Its network's counts are asked of the gate: only here, not for every box of a list. */
int native_box(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    struct network_state state = {0};
    answer_init(&answer, request, 200);
    bool served = atomic_load(&box->network) &&
                  network_get(front_of(request)->provider, box, http_arena(request), &state, ERR_IGNORED) == 0;
    const struct usage_network_out network = {.connections = state.connections,
                                              .active = state.active,
                                              .denied = state.denied,
                                              .bytes_in = state.bytes_in,
                                              .bytes_out = state.bytes_out};
    native_box_write(
        &answer.json, box,
        &(const struct box_writing){
            .rows = box_answer, .used = true, .whole = true, .network = served && state.live ? &network : NULL});
    return answer_end(&answer, 0, err);
}

/* ---- many ---- */

struct native_boxes_walk {
    const struct who *who;
    struct native_args args;
    struct box_writing writing;
    struct answer *answer;
    uint64_t count;
    struct boxes_out out;
    char last[17];
};

static bool native_boxes_word(const struct box *box, const char *word) {
    const char *const texts[] = {
        box->id, box->user, box->thread, box->spec.agent, box->spec.machine, box_backend(box), box->spec.template_name};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && strcasestr(texts[i], word))
            return true;
    for (char **label = box->labels; label && *label; label++)
        if (strcasestr(*label, word))
            return true;
    return false;
}

/* Whether the box has all words of the text. */
static bool native_boxes_words(const struct box *box, const char *text) {
    char word[LIMIT_QUERY_WORDS + 1];
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (!native_boxes_word(box, word))
            return false;
        at += len;
    }
    return true;
}

static bool native_boxes_fits(const struct native_boxes_walk *walk, struct box *box) {
    const struct native_args *args = &walk->args;
    if ((walk->who->user && strcmp(walk->who->user, box->user) != 0) ||
        (args->user.data && strcmp(args->user.data, box->user) != 0) ||
        (args->state.data && strcmp(args->state.data, native_box_state(box)) != 0) ||
        (args->after_id.data && strcmp(box->id, args->after_id.data) <= 0))
        return false;
    const struct row_text *wanted = &args->label;
    bool with_value = wanted->data && memchr(wanted->data, '=', wanted->len), fits = !wanted->data;
    for (char **label = box->labels; !fits && label && *label; label++)
        fits = with_value ? !strcmp(*label, wanted->data)
                          : !strncmp(*label, wanted->data, wanted->len) && (*label)[wanted->len] == '=';
    return fits && (!args->pattern.data || native_boxes_words(box, args->pattern.data));
}

static int native_boxes_each(void *user, struct box *box) {
    struct native_boxes_walk *walk = user;
    if (!native_boxes_fits(walk, box))
        return 0;
    if (walk->args.limit.has && walk->count == walk->args.limit.value) {
        walk->out.next = walk->last;
        return -ERR_LIMIT;
    }
    walk->count++;
    memcpy(walk->last, box->id, sizeof walk->last);
    native_box_write(&walk->answer->json, box, &walk->writing);
    return answer_spill(walk->answer);
}

/* The rows of the wanted fields, in the order of the answer. */
static int native_boxes_fields(struct http_request *request, const char *names, struct box_writing *ret_writing,
                               struct err *err) {
    size_t count = 0;
    while (box_answer[count].name)
        count++;
    struct row *rows = arena_alloc(http_arena(request), (count + 1) * sizeof *rows);
    count = 0;
    *ret_writing = (struct box_writing){.rows = names ? rows : box_answer, .used = true};
    for (const char *at = names; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!rows_find(box_answer, at, strcspn(at, ",")))
            return err_set(err, ERR_INVALID, "'fields': a box has no field '%.*s'", (int)strcspn(at, ","), at);
    for (const struct row *row = box_answer; names && row->name; row++) {
        const char *at = names;
        while (*at && (strcspn(at, ",") != strlen(row->name) || strncmp(at, row->name, strlen(row->name)) != 0))
            at += strcspn(at, ","), at += *at == ',';
        if (*at)
            rows[count++] = *row;
    }
    ret_writing->used = !names || rows_find(rows, "usage", 5);
    return 0;
}

int native_boxes(struct http_request *request, struct box *, struct err *err) {
    autoanswer answer = {0};
    struct native_boxes_walk walk = {.who = front_who(request), .answer = &answer};
    STEP(front_query(request, &walk.args, err)
             ?: native_boxes_fields(request, walk.args.glob.data, &walk.writing, err));
    answer_list(&answer, request, boxes_answer);
    provider_each(front_of(request)->provider, native_boxes_each, &walk);
    return answer_list_end(&answer, &walk.out, 0, err);
}

/* ---- ending ---- */

int native_release(struct http_request *request, struct box *box, struct err *err) {
    return provider_release(front_of(request)->provider, box, err) ?: native_box(request, box, err);
}

/* Uses the box that was looked up, which may have ended and started again in between. */
static int native_stand(struct http_request *request, const struct box *box, bool pause, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *user = front_who(request)->user;
    struct box *after = NULL;
    int failed = ((pause ? provider_pause(provider, user, box->id, err) : provider_resume(provider, user, box->id, err))
                      ?: provider_look(provider, user, box->id, &after, err))
                     ?: native_box(request, after, err);
    provider_look_end(provider, after);
    return failed;
}

int native_pause(struct http_request *request, struct box *box, struct err *err) {
    return native_stand(request, box, true, err);
}

/* A box that died was not paused: resuming it starts it. */
int native_resume(struct http_request *request, struct box *box, struct err *err) {
    return box->died[0] ? native_start(request, box, err) : native_stand(request, box, false, err);
}

int native_start(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    struct box *box = NULL;
    STEP(provider_wake(provider, front_who(request)->user, http_param(request, "id"), &box, err));
    front_restarted(request, box);
    int failed = native_box(request, box, err);
    provider_put(provider, box);
    return failed;
}

int native_destroy(struct http_request *request, struct box *, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *user = front_who(request)->user, *id = http_param(request, "id");
    struct box *box = NULL;
    if (!provider_look(provider, user, id, &box, err)) { /* its owner is unknown after the removal */
        trail_box(request, box);
        trail_box(request, NULL);
        provider_look_end(provider, box);
    }
    return provider_destroy(provider, user, id, err) ?: front_empty(request, 204);
}

struct native_ids {
    const char *user;
    struct arena *arena;
    struct native_id {
        struct native_id *next;
        char id[17];
    } * first;
};

static int native_ids_each(void *user, struct box *box) {
    struct native_ids *ids = user;
    if (strcmp(box->user, ids->user) != 0)
        return 0;
    struct native_id *id = arena_alloc(ids->arena, sizeof *id);
    memcpy(id->id, box->id, sizeof id->id);
    id->next = ids->first;
    ids->first = id;
    return 0;
}

int native_destroy_all(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    const struct who *who = front_who(request);
    struct native_args args = {0};
    STEP(front_query(request, &args, err));
    struct native_ids ids = {.user = args.user.data, .arena = http_arena(request)};
    uint64_t ended = 0;
    int failed = 0;
    if (!who->user || !strcmp(who->user, ids.user)) /* other users' boxes: answers as if there were none */
        provider_each(front->provider, native_ids_each, &ids);
    for (struct native_id *id = ids.first; id && !failed; id = id->next) {
        failed = provider_destroy(front->provider, ids.user, id->id, err);
        if (failed == -ERR_NOT_FOUND) {
            failed = 0; /* another request removed it first */
            continue;
        }
        trail_also(request, "box_destroy", id->id, ids.user, -failed);
        ended += !failed;
    }
    return failed ?: answer_rows(request, 200, ended_answer, &(const struct ended_out){ended}, err);
}
