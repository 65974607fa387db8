/* JSON answers that spill. Called by handlers whose answer may be long (exec, list, grep, glob, boxes).
 * Invariant: after the first spill an error can only cut the body off, never look like a whole answer. */
#include "front/answer.h"

#include "base/headtail.h"

#define ANSWER_SPILL_BYTES (64u << 10)
#define ANSWER_PIECE_BYTES (48u << 10) /* a multiple of 3: base64 of pieces joins without padding */
#define ANSWER_MAX_BYTES (1u << 20)    /* space for a spill, a piece with every byte escaped, and an entry */

void answer_init(struct answer *answer, struct http_request *request, int status) {
    *answer = (struct answer){.request = request, .status = status};
    buf_init(&answer->out, ANSWER_MAX_BYTES);
    json_init(&answer->json, &answer->out);
}

void answer_done(struct answer *answer) {
    buf_done(&answer->out);
}

static int answer_send(struct answer *answer) {
    if (answer->failed)
        return answer->failed;
    if (!answer->begun)
        answer->failed = http_reply_begin(answer->request, answer->status, "application/json", -1);
    answer->begun = true;
    if (!answer->failed)
        answer->failed = http_reply_write(answer->request, answer->out.data, answer->out.len);
    buf_clear(&answer->out);
    return answer->failed;
}

int answer_spill(struct answer *answer) {
    return answer->out.len < ANSWER_SPILL_BYTES ? answer->failed : answer_send(answer);
}

static void answer_piece(struct json *json, const uint8_t *data, size_t len, bool utf8) {
    if (utf8)
        json_strn(json, data, len);
    else
        json_bytes(json, data, len, false);
}

int answer_long(struct answer *answer, const uint8_t *data, size_t len, bool utf8) {
    if (len <= ANSWER_PIECE_BYTES) {
        answer_piece(&answer->json, data, len, utf8);
        return answer_spill(answer);
    }
    autobuf piece = buf_max(ANSWER_MAX_BYTES);
    bool first = true;
    while (len && !answer->failed) {
        size_t n = len < ANSWER_PIECE_BYTES ? len : ANSWER_PIECE_BYTES;
        if (utf8 && n < len)
            n -= headtail_partial(data, n);
        struct json json;
        buf_clear(&piece);
        json_init(&json, &piece);
        answer_piece(&json, data, n, utf8);
        data += n, len -= n;
        /* Pieces of one string: only the first keeps its opening quote, only the last its closing one. */
        if (first && answer->json.comma)
            buf_byte(&answer->out, ',');
        size_t skip = first ? 0 : 1;
        buf_put(&answer->out, piece.data + skip, piece.len - skip - (len ? 1 : 0));
        first = false;
        answer_spill(answer);
    }
    answer->json.comma = true;
    return answer->failed;
}

int answer_raw(struct answer *answer, const uint8_t *json, size_t len) {
    if (answer->json.comma)
        buf_byte(&answer->out, ',');
    while (len && !answer->failed) {
        size_t n = len < ANSWER_PIECE_BYTES ? len : ANSWER_PIECE_BYTES;
        buf_put(&answer->out, json, n);
        json += n, len -= n;
        answer_spill(answer);
    }
    answer->json.comma = true;
    return answer->failed;
}

int answer_end(struct answer *answer, int result, struct err *err) {
    if (!result && answer->out.failed)
        result = err_set(err, ERR_INTERNAL, "one entry of the answer is larger than %u bytes", ANSWER_MAX_BYTES);
    if (result)
        return result; /* front_handle answers, or cuts off a begun answer */
    if (!answer->begun)
        return http_reply(answer->request, answer->status, "application/json", answer->out.data, answer->out.len);
    answer_send(answer);
    return answer->failed ? answer->failed : http_reply_end(answer->request);
}

int answer_rows(struct http_request *request, int status, const struct row *rows, const void *from, struct err *err) {
    autoanswer answer;
    answer_init(&answer, request, status);
    rows_write(&answer.json, rows, from);
    return answer_end(&answer, 0, err);
}

void answer_list(struct answer *answer, struct http_request *request, const struct row *rows) {
    answer_init(answer, request, 200);
    answer->rows = rows;
    json_open(&answer->json, '{');
    json_put_open(&answer->json, rows->name, '[');
}

int answer_item(struct answer *answer, const void *item) {
    rows_write(&answer->json, answer->rows->fields, item);
    return answer_spill(answer);
}

int answer_list_end(struct answer *answer, const void *from, int result, struct err *err) {
    json_close(&answer->json, ']');
    rows_members(&answer->json, answer->rows + 1, from);
    json_close(&answer->json, '}');
    return answer_end(answer, result, err);
}
