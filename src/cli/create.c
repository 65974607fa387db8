/* `cubby create`: makes a box of the daemon and prints its id. */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/rest/list.h"

struct create_values {
    struct box_options box;
    const char *user, *thread;
    bool json, quiet;
};

const struct row create_options[] = {
    OPTION("user", 'u', TEXT, struct create_values, user, "NAME", "owner of the box (default: user \"default\")"),
    OPTION("thread", 0, TEXT, struct create_values, thread, "TEXT", "find or make the box of this thread"),
    OPTION("agent", 0, TEXT, struct create_values, box.agent, "NAME",
           "find or make the user's box for this agent, with its skills"),
    OPTION("machine", 0, TEXT, struct create_values, box.machine, "NAME", "make it on this joined machine of the user"),
    OPTION("idle-timeout", 0, TEXT, struct create_values, box.idle_timeout, "SECONDS",
           "end its processes after so long without use; 0: never"),
    OPTION("quiet", 'q', BOOL, struct create_values, quiet, NULL, "on a terminal, do not say what to do next"),
    OPTION("json", 0, BOOL, struct create_values, json, NULL, "print the answer as JSON"),
    BOX_OPTIONS,
};

int command_create(struct cli *cli, int argc, char **argv) {
    struct create_values values = {0};
    struct err err = {0};
    char id[17];
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s' (to run a command: `cubby run` or `cubby exec`)", argv[0]);
    autobuf answer = buf_max(1 << 20);
    if (remote_create(cli, &values.box, values.user, values.thread, &answer, id, &err) < 0)
        return cli_fail(&err);
    if (values.json)
        printf("%.*s\n", (int)answer.len, (const char *)answer.data);
    else
        printf("%s\n", id);
    fflush(stdout);
    if (!values.json && !values.quiet && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) {
        bool color = cli_color(STDERR_FILENO);
        const char *name = values.thread && !strpbrk(values.thread, " :'\"\\$") ? values.thread : NULL;
        fprintf(stderr, "%scubby shell %s%s   (or: cubby exec -, cubby rm -)%s\n", color ? COLOR_FAINT : "",
                name ? "@" : "", name ? rest_shown(cli, name) : id, color ? COLOR_OFF : "");
    }
    return 0;
}
