/* A request whose body comes from a descriptor, with a line of progress on a terminal. Called by cp, template and
 * skill. */
#ifndef CUBBY_CLI_UPLOAD_H
#define CUBBY_CLI_UPLOAD_H

#include "base/err.h"
#include "cli/progress.h"

struct archive;
struct buf;
struct cli;

struct upload {
    int fd;                  /* a file, or the pipe of tar; stays open */
    int64_t length;          /* -1: to its end */
    const char *what, *type; /* its name in errors, and its Content-Type */
    struct archive *archive; /* of that pipe: ended at its end, and NULL then. May be NULL */
    bool quiet;
    int (*tick)(void *user); /* as http_call.tick; may be NULL */
    void *user;
    struct progress progress; /* its own, from here on */
    int number;
    struct err ended;
};
/* PUT path; the answer's body in ret_answer, which may be NULL. */
int upload_send(struct cli *cli, struct upload *upload, const char *path, struct buf *ret_answer, struct err *err);

#endif
