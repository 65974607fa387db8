/* The YAML file: a mapping with the names of the table. Called by conf_new. Invariant: an unknown or repeated name, or
 * a value of the wrong type, is an error with its line. */
#include "base/base.h"
#include "base/json.h"
#include "daemon/conf_table.h"

/* Writes a value as JSON; what looks like a number or a boolean becomes one. */
static void file_put_json(struct json *json, const struct rows_yaml *value) {
    uint64_t number;
    if (value->kind != ROWS_YAML_TEXT)
        json_open(json, value->kind == ROWS_YAML_MAP ? '{' : '[');
    for (size_t i = 0; value->kind != ROWS_YAML_TEXT && i < value->count; i++) {
        if (value->kind == ROWS_YAML_MAP)
            json_key(json, value->items[i].key);
        file_put_json(json, &value->items[i]);
    }
    if (value->kind != ROWS_YAML_TEXT)
        json_close(json, value->kind == ROWS_YAML_MAP ? '}' : ']');
    else if (text_u64(value->text ? value->text : "", INT64_MAX, &number))
        json_uint(json, number);
    else if (value->text && (strcmp(value->text, "true") == 0 || strcmp(value->text, "false") == 0))
        json_bool(json, value->text[0] == 't');
    else
        json_str(json, value->text ? value->text : "");
}

static int file_read_object(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                            struct err *err) {
    autobuf text = buf_max(LIMIT_CONF_BYTES);
    struct json json;
    json_init(&json, &text);
    file_put_json(&json, value);
    const char *written = buf_cstr(&text);
    if (!written)
        return err_set(err, ERR_TOO_LARGE, "%s is too large", option->name);
    return conf_set(target, option, written, written, err) ? rows_yaml_at(value, err) : 0;
}

static int file_read_value(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                           struct err *err) {
    if (option->flags & CONF_OBJECT && value->kind == ROWS_YAML_MAP)
        return file_read_object(target, option, value, err);
    TRY(rows_yaml_is(value, ROWS_YAML_TEXT, option->name, 0, err));
    return conf_set(target, option, value->text, value->shown, err) ? rows_yaml_at(value, err) : 0;
}

static int file_read_list(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                          struct err *err) {
    TRY(rows_yaml_is(value, ROWS_YAML_LIST, option->name, 0, err));
    for (size_t i = 0; i < value->count; i++)
        TRY(file_read_value(target, option, &value->items[i], err));
    return 0;
}

static int (*const readers[])(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                              struct err *err) = {
    [CONF_TEXT] = file_read_value,
    [CONF_BOOL] = file_read_value,
    [CONF_INT] = file_read_value,
    [CONF_REAL] = file_read_value,
    [CONF_LIST] = file_read_list,
    [CONF_ENV] = conf_read_env,
    [CONF_MOUNTS] = conf_read_mounts,
    [CONF_TEMPLATES] = conf_read_templates,
    [CONF_TOKENS] = conf_read_tokens,
    [CONF_SERVERS] = conf_read_servers,
    [CONF_REGISTRIES] = conf_read_registries,
    [CONF_USERS] = conf_read_users,
};

/* Reads the options of one mapping; options that are limits may also be below `limits:`. */
static int file_read_options(const struct conf_target *target, const struct rows_yaml *map, const char *what,
                             bool limits, struct err *err) {
    TRY(rows_yaml_is(map, ROWS_YAML_MAP, what, 0, err));
    for (size_t i = 0; i < map->count; i++) {
        const struct rows_yaml *item = &map->items[i];
        if (!limits && strcmp(item->key, "limits") == 0) {
            TRY(file_read_options(target, item, "limits", true, err));
            continue;
        }
        const struct row *option = rows_find(conf_options, item->key, strlen(item->key));
        const char *wrong = !option                                        ? "is unknown"
                            : limits && !(option->flags & CONF_LIMIT)      ? "is not one of the limits"
                            : target->user && !(option->flags & CONF_USER) ? "cannot differ by user"
                            : *conf_given_at(target, option)               ? "is given twice"
                                                                           : NULL;
        if (!option)
            err_set(err, ERR_INVALID, "unknown option '%.60s'; cubbyd --options lists them", item->key);
        else if (wrong)
            err_set(err, ERR_INVALID, "%s %s", option->name, wrong);
        if (wrong)
            return rows_yaml_at_key(item, err);
        *conf_given_at(target, option) = true;
        TRY(readers[option->type](target, option, item, err));
    }
    return 0;
}

int conf_mapping(const struct conf_target *target, const struct rows_yaml *map, struct err *err) {
    return file_read_options(target, map, target->user ? "a user's options" : "the configuration", false, err);
}

int conf_parse(struct conf *conf, const char *path, const char *data, size_t len, struct err *err) {
    autoarena arena = ARENA_EMPTY; /* may contain tokens, so values in use are copied */
    struct rows_yaml *root;
    TRY(rows_yaml_load(path, data, len, &arena, &root, err));
    return root ? conf_mapping(&(struct conf_target){.conf = conf}, root, err) : 0;
}

int conf_file(struct conf *conf, const char *path, struct err *err) {
    struct stat status;
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "cannot read the configuration %s", path);
    if (S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "the configuration %s is a directory", path);
    char *data = xmalloc(LIMIT_CONF_BYTES + 1);
    ssize_t len = fd_read_full(fd, data, LIMIT_CONF_BYTES + 1);
    int failed = len < 0 ? err_errno(err, (int)-len, "cannot read the configuration %s", path)
                 : len > LIMIT_CONF_BYTES
                     ? err_set(err, ERR_TOO_LARGE, "configuration %s: more than %u bytes", path, LIMIT_CONF_BYTES)
                     : conf_parse(conf, path, data, (size_t)len, err);
    explicit_bzero(data, len > 0 ? (size_t)len : 0); /* may contain tokens */
    free(data);
    return failed;
}
