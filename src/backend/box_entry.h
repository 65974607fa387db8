/* Processes of the runner's that enter a box: spawned on this machine, told what to do by a message of wire/plan.h, heard.
 * Used by the backends whose boxes are on this machine. */
#ifndef CUBBY_BACKEND_USHER_H
#define CUBBY_BACKEND_USHER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/spec.h"

enum { USHER_FDS = 4 };
/* The runner as a new process with these descriptors from PLAN_STAGE_FD on, no environment and nothing else of ours. */
int box_entry_spawn(const char *program, int null_fd, char *const argv[], const int *fds, size_t count, pid_t *ret_pid,
                    struct err *err);
/* What a failed step wrote; err is set from it, or to `otherwise` when it wrote nothing. */
int box_entry_said(char *text, ssize_t len, const char *otherwise, struct err *err);

/* `cubby-runner attach`: begin, rows, and then the visit, which waits until all is mounted, or nothing. */
struct usher {
    const char *program;
    int null_fd;
    const char *id; /* of the box, for sentences */
    pid_t pid;      /* its PID 1 as seen here ... */
    uint64_t start; /* ... and when that began */
};
void box_entry_begin(struct buf *message);
void box_entry_skills(const char *state_dir, const struct spec *spec, struct buf *message);
void box_entry_mounts(const struct spec *spec, struct buf *message);
/* *ret_left: of a process that has said it is done and goes on ending, for the caller to wait for: an overlay that was replaced
 * ends with it, which may take long. 0: it has ended. */
int box_entry_visit(const struct usher *usher, struct buf *message, pid_t *ret_left, struct err *err);

#endif
