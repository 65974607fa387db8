/* The YAML file: a mapping of the same names. Called by conf_load.
 * Not to break: what is unknown, doubled or of the wrong type is an error with its line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"
#include "box/policy.h"
#include "daemon/conf_table.h"

#define CONF_TOKENS_MAX 10000

struct conf_reader {
    struct conf *conf;
    const char *path;
    yaml_document_t document;
};

static int conf_at(struct conf_reader *reader, const yaml_node_t *node, struct err *err) {
    return err_wrap(err, "%s line %zu", reader->path, node->start_mark.line + 1);
}

static yaml_node_t *conf_node(struct conf_reader *reader, int index) {
    return yaml_document_get_node(&reader->document, index);
}

/* The text of a scalar; NULL for anything else, or with a NUL inside. */
static const char *conf_scalar(const yaml_node_t *node) {
    if (node->type != YAML_SCALAR_NODE || strlen((char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

/* ---- tokens ---- */

static bool conf_unhex(const char *text, uint8_t out[32]) {
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return false;
    for (size_t i = 0; i < 32; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static int conf_token_finish(struct conf_token *token, bool hashed, const char *scope, struct err *err) {
    if (!hashed)
        return err_set(err, ERR_INVALID, "a token needs 'token' or 'token_sha256'");
    if (!auth_scope(scope ? scope : "", &token->scope))
        return err_set(err, ERR_INVALID, "a token needs 'scope': admin, user or read");
    if (token->scope == SCOPE_USER && !token->user)
        return err_set(err, ERR_INVALID, "a token of scope user needs 'user'");
    if (token->scope == SCOPE_ADMIN && token->user)
        return err_set(err, ERR_INVALID, "a token of scope admin sees every user's boxes: leave 'user' out");
    return 0;
}

static int conf_token(struct conf_reader *reader, const yaml_node_t *node, struct conf_token *token, struct err *err) {
    const char *scope = NULL;
    bool hashed = false;
    if (node->type != YAML_MAPPING_NODE)
        return err_set(err, ERR_INVALID, "a token must be a mapping of token or token_sha256, user, scope");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const char *key = conf_scalar(conf_node(reader, pair->key)),
                   *value = conf_scalar(conf_node(reader, pair->value));
        if (!key || !value || !*value)
            return err_set(err, ERR_INVALID, "'%.40s' of a token must be text", key ? key : "?");
        if (!strcmp(key, "token")) {
            if (strlen(value) < 16)
                return err_set(err, ERR_INVALID, "a token has at least 16 characters (openssl rand -hex 16 makes one)");
            auth_hash(value, token->sha256);
            hashed = true;
        } else if (!strcmp(key, "token_sha256")) {
            if (!conf_unhex(value, token->sha256))
                return err_set(err, ERR_INVALID, "token_sha256 must be 64 lower-case hex digits");
            hashed = true;
        } else if (!strcmp(key, "user")) {
            int failed = policy_user(value, err);
            if (failed)
                return failed;
            token->user = arena_strdup(&reader->conf->arena, value);
        } else if (!strcmp(key, "scope")) {
            scope = value;
        } else {
            return err_set(err, ERR_INVALID, "unknown key '%.40s' of a token; known: token, token_sha256, user, scope",
                           key);
        }
    }
    return conf_token_finish(token, hashed, scope, err);
}

static int conf_tokens(struct conf_reader *reader, const yaml_node_t *node, struct err *err) {
    struct conf *conf = reader->conf;
    if (node->type != YAML_SEQUENCE_NODE)
        return err_set(err, ERR_INVALID, "tokens must be a list");
    size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (count > CONF_TOKENS_MAX)
        return err_set(err, ERR_INVALID, "more than %d tokens", CONF_TOKENS_MAX);
    conf->tokens = arena_alloc(&conf->arena, (count + 1) * sizeof *conf->tokens);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *item = conf_node(reader, node->data.sequence.items.start[i]);
        if (conf_token(reader, item, &conf->tokens[i], err))
            return conf_at(reader, item, err);
    }
    conf->token_count = count;
    return 0;
}

/* ---- options ---- */

static int conf_value(struct conf_reader *reader, const struct conf_option *option, const yaml_node_t *node,
                      struct err *err) {
    if (option->type != CONF_LIST) {
        const char *value = conf_scalar(node);
        return value ? conf_set(reader->conf, option, value, err)
                     : err_set(err, ERR_INVALID, "%s must be a single value", option->name);
    }
    if (node->type != YAML_SEQUENCE_NODE)
        return err_set(err, ERR_INVALID, "%s must be a list", option->name);
    for (int *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const char *value = conf_scalar(conf_node(reader, *item));
        int failed = value ? conf_set(reader->conf, option, value, err)
                           : err_set(err, ERR_INVALID, "%s must be a list of texts", option->name);
        if (failed)
            return failed;
    }
    return 0;
}

static int conf_root(struct conf_reader *reader, struct err *err) {
    bool seen[64] = {false};
    const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    if (!root || (root->type == YAML_SCALAR_NODE && !root->data.scalar.length))
        return 0; /* empty, or only comments */
    if (root->type != YAML_MAPPING_NODE) {
        err_set(err, ERR_INVALID, "the configuration must be a mapping of options");
        return conf_at(reader, root, err);
    }
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = conf_node(reader, pair->key), *value = conf_node(reader, pair->value);
        const char *name = conf_scalar(key);
        const struct conf_option *option = name && !strchr(name, '-') ? conf_find(name) : NULL;
        int failed = 0;
        if (!option)
            failed =
                err_set(err, ERR_INVALID, "unknown option '%.60s'; cubbyd --options lists them", name ? name : "?");
        else if (seen[option - conf_options])
            failed = err_set(err, ERR_INVALID, "%s stands there twice", option->name);
        if (failed)
            return conf_at(reader, key, err);
        seen[option - conf_options] = true;
        reader->conf->given |= 1ull << (option - conf_options);
        if (option->type == CONF_TOKENS)
            failed = conf_tokens(reader, value, err);
        else if ((failed = conf_value(reader, option, value, err)))
            return conf_at(reader, value, err);
        if (failed)
            return failed;
    }
    return 0;
}

int conf_file(struct conf *conf, const char *path, struct err *err) {
    struct conf_reader reader = {.conf = conf, .path = path};
    FILE *file = fopen(path, "re");
    if (!file)
        return err_errno(err, errno, "configuration %s", path);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        abort();
    yaml_parser_set_input_file(&parser, file);
    int failed;
    if (!yaml_parser_load(&parser, &reader.document)) {
        failed = err_set(err, ERR_INVALID, "%s line %zu: %s", path, parser.problem_mark.line + 1,
                         parser.problem ? parser.problem : "not YAML");
    } else {
        failed = conf_root(&reader, err);
        yaml_document_delete(&reader.document);
    }
    yaml_parser_delete(&parser);
    fclose(file);
    return failed;
}
