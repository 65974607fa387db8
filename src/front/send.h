/* Paths of clients, and a file of a box as the answer. */
#ifndef CUBBY_FRONT_SEND_H
#define CUBBY_FRONT_SEND_H

#include "front/front.h"

/* Makes a client's path absolute (absent: the workspace), so that answers and error texts have full paths. Folds "//"
 * and "/./"; the kernel resolves "..". tree: also removes a trailing '/'. INVALID: too long. */
int front_path(struct http_request *request, struct box *box, const struct row_text *path, bool tree,
               const char **ret_path, struct err *err);
/* The same for a path that is about to be changed: a skill that contains it becomes the user's own. */
int front_target(struct http_request *request, struct box *box, const struct row_text *path, const char **ret_path,
                 struct err *err);

/* Sends a file as the answer, with ranges and conditions. Negative before anything was answered; err says why. */
int front_send(struct http_request *request, struct box *box, const char *path, struct err *err);

/* Adds the header by which a browser saves the answer under the last name of path, with suffix ("": none). */
void front_saved_as(struct http_request *request, const char *path, const char *suffix);

/* Loads text of a file into memory, which counts as the request's: the whole file, or lines. first counts from 0, last
 * is exclusive, and the last line has no newline. */
struct front_load {
    const char *path;
    bool root; /* read with the rights of root in the box */
    bool ranged;
    uint64_t first, last;
    const char *too_large; /* error text of TOO_LARGE: it does not fit into out */
    struct buf *out;
    struct file_stat stat; /* filled */
};
int front_load(struct http_request *request, struct box *box, struct front_load *load, struct err *err);

#endif
