/* The runner as boxes are started from it: the file that was found when the backend was opened, which nobody can write to
 * any more. A command of a box can get hold of the program it was started from (/proc/self/exe, CVE-2019-5736). */
#ifndef CUBBY_BACKEND_IMAGE_H
#define CUBBY_BACKEND_IMAGE_H

#include "base/err.h"

struct image {
    int fd;
    char path[32]; /* to execute it by, in this process and its children */
};

int image_open(struct image *image, const char *path, struct err *err);
void image_close(struct image *image);

#endif
