/* Bodies and queries of dialects whose original servers are written with FastAPI. It is as lenient: unknown or null
 * members count as missing, integers may have a fraction of zero, integers and booleans may be strings. It refuses in
 * the same shape: 422 with a row for every member that does not fit. Called by the handlers of such a dialect.
 * Invariant: a refusal never repeats a value, which may be a secret. */
#include "front/detail.h"

#include <jansson.h>
#include <math.h>

#define WIDEST_EXACT 9007199254740992.0 /* 2^53: doubles are exact integers up to here */

/* ---- leniency ---- */

static void detail_forgive(json_t *object, const struct row *fields);

/* Returns the replacement of a value that is almost of its row's type, or NULL. Changes lists in place. */
static json_t *detail_forgive_value(json_t *value, const struct row *field) {
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    const char *text = json_string_value(value);
    bool negative = text && *text == '-';
    double real = json_real_value(value);
    uint64_t number;
    char *end, digits[32];
    size_t i;
    json_t *item;
    switch (field->type) {
    case ROW_INT:
        if (json_is_real(value) && fabs(real) < WIDEST_EXACT && real == floor(real))
            return json_integer((json_int_t)real);
        if (!text || !text_u64(text + negative, INT64_MAX, &number))
            return NULL;
        return json_integer(negative ? -(json_int_t)number : (json_int_t)number);
    case ROW_REAL:
        if (!text || !*text || strspn(text, "0123456789.-+eE") != strlen(text))
            return NULL;
        real = strtod(text, &end);
        return *end || !isfinite(real) ? NULL : json_real(real);
    case ROW_BOOL:
        if (json_is_integer(value) && (json_integer_value(value) | 1) == 1)
            return json_boolean(json_integer_value(value));
        for (i = 0; text && i < sizeof words / sizeof *words; i++)
            if (!strcasecmp(text, words[i]))
                return json_boolean(i % 2);
        return NULL;
    case ROW_TEXTS: /* rows treat lists of numbers as lists of texts */
        json_array_foreach(value, i, item) {
            snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(item));
            if (json_is_integer(item))
                json_array_set_new(value, i, json_string(digits));
        }
        return NULL;
    case ROW_OBJECT:
        detail_forgive(value, field->fields);
        return NULL;
    case ROW_OBJECTS:
        json_array_foreach(value, i, item) {
            detail_forgive(item, field->fields);
        }
        return NULL;
    default:
        return NULL;
    }
}

static void detail_forgive(json_t *object, const struct row *fields) {
    const char *key;
    size_t len;
    json_t *value;
    void *next;
    json_object_keylen_foreach_safe(object, next, key, len, value) {
        const struct row *field = rows_find(fields, key, len);
        if (!field || json_is_null(value)) {
            json_object_deln(object, key, len);
            continue;
        }
        json_t *other = detail_forgive_value(value, field);
        if (other)
            json_object_setn_new(object, key, len, other);
    }
}

/* ---- refusals ---- */

static void detail_open(struct buf *out, struct json *json) {
    json_init(json, out);
    json_open(json, '{');
    json_put_open(json, "detail", '[');
}

static void detail_row(struct json *json, const char *place, const char *member, const char *text, const char *type) {
    json_open(json, '{');
    json_put_open(json, "loc", '[');
    json_str(json, place);
    if (member)
        json_str(json, member);
    json_close(json, ']');
    json_put_str(json, "msg", text);
    json_put_str(json, "type", type);
    json_close(json, '}');
}

static int detail_send(struct http_request *request, struct buf *out, struct json *json) {
    json_close(json, ']');
    json_close(json, '}');
    int failed = http_reply(request, 422, "application/json", out->data, out->len);
    return failed < 0 ? failed : ERR_INVALID;
}

static int detail_refuse_one(struct http_request *request, const char *place, const char *member, const char *text,
                             const char *type) {
    struct json json;
    autobuf out = buf_max(16384);
    detail_open(&out, &json);
    detail_row(&json, place, member, text, type);
    return detail_send(request, &out, &json);
}

int detail_unfit(struct http_request *request, const char *member, const char *text) {
    const struct endpoint *endpoint = http_route(request)->extra;
    return detail_refuse_one(request, endpoint->body || endpoint->body_media ? "body" : "query", member, text,
                             "value_error");
}

#define ANY_NUMBER (1u << JSON_INTEGER | 1u << JSON_REAL)
static const struct {
    unsigned types; /* allowed types, bits of enum json_type; 0: strings */
    const char *type, *text;
} wrong[] = {
    [ROW_TEXT] = {0, "string_type", "Input should be a valid string"},
    [ROW_INT] = {1u << JSON_INTEGER, "int_type", "Input should be a valid integer"},
    [ROW_REAL] = {ANY_NUMBER, "float_type", "Input should be a valid number"},
    [ROW_BOOL] = {1u << JSON_TRUE | 1u << JSON_FALSE, "bool_type", "Input should be a valid boolean"},
    [ROW_MODE] = {0, "string_type", "Input should be a valid string"},
    [ROW_TEXT_OR_INT] = {0, "string_type", "Input should be a valid string"},
    [ROW_TEXT_OR_OBJECT] = {1u << JSON_STRING | 1u << JSON_OBJECT, "string_type", "Input should be a valid string"},
    [ROW_TEXTS] = {1u << JSON_ARRAY, "list_type", "Input should be a valid list"},
    [ROW_MAP] = {1u << JSON_OBJECT, "dict_type", "Input should be a valid dictionary"},
    [ROW_OBJECT] = {1u << JSON_OBJECT, "model_type", "Input should be a valid dictionary"},
    [ROW_OBJECTS] = {1u << JSON_ARRAY, "list_type", "Input should be a valid list"},
    [ROW_TIME] = {0, "string_type", "Input should be a valid string"},
};

