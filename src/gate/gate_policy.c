/* Policies: the grammar of entries, the object around them, and back (gate_policy.h). The decision is in
 * gate_decide.c. Called by the daemon for every policy of a request or of cubby.yaml, and by the gate for what the
 * daemon sends. Invariant: a policy that was written by gate_policy_json is read as the same policy. */
#include "gate/gate_policy.h"

#include <ctype.h>
#include <strings.h>

#include "base/base.h"

/* Below these, strangers can have names: a star there allows everybody's. */
static const char *const gate_shared_suffixes[] = {"amazonaws.com",
                                                   "cloudfront.net",
                                                   "github.io",
                                                   "githubusercontent.com",
                                                   "vercel.app",
                                                   "workers.dev",
                                                   "pages.dev",
                                                   "herokuapp.com",
                                                   "azurewebsites.net",
                                                   "windows.net",
                                                   "blob.core.windows.net",
                                                   "googleusercontent.com",
                                                   "appspot.com",
                                                   "web.app",
                                                   "firebaseapp.com",
                                                   "ngrok.io",
                                                   "ngrok.app",
                                                   "ngrok-free.app",
                                                   "netlify.app",
                                                   "fly.dev",
                                                   "onrender.com",
                                                   "azureedge.net",
                                                   "trycloudflare.com",
                                                   "r2.dev",
                                                   "b-cdn.net",
                                                   "fastly.net",
                                                   "akamaized.net",
                                                   "digitaloceanspaces.com",
                                                   "run.app",
                                                   "gitlab.io",
                                                   NULL};

__attribute__((format(printf, 3, 4))) static int gate_entry_refuse(struct err *err, const char *entry,
                                                                   const char *format, ...) {
    char reason[400];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return err_set(err, ERR_INVALID, "network entry '%.120s': %s", entry, reason);
}

/* ---- names ---- */

static bool gate_label_ok(const char *label, size_t len) {
    if (!len || len > 63 || label[0] == '-' || label[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((label[i] >= 'a' && label[i] <= 'z') || (label[i] >= '0' && label[i] <= '9') || label[i] == '_' ||
              label[i] == '-'))
            return false;
    return true;
}

int gate_name(const char *text, size_t len, char ret_name[GATE_NAME_BYTES + 1], struct err *err) {
    char name[GATE_NAME_BYTES + 1];
    if (len && text[len - 1] == '.')
        len--;
    if (!len || len > GATE_NAME_BYTES)
        return err_set(err, ERR_INVALID, "a name has 1 to %d bytes", GATE_NAME_BYTES);
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)text[i] >= 0x80)
            return err_set(err, ERR_INVALID, "a name is ASCII; write the xn-- form");
        name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
    }
    name[len] = 0;
    const char *last = name;
    for (const char *label = name;; label = last) {
        size_t label_len = strcspn(label, ".");
        if (strlen(name) != len || !gate_label_ok(label, label_len))
            return err_set(err, ERR_INVALID,
                           "a name is labels of letters, digits, '-' and '_' (1 to 63 each) with dots between them");
        if (!label[label_len])
            break;
        last = label + label_len + 1;
    }
    if (last == name)
        return err_set(err, ERR_INVALID, "a name has at least two labels");
    if (strspn(last, "0123456789") == strlen(last) || strncmp(last, "0x", 2) == 0)
        return err_set(err, ERR_INVALID, "a name whose last label is a number is an address in disguise");
    memcpy(ret_name, name, len + 1);
    return 0;
}

/* ---- ports ---- */

static int gate_entry_range(struct gate_entry *entry, const char *text, const char *shown, struct err *err) {
    char part[16];
    uint64_t first = 1, last = 65535;
    if (entry->range_count == GATE_RANGES)
        return gate_entry_refuse(err, shown, "has more than %d ports and ranges", GATE_RANGES);
    if ((size_t)snprintf(part, sizeof part, "%s", text) >= sizeof part)
        return gate_entry_refuse(err, shown, "'%.20s' is not a port", text);
    char *dash = strchr(part, '-');
    if (dash)
        *dash++ = 0;
    if (strcmp(text, "*") != 0 && (!text_u64(part, 65535, &first) || !first ||
                                   (dash ? !text_u64(dash, 65535, &last) || last < first : (last = first, false))))
        return gate_entry_refuse(err, shown, "'%s' is not a port: use 443, 8000-8100 or *", text);
    entry->ranges[entry->range_count++] = (struct gate_range){(uint16_t)first, (uint16_t)last};
    return 0;
}

