/* The users of a sandbox: whose a process or a file is. */
#ifndef CUBBY_FRONT_E2B_ACCOUNT_H
#define CUBBY_FRONT_E2B_ACCOUNT_H

#include "front/e2b/e2b.h"

enum { E2B_USER_ID = 1000, E2B_OWN_ENV = 3 };

struct e2b_account {
    const char *home;
    uint32_t uid, gid;            /* 0: root; E2B_USER_ID: `user` */
    const char *env[E2B_OWN_ENV]; /* HOME, USER, LOGNAME */
};
extern const struct e2b_account e2b_account_user, e2b_account_root;

/* By name: `user`, `root`, or one of the box's own /etc/passwd; "" or NULL: the one of its template, else `user`. In
 * arena. UNAUTHORIZED: there is no such user. */
int e2b_account(struct box *box, const char *name, struct arena *arena, struct e2b_account *ret_account,
                struct err *err);
void e2b_account_exec(const struct e2b_account *account, struct exec_request *exec); /* the command is that user's */

#endif
