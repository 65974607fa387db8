/* Rows of rows/rows.h as JSON Schema. */
#ifndef CUBBY_SCHEMA_SCHEMA_H
#define CUBBY_SCHEMA_SCHEMA_H

#include "base/json.h"
#include "rows/rows.h"

struct schema_style {
    bool answer; /* members are required unless ROW_MAYBE; else those that are ROW_REQUIRED */
    bool
        refers; /* to objects that have a name (schema_name), below #/components/schemas, instead of writing them out */
};

const char *schema_name(const struct row *fields); /* ROW_NAMED; NULL: it has none */

void schema_field(struct json *json, const struct row *field, const struct schema_style *style);
/* Members of an object's schema whose type has been written. */
void schema_members(struct json *json, const struct row *fields, const struct schema_style *style);
void schema_reference(struct json *json, const char *name); /* the member "$ref" */
/* The whole schema of an object that has these members and no others. */
void schema_object(struct json *json, const struct row *fields);

#endif
