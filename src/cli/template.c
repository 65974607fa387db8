/* `cubby template`: roots for boxes, kept in the daemon's state directory. Works on the files; asks no daemon. */
#include <stdlib.h>
#include <string.h>

#include "backend/template.h"
#include "cli/cli.h"
#include "cli/engine.h"

struct template_values {
    const char *state;
    bool json;
};

const struct option_row template_options[] = {
    {"state", 0, OPTION_TEXT, offsetof(struct template_values, state), "DIR", "the daemon's state directory"},
    {"json", 0, OPTION_FLAG, offsetof(struct template_values, json), NULL, "list as JSON"},
    {.name = NULL},
};

struct template_names {
    struct cli *cli;
    const char **names;
    size_t count;
};

static void template_each(void *user, const char *name) {
    struct template_names *list = user;
    const char **names = arena_alloc(&list->cli->arena, (list->count + 1) * sizeof *names);
    if (list->count)
        memcpy(names, list->names, list->count * sizeof *names);
    names[list->count++] = arena_strdup(&list->cli->arena, name);
    list->names = names;
}

static int template_by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void template_json(const struct template_names *list) {
    autobuf out;
    struct json json;
    buf_init(&out, 16 << 20);
    json_init(&json, &out);
    json_open(&json, '{');
    json_key(&json, "templates");
    json_open(&json, '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(&json, '{');
        json_key(&json, "name");
        json_str(&json, list->names[i]);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    printf("%.*s\n", (int)out.len, (const char *)out.data);
}

static int template_show(struct cli *cli, const struct backend_env *env, bool as_json, struct err *err) {
    static const char *const heads[] = {"NAME", NULL};
    struct template_names list = {.cli = cli};
    struct table table;
    int code = template_list(env, template_each, &list, err);
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

int command_template(struct cli *cli, int argc, char **argv) {
    struct template_values values = {0};
    struct err err = {0};
    static const struct {
        const char *name;
        int words;
    } actions[] = {{"import", 3}, {"list", 1}, {"remove", 2}};
    argc = option_parse(cli, argc, argv, &values);
    size_t action = 0;
    while (argc && action < 3 && strcmp(actions[action].name, argv[0]) != 0)
        action++;
    if (argc == 0 || action == 3 || argc != actions[action].words)
        option_fail(cli, "import NAME FILE|DIR, list, or remove NAME");
    if (values.state && values.state[0] != '/')
        option_fail(cli, "--state is an absolute path, not '%s'", values.state);
    struct backend_env env = {.state_dir = values.state ? values.state : engine_daemon_state(&cli->arena)};
    int code = action == 0   ? template_import(&env, argv[1], argv[2], &err)
               : action == 1 ? template_show(cli, &env, values.json, &err)
                             : template_remove(&env, argv[1], &err);
    return code < 0 ? cli_fail(&err) : 0;
}
