/* Loop devices that the daemon itself holds. (Those of boxes are the runner's: runner/enter/enter_disk.c.) */
#ifndef CUBBY_BACKEND_LOOPDEV_H
#define CUBBY_BACKEND_LOOPDEV_H

#include "base/loop.h"

/* The device that has this image, as an open descriptor; path: its name. -ERR_NOT_FOUND: none has, err is not set. */
int loopdev_find(int image, char path[LOOP_PATH_BYTES], struct err *err);

#endif
