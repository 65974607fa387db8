/* The message with which a machine registers, in each of its shapes: of the link, and of the text form, flat or below
 * "body". Called by join/join.c. Invariant: anyone may send it; nothing of it is used before it was checked here. */

#include "front/join/join.h"
#include "wire/spec.h"

enum hello_word {
    USER,
    TOKEN,
    NAME,
    WORKSPACE,
    SHELL,
    VERSION,
    ISOLATION,
    PLATFORM,
    CAN,
    SESSION,
    KIND,
    TEMPLATES,
    HELLO_WORDS
};

struct hello_body {
    struct row_text words[HELLO_WORDS];
    struct row_number link, received;
    struct row_number boxes, memory_mb;
    bool text;
};

#define HELLO_TEXT(label, word, bytes)                                                                                 \
    { .name = (label), .type = ROW_TEXT, .offset = offsetof(struct hello_body, words[word]), .max = (bytes) }
#define HELLO_NUMBER(label, member)                                                                                    \
    { .name = (label), .type = ROW_INT, .offset = offsetof(struct hello_body, member), .max = INT64_MAX }
static const struct row hello_rows[] = {
    HELLO_TEXT("user_id", USER, LIMIT_USER_BYTES),
    HELLO_TEXT("auth_token", TOKEN, 1024),
    HELLO_TEXT("name", NAME, LIMIT_RUNNER_BYTES),
    HELLO_TEXT("workspace", WORKSPACE, LIMIT_PATH_BYTES),
    HELLO_TEXT("shell", SHELL, LIMIT_MACHINE_TEXT),
    HELLO_TEXT("version", VERSION, LIMIT_MACHINE_TEXT),
    {.name = "isolation",
     .type = ROW_TEXT,
     .offset = offsetof(struct hello_body, words[ISOLATION]),
     .choices = "jail|none|"},
    HELLO_TEXT("platform", PLATFORM, LIMIT_MACHINE_TEXT),
    HELLO_TEXT("can", CAN, LIMIT_MACHINE_TEXT),
    HELLO_TEXT("session", SESSION, LIMIT_MACHINE_TEXT),
    {.name = "kind",
     .type = ROW_TEXT,
     .offset = offsetof(struct hello_body, words[KIND]),
     .choices = "machine|worker|"},
    HELLO_TEXT("templates", TEMPLATES, LIMIT_WORKER_TEMPLATES_BYTES),
    HELLO_NUMBER("link", link),
    HELLO_NUMBER("received", received),
    HELLO_NUMBER("boxes_max", boxes),
    HELLO_NUMBER("memory_mb", memory_mb),
    {.name = "text", .type = ROW_BOOL, .offset = offsetof(struct hello_body, text)},
    {.flags = ROW_LENIENT},
};

/* Makes "/a/b/" "/a/b", since people write both. INVALID: control characters. */
static int hello_word(struct row_text *word, const char *name, struct err *err) {
    size_t used = 0, len = word->len;
    uint32_t character;
    for (size_t at = 0; at < len; at += used) {
        used = text_character(word->data + at, len - at, &character);
        if (!used || text_harmful(character))
            return err_set(err, ERR_INVALID, "'%s' must have no control characters", name);
    }
    while (len > 1 && word->data[0] == '/' && word->data[len - 1] == '/')
        ((char *)word->data)[--len] = '\0'; /* our own copy, in the arena */
    word->len = len;
    if (!word->data)
        word->data = "";
    return 0;
}

