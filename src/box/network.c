/* The verb of networks, and what lies between a box and cubby-gate. Called by place.c as boxes start and end, by
 * handlers, and by the gate's thread with its reports. Invariant: what a box may reach is in its record before the gate
 * knows it; a box whose gate or table cannot be had has no route. */
#include "box/network.h"

#include "base/base.h"
#include "base/sync.h"
#include "box/network_private.h"

struct networks *network_new(struct provider *provider) {
    struct networks *network = xcalloc(1, sizeof *network);
    network->provider = provider;
    pthread_mutex_init(&network->lock, NULL);
    pthread_mutex_init(&network->gate_lock, NULL);
    return network;
}

void network_free(struct networks *network) {
    if (!network)
        return;
    gate_close(network->gate);
    for (struct network_far *far; (far = network->far); free(far)) {
        network->far = far->next;
        gate_close(far->gate);
        free(far->user);
        free(far->machine);
    }
    free(network);
}

/* ---- what may be asked for ---- */

int network_parse(const char *text, struct gate_policy **ret_policy, struct buf *warnings, struct err *err) {
    json_error_t why;
    autobuf ignored = buf_max(GATE_POLICY_BYTES);
    json_auto_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return err_set(err, ERR_INVALID, "network is not JSON: %s", why.text);
    return gate_policy_parse(root, ret_policy, warnings ? warnings : &ignored, err) < 0 ? err_wrap(err, "network") : 0;
}

int network_level(const char *text, struct err *err) {
    struct gate_policy *policy = NULL;
    TRY(network_parse(text, &policy, NULL, err));
    gate_policy_free(policy);
    return 0;
}

static int network_check_policy(const struct share *share, const struct gate_policy *policy, struct err *err) {
    static const char *const modes[] = {"enforce", "observe", "ask"};
    if (share->networks && !text_list_has(share->networks, "policy"))
        return err_set(err, ERR_DENIED, "network: a policy is not allowed by the configuration (networks)");
    if (gate_policy_any(policy) && share->networks && !text_list_has(share->networks, "open"))
        return err_set(err, ERR_DENIED,
                       "network: \"*\" in allow is hardly less than 'open', which is not allowed by the "
                       "configuration (networks)");
    if (share->network_modes && !text_list_has(share->network_modes, modes[policy->mode]))
        return err_set(err, ERR_DENIED, "network: mode '%s' is not allowed by the configuration (network_modes)",
                       modes[policy->mode]);
    return 0;
}

int network_check(const struct share *share, const char *own, const char *text, struct arena *arena,
                  enum network *ret_network, const char **ret_policy, struct buf *warnings, struct err *err) {
    bool given = strcmp(own, text) == 0;
    *ret_policy = NULL;
    if (text[0] != '{') {
        if (strcmp(text, "none") != 0 && strcmp(text, "open") != 0)
            return err_set(err, ERR_INVALID, "network must be \"none\", \"open\" or an object");
        if (!given && share->networks && !text_list_has(share->networks, text))
            return err_set(err, ERR_DENIED, "network '%s' is not allowed by the configuration (networks)", text);
        *ret_network = strcmp(text, "open") == 0 ? NETWORK_OPEN : NETWORK_NONE;
        return 0;
    }
    struct gate_policy *policy = NULL;
    TRY(network_parse(text, &policy, warnings, err));
    int r = given ? 0 : network_check_policy(share, policy, err);
    json_auto_t *normal = r == 0 ? gate_policy_json(policy, true) : NULL;
    char *written = normal ? json_dumps(normal, JSON_COMPACT) : NULL;
    *ret_network = NETWORK_POLICY;
    if (written)
        *ret_policy = arena_strdup(arena, written);
    free(written);
    gate_policy_free(policy);
    return r;
}

int network_possible(const struct box *box, struct err *err) {
    if (box->spec.network != NETWORK_POLICY || box->ops->netplace || box->ops->gate)
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "a network policy needs a network namespace of the box's own, which backend '%s' does not have; use "
                   "network none or open, or backend jail",
                   box->ops->name);
}

/* ---- the gate ---- */

