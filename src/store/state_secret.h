/* A secret of the daemon, made once and kept in a file of STATE that all daemons on that directory share. Keys for
 * clients are derived from it (HMAC-SHA-256), so that nothing else has to be stored. */
#ifndef CUBBY_STORE_STATE_SECRET_H
#define CUBBY_STORE_STATE_SECRET_H

#include <stdint.h>

#include "base/err.h"

struct state_secret {
    char text[65]; /* its hex digits, as in the file */
};

/* Reads STATE/name, and makes it if missing. DENIED: others may read the file. */
int state_secret_open(const char *state_dir, const char *name, struct state_secret *ret_secret, struct err *err);
void state_secret_done(struct state_secret *secret);
/* text: the purpose, so that a key for one use does not fit another; at most 256 bytes. */
void state_secret_derive(const struct state_secret *secret, const char *text, uint8_t ret_digest[32]);

#endif
