/* One build, step by step. Called by the builders' threads. A step that changes files is a layer: a kept template whose
 * text holds the key of the step, which is a hash of the step and of all before it. A step whose key is known is not run;
 * a build whose daemon was killed is begun again and finds the steps that were done. Invariant: the box of a build is
 * temporary, and nothing of it is left but layers. */

#include "base/sha256.h"
#include "base/text.h"
#include "front/e2b/plane/builder.h"
#include "front/e2b/sandbox.h"

enum {
    BUILDER_STEP_MS = 3600000, /* one command */
    BUILDER_IDLE_MS = 600000,  /* then a box that a killed daemon left goes */
    BUILDER_LOOK_MS = 1000,    /* whether the build is still wanted */
    BUILDER_READY_MS = 600000,
    BUILDER_READY_PAUSE_MS = 2000,
    BUILDER_LAYERS = 200, /* of steps, of a user; the oldest go */
    BUILDER_LOG_BYTES = 4 << 20,
};

#define BUILDER_STEP "{\"dialect\":\"e2b\",\"step\":" /* begins the text of a step's layer */

/* ---- texts ---- */

void builder_log(struct builder *builder, const char *level, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    build_log(builder->plane, builder->build, level, builder->step, text,
              len < (int)sizeof text ? (size_t)len : sizeof text - 1);
}

/* ---- keys ---- */

static void builder_key(struct builder *builder, const char *word, const json_t *args, const char *hash) {
    autobuf text = buf_max(SIZE_MAX / 2);
    buf_put(&text, builder->key, sizeof builder->key);
    buf_put(&text, word, strlen(word) + 1);
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        buf_put(&text, arg, strlen(arg) + 1);
    }
    buf_puts(&text, hash);
    sha256(text.data, text.len, builder->key);
}

static const char *builder_key_text(struct builder *builder) {
    char hex[65];
    text_hex(hex, builder->key, sizeof builder->key);
    return arena_printf(&builder->arena, BUILDER_STEP "\"%s\"}", hex);
}

/* ---- layers ---- */

static void builder_leave(struct builder *builder) {
    if (builder->box_id[0])
        provider_destroy(builder->provider, NULL, builder->box_id, ERR_IGNORED);
    builder->box_id[0] = 0;
}

/* The files after a step that was run before. */
static bool builder_cached(struct builder *builder) {
    struct kept_template *all;
    size_t count;
    const char *text = builder_key_text(builder);
    if (builder->fresh ||
        kept_template_list(builder->provider, builder->build->user, &builder->arena, &all, &count, ERR_IGNORED) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(all[i].text, text)) {
            builder->from = all[i];
            builder_leave(builder); /* it has the files of an earlier step */
            return true;
        }
    return false;
}

static bool builder_is_step(const struct kept_template *kept) {
    return !strncmp(kept->text, BUILDER_STEP, strlen(BUILDER_STEP));
}

static int builder_keep(struct builder *builder, struct err *err) {
    struct kept_template kept, *all;
    size_t count, steps = 0;
    const char *text = builder_key_text(builder);
    int failed = kept_template_create(builder->provider, NULL, builder->box_id, text, &builder->arena, &kept, err)
                     ?: kept_template_read(builder->provider, kept.id, &builder->arena, &builder->from, err)
                     ?: kept_template_list(builder->provider, builder->build->user, &builder->arena, &all, &count, err);
    for (size_t i = 0; !failed && i < count; i++) {
        bool step = builder_is_step(&all[i]);
        bool same = step && !strcmp(all[i].text, text) && strcmp(all[i].id, kept.id) != 0;
        steps += step;
        if (same || (step && steps > BUILDER_LAYERS))
            kept_template_remove(builder->provider, all[i].id, ERR_IGNORED);
    }
    return failed;
}

