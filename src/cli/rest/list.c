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

const char *rest_age(struct cli *cli, const char *text) {
    static const struct {
        uint64_t most, unit;
        const char *name;
    } units[] = {{120, 1, "s"}, {7200, 60, "min"}, {172800, 3600, "h"}, {UINT64_MAX, 86400, "days"}};
    uint64_t ms, now_ms = clock_wall_ms();
    if (!text || !clock_parse(text, &ms))
        return NULL;
    uint64_t age = now_ms > ms ? (now_ms - ms) / 1000 : 0;
    size_t i = 0;
    while (age >= units[i].most)
        i++;
    return arena_printf(&cli->arena, "%" PRIu64 " %s", age / units[i].unit, units[i].name);
}

const char *rest_when(struct cli *cli, const char *name, const char *text) {
    static const struct {
        char letter;
        uint64_t ms;
    } units[] = {{'s', 1000}, {'m', 60000}, {'h', 3600000}, {'d', 86400000}};
    uint64_t ms, number, now_ms = clock_wall_ms();
    char *out = arena_alloc(&cli->arena, CLOCK_TEXT_BYTES);
    size_t len = text ? strlen(text) : 0;
    if (!text)
        return NULL;
    if (clock_parse(text, &ms) || clock_parse(arena_printf(&cli->arena, "%.40sT00:00:00Z", text), &ms))
        return clock_text(ms, out);
    const char *digits = len ? arena_copy(&cli->arena, text, len - 1) : "";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (len && text[len - 1] == units[i].letter && text_u64(digits, 1000000, &number))
            return clock_text(now_ms > number * units[i].ms ? now_ms - number * units[i].ms : 0, out);
    option_fail(cli, "--%s must be a time such as 2026-01-31T12:00:00Z, 2026-01-31 or 2h, not '%s'", name, text);
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
    case REST_AGE:
        return rest_age(cli, json_string_value(value));
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
    for (size_t k = 0; k < count; k++) {
        table_cell(&table, columns[k].head);
        table.colored |= (unsigned long)(columns[k].kind == REST_STATE) << k;
    }
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
