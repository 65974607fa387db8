/* The decision (gate_policy.h). Invariants: a deny entry of any level wins, order does not matter; every level with an
 * allow list must allow; where no level has one, nothing is allowed; an address of class NEVER is refused before any
 * list is read. */
#include "base/base.h"
#include "gate/gate_policy.h"

/* ---- does an entry fit ---- */

bool gate_host_listed(const char *const *list, const char *host) {
    for (size_t len = strlen(host); list && *list; list++) {
        size_t suffix = strncmp(*list, "*.", 2) == 0 ? strlen(*list) - 1 : 0;
        if (suffix ? len > suffix && strcmp(host + len - suffix, *list + 1) == 0 : strcmp(*list, host) == 0)
            return true;
    }
    return false;
}

static bool gate_decide_name(const struct gate_entry *entry, const char *name) {
    if (!name)
        return false;
    bool host = strcmp(name, GATE_HOST_NAME) == 0;
    if (entry->host || host)
        return entry->host && host;
    if (entry->any)
        return true;
    if (!entry->name)
        return false;
    if (!entry->star)
        return strcmp(entry->name, name) == 0;
    size_t len = strlen(name), suffix = strlen(entry->name);
    return len > suffix + 1 && name[len - suffix - 1] == '.' && strcmp(name + len - suffix, entry->name) == 0;
}

static bool gate_decide_port(const struct gate_entry *entry, bool allow, const struct gate_subject *subject) {
    if (subject->port == 0) /* may the name be resolved: some port of it could be allowed, or all are denied */
        return allow || (!entry->range_count && !entry->proto_said);
    if (allow ? entry->udp != subject->udp : entry->proto_said && entry->udp != subject->udp)
        return false;
    if (!entry->range_count)
        return !allow || subject->port == 80 || subject->port == 443;
    for (size_t i = 0; i < entry->range_count; i++)
        if (subject->port >= entry->ranges[i].first && subject->port <= entry->ranges[i].last)
            return true;
    return false;
}

static bool gate_decide_address(const struct gate_entry *entry, const struct address *address) {
    return entry->network_said && address && address_network_has(&entry->network, address);
}

static bool gate_decide_listed(char *const *list, const char *text, bool path) {
    for (; list && *list; list++)
        if (path ? gate_path_fits(*list, text) : strcmp(*list, text) == 0)
            return true;
    return false;
}

/* "//", "." and ".." segments and encoded slashes could be read otherwise by the server: such a path fits nothing. */
static bool gate_decide_path_plain(const char *path) {
    if (*path != '/')
        return false;
    for (const char *p = path; *p; p++) {
        size_t segment = *p == '/' ? strcspn(p + 1, "/") : 1;
        if (*p == '%' || *p == '\\')
            return false;
        if (*p == '/' &&
            ((!segment && p[1]) || (segment == 1 && p[1] == '.') || (segment == 2 && p[1] == '.' && p[2] == '.')))
            return false;
    }
    return true;
}

/* A later star takes over from an earlier one: what came before it has matched as early as it can. So the time is
 * bounded by the product of the lengths. */
bool gate_path_fits(const char *pattern, const char *path) {
    const char *shallow = NULL, *shallow_at = NULL, *deep = NULL, *deep_at = NULL;
    while (*path || *pattern) {
        if (*pattern == '*') {
            bool both = pattern[1] == '*';
            pattern += both ? 2 : 1;
            *(both ? &deep : &shallow) = pattern;
            *(both ? &deep_at : &shallow_at) = path;
            shallow = both ? NULL : shallow;
        } else if (*path && *pattern == *path) {
            pattern++;
            path++;
        } else if (shallow && *shallow_at && *shallow_at != '/') {
            path = ++shallow_at;
            pattern = shallow;
        } else if (deep && *deep_at) {
            path = ++deep_at;
            pattern = deep;
            shallow = NULL;
        } else {
            return false;
        }
    }
    return true;
}