static void network_restarted(void *user, uint64_t down_ms, size_t boxes) {
    struct networks *network = user;
    provider_event(network->provider, "gate_restarted", NULL, NULL,
                   text_make(96, "down for %llu ms; %zu boxes", (unsigned long long)down_ms, boxes));
}

static int network_seal_wanted(void *user, const char *id, const char *host) {
    return network_seal(((struct networks *)user)->provider, id, host);
}

static struct network_far *network_far_find(struct networks *network, const struct box *box) {
    return list_find(network->far, far,
                     far->backend == box->backend && strcmp(far->machine, box->spec.machine) == 0 &&
                         (box->ops->far_layers || strcmp(far->user, box->user) == 0));
}

static int network_far_dial(void *user, struct err *err) {
    struct network_far *far = user;
    return far->ops->gate(far->backend, far->user, far->machine, err);
}

/* The gate that serves the box; NULL: none yet. */
struct gate *network_gate_of(struct networks *network, const struct box *box) {
    autolock(&network->gate_lock);
    struct network_far *far = box->ops->gate ? network_far_find(network, box) : NULL;
    return box->ops->gate ? (far ? far->gate : NULL) : network->gate;
}

static int network_gate(struct networks *network, const struct box *box, struct gate **ret_gate, struct err *err) {
    const struct backend_env *env = network->provider->env;
    struct gate_settings settings = {.runner_path = env->runner_path,
                                     .state_dir = env->state_dir,
                                     .resolvers = env->gate_resolvers,
                                     .open_networks = env->open_networks,
                                     .host_ports = env->gate_host_ports};
    struct gate_hooks hooks = {.event = network_event,
                               .restarted = network_restarted,
                               .seal = network->provider->hooks.seal.start ? network_seal_wanted : NULL,
                               .user = network};
    autolock(&network->gate_lock);
    struct gate **at = &network->gate;
    if (box->ops->gate) {
        struct network_far *far = network_far_find(network, box);
        if (!far) {
            far = xcalloc(1, sizeof *far);
            *far = (struct network_far){.ops = box->ops,
                                        .backend = box->backend,
                                        .user = xstrdup(box->user),
                                        .machine = xstrdup(box->spec.machine)};
            list_push(network->far, far);
        }
        settings.dial = network_far_dial;
        settings.dial_user = far;
        hooks.seal = NULL;
        at = &far->gate;
    }
    int r = *at ? 0 : gate_open(&settings, &hooks, at, err);
    *ret_gate = *at;
    return r;
}

/* ---- a box and the gate ---- */

void network_levels_done(struct network_levels *levels) {
    for (size_t i = 0; i < GATE_LEVELS; i++)
        gate_policy_free(levels->policies[i]);
    buf_done(&levels->text);
}

int network_levels(struct provider *provider, const char *user, const char *own, struct network_levels *levels,
                   struct err *err) {
    struct policy *policy = provider_policy(provider);
    const char *const texts[GATE_LEVELS] = {policy->network_policy, policy_for(policy, user)->network_policy, own};
    levels->text = buf_max(GATE_JSON_BYTES);
    int r = 0;
    for (size_t i = 0; r == 0 && i < GATE_LEVELS; i++) {
        if (!texts[i])
            continue;
        r = network_parse(texts[i], &levels->policies[i], NULL, err);
        buf_puts(&levels->text, levels->text.len ? "," : "[");
        char *plain = levels->headers ? NULL : network_without_headers(texts[i]);
        buf_puts(&levels->text, plain ? plain : texts[i]);
        free(plain);
    }
    buf_puts(&levels->text, levels->text.len ? "]" : "[]");
    policy_unref(policy);
    return r == 0 && !buf_cstr(&levels->text) ? err_set(err, ERR_TOO_LARGE, "network: the policies are too large") : r;
}

static struct served_rules network_served(const struct box *box, const struct network_levels *levels,
                                          const struct buf *inspect, const struct served_ports *ports) {
    return (struct served_rules){.ops = box->ops,
                                 .backend = box->backend,
                                 .id = box->id,
                                 .generation = box->spec.network_generation,
                                 .levels = (const char *)levels->text.data,
                                 .inspect = (const char *)inspect->data,
                                 .ports = ports};
}

