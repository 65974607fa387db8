/* Packed bodies: what comes out does not depend on where they are cut; several members are one content; damage and an
 * early end are errors; what swells is given on in pieces. */
#include "http/gunzip.h"

#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "tap.h"

struct packed {
    const uint8_t *data;
    size_t len, step;
};

static ssize_t packed_read(void *user, void *data, size_t size, struct err *err) {
    (void)err;
    struct packed *packed = user;
    size_t n = packed->len < packed->step ? packed->len : packed->step;
    n = n < size ? n : size;
    memcpy(data, packed->data, n);
    packed->data += n;
    packed->len -= n;
    return (ssize_t)n;
}

static void pack(const void *data, size_t len, struct buf *out) {
    z_stream stream = {0};
    deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    size_t room = deflateBound(&stream, len) + 64;
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)len;
    stream.next_out = buf_reserve(out, room);
    stream.avail_out = (uInt)room;
    deflate(&stream, Z_FINISH);
    out->len += room - stream.avail_out;
    deflateEnd(&stream);
}

/* All of it, in pieces of `size`: how many bytes, or the error. */
static ssize_t unpack(const struct buf *packed, size_t len, size_t step, size_t size, struct buf *out,
                      struct err *err) {
    struct packed source = {.data = packed->data, .len = len, .step = step};
    struct gunzip *gunzip = gunzip_new(packed_read, &source);
    uint8_t piece[4096];
    ssize_t n;
    while ((n = gunzip_read(gunzip, piece, size, err)) > 0)
        buf_put(out, piece, (size_t)n);
    gunzip_free(gunzip);
    return n < 0 ? n : (ssize_t)out->len;
}

int main(void) {
    struct err err = {0};
    static const char text[] = "a text that is packed, and packed, and packed again";
    autobuf packed = buf_max(1 << 20);
    pack(text, sizeof text, &packed);
    bool same = true;
    for (size_t step = 1; step < 40; step += 3) {
        autobuf out = buf_max(4096);
        same &= unpack(&packed, packed.len, step, step * 7, &out, &err) == sizeof text &&
                !memcmp(out.data, text, sizeof text);
    }
    ok(same, "it comes out, however it is cut");

    bool cut = true;
    for (size_t len = 0; len < packed.len; len++) {
        autobuf out = buf_max(4096);
        cut &= unpack(&packed, len, 16, 64, &out, &err) == -ERR_INVALID;
    }
    ok(cut, "what ends early is an error, wherever it ends");

    size_t one = packed.len;
    pack("second", 6, &packed);
    autobuf both = buf_max(4096);
    ok(unpack(&packed, packed.len, 5, 64, &both, &err) == sizeof text + 6, "two members are one content");

    buf_put(&packed, "garbage", 7);
    autobuf more = buf_max(4096);
    ok(unpack(&packed, packed.len, 64, 64, &more, &err) == -ERR_INVALID, "what follows has to be gzip, too");

    packed.data[one / 2] ^= 0x40;
    autobuf damaged = buf_max(4096);
    ok(unpack(&packed, one, 64, 64, &damaged, &err) == -ERR_INVALID, "damage is an error");

    autobuf zeros = buf_max(8 << 20), bomb = buf_max(16 << 20), large = buf_max(16 << 20);
    memset(buf_reserve(&zeros, 8 << 20), 0, 8 << 20);
    pack(zeros.data, 8 << 20, &bomb);
    ok(bomb.len < 16384 && unpack(&bomb, bomb.len, 4096, 4096, &large, &err) == 8 << 20, "what swells comes in pieces");
    return tap_end();
}
