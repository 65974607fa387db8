/* Paths of clients, and a file of a box as the answer. */
#ifndef CUBBY_FRONT_SEND_H
#define CUBBY_FRONT_SEND_H

#include "front/front.h"

/* A client's path made absolute (absent: the workspace), so that answers and sentences name whole paths. "//" and "/./"
 * are folded; ".." is the kernel's business. tree: a trailing '/' goes too. NULL: too long, err is set. */
const char *front_path(struct http_request *request, struct box *box, const struct row_text *path, bool tree,
                       struct err *err);
/* The same of a path that is about to be changed: a skill that it lies in becomes the user's own. */
const char *front_target(struct http_request *request, struct box *box, const struct row_text *path, bool tree,
                         struct err *err);

/* A file as the answer, with ranges and conditions. Negative before anything was answered: err says why. */
int front_send(struct http_request *request, struct box *box, const char *path, struct err *err);

#endif
