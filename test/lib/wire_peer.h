/* For tests of a wire: what is checked is printed, and the runner's end by hand. Included by each of them once. */
#ifndef CUBBY_TEST_WIRE_PEER_H
#define CUBBY_TEST_WIRE_PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "wire/frame.h"
#include "wire/call.h"
#include "tap.h"

/* ---- the runner's side ---- */

struct peer {
    int fd;
    uint8_t data[FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES];
    struct frame frame;
};

/* The next frame from the daemon; false when it hung up. */
static bool peer_read(struct peer *peer) {
    if (fd_read_full(peer->fd, peer->data, FRAME_HEAD_BYTES) != FRAME_HEAD_BYTES)
        return false;
    uint32_t len = (uint32_t)peer->data[0] | (uint32_t)peer->data[1] << 8 | (uint32_t)peer->data[2] << 16;
    if (fd_read_full(peer->fd, peer->data + FRAME_HEAD_BYTES, len) != (ssize_t)len)
        return false;
    struct err err;
    return frame_parse(peer->data, FRAME_HEAD_BYTES + len, &peer->frame, &err) == 1;
}

static void peer_send_fd(int fd, uint8_t type, uint32_t call, uint8_t flags, const void *payload, size_t len,
                         int pass) {
    autobuf out = buf_max(2 * LIMIT_FRAME_PAYLOAD_BYTES);
    frame_put(&out, type, call, flags, payload, len);
    size_t at = 0;
    while (at < out.len) {
        ssize_t n = fd_send(fd, out.data + at, out.len - at, at ? -1 : pass, 0);
        if (n <= 0)
            return; /* the daemon ended the wire, which is what some tests want */
        at += (size_t)n;
    }
}

static void peer_send(int fd, uint8_t type, uint32_t call, uint8_t flags, const void *payload, size_t len) {
    peer_send_fd(fd, type, call, flags, payload, len, -1);
}

static void hello_fields(struct buf *out, uint64_t version, uint64_t features) {
    buf_init(out, 256);
    field_number(out, FIELD_VERSION, version);
    field_number(out, FIELD_FEATURES, features);
    field_text(out, FIELD_WORKSPACE, "/work");
}

static void peer_hello(int fd) {
    autobuf fields;
    hello_fields(&fields, PROTO_VERSION, FEATURE_PASS_FD);
    peer_send(fd, FRAME_HELLO, 0, 0, fields.data, fields.len);
}

/* A wire that has been greeted; the other end in *ret_peer. */
static struct wire *wire_pair(bool local, int *ret_peer) {
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    peer_hello(pair[1]);
    struct wire *wire;
    struct err err;
    must(wire_new(pair[0], local ? WIRE_PASS_FILES : WIRE_PASS_NOTHING, 2000, &wire, &err) == 0,
         "an honest HELLO is taken");
    struct peer *peer = calloc(1, sizeof *peer);
    peer->fd = pair[1];
    must(peer_read(peer) && peer->frame.type == FRAME_HELLO, "the daemon greets");
    free(peer);
    *ret_peer = pair[1];
    return wire;
}

#endif
