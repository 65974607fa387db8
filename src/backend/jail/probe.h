/* What this machine can do for jails. */
#ifndef CUBBY_BACKEND_PROBE_H
#define CUBBY_BACKEND_PROBE_H

#include "backend/backend.h"

/* 0, or UNSUPPORTED with the first required thing that is missing and its fix. A daemon tries things; `cubby run` only
 * looks, because its own box tries them at once. */
int probe_jail(const struct backend_env *env, struct err *err);
/* Members "available", "can", "missing", "weaker" of an open JSON object. */
void probe_info(const struct backend_env *env, bool available, struct json *json);

/* probe_trial.c: what a runner could do here: an errno each, 0 where it works, or TRIAL_UNKNOWN */
enum trial_thing { TRIAL_USERNS, TRIAL_OVERLAY, TRIAL_PROC, TRIAL_IDMAP, TRIAL_COUNT };
#define TRIAL_UNKNOWN (-1)
struct trial {
    int number[TRIAL_COUNT];
};
void trial_run(const struct backend_env *env, struct trial *ret_trial);

#endif
