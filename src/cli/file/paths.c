/* `cubby mkdir`, `cubby mv`, `cubby stat`: one call for each path of a box. Invariant: every word is checked before the
 * first call. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct paths_values {
    bool json, parents, force;
};
_Static_assert(offsetof(struct paths_values, json) == 0, "json_options fills a bool");

const struct row mkdir_options[] = {
    OPTION("parents", 'p', BOOL, struct paths_values, parents, NULL, "make missing parents, and allow one that exists"),
    {.name = NULL},
};
const struct row mv_options[] = {
    OPTION("force", 'f', BOOL, struct paths_values, force, NULL, "replace what exists"),
    {.name = NULL},
};

static int paths_mkdir(struct cli *cli, const struct paths_values *values, const char *word, const char *id,
                       const char *path) {
    autobuf body = buf_max(64 << 10);
    struct json json = json_begin(&body);
    json_put_str(&json, "path", path);
    if (values->parents)
        json_put_bool(&json, "parents", true);
    json_close(&json, '}');
    return rest_each(cli, "POST", remote_path(cli, id, "/mkdir", NULL), &body, word);
}

static int paths_stat(struct cli *cli, const struct paths_values *values, const char *id, const char *path) {
    static const char *const keys[] = {"path", "type", "special", "size", "mode", "uid", "gid", "mtime", "link_target"};
    struct err err = {0};
    json_auto_t *answer = NULL;
    if (remote_json(cli, "GET", remote_path(cli, id, "/stat", path), NULL, &answer, &err) < 0)
        return cli_fail(&err);
    if (values->json) {
        remote_print(answer);
        return 0;
    }
    struct table table = {.arena = &cli->arena, .columns = 2};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(answer, keys[i]);
        autobuf text = buf_max(64 << 10);
        if (!value || json_is_null(value))
            continue;
        if (json_is_integer(value))
            buf_printf(&text, "%lld", (long long)json_integer_value(value));
        else if (strcmp(keys[i], "path") != 0 && strcmp(keys[i], "link_target") != 0)
            buf_puts(&text, json_string_value(value));
        else
            remote_bytes(answer, keys[i], &text);
        table_cell(&table, keys[i]);
        table_cell(&table, arena_copy(&cli->arena, text.data, text.len));
    }
    table_print(&table, stdout);
    return 0;
}

static int paths_move(struct cli *cli, const struct paths_values *values, char **argv) {
    const char *ids[2], *paths[2];
    for (int i = 0; i < 2; i++)
        remote_split(cli, argv[i], &ids[i], &paths[i]);
    if (strcmp(remote_box(cli, ids[0]), remote_box(cli, ids[1])) != 0)
        option_fail(cli, "mv works within one box; to copy between boxes: cubby cp %s - | cubby cp - %s", argv[0],
                    argv[1]);
    autobuf body = buf_max(64 << 10);
    struct json json = json_begin(&body);
    json_put_str(&json, "from", paths[0]);
    json_put_str(&json, "to", paths[1]);
    if (values->force)
        json_put_bool(&json, "overwrite", true);
    json_close(&json, '}');
    return rest_each(cli, "POST", remote_path(cli, ids[0], "/move", NULL), &body, NULL);
}

int command_paths(struct cli *cli, int argc, char **argv) {
    struct paths_values values = {0};
    int status = 0;
    bool move = strcmp(cli->command->name, "mv") == 0, make = strcmp(cli->command->name, "mkdir") == 0;
    argc = option_parse(cli, argc, argv, &values);
    if (move ? argc != 2 : argc == 0)
        option_fail(cli, move ? "takes two ID:PATH of one box" : "missing ID:PATH");
    for (int i = 0; i < argc; i++) {
        const char *id, *path;
        if (!remote_split(cli, argv[i], &id, &path) || !*path)
            option_fail(cli, "'%s' is not ID:PATH", argv[i]);
        remote_box(cli, id);
    }
    if (move)
        return paths_move(cli, &values, argv);
    for (int i = 0; i < argc; i++) {
        const char *id = NULL, *path = NULL;
        remote_split(cli, argv[i], &id, &path);
        if (i && !make && !values.json)
            putchar('\n');
        status |= make ? paths_mkdir(cli, &values, argv[i], id, path) : paths_stat(cli, &values, id, path);
    }
    return status;
}
