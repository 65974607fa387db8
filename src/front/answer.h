/* A JSON answer of any length in bounded memory: small ones go out in one piece with their length, long ones spill
 * into a chunked body as they grow. */
#ifndef CUBBY_FRONT_ANSWER_H
#define CUBBY_FRONT_ANSWER_H

#include "base/buf.h"
#include "base/json.h"
#include "rows/write.h"
#include "http/server.h"

struct answer {
    struct http_request *request;
    int status;
    struct buf out;
    struct json json;       /* write here, and call answer_spill regularly */
    const struct row *rows; /* of the list being written */
    bool begun;
    int failed; /* the client went away */
};

void answer_init(struct answer *answer, struct http_request *request, int status);
void answer_done(struct answer *answer);
int answer_spill(struct answer *answer); /* sends pending output if there is much; negative: the client is gone, stop */
/* Writes one string value of any length: as text if utf8 (invalid UTF-8 becomes U+FFFD), else as base64. */
int answer_long(struct answer *answer, const uint8_t *data, size_t len, bool utf8);
/* Writes finished JSON of any length. */
int answer_raw(struct answer *answer, const uint8_t *json, size_t len);
/* Sends the rest. result: 0, or the code in err, which is answered; if the body has begun, it is cut off instead. */
int answer_end(struct answer *answer, int result, struct err *err);

/* Writes one struct by its rows (rows/write.h) as the whole answer. */
int answer_rows(struct http_request *request, int status, const struct row *rows, const void *from, struct err *err);
/* Begins an object whose first row is a list. Each answer_item adds a struct by that row's rows; answer_list_end writes
 * the other rows from `from`, which may be NULL if there are none. */
void answer_list(struct answer *answer, struct http_request *request, const struct row *rows);
int answer_item(struct answer *answer, const void *item); /* returns as answer_spill */
int answer_list_end(struct answer *answer, const void *from, int result, struct err *err);

#define autoanswer __attribute__((cleanup(answer_done))) struct answer

#endif
