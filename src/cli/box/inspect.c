/* `cubby inspect`: everything about boxes. Invariant: only requests that do not start a box are made for one that does
 * not run. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

enum { INSPECT_DEPTH = 4 };

struct inspect_values {
    bool json;
    const char *query;
};

const struct row inspect_options[] = {
    OPTION("query", 'q', TEXT, struct inspect_values, query, "FIELD", "print only this member, such as usage.pids"),
    OPTION("json", 0, BOOL, struct inspect_values, json, NULL, "print the box as JSON"),
    {.name = NULL},
};

/* Parts of the page, each a list that the daemon has. */
static const struct rest_column inspect_processes[] = {
    COLUMN("PID", "pid", NUMBER),         COLUMN("STATE", "state", STATE),    COLUMN("EXIT", "exit_code", NUMBER),
    COLUMN("STARTED", "started_at", AGE), COLUMN("COMMAND", "command", TEXT),
};
static const struct rest_column inspect_sessions[] = {
    COLUMN("NAME", "name", TEXT),   COLUMN("STATE", "state", STATE),  COLUMN("COMMANDS", "commands", NUMBER),
    COLUMN("USED", "used_at", AGE), COLUMN("DIRECTORY", "cwd", TEXT),
};
static const struct rest_column inspect_snapshots[] = {
    COLUMN("NAME", "name", TEXT),
    COLUMN("AGE", "created_at", AGE),
    COLUMN("METHOD", "method", TEXT),
    COLUMN("LAYERS", "layers", NUMBER),
};
static const struct rest_column inspect_audit[] = {
    COLUMN("TIME (UTC)", "at", TIME),
    COLUMN("VERB", "verb", TEXT),
    COLUMN("OUTCOME", "outcome", TEXT),
    COLUMN("DETAIL", "detail", TEXT),
};
static const struct {
    const char *title, *path, *member;
    bool running; /* asked only then */
    const struct rest_column *columns;
    size_t count;
} inspect_parts[] = {
    {"Background commands", "/processes", "processes", true, REST_COLUMNS(inspect_processes)},
    {"Sessions", "/sessions", "sessions", true, REST_COLUMNS(inspect_sessions)},
    {"Snapshots", "/snapshots", "snapshots", false, REST_COLUMNS(inspect_snapshots)},
};

/* One line for each member: "usage.pids  3". */
static void inspect_lines(struct cli *cli, struct table *table, const char *prefix, const json_t *object,
                          unsigned depth) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const char *name = arena_printf(&cli->arena, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0))
            continue;
        if (json_is_object(value) && depth < INSPECT_DEPTH) {
            inspect_lines(cli, table, name, value, depth + 1);
            continue;
        }
        char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        table_cell(table, name);
        table_cell(table, text ? arena_strdup(&cli->arena, text) : json_string_value(value));
        free(text);
    }
}

static void inspect_page(struct cli *cli, const char *id, const json_t *box) {
    struct table table = {.arena = &cli->arena, .columns = 2, .colored = 2};
    inspect_lines(cli, &table, "", box, 0);
    table_print(&table, stdout);
    for (size_t i = 0; i < sizeof inspect_parts / sizeof *inspect_parts; i++) {
        json_auto_t *answer = NULL;
        if ((inspect_parts[i].running && !json_is_true(json_object_get(box, "running"))) ||
            remote_json(cli, "GET", remote_path(cli, id, inspect_parts[i].path, NULL), NULL, &answer, ERR_IGNORED) < 0)
            continue;
        const json_t *list = json_object_get(answer, inspect_parts[i].member);
        if (json_array_size(list) == 0)
            continue;
        printf("\n%s:\n", inspect_parts[i].title);
        rest_table(cli, list, inspect_parts[i].columns, inspect_parts[i].count);
    }
    json_auto_t *answer = NULL;
    const char *path = arena_printf(&cli->arena, "/v1/audit?box=%s&tail=1&limit=10", id);
    if (remote_json(cli, "GET", path, NULL, &answer, ERR_IGNORED) == 0 &&
        json_array_size(json_object_get(answer, "events"))) {
        printf("\nLast calls (`cubby audit --box %s`):\n", id);
        rest_table(cli, json_object_get(answer, "events"), REST_COLUMNS(inspect_audit));
    }
}

int command_inspect(struct cli *cli, int argc, char **argv) {
    struct inspect_values values = {0};
    int status = 0;
    argc = option_parse(cli, argc, argv, &values);
    if (argc == 0)
        option_fail(cli, "%s", BOX_MISSING);
    for (int i = 0; i < argc; i++) {
        json_auto_t *box = rest_need(cli, "GET", remote_path(cli, argv[i], "", NULL), NULL);
        if (i && !values.json && !values.query)
            putchar('\n');
        if (values.query)
            status |= rest_query(cli, box, values.query);
        else if (values.json)
            remote_print(box);
        else
            inspect_page(cli, remote_box(cli, argv[i]), box);
    }
    return status;
}
