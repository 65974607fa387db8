/* Any bytes as what the gate hands to a seal, with none, one or two descriptors, and as what the daemon sends it: a
 * connection is taken only if all lengths fit, and none is left when its time is over. */
#include <assert.h>
#include <stdlib.h>

#define main seal_main
#include "../../src/seal/main.c"
#undef main

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fuzz_daemon; /* the daemon's end */

static void fuzz_begin(int gate[2]) {
    int daemon[2];
    seal_hello = json_pack("{s:s}", "bundle", "/etc/ssl/certs/ca-certificates.crt");
    json_auto_t *list = json_pack("[{s:s,s:s,s:[s]}]", "name", "hub", "placeholder", "ghp_cubbyX", "hosts", "a.test");
    assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, gate) == 0 &&
           socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, daemon) == 0);
    gate[1] = fcntl(gate[1], F_DUPFD_CLOEXEC, 100);
    fuzz_daemon = fcntl(daemon[1], F_DUPFD_CLOEXEC, 100);
    int ours = fcntl(gate[0], F_DUPFD_CLOEXEC, 100);
    dup2(daemon[0], SEAL_DAEMON_FD);
    dup2(ours, SEAL_GATE_FD);
    seal_contexts();
    secrets_read(list);
    seal_epoll = epoll_create1(EPOLL_CLOEXEC);
}

static void fuzz_hand(int gate, const uint8_t *data, size_t size, unsigned count) {
    struct iovec part = {(void *)(uintptr_t)data, size};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    int fds[4] = {-1, -1, -1, -1};
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0 &&
           socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds + 2) == 0);
    if (count) {
        head.msg_control = &control;
        head.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), (int[]){fds[0], fds[2]}, count * sizeof(int));
    }
    sendmsg(gate, &head, MSG_NOSIGNAL);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int gate[2] = {-1, -1};
    static char message[SEAL_MESSAGE_BYTES + 1];
    if (gate[0] < 0)
        fuzz_begin(gate);
    if (size < 2 || size > 60000)
        return 0;
    if (data[0] & 1) { /* the daemon's; a certificate that is not one ends the program */
        memcpy(message, data + 1, size - 1);
        message[size - 1] = 0;
        if (message[0] != 'L')
            seal_take(message, size - 1);
        return 0;
    }
    uint8_t *copy = malloc(size - 1);
    struct seal_connection *head = (struct seal_connection *)(void *)copy;
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 8 && size - 1 >= sizeof *head) { /* mostly right */
        head->version = SEAL_WIRE_VERSION;
        head->host_len = (uint16_t)(head->host_len % 64);
        head->peeked_len = (uint16_t)(size - 1 - sizeof *head - head->host_len);
    }
    fuzz_hand(gate[1], copy, size - 1, data[0] >> 1 & 3 ? 2 : data[0] >> 4 & 1);
    free(copy);
    seal_accept(message);
    for (struct conn *conn = conns; conn; conn = conn->next) {
        assert(strlen(conn->host) <= SEAL_HOST_BYTES);
        conn->until_ms = 0;
    }
    conn_time(clock_ms());
    assert(!conns);
    while (recv(fuzz_daemon, message, sizeof message, 0) > 0)
        ;
    while (seal_leaves) {
        struct leaf *leaf = seal_leaves;
        seal_leaves = leaf->next;
        free(leaf->host);
        free(leaf);
    }
    return 0;
}
