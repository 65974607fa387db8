/* The YAML file: a mapping of the table's names. Called by conf_new. Invariant: an unknown or repeated name, or a
 * value of the wrong type, is an error with its line. */
#include "base/base.h"
#include "daemon/conf_table.h"

static int file_read_value(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                           const yaml_node_t *node, struct err *err) {
    const char *value, *shown;
    int failed = conf_scalar(reader, node, option->name, &value, &shown, err);
    if (!failed && conf_set(target, option, value, shown, err))
        failed = conf_at(reader, node, err);
    return failed;
}

static int file_read_list(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                          const yaml_node_t *node, struct err *err) {
    struct conf_pair *items;
    size_t count;
    int failed = conf_items(reader, node, option->name, 0, &items, &count, err);
    for (size_t i = 0; !failed && i < count; i++)
        failed = file_read_value(reader, target, option, items[i].value, err);
    return failed;
}

static int (*const readers[])(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                              const yaml_node_t *node, struct err *err) = {
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

static int file_read_option(struct conf_reader *reader, const struct conf_target *target, const struct conf_pair *pair,
                            bool limits_only, struct err *err) {
    const struct row *option = strchr(pair->key, '-') ? NULL : conf_find(pair->key);
    if (!option)
        return conf_refuse(reader, pair->key_node, err, "unknown option '%.60s'; cubbyd --options lists them",
                           pair->key);
    const char *wrong = limits_only && !(option->flags & CONF_LIMIT)   ? "is not one of the limits"
                        : target->user && !(option->flags & CONF_USER) ? "cannot differ by user"
                        : *conf_given_at(target, option)               ? "is given twice"
                                                                       : NULL;
    if (wrong)
        return conf_refuse(reader, pair->key_node, err, "%s %s", option->name, wrong);
    *conf_given_at(target, option) = true;
    return readers[option->type](reader, target, option, pair->value, err);
}

static int file_read_limits(struct conf_reader *reader, const struct conf_target *target, const yaml_node_t *node,
                            struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = conf_pairs(reader, node, "limits", 0, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++)
        failed = file_read_option(reader, target, &pairs[i], true, err);
    return failed;
}

int conf_mapping(struct conf_reader *reader, const struct conf_target *target, const yaml_node_t *node,
                 struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed =
        conf_pairs(reader, node, target->user ? "a user's options" : "the configuration", 0, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++)
        failed = strcmp(pairs[i].key, "limits") == 0 ? file_read_limits(reader, target, pairs[i].value, err)
                                                     : file_read_option(reader, target, &pairs[i], false, err);
    return failed;
}

int conf_parse(struct conf *conf, const char *path, const char *data, size_t len, struct err *err) {
    struct conf_reader reader = {.conf = conf, .path = path};
    int failed = conf_reader_open(&reader, data, len, err);
    if (failed)
        return failed;
    const yaml_node_t *root = yaml_document_get_root_node(&reader.document);
    bool empty = !root || (root->type == YAML_SCALAR_NODE && !root->data.scalar.length);
    if (!empty)
        failed = conf_mapping(&reader, &(struct conf_target){.conf = conf}, root, err);
    conf_reader_done(&reader);
    return failed;
}

int conf_file(struct conf *conf, const char *path, struct err *err) {
    struct stat status;
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "configuration %s", path);
    if (S_ISDIR(status.st_mode))
        return err_set(err, ERR_INVALID, "configuration %s: it is a directory", path);
    char *data = xmalloc(LIMIT_CONF_BYTES + 1);
    ssize_t len = fd_read_full(fd, data, LIMIT_CONF_BYTES + 1);
    int failed = len < 0 ? err_errno(err, (int)-len, "configuration %s", path)
                 : len > LIMIT_CONF_BYTES
                     ? err_set(err, ERR_TOO_LARGE, "configuration %s: more than %u bytes", path, LIMIT_CONF_BYTES)
                     : conf_parse(conf, path, data, (size_t)len, err);
    explicit_bzero(data, len > 0 ? (size_t)len : 0); /* it may hold tokens */
    free(data);
    return failed;
}
