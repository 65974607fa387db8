/* Ending and removing everything, without serving: `cubbyd --cleanup`. */
#ifndef CUBBY_BOX_CLEANUP_H
#define CUBBY_BOX_CLEANUP_H

#include "backend/backend.h"

/* All boxes of env->state_dir with their files, and what dead daemons left on the machine; each thing is named. Templates
 * and the audit log stay. BUSY while a daemon serves that directory. *ret_left: things that could not be removed. */
int cleanup_run(const struct backend_env *env, void (*each)(void *user, const char *what), void *user,
                unsigned *ret_left, struct err *err);

#endif
