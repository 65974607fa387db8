/* Control groups of boxes, on whichever hierarchy has what: v2 for killing and for commands' leaves, limits on v2 or on
 * v1 controllers. */
#ifndef CUBBY_BACKEND_CGROUP_H
#define CUBBY_BACKEND_CGROUP_H

#include "backend/backend.h"

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS };

struct cgroup_host {
    char v2[448];                    /* our directory on v2; "" none */
    bool v2_has[CGROUP_CONTROLLERS]; /* boxes can be limited there */
    char v1[CGROUP_CONTROLLERS][64]; /* our directory on v1; "" none */
    bool kill;                       /* cgroup.kill */
    bool freeze;                     /* cgroup.freeze */
    char freezer[64];                /* our directory of the v1 freezer, where v2 cannot; "" none */
    char why_not[160];               /* when v2 is "" */
};

struct cgroup { /* of one box */
    char name[32];
    bool v1[CGROUP_CONTROLLERS]; /* made there too */
};

extern const char *const cgroup_names[CGROUP_CONTROLLERS];
void cgroup_probe(struct cgroup_host *ret_host); /* makes our directories where it may */
bool cgroup_can(const struct cgroup_host *host, enum cgroup_controller controller);
/* UNSUPPORTED names the controller that a limit needs and this machine lacks. */
int cgroup_check(const struct cgroup_host *host, const struct limits *limits, struct err *err);

/* Makes the box's directories: v2, and on v1 those controllers in `v1`. owner: host id that may make leaves. */
int cgroup_make(const struct cgroup_host *host, const char *name, const bool v1[CGROUP_CONTROLLERS], uid_t owner,
                struct cgroup *ret_cgroup, struct err *err);
/* was: the current content. */
int cgroup_limit(const struct cgroup_host *host, const struct cgroup *cgroup, const struct limits *was,
                 const struct limits *limits, struct err *err);
/* PID 1 of a box goes before the commands of its box, where that takes nothing from anybody else. */
void cgroup_favour(const struct cgroup_host *host, const struct cgroup *cgroup, pid_t pid);
void cgroup_path(const struct cgroup_host *host, const struct cgroup *cgroup, const char *file, char *out, size_t size);
void cgroup_v1_path(const struct cgroup_host *host, const struct cgroup *cgroup, enum cgroup_controller controller,
                    const char *file, char *out, size_t size);
bool cgroup_kill(const struct cgroup_host *host, const struct cgroup *cgroup);   /* false: could not */
void cgroup_remove(const struct cgroup_host *host, const struct cgroup *cgroup); /* when its processes are gone */
/* Names of all boxes' groups, on whatever hierarchy; some may come twice. */
void cgroup_each(const struct cgroup_host *host, void (*each)(void *user, const char *name), void *user);
bool cgroup_sweep(const struct cgroup_host *host, const char *name); /* if it is without processes; false: it stays */
/* The number after `key` at the beginning of a line of a file of a group. False: not available, *ret_number is unchanged. */
bool cgroup_number(const char *path, const char *key, uint64_t *ret_number);
void cgroup_gauges_close(const char *name); /* what stayed open of the group with `name` in its path, which ends */
void cgroup_usage(const struct cgroup_host *host, const struct cgroup *cgroup, struct usage *usage);

#endif
