/* Strict reading of JSON bodies and queries by tables. Called by every handler that takes arguments, and by the fuzzer.
 * Invariant: depth and number of values are bounded by a scan before jansson allocates anything. */
#include "rows/rows.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

static int rows_object(json_t *object, const struct row *fields, const char *where, struct arena *arena, void *args,
                       struct err *err);

int rows_load(const char *data, size_t len, json_t **ret_root, struct err *err) {
    if (len > LIMIT_JSON_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a JSON body holds at most %u bytes", LIMIT_JSON_BYTES);
    switch (json_measure(data, len, LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES)) {
    case JSON_DEEP:
        return err_set(err, ERR_INVALID, "the JSON is nested deeper than %u levels", LIMIT_JSON_DEPTH);
    case JSON_MANY:
        return err_set(err, ERR_TOO_LARGE, "the JSON holds more than %u values", LIMIT_JSON_VALUES);
    case JSON_FITS:
        break;
    }
    json_error_t why;
    json_t *root =
        len ? json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why) : json_object();
    if (!root)
        return err_set(err, ERR_INVALID, "the body is not JSON: %s (line %d, column %d)", why.text, why.line,
                       why.column);
    *ret_root = root;
    return 0;
}

int rows_bind(json_t *root, const struct row *fields, struct arena *arena, void *ret_args, struct err *err) {
    if (!json_is_object(root))
        return err_set(err, ERR_INVALID, "the body must be a JSON object");
    return rows_object(root, fields, "", arena, ret_args, err);
}

int rows_parse(const char *data, size_t len, const struct row *fields, struct arena *arena, void *ret_args,
               struct err *err) {
    json_auto_t *root = NULL;
    TRY(rows_load(data, len, &root, err));
    return rows_bind(root, fields, arena, ret_args, err);
}

/* ---- one value ---- */

static const char *rows_type_name(json_t *value) {
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return names[json_typeof(value)];
}

static int rows_wrong(const struct row *field, const char *where, const char *wanted, json_t *value, struct err *err) {
    return err_set(err, ERR_INVALID, "'%s%s' must be %s, not %s", where, field->name, wanted, rows_type_name(value));
}

bool rows_choice(const char *choices, const char *value) {
    size_t len = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strcspn(p, "|") == len && !memcmp(p, value, len))
            return true;
    return false;
}

static int rows_put_text(const struct row *field, const char *where, const char *data, size_t len, struct arena *arena,
                         void *args, struct err *err) {
    if (!(field->flags & ROW_NUL) && memchr(data, 0, len))
        return err_set(err, ERR_INVALID, "'%s%s' may not hold a NUL", where, field->name);
    if (len < field->min)
        return err_set(err, ERR_INVALID, "'%s%s' may not be empty", where, field->name);
    if (field->max && len > field->max)
        return err_set(err, ERR_INVALID, "'%s%s' is longer than %llu bytes", where, field->name,
                       (unsigned long long)field->max);
    struct row_text *text = (struct row_text *)((char *)args + field->offset);
    *text = (struct row_text){.data = arena_copy(arena, data, len), .len = len};
    if (field->choices && !rows_choice(field->choices, text->data))
        return err_set(err, ERR_INVALID, "'%s%s' must be one of %s, not '%.40s'", where, field->name, field->choices,
                       text->data);
    return 0;
}

