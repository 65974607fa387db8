/* The answer of an untrusted server: its head, and where its body ends. No I/O, so that it can be fuzzed. */
#ifndef CUBBY_HTTP_RESPONSE_H
#define CUBBY_HTTP_RESPONSE_H

#include "base/base.h"

struct http_field {
    const char *name, *value; /* name in lower case; no line break in either */
};

struct response_state;
struct response {
    int status;
    struct http_field fields[LIMIT_HEADERS];
    size_t count;
    int64_t length; /* of the body; -1: not known in advance */
    bool last;      /* the server closes the connection after this answer */
    struct response_state *state;
};

struct response *response_new(void);
void response_free(struct response *response); /* NULL is fine */
/* The next bytes of the stream. Until the head is whole they are kept here; *ret_used is how many belong to it. 1:
 * the head is whole (again after an interim answer, status 1xx), 0: more is needed, PROTOCOL: not a valid answer.
 * is_head: the request was a HEAD. */
int response_head(struct response *response, const void *data, size_t len, bool is_head, size_t *ret_used,
                  struct err *err);
const char *response_field(const struct response *response,
                           const char *lower_case_name); /* the first; NULL when absent */
/* Bytes of the body: how many were used (0 at the end of the body), *ret_data, *ret_len the content found in them. Or
 * PROTOCOL. */
ssize_t response_body(struct response *response, const void *data, size_t len, const void **ret_data, size_t *ret_len,
                      struct err *err);
/* How many bytes of a body of known length are still to come; 0: none, or its length is not known. */
uint64_t response_left(const struct response *response);
void response_skip(struct response *response, uint64_t bytes); /* so many of them went another way */
bool response_done(const struct response *response);           /* the body is whole */
/* The server has ended its stream. PROTOCOL when that was too early. */
int response_end(const struct response *response, struct err *err);

#endif
