/* Structs back from the JSON that their rows wrote. Called where a struct is kept in a file. Invariant: a member of a
 * wrong type never counts as missing: an unreadable limit must not become no limit. */
#include <jansson.h>

#include "base/base.h"
#include "rows/write.h"

static const char *read_text(const struct row *row, const json_t *value, struct arena *arena) {
    if (json_is_string(value))
        return arena_strdup(arena, json_string_value(value));
    const json_t *coded = row->flags & ROW_OPAQUE ? json_object_get(value, "base64") : NULL;
    autobuf bytes = buf_max(LIMIT_JSON_BYTES);
    return json_is_string(coded) && text_unbase64(&bytes, json_string_value(coded), json_string_length(coded))
               ? arena_copy(arena, bytes.data, bytes.len)
               : NULL;
}

static bool read_texts(const struct row *row, const json_t *value, struct arena *arena, const char ***ret_texts) {
    size_t count = json_array_size(value);
    const char **texts = *ret_texts = arena_alloc(arena, (count + 1) * sizeof *texts);
    for (size_t i = 0; i < count; i++)
        if (!(texts[i] = read_text(row, json_array_get(value, i), arena)))
            return false;
    return json_is_array(value);
}

static bool read_object(const json_t *object, const struct row *rows, struct arena *arena, char *to,
                        const char **ret_name);

/* *ret_name: the row that is to blame, of a nested object. */
static bool read_value(const struct row *row, const json_t *value, struct arena *arena, char *at,
                       const char **ret_name) {
    json_int_t number = json_integer_value(value);
    struct row_list list = {.count = json_array_size(value)};
    bool good = json_is_array(value);
    switch (row->type) {
    case ROW_TEXT:
        *(const char **)at = read_text(row, value, arena);
        return *(const char **)at;
    case ROW_TEXTS:
        return read_texts(row, value, arena, (const char ***)at);
    case ROW_BOOL:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value);
    case ROW_INT:
        *(uint64_t *)at = (uint64_t)number;
        return json_is_integer(value) && number >= 0 && number <= (json_int_t)1 << 53;
    case ROW_OBJECT:
        return read_object(value, row->fields, arena, at, ret_name);
    case ROW_OBJECTS:
        list.items = arena_alloc(arena, (list.count + 1) * row->item_size);
        for (size_t i = 0; good && i < list.count; i++)
            good = read_object(json_array_get(value, i), row->fields, arena, (char *)list.items + i * row->item_size,
                               ret_name);
        *(struct row_list *)at = list;
        return good;
    default:
        return false;
    }
}

static bool read_object(const json_t *object, const struct row *rows, struct arena *arena, char *to,
                        const char **ret_name) {
    for (const struct row *row = rows; row->name; row++) {
        const json_t *value = json_object_get(object, row->name);
        bool there = value && !json_is_null(value);
        *ret_name = row->name;
        if (there ? !read_value(row, value, arena, to + row->offset, ret_name) : (row->flags & ROW_REQUIRED) != 0)
            return false;
    }
    return json_is_object(object);
}

int rows_read(const json_t *root, const struct row *rows, struct arena *arena, void *ret_to, struct err *err) {
    const char *name = "";
    if (!json_is_object(root))
        return err_set(err, ERR_IO, "it is not a JSON object");
    if (!read_object(root, rows, arena, ret_to, &name))
        return err_set(err, ERR_IO, "its member '%s' is missing, or of a wrong type", name);
    return 0;
}
