/* Rows as JSON Schema. Called by openapi.c and by the list of tools.
 * Invariant: nothing is written here that does not come from a row which also checks requests. */
#include "rows/schema.h"

#include <stdio.h>
#include <string.h>

static void schema_choices(struct json *json, const char *choices) {
    json_put_open(json, "enum", '[');
    for (const char *p = choices; p;) {
        size_t len = strcspn(p, "|");
        json_strn(json, p, len);
        p = p[len] ? p + len + 1 : NULL;
    }
    json_close(json, ']');
}

static void schema_type(struct json *json, const struct row *field) {
    static const char *const names[] = {
        [ROW_TEXT] = "string",   [ROW_INT] = "integer",        [ROW_REAL] = "number", [ROW_BOOL] = "boolean",
        [ROW_MODE] = "string",   [ROW_TEXT_OR_INT] = "string", [ROW_TEXTS] = "array", [ROW_MAP] = "object",
        [ROW_OBJECT] = "object", [ROW_OBJECTS] = "array",      [ROW_TIME] = "string", [ROW_TEXT_OR_OBJECT] = "object"};
    const char *second = field->flags & ROW_NULLABLE         ? "null"
                         : field->type == ROW_TEXT_OR_INT    ? "integer"
                         : field->type == ROW_TEXT_OR_OBJECT ? field->choices ? "string" : "array"
                                                             : NULL;
    json_key(json, "type");
    if (second)
        json_open(json, '[');
    json_str(json, names[field->type]);
    if (second) {
        json_str(json, second);
        json_close(json, ']');
    }
}

static void schema_range(struct json *json, const struct row *field, const char *low, const char *high) {
    if (field->min || ((field->type == ROW_INT || field->type == ROW_REAL) && !(field->flags & ROW_SIGNED)))
        json_put_uint(json, low, field->min);
    if (field->max && field->max < INT64_MAX)
        json_put_uint(json, high, field->max);
    if (field->fallback)
        json_put_uint(json, "default", field->fallback);
}

const char *schema_name(const struct row *fields) {
    while (fields && fields->name)
        fields++;
    return fields ? fields->text : NULL;
}

void schema_reference(struct json *json, const char *name) {
    char target[128];
    snprintf(target, sizeof target, "#/components/schemas/%s", name);
    json_put_str(json, "$ref", target);
}

/* The members of a type in addition to its name and choices. */
static void schema_details(struct json *json, const struct row *field, const struct schema_style *style) {
    const char *name = style->refers ? schema_name(field->fields) : NULL;
    switch (field->type) {
    case ROW_INT:
    case ROW_REAL:
        schema_range(json, field, "minimum", "maximum");
        break;
    case ROW_TEXT:
        schema_range(json, field, "minLength", "maxLength");
        break;
    case ROW_MODE:
        json_put_str(json, "pattern", "^[0-7]{1,5}$");
        break;
    case ROW_TIME:
        json_put_str(json, "format", "date-time");
        break;
    case ROW_MAP:
        json_put_open(json, "additionalProperties", '{');
        json_put_str(json, "type", "string");
        json_close(json, '}');
        break;
    case ROW_OBJECT:
        if (field->fields)
            schema_members(json, field->fields, style);
        break;
    case ROW_TEXTS:
    case ROW_OBJECTS:
        schema_range(json, field, "minItems", "maxItems");
        json_put_open(json, "items", '{');
        if (name) {
            schema_reference(json, name);
        } else {
            json_put_str(json, "type", field->type == ROW_TEXTS ? "string" : "object");
            if (field->fields)
                schema_members(json, field->fields, style);
        }
        json_close(json, '}');
        break;
    default:
        break;
    }
}

void schema_field(struct json *json, const struct row *field, const struct schema_style *style) {
    const char *name = style->refers && field->type == ROW_OBJECT ? schema_name(field->fields) : NULL;
    json_open(json, '{');
    if (name && field->flags & ROW_NULLABLE) {
        json_put_open(json, "anyOf", '[');
        json_open(json, '{');
        schema_reference(json, name);
        json_close(json, '}');
        json_open(json, '{');
        json_put_str(json, "type", "null");
        json_close(json, '}');
        json_close(json, ']');
    } else if (name) {
        schema_reference(json, name);
    } else {
        schema_type(json, field);
        schema_details(json, field, style);
        if (field->choices && field->type != ROW_TEXT_OR_OBJECT)
            schema_choices(json, field->choices);
    }
    json_put_str(json, "description", field->text);
    json_close(json, '}');
}

static bool schema_required(const struct row *field, const struct schema_style *style) {
    return field->flags & ROW_REQUIRED || (style->answer && !(field->flags & ROW_MAYBE));
}

void schema_members(struct json *json, const struct row *fields, const struct schema_style *style) {
    bool any = false;
    json_put_open(json, "properties", '{');
    for (const struct row *field = fields; field->name; field++) {
        json_key(json, field->name);
        schema_field(json, field, style);
        any = any || schema_required(field, style);
    }
    json_close(json, '}');
    if (any) {
        json_put_open(json, "required", '[');
        for (const struct row *field = fields; field->name; field++)
            if (schema_required(field, style))
                json_str(json, field->name);
        json_close(json, ']');
    }
}

void schema_object(struct json *json, const struct row *fields) {
    json_open(json, '{');
    json_put_str(json, "type", "object");
    schema_members(json, fields, &(const struct schema_style){0});
    json_put_bool(json, "additionalProperties", false);
    json_close(json, '}');
}
