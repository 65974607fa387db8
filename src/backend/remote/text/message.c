/* Messages of the text form as bytes: requests out, answers in. Called by text/text.c; fuzzed. Invariant: input is
 * bounded in length, depth and number of values before it is parsed. */
#include "base/base.h"
#include "backend/remote/text/call.h"
#include "http/client/foreign.h"

enum { DEPTH_MAX = 32, VALUES_MAX = 262144, TYPE_BYTES = 64, MESSAGE_BYTES = 300 };

int text_encode(const struct machine_text *text, const char *id, const char *type, const struct buf *members,
                struct buf *out, struct err *err) {
    struct json json = json_begin(out);
    json_put_some(&json, "id", id);
    json_put_str(&json, "type", type);
    json_put_str(&json, "user_id", text->user);
    if (text->options.nested)
        json_put_open(&json, "body", '{');
    if (members && members->len)
        json_raw(&json, (const char *)members->data, members->len);
    if (text->options.nested)
        json_close(&json, '}');
    json_close(&json, '}');
    if (out->failed || (members && members->failed))
        return err_set(err, ERR_TOO_LARGE, "the request is larger than the %u bytes that one message holds",
                       LIMIT_TEXT_MESSAGE_BYTES);
    return 0;
}

int text_decode(const void *data, size_t len, struct text_answer *ret_answer, struct err *err) {
    if (len > LIMIT_TEXT_MESSAGE_BYTES)
        return err_set(err, ERR_PROTOCOL, "a message of %zu bytes: at most %u", len, LIMIT_TEXT_MESSAGE_BYTES);
    if (json_measure(data, len, DEPTH_MAX, VALUES_MAX) != JSON_FITS)
        return err_set(err, ERR_PROTOCOL, "a message is deeper than %d or has more than %d values", DEPTH_MAX,
                       VALUES_MAX);
    json_error_t why;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, &why);
    if (!root)
        return err_set(err, ERR_PROTOCOL, "a message is not JSON: %.100s", why.text);
    const char *type = json_is_object(root) ? json_string_value(json_object_get(root, "type")) : NULL;
    if (!type || strlen(type) > TYPE_BYTES) {
        json_decref(root);
        return err_set(err, ERR_PROTOCOL, "a message is not an object with a type");
    }
    json_t *body = json_object_get(root, "body");
    const char *id = json_string_value(json_object_get(root, "id"));
    *ret_answer = (struct text_answer){.root = root,
                                       .body = json_is_object(body) ? body : root,
                                       .type = type,
                                       .id = id && *id ? id : NULL,
                                       .cost = len};
    return 0;
}

const char *text_member(const struct text_answer *answer, const char *key, size_t *ret_len) {
    json_t *value = json_object_get(answer->body, key);
    if (!json_is_string(value))
        return NULL;
    if (ret_len)
        *ret_len = json_string_length(value);
    return json_string_value(value);
}

int64_t text_number(const struct text_answer *answer, const char *key) {
    double value = json_number_value(json_object_get(answer->body, key));
    return value > -9e15 && value < 9e15 ? (int64_t)value : 0;
}

int text_output(const struct text_answer *answer, const char *key, struct buf *out, struct err *err) {
    size_t len = 0;
    const char *data = text_member(answer, key, &len), *encoding = text_member(answer, "encoding", NULL);
    if (!data)
        return 0;
    if (!encoding || strcmp(encoding, "base64") != 0)
        buf_put(out, data, len);
    else if (!text_unbase64(out, data, len))
        return err_set(err, ERR_PROTOCOL, "the machine's '%s' is not base64, as it says", key);
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the machine's '%s' is too long", key) : 0;
}

int text_error(const struct text_answer *answer, struct err *err) {
    const char *word = text_member(answer, "code", NULL), *message = text_member(answer, "message", NULL);
    int number = word ? 133 : 0; /* the last errno of Linux; 0: not a word of that kind */
    while (number && strcmp(word, strerrorname_np(number) ?: "") != 0)
        number--;
    enum err_code code = word && !strcmp(word, "ENOTSUP") ? ERR_UNSUPPORTED : err_from_errno(number);
    message = message && *message ? message : word ? word : "it did not say why";
    code = foreign_judge(FOREIGN_RUNNER, (int)code, message, NULL, NULL) ?: code;
    autobuf shown = buf_max(4 * MESSAGE_BYTES + 8);
    text_shown(&shown, message, strnlen(message, MESSAGE_BYTES));
    return err_set(err, code, "the machine says: %s", buf_cstr(&shown));
}
