/* The terminal of cubby itself: raw mode that is undone on every way out, its size, and signals as a
 * descriptor. Called by run and shell. */
#ifndef CUBBY_CLI_TERMINAL_H
#define CUBBY_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Raw mode on fd until terminal_restore, exit, or death by a fault. */
int terminal_raw(int fd, struct err *err);
void terminal_restore(void);     /* safe when nothing is raw */
const char *terminal_name(void); /* TERM, or xterm-256color when it is unset or not a name */
void terminal_size(int fd, unsigned *ret_cols, unsigned *ret_rows); /* 80 by 24 when it has none */

/* Blocks INT, TERM, HUP, QUIT and WINCH and returns a descriptor to read them from. */
int terminal_signals(struct err *err);
int terminal_signal(int signal_fd); /* the next one, 0 when none waits */
bool terminal_ending(void);         /* a terminating signal waits to be read */
/* Writes all of it, but gives up when a signal other than WINCH waits: 0, -EINTR (the signal stays to be read) or
 * -errno. WINCH is left for later. */
int terminal_write(int fd, int signal_fd, const void *data, size_t len);

#endif