/* From nothing to a served box, by the gate of the machine that it is on. */
static int network_connect(struct networks *network, struct box *box, bool fresh, struct err *err) {
    autolevels levels = {0};
    struct served_ports ports;
    struct served_rules served;
    unsigned cut;
    TRY(network_levels(network->provider, box->user, box->spec.policy, &levels, err));
    TRY(served_ports(levels.policies, &ports, err));
    autobuf inspect = buf_max(GATE_JSON_BYTES);
    TRY(network_inspect(network->provider, box, &levels, &inspect, fresh && !box->life ? err : NULL));
    served = network_served(box, &levels, &inspect, &ports);
    served.fresh = fresh;
    TRY(network_gate(network, box, &served.gate, err));
    struct network_life *life = network_life(network, box);
    int r = box->ops->gate ? gate_box_put(served.gate, box->id, served.generation, served.levels, served.inspect, NULL,
                                          false, &cut, err)
                           : served_begin(&served, &life->served, err);
    if (r < 0 && fresh)
        gate_box_drop(served.gate, box->id);
    if (r < 0)
        network_life_end(life);
    else
        box->life = life;
    atomic_store(&box->network, network);
    return r;
}

int network_begin(struct networks *network, struct box *box, bool fresh, struct err *err) {
    if (!fresh && box->spec.network != NETWORK_OPEN && box->ops->open_network) /* one died meanwhile */
        TRY(box->ops->open_network(box->backend, &box->spec, false, err));
    if (box->spec.network != NETWORK_POLICY)
        return 0;
    return network_connect(network, box, fresh, err) < 0 ? err_wrap(err, "the network of box %s", box->id) : 0;
}

void network_end(struct box *box) {
    struct network_life *life = box->life;
    if (!life)
        return;
    struct gate *gate = network_gate_of(life->network, box);
    box->life = NULL;
    const struct seal_hooks *seal = &life->network->provider->hooks.seal;
    if (seal->end)
        seal->end(seal->user, box->id);
    if (network_life_end(life))
        gate_box_drop(gate, box->id);
}

/* ---- changing it ---- */

/* A served box gets other rules. Where other UDP ports need other sockets, it is connected anew. */
static int network_change_rules(struct networks *network, struct box *box, bool keep, unsigned *ret_cut,
                                struct err *err) {
    autolevels levels = {0};
    struct served_ports ports;
    TRY(network_levels(network->provider, box->user, box->spec.policy, &levels, err));
    TRY(served_ports(levels.policies, &ports, err));
    if (!box->ops->gate && !served_fits(&((struct network_life *)box->life)->served, &ports)) {
        network_end(box);
        return network_connect(network, box, false, err);
    }
    autobuf inspect = buf_max(GATE_JSON_BYTES);
    network_inspect(network->provider, box, &levels, &inspect, NULL);
    if (network->provider->hooks.seal.end) /* its rules are others: the next connection starts another */
        network->provider->hooks.seal.end(network->provider->hooks.seal.user, box->id);
    struct served_rules served = network_served(box, &levels, &inspect, &ports);
    served.gate = network_gate_of(network, box);
    served.keep = keep;
    return box->ops->gate ? gate_box_put(served.gate, box->id, served.generation, served.levels, served.inspect, NULL,
                                         keep, ret_cut, err)
                          : served_change(&served, ret_cut, err);
}

int network_secrets(struct provider *provider, struct box *box, struct err *err) {
    autolevels levels = {0};
    autobuf inspect = buf_max(GATE_JSON_BYTES);
    unsigned cut;
    if (box->spec.network == NETWORK_OPEN)
        return err_set(err, ERR_INVALID,
                       "secrets need a network policy: box %s has all of the network, and nothing "
                       "looks into its requests",
                       box->id);
    if (!box->life)
        return 0;
    return network_levels(provider, box->user, box->spec.policy, &levels, err)
               ?: network_inspect(provider, box, &levels, &inspect, err)
               ?: network_change_rules(provider->network, box, false, &cut, err);
}

/* Whatever captures its network is taken away. */
static int network_disconnect(struct networks *network, struct box *box, unsigned *ret_cut, struct err *err) {
    TRY(box->life ? gate_box_put(network_gate_of(network, box), box->id, box->spec.network_generation,
                                 "[{\"allow\":[]}]", NULL, NULL, false, ret_cut, err)
                  : 0);
    network_end(box);
    return box->ops->gate ? 0 : served_unwire(box->ops, box->backend, box->id, err);
}

