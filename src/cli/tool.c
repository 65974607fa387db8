/* `cubby tool` and `cubby bang`: calls an agent tool as an agent would, or lists the tools. Invariant: output of a box is shown on a
 * terminal without control characters. */

#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "http/client/client.h"

#define TOOL_THREAD "cli" /* the default thread */

struct tool_values {
    const char *box, *thread;
    bool json;
};

const struct row tool_options[] = {
    OPTION("thread", 't', TEXT, struct tool_values, thread, "TEXT",
           "use the box of this thread, made if needed (default: " TOOL_THREAD ")"),
    OPTION("box", 'b', TEXT, struct tool_values, box, "ID", "use this box instead"),
    OPTION("json", 0, BOOL, struct tool_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

/* ---- the list ---- */

static const char *tool_takes(struct cli *cli, const json_t *tool) {
    const char *name, *names = NULL;
    json_t *field;
    json_object_foreach(json_object_get(json_object_get(tool, "input_schema"), "properties"), name, field) {
        if (strcmp(name, "description") != 0)
            names = names ? arena_printf(&cli->arena, "%s %s", names, name) : name;
    }
    return names;
}

static const struct rest_column tool_columns[] = {
    COLUMN("TOOL", "name", TEXT),
    COLUMN("WHAT IT DOES", "title", TEXT),
    CELL("ARGUMENTS", tool_takes),
};

/* ---- arguments ---- */

/* "@FILE" and "@-" are replaced by the content of the file; anything else is kept. */
static json_t *tool_text(struct cli *cli, const char *word) {
    autobuf text = buf_max(LIMIT_JSON_BYTES);
    if (word[0] != '@')
        return json_string(word);
    FILE *file = strcmp(word, "@-") == 0 ? stdin : fopen(word + 1, "re");
    if (!file)
        option_fail(cli, "no file '%s' on this machine", word + 1);
    char piece[16384];
    for (size_t len; (len = fread(piece, 1, sizeof piece, file)) > 0;)
        buf_put(&text, piece, len);
    bool failed = ferror(file) || text.failed;
    if (file != stdin)
        fclose(file);
    if (failed)
        option_fail(cli, "'%s' cannot be read, or is larger than %u bytes", word + 1, LIMIT_JSON_BYTES);
    json_t *value = json_stringn(text.len ? (const char *)text.data : "", text.len);
    if (!value)
        option_fail(cli, "'%s' is not UTF-8", word + 1);
    return value;
}

static json_t *tool_arguments(struct cli *cli, const json_t *schema, int argc, char **argv) {
    json_error_t why;
    if (argc == 1 && argv[0][0] == '{') {
        json_t *whole = json_loads(argv[0], JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
        if (!whole)
            option_fail(cli, "the arguments are not JSON: %s (column %d)", why.text, why.column);
        return whole;
    }
    json_t *arguments = json_object();
    for (int i = 0; i < argc; i++) {
        /* KEY=VALUE: VALUE is a string if the tool expects one, else JSON. */
        const char *word = argv[i];
        const char *equals = strchr(word, '=');
        if (!equals || equals == word)
            option_fail(cli, "an argument must be KEY=VALUE, or all of them one JSON object, not '%s'", word);
        const char *key = arena_copy(&cli->arena, word, (size_t)(equals - word));
        const json_t *type = json_object_get(json_object_get(json_object_get(schema, "properties"), key), "type");
        bool text = !json_is_string(type) || strcmp(json_string_value(type), "string") == 0;
        json_t *value = text ? tool_text(cli, equals + 1) : json_loads(equals + 1, JSON_DECODE_ANY, NULL);
        if (!value) /* the daemon reports missing arguments */
            value = json_string(equals + 1);
        if (!value || json_object_set_new(arguments, key, value) < 0)
            option_fail(cli, "'%s' is not UTF-8", word);
    }
    return arguments;
}

/* ---- the answer ---- */

static void tool_show(const char *text, size_t len) {
    autobuf shown = buf_max((size_t)64 << 20);
    for (size_t at = 0; at < len;) {
        size_t plain = 0;
        while (at + plain < len && text[at + plain] != '\n' && text[at + plain] != '\t')
            plain++;
        text_shown(&shown, text + at, plain);
        at += plain;
        if (at < len)
            buf_byte(&shown, (uint8_t)text[at++]);
    }
    fwrite(shown.data, 1, shown.len, stdout);
}

static void tool_image(const json_t *image) {
    const char *type = json_string_value(json_object_get(image, "mime_type"));
    const json_t *data = json_object_get(image, "data");
    autobuf bytes = buf_max(LIMIT_JSON_BYTES);
    if (!json_is_string(data) || !text_unbase64(&bytes, json_string_value(data), json_string_length(data)))
        return;
    if (isatty(STDOUT_FILENO))
        fprintf(stderr, "cubby: an image (%.40s, %zu bytes); redirect the output to save it\n", type ? type : "?",
                bytes.len);
    else
        fwrite(bytes.data, 1, bytes.len, stdout);
}

static void tool_print(const json_t *answer) {
    const json_t *text = json_object_get(answer, "text"), *image = json_object_get(answer, "image");
    const char *data = json_string_value(text);
    size_t len = json_string_length(text);
    if (image)
        tool_image(image);
    else if (data && isatty(STDOUT_FILENO))
        tool_show(data, len);
    else if (data)
        fwrite(data, 1, len, stdout);
    if (!image && len && data[len - 1] != '\n')
        putchar('\n');
}

/* ---- the call ---- */

/* name NULL: of the list. */
static const char *tool_path(struct cli *cli, const struct tool_values *values, const char *name) {
    const char *path = arena_printf(&cli->arena, "/tools%s%s", name ? "/" : "", name ? remote_encoded(cli, name) : "");
    if (values->box)
        return remote_path(cli, values->box, path, NULL);
    const char *thread = values->thread ? values->thread : TOOL_THREAD;
    return arena_printf(&cli->arena, "/v1/threads/%s%s", remote_encoded(cli, thread), path);
}

static int tool_run(struct cli *cli, const struct tool_values *values, const json_t *tools, int argc, char **argv) {
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    const json_t *schema = NULL;
    json_t *tool;
    size_t at;
    json_array_foreach(tools, at, tool) {
        const char *known = rest_text(tool, "name");
        if (known && strcmp(known, argv[0]) == 0)
            schema = json_object_get(tool, "input_schema");
    }
    if (!schema)
        option_fail(cli, "unknown tool '%s'; `cubby tool` lists them", argv[0]);
    json_t *arguments = tool_arguments(cli, schema, argc - 1, argv + 1);
    char *text = json_dumps(arguments, JSON_COMPACT);
    buf_puts(&body, text ? text : "{}");
    free(text);
    json_decref(arguments);
    json_auto_t *answer = rest_need(cli, "POST", tool_path(cli, values, argv[0]), &body);
    if (values->json)
        remote_print(answer);
    else
        tool_print(answer);
    return json_is_true(json_object_get(answer, "is_error")) ? 1 : 0;
}

int command_tool(struct cli *cli, int argc, char **argv) {
    struct tool_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    if (values.box && values.thread)
        option_fail(cli, "--box and --thread cannot be combined");
    /* Tools of MCP servers are listed by the box in which they run. */
    bool served = argc > 0 ? strstr(argv[0], "__") != NULL : values.box || values.thread;
    json_auto_t *list = rest_need(cli, "GET", served ? tool_path(cli, &values, NULL) : "/v1/tools", NULL);
    const json_t *tools = json_object_get(list, "tools");
    int status = 0;
    if (argc > 0)
        status = tool_run(cli, &values, tools, argc, argv);
    else if (values.json)
        remote_print(tools);
    else
        rest_table(cli, tools, REST_COLUMNS(tool_columns));
    return status;
}

/* ---- bang commands ---- */

struct bang_values {
    const char *thread, *user, *output;
    bool json;
};

const struct row bang_options[] = {
    OPTION("thread", 't', TEXT, struct bang_values, thread, "TEXT",
           "the chat, whose box is made if needed (default: " TOOL_THREAD ")"),
    OPTION("user", 'u', TEXT, struct bang_values, user, "USER", "the sender; only for tokens without a user"),
    OPTION("output", 'o', TEXT, struct bang_values, output, "FILE", "save the file of the answer here"),
    OPTION("json", 0, BOOL, struct bang_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static int tool_bang_write(void *user, const void *data, size_t len) {
    return fd_write_all(*(int *)user, data, len) < 0 ? -1 : 0;
}

static void tool_bang_save(struct cli *cli, const json_t *answer, const char *output) {
    const char *file = rest_text(answer, "file"), *box = rest_text(answer, "box");
    struct err err = {0};
    if (!file || !box)
        return;
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        option_fail(cli, "cannot write '%s': %s", output, strerror(errno));
    const struct http_call call = {
        .method = "GET", .path = remote_path(cli, box, "/files", file), .write_body = tool_bang_write, .user = &fd};
    int code = remote_send(cli, &call, NULL, &err);
    close(fd);
    if (code < 0)
        exit(cli_fail(&err));
}

int command_bang(struct cli *cli, int argc, char **argv) {
    struct bang_values values = {0};
    autobuf line = buf_max(LIMIT_JSON_BYTES), body = buf_max(LIMIT_JSON_BYTES);
    struct json json;
    argc = option_parse(cli, argc, argv, &values);
    if (argc == 0)
        option_fail(cli, "missing TEXT, e.g. '!ls -la'");
    if (argv[0][0] != '!')
        buf_byte(&line, '!');
    for (int i = 0; i < argc; i++) {
        buf_puts(&line, i ? " " : "");
        buf_puts(&line, argv[i]);
    }
    buf_byte(&line, 0);
    json_init(&json, &body);
    json_open(&json, '{');
    json_put_str(&json, "text", (const char *)line.data);
    if (values.user)
        json_put_str(&json, "user", values.user);
    json_close(&json, '}');
    const char *thread = values.thread ? values.thread : TOOL_THREAD;
    json_auto_t *answer =
        rest_need(cli, "POST", arena_printf(&cli->arena, "/v1/threads/%s/bang", remote_encoded(cli, thread)), &body);
    if (values.output)
        tool_bang_save(cli, answer, values.output);
    if (values.json)
        remote_print(answer);
    else
        tool_print(answer);
    const json_t *code = json_object_get(answer, "exit_code");
    if (json_is_integer(code))
        return (int)json_integer_value(code);
    return json_is_true(json_object_get(answer, "is_error")) ? 1 : 0;
}
