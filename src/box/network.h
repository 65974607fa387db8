/* The networks of boxes: what a request may ask for, the verb that changes it while a box runs, and what cubby-gate
 * reports of boxes with a policy.
 *
 * A network is a text wherever it passes through: "none", "open", or an object of gate/gate_policy.h as JSON. Three
 * levels decide: the machine's (policy.network_policy), the share's and the box's own; all of them must allow. */
#ifndef CUBBY_BOX_NETWORK_H
#define CUBBY_BOX_NETWORK_H

#include "box/box.h"
#include "box/policy.h"

struct gate_count;
struct gate_verdict;
struct gate_policy;
struct provider;
struct networks; /* of one provider */

struct networks *network_new(struct provider *provider); /* the gate is started by the first box that needs it */
void network_free(struct networks *network);             /* ends the gate; NULL is fine */

/* Checks it, against the share. own: what the share gives by itself, which is always allowed. *ret_policy: normalised,
 * in arena; NULL: none or open. warnings may be NULL. INVALID, DENIED. */
int network_check(const struct share *share, const char *own, const char *text, struct arena *arena,
                  enum network *ret_network, const char **ret_policy, struct buf *warnings, struct err *err);
/* Of the configuration: a level that narrows others. INVALID names what is wrong. */
int network_level(const char *text, struct err *err);
/* Whether such a box can be made at all. UNSUPPORTED says why not. */
int network_possible(const struct box *box, struct err *err);

/* The box has started, or was found again: whatever its policy needs. fresh: it has just started. */
int network_begin(struct networks *network, struct box *box, bool fresh, struct err *err);
void network_end(struct box *box); /* this life of it has ended */

/* Secrets of the box have changed: the gate gets the hosts that are inspected, and its seal ends. For the thread that
 * has marked the box. INVALID: a host that its policy does not allow, or a network that nothing looks into. */
int network_secrets(struct provider *provider, struct box *box, struct err *err);
/* Whether the policy of a box (as JSON; NULL: none), or a level above it, looks into requests. */
bool network_inspects(struct provider *provider, const char *user, const char *policy);
/* Whether each secret that headers of the policy refer to is one of that user's, for that host. INVALID. */
int network_refers(struct provider *provider, const char *user, const char *policy, struct err *err);

/* ---- verbs ---- */

struct network_state {
    const char *network; /* in arena */
    uint64_t generation;
    const char *warnings; /* a line each; "" */
    bool live;            /* a gate serves it: the counts below are of this life of the box */
    uint64_t connections, active, denied, cut, dns_denied, bytes_in, bytes_out;
};

struct network_change {
    const char *network;                       /* the whole; or NULL and */
    const char *const *allow, *const *deny;    /* entries to be added, texts or objects as JSON; and */
    const char *const *remove, *const *undeny; /* taken away; each may be NULL */
    bool has_generation;
    uint64_t generation; /* that the caller has seen; EXISTS: it is another by now */
    bool keep;           /* connections that it forbids stay open */
};
/* When it returns, nothing that the new network forbids is open, and it is on the disk. *ret_cut: connections ended. */
int network_set(struct provider *provider, const char *user, const char *id, const struct network_change *change,
                unsigned *ret_cut, struct err *err);
/* In whatever state the box is. */
int network_get(struct provider *provider, struct box *box, struct arena *arena, struct network_state *ret_state,
                struct err *err);
/* What would happen to "HOST[:PORT][/udp]", or to a URL of it. */
int network_test(struct provider *provider, struct box *box, const char *to, struct gate_verdict *ret_verdict,
                 struct err *err);
/* The smallest policy that allows what happened in this life of the box, as JSON in arena. */
int network_learned(struct provider *provider, struct box *box, struct arena *arena, const char **ret_policy,
                    struct err *err);
int network_answer_to(struct provider *provider, struct box *box, uint64_t question, bool allow, bool remember,
                      uint64_t for_ms, struct err *err);
bool network_counts(struct provider *provider, struct gate_count *ret_count, uint64_t *ret_restarts); /* of all boxes */

/* ---- what a command was refused ---- */

/* A request that a seal has refused. group: the cgroup of its command; 0: not known. */
void network_refused(struct provider *provider, const char *id, uint64_t group, const char *to, const char *why);
/* Bytes of inspected connections, to the box and from it. */
void network_sealed(struct provider *provider, const char *id, uint64_t bytes_in, uint64_t bytes_out);
/* Processes of that cgroup are this command, until another begins in it. */
void network_command(struct box *box, uint64_t group, uint64_t pid, const char *command);
struct network_mark {
    uint64_t number, refusals;
};
struct network_mark network_mark(struct box *box); /* now */
/* What processes of that cgroup (0: all) were refused since then; at most `most`. Waits for the gate's report. */
size_t network_denied(struct box *box, const struct network_mark *mark, uint64_t group, struct exec_denial *denials,
                      size_t most);

#endif
