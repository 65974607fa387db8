/* Stage one of a jail: shared by its outer half (host, still privileged) and its inner half (becoming PID 1), and by
 * attach.c, which enters a running box.
 *
 * Rules:
 * 1. One `struct enter` in shared memory. The outer half writes it, and the inner half reads a part only after it was
 *    announced through `go_fd`; after the plan the other way round, through `ask_fd`.
 * 2. Both share one table of descriptors (CLONE_FILES): the inner half uses descriptors of the outer half by number.
 * 3. The inner half touches no host path after `leave host`. */
#ifndef CUBBY_RUNNER_ENTER_H
#define CUBBY_RUNNER_ENTER_H

#include "base/base.h"
#include "wire/plan.h"

#define ENTER_RANGE 65536u   /* ids of a box */
#define ENTER_AGENT_ID 1000u /* `agent` inside */
#define ENTER_MAX_TASKS 8
#define ENTER_MAX_SYSTEM 8
#define ENTER_BASE_ENV 3 /* variables that every box has */

struct enter_mount {
    const char *source, *target;
    bool read_only;
    int tree_fd;
};

struct enter_skills { /* for attach.c */
    const char *store;
    const char *names[LIMIT_SKILL_LAYERS];
    int fds[LIMIT_SKILL_LAYERS];
    size_t count;
    const char *paths[LIMIT_SKILL_PATHS + 1]; /* /skills itself first; none: no skills */
    size_t path_count;
    bool replace;
};

struct enter {
    int stage_fd, errors_fd, go_fd, ask_fd, outer_pidfd;
    /* SLOT */
    bool ranged; /* made by root, with a range of ids; else one id of an ordinary user */
    uint32_t uid_base;
    const char *cgroup, *oom;
    const char *tasks[ENTER_MAX_TASKS];
    int task_fds[ENTER_MAX_TASKS];
    size_t task_count;
    uint64_t version;
    int cgroup_fd, oom_fd;
    /* the box's first process */
    pid_t pid;
    int pidfd;
    int userns_fd;
    uid_t outer_uid;
    gid_t outer_gid;
    /* its user: as seen from the host, and inside */
    uid_t owner_uid, agent_uid;
    gid_t owner_gid, agent_gid;
    const char *uid_map, *gid_map; /* of map_fd; NULL: none */
    int map_fd;                    /* a user namespace with the map for layers; -1: userns_fd */
    const char *template_dir, *listen_dir;
    const char *layers_dir, *disk; /* one of them; neither: a tmpfs */
    const char *store;             /* where kept layers are */
    const char *lowers[LIMIT_LAYERS];
    int lower_fds[LIMIT_LAYERS]; /* those with files, in the same order; later of the attached directories */
    size_t lower_count;
    uint64_t tmpfs_bytes, tmpfs_inodes;
    bool own_shown;
    struct enter_mount system[ENTER_MAX_SYSTEM];
    size_t system_count;
    int lower_fd, upper_fd; /* trees; later of the attached directories */
    int dev_fd;             /* -1: the inner half makes /dev */
    /* PLAN */
    const char *shell, *resolv;
    const char *workspace;                   /* NULL: WORKSPACE_PATH */
    uint64_t memory_bytes, pids, open_files; /* 0: not limited */
    uint64_t terminals;                      /* 0: DEFAULT_TERMINALS */
    int sysctl_fd;                           /* /proc/sys/kernel of the box, writable; -1: none */
    struct enter_mount mounts[LIMIT_MOUNTS + LIMIT_SKILL_PATHS + 1];
    size_t mount_count;
    const char *env[ENTER_BASE_ENV + LIMIT_ENV_COUNT + 1];
    size_t env_count;
    bool blank;
    int listen_fd;
    struct enter_skills skills;
    char slot_bytes[16384];
    char plan_bytes[PLAN_MAX_BYTES];
};

