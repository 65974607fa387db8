/* Files as E2B shows them: the rule for paths, the rights that calls have, and EntryInfo. Used by files.c,
 * filesystem.c and watch.c. */
#ifndef CUBBY_FRONT_E2B_ENTRY_H
#define CUBBY_FRONT_E2B_ENTRY_H

#include "front/e2b/account.h"

#define ENTRY_ATTRIBUTES "user.e2b."

/* A path of a client by connect_path, but "" is the home of `user`. INVALID. */
int entry_path(struct arena *arena, const char *given, const struct e2b_account *account, const char **ret_path,
               struct err *err);
/* As the box's root, and what is made belongs to the user; a box without a root user has the agent's rights alone. */
struct file_rights entry_rights(const struct box *box, const struct e2b_account *account);

/* What a file is, as root sees it. */
int entry_stat(struct box *box, const char *path, struct arena *arena, struct file_stat *ret_stat, struct err *err);

/* Names of owners, from the box's own /etc/passwd and /etc/group, read when the first is asked for. */
struct entry_names {
    struct box *box;
    bool read;
    struct buf users, groups;
};
void entry_names_init(struct entry_names *names, struct box *box);
void entry_names_done(struct entry_names *names);
#define autonames __attribute__((cleanup(entry_names_done))) struct entry_names

void entry_put(struct json *json, struct entry_names *names, const struct file_stat *stat); /* an object */
void entry_put_metadata(struct json *json, const char *attributes, size_t len); /* the member; none: nothing */

#endif
