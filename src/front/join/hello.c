/* The message that a machine registers with, in each of its shapes: of the link, and of the text form flat or below "body".
 * Called by join/join.c. Invariant: whoever sends it may be anybody; nothing of it is used before it was looked at here. */
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/text.h"
#include "front/join/join.h"
#include "wire/spec.h"

/* One row a text: what it is called, where it goes, how long it may be, and what else it must be. */
struct hello_text {
    const char *name;
    size_t offset;
    size_t max;
    int (*check)(const char *name, const char *value, struct err *err); /* NULL: any text without controls */
};

static int check_path(const char *name, const char *value, struct err *err) {
    if (!*value || (path_normal(value) && strlen(value) <= LIMIT_PATH_BYTES))
        return 0;
    return err_set(err, ERR_INVALID, "register: '%s' must be an absolute path without '.', '..' and empty names", name);
}

static int check_isolation(const char *name, const char *value, struct err *err) {
    if (!*value || !strcmp(value, "jail") || !strcmp(value, "none"))
        return 0;
    return err_set(err, ERR_INVALID, "register: '%s' must be jail or none", name);
}

static int check_session(const char *name, const char *value, struct err *err) {
    size_t len = strlen(value);
    if (!len || (len == 32 && strspn(value, "0123456789abcdef") == len))
        return 0;
    return err_set(err, ERR_INVALID, "register: '%s' must be empty or 32 hex digits", name);
}

static int check_words(const char *name, const char *value, struct err *err) {
    if (strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_ ") == strlen(value))
        return 0;
    return err_set(err, ERR_INVALID, "register: '%s' must be words with a blank between", name);
}

#define TEXT(label, member, ...)                                                                                       \
    { .name = (label), .offset = offsetof(struct runner_hello, member), __VA_ARGS__ }
static const struct hello_text hello_texts[] = {
    TEXT("user_id", user, .max = LIMIT_USER_BYTES),
    TEXT("auth_token", token, .max = 1024),
    TEXT("name", name, .max = LIMIT_RUNNER_BYTES),
    TEXT("workspace", workspace, .max = LIMIT_PATH_BYTES, .check = check_path),
    TEXT("shell", shell, .max = LIMIT_MACHINE_TEXT, .check = check_path),
    TEXT("version", version, .max = LIMIT_MACHINE_TEXT),
    TEXT("isolation", isolation, .max = LIMIT_MACHINE_TEXT, .check = check_isolation),
    TEXT("platform", platform, .max = LIMIT_MACHINE_TEXT),
    TEXT("can", can, .max = LIMIT_MACHINE_TEXT, .check = check_words),
    TEXT("session", session, .max = LIMIT_MACHINE_TEXT, .check = check_session),
};
#define TEXTS (sizeof hello_texts / sizeof *hello_texts)

static bool harmful(const char *text, size_t len) {
    uint32_t character;
    for (size_t used; len; text += used, len -= used) {
        used = text_character(text, len, &character);
        if (!used || text_harmful(character))
            return true;
    }
    return false;
}

/* "/a/b/" is "/a/b": people write it so. */
static const char *hello_trim(struct arena *arena, const char *text, size_t len) {
    while (len > 1 && text[0] == '/' && text[len - 1] == '/')
        len--;
    return arena_copy(arena, text, len);
}

static int hello_text(const json_t *body, const struct hello_text *row, struct arena *arena, struct runner_hello *hello,
                      struct err *err) {
    const json_t *value = json_object_get(body, row->name);
    const char **to = (const char **)((char *)hello + row->offset);
    if (!value || json_is_null(value) || (json_is_array(value) && row->check == check_words))
        return 0;
    if (!json_is_string(value))
        return err_set(err, ERR_INVALID, "register: '%s' must be a text", row->name);
    size_t len = json_string_length(value);
    if (len > row->max || harmful(json_string_value(value), len))
        return err_set(err, ERR_INVALID, "register: '%s' has at most %zu bytes and no control characters", row->name,
                       row->max);
    *to = hello_trim(arena, json_string_value(value), len);
    return row->check ? row->check(row->name, *to, err) : 0;
}

/* Words: one text, or a list of texts. */
static int hello_can(const json_t *body, struct arena *arena, struct runner_hello *hello, struct err *err) {
    const json_t *list = json_object_get(body, "can"), *item;
    size_t i;
    if (!json_is_array(list))
        return 0;
    autobuf words = buf_max(LIMIT_MACHINE_TEXT);
    json_array_foreach(list, i, item) {
        const char *word = json_string_value(item);
        buf_puts(&words, i ? " " : "");
        buf_puts(&words, word ? word : "?");
    }
    if (words.failed)
        return err_set(err, ERR_INVALID, "register: 'can' has at most %u bytes", LIMIT_MACHINE_TEXT);
    hello->can = arena_copy(arena, words.len ? words.data : (const uint8_t *)"", words.len);
    return check_words("can", hello->can, err);
}

static int hello_number(const json_t *body, const char *name, uint64_t *ret_value, struct err *err) {
    const json_t *value = json_object_get(body, name);
    if (!value)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return err_set(err, ERR_INVALID, "register: '%s' must be a whole number", name);
    *ret_value = (uint64_t)json_integer_value(value);
    return 0;
}

/* What the link needs; a runner of the text form has habits instead. */
static int hello_link(const json_t *body, struct runner_hello *hello, struct err *err) {
    uint64_t version = 0;
    int failed = hello_number(body, "link", &version, err);
    if (!failed)
        failed = hello_number(body, "received", &hello->received, err);
    if (failed)
        return failed;
    if (version != LINK_VERSION)
        return err_set(err, ERR_UNSUPPORTED,
                       "register: this server speaks version %u of the link, the machine %llu; update the older one",
                       LINK_VERSION, (unsigned long long)version);
    hello->link = true;
    hello->text = json_is_true(json_object_get(body, "text"));
    if (!*hello->workspace)
        return err_set(err, ERR_INVALID, "register: 'workspace', an absolute path, is missing");
    return 0;
}

static int hello_read(const json_t *root, struct arena *arena, struct runner_hello *hello, struct err *err) {
    const char *type = json_string_value(json_object_get(root, "type"));
    const json_t *body = json_object_get(root, "body");
    if (!type || strcmp(type, "register") != 0)
        return err_set(err, ERR_INVALID, "the first message must be {\"type\":\"register\", ...}");
    hello->nested = json_is_object(body);
    if (!hello->nested)
        body = root;
    int failed = 0;
    for (size_t i = 0; !failed && i < TEXTS; i++)
        failed = hello_text(body, &hello_texts[i], arena, hello, err);
    if (!failed)
        failed = hello_can(body, arena, hello, err);
    if (failed)
        return failed;
    if (json_object_get(body, "link"))
        return hello_link(body, hello, err);
    hello->no_workspace = !*hello->workspace;
    if (hello->no_workspace)
        hello->workspace = WORKSPACE_PATH; /* until its first command tells */
    if (!*hello->shell)
        hello->shell = "/bin/sh";
    return 0;
}

int runner_hello_parse(const void *data, size_t len, struct arena *arena, struct runner_hello *ret_hello,
                       struct err *err) {
    struct runner_hello hello = {
        .workspace = "", .shell = "", .version = "", .isolation = "", .platform = "", .can = "", .session = ""};
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    int failed = json_is_object(root) ? hello_read(root, arena, &hello, err)
                                      : err_set(err, ERR_INVALID, "the first message must be one JSON object");
    json_decref(root);
    if (!failed)
        *ret_hello = hello;
    return failed;
}
