/* Network `open`: a veth pair and NAT for one box. Called by jail.c as root. Invariant: from inside a box neither the
 * host's own services, nor other boxes, nor link-local addresses (cloud metadata) can be reached, nor private networks
 * but those the configuration names; a box has one address and cannot speak with another; all boxes of a user together
 * have a bounded part of the host's table of connections; all of it goes with the box. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "base/path.h"
#include "base/buf.h"
#include "base/counted.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/text.h"

extern char **environ;

/* A net of 4 addresses for every slot there can be. */
#define NET_ALL "10.204.0.0/14"
#define NET_FIRST 0x0acc0000u
_Static_assert(IDS_SLOTS * 4ull <= 1u << 18, "no two slots share a net");

struct resolvers {
    struct in_addr addresses[8];
    size_t count;
};

static void link_name(unsigned slot, char name[IFNAMSIZ]);
static uint32_t net_base(unsigned slot);
static int add_veth(const char *name, pid_t pid, struct err *err);
static int host_side(const char *name, uint32_t address, struct err *err);
static int net_lock(void);
static int run_nft(const struct buf *text, bool quiet, struct err *err);
static void put_box(struct buf *out, unsigned slot, const char *owner, const char *const *networks,
                    const struct resolvers *resolvers);
static void read_resolvers(struct resolvers *ret_resolvers);
static void write_resolv(const struct resolvers *resolvers, char *out, size_t size);

/* One table of ours for all boxes of all daemons, loaded anew with every box in one transaction: a chain of its own for
 * each box, found by the name of its interface. What has no chain, or goes where it may not, is refused and not dropped:
 * a program inside fails at once instead of hanging. Nothing reaches the host itself, on whatever address. */
static const char rules[] = "add table inet cubby\n"
                            "add map inet cubby boxes { type ifname : verdict; }\n"
                            "add chain inet cubby refuse\n"
                            "add chain inet cubby input { type filter hook input priority -10; policy accept; }\n"
                            "add chain inet cubby forward { type filter hook forward priority -10; policy accept; }\n"
                            "add chain inet cubby nat { type nat hook postrouting priority 100; }\n"
                            "flush chain inet cubby refuse\n"
                            "flush chain inet cubby input\n"
                            "flush chain inet cubby forward\n"
                            "flush chain inet cubby nat\n"
                            "table inet cubby {\n"
                            "  chain refuse {\n"
                            "    meta l4proto tcp reject with tcp reset\n"
                            "    reject with icmpx admin-prohibited\n"
                            "  }\n"
                            "  chain input {\n"
                            "    iifname \"cubby-*\" goto refuse\n"
                            "  }\n"
                            "  chain forward {\n"
                            "    iifname \"cubby-*\" oifname \"cubby-*\" goto refuse\n"
                            "    iifname \"cubby-*\" meta nfproto ipv6 goto refuse\n"
                            "    iifname vmap @boxes\n"
                            "    iifname \"cubby-*\" goto refuse\n"
                            "    oifname \"cubby-*\" ct state established,related accept\n"
                            "    oifname \"cubby-*\" drop\n" /* nobody opens a connection into a box */
                            "  }\n"
                            "  chain nat {\n"
                            "    ip saddr " NET_ALL " oifname != \"cubby-*\" masquerade\n"
                            "  }\n"
                            "}\n";

/* Never, whatever the configuration allows: the machine itself, its neighbours on the wire (cloud metadata), groups. */
#define NEVER "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3"
/* Not on the internet: somebody's own network. Only what `open_networks` names of it. */
#define PRIVATE                                                                                                        \
    "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.0.0.0/24, 192.0.2.0/24, 192.168.0.0/16, 198.18.0.0/15, "            \
    "198.51.100.0/24, 203.0.113.0/24"

bool net_network_ok(const char *text) {
    struct in_addr address;
    char copy[20], *bits = NULL;
    uint64_t count = 32;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return false;
    if ((bits = strchr(copy, '/')))
        *bits++ = 0;
    return inet_pton(AF_INET, copy, &address) == 1 && (!bits || text_u64(bits, 32, &count));
}

static void put_text(struct buf *out, const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    buf_put(out, line, (size_t)n);
}

/* ---- flows ---- */

