/* A request whose body is read from a descriptor, with a progress line on a terminal. Called by cp, template and
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
    int64_t length;          /* -1: until its end */
    const char *what, *type; /* name for errors, and Content-Type */
    struct archive *archive; /* tar behind that pipe: ended with it, and then NULL. May be NULL */
    bool quiet;
    int (*tick)(void *user); /* as http_call.tick; may be NULL */
    void *user;
    struct progress progress; /* private */
    int number;
    struct err ended;
};
/* Sends PUT path. The answer's body is in ret_answer, which may be NULL. */
int upload_send(struct cli *cli, struct upload *upload, const char *path, struct buf *ret_answer, struct err *err);

#endif
