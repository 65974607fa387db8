/* JSON as most requests are written, read several times as fast as jansson does: no \u, no fractions. */
#ifndef CUBBY_SCHEMA_PLAIN_H
#define CUBBY_SCHEMA_PLAIN_H

#include <stddef.h>

struct json_t;

/* The value, as jansson would read it, for json_decref; NULL: it is not that plain, or not JSON: ask jansson. The text has
 * passed the bounds of a body (depth, number of values). */
struct json_t *plain_load(const char *data, size_t len);

#endif
