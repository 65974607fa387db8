/* Any bytes as the daemon's messages to the gate, with and without descriptors: boxes come, change and go, and whatever was
 * said, the gate knows as many as it was given, and none once all were dropped. */
#include <assert.h>
#include <stdlib.h>

#include "../../src/gate/control.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fuzz_memfd(const uint8_t *data, size_t size, const char *text) {
    int fd = memfd_create("policy", MFD_CLOEXEC);
    assert(text ? write(fd, text, strlen(text)) > 0 : write(fd, data, size) == (ssize_t)size);
    return fd;
}

static void fuzz_message(struct control_in *in, uint8_t how, const uint8_t *data, size_t size) {
    static const char *const policies[] = {
        "{\"levels\":[{\"allow\":[\"a.test\",\"*.b.test:1-9\",\"t.test:123/udp\"]}],\"inspect\":[\"a.test\"]}",
        "{\"levels\":[{\"allow\":[\"*\"],\"mode\":\"ask\"},{\"deny\":[\"a.test\"],\"allow\":[\"10.0.0.0/8:*\"]}]}",
        "{\"levels\":[]}"};
    in->message.version = GATE_WIRE_VERSION;
    in->message.kind = (uint16_t)(GATE_BOX + how % 5);
    in->message.keep = how >> 3 & 1;
    in->message.id[0] = (char)('a' + (how >> 4 & 1));
    if (in->message.kind != GATE_BOX) {
        if (in->message.kind == GATE_SEAL && how & 32)
            in->fds[in->count++] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        return;
    }
    in->fds[in->count++] = fuzz_memfd(data, size, how & 64 ? policies[size % 3] : NULL);
    for (unsigned i = 0; how & 128 && i < 4 + size % 4; i++) {
        bool stream = i == 0 || i == 2;
        in->fds[in->count++] = socket(i == 3 ? AF_NETLINK : AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, i == 3 ? 4 : 0);
        in->message.value |= i < 4 ? 1u << i : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int pair[2] = {-1, -1};
    if (pair[0] < 0) {
        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
        loop_begin();
        control_tallies = xcalloc(GATE_TALLIES, sizeof *control_tallies);
        control_begin(pair[0]);
    }
    while (size > 2) { /* how, a length, so many bytes */
        struct control_in in = {.count = 0};
        size_t len = data[1] < size - 2 ? data[1] : size - 2;
        fuzz_message(&in, data[0], data + 2, len);
        if (in.message.kind == GATE_ANSWER && len >= sizeof in.message.value)
            memcpy(&in.message.value, data + 2, sizeof in.message.value);
        control_message(&in);
        for (size_t i = 0; i < in.count; i++)
            fd_close(&in.fds[i]);
        data += 2 + len;
        size -= 2 + len;
        char answer[GATE_MESSAGE_BYTES];
        while (recv(pair[1], answer, sizeof answer, 0) > 0)
            ;
    }
    for (char id = 'a'; id <= 'b'; id++) {
        struct control_in drop = {.message = {.version = GATE_WIRE_VERSION, .kind = GATE_DROP, .id = {id}}};
        control_message(&drop);
    }
    for (size_t i = 0; i < CONTROL_BOXES; i++)
        assert(!control_boxes[i]);
    assert(!control_rules);
    return 0;
}
