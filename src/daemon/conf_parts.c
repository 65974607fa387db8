/* Options of the file with nested values: env, mounts, templates, tokens, users. Called by conf_file.c through its
 * table. Invariant: every error has the line of what is wrong. */
#include "base/base.h"
#include "box/policy.h"
#include "daemon/conf_table.h"

enum { TOKENS_MAX = 10000, USERS_MAX = 10000, TEMPLATES_MAX = 1000 };

/* Accepts a mapping, or a list of at most max. */
static int parts_either(const struct rows_yaml *value, const struct row *option, size_t max, struct err *err) {
    return value->kind == ROWS_YAML_MAP ? 0 : rows_yaml_is(value, ROWS_YAML_LIST, option->name, max, err);
}

int conf_read_env(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                  struct err *err) {
    TRY(parts_either(value, option, LIMIT_ENV_COUNT, err));
    for (size_t i = 0; i < value->count; i++) {
        const struct rows_yaml *item = &value->items[i];
        TRY(rows_yaml_is(item, ROWS_YAML_TEXT, item->key ? item->key : option->name, 0, err));
        const char *text = item->key ? arena_printf(&target->conf->arena, "%s=%s", item->key, item->text) : item->text;
        if (conf_set(target, option, text, item->shown, err))
            return rows_yaml_at_key(item, err);
    }
    return 0;
}

/* ---- mounts ---- */

/* Reports a wrong mount. One that uses the environment may contain a secret, which no error shows. */
static int parts_mount_wrong(const struct rows_yaml *value, struct err *err) {
    for (size_t i = 0; i < value->count; i++)
        if (value->items[i].shown && strchr(value->items[i].shown, '$'))
            err_set(err, ERR_INVALID, "this mount is not valid with its values from the environment");
    return rows_yaml_at(value, err);
}

int conf_read_mounts(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                     struct err *err) {
    static const struct row rows[] = {CONF_PART("source", TEXT, share_mount, source),
                                      CONF_PART("target", TEXT, share_mount, target),
                                      CONF_PART("read_only", BOOL, share_mount, read_only),
                                      CONF_PART("create", BOOL, share_mount, create),
                                      {.name = NULL}};
    struct arena *arena = &target->conf->arena;
    TRY(rows_yaml_is(value, ROWS_YAML_LIST, option->name, LIMIT_MOUNTS, err));
    struct share_mount *mounts = arena_alloc(arena, (value->count + 1) * sizeof *mounts);
    for (size_t i = 0; i < value->count; i++) {
        struct share_mount *mount = &mounts[i];
        TRY(rows_yaml_bind(&value->items[i], "a mount (source, target, read_only, create)", rows, arena, mount, err));
        int failed = !mount->source || !mount->target ? err_set(err, ERR_INVALID, "a mount needs 'source' and 'target'")
                                                      /* a gateway's mounts are trusted for all users */
                                                      : mounts_check(mount, !(option->flags & CONF_USER), err);
        for (size_t j = 0; j < i && !failed; j++)
            if (strcmp(mount->target, mounts[j].target) == 0)
                failed = err_set(err, ERR_INVALID, "mounts: target '%.200s' is given twice", mount->target);
        if (failed)
            return parts_mount_wrong(&value->items[i], err);
    }
    *(struct conf_mounts *)conf_slot(target, option) = (struct conf_mounts){.items = mounts, .count = value->count};
    return 0;
}

/* ---- templates ---- */

/* Reads a list of names or {name, path}, or a mapping of name: path. */
int conf_read_templates(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                        struct err *err) {
    static const struct row rows[] = {
        CONF_PART("name", TEXT, conf_template, name), CONF_PART("path", TEXT, conf_template, path), {.name = NULL}};
    struct conf *conf = target->conf;
    TRY(parts_either(value, option, TEMPLATES_MAX, err));
    if (!target->user)
        conf->imports = arena_alloc(&conf->arena, (value->count + 1) * sizeof *conf->imports);
    for (size_t i = 0; i < value->count; i++) {
        const struct rows_yaml *item = &value->items[i];
        struct conf_template given = {.name = item->key ? item->key : item->text};
        if (item->kind == ROWS_YAML_MAP && !item->key)
            TRY(rows_yaml_bind(item, "a template (name, path)", rows, &conf->arena, &given, err));
        else
            TRY(rows_yaml_is(item, ROWS_YAML_TEXT, item->key ? item->key : "a template", 0, err));
        if (item->key && *item->text)
            given.path = item->text;
        int failed = given.name ? conf_set(target, option, given.name, given.name, err)
                                : err_set(err, ERR_INVALID, "a template needs 'name'");
        if (!failed && given.path && target->user)
            failed = err_set(err, ERR_INVALID,
                             "a user's templates are names; only the templates of all users may have a 'path'");
        if (!failed && given.path && (given.path[0] != '/' || strcmp(given.name, "host") == 0))
            failed = err_set(err, ERR_INVALID,
                             "the path of template '%.64s' must be absolute, and host cannot have one", given.name);
        if (failed)
            return rows_yaml_at(item, err);
        if (given.path)
            conf->imports[conf->import_count++] = (struct conf_template){
                .name = arena_strdup(&conf->arena, given.name), .path = arena_strdup(&conf->arena, given.path)};
    }
    return 0;
}

