/* `cubby template`: the roots that boxes are made from. Asks the daemon, or, with --state, works on the files of a
 * daemon on this machine. */
#include <jansson.h>

#include "base/base.h"
#include "backend/template.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "cli/upload.h"

struct template_values {
    const char *state;
    bool json;
};

const struct row template_options[] = {
    OPTION("state", 0, TEXT, struct template_values, state, "DIR",
           "work on the files of the daemon with this state directory instead of asking it"),
    OPTION("json", 0, BOOL, struct template_values, json, NULL, "print the list as JSON"),
    {.name = NULL},
};

struct template_names {
    struct cli *cli;
    const char **names;
    size_t count, cap;
};

static void template_each(void *user, const char *name) {
    struct template_names *list = user;
    arena_add(&list->cli->arena, list->names, list->count, list->cap) = arena_strdup(&list->cli->arena, name);
}

static int template_by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- through the daemon ---- */

/* Checks the name before it becomes part of a path. */
static const char *template_path(struct cli *cli, const char *name) {
    if (!template_name_ok(name))
        option_fail(cli, "'%s' is not a template name: [a-z0-9][a-z0-9._-]{0,63}", name);
    return arena_printf(&cli->arena, "/v1/templates/%s", name);
}

static int template_upload(struct cli *cli, const char *name, const char *path, struct err *err) {
    struct upload upload = {.what = name, .type = "application/x-tar", .length = -1};
    struct archive archive;
    struct stat status;
    autofd file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &status) < 0)
        return err_errno(err, errno, "%s", path);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "%s is neither a directory nor a tar file", path);
    upload.fd = file;
    if (S_ISREG(status.st_mode)) {
        upload.length = (int64_t)status.st_size;
    } else {
        TRY(archive_pack(path, &archive, err));
        upload.fd = archive.fd;
        upload.archive = &archive;
    }
    int code = upload_send(cli, &upload, template_path(cli, name), NULL, err);
    if (upload.archive) /* abandoned before its end, so its failure does not matter */
        archive_end(&archive, ERR_IGNORED);
    return code;
}

/* ---- subcommands ---- */

static int template_show(struct cli *cli, const struct backend_env *env, bool as_json, struct err *err) {
    static const struct rest_column columns[] = {COLUMN("NAME", "name", TEXT)};
    struct template_names list = {.cli = cli};
    json_auto_t *asked = NULL, *rows = json_array();
    json_t *row;
    size_t i;
    TRY(env->state_dir ? template_list(env, template_each, &list, err)
                       : remote_json(cli, "GET", "/v1/templates", NULL, &asked, err));
    json_array_foreach(json_object_get(asked, "templates"), i, row) {
        if (rest_text(row, "name"))
            template_each(&list, rest_text(row, "name"));
    }
    qsort(list.names, list.count, sizeof *list.names, template_by_name);
    for (i = 0; i < list.count; i++)
        json_array_append_new(rows, json_pack("{s:s}", "name", list.names[i]));
    json_auto_t *answer = json_pack("{s:O}", "templates", rows);
    if (as_json)
        remote_print(answer);
    else
        rest_table(cli, rows, REST_COLUMNS(columns));
    return 0;
}

int command_template(struct cli *cli, int argc, char **argv) {
    struct template_values values = {0};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &values);
    const char *action = argc ? argv[0] : "";
    bool import = strcmp(action, "import") == 0 && argc == 3, list = command_verb(action, "list") && argc == 1;
    bool rm = command_verb(action, "rm") && argc >= 2;
    if (!import && !list && !rm)
        option_fail(cli, "missing or unknown subcommand: import NAME FILE|DIR, list, or rm NAME");
    if (values.state && values.state[0] != '/')
        option_fail(cli, "--state must be an absolute path, not '%s'", values.state);
    struct backend_env env = {.state_dir = values.state};
    int status = 0;
    for (int i = 1; rm && i < argc; i++) {
        int code = env.state_dir ? template_remove(&env, argv[i], &err)
                                 : remote_call(cli, "DELETE", template_path(cli, argv[i]), NULL, NULL, &err);
        status = code < 0 ? cli_fail(&err) : status;
    }
    if (rm)
        return status;
    int code = list           ? template_show(cli, &env, values.json, &err)
               : values.state ? template_import(&env, argv[1], argv[2], &err)
                              : template_upload(cli, argv[1], argv[2], &err);
    if (code == -ERR_GONE && !values.state)
        fprintf(stderr, "cubby: --state DIR works on the files of a daemon of this machine without asking it\n");
    return code < 0 ? cli_fail(&err) : 0;
}
