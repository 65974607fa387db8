/* The boxes' own keys, which replace a token in the URL of a box's AIO routes because its clients send none; and
 * tickets, which replace one in a query for half a minute. Both are derived from one secret, STATE/aio-key, which all
 * daemons on that directory share, and from the box's time of creation: a box that reuses an id has another key. */
#ifndef CUBBY_FRONT_AIO_KEY_H
#define CUBBY_FRONT_AIO_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define AIO_KEY_BYTES 33 /* 32 hex digits */
#define AIO_TICKET_BYTES 64
#define AIO_TICKET_SECONDS 30u

struct aio_key;
struct box;

/* Makes the secret if it does not exist. DENIED: other users may read the file. */
int aio_key_open(const char *state_dir, struct aio_key **ret_key, struct err *err);
void aio_key_free(struct aio_key *key); /* NULL is allowed */

void aio_key_make(const struct aio_key *key, const struct box *box, char ret_text[AIO_KEY_BYTES]);
/* Compares in constant time. key or box NULL: never fits. */
bool aio_key_fits(const struct aio_key *key, const struct box *box, const char *text);
/* Makes a ticket for one box, valid until then. */
void aio_ticket_make(const struct aio_key *key, const struct box *box, uint64_t until_ms,
                     char ret_text[AIO_TICKET_BYTES]);
bool aio_ticket_fits(const struct aio_key *key, const struct box *box, uint64_t now_ms, const char *text);

#endif
