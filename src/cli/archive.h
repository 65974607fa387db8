/* The system's tar behind a pipe: packs a local tree into a stream, and unpacks one. Called by cp. */
#ifndef CUBBY_CLI_ARCHIVE_H
#define CUBBY_CLI_ARCHIVE_H

#include <sys/types.h>

#include "base/err.h"

struct archive {
    pid_t pid;
    int fd; /* our end of the pipe */
};

int archive_pack(const char *dir, struct archive *ret_archive, struct err *err); /* read the tar from fd */
/* Packs only these: each with a NUL after it, a directory without what it has. names must stay as it is until the end. */
struct buf;
int archive_pack_names(const char *dir, const struct buf *names, struct archive *ret_archive, struct err *err);
int archive_unpack(const char *dir, struct archive *ret_archive, struct err *err); /* write the tar to fd */
/* Closes the pipe and waits. A failure of tar is an error. */
int archive_end(struct archive *archive, struct err *err);

/* A box may have put anything into the tree: removes everything but files, directories and links, and clears
 * set-user-ID and set-group-ID bits. No other user may be able to reach the tree yet. */
int archive_clean(const char *dir, unsigned *ret_removed, struct err *err);

#endif
