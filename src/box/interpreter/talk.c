/* Talking to a driver: head of python.py. Used by interpreter.c. Invariants:
 *
 * 1. A line is one INPUT call, and one frame: lines of several requests never mix.
 * 2. A call that waits reads the process's ring from where it was before it asked, and says how much it has read: so a
 *    ring cannot run away from it.
 * 3. What a driver writes is the box's word: bounded, parsed with limits, and only ever shown to the box's own
 *    clients. */
#include "box/interpreter/talk.h"

#include "base/base.h"
#include "base/json.h"

enum {
    PIECE_BYTES = 45000,    /* of a request; as base64 it fits a frame */
    LINE_BYTES = 256 << 10, /* of a driver: its pieces are half of it */
    NEXT_BYTES = 128 << 10, /* read, until the driver hears of it: a third of what it lets be unread */
    READ_BYTES = 256 << 10, /* of the ring at once */
    GRACE_MS = 3000,        /* beyond its own time, until it is killed; between two pieces of its answer */
    STOP_MS = 500,          /* of a driver that was asked to stop, until it gets a signal */
    LISTEN_MS = 3600000,    /* at once */
};

/* With a number, unless it is 0. A failure does not matter: the process is gone then. */
static void interpreter_talk_note(struct talk *talk, const char *word, size_t number) {
    const char *line = text_make(96, number ? "%s %s %zu\n" : "%s %s\n", word, talk->id, number);
    interpreter_session_say(talk->box, talk->session, line, strlen(line), ERR_IGNORED);
}

static int interpreter_talk_send(struct talk *talk, const char *last, const struct buf *body, struct err *err) {
    int failed = 0;
    for (size_t at = 0; !failed && at < body->len; at += PIECE_BYTES) {
        size_t left = body->len - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
        autobuf line = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        buf_printf(&line, "%s %s ", n < left ? "part" : last, talk->id);
        text_base64(&line, body->data + at, n);
        buf_byte(&line, '\n');
        failed = interpreter_session_say(talk->box, talk->session, (const char *)line.data, line.len, err);
    }
    return failed;
}

static bool interpreter_talk_word(const struct talk *talk, const char *word, size_t *ret_len) {
    char begin[64];
    size_t len = (size_t)snprintf(begin, sizeof begin, "%s %s", word, talk->id);
    *ret_len = len + 1;
    return talk->line.len >= len && !memcmp(talk->line.data, begin, len) &&
           (talk->line.len == len || talk->line.data[len] == ' ');
}

static int interpreter_talk_begun(struct talk *talk, size_t len) {
    char number[24] = {0};
    uint64_t count = 0;
    if (talk->line.len > len && talk->line.len - len < sizeof number)
        memcpy(number, talk->line.data + len, talk->line.len - len);
    text_u64(number, INT64_MAX, &count);
    talk->begun = true;
    talk->deadline_ms = talk->own_ms ? clock_ms() + talk->own_ms + GRACE_MS : UINT64_MAX;
    return talk->sink ? talk->sink->begun(talk->sink->user, (int64_t)count) : 0;
}

/* One output of a live cell, whole. */
static int interpreter_talk_item(struct talk *talk, struct err *err) {
    struct interpreter_result item = {.texts = {buf_max(1), buf_max(1)}}; /* no room: the output has them itself */
    struct interpreter_output output;
    json_t *value = NULL;
    int failed = interpreter_talk_parse(talk, &value, err);
    buf_clear(&talk->answer);
    if (failed)
        return failed;
    item.answer = value;
    if (interpreter_output_take(&item, value, &output) && talk->sink)
        failed = talk->sink->output(talk->sink->user, &output);
    interpreter_result_done(&item);
    if (failed && !err->code)
        err_set(err, -failed, "the client reads no more");
    return failed;
}

/* Lines that are not for us are for other callers, or a program's. */
static int interpreter_talk_line(struct talk *talk, struct err *err) {
    size_t len;
    if (interpreter_talk_word(talk, "begin", &len))
        return interpreter_talk_begun(talk, len);
    talk->done = interpreter_talk_word(talk, "done", &len);
    bool item = !talk->done && interpreter_talk_word(talk, "item", &len);
    if ((!talk->done && !item && !interpreter_talk_word(talk, "part", &len)) || len > talk->line.len)
        return 0;
    size_t before = talk->answer.cap;
    talk->taken += talk->line.len;
    buf_put(&talk->answer, talk->line.data + len, talk->line.len - len);
    if (talk->answer.failed)
        return err_set(err, ERR_PROTOCOL, "the session's answer is larger than %d bytes", TALK_ANSWER_BYTES);
    if (talk->done || talk->taken >= NEXT_BYTES) { /* there is room for more */
        interpreter_talk_note(talk, "next", talk->taken);
        talk->taken = 0;
    }
    if (talk->deadline_ms != UINT64_MAX && clock_ms() + GRACE_MS > talk->deadline_ms)
        talk->deadline_ms = clock_ms() + GRACE_MS;
    int failed = talk->caller->hold(talk->caller->user, talk->answer.cap - before, err);
    return failed || !item ? failed : interpreter_talk_item(talk, err);
}

