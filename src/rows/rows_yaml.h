/* YAML as a tree of values with their lines, and a mapping into a struct by rows. Called by daemon/conf_file.c and the
 * readers of its options. Every error begins with the file and the line. */
#ifndef CUBBY_ROWS_YAML_H
#define CUBBY_ROWS_YAML_H

#include "rows/rows.h"

enum rows_yaml_kind { ROWS_YAML_TEXT, ROWS_YAML_LIST, ROWS_YAML_MAP };
struct rows_yaml {
    enum rows_yaml_kind kind;
    const char *file;
    size_t line, key_line; /* the same in a list */
    const char *key;       /* NULL in a list */
    const char *text;      /* references to the environment are resolved; NULL: it has a NUL inside */
    const char *shown;     /* the text as written, which an error may show */
    struct rows_yaml *items;
    size_t count;
};

/* data as one document, all of it in arena; *ret_root is NULL when it is empty. `$NAME` and `${NAME}` in a text stand
 * for a variable of the environment, `$$` for a dollar. */
int rows_yaml_load(const char *file, const char *data, size_t len, struct arena *arena, struct rows_yaml **ret_root,
                   struct err *err);
/* A value of that kind, with at most `max` items (0: any number); else INVALID. what: "a token". */
int rows_yaml_is(const struct rows_yaml *value, enum rows_yaml_kind kind, const char *what, size_t max,
                 struct err *err);
/* A mapping into the struct at `to`, by rows of plain members as in rows_set. */
int rows_yaml_bind(const struct rows_yaml *map, const char *what, const struct row *rows, struct arena *arena, void *to,
                   struct err *err);

/* Put file and line before an error that is set: of the value, or of its key. */
int rows_yaml_at(const struct rows_yaml *value, struct err *err);
int rows_yaml_at_key(const struct rows_yaml *value, struct err *err);

#endif
