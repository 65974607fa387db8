/* A machine whose runner is not ours and speaks messages of JSON (PROTOCOL.md, "The text form"). Its own protocol carries our
 * runner onto the machine, starts it for each box, and carries the frames of proto.h between it and the daemon; where our
 * runner cannot run, the eight operations of the text form are all there is. Used by machine.c. Invariant: nothing of a
 * box is done on this host instead of on that machine. */
#ifndef CUBBY_BACKEND_MACHINE_TEXT_H
#define CUBBY_BACKEND_MACHINE_TEXT_H

#include "backend/remote/machine.h"

struct machine_text;

/* One connection: its end is the end of every call on it. hello and options are copied. */
struct machine_text *machine_text_new(const struct machine_hello *hello, const struct machine_text_options *options);
/* Serves until the connection ends; the reason in err, always negative. tick: as pump_events.tick. */
int machine_text_serve(struct machine_text *text, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err);
/* From any thread: machine_text_serve returns GONE with that reason. */
void machine_text_leave(struct machine_text *text, const char *why);

extern const struct machine_ops machine_text_ops; /* peer: struct machine_text */

#endif