/* Every connection of a box is a row of the host's conntrack table, which all share; a full one stops the host's own
 * connections. A user's boxes have `most` rows that are alive, and begin that many at once and then RENEWED of them a
 * minute: a closed TCP connection stays in the table for two minutes, and `ct count` does not count it. So it is never
 * more than 2 + 2 * RENEWED times `most`, an eleventh of the table. */
enum { FLOWS_PART = 64, FLOWS_LEAST = 64, RENEWED_A_MINUTE = 2, OWNER_BYTES = 17 };

static uint64_t flows_most(void) {
    char text[32];
    uint64_t all = LIMIT_FLOWS, most = counted_most(COUNTED_FLOWS);
    if (fd_read_file(AT_FDCWD, "/proc/sys/net/netfilter/nf_conntrack_max", text, sizeof text) > 0) {
        text[strcspn(text, "\n")] = 0;
        text_u64(text, UINT32_MAX, &all);
    }
    all /= FLOWS_PART;
    all = all < FLOWS_LEAST ? FLOWS_LEAST : all;
    return all < most ? all : most;
}

/* A user's name as part of the names of nftables' objects. */
static void owner_of(const char *user, char owner[OWNER_BYTES]) {
    uint8_t hash[32];
    sha256(user, strlen(user), hash);
    text_hex(owner, hash, (OWNER_BYTES - 1) / 2);
}

/* One counter and one rate for all boxes of an owner, which stay as they are when they exist: a set with one element, since
 * a rule cannot be shared. Only flows that the table does not have yet are asked about. */
static void put_owner(struct buf *out, const char *owner) {
    put_text(out,
             "add set inet cubby flows-%s { type nf_proto; flags dynamic; size 1; }\n"
             "add limit inet cubby begun-%s { rate over %llu/minute burst %llu packets; }\n",
             owner, owner, (unsigned long long)(RENEWED_A_MINUTE * flows_most()), (unsigned long long)flows_most());
}

static void put_flows(struct buf *out, const char *owner) {
    put_text(
        out,
        "    ct state new ct status & confirmed == 0 limit name \"begun-%s\" goto refuse\n"
        "    ct state new ct status & confirmed == 0 add @flows-%s { meta nfproto ct count over %llu } goto refuse\n",
        owner, owner, (unsigned long long)flows_most());
}

static void owner_path(unsigned slot, char path[64]) {
    snprintf(path, 64, "/run/cubby/net-%u", slot);
}

/* The counter goes with the last box that names it; before, the kernel refuses. */
static void drop_owner(unsigned slot, bool last) {
    char path[64], owner[OWNER_BYTES];
    struct err ignored;
    owner_path(slot, path);
    if (fd_read_file(AT_FDCWD, path, owner, sizeof owner) != OWNER_BYTES - 1)
        return;
    unlink(path);
    if (last) /* the table has gone */
        return;
    autobuf text = buf_max(1024);
    put_text(&text, "delete set inet cubby flows-%s\ndelete limit inet cubby begun-%s\n", owner, owner);
    run_nft(&text, true, &ignored);
}

