/* Streams of one command of a box that this process holds itself: stdin in, output out, signals and window size.
 * Called by run. */
#ifndef CUBBY_CLI_STREAMS_H
#define CUBBY_CLI_STREAMS_H

#include <stdbool.h>

#include "box/box.h"

struct streams {
    struct box *box;
    struct call *call; /* an open EXEC */
    int signal_fd;     /* terminal_signals */
    bool input;        /* standard input goes to the command */
    bool terminal;     /* the command has a pty: window changes go to it */
    int ended_by;      /* out: the signal that ended us, 0: none */
};

/* Until the command ended (0 and its result), a signal came (-ERR_GONE, ended_by), or something failed. */
int streams_run(struct streams *streams, struct exec_result *ret_result, struct err *err);

#endif
