/* A parser of event streams (text/event-stream). Called by exec. */
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
    int (*each)(void *user, const char *name, const char *data, size_t len); /* a negative return ends the stream */
    void *user;
    struct err error; /* from an `error` event, see event_error */
};

void event_init(struct event_reader *reader, int (*each)(void *user, const char *name, const char *data, size_t len),
                void *user);
void event_done(struct event_reader *reader);
int event_feed(struct event_reader *reader, const char *data, size_t len); /* negative: stop */
/* Extracts the bytes of {"data":"…","encoding":"…"} without a JSON parser, which is much slower than a pipe. Returns
 * false if the document is written in any other way: then parse it. */
bool event_data(const char *data, size_t len, struct buf *out);
void event_error(const struct json_t *json, struct err *ret_error); /* {"code":…,"message":…} as an error */

#endif