static int interpreter_talk_take(struct talk *talk, const uint8_t *data, size_t len, struct err *err) {
    while (len && !talk->done) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        if (talk->line.len + n > LINE_BYTES)
            talk->skipping = true;
        else
            buf_put(&talk->line, data, n);
        data += n + (end != NULL);
        len -= n + (end != NULL);
        if (!end)
            return 0;
        int failed = talk->skipping ? 0 : interpreter_talk_line(talk, err);
        buf_clear(&talk->line);
        talk->skipping = false;
        if (failed)
            return failed;
    }
    return 0;
}

/* enum outcome, or negative. */
static int interpreter_talk_listen(struct talk *talk, struct err *err) {
    while (!talk->done) {
        uint64_t now = clock_ms(), left = talk->deadline_ms - now;
        struct output_slice slice;
        if (now >= talk->deadline_ms)
            return STUCK;
        autobuf out = buf_max(READ_BYTES);
        int failed = box_output(talk->box, talk->session->pid, STREAM_STDOUT, talk->offset,
                                left < LISTEN_MS ? left : LISTEN_MS, talk->caller->watch, &out, &slice, err);
        if (failed == -ERR_NOT_FOUND)
            return DIED;
        if (failed)
            return failed;
        /* Before our turn others print, as fast as they are read; of our own turn never more than fits is unread. */
        if (slice.first > talk->offset && talk->begun)
            return err_set(err, ERR_IO,
                           "what the session answered was lost: its programs print too much to the same stream");
        talk->skipping |= slice.first > talk->offset;
        talk->offset = slice.next;
        failed = interpreter_talk_take(talk, out.data, out.len, err);
        if (failed)
            return failed;
        if (!talk->done && !out.len && !slice.running)
            return DIED;
    }
    return ANSWERED;
}

int interpreter_talk_ask(struct talk *talk, const char *word, const struct buf *body, uint64_t wait_ms, uint64_t own_ms,
                         struct err *err) {
    talk->offset = talk->session->printed;
    talk->deadline_ms = wait_ms == UINT64_MAX ? wait_ms : clock_ms() + wait_ms;
    talk->own_ms = own_ms;
    talk->line = buf_max(LINE_BYTES);
    talk->answer = buf_max(TALK_ANSWER_BYTES);
    int outcome = interpreter_random_name(talk->id, err) ?: interpreter_talk_send(talk, word, body, err);
    if (outcome == -ERR_GONE || outcome == -ERR_NOT_FOUND)
        return DIED;
    return outcome ? outcome : interpreter_talk_listen(talk, err);
}

static int interpreter_talk_hold(void *, size_t, struct err *) {
    return 0;
}

void interpreter_talk_stop(struct talk *talk) {
    static const struct interpreter_caller nobody = {.watch = -1, .hold = interpreter_talk_hold};
    struct err ignored = {0};
    talk->caller = &nobody;
    talk->sink = NULL;
    talk->own_ms = GRACE_MS;
    buf_clear(&talk->answer);
    buf_clear(&talk->line);
    interpreter_talk_note(talk, "stop", 0);
    talk->deadline_ms = clock_ms() + STOP_MS;
    int outcome = interpreter_talk_listen(talk, &ignored);
    if (outcome != STUCK || !talk->begun) /* without a turn it is forgotten when that comes */
        return;
    box_signal(talk->box, talk->session->pid, SIGINT, &ignored); /* a driver that hears nothing while code runs */
    talk->deadline_ms = clock_ms() + GRACE_MS;
    if (interpreter_talk_listen(talk, &ignored) == STUCK)
        interpreter_end_wait(talk->box, talk->session, &ignored);
}

void interpreter_talk_done(struct talk *talk) {
    buf_done(&talk->line);
    buf_done(&talk->answer);
}

int interpreter_talk_parse(struct talk *talk, json_t **ret_value, struct err *err) {
    const char *data = (const char *)talk->answer.data;
    json_error_t why = {.text = "it is too large"};
    json_t *value = NULL;
    if (json_measure(data, talk->answer.len, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES) == JSON_FITS)
        value = json_loadb(data, talk->answer.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (json_is_object(value)) {
        *ret_value = value;
        return 0;
    }
    json_decref(value);
    return err_set(err, ERR_PROTOCOL, "the session's answer cannot be read: %.200s",
                   value ? "it is not an object" : why.text);
}
