/* Steps that many commands share: a list as a table, one call for each of several names, bodies of texts, parameters.
 * Invariant: the daemon's answers reach standard output as JSON or through a table. */
#include "cli/rest/list.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"

const char *rest_text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

const char *rest_time(struct arena *arena, const char *text) {
    if (!text || strlen(text) < 19)
        return text;
    char *shown = arena_copy(arena, text, 19);
    shown[10] = ' ';
    return shown;
}

const char *rest_shown(struct cli *cli, const char *text) {
    autobuf shown = buf_max(64 << 10);
    text_shown(&shown, text, strlen(text));
    return arena_copy(&cli->arena, shown.data, shown.len);
}

void rest_parameter(struct cli *cli, struct buf *path, const char *name, const char *value) {
    if (value)
        buf_printf(path, "%c%s=%s", path->len && memchr(path->data, '?', path->len) ? '&' : '?', name,
                   remote_encoded(cli, value));
}

void rest_given(struct cli *cli, const void *values, struct json *json, struct buf *path) {
    for (const struct row *row = cli->command->options; row && row->name; row++) {
        const void *at = (const char *)values + row->offset;
        const char *text = row->type == ROW_TEXT ? *(const char *const *)at : NULL;
        if (row->type == ROW_INT && *(const uint64_t *)at)
            text = arena_printf(&cli->arena, "%" PRIu64, *(const uint64_t *)at);
        if (text && json)
            json_put_str(json, row->name, text);
        else if (text)
            rest_parameter(cli, path, row->name, text);
    }
}

void rest_body(struct buf *ret_body, const char *const (*members)[2], size_t count) {
    buf_init(ret_body, LIMIT_JSON_BYTES);
    struct json json = json_begin(ret_body);
    for (size_t i = 0; i < count; i++)
        if (members[i][1])
            json_put_str(&json, members[i][0], members[i][1]);
    json_close(&json, '}');
}

/* ---- tables ---- */

static const char *rest_cell(struct cli *cli, const struct rest_column *column, const json_t *row) {
    if (column->cell)
        return column->cell(cli, row);
    const char *dot = strchr(column->key, '.'); /* "usage.pids" is the member of a member */
    if (dot)
        row = json_object_get(row, arena_copy(&cli->arena, column->key, (size_t)(dot - column->key)));
    const json_t *value = json_object_get(row, dot ? dot + 1 : column->key);
    switch (column->kind) {
    case REST_TIME:
        return rest_time(&cli->arena, json_string_value(value));
    case REST_MS:
        return json_is_number(value) ? arena_printf(&cli->arena, "%.1f ms", json_number_value(value)) : NULL;
    case REST_SIZE:
        return json_is_integer(value) ? table_size(&cli->arena, (uint64_t)json_integer_value(value)) : NULL;
    case REST_NUMBER:
        return json_is_integer(value) ? arena_printf(&cli->arena, "%lld", (long long)json_integer_value(value)) : NULL;
    default:
        return json_string_value(value);
    }
}

void rest_table(struct cli *cli, const json_t *rows, const struct rest_column *columns, size_t count) {
    struct table table = {.arena = &cli->arena, .columns = (unsigned)count};
    size_t i;
    json_t *row;
    for (size_t k = 0; k < count; k++)
        table_cell(&table, columns[k].head);
    json_array_foreach(rows, i, row) for (size_t k = 0; k < count; k++)
        table_cell(&table, rest_cell(cli, &columns[k], row));
    table_print(&table, stdout);
}

json_t *rest_need(struct cli *cli, const char *method, const char *path, const struct buf *body) {
    struct err err = {0};
    json_t *json = NULL;
    cli_must(remote_json(cli, method, path, body, &json, &err), &err);
    return json;
}

int rest_list(struct cli *cli, const char *path, const char *member, const struct rest_column *columns, size_t count,
              bool as_json) {
    json_auto_t *answer = rest_need(cli, "GET", path, NULL);
    if (as_json)
        remote_print(answer);
    else
        rest_table(cli, json_object_get(answer, member), columns, count);
    return 0;
}

/* ---- calls ---- */

int rest_each(struct cli *cli, const char *method, const char *path, const struct buf *body, const char *name) {
    struct err err = {0};
    if (remote_call(cli, method, path, body, NULL, &err) < 0)
        return cli_fail(&err);
    if (name)
        printf("%s\n", name);
    return 0;
}

int rest_post(struct cli *cli, const char *path, const struct buf *body, const char *key, bool as_json) {
    json_auto_t *answer = rest_need(cli, "POST", path, body);
    const char *text = rest_text(answer, key);
    struct err err = {0};
    if (!text && !as_json)
        cli_must(err_set(&err, ERR_PROTOCOL, "%s answered without '%s'", remote_url(), key), &err);
    if (as_json)
        remote_print(answer);
    else
        printf("%s\n", rest_shown(cli, text));
    return 0;
}
