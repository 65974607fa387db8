/* Processes of cubby-seal. One thread for each answers its questions: values, certificates, rows. Invariants: a seal gets
 * only values that are bound to its box; a value is wiped when it was sent. What a seal says is hostile. */
#include "box/secret/seal.h"

#include <sys/mman.h>

#include "backend/spawn.h"
#include "backend/template.h"
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/network.h"
#include "gate/gate_policy.h"

enum { SEAL_MESSAGE = 128 << 10, SEAL_STACK_BYTES = 512 << 10, SEAL_NOBODY = 65534 };

struct seal {
    struct seal *next;
    struct seals *seals;
    char id[17], *user;
    const char **bindings; /* as it was started with */
    const char **referred; /* secrets that headers of its policies refer to */
    struct arena arena;
    pid_t pid;
    int control;
    uint64_t second, lost; /* rows of this second, and those that were too many */
    unsigned rows;
};

struct seals {
    struct seals_config config;
    char *program, *ca_file;
    const struct backend_env *env; /* of templates */
    struct authority *authority;
    struct provider *provider; /* set before the first request */
    struct seal_counts counts; /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct seal *list;
};

struct seals *seals_new(const struct seals_config *config) {
    struct seals *seals = xcalloc(1, sizeof *seals);
    seals->config = *config;
    seals->program = xasprintf("%.*s/cubby-seal", (int)(strrchr(config->runner_path, '/') - config->runner_path),
                               config->runner_path);
    seals->ca_file = xstrdup(config->ca_file ? config->ca_file : "/etc/ssl/certs/ca-certificates.crt");
    pthread_mutex_init(&seals->lock, NULL);
    cond_init(&seals->changed);
    return seals;
}

void seals_free(struct seals *seals) {
    if (!seals)
        return;
    pthread_mutex_lock(&seals->lock);
    for (struct seal *seal = seals->list; seal; seal = seal->next)
        shutdown(seal->control, SHUT_RDWR);
    while (seals->list)
        pthread_cond_wait(&seals->changed, &seals->lock);
    pthread_mutex_unlock(&seals->lock);
    authority_close(seals->authority);
    free(seals->program);
    free(seals->ca_file);
    free(seals);
}

/* ---- what a seal asks for ---- */

static void seal_answer(struct seal *seal, char letter, const char *first, const char *second, const char *third) {
    autobuf message = buf_max(SEAL_MESSAGE);
    buf_byte(&message, (uint8_t)letter);
    const char *const texts[] = {first, second, third};
    for (size_t i = 0; i < 3; i++)
        if (texts[i])
            buf_put(&message, texts[i], strlen(texts[i]) + 1);
    send(seal->control, message.data, message.len, MSG_NOSIGNAL);
    explicit_bzero(message.data, message.len);
}

static void seal_value(struct seal *seal, const char *name) {
    struct secrets *secrets = seal->seals->config.secrets;
    autoarena arena = ARENA_EMPTY;
    autobuf value = buf_max(LIMIT_SECRET_VALUE_BYTES + 64);
    struct secret secret;
    struct err err = {0};
    bool locked = buf_reserve(&value, value.max) && mlock(value.data, value.max) == 0; /* it never moves */
    bool bound = text_list_has((const char *const *)seal->referred, name);
    for (const char **at = seal->bindings; *at; at++)
        bound |= strncmp(*at, name, strlen(name)) == 0 && (*at)[strlen(name)] == '=';
    int r = !bound ? err_set(&err, ERR_DENIED, "secret '%.128s' is not bound to this box", name)
                   : secret_find(secrets, seal->user, name, &arena, &secret, &err)
                         ?: secret_value(secrets, &secret, &value, &err);
    if (r == 0)
        seal_answer(seal, 'V', name, text_make(32, "%llu", (unsigned long long)secret.use.from.ttl_s * 1000),
                    buf_cstr(&value));
    else
        seal_answer(seal, 'E', name, err.text, NULL);
    if (value.data)
        explicit_bzero(value.data, value.len);
    if (locked)
        munlock(value.data, value.max);
}

