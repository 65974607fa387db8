/* The traffic of a sandbox in E2B's words (network.allowOut, network.denyOut, allow_internet_access), as a network of
 * box/network.h. There allow wins and everything is allowed that nobody denies; here deny wins and nothing is allowed
 * that nobody allows. So what is denied is given without what is allowed of it. Addresses are let through whatever they
 * speak; names by what a connection says of itself, as everywhere. */
#include <ctype.h>

#include "base/base.h"
#include "box/network.h"
#include "front/e2b/e2b.h"
#include "front/e2b/sandbox.h"
#include "gate/gate_policy.h"

enum { NETWORK_LIST = 256, NETWORK_HTTPS_PORTS = 64, NETWORK_RULES = 10 };
#define NETWORK_SECRET "${e2b.secrets." /* of E2B; ${secrets. of a policy */

/* Every name and every address. Networks of this machine's neighbours stay closed, as by every policy. */
#define NETWORK_EVERYTHING "{\"allow\":[\"*:*\",{\"host\":\"0.0.0.0/0\",\"ports\":[\"*\"],\"opaque\":true}]}"

struct network_rules {
    struct address_network allow[NETWORK_LIST], deny[NETWORK_LIST];
    size_t allow_count, deny_count;
    const char *names[NETWORK_LIST + 1]; /* the last is NULL */
    size_t name_count;
    json_t *transforms; /* of `rules`: entries of a policy */
    bool everything;    /* is denied */
};

/* names NULL: only addresses are possible. */
static int network_list(const json_t *network, const char *key, struct address_network *networks, size_t *ret_count,
                        const char **names, size_t *ret_names, struct err *err) {
    json_t *list = json_object_get(network, key), *item;
    size_t i;
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > NETWORK_LIST)
        return err_set(err, ERR_INVALID, "network.%s must be a list of at most %d texts", key, NETWORK_LIST);
    json_array_foreach(list, i, item) {
        const char *text = json_string_value(item);
        if (!text)
            return err_set(err, ERR_INVALID, "network.%s must be a list of texts", key);
        if (address_network_text(text, &networks[*ret_count], err) == 0)
            ++*ret_count;
        else if (!names || text[strspn(text, "0123456789.:/")] == 0)
            return err_wrap(err, "network.%s", key);
        else
            names[(*ret_names)++] = text;
    }
    return 0;
}

static int network_rules(const json_t *network, bool off, struct network_rules *rules, struct err *err) {
    size_t none = 0;
    STEP(network_list(network, "denyOut", rules->deny, &rules->deny_count, NULL, &none, err)
             ?: network_list(network, "allowOut", rules->allow, &rules->allow_count, rules->names, &rules->name_count,
                             err));
    rules->everything = off;
    for (size_t i = 0; i < rules->deny_count; i++)
        rules->everything |= rules->deny[i].bits == 96 && address_v4(&rules->deny[i].address);
    if (rules->name_count && !rules->everything)
        return err_set(err, ERR_INVALID, "network.allowOut: a name needs \"0.0.0.0/0\" in denyOut");
    return 0;
}

/* ---- rules: headers that requests to a host get ---- */

/* In E2B's words a secret is ${e2b.secrets.NAME}, in whatever case. */
static json_t *network_header(const char *value) {
    autobuf out = buf_max(2 * GATE_HEADER_VALUE_BYTES);
    for (const char *at; (at = strstr(value, NETWORK_SECRET)); value = at) {
        buf_put(&out, value, (size_t)(at - value));
        buf_puts(&out, "${secrets.");
        for (at += strlen(NETWORK_SECRET); *at && *at != '}'; at++)
            buf_byte(&out, (uint8_t)tolower((unsigned char)*at));
    }
    buf_puts(&out, value);
    return json_string(buf_cstr(&out) ? (const char *)out.data : "\n"); /* too long: what no header can have */
}

