/* Structs as JSON by their rows. Called by every handler that answers with more than a few members.
 * Invariant: a member is written exactly as its row describes it, or not at all. */
#include "rows/write.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define WRITE_OPTIONAL (ROW_NULLABLE | ROW_MAYBE)
#define WRITE_BYTES (ROW_NUL | ROW_ANY_BYTES) /* of texts: struct row_text */

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

static void write_opaque(struct json *json, const char *text) {
    json_open(json, '{');
    json_put_bytes(json, "base64", text, strlen(text), false);
    json_close(json, '}');
}

static void write_text(struct json *json, const struct row *row, const void *at, bool utf8) {
    const struct row_text *bytes = at;
    const char *text = row->flags & WRITE_BYTES ? NULL : *(const char *const *)at;
    if (text && row->flags & ROW_OPAQUE && !text_utf8(text, strlen(text)))
        write_opaque(json, text);
    else if (!(row->flags & WRITE_BYTES))
        json_str(json, text);
    else if (row->flags & ROW_ANY_BYTES)
        json_bytes(json, bytes->data, bytes->len, utf8);
    else
        json_strn(json, bytes->data, bytes->len);
}

static void write_value(struct json *json, const struct row *row, const void *at, bool utf8) {
    uint64_t number = 0;
    unsigned spare = 0; /* bits of `number` that the member does not have */
    char mode[8];
    switch (row->type) {
    case ROW_INT:
        number = write_unsigned(row, at);
        spare = row->item_size && row->item_size < sizeof number ? 64 - 8 * (unsigned)row->item_size : 0;
        if (row->flags & ROW_SIGNED)
            json_int(json, (int64_t)(number << spare) >> spare);
        else
            json_uint(json, number);
        break;
    case ROW_REAL:
        json_double(json, *(const double *)at);
        break;
    case ROW_BOOL:
        json_bool(json, row->flags & WRITE_OPTIONAL ? *(const uint64_t *)at != 0 : *(const bool *)at);
        break;
    case ROW_MODE:
        snprintf(mode, sizeof mode, "%04o", (unsigned)write_unsigned(row, at) & 07777u);
        json_str(json, mode);
        break;
    case ROW_TIME:
        json_time(json, *(const uint64_t *)at);
        break;
    case ROW_TEXTS:
        json_open(json, '[');
        for (const char *const *text = *(const char *const *const *)at; text && *text; text++)
            write_text(json, row, text, true);
        json_close(json, ']');
        break;
    case ROW_MAP:
        json_open(json, '{');
        for (const char *const *pair = *(const char *const *const *)at; pair && *pair; pair++) {
            size_t len = strcspn(*pair, "=");
            json_keyn(json, *pair, len);
            json_str(json, (*pair)[len] ? *pair + len + 1 : "");
        }
        json_close(json, '}');
        break;
    case ROW_OBJECT:
        rows_write(json, row->fields, at);
        break;
    case ROW_OBJECTS:
        json_open(json, '[');
        for (size_t i = 0; i < ((const struct row_list *)at)->count; i++)
            rows_write(json, row->fields, (const char *)((const struct row_list *)at)->items + i * row->item_size);
        json_close(json, ']');
        break;
    case ROW_TEXT_OR_OBJECT:
        if (**(const char *const *)at == '{') {
            json_raw(json, *(const char *const *)at, strlen(*(const char *const *)at));
            break;
        }
        __attribute__((fallthrough));
    case ROW_TEXT:
    case ROW_TEXT_OR_INT:
        write_text(json, row, at, utf8);
        break;
    case ROW_OWN:
        break;
    }
}

void rows_members(struct json *json, const struct row *rows, const void *from) {
    bool utf8 = true;
    for (const struct row *row = rows; row->name; row++) {
        const struct row_text *text = (const struct row_text *)((const char *)from + row->offset);
        if (row->flags & ROW_ANY_BYTES && text->data)
            utf8 = utf8 && text_utf8(text->data, text->len);
    }
    for (const struct row *row = rows; row->name; row++) {
        const char *encoding = utf8 ? "utf-8" : "base64";
        const void *at = row->flags & ROW_ENCODED ? (const char *)&encoding : (const char *)from + row->offset;
        bool text = row->type == ROW_TEXT || row->type == ROW_TEXT_OR_INT || row->type == ROW_TEXT_OR_OBJECT;
        if (text || row->flags & WRITE_OPTIONAL)
            at = write_present(row, at);
        if (!at && !(row->flags & ROW_NULLABLE))
            continue;
        json_key(json, row->name);
        if (at)
            write_value(json, row, at, utf8);
        else
            json_nil(json);
    }
}

void rows_write(struct json *json, const struct row *rows, const void *from) {
    json_open(json, '{');
    rows_members(json, rows, from);
    json_close(json, '}');
}