static void seal_leaf(struct seal *seal, const char *host, const char *key) {
    autobuf pem = buf_max(8192);
    struct err err = {0};
    if (authority_leaf(seal->seals->authority, host, key, &pem, &err) == 0)
        seal_answer(seal, 'L', host, buf_cstr(&pem), NULL);
    else
        log_warn("box %s: %s", seal->id, err.text);
}

/* ---- rows ---- */

static void seal_event(struct seal *seal, const char *verb, const char *user, const char *detail, bool denied,
                       uint64_t count) {
    const struct seals_config *config = &seal->seals->config;
    const struct box_event event = {
        .verb = verb, .id = seal->id, .user = user, .detail = detail, .alike = true, .denied = denied, .count = count};
    if (config->event)
        config->event(config->user, &event);
}

/* A box has so many rows a second; the rest is one row that counts them. */
static bool seal_may_log(struct seal *seal) {
    uint64_t second = clock_ms() / 1000;
    if (second != seal->second) {
        if (seal->lost)
            seal_event(seal, "net_lost", seal->user, "rows of inspected requests that were not written", true,
                       seal->lost);
        seal->second = second;
        seal->rows = 0;
        seal->lost = 0;
    }
    bool may = seal->rows < LIMIT_GATE_ROWS;
    seal->rows += may;
    seal->lost += !may;
    return may;
}

struct seal_owner { /* whose placeholder a word holds */
    const char *word;
    struct arena *arena;
    char id[17];
    const char *user, *secret;
};

static int seal_owner_each(void *argument, struct box *box) {
    struct seal_owner *owner = argument;
    const char **bindings = box_bindings(box, owner->arena);
    for (; bindings && *bindings; bindings++) {
        struct binding binding;
        if (!binding_parse(*bindings, owner->arena, &binding) || !strstr(owner->word, binding.placeholder))
            continue;
        memcpy(owner->id, box->id, sizeof owner->id);
        owner->user = arena_strdup(owner->arena, box->user);
        owner->secret = binding.secret;
        return 1;
    }
    return 0;
}

/* The box's user learns what its box did, an administrator also whose placeholder it was. */
static void seal_misuse(struct seal *seal, const char *word, const char *host) {
    autoarena arena = ARENA_EMPTY;
    struct seal_owner owner = {.word = word, .arena = &arena};
    if (seal->seals->provider)
        provider_each(seal->seals->provider, seal_owner_each, &owner);
    bool own = strcmp(owner.id, seal->id) == 0, other = owner.id[0] && !own;
    seal_event(seal, "secret_misuse", seal->user,
               own     ? text_make(600, "%s %s: its placeholder means nothing there", owner.secret, host)
               : other ? text_make(600, "%s: a placeholder of another box was sent there", host)
                       : text_make(600, "%s: a placeholder that no box has was sent there", host),
               true, 1);
    if (other)
        seal_event(seal, "secret_misuse", NULL,
                   text_make(900, "%s: box %s of %s sent the placeholder of secret %s of box %s of %s", host, seal->id,
                             seal->user, owner.secret, owner.id, owner.user),
                   true, 1);
}

static void seal_count(struct seals *seals, const char *verb) {
    autolock(&seals->lock);
    seals->counts.requests += strcmp(verb, "net_http") == 0;
    seals->counts.uses += strcmp(verb, "secret_use") == 0;
    seals->counts.misuses += strcmp(verb, "secret_misuse") == 0;
}

