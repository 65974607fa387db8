/* From a request to a spec: every word of a client is checked here, against what the configuration allows. */
#ifndef CUBBY_BOX_POLICY_H
#define CUBBY_BOX_POLICY_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "wire/spec.h"

struct backend_ops;
struct box;

/* Something in the life of a box. Verbs: box_created, box_ready, box_warm, box_paused, box_resumed, box_evicted (idle,
 * replicas, memory, shutdown, or what was done to it), box_died (why), box_deleted, box_adopted, box_cleaned. Whatever
 * another daemon did has the detail "by another daemon". box_progress: long work for it goes on. And of a machine, without a box: machine_joined, machine_left. */
struct box_event {
    const char *verb;
    const char *id, *user; /* may be NULL, and so may all below */
    const char *thread, *backend;
    const char *machine; /* that it is about, or that the box is on */
    const char *detail;  /* why */
    const char *work;    /* box_progress: "pull", "export"; detail says of what */
    uint64_t done, total;
    bool asked; /* a request did it: the audit log has its row */
};

/* A mount that the configuration gives to boxes. */
struct share_mount {
    const char *source; /* absolute; {user}, {thread} and {id} stand for those of the box */
    const char *target;
    bool read_only;
    bool create; /* what is missing of it is made, below the part that is the same for every box */
};

/* What the boxes of a user get, and what they may have. */
struct share {
    struct limits limits; /* of a box that does not say; 0: unlimited */
    uint64_t idle_timeout_ms;
    uint64_t busy_timeout_ms; /* so long after its last call a box is kept for what runs in the background; 0: not */
    const char *const *env;   /* "K=V" given to every box; this and the lists below: NULL-terminated */
    const struct share_mount *mounts;
    size_t mount_count;
    const char *template_name, *network,
        *backend; /* of a request that does not say; NULL: "host", "none", the provider's */
    const char *const *templates, *const *networks, *const *backends; /* that may be named; NULL: all */
    /* Of backends whose templates are images. */
    const char *image;           /* of a request that does not say; NULL: it must */
    const char *const *images;   /* patterns (reference.h) of those that may be named; NULL: all */
    const char *pull;            /* "missing", "always", "never"; NULL: missing */
    const char *runtime;         /* of a request that does not say; NULL: the engine's own choice */
    const char *const *runtimes; /* that may be named besides, "*": any; NULL: none */
    unsigned max_boxes;          /* 0: none of its own */
    uint64_t memory_mb, disk_mb; /* of all his boxes together; 0: no limit */
};

struct share_user {
    const char *user;
    struct share share;
};

/* How the layer above takes part in the life of boxes. Each may be NULL. */
struct box_hooks {
    void *user;
    /* Before a box starts, and before other trees are attached to it: what it gets in addition to its spec (spec.attached,
     * mounts), in arena. Of the spec only `attached` is kept. mounts: its backend can mount such things (backend_attaches). */
    int (*contribute)(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *err);
    /* A request is about to use the box: what waited for this is done now. Negative: the request is refused. */
    int (*before_use)(void *user, struct box *box, struct err *err);
};

/* What the configuration says of boxes. Counted: whoever uses it without the provider's lock holds a reference. Nothing
 * of it changes but the count. */
struct policy {
    atomic_uint refs;
    void (*released)(struct policy *policy); /* by the last unref; NULL: nothing to do */
    const char *const *mount_sources;        /* absolute prefixes that may be mounted, NULL-terminated; NULL: none */
    const char *const *door_sources; /* the same for mounts that a door itself asks for (mount.door); NULL: none */
    bool any_mount_source;           /* `cubby run`: what the user may read */
    struct share share;              /* of everybody but */
    const struct share_user *users;  /* these, by strcmp */
    size_t user_count;
    void (*event)(void *user, const struct box_event *event); /* may be NULL; never waits. The first policy's counts */
    void *event_user;
    struct box_hooks hooks;     /* the first policy's count */
    unsigned max_boxes;         /* 0: LIMIT_BOXES */
    unsigned replicas;          /* boxes with processes at once; 0: by memory */
    uint64_t memory_reserve_mb; /* left to the machine when counting by memory */
    bool wake_paused;           /* a paused box that is used goes on by itself */
};

struct record;
struct policy *policy_ref(struct policy *policy);
void policy_unref(struct policy *policy); /* NULL is fine */
const struct share *policy_for(const struct policy *policy, const char *user);

struct box_request {
    const char *user;   /* NULL: "default" */
    const char *thread; /* NULL: none */
    size_t thread_len;  /* a thread may hold any bytes but NUL */
    const char *id; /* of a door whose clients choose it (text_id); the stored pair is compared as ever; NULL: made of
                           user and thread */
    const char *agent; /* whose skills it has: one box a user and agent, its thread is "agent:AGENT"; NULL: none */
    const char
        *machine; /* of his that joined, for a box on it: without a thread, its thread is "machine:NAME"; NULL: none */
    const char *backend; /* NULL: the default */
    const char *template_name, *shell;
    const char **env; /* "K=V", NULL-terminated, may be NULL */
    const struct mount *mounts;
    size_t mount_count;
    bool has_memory, has_cpus, has_pids, has_disk, has_open_files, has_output;
    struct limits limits;
    const char *network; /* NULL: the share's */
    bool has_idle_timeout;
    uint64_t idle_timeout_ms;
    bool temporary;
    const char **labels; /* "K=V" */
    struct container container;
    bool one_shot;
    bool exact; /* a box that is there has all that is named here (policy_same), or it is EXISTS */
    /* What its backend is (the provider says so, not a client): */
    bool no_limits; /* it holds none: defaults are not given, nor the configured template */
    bool images;    /* its templates are images; there is no default of disk_mb, whose holding depends on the engine */
};

/* Fills *ret_spec with copies in arena. INVALID names the field; DENIED a mount source that is not allowed. */
int policy_spec(const struct policy *policy, const struct box_request *request, const char id[17], struct arena *arena,
                struct spec *ret_spec, struct err *err);
/* spec is a copy of `from` with an id, user or thread of its own: what the configuration gave to the one (variables,
 * mounts) is replaced by what it gives to the other. In arena. */
int policy_fork(const struct policy *policy, const struct spec *from, struct arena *arena, struct spec *spec,
                struct err *err);
/* What a box that is there was made with. EXISTS: the request names something else; the sentence says what. */
int policy_same(const struct box_request *request, const struct record *record, struct err *err);
int policy_env(const char *entry, struct err *err);   /* "NAME=VALUE" */
int policy_agent(const char *agent, struct err *err); /* the grammar of agents' names */
#define POLICY_AGENT_THREAD "agent:"
#define POLICY_MACHINE_THREAD "machine:" /* of the box that a joined machine itself is */
/* The agent whose box such a thread is; NULL: it is no agent's. */
const char *policy_thread_agent(const char *thread, size_t thread_len, struct arena *arena);
int policy_machine(const char *machine, struct err *err); /* the grammar of machines' names */
/* Of a box with an agent or a machine the thread, and of a thread these; of a machine the backend. INVALID: they do not
 * belong together. */
int policy_pair(struct box_request *request, struct arena *arena, struct err *err);
bool policy_template(const char *name); /* the grammar of templates' names */
/* What the request asks for, else the share's, else `fallback`. DENIED: it may not be had. */
int policy_backend(const struct share *share, const struct box_request *request, const char *fallback,
                   const char **ret_backend, struct err *err);
/* First 16 hex digits of sha256("user:thread"). */
void policy_id(const char *user, const char *thread, size_t thread_len, char ret_id[17]);
void policy_random_id(char ret_id[17]);

#endif