static int gate_entry_ports(struct gate_entry *entry, char *list, const char *shown, struct err *err) {
    for (char *part; (part = strsep(&list, ","));)
        TRY(gate_entry_range(entry, part, shown, err));
    return 0;
}

/* ---- one entry ---- */

static int gate_entry_name(struct gate_entry *entry, const char *text, const char *shown, struct err *err) {
    char name[GATE_NAME_BYTES + 1];
    struct address address;
    entry->star = strncmp(text, "*.", 2) == 0;
    text += entry->star ? 2 : 0;
    if (strchr(text, '*'))
        return gate_entry_refuse(err, shown, "a star is only allowed as the whole first label: *.example.com");
    if (address_text(text, &address))
        return gate_entry_refuse(err, shown, "an address needs ports: %s:443, or %s:* for all", text, text);
    if (entry->star && !strchr(text, '.'))
        return gate_entry_refuse(err, shown, "a star directly below '%.63s' allows far too much", text);
    struct err why = {0};
    if (gate_name(text, strlen(text), name, &why) < 0)
        return gate_entry_refuse(err, shown, "%s", why.text);
    entry->name = xstrdup(name);
    return 0;
}

/* "[2001:db8::/32]" or "10.0.0.0/8": the length of the network at the beginning of text, 0: it is not one. */
static size_t gate_entry_network(const char *text) {
    if (*text == '[')
        return strcspn(text, "]") + (strchr(text, ']') ? 1 : 0);
    size_t digits = strspn(text, "0123456789."), bits = 0;
    if (!digits || (text[digits] && !strchr(":/", text[digits])))
        return 0;
    if (text[digits] == '/' && isdigit((unsigned char)text[digits + 1]))
        bits = 1 + strspn(text + digits + 1, "0123456789");
    return digits + bits;
}

/* HOST[:PORTS][/PROTO], taken apart. */
static int gate_entry_text(struct gate_entry *entry, const char *shown, struct err *err) {
    char copy[512], *rest;
    struct err why = {0};
    if ((size_t)snprintf(copy, sizeof copy, "%s", shown) >= sizeof copy)
        return gate_entry_refuse(err, shown, "is longer than %zu bytes", sizeof copy - 1);
    size_t network = gate_entry_network(copy);
    rest = copy + (network ? network : strcspn(copy, ":/"));
    char after = *rest, *proto = strchr(rest, '/');
    if (proto) {
        entry->proto_said = true;
        entry->udp = strcmp(proto, "/udp") == 0;
        if (!entry->udp && strcmp(proto, "/tcp") != 0)
            return gate_entry_refuse(err, shown, "'%.20s' is neither /tcp nor /udp", proto);
        *proto = 0;
    }
    if (after == ':')
        TRY(gate_entry_ports(entry, rest + 1, shown, err));
    else if (after && after != '/')
        return gate_entry_refuse(err, shown, "'%.20s' is not a port or protocol", rest);
    *rest = 0;
    if (network) {
        bool bracket = *copy == '[';
        copy[network - (bracket ? 1 : 0)] = 0;
        entry->network_said = true;
        return address_network_text(copy + bracket, &entry->network, &why) < 0
                   ? gate_entry_refuse(err, shown, "%s", why.text)
                   : 0;
    }
    entry->any = strcmp(copy, "*") == 0;
    entry->host = strcmp(copy, "host") == 0;
    return entry->any || entry->host ? 0 : gate_entry_name(entry, copy, shown, err);
}

bool gate_entry_inspects(const struct gate_entry *entry) {
    return entry->inspect || entry->methods || entry->paths || entry->header_count;
}

