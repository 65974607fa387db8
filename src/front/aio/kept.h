/* The output of a command; beyond a number of characters its middle is left out, as in the AIO dialect: head and
 * tail with a line between them. Used by the groups that run commands. */
#ifndef CUBBY_FRONT_AIO_KEPT_H
#define CUBBY_FRONT_AIO_KEPT_H

#include "box/box.h"
#include "front/stream.h"

struct aio_output { /* the user of the command's exec_sink */
    struct collect kept;
    size_t limit;           /* of characters of a stream; 0: none but that of the bytes */
    uint64_t characters[2]; /* that came: bytes that begin one */
    uint64_t pid;
};
int aio_output_init(struct aio_output *output, struct http_request *request, struct box *box, size_t limit,
                    struct err *err);
void aio_output_done(struct aio_output *output);
int aio_output_started(void *output, uint64_t pid);
int aio_output_put(void *output, int stream, const uint8_t *data, size_t len);
/* The text of one stream, where it lies or in the request's arena; puts are over. */
const uint8_t *aio_output_text(struct aio_output *output, int stream, size_t *ret_len);

#endif
