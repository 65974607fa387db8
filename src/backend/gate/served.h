/* A box of this machine whose network arrives at the gate: its sockets, its table, its rules and the route. Called by
 * box/network.c and, on machines that joined, by `cubby join`. */
#ifndef CUBBY_BACKEND_GATE_SERVED_H
#define CUBBY_BACKEND_GATE_SERVED_H

#include "backend/backend.h"
#include "backend/gate/gate.h"
#include "backend/netcapture.h"

/* The ports that policies name, as a box's table and sockets need them. */
struct served_ports {
    struct gate_range tcp[64], udp[GATE_UDP_PORTS + 1];
    uint16_t udp_ports[GATE_UDP_PORTS];
    struct netcapture_ports ports;
};
int served_ports(struct gate_policy *const policies[GATE_LEVELS], struct served_ports *ret_ports, struct err *err);

/* UDP ports that a served box has sockets for. */
struct served {
    uint16_t udp[GATE_UDP_PORTS];
    size_t udp_count;
};

struct served_rules {
    struct gate *gate;
    const struct backend_ops *ops;
    struct backend *backend;
    const char *id;
    /* As gate_box_put. */
    uint64_t generation;
    const char *levels, *inspect;
    const struct served_ports *ports;
    bool fresh; /* it has just started: nothing of it is wired */
    bool keep;
};
/* From nothing to a served box; the route comes last. */
int served_begin(const struct served_rules *box, struct served *ret_served, struct err *err);
/* Other rules of a served box. */
int served_change(const struct served_rules *box, unsigned *ret_cut, struct err *err);
bool served_fits(const struct served *served, const struct served_ports *ports); /* else it has to begin anew */
/* Whatever captures its network is taken away; the gate has been asked to drop it. */
int served_unwire(const struct backend_ops *ops, struct backend *backend, const char *id, struct err *err);

#endif
