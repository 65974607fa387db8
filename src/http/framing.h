/* Heads and chunks of HTTP/1 as bytes, without I/O: for the server, for answers of other servers, and for programs
 * between a client and a server. */
#ifndef CUBBY_HTTP_FRAMING_H
#define CUBBY_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"

struct http_field;

/* ---- head_text.c ---- */

struct head_scan { /* progress of the byte check of one head */
    uint32_t at, target;
    uint8_t state, start, headers;
};
/* Continues from scan->at. Returns 0 if more is needed, > 0: the end of the head (scan->start is its beginning), < 0:
 * refuse with that status. */
int head_scan(struct head_scan *scan, const char *data, size_t len);
void head_scan_answer(struct head_scan *scan); /* the input begins with a status line */
/* A complete head that passed head_scan, parsed by llhttp in place (data is changed: strings end in NUL). */
struct head_words {
    int error;          /* llhttp's */
    const char *reason; /* why the head is refused, or NULL */
    int method, minor, status;
    char *target;              /* of a request; NULL: none */
    struct http_field *fields; /* owned by the caller, LIMIT_HEADERS */
    size_t count;
};
void head_words(bool answer, char *data, size_t len, struct head_words *words);
bool http_list_has(const char *list, const char *token); /* "a, b" has "B" */

/* ---- chunk.c ---- */

struct chunk { /* a strict decoder of chunked coding */
    uint64_t left;
    uint32_t line; /* bytes of the current size line or of all trailers */
    uint8_t state, digits;
};
/* Decodes bytes; *ret_data, *ret_len is the content found (maybe none). Returns the bytes used, 0 at the end of the
 * body (nothing used), or -1 for bad coding. */
ssize_t chunk_take(struct chunk *chunk, const char *in, size_t len, const char **ret_data, size_t *ret_len);
bool chunk_done(const struct chunk *chunk);

#endif
