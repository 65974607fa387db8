/* A JSON answer of any length in bounded memory: small ones go out in one piece with their length, long ones spill
 * into a chunked body as they grow. */
#ifndef CUBBY_FRONT_ANSWER_H
#define CUBBY_FRONT_ANSWER_H

#include "base/buf.h"
#include "base/json.h"
#include "http/server.h"

struct answer {
    struct http_request *request;
    int status;
    struct buf out;
    struct json json; /* write here, then answer_spill now and then */
    bool begun;
    int failed; /* the client went away */
};

void answer_init(struct answer *answer, struct http_request *request, int status);
void answer_done(struct answer *answer);
int answer_spill(struct answer *answer); /* sends what is there when it is much; negative: stop, nobody listens */
/* One string value of any length: as it is when utf8 (what is not UTF-8 in it becomes U+FFFD), else base64. */
int answer_long(struct answer *answer, const uint8_t *data, size_t len, bool utf8);
/* JSON that is written already, of any length. */
int answer_raw(struct answer *answer, const uint8_t *json, size_t len);
/* Sends the rest. result: 0, or the code in err: then an error is answered, or the begun body is cut off. */
int answer_end(struct answer *answer, int result, struct err *err);

#define autoanswer __attribute__((cleanup(answer_done))) struct answer

#endif
