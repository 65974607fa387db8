/* multipart/form-data (RFC 7578) as a stream: parts are passed on while they arrive. Independent of boxes.
 *
 * Handlers call multipart_form: the content of one part goes into a descriptor, all others are small values. The reader
 * below it takes bytes and yields parts. */
#ifndef CUBBY_HTTP_MULTIPART_H
#define CUBBY_HTTP_MULTIPART_H

#include "base/arena.h"
#include "base/err.h"
#include "base/scratch.h"
#include "http/server.h"

struct multipart_part {
    const char *name;
    const char *file_name; /* UTF-8 without control characters, as sent, so not a safe path; may be NULL */
    const char *type;      /* may be NULL */
};

struct multipart_field {
    struct multipart_part part;
    const char *value; /* followed by a NUL */
    size_t len;
};

struct multipart_form { /* in the request's arena */
    bool has_file;
    struct multipart_part file;
    const struct multipart_field *fields; /* the other parts, in their order */
    size_t field_count;
};
/* Reads the whole body. The part called file_part goes into file. INVALID: not multipart/form-data, malformed, or a
 * name used twice. TOO_LARGE: more than file->most in that part, or the others are too large. Also the errors of
 * scratch_write and http_body_read. */
int multipart_form(struct http_request *request, const char *file_part, struct scratch *file,
                   struct multipart_form *ret_form, struct err *err);
const char *multipart_field(const struct multipart_form *form, const char *name, size_t *ret_len); /* NULL: not found */

/* ---- the reader ---- */

struct multipart_sink {
    int (*part)(void *user, const struct multipart_part *part,
                struct err *err); /* a part begins; valid during the call */
    int (*data)(void *user, const uint8_t *data, size_t len, struct err *err); /* of the current part */
    void *user;
    unsigned parts; /* limit; 0: the limit of a form of values */
};
struct multipart;
/* content_type: of the request, with the boundary; may be NULL. */
int multipart_new(const char *content_type, const struct multipart_sink *sink, struct multipart **ret_multipart,
                  struct err *err);
int multipart_feed(struct multipart *multipart, const void *data, size_t len, struct err *err);
int multipart_end(struct multipart *multipart, struct err *err); /* INVALID: the last boundary is missing */
void multipart_free(struct multipart *multipart);

#endif
