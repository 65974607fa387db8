/* `cubby pause`, `cubby resume` and `cubby start`: stops the processes of boxes, lets them run again, or starts them. */
#include "cli/cli.h"
#include "cli/rest/list.h"

static int pause_each(struct cli *cli, int argc, char **argv, const char *verb) {
    int status = 0;
    argc = option_parse(cli, argc, argv, NULL);
    if (argc == 0)
        option_fail(cli, "%s", BOX_MISSING);
    for (int i = 0; i < argc; i++)
        remote_path(cli, argv[i], verb, NULL); /* all are ids before the first is touched */
    for (int i = 0; i < argc; i++)
        status |= rest_each(cli, "POST", remote_path(cli, argv[i], verb, NULL), NULL, argv[i]);
    return status;
}

int command_pause(struct cli *cli, int argc, char **argv) {
    return pause_each(cli, argc, argv, "/pause");
}

int command_resume(struct cli *cli, int argc, char **argv) {
    return pause_each(cli, argc, argv, "/resume");
}

int command_start(struct cli *cli, int argc, char **argv) {
    return pause_each(cli, argc, argv, "/start");
}
