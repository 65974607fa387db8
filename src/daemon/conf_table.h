/* Rows of options, and setting one of them from text: shared by conf.c (the table), conf_args.c (command line), conf_file.c
 * and conf_parts.c (YAML). */
#ifndef CUBBY_DAEMON_CONF_TABLE_H
#define CUBBY_DAEMON_CONF_TABLE_H

#include <yaml.h>

#include "daemon/conf.h"

enum conf_type {
    CONF_TEXT,
    CONF_BOOL,
    CONF_INT,
    CONF_REAL,
    CONF_LIST,
    CONF_ENV,
    CONF_MOUNTS,
    CONF_TEMPLATES,
    CONF_TOKENS,
    CONF_SERVERS,
    CONF_REGISTRIES,
    CONF_USERS
};

struct conf_option {
    const char *name; /* as in the file; --with-dashes on the command line */
    enum conf_type type;
    bool user;    /* may differ by user: offset is in struct conf_share, else in struct conf */
    bool limit;   /* may stand below `limits:`, too */
    bool at_once; /* SIGHUP changes it; else the next start does */
    bool host;    /* set, it hands out files of the host: then it matters which local user asks */
    size_t offset;
    uint64_t min, max, least; /* least: of a value that is not 0 */
    const char *fallback;     /* as text; NULL: none */
    const char *choices;      /* "a|b"; NULL: any */
    const char *text;
};

extern const struct conf_option conf_options[];        /* ends with name NULL */
const struct conf_option *conf_find(const char *name); /* '-' and '_' are the same */
size_t conf_row(const struct conf_option *option);

/* Where values go: to everybody's options, or to those of one user. */
struct conf_target {
    struct conf *conf; /* its arena; its options unless it is about a user */
    struct conf_user *user;
};
void *conf_slot(const struct conf_target *target, const struct conf_option *option);
bool *conf_given_at(const struct conf_target *target, const struct conf_option *option);

/* One value, or one more of a list. shown: what an error may say of it. */
int conf_set(const struct conf_target *target, const struct conf_option *option, const char *value, const char *shown,
             struct err *err);
void conf_list_add(struct arena *arena, struct conf_list *list, const char *value);

/* ---- conf_merge.c ---- */
void conf_inherit(struct conf *conf);        /* users get what does not stand below their names */
bool conf_hands_out_host(struct conf *conf); /* an option marked `host` is set, for all users or for one */

/* ---- conf_docker.c ---- */
int conf_check_docker(const struct conf *conf, struct err *err);
/* user: whose share it is; NULL: everybody's. */
int conf_check_images(const struct conf *conf, const struct conf_user *user, const struct conf_share *share,
                      struct err *err);
bool conf_same_registries(const struct conf *a, const struct conf *b);

/* ---- conf_provision.c ---- */
/* What a gateway's boxes are, put together; INVALID. */
int conf_provision(struct conf *conf, struct err *err);

/* ---- conf_args.c ---- */
int conf_arguments(struct conf *conf, int argc, char **argv, bool set, struct err *err);

/* ---- conf_file.c ---- */
int conf_file(struct conf *conf, const char *path, struct err *err);
int conf_parse(struct conf *conf, const char *path, const char *data, size_t len, struct err *err);
/* The options of one mapping: all of them, or those of a user. */
struct conf_reader;
int conf_mapping(struct conf_reader *reader, const struct conf_target *target, const yaml_node_t *node,
                 struct err *err);

/* ---- conf_reader.c: YAML as nodes ---- */
struct conf_reader {
    struct conf *conf;
    const char *path;
    yaml_document_t document;
};
/* On success conf_reader_done must follow. */
int conf_reader_open(struct conf_reader *reader, const char *data, size_t len, struct err *err);
void conf_reader_done(struct conf_reader *reader);
yaml_node_t *conf_node(struct conf_reader *reader, int index);
int conf_at(struct conf_reader *reader, const yaml_node_t *node, struct err *err); /* puts the line before err */
/* The text of a scalar with references to the environment resolved; shown: as it stands there, or NULL. Errors have their
 * line. what: "a token". */
int conf_scalar(struct conf_reader *reader, const yaml_node_t *node, const char *what, const char **ret_value,
                const char **ret_shown, struct err *err);
const char *conf_key(const yaml_node_t *node); /* NULL: no plain text */

struct conf_pair {
    const char *key;
    const yaml_node_t *key_node, *value;
};
/* The members of a mapping, none twice. Errors have their line. */
int conf_pairs(struct conf_reader *reader, const yaml_node_t *node, const char *what, struct conf_pair **ret_pairs,
               size_t *ret_count, struct err *err);
size_t conf_items(const yaml_node_t *node); /* of a sequence */
const yaml_node_t *conf_item(struct conf_reader *reader, const yaml_node_t *node, size_t i);

/* ---- conf_parts.c: options with an inside; errors have their line ---- */
int conf_read_env(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                  const yaml_node_t *node, struct err *err);
int conf_read_mounts(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                     const yaml_node_t *node, struct err *err);
int conf_read_templates(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                        const yaml_node_t *node, struct err *err);
int conf_read_tokens(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                     const yaml_node_t *node, struct err *err);
int conf_read_registries(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                         const yaml_node_t *node, struct err *err);
int conf_read_users(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                    const yaml_node_t *node, struct err *err);

/* ---- conf_servers.c ---- */
int conf_read_servers(struct conf_reader *reader, const struct conf_target *target, const struct conf_option *option,
                      const yaml_node_t *node, struct err *err);

#endif
