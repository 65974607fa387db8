/* `cubby workers`, `cubby drain`, `cubby move`: machines that have boxes of all users (backend fleet). */
#include <jansson.h>

#include "base/base.h"
#include "base/json.h"
#include "base/url.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct drain_values {
    bool off;
};

const struct row drain_options[] = {
    OPTION("off", 0, BOOL, struct drain_values, off, NULL, "let them have new boxes again"),
    {.name = NULL},
};

struct move_values {
    bool stop;
};

const struct row move_options[] = {
    OPTION("stop", 0, BOOL, struct move_values, stop, NULL, "end what runs in it"),
    {.name = NULL},
};

static const char *worker_state(struct cli *, const json_t *row) {
    if (!json_is_true(json_object_get(row, "online")))
        return "offline";
    return json_is_true(json_object_get(row, "draining")) ? "draining" : "online";
}

int command_workers(struct cli *cli, int argc, char **argv) {
    static const struct rest_column columns[] = {
        COLUMN("NAME", "name", TEXT),        CELL("STATE", worker_state),
        COLUMN("SINCE", "since", TIME),      COLUMN("BOXES", "boxes", NUMBER),
        COLUMN("MAX", "boxes_max", NUMBER),  COLUMN("MEMORY-MB", "memory_mb", NUMBER),
        COLUMN("LATENCY", "latency_ms", MS), COLUMN("VERSION", "version", TEXT),
        COLUMN("ADDRESS", "address", TEXT),
    };
    struct {
        bool json;
    } values = {0};
    argc = option_parse(cli, argc, argv, &values);
    if (argc)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    return rest_list(cli, "/v1/workers", "workers", REST_COLUMNS(columns), values.json);
}

int command_drain(struct cli *cli, int argc, char **argv) {
    struct drain_values values = {0};
    int status = 0;
    argc = option_parse(cli, argc, argv, &values);
    if (!argc)
        option_fail(cli, "missing NAME of a worker (see `cubby workers`)");
    for (int i = 0; i < argc; i++) {
        const char *path =
            arena_printf(&cli->arena, "/v1/workers/%s/drain", url_encode(&cli->arena, argv[i], URL_VALUE));
        int one = rest_each(cli, values.off ? "DELETE" : "POST", path, NULL, argv[i]);
        status = status ? status : one;
    }
    return status;
}

int command_move(struct cli *cli, int argc, char **argv) {
    struct move_values values = {0};
    struct err err = {0};
    json_auto_t *answer = NULL;
    autobuf body = buf_max(4096);
    argc = option_parse(cli, argc, argv, &values);
    if (argc < 1 || argc > 2)
        option_fail(cli, "%s, and at most one WORKER", BOX_MISSING);
    struct json json = json_begin(&body);
    json_put_some(&json, "worker", argc == 2 ? argv[1] : NULL);
    json_put_bool(&json, "stop", values.stop);
    json_close(&json, '}');
    cli_must(remote_json(cli, "POST", remote_path(cli, argv[0], "/relocate", NULL), &body, &answer, &err), &err);
    const char *to = json_string_value(json_object_get(answer, "to"));
    printf("%s\n", to ? to : "");
    return 0;
}
