/* The route table as OpenAPI 3.1. Called by /openapi.json and `cubbyd --openapi`. Invariant: everything comes from rows
 * that also check requests. */
#include "front/routes.h"
#include "rows/schema.h"

static const struct schema_style asked = {.refers = true}, answered = {.refers = true, .answer = true};

/* In other dialects the rows mark members that are always present; ours always have all members. */
static const struct schema_style *openapi_style(const struct route *route) {
    return routes_dialect(route)->refuse ? &asked : &answered;
}

static void openapi_raw(struct json *json, const char *key, const char *text) {
    json_key(json, key);
    buf_puts(json->out, text);
    json->comma = true;
}

/* ---- one operation ---- */

static void openapi_parameter(struct json *json, const char *name, size_t len, const char *in, bool required,
                              const struct row *field) {
    json_open(json, '{');
    json_put_strn(json, "name", name, len);
    json_put_str(json, "in", in);
    json_put_bool(json, "required", required);
    bool map = field && field->type == ROW_MAP; /* a JSON text in the query */
    if (map) {
        json_put_open(json, "content", '{');
        json_put_open(json, "application/json", '{');
    }
    json_key(json, "schema");
    if (field) {
        schema_field(json, field, &asked);
    } else {
        json_open(json, '{');
        json_put_str(json, "type", "string");
        json_close(json, '}');
    }
    for (int i = 0; map && i < 2; i++)
        json_close(json, '}');
    json_close(json, '}');
}

static void openapi_object(struct json *json, const struct row *fields, const struct schema_style *style) {
    json_put_str(json, "type", "object");
    if (fields)
        schema_members(json, fields, style);
}

static void openapi_media(struct json *json, const char *media, const struct row *fields,
                          const struct schema_style *style) {
    json_key(json, media ? media : "application/json");
    json_open(json, '{');
    json_put_open(json, "schema", '{');
    if (media) {
        json_put_str(json, "type", "string");
    } else if (schema_name(fields)) {
        schema_reference(json, schema_name(fields));
    } else {
        openapi_object(json, fields, style);
    }
    json_close(json, '}');
    json_close(json, '}');
}

static void openapi_content(struct json *json, const char *media, const struct row *fields, bool events,
                            const struct schema_style *style) {
    json_put_open(json, "content", '{');
    openapi_media(json, media, fields, style);
    if (events)
        openapi_media(json, "text/event-stream", NULL, style);
    json_close(json, '}');
}

static void openapi_response(struct json *json, int status, const struct route *route) {
    const struct endpoint *endpoint = route->extra;
    char code[12];
    snprintf(code, sizeof code, "%d", status);
    json_put_open(json, code, '{');
    json_put_str(json, "description",
                 status == 201   ? "made"
                 : status == 206 ? "a part"
                 : status == 101 ? "a WebSocket"
                                 : "done");
    if (endpoint->flags & ENDPOINT_ETAG)
        openapi_raw(json, "headers",
                    "{\"ETag\":{\"description\":\"of the file as it is now, for If-Match\","
                    "\"schema\":{\"type\":\"string\"}}}");
    if (status != 204 && status != 101 && (endpoint->answer || endpoint->answer_media || !endpoint->body_media))
        openapi_content(json, endpoint->answer_media, endpoint->answer, endpoint->flags & ENDPOINT_EVENTS,
                        openapi_style(route));
    json_close(json, '}');
}

static void openapi_operation(struct json *json, const struct route *route) {
    const struct endpoint *endpoint = route->extra;
    json_open(json, '{');
    json_put_str(json, "operationId", route->name);
    json_put_open(json, "tags", '[');
    json_strn(json, route->name, strcspn(route->name, "_")); /* "box" of box_acquire; or the dialect's name */
    json_close(json, ']');
    json_put_str(json, "summary", route->summary);
    if (!strcmp(route->method, "ANY")) { /* OpenAPI cannot express it, and seven copies would say no more */
        json_put_str(json, "description", "Any method.");
        json_put_bool(json, "x-any-method", true);
    }
    json_put_open(json, "parameters", '[');
    for (const char *p = strchr(route->pattern, '{'); p; p = strchr(p + 1, '{'))
        openapi_parameter(json, p + 1, strcspn(p + 1, ".}"), "path", true, NULL);
    for (const struct row *field = endpoint->query; field && field->name; field++)
        openapi_parameter(json, field->name, strlen(field->name), "query", field->flags & ROW_REQUIRED, field);
    json_close(json, ']');
    if (endpoint->body || endpoint->body_media) {
        json_put_open(json, "requestBody", '{');
        openapi_content(json, endpoint->body_media, endpoint->body, false, &asked);
        json_close(json, '}');
    }
    if (endpoint->flags & ENDPOINT_OPEN) {
        json_put_open(json, "security", '[');
        json_close(json, ']');
    }
    json_put_open(json, "responses", '{');
    openapi_response(json, endpoint->status, route);
    if (endpoint->other_status)
        openapi_response(json, endpoint->other_status, route);
    openapi_raw(json, "default", "{\"$ref\":\"#/components/responses/Error\"}");
    json_close(json, '}');
    json_close(json, '}');
}

