/* Messages of the text form as bytes: requests out, answers in. Called by text/text.c; fuzzed. Invariant: what came is
 * bounded in length, depth and number of values before it is parsed. */
#include <string.h>

#include "backend/remote/text/call.h"
#include "base/text.h"

enum { DEPTH_MAX = 32, VALUES_MAX = 262144, TYPE_BYTES = 64, MESSAGE_BYTES = 300 };

static const struct {
    const char *name, *answer;
} types[] = {
    [TEXT_EXEC] = {"exec", "exec_result"},
    [TEXT_READ_FILE] = {"read_file", "file_content"},
    [TEXT_WRITE_FILE] = {"write_file", "ok"},
    [TEXT_STAT] = {"stat", "file_info"},
    [TEXT_READ_DIR] = {"read_dir", "dir_entries"},
    [TEXT_MKDIR_ALL] = {"mkdir_all", "ok"},
    [TEXT_REMOVE] = {"remove", "ok"},
    [TEXT_REMOVE_ALL] = {"remove_all", "ok"},
    [TEXT_STDIO_START] = {"stdio_start", "ok"},
    [TEXT_STDIO_WRITE] = {"stdio_write", NULL},
    [TEXT_STDIO_CLOSE] = {"stdio_close", "ok"},
};

const char *text_type_name(enum text_type type) {
    return types[type].name;
}

const char *text_type_answer(enum text_type type) {
    return types[type].answer;
}

void text_encode(struct buf *out, bool nested, const char *id, const char *type, const char *user,
                 const struct buf *members) {
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    if (id)
        json_put_str(&json, "id", id);
    json_put_str(&json, "type", type);
    json_put_str(&json, "user_id", user);
    if (nested) {
        json_put_open(&json, "body", '{');
    }
    if (members && members->len)
        json_raw(&json, (const char *)members->data, members->len);
    if (nested)
        json_close(&json, '}');
    json_close(&json, '}');
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
    *ret_answer = (struct text_answer){
        .root = root,
        .body = json_is_object(body) ? body : root,
        .type = type,
        .id = json_string_value(json_object_get(root, "id")),
        .cost = len,
    };
    if (ret_answer->id && !*ret_answer->id)
        ret_answer->id = NULL;
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

int64_t text_number(const struct text_answer *answer, const char *key, int64_t fallback) {
    json_t *value = json_object_get(answer->body, key);
    if (json_is_real(value)) {
        double real = json_real_value(value);
        return real > -9e15 && real < 9e15 ? (int64_t)real : fallback;
    }
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool text_truth(const struct text_answer *answer, const char *key) {
    return json_is_true(json_object_get(answer->body, key));
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

/* ---- errors ---- */

static const struct {
    const char *word;
    enum err_code code;
} words[] = {
    {"ENOENT", ERR_NOT_FOUND}, {"EEXIST", ERR_EXISTS},       {"ENOTEMPTY", ERR_EXISTS},   {"EPERM", ERR_DENIED},
    {"EACCES", ERR_DENIED},    {"EROFS", ERR_DENIED},        {"EISDIR", ERR_INVALID},     {"ENOTDIR", ERR_INVALID},
    {"EINVAL", ERR_INVALID},   {"ELOOP", ERR_INVALID},       {"EFBIG", ERR_TOO_LARGE},    {"ENAMETOOLONG", ERR_INVALID},
    {"ENOSPC", ERR_FULL},      {"EDQUOT", ERR_FULL},         {"EMFILE", ERR_LIMIT},       {"ETIMEDOUT", ERR_TIMEOUT},
    {"EIO", ERR_IO},           {"ENOTSUP", ERR_UNSUPPORTED}, {"ENOSYS", ERR_UNSUPPORTED},
};

int text_error(const struct text_answer *answer, struct err *err) {
    static const char unknown[] = "unknown request type";
    const char *word = text_member(answer, "code", NULL), *message = text_member(answer, "message", NULL);
    enum err_code code = ERR_IO;
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0)
            code = words[i].code;
    message = message && *message ? message : word ? word : "it did not say why";
    if (strncasecmp(message, unknown, sizeof unknown - 1) == 0)
        code = ERR_UNSUPPORTED;
    /* Runners of one kind have no word of their own for it. */
    if (code == ERR_IO && strstr(message, "not empty"))
        code = ERR_EXISTS;
    autobuf shown = buf_max(4 * MESSAGE_BYTES + 8);
    text_shown(&shown, message, strnlen(message, MESSAGE_BYTES));
    return err_set(err, code, "the machine says: %s", buf_cstr(&shown));
}
