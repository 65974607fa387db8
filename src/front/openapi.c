/* The route table as OpenAPI 3.1. Called by /openapi.json and `cubbyd --openapi`.
 * Not to break: nothing is written here that does not come from a row which also checks requests. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "front/native.h"
#include "schema/schema.h"

/* ---- one operation ---- */

static void openapi_parameter(struct json *json, const char *name, size_t len, const char *in, bool required,
                              const struct body_field *field) {
    json_open(json, '{');
    json_key(json, "name");
    json_strn(json, name, len);
    json_key(json, "in");
    json_str(json, in);
    json_key(json, "required");
    json_bool(json, required);
    bool map = field && field->type == BODY_MAP; /* a JSON text in the query */
    if (map) {
        json_key(json, "content");
        json_open(json, '{');
        json_key(json, "application/json");
        json_open(json, '{');
    }
    json_key(json, "schema");
    if (field) {
        schema_field(json, field);
    } else {
        json_open(json, '{');
        json_key(json, "type");
        json_str(json, "string");
        json_close(json, '}');
    }
    for (int i = 0; map && i < 2; i++)
        json_close(json, '}');
    json_close(json, '}');
}

static void openapi_parameters(struct json *json, const char *pattern, const struct body_field *query) {
    json_key(json, "parameters");
    json_open(json, '[');
    for (const char *p = strchr(pattern, '{'); p; p = strchr(p + 1, '{'))
        openapi_parameter(json, p + 1, strcspn(p + 1, ".}"), "path", true, NULL);
    for (const struct body_field *field = query; field && field->name; field++)
        openapi_parameter(json, field->name, strlen(field->name), "query", field->flags & BODY_REQUIRED, field);
    json_close(json, ']');
}

static void openapi_content(struct json *json, const char *media, const struct body_field *fields) {
    json_key(json, "content");
    json_open(json, '{');
    json_key(json, media ? media : "application/json");
    json_open(json, '{');
    json_key(json, "schema");
    json_open(json, '{');
    if (!media) {
        json_key(json, "type");
        json_str(json, "object");
        if (fields)
            schema_members(json, fields);
    }
    json_close(json, '}');
    json_close(json, '}');
    json_close(json, '}');
}

static void openapi_response(struct json *json, int status, const struct endpoint *endpoint) {
    char code[12];
    snprintf(code, sizeof code, "%d", status);
    json_key(json, code);
    json_open(json, '{');
    json_key(json, "description");
    json_str(json, status == 201 ? "made" : status == 206 ? "a part" : status == 101 ? "a WebSocket" : "done");
    if (status != 204 && status != 101 && (endpoint->answer || endpoint->answer_media || !endpoint->body_media))
        openapi_content(json, endpoint->answer_media, endpoint->answer);
    json_close(json, '}');
}

static void openapi_operation(struct json *json, const struct route *route, const char *suffix) {
    const struct endpoint *endpoint = route->extra;
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", route->name, *suffix ? "_" : "", suffix);
    json_open(json, '{');
    json_key(json, "operationId");
    json_str(json, name);
    json_key(json, "summary");
    json_str(json, route->summary);
    openapi_parameters(json, route->pattern, endpoint->query);
    if (endpoint->body || endpoint->body_media) {
        json_key(json, "requestBody");
        json_open(json, '{');
        openapi_content(json, endpoint->body_media, endpoint->body);
        json_close(json, '}');
    }
    if (endpoint->flags & ENDPOINT_OPEN) {
        json_key(json, "security");
        json_open(json, '[');
        json_close(json, ']');
    }
    json_key(json, "responses");
    json_open(json, '{');
    openapi_response(json, endpoint->status, endpoint);
    if (endpoint->other_status)
        openapi_response(json, endpoint->other_status, endpoint);
    json_key(json, "default");
    buf_puts(json->out, "{\"$ref\":\"#/components/responses/Error\"}");
    json->comma = true;
    json_close(json, '}');
    json_close(json, '}');
}

/* ---- the document ---- */

static void openapi_components(struct json *json) {
    json_key(json, "components");
    buf_puts(json->out,
             "{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
             "\"responses\":{\"Error\":{\"description\":\"what is wrong and, where there is one, the fix\",\"content\":"
             "{\"application/json\":{\"schema\":{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\","
             "\"properties\":{\"code\":{\"type\":\"string\",\"enum\":[");
#define X(name, number, status) buf_puts(json->out, (number) == 1 ? "\"" #name "\"" : ",\"" #name "\"");
    ERR_LIST(X)
#undef X
    buf_puts(json->out, "]},\"message\":{\"type\":\"string\"}},\"required\":[\"code\",\"message\"]}},"
                        "\"required\":[\"error\"]}}}}}}");
    json->comma = true;
    json_key(json, "security");
    buf_puts(json->out, "[{},{\"token\":[]}]");
    json->comma = true;
}

static bool openapi_seen(const struct route *routes, const struct route *route) {
    for (const struct route *before = routes; before < route; before++)
        if (!strcmp(before->pattern, route->pattern))
            return true;
    return false;
}

/* All that OpenAPI has a word for, where a route takes any method. */
static void openapi_any(struct json *json, const struct route *route) {
    static const char *const methods[] = {"delete", "get", "head", "options", "patch", "post", "put"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        json_key(json, methods[i]);
        openapi_operation(json, route, methods[i]);
    }
}

static void openapi_path(struct json *json, const struct route *first) {
    char pattern[256], *rest;
    snprintf(pattern, sizeof pattern, "%s", first->pattern);
    if ((rest = strstr(pattern, "...}")))
        memcpy(rest, "}", 2);
    json_key(json, pattern);
    json_open(json, '{');
    for (const struct route *route = first; route->method; route++) {
        char method[16] = "";
        if (strcmp(route->pattern, first->pattern) != 0 || !route->extra)
            continue;
        if (!strcmp(route->method, "ANY")) {
            openapi_any(json, route);
            continue;
        }
        for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
            method[i] = (char)(route->method[i] | 0x20);
        json_key(json, method);
        openapi_operation(json, route, "");
    }
    json_close(json, '}');
}

void openapi_write(const struct route *routes, struct buf *out) {
    struct json json;
    json_init(&json, out);
    json_open(&json, '{');
    json_key(&json, "openapi");
    json_str(&json, "3.1.0");
    json_key(&json, "info");
    json_open(&json, '{');
    json_key(&json, "title");
    json_str(&json, "cubby");
    json_key(&json, "version");
    json_str(&json, CUBBY_VERSION);
    json_key(&json, "summary");
    json_str(&json, "Boxes for agents: a shell and files, walled off.");
    json_close(&json, '}');
    json_key(&json, "paths");
    json_open(&json, '{');
    for (const struct route *route = routes; route->method; route++)
        if (!openapi_seen(routes, route))
            openapi_path(&json, route);
    json_close(&json, '}');
    openapi_components(&json);
    json_close(&json, '}');
}
