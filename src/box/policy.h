/* From a request to a spec: every word of a client is checked here, against what the configuration allows. */
#ifndef CUBBY_BOX_POLICY_H
#define CUBBY_BOX_POLICY_H

#include "base/arena.h"
#include "base/err.h"
#include "wire/spec.h"

/* Something that happened to a box by itself: for the audit log. */
struct box_event {
    const char *verb;      /* box_adopted, box_died, box_stopped, box_cleaned */
    const char *id, *user; /* may be NULL */
    const char *detail;    /* may be NULL */
};

struct policy {
    const char *const *mount_sources; /* absolute prefixes that may be mounted, NULL-terminated; NULL: none */
    bool any_mount_source;            /* `cubby run`: what the user may read */
    struct limits default_limits;     /* 0: unlimited */
    const char *const *env;           /* "K=V" given to every box, NULL-terminated, may be NULL */
    uint64_t idle_timeout_ms;
    void (*event)(void *user, const struct box_event *event); /* may be NULL; never waits */
    void *event_user;
    unsigned max_boxes, max_boxes_per_user; /* 0: LIMIT_BOXES; none of its own */
};

struct box_request {
    const char *user;    /* NULL: "default" */
    const char *thread;  /* NULL: none */
    size_t thread_len;   /* a thread may hold any bytes but NUL */
    const char *backend; /* NULL: the default */
    const char *template_name, *shell;
    const char **env; /* "K=V", NULL-terminated, may be NULL */
    const struct mount *mounts;
    size_t mount_count;
    bool has_memory, has_cpus, has_pids, has_disk, has_open_files, has_output;
    struct limits limits;
    const char *network; /* NULL: "none" */
    bool has_idle_timeout;
    uint64_t idle_timeout_ms;
    const char **labels; /* "K=V" */
    bool one_shot;
};

/* Fills *ret_spec with copies in arena. INVALID names the field; DENIED a mount source that is not allowed. */
int policy_spec(const struct policy *policy, const struct box_request *request, const char id[17], struct arena *arena,
                struct spec *ret_spec, struct err *err);
int policy_user(const char *user, struct err *err); /* the grammar of user names */
/* First 16 hex digits of sha256("user:thread"). */
void policy_id(const char *user, const char *thread, size_t thread_len, char ret_id[17]);
void policy_random_id(char ret_id[17]);

#endif
