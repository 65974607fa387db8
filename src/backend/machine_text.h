/* A machine whose runner speaks messages of JSON instead of the link (PROTOCOL.md, "The text form"): this is the runner's
 * side of the wire for it. Each box gets one half of a socketpair with the frames of proto.h; every call becomes requests
 * to the machine. Used by machine.c. Not to break: what such a runner cannot do is done with a shell on that machine or is
 * UNSUPPORTED, never done here. */
#ifndef CUBBY_BACKEND_MACHINE_TEXT_H
#define CUBBY_BACKEND_MACHINE_TEXT_H

#include "backend/machine.h"

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