int net_attach(unsigned slot, pid_t pid, const char *user, const char *const *networks, struct net_plan *ret_plan,
               struct err *err) {
    char path[64], name[IFNAMSIZ], text[8], owner[OWNER_BYTES];
    if (!path_program("nft", path, sizeof path))
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs the program nft; install the package 'nftables'");
    if (fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", text, sizeof text) < 0 || text[0] != '1')
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs forwarding; sysctl -w net.ipv4.ip_forward=1");
    link_name(slot, name);
    struct resolvers resolvers;
    read_resolvers(&resolvers);
    autobuf text_rules;
    buf_init(&text_rules, 32768); /* less than a pipe holds */
    owner_of(user, owner);
    put_box(&text_rules, slot, owner, networks, &resolvers);
    autofd lock = net_lock();
    owner_path(slot, path);
    fd_replace_file(AT_FDCWD, path, owner, sizeof owner - 1);
    int r = text_rules.failed ? err_set(err, ERR_TOO_LARGE, "open_networks: too many networks")
                              : run_nft(&text_rules, false, err);
    if (r == 0)
        r = add_veth(name, pid, err);
    if (r == 0)
        r = host_side(name, net_base(slot) + 1, err);
    fd_close(&lock);
    if (r < 0) {
        net_detach(slot);
        return r;
    }
    ret_plan->address = net_base(slot) + 2;
    write_resolv(&resolvers, ret_plan->resolv, sizeof ret_plan->resolv);
    return 0;
}

/* The table, and the chain of one box. Its resolvers first: they may stand in a private network. */
static void put_box(struct buf *out, unsigned slot, const char *owner, const char *const *networks,
                    const struct resolvers *resolvers) {
    struct in_addr own = {.s_addr = htonl(net_base(slot) + 2)};
    char text[INET_ADDRSTRLEN];
    buf_put(out, rules, sizeof rules - 1);
    put_owner(out, owner);
    put_text(out, "add chain inet cubby box-%u\nflush chain inet cubby box-%u\n", slot, slot);
    put_text(out, "table inet cubby {\n  chain box-%u {\n    ip saddr != %s drop\n", slot,
             inet_ntop(AF_INET, &own, text, sizeof text));
    put_flows(out, owner);
    for (size_t i = 0; i < resolvers->count; i++)
        put_text(out, "    ip daddr %s meta l4proto { tcp, udp } th dport 53 accept\n",
                 inet_ntop(AF_INET, &resolvers->addresses[i], text, sizeof text));
    put_text(out, "    ip daddr { " NEVER " } goto refuse\n");
    for (; networks && *networks; networks++)
        put_text(out, "    ip daddr %s accept\n", *networks);
    put_text(out, "    ip daddr { " PRIVATE " } goto refuse\n    accept\n  }\n}\n");
    put_text(out, "add element inet cubby boxes { \"cubby-%u\" : goto box-%u }\n", slot, slot);
}

static void link_name(unsigned slot, char name[IFNAMSIZ]) {
    snprintf(name, IFNAMSIZ, "cubby-%u", slot);
}

static uint32_t net_base(unsigned slot) {
    return NET_FIRST + slot * 4;
}

/* ---- rtnetlink ---- */

struct request {
    union {
        struct nlmsghdr head;
        char bytes[512];
    };
};

static struct rtattr *put_attr(struct request *request, unsigned short type, const void *data, size_t len) {
    struct rtattr *attr = (struct rtattr *)(void *)(request->bytes + NLMSG_ALIGN(request->head.nlmsg_len));
    attr->rta_type = type;
    attr->rta_len = (unsigned short)RTA_LENGTH(len);
    if (len)
        memcpy(RTA_DATA(attr), data, len);
    request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) + RTA_ALIGN(attr->rta_len);
    return attr;
}

static void end_attr(struct request *request, struct rtattr *attr) {
    attr->rta_len = (unsigned short)(request->bytes + request->head.nlmsg_len - (char *)attr);
}

