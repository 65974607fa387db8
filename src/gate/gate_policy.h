/* What a box may reach, as one object of the API: read, checked, written back, and the one decision that DNS, TCP,
 * HTTP requests, a change of the policy and `cubby net test` share. Pure: no I/O, no clock, no global state.
 *
 * A policy is one level: the machine's, the share's or the box's own. Every level is asked, so a level can narrow what
 * another allows and never widen it. */
#ifndef CUBBY_GATE_GATE_POLICY_H
#define CUBBY_GATE_GATE_POLICY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "http/address.h"

enum {
    GATE_ENTRIES = 512,        /* of allow and deny together */
    GATE_POLICY_BYTES = 65536, /* of a policy as JSON */
    GATE_NAME_BYTES = 253,
    GATE_RANGES = 16,    /* port ranges of an entry */
    GATE_UDP_PORTS = 16, /* of a policy: each is a socket in the box */
    GATE_LEVELS = 3,
    GATE_WHY_BYTES = 320,
    GATE_HEADERS = 20, /* of an entry */
    GATE_HEADER_NAME_BYTES = 64,
    GATE_HEADER_VALUE_BYTES = 2048,
};

/* The machine itself, as a name in the box. */
#define GATE_HOST_NAME "host.cubby.internal"

enum gate_mode { GATE_ENFORCE, GATE_OBSERVE, GATE_ASK };
enum gate_log { GATE_LOG_ALL, GATE_LOG_DENIED, GATE_LOG_NONE };
enum gate_protocol { GATE_OPAQUE, GATE_TLS, GATE_HTTP };

struct gate_range {
    uint16_t first, last;
};

/* A header that requests to the host of an entry get. */
struct gate_header {
    char *name, *value; /* name in lower case; in value ${secrets.NAME} stands for a secret */
};

struct gate_entry {
    char *text; /* as it is shown: "deny:TEXT"; lower case */
    char *name; /* a name; of a star what follows "*."; NULL: a network, or any name */
    bool star, any, host, udp;
    bool proto_said; /* "/tcp" or "/udp" was written; a deny entry without it denies both */
    bool network_said;
    struct address_network network;
    struct gate_range ranges[GATE_RANGES];
    size_t range_count; /* 0: 80 and 443 where it allows, every port where it denies */
    bool private, inspect, tls, http, opaque;
    char **methods, **paths; /* NULL-terminated; NULL: any */
    struct gate_header *headers;
    size_t header_count;
};

struct gate_entries {
    struct gate_entry *items;
    size_t count;
};

struct gate_limits {
    uint64_t mbit, connections, per_second, bytes; /* 0: the default, or no limit for mbit and bytes */
};

struct gate_policy {
    enum gate_mode mode;
    enum gate_log log;
    bool has_allow; /* a level without `allow` denies only by its deny list */
    struct gate_entries allow, deny;
    struct gate_limits limits;
    uint64_t ask_timeout_ms;
};

/* value: an object as in POST /v1/boxes. warnings: a sentence per line about what is allowed but doubtful. INVALID
 * names the entry, what is wrong with it and where possible the form to use. */
int gate_policy_parse(const json_t *value, struct gate_policy **ret_policy, struct buf *warnings, struct err *err);
/* In the same form, normalised; to be freed. headers false: with empty values, for whom they do not concern. */
json_t *gate_policy_json(const struct gate_policy *policy, bool headers);
void gate_policy_free(struct gate_policy *policy); /* NULL is fine */
/* Whether some entry of allow is "*": needs a share that allows `open`. */
bool gate_policy_any(const struct gate_policy *policy);
/* Whether TLS to its host is opened. */
bool gate_entry_inspects(const struct gate_entry *entry);
/* The ports of TCP (or UDP) that can be allowed at all: sorted, apart from each other. At most `most` ranges; more are
 * merged into one. observe and ask: every port of TCP. Returns the count. */
size_t gate_policy_ports(const struct gate_policy *const levels[], size_t count, bool udp,
                         struct gate_range *ret_ranges, size_t most);
/* Lower case, without a trailing dot, into ret_name. INVALID: not a name that a policy can hold. */
int gate_name(const char *text, size_t len, char ret_name[GATE_NAME_BYTES + 1], struct err *err);

/* ---- headers (gate_header.c) ---- */

int gate_headers_parse(json_t *value, struct gate_entry *entry, struct err *err); /* the member `headers` */
json_t *gate_headers_json(const struct gate_entry *entry, bool values);
void gate_headers_done(struct gate_entry *entry);
struct gate_reference {
    const char *at, *end;                   /* from "${" to after "}" */
    char name[LIMIT_SECRET_NAME_BYTES + 1]; /* "": it is not a reference */
};
/* The first one in text. False: there is none. */
bool gate_reference(const char *text, struct gate_reference *ret_reference);

/* ---- the decision (gate_decide.c) ---- */

/* What the machine adds to a decision. */
struct gate_machine {
    const struct address_network *open; /* open_networks of cubby.yaml */
    const struct address *own;          /* every address of this machine */
    const uint16_t *host_ports;         /* gate_host_ports */
    size_t open_count, own_count, host_port_count;
};

struct gate_subject {
    const char *name;              /* as gate_name writes it; NULL: only the address is known */
    const struct address *address; /* NULL: not known yet. Of a name: one that it resolves to */
    uint16_t port;                 /* 0: may the name be resolved at all? Then udp is ignored */
    bool udp;
    const char *method, *path; /* of a request; NULL: not known. path without '?' and what follows */
};

struct gate_verdict {
    bool allowed;
    bool ask;        /* not allowed, but a question may change that */
    bool observed;   /* allowed only because the level observes: `why` says what enforcing would have said */
    bool inspect;    /* TLS has to be opened to decide */
    bool star;       /* only entries with a star allow the name */
    bool by_network; /* the address itself is allowed: dial it, not the name */
    enum gate_protocol protocol;
    char why[GATE_WHY_BYTES]; /* "deny:ENTRY", "default", "never", "private", "request"; allowed: the entry */
};

/* Whether the host is in a list of names and "*.NAME"; NULL-terminated, may be NULL. */
bool gate_host_listed(const char *const *list, const char *host);
/* levels: NULL ones are skipped. inspect: hosts with a bound secret, as gate_host_listed takes them. */
void gate_decide(const struct gate_machine *machine, const struct gate_policy *const levels[], size_t count,
                 const char *const *inspect, const struct gate_subject *subject, struct gate_verdict *ret_verdict);
/* Whether an entry of an allow list is for a name, a port and, where it is known, a request. */
bool gate_entry_fits(const struct gate_entry *entry, const struct gate_subject *subject);
/* What a connection to a port is expected to speak, before its name is known: names are those its address was handed
 * out for (NULL-terminated, may be NULL). */
enum gate_protocol gate_policy_protocol(const struct gate_policy *const levels[], size_t count, uint16_t port,
                                        const char *const *names, const struct address *address);
/* `*` within a segment, `**` over segments. */
bool gate_path_fits(const char *pattern, const char *path);

#endif