void builder_forget(struct e2b_owner owner) {
    struct kept_template *all;
    struct e2b_build *builds;
    size_t count, built, left = 0;
    if (e2b_builds(owner, &builds, &built, ERR_IGNORED) < 0 ||
        kept_template_list(owner.provider, owner.user, owner.arena, &all, &count, ERR_IGNORED) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        left = 0;
        for (size_t k = 0; k < built; k++)
            left += builds[k].build_id && !strcmp(builds[k].kept.user, all[i].user);
        if (!left && builder_is_step(&all[i]))
            kept_template_remove(owner.provider, all[i].id, ERR_IGNORED);
    }
}

/* ---- the box ---- */

static int builder_acquire(struct builder *builder, struct err *err) {
    static const char *env[] = {"HOME=" E2B_HOME, "USER=user", "LOGNAME=user", "E2B_SANDBOX=true", NULL};
    bool layers = builder->from.id[0] && builder->from.layers && builder->from.layers[0];
    char id[17];
    struct box *box;
    policy_random_id(id);
    struct box_request wanted = {.user = builder->build->user,
                                 .id = id,
                                 .backend = builder->from.backend,
                                 .template_name = builder->from.template_name,
                                 .workspace = E2B_HOME,
                                 .layers = layers ? (const char *const *)builder->from.layers : NULL,
                                 .env = env,
                                 .container = {.user = e2b_container_user(builder->from.backend)},
                                 .temporary = true,
                                 .has_idle_timeout = true,
                                 .idle_timeout_ms = BUILDER_IDLE_MS};
    STEP(layers ? kept_template_hold(builder->provider, builder->from.id, id, err) : 0);
    int failed = build_in(builder->plane, builder->build, id, err)
                     ?: e2b_acquire(builder->provider, &wanted, builder->network, NULL, &box, err);
    if (failed) {
        if (layers)
            kept_template_let_go(builder->provider, builder->from.id, id);
        return failed;
    }
    memcpy(builder->box_id, id, sizeof id);
    provider_put(builder->provider, box);
    return 0;
}

int builder_enter(struct builder *builder, struct box **ret_box, struct err *err) {
    int failed = builder->box_id[0] ? 0 : builder_acquire(builder, err);
    return failed ? failed : provider_get(builder->provider, NULL, builder->box_id, ret_box, err);
}

/* ---- commands ---- */

struct builder_output {
    struct builder *builder;
    struct buf lines[2]; /* of stdout and stderr: not whole yet */
    struct buf *taken;   /* instead of the log */
};

static void builder_line_locked(struct builder_output *output, int which) {
    static const char cut[] = "more output is not kept";
    struct builder *builder = output->builder;
    struct buf *line = &output->lines[which];
    bool kept = builder->logged < BUILDER_LOG_BYTES;
    builder->logged += line->len + 1;
    bool fits = builder->logged < BUILDER_LOG_BYTES;
    if (kept)
        build_log_locked(builder->plane, builder->build, which ? "warn" : "info", builder->step,
                         fits ? (const char *)line->data : cut, fits ? line->len : sizeof cut - 1);
    buf_clear(line);
}

static int builder_data(void *user, int stream, const uint8_t *data, size_t len) {
    struct builder_output *output = user;
    int which = stream == STREAM_STDERR;
    if (output->taken) {
        if (!which)
            buf_put(output->taken, data, len);
        return 0;
    }
    struct plane *plane = output->builder->plane;
    autolock(&plane->lock);
    bool begun = db_begin(&plane->db, ERR_IGNORED) == 0; /* else each line is a transaction */
    for (size_t i = 0; i < len; i++) {
        struct buf *line = &output->lines[which];
        if (data[i] != '\n')
            buf_byte(line, data[i]);
        if (data[i] == '\n' || line->len == line->max)
            builder_line_locked(output, which);
    }
    if (begun)
        db_end(&plane->db, 0, ERR_IGNORED);
    return 0;
}

/* GONE: its template was deleted. */
static int builder_wanted(void *user, struct err *err) {
    const struct builder *builder = user;
    return build_there(builder->plane, builder->build) ? 0 : err_set(err, ERR_GONE, "the build was deleted");
}

static int builder_idle(void *user) {
    struct builder_output *output = user;
    return builder_wanted(output->builder, ERR_IGNORED);
}

