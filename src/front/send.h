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

#endif
