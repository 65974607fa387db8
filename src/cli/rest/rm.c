/* `cubby rm`: ends boxes; nothing of them remains. */
#include "http/client/client.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct rm_values {
    const char *user;
    bool all;
};

const struct option_row rm_options[] = {
    {"all", 0, OPTION_FLAG, offsetof(struct rm_values, all), NULL, "remove every box"},
    {"user", 'u', OPTION_TEXT, offsetof(struct rm_values, user), "NAME", "with --all: only boxes of this user"},
    {.name = NULL},
};

static int rm_one(struct cli *cli, const char *id);
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
        if (rm_one(cli, argv[i]) != 0)
            status = EXIT_OURS;
    return status;
}

static int rm_one(struct cli *cli, const char *id) {
    struct err err = {0};
    if (remote_call(cli, "DELETE", remote_path(cli, id, "", NULL), NULL, NULL, &err) < 0)
        return cli_fail(&err);
    printf("%s\n", id);
    return 0;
}

static int rm_all(struct cli *cli, const char *user) {
    struct err err = {0};
    json_t *json = NULL, *box;
    const char *path = "/v1/boxes";
    if (user) {
        char *encoded = http_encode(user, strlen(user));
        path = arena_printf(&cli->arena, "/v1/boxes?user=%s", encoded);
        free(encoded);
    }
    if (remote_json(cli, "GET", path, NULL, &json, &err) < 0)
        return cli_fail(&err);
    int status = 0;
    size_t i;
    json_array_foreach(json_object_get(json, "boxes"), i, box) {
        const char *id = json_string_value(json_object_get(box, "id"));
        if (id && rm_one(cli, id) != 0)
            status = EXIT_OURS;
    }
    json_decref(json);
    return status;
}
