/* `cubby machine`: machines that joined the daemon. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct machine_values {
    bool json;
    const char *user;
};

const struct row machine_options[] = {
    OPTION("user", 'u', TEXT, struct machine_values, user, "NAME", "only machines of this user"),
    OPTION("json", 0, BOOL, struct machine_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static const char *machine_state(struct cli *, const json_t *machine) {
    return json_is_true(json_object_get(machine, "online")) ? "online" : "offline";
}

int command_machine(struct cli *cli, int argc, char **argv) {
    static const struct rest_column columns[] = {
        COLUMN("NAME", "name", TEXT),
        COLUMN("USER", "user", TEXT),
        {.head = "STATE", .cell = machine_state, .kind = REST_STATE},
        COLUMN("SINCE", "since", AGE),
        COLUMN("LATENCY", "latency_ms", MS),
        COLUMN("ISOLATION", "isolation", TEXT),
        COLUMN("VERSION", "version", TEXT),
        COLUMN("PLATFORM", "platform", TEXT),
        COLUMN("WORKSPACE", "workspace", TEXT),
    };
    struct machine_values values = {0};
    int status = 0;
    argc = option_parse(cli, argc, argv, &values);
    bool list = argc == 0 || command_verb(argv[0], "list"), remove = argc > 0 && command_verb(argv[0], "rm");
    if (!list && !remove)
        option_fail(cli, "unknown subcommand '%s': list or rm", argv[0]);
    if (list ? argc > 1 : argc < 2)
        option_fail(cli, list ? "list takes no words" : "missing NAME (see `cubby machine list`)");
    autobuf path = buf_max(64 << 10);
    for (int i = 1; remove && i < argc; i++) {
        buf_clear(&path);
        buf_printf(&path, "/v1/machines/%s", remote_encoded(cli, argv[i]));
        rest_parameter(cli, &path, "user", values.user);
        status |= rest_each(cli, "DELETE", buf_cstr(&path), NULL, argv[i]);
    }
    if (remove)
        return status;
    buf_puts(&path, "/v1/machines");
    rest_parameter(cli, &path, "user", values.user);
    return rest_list(cli, buf_cstr(&path), "machines", REST_COLUMNS(columns), values.json);
}
