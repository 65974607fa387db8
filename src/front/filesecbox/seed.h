/* What the files of the first family share. */
#ifndef CUBBY_FRONT_FILESECBOX_SEED_H
#define CUBBY_FRONT_FILESECBOX_SEED_H

#include "front/filesecbox/filesecbox.h"

enum { SCOPE_OVERLAY, SCOPE_BASELINE };
/* ?scope=, else `field`, of a form, in any case; NULL or empty: base says which. INVALID: neither of the two; DENIED: baseline,
 * and no admin. */
int filesecbox_scope(struct filesecbox *call, const char *field, bool base, struct err *err);
int filesecbox_upload(struct http_request *request, struct box *unused, struct err *err);

#endif
