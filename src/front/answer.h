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
    struct json json;       /* write here, then answer_spill now and then */
    const struct row *rows; /* of a list that is being written */
    bool begun;
    int failed; /* the client went away */
};

void answer_init(struct answer *answer, struct http_request *request, int status);
void answer_done(struct answer *answer);
int answer_spill(struct answer *answer); /* sends pending output when it is much; negative: stop, the client is gone */
/* One string value of any length: as it is when utf8 (invalid UTF-8 becomes U+FFFD), else base64. */
int answer_long(struct answer *answer, const uint8_t *data, size_t len, bool utf8);
/* JSON that is written already, of any length. */
int answer_raw(struct answer *answer, const uint8_t *json, size_t len);
/* Sends the rest. result: 0, or the code in err: then an error is answered, or the begun body is cut off. */
int answer_end(struct answer *answer, int result, struct err *err);

/* One struct by its rows (rows/write.h) as the whole answer. */
int answer_rows(struct http_request *request, int status, const struct row *rows, const void *from, struct err *err);
/* An object whose first row is a list that comes item by item, each a struct of that row's rows. Then answer_list_end
 * writes the other rows from `from`, which may be NULL where there are no others. */
void answer_list(struct answer *answer, struct http_request *request, const struct row *rows);
int answer_item(struct answer *answer, const void *item); /* as answer_spill */
int answer_list_end(struct answer *answer, const void *from, int result, struct err *err);

#define autoanswer __attribute__((cleanup(answer_done))) struct answer

#endif
