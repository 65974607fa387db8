/* The watching half of filesystem.Filesystem; filesystem.c has its routes. */
#ifndef CUBBY_FRONT_E2B_WATCH_H
#define CUBBY_FRONT_E2B_WATCH_H

#include "front/e2b/connect.h"

struct e2b_watch_args {
    struct row_text path, watcher_id;
    bool recursive, include_entry;
};

extern const struct row e2b_watch_rows[], e2b_watcher_rows[];
int e2b_watch_dir(struct connect *connect, void *message, struct err *err); /* connect_rpc.call, as all of these */
int e2b_watch_create(struct connect *connect, void *message, struct err *err);
int e2b_watch_events(struct connect *connect, void *message, struct err *err);
int e2b_watch_remove(struct connect *connect, void *message, struct err *err);

#endif
