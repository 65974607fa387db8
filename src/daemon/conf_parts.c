/* Options of the file that have an inside: env, mounts, templates, tokens, users. Called by conf_file.c through its
 * table. Invariant: every error has the line of the thing that is wrong. */
#include "base/base.h"
#include "box/policy.h"
#include "daemon/conf_table.h"

enum { TOKENS_MAX = 10000, USERS_MAX = 10000, TEMPLATES_MAX = 1000 };

/* A mapping, or a list. */
static int parts_either(struct conf_reader *reader, const yaml_node_t *node, const char *what, size_t max,
                        struct conf_pair **ret_pairs, size_t *ret_count, struct err *err) {
    return node->type == YAML_MAPPING_NODE ? conf_pairs(reader, node, what, 0, ret_pairs, ret_count, err)
                                           : conf_items(reader, node, what, max, ret_pairs, ret_count, err);
}

/* ---- env ---- */

int conf_read_env(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                  const yaml_node_t *node, struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = parts_either(reader, node, option->name, LIMIT_ENV_COUNT, &pairs, &count, err);
    for (size_t i = 0; !failed && i < count; i++) {
        const char *key = pairs[i].key, *value, *shown;
        failed = conf_scalar(reader, pairs[i].value, key ? key : option->name, &value, &shown, err);
        if (!failed && key)
            value = arena_printf(&reader->conf->arena, "%s=%s", key, value);
        if (!failed && conf_set(target, option, value, shown, err))
            failed = conf_at(reader, pairs[i].key_node, err);
    }
    return failed;
}

/* ---- mounts ---- */

/* Whether anything in a mapping comes from the environment: it may be a secret, and no error shows it. */
static bool parts_has_reference(struct conf_reader *reader, const yaml_node_t *node) {
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
        if (value->type == YAML_SCALAR_NODE && memchr(value->data.scalar.value, '$', value->data.scalar.length))
            return true;
    }
    return false;
}

static int parts_mount_at(struct conf_reader *reader, const yaml_node_t *node, struct err *err) {
    if (node->type == YAML_MAPPING_NODE && parts_has_reference(reader, node))
        err_set(err, ERR_INVALID, "this mount, with what it takes from the environment, cannot be made");
    return conf_at(reader, node, err);
}

static int parts_read_mount(struct conf_reader *reader, const struct row *option, const yaml_node_t *node,
                            struct share_mount *mount, struct err *err) {
    static const struct row rows[] = {CONF_PART("source", TEXT, share_mount, source),
                                      CONF_PART("target", TEXT, share_mount, target),
                                      CONF_PART("read_only", BOOL, share_mount, read_only),
                                      CONF_PART("create", BOOL, share_mount, create),
                                      {.name = NULL}};
    int failed = conf_bind(reader, node, "a mount (source, target, read_only, create)", rows, mount, err);
    if (failed)
        return failed;
    if (!mount->source || !mount->target)
        failed = err_set(err, ERR_INVALID, "a mount needs 'source' and 'target'");
    else /* of a gateway: it is trusted with all users */
        failed = mounts_check(mount, !(option->flags & CONF_USER), err);
    return failed ? parts_mount_at(reader, node, err) : 0;
}

int conf_read_mounts(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                     const yaml_node_t *node, struct err *err) {
    struct conf_mounts *list = conf_slot(target, option);
    struct conf_pair *items;
    size_t count;
    int failed = conf_items(reader, node, option->name, LIMIT_MOUNTS, &items, &count, err);
    if (failed)
        return failed;
    struct share_mount *mounts = arena_alloc(&reader->conf->arena, (count + 1) * sizeof *mounts);
    for (size_t i = 0; i < count && !failed; i++) {
        failed = parts_read_mount(reader, option, items[i].value, &mounts[i], err);
        for (size_t j = 0; j < i && !failed; j++)
            if (strcmp(mounts[i].target, mounts[j].target) == 0) {
                err_set(err, ERR_INVALID, "mounts: target '%.200s' is there twice", mounts[i].target);
                failed = parts_mount_at(reader, items[i].value, err);
            }
    }
    *list = (struct conf_mounts){.items = mounts, .count = count};
    return failed;
}

/* ---- templates ---- */

static int parts_add_template(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                              const char *name, const char *path, const yaml_node_t *node, struct err *err) {
    struct conf *conf = reader->conf;
    int failed = 0;
    if (!name)
        failed = err_set(err, ERR_INVALID, "a template needs 'name'");
    else
        failed = conf_set(target, option, name, name, err);
    if (!failed && path && target->user)
        failed = err_set(err, ERR_INVALID, "a user's templates are names; 'path' belongs in templates of all");
    if (!failed && path && (path[0] != '/' || strcmp(name, "host") == 0))
        failed = err_set(err, ERR_INVALID, "path of template '%.64s' must be absolute, and host has none", name);
    if (failed)
        return conf_at(reader, node, err);
    if (path)
        conf->imports[conf->import_count++] =
            (struct conf_template){.name = arena_strdup(&conf->arena, name), .path = arena_strdup(&conf->arena, path)};
    return 0;
}

