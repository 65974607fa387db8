/* Interpreters that live on in a box from one piece of code to the next: a process of the box with a driver of ours
 * (aio/python.py, aio/node.js). Called by aio/jupyter.c, aio/nodejs.c and aio/code.c.
 *
 * Nothing is kept here: a session is a background process whose arguments name it, found in the box's own list of processes.
 * So it outlives the daemon, several daemons see it, and it is gone when its process is. */
#ifndef CUBBY_FRONT_AIO_KERNEL_H
#define CUBBY_FRONT_AIO_KERNEL_H

#include <jansson.h>

#include "box/box.h"
#include "http/server.h"

#define KERNEL_NAME_BYTES 64u /* of a session: [A-Za-z0-9_.:@-] */
#define KERNEL_TIMEOUT_S 30u  /* of a piece of code, when it says nothing; LIMIT_ below */
#define LIMIT_KERNEL_TIMEOUT_S 300u
#define LIMIT_KERNELS 16u          /* of one kind in a box: each is some 10 MiB of it */
#define KERNEL_IDLE_S 1800u        /* unused for so long, it ends */
#define KERNEL_UNNAMED_IDLE_S 600u /* the same of one whose name we chose */

struct kernel_kind {
    const char *word;     /* in the arguments of its processes */
    const char *language; /* for people */
    const char *program;  /* unless another one is asked for */
    const char *driver;
    const char *package; /* that has it */
};
extern const struct kernel_kind kernel_python, kernel_node;

struct kernel {
    uint64_t pid, created_ms; /* wall clock */
    uint64_t printed;         /* bytes that it had said when it was found */
    char name[KERNEL_NAME_BYTES + 1];
    char program[32];
    bool unnamed; /* nobody chose its name */
};

bool kernel_name_ok(const char *name);
/* name NULL: all, oldest first; else that one. False of each: stop. */
int kernel_each(struct box *box, const struct kernel_kind *kind, void (*each)(void *user, const struct kernel *kernel),
                void *user, struct err *err);
struct kernels {
    struct kernel items[2 * LIMIT_KERNELS];
    size_t count;
};
int kernel_all(struct box *box, const struct kernel_kind *kind, struct kernels *ret_kernels, struct err *err);
int kernel_find(struct box *box, const struct kernel_kind *kind, const char *name, struct kernel *ret_kernel,
                struct err *err); /* NOT_FOUND: Session not found */

struct kernel_request {
    const char *name;    /* NULL: a new one with a random name */
    const char *program; /* NULL: the kind's */
    const char *cwd;     /* of a new one; NULL: the workspace. NOT_FOUND */
    uint64_t idle_s;     /* 0: as above */
};
/* The session of that name, started when there is none. UNSUPPORTED: the box has no such interpreter. LIMIT. */
int kernel_open(struct box *box, const struct kernel_kind *kind, const struct kernel_request *request,
                struct kernel *ret_kernel, bool *ret_created, struct err *err);
void kernel_end(struct box *box, const struct kernel *kernel); /* and all it started */

enum kernel_outcome {
    KERNEL_ANSWERED,
    KERNEL_DIED,  /* and the session with it: the code ended it, or memory did */
    KERNEL_STUCK, /* it could not be interrupted, and was killed */
};
struct kernel_answer {
    enum kernel_outcome outcome;
    json_t *value; /* KERNEL_ANSWERED: an object, for json_decref; else NULL */
    char how[64];  /* KERNEL_DIED: "exit code 3" */
};
/* Runs code when its turn comes. GONE: the client hung up, and the code was interrupted. */
int kernel_run(struct http_request *request, struct box *box, const struct kernel *kernel, const char *code, size_t len,
               const char *cwd, uint64_t timeout_s, struct kernel_answer *ret_answer, struct err *err);
/* What it says of itself {"cwd","used","idle","busy","count"}, with other settings if they are given (cwd NULL, idle_s 0: as
 * they are). TIMEOUT: it is too busy to answer. */
int kernel_look(struct http_request *request, struct box *box, const struct kernel *kernel, const char *cwd,
                uint64_t idle_s, json_t **ret_value, struct err *err);

#endif
