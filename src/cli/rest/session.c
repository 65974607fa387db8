/* `cubby session`: the shells of a box that live on from command to command. `cubby exec --session` makes and uses them. */
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

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

static const char *session_command(struct cli *cli, const json_t *row) {
    const char *command = rest_text(row, "command");
    return command ? arena_printf(&cli->arena, "%.60s", command) : NULL;
}

static int session_ls(struct cli *cli, const struct session_values *values, int argc, char **argv) {
    static const struct rest_column columns[] = {
        COLUMN("NAME", "name", TEXT),           COLUMN("STATE", "state", TEXT),   COLUMN("EXIT", "exit_code", NUMBER),
        COLUMN("COMMANDS", "commands", NUMBER), COLUMN("DIRECTORY", "cwd", TEXT), CELL("COMMAND", session_command),
    };
    if (argc != 1)
        option_fail(cli, "list takes one box ID (see `cubby ps`)");
    return rest_list(cli, remote_path(cli, argv[0], "/sessions", NULL), "sessions", REST_COLUMNS(columns),
                     values->json);
}

static int session_each(struct cli *cli, int argc, char **argv, const char *method, const char *behind) {
    int status = 0;
    if (argc < 2)
        option_fail(cli, "missing box ID or session NAME (see `cubby session list ID`)");
    for (int i = 1; i < argc; i++) {
        if (!session_named(argv[i]))
            option_fail(cli, "'%s' is not a session name", argv[i]);
        const char *rest = arena_printf(&cli->arena, "/sessions/%s%s", argv[i], behind);
        status |= rest_each(cli, method, remote_path(cli, argv[0], rest, NULL), NULL, argv[i]);
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
