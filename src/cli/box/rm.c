/* `cubby rm`: removes boxes, or files of boxes. Invariant: nothing is removed before every word is checked and, on a
 * terminal, before a person agreed to lose more than one box. */
#include <jansson.h>

#include "base/base.h"
#include "cli/box/boxes.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct rm_values {
    struct boxes_view view;
    bool all, yes, recursive, dry, force;
};

const struct row rm_options[] = {
    OPTION("all", 0, BOOL, struct rm_values, all, NULL, "remove every box"),
    OPTION("user", 'u', TEXT, struct rm_values, view.user, "NAME", "with --all: only boxes of this user"),
    OPTION("recursive", 'r', BOOL, struct rm_values, recursive, NULL, "of ID:PATH: a directory with all it has"),
    OPTION("yes", 'y', BOOL, struct rm_values, yes, NULL, "do not ask"),
    OPTION("force", 'f', BOOL, struct rm_values, force, NULL, "do not ask, and do not mind what does not exist"),
    OPTION("dry-run", 'n', BOOL, struct rm_values, dry, NULL, "print what would be removed"),
    {.name = NULL},
};

static int rm_call(struct cli *cli, const struct rm_values *values, const char *path, const char *name) {
    struct err err = {0};
    if (values->dry) {
        printf("%s\n", name);
        return 0;
    }
    int code = remote_call(cli, "DELETE", path, NULL, NULL, &err);
    if (code < 0 && !(values->force && err.code == ERR_NOT_FOUND))
        return cli_fail(&err);
    if (code == 0)
        printf("%s\n", name);
    return 0;
}

static int rm_path(struct cli *cli, const struct rm_values *values, const char *word) {
    const char *id = NULL, *path = NULL;
    remote_split(cli, word, &id, &path);
    const char *url = remote_path(cli, id, "/files", path);
    return rm_call(cli, values, values->recursive ? arena_printf(&cli->arena, "%s&recursive=1", url) : url, word);
}

static bool rm_agreed(const struct rm_values *values, size_t count) {
    return count < 2 || values->yes || values->force || values->dry ||
           cli_confirm("Remove %zu boxes with their processes, files and snapshots? They cannot be restored.", count);
}

static int rm_all(struct cli *cli, const struct rm_values *values) {
    json_auto_t *boxes = boxes_get(cli, &values->view);
    json_t *box;
    size_t i;
    int status = 0;
    if (!rm_agreed(values, json_array_size(boxes)))
        return 1;
    json_array_foreach(boxes, i, box) {
        const char *id = rest_text(box, "id");
        status |= id ? rm_call(cli, values, remote_path(cli, id, "", NULL), id) : 0;
    }
    return status;
}

int command_rm(struct cli *cli, int argc, char **argv) {
    struct rm_values values = {.view = {.all = true}};
    int status = 0;
    size_t boxes = 0;
    argc = option_parse(cli, argc, argv, &values);
    if (values.all && argc > 0)
        option_fail(cli, "--all takes no IDs");
    if (values.view.user && !values.all)
        option_fail(cli, "--user needs --all");
    if (values.all)
        return rm_all(cli, &values);
    if (argc == 0)
        option_fail(cli, "missing box ID (see `cubby ps`), or --all");
    for (int i = 0; i < argc; i++) {
        const char *id, *path;
        bool split = remote_split(cli, argv[i], &id, &path);
        if (split && !*path)
            option_fail(cli, "'%s' has no path after the colon; to remove the box: cubby rm %s", argv[i], id);
        boxes += !split;
        remote_box(cli, split ? id : argv[i]);
    }
    if (!rm_agreed(&values, boxes))
        return 1;
    for (int i = 0; i < argc; i++)
        status |= strchr(argv[i], ':') ? rm_path(cli, &values, argv[i])
                                       : rm_call(cli, &values, remote_path(cli, argv[i], "", NULL), argv[i]);
    return status;
}