static void seal_row(struct seal *seal, const char *text) {
    static const char *const verbs[] = {"net_http", "secret_use", "secret_misuse", "untrusted_ca", NULL};
    json_auto_t *row = json_loads(text, 0, NULL);
    const char *verb = json_string_value(json_object_get(row, "verb"));
    const char *detail = json_string_value(json_object_get(row, "detail"));
    const char *host = json_string_value(json_object_get(row, "host"));
    const char *word = json_string_value(json_object_get(row, "placeholder"));
    bool denied = json_is_true(json_object_get(row, "denied"));
    if (!verb || !detail || !host || strlen(detail) > 1024 || strlen(host) > 253 || !text_list_has(verbs, verb))
        return;
    seal_count(seal->seals, verb);
    if (denied && strcmp(verb, "net_http") == 0 && seal->seals->provider)
        network_refused(seal->seals->provider, seal->id, (uint64_t)json_integer_value(json_object_get(row, "cgroup")),
                        text_make(300, "%s:%u", host, (unsigned)json_integer_value(json_object_get(row, "port"))),
                        detail);
    if (strcmp(verb, "secret_use") == 0) {
        const char *name = text_make(LIMIT_SECRET_NAME_BYTES + 1, "%.*s", (int)strcspn(detail, " "), detail);
        struct secret_store *store = secrets_store(seal->seals->config.secrets);
        secret_store_used(store, seal->user, name);
        secret_store_used(store, NULL, name);
    }
    if (json_is_false(json_object_get(row, "logged")) || !seal_may_log(seal))
        return;
    if (word && strcmp(verb, "secret_misuse") == 0)
        seal_misuse(seal, word, host);
    else
        seal_event(seal, verb, seal->user, strstr(detail, host) ? detail : text_make(1400, "%s: %s", host, detail),
                   denied, 1);
}

void seals_counts(struct seals *seals, struct seal_counts *ret_counts) {
    autolock(&seals->lock);
    *ret_counts = seals->counts;
    for (const struct seal *seal = seals->list; seal; seal = seal->next)
        ret_counts->processes++;
}

void seals_provider(struct seals *seals, struct provider *provider) {
    seals->provider = provider;
}

static void *seal_run(void *argument) {
    struct seal *seal = argument;
    struct seals *seals = seal->seals;
    char *message = xmalloc(SEAL_MESSAGE + 1);
    for (ssize_t n; (n = recv(seal->control, message, SEAL_MESSAGE, 0)) > 0;) {
        message[n] = 0;
        char *first = message + 1, *second = n > 1 ? first + strlen(first) + 1 : first;
        if (second > message + n)
            second = message + n;
        if (message[0] == 'W')
            seal_value(seal, first);
        else if (message[0] == 'L')
            seal_leaf(seal, first, second);
        else if (message[0] == 'R')
            seal_row(seal, first);
        else if (message[0] == 'B' && seals->provider)
            network_sealed(seals->provider, seal->id, strtoull(first, NULL, 10), strtoull(second, NULL, 10));
    }
    free(message);
    kill(seal->pid, SIGKILL);
    spawn_wait(seal->pid);
    pthread_mutex_lock(&seals->lock);
    list_remove(seals->list, seal);
    pthread_cond_broadcast(&seals->changed);
    pthread_mutex_unlock(&seals->lock);
    fd_close(&seal->control);
    arena_done(&seal->arena);
    free(seal);
    return NULL;
}

/* ---- starting and ending ---- */

/* A secret's rules; no value. */
static bool seal_hello_secret(struct seal *seal, const char *name, const char *placeholder, struct json *json) {
    autoarena arena = ARENA_EMPTY;
    struct secret secret;
    if (secret_find(seal->seals->config.secrets, seal->user, name, &arena, &secret, ERR_IGNORED) < 0)
        return false;
    const struct {
        const char *key, **list;
    } lists[] = {{"hosts", secret.use.hosts},
                 {"slots", secret.use.slots},
                 {"methods", secret.use.methods},
                 {"paths", secret.use.paths},
                 {"ports", secret.use.ports}};
    json_open(json, '{');
    json_put_str(json, "name", name);
    json_put_str(json, "placeholder", placeholder);
    json_put_bool(json, "strict", secret.use.scrub && strcmp(secret.use.scrub, "strict") == 0);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_put_open(json, lists[i].key, '[');
        for (const char **word = lists[i].list; word && *word; word++)
            json_str(json, *word);
        json_close(json, ']');
    }
    json_close(json, '}');
    return true;
}

