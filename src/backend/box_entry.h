/* Processes of the runner that enter a box of this machine: spawned with a message of wire/plan.h that says what to
 * do. */
#ifndef CUBBY_BACKEND_BOX_ENTRY_H
#define CUBBY_BACKEND_BOX_ENTRY_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/spec.h"

/* The runner as a new process with these descriptors from PLAN_STAGE_FD on, no environment and no other descriptors. */
int box_entry_spawn(const char *program, int null_fd, const char *const *argv, const int *fds, size_t count,
                    pid_t *ret_pid, struct err *err);
/* The message of a failed step; err is set from it, or to `otherwise` when it is empty. */
int box_entry_said(char *text, ssize_t len, const char *otherwise, struct err *err);

/* `cubby-runner attach`: begin, rows, and then run, which waits until all is mounted, or nothing. */
struct box_entry {
    const char *program;
    int null_fd;
    const char *id; /* of the box, for error texts */
    pid_t pid;      /* its PID 1 as seen here ... */
    uint64_t start; /* ... and its start time */
};
void box_entry_begin(struct buf *message);
void box_entry_skills(const char *state_dir, const struct spec *spec, struct buf *message);
void box_entry_mounts(const struct spec *spec, struct buf *message);
/* *ret_left: a process that is done but still exits, for the caller to wait for: a replaced overlay ends with it, which
 * may take long. 0: it has exited. */
int box_entry_run(const struct box_entry *entry, struct buf *message, pid_t *ret_left, struct err *err);

#endif
