/* An event stream (text/event-stream) taken apart as it comes. Called by exec. */
#ifndef CUBBY_CLI_EVENT_H
#define CUBBY_CLI_EVENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct json_t;
struct event_reader {
    struct buf line, data;
    char name[32];
    int (*each)(void *user, const char *name, const char *data, size_t len); /* negative ends the stream */
    void *user;
    struct err error; /* of an `error` event, see event_error */
};

void event_init(struct event_reader *reader, int (*each)(void *user, const char *name, const char *data, size_t len),
                void *user);
void event_done(struct event_reader *reader);
int event_feed(struct event_reader *reader, const char *data, size_t len); /* negative: give up */
/* The bytes of {"data":"…","encoding":"…"}, by hand: a parser of whole documents is many times slower than a pipe.
 * False when the document is written in any other way: then parse it. */
bool event_data(const char *data, size_t len, struct buf *out);
void event_error(const struct json_t *json, struct err *ret_error); /* {"code":…,"message":…} as an error */

#endif
