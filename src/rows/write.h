/* Answers, declared as rows: the same rows write a struct as JSON and describe it in OpenAPI.
 *
 * A member that a row writes has a plain type:
 *   TEXT, NAME  const char *; NULL is null in a nullable row, and leaves the member out in any other
 *   INT         an integer of any width; in a nullable row struct row_number
 *   REAL        double; in a nullable row struct row_real
 *   BOOL        bool; in a nullable row struct row_number
 *   MODE        an integer, written as "0644"
 *   TIME        uint64_t, milliseconds of the wall clock; 0 is null
 *   TEXTS, MAP  const char *const *, ended by NULL; NULL is empty, or null in a nullable row
 *   OBJECT      the nested struct; in a nullable row a pointer to it
 *   OBJECTS     struct row_list */
#ifndef CUBBY_ROWS_WRITE_H
#define CUBBY_ROWS_WRITE_H

#include "base/json.h"
#include "rows/rows.h"

#define ROWS_SIGNED(member) ((__typeof__(member))-1 < (__typeof__(member))1 ? ROW_SIGNED : 0u)
#define OUT_MEMBER(holder, member) (((struct holder *)0)->member)
/* A row of an answer. For integers: OUT_INT, which knows the member's width and sign. */
#define OUT(label, kind, holder, member, meaning)                                                                      \
    {                                                                                                                  \
        .name = (label), .type = ROW_##kind, .offset = offsetof(struct holder, member), .max = INT64_MAX,              \
        .text = (meaning)                                                                                              \
    }
#define OUT_NULL(label, kind, holder, member, meaning)                                                                 \
    {                                                                                                                  \
        .name = (label), .type = ROW_##kind, .flags = ROW_NULLABLE, .offset = offsetof(struct holder, member),         \
        .max = INT64_MAX, .text = (meaning)                                                                            \
    }
#define OUT_INT(label, holder, member, meaning)                                                                        \
    {                                                                                                                  \
        .name = (label), .type = ROW_INT, .flags = ROWS_SIGNED(OUT_MEMBER(holder, member)),                            \
        .offset = offsetof(struct holder, member), .item_size = sizeof OUT_MEMBER(holder, member), .max = INT64_MAX,   \
        .text = (meaning)                                                                                              \
    }
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

#endif
