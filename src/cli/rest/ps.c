/* `cubby ps`: the boxes of the daemon as a table. */
#include <jansson.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rest/list.h"

struct ps_values {
    const char *user;
    bool all, json;
};

const struct option_row ps_options[] = {
    {"all", 'a', OPTION_FLAG, offsetof(struct ps_values, all), NULL, "also boxes that are being removed"},
    {"user", 'u', OPTION_TEXT, offsetof(struct ps_values, user), "NAME", "only boxes of this user"},
    {"json", 0, OPTION_FLAG, offsetof(struct ps_values, json), NULL, "the daemon's answer"},
    {.name = NULL},
};

static const char *ps_thread(struct cli *cli, const json_t *box) {
    const char *thread = rest_text(box, "thread");
    return thread && strlen(thread) > 32 ? arena_printf(&cli->arena, "%.31s…", thread) : thread;
}

static const char *ps_latency(struct cli *cli, const json_t *box) {
    const json_t *remote = json_object_get(box, "remote"), *latency = json_object_get(remote, "latency_ms");
    bool online = json_is_true(json_object_get(remote, "online"));
    return online && json_is_number(latency) ? arena_printf(&cli->arena, "%.1f ms", json_number_value(latency)) : NULL;
}

/* Those that end are left out unless they are asked for; the columns of machines, where no box is on one. */
static void ps_table(struct cli *cli, json_t *boxes, bool all) {
    static const struct rest_column columns[] = {
        COLUMN("ID", "id", TEXT),
        COLUMN("USER", "user", TEXT),
        CELL("THREAD", ps_thread),
        COLUMN("BACKEND", "backend", TEXT),
        COLUMN("STATE", "state", TEXT),
        COLUMN("MEMORY", "usage.memory_bytes", SIZE),
        COLUMN("PIDS", "usage.pids", NUMBER),
        COLUMN("CREATED (UTC)", "created_at", TIME),
        COLUMN("MACHINE", "machine", TEXT),
        CELL("LATENCY", ps_latency),
        COLUMN("VERSION", "remote.version", TEXT),
    };
    size_t count = sizeof columns / sizeof *columns - 3;
    for (size_t i = json_array_size(boxes); i-- > 0;) {
        const json_t *box = json_array_get(boxes, i);
        const char *state = rest_text(box, "state");
        if (json_is_object(json_object_get(box, "remote")))
            count = sizeof columns / sizeof *columns;
        if (!all && state && strcmp(state, "closing") == 0)
            json_array_remove(boxes, i);
    }
    rest_table(cli, boxes, columns, count);
}

int command_ps(struct cli *cli, int argc, char **argv) {
    struct ps_values values = {0};
    struct err err = {0};
    json_t *json = NULL;
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    autobuf path = buf_max(64 << 10);
    buf_puts(&path, "/v1/boxes");
    rest_parameter(cli, &path, "user", values.user);
    if (remote_json(cli, "GET", buf_cstr(&path), NULL, &json, &err) < 0)
        return cli_fail(&err);
    if (values.json)
        remote_print(json);
    else
        ps_table(cli, json_object_get(json, "boxes"), values.all);
    json_decref(json);
    return 0;
}
