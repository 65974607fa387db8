/* Replaces a file completely or not at all: fills a hidden file next to the target and renames it over the target. Used
 * by write, edit and moves between file systems. */
#ifndef CUBBY_RUNNER_REPLACE_H
#define CUBBY_RUNNER_REPLACE_H

#include "base/base.h"
#include "runner/ops/attrs.h"
#include "runner/runner.h"

/* Hidden names: REPLACE_PREFIX, 'n' (new) or 'r' (replaces), 16 hex digits. The watch op recognizes them. */
#define REPLACE_PREFIX ".cubby-tmp-"
#define REPLACE_NAME_BYTES 32

/* The owner of files that a call makes for another user (CALL_ROOT). */
struct owner {
    bool given;
    uid_t uid;
    gid_t gid;
};
int owner_args(const struct fields *args, struct owner *ret_owner, struct err *err);

struct replace {
    int dirfd;                     /* O_PATH of the target's directory */
    char name[256];                /* the target in it */
    char temp[REPLACE_NAME_BYTES]; /* "": there is none */
    int fd;                        /* the hidden file, read and write */
    bool existed;
    struct stat old;    /* if existed */
    struct owner owner; /* of the new file, set after replace_find; else the old one's, or ours */
    struct attrs attrs; /* likewise; prefix NULL: attributes do not matter */
};

/* Finds the directory and the name a path leads to, following final links below root. Checks nothing. */
int replace_resolve(struct replace *replace, const struct place *at, const char *shown, struct err *err);
/* Finds the target (following final links below root) and checks that it may be replaced: a regular file the caller may
 * write, or nothing. if_match: NULL, "*" or an ETag. `shown` is its name in errors. */
int replace_find(struct replace *replace, const struct place *at, const char *shown, const char *if_match,
                 struct err *err);
int replace_open(struct replace *replace, const char *shown, struct err *err); /* makes the hidden file */
/* mode 0: the old file's, 0644 for a new one; never with set-user-ID or set-group-ID. *ret_status: the new file. With
 * an ETag in if_match it replaces that version or nothing. */
int replace_commit(struct replace *replace, const char *shown, mode_t mode, const char *if_match,
                   struct stat *ret_status, struct err *err);
/* The same, but only if the file is still the one that `read` describes, unchanged. Returns 1 if not: nothing was
 * replaced, look again. */
int replace_exchange(struct replace *replace, const char *shown, mode_t mode, const struct stat *read,
                     struct stat *ret_status, struct err *err);
/* After a wait: reads the current file (existed, old). */
int replace_look(struct replace *replace, const char *shown, struct err *err);
/* Like replace_commit, but only if there is no file. Returns 1 if there is one. */
int replace_create(struct replace *replace, const char *shown, mode_t mode, struct stat *ret_status, struct err *err);
void replace_done(struct replace *replace); /* closes; removes the hidden file unless committed. May be called twice */

/* Makes every missing directory of the path (but not its last component if `parent`). owner: of those; NULL: us.
 * Returns 1 if the last one was made here, 0 if it existed. */
int replace_mkdirs(const struct place *at, const char *shown, mode_t mode, bool parent, const struct owner *owner,
                   struct err *err);

#define ETAG_TEXT_BYTES 64
/* The same text as file_etag of the daemon. */
void etag_text(const struct stat *status, char text[ETAG_TEXT_BYTES]);
void temp_name(char name[REPLACE_NAME_BYTES], bool existed);
bool temp_name_is(const char *name); /* it is one of our hidden names */

#endif
