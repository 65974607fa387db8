/* `cubby workers`, `cubby drain`: machines that have boxes of all users (backend fleet). */
#include <jansson.h>

#include "base/base.h"
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
