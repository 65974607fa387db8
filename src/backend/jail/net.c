/* Network `open`: a veth pair and NAT for one box. Called by jail.c as root. Invariant: from inside a box neither the
 * host's own services, nor other boxes, nor link-local addresses (cloud metadata) can be reached, nor private networks
 * but those the configuration names; a box has one address and cannot speak with another; all boxes of a user together
 * have a bounded part of the host's table of connections; all of it goes with the box. */
#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/spawn.h"
#include "backend/jail/jail.h"
#include "base/counted.h"
#include "base/sha256.h"

extern char **environ;

/* A net of 4 addresses for every slot there can be. */
#define NET_ALL "10.204.0.0/14"
#define NET_FIRST 0x0acc0000u
#define NET_BASE(slot) (NET_FIRST + (slot)*4)
#define OWNER_PATH "/run/cubby/net-%u" /* of the slot: the owner of its flows */
_Static_assert(IDS_SLOTS * 4ull <= 1u << 18, "no two slots share a net");

struct net_request {
    union {
        struct nlmsghdr head;
        char bytes[512];
    };
};

struct net_resolvers {
    struct in_addr addresses[8];
    size_t count;
};

/* One table of ours for all boxes of all daemons, loaded anew with every box in one transaction: a chain of its own for
 * each box, found by the name of its interface. What has no chain, or goes where it may not, is refused and not
 * dropped: a program inside fails at once instead of hanging. Nothing reaches the host itself, on whatever address. */
static const char net_rules[] =
    "add table inet cubby\n"
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
    "    oifname \"cubby-*\" drop\n" /* no connection is opened into a box */
    "  }\n"
    "  chain nat {\n"
    "    ip saddr " NET_ALL " oifname != \"cubby-*\" masquerade\n"
    "  }\n"
    "}\n";

/* Never, whatever the configuration allows: the machine itself, its neighbours on the wire (cloud metadata), groups. */
#define NEVER "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3"
/* Private networks: reachable only as far as `open_networks` names them. */
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

static void net_put(struct buf *out, const char *format, ...) {
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

static unsigned long long net_flows_most(void) {
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

/* The host's resolvers, as far as a box can reach them. */
static void net_resolve(struct net_resolvers *ret_resolvers, char *out, size_t size) {
    struct net_resolvers found = {.count = 0};
    char text[8192], word[64];
    size_t used = 0;
    if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) < 0)
        text[0] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && found.count < sizeof found.addresses / sizeof *found.addresses) {
        struct in_addr *address = &found.addresses[found.count];
        if (sscanf(line, "nameserver %63s", word) != 1 || inet_pton(AF_INET, word, address) != 1 ||
            ntohl(address->s_addr) >> 24 == 127)
            continue;
        found.count++;
        used += (size_t)snprintf(out + used, size - used, "nameserver %s\n", word);
    }
    if (used == 0)
        snprintf(out, size,
                 "# The host's resolver listens on its loopback, which a box cannot reach:\n"
                 "# put a name server here, or mount a resolv.conf of your own.\n");
    *ret_resolvers = found;
}

/* The table, and the chain of one box. One counter and one rate for all boxes of an owner, which stay as they are when
 * they exist: a set with one element, since a rule cannot be shared. Only flows that the table does not have yet are
 * checked. The box's resolvers come first: they may be in a private network. */
