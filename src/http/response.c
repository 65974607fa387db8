/* Answers of servers in boxes: the byte check of head_text.c, then llhttp, then the meaning of headers for framing,
 * stricter than either. Called by the port proxy and by the fuzzer. Invariant: the end of a body is known, or the
 * answer is refused. An ambiguous answer (length and chunks, two lengths, an unknown coding) is refused. */

#include "base/base.h"
#include "http/response.h"
#include "http/framing.h"

enum response_kind { KIND_NONE, KIND_LENGTH, KIND_CHUNKED, KIND_CLOSE };
enum { INTERIM_MOST = 16 };

struct response_state {
    struct buf head;
    struct head_scan scan;
    bool whole; /* the head was handed out */
    unsigned interim;
    enum response_kind kind;
    uint64_t left;
    struct chunk chunk;
};

struct response *response_new(void) {
    struct response *response = xcalloc(1, sizeof *response);
    struct response_state *state = xcalloc(1, sizeof *state);
    buf_init(&state->head, LIMIT_HEAD_BYTES + 1);
    head_scan_answer(&state->scan);
    response->state = state;
    return response;
}

void response_free(struct response *response) {
    if (!response)
        return;
    buf_done(&response->state->head);
    free(response->state);
    free(response);
}

/* Reads "HTTP/1.1 200" and then a space or the end of the line. */
static int response_status(const char *head, struct err *err) {
    bool fine = memcmp(head, "HTTP/1.", 7) == 0 && (head[7] == '1' || head[7] == '0') && head[8] == ' ';
    for (int i = 9; i < 12 && fine; i++)
        fine = head[i] >= '0' && head[i] <= '9';
    if (!fine || (head[12] != ' ' && head[12] != '\r') || head[9] < '1' || head[9] > '5')
        return err_set(err, ERR_PROTOCOL, "the server in the box does not answer with HTTP/1.1");
    return 0;
}

static int response_framing(struct response *response, bool old, bool is_head, struct err *err) {
    struct response_state *state = response->state;
    uint64_t length = 0;
    unsigned lengths = 0, codings = 0;
    response->last = old;
    for (size_t i = 0; i < response->count; i++) {
        const struct http_field *field = &response->fields[i];
        if (strcmp(field->name, "content-length") == 0) {
            lengths++;
            if (!text_u64(field->value, INT64_MAX, &length))
                return err_set(err, ERR_PROTOCOL, "the server in the box sent a Content-Length that is not a number");
        } else if (strcmp(field->name, "transfer-encoding") == 0) {
            codings++;
            if (strcasecmp(field->value, "chunked") != 0 || old)
                return err_set(err, ERR_PROTOCOL, "the server in the box sent a Transfer-Encoding other than chunked");
        } else if (strcmp(field->name, "connection") == 0 && http_list_has(field->value, "close")) {
            response->last = true;
        }
    }
    if (lengths > 1 || codings > 1 || (lengths && codings))
        return err_set(err, ERR_PROTOCOL, "the server in the box contradicts itself about the length of its answer");
    response->length = lengths ? (int64_t)length : -1;
    state->left = length;
    state->chunk = (struct chunk){0};
    if (is_head || response->status < 200 || response->status == 204 || response->status == 304)
        state->kind = KIND_NONE;
    else
        state->kind = codings ? KIND_CHUNKED : lengths ? KIND_LENGTH : KIND_CLOSE;
    response->last |= state->kind == KIND_CLOSE;
    return 0;
}

static int response_parse(struct response *response, bool is_head, struct err *err) {
    struct response_state *state = response->state;
    struct head_words words = {.fields = response->fields};
    char *head = (char *)state->head.data;
    TRY(state->head.len > 13 ? response_status(head, err)
                             : err_set(err, ERR_PROTOCOL, "the server in the box does not answer with HTTP"));
    bool old = head[7] == '0';
    head_words(true, head, state->head.len, &words);
    if (words.reason)
        return err_set(err, ERR_PROTOCOL, "the server in the box sent a malformed answer: %s", words.reason);
    response->count = words.count;
    response->status = words.status;
    int result = response_framing(response, old, is_head, err);
    if (result == 0 && response->status < 200 && response->status != 101 && ++state->interim > INTERIM_MOST)
        result = err_set(err, ERR_PROTOCOL, "the server in the box sent more than %d interim answers", INTERIM_MOST);
    return result < 0 ? result : 1;
}

int response_head(struct response *response, const void *data, size_t len, bool is_head, size_t *ret_used,
                  struct err *err) {
    struct response_state *state = response->state;
    if (state->whole) { /* the previous one was an interim answer */
        state->whole = false;
        buf_clear(&state->head);
        head_scan_answer(&state->scan);
    }
    size_t before = state->head.len, room = LIMIT_HEAD_BYTES + 1 - before;
    buf_put(&state->head, data, len < room ? len : room);
    int end = head_scan(&state->scan, (const char *)state->head.data, state->head.len);
    if (end == -431)
        return err_set(err, ERR_PROTOCOL, "the server in the box sent a head of more than %u bytes or %u headers",
                       LIMIT_HEAD_BYTES, LIMIT_HEADERS);
    if (end < 0)
        return err_set(
            err, ERR_PROTOCOL,
            "the server in the box sent a malformed answer: it has a byte that HTTP/1.1 does not allow there");
    *ret_used = end ? (size_t)end - before : len;
    if (end == 0)
        return 0;
    state->head.len = (size_t)end;
    state->whole = true;
    return response_parse(response, is_head, err);
}

const char *response_field(const struct response *response, const char *lower_case_name) {
    for (size_t i = 0; i < response->count; i++)
        if (strcmp(response->fields[i].name, lower_case_name) == 0)
            return response->fields[i].value;
    return NULL;
}

ssize_t response_body(struct response *response, const void *data, size_t len, const void **ret_data, size_t *ret_len,
                      struct err *err) {
    struct response_state *state = response->state;
    *ret_data = data;
    *ret_len = 0;
    if (response_done(response) || !len)
        return 0;
    if (state->kind == KIND_CHUNKED) {
        const char *content;
        ssize_t used = chunk_take(&state->chunk, data, len, &content, ret_len);
        *ret_data = content;
        return used < 0 ? err_set(err, ERR_PROTOCOL, "the server in the box sent a malformed chunk") : used;
    }
    *ret_len = state->kind == KIND_LENGTH && len > state->left ? (size_t)state->left : len;
    if (state->kind == KIND_LENGTH)
        state->left -= *ret_len;
    return (ssize_t)*ret_len;
}

uint64_t response_left(const struct response *response) {
    return response->state->kind == KIND_LENGTH ? response->state->left : 0;
}

void response_skip(struct response *response, uint64_t bytes) {
    response->state->left -= bytes < response->state->left ? bytes : response->state->left;
}

bool response_done(const struct response *response) {
    const struct response_state *state = response->state;
    return state->kind == KIND_NONE || (state->kind == KIND_LENGTH && !state->left) ||
           (state->kind == KIND_CHUNKED && chunk_done(&state->chunk));
}

int response_end(const struct response *response, struct err *err) {
    if (response_done(response) || response->state->kind == KIND_CLOSE)
        return 0;
    return err_set(err, ERR_PROTOCOL, "the server in the box closed the connection in the middle of its answer");
}
