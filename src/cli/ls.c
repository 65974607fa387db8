/* `cubby ls`: lists a directory of a box. Invariant: names come from the box, so they are escaped on a terminal. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct ls_values {
    bool detail, json;
};

const struct row ls_options[] = {
    OPTION("long", 'l', BOOL, struct ls_values, detail, NULL, "show mode, owner, size and time too"),
    OPTION("json", 0, BOOL, struct ls_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static const char *ls_mode(struct cli *cli, const json_t *entry) {
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *special = json_string_value(json_object_get(entry, "special"));
    const char *mode = json_string_value(json_object_get(entry, "mode"));
    const struct {
        const char *type;
        char letter;
    } letters[] = {{"dir", 'd'},    {"symlink", 'l'}, {"file", '-'}, {"fifo", 'p'},
                   {"socket", 's'}, {"char", 'c'},    {"block", 'b'}};
    char text[11] = "?---------";
    for (size_t i = 0; type && i < sizeof letters / sizeof *letters; i++)
        if (strcmp(special ? special : type, letters[i].type) == 0)
            text[0] = letters[i].letter;
    unsigned bits = 0;
    for (; mode && *mode >= '0' && *mode <= '7'; mode++)
        bits = bits << 3 | (unsigned)(*mode - '0');
    for (unsigned i = 0; i < 9; i++)
        if (bits & (0400u >> i))
            text[1 + i] = "rwx"[i % 3];
    static const struct {
        unsigned bit, at;
        char with, without;
    } specials[] = {{04000, 3, 's', 'S'}, {02000, 6, 's', 'S'}, {01000, 9, 't', 'T'}};
    for (size_t i = 0; i < 3; i++)
        if (bits & specials[i].bit)
            text[specials[i].at] = text[specials[i].at] == 'x' ? specials[i].with : specials[i].without;
    return arena_strdup(&cli->arena, text);
}

/* Names uid and gid as the box does; other owners are shown as numbers. */
static const char *ls_owner(struct cli *cli, const json_t *entry) {
    long long uid = json_integer_value(json_object_get(entry, "uid"));
    long long gid = json_integer_value(json_object_get(entry, "gid"));
    if (uid == gid && (uid == 0 || uid == 1000))
        return uid == 0 ? "root" : "agent";
    return arena_printf(&cli->arena, "%lld:%lld", uid, gid);
}

static const char *ls_name(struct cli *cli, const json_t *entry) {
    autobuf name = buf_max(128 << 10);
    remote_bytes(entry, "name", &name);
    if (json_is_string(json_object_get(entry, "link_target"))) {
        buf_puts(&name, " -> ");
        remote_bytes(entry, "link_target", &name);
    }
    return arena_copy(&cli->arena, name.data, name.len);
}

int command_ls(struct cli *cli, int argc, char **argv) {
    struct ls_values values = {0};
    const char *id = NULL, *path = "";
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 1)
        option_fail(cli, argc ? "one directory at a time" : BOX_MISSING);
    if (!remote_split(cli, argv[0], &id, &path))
        id = argv[0];
    const char *url =
        arena_printf(&cli->arena, "%s&limit=%u", remote_path(cli, id, "/list", *path ? path : "."), LIMIT_LIST_LIMIT);
    json_auto_t *json = rest_need(cli, "GET", url, NULL);
    const json_t *entries = json_object_get(json, "entries");
    if (values.json) {
        remote_print(json);
    } else if (values.detail) {
        static const struct rest_column columns[] = {
            CELL("MODE", ls_mode),          CELL("OWNER", ls_owner),
            COLUMN("SIZE", "size", NUMBER), COLUMN("MODIFIED (UTC)", "mtime", TIME),
            CELL("NAME", ls_name),
        };
        rest_table(cli, entries, REST_COLUMNS(columns));
    } else {
        bool terminal = isatty(STDOUT_FILENO);
        size_t i;
        json_t *entry;
        autobuf name = buf_max(64 << 10);
        autobuf shown = buf_max(512 << 10);
        json_array_foreach(entries, i, entry) {
            buf_clear(&name);
            buf_clear(&shown);
            if (!remote_bytes(entry, "name", &name))
                continue;
            if (terminal)
                text_shown(&shown, (const char *)name.data, name.len);
            fwrite(terminal ? shown.data : name.data, 1, terminal ? shown.len : name.len, stdout);
            putchar('\n');
        }
    }
    if (json_is_true(json_object_get(json, "truncated")))
        fprintf(stderr, "cubby: the list ends after %zu entries; there are more\n", json_array_size(entries));
    return 0;
}
