/* Sandbox.create: POST /v2/sandboxes, and /sandboxes of older clients. Invariant: a wish about the network, volumes or
 * secrets that cannot be granted is refused, never ignored. */

#include "base/text.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/setup.h"
#include "front/e2b/template.h"
#include "front/trail.h"

struct create_args {
    struct row_text template_id;
    struct row_number timeout;
    bool auto_pause, has_resume;
    struct create_resume {
        bool enabled;
    } resume;
};

static const struct row create_resume_rows[] = {
    E2B_ROW("enabled", BOOL, create_resume, enabled, .text = "Use wakes it."),
    E2B_ROWS_END,
};

const struct row e2b_create_body[] = {
    E2B_ROW("templateID", TEXT, create_args, template_id, .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 256,
            .text = "A template: name, name:tag or id."),
    E2B_ROW("timeout", INT, create_args, timeout, .max = 31536000,
            .text = "Seconds until its end; 300, on the old path 15."),
    E2B_ROW("autoPause", BOOL, create_args, auto_pause, .text = "At its end it is paused, not killed."),
    E2B_ROW("autoResume", OBJECT, create_args, resume, .fields = create_resume_rows,
            .text = "Whether use wakes a paused one."),
    E2B_ROWS_END,
};

/* ---- the environment ---- */

static int create_env_entry(struct arena *arena, const char *key, const json_t *value, const char **ret_entry,
                            struct err *err) {
    if (!json_is_string(value))
        return err_set(err, ERR_INVALID, "envVars: the value of '%.100s' must be a string", key);
    if (!*key || strchr(key, '='))
        return err_set(err, ERR_INVALID, "envVars: '%.100s' is not a name of a variable", key);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return err_set(err, ERR_INVALID, "envVars: the value of '%.100s' has a NUL", key);
    *ret_entry = arena_printf(arena, "%s=%s", key, json_string_value(value));
    return 0;
}

/* "K=V" of a sandbox: who it runs as, which one it is, its template's, and the caller's. INVALID. */
static int create_env(struct http_request *request, const char *id, const char *template_id,
                      const struct e2b_setup *setup, const json_t *own, const char ***ret_env, struct err *err) {
    struct arena *arena = http_arena(request);
    if (own && !json_is_object(own))
        return err_set(err, ERR_INVALID, "envVars must be an object of strings");
    const char **env = arena_alloc(arena, (json_object_size(own) + text_list_count(setup->env) + 10) * sizeof *env);
    size_t count = E2B_OWN_ENV;
    memcpy(env, e2b_account_user.env, sizeof e2b_account_user.env);
    env[count++] = "E2B_SANDBOX=true";
    env[count++] = arena_printf(arena, "E2B_SANDBOX_ID=%s", id);
    env[count++] = arena_printf(arena, "E2B_TEMPLATE_ID=%s", template_id);
    if (setup->workdir)
        env[count++] = arena_printf(arena, E2B_WORKDIR "%s", setup->workdir);
    if (setup->user)
        env[count++] = arena_printf(arena, E2B_USER "%s", setup->user);
    for (const char **entry = setup->env; entry && *entry; entry++)
        if (!json_object_getn(own, *entry, strcspn(*entry, "=")))
            env[count++] = *entry;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)own, key, value) {
        int failed = create_env_entry(arena, key, value, &env[count++], err);
        if (failed)
            return failed;
    }
    *ret_env = env;
    return 0;
}

/* ---- the network ---- */

static int create_internet(struct http_request *request, const json_t *root, struct e2b_record *record,
                           const char **ret_network, struct err *err) {
    const json_t *wish = json_object_get(root, "allow_internet_access"), *network = json_object_get(root, "network");
    if (wish && !json_is_boolean(wish) && !json_is_null(wish))
        return err_set(err, ERR_INVALID, "allow_internet_access must be true or false");
    record->internet = json_is_true(wish) ? E2B_INTERNET_ON : json_is_false(wish) ? E2B_INTERNET_OFF : 0;
    record->private_traffic = json_is_false(json_object_get(network, "allowPublicTraffic"));
    if (record->private_traffic && json_is_false(json_object_get(root, "secure")))
        return err_set(err, ERR_INVALID, "allowPublicTraffic false needs a secure sandbox");
    return e2b_network_text(request, network, json_is_false(wish), ret_network, err);
}

/* ---- the rest of the body ---- */

static int create_metadata(const json_t *metadata, struct err *err) {
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata) && !json_is_null(metadata))
        return err_set(err, ERR_INVALID, "metadata must be an object of strings");
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "metadata: the value of '%.100s' must be a string", key);
    }
    return 0;
}

static int create_refused(const json_t *root, struct err *err) {
    const json_t *iam = json_object_get(root, "iam");
    if (iam && !json_is_null(iam))
        return err_set(err, ERR_INVALID, "iam: this server issues no tokens of identity");
    return 0;
}

