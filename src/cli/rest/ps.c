/* `cubby ps`: the boxes of the daemon as a table. */
#include "http/client/client.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

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

static void ps_table(struct cli *cli, const json_t *boxes, bool all);

int command_ps(struct cli *cli, int argc, char **argv) {
    struct ps_values values = {0};
    struct err err = {0};
    json_t *json = NULL;
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    const char *path = "/v1/boxes";
    if (values.user) {
        char *user = http_encode(values.user, strlen(values.user));
        path = arena_printf(&cli->arena, "/v1/boxes?user=%s", user);
        free(user);
    }
    if (remote_json(cli, "GET", path, NULL, &json, &err) < 0)
        return cli_fail(&err);
    if (values.json) {
        remote_print(json);
    } else {
        ps_table(cli, json_object_get(json, "boxes"), values.all);
    }
    json_decref(json);
    return 0;
}

static const char *ps_text(const json_t *box, const char *key) {
    return json_string_value(json_object_get(box, key));
}

/* "2026-01-31T12:00:00.123Z" as "2026-01-31 12:00:00". */
static const char *ps_time(struct cli *cli, const char *text) {
    if (!text || strlen(text) < 19)
        return text;
    char *shown = arena_copy(&cli->arena, text, 19);
    shown[10] = ' ';
    return shown;
}

static bool ps_remote(const json_t *boxes) {
    size_t i;
    json_t *box;
    json_array_foreach(boxes, i, box) if (json_is_object(json_object_get(box, "remote"))) return true;
    return false;
}

/* Of the machine that it is on. */
static void ps_machine(struct cli *cli, struct table *table, const json_t *box) {
    const json_t *remote = json_object_get(box, "remote"), *latency = json_object_get(remote, "latency_ms");
    bool online = json_is_true(json_object_get(remote, "online"));
    table_cell(table, ps_text(box, "machine"));
    table_cell(table, online && json_is_number(latency)
                          ? arena_printf(&cli->arena, "%.1f ms", json_number_value(latency))
                          : NULL);
    table_cell(table, ps_text(remote, "version"));
}

static void ps_table(struct cli *cli, const json_t *boxes, bool all) {
    static const char *const heads[] = {"ID",   "USER",          "THREAD",  "BACKEND", "STATE",   "MEMORY",
                                        "PIDS", "CREATED (UTC)", "MACHINE", "LATENCY", "VERSION", NULL};
    static const char *const plain[] = {"ID",     "USER", "THREAD",        "BACKEND", "STATE",
                                        "MEMORY", "PIDS", "CREATED (UTC)", NULL};
    struct table table;
    size_t i;
    json_t *box;
    bool remote = ps_remote(boxes); /* most servers have none */
    table_init(&table, &cli->arena, remote ? heads : plain);
    json_array_foreach(boxes, i, box) {
        const char *state = ps_text(box, "state"), *thread = ps_text(box, "thread");
        if (!all && state && strcmp(state, "closing") == 0)
            continue;
        const json_t *usage = json_object_get(box, "usage"), *memory = json_object_get(usage, "memory_bytes");
        const json_t *pids = json_object_get(usage, "pids");
        table_cell(&table, ps_text(box, "id"));
        table_cell(&table, ps_text(box, "user"));
        table_cell(&table, thread && strlen(thread) > 32 ? arena_printf(&cli->arena, "%.31s…", thread) : thread);
        table_cell(&table, ps_text(box, "backend"));
        table_cell(&table, state);
        table_cell(&table,
                   json_is_integer(memory) ? table_size(&cli->arena, (uint64_t)json_integer_value(memory)) : NULL);
        table_cell(&table, json_is_integer(pids)
                               ? arena_printf(&cli->arena, "%lld", (long long)json_integer_value(pids))
                               : NULL);
        table_cell(&table, ps_time(cli, ps_text(box, "created_at")));
        if (remote)
            ps_machine(cli, &table, box);
    }
    table_print(&table, stdout);
}
