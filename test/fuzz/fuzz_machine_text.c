/* Messages of a machine of the text form, one after another (cut at 0x1e), into a connection that has asked nothing, and what
 * is read out of each as if it were an answer. A message either counts for nothing or ends the connection. */
#include <stdint.h>
#include <string.h>

#include "backend/remote/text/call.h"
#include "wire/piece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_answer(const uint8_t *data, size_t len) {
    struct text_answer answer;
    struct err err = {0};
    if (text_decode(data, len, &answer, &err) < 0) {
        if (err.code != ERR_PROTOCOL)
            abort();
        return;
    }
    struct err said;
    if (text_error(&answer, &said) >= 0 || !said.code || strlen(said.text) >= sizeof said.text)
        abort();
    size_t text_len = 0;
    const char *text = text_member(&answer, "data", &text_len);
    if (text && memchr(text, 0, text_len) == text + text_len)
        abort();
    (void)text_number(&answer, "size");
    json_decref(answer.root);
}

static void fuzz_pieces(const uint8_t *data, size_t len) {
    struct pieces pieces;
    struct err err = {0};
    pieces_init(&pieces);
    if (pieces_feed(&pieces, data, len, &err) < 0 && err.code != ERR_PROTOCOL)
        abort();
    if (pieces.ready.failed || pieces.raw.failed || pieces.held_count > PIECES_MOST)
        abort();
    pieces_done(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_pieces(data, size);
    struct machine_hello hello = {.user = "u", .name = "m", .workspace = "/w", .shell = "/bin/sh"};
    struct machine_text_options options = {.nested = size & 1};
    struct machine_text *text = machine_text_new(&hello, &options);
    struct err err = {0};
    while (size > 0) {
        const uint8_t *end = memchr(data, 0x1e, size);
        size_t len = end ? (size_t)(end - data) : size;
        fuzz_answer(data, len);
        int r = machine_text_take(text, data, len, &err);
        if (r < 0 && err.code != ERR_PROTOCOL)
            abort();
        if (r < 0 || !end)
            break;
        data += len + 1;
        size -= len + 1;
    }
    machine_text_unref(text);
    return 0;
}
