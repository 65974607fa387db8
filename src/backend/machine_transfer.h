/* Files too large for a message of the text form (machine_text.h): the machine fetches or brings them over HTTP, at
 * GET or POST /runner/files/ID. A table of such transfers, each for one machine, once, with a bound and an end in time.
 * Two threads meet at one: the call's (machine_text_file.c) and the door's (front/runner.c); what one gives the other
 * takes, through a small buffer. Not to break: whichever ends first, the other is told at once and never waits for ever. */
#ifndef CUBBY_BACKEND_MACHINE_TRANSFER_H
#define CUBBY_BACKEND_MACHINE_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define MACHINE_TRANSFER_ID_BYTES 33     /* 32 hex digits and a NUL */
#define MACHINE_TRANSFER_BEGIN_MS 30000u /* until the machine came for it */
#define MACHINE_TRANSFER_STALL_MS 60000u /* without a byte moving */

struct machine_transfers;
struct machine_transfer;

struct machine_transfers *machine_transfers_new(void);
void machine_transfers_free(struct machine_transfers *transfers); /* NULL is fine; nobody uses it any more */

/* ---- for who serves GET and POST /runner/files/{id} ---- */

/* brings: POST, the machine brings a file. *ret_size: for GET, of the content, UINT64_MAX when it is not known; for POST,
 * the most that it may be.
 * NOT_FOUND: there is none of this id for this machine and direction, it was used before, or is over.
 * On success the caller owes machine_transfer_close. */
int machine_transfer_take(struct machine_transfers *transfers, const char *id, const char *user, const char *machine,
                          bool brings, struct machine_transfer **ret_transfer, uint64_t *ret_size, struct err *err);

/* ---- for who opens one ---- */

/* size: of the content when the machine fetches it, UINT64_MAX when it is not known. max: TOO_LARGE beyond. LIMIT. */
int machine_transfer_new(struct machine_transfers *transfers, const char *user, const char *machine, bool brings,
                         uint64_t size, uint64_t max, struct machine_transfer **ret_transfer, struct err *err);
const char *machine_transfer_id(const struct machine_transfer *transfer);

/* ---- for both ---- */

/* The content, one side gives and the other takes. Take: bytes, 0 when it was all; give: all of it, or an error. Either
 * waits for the other side, MACHINE_TRANSFER_STALL_MS at most; GONE and the reason when that gave up. */
ssize_t machine_transfer_get(struct machine_transfer *transfer, void *data, size_t size, struct err *err);
int machine_transfer_put(struct machine_transfer *transfer, const void *data, size_t len, struct err *err);
/* The giving side: that was all of it. */
void machine_transfer_end(struct machine_transfer *transfer);
/* From any thread that knows it to be there: both sides fail with GONE and that reason. */
void machine_transfer_fail(struct machine_transfer *transfer, const char *why);
/* This side is done with it. The giving one: why NULL: that was all of it; else it is incomplete, for that reason. The
 * taking one: why NULL: it took all; else the giver is told. Frees with the second. */
void machine_transfer_close(struct machine_transfer *transfer, const char *why);

#endif
