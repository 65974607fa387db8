/* The handshake's answer to a key: RFC 6455 1.3. Called by both ends; the command line has no cryptographic library. Invariant:
 * nothing secret may ever depend on this SHA-1. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "http/websocket.h"

static uint32_t sha1_left(uint32_t value, unsigned n) {
    return value << n | value >> (32 - n);
}

static void sha1_block(uint32_t state[5], const uint8_t *block) {
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = sha1_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 80; i++) {
        static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t choose = (v[1] & v[2]) | (~v[1] & v[3]), parity = v[1] ^ v[2] ^ v[3];
        uint32_t majority = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
        uint32_t mix = i < 20 ? choose : i >= 40 && i < 60 ? majority : parity;
        uint32_t next = sha1_left(v[0], 5) + mix + v[4] + constants[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = sha1_left(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

/* SHA-1 of a text of at most 119 bytes: all that the handshake needs, and the reason it is SHA-1. */
static void sha1_short(const char *text, uint8_t digest[20]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    size_t len = strlen(text), total = len < 56 ? 64 : 128;
    memcpy(blocks, text, len);
    blocks[len] = 0x80;
    blocks[total - 2] = (uint8_t)(len * 8 >> 8);
    blocks[total - 1] = (uint8_t)(len * 8);
    for (size_t i = 0; i < total; i += 64)
        sha1_block(state, blocks + i);
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void websocket_accept(const char *key, char ret_accept[32]) {
    char text[64];
    uint8_t digest[20];
    snprintf(text, sizeof text, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    sha1_short(text, digest);
    autobuf out = buf_max(31);
    text_base64(&out, digest, sizeof digest);
    snprintf(ret_accept, 32, "%.*s", (int)out.len, (const char *)out.data);
}
