/* Rows of schema/body.h as JSON Schema. */
#ifndef CUBBY_SCHEMA_SCHEMA_H
#define CUBBY_SCHEMA_SCHEMA_H

#include "base/json.h"
#include "schema/body.h"

void schema_field(struct json *json, const struct body_field *field);
/* Members of an object's schema whose type has been written. */
void schema_members(struct json *json, const struct body_field *fields);
/* The whole schema of an object that has these members and no others. */
void schema_object(struct json *json, const struct body_field *fields);

#endif
