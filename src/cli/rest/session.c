/* `cubby session`: the shells of a box that live on from command to command. `cubby exec --session` makes and uses them. */
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

struct session_values {
    bool json;
};

const struct option_row session_options[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct session_values, json), NULL, "the daemon's answer"},
    {.name = NULL},
};

static int session_ls(struct cli *cli, const struct session_values *values, int argc, char **argv);
static int session_stop(struct cli *cli, const struct session_values *values, int argc, char **argv);
static int session_rm(struct cli *cli, const struct session_values *values, int argc, char **argv);

int command_session(struct cli *cli, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, const struct session_values *values, int argc, char **argv);
    } verbs[] = {{"list", session_ls}, {"stop", session_stop}, {"rm", session_rm}};
    struct session_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
        if (command_verb(argv[0], verbs[i].name))
            return verbs[i].run(cli, &values, argc - 1, argv + 1);
    option_fail(cli, argc > 0 ? "unknown subcommand '%s': list, stop or rm" : "missing subcommand: list, stop or rm",
                argc > 0 ? argv[0] : "");
}

bool session_named(const char *name) {
    return text_name(name, SIZE_MAX) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static const char *session_cell(struct cli *cli, const json_t *row, const char *key, size_t most) {
    const char *text = json_string_value(json_object_get(row, key));
    autobuf shown = buf_max(64 << 10);
    if (!text)
        return NULL;
    text_shown(&shown, text, strnlen(text, most));
    return arena_strdup(&cli->arena, buf_cstr(&shown) ? buf_cstr(&shown) : "?");
}

static int session_ls(struct cli *cli, const struct session_values *values, int argc, char **argv) {
    static const char *const heads[] = {"NAME", "STATE", "EXIT", "COMMANDS", "DIRECTORY", "COMMAND", NULL};
    struct err err = {0};
    json_t *json = NULL, *row;
    size_t i;
    if (argc != 1)
        option_fail(cli, "list takes one box ID (see `cubby ps`)");
    if (remote_json(cli, "GET", remote_path(cli, argv[0], "/sessions", NULL), NULL, &json, &err) < 0)
        return cli_fail(&err);
    struct table table;
    table_init(&table, &cli->arena, heads);
    json_array_foreach(json_object_get(json, "sessions"), i, row) {
        const json_t *exit_code = json_object_get(row, "exit_code");
        long long commands = (long long)json_integer_value(json_object_get(row, "commands"));
        table_cell(&table, session_cell(cli, row, "name", 128));
        table_cell(&table, session_cell(cli, row, "state", 16));
        table_cell(&table, json_is_integer(exit_code)
                               ? arena_printf(&cli->arena, "%lld", (long long)json_integer_value(exit_code))
                               : NULL);
        table_cell(&table, arena_printf(&cli->arena, "%lld", commands));
        table_cell(&table, session_cell(cli, row, "cwd", 4096));
        table_cell(&table, session_cell(cli, row, "command", 60));
    }
    if (values->json)
        remote_print(json);
    else
        table_print(&table, stdout);
    json_decref(json);
    return 0;
}

static int session_each(struct cli *cli, int argc, char **argv, const char *method, const char *behind) {
    int status = 0;
    if (argc < 2)
        option_fail(cli, "missing box ID or session NAME (see `cubby session list ID`)");
    for (int i = 1; i < argc; i++) {
        struct err err = {0};
        if (!session_named(argv[i]))
            option_fail(cli, "'%s' is not a session name", argv[i]);
        const char *rest = arena_printf(&cli->arena, "/sessions/%s%s", argv[i], behind);
        if (remote_call(cli, method, remote_path(cli, argv[0], rest, NULL), NULL, NULL, &err) < 0)
            status = cli_fail(&err);
        else
            printf("%s\n", argv[i]);
    }
    return status;
}

static int session_stop(struct cli *cli, const struct session_values *values, int argc, char **argv) {
    (void)values;
    return session_each(cli, argc, argv, "POST", "/stop");
}

static int session_rm(struct cli *cli, const struct session_values *values, int argc, char **argv) {
    (void)values;
    return session_each(cli, argc, argv, "DELETE", "");
}