/* Binds the body; "can" may be a list of words or one text. */
static int hello_bind(json_t *body, struct arena *arena, struct hello_body *ret_body, struct err *err) {
    json_t *list = json_object_get(body, "can"), *item;
    size_t i;
    if (json_is_array(list)) {
        autobuf words = buf_max(LIMIT_MACHINE_TEXT);
        json_array_foreach(list, i, item) {
            buf_puts(&words, i ? " " : "");
            buf_puts(&words, json_is_string(item) ? json_string_value(item) : "?");
        }
        if (words.failed)
            return err_set(err, ERR_INVALID, "'can' is longer than %u bytes", LIMIT_MACHINE_TEXT);
        json_object_set_new(body, "can", json_stringn((const char *)words.data, words.len));
    }
    int failed = rows_bind(body, hello_rows, arena, ret_body, err);
    for (int word = 0; word < HELLO_WORDS && !failed; word++)
        failed = hello_word(&ret_body->words[word], hello_rows[word].name, err);
    if (failed)
        return failed;
    const struct row_text *words = ret_body->words;
    for (int word = WORKSPACE; word <= SHELL; word++)
        if (words[word].len && !path_normal(words[word].data))
            return err_set(err, ERR_INVALID, "'%s' must be an absolute path without '.', '..' and empty names",
                           hello_rows[word].name);
    if (strspn(words[CAN].data, "abcdefghijklmnopqrstuvwxyz0123456789_ ") != words[CAN].len)
        return err_set(err, ERR_INVALID, "'can' must be words with a blank between");
    if (words[SESSION].len &&
        (words[SESSION].len != 32 || strspn(words[SESSION].data, "0123456789abcdef") != words[SESSION].len))
        return err_set(err, ERR_INVALID, "'session' must be empty or 32 hex digits");
    return 0;
}

static int hello_read(json_t *root, struct arena *arena, struct runner_hello *hello, struct err *err) {
    const char *type = json_string_value(json_object_get(root, "type"));
    json_t *body = json_object_get(root, "body");
    struct hello_body read = {0};
    if (!json_is_object(root))
        return err_set(err, ERR_INVALID, "the first message must be one JSON object");
    if (!type || strcmp(type, "register") != 0)
        return err_set(err, ERR_INVALID, "the first message must be {\"type\":\"register\", ...}");
    int failed = hello_bind(json_is_object(body) ? body : root, arena, &read, err);
    if (failed)
        return err_wrap(err, "register");
    *hello = (struct runner_hello){.link = read.link.has,
                                   .nested = json_is_object(body),
                                   .text = read.link.has && read.text,
                                   .user = read.words[USER].data,
                                   .token = read.words[TOKEN].data,
                                   .name = read.words[NAME].data,
                                   .workspace = read.words[WORKSPACE].data,
                                   .shell = read.words[SHELL].data,
                                   .version = read.words[VERSION].data,
                                   .isolation = read.words[ISOLATION].data,
                                   .platform = read.words[PLATFORM].data,
                                   .can = read.words[CAN].data,
                                   .session = read.words[SESSION].data,
                                   .worker = strcmp(read.words[KIND].data, "worker") == 0,
                                   .templates = read.words[TEMPLATES].data,
                                   .boxes_max = read.boxes.value,
                                   .memory_mb = read.memory_mb.value,
                                   .received = read.received.value};
    if (hello->link && read.link.value != LINK_VERSION)
        return err_set(err, ERR_UNSUPPORTED,
                       "register: this server speaks version %u of the link, the machine %llu; update the older one",
                       LINK_VERSION, (unsigned long long)read.link.value);
    if (hello->worker && !hello->link)
        return err_set(err, ERR_UNSUPPORTED, "register: a worker speaks the link");
    if (hello->link && !*hello->workspace)
        return err_set(err, ERR_INVALID, "register: 'workspace', an absolute path, is missing");
    hello->no_workspace = !*hello->workspace;
    if (hello->no_workspace)
        hello->workspace = WORKSPACE_PATH; /* until its first command reports its directory */
    if (!hello->link && !*hello->shell)
        hello->shell = "/bin/sh";
    return 0;
}

int runner_hello_parse(const void *data, size_t len, struct arena *arena, struct runner_hello *ret_hello,
                       struct err *err) {
    struct runner_hello hello;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    int failed = hello_read(root, arena, &hello, err);
    json_decref(root);
    if (!failed)
        *ret_hello = hello;
    return failed;
}
