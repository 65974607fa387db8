/* From a client's words to a spec. Called by the provider for every new box. Invariant: a spec that left this file
 * holds nothing unchecked; a backend may use every string of it as it is. */
#include "box/policy.h"

#include "base/base.h"
#include "base/sha256.h"
#include "box/network.h"
#include "box/provider/record.h"

enum { LIMIT_ENV_BYTES = 128 << 10, LIMIT_LABEL_BYTES = 1024, LIMIT_TEMPLATE_BYTES = 64 };

static const char lower[] = "abcdefghijklmnopqrstuvwxyz", upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                  digits[] = "0123456789";

static bool policy_made_of(const char *text, size_t len, const char *extra, bool digit_first) {
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool digit = c && strchr(digits, c);
        if (!c || (digit && i == 0 && !digit_first))
            return false;
        if (!digit && !strchr(lower, c) && !strchr(upper, c) && !strchr(extra, c))
            return false;
    }
    return len > 0;
}

int policy_agent(const char *agent, struct err *err) {
    size_t len = strlen(agent);
    if (len > LIMIT_AGENT_BYTES || !policy_made_of(agent, len, "_.@-", true) || agent[0] == '.' ||
        strcmp(agent, "skill-creator") == 0)
        return err_set(err, ERR_INVALID,
                       "agent must be 1 to %u characters of A-Z a-z 0-9 _ . @ -, no . first, and not 'skill-creator'",
                       LIMIT_AGENT_BYTES);
    return 0;
}

int policy_machine(const char *machine, struct err *err) {
    size_t len = strlen(machine);
    if (len > LIMIT_RUNNER_BYTES || !policy_made_of(machine, len, "_.-", true) || machine[0] == '.' ||
        machine[0] == '-')
        return err_set(err, ERR_INVALID, "machine must be 1 to %u characters of A-Z a-z 0-9 _ . -, no . or - first",
                       LIMIT_RUNNER_BYTES);
    return 0;
}

/* The name after the prefix of such a thread; NULL: it is another thread, or not a name. */
static const char *policy_thread_name(const char *thread, size_t len, const char *prefix,
                                      int (*check)(const char *name, struct err *err), struct arena *arena) {
    size_t begin = strlen(prefix);
    if (!thread || len <= begin || strncmp(thread, prefix, begin) != 0)
        return NULL;
    const char *name = arena_copy(arena, thread + begin, len - begin);
    return check(name, ERR_IGNORED) < 0 ? NULL : name;
}

const char *policy_thread_agent(const char *thread, size_t thread_len, struct arena *arena) {
    return policy_thread_name(thread, thread_len, POLICY_AGENT_THREAD, policy_agent, arena);
}

static int policy_pair_machine(struct box_request *request, struct arena *arena, struct err *err) {
    const char *own =
        policy_thread_name(request->thread, request->thread_len, POLICY_MACHINE_THREAD, policy_machine, arena);
    if (!request->machine)
        request->machine = own;
    bool remote = request->backend && strcmp(request->backend, "remote") == 0;
    if (!request->machine)
        return 0; /* backend remote: the user's active one, where the box is new */
    TRY(policy_machine(request->machine, err));
    if (own && strcmp(own, request->machine) != 0)
        return err_set(err, ERR_INVALID, "machine: thread '%s%s' is another machine's", POLICY_MACHINE_THREAD, own);
    if (request->backend && !remote)
        return err_set(err, ERR_INVALID, "machine: a box on a machine has backend remote, not '%.40s'",
                       request->backend);
    request->backend = "remote";
    if (!request->thread && !request->agent) {
        request->thread = arena_printf(arena, POLICY_MACHINE_THREAD "%s", request->machine);
        request->thread_len = strlen(request->thread);
    }
    return 0;
}

int policy_pair(struct box_request *request, struct arena *arena, struct err *err) {
    TRY(policy_pair_machine(request, arena, err));
    const char *agent = policy_thread_agent(request->thread, request->thread_len, arena);
    if (!request->agent) {
        request->agent = agent;
        return 0;
    }
    TRY(policy_agent(request->agent, err));
    if (request->thread && (!agent || strcmp(agent, request->agent) != 0))
        return err_set(err, ERR_INVALID, "agent: the box of an agent has no other thread; leave one of them out");
    request->thread = arena_printf(arena, POLICY_AGENT_THREAD "%s", request->agent);
    request->thread_len = strlen(request->thread);
    return 0;
}

struct policy *policy_ref(struct policy *policy) {
    atomic_fetch_add(&policy->refs, 1);
    return policy;
}

