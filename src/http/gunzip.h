/* Decompresses a gzip stream while it is read. Memory does not depend on the output, whose size the reader bounds. */
#ifndef CUBBY_HTTP_GUNZIP_H
#define CUBBY_HTTP_GUNZIP_H

#include "base/base.h"

struct gunzip;
/* Reads the next packed bytes; 0 at the end; a negative code is returned to the caller. */
typedef ssize_t (*gunzip_source)(void *user, void *data, size_t size, struct err *err);

struct gunzip *gunzip_new(gunzip_source source, void *user);
/* Reads the next unpacked bytes. gunzip: from gunzip_new. INVALID: not gzip, damaged, or truncated. */
ssize_t gunzip_read(void *gunzip, void *data, size_t size, struct err *err);
void gunzip_free(struct gunzip *gunzip); /* NULL is allowed */

#endif
