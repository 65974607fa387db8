/* Paths of clients, and a file of a box as the answer. */
#ifndef CUBBY_FRONT_SEND_H
#define CUBBY_FRONT_SEND_H

#include "front/front.h"

/* A client's path made absolute (absent: the workspace), so that answers and error texts name whole paths. "//" and
 * "/./" are folded; ".." is left to the kernel. tree: a trailing '/' is removed too. INVALID: too long. */
int front_path(struct http_request *request, struct box *box, const struct row_text *path, bool tree,
               const char **ret_path, struct err *err);
/* The same for a path that is about to be changed: a skill that contains it becomes the user's own. */
int front_target(struct http_request *request, struct box *box, const struct row_text *path, const char **ret_path,
                 struct err *err);

/* A file as the answer, with ranges and conditions. Negative before anything was answered: err says why. */
int front_send(struct http_request *request, struct box *box, const char *path, struct err *err);

/* Text of a file in memory, which counts as the request's: all of it, or lines: first counts from 0, last is
 * excluded, and the end of the last line is left out. */
struct front_load {
    const char *path;
    bool root; /* with the rights of the box's root */
    bool ranged;
    uint64_t first, last;
    const char *too_large; /* TOO_LARGE in these words: it does not fit into out */
    struct buf *out;
    struct file_stat stat; /* filled */
};
int front_load(struct http_request *request, struct box *box, struct front_load *load, struct err *err);

#endif
