/* A network namespace wired as a box's with a policy: what a program inside aims at arrives at sockets held outside, with
 * the address that was aimed at; everything else is refused. Without root, skipped. TAP on standard output. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backend/netcapture.h"
#include "tap.h"

static struct sockaddr_in at(const char *address, uint16_t port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &in.sin_addr);
    return in;
}

/* A connection from inside: 0 or errno; *ret_fd: it. */
static int connect_to(const char *address, uint16_t port, int *ret_fd) {
    struct sockaddr_in to = at(address, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? errno : 0;
    if (ret_fd && !failed)
        *ret_fd = fd;
    else
        close(fd);
    return failed;
}

/* A datagram from inside: 0, or the errno that comes back. */
static int say_to(const char *address, uint16_t port) {
    struct sockaddr_in to = at(address, port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char byte;
    int failed = connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || send(fd, "x", 1, 0) < 0 ? errno : 0;
    if (!failed && recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN)
        failed = errno;
    close(fd);
    return failed;
}

static bool arrives(int listener, const char *address, uint16_t port) {
    struct sockaddr_in aimed;
    socklen_t len = sizeof aimed;
    int out = -1, in;
    char text[INET_ADDRSTRLEN];
    if (connect_to(address, port, &out))
        return false;
    in = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    bool same = in >= 0 && getsockname(in, (struct sockaddr *)&aimed, &len) == 0 && ntohs(aimed.sin_port) == port &&
                strcmp(inet_ntop(AF_INET, &aimed.sin_addr, text, sizeof text), address) == 0;
    close(out);
    close(in);
    return same;
}

int main(void) {
    static const struct gate_range tcp[] = {{80, 80}, {443, 443}, {8000, 8010}}, few[] = {{443, 443}};
    static const uint16_t udp[] = {123};
    const struct netcapture_ports ports = {tcp, 3, udp, 1}, less = {few, 1, NULL, 0};
    struct err err = {0};
    int fds[CAPTURE_MAX], more[CAPTURE_MAX], own = -1;
    int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWNET) < 0) {
        tap_skip("a network namespace", "needs root");
        return tap_end();
    }
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ioctl(fd, SIOCSIFFLAGS, &up);
    struct netplace place = {.net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), .user = -1};
    setns(home, CLONE_NEWNET);
    ok(netcapture_sockets(&place, false, udp, 1, fds, &err) == 0, "the sockets are made: %s", err.text);
    if (netcapture_table(fds, &ports, true, &err) == -ERR_UNSUPPORTED) {
        tap_skip("the table", err.text);
        return tap_end();
    }
    ok(netcapture_route(fds, true, &err) == 0, "the route: %s", err.text);
    setns(place.net, CLONE_NEWNET); /* the program inside */
    ok_all("ports of the policy arrive with the address that was aimed at",
           arrives(fds[CAPTURE_TCP], "93.184.0.1", 443), arrives(fds[CAPTURE_TCP], "151.101.0.223", 80),
           arrives(fds[CAPTURE_TCP], "10.9.9.9", 8005), arrives(fds[CAPTURE_TCP], "8.8.8.8", 53));
    ok_all("other ports are refused at the SYN", connect_to("93.184.0.1", 22, NULL) == ECONNREFUSED,
           connect_to("93.184.0.1", 8011, NULL) == ECONNREFUSED);
    ok_all("so are metadata addresses", connect_to("169.254.169.254", 80, NULL) == ECONNREFUSED,
           connect_to("168.63.129.16", 80, NULL) == ECONNREFUSED);
    ok(connect_to("127.0.0.1", 443, NULL) == ECONNREFUSED, "127.0.0.1 is the box's own");
    ok(say_to("8.8.8.8", 53) == 0, "a datagram to any resolver");
    char bytes[8];
    ok(recv(fds[CAPTURE_DNS_UDP], bytes, sizeof bytes, 0) == 1, "arrives");
    ok_all("so does one to a port of the policy", say_to("93.184.0.1", 123) == 0,
           recv(fds[CAPTURE_UDP], bytes, sizeof bytes, 0) == 1);
    ok(say_to("93.184.0.1", 443) == ECONNREFUSED, "no other: QUIC is refused at once");
    struct sockaddr_in any = at("0.0.0.0", 443);
    own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok_all("a server of the box on all addresses is not taken for the internet",
           bind(own, (struct sockaddr *)&any, sizeof any) == 0 && listen(own, 8) == 0,
           arrives(fds[CAPTURE_TCP], "93.184.0.1", 443), connect_to("127.0.0.1", 443, NULL) == 0);
    setns(home, CLONE_NEWNET);
    ok(netcapture_sockets(&place, false, NULL, 0, more, &err) == -ERR_BUSY, "nobody else can take its place");
    ok(netcapture_sockets(&place, true, NULL, 0, more, &err) == 0 && more[CAPTURE_TCP] < 0, "for a change: %s",
       err.text);
    ok(netcapture_table(more, &less, false, &err) == 0, "the table is replaced: %s", err.text);
    setns(place.net, CLONE_NEWNET);
    ok_all("by the new ports", arrives(fds[CAPTURE_TCP], "93.184.0.1", 443),
           connect_to("93.184.0.1", 80, NULL) == ECONNREFUSED, say_to("93.184.0.1", 123) == ECONNREFUSED);
    close(fds[CAPTURE_TCP]);
    ok(connect_to("93.184.0.1", 443, NULL) == ECONNREFUSED,
       "without a gate all is refused, with a server in the box too");
    ok_all("without the route there is no network", netcapture_route(more, false, &err) == 0,
           connect_to("93.184.0.1", 443, NULL) == ENETUNREACH);
    ok(netcapture_route(more, false, &err) == 0, "taken away twice is as good: %s", err.text);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 200; i++)
        netcapture_table(more, &ports, false, &err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("# a table: %ld us\n", ((end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000) / 200);
    return tap_end();
}
