/* Request bodies, query parameters and options, declared as rows: the same rows check a value and describe it, in
 * OpenAPI, in a help text or in a manual.
 *
 * Every value is stored in a plain struct through its row's offset. A value that its row does not allow is a 400
 * that names it. */
#ifndef CUBBY_ROWS_ROWS_H
#define CUBBY_ROWS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* type, the member it fills */
enum row_type {
    ROW_TEXT,        /* struct row_text */
    ROW_INT,         /* struct row_number */
    ROW_REAL,        /* struct row_real */
    ROW_BOOL,        /* bool */
    ROW_MODE,        /* struct row_number; "0644" */
    ROW_TEXT_OR_INT, /* struct row_text; a string or an integer (a signal) */
    ROW_TEXT_OR_OBJECT, /* struct row_text; one of `choices`, or an object as JSON text; without choices an object or an array */
    ROW_TEXTS,          /* const char **, NULL-terminated; NULL when absent */
    ROW_MAP,            /* const char **, "K=V", NULL-terminated; NULL when absent */
    ROW_OBJECT,  /* the nested struct itself; with `has` its bool is set when present */
    ROW_OBJECTS, /* struct row_list of nested structs */
    ROW_TIME,    /* answers only: RFC 3339 */
    ROW_OWN,     /* from here on: types of the table's owner */
};

struct row_text {
    const char *data; /* NULL when absent; followed by a NUL */
    size_t len;
};
struct row_number {
    bool has;
    uint64_t value; /* the row's fallback when absent */
};
struct row_real {
    bool has;
    double value;
};
struct row_list {
    void *items;
    size_t count;
};

#define ROW_REQUIRED 0x1u
#define ROW_NUL 0x2u        /* the text may hold NUL: it never becomes a C string */
#define ROW_NULLABLE 0x4u   /* answers only: may be null */
#define ROW_MAYBE 0x40u     /* answers only: not always there; all other members are */
#define ROW_AUDITED 0x8u    /* is shown in the audit log: texts and lists of them, also inside lists of objects */
#define ROW_SECRET 0x10u    /* maps: their values are removed from the audit log */
#define ROW_ANY_BYTES 0x20u /* texts: any bytes, as base64 where the object's row ROW_ENCODING says so */
#define ROW_SIGNED 0x400u   /* answers, and queries: the integer has a sign, and an empty one counts as absent */
#define ROW_OR_ZERO 0x100u  /* options: a number may be 0, too */
#define ROW_FILE 0x200u     /* options: not on a command line */
#define ROW_LENIENT 0x80u   /* of the end of a table: members that no row names are ignored */
#define ROW_ENCODED 0x800u  /* answers only: how the texts with ROW_ANY_BYTES are written; has no member */
#define ROW_OPAQUE 0x1000u  /* answers only: texts of any bytes but NUL; one that is not UTF-8 is {"base64": ...} */
#define ROW_ENCODING "encoding"

struct row {
    const char *name; /* NULL ends a table */
    enum row_type type;
    unsigned flags;
    size_t offset;
    uint64_t min, max;        /* numbers: range; text: bytes; lists and maps: count */
    uint64_t fallback;        /* numbers */
    const char *initial;      /* options: the value as text where none is given; NULL: none */
    const char *choices;      /* "none|open"; NULL: any */
    const struct row *fields; /* of nested objects; answers may have objects without: any members */
    size_t item_size;         /* ROW_OBJECTS */
    const char *text;         /* one sentence */
    char letter;              /* command lines (rows_argv.h): 'm' for -m; 0: none */
    const char *value;        /* command lines: the name of the value in a usage text; NULL: it has no value */
};

/* The end of a table whose objects have a name of their own in the OpenAPI document. */
#define ROW_NAMED(type)                                                                                                \
    { .name = NULL, .text = (type) }

/* data as one JSON object into *ret_args (zeroed by the caller; incomplete on failure). Nothing at all is an empty
 * object; null for a member that is not required is as if it were not there. Texts are copied into arena. */
int rows_parse(const char *data, size_t len, const struct row *fields, struct arena *arena, void *ret_args,
               struct err *err);
/* Its two steps, for a caller that looks at the value in between: the text within the limits of a body as jansson's
 * value (of any type), to be given back with json_decref; and such a value by the rows. */
struct json_t;
int rows_load(const char *data, size_t len, struct json_t **ret_root, struct err *err);
int rows_bind(struct json_t *root, const struct row *fields, struct arena *arena, void *ret_args, struct err *err);

/* Query parameters of the same rows (only TEXT, NAME, INT, BOOL, MODE, and MAP as a JSON object). get returns NULL when
 * absent. */
typedef const char *(*rows_get)(void *user, const char *name, size_t *ret_len);
int rows_query(const struct row *fields, rows_get get, void *user, struct arena *arena, void *ret_args,
               struct err *err);

/* An option as text, of a command line or a configuration file, into the plain member at `at`: TEXT const char *,
 * BOOL bool, INT uint64_t, REAL double. Texts are copied into arena. INVALID names the row; shown: the value as an
 * error may show it. */
int rows_set(const struct row *row, const char *value, const char *shown, struct arena *arena, void *at,
             struct err *err);
bool rows_choice(const char *choices, const char *value);

const struct row *rows_find(const struct row *fields, const char *name, size_t len);
/* INVALID: unknown `what` 'name'; known are ... */
int rows_unknown(const struct row *fields, const char *what, const char *name, struct err *err);

#endif
