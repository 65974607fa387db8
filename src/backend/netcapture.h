/* A box's own network namespace, wired so that everything which leaves the box arrives at sockets that are held outside
 * of it (wire/capture.h): an address, a route that makes every address local, and a table. No interface but the
 * loopback, no address translation, no forwarding, nothing on the host. */
#ifndef CUBBY_BACKEND_NETCAPTURE_H
#define CUBBY_BACKEND_NETCAPTURE_H

#include "wire/capture.h"
#include "gate/gate_policy.h"

/* Where a box's network is: descriptors of its namespaces. */
struct netplace {
    int net;
    int user;            /* -1: the caller may enter `net` itself; else a process of the runner has to */
    const char *program; /* that process; with user */
    bool wired;          /* its sockets are made, and here: */
    int sockets[CAPTURE_UDP];
};
void netplace_close(struct netplace *place);
/* A socket of rtnetlink inside, and the index of an interface there. By whoever may enter it itself. */
int netplace_route(const struct netplace *place, const char *interface, unsigned *ret_index, struct err *err);
#define autonetplace __attribute__((cleanup(netplace_close))) struct netplace

struct netcapture_ports {
    const struct gate_range *tcp; /* that the policy names: others are refused at once; NULL: none is, here */
    size_t tcp_count;
    const uint16_t *udp;
    size_t udp_count;
};

/* A place that no policy was asked for yet gets its sockets. Not its table: replacing one costs the kernel ten times as
 * much as making it. */
int netcapture_prepare(struct netplace *place, struct err *err);

/* capture_make inside the box. */
int netcapture_sockets(const struct netplace *place, bool again, const uint16_t *udp, size_t count,
                       int ret_fds[CAPTURE_MAX], struct err *err);
/* The rest is done through two of these sockets, by anybody who has the right to configure the namespace.
 * The table. fresh: the box has none yet; otherwise it is replaced in one step. UNSUPPORTED names what the kernel
 * lacks. */
int netcapture_table(const int fds[CAPTURE_MAX], const struct netcapture_ports *ports, bool fresh, struct err *err);
/* The address and the route, without which a box reaches nothing; or they are taken away, with the table. */
int netcapture_route(const int fds[CAPTURE_MAX], bool on, struct err *err);

#endif
