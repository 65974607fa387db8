/* `cubby rm`: ends boxes; nothing of them remains. */
#include <jansson.h>

#include "cli/cli.h"
#include "cli/rest/list.h"

struct rm_values {
    const char *user;
    bool all;
};

const struct option_row rm_options[] = {
    {"all", 0, OPTION_FLAG, offsetof(struct rm_values, all), NULL, "remove every box"},
    {"user", 'u', OPTION_TEXT, offsetof(struct rm_values, user), "NAME", "with --all: only boxes of this user"},
    {.name = NULL},
};

static int rm_all(struct cli *cli, const char *user);

int command_rm(struct cli *cli, int argc, char **argv) {
    struct rm_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    if (values.all == (argc > 0))
        option_fail(cli, values.all ? "--all takes no IDs" : "missing box ID (see `cubby ps`), or --all");
    if (values.user && !values.all)
        option_fail(cli, "--user needs --all");
    if (values.all)
        return rm_all(cli, values.user);
    int status = 0;
    for (int i = 0; i < argc; i++)
        remote_path(cli, argv[i], "", NULL); /* all are ids before the first is ended */
    for (int i = 0; i < argc; i++)
        status |= rest_each(cli, "DELETE", remote_path(cli, argv[i], "", NULL), NULL, argv[i]);
    return status;
}

static int rm_all(struct cli *cli, const char *user) {
    struct err err = {0};
    json_t *json = NULL, *box;
    autobuf path = buf_max(64 << 10);
    buf_puts(&path, "/v1/boxes");
    rest_parameter(cli, &path, "user", user);
    if (remote_json(cli, "GET", buf_cstr(&path), NULL, &json, &err) < 0)
        return cli_fail(&err);
    int status = 0;
    size_t i;
    json_array_foreach(json_object_get(json, "boxes"), i, box) {
        const char *id = rest_text(box, "id");
        if (id)
            status |= rest_each(cli, "DELETE", remote_path(cli, id, "", NULL), NULL, id);
    }
    json_decref(json);
    return status;
}
