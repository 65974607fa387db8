/* A runner's bytes, any bytes: sorted to calls as the daemon does it, and decoded as the verbs do it. The first byte of
 * the input says whether an honest HELLO comes before; then each chunk is {u8 action, u16 length, bytes}. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/limits.h"
#include "wire/frame.h"
#include "wire/demux.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS = 4, ACTION_PASS_FD = 1, ACTION_CONSUME = 2, ACTION_GIVE_UP = 4, ACTION_OPEN = 8, ACTION_FRAME = 16 };

static void notify(struct call *call) {
    assert(!call->closed);
    assert(call->window <= LIMIT_CREDIT_BYTES);
    assert(call->in.len <= (size_t)LIMIT_CREDIT_BYTES * (RECORD_HEAD_BYTES + 1) + 3 * LIMIT_FRAME_PAYLOAD_BYTES);
}

static void decode(const uint8_t *data, size_t len) {
    struct err err;
    struct field field;
    struct view view = view_of(data, len), record;
    while (field_next(&view, &field, &err) > 0)
        assert(field.data + field.len <= data + len);
    view = view_of(data, len);
    while (item_next(&view, &record, &err) > 0)
        while (field_next(&record, &field, &err) > 0)
            assert(field.data + field.len <= data + len);
    autoarena arena = ARENA_EMPTY;
    struct fields *fields = arena_alloc(&arena, sizeof *fields);
    fields_parse(view_of(data, len), &arena, fields, &err);
}

/* Takes what a call has, as call_next would. */
static void consume(struct call *call) {
    size_t at = 0;
    while (at < call->in.len) {
        struct view view = view_of(call->in.data + at, call->in.len - at);
        uint8_t kind = view_u8(&view);
        view_u8(&view);
        uint32_t len = view_u32(&view);
        const uint8_t *bytes = view_take(&view, len);
        assert(!view.bad);
        if (kind == EVENT_DATA || kind == EVENT_ITEM)
            call->window += call->ended ? 0 : len;
        decode(bytes, len);
        at = call->in.len - view.len;
    }
    assert(at == call->in.len);
    buf_clear(&call->in);
    call->tail = SIZE_MAX;
}

static int feed(struct demux *demux, const uint8_t *data, size_t len, int pass_fd) {
    struct err err;
    do {
        size_t room;
        uint8_t *at = demux_room(demux, &room);
        size_t n = len < room ? len : room;
        memcpy(at, data, n);
        int r = demux_feed(demux, n, pass_fd, &err);
        if (r < 0)
            return r;
        pass_fd = -1;
        data += n;
        len -= n;
    } while (len > 0);
    return 0;
}

static void greet(struct demux *demux) {
    autobuf hello = buf_max(256);
    size_t begin = frame_begin(&hello, FRAME_HELLO, 0, 0);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    frame_end(&hello, begin);
    int r = feed(demux, hello.data, hello.len, -1);
    assert(r == 0);
    (void)r;
}

static int act(struct demux *demux, struct call *calls[CALLS], uint8_t action, const uint8_t *data, size_t len) {
    struct call **slot = &calls[action >> 6];
    if ((action & ACTION_CONSUME) && *slot)
        consume(*slot);
    if ((action & ACTION_GIVE_UP) && *slot) {
        demux_give_up(demux, *slot);
        *slot = NULL;
    }
    if ((action & ACTION_OPEN) && !*slot)
        *slot = demux_add(demux);
    int pass_fd = action & ACTION_PASS_FD ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (!(action & ACTION_FRAME) || len == 0)
        return feed(demux, data, len, pass_fd);
    /* A frame with a good head, so that the fuzzer need not learn lengths first. */
    autobuf frame = buf_max(2 * LIMIT_FRAME_PAYLOAD_BYTES);
    frame_put(&frame, data[0] % 12, *slot ? (*slot)->id : 1, len > 1 ? data[1] & 0x83 : 0, data + (len > 1 ? 2 : 1),
              len > 1 ? len - 2 : 0);
    return feed(demux, frame.data, frame.len, pass_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    decode(data, size);
    struct demux demux;
    demux_init(&demux, data[0] & 2 ? WIRE_PASS_ROOT : WIRE_PASS_NOTHING, notify);
    if (data[0] & 1)
        greet(&demux);
    struct call *calls[CALLS] = {demux_add(&demux), demux_add(&demux)};
    struct view view = view_of(data + 1, size - 1);
    while (view.len > 3) {
        uint8_t action = view_u8(&view);
        size_t len = view_u16(&view);
        len = len < view.len ? len : view.len;
        const uint8_t *chunk = view_take(&view, len);
        if (act(&demux, calls, action, chunk, len) < 0)
            break;
        demux_rest(&demux);
    }
    for (int i = 0; i < CALLS; i++)
        if (calls[i])
            demux_give_up(&demux, calls[i]);
    demux_done(&demux);
    return 0;
}
