/* Rows of options, and setting one of them from text: shared by conf.c (command line) and conf_file.c (YAML). */
#ifndef CUBBY_DAEMON_CONF_TABLE_H
#define CUBBY_DAEMON_CONF_TABLE_H

#include "daemon/conf.h"

enum conf_type { CONF_TEXT, CONF_BOOL, CONF_INT, CONF_REAL, CONF_LIST, CONF_TOKENS };

struct conf_option {
    const char *name; /* as in the file; --with-dashes on the command line */
    enum conf_type type;
    size_t offset;
    uint64_t min, max;
    const char *fallback; /* as text; NULL: none */
    const char *choices;  /* "a|b"; NULL: any */
    const char *text;
};

extern const struct conf_option conf_options[];        /* ends with name NULL */
const struct conf_option *conf_find(const char *name); /* '-' and '_' are the same */
/* One value, or one more of a list. */
int conf_set(struct conf *conf, const struct conf_option *option, const char *value, struct err *err);
void conf_clear_list(struct conf *conf, const struct conf_option *option);
/* conf_file.c */
int conf_file(struct conf *conf, const char *path, struct err *err);

#endif
