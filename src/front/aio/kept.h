/* What a command printed, of which the middle goes when it is more than so many characters, as the AIO dialect has it: head and
 * tail with a line between them. Used by the groups that run commands. */
#ifndef CUBBY_FRONT_AIO_KEPT_H
#define CUBBY_FRONT_AIO_KEPT_H

#include "base/headtail.h"
#include "http/server.h"

struct aio_kept {
    struct headtail bytes;
    uint64_t characters; /* that came: bytes that begin one */
    size_t limit;        /* of characters; 0: none but that of the bytes */
};

/* most_bytes: what is held of it at most, whatever the limit. */
void aio_kept_init(struct aio_kept *kept, size_t limit, size_t most_bytes);
void aio_kept_done(struct aio_kept *kept);
/* For exec_sink.output: what it holds is the request's (http_hold). */
int aio_kept_put(struct aio_kept *kept, struct http_request *request, const uint8_t *data, size_t len, struct err *err);
/* The text, where it lies or in the request's arena; puts are over. */
const uint8_t *aio_kept_text(struct aio_kept *kept, struct http_request *request, size_t *ret_len);

#endif