int builder_exec(struct builder *builder, const struct exec_request *request, struct buf *taken,
                 struct exec_result *ret_result, struct err *err) {
    struct builder_output output = {.builder = builder, .lines = {buf_max(4096), buf_max(4096)}, .taken = taken};
    const struct exec_sink sink = {
        .output = builder_data, .idle = builder_idle, .idle_ms = BUILDER_LOOK_MS, .user = &output};
    struct exec_request exec = *request;
    struct box *box;
    exec.timeout_ms = BUILDER_STEP_MS;
    STEP(builder_wanted(builder, err) ?: builder_enter(builder, &box, err));
    int failed = box_exec(box, &exec, &sink, builder->plane->stop[0], ret_result, err);
    if (failed == -ERR_GONE)
        failed = err_set(err, ERR_GONE, "the build was ended");
    for (int i = 0; i < 2; i++) {
        if (output.lines[i].len)
            builder_data(&output, i ? STREAM_STDERR : STREAM_STDOUT, (const uint8_t *)"\n", 1);
        buf_done(&output.lines[i]);
    }
    provider_put(builder->provider, box);
    return failed;
}

/* ---- what comes after the steps ---- */

static int builder_ready(struct builder *builder, struct err *err) {
    struct box *box;
    uint64_t pid;
    const struct e2b_setup_wait wait = {.wait_ms = BUILDER_READY_MS,
                                        .pause_ms = BUILDER_READY_PAUSE_MS,
                                        .watch = builder->plane->stop[0],
                                        .tick = builder_wanted,
                                        .user = builder};
    builder_log(builder, "info", "[finalize] start command: %.1000s", builder->setup.start ? builder->setup.start : "");
    STEP(builder_enter(builder, &box, err));
    int failed = e2b_setup_start(box, &builder->setup, &wait, &pid, err);
    if (!failed && pid) /* every sandbox starts its own */
        box_signal_wait(box, pid, SIGKILL, true, BUILDER_READY_PAUSE_MS, ERR_IGNORED);
    provider_put(builder->provider, box);
    return failed;
}

static int builder_finalize(struct builder *builder, struct err *err) {
    json_t *args = json_pack(
        "[ssss]", builder->setup.start ? builder->setup.start : "", builder->setup.ready ? builder->setup.ready : "",
        builder->setup.user ? builder->setup.user : "user", builder->setup.workdir ? builder->setup.workdir : "");
    builder_key(builder, "START", args, "");
    json_decref(args);
    builder->step = "finalize";
    if ((!builder->setup.start && !builder->setup.ready) || builder_cached(builder))
        return 0;
    return builder_ready(builder, err) ?: builder_keep(builder, err);
}

/* The files become a build of the template, with its tags. */
static int builder_publish(struct builder *builder, struct err *err) {
    const struct build *build = builder->build;
    struct e2b_owner owner = {builder->provider, build->user, &builder->arena};
    json_t *tags = json_loads(build->tags, 0, NULL);
    size_t count = json_array_size(tags);
    struct e2b_build made = {.template_id = build->template_id,
                             .build_id = build->id,
                             .name = build->name,
                             .alias = build->name,
                             .original = build->template_id,
                             .tags = arena_alloc(&builder->arena, (count + 2) * sizeof *made.tags)};
    const char *text;
    for (size_t i = 0; i < count; i++)
        made.tags[i] = arena_strdup(&builder->arena, json_string_value(json_array_get(tags, i)));
    json_decref(tags);
    builder->setup.cpus = build->cpus;
    builder->setup.memory_mb = build->memory_mb;
    made.setup = e2b_setup_text(&builder->setup, &builder->arena);
    int failed = builder_wanted(builder, err) ?: e2b_build_text(owner, &made, &text, err)
                     ?: kept_template_copy(builder->provider, &builder->from, text, &builder->arena, &made.kept, err);
    for (size_t i = 0; !failed && i < count; i++)
        failed = e2b_build_tag(owner, &made, made.tags[i], true, err);
    return failed;
}

/* ---- all ---- */

