/* Shared by the file ops. */
#ifndef CUBBY_RUNNER_OP_FILE_H
#define CUBBY_RUNNER_OP_FILE_H

#include "base/limits.h"
#include "runner/runner.h"

/* Checks and maps the path in field `id` (runner_path). */
int op_path(const struct runner_config *config, const struct fields *args, enum field_id id, unsigned how,
            struct place *ret_place, struct err *err);
/* The same for PATH; without that field the workspace. */
int op_path_or_workspace(const struct runner_config *config, const struct fields *args, struct place *ret_place,
                         struct err *err);

/* A directory to traverse: opened for reading, below the root. A NULL path field means the workspace. */
int op_open_dir(const struct runner_config *config, const struct fields *args, int *ret_fd, struct err *err);

/* Compiles field IGNORE: names that a traversal skips. *ignore must live as long as the traversal. */
struct glob_names;
struct walk;
int op_ignore(const struct fields *args, struct glob_names *ignore, struct walk *walk, struct err *err);

/* Compiles a list of patterns (INCLUDE, EXCLUDE) to one glob. *ret_use: that glob, or NULL if empty. `what`: its
 * name. */
struct glob;
int op_globs(const char *const *patterns, size_t count, const char *what, struct glob *glob,
             const struct glob **ret_use, struct err *err);

/* Names in results: the client's path, extended by names below it. */
struct shown {
    char text[2 * LIMIT_PATH_BYTES + 4];
    size_t base; /* length of the client's part, with its '/' */
};
void shown_init(struct shown *shown, const char *path); /* path NULL or "": no prefix */
/* Returns the full length, or 0 if it is too long for a path. */
size_t shown_set(struct shown *shown, const char *dir, size_t dir_len, const char *name, size_t name_len);

/* CALL_DETAILS: writes where a link finally leads, and attributes with that prefix (may be NULL). The file is `name` in
 * dirfd, or dirfd itself if name is ""; path is for runner_path. */
void op_put_details(const struct runner_config *config, struct buf *out, int dirfd, const char *name, const char *path,
                    bool link, const char *prefix);

/* Moves an op that began on the loop and turns out to be long to a worker, with the same arguments. */
int op_to_worker(struct rcall *call, const struct op_def *def, const struct fields *args, struct err *err);

#endif
