/* The terminal of cubby itself: raw mode that every exit undoes, its size, and signals as a descriptor. Called by run
 * and shell. */
#ifndef CUBBY_CLI_TERMINAL_H
#define CUBBY_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Sets raw mode on fd until terminal_restore, exit, or death by a fault. */
int terminal_raw(int fd, struct err *err);
void terminal_restore(void);                                        /* no effect if nothing is raw */
const char *terminal_name(void);                                    /* TERM, or xterm-256color if unset or invalid */
void terminal_size(int fd, unsigned *ret_cols, unsigned *ret_rows); /* 80 by 24 if unknown */

/* Blocks INT, TERM, HUP, QUIT and WINCH and returns a descriptor to read them from. */
int terminal_signals(struct err *err);
int terminal_signal(int signal_fd); /* the next signal, or 0 */
bool terminal_ending(void);         /* a terminating signal is pending */
/* Writes everything, but stops if a signal other than WINCH is pending. Returns 0, -EINTR (the signal stays pending) or
 * -errno. */
int terminal_write(int fd, int signal_fd, const void *data, size_t len);

#endif