/* Returns why a value of the right type does not fit. The rows' own text of `choices` repeats the value, so it is not
 * used. */
static const char *detail_unfit_text(const struct row *field, const struct err *err, struct arena *arena) {
    return field->choices ? arena_printf(arena, "Input should be one of %s", field->choices) : err->text;
}

/* Returns whether this member fits its row; if not, adds a line that says why. */
static bool detail_member(struct json *json, json_t *root, const struct row *field, struct arena *arena, void *args) {
    const struct row alone[] = {*field, {0}};
    json_t *value = json_object_get(root, field->name);
    struct err err = {0};
    if (!value) {
        if (field->flags & ROW_REQUIRED)
            detail_row(json, "body", field->name, "Field required", "missing");
        return !(field->flags & ROW_REQUIRED);
    }
    json_t *object = json_object();
    json_object_set(object, field->name, value);
    bool fits = rows_bind(object, alone, arena, args, &err) >= 0;
    json_decref(object);
    unsigned types = wrong[field->type].types ? wrong[field->type].types : 1u << JSON_STRING;
    if (!fits && types & (1u << json_typeof(value)))
        detail_row(json, "body", field->name, detail_unfit_text(field, &err, arena), "value_error");
    else if (!fits)
        detail_row(json, "body", field->name, wrong[field->type].text, wrong[field->type].type);
    return fits;
}

/* ---- requests ---- */

int detail_body_text(struct http_request *request, const char *text, size_t len, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    json_t *root;
    int failed = rows_load(text, len, &root, err);
    if (failed == -ERR_INVALID)
        return detail_refuse_one(request, "body", NULL, err->text, "json_invalid");
    if (failed < 0)
        return failed;
    if (json_is_null(root)) {
        json_decref(root);
        root = json_object();
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return detail_refuse_one(request, "body", NULL, "Input should be a valid dictionary", "model_attributes_type");
    }
    detail_forgive(root, endpoint->body);
    failed = rows_bind(root, endpoint->body, http_arena(request), ret_args, err);
    if (failed == -ERR_INVALID) { /* checks row by row, to list everything that does not fit */
        struct json json;
        autobuf out = buf_max(256u << 10);
        bool all = true;
        detail_open(&out, &json);
        for (const struct row *field = endpoint->body; field->name; field++)
            all &= detail_member(&json, root, field, http_arena(request), ret_args);
        if (all)
            detail_row(&json, "body", NULL, err->text, "value_error");
        failed = detail_send(request, &out, &json);
    }
    json_decref(root);
    if (!failed)
        trail_fields(request, endpoint->body, ret_args);
    return failed;
}

int detail_body(struct http_request *request, void *ret_args, struct err *err) {
    char *data;
    size_t len;
    int failed = http_body_all(request, LIMIT_JSON_BYTES, &data, &len, err);
    return failed < 0 ? failed : detail_body_text(request, data, len, ret_args, err);
}

int detail_query(struct http_request *request, void *ret_args, struct err *err) {
    const struct endpoint *endpoint = http_route(request)->extra;
    int failed = rows_query(endpoint->query, front_get, request, http_arena(request), ret_args, err);
    if (failed != -ERR_INVALID) {
        if (!failed)
            trail_fields(request, endpoint->query, ret_args);
        return failed;
    }
    for (const struct row *field = endpoint->query; field->name; field++) {
        const struct row alone[] = {*field, {0}};
        if (rows_query(alone, front_get, request, http_arena(request), ret_args, err) >= 0)
            continue;
        bool missing = !http_query(request, field->name, NULL);
        return detail_refuse_one(request, "query", field->name,
                                 missing ? "Field required" : detail_unfit_text(field, err, http_arena(request)),
                                 missing ? "missing" : "value_error");
    }
    return detail_refuse_one(request, "query", NULL, err->text, "value_error");
}

int detail_seconds(const struct row_real *seconds, uint64_t fallback_ms, uint64_t most_ms, const char *member,
                   uint64_t *ret_ms, struct err *err) {
    double ms = seconds->value * 1000;
    if (!seconds->has) {
        *ret_ms = fallback_ms;
        return 0;
    }
    if (!(ms >= 0) || !isfinite(ms))
        return err_set(err, ERR_INVALID, "'%s' must be a number of seconds, zero or more", member);
    *ret_ms = ms >= (double)most_ms ? most_ms : (uint64_t)ceil(ms);
    return 0;
}
