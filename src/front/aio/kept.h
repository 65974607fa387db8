/* The output of a command as in the AIO dialect: if it is too long, head and tail with a line between them. Used by the
 * groups that run commands. */
#ifndef CUBBY_FRONT_AIO_KEPT_H
#define CUBBY_FRONT_AIO_KEPT_H

#include "box/box.h"
#include "front/stream.h"

struct aio_output { /* the user of the command's exec_sink */
    struct collect kept;
    size_t limit;           /* characters per stream; 0: only bytes are limited */
    uint64_t characters[2]; /* received so far */
    uint64_t pid;
};
int aio_output_init(struct aio_output *output, struct http_request *request, struct box *box, size_t limit,
                    struct err *err);
void aio_output_done(struct aio_output *output);
int aio_output_started(void *output, uint64_t pid);
int aio_output_put(void *output, int stream, const uint8_t *data, size_t len);
/* Returns the text of one stream, in place or in the request's arena. Nothing may be put afterwards. */
const uint8_t *aio_output_text(struct aio_output *output, int stream, size_t *ret_len);

#endif
