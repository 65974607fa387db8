/* Merging and comparing configurations: a user's options on top of those of all users, how two configurations differ,
 * and the part about boxes. Called by conf_new and by the daemon. Invariant: a user inherits every option that is not
 * set for them. */
#include "base/base.h"
#include "daemon/conf_table.h"

/* ---- users ---- */

static const size_t type_sizes[] = {
    [CONF_TEXT] = sizeof(const char *),
    [CONF_BOOL] = sizeof(bool),
    [CONF_INT] = sizeof(uint64_t),
    [CONF_REAL] = sizeof(double),
    [CONF_LIST] = sizeof(struct row_texts),
    [CONF_ENV] = sizeof(struct row_texts),
    [CONF_MOUNTS] = sizeof(struct conf_mounts),
    [CONF_TEMPLATES] = sizeof(struct row_texts),
    [CONF_SERVERS] = sizeof(struct row_texts),
};

/* Adds the user's variables after those of all users: the later one of a name counts. */
static void merge_env(struct arena *arena, const struct row_texts *all, struct row_texts *own) {
    struct row_texts both = {0};
    for (size_t i = 0; i < all->count; i++)
        rows_texts_add(arena, &both, all->items[i]);
    for (size_t i = 0; i < own->count; i++)
        rows_texts_add(arena, &both, own->items[i]);
    *own = both;
}

/* Joins the user's mounts and those of all users; for the same target the user's counts. */
static void merge_mounts(struct arena *arena, const struct conf_mounts *all, struct conf_mounts *own) {
    struct share_mount *both = arena_alloc(arena, (all->count + own->count + 1) * sizeof *both);
    size_t count = own->count;
    if (own->count)
        memcpy(both, own->items, own->count * sizeof *both);
    for (size_t i = 0; i < all->count; i++) {
        size_t at = 0;
        while (at < own->count && strcmp(own->items[at].target, all->items[i].target) != 0)
            at++;
        if (at == own->count)
            both[count++] = all->items[i];
    }
    *own = (struct conf_mounts){.items = both, .count = count};
}

void conf_inherit(struct conf *conf) {
    const struct conf_target all = {.conf = conf};
    for (size_t i = 0; i < conf->user_count; i++) {
        const struct conf_target own = {.conf = conf, .user = &conf->users[i]};
        for (const struct row *option = conf_options; option->name; option++) {
            if (!(option->flags & CONF_USER))
                continue;
            if (!*conf_given_at(&own, option))
                memcpy(conf_slot(&own, option), conf_slot(&all, option), type_sizes[option->type]);
            else if (option->type == CONF_ENV)
                merge_env(&conf->arena, conf_slot(&all, option), conf_slot(&own, option));
            else if (option->type == CONF_MOUNTS)
                merge_mounts(&conf->arena, conf_slot(&all, option), conf_slot(&own, option));
        }
    }
}

/* ---- the host ---- */

static bool merge_hands_out(const struct conf_target *target, const struct row *option) {
    static const char nothing[sizeof(struct row_texts) + sizeof(struct conf_mounts)];
    if (option->type == CONF_TEMPLATES) /* names only restrict requests; paths are files of the host */
        return target->conf->import_count > 0;
    return memcmp(conf_slot(target, option), nothing, type_sizes[option->type]) != 0;
}

bool conf_hands_out_host(struct conf *conf) {
    for (const struct row *option = conf_options; option->name; option++) {
        if (!(option->flags & CONF_HOST))
            continue;
        bool found = merge_hands_out(&(struct conf_target){.conf = conf}, option);
        for (size_t i = 0; option->flags & CONF_USER && i < conf->user_count && !found; i++)
            found = merge_hands_out(&(struct conf_target){.conf = conf, .user = &conf->users[i]}, option);
        if (found)
            return true;
    }
    return false;
}

/* ---- differences ---- */

bool conf_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool merge_same_list(const struct row_texts *a, const struct row_texts *b) {
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return a->count == b->count;
}

static bool merge_same_mounts(const struct conf_mounts *a, const struct conf_mounts *b) {
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i].source, b->items[i].source) != 0 ||
            strcmp(a->items[i].target, b->items[i].target) != 0 || a->items[i].read_only != b->items[i].read_only ||
            a->items[i].create != b->items[i].create)
            return false;
    return a->count == b->count;
}

static bool merge_same_imports(const struct conf *a, const struct conf *b) {
    for (size_t i = 0; a->import_count == b->import_count && i < a->import_count; i++)
        if (strcmp(a->imports[i].name, b->imports[i].name) != 0 || strcmp(a->imports[i].path, b->imports[i].path) != 0)
            return false;
    return a->import_count == b->import_count;
}

static bool merge_same_tokens(const struct conf *a, const struct conf *b) {
    for (size_t i = 0; a->token_count == b->token_count && i < a->token_count; i++)
        if (memcmp(a->tokens[i].sha256, b->tokens[i].sha256, sizeof a->tokens[i].sha256) != 0 ||
            !conf_same_text(a->tokens[i].user, b->tokens[i].user) || a->tokens[i].scope != b->tokens[i].scope)
            return false;
    return a->token_count == b->token_count;
}

