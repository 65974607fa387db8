/* Rows of rows/body.h as JSON Schema. */
#ifndef CUBBY_SCHEMA_SCHEMA_H
#define CUBBY_SCHEMA_SCHEMA_H

#include "base/json.h"
#include "rows/body.h"

struct schema_style {
    bool answer; /* members are required unless BODY_MAYBE; else those that are BODY_REQUIRED */
    bool
        refers; /* to objects that have a name (schema_name), below #/components/schemas, instead of writing them out */
};

const char *schema_name(const struct body_field *fields); /* BODY_NAMED; NULL: it has none */

void schema_field(struct json *json, const struct body_field *field, const struct schema_style *style);
/* Members of an object's schema whose type has been written. */
void schema_members(struct json *json, const struct body_field *fields, const struct schema_style *style);
void schema_reference(struct json *json, const char *name); /* the member "$ref" */
/* The whole schema of an object that has these members and no others. */
void schema_object(struct json *json, const struct body_field *fields);

#endif
