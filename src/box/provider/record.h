/* The record of a box on disk, so that it outlives the daemon: STATE/boxes/ID/box.json, and next to it `died`, the
 * reason its runner ended unexpectedly. Private to box/.
 *
 * A box's directory is made with the sticky bit, which goes when the record is written. So a directory without a record
 * is known to be unfinished, and may be removed; any other without a record lost it, and its files stay. */
#ifndef CUBBY_BOX_RECORD_H
#define CUBBY_BOX_RECORD_H

#include "base/arena.h"
#include "box/box.h"

struct record {
    const char *backend;
    struct spec spec;
    char **labels;
    uint64_t created_ms, idle_timeout_ms;
    bool temporary;
    const struct note *note; /* of a box that is to be made; NULL: none. Kept apart from the record (note.h) */
};

struct row;
/* A struct as a file by its rows (rows/write.h), whole or not at all, of at most max bytes. `what` names it in
 * errors. */
int record_file_write(int dirfd, const char *path, const struct row *rows, const void *from, size_t max,
                      const char *what, struct err *err);
/* Back into *ret_to, zeroed by the caller. NOT_FOUND: no such file; IO: it is damaged. */
int record_file_read(int dirfd, const char *path, const struct row *rows, void *ret_to, size_t max, const char *what,
                     struct arena *arena, struct err *err);
/* Whether there are at most so many, and each can be a part of a path (text_id). NULL-terminated, or NULL. */
bool record_ids(const char *const *names, size_t most);
/* As err_errno, for files of the state directory: a full disk is named. */
int record_errno(struct err *err, int number, const char *what);
/* Whole or not at all (renamed into place); surely on the disk after record_sync, which may take long. */
int record_write(int boxes_fd, const struct box *box, struct err *err);
int record_sync(int boxes_fd, const char *id, struct err *err);
/* NOT_FOUND if it does not exist; IO if it is not a record. Strings are arena's. */
int record_read(int boxes_fd, const char *id, struct arena *arena, struct record *ret_record, struct err *err);
bool record_exists(int boxes_fd, const char *id);
bool record_unfinished(int boxes_fd, const char *id); /* a directory whose box was never recorded */

void record_touch(int boxes_fd, const char *id); /* for other daemons: it is used */
uint64_t record_touched_ns(int boxes_fd, const char *id);

/* On the warm shelf, for other daemons and the next one. */
void record_release(int boxes_fd, const char *id, bool released);
bool record_released(int boxes_fd, const char *id);

void record_died(int boxes_fd, const char *id, const char *why);
void record_died_read(int boxes_fd, const char *id, char *why, size_t size); /* "" when it did not */
void record_died_clear(int boxes_fd, const char *id);

#endif
