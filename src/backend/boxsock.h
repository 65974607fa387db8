/* Where a box's runner listens: the socket `sock` in the box's directory. Called by the backends whose runners do. */
#ifndef CUBBY_BACKEND_BOXSOCK_H
#define CUBBY_BACKEND_BOXSOCK_H

#include "base/err.h"

int boxsock_listen(int dir_fd, int *ret_fd, struct err *err); /* replaces an existing one */
int boxsock_connect(int dir_fd, int *ret_fd);                 /* 0 or -errno; a dir_fd below 0 is ignored */

#endif