/* From then on the box is like its record. */
static void network_take(struct box *box, const struct spec *spec) {
    struct arena *arena = xcalloc(1, sizeof *arena);
    const char *policy = arena_strdup_or(arena, spec->policy);
    autolock(&box->network_lock);
    struct arena *before = box->network_arena;
    box->spec.network = spec->network;
    box->spec.policy = policy;
    box->spec.network_generation = spec->network_generation;
    box->spec.network_asked = spec->network_asked;
    box->network_arena = arena;
    if (before)
        arena_done(before);
    free(before);
}

const char *box_network(struct box *box, struct arena *arena, uint64_t *ret_generation) {
    autolock(&box->network_lock);
    if (ret_generation)
        *ret_generation = box->spec.network_generation;
    return arena_strdup(arena, spec_network(&box->spec));
}

static int network_entry_index(const json_t *list, const json_t *entry) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), entry))
            return (int)i;
    return -1;
}

/* Adds entries to one list of a policy and takes others away. */
static int network_patch_list(json_t *policy, const char *name, const char *const *add, const char *const *drop,
                              struct err *err) {
    json_t *list = json_object_get(policy, name);
    if (!list && (add || drop)) {
        list = json_array();
        json_object_set_new(policy, name, list);
    }
    for (; add && *add; add++) {
        json_t *entry = **add == '{' ? json_loads(*add, JSON_REJECT_DUPLICATES, NULL) : json_string(*add);
        if (!entry)
            return err_set(err, ERR_INVALID, "network: '%.80s' is not an entry", *add);
        if (network_entry_index(list, entry) < 0)
            json_array_append(list, entry);
        json_decref(entry);
    }
    for (; drop && *drop; drop++) {
        json_auto_t *entry = **drop == '{' ? json_loads(*drop, JSON_REJECT_DUPLICATES, NULL) : json_string(*drop);
        int at = entry ? network_entry_index(list, entry) : -1;
        if (at < 0)
            return err_set(err, ERR_NOT_FOUND, "network: %s has no entry '%.80s'", name, *drop);
        json_array_remove(list, (size_t)at);
    }
    return 0;
}

static int network_patch(const struct spec *spec, const struct network_change *change, struct arena *arena,
                         const char **ret_text, struct err *err) {
    if (spec->network == NETWORK_OPEN)
        return err_set(err, ERR_INVALID, "network: the box has network 'open'; give it a whole policy first");
    json_auto_t *policy = spec->policy ? json_loads(spec->policy, 0, NULL) : json_pack("{s:[]}", "allow");
    TRY(network_patch_list(policy, "allow", change->allow, change->remove, err)
            ?: network_patch_list(policy, "deny", change->deny, change->undeny, err));
    char *text = json_dumps(policy, JSON_COMPACT);
    *ret_text = text ? arena_strdup(arena, text) : "{}";
    free(text);
    return 0;
}

struct network_work {
    struct networks *network;
    const struct network_change *change;
    unsigned cut;
};

/* The box runs, or is paused: it is served from now on as its spec says. What it had goes first. */
static int network_apply(struct networks *network, struct box *box, enum network before, bool keep, unsigned *ret_cut,
                         struct err *err) {
    enum network now = box->spec.network;
    if (before == NETWORK_POLICY && now == NETWORK_POLICY && box->life)
        return network_change_rules(network, box, keep, ret_cut, err);
    if (before == now && now != NETWORK_POLICY)
        return 0;
    if (before == NETWORK_OPEN)
        TRY(box->ops->open_network(box->backend, &box->spec, false, err));
    else if (now != NETWORK_POLICY && (box->ops->netplace || box->ops->gate))
        TRY(network_disconnect(network, box, ret_cut, err));
    return now == NETWORK_POLICY ? network_connect(network, box, false, err)
           : now == NETWORK_OPEN ? box->ops->open_network(box->backend, &box->spec, true, err)
                                 : 0;
}

