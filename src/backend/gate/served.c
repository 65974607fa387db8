/* What lies between a box of this machine and its gate (served.h). Invariant: a box whose gate or table is not
 * available has no route. */
#include "backend/gate/served.h"

#include "base/base.h"
#include "base/sync.h"

enum { SERVED_BUSY_MS = 2000 };

int served_ports(struct gate_policy *const policies[GATE_LEVELS], struct served_ports *out, struct err *err) {
    const struct gate_policy *const *levels = (const struct gate_policy *const *)policies;
    size_t tcp = gate_policy_ports(levels, GATE_LEVELS, false, out->tcp, 63), count = 0;
    size_t udp = gate_policy_ports(levels, GATE_LEVELS, true, out->udp, GATE_UDP_PORTS);
    for (size_t i = 0; i < udp; i++)
        for (uint32_t port = out->udp[i].first; port <= out->udp[i].last; port++) {
            if (count == GATE_UDP_PORTS)
                return err_set(err, ERR_INVALID, "network: more than %d UDP ports", GATE_UDP_PORTS);
            out->udp_ports[count++] = (uint16_t)port;
        }
    out->ports = (struct netcapture_ports){out->tcp, tcp, out->udp_ports, count};
    return 0;
}

bool served_fits(const struct served *served, const struct served_ports *ports) {
    return ports->ports.udp_count == served->udp_count &&
           memcmp(ports->udp_ports, served->udp, served->udp_count * sizeof *served->udp) == 0;
}

/* The sockets of a box as the gate takes them. */
static struct gate_sockets served_sockets(const int fds[CAPTURE_MAX], size_t udp_count) {
    struct gate_sockets sockets = {.tcp = fds[CAPTURE_TCP],
                                   .dns_udp = fds[CAPTURE_DNS_UDP],
                                   .dns_tcp = fds[CAPTURE_DNS_TCP],
                                   .diag = fds[CAPTURE_DIAG],
                                   .udp_count = udp_count};
    memcpy(sockets.udp, fds + CAPTURE_UDP, udp_count * sizeof *sockets.udp);
    return sockets;
}

/* The sockets of a box, made ahead or now. */
static int served_make(struct netplace *place, const struct netcapture_ports *ports, int fds[CAPTURE_MAX],
                       struct err *err) {
    if (place->wired && ports->udp_count == 0) {
        for (size_t i = 0; i < CAPTURE_MAX; i++)
            fds[i] = i < CAPTURE_UDP ? fd_take(&place->sockets[i]) : -1;
        return 0;
    }
    for (size_t i = 0; place->wired && i < CAPTURE_UDP; i++)
        fd_close(&place->sockets[i]);
    uint64_t until_ms = clock_ms() + SERVED_BUSY_MS; /* a daemon that was just killed, and its gate after it */
    for (;;) {
        int r = netcapture_sockets(place, false, ports->udp, ports->udp_count, fds, err);
        if (r != -ERR_BUSY || clock_ms() > until_ms)
            return r;
        usleep(20000);
    }
}

static void *served_close_thread(void *argument) {
    int *fds = argument;
    capture_close(fds);
    free(fds);
    return NULL;
}

/* Closes the sockets through which a table was replaced, on a thread of its own: the kernel makes whoever closes them
 * wait until no packet uses the old table any more (10 to 40 ms). */
static void served_close(int fds[CAPTURE_MAX]) {
    int *copy = xcalloc(CAPTURE_MAX, sizeof *copy);
    memcpy(copy, fds, CAPTURE_MAX * sizeof *copy);
    if (thread_detached(served_close_thread, copy, 64 << 10) != 0)
        served_close_thread(copy);
}

int served_begin(const struct served_rules *box, struct served *ret_served, struct err *err) {
    const struct netcapture_ports *ports = &box->ports->ports;
    autonetplace place = {.net = -1, .user = -1};
    unsigned cut;
    int fds[CAPTURE_MAX];
    TRY(box->ops->netplace(box->backend, box->id, &place, err));
    TRY(served_make(&place, ports, fds, err));
    const struct gate_sockets sockets = served_sockets(fds, ports->udp_count);
    int r = netcapture_table(fds, ports, box->fresh, err);
    if (r == 0)
        r = gate_box_put(box->gate, box->id, box->generation, box->levels, box->inspect, &sockets, false,
                         box->fresh ? NULL : &cut, err);
    if (r == 0 && (r = netcapture_route(fds, true, err)) < 0)
        gate_box_drop(box->gate, box->id);
    box->fresh ? capture_close(fds) : served_close(fds);
    ret_served->udp_count = ports->udp_count;
    memcpy(ret_served->udp, box->ports->udp_ports, sizeof ret_served->udp);
    return r;
}

int served_change(const struct served_rules *box, unsigned *ret_cut, struct err *err) {
    autonetplace place = {.net = -1, .user = -1};
    int fds[CAPTURE_MAX];
    TRY(box->ops->netplace(box->backend, box->id, &place, err));
    TRY(gate_box_put(box->gate, box->id, box->generation, box->levels, box->inspect, NULL, box->keep, ret_cut, err));
    TRY(netcapture_sockets(&place, true, NULL, 0, fds, err));
    int r = netcapture_table(fds, &box->ports->ports, false, err);
    served_close(fds);
    return r;
}

int served_unwire(const struct backend_ops *ops, struct backend *backend, const char *id, struct err *err) {
    autonetplace place = {.net = -1, .user = -1};
    int fds[CAPTURE_MAX];
    TRY(ops->netplace(backend, id, &place, err));
    TRY(netcapture_sockets(&place, true, NULL, 0, fds, err));
    int r = netcapture_route(fds, false, err);
    capture_close(fds);
    return r;
}