static bool gate_decide_request(const struct gate_entry *entry, const struct gate_subject *subject) {
    if (entry->methods && !gate_decide_listed(entry->methods, subject->method, false))
        return false;
    return !entry->paths ||
           (gate_decide_path_plain(subject->path) && gate_decide_listed(entry->paths, subject->path, true));
}

bool gate_entry_fits(const struct gate_entry *entry, const struct gate_subject *subject) {
    return gate_decide_name(entry, subject->name) && gate_decide_port(entry, true, subject) &&
           (!subject->method || gate_decide_request(entry, subject));
}

/* ---- one level ---- */

struct gate_fit { /* what the allow list of a level says */
    const struct gate_entry *entry;
    bool network, private, exact, inspect, narrowed, request;
    enum gate_protocol protocol;
};

static enum gate_protocol gate_entry_protocol(const struct gate_entry *entry, uint16_t port) {
    if (entry->opaque)
        return GATE_OPAQUE;
    return entry->tls || port == 443 ? GATE_TLS : entry->http || port == 80 ? GATE_HTTP : GATE_OPAQUE;
}

static struct gate_fit gate_decide_allow(const struct gate_policy *level, const struct gate_subject *subject) {
    struct gate_fit fit = {.entry = NULL};
    for (size_t i = 0; i < level->allow.count; i++) {
        const struct gate_entry *entry = &level->allow.items[i];
        bool name = gate_decide_name(entry, subject->name);
        bool network = gate_decide_address(entry, subject->address);
        if ((!name && !network) || !gate_decide_port(entry, true, subject))
            continue;
        bool narrowed = entry->methods || entry->paths;
        if (!fit.entry || (fit.network && name)) { /* a name says more than a network */
            fit.entry = entry;
            fit.network = !name;
            fit.protocol = gate_entry_protocol(entry, subject->port);
        } else if (name && entry->opaque) {
            fit.protocol = GATE_OPAQUE;
        }
        fit.private |= network || entry->private;
        fit.exact |= network || (name && !entry->star && !entry->any);
        fit.inspect |= gate_entry_inspects(entry);
        fit.request |= narrowed && subject->method && gate_decide_request(entry, subject);
        fit.narrowed |= narrowed;
    }
    return fit;
}

static const struct gate_entry *gate_decide_deny(const struct gate_policy *level, const struct gate_subject *subject) {
    for (size_t i = 0; i < level->deny.count; i++) {
        const struct gate_entry *entry = &level->deny.items[i];
        if ((gate_decide_name(entry, subject->name) || gate_decide_address(entry, subject->address)) &&
            gate_decide_port(entry, false, subject))
            return entry;
    }
    return NULL;
}

/* ---- all levels ---- */

static bool gate_decide_never(const struct gate_machine *machine, const struct gate_subject *subject) {
    static const char *const names[] = {"metadata.google.internal", "metadata", "instance-data"};
    for (size_t i = 0; subject->name && i < sizeof names / sizeof *names; i++)
        if (strcmp(subject->name, names[i]) == 0)
            return true;
    if (!subject->address)
        return false;
    for (size_t i = 0; i < machine->own_count; i++)
        if (memcmp(&machine->own[i], subject->address, sizeof machine->own[i]) == 0)
            return true;
    return address_class(subject->address) == ADDRESS_NEVER;
}

static bool gate_decide_open(const struct gate_machine *machine, const struct address *address) {
    for (size_t i = 0; i < machine->open_count; i++)
        if (address_network_has(&machine->open[i], address))
            return true;
    return false;
}

static void gate_decide_no(struct gate_verdict *verdict, const char *why, const char *entry) {
    verdict->allowed = verdict->ask = verdict->observed = false;
    snprintf(verdict->why, sizeof verdict->why, "%s%s", why, entry ? entry : "");
}