static int gate_entry_check(const struct gate_entry *entry, bool allow, struct err *err) {
    bool narrowed = gate_entry_inspects(entry);
    if (!entry->range_count && (entry->network_said || entry->host) && allow)
        return gate_entry_refuse(err, entry->text, "needs ports: %s:443, or %s:* for all", entry->text, entry->text);
    if (!entry->range_count && entry->udp)
        return gate_entry_refuse(err, entry->text, "UDP needs ports");
    if (!allow && (narrowed || entry->private || entry->tls || entry->http || entry->opaque))
        return gate_entry_refuse(err, entry->text, "a deny entry has only host and ports");
    if (entry->tls + entry->http + entry->opaque > 1)
        return gate_entry_refuse(err, entry->text, "only one of tls, http and opaque is possible");
    if (entry->opaque && (narrowed || entry->star || entry->any))
        return gate_entry_refuse(err, entry->text, "opaque is not for inspected entries and not for stars");
    if (narrowed && (entry->network_said || entry->host || entry->any || entry->udp))
        return gate_entry_refuse(err, entry->text, "methods, paths, headers and inspect need a name, over TCP");
    if (entry->udp && (entry->tls || entry->http))
        return gate_entry_refuse(err, entry->text, "tls and http are for TCP");
    return 0;
}

static int gate_entry_list(const json_t *value, const char *key, const struct gate_entry *entry, char ***ret_list,
                           struct err *err) {
    size_t count = json_array_size(value);
    if (!json_is_array(value) || !count || count > 64)
        return gate_entry_refuse(err, entry->text, "'%s' is a list of 1 to 64 texts", key);
    char **list = *ret_list = xcalloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        bool method = strcmp(key, "methods") == 0;
        if (!text || !*text || strlen(text) > 512)
            return gate_entry_refuse(err, entry->text, "'%s' is a list of texts of 1 to 512 bytes", key);
        if (method ? strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != strlen(text)
                   : *text != '/' || strpbrk(text, "?#% "))
            return gate_entry_refuse(
                err, entry->text,
                method ? "'%.40s' is not a method such as GET" : "'%.80s' is not a path such as /repos/acme/**", text);
        list[i] = xstrdup(text);
    }
    return 0;
}

static int gate_entry_member(struct gate_entry *entry, const char *key, json_t *value, struct err *err) {
    static const struct {
        const char *name;
        size_t offset;
    } flags[] = {
        {"private", offsetof(struct gate_entry, private)}, {"inspect", offsetof(struct gate_entry, inspect)},
        {"tls", offsetof(struct gate_entry, tls)},         {"http", offsetof(struct gate_entry, http)},
        {"opaque", offsetof(struct gate_entry, opaque)},
    };
    if (strcmp(key, "host") == 0)
        return 0;
    if (strcmp(key, "methods") == 0)
        return gate_entry_list(value, key, entry, &entry->methods, err);
    if (strcmp(key, "paths") == 0)
        return gate_entry_list(value, key, entry, &entry->paths, err);
    if (strcmp(key, "headers") == 0)
        return gate_headers_parse(value, entry, err);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(key, flags[i].name) != 0)
            continue;
        if (!json_is_boolean(value))
            return gate_entry_refuse(err, entry->text, "'%s' is true or false", key);
        *((bool *)((char *)entry + flags[i].offset)) = json_is_true(value);
        return 0;
    }
    if (strcmp(key, "ports") != 0)
        return gate_entry_refuse(err, entry->text,
                                 "unknown member '%.40s'; known are host, ports, methods, paths, headers, inspect, "
                                 "private, tls, http and opaque",
                                 key);
    if (!json_is_array(value) || !json_array_size(value) || entry->range_count)
        return gate_entry_refuse(err, entry->text, "'ports' is a list of ports, given once");
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *port = json_array_get(value, i);
        const char *text = json_is_integer(port) ? text_make(32, "%lld", (long long)json_integer_value(port))
                                                 : json_string_value(port);
        TRY(gate_entry_range(entry, text ? text : "", entry->text, err));
    }
    return 0;
}

