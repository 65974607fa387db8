/* The user whose socket is at the other end of a local TCP connection: asks the kernel for the socket with our two
 * addresses swapped. Called by request.c for requests without a token if uids decide.
 *
 * Invariants: a socket that its owner has closed is reported with uid 0, which would be taken for root. Such a socket
 * has no inode, so an answer without an inode does not count. Our own socket must still be connected after the answer:
 * only then no other socket can have the same two addresses. If anything is unclear, the result is (uid_t)-1, which no
 * user has. */
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/base.h"
#include "http/internal.h"

#define NOBODY ((uid_t)-1)

struct end {
    uint32_t address[4]; /* network order; IPv4 in the first word */
    in_port_t port;      /* network order */
};

struct pair {
    uint8_t family; /* of the connection: IPv4 mapped into IPv6 is IPv4 */
    struct end theirs, ours;
};

static bool peer_end_take(const struct sockaddr_storage *address, uint8_t *ret_family, struct end *ret_end) {
    *ret_end = (struct end){0};
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        *ret_family = AF_INET;
        ret_end->address[0] = in->sin_addr.s_addr;
        ret_end->port = in->sin_port;
        return true;
    }
    if (address->ss_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
    *ret_family = mapped ? AF_INET : AF_INET6;
    memcpy(ret_end->address, in6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    ret_end->port = in6->sin6_port;
    return true;
}

static bool peer_connected(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return false;
    return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

/* Returns 0 and the uid (NOBODY if its owner has closed it), or -1 if not found or without an answer. */
static int peer_ask_kernel(const struct pair *pair, uid_t *ret_uid) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = pair->family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
    };
    struct inet_diag_sockid *id = &question.body.id;
    id->idiag_sport = pair->theirs.port;
    id->idiag_dport = pair->ours.port;
    memcpy(id->idiag_src, pair->theirs.address, sizeof id->idiag_src);
    memcpy(id->idiag_dst, pair->ours.address, sizeof id->idiag_dst);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    union {
        struct nlmsghdr head;
        char bytes[8192];
    } answer;
    static atomic_int spare = -1; /* a socket kept for the next question, since making one takes longer than asking */
    struct timeval wait = {.tv_sec = 1};
    autofd fd = atomic_exchange(&spare, -1);
    if (fd < 0) {
        fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0)
            return -1;
    }
    if (send(fd, &question, sizeof question, 0) != sizeof question)
        return -1;
    ssize_t n = recv(fd, &answer, sizeof answer, 0);
    if (n < (ssize_t)sizeof answer.head || !NLMSG_OK(&answer.head, (size_t)n))
        return -1;
    /* An error may mean "no such socket" or "no module for TCP", which look the same: /proc decides then. */
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || answer.head.nlmsg_len < NLMSG_LENGTH(sizeof *found))
        return -1;
    /* Without such a connection the kernel may answer with a socket that listens on the port. */
    if (found->idiag_inode && found->idiag_state != TCP_LISTEN && found->id.idiag_dport == pair->ours.port)
        *ret_uid = found->idiag_uid;
    fd = atomic_exchange(&spare, fd); /* a socket that failed above is not reused: its answer might arrive late */
    return 0;
}

/* In /proc addresses are words in the machine's byte order, and ports are plain numbers. */
static void peer_end_text(char *out, size_t size, uint8_t family, const struct end *end) {
    if (family == AF_INET)
        snprintf(out, size, "%08" PRIX32 ":%04X", end->address[0], ntohs(end->port));
    else
        snprintf(out, size, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X", end->address[0],
                 end->address[1], end->address[2], end->address[3], ntohs(end->port));
}

static bool peer_proc_find(const char *path, const char *theirs, const char *ours, uid_t *ret_uid) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char line[512], local[64], remote[64];
    unsigned uid;
    unsigned long inode;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*u: %63s %63s %*x %*s %*s %*s %u %*u %lu", local, remote, &uid, &inode) == 4 &&
            strcmp(local, theirs) == 0 && strcmp(remote, ours) == 0 && inode) {
            *ret_uid = uid;
            break;
        }
    }
    fclose(file);
    return true;
}

/* Returns 0 and the uid (NOBODY if there is no such socket), or -1 without /proc. */
static int peer_ask_proc(const struct pair *pair, uid_t *ret_uid) {
    char theirs[64], ours[64];
    peer_end_text(theirs, sizeof theirs, pair->family, &pair->theirs);
    peer_end_text(ours, sizeof ours, pair->family, &pair->ours);
    if (pair->family == AF_INET6)
        return peer_proc_find("/proc/self/net/tcp6", theirs, ours, ret_uid) ? 0 : -1;
    bool asked = peer_proc_find("/proc/self/net/tcp", theirs, ours, ret_uid);
    if (!asked || *ret_uid != NOBODY)
        return asked ? 0 : -1;
    /* IPv4 on a socket of the other family */
    struct end mapped = {.address = {0, 0, htonl(0xffff), pair->theirs.address[0]}, .port = pair->theirs.port};
    peer_end_text(theirs, sizeof theirs, AF_INET6, &mapped);
    mapped = (struct end){.address = {0, 0, htonl(0xffff), pair->ours.address[0]}, .port = pair->ours.port};
    peer_end_text(ours, sizeof ours, AF_INET6, &mapped);
    return peer_proc_find("/proc/self/net/tcp6", theirs, ours, ret_uid) ? 0 : -1;
}

uid_t peer_uid(int fd) {
    struct sockaddr_storage address;
    struct pair pair;
    uint8_t family;
    socklen_t size = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &size) < 0 || !peer_end_take(&address, &pair.family, &pair.theirs))
        return NOBODY;
    size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0 || !peer_end_take(&address, &family, &pair.ours) ||
        family != pair.family)
        return NOBODY;
    uid_t uid = NOBODY;
    if (peer_ask_kernel(&pair, &uid) < 0 && peer_ask_proc(&pair, &uid) < 0)
        return NOBODY;
    return peer_connected(fd) ? uid : NOBODY;
}