/* Sends and takes the answer: 0 or -errno. */
static int transact(struct request *request) {
    autofd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    struct request answer;
    if (send(fd, request, request->head.nlmsg_len, 0) < 0)
        return -errno;
    ssize_t n = recv(fd, &answer, sizeof answer, 0);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.head.nlmsg_type != NLMSG_ERROR)
        return n < 0 ? -errno : -EBADMSG;
    return ((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
}

static void begin(struct request *request, unsigned short type, unsigned short flags) {
    memset(request, 0, sizeof *request);
    request->head.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
    request->head.nlmsg_type = type;
    request->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
}

static int add_veth(const char *name, pid_t pid, struct err *err) {
    struct request request;
    uint32_t peer_pid = (uint32_t)pid;
    begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    put_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    struct rtattr *info = put_attr(&request, IFLA_LINKINFO, NULL, 0);
    put_attr(&request, IFLA_INFO_KIND, "veth", 5);
    struct rtattr *data = put_attr(&request, IFLA_INFO_DATA, NULL, 0);
    struct ifinfomsg none = {0};
    struct rtattr *peer = put_attr(&request, VETH_INFO_PEER, &none, sizeof none);
    put_attr(&request, IFLA_IFNAME, "eth0", 5);
    put_attr(&request, IFLA_NET_NS_PID, &peer_pid, sizeof peer_pid);
    end_attr(&request, peer);
    end_attr(&request, data);
    end_attr(&request, info);
    int r = transact(&request);
    if (r == -EOPNOTSUPP)
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs the kernel module veth; modprobe veth");
    return r < 0 ? err_errno(err, -r, "cannot make the interface '%s'", name) : 0;
}

/* Deleting one end deletes the pair; what is gone already is fine. The table goes with the last one. */
void net_detach(unsigned slot) {
    struct request request;
    char name[IFNAMSIZ];
    link_name(slot, name);
    autofd lock = net_lock();
    begin(&request, RTM_DELLINK, 0);
    put_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    transact(&request);
    struct if_nameindex *links = if_nameindex();
    bool last = links != NULL;
    for (size_t i = 0; links && links[i].if_index; i++)
        last &= strncmp(links[i].if_name, "cubby-", 6) != 0;
    if_freenameindex(links);
    struct err ignored;
    autobuf text = buf_max(1024);
    if (last) /* added first: to delete what is not there would be an error */
        put_text(&text, "add table inet cubby\ndelete table inet cubby\n");
    else
        put_text(&text,
                 "add table inet cubby\nadd map inet cubby boxes { type ifname : verdict; }\n"
                 "add chain inet cubby box-%u\nadd element inet cubby boxes { \"cubby-%u\" : goto box-%u }\n"
                 "delete element inet cubby boxes { \"cubby-%u\" }\ndelete chain inet cubby box-%u\n",
                 slot, slot, slot, slot, slot);
    run_nft(&text, false, &ignored);
    drop_owner(slot, last);
}

bool net_attached(unsigned slot) {
    char name[IFNAMSIZ];
    link_name(slot, name);
    return if_nametoindex(name) != 0;
}

/* Between processes: rules are loaded and removed, and interfaces counted, by one at a time. */
static int net_lock(void) {
    int fd = open("/run/cubby/net.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

static int host_side(const char *name, uint32_t address, struct err *err) {
    autofd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    memcpy(&request.ifr_addr, &in, sizeof in);
    if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request) < 0)
        return err_errno(err, errno, "address of '%s'", name);
    in.sin_addr.s_addr = htonl(0xfffffffcu);
    memcpy(&request.ifr_netmask, &in, sizeof in);
    if (ioctl(fd, SIOCSIFNETMASK, &request) < 0)
        return err_errno(err, errno, "netmask of '%s'", name);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return err_errno(err, errno, "'%s'", name);
    return 0;
}

/* ---- nftables ---- */

static int run_nft(const struct buf *text, bool quiet, struct err *err) {
    char path[64];
    int pair[2];
    path_program("nft", path, sizeof path);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[0], 0);
    if (quiet)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    char *argv[] = {"nft", "-f", "-", NULL};
    pid_t pid;
    int r = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[0]);
    if (r == 0)
        fd_write_all(pair[1], text->data, text->len); /* less than a pipe holds: never blocks, never SIGPIPE later */
    close(pair[1]);
    int status = 0;
    if (r != 0)
        return err_errno(err, r, "'%s'", path);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "nft could not load cubby's rules; are the kernel modules nf_tables, nft_limit and nft_connlimit there?");
    return 0;
}

/* The host's resolvers, as far as a box can reach them. */
static void read_resolvers(struct resolvers *ret_resolvers) {
    struct resolvers found = {.count = 0};
    char text[8192];
    if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) < 0)
        text[0] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && found.count < sizeof found.addresses / sizeof *found.addresses) {
        char word[64];
        struct in_addr *address = &found.addresses[found.count];
        if (sscanf(line, "nameserver %63s", word) == 1 && inet_pton(AF_INET, word, address) == 1 &&
            ntohl(address->s_addr) >> 24 != 127)
            found.count++;
    }
    *ret_resolvers = found;
}

static void write_resolv(const struct resolvers *resolvers, char *out, size_t size) {
    char text[INET_ADDRSTRLEN];
    size_t used = 0;
    for (size_t i = 0; i < resolvers->count; i++)
        used += (size_t)snprintf(out + used, size - used, "nameserver %s\n",
                                 inet_ntop(AF_INET, &resolvers->addresses[i], text, sizeof text));
    if (used == 0)
        snprintf(out, size,
                 "# The host's resolver listens on its loopback, which a box cannot reach:\n"
                 "# put a name server here, or mount a resolv.conf of your own.\n");
}
