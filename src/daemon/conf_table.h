/* Rows of options, and setting one from text: shared by conf.c (the table), conf_args.c (command line), conf_file.c and
 * conf_parts.c (YAML). */
#ifndef CUBBY_DAEMON_CONF_TABLE_H
#define CUBBY_DAEMON_CONF_TABLE_H

#include "daemon/conf.h"
#include "rows/rows_argv.h"
#include "rows/rows_yaml.h"

/* Types of options: plain ones, and those with nested values, which have their own readers. */
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

#define CONF_USER 0x10000u    /* may differ by user: offset in struct conf_share, else in struct conf */
#define CONF_LIMIT 0x20000u   /* may also be set below `limits:` */
#define CONF_AT_ONCE 0x40000u /* SIGHUP changes it; else the next start does */
#define CONF_HOST 0x80000u    /* it exposes files of the host, so it matters which local user asks */
#define CONF_OBJECT 0x100000u /* a text, or an object: a mapping of the file, or JSON */

extern const struct row conf_options[]; /* as in the file; --with-dashes on the command line */
size_t conf_row(const struct row *option);
bool conf_is_list(const struct row *option); /* each value adds a text */

/* Where values go: to the options of all users, or to those of one. */
struct conf_target {
    struct conf *conf; /* its arena, and its options unless for a user */
    struct conf_user *user;
};
void *conf_slot(const struct conf_target *target, const struct row *option);
bool *conf_given_at(const struct conf_target *target, const struct row *option);

/* Sets one value, or adds one to a list. shown: the value for error texts. */
int conf_set(const struct conf_target *target, const struct row *option, const char *value, const char *shown,
             struct err *err);

/* ---- conf_merge.c ---- */
void conf_inherit(struct conf *conf);              /* users inherit values that are not set for them */
bool conf_same_text(const char *a, const char *b); /* either may be NULL */
bool conf_hands_out_host(struct conf *conf);       /* an option marked `host` is set for any user */

/* ---- conf_docker.c ---- */
int conf_check_docker(const struct conf *conf, struct err *err);
/* user: the owner of the share; NULL: the share of all users. */
int conf_check_images(const struct conf *conf, const struct conf_user *user, const struct conf_share *share,
                      struct err *err);
bool conf_same_registries(const struct conf *a, const struct conf *b);

/* ---- conf_provision.c ---- */
/* Completes the settings of a gateway's boxes. */
int conf_provision(struct conf *conf, struct err *err);

/* ---- conf_args.c ---- */
int conf_arguments(struct conf *conf, int argc, char **argv, bool set, struct err *err);

/* ---- conf_file.c ---- */
int conf_file(struct conf *conf, const char *path, struct err *err);
int conf_parse(struct conf *conf, const char *path, const char *data, size_t len, struct err *err);
/* Reads the options of one mapping: of all users, or of one. */
int conf_mapping(const struct conf_target *target, const struct rows_yaml *map, struct err *err);
/* Readers of options with nested values: conf_parts.c, conf_docker.c, conf_servers.c. */
#define CONF_READER(name)                                                                                              \
    int conf_read_##name(const struct conf_target *target, const struct row *option, const struct rows_yaml *value,    \
                         struct err *err)
CONF_READER(env);
CONF_READER(mounts);
CONF_READER(templates);
CONF_READER(tokens);
CONF_READER(users);
CONF_READER(registries);
CONF_READER(servers);
#define CONF_PART(label, kind, holder, member)                                                                         \
    { .name = (label), .type = ROW_##kind, .offset = offsetof(struct holder, member) }

#endif
