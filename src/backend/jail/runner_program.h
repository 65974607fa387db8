/* The program that boxes are started from: a copy of the runner from when the backend was opened, which can no
 * longer be written to. A command of a box can reach the program it was started from (/proc/self/exe,
 * CVE-2019-5736). */
#ifndef CUBBY_BACKEND_RUNNER_PROGRAM_H
#define CUBBY_BACKEND_RUNNER_PROGRAM_H

#include "base/err.h"

struct runner_program {
    int fd;
    char path[32]; /* to execute it by, in this process and its children */
};

int runner_program_open(struct runner_program *program, const char *path, struct err *err);
void runner_program_close(struct runner_program *program);

#endif
