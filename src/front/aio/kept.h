/* The output of a command; beyond a number of characters its middle is left out, as in the AIO dialect: head and
 * tail with a line between them. Used by the groups that run commands. */
#ifndef CUBBY_FRONT_AIO_KEPT_H
#define CUBBY_FRONT_AIO_KEPT_H

#include "base/headtail.h"
#include "box/box.h"
#include "http/server.h"

struct aio_kept {
    struct headtail bytes;
    uint64_t characters; /* that came: bytes that begin one */
    size_t limit;        /* of characters; 0: none but that of the bytes */
};

/* The text, where it lies or in the request's arena; puts are over. */
const uint8_t *aio_kept_text(struct aio_kept *kept, struct http_request *request, size_t *ret_len);

/* Both streams of a command: the user of its exec_sink. */
struct aio_output {
    struct http_request *request;
    struct err *err;
    struct aio_kept streams[2];
    uint64_t pid;
};
int aio_output_init(struct aio_output *output, struct http_request *request, struct box *box, size_t limit,
                    struct err *err);
void aio_output_done(struct aio_output *output);
int aio_output_started(void *output, uint64_t pid);
int aio_output_put(void *output, int stream, const uint8_t *data, size_t len);

#endif
