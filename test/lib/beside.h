/* The programs of the build that a test program belongs to. */
#ifndef CUBBY_TEST_BESIDE_H
#define CUBBY_TEST_BESIDE_H

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Into `path`, which holds PATH_MAX bytes: `name` in the nearest directory above this program that has one; else only `name`. */
static void beside(char *path, const char *name) {
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = 0;
    for (char *slash; (slash = strrchr(own, '/'));) {
        *slash = 0;
        if (snprintf(path, PATH_MAX, "%s/%s", own, name) < PATH_MAX && access(path, X_OK) == 0)
            return;
    }
    snprintf(path, PATH_MAX, "%s", name);
}

#endif