void policy_unref(struct policy *policy) {
    if (policy && atomic_fetch_sub(&policy->refs, 1) == 1 && policy->released)
        policy->released(policy);
}

static int policy_compare_user(const void *user, const void *row) {
    return strcmp(user, ((const struct share_user *)row)->user);
}

const struct share *policy_for(const struct policy *policy, const char *user) {
    const struct share_user *own = policy->user_count ? bsearch(user, policy->users, policy->user_count,
                                                                sizeof *policy->users, policy_compare_user)
                                                      : NULL;
    return own ? &own->share : &policy->share;
}

void policy_id(const char *user, const char *thread, size_t thread_len, char ret_id[17]) {
    /* Calls of one conversation come one after another, each with the same pair. */
    static _Thread_local struct {
        size_t len;
        char pair[256], id[17];
    } last;
    size_t user_len = strlen(user), len = user_len + 1 + thread_len;
    if (len == last.len && memcmp(last.pair, user, user_len) == 0 && last.pair[user_len] == ':' &&
        memcmp(last.pair + user_len + 1, thread, thread_len) == 0) {
        memcpy(ret_id, last.id, sizeof last.id);
        return;
    }
    char *pair = xmalloc(len);
    memcpy(pair, user, user_len);
    pair[user_len] = ':';
    memcpy(pair + user_len + 1, thread, thread_len);
    uint8_t digest[32];
    sha256(pair, len, digest);
    text_hex(ret_id, digest, 8);
    if (len <= sizeof last.pair) {
        last.len = len;
        memcpy(last.pair, pair, len);
        memcpy(last.id, ret_id, sizeof last.id);
    }
    free(pair);
}

void policy_random_id(char ret_id[17]) {
    uint8_t bytes[8];
    xrandom(bytes, sizeof bytes);
    text_hex(ret_id, bytes, sizeof bytes);
}

/* ---- one check a field ---- */

int policy_env(const char *entry, struct err *err) {
    const char *equals = strchr(entry, '=');
    size_t key = equals ? (size_t)(equals - entry) : strlen(entry);
    if (!equals || !policy_made_of(entry, key, "_", false))
        return err_set(err, ERR_INVALID, "env: '%.*s' is not a name (letters, digits and _, no digit first)",
                       (int)(key < 100 ? key : 100), entry);
    if (strlen(entry) > LIMIT_ENV_BYTES)
        return err_set(err, ERR_INVALID, "env: '%.*s' is longer than %d bytes", (int)(key < 100 ? key : 100), entry,
                       LIMIT_ENV_BYTES);
    return 0;
}

