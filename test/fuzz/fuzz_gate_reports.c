/* Any bytes as what a gate that was taken over sends to the daemon: it is refused, or every row that goes on has texts that
 * end and kinds that exist, and no box is acknowledged under a policy that it was never sent. */
#include <assert.h>
#include <stdlib.h>

#include "../../src/backend/gate/gate.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_row(void *user, const struct gate_row *row) {
    (void)user;
    assert(strlen(row->id) < sizeof row->id && strlen(row->name) < sizeof row->name &&
           strlen(row->address) < sizeof row->address && strlen(row->why) < sizeof row->why &&
           strlen(row->method) < sizeof row->method && row->kind <= GATE_ROW_LOST && row->protocol <= GATE_HTTP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint16_t kinds[] = {GATE_READY, GATE_ACK, GATE_ROWS, GATE_COUNTED, GATE_HELLO, 999};
    struct gate gate = {.hooks = {.event = fuzz_row},
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .socket = -1};
    struct gate_box box = {
        .id = "0123456789abcdef", .generation = 7, .sockets = {.tcp = -1, .dns_udp = -1, .dns_tcp = -1, .diag = -1}};
    struct gate_message message = {0};
    gate.boxes = &box;
    if (size < 2)
        return 0;
    size_t head = size - 2 < sizeof message ? size - 2 : sizeof message;
    memcpy(&message, data + 2, head);
    if (data[0] & 1) { /* mostly right, so that the rest is reached */
        message.version = GATE_WIRE_VERSION;
        message.kind = kinds[data[1] % (sizeof kinds / sizeof *kinds)];
        message.id[sizeof message.id - 1] = message.name[sizeof message.name - 1] = 0;
    }
    if (data[0] & 2)
        memcpy(message.id, box.id, sizeof message.id);
    if (message.kind == GATE_WANT_SEAL) /* a thread each */
        return 0;
    size_t len = size - 2 - head;
    if (data[0] & 4)
        message.value = len / sizeof(struct gate_row);
    uint8_t *rest = malloc(len ? len : 1); /* of just that size: an over-read shows */
    memcpy(rest, data + 2 + head, len);
    gate_take(&gate, &message, rest, len);
    free(rest);
    assert(box.acked == 0 || box.acked == box.generation);
    return 0;
}
