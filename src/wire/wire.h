/* The daemon's end of a wire; calls on it are in wire/call.h.
 *
 * A wire has no thread. A thread that waits in call_next either leads (reads the socket, distributes frames to their
 * calls) or follows (waits on its thread's eventfd); a leader that has its answer wakes one follower to lead. So an
 * idle box costs no thread and an answer costs no hand-over.
 * Anything a runner may not send (foreign or ended call, no credit, wrong order, bad descriptor) ends the wire:
 * every open call fails with PROTOCOL or GONE, nothing else is touched. */
#ifndef CUBBY_WIRE_WIRE_H
#define CUBBY_WIRE_WIRE_H

#include <stdatomic.h>

#include "base/base.h"
#include "wire/proto.h"

struct wire;

/* Which descriptors the runner may pass. The root of a box, below which the daemon opens files itself, only one
 * whose program and file system are ours: a jail's. */
enum wire_pass { WIRE_PASS_NOTHING, WIRE_PASS_FILES, WIRE_PASS_ROOT };
/* Takes over a connected stream socket (closed on failure too) and exchanges HELLO; waits at most timeout_ms. */
int wire_new(int fd, enum wire_pass pass, unsigned timeout_ms, struct wire **ret_wire, struct err *err);
struct wire *wire_ref(struct wire *wire);
void wire_unref(struct wire *wire);                    /* NULL is fine; the last one closes */
void wire_kill(struct wire *wire, const char *reason); /* fails every call with GONE: reason; idempotent */
/* Why its other end hangs up, if a backend knows more than the kernel and sets it before: calls report it. Counted;
 * the wire has a reference of its own. */
struct wire_reason;
struct wire_reason *wire_reason_new(void);
struct wire_reason *wire_reason_ref(struct wire_reason *reason);
void wire_reason_set(struct wire_reason *reason, const char *why);   /* the first one counts */
bool wire_reason_shared(struct wire_reason *reason);                 /* another holder has it, too */
void wire_reason_unref(struct wire_reason *reason);                  /* NULL is fine */
void wire_set_reason(struct wire *wire, struct wire_reason *reason); /* right after wire_new */
bool wire_alive(struct wire *wire);                                  /* also notices an unread hang-up */
int wire_error(struct wire *wire, struct err *err); /* 0, or why it died, as every call on it reports it */
int wire_root(const struct wire *wire);             /* the box's root (O_PATH), or -1; the wire's, do not close */
uint64_t wire_features(const struct wire *wire);
const char *wire_workspace(const struct wire *wire); /* as HELLO said; "/workspace" in a jail */
unsigned wire_calls(struct wire *wire);              /* open now */
int wire_fd(const struct wire *wire);                /* only to watch it for a hang-up (EPOLLRDHUP) */
/* How long the connection to the runner may be broken without harm, set by a backend right after wire_new: a thread
 * that waits for an answer waits so much longer than the answer itself takes. */
void wire_set_patience(struct wire *wire, uint64_t patience_ms);
uint64_t wire_patience_ms(const struct wire *wire);
/* Host ids of the box's agent, set by a backend right after wire_new: the daemon opens files below wire_root with
 * them as its fsuid and fsgid. (uid_t)-1, the default: ids are not changed. */
void wire_set_ids(struct wire *wire, uid_t uid, gid_t gid);
uid_t wire_uid(const struct wire *wire);
gid_t wire_gid(const struct wire *wire);

#endif