/* This machine: only a port that both an entry and gate_host_ports name. */
static bool gate_decide_host(const struct gate_machine *machine, const struct gate_subject *subject) {
    for (size_t i = 0; i < machine->host_port_count; i++)
        if (subject->port == 0 || machine->host_ports[i] == subject->port)
            return true;
    return false;
}

/* Soft: the level observes, so what it says is recorded and not enforced. */
static void gate_decide_soft(struct gate_verdict *verdict, const char *why, const char *entry) {
    if (verdict->observed)
        return;
    verdict->observed = true;
    snprintf(verdict->why, sizeof verdict->why, "%s%s", why, entry ? entry : "");
}

/* One level's word, after no deny list that is enforced had one. false: the answer is no. */
static bool gate_decide_level(const struct gate_policy *level, const struct gate_subject *subject, struct gate_fit *fit,
                              struct gate_verdict *verdict) {
    const struct gate_entry *deny = gate_decide_deny(level, subject);
    *fit = level->has_allow ? gate_decide_allow(level, subject) : (struct gate_fit){.entry = NULL};
    if (deny)
        gate_decide_soft(verdict, "deny:", deny->text);
    if (level->has_allow && !fit->entry) {
        if (level->mode == GATE_ENFORCE)
            return gate_decide_no(verdict, "default", NULL), false;
        if (level->mode == GATE_OBSERVE)
            gate_decide_soft(verdict, "default", NULL);
        else
            verdict->ask = true;
    }
    if (fit->narrowed && subject->method && !fit->request && level->mode != GATE_OBSERVE)
        return gate_decide_no(verdict, "request", NULL), false;
    return true;
}

static void gate_decide_merge(struct gate_verdict *verdict, const struct gate_fit *fit, bool first) {
    verdict->inspect |= fit->inspect;
    verdict->star &= !fit->exact;
    if (!first)
        return;
    verdict->by_network = fit->network;
    verdict->protocol = fit->protocol;
}

void gate_decide(const struct gate_machine *machine, const struct gate_policy *const levels[], size_t count,
                 const char *const *inspect, const struct gate_subject *subject, struct gate_verdict *ret_verdict) {
    struct gate_verdict verdict = {.allowed = true, .star = true};
    const struct gate_entry *entry = NULL;
    bool lists = false, private = true, host = subject->name && strcmp(subject->name, GATE_HOST_NAME) == 0;
    verdict.protocol = subject->port == 443 ? GATE_TLS : subject->port == 80 ? GATE_HTTP : GATE_OPAQUE;
    *ret_verdict = verdict;
    if (host ? !gate_decide_host(machine, subject) : gate_decide_never(machine, subject))
        return gate_decide_no(ret_verdict, "never", NULL);
    for (size_t i = 0; i < count; i++) { /* every deny list before any allow list asks or refuses */
        const struct gate_entry *deny = levels[i] ? gate_decide_deny(levels[i], subject) : NULL;
        if (deny && levels[i]->mode != GATE_OBSERVE)
            return gate_decide_no(ret_verdict, "deny:", deny->text);
    }
    for (size_t i = 0; i < count; i++) {
        struct gate_fit fit;
        if (!levels[i])
            continue;
        if (!gate_decide_level(levels[i], subject, &fit, &verdict)) {
            *ret_verdict = verdict;
            return;
        }
        lists |= levels[i]->has_allow;
        if (!levels[i]->has_allow)
            continue;
        private &= fit.private;
        if (fit.entry) {
            gate_decide_merge(&verdict, &fit, !entry);
            entry = fit.entry; /* the last level is the box's own: its entry is the one to show */
            verdict.by_network = fit.network;
        }
    }
    *ret_verdict = verdict;
    if (!lists)
        return gate_decide_no(ret_verdict, "default", NULL);
    if (!host && subject->address && address_class(subject->address) == ADDRESS_PRIVATE &&
        (!private || !gate_decide_open(machine, subject->address)))
        return gate_decide_no(ret_verdict, "private", NULL);
    ret_verdict->inspect |= subject->name && gate_host_listed(inspect, subject->name);
    if (verdict.ask) {
        gate_decide_no(ret_verdict, "default", NULL);
        ret_verdict->ask = true;
    } else if (!verdict.observed) {
        snprintf(ret_verdict->why, sizeof ret_verdict->why, "%s", entry ? entry->text : "");
    }
}