/* Those that are bound, and those that its policies refer to: they have no placeholder. */
static size_t seal_hello_secrets(struct seal *seal, struct json *json) {
    autoarena arena = ARENA_EMPTY;
    size_t count = 0;
    json_put_open(json, "secrets", '[');
    for (const char **at = seal->bindings; *at; at++) {
        struct binding binding;
        count +=
            binding_parse(*at, &arena, &binding) && seal_hello_secret(seal, binding.secret, binding.placeholder, json);
    }
    for (const char **name = seal->referred; *name; name++) {
        bool bound = false;
        for (const char **at = seal->bindings; *at; at++)
            bound |= strncmp(*at, *name, strlen(*name)) == 0 && (*at)[strlen(*name)] == '=';
        count += !bound && seal_hello_secret(seal, *name, "", json);
    }
    json_close(json, ']');
    return count;
}

/* The secrets that headers refer to, each once; in the seal's arena. levels: a JSON array. */
static const char **seal_referred(struct seal *seal, const char *levels) {
    json_auto_t *list = json_loads(levels && *levels ? levels : "[]", 0, NULL);
    const char **names = NULL;
    size_t count = 0, cap = 0, i;
    json_t *level;
    arena_add(&seal->arena, names, count, cap) = NULL;
    json_array_foreach(list, i, level) {
        struct gate_policy *policy = NULL;
        struct gate_reference reference;
        if (gate_policy_parse(level, &policy, NULL, ERR_IGNORED) < 0)
            continue;
        for (size_t k = 0; k < policy->allow.count; k++)
            for (size_t n = 0; n < policy->allow.items[k].header_count; n++)
                for (const char *at = policy->allow.items[k].headers[n].value; gate_reference(at, &reference);
                     at = reference.end)
                    if (!text_list_has((const char *const *)names, reference.name)) {
                        names[count - 1] = arena_strdup(&seal->arena, reference.name);
                        arena_add(&seal->arena, names, count, cap) = NULL;
                    }
        gate_policy_free(policy);
    }
    return names;
}

static int seal_hello(struct seal *seal, const char *levels, struct err *err) {
    autobuf text = buf_max(SEAL_MESSAGE);
    struct json json;
    buf_byte(&text, 'H');
    json_init(&json, &text);
    json_open(&json, '{');
    json_put_str(&json, "bundle", seal->seals->ca_file);
    json_put_uint(&json, "uid", geteuid() == 0 ? SEAL_NOBODY : 0);
    json_key(&json, "levels");
    json_raw(&json, levels && *levels ? levels : "[]", levels && *levels ? strlen(levels) : 2);
    size_t count = seal_hello_secrets(seal, &json);
    json_close(&json, '}');
    if (count > LIMIT_BINDINGS)
        return err_set(err, ERR_LIMIT, "box %s has %zu secrets, and its policies' headers among them; %u are the most",
                       seal->id, count, LIMIT_BINDINGS);
    if (text.failed || send(seal->control, text.data, text.len, MSG_NOSIGNAL) < 0)
        return err_set(err, ERR_TOO_LARGE, "the rules of box %s are too large for its seal", seal->id);
    return 0;
}

static int seal_spawn(struct seal *seal, int *ret_gate, struct err *err) {
    int control[2], gate[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        return err_errno(err, errno, "a seal");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gate) < 0) {
        fd_close(&control[0]);
        fd_close(&control[1]);
        return err_errno(err, errno, "a seal");
    }
    const char *const argv[] = {"cubby-seal", NULL};
    const struct spawn spawn = {.program = seal->seals->program,
                                .argv = argv,
                                .in = -1,
                                .out = -1,
                                .errors = 2,
                                .fds = {control[1], gate[1]},
                                .fd_count = 2,
                                .session = true};
    int r = spawn_start(&spawn, &seal->pid, err);
    fd_close(&control[1]);
    fd_close(&gate[1]);
    if (r < 0) {
        fd_close(&control[0]);
        fd_close(&gate[0]);
        return err_wrap(err, "cubby-seal");
    }
    seal->control = control[0];
    *ret_gate = gate[0];
    return 0;
}

