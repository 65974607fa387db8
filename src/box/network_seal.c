/* Inspected hosts of boxes: which they are, and the seal that opens their TLS. Called by network.c, and by the gate's
 * thread for seals. Invariant: a host that is bound to a secret is inspected, or the box does not have the secret. */
#include <jansson.h>

#include "base/base.h"
#include "base/log.h"
#include "box/network_private.h"

/* A connection of the box needs a seal. On a thread of its own. */
int network_seal(void *user, const char *id, const char *) {
    struct provider *provider = user;
    const struct seal_hooks *seal = &provider->hooks.seal;
    autolevels levels = {0};
    autoarena arena = ARENA_EMPTY;
    struct err err = {0};
    struct box *box;
    if (provider_look(provider, NULL, id, &box, &err) < 0)
        return -1;
    const char *own = box_network(box, &arena, NULL);
    int r = network_levels(provider, box->user, own[0] == '{' ? own : NULL, &levels, &err)
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

bool network_inspects(const char *text) {
    struct gate_policy *policy = NULL;
    bool inspects = false;
    if (!text || network_parse(text, &policy, NULL, ERR_IGNORED) < 0)
        return false;
    for (size_t i = 0; i < policy->allow.count; i++)
        inspects |= policy->allow.items[i].inspect || policy->allow.items[i].methods || policy->allow.items[i].paths;
    gate_policy_free(policy);
    return inspects;
}
