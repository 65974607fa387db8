/* The skeleton of a box's root made from the host: links, the harmless part of /etc, mount points. */
#ifndef CUBBY_BACKEND_SKELETON_H
#define CUBBY_BACKEND_SKELETON_H

#include "backend/template.h"

/* The current one, made when missing: `host`, or (user) `base`, whose uid 1000 is called `user` and has the home
 * /home/user. Safe between processes: made under another name and renamed; a second one is removed. */
int skeleton_find(const struct backend_env *env, bool user, struct template *ret_template, struct err *err);
/* Mount points, agent's home, agent's lines in passwd and group, and sudo (a copy of the runner; NULL: none), where an
 * imported tree lacks them. */
int skeleton_complete(int dir, const char *runner, struct err *err);

#endif