static int gate_entry_parse(json_t *value, bool allow, struct gate_entry *entry, struct err *err) {
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "host") : value), *key;
    if (!text)
        return err_set(err, ERR_INVALID, "a network entry is a text such as \"pypi.org\", or an object with 'host'");
    entry->text = xstrdup(text);
    for (char *c = entry->text; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!text_utf8(text, strlen(text)) || strpbrk(text, " \t\r\n"))
        return gate_entry_refuse(err, "", "an entry has no blanks");
    TRY(gate_entry_text(entry, entry->text, err));
    json_t *member;
    json_object_foreach(value, key, member) TRY(gate_entry_member(entry, key, member, err));
    return gate_entry_check(entry, allow, err);
}

static void gate_entry_done(struct gate_entry *entry) {
    char **const lists[] = {entry->methods, entry->paths};
    for (size_t i = 0; i < 2; i++) {
        for (char **item = lists[i]; item && *item; item++)
            free(*item);
        free(lists[i]);
    }
    gate_headers_done(entry);
    free(entry->text);
    free(entry->name);
}

/* ---- warnings ---- */

static void gate_policy_warn(const struct gate_entry *entry, const struct gate_policy *policy, struct buf *warnings) {
    for (size_t i = 0; entry->star && gate_shared_suffixes[i]; i++)
        if (strcmp(entry->name, gate_shared_suffixes[i]) == 0)
            buf_printf(warnings, "%s: strangers can have names below %s\n", entry->text, entry->name);
    for (size_t i = 0; i < entry->range_count; i++) {
        if (entry->ranges[i].first == 1 && entry->ranges[i].last == 65535)
            buf_printf(warnings, "%s: allows every port\n", entry->text);
        else if (entry->udp && entry->ranges[i].first <= 443 && entry->ranges[i].last >= 443)
            buf_printf(warnings, "%s: QUIC is not looked into\n", entry->text);
    }
    bool apex = !entry->star;
    for (size_t i = 0; i < policy->allow.count && !apex; i++)
        apex = !policy->allow.items[i].star && policy->allow.items[i].name &&
               strcmp(policy->allow.items[i].name, entry->name) == 0;
    if (!apex)
        buf_printf(warnings, "%s: does not include %s itself\n", entry->text, entry->name);
}

/* ---- the object ---- */

static int gate_policy_entries(const json_t *value, const char *key, struct gate_policy *policy, struct err *err) {
    bool allow = strcmp(key, "allow") == 0;
    struct gate_entries *entries = allow ? &policy->allow : &policy->deny;
    size_t count = json_array_size(value);
    if (!json_is_array(value))
        return err_set(err, ERR_INVALID, "network: '%s' is a list of entries", key);
    if (count + policy->allow.count + policy->deny.count > GATE_ENTRIES)
        return err_set(err, ERR_INVALID, "network: more than %d entries", GATE_ENTRIES);
    policy->has_allow |= allow;
    entries->items = xcalloc(count + 1, sizeof *entries->items);
    for (size_t i = 0; i < count; i++) {
        entries->count++;
        TRY(gate_entry_parse(json_array_get(value, i), allow, &entries->items[i], err));
    }
    return 0;
}

static int gate_policy_number(const json_t *value, const char *key, uint64_t most, uint64_t *ret_value,
                              struct err *err) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || (uint64_t)json_integer_value(value) > most)
        return err_set(err, ERR_INVALID, "network: '%s' is a number from 1 to %llu", key, (unsigned long long)most);
    *ret_value = (uint64_t)json_integer_value(value);
    return 0;
}

