/* `cubby snapshot`, `cubby rollback`, `cubby fork`, `cubby diff`: files of a box kept, put back, given to another box,
 * compared with the template. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rest/list.h"

struct snapshot_values {
    bool json;
    const char *snapshot, *user, *thread;
    uint64_t limit;
};
#define JSON_ROW                                                                                                       \
    { "json", 0, OPTION_FLAG, offsetof(struct snapshot_values, json), NULL, "the daemon's answer" }

const struct option_row snapshot_options[] = {JSON_ROW, {.name = NULL}};
const struct option_row rollback_options[] = {JSON_ROW, {.name = NULL}};
const struct option_row fork_options[] = {
    {"snapshot", 's', OPTION_TEXT, offsetof(struct snapshot_values, snapshot), "NAME",
     "take the files of this snapshot (default: as they are now)"},
    {"user", 'u', OPTION_TEXT, offsetof(struct snapshot_values, user), "NAME", "owner of the new box"},
    {"thread", 't', OPTION_TEXT, offsetof(struct snapshot_values, thread), "NAME", "thread of the new box"},
    JSON_ROW,
    {.name = NULL},
};
const struct option_row diff_options[] = {
    {"limit", 'n', OPTION_NUMBER, offsetof(struct snapshot_values, limit), "N", "changes shown; 1000 by default"},
    JSON_ROW,
    {.name = NULL},
};

static int snapshot_create(struct cli *cli, const struct snapshot_values *values, int argc, char **argv);
static int snapshot_list(struct cli *cli, const struct snapshot_values *values, int argc, char **argv);
static int snapshot_rm(struct cli *cli, const struct snapshot_values *values, int argc, char **argv);

int command_snapshot(struct cli *cli, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, const struct snapshot_values *values, int argc, char **argv);
    } verbs[] = {{"create", snapshot_create}, {"list", snapshot_list}, {"rm", snapshot_rm}};
    struct snapshot_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
        if (command_verb(argv[0], verbs[i].name))
            return verbs[i].run(cli, &values, argc - 1, argv + 1);
    option_fail(cli,
                argc > 0 ? "unknown subcommand '%s': create, list or rm" : "missing subcommand: create, list or rm",
                argc > 0 ? argv[0] : "");
}

static int snapshot_create(struct cli *cli, const struct snapshot_values *values, int argc, char **argv) {
    if (argc < 1 || argc > 2)
        option_fail(cli, "create takes a box ID and at most one NAME");
    autobuf body;
    REST_BODY(&body, {"name", argc > 1 ? argv[1] : NULL});
    return rest_post(cli, remote_path(cli, argv[0], "/snapshots", NULL), &body, "name", values->json);
}

static int snapshot_list(struct cli *cli, const struct snapshot_values *values, int argc, char **argv) {
    static const struct rest_column columns[] = {
        COLUMN("NAME", "name", TEXT),           COLUMN("CREATED (UTC)", "created_at", TIME),
        COLUMN("METHOD", "method", TEXT),       COLUMN("PAUSE", "pause_ms", MS),
        COLUMN("COPIED", "copied_bytes", SIZE), COLUMN("LAYERS", "layers", NUMBER),
    };
    if (argc != 1)
        option_fail(cli, "list takes one box ID (see `cubby ps`)");
    return rest_list(cli, remote_path(cli, argv[0], "/snapshots", NULL), "snapshots", REST_COLUMNS(columns),
                     values->json);
}

static int snapshot_rm(struct cli *cli, const struct snapshot_values *values, int argc, char **argv) {
    int status = 0;
    (void)values;
    if (argc < 2)
        option_fail(cli, "rm takes a box ID and the NAMEs of its snapshots");
    for (int i = 1; i < argc; i++) {
        if (!*argv[i] || strspn(argv[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") !=
                             strlen(argv[i])) /* it becomes part of a path */
            option_fail(cli, "'%s' is not a snapshot name", argv[i]);
        const char *rest = arena_printf(&cli->arena, "/snapshots/%s", argv[i]);
        status |= rest_each(cli, "DELETE", remote_path(cli, argv[0], rest, NULL), NULL, argv[i]);
    }
    return status;
}

int command_rollback(struct cli *cli, int argc, char **argv) {
    struct snapshot_values values = {0};
    struct err err = {0};
    json_t *json = NULL;
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 2)
        option_fail(cli, "missing box ID or snapshot NAME (see `cubby snapshot list ID`)");
    autobuf body;
    REST_BODY(&body, {"snapshot", argv[1]});
    if (remote_json(cli, "POST", remote_path(cli, argv[0], "/rollback", NULL), &body, &json, &err) < 0)
        return cli_fail(&err);
    long long ended = (long long)json_integer_value(json_object_get(json, "processes_ended"));
    if (values.json)
        remote_print(json);
    else if (ended)
        fprintf(stderr, "cubby: %lld process%s ended\n", ended, ended == 1 ? " was" : "es were");
    json_decref(json);
    return 0;
}

int command_fork(struct cli *cli, int argc, char **argv) {
    struct snapshot_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 1)
        option_fail(cli, "%s", BOX_MISSING);
    autobuf body;
    REST_BODY(&body, {"snapshot", values.snapshot}, {"user", values.user}, {"thread", values.thread});
    return rest_post(cli, remote_path(cli, argv[0], "/fork", NULL), &body, "id", values.json);
}

static const char *diff_path(struct cli *cli, const json_t *row) {
    autobuf path = buf_max(64 << 10);
    return remote_bytes(row, "path", &path) ? arena_copy(&cli->arena, path.data, path.len) : NULL;
}

int command_diff(struct cli *cli, int argc, char **argv) {
    static const struct rest_column columns[] = {COLUMN("CHANGE", "change", TEXT), COLUMN("TYPE", "type", TEXT),
                                                 COLUMN("SIZE", "size", NUMBER), CELL("PATH", diff_path)};
    struct snapshot_values values = {.limit = 1000};
    struct err err = {0};
    json_t *json = NULL;
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 1)
        option_fail(cli, "%s", BOX_MISSING);
    const char *rest = arena_printf(&cli->arena, "/diff?limit=%" PRIu64, values.limit);
    if (remote_json(cli, "GET", remote_path(cli, argv[0], rest, NULL), NULL, &json, &err) < 0)
        return cli_fail(&err);
    if (values.json)
        remote_print(json);
    else
        rest_table(cli, json_object_get(json, "changes"), REST_COLUMNS(columns));
    if (!values.json && json_is_true(json_object_get(json, "truncated")))
        fprintf(stderr, "cubby: there are more changes (--limit)\n");
    json_decref(json);
    return 0;
}
