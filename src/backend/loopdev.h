/* Loop devices that the daemon itself holds. (Those of boxes are the runner's: runner/enter_disk.c.) */
#ifndef CUBBY_BACKEND_LOOPDEV_H
#define CUBBY_BACKEND_LOOPDEV_H

#include "base/err.h"

#define LOOPDEV_PATH_BYTES 32

/* The device that has this image, as an open descriptor; path: its name. -ERR_NOT_FOUND: none has, err is not set. */
int loopdev_find(int image, char path[LOOPDEV_PATH_BYTES], struct err *err);
/* One more, which goes with its last user. Whoever calls has seen to it that none has the image yet. */
int loopdev_attach(int image, char path[LOOPDEV_PATH_BYTES], struct err *err);

#endif
