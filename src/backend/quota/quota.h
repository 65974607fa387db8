/* A bound on a box's own files that the kernel enforces: bytes and number of files. The method differs between
 * machines: a small table has them, and the configuration names one (`disk_quota`) or uses the first that works.
 *
 * A box's files are state/boxes/ID/fs, in one of three forms, which stage one of the runner gets:
 * a directory of layers (no quota, project, btrfs), an image that holds them (loop), or nothing on a disk (tmpfs). */
#ifndef CUBBY_BACKEND_QUOTA_H
#define CUBBY_BACKEND_QUOTA_H

#include <pthread.h>

#include "backend/backend.h"

enum quota_form { QUOTA_DIRECTORY, QUOTA_IMAGE, QUOTA_MEMORY };

struct quota_size {
    uint64_t mb; /* as asked for */
    uint64_t bytes, inodes;
};

struct quota_method {
    const char *name;
    enum quota_form form;
    /* 0 if it works here; else UNSUPPORTED, with the missing feature and the fix. */
    int (*probe)(const struct backend_env *env, struct err *err);
    /* `fs` in a box's directory, which is new. */
    int (*make)(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err);
    /* Prepares files of that size for a later `make`, in idle time. false: enough are prepared, or it failed. NULL:
     * there is nothing to prepare. */
    bool (*stock)(const struct backend_env *env, const struct quota_size *size);
    /* Prepares an existing `fs` for use again, with its bound. NOT_FOUND: it does not belong to this method. */
    int (*again)(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err);
    /* The size of the files now; NULL: statfs of the box's root. */
    int (*used)(int box_dir, uint64_t *ret_bytes);
    /* `fs` goes, with all that is in it. false: it is to be emptied and removed as any directory. NULL: always that. */
    bool (*remove)(int box_dir);
};

/* NULL-terminated, in the order of preference. */
extern const struct quota_method *const quota_methods[];
extern const struct quota_method quota_project, quota_btrfs, quota_loop, quota_tmpfs;

struct quota { /* of one backend in this process */
    const struct backend_env *env;
    pthread_mutex_t lock;
    const struct quota_method *method; /* for new files, when one was found */
};

void quota_init(struct quota *quota, const struct backend_env *env);
void quota_done(struct quota *quota);
struct quota_size quota_size(uint64_t disk_mb);
/* The method for new files, or UNSUPPORTED with what every method lacks here. one_shot: the files end with the box. */
int quota_find(struct quota *quota, bool one_shot, const struct quota_method **ret_method, struct err *err);
/* The same for `cubby doctor`, without state. */
const struct quota_method *quota_probe(const struct backend_env *env, struct err *err);
/* Makes the files of a new box, or prepares existing ones, with that bound (0: none). */
int quota_make(struct quota *quota, int box_dir, uint64_t disk_mb, bool one_shot, enum quota_form *ret_form,
               struct err *err);
bool quota_stock(struct quota *quota, uint64_t disk_mb); /* as the method's */
/* The same for a recorded box: `fs` exists with all that belongs to it, or not at all, even if a process is killed. */
int quota_whole(struct quota *quota, int box_dir, uint64_t disk_mb, enum quota_form *ret_form, struct err *err);
int quota_again(struct quota *quota, int box_dir, uint64_t disk_mb, enum quota_form *ret_form, struct err *err);
/* Bytes of a live box's files; root: its root directory. */
int quota_counted(int box_dir, uint64_t *ret_bytes); /* by the file system itself; -ENOENT: it does not count them */
int quota_used(int box_dir, int root, uint64_t *ret_bytes);
bool quota_remove(int box_dir); /* as the method's */
/* Returns one unused loop device of ours to the kernel, beyond `keep` for the next boxes. false: none is left. Takes
 * some 10 ms. */
bool quota_tidy(unsigned keep);
bool quota_in_store(int box_dir);                        /* every box is a subvolume there, bounded or not */
bool quota_can_snapshot(int box_dir);                    /* and the quotas of the file system still hold afterwards */
int quota_run(const char *const *argv, struct err *err); /* the exit status of a program, whose output is lost */
int quota_place(const struct backend_env *env);          /* where boxes are made: a directory, or -1 */
/* A bound for an empty directory that is not a box's; UNSUPPORTED, with the fix: the file system has no project quota. */
int quota_bind(int dir, uint64_t mb, struct err *err);
void quota_unbind(int dir); /* before it is removed; one without a bound is fine */
/* The directories that layers are, below `fs`. */
int quota_layers(int fs, struct err *err);

#endif