/* ---- components: objects with a name, each written once ---- */

enum { OPENAPI_NAMED = 256 };
struct openapi_named {
    const struct row *fields[OPENAPI_NAMED];
    size_t count;
};

static void openapi_name(struct json *json, const struct row *fields, const struct schema_style *style,
                         struct openapi_named *named) {
    const char *name = schema_name(fields);
    for (size_t i = 0; i < named->count; i++)
        if (named->fields[i] == fields)
            return;
    if (!fields || named->count == OPENAPI_NAMED)
        return;
    named->fields[named->count++] = fields;
    if (name) {
        json_put_open(json, name, '{');
        openapi_object(json, fields, style);
        json_close(json, '}');
    }
    for (const struct row *field = fields; field->name; field++)
        openapi_name(json, field->fields, style, named);
}

/* Whether the document has this route; dialect NULL: those of all. */
static bool openapi_has(const struct route *route, const char *dialect) {
    return route->extra && (!dialect || strcmp(routes_dialect(route)->name, dialect) == 0);
}

static void openapi_schemas(struct json *json, const struct route *routes, const char *dialect) {
    struct openapi_named named = {.count = 0};
    json_put_open(json, "schemas", '{');
    json_key(json, "Error");
    buf_puts(json->out, "{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\","
                        "\"properties\":{\"code\":{\"type\":\"string\",\"enum\":[");
#define X(name, number, status) buf_puts(json->out, (number) == 1 ? "\"" #name "\"" : ",\"" #name "\"");
    ERR_LIST(X)
#undef X
    buf_puts(json->out, "]},\"message\":{\"type\":\"string\"}},\"required\":[\"code\",\"message\"]}},"
                        "\"required\":[\"error\"]}");
    json->comma = true;
    for (const struct route *route = routes; route->method; route++) {
        const struct endpoint *endpoint = route->extra;
        if (!openapi_has(route, dialect))
            continue;
        openapi_name(json, endpoint->body, &asked, &named);
        openapi_name(json, endpoint->answer, openapi_style(route), &named);
    }
    json_close(json, '}');
}

/* ---- the document ---- */

static void openapi_components(struct json *json, const struct route *routes, const char *dialect) {
    json_put_open(json, "components", '{');
    openapi_schemas(json, routes, dialect);
    openapi_raw(json, "securitySchemes", "{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}");
    openapi_raw(json, "responses",
                "{\"Error\":{\"description\":\"what is wrong and, where there is one, the fix\",\"content\":"
                "{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}}");
    json_close(json, '}');
    openapi_raw(json, "security", "[{},{\"token\":[]}]");
}

static void openapi_path(struct json *json, const struct route *first, const char *dialect) {
    char pattern[256], *rest;
    snprintf(pattern, sizeof pattern, "%s", first->pattern);
    if ((rest = strstr(pattern, "...}")))
        memcpy(rest, "}", 2);
    json_put_open(json, pattern, '{');
    for (const struct route *route = first; route->method; route++) {
        char method[16] = "";
        if (strcmp(route->pattern, first->pattern) != 0 || !openapi_has(route, dialect))
            continue;
        const char *written = strcmp(route->method, "ANY") != 0 ? route->method : "GET";
        for (size_t i = 0; written[i] && i + 1 < sizeof method; i++)
            method[i] = (char)(written[i] | 0x20);
        json_key(json, method);
        openapi_operation(json, route);
    }
    json_close(json, '}');
}

void openapi_write(const char *dialect, struct buf *out) {
    const struct route *routes = routes_all();
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    json_put_str(&json, "openapi", "3.1.0");
    json_put_open(&json, "info", '{');
    json_put_str(&json, "title", "cubby");
    json_put_str(&json, "version", CUBBY_VERSION);
    json_put_str(&json, "summary", "Boxes for agents: a shell and files, walled off.");
    json_put_str(&json, "description", "null for a member that is not required is as if it were not there.");
    json_close(&json, '}');
    openapi_raw(&json, "servers", "[{\"url\":\"/\",\"description\":\"the daemon that serves this document\"}]");
    json_put_open(&json, "paths", '{');
    for (const struct route *route = routes; route->method; route++) {
        const struct route *before = routes;
        while (before < route && (strcmp(before->pattern, route->pattern) != 0 || !openapi_has(before, dialect)))
            before++;
        if (before == route && openapi_has(route, dialect) &&
            strncmp(route->pattern, "/_", 2) != 0) /* those are reached by Host, not by a path */
            openapi_path(&json, route, dialect);
    }
    json_close(&json, '}');
    openapi_components(&json, routes, dialect);
    json_close(&json, '}');
}
