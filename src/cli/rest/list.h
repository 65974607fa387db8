/* Shared by commands that use the daemon: lists as tables, calls by name. */
#ifndef CUBBY_CLI_REST_LIST_H
#define CUBBY_CLI_REST_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
struct cli;
struct json_t;

enum rest_kind { REST_TEXT, REST_NUMBER, REST_SIZE, REST_TIME, REST_MS, REST_STATE, REST_AGE };
struct rest_column {
    const char *head, *key; /* key: a member of an item, or "member.member" */
    enum rest_kind kind;
    const char *(*cell)(struct cli *cli, const struct json_t *row); /* used instead of key and kind */
};
#define COLUMN(title, member, type)                                                                                    \
    { .head = (title), .key = (member), .kind = REST_##type }
#define CELL(title, function)                                                                                          \
    { .head = (title), .cell = (function) }
void rest_table(struct cli *cli, const struct json_t *rows, const struct rest_column *columns, size_t count);
/* Returns the answer. A failure is printed and exits 125. Release it with json_decref. */
struct json_t *rest_need(struct cli *cli, const char *method, const char *path, const struct buf *body);
/* A whole command that lists: GET path, then the answer's list `member` as a table, or the answer as JSON. Functions
 * here that return a number return an exit status, and have reported failures. */
int rest_list(struct cli *cli, const char *path, const char *member, const struct rest_column *columns, size_t count,
              bool as_json);
#define REST_SHOWN(table) .columns = (table), .column_count = sizeof(table) / sizeof *(table)
#define REST_COLUMNS(columns) (columns), sizeof(columns) / sizeof *(columns)
/* Makes one call and prints the name when it succeeds; name and body may be NULL. */
int rest_each(struct cli *cli, const char *method, const char *path, const struct buf *body, const char *name);
/* Makes a POST and shows the answer: its member `key`, or all of it as JSON. */
int rest_post(struct cli *cli, const char *path, const struct buf *body, const char *key, bool as_json);

/* Makes an object of texts, without those that are NULL. Initializes ret_body. */
void rest_body(struct buf *ret_body, const char *const (*members)[2], size_t count);
#define REST_BODY(ret_body, ...)                                                                                       \
    rest_body(ret_body, (const char *const[][2]){__VA_ARGS__},                                                         \
              sizeof((const char *const[][2]){__VA_ARGS__}) / sizeof(const char *[2]))
/* Given options of the command as members of an open object, or as query parameters. */
struct json;
void rest_given(struct cli *cli, const void *values, struct json *json, struct buf *path);
void rest_parameter(struct cli *cli, struct buf *path, const char *name,
                    const char *value); /* adds ?name=value unless NULL */
/* Prints the member with this path ("boxes.0.id"): a text as it is, anything else as JSON. (query.c) */
int rest_query(struct cli *cli, const struct json_t *json, const char *path);
const char *rest_text(const struct json_t *object, const char *key);
const char *rest_time(struct arena *arena, const char *text); /* "2026-01-31T12:00:00.123Z" as "2026-01-31 12:00:00" */
const char *rest_age(struct cli *cli, const char *text);      /* the same as "3 min"; NULL stays NULL */
/* A time of an option ("2h", "2026-01-31", or whole) for the API; NULL stays NULL. Exits 2 if malformed. */
const char *rest_when(struct cli *cli, const char *name, const char *text);
const char *rest_shown(struct cli *cli, const char *text); /* safe on a terminal */

#endif