static bool merge_same_users(const struct conf *a, const struct conf *b);

static bool merge_same_value(const struct conf_target *a, const struct conf_target *b, const struct row *option) {
    const void *first = conf_slot(a, option), *second = conf_slot(b, option);
    switch ((int)option->type) {
    case CONF_TEXT:
        return conf_same_text(*(const char *const *)first, *(const char *const *)second);
    case CONF_LIST:
    case CONF_ENV:
    case CONF_SERVERS:
        return merge_same_list(first, second);
    case CONF_TEMPLATES:
        return merge_same_list(first, second) && merge_same_imports(a->conf, b->conf);
    case CONF_MOUNTS:
        return merge_same_mounts(first, second);
    case CONF_TOKENS:
        return merge_same_tokens(a->conf, b->conf);
    case CONF_REGISTRIES:
        return conf_same_registries(a->conf, b->conf);
    case CONF_USERS:
        return merge_same_users(a->conf, b->conf);
    default:
        return memcmp(first, second, type_sizes[option->type]) == 0;
    }
}

/* Compares a user's own values; inherited ones show as a change for all users. */
static bool merge_same_user(const struct conf_target *a, const struct conf_target *b) {
    for (const struct row *option = conf_options; option->name; option++) {
        if (!(option->flags & CONF_USER))
            continue;
        bool given = *conf_given_at(a, option);
        if (given != *conf_given_at(b, option) || (given && !merge_same_value(a, b, option)))
            return false;
    }
    return true;
}

static bool merge_same_users(const struct conf *a, const struct conf *b) {
    for (size_t i = 0; a->user_count == b->user_count && i < a->user_count; i++) {
        const struct conf_target first = {.conf = (struct conf *)(uintptr_t)a, .user = &a->users[i]},
                                 second = {.conf = (struct conf *)(uintptr_t)b, .user = &b->users[i]};
        if (strcmp(a->users[i].name, b->users[i].name) != 0 || !merge_same_user(&first, &second))
            return false;
    }
    return a->user_count == b->user_count;
}

void conf_changes(struct conf *old, struct conf *now, void (*each)(void *user, const char *name, bool at_once),
                  void *user) {
    const struct conf_target first = {.conf = old}, second = {.conf = now};
    for (const struct row *option = conf_options; option->name; option++)
        if (!merge_same_value(&first, &second, option))
            each(user, option->name, option->flags & CONF_AT_ONCE);
}

/* ---- boxes ---- */

struct conf_policy {
    struct policy policy;
    struct conf *conf;
    struct share_user users[];
};

static void merge_policy_released(struct policy *policy) {
    struct conf_policy *own = (struct conf_policy *)policy; /* its first member */
    conf_unref(own->conf);
    free(own);
}

static const char *const *merge_words(const struct row_texts *list) {
    return (const char *const *)list->items;
}

static struct share merge_share_of(const struct conf_share *from) {
    return (struct share){
        .limits = {.memory_mb = from->memory_mb,
                   .cpus = from->cpus,
                   .pids = from->pids,
                   .disk_mb = from->disk_mb,
                   .open_files = from->open_files,
                   .output_bytes = from->output_bytes},
        .idle_timeout_ms = from->idle_timeout_ms,
        .busy_timeout_ms = from->busy_timeout_ms,
        .env = merge_words(&from->env),
        .mounts = from->mounts.items,
        .mount_count = from->mounts.count,
        .template_name = from->default_template,
        .network = from->network,
        .backend = from->backend,
        .machine = from->machine,
        .templates = merge_words(&from->templates),
        .networks = merge_words(&from->networks),
        .network_policy = from->network_policy,
        .network_modes = merge_words(&from->network_modes),
        .backends = merge_words(&from->backends),
        .image = from->docker_image,
        .images = merge_words(&from->docker_images),
        .pull = from->docker_pull,
        .runtime = from->docker_runtime,
        .runtimes = merge_words(&from->docker_runtimes),
        .max_boxes = (unsigned)from->max_boxes_per_user,
        .memory_mb = from->user_memory_mb,
        .disk_mb = from->user_disk_mb,
    };
}

struct policy *conf_policy(struct conf *conf) {
    struct conf_policy *own = xcalloc(1, sizeof *own + conf->user_count * sizeof *own->users);
    own->conf = conf_ref(conf);
    for (size_t i = 0; i < conf->user_count; i++)
        own->users[i] =
            (struct share_user){.user = conf->users[i].name, .share = merge_share_of(&conf->users[i].share)};
    own->policy = (struct policy){
        .refs = 1,
        .released = merge_policy_released,
        .mount_sources = merge_words(&conf->mount_sources),
        .dialect_sources = merge_words(&conf->dialect_sources),
        .share = merge_share_of(&conf->share),
        .network_policy = conf->machine_network_policy,
        .users = own->users,
        .user_count = conf->user_count,
        .max_boxes = (unsigned)conf->max_boxes,
        .replicas = (unsigned)conf->replicas,
        .memory_reserve_mb = conf->memory_reserve_mb,
        .wake_paused = conf->wake_paused,
    };
    return &own->policy;
}
