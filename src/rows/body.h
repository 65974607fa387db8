/* Request bodies and query parameters, declared as rows: the same rows check a request and write its OpenAPI schema.
 *
 * Every value lands in a plain struct through its row's offset. What a row does not allow is a 400 that names it. */
#ifndef CUBBY_SCHEMA_BODY_H
#define CUBBY_SCHEMA_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* type, what it fills */
enum body_type {
    BODY_TEXT,    /* struct body_text */
    BODY_INT,     /* struct body_number */
    BODY_REAL,    /* struct body_real */
    BODY_BOOL,    /* bool */
    BODY_MODE,    /* struct body_number; "0644" */
    BODY_NAME,    /* struct body_text; a string or an integer (a signal) */
    BODY_TEXTS,   /* const char **, NULL-terminated; NULL when absent */
    BODY_MAP,     /* const char **, "K=V", NULL-terminated; NULL when absent */
    BODY_OBJECT,  /* the nested struct itself; with `has` its bool is set when present */
    BODY_OBJECTS, /* struct body_list of nested structs */
    BODY_TIME,    /* answers only: RFC 3339 */
};

struct body_text {
    const char *data; /* NULL when absent; a NUL stands behind it */
    size_t len;
};
struct body_number {
    bool has;
    uint64_t value; /* the row's fallback when absent */
};
struct body_real {
    bool has;
    double value;
};
struct body_list {
    void *items;
    size_t count;
};

#define BODY_REQUIRED 0x1u
#define BODY_NUL 0x2u      /* the text may hold NUL: it never becomes a C string */
#define BODY_NULLABLE 0x4u /* answers only: may be null */
#define BODY_MAYBE 0x40u   /* answers only: not always there; all other members are */
#define BODY_TOLD 0x8u     /* stands in the audit log: texts and lists of them, also inside lists of objects */
#define BODY_SECRET 0x10u  /* maps: no value may stand anywhere in it */
#define BODY_BYTES 0x20u   /* texts: any bytes, as base64 where the object's row BODY_ENCODING says so */
#define BODY_ENCODING "encoding"

struct body_field {
    const char *name; /* NULL ends a table */
    enum body_type type;
    unsigned flags;
    size_t offset;
    uint64_t min, max;               /* numbers: range; text: bytes; lists and maps: count */
    uint64_t fallback;               /* numbers */
    const char *choices;             /* "none|open"; NULL: any */
    const struct body_field *fields; /* of nested objects; answers may have objects without: any members */
    size_t item_size;                /* BODY_OBJECTS */
    const char *text;                /* one sentence */
};

/* The end of a table whose objects have a name of their own in the OpenAPI document. */
#define BODY_NAMED(type)                                                                                               \
    { .name = NULL, .text = (type) }

/* data as one JSON object into *ret_args (zeroed by the caller; incomplete on failure). Nothing at all is an empty
 * object; null for a member that is not required is as if it were not there. Texts are copied into arena. */
int body_parse(const char *data, size_t len, const struct body_field *fields, struct arena *arena, void *ret_args,
               struct err *err);
/* Its two steps, for a door that looks at the value in between: the text within the limits of a body as jansson's value
 * (of any type), to be given back with json_decref; and such a value by the rows. */
struct json_t;
int body_load(const char *data, size_t len, struct json_t **ret_root, struct err *err);
int body_take(struct json_t *root, const struct body_field *fields, struct arena *arena, void *ret_args,
              struct err *err);

/* Query parameters of the same rows (only TEXT, NAME, INT, BOOL, MODE, and MAP as a JSON object). get returns NULL when absent. */
typedef const char *(*body_get)(void *user, const char *name, size_t *ret_len);
int body_query(const struct body_field *fields, body_get get, void *user, struct arena *arena, void *ret_args,
               struct err *err);

const struct body_field *body_find(const struct body_field *fields, const char *name, size_t len);
/* INVALID: unknown `what` 'name'; known are ... */
int body_unknown(const struct body_field *fields, const char *what, const char *name, struct err *err);

#endif