static void net_put_box(struct buf *out, unsigned slot, const char *owner, const char *const *networks,
                        const struct net_resolvers *resolvers) {
    struct in_addr own = {.s_addr = htonl(NET_BASE(slot) + 2)};
    char text[INET_ADDRSTRLEN];
    unsigned long long most = net_flows_most();
    buf_put(out, net_rules, sizeof net_rules - 1);
    net_put(out,
            "add set inet cubby flows-%s { type nf_proto; flags dynamic; size 1; }\n"
            "add limit inet cubby begun-%s { rate over %llu/minute burst %llu packets; }\n",
            owner, owner, RENEWED_A_MINUTE * most, most);
    net_put(out, "add chain inet cubby box-%u\nflush chain inet cubby box-%u\n", slot, slot);
    net_put(out, "table inet cubby {\n  chain box-%u {\n    ip saddr != %s drop\n", slot,
            inet_ntop(AF_INET, &own, text, sizeof text));
    net_put(
        out,
        "    ct state new ct status & confirmed == 0 limit name \"begun-%s\" goto refuse\n"
        "    ct state new ct status & confirmed == 0 add @flows-%s { meta nfproto ct count over %llu } goto refuse\n",
        owner, owner, most);
    for (size_t i = 0; i < resolvers->count; i++)
        net_put(out, "    ip daddr %s meta l4proto { tcp, udp } th dport 53 accept\n",
                inet_ntop(AF_INET, &resolvers->addresses[i], text, sizeof text));
    net_put(out, "    ip daddr { " NEVER " } goto refuse\n");
    for (; networks && *networks; networks++)
        net_put(out, "    ip daddr %s accept\n", *networks);
    net_put(out, "    ip daddr { " PRIVATE " } goto refuse\n    accept\n  }\n}\n");
    net_put(out, "add element inet cubby boxes { \"cubby-%u\" : goto box-%u }\n", slot, slot);
}

/* Between processes: rules are loaded and removed, and interfaces counted, by one at a time. */
static int net_lock(void) {
    int fd = open("/run/cubby/net.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

static int net_nft(const struct buf *text, bool quiet, struct err *err) {
    static const char *const argv[] = {"nft", "-f", "-", NULL};
    char path[64];
    int pair[2];
    pid_t pid;
    path_program("nft", path, sizeof path);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, errno, "pipe2");
    const struct spawn spawn = {
        .program = path, .argv = argv, .env = environ, .in = pair[0], .out = 1, .errors = quiet ? -1 : 2};
    int r = spawn_start(&spawn, &pid, err);
    close(pair[0]);
    if (r == 0)
        fd_write_all(pair[1], text->data, text->len); /* less than a pipe holds: never blocks, never SIGPIPE later */
    close(pair[1]);
    if (r < 0)
        return r;
    return spawn_wait(pid) == 0
               ? 0
               : err_set(err, ERR_UNSUPPORTED,
                         "nft could not load cubby's rules; are the kernel modules nf_tables, nft_limit and "
                         "nft_connlimit loaded?");
}

static void net_begin(struct net_request *request, unsigned short type, unsigned short flags) {
    memset(request, 0, sizeof *request);
    request->head.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
    request->head.nlmsg_type = type;
    request->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
}

static struct rtattr *net_put_attr(struct net_request *request, unsigned short type, const void *data, size_t len) {
    struct rtattr *attr = (struct rtattr *)(void *)(request->bytes + NLMSG_ALIGN(request->head.nlmsg_len));
    attr->rta_type = type;
    attr->rta_len = (unsigned short)RTA_LENGTH(len);
    if (len)
        memcpy(RTA_DATA(attr), data, len);
    request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) + RTA_ALIGN(attr->rta_len);
    return attr;
}

static void net_end_attr(struct net_request *request, struct rtattr *attr) {
    attr->rta_len = (unsigned short)(request->bytes + request->head.nlmsg_len - (char *)attr);
}