static int seals_start(struct seals *seals, const struct box *box, const char *levels, struct err *err) {
    int gate = -1;
    seals_end(seals, box->id);
    autolock(&seals->lock);
    if (!seals->authority)
        TRY(authority_open(secrets_state_dir(seals->config.secrets), &seals->authority, err));
    struct seal *seal = xcalloc(1, sizeof *seal);
    seal->seals = seals;
    memcpy(seal->id, box->id, sizeof seal->id);
    seal->user = arena_strdup(&seal->arena, box->user);
    const char **bindings = box_bindings(box, &seal->arena);
    seal->bindings = bindings ? bindings : arena_alloc(&seal->arena, sizeof *bindings);
    seal->referred = seal_referred(seal, levels);
    int r = seal_spawn(seal, &gate, err);
    bool lives = r == 0;
    if (r == 0)
        r = seal_hello(seal, levels, err);
    list_push(seals->list, seal);
    if (r == 0 && thread_detached(seal_run, seal, SEAL_STACK_BYTES))
        r = err_set(err, ERR_LIMIT, "no thread for the seal of box %s", box->id);
    if (r == 0)
        return gate;
    list_remove(seals->list, seal);
    if (lives) {
        kill(seal->pid, SIGKILL);
        spawn_wait(seal->pid);
        fd_close(&seal->control);
        fd_close(&gate);
    }
    arena_done(&seal->arena);
    free(seal);
    return r;
}

void seals_end(struct seals *seals, const char *id) {
    autolock(&seals->lock);
    for (struct seal *seal = seals->list; seal; seal = seal->next)
        if (strcmp(seal->id, id) == 0)
            shutdown(seal->control, SHUT_RDWR);
}

void seals_forget(struct seals *seals) {
    autolock(&seals->lock);
    for (struct seal *seal = seals->list; seal; seal = seal->next)
        send(seal->control, "F", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- for the provider ---- */

static const char **seal_hosts(void *user, const struct box *box, struct arena *arena) {
    return secret_hosts(((struct seals *)user)->config.secrets, box, arena);
}

static int seal_start(void *user, const struct box *box, const char *levels, struct err *err) {
    return seals_start(user, box, levels, err);
}

static void seal_end(void *user, const char *id) {
    seals_end(user, id);
}

static int seal_knows(void *user, const char *owner, const char *name, const char *host, struct err *err) {
    struct seals *seals = user;
    autoarena arena = ARENA_EMPTY;
    struct secret secret;
    if (secret_find(seals->config.secrets, owner, name, &arena, &secret, ERR_IGNORED) < 0)
        return err_set(err, ERR_INVALID, "there is no secret '%s'", name);
    const char *const *hosts = (const char *const *)secret.use.hosts;
    bool fits = !hosts || !*hosts || text_list_has(hosts, host) || gate_host_listed(hosts, host);
    return fits ? 0 : err_set(err, ERR_INVALID, "secret '%s' is not for %s; it names its hosts", name, host);
}

static int seal_mounts(void *user, const struct spec *spec, struct arena *arena, struct mount *mounts,
                       size_t *ret_count, struct err *err) {
    struct seals *seals = user;
    struct template template;
    bool known = template_name_ok(spec->template_name) &&
                 template_find(seals->env, spec->template_name, &template, ERR_IGNORED) == 0;
    return authority_mounts(secrets_state_dir(seals->config.secrets), known ? template.path : NULL, arena, mounts,
                            ret_count, err);
}

struct seal_hooks seals_hooks(struct seals *seals, const struct backend_env *env) {
    seals->env = env;
    return (struct seal_hooks){.user = seals,
                               .hosts = seal_hosts,
                               .start = seal_start,
                               .end = seal_end,
                               .knows = seal_knows,
                               .mounts = seal_mounts};
}