static int network_headers(const char *host, const json_t *rule, json_t *ret_headers, struct err *err) {
    const json_t *transform = json_object_get(rule, "transform"), *headers = json_object_get(transform, "headers");
    const char *name;
    json_t *value;
    if (json_object_size(rule) != 1 || json_object_size(transform) != 1 || !json_is_object(headers))
        return err_set(err, ERR_INVALID, "network.rules: a rule of '%.100s' must be {\"transform\":{\"headers\":{}}}",
                       host);
    json_object_foreach((json_t *)(uintptr_t)headers, name, value) {
        if (!json_is_string(value))
            return err_set(err, ERR_INVALID, "network.rules: header '%.64s' of '%.100s' must be a text", name, host);
        if (strstr(json_string_value(value), "${e2b.iam."))
            return err_set(err, ERR_INVALID, "network.rules: '%.100s': this server issues no tokens of identity", host);
        json_object_set_new(ret_headers, name, network_header(json_string_value(value)));
    }
    return 0;
}

/* A key is NAME or NAME:PORT. */
static int network_transform(const char *key, const json_t *list, json_t *transforms, struct err *err) {
    const char *colon = strrchr(key, ':');
    size_t len = colon ? (size_t)(colon - key) : strlen(key);
    char name[GATE_NAME_BYTES + 1];
    bool star = !strncmp(key, "*.", 2);
    if (gate_name(key + 2 * star, len - 2 * star, name, err) < 0)
        return err_wrap(err, "network.rules");
    if (json_array_size(list) != 1)
        return err_set(err, ERR_INVALID, "network.rules: '%.100s' must have a list of one rule", key);
    json_t *headers = json_object();
    json_array_append_new(transforms,
                          json_pack("{s:o,s:[s],s:b,s:o}", "host", json_sprintf("%s%s", star ? "*." : "", name),
                                    "ports", colon ? colon + 1 : "443", "tls", 1, "headers", headers));
    return network_headers(key, json_array_get(list, 0), headers, err);
}

static int network_transforms(const json_t *network, json_t *transforms, struct err *err) {
    json_t *rules = json_object_get(network, "rules"), *list;
    const char *key;
    if (!rules || json_is_null(rules))
        return 0;
    if (!json_is_object(rules) || json_object_size(rules) > NETWORK_RULES)
        return err_set(err, ERR_INVALID, "network.rules must be an object of at most %d hosts", NETWORK_RULES);
    json_object_foreach(rules, key, list) STEP(network_transform(key, list, transforms, err));
    return 0;
}

/* ---- as a policy ---- */

static const char *network_shown(const struct address_network *network, char text[ADDRESS_BYTES + 16]) {
    char address[ADDRESS_BYTES];
    bool four = network->bits >= 96 && address_v4(&network->address);
    address_shown(&network->address, address);
    snprintf(text, ADDRESS_BYTES + 16, four ? "%s/%d" : "[%s/%d]", address, network->bits - (four ? 96 : 0));
    return text;
}

/* A network without those that are allowed: halved until each half is the one or the other. */
static void network_deny(struct address_network denied, const struct network_rules *rules, json_t *deny) {
    char text[ADDRESS_BYTES + 16];
    bool parts = false;
    for (size_t i = 0; i < rules->allow_count; i++) {
        const struct address_network *allowed = &rules->allow[i];
        if (allowed->bits <= denied.bits && address_network_has(allowed, &denied.address))
            return;
        parts |= allowed->bits > denied.bits && address_network_has(&denied, &allowed->address);
    }
    if (!parts || json_array_size(deny) > GATE_ENTRIES) {
        json_array_append_new(deny, json_sprintf("%s:*", network_shown(&denied, text)));
        return;
    }
    unsigned at = denied.bits++;
    network_deny(denied, rules, deny);
    denied.address.bytes[at / 8] |= (uint8_t)(0x80 >> at % 8);
    network_deny(denied, rules, deny);
}

static json_t *network_policy(const struct network_rules *rules) {
    char text[ADDRESS_BYTES + 16];
    json_t *policy = rules->everything ? json_pack("{s:[]}", "allow") : json_loads(NETWORK_EVERYTHING, 0, NULL);
    json_t *allow = json_object_get(policy, "allow"), *deny = json_array();
    for (size_t i = 0; i < rules->name_count; i++)
        json_array_append_new(allow, json_string(rules->names[i]));
    for (size_t i = 0; rules->everything && i < rules->allow_count; i++)
        json_array_append_new(allow, json_pack("{s:s,s:[s],s:b}", "host", network_shown(&rules->allow[i], text),
                                               "ports", "*", "opaque", 1));
    for (size_t i = 0; !rules->everything && i < rules->deny_count; i++)
        network_deny(rules->deny[i], rules, deny);
    for (size_t i = 0; i < json_array_size(rules->transforms); i++) { /* a rule does not allow its host */
        json_t *entry = json_array_get(rules->transforms, i);
        if (!rules->everything || gate_host_listed(rules->names, json_string_value(json_object_get(entry, "host"))))
            json_array_append(allow, entry);
    }
    if (json_array_size(deny))
        json_object_set(policy, "deny", deny);
    json_decref(deny);
    return policy;
}