/* ---- ports ---- */

static bool gate_policy_inspects(const struct gate_policy *const levels[], size_t count, uint16_t port,
                                 const char *const *names) {
    for (; names && *names; names++) {
        const struct gate_subject subject = {.name = *names, .port = port};
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; levels[i] && k < levels[i]->allow.count; k++)
                if (gate_entry_inspects(&levels[i]->allow.items[k]) &&
                    gate_entry_fits(&levels[i]->allow.items[k], &subject))
                    return true;
    }
    return false;
}

enum gate_protocol gate_policy_protocol(const struct gate_policy *const levels[], size_t count, uint16_t port,
                                        const char *const *names, const struct address *address) {
    enum gate_protocol protocol = port == 443 ? GATE_TLS : port == 80 ? GATE_HTTP : GATE_OPAQUE;
    if (protocol == GATE_TLS && gate_policy_inspects(levels, count, port, names))
        return protocol; /* whatever else is allowed for the address */
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; levels[i] && k < levels[i]->allow.count; k++) {
            const struct gate_entry *entry = &levels[i]->allow.items[k];
            struct gate_subject subject = {.port = port};
            if (entry->udp || !gate_decide_port(entry, true, &subject))
                continue;
            bool fits = gate_decide_address(entry, address);
            for (const char *const *name = names; name && *name && !fits; name++)
                fits = gate_decide_name(entry, *name);
            if (fits && (entry->opaque || entry->tls || entry->http))
                return gate_entry_protocol(entry, port);
            if (!fits && protocol == GATE_OPAQUE) /* an address nobody looked up: SNI or Host may still say who */
                protocol = gate_entry_protocol(entry, port);
            else if (fits && port != 443 && port != 80)
                return GATE_OPAQUE;
        }
    }
    return protocol;
}

static int gate_range_compare(const void *a, const void *b) {
    return (int)((const struct gate_range *)a)->first - (int)((const struct gate_range *)b)->first;
}

size_t gate_policy_ports(const struct gate_policy *const levels[], size_t count, bool udp,
                         struct gate_range *ret_ranges, size_t most) {
    struct gate_range *all = NULL;
    size_t found = 0, room = 0, kept = 0;
    bool every = false;
    const struct gate_policy *own = NULL;
    for (size_t i = 0; i < count; i++) { /* the last level with a list: it can only be narrowed by the others */
        own = levels[i] && levels[i]->has_allow ? levels[i] : own;
        every |= levels[i] && levels[i]->mode != GATE_ENFORCE && !udp;
    }
    for (size_t i = 0; own && i < own->allow.count; i++) {
        const struct gate_entry *entry = &own->allow.items[i];
        if (entry->udp != udp)
            continue;
        vec_reserve(all, found, room, GATE_RANGES + 2);
        for (size_t k = 0; k < entry->range_count; k++)
            all[found++] = entry->ranges[k];
        if (!entry->range_count) {
            all[found++] = (struct gate_range){80, 80};
            all[found++] = (struct gate_range){443, 443};
        }
    }
    if (every)
        ret_ranges[kept++] = (struct gate_range){1, 65535};
    else if (found)
        qsort(all, found, sizeof *all, gate_range_compare);
    for (size_t i = 0; i < found && !every; i++) {
        struct gate_range *last = kept ? &ret_ranges[kept - 1] : NULL;
        if (last && (all[i].first <= last->last + 1 || kept == most))
            last->last = all[i].last > last->last ? all[i].last : last->last;
        else
            ret_ranges[kept++] = all[i];
    }
    free(all);
    return kept;
}
