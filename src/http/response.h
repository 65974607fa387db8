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
    bool last;      /* the connection closes after this answer */
    struct response_state *state;
};

struct response *response_new(void);
void response_free(struct response *response); /* NULL is allowed */
/* Takes the next bytes of the stream; until the head is complete they are copied here. *ret_used: how many belong to
 * it. Returns 1 if the head is complete (again after an interim answer, status 1xx), 0 if more is needed. PROTOCOL:
 * invalid. is_head: the request was a HEAD. */
int response_head(struct response *response, const void *data, size_t len, bool is_head, size_t *ret_used,
                  struct err *err);
const char *response_field(const struct response *response, const char *lower_case_name); /* the first one, or NULL */
/* Takes bytes of the body. Returns how many were used (0 at the end of the body), and the content found in them.
 * PROTOCOL: invalid. */
ssize_t response_body(struct response *response, const void *data, size_t len, const void **ret_data, size_t *ret_len,
                      struct err *err);
/* Returns how many bytes of a body of known length are left; 0 if none, or if the length is unknown. */
uint64_t response_left(const struct response *response);
void response_skip(struct response *response, uint64_t bytes); /* so many were passed on elsewhere */
bool response_done(const struct response *response);           /* the body is complete */
/* The server has ended its stream. PROTOCOL: too early. */
int response_end(const struct response *response, struct err *err);

#endif
