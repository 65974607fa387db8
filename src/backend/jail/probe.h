/* Features of this machine that jails need. */
#ifndef CUBBY_BACKEND_PROBE_H
#define CUBBY_BACKEND_PROBE_H

#include "backend/backend.h"

/* 0, or UNSUPPORTED with the first required thing that is missing and its fix. A daemon tries things; `cubby run` only
 * looks, because its own box tries them at once. */
int probe_jail(const struct backend_env *env, struct err *err);
/* Members "available", "can", "missing", "weaker" of an open JSON object. */
void probe_info(const struct backend_env *env, bool available, struct json *json);

#endif
