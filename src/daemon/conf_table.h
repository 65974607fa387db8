/* Rows of options, and setting one of them from text: shared by conf.c (the table), conf_args.c (command line),
 * conf_file.c and conf_parts.c (YAML). */
#ifndef CUBBY_DAEMON_CONF_TABLE_H
#define CUBBY_DAEMON_CONF_TABLE_H

#include <yaml.h>

#include "daemon/conf.h"
#include "rows/rows_argv.h"

/* Types of options: plain ones, and those with an inside, which have readers of their own. */
#define CONF_TEXT ROW_TEXT
#define CONF_BOOL ROW_BOOL
#define CONF_INT ROW_INT
#define CONF_REAL ROW_REAL
#define CONF_LIST ROW_TEXTS /* struct row_texts */
#define CONF_ENV (ROW_OWN + 0)
#define CONF_MOUNTS (ROW_OWN + 1)
#define CONF_TEMPLATES (ROW_OWN + 2)
#define CONF_TOKENS (ROW_OWN + 3)
#define CONF_SERVERS (ROW_OWN + 4)
#define CONF_REGISTRIES (ROW_OWN + 5)
#define CONF_USERS (ROW_OWN + 6)

#define CONF_USER 0x10000u    /* may differ by user: offset is in struct conf_share, else in struct conf */
#define CONF_LIMIT 0x20000u   /* may also be set below `limits:` */
#define CONF_AT_ONCE 0x40000u /* SIGHUP changes it; else the next start does */
#define CONF_HOST 0x80000u    /* set, it hands out files of the host: then it matters which local user asks */

extern const struct row conf_options[];        /* as in the file; --with-dashes on the command line */
const struct row *conf_find(const char *name); /* '-' and '_' are the same */
size_t conf_row(const struct row *option);
bool conf_is_list(const struct row *option); /* of texts: one more with every value */

/* Where values go: to everybody's options, or to those of one user. */
struct conf_target {
    struct conf *conf; /* its arena; its options unless it is about a user */
    struct conf_user *user;
};
void *conf_slot(const struct conf_target *target, const struct row *option);
bool *conf_given_at(const struct conf_target *target, const struct row *option);

/* One value, or one more of a list. shown: the value as an error may show it. */
int conf_set(const struct conf_target *target, const struct row *option, const char *value, const char *shown,
             struct err *err);

/* ---- conf_merge.c ---- */
void conf_inherit(struct conf *conf);              /* users inherit the values that are not set below their names */
bool conf_same_text(const char *a, const char *b); /* either may be NULL */
bool conf_hands_out_host(struct conf *conf);       /* an option marked `host` is set, for all users or for one */

/* ---- conf_docker.c ---- */
int conf_check_docker(const struct conf *conf, struct err *err);
/* user: the owner of the share; NULL: the share of all users. */
int conf_check_images(const struct conf *conf, const struct conf_user *user, const struct conf_share *share,
                      struct err *err);
bool conf_same_registries(const struct conf *a, const struct conf *b);

/* ---- conf_provision.c ---- */
/* Completes the settings of a gateway's boxes; INVALID. */
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
int conf_at(struct conf_reader *reader, const yaml_node_t *node, struct err *err); /* puts the line before err */
/* INVALID with its line. */
int conf_refuse(struct conf_reader *reader, const yaml_node_t *node, struct err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The text of a scalar with references to the environment resolved; shown: as written, or NULL. Errors have their
 * line. what: "a token". */
int conf_scalar(struct conf_reader *reader, const yaml_node_t *node, const char *what, const char **ret_value,
                const char **ret_shown, struct err *err);
const char *conf_key(const yaml_node_t *node); /* NULL: no plain text */

struct conf_pair {
    const char *key;
    const yaml_node_t *key_node, *value;
};
/* The members of a mapping, none twice; at most max, 0: any number. Errors have their line. */
int conf_pairs(struct conf_reader *reader, const yaml_node_t *node, const char *what, size_t max,
               struct conf_pair **ret_pairs, size_t *ret_count, struct err *err);
/* The values of a list, whose key is NULL. */
int conf_items(struct conf_reader *reader, const yaml_node_t *node, const char *what, size_t max,
               struct conf_pair **ret_items, size_t *ret_count, struct err *err);
/* A mapping into the struct at `to` by rows of texts and bools, as rows_set. Errors have their line. */
int conf_bind(struct conf_reader *reader, const yaml_node_t *node, const char *what, const struct row *rows, void *to,
              struct err *err);
#define CONF_PART(label, kind, holder, member)                                                                         \
    { .name = (label), .type = ROW_##kind, .offset = offsetof(struct holder, member) }

/* ---- conf_parts.c: options with an inside; errors have their line ---- */
int conf_read_env(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                  const yaml_node_t *node, struct err *err);
int conf_read_mounts(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                     const yaml_node_t *node, struct err *err);
int conf_read_templates(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                        const yaml_node_t *node, struct err *err);
int conf_read_tokens(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                     const yaml_node_t *node, struct err *err);
int conf_read_registries(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                         const yaml_node_t *node, struct err *err);
int conf_read_users(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                    const yaml_node_t *node, struct err *err);

/* ---- conf_servers.c ---- */
int conf_read_servers(struct conf_reader *reader, const struct conf_target *target, const struct row *option,
                      const yaml_node_t *node, struct err *err);

#endif
