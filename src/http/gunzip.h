/* A gzip stream undone while it is read: memory does not depend on what comes out of it. Its reader bounds that. */
#ifndef CUBBY_HTTP_GUNZIP_H
#define CUBBY_HTTP_GUNZIP_H

#include "base/base.h"

struct gunzip;
/* The next packed bytes; 0 at the end; negative: the code is returned. */
typedef ssize_t (*gunzip_source)(void *user, void *data, size_t size, struct err *err);

struct gunzip *gunzip_new(gunzip_source source, void *user);
/* The same of what was packed. gunzip: from gunzip_new. INVALID: not gzip, damaged, or it ends early. */
ssize_t gunzip_read(void *gunzip, void *data, size_t size, struct err *err);
void gunzip_free(struct gunzip *gunzip); /* NULL is fine */

#endif