static int gate_policy_limits(json_t *value, struct gate_limits *limits, struct err *err) {
    const char *key;
    json_t *member;
    if (!json_is_object(value))
        return err_set(err, ERR_INVALID, "network: 'limits' is an object");
    json_object_foreach(value, key, member) {
        if (strcmp(key, "mbit") == 0)
            TRY(gate_policy_number(member, key, 1000000, &limits->mbit, err));
        else if (strcmp(key, "connections") == 0)
            TRY(gate_policy_number(member, key, LIMIT_GATE_CONNECTIONS_MOST, &limits->connections, err));
        else if (strcmp(key, "per_second") == 0)
            TRY(gate_policy_number(member, key, 10000, &limits->per_second, err));
        else if (strcmp(key, "bytes") == 0)
            TRY(gate_policy_number(member, key, INT64_MAX, &limits->bytes, err));
        else
            return err_set(err, ERR_INVALID,
                           "network: unknown limit '%.40s'; known are mbit, connections, per_second and bytes", key);
    }
    return 0;
}

static const char *const gate_modes[] = {"enforce", "observe", "ask", NULL};
static const char *const gate_logs[] = {"all", "denied", "none", NULL};

static int gate_policy_choice(const json_t *value, const char *key, const char *const *names, unsigned *ret_choice,
                              struct err *err) {
    const char *text = json_string_value(value);
    for (unsigned i = 0; text && names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_choice = i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "network: '%s' is one of %s, %s and %s", key, names[0], names[1], names[2]);
}

static int gate_policy_member(struct gate_policy *policy, const char *key, json_t *value, struct err *err) {
    unsigned choice = 0;
    if (strcmp(key, "allow") == 0 || strcmp(key, "deny") == 0)
        return gate_policy_entries(value, key, policy, err);
    if (strcmp(key, "limits") == 0)
        return gate_policy_limits(value, &policy->limits, err);
    if (strcmp(key, "ask_timeout_ms") == 0)
        return gate_policy_number(value, key, 600000, &policy->ask_timeout_ms, err);
    if (strcmp(key, "mode") == 0) {
        TRY(gate_policy_choice(value, key, gate_modes, &choice, err));
        policy->mode = (enum gate_mode)choice;
        return 0;
    }
    if (strcmp(key, "log") == 0) {
        TRY(gate_policy_choice(value, key, gate_logs, &choice, err));
        policy->log = (enum gate_log)choice;
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "network: unknown member '%.40s'; known are mode, allow, deny, limits, log and ask_timeout_ms", key);
}

/* Each port of UDP is a socket in the box: so many, one by one. */
static int gate_policy_udp(const struct gate_policy *policy, struct err *err) {
    struct gate_range ranges[GATE_UDP_PORTS + 1];
    size_t ports = 0, count = gate_policy_ports(&policy, 1, true, ranges, GATE_UDP_PORTS + 1);
    for (size_t i = 0; i < count; i++)
        ports += (size_t)(ranges[i].last - ranges[i].first) + 1;
    return ports <= GATE_UDP_PORTS
               ? 0
               : err_set(err, ERR_INVALID, "network: more than %d ports of UDP are allowed", GATE_UDP_PORTS);
}

static int gate_policy_fill(struct gate_policy *policy, const json_t *value, struct err *err) {
    const char *key;
    json_t *member;
    if (!json_is_object(value))
        return err_set(err, ERR_INVALID, "network is \"none\", \"open\" or an object with allow and deny");
    char *text = json_dumps(value, JSON_COMPACT);
    size_t bytes = text ? strlen(text) : GATE_POLICY_BYTES + 1;
    free(text);
    if (bytes > GATE_POLICY_BYTES)
        return err_set(err, ERR_INVALID, "network: the policy has more than %d bytes", GATE_POLICY_BYTES);
    json_object_foreach((json_t *)(uintptr_t)value, key, member) TRY(gate_policy_member(policy, key, member, err));
    return gate_policy_udp(policy, err);
}

int gate_policy_parse(const json_t *value, struct gate_policy **ret_policy, struct buf *warnings, struct err *err) {
    struct gate_policy *policy = xcalloc(1, sizeof *policy);
    int result = gate_policy_fill(policy, value, err);
    if (result < 0) {
        gate_policy_free(policy);
        return result;
    }
    for (size_t i = 0; warnings && i < policy->allow.count; i++)
        gate_policy_warn(&policy->allow.items[i], policy, warnings);
    *ret_policy = policy;
    return 0;
}