static int create_record(struct http_request *request, const json_t *root, const struct create_args *args,
                         struct e2b_record *record, const char **ret_network, struct err *err) {
    bool newer = !strncmp(http_path(request), "/v2/", 4);
    const json_t *memory = json_object_get(root, "autoPauseMemory");
    uint64_t seconds = args->timeout.has ? args->timeout.value : newer ? 300 : 15;
    if (!seconds)
        return err_set(err, ERR_INVALID, "Timeout must be greater than 0");
    record->keep_memory = !json_is_false(memory);
    record->auto_pause = args->auto_pause;
    record->auto_resume = args->resume.enabled;
    if (!record->keep_memory && !record->auto_pause)
        return err_set(err, ERR_INVALID, "autoPauseMemory false needs autoPause");
    if (!record->keep_memory && record->auto_resume)
        return err_set(err, ERR_INVALID, "autoPauseMemory false and autoResume exclude each other");
    record->metadata = e2b_member(request, root, "metadata");
    record->env = e2b_member(request, root, "envVars");
    record->network = e2b_member(request, root, "network");
    if (json_array_size(json_object_get(root, "volumeMounts")))
        record->volumes = e2b_member(request, root, "volumeMounts");
    record->fresh = true;
    record->timeout_ms = seconds * 1000;
    record->started_us = e2b_now_us();
    record->end_ms = record->started_us / 1000 + record->timeout_ms;
    return create_metadata(json_object_get(root, "metadata"), err) ?: create_refused(root, err)
                                                                          ?: create_internet(request, root, record, ret_network, err);
}

/* ---- the box ---- */

const char *e2b_container_user(const char *backend) {
    return backend && !strcmp(backend, "docker") ? "root" : NULL;
}

int e2b_acquire(struct provider *provider, struct box_request *wanted, const char *configured, const char *network,
                struct box **ret_box, struct err *err) {
    bool created;
    wanted->network = network ? network : configured ? configured : "open";
    int failed = provider_acquire(provider, wanted, ret_box, &created, err);
    if (network || configured || (failed != -ERR_UNSUPPORTED && failed != -ERR_DENIED))
        return failed;
    wanted->network = NULL; /* nobody asked for more than what boxes here have */
    return provider_acquire(provider, wanted, ret_box, &created, err);
}

static int create_box(struct http_request *request, const json_t *root, const struct e2b_template *template,
                      struct e2b_record *record, const char *network, struct box **ret_box, struct err *err) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    struct provider *provider = front_of(request)->provider;
    char id[17];
    struct note note;
    struct e2b_setup setup;
    policy_random_id(id);
    e2b_setup_read(template->setup, http_arena(request), &setup);
    const struct who *who = front_who(request);
    struct box_request wanted = {.user = who->user,
                                 .id = id,
                                 .backend = template->backend,
                                 .template_name = template->base,
                                 .workspace = E2B_HOME,
                                 .layers = template->layers,
                                 .container = {.user = e2b_container_user(template->backend)},
                                 .has_idle_timeout = true,
                                 .has_cpus = setup.cpus > 0,
                                 .has_memory = setup.memory_mb > 0,
                                 .limits = {.cpus = (double)setup.cpus, .memory_mb = setup.memory_mb},
                                 .note = &note};
    const json_t *env = json_object_get(root, "envVars");
    STEP(e2b_volume_mounts(request, json_object_get(root, "volumeMounts"), &wanted.mounts, &wanted.mount_count,
                                   err)
                     ?: create_env(request, id, template->id, &setup, json_is_null(env) ? NULL : env, &wanted.env, err)
                     ?: e2b_record_note(record, true, http_arena(request), &note, err) ?: front_make(request, err)
                     ?: e2b_template_hold(request, template, id, err));
    int failed = e2b_acquire(provider, &wanted, settings ? settings->network : NULL, network, ret_box, err);
    if (failed) {
        e2b_template_let_go(request, template, id);
        return failed;
    }
    failed = e2b_setup_sandbox(request, *ret_box, template->setup, err);
    if (failed) {
        provider_put(provider, *ret_box);
        provider_destroy(provider, NULL, id, ERR_IGNORED);
    }
    return failed;
}

int e2b_create(struct http_request *request, struct box *, struct err *err) {
    struct create_args args = {0};
    struct e2b_template template = {0};
    struct e2b_sandbox sandbox = {0};
    json_t *root = NULL;
    const char *network = NULL;
    int failed = e2b_body(request, &args, &root, err)
                     ?: e2b_template_find(request, args.template_id.data, &template, err)
                     ?: create_record(request, root, &args, &sandbox.record, &network, err);
    sandbox.record.template_id = template.original ? template.original : template.id;
    sandbox.record.alias = template.alias;
    sandbox.record.build_id = template.build;
    sandbox.record.setup = template.setup;
    if (!failed)
        failed = create_box(request, root, &template, &sandbox.record, network, &sandbox.box, err);
    json_decref(root);
    if (failed)
        return failed;
    trail_box(request, sandbox.box);
    failed = e2b_sandbox_answer(request, 201, &sandbox, err);
    trail_box(request, NULL);
    provider_put(front_of(request)->provider, sandbox.box);
    return failed;
}