static int rows_put_object(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                           struct err *err) {
    char *text = json_dumps(value, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    if (!text || (field->max && len > field->max)) {
        free(text);
        return err_set(err, ERR_INVALID, "'%s%s' is longer than %llu bytes", where, field->name,
                       (unsigned long long)field->max);
    }
    *(struct row_text *)((char *)args + field->offset) = (struct row_text){arena_copy(arena, text, len), len};
    free(text);
    return 0;
}

static int rows_range(const struct row *field, const char *where, struct err *err) {
    return err_set(err, ERR_INVALID, "'%s%s' must be from %llu to %llu", where, field->name,
                   (unsigned long long)field->min, (unsigned long long)field->max);
}

static int rows_put_number(const struct row *field, const char *where, uint64_t value, void *args, struct err *err) {
    if (value < field->min || value > field->max)
        return rows_range(field, where, err);
    *(struct row_number *)((char *)args + field->offset) = (struct row_number){.has = true, .value = value};
    return 0;
}

static int rows_put_mode(const struct row *field, const char *where, const char *text, void *args, struct err *err) {
    char *end;
    size_t len = strlen(text);
    unsigned long mode = strtoul(text, &end, 8);
    if (!len || len > 5 || strspn(text, "01234567") != len || *end || mode > 07777)
        return err_set(err, ERR_INVALID, "'%s%s' must be an octal mode such as 0644, not '%.20s'", where, field->name,
                       text);
    return rows_put_number(field, where, mode, args, err);
}

/* ---- lists ---- */

static int rows_count(const struct row *field, const char *where, size_t count, struct err *err) {
    if (count < field->min)
        return err_set(err, ERR_INVALID, "'%s%s' may not be empty", where, field->name);
    if (count > field->max)
        return err_set(err, ERR_INVALID, "'%s%s' holds more than %llu entries", where, field->name,
                       (unsigned long long)field->max);
    return 0;
}

static int rows_texts(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                      struct err *err) {
    if (!json_is_array(value))
        return rows_wrong(field, where, "an array of strings", value, err);
    size_t count = json_array_size(value);
    TRY(rows_count(field, where, count, err));
    const char **texts = arena_alloc(arena, (count + 1) * sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        json_t *item = json_array_get(value, i);
        if (!json_is_string(item))
            return err_set(err, ERR_INVALID, "'%s%s[%zu]' must be a string, not %s", where, field->name, i,
                           rows_type_name(item));
        if (strlen(json_string_value(item)) != json_string_length(item))
            return err_set(err, ERR_INVALID, "'%s%s[%zu]' may not hold a NUL", where, field->name, i);
        texts[i] = arena_copy(arena, json_string_value(item), json_string_length(item));
    }
    *(const char ***)((char *)args + field->offset) = texts;
    return 0;
}

static int rows_map(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                    struct err *err) {
    if (!json_is_object(value))
        return rows_wrong(field, where, "an object of strings", value, err);
    TRY(rows_count(field, where, json_object_size(value), err));
    const char **pairs = arena_alloc(arena, (json_object_size(value) + 1) * sizeof *pairs);
    const char *key;
    json_t *item;
    size_t n = 0, key_len;
    json_object_keylen_foreach(value, key, key_len, item) {
        if (!key_len || memchr(key, 0, key_len) || memchr(key, '=', key_len))
            return err_set(err, ERR_INVALID, "'%s%s': the name '%.100s' is empty or holds '=' or NUL", where,
                           field->name, key);
        if (!json_is_string(item))
            return err_set(err, ERR_INVALID, "'%s%s.%.100s' must be a string, not %s", where, field->name, key,
                           rows_type_name(item));
        if (strlen(json_string_value(item)) != json_string_length(item))
            return err_set(err, ERR_INVALID, "'%s%s.%.100s' may not hold a NUL", where, field->name, key);
        pairs[n++] = arena_printf(arena, "%s=%s", key, json_string_value(item));
    }
    *(const char ***)((char *)args + field->offset) = pairs;
    return 0;
}

static int rows_objects(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                        struct err *err) {
    if (!json_is_array(value))
        return rows_wrong(field, where, "an array of objects", value, err);
    size_t count = json_array_size(value);
    int failed = rows_count(field, where, count, err);
    struct row_list list = {.count = count};
    if (failed || !count)
        return failed;
    list.items = arena_alloc(arena, count * field->item_size);
    for (size_t i = 0; i < count; i++) {
        json_t *item = json_array_get(value, i);
        const char *inner = arena_printf(arena, "%s%s[%zu].", where, field->name, i);
        if (!json_is_object(item))
            return rows_wrong(field, where, "an array of objects", item, err);
        TRY(rows_object(item, field->fields, inner, arena, (char *)list.items + i * field->item_size, err));
    }
    *(struct row_list *)((char *)args + field->offset) = list;
    return 0;
}

/* ---- objects ---- */

static int rows_value(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                      struct err *err) {
    char *at = (char *)args + field->offset, digits[32];
    double real = json_number_value(value);
    switch (field->type) {
    case ROW_TEXTS:
        return rows_texts(field, where, value, arena, args, err);
    case ROW_MAP:
        return rows_map(field, where, value, arena, args, err);
    case ROW_OBJECTS:
        return rows_objects(field, where, value, arena, args, err);
    case ROW_OBJECT:
        if (!json_is_object(value))
            return rows_wrong(field, where, "an object", value, err);
        return rows_object(value, field->fields, arena_printf(arena, "%s%s.", where, field->name), arena, at, err);
    case ROW_INT:
        if (!json_is_integer(value))
            return rows_wrong(field, where, "an integer", value, err);
        if (json_integer_value(value) < 0)
            return rows_range(field, where, err);
        return rows_put_number(field, where, (uint64_t)json_integer_value(value), args, err);
    case ROW_REAL:
        if (!json_is_number(value))
            return rows_wrong(field, where, "a number", value, err);
        if (!(real >= (double)field->min && real <= (double)field->max))
            return rows_range(field, where, err);
        *(struct row_real *)at = (struct row_real){.has = true, .value = real};
        return 0;
    case ROW_BOOL:
        if (!json_is_boolean(value))
            return rows_wrong(field, where, "true or false", value, err);
        *(bool *)at = json_is_true(value);
        return 0;
    case ROW_TEXT_OR_INT:
        if (json_is_integer(value)) {
            int n = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
            return rows_put_text(field, where, digits, (size_t)n, arena, args, err);
        }
        break;
    case ROW_TEXT_OR_OBJECT:
        if (json_is_object(value) || (!field->choices && json_is_array(value)))
            return rows_put_object(field, where, value, arena, args, err);
        break;
    default:
        break;
    }
    if (!json_is_string(value) || (field->type == ROW_TEXT_OR_OBJECT && !field->choices))
        return rows_wrong(field, where,
                          field->type == ROW_TEXT_OR_INT ? "a string or an integer"
                          : field->type == ROW_TEXT_OR_OBJECT
                              ? field->choices ? "a string or an object" : "an array or an object"
                              : "a string",
                          value, err);
    if (field->type == ROW_MODE)
        return rows_put_mode(field, where, json_string_value(value), args, err);
    return rows_put_text(field, where, json_string_value(value), json_string_length(value), arena, args, err);
}

static void rows_fallback(const struct row *field, void *args) {
    if ((field->type == ROW_INT || field->type == ROW_MODE) && field->fallback)
        ((struct row_number *)((char *)args + field->offset))->value = field->fallback;
}

/* Names may hold bytes that JSON cannot: requests say them as answers do. */
static int rows_base64(const struct row *field, const char *where, json_t *value, struct arena *arena, void *args,
                       struct err *err) {
    if (!json_is_string(value))
        return rows_wrong(field, where, "a string", value, err);
    autobuf bytes = buf_max(LIMIT_JSON_BYTES);
    if (!text_unbase64(&bytes, json_string_value(value), json_string_length(value)))
        return err_set(err, ERR_INVALID, "'%s%s' is not base64, which encoding says it is", where, field->name);
    return rows_put_text(field, where, bytes.len ? (const char *)bytes.data : "", bytes.len, arena, args, err);
}

static int rows_object(json_t *object, const struct row *fields, const char *where, struct arena *arena, void *args,
                       struct err *err) {
    const char *key;
    json_t *value;
    size_t key_len;
    const struct row *end = fields;
    while (end->name)
        end++;
    json_object_keylen_foreach(object, key, key_len, value) {
        if (!(end->flags & ROW_LENIENT) && !rows_find(fields, key, key_len))
            return rows_unknown(fields, "field", arena_printf(arena, "%s%s", where, key), err);
    }
    const char *encoding = json_string_value(json_object_get(object, ROW_ENCODING));
    bool base64 = encoding && !strcmp(encoding, "base64") && rows_find(fields, ROW_ENCODING, strlen(ROW_ENCODING));
    for (const struct row *field = fields; field->name; field++) {
        value = json_object_get(object, field->name);
        if (json_is_null(value) && !(field->flags & ROW_REQUIRED))
            value = NULL; /* in answers null means absent */
        if (!value && field->flags & ROW_REQUIRED)
            return err_set(err, ERR_INVALID, "'%s%s' is missing: %s", where, field->name, field->text);
        rows_fallback(field, args);
        if (value && base64 && field->flags & ROW_ANY_BYTES)
            TRY(rows_base64(field, where, value, arena, args, err));
        else if (value)
            TRY(rows_value(field, where, value, arena, args, err));
    }
    return 0;
}

const struct row *rows_find(const struct row *fields, const char *name, size_t len) {
    for (const struct row *field = fields; field && field->name; field++)
        if (strlen(field->name) == len && !memcmp(field->name, name, len))
            return field;
    return NULL;
}

int rows_unknown(const struct row *fields, const char *what, const char *name, struct err *err) {
    char known[360] = "";
    size_t used = 0;
    for (const struct row *field = fields; field && field->name && used < sizeof known; field++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", field->name);
    return err_set(err, ERR_INVALID, "unknown %s '%.120s'; known: %s", what, name, used ? known : "none");
}

/* ---- queries ---- */

static int rows_query_value(const struct row *field, const char *data, size_t len, struct arena *arena, void *args,
                            struct err *err) {
    uint64_t number;
    if (field->type == ROW_TEXT || field->type == ROW_TEXT_OR_INT)
        return rows_put_text(field, "", data, len, arena, args, err);
    if (strlen(data) != len)
        return err_set(err, ERR_INVALID, "'%s' may not hold a NUL", field->name);
    if (field->type == ROW_MAP) {
        json_auto_t *map = NULL;
        if (rows_load(data, len, &map, err))
            return err_wrap(err, "%s", field->name);
        return rows_map(field, "", map, arena, args, err);
    }
    if (field->type == ROW_MODE)
        return rows_put_mode(field, "", data, args, err);
    if (field->type == ROW_INT && field->flags & ROW_SIGNED) {
        bool minus = *data == '-';
        if (!len)
            return 0;
        if (!text_u64(data + (minus || *data == '+'), field->max + minus, &number))
            return err_set(err, ERR_INVALID, "'%s' must be an integer from -%llu to %llu, not '%.40s'", field->name,
                           (unsigned long long)field->max + 1, (unsigned long long)field->max, data);
        *(struct row_number *)((char *)args + field->offset) =
            (struct row_number){.has = true, .value = minus ? -number : number};
        return 0;
    }
    if (field->type == ROW_INT) {
        if (!text_u64(data, UINT64_MAX, &number))
            return err_set(err, ERR_INVALID, "'%s' must be an integer, not '%.40s'", field->name, data);
        return rows_put_number(field, "", number, args, err);
    }
    bool yes = !strcmp(data, "1") || !strcmp(data, "true"), no = !strcmp(data, "0") || !strcmp(data, "false");
    if (!yes && !no)
        return err_set(err, ERR_INVALID, "'%s' must be 1 or 0, not '%.40s'", field->name, data);
    *(bool *)((char *)args + field->offset) = yes;
    return 0;
}

int rows_query(const struct row *fields, rows_get get, void *user, struct arena *arena, void *ret_args,
               struct err *err) {
    for (const struct row *field = fields; field->name; field++) {
        size_t len;
        const char *data = get(user, field->name, &len);
        if (!data && field->flags & ROW_REQUIRED)
            return err_set(err, ERR_INVALID, "'%s' is missing from the query: %s", field->name, field->text);
        rows_fallback(field, ret_args);
        if (data)
            TRY(rows_query_value(field, data, len, arena, ret_args, err));
    }
    return 0;
}

/* ---- options ---- */

static int rows_set_number(const struct row *row, const char *value, const char *shown, void *at, struct err *err) {
    uint64_t number = 0, least = row->flags & ROW_OR_ZERO ? 0 : row->min;
    char *end = NULL;
    double real = row->type == ROW_REAL ? strtod(value, &end) : 0;
    bool fine = row->type == ROW_REAL
                    ? *value && !*end && isfinite(real) && real >= (double)least && real <= (double)row->max
                    : text_u64(value, row->max, &number) && number >= least;
    if (fine && number && number < row->min)
        return err_set(err, ERR_INVALID, "%s must be 0 or at least %llu, not '%.60s'", row->name,
                       (unsigned long long)row->min, shown);
    if (!fine)
        return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, not '%.60s'", row->name,
                       (unsigned long long)least, (unsigned long long)row->max, shown);
    if (row->type == ROW_REAL)
        *(double *)at = real;
    else
        *(uint64_t *)at = number;
    return 0;
}

int rows_set(const struct row *row, const char *value, const char *shown, struct arena *arena, void *at,
             struct err *err) {
    if (row->type == ROW_INT || row->type == ROW_REAL)
        return rows_set_number(row, value, shown, at, err);
    if (row->type == ROW_BOOL) {
        if (!rows_choice("true|false", value))
            return err_set(err, ERR_INVALID, "%s must be true or false, not '%.60s'", row->name, shown);
        *(bool *)at = value[0] == 't';
        return 0;
    }
    if (row->max && (!*value || strlen(value) > row->max))
        return err_set(err, ERR_INVALID, "%s has 1 to %llu bytes", row->name, (unsigned long long)row->max);
    if (!*value)
        return err_set(err, ERR_INVALID, "%s may not be empty", row->name);
    if (row->choices && !rows_choice(row->choices, value))
        return err_set(err, ERR_INVALID, "%s must be one of %s, not '%.60s'", row->name, row->choices, shown);
    *(const char **)at = arena_strdup(arena, value);
    return 0;
}