void gate_policy_free(struct gate_policy *policy) {
    if (!policy)
        return;
    for (size_t i = 0; i < policy->allow.count; i++)
        gate_entry_done(&policy->allow.items[i]);
    for (size_t i = 0; i < policy->deny.count; i++)
        gate_entry_done(&policy->deny.items[i]);
    free(policy->allow.items);
    free(policy->deny.items);
    free(policy);
}

/* ---- and back ---- */

static void gate_entry_texts(json_t *object, const char *key, char *const *list) {
    json_t *array = list ? json_array() : NULL;
    for (; list && *list; list++)
        json_array_append_new(array, json_string(*list));
    if (array)
        json_object_set_new(object, key, array);
}

static json_t *gate_entry_json(const struct gate_entry *entry, bool headers) {
    bool plain = !(entry->private || entry->tls || entry->http || entry->opaque || gate_entry_inspects(entry));
    size_t after = entry->network_said ? gate_entry_network(entry->text) : strcspn(entry->text, ":/");
    bool ports_apart = entry->range_count && entry->text[after] != ':';
    if (plain && !ports_apart)
        return json_string(entry->text);
    json_t *object = json_pack("{ss}", "host", entry->text), *ports = ports_apart ? json_array() : NULL;
    for (size_t i = 0; ports && i < entry->range_count; i++) {
        const struct gate_range *range = &entry->ranges[i];
        json_array_append_new(ports, json_sprintf(range->first == range->last ? "%u" : "%u-%u", (unsigned)range->first,
                                                  (unsigned)range->last));
    }
    if (ports)
        json_object_set_new(object, "ports", ports);
    gate_entry_texts(object, "methods", entry->methods);
    gate_entry_texts(object, "paths", entry->paths);
    if (entry->header_count)
        json_object_set_new(object, "headers", gate_headers_json(entry, headers));
    const struct {
        const char *name;
        bool set;
    } flags[] = {{"private", entry->private},
                 {"inspect", entry->inspect},
                 {"tls", entry->tls},
                 {"http", entry->http},
                 {"opaque", entry->opaque}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].set)
            json_object_set_new(object, flags[i].name, json_true());
    return object;
}

json_t *gate_policy_json(const struct gate_policy *policy, bool headers) {
    json_t *object = json_object();
    const struct {
        const char *name;
        const struct gate_entries *entries;
        bool write;
    } lists[] = {{"allow", &policy->allow, policy->has_allow}, {"deny", &policy->deny, policy->deny.count}};
    const struct {
        const char *name;
        uint64_t value;
    } limits[] = {{"mbit", policy->limits.mbit},
                  {"connections", policy->limits.connections},
                  {"per_second", policy->limits.per_second},
                  {"bytes", policy->limits.bytes}};
    json_object_set_new(object, "mode", json_string(gate_modes[policy->mode]));
    for (size_t i = 0; i < 2; i++) {
        json_t *array = lists[i].write ? json_array() : NULL;
        for (size_t k = 0; array && k < lists[i].entries->count; k++)
            json_array_append_new(array, gate_entry_json(&lists[i].entries->items[k], headers));
        if (array)
            json_object_set_new(object, lists[i].name, array);
    }
    json_t *numbers = json_object();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value)
            json_object_set_new(numbers, limits[i].name, json_integer((json_int_t)limits[i].value));
    if (json_object_size(numbers))
        json_object_set(object, "limits", numbers);
    json_decref(numbers);
    if (policy->log != GATE_LOG_ALL)
        json_object_set_new(object, "log", json_string(gate_logs[policy->log]));
    if (policy->ask_timeout_ms)
        json_object_set_new(object, "ask_timeout_ms", json_integer((json_int_t)policy->ask_timeout_ms));
    return object;
}

bool gate_policy_any(const struct gate_policy *policy) {
    for (size_t i = 0; i < policy->allow.count; i++)
        if (policy->allow.items[i].any)
            return true;
    return false;
}
