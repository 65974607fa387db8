/* The control channel between the daemon and cubby-gate: SEQPACKET, descriptor 3 of the program. Each message is a
 * struct gate_message; what does not fit into it is JSON in a memfd (to the gate) or an array of structs after it (to
 * the daemon). The daemon treats the gate as hostile: what it sends is bounded and checked before use. */
#ifndef CUBBY_GATE_GATE_WIRE_H
#define CUBBY_GATE_GATE_WIRE_H

#include <stdint.h>

#include "gate/gate_policy.h"

enum {
    GATE_WIRE_VERSION = 1,
    GATE_CONTROL_FD = 3,
    GATE_MESSAGE_BYTES = 32768,
    GATE_JSON_BYTES = 256 << 10,
    GATE_FDS = 5 + GATE_UDP_PORTS, /* of a message: the memfd and a box's sockets */
    GATE_HELLO_ADDRESSES = 64,
};

/* How often boxes were refused something, counted in shared memory before anybody sees the refusal: a command that
 * ended and was refused nothing costs no question to the gate. Boxes share numbers, so one that did not change says
 * more than one that did. */
enum { GATE_TALLIES = 4096 };
static inline unsigned gate_tally(const char *id) {
    unsigned hash = 5381;
    for (; *id; id++)
        hash = hash * 33 + (uint8_t)*id;
    return hash % GATE_TALLIES;
}

enum gate_kind {
    /* to the gate */
    GATE_HELLO = 1, /* the first message. memfd: {"resolvers","open_networks","host_ports","uid","gid","root"}; and a
                       memfd of GATE_TALLIES uint64_t */
    GATE_BOX,       /* id, generation, keep; memfd: {"levels":[...],"inspect":[...]}; sockets when the gate has none */
    GATE_DROP,      /* id */
    GATE_ANSWER,    /* id, value: the question, allow, generation: for how many ms such connections stay allowed */
    GATE_SEAL,      /* id, and the box's seal as a descriptor; none: there is no seal */
    GATE_COUNT,     /* id, or "" for all boxes */
    /* to the daemon */
    GATE_READY = 65, /* after GATE_HELLO */
    GATE_ACK,        /* id, generation, value: how many connections were cut; allow false: the box was refused */
    GATE_ROWS,       /* struct gate_row, value of them */
    GATE_WANT_SEAL,  /* id, name: the host */
    GATE_COUNTED,    /* id; one struct gate_count */
};

struct gate_message {
    uint16_t version, kind;
    uint8_t keep, allow;
    char id[17];
    char name[GATE_NAME_BYTES + 1];
    uint64_t generation, value;
};

enum gate_row_kind { GATE_ROW_CONNECT, GATE_ROW_DNS, GATE_ROW_HTTP, GATE_ROW_CUT, GATE_ROW_ASK, GATE_ROW_LOST };

/* One decision or one connection that has ended. Texts end with a NUL. */
struct gate_row {
    uint8_t kind;     /* enum gate_row_kind; LOST: count rows more than a box may have in a second */
    uint8_t denied;   /* refused, or (CUT) ended by us */
    uint8_t observed; /* it happened only because the policy observes */
    uint8_t protocol; /* enum gate_protocol; udp: GATE_OPAQUE */
    uint8_t udp;
    uint16_t port;
    char id[17];
    char name[GATE_NAME_BYTES + 1]; /* "": only the address is known. DNS: as asked for */
    char address[ADDRESS_BYTES];    /* dialed, else aimed at; "": none */
    char why[GATE_WHY_BYTES];       /* of the verdict, or what failed: "timeout", "unreachable" */
    char method[16];                /* HTTP: of the request; DNS: the type asked for */
    uint16_t status;                /* HTTP */
    uint64_t cgroup;                /* inode of the command's cgroup; 0: not known */
    uint64_t question;              /* ASK */
    uint64_t bytes_in, bytes_out;   /* to the box, from the box */
    uint64_t duration_us;
    uint64_t count; /* so many alike */
    uint64_t generation;
};

struct gate_count {
    uint64_t boxes, active, held;              /* now */
    uint64_t connections, denied, cut, failed; /* since the box was added */
    uint64_t dns, dns_denied, dns_budget, requests;
    uint64_t bytes_in, bytes_out, udp;
    uint64_t dial_us, dials;
};

#endif
