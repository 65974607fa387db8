/* The thin commands over HTTP: `cubby pause`, `resume`, `start`, `release`, `session`, `snapshot`, `rollback`, `fork` and
 * `diff`. A row of the table has the request and the output; options become members of the body or query parameters
 * of the same name. Invariant: every word is checked before the first call. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct rest_values {
    bool json;
    const char *snapshot, *user, *thread;
    uint64_t limit;
};
#define JSON_ROW OPTION("json", 0, BOOL, struct rest_values, json, NULL, "print the answer as JSON")

const struct row json_options[] = {JSON_ROW, {.name = NULL}}; /* also fills a lone bool */
_Static_assert(offsetof(struct rest_values, json) == 0, "json_options fills a bool");
const struct row fork_options[] = {
    OPTION("snapshot", 's', TEXT, struct rest_values, snapshot, "NAME",
           "take the files of this snapshot (default: as they are now)"),
    OPTION("user", 'u', TEXT, struct rest_values, user, "NAME", "owner of the new box"),
    OPTION("thread", 't', TEXT, struct rest_values, thread, "NAME", "thread of the new box"),
    JSON_ROW,
    {.name = NULL},
};
const struct row diff_options[] = {
    OPTION("limit", 'n', INT, struct rest_values, limit, "N", "show at most N changes (default: 1000)"),
    JSON_ROW,
    {.name = NULL},
};

/* ---- special cells and answers ---- */

static const char *session_command(struct cli *cli, const json_t *row) {
    const char *command = rest_text(row, "command");
    return command ? arena_printf(&cli->arena, "%.60s", command) : NULL;
}

static const char *commands_diff_path(struct cli *cli, const json_t *row) {
    autobuf path = buf_max(64 << 10);
    return remote_bytes(row, "path", &path) ? arena_copy(&cli->arena, path.data, path.len) : NULL;
}

static const struct rest_column session_columns[] = {
    COLUMN("NAME", "name", TEXT),           COLUMN("STATE", "state", TEXT),   COLUMN("EXIT", "exit_code", NUMBER),
    COLUMN("COMMANDS", "commands", NUMBER), COLUMN("DIRECTORY", "cwd", TEXT), CELL("COMMAND", session_command),
};
static const struct rest_column snapshot_columns[] = {
    COLUMN("NAME", "name", TEXT),    COLUMN("CREATED (UTC)", "created_at", TIME), COLUMN("METHOD", "method", TEXT),
    COLUMN("PAUSE", "pause_ms", MS), COLUMN("COPIED", "copied_bytes", SIZE),      COLUMN("LAYERS", "layers", NUMBER),
};
static const struct rest_column diff_columns[] = {COLUMN("CHANGE", "change", TEXT), COLUMN("TYPE", "type", TEXT),
                                                  COLUMN("SIZE", "size", NUMBER), CELL("PATH", commands_diff_path)};

static void commands_rollback_shown(struct cli *cli, const struct rest_values *values, const json_t *answer) {
    (void)cli, (void)values;
    long long ended = (long long)json_integer_value(json_object_get(answer, "processes_ended"));
    if (ended)
        fprintf(stderr, "cubby: %lld process%s ended\n", ended, ended == 1 ? " was" : "es were");
}

static void commands_diff_shown(struct cli *cli, const struct rest_values *, const json_t *answer) {
    rest_table(cli, json_object_get(answer, "changes"), REST_COLUMNS(diff_columns));
    if (json_is_true(json_object_get(answer, "truncated")))
        fprintf(stderr, "cubby: there are more changes (--limit)\n");
}

/* ---- the table ---- */

/* A command, or one of its subcommands. Words fill the places {} of the path in order: first a box ID, then a name. If
 * any number of words may follow (most is 0), there is one call for each, and its word is printed. */
