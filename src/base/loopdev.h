/* Loop devices: makes an image file a block device, which is freed with its last user. */
#ifndef CUBBY_BASE_LOOPDEV_H
#define CUBBY_BASE_LOOPDEV_H

#include "base/err.h"

#define LOOP_PATH_BYTES 32
#define LOOP_NOTES_DIR "/run/cubby/loops" /* holds a name for every device that was taken beyond the usual 8 */

/* A free device with this image, as an open descriptor; path: its name. flags: LO_FLAGS_ of linux/loop.h; autoclear
 * is added. The caller makes sure that no other writing device has the image. */
int loopdev_attach(int image, unsigned flags, char path[LOOP_PATH_BYTES], struct err *err);
/* The device that has this image, the same way. -ERR_NOT_FOUND: none has, err is not set. */
int loopdev_find(int image, char path[LOOP_PATH_BYTES], struct err *err);

#endif