/* ---- tokens ---- */

struct token_part {
    const char *token, *sha256, *user, *scope;
};

static bool parts_unhex(const char *text, uint8_t out[32]) {
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static int parts_token(const struct token_part *part, struct conf_token *ret_token, struct err *err) {
    if (!part->token == !part->sha256)
        return err_set(err, ERR_INVALID, "a token needs 'token' or 'token_sha256', not both");
    if (part->token && strlen(part->token) < 16)
        return err_set(err, ERR_INVALID, "a token has at least 16 characters (openssl rand -hex 16 makes one)");
    if (part->sha256 && !parts_unhex(part->sha256, ret_token->sha256))
        return err_set(err, ERR_INVALID, "token_sha256 must be 64 lower-case hex digits");
    if (part->token)
        auth_hash(part->token, ret_token->sha256);
    ret_token->user = part->user;
    if (!auth_scope(part->scope ? part->scope : "", &ret_token->scope))
        return err_set(err, ERR_INVALID, "a token needs 'scope': admin, user or read");
    if (ret_token->scope == SCOPE_USER && !part->user)
        return err_set(err, ERR_INVALID, "a token of scope user needs 'user'");
    if (ret_token->scope == SCOPE_ADMIN && part->user)
        return err_set(err, ERR_INVALID, "a token of scope admin sees every user's boxes: omit 'user'");
    return part->user ? text_user(part->user, err) : 0;
}

int conf_read_tokens(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                     struct err *err) {
    static const struct row rows[] = {CONF_PART("token", TEXT, token_part, token),
                                      CONF_PART("token_sha256", TEXT, token_part, sha256),
                                      CONF_PART("user", TEXT, token_part, user),
                                      CONF_PART("scope", TEXT, token_part, scope),
                                      {.name = NULL}};
    struct conf *conf = target->conf;
    TRY(rows_yaml_is(value, ROWS_YAML_LIST, option->name, TOKENS_MAX, err));
    conf->tokens = arena_alloc(&conf->arena, (value->count + 1) * sizeof *conf->tokens);
    for (size_t i = 0; i < value->count; i++) {
        struct token_part part = {0};
        TRY(rows_yaml_bind(&value->items[i], "a token (token or token_sha256, user, scope)", rows, &conf->arena, &part,
                           err));
        if (parts_token(&part, &conf->tokens[i], err))
            return rows_yaml_at(&value->items[i], err);
    }
    conf->token_count = value->count;
    return 0;
}

/* ---- users ---- */

static int parts_user_order(const void *a, const void *b) {
    return strcmp(((const struct conf_user *)a)->name, ((const struct conf_user *)b)->name);
}

int conf_read_users(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,
                    struct err *err) {
    struct conf *conf = target->conf;
    TRY(rows_yaml_is(value, ROWS_YAML_MAP, option->name, USERS_MAX, err));
    conf->users = arena_alloc(&conf->arena, (value->count + 1) * sizeof *conf->users);
    for (size_t i = 0; i < value->count; i++) {
        struct conf_user *user = &conf->users[i];
        user->name = arena_strdup(&conf->arena, value->items[i].key);
        user->given = arena_alloc(&conf->arena, CONF_ROWS * sizeof *user->given);
        if (text_user(user->name, err))
            return rows_yaml_at_key(&value->items[i], err);
        TRY(conf_mapping(&(struct conf_target){.conf = conf, .user = user}, &value->items[i], err));
    }
    conf->user_count = value->count;
    qsort(conf->users, conf->user_count, sizeof *conf->users, parts_user_order);
    return 0;
}