static int builder_step(struct builder *builder, const json_t *step, size_t number, size_t count, struct err *err) {
    const char *type = json_string_value(json_object_get(step, "type"));
    const char *hash = json_string_value(json_object_get(step, "filesHash"));
    const json_t *args = json_object_get(step, "args");
    const bool layer = strcasecmp(type, "ENV") != 0 && (strcasecmp(type, "USER") != 0 || step_makes_user(args));
    builder->step = arena_printf(&builder->arena, "%zu", number);
    builder->fresh |= json_is_true(json_object_get(step, "force"));
    builder_key(builder, type, args, hash ? hash : "");
    bool cached = layer && builder_cached(builder);
    builder_log(builder, "info", "%s[builder %zu/%zu] %s %.1000s", cached ? "CACHED " : "", number, count, type,
                json_string_value(json_array_get(args, 0)));
    if (layer && !cached)
        builder->fresh = true; /* what follows was made on other files */
    STEP(step_run(builder, type, args, hash, cached, err));
    return layer && !cached ? builder_keep(builder, err) : 0;
}

static int builder_base(struct builder *builder, const json_t *plan, struct err *err) {
    const char *kept = json_string_value(json_object_get(plan, "kept"));
    const char *base = json_string_value(json_object_get(plan, "base"));
    const char *backend = json_string_value(json_object_get(plan, "backend"));
    json_t *args = json_pack("[sss]", base ? base : "", backend ? backend : "", kept ? kept : "");
    builder->step = "base";
    builder_key(builder, "FROM", args, "");
    json_decref(args);
    builder->fresh = json_is_true(json_object_get(plan, "force"));
    builder->network = arena_strdup_or(&builder->arena, json_string_value(json_object_get(plan, "network")));
    e2b_setup_read(json_string_value(json_object_get(plan, "setup")), &builder->arena, &builder->setup);
    const char *start = json_string_value(json_object_get(plan, "startCmd"));
    const char *ready = json_string_value(json_object_get(plan, "readyCmd"));
    if (start && *start)
        builder->setup.start = arena_strdup(&builder->arena, start);
    if (ready && *ready)
        builder->setup.ready = arena_strdup(&builder->arena, ready);
    builder_log(builder, "info", "[base] FROM %.300s", base ? base : "");
    if (kept)
        return kept_template_read(builder->provider, kept, &builder->arena, &builder->from, err);
    builder->from = (struct kept_template){.user = builder->build->user,
                                           .backend = arena_strdup_or(&builder->arena, backend),
                                           .template_name = arena_strdup_or(&builder->arena, base)};
    return backend && !strcmp(backend, "docker") ? step_image(builder, err) : 0;
}

static int builder_steps(struct builder *builder, const json_t *plan, struct err *err) {
    const json_t *steps = json_object_get(plan, "steps");
    size_t count = json_array_size(steps);
    STEP(builder_base(builder, plan, err));
    for (size_t i = 0; i < count; i++) {
        STEP(builder_wanted(builder, err));
        STEP(builder_step(builder, json_array_get(steps, i), i + 1, count, err));
    }
    return builder_finalize(builder, err) ?: builder_publish(builder, err);
}

void builder_run(struct plane *plane, const struct build *build) {
    struct builder builder = {.plane = plane, .build = build, .provider = plane->front->provider};
    struct err err = {0};
    json_t *plan = json_loads(build->plan ? build->plan : "{}", 0, NULL);
    if (build->box) /* of a daemon that was killed */
        provider_destroy(builder.provider, NULL, build->box, ERR_IGNORED);
    int failed = builder_steps(&builder, plan, &err);
    json_decref(plan);
    builder_leave(&builder);
    pthread_mutex_lock(&plane->lock);
    bool ending = plane->ending;
    pthread_mutex_unlock(&plane->lock);
    if (failed && !ending) /* else the next daemon continues it */
        builder_log(&builder, "error", "%s", err.text);
    if (!failed)
        builder_log(&builder, "info", "Build finished");
    if (!failed || !ending)
        build_ended(plane, build, failed ? err.text : NULL, failed ? builder.step : NULL);
    arena_done(&builder.arena);
}