/* Sends and takes the answer: 0 or -errno. */
static int net_transact(struct net_request *request) {
    autofd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    struct net_request answer;
    if (send(fd, request, request->head.nlmsg_len, 0) < 0)
        return -errno;
    ssize_t n = recv(fd, &answer, sizeof answer, 0);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.head.nlmsg_type != NLMSG_ERROR)
        return n < 0 ? -errno : -EBADMSG;
    return ((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
}

static int net_add_veth(const char *name, pid_t pid, struct err *err) {
    struct net_request request;
    uint32_t peer_pid = (uint32_t)pid;
    net_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    net_put_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    struct rtattr *info = net_put_attr(&request, IFLA_LINKINFO, NULL, 0);
    net_put_attr(&request, IFLA_INFO_KIND, "veth", 5);
    struct rtattr *data = net_put_attr(&request, IFLA_INFO_DATA, NULL, 0);
    struct ifinfomsg none = {0};
    struct rtattr *peer = net_put_attr(&request, VETH_INFO_PEER, &none, sizeof none);
    net_put_attr(&request, IFLA_IFNAME, "eth0", 5);
    net_put_attr(&request, IFLA_NET_NS_PID, &peer_pid, sizeof peer_pid);
    net_end_attr(&request, peer);
    net_end_attr(&request, data);
    net_end_attr(&request, info);
    int r = net_transact(&request);
    if (r == -EOPNOTSUPP)
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs the kernel module veth; modprobe veth");
    return r < 0 ? err_errno(err, -r, "cannot make the interface '%s'", name) : 0;
}

static int net_host_side(const char *name, uint32_t address, struct err *err) {
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

/* Deleting one end deletes the pair; an absent one is fine. The table goes with the last box. */
void net_detach(unsigned slot) {
    struct net_request request;
    struct err ignored;
    char name[IFNAMSIZ], path[64], owner[OWNER_BYTES];
    snprintf(name, sizeof name, "cubby-%u", slot);
    autofd lock = net_lock();
    net_begin(&request, RTM_DELLINK, 0);
    net_put_attr(&request, IFLA_IFNAME, name, strlen(name) + 1);
    net_transact(&request);
    struct if_nameindex *links = if_nameindex();
    bool last = links != NULL;
    for (size_t i = 0; links && links[i].if_index; i++)
        last &= strncmp(links[i].if_name, "cubby-", 6) != 0;
    if (links)
        if_freenameindex(links);
    autobuf text = buf_max(1024);
    if (last) /* added first: deleting an absent table would be an error */
        net_put(&text, "add table inet cubby\ndelete table inet cubby\n");
    else
        net_put(&text,
                "add table inet cubby\nadd map inet cubby boxes { type ifname : verdict; }\n"
                "add chain inet cubby box-%u\nadd element inet cubby boxes { \"cubby-%u\" : goto box-%u }\n"
                "delete element inet cubby boxes { \"cubby-%u\" }\ndelete chain inet cubby box-%u\n",
                slot, slot, slot, slot, slot);
    net_nft(&text, false, &ignored);
    /* The owner's counter goes with the last box that names it; before, the kernel refuses. */
    snprintf(path, sizeof path, OWNER_PATH, slot);
    if (fd_read_file(AT_FDCWD, path, owner, sizeof owner) != OWNER_BYTES - 1)
        return;
    unlink(path);
    buf_clear(&text);
    net_put(&text, "delete set inet cubby flows-%s\ndelete limit inet cubby begun-%s\n", owner, owner);
    if (!last)
        net_nft(&text, true, &ignored);
}

int net_attach(unsigned slot, pid_t pid, const char *user, const char *const *networks, struct net_plan *ret_plan,
               struct err *err) {
    char path[64], name[IFNAMSIZ], text[8], owner[OWNER_BYTES];
    struct net_resolvers resolvers;
    uint8_t hash[32];
    if (!path_program("nft", path, sizeof path))
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs the program nft; install the package 'nftables'");
    if (fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", text, sizeof text) < 0 || text[0] != '1')
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs forwarding; sysctl -w net.ipv4.ip_forward=1");
    snprintf(name, sizeof name, "cubby-%u", slot);
    net_resolve(&resolvers, ret_plan->resolv, sizeof ret_plan->resolv);
    sha256(user, strlen(user), hash); /* the user's name as part of the names of nftables' objects */
    text_hex(owner, hash, (OWNER_BYTES - 1) / 2);
    autobuf rules = buf_max(32768); /* less than a pipe holds */
    net_put_box(&rules, slot, owner, networks, &resolvers);
    autofd lock = net_lock();
    snprintf(path, sizeof path, OWNER_PATH, slot);
    fd_replace_file(AT_FDCWD, path, owner, sizeof owner - 1);
    int r =
        rules.failed ? err_set(err, ERR_TOO_LARGE, "open_networks: too many networks") : net_nft(&rules, false, err);
    if (r == 0)
        r = net_add_veth(name, pid, err);
    if (r == 0)
        r = net_host_side(name, NET_BASE(slot) + 1, err);
    fd_close(&lock);
    if (r < 0) {
        net_detach(slot);
        return r;
    }
    ret_plan->address = NET_BASE(slot) + 2;
    return 0;
}

/* ---- rtnetlink ---- */

bool net_attached(unsigned slot) {
    return if_nametoindex(text_make(IFNAMSIZ, "cubby-%u", slot)) != 0;
}