/* What could not be given is not recorded either: the box has what it had. */
static int network_revert(struct network_work *todo, struct work *work, const struct spec *before) {
    struct box *box = work->box;
    enum network tried = box->spec.network;
    unsigned cut;
    struct spec *spec = &work->record.spec;
    spec->network = before->network;
    spec->policy = before->policy;
    spec->network_asked = before->network_asked;
    spec->network_generation++;
    TRY(work_record(work, ERR_IGNORED));
    network_take(box, spec);
    return network_apply(todo->network, box, tried, false, &cut, ERR_IGNORED);
}

static int network_work_run(void *argument, struct work *work, struct err *err) {
    struct network_work *todo = argument;
    const struct network_change *change = todo->change;
    struct box *box = work->box;
    struct spec *spec = &work->record.spec;
    const struct spec before = *spec;
    const char *text = change->network;
    if (change->has_generation && change->generation != spec->network_generation)
        return err_set(err, ERR_EXISTS, "network: it has changed since (generation %llu, not %llu); look at it again",
                       (unsigned long long)spec->network_generation, (unsigned long long)change->generation);
    if (!text)
        TRY(network_patch(spec, change, work->arena, &text, err));
    struct policy *policy = provider_policy(work->provider);
    const struct share *share = policy_for(policy, box->user);
    int r = network_check(share, share->network ? share->network : "none", text, work->arena, &spec->network,
                          &spec->policy, NULL, err);
    policy_unref(policy);
    TRY(r ?: network_refers(work->provider, box->user, spec->policy, err));
    bool runs = box->wire || work->state == BOX_PAUSED;
    if (runs && before.network != spec->network && !box->ops->open_network &&
        (before.network == NETWORK_OPEN || spec->network == NETWORK_OPEN))
        return err_set(err, ERR_BUSY,
                       "backend '%s' gives and takes network 'open' while a box does not run: release or stop it first",
                       box->ops->name);
    spec->network_generation++;
    spec->network_asked = true;
    struct box probe = {.ops = box->ops, .spec = *spec};
    TRY(network_possible(&probe, err) ?: work_record(work, err) ?: record_sync(work->provider->boxes_fd, box->id, err));
    network_take(box, spec);
    char *shown = network_without_headers(spec_network(spec));
    provider_box_event(work->provider, "net_policy", box,
                       text_make(900, "generation %llu %.800s", (unsigned long long)spec->network_generation,
                                 shown ? shown : spec_network(spec)));
    free(shown);
    attached_trust(work);
    r = runs ? network_apply(todo->network, box, before.network, change->keep, &todo->cut, err) : 0;
    if (r < 0 && spec->network == NETWORK_OPEN && before.network != NETWORK_OPEN)
        network_revert(todo, work, &before);
    return r;
}

int network_set(struct provider *provider, const char *user, const char *id, const struct network_change *change,
                unsigned *ret_cut, struct err *err) {
    struct network_work todo = {.network = provider->network, .change = change};
    TRY(provider_work(provider, user, id, network_work_run, &todo, err));
    *ret_cut = todo.cut;
    return 0;
}

/* ---- looking ---- */

int network_get(struct provider *provider, struct box *box, struct arena *arena, struct network_state *ret_state,
                struct err *err) {
    struct network_state state = {.network = box_network(box, arena, NULL), .warnings = ""};
    autobuf warnings = buf_max(GATE_POLICY_BYTES);
    struct gate_policy *policy = NULL;
    struct gate_count count;
    box_network(box, arena, &state.generation);
    if (state.network[0] == '{') {
        TRY(network_parse(state.network, &policy, &warnings, err));
        gate_policy_free(policy);
        state.warnings = arena_strdup(arena, buf_cstr(&warnings) ? buf_cstr(&warnings) : "");
    }
    struct gate *gate = network_gate_of(provider->network, box);
    state.live = atomic_load(&box->network) && gate && gate_counts(gate, box->id, &count);
    if (state.live) {
        state.connections = count.connections;
        state.active = count.active;
        state.denied = count.denied;
        state.cut = count.cut;
        state.dns_denied = count.dns_denied;
        network_sealed_bytes(provider->network, box->id, &state.bytes_in, &state.bytes_out);
        state.bytes_in += count.bytes_in;
        state.bytes_out += count.bytes_out;
    }
    *ret_state = state;
    return 0;
}

