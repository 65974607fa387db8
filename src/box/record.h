/* What is kept of a box on disk, so that it outlives the daemon: STATE/boxes/ID/box.json. Private to box/. */
#ifndef CUBBY_BOX_RECORD_H
#define CUBBY_BOX_RECORD_H

#include "base/arena.h"
#include "box/box.h"

struct record {
    const char *backend;
    struct spec spec;
    char **labels;
    uint64_t created_ms, idle_timeout_ms;
};

/* Whole or not at all (renamed into place). */
int record_write(int boxes_fd, const struct box *box, struct err *err);
/* NOT_FOUND when there is none; INVALID when it is not one. Strings are arena's. */
int record_read(int boxes_fd, const char *id, struct arena *arena, struct record *ret_record, struct err *err);
void record_remove(int boxes_fd, const char *id);

#endif