static bool policy_same_key(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* The configuration's variables, then the request's; a later one replaces an earlier one of the same name. */
static int policy_spec_env(const struct share *share, const struct box_request *request, struct arena *arena,
                           struct spec *spec, struct err *err) {
    const char *const *lists[] = {share->env, (const char *const *)request->env};
    size_t max = 0;
    for (int i = 0; i < 2; i++)
        for (const char *const *e = lists[i]; e && *e; e++)
            if (++max > LIMIT_ENV_COUNT)
                return err_set(err, ERR_INVALID, "env: more than %u variables", LIMIT_ENV_COUNT);
    spec->env = arena_alloc(arena, (max + 1) * sizeof *spec->env);
    for (int i = 0; i < 2; i++) {
        for (const char *const *e = lists[i]; e && *e; e++) {
            TRY(policy_env(*e, err));
            size_t at = 0;
            while (at < spec->env_count && !policy_same_key(spec->env[at], *e))
                at++;
            spec->env[at] = arena_strdup(arena, *e);
            spec->env_count += at == spec->env_count;
        }
    }
    return 0;
}

/* The limits that a request may name, but for cpus, which is not a whole number. */
static const struct {
    const char *field;
    size_t has, value; /* in struct box_request, in struct limits */
    uint64_t min, max;
} policy_limits[] = {
#define LIMIT_ROW(name, has_name, ...)                                                                                 \
    { #name, offsetof(struct box_request, has_name), offsetof(struct limits, name), __VA_ARGS__ }
    LIMIT_ROW(memory_mb, has_memory, 16, 1u << 20),
    LIMIT_ROW(pids, has_pids, 8, 1u << 22),
    LIMIT_ROW(disk_mb, has_disk, 1, 1ull << 40),
    LIMIT_ROW(open_files, has_open_files, LIMIT_OPEN_FILES_LEAST, LIMIT_OPEN_FILES),
    LIMIT_ROW(output_bytes, has_output, 1, LIMIT_OUTPUT_LIMIT_BYTES),
};
enum { POLICY_LIMITS = sizeof policy_limits / sizeof *policy_limits };

static bool policy_limit_given(const struct box_request *request, size_t i) {
    return *(const bool *)((const char *)request + policy_limits[i].has);
}

static uint64_t policy_limit(const struct limits *limits, size_t i) {
    return *(const uint64_t *)((const char *)limits + policy_limits[i].value);
}

static int policy_spec_limits(const struct share *share, const struct box_request *request, struct spec *spec,
                              struct err *err) {
    struct limits limits = share->limits;
    if (request->no_limits)
        limits = (struct limits){.output_bytes = share->limits.output_bytes};
    if (request->images)
        limits.disk_mb = 0;
    if (request->has_cpus)
        limits.cpus = request->limits.cpus;
    if (request->has_cpus && !(limits.cpus >= 0.01 && limits.cpus <= 1024)) /* NaN too */
        return err_set(err, ERR_INVALID, "limits: cpus must be 0.01 to 1024");
    for (size_t i = 0; i < POLICY_LIMITS; i++) {
        uint64_t value = policy_limit(&request->limits, i);
        if (!policy_limit_given(request, i))
            continue;
        if (value < policy_limits[i].min || value > policy_limits[i].max)
            return err_set(err, ERR_INVALID, "limits: %s must be %llu to %llu", policy_limits[i].field,
                           (unsigned long long)policy_limits[i].min, (unsigned long long)policy_limits[i].max);
        *(uint64_t *)((char *)&limits + policy_limits[i].value) = value;
    }
    spec->limits = limits;
    return 0;
}

bool policy_template(const char *name) {
    size_t len = strlen(name);
    return len <= LIMIT_TEMPLATE_BYTES && policy_made_of(name, len, "_.-", true) && name[0] != '.' && name[0] != '-';
}

/* A missing list allows everything; the share's own value is always allowed. */
static int policy_check_listed(const char *field, const char *const *list, const char *own, const char *asked,
                               struct err *err) {
    if (!asked || !list || text_list_has(list, asked) || strcmp(own, asked) == 0)
        return 0;
    return err_set(err, ERR_DENIED, "%s '%.80s' is not allowed by the configuration (%ss)", field, asked, field);
}

int policy_backend(const struct share *share, const struct box_request *request, const char *fallback,
                   const char **ret_backend, struct err *err) {
    const char *own = share->backend ? share->backend : fallback;
    TRY(policy_check_listed("backend", share->backends, own, request->backend, err));
    *ret_backend = request->backend ? request->backend : own;
    return 0;
}

static int policy_spec_template(const struct share *share, const struct box_request *request, struct arena *arena,
                                struct spec *spec, struct err *err) {
    if (request->images)
        return container_spec(share, request, arena, spec, err);
    const char *own = share->template_name && !request->no_limits ? share->template_name : "host";
    const char *name = request->template_name ? request->template_name : own;
    if (!policy_template(name))
        return err_set(err, ERR_INVALID, "template must be 1 to %d characters of A-Z a-z 0-9 _ . -, no . or - first",
                       LIMIT_TEMPLATE_BYTES);
    spec->template_name = arena_strdup(arena, name);
    return policy_check_listed("template", share->templates, own, request->template_name, err);
}

static int policy_spec_network(const struct share *share, const struct box_request *request, struct arena *arena,
                               struct spec *spec, struct err *err) {
    /* The configuration is about this server's network; a machine gives its own only where a request asks for it. */
    const char *own = share->network && !request->machine ? share->network : "none";
    spec->network_asked = request->network != NULL;
    return network_check(share, own, request->network ? request->network : own, arena, &spec->network, &spec->policy,
                         NULL, err);
}

static int policy_spec_words(const struct box_request *request, struct arena *arena, struct spec *spec,
                             struct err *err) {
    if (request->shell && (strlen(request->shell) > LIMIT_PATH_BYTES || !path_normal(request->shell)))
        return err_set(err, ERR_INVALID, "shell must be an absolute path without '.', '..' or '//'");
    spec->shell = request->shell ? arena_strdup(arena, request->shell) : NULL;
    if (request->workspace && (strlen(request->workspace) > LIMIT_PATH_BYTES || !path_normal(request->workspace)))
        return err_set(err, ERR_INVALID, "workspace must be an absolute path without '.', '..' or '//'");
    spec->workspace = request->workspace ? arena_strdup(arena, request->workspace) : NULL;
    spec->layers = arena_list(arena, request->layers, &spec->layer_count);
    size_t labels = 0;
    for (const char **label = request->labels; label && *label; label++) {
        const char *equals = strchr(*label, '=');
        if (++labels > LIMIT_LABELS)
            return err_set(err, ERR_INVALID, "labels: more than %u", LIMIT_LABELS);
        if (!equals || !policy_made_of(*label, (size_t)(equals - *label), "_./-", true) ||
            strlen(*label) > LIMIT_LABEL_BYTES)
            return err_set(err, ERR_INVALID,
                           "labels: '%.60s' (names are letters, digits and _ . / -, together %d bytes)", *label,
                           LIMIT_LABEL_BYTES);
    }
    return 0;
}

int policy_spec(const struct policy *policy, const struct box_request *request, const char id[17], struct arena *arena,
                struct spec *ret_spec, struct err *err) {
    const char *user = request->user ? request->user : "default";
    struct spec spec = {.one_shot = request->one_shot,
                        .user = arena_strdup(arena, user),
                        .agent = arena_strdup_or(arena, request->agent),
                        .bindings = arena_list(arena, request->bindings, NULL),
                        .machine = arena_strdup_or(arena, request->machine)};
    text_id_copy(spec.id, id);
    TRY(text_user(user, err));
    if (request->thread &&
        (request->thread_len > LIMIT_THREAD_BYTES || memchr(request->thread, 0, request->thread_len)))
        return err_set(err, ERR_INVALID, "thread must be at most %u bytes, without NUL", LIMIT_THREAD_BYTES);
    spec.thread = request->thread ? arena_copy(arena, request->thread, request->thread_len) : NULL;
    TRY(spec.agent ? policy_agent(spec.agent, err) : 0);
    TRY(spec.machine ? policy_machine(spec.machine, err) : 0);
    const struct share *share = policy_for(policy, user);
    TRY(policy_spec_words(request, arena, &spec, err)
            ?: policy_spec_template(share, request, arena, &spec, err)
            ?: policy_spec_network(share, request, arena, &spec, err)
            ?: policy_spec_env(share, request, arena, &spec, err)
            ?: policy_spec_limits(share, request, &spec, err));
    if (request->machine && request->mount_count)
        return err_set(err, ERR_UNSUPPORTED,
                       "mounts: a box on a machine has none of this server's; `cubby join --allow DIR` opens "
                       "directories of the machine");
    if (!request->machine) /* last: it may make directories */
        TRY(mounts_spec(policy, share, request, arena, &spec, err));
    *ret_spec = spec;
    return 0;
}

int policy_fork(const struct policy *policy, const struct spec *from, struct arena *arena, struct spec *spec,
                struct err *err) {
    const struct share *share = policy_for(policy, from->user);
    struct box_request asked = {.env = arena_alloc(arena, (from->env_count + 1) * sizeof *asked.env)};
    size_t count = 0;
    for (size_t i = 0; i < from->env_count; i++)
        if (!text_list_has(share->env, from->env[i]))
            asked.env[count++] = from->env[i];
    mounts_asked(policy, from, arena, &asked.mounts, &asked.mount_count);
    share = policy_for(policy, spec->user);
    spec->env_count = 0;
    return policy_spec_env(share, &asked, arena, spec, err) ?: mounts_spec(policy, share, &asked, arena, spec, err);
}

/* ---- the same box again ---- */

struct differences {
    char text[400];
    size_t len;
    unsigned count;
};

static void policy_differ(struct differences *all, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void policy_differ(struct differences *all, const char *format, ...) {
    size_t room = sizeof all->text - all->len;
    va_list args;
    va_start(args, format);
    int n = snprintf(all->text + all->len, room, "%s", all->count++ ? "; " : "");
    n += vsnprintf(all->text + all->len + n, room - (size_t)n, format, args);
    va_end(args);
    if ((size_t)n < room - 4) /* omitted if it does not fit: the first ones are there */
        all->len += (size_t)n;
    else
        all->text[all->len] = 0;
}

static void policy_differ_word(struct differences *all, const char *field, const char *has, const char *asked) {
    has = has ? has : "the default";
    if (asked && strcmp(has, asked) != 0)
        policy_differ(all, "%s is %.60s, not %.60s", field, has, asked);
}

/* A policy is compared as it is recorded: normalised. It may have been changed since the box was made. */
static void policy_differ_network(struct differences *all, const struct spec *spec, const char *asked) {
    autoarena arena = ARENA_EMPTY;
    static const struct share any;
    enum network network = NETWORK_NONE;
    const char *policy = NULL;
    if (asked && network_check(&any, "none", asked, &arena, &network, &policy, NULL, ERR_IGNORED) == 0 && policy)
        asked = policy;
    policy_differ_word(all, "network", spec_network(spec), asked);
}

static void policy_differ_number(struct differences *all, const char *field, uint64_t has, uint64_t asked) {
    if (has != asked)
        policy_differ(all, "%s is %llu, not %llu", field, (unsigned long long)has, (unsigned long long)asked);
}

static void policy_differ_limits(struct differences *all, const struct box_request *request,
                                 const struct record *record) {
    const struct limits *has = &record->spec.limits, *asked = &request->limits;
    for (size_t i = 0; i < POLICY_LIMITS; i++)
        if (policy_limit_given(request, i))
            policy_differ_number(all, policy_limits[i].field, policy_limit(has, i), policy_limit(asked, i));
    if (request->has_idle_timeout)
        policy_differ_number(all, "idle_timeout_ms", record->idle_timeout_ms, request->idle_timeout_ms);
    /* Recorded in thousandths. */
    if (request->has_cpus && (has->cpus - asked->cpus > 0.001 || asked->cpus - has->cpus > 0.001))
        policy_differ(all, "cpus is %g, not %g", has->cpus, asked->cpus);
}

/* The values of variables may be secrets. Sources of mounts are recorded as they were resolved, which is not repeated
 * here: it could wait for a file system. */
static void policy_differ_maps(struct differences *all, const struct box_request *request,
                               const struct record *record) {
    for (const char **entry = request->env; entry && *entry; entry++)
        if (!text_list_has((const char *const *)record->spec.env, *entry))
            policy_differ(all, "env %.*s is not what it was made with", (int)strcspn(*entry, "="), *entry);
    for (const char **label = request->labels; label && *label; label++)
        if (!text_list_has((const char *const *)record->labels, *label))
            policy_differ(all, "it has no label %.80s", *label);
    for (size_t i = 0; i < request->mount_count; i++) {
        const struct mount *asked = &request->mounts[i];
        bool there = false;
        for (size_t j = 0; j < record->spec.mount_count && !there; j++) {
            const struct mount *has = &record->spec.mounts[j];
            there = strcmp(has->target, asked->target) == 0 && has->read_only == asked->read_only;
        }
        if (!there)
            policy_differ(all, "it has no such mount at %.80s", asked->target);
    }
}

int policy_same(const struct box_request *request, const struct record *record, struct err *err) {
    struct differences all = {.len = 0};
    const struct spec *spec = &record->spec;
    const struct container *has = &spec->container, *asked = &request->container;
    policy_differ_limits(&all, request, record);
    policy_differ_network(&all, spec, request->network);
    policy_differ_word(&all, "backend", record->backend, request->backend);
    policy_differ_word(&all, "template", spec->template_name, request->template_name);
    policy_differ_word(&all, "shell", spec->shell, request->shell);
    policy_differ_word(&all, "container.user", has->user, asked->user);
    policy_differ_word(&all, "container.runtime", has->runtime, asked->runtime);
    policy_differ_word(&all, "container.platform", has->platform, asked->platform);
    policy_differ_word(&all, "container.pull", has->pull, asked->pull);
    if ((asked->read_only && !has->read_only) || (asked->image_init && !has->image_init))
        policy_differ(&all, "container.%s is not set", asked->read_only && !has->read_only ? "read_only" : "init");
    if (request->temporary && !record->temporary)
        policy_differ(&all, "it is not temporary");
    policy_differ_maps(&all, request, record);
    for (const char *const *wanted = request->bindings; wanted && *wanted; wanted++) {
        const char *const *has_one = (const char *const *)spec->bindings;
        size_t name = strcspn(*wanted, "=") + 1; /* of "NAME=VARIABLE=PLACEHOLDER" the placeholder is always another */
        name += strcspn(*wanted + name, "=") + 1;
        while (has_one && *has_one && strncmp(*has_one, *wanted, name) != 0)
            has_one++;
        if (!has_one || !*has_one)
            policy_differ(&all, "it has no secret %.*s", (int)name - 1, *wanted);
    }
    return all.count == 0
               ? 0
               : err_set(err, ERR_EXISTS,
                         "box %s is already there and was made differently: %s. Leave these fields away to use "
                         "it as it is, or delete it first",
                         spec->id, all.text);
}
