/* `cubby template`: the roots that boxes are made from. Asks the daemon; with --state works on the files of a daemon of
 * this machine instead. */
#include "http/client/client.h"

#include <jansson.h>

#include "base/base.h"
#include "backend/template.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "cli/progress.h"

struct template_values {
    const char *state;
    bool json;
};

const struct row template_options[] = {
    OPTION("state", 0, TEXT, struct template_values, state, "DIR",
           "work on the files of the daemon with this state directory instead of asking it"),
    OPTION("json", 0, BOOL, struct template_values, json, NULL, "list as JSON"),
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

static void template_json(const struct template_names *list) {
    autobuf out = buf_max(16 << 20);
    struct json json = json_begin(&out);
    json_put_open(&json, "templates", '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(&json, '{');
        json_put_str(&json, "name", list->names[i]);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    printf("%.*s\n", (int)out.len, (const char *)out.data);
}

/* ---- by the daemon ---- */

struct template_upload {
    int fd, number;
    struct archive *archive; /* NULL: a file is sent as it is */
    struct progress progress;
    struct err err;
};

static ssize_t template_read(void *user, void *data, size_t len) {
    struct template_upload *upload = user;
    ssize_t got;
    do
        got = read(upload->fd, data, len);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        upload->number = errno;
    if (got > 0)
        progress_add(&upload->progress, (uint64_t)got);
    /* An archive that tar did not finish must not look finished to the daemon. */
    if (got == 0 && upload->archive) {
        upload->archive->fd = fd_take(&upload->fd);
        int code = archive_end(upload->archive, &upload->err);
        upload->archive = NULL;
        return code < 0 ? -1 : 0;
    }
    return got;
}

/* The name is checked before it becomes part of a path. */
static const char *template_path(struct cli *cli, const char *name) {
    if (!template_name_ok(name))
        option_fail(cli, "'%s' is not a template name: [a-z0-9][a-z0-9._-]{0,63}", name);
    return arena_printf(&cli->arena, "/v1/templates/%s", name);
}

static int template_send(struct cli *cli, const char *name, struct template_upload *upload, int64_t length,
                         struct err *err) {
    static const char *const headers[] = {"Content-Type: application/x-tar", NULL};
    struct http_call call = {.method = "PUT",
                             .path = template_path(cli, name),
                             .headers = headers,
                             .read_body = template_read,
                             .read_length = length,
                             .user = upload};
    progress_begin(&upload->progress, false, length);
    int code = remote_send(cli, &call, NULL, err);
    progress_end(&upload->progress);
    if (upload->number)
        return err_errno(err, upload->number, "%s", name);
    if (upload->err.code) {
        *err = upload->err;
        return -err->code;
    }
    return code;
}

static int template_upload(struct cli *cli, const char *name, const char *path, struct err *err) {
    struct template_upload upload = {.fd = -1};
    struct archive archive;
    struct stat status;
    autofd file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &status) < 0)
        return err_errno(err, errno, "%s", path);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "%s is neither a directory nor a tar file", path);
    if (S_ISREG(status.st_mode)) {
        upload.fd = file;
        return template_send(cli, name, &upload, (int64_t)status.st_size, err);
    }
    int code = archive_pack(path, &archive, err);
    if (code < 0)
        return code;
    upload.fd = archive.fd;
    upload.archive = &archive;
    code = template_send(cli, name, &upload, -1, err);
    if (upload.archive) { /* given up before its end: its complaint about that is not news */
        struct err ignored = {0};
        archive.fd = upload.fd;
        archive_end(&archive, &ignored);
    }
    return code;
}

static int template_ask(struct cli *cli, struct template_names *list, struct err *err) {
    json_t *json = NULL, *row;
    size_t i;
    int code = remote_json(cli, "GET", "/v1/templates", NULL, &json, err);
    json_array_foreach(json_object_get(json, "templates"), i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        if (name)
            template_each(list, name);
    }
    json_decref(json);
    return code;
}

/* ---- the actions ---- */

static int template_show(struct cli *cli, const struct backend_env *env, bool as_json, struct err *err) {
    static const char *const heads[] = {"NAME", NULL};
    struct template_names list = {.cli = cli};
    struct table table;
    int code = env->state_dir ? template_list(env, template_each, &list, err) : template_ask(cli, &list, err);
    if (code < 0)
        return code;
    qsort(list.names, list.count, sizeof *list.names, template_by_name);
    if (as_json) {
        template_json(&list);
        return 0;
    }
    table_init(&table, &cli->arena, heads);
    for (size_t i = 0; i < list.count; i++)
        table_cell(&table, list.names[i]);
    table_print(&table, stdout);
    return 0;
}

static int template_rm(struct cli *cli, const struct backend_env *env, int argc, char **argv) {
    int status = 0;
    for (int i = 0; i < argc; i++) {
        struct err err = {0};
        int code = env->state_dir ? template_remove(env, argv[i], &err)
                                  : remote_call(cli, "DELETE", template_path(cli, argv[i]), NULL, NULL, &err);
        if (code < 0)
            status = cli_fail(&err);
    }
    return status;
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
    if (rm)
        return template_rm(cli, &env, argc - 1, argv + 1);
    int code = list           ? template_show(cli, &env, values.json, &err)
               : values.state ? template_import(&env, argv[1], argv[2], &err)
                              : template_upload(cli, argv[1], argv[2], &err);
    if (code == -ERR_GONE && !values.state)
        fprintf(stderr, "cubby: --state DIR works on the files of a daemon of this machine without asking it\n");
    return code < 0 ? cli_fail(&err) : 0;
}