struct enter_step {
    const char *name; /* completes "cannot ..." */
    int (*run)(struct enter *enter, struct err *err);
    enum { ENTER_ALWAYS, ENTER_RANGED, ENTER_USER } when; /* USER: only in an ordinary user's box */
};
/* Runs to the first failure, which it reports through errors_fd and returns. Ends at a row without a name. */
int enter_run(struct enter *enter, const struct enter_step *steps);
/* Reads the next message from stage_fd into bytes, and its records into enter, which points into bytes. GONE: the
 * daemon is gone. */
int enter_message(struct enter *enter, char *bytes, size_t max, struct err *err);
/* Reads the second message; called by the inner half, because most boxes need nothing more from the outer one. */
int enter_plan(struct enter *enter, struct err *err);

/* enter_tree.c: layers and mounts as detached trees, by the half that may (outer, or inner for an ordinary user) */
int enter_layers(struct enter *enter, struct err *err);
int enter_mounts(struct enter *enter, struct err *err);
int enter_layer(struct enter *enter, const char *path, uint64_t flags, int *ret_fd,
                struct err *err); /* opens a directory */
/* Mounts kept layers, `lowest` below them, and the box's own below `own` as an overlay on target. */
int enter_overlay(const struct enter *enter, const char *own, const char *upper, const char *lowest, const char *target,
                  struct err *err);
int enter_lowers(struct enter *enter, struct err *err); /* opens the kept layers */
/* Makes a user namespace with these maps, in the form of uid_map. Returns a descriptor, or negative. */
int enter_map(const char *uid_map, const char *gid_map, struct err *err);
/* mkdir -p below the root, each part resolved by the kernel inside it; the last part is a file for a file mount. */
int enter_target(const struct enter *enter, int root, const char *target, bool dir, struct err *err);
int enter_put(struct enter *enter, int root, struct err *err); /* attaches the trees of enter_mounts */
/* enter_bounds.c: a bounded file system for the box's own layers. disk: a detached mount of the image, returned;
 * tmpfs: mounted on target, by the inner half */
int enter_disk(const char *path, bool read_only, struct err *err);
int enter_tmpfs(struct enter *enter, const char *target, struct err *err);
/* Mounts the box's terminals with these flags at path, or remounts them with another number. */
int enter_pts(const struct enter *enter, const char *path, unsigned long flags, uint64_t terminals, struct err *err);
/* enter_dev.c: the box's /dev: made and given to the box by the outer half, attached by the inner one */
int enter_dev_make(struct enter *enter, struct err *err);
int enter_dev_own(struct enter *enter, struct err *err);
int enter_dev_attach(struct enter *enter, const char *target, struct err *err);
/* attach.c: with the stage as the working directory and `own` below it, the layers of skills opened, put there, and
 * mounted as `merged` */
int attach_open(struct enter *enter, struct err *err);
int attach_stage(struct enter *enter, const char *own, struct err *err);
int attach_overlay(struct enter *enter, const char *own, struct err *err);
/* enter_root.c: the inner half; never returns */
_Noreturn void enter_inside(struct enter *enter);
/* confine.c: early by the outer half, for all that come after it; bounding as soon as PID 1 is in its user namespace;
 * runner before the loop; *ret_landlock_fd is the commands' ruleset or -1 */
int confine_early(struct enter *enter, struct err *err);
int confine_bounding(struct enter *enter, struct err *err);
int confine_runner(bool ranged, bool no_set_id, int *ret_landlock_fd, struct err *err);
/* enter_bounds.c: memory that no process holds and no oom kill frees */
int enter_bounds(struct enter *enter, struct err *err);
/* enter_net.c */
int enter_loopback(struct enter *enter, struct err *err);
int enter_resolv(struct enter *enter, struct err *err);

/* The mount API, which musl does not wrap. Negative errno on failure. */
int sys_open_tree(int dirfd, const char *path, unsigned flags);
int sys_move_mount(int from_fd, int to_fd, const char *to);
int sys_mount_setattr(int fd, uint64_t set, int userns_fd);

#endif
