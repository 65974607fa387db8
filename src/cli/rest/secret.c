/* `cubby secret`: secrets that boxes use but never have. Invariant: a value comes from standard input, never from an
 * argument, which every process of the machine could read. */
#include <jansson.h>
#include <termios.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct secret_values {
    const char *user, *env, *prefix, *scrub, *from_file, *from_env, *from_command;
    struct row_texts hosts, slots, methods, paths, ports;
    uint64_t ttl_s;
    bool wide, json;
};

const struct row secret_options[] = {
    OPTION("host", 0, TEXTS, struct secret_values, hosts, "NAME", "a host that gets it"),
    OPTION("env", 'e', TEXT, struct secret_values, env, "NAME", "variable of its placeholder (default: its name)"),
    OPTION("slot", 0, TEXTS, struct secret_values, slots, "SLOT",
           "where it may stand: authorization, header:NAME, query:NAME, path, form:NAME, json:/POINTER"),
    OPTION("method", 0, TEXTS, struct secret_values, methods, "NAME", "only with this method"),
    OPTION("path", 0, TEXTS, struct secret_values, paths, "PATTERN", "only below this path, such as /repos/**"),
    OPTION("port", 0, TEXTS, struct secret_values, ports, "N", "only at this port (default: 443)"),
    OPTION("prefix", 0, TEXT, struct secret_values, prefix, "TEXT", "its public beginning, for placeholders"),
    OPTION("wide", 0, BOOL, struct secret_values, wide, NULL, "allow a star in --host"),
    OPTION("strict", 0, TEXT, struct secret_values, scrub, "strict|lenient",
           "whether answers that cannot be searched for it are refused"),
    OPTION("from-file", 0, TEXT, struct secret_values, from_file, "FILE",
           "read it from this file of the daemon's machine at each use"),
    OPTION("from-env", 0, TEXT, struct secret_values, from_env, "NAME", "take it from a variable of the daemon"),
    OPTION("from-command", 0, TEXT, struct secret_values, from_command, "COMMAND",
           "take what this command of secret_commands prints"),
    OPTION("ttl", 0, INT, struct secret_values, ttl_s, "SECONDS", "keep what the command printed for so long"),
    OPTION("user", 'u', TEXT, struct secret_values, user, "NAME", "whose (of an administrator: of all users)"),
    OPTION("json", 0, BOOL, struct secret_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

/* Reads the value, without the newline that a shell or a person adds. */
static void secret_read(struct cli *cli, struct buf *out) {
    struct termios before, quiet;
    bool terminal = isatty(0) && tcgetattr(0, &before) == 0;
    if (terminal) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(0, TCSAFLUSH, &quiet);
        fputs("Value: ", stderr);
    }
    ssize_t n;
    do {
        uint8_t *room = buf_reserve(out, 4096);
        n = room ? read(0, room, 4096) : 0;
        out->len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && !(terminal && memchr(out->data, '\n', out->len)));
    if (terminal) {
        tcsetattr(0, TCSAFLUSH, &before);
        fputc('\n', stderr);
    }
    if (out->failed)
        option_fail(cli, "the value has more than %u bytes", LIMIT_STORED_SECRET_BYTES);
    if (out->len && out->data[out->len - 1] == '\n')
        out->len--;
    if (out->len && out->data[out->len - 1] == '\r')
        out->len--;
    if (!out->len)
        option_fail(cli, "there is no value on standard input");
    if (!text_utf8(out->data, out->len) || memchr(out->data, 0, out->len))
        option_fail(cli, "the value must be text");
}

static void secret_list_json(struct json *json, const char *key, const struct row_texts *list) {
    if (!list->count)
        return;
    json_put_open(json, key, '[');
    for (size_t i = 0; i < list->count; i++)
        json_str(json, list->items[i]);
    json_close(json, ']');
}

static void secret_from_json(struct cli *cli, const struct secret_values *values, struct json *json) {
    json_put_open(json, "from", '{');
    json_put_some(json, "file", values->from_file);
    json_put_some(json, "env", values->from_env);
    if (values->from_command) {
        char *rest = arena_strdup(&cli->arena, values->from_command);
        json_put_open(json, "command", '[');
        for (char *word; (word = strsep(&rest, " "));)
            if (*word)
                json_str(json, word);
        json_close(json, ']');
    }
    if (values->ttl_s)
        json_put_uint(json, "ttl_s", values->ttl_s);
    json_close(json, '}');
}

static const char *secret_path(struct cli *cli, const struct secret_values *values, const char *name) {
    autobuf path = buf_max(4096);
    buf_printf(&path, "/v1/secrets%s%s", name ? "/" : "", name ? name : "");
    rest_parameter(cli, &path, "user", values->user);
    return arena_strdup(&cli->arena, buf_cstr(&path));
}

/* set: the whole definition; rotate: only the value. */
static int secret_command_set(struct cli *cli, const struct secret_values *values, const char *name, bool rotate) {
    bool elsewhere = values->from_file || values->from_env || values->from_command;
    autobuf body = buf_max(LIMIT_JSON_BYTES), value = buf_max(LIMIT_STORED_SECRET_BYTES + 4096);
    struct json json = json_begin(&body);
    struct err err = {0};
    if (!rotate && !values->hosts.count)
        option_fail(cli, "missing --host HOST, the host that gets the secret");
    if (!elsewhere) {
        secret_read(cli, &value);
        json_key(&json, "value");
        json_strn(&json, (const char *)value.data, value.len);
        explicit_bzero(value.data, value.len);
    } else {
        secret_from_json(cli, values, &json);
    }
    secret_list_json(&json, "hosts", &values->hosts);
    secret_list_json(&json, "slots", &values->slots);
    secret_list_json(&json, "methods", &values->methods);
    secret_list_json(&json, "paths", &values->paths);
    secret_list_json(&json, "ports", &values->ports);
    json_put_some(&json, "env", values->env);
    json_put_some(&json, "prefix", values->prefix);
    json_put_some(&json, "scrub", values->scrub);
    json_put_some(&json, "user", values->user);
    if (values->wide)
        json_put_bool(&json, "wide", true);
    json_close(&json, '}');
    autobuf answer = buf_max(1 << 20);
    int failed = remote_call(cli, "PUT", arena_printf(&cli->arena, "/v1/secrets/%s", name), &body, &answer, &err);
    explicit_bzero(body.data, body.len);
    if (failed < 0)
        return cli_fail(&err);
    if (values->json)
        printf("%.*s\n", (int)answer.len, (const char *)answer.data);
    return 0;
}

static int secret_command_create(struct cli *cli, const struct secret_values *values, const char *name) {
    struct err err = {0};
    autobuf answer = buf_max(1 << 20);
    if (remote_call(cli, "GET", secret_path(cli, values, name), NULL, &answer, &err) == 0)
        cli_must(err_set(&err, ERR_EXISTS,
                         "a secret '%s' already exists: use `cubby secret rotate` to change its value", name),
                 &err);
    return err.code == ERR_NOT_FOUND ? secret_command_set(cli, values, name, false) : cli_fail(&err);
}

static const char *secret_hosts_cell(struct cli *cli, const json_t *row) {
    autobuf text = buf_max(8192);
    size_t i;
    json_t *host;
    json_array_foreach(json_object_get(row, "hosts"), i, host)
        buf_printf(&text, "%s%s", i ? "," : "", json_string_value(host));
    return arena_copy(&cli->arena, text.data ? (const char *)text.data : "", text.len);
}

static int secret_command_list(struct cli *cli, const struct secret_values *values, const char *box) {
    static const struct rest_column columns[] = {
        COLUMN("NAME", "name", TEXT),          COLUMN("USER", "user", TEXT),         CELL("HOSTS", secret_hosts_cell),
        COLUMN("SOURCE", "source", TEXT),      COLUMN("VERSION", "version", NUMBER), COLUMN("DIGEST", "digest", TEXT),
        COLUMN("UPDATED", "updated_at", TIME), COLUMN("USED", "last_used_at", TIME),
    };
    static const struct rest_column bound[] = {
        COLUMN("NAME", "name", TEXT),
        COLUMN("VARIABLE", "env", TEXT),
        COLUMN("PLACEHOLDER", "placeholder", TEXT),
    };
    if (box)
        return rest_list(cli, remote_path(cli, box, "/secrets", NULL), "secrets", REST_COLUMNS(bound), values->json);
    return rest_list(cli, secret_path(cli, values, NULL), "secrets", REST_COLUMNS(columns), values->json);
}

static int secret_command_bind(struct cli *cli, const char *box, const char *wanted, bool bind) {
    const char *variable = strchr(wanted, '=');
    autobuf body;
    const char *name = variable ? arena_copy(&cli->arena, wanted, (size_t)(variable - wanted)) : wanted;
    REST_BODY(&body, {"env", variable ? variable + 1 : NULL});
    const char *path = remote_path(cli, box, arena_printf(&cli->arena, "/secrets/%s", name), NULL);
    return rest_each(cli, bind ? "PUT" : "DELETE", path, bind ? &body : NULL, NULL);
}

int command_secret(struct cli *cli, int argc, char **argv) {
    struct secret_values values = {0};
    argc = option_parse(cli, argc, argv, &values);
    const char *action = argc ? argv[0] : "", *name = argc > 1 ? argv[1] : NULL;
    bool list = command_verb(action, "list"), remove = command_verb(action, "rm"), set = !strcmp(action, "set"),
         create = !strcmp(action, "create"), rotate = !strcmp(action, "rotate"), bind = !strcmp(action, "bind"),
         unbind = !strcmp(action, "unbind");
    if (!list && !remove && !set && !create && !rotate && !bind && !unbind)
        option_fail(cli, "missing or unknown subcommand: create, set, rotate, list, rm, bind or unbind");
    if (list ? argc > 2 : bind || unbind ? argc != 3 : argc != 2)
        option_fail(cli,
                    list             ? "list takes at most a box"
                    : bind || unbind ? "%s takes a box and the NAME of a secret"
                                     : "%s takes the NAME of one secret; its value comes by standard input",
                    action);
    for (const char *c = name; c && *c; c++)
        if (!strchr("_.-", *c) && !((*c | 32) >= 'a' && (*c | 32) <= 'z') && !(*c >= '0' && *c <= '9'))
            option_fail(cli, "'%s' is not a name: letters, digits and _.-", name);
    if (list)
        return secret_command_list(cli, &values, name);
    if (bind || unbind)
        return secret_command_bind(cli, name, argv[2], bind);
    if (remove)
        return rest_each(cli, "DELETE", secret_path(cli, &values, name), NULL, NULL);
    return create ? secret_command_create(cli, &values, name) : secret_command_set(cli, &values, name, rotate);
}
