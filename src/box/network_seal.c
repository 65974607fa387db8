/* Inspected hosts of boxes: which they are, and the seal that opens their TLS. Called by network.c, and by the gate's
 * thread for seals. Invariant: a host that is bound to a secret is inspected, or the box does not have the secret. */

#include "base/base.h"
#include "base/log.h"
#include "box/network_private.h"

static bool network_levels_inspect(const struct network_levels *levels) {
    for (size_t i = 0; i < GATE_LEVELS; i++)
        for (size_t k = 0; levels->policies[i] && k < levels->policies[i]->allow.count; k++)
            if (gate_entry_inspects(&levels->policies[i]->allow.items[k]))
                return true;
    return false;
}

/* A gate that was taken over gets no seal for a box without inspected hosts. */
static int network_seal_needed(struct provider *provider, const struct box *box, const struct network_levels *levels,
                               struct err *err) {
    const struct seal_hooks *seal = &provider->hooks.seal;
    autoarena arena = ARENA_EMPTY;
    if (network_levels_inspect(levels) || (seal->hosts && seal->hosts(seal->user, box, &arena)))
        return 0;
    return err_set(err, ERR_DENIED, "the gate asked for a seal, and no host of the box is inspected");
}

/* A connection of the box needs a seal. On a thread of its own. */
int network_seal(void *user, const char *id, const char *) {
    struct provider *provider = user;
    const struct seal_hooks *seal = &provider->hooks.seal;
    autolevels levels = {.headers = true};
    autoarena arena = ARENA_EMPTY;
    struct err err = {0};
    struct box *box;
    if (provider_look(provider, NULL, id, &box, &err) < 0)
        return -1;
    const char *own = box_network(box, &arena, NULL);
    int r = network_levels(provider, box->user, own[0] == '{' ? own : NULL, &levels, &err)
                ?: network_seal_needed(provider, box, &levels, &err)
                ?: seal->start(seal->user, box, (const char *)levels.text.data, &err);
    provider_look_end(provider, box);
    if (r < 0)
        log_warn("box %s: %s", id, err.text);
    return r < 0 ? -1 : r;
}

int network_inspect(struct provider *provider, const struct box *box, const struct network_levels *levels,
                    struct buf *ret_text, struct err *err) {
    const struct seal_hooks *seal = &provider->hooks.seal;
    autoarena arena = ARENA_EMPTY;
    const char **hosts = seal->hosts ? seal->hosts(seal->user, box, &arena) : NULL;
    struct json json;
    if (!hosts)
        return 0;
    json_init(&json, ret_text);
    json_open(&json, '[');
    for (; *hosts; hosts++) {
        const struct gate_machine machine = {0};
        const struct gate_subject subject = {.name = *hosts + (strncmp(*hosts, "*.", 2) == 0 ? 2 : 0)};
        struct gate_verdict verdict;
        json_str(&json, *hosts);
        gate_decide(&machine, (const struct gate_policy *const *)levels->policies, GATE_LEVELS, NULL, &subject,
                    &verdict);
        if (err && !verdict.allowed && !verdict.ask && strncmp(*hosts, "*.", 2) != 0)
            return err_set(err, ERR_INVALID, "secrets: one is for %s, which the network policy does not allow (%s)",
                           *hosts, verdict.why);
    }
    json_close(&json, ']');
    buf_cstr(ret_text);
    return 0;
}

bool network_inspects(struct provider *provider, const char *user, const char *policy) {
    autolevels levels = {0};
    return network_levels(provider, user, policy, &levels, ERR_IGNORED) == 0 && network_levels_inspect(&levels);
}

char *network_without_headers(const char *text) {
    struct gate_policy *policy = NULL;
    if (!strstr(text, "\"headers\"") || network_parse(text, &policy, NULL, ERR_IGNORED) < 0)
        return NULL;
    json_auto_t *plain = gate_policy_json(policy, false);
    gate_policy_free(policy);
    return json_dumps(plain, JSON_COMPACT);
}

static int network_refers_entry(const struct seal_hooks *seal, const char *user, const struct gate_entry *entry,
                                struct err *err) {
    struct gate_reference reference;
    const char *host = entry->star ? text_make(GATE_NAME_BYTES + 3, "*.%s", entry->name) : entry->name;
    for (size_t i = 0; i < entry->header_count; i++)
        for (const char *at = entry->headers[i].value; gate_reference(at, &reference); at = reference.end)
            if (!seal->knows || seal->knows(seal->user, user, reference.name, host, err) < 0)
                return seal->knows ? err_wrap(err, "network entry '%.120s'", entry->text)
                                   : err_set(err, ERR_UNSUPPORTED, "network: this daemon keeps no secrets");
    return 0;
}

int network_refers(struct provider *provider, const char *user, const char *policy, struct err *err) {
    struct gate_policy *parsed = NULL;
    if (!policy || !strstr(policy, "${"))
        return 0;
    TRY(network_parse(policy, &parsed, NULL, err));
    int r = 0;
    for (size_t i = 0; r == 0 && i < parsed->allow.count; i++)
        r = network_refers_entry(&provider->hooks.seal, user, &parsed->allow.items[i], err);
    gate_policy_free(parsed);
    return r;
}
