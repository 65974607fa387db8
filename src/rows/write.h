/* Answers, declared as rows: the same rows write a struct as JSON and describe it in OpenAPI.
 *
 * A member that a row writes has a plain type: TEXT, TEXT_OR_INT  const char *; NULL leaves the member out with ROW_NUL
 * or ROW_ANY_BYTES (OUT_BYTES): struct row_text
 * INT                an integer of any width and sign
 * REAL               double
 * BOOL               bool
 * MODE               an integer of any width, written as "0644"
 * TIME               uint64_t, milliseconds of the wall clock; 0 is null TEXTS, MAP         const char *const *, ended
 * by NULL; NULL is empty
 * OBJECT             the nested struct
 * OBJECTS            struct row_list An optional row is null (OUT_NULL) or left out (OUT_MAYBE) when its value is
 * absent. Its member is a struct row_number for INT, BOOL and MODE, a struct row_real for REAL, a pointer for OBJECT;
 * for all others NULL or 0 means absent. */
#ifndef CUBBY_ROWS_WRITE_H
#define CUBBY_ROWS_WRITE_H

#include "base/json.h"
#include "rows/rows.h"

#define ROWS_SIGNED(member) ((__typeof__(member))-1 < (__typeof__(member))1 ? ROW_SIGNED : 0u)
#define OUT_MEMBER(holder, member) (((struct holder *)0)->member)
#define OUT_ROW(label, kind, holder, member, bits, meaning)                                                            \
    {                                                                                                                  \
        .name = (label), .type = ROW_##kind, .flags = (bits), .offset = offsetof(struct holder, member),               \
        .item_size = sizeof OUT_MEMBER(holder, member), .max = INT64_MAX, .text = (meaning)                            \
    }
/* A row of an answer. For integers that are always there: OUT_INT, which knows their sign. */
#define OUT(label, kind, holder, member, meaning) OUT_ROW(label, kind, holder, member, 0, meaning)
#define OUT_NULL(label, kind, holder, member, meaning) OUT_ROW(label, kind, holder, member, ROW_NULLABLE, meaning)
#define OUT_MAYBE(label, kind, holder, member, meaning) OUT_ROW(label, kind, holder, member, ROW_MAYBE, meaning)
/* A text of any bytes: if one such text of the object is not UTF-8, all of them are base64. OUT_ENCODING says which. */
#define OUT_BYTES(label, holder, member, meaning) OUT_ROW(label, TEXT, holder, member, ROW_ANY_BYTES, meaning)
#define OUT_BYTES_NULL(label, holder, member, meaning)                                                                 \
    OUT_ROW(label, TEXT, holder, member, ROW_ANY_BYTES | ROW_NULLABLE, meaning)
#define OUT_ENCODING(of)                                                                                               \
    { .name = ROW_ENCODING, .type = ROW_TEXT, .flags = ROW_ENCODED, .choices = "utf-8|base64", .text = "of " of }
#define OUT_INT(label, holder, member, meaning)                                                                        \
    OUT_ROW(label, INT, holder, member, ROWS_SIGNED(OUT_MEMBER(holder, member)), meaning)
#define OUT_OBJECT(label, holder, member, rows, meaning)                                                               \
    {                                                                                                                  \
        .name = (label), .type = ROW_OBJECT, .offset = offsetof(struct holder, member), .fields = (rows),              \
        .text = (meaning)                                                                                              \
    }
#define OUT_OBJECT_NULL(label, holder, member, rows, meaning)                                                          \
    {                                                                                                                  \
        .name = (label), .type = ROW_OBJECT, .flags = ROW_NULLABLE, .offset = offsetof(struct holder, member),         \
        .fields = (rows), .text = (meaning)                                                                            \
    }
#define OUT_LIST(label, holder, member, item, rows, meaning)                                                           \
    {                                                                                                                  \
        .name = (label), .type = ROW_OBJECTS, .offset = offsetof(struct holder, member),                               \
        .item_size = sizeof(struct item), .fields = (rows), .max = INT64_MAX, .text = (meaning)                        \
    }

/* One value: {…}. */
void rows_write(struct json *json, const struct row *rows, const void *from);
/* The members alone, into an object that is open. */
void rows_members(struct json *json, const struct row *rows, const void *from);

/* The struct back from what rows_write wrote: texts, lists of texts, bool, uint64_t, and objects of these, copied into
 * arena. A member that is missing or null leaves the struct as it is; with ROW_REQUIRED it is an error, and so is
 * a value of another type, and a number that is not 0 to 2^53: IO. Members that no row names are ignored. */
struct json_t;
int rows_read(const struct json_t *root, const struct row *rows, struct arena *arena, void *ret_to, struct err *err);

#endif
