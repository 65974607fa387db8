/* The watching half of filesystem.Filesystem; filesystem.c has its routes. */
#ifndef CUBBY_FRONT_E2B_WATCH_H
#define CUBBY_FRONT_E2B_WATCH_H

#include "front/e2b/e2b.h"

extern const struct row e2b_watch_rows[], e2b_watcher_rows[];
int e2b_watch_dir(struct http_request *request, struct box *box, struct err *err);
int e2b_watch_create(struct http_request *request, struct box *box, struct err *err);
int e2b_watch_events(struct http_request *request, struct box *box, struct err *err);
int e2b_watch_remove(struct http_request *request, struct box *box, struct err *err);

#endif
