/* `cubby cat`: prints files of boxes. */
#include "http/client/client.h"
#include "base/base.h"
#include "cli/cli.h"

static int cat_write(void *, const void *data, size_t len) {
    return fd_write_all(STDOUT_FILENO, data, len) < 0 ? -1 : 0;
}

int command_cat(struct cli *cli, int argc, char **argv) {
    argc = option_parse(cli, argc, argv, NULL);
    if (argc == 0)
        option_fail(cli, "missing ID:PATH");
    int result = 0;
    for (int i = 0; i < argc; i++) {
        const char *id, *path;
        struct err err = {0};
        if (!remote_split(cli, argv[i], &id, &path) || !*path)
            option_fail(cli, "'%s' is not ID:PATH", argv[i]);
        const struct http_call call = {.method = "GET",
                                       .path = remote_path(cli, id, "/files", path),
                                       .write_body = cat_write,
                                       .header = remote_header};
        if (remote_send(cli, &call, NULL, &err) < 0)
            result = cli_fail(&err);
    }
    return result;
}
