/* Structs as JSON by their rows. Called by every handler that answers with more than a few members.
 * Invariant: a member is written exactly as its row describes it, or not at all. */
#include "rows/write.h"

#include <stdio.h>
#include <string.h>

static uint64_t write_unsigned(const struct row *row, const void *at) {
    uint64_t value = 0;
    switch (row->item_size) {
    case 1:
        return *(const uint8_t *)at;
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        memcpy(&value, at, sizeof value);
        return value;
    }
}

static void write_integer(struct json *json, const struct row *row, const void *at) {
    uint64_t value = write_unsigned(row, at);
    unsigned spare = row->item_size < sizeof value && row->item_size ? 64 - 8 * (unsigned)row->item_size : 0;
    if (row->flags & ROW_SIGNED)
        json_int(json, (int64_t)(value << spare) >> spare);
    else
        json_uint(json, value);
}

static void write_texts(struct json *json, const char *const *texts) {
    json_open(json, '[');
    for (; texts && *texts; texts++)
        json_str(json, *texts);
    json_close(json, ']');
}

static void write_map(struct json *json, const char *const *pairs) {
    json_open(json, '{');
    for (; pairs && *pairs; pairs++) {
        const char *equals = strchr(*pairs, '=');
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(equals - *pairs), *pairs);
        json_key(json, name);
        json_str(json, equals + 1);
    }
    json_close(json, '}');
}

/* False: the row is null. */
static bool write_nullable(struct json *json, const struct row *row, const void *at) {
    const struct row_number *number = at;
    switch (row->type) {
    case ROW_INT:
        return number->has ? json_uint(json, number->value), true : false;
    case ROW_BOOL:
        return number->has ? json_bool(json, number->value), true : false;
    case ROW_REAL: {
        const struct row_real *real = at;
        return real->has ? json_double(json, real->value), true : false;
    }
    case ROW_OBJECT: {
        const void *object = *(const void *const *)at;
        return object ? rows_write(json, row->fields, object), true : false;
    }
    case ROW_TEXTS:
    case ROW_MAP: {
        const char *const *items = *(const char *const *const *)at;
        return items ? (row->type == ROW_MAP ? write_map : write_texts)(json, items), true : false;
    }
    default: {
        const char *text = *(const char *const *)at;
        return text ? json_str(json, text), true : false;
    }
    }
}

static void write_list(struct json *json, const struct row *row, const struct row_list *list) {
    json_open(json, '[');
    for (size_t i = 0; i < list->count; i++)
        rows_write(json, row->fields, (const char *)list->items + i * row->item_size);
    json_close(json, ']');
}

static void write_value(struct json *json, const struct row *row, const void *at) {
    char mode[8];
    switch (row->type) {
    case ROW_INT:
        write_integer(json, row, at);
        return;
    case ROW_REAL:
        json_double(json, *(const double *)at);
        return;
    case ROW_BOOL:
        json_bool(json, *(const bool *)at);
        return;
    case ROW_MODE:
        snprintf(mode, sizeof mode, "%04o", (unsigned)write_unsigned(row, at) & 07777u);
        json_str(json, mode);
        return;
    case ROW_TEXTS:
        write_texts(json, *(const char *const *const *)at);
        return;
    case ROW_MAP:
        write_map(json, *(const char *const *const *)at);
        return;
    case ROW_OBJECT:
        rows_write(json, row->fields, at);
        return;
    case ROW_OBJECTS:
        write_list(json, row, at);
        return;
    default:
        json_str(json, *(const char *const *)at);
    }
}

void rows_members(struct json *json, const struct row *rows, const void *from) {
    for (const struct row *row = rows; row->name; row++) {
        const void *at = (const char *)from + row->offset;
        bool text = row->type == ROW_TEXT || row->type == ROW_TEXT_OR_INT;
        if (text && !(row->flags & ROW_NULLABLE) && !*(const char *const *)at)
            continue;
        json_key(json, row->name);
        if (row->type == ROW_TIME)
            json_time(json, *(const uint64_t *)at);
        else if (!(row->flags & ROW_NULLABLE))
            write_value(json, row, at);
        else if (!write_nullable(json, row, at))
            json_nil(json);
    }
}

void rows_write(struct json *json, const struct row *rows, const void *from) {
    json_open(json, '{');
    rows_members(json, rows, from);
    json_close(json, '}');
}