static const struct rest_command {
    const char *command, *verb;
    const char *method, *path;
    int least, most;
    const char *wrong;  /* error text for too few or too many words */
    const char *name;   /* what the second word is: "session" */
    const char *member; /* an optional further word becomes this member of the body */
    const char *key;    /* member of the answer to print; with columns: the list */
    const struct rest_column *columns;
    size_t column_count;
    void (*shown)(struct cli *cli, const struct rest_values *values, const json_t *answer); /* instead of key */
} rest_commands[] = {
    {"release", NULL, "POST", "/v1/boxes/{}/release", 1, 0, BOX_MISSING, .name = NULL},
    {"pause", NULL, "POST", "/v1/boxes/{}/pause", 1, 0, BOX_MISSING, .name = NULL},
    {"resume", NULL, "POST", "/v1/boxes/{}/resume", 1, 0, BOX_MISSING, .name = NULL},
    {"start", NULL, "POST", "/v1/boxes/{}/start", 1, 0, BOX_MISSING, .name = NULL},
    {"session", "list", "GET", "/v1/boxes/{}/sessions", 1, 1, "list takes one box ID (see `cubby ps`)",
     .key = "sessions", REST_SHOWN(session_columns)},
    {"session", "stop", "POST", "/v1/boxes/{}/sessions/{}/stop", 2, 0,
     "missing box ID or session NAME (see `cubby session list ID`)", .name = "session"},
    {"session", "rm", "DELETE", "/v1/boxes/{}/sessions/{}", 2, 0,
     "missing box ID or session NAME (see `cubby session list ID`)", .name = "session"},
    {"snapshot", "create", "POST", "/v1/boxes/{}/snapshots", 1, 2, "create takes a box ID and at most one NAME",
     .member = "name", .key = "name"},
    {"snapshot", "list", "GET", "/v1/boxes/{}/snapshots", 1, 1, "list takes one box ID (see `cubby ps`)",
     .key = "snapshots", REST_SHOWN(snapshot_columns)},
    {"snapshot", "rm", "DELETE", "/v1/boxes/{}/snapshots/{}", 2, 0, "rm takes a box ID and the NAMEs of its snapshots",
     .name = "snapshot"},
    {"rollback", NULL, "POST", "/v1/boxes/{}/rollback", 2, 2,
     "missing box ID or snapshot NAME (see `cubby snapshot list ID`)", .member = "snapshot",
     .shown = commands_rollback_shown},
    {"fork", NULL, "POST", "/v1/boxes/{}/fork", 1, 1, BOX_MISSING, .key = "id"},
    {"diff", NULL, "GET", "/v1/boxes/{}/diff", 1, 1, BOX_MISSING, .shown = commands_diff_shown},
};

bool session_named(const char *name) {
    return text_name(name, SIZE_MAX) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static const struct rest_command *rest_find(struct cli *cli, int argc, char **argv) {
    autobuf verbs = buf_max(256);
    const char *last = NULL;
    for (size_t i = 0; i < sizeof rest_commands / sizeof *rest_commands; i++) {
        const struct rest_command *rest = &rest_commands[i];
        if (strcmp(rest->command, cli->command->name) != 0)
            continue;
        if (!rest->verb || (argc && command_verb(argv[0], rest->verb)))
            return rest;
        if (last)
            buf_printf(&verbs, "%s%s", verbs.len ? ", " : "", last);
        last = rest->verb;
    }
    option_fail(cli, "%s%s%s: %s or %s", argc ? "unknown subcommand '" : "missing subcommand", argc ? argv[0] : "",
                argc ? "'" : "", buf_cstr(&verbs), last);
}

/* Makes the path of one call: box is the first word, word fills the last place. */
static const char *rest_path(struct cli *cli, const struct rest_command *rest, const char *box, const char *word) {
    const char *place = strstr(rest->path, "{}"), *after = place ? place + 2 : "";
    if (!place)
        return rest->path;
    if (rest->name && !session_named(word))
        option_fail(cli, "'%s' is not a %s name", word, rest->name);
    const char *second = strstr(after, "{}");
    if (second)
        after = arena_printf(&cli->arena, "%.*s%s%s", (int)(second - after), after, word, second + 2);
    return remote_path(cli, box, after, NULL);
}

static int rest_one(struct cli *cli, const struct rest_command *rest, const struct rest_values *values, int argc,
                    char **argv) {
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    autobuf path = buf_max(64 << 10);
    bool posts = strcmp(rest->method, "POST") == 0;
    buf_puts(&path, rest_path(cli, rest, argc ? argv[0] : NULL, NULL));
    struct json json = json_begin(&body);
    rest_given(cli, values, posts ? &json : NULL, &path);
    if (rest->member && argc > 1)
        json_put_str(&json, rest->member, argv[1]);
    json_close(&json, '}');
    json_auto_t *answer = rest_need(cli, rest->method, buf_cstr(&path), posts ? &body : NULL);
    const char *text = rest->key ? rest_text(answer, rest->key) : NULL;
    if (values->json)
        remote_print(answer);
    else if (rest->shown)
        rest->shown(cli, values, answer);
    else if (rest->columns)
        rest_table(cli, json_object_get(answer, rest->key), rest->columns, rest->column_count);
    else
        printf("%s\n", text ? rest_shown(cli, text) : "");
    return 0;
}

int command_rest(struct cli *cli, int argc, char **argv) {
    struct rest_values values = {.limit = strcmp(cli->command->name, "diff") == 0 ? 1000 : 0};
    argc = option_parse(cli, argc, argv, &values);
    const struct rest_command *rest = rest_find(cli, argc, argv);
    argc -= rest->verb != NULL;
    argv += rest->verb != NULL;
    if (argc < rest->least || (rest->most > 0 && argc > rest->most))
        option_fail(cli, "%s", rest->wrong);
    if (rest->most)
        return rest_one(cli, rest, &values, argc, argv);
    int status = 0, first = rest->least - 1;
    for (int i = first; i < argc; i++)
        rest_path(cli, rest, argv[first ? 0 : i], argv[i]);
    for (int i = first; i < argc; i++)
        status |= rest_each(cli, rest->method, rest_path(cli, rest, argv[first ? 0 : i], argv[i]), NULL, argv[i]);
    return status;
}
