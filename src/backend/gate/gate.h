/* The daemon's side of cubby-gate: starts it at the first box with a policy, hands boxes over, starts it again when it
 * ends and hands all of them over again. One gate for all boxes of a daemon; any thread may call.
 *
 * While no gate runs, nothing passes: the kernel keeps connections of boxes waiting in the sockets that are held here,
 * and a new gate serves them; with the daemon gone, too, the kernel refuses. */
#ifndef CUBBY_BACKEND_GATE_GATE_H
#define CUBBY_BACKEND_GATE_GATE_H

#include "base/err.h"
#include "gate/gate_wire.h"

struct gate;

/* Made inside the box's network namespace, non-blocking, IP_TRANSPARENT; -1: none. The port of each of udp is the one
 * that it is bound to. */
struct gate_sockets {
    int tcp, dns_udp, dns_tcp, diag;
    int udp[GATE_UDP_PORTS];
    size_t udp_count;
};

struct gate_hooks {
    /* One row, checked. Called on the gate's thread: must not call the gate. */
    void (*event)(void *user, const struct gate_row *row);
    /* A connection of the box needs its seal: returns a SEQPACKET socket to it, which is then the gate's, or -1. Called
     * on a thread of its own. NULL: no seals. */
    int (*seal)(void *user, const char *id, const char *host);
    /* The gate ended and runs again, all boxes handed over; down_ms: for how long. May be NULL. */
    void (*restarted)(void *user, uint64_t down_ms, size_t boxes);
    void *user;
};

struct gate_settings {
    /* The gate of another machine: a stream to it (far.h), or an error. On the gate's thread. The rest then counts for
     * nothing, and boxes have no sockets here. NULL: one of this machine. */
    int (*dial)(void *user, struct err *err);
    void *dial_user;
    const char *runner_path;          /* cubby-gate lies beside it */
    const char *state_dir;            /* STATE/gate/root is the gate's empty root */
    const char *const *resolvers;     /* NULL: those of /etc/resolv.conf */
    const char *const *open_networks; /* may be NULL */
    const char *const *host_ports;    /* ports as text; may be NULL */
};

/* Starts nothing yet. UNSUPPORTED: the program is missing, or a setting is wrong. Texts of settings are copied. */
int gate_open(const struct gate_settings *settings, const struct gate_hooks *hooks, struct gate **ret_gate,
              struct err *err);
void gate_close(struct gate *gate); /* ends the program; NULL is fine */

/* The box's policy from now on. levels: a JSON array of policies, the machine's first, the box's own last; inspect: a
 * JSON array of hosts, NULL: none. sockets: copies are kept until gate_box_drop; NULL: as handed over before. keep:
 * connections that the new policy forbids stay open. Returns when the gate has taken it, so nothing that the policy
 * forbids is open any more; ret_cut: how many connections that ended; NULL: the box has none yet, and a gate that runs
 * is not waited for, since the kernel keeps what the box sends until then. BUSY: the gate did not answer
 * within 2 seconds and was killed: the box has no network until it runs again, then with this policy. */
int gate_box_put(struct gate *gate, const char *id, uint64_t generation, const char *levels, const char *inspect,
                 const struct gate_sockets *sockets, bool keep, unsigned *ret_cut, struct err *err);
/* Its connections end and the copies of its sockets are closed. Unknown ids are fine. */
void gate_box_drop(struct gate *gate, const char *id);
/* The answer to a question (row ASK): for_ms: connections alike stay allowed for so long. */
int gate_answer(struct gate *gate, const char *id, uint64_t question, bool allow, uint64_t for_ms, struct err *err);
/* id NULL: of all boxes. When it returns, `event` has had every row of what happened before. false: no gate runs. */
bool gate_counts(struct gate *gate, const char *id, struct gate_count *ret_count);
/* Another number than before: the box, or one that shares its number, may have been refused something. */
uint64_t gate_refusals(struct gate *gate, const char *id); /* of another machine: another at each call */
uint64_t gate_restarts(struct gate *gate);

#endif