static int parts_read_template(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                               const yaml_node_t *node, struct err *err) {
    static const struct row rows[] = {
        CONF_PART("name", TEXT, conf_template, name), CONF_PART("path", TEXT, conf_template, path), {.name = NULL}};
    struct conf_template template = {0};
    int failed = node->type == YAML_MAPPING_NODE
                     ? conf_bind(reader, node, "a template (name, path)", rows, &template, err)
                     : conf_scalar(reader, node, "a template", &template.name, NULL, err);
    return failed ? failed : parts_add_template(reader, target, option, template.name, template.path, node, err);
}

/* A list of names or {name, path}; or a mapping of name: path. */
int conf_read_templates(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                        const yaml_node_t *node, struct err *err) {
    struct conf_pair *pairs;
    size_t count;
    int failed = parts_either(reader, node, option->name, TEMPLATES_MAX, &pairs, &count, err);
    if (!failed && !target->user)
        reader->conf->imports = arena_alloc(&reader->conf->arena, (count + 1) * sizeof *reader->conf->imports);
    for (size_t i = 0; !failed && i < count; i++) {
        const char *name = pairs[i].key, *path;
        failed = name ? conf_scalar(reader, pairs[i].value, name, &path, NULL, err)
                      : parts_read_template(reader, target, option, pairs[i].value, err);
        if (!failed && name)
            failed = parts_add_template(reader, target, option, name, *path ? path : NULL, pairs[i].value, err);
    }
    return failed;
}

/* ---- tokens ---- */

static bool parts_unhex(const char *text, uint8_t out[32]) {
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static int parts_read_hash(const char *plain, const char *hash, uint8_t ret_sha256[32], struct err *err) {
    if (!plain == !hash)
        return err_set(err, ERR_INVALID, "a token needs 'token' or 'token_sha256', not both");
    if (plain && strlen(plain) < 16)
        return err_set(err, ERR_INVALID, "a token has at least 16 characters (openssl rand -hex 16 makes one)");
    if (hash && !parts_unhex(hash, ret_sha256))
        return err_set(err, ERR_INVALID, "token_sha256 must be 64 lower-case hex digits");
    if (plain)
        auth_hash(plain, ret_sha256);
    return 0;
}

static int parts_token_check(struct conf_token *token, const char *scope, struct err *err) {
    if (!auth_scope(scope ? scope : "", &token->scope))
        return err_set(err, ERR_INVALID, "a token needs 'scope': admin, user or read");
    if (token->scope == SCOPE_USER && !token->user)
        return err_set(err, ERR_INVALID, "a token of scope user needs 'user'");
    if (token->scope == SCOPE_ADMIN && token->user)
        return err_set(err, ERR_INVALID, "a token of scope admin sees every user's boxes: leave 'user' out");
    return token->user ? text_user(token->user, err) : 0;
}

struct token_part {
    const char *token, *sha256, *user, *scope;
};

static int parts_read_token(struct conf_reader *reader, const yaml_node_t *node, struct conf_token *token,
                            struct err *err) {
    static const struct row rows[] = {CONF_PART("token", TEXT, token_part, token),
                                      CONF_PART("token_sha256", TEXT, token_part, sha256),
                                      CONF_PART("user", TEXT, token_part, user),
                                      CONF_PART("scope", TEXT, token_part, scope),
                                      {.name = NULL}};
    struct token_part part = {0};
    int failed = conf_bind(reader, node, "a token (token or token_sha256, user, scope)", rows, &part, err);
    if (failed)
        return failed;
    token->user = part.user;
    failed = parts_read_hash(part.token, part.sha256, token->sha256, err);
    if (!failed)
        failed = parts_token_check(token, part.scope, err);
    return failed ? conf_at(reader, node, err) : 0;
}

int conf_read_tokens(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                     const yaml_node_t *node, struct err *err) {
    struct conf *conf = target->conf;
    struct conf_pair *items;
    size_t count;
    int failed = conf_items(reader, node, option->name, TOKENS_MAX, &items, &count, err);
    if (failed)
        return failed;
    conf->tokens = arena_alloc(&conf->arena, (count + 1) * sizeof *conf->tokens);
    for (size_t i = 0; i < count && !failed; i++)
        failed = parts_read_token(reader, items[i].value, &conf->tokens[i], err);
    conf->token_count = count;
    return failed;
}

/* ---- users ---- */

static int parts_user_order(const void *a, const void *b) {
    return strcmp(((const struct conf_user *)a)->name, ((const struct conf_user *)b)->name);
}

int conf_read_users(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                    const yaml_node_t *node, struct err *err) {
    struct conf *conf = target->conf;
    struct conf_pair *pairs;
    size_t count;
    int failed = conf_pairs(reader, node, option->name, USERS_MAX, &pairs, &count, err);
    if (failed)
        return failed;
    conf->users = arena_alloc(&conf->arena, (count + 1) * sizeof *conf->users);
    for (size_t i = 0; i < count && !failed; i++) {
        struct conf_user *user = &conf->users[i];
        user->name = arena_strdup(&conf->arena, pairs[i].key);
        user->given = arena_alloc(&conf->arena, CONF_ROWS * sizeof *user->given);
        if (text_user(user->name, err))
            failed = conf_at(reader, pairs[i].key_node, err);
        else
            failed = conf_mapping(reader, &(struct conf_target){.conf = conf, .user = user}, pairs[i].value, err);
    }
    conf->user_count = count;
    if (count && !failed)
        qsort(conf->users, count, sizeof *conf->users, parts_user_order);
    return failed;
}
