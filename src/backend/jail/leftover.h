/* What dead daemons left on this machine. */
#ifndef CUBBY_BACKEND_LEFTOVER_H
#define CUBBY_BACKEND_LEFTOVER_H

#include "backend/jail/jail.h"

/* Ends and removes it, and names each thing. Of boxes that are recorded, or that a living daemon makes, nothing. */
void leftover_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user);

#endif