static int network_https_ports(const json_t *ports, struct err *err) {
    size_t i;
    json_t *item;
    if (ports && !json_is_null(ports) && (!json_is_array(ports) || json_array_size(ports) > NETWORK_HTTPS_PORTS))
        return err_set(err, ERR_INVALID, "network.httpsPorts must be a list of at most %d ports", NETWORK_HTTPS_PORTS);
    json_array_foreach((json_t *)(uintptr_t)ports, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 1 || json_integer_value(item) > 65535)
            return err_set(err, ERR_INVALID, "network.httpsPorts: a port is a number from 1 to 65535");
    }
    return 0;
}

int e2b_network_text(struct http_request *request, const json_t *network, bool off, const char **ret_text,
                     struct err *err) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    const char *configured = settings ? settings->network : NULL;
    const json_t *proxy = json_object_get(network, "egressProxy");
    json_auto_t *transforms = json_array();
    *ret_text = off ? "none" : NULL;
    if (!network || json_is_null(network))
        return 0;
    if (!json_is_object(network))
        return err_set(err, ERR_INVALID, "network must be an object");
    if (proxy && !json_is_null(proxy) && (!json_is_object(proxy) || json_object_size(proxy)))
        return err_set(err, ERR_INVALID,
                       "network.egressProxy is not supported: this server checks the address of a host and connects "
                       "to it itself, which a proxy would do instead");
    struct network_rules *rules = arena_alloc(http_arena(request), sizeof *rules);
    *rules = (struct network_rules){.transforms = transforms};
    STEP(network_https_ports(json_object_get(network, "httpsPorts"), err) ?: network_rules(network, off, rules, err)
             ?: network_transforms(network, transforms, err));
    bool allows = rules->allow_count || rules->name_count;
    if (rules->everything && !allows)
        *ret_text = "none";
    if (rules->everything ? !allows : !rules->deny_count && !json_array_size(transforms))
        return 0;
    if (configured && strcmp(configured, "open") != 0)
        return err_set(err, ERR_INVALID,
                       "network: the configuration of this server says what sandboxes reach (e2b_network); they can "
                       "only be made without any network");
    json_auto_t *policy = network_policy(rules);
    char *text = json_dumps(policy, JSON_COMPACT);
    *ret_text = arena_strdup(http_arena(request), text ? text : "none");
    free(text);
    return 0;
}

/* A sandbox that runs: all of the network, by a device of its own or, where that is not possible, by a policy. */
static int network_change(struct http_request *request, const struct box *box, const char *network, struct err *err) {
    struct provider *provider = front_of(request)->provider;
    const char *user = front_who(request)->user;
    unsigned cut;
    int failed = network_set(provider, user, box->id, &(struct network_change){.network = network}, &cut, err);
    if (!strcmp(network, "open") && (failed == -ERR_UNSUPPORTED || failed == -ERR_DENIED || failed == -ERR_BUSY))
        failed =
            network_set(provider, user, box->id, &(struct network_change){.network = NETWORK_EVERYTHING}, &cut, err);
    return failed;
}

/* PUT /sandboxes/{id}/network: what goes out of it, all of it anew. */
int e2b_network(struct http_request *request, struct box *, struct err *err) {
    const struct e2b_settings *settings = front_own(request, &e2b_dialect);
    autosandbox sandbox = {0};
    json_auto_t *root = NULL;
    const char *text;
    STEP(e2b_body(request, NULL, &root, err));
    bool off = json_is_false(json_object_get(root, "allow_internet_access"));
    STEP(e2b_network_text(request, root, off, &text, err) ?: e2b_sandbox_open(request, &sandbox, err));
    if (!text)
        text = settings && settings->network ? settings->network : "open";
    if (strcmp(text, box_network(sandbox.box, http_arena(request), NULL)) != 0)
        STEP(network_change(request, sandbox.box, text, err));
    return e2b_sandbox_traffic(request, &sandbox, root, err) ?: front_empty(request, 204);
}
