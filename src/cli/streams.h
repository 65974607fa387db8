/* Streams of one command in a box of this process: standard input and output, signals and window size. Called by
 * run. */
#ifndef CUBBY_CLI_STREAMS_H
#define CUBBY_CLI_STREAMS_H

#include <stdbool.h>

#include "box/duplex.h"

struct streams {
    struct box *box;
    struct box_duplex duplex;  /* an open command; fd: standard input or -1; wake_fd: terminal_signals */
    bool terminal;             /* the command has a pty: window changes go to it */
    uint64_t pid;              /* of the command, once it has begun */
    int ended_by;              /* out: the signal that ended us, or 0 */
    struct exec_result result; /* out */
};

/* Runs until the command ends (0 and its result), a signal arrives (-ERR_GONE, ended_by), or something fails. */
int streams_run(struct streams *streams, struct err *err);

#endif
