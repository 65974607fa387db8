/* Structs as JSON by their rows. Called by every handler that answers with more than a few members.
 * Invariant: a member is written exactly as its row describes it, or not at all. */
#include "rows/write.h"

#include <stdio.h>
#include <string.h>

#define WRITE_OPTIONAL (ROW_NULLABLE | ROW_MAYBE)

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
    unsigned spare = row->item_size && row->item_size < sizeof value ? 64 - 8 * (unsigned)row->item_size : 0;
    if (row->flags & ROW_SIGNED)
        json_int(json, (int64_t)(value << spare) >> spare);
    else
        json_uint(json, value);
}

static void write_mode(struct json *json, const struct row *row, const void *at) {
    char mode[8];
    snprintf(mode, sizeof mode, "%04o", (unsigned)write_unsigned(row, at) & 07777u);
    json_str(json, mode);
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
        size_t len = strcspn(*pairs, "=");
        json_keyn(json, *pairs, len);
        json_str(json, (*pairs)[len] ? *pairs + len + 1 : "");
    }
    json_close(json, '}');
}

static void write_list(struct json *json, const struct row *row, const struct row_list *list) {
    json_open(json, '[');
    for (size_t i = 0; i < list->count; i++)
        rows_write(json, row->fields, (const char *)list->items + i * row->item_size);
    json_close(json, ']');
}

/* Where the plain value of an optional row lies; NULL: absent. */
static const void *write_present(const struct row *row, const void *at) {
    switch (row->type) {
    case ROW_INT:
    case ROW_BOOL:
    case ROW_MODE:
        return ((const struct row_number *)at)->has ? &((const struct row_number *)at)->value : NULL;
    case ROW_REAL:
        return ((const struct row_real *)at)->has ? &((const struct row_real *)at)->value : NULL;
    case ROW_TIME:
        return *(const uint64_t *)at ? at : NULL;
    case ROW_OBJECT:
        return *(const void *const *)at;
    case ROW_OBJECTS:
        return ((const struct row_list *)at)->items ? at : NULL;
    default:
        return *(const void *const *)at ? at : NULL;
    }
}

static void write_value(struct json *json, const struct row *row, const void *at) {
    switch (row->type) {
    case ROW_INT:
        write_integer(json, row, at);
        return;
    case ROW_REAL:
        json_double(json, *(const double *)at);
        return;
    case ROW_BOOL:
        json_bool(json, row->flags & WRITE_OPTIONAL ? *(const uint64_t *)at != 0 : *(const bool *)at);
        return;
    case ROW_MODE:
        write_mode(json, row, at);
        return;
    case ROW_TIME:
        json_time(json, *(const uint64_t *)at);
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
    case ROW_TEXT:
    case ROW_TEXT_OR_INT:
        json_str(json, *(const char *const *)at);
        return;
    case ROW_OWN:
        return;
    }
}

void rows_members(struct json *json, const struct row *rows, const void *from) {
    for (const struct row *row = rows; row->name; row++) {
        const void *at = (const char *)from + row->offset;
        bool text = row->type == ROW_TEXT || row->type == ROW_TEXT_OR_INT;
        if (text || row->flags & WRITE_OPTIONAL)
            at = write_present(row, at);
        if (!at && !(row->flags & ROW_NULLABLE))
            continue;
        json_key(json, row->name);
        if (at)
            write_value(json, row, at);
        else
            json_nil(json);
    }
}

void rows_write(struct json *json, const struct row *rows, const void *from) {
    json_open(json, '{');
    rows_members(json, rows, from);
    json_close(json, '}');
}