bool network_counts(struct provider *provider, struct gate_count *ret_count, uint64_t *ret_restarts) {
    struct gate *gate = provider->network->gate;
    *ret_count = (struct gate_count){0};
    *ret_restarts = gate ? gate_restarts(gate) : 0;
    return gate && gate_counts(gate, NULL, ret_count);
}

/* ---- asking ---- */

/* "HOST[:PORT][/udp]" or "http[s]://HOST[:PORT]/PATH". */
static int network_subject(const char *to, struct gate_subject *subject, char name[GATE_NAME_BYTES + 1],
                           struct address *address, char path[2048], struct err *err) {
    bool https = strncmp(to, "https://", 8) == 0, http = strncmp(to, "http://", 7) == 0;
    const char *at = to + (https ? 8 : http ? 7 : 0), *slash = strchr(at, '/');
    size_t len = slash ? (size_t)(slash - at) : strlen(at);
    char host[300];
    *subject = (struct gate_subject){.port = http ? 80 : 443};
    if (len >= sizeof host || len == 0)
        return err_set(err, ERR_INVALID, "'%.80s' is not HOST[:PORT] or a URL", to);
    snprintf(host, sizeof host, "%.*s", (int)len, at);
    char *closed = strchr(host, ']'), *colon = strchr(closed ? closed : host, ':'), *begin = host + (host[0] == '[');
    uint64_t port;
    if (colon && (!text_u64(colon + 1, 65535, &port) || port == 0))
        return err_set(err, ERR_INVALID, "'%.80s': the port must be 1 to 65535", to);
    if (colon)
        subject->port = (uint16_t)port;
    *(closed ? closed : colon ? colon : host + len) = 0;
    if (http || https) {
        snprintf(path, 2048, "%.*s", slash ? (int)strcspn(slash, "?#") : 1, slash ? slash : "/");
        subject->path = path;
        subject->method = "GET";
    } else if (slash && strcmp(slash, "/udp") != 0 && strcmp(slash, "/tcp") != 0) {
        return err_set(err, ERR_INVALID, "'%.80s': what follows the host is /udp or nothing", to);
    } else {
        subject->udp = slash && slash[1] == 'u';
    }
    if (address_text(begin, address)) {
        subject->address = address;
        return 0;
    }
    subject->name = name;
    return gate_name(begin, strlen(begin), name, err);
}

int network_test(struct provider *provider, struct box *box, const char *to, struct gate_verdict *ret_verdict,
                 struct err *err) {
    autoarena arena = ARENA_EMPTY;
    autolevels levels = {0};
    char name[GATE_NAME_BYTES + 1], path[2048];
    struct address address;
    struct gate_subject subject;
    const char *network = box_network(box, &arena, NULL);
    TRY(network_subject(to, &subject, name, &address, path, err));
    *ret_verdict = (struct gate_verdict){.allowed = strcmp(network, "open") == 0};
    snprintf(ret_verdict->why, sizeof ret_verdict->why, "network %s", network);
    if (network[0] != '{')
        return 0;
    TRY(network_levels(provider, box->user, network, &levels, err));
    struct address_network open[64];
    struct gate_machine machine = {.open = open};
    for (const char *const *at = provider->env->open_networks; at && *at && machine.open_count < 64; at++)
        machine.open_count += address_network_text(*at, &open[machine.open_count], ERR_IGNORED) == 0;
    gate_decide(&machine, (const struct gate_policy *const *)levels.policies, GATE_LEVELS, NULL, &subject, ret_verdict);
    return 0;
}

int network_answer_to(struct provider *provider, struct box *box, uint64_t question, bool allow, bool remember,
                      uint64_t for_ms, struct err *err) {
    struct networks *network = provider->network;
    char to[NETWORK_TO_BYTES];
    network_question(network, box->id, question, to);
    if (!*to)
        return err_set(err, ERR_NOT_FOUND, "box %s has no question %llu", box->id, (unsigned long long)question);
    const char *const entries[] = {to, NULL};
    const struct network_change change = {
        .allow = allow ? entries : NULL, .deny = allow ? NULL : entries, .keep = true};
    unsigned cut;
    TRY(remember ? network_set(provider, NULL, box->id, &change, &cut, err) : 0);
    return gate_answer(network_gate_of(network, box), box->id, question, allow, for_ms, err);
}
