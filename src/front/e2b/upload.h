/* The body of POST /files as one file after the other, each read as it is written. */
#ifndef CUBBY_FRONT_E2B_UPLOAD_H
#define CUBBY_FRONT_E2B_UPLOAD_H

#include "front/e2b/e2b.h"

struct upload_body;
/* By the request's Content-Type (multipart/form-data, application/octet-stream) and Content-Encoding (gzip, identity).
 * most: bytes of all files together, unpacked. INVALID: another type or encoding. */
int upload_open(struct http_request *request, uint64_t most, struct upload_body **ret_body, struct err *err);
/* 1: the next file, from part `file`; 0: there is none. What is left of the one before is skipped. *ret_name: as its
 * client calls it, NULL: not at all; valid until the request ends. */
int upload_next(struct upload_body *body, const char **ret_name, struct err *err);
int64_t upload_size(const struct upload_body *body);                       /* of this file; -1: not known beforehand */
ssize_t upload_read(void *body, void *data, size_t size, struct err *err); /* of this file; a box_reader */
void upload_close(struct upload_body *body);                               /* NULL is fine */

#endif
