/* What a built template gives its sandboxes in addition to files: variables, directory, user, size, and a start command. Kept
 * as JSON with the build, and with each sandbox made from it. */
#ifndef CUBBY_FRONT_E2B_SETUP_H
#define CUBBY_FRONT_E2B_SETUP_H

#include "front/e2b/account.h"

struct e2b_setup {
    const char **env;          /* "K=V", NULL-terminated; NULL: none */
    const char *workdir;       /* NULL: the home of the user */
    const char *user;          /* NULL: `user` */
    const char *start, *ready; /* commands; NULL: none */
    uint64_t cpus, memory_mb;  /* 0: as of other boxes */
};

/* text NULL: nothing. In arena. */
void e2b_setup_read(const char *text, struct arena *arena, struct e2b_setup *ret_setup);
const char *e2b_setup_text(const struct e2b_setup *setup, struct arena *arena); /* NULL: it says nothing */
/* The value of a variable; NULL: none. And another value. */
const char *e2b_setup_get(const struct e2b_setup *setup, const char *name, size_t len);
void e2b_setup_put(struct e2b_setup *setup, struct arena *arena, const char *name, const char *value);

/* A command in a login shell, as that user, in the directory of the setup, with its variables. */
void e2b_setup_exec(const struct e2b_setup *setup, const char *command, const struct e2b_account *account,
                    struct arena *arena, struct exec_request *ret_exec);

/* Starts the start command, if there is one, and waits until the ready command succeeds, at most wait_ms; asks it
 * every pause_ms. tick (may be NULL) is called in between; negative: given up. TIMEOUT: it is still not ready. */
struct e2b_setup_wait {
    uint64_t wait_ms, pause_ms;
    int watch; /* as of all verbs */
    int (*tick)(void *user, struct err *err);
    void *user;
};
int e2b_setup_start(struct box *box, const struct e2b_setup *setup, const struct e2b_setup_wait *wait,
                    uint64_t *ret_pid, struct err *err);

/* The same for a sandbox that has just started, before its client learns of it; one that is not ready in time is given
 * out all the same. text: as in its record. */
int e2b_setup_sandbox(struct http_request *request, struct box *box, const char *text, struct err *err);

#endif
