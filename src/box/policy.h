/* From a request to a spec: every value of a client is checked here, against the configuration. */
#ifndef CUBBY_BOX_POLICY_H
#define CUBBY_BOX_POLICY_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "wire/spec.h"

struct backend_ops;
struct box;
struct note;

/* An event in the life of a box. Verbs: box_created, box_ready, box_warm, box_paused, box_resumed, box_evicted
 * (idle, replicas, memory, shutdown, or the operation on it), box_died (why), box_deleted, box_adopted, box_cleaned.
 * Events of another daemon have the detail "by another daemon". box_progress: long work for it is under way. And of
 * a machine, without a box: machine_joined, machine_left. Of its network: net_policy, net_connect, net_dns, net_http,
 * net_cut, net_ask, net_lost (rows that were only counted), gate_restarted. */
struct box_event {
    const char *verb;
    const char *id, *user; /* may be NULL, and so may all below */
    const char *thread, *backend;
    const char *machine; /* that it is about, or that the box is on */
    const char *detail;  /* why */
    const char *work;    /* box_progress: "pull", "export"; detail says of what */
    uint64_t done, total;
    bool asked; /* a request did it: the audit log has its row */
    /* net_*: reports of the gate. */
    bool alike;  /* rows alike within a moment become one in the audit log */
    bool denied; /* the outcome */
    uint64_t bytes_in, bytes_out, duration_us, count;
};

/* A mount that the configuration gives to boxes. */
struct share_mount {
    const char *source; /* absolute; {user}, {thread} and {id} stand for those of the box */
    const char *target;
    bool read_only;
    bool create; /* missing directories are made, below the part that is the same for every box */
};

/* The settings and limits of a user's boxes. */
struct share {
    struct limits limits; /* of a box that does not say; 0: unlimited */
    uint64_t idle_timeout_ms;
    uint64_t busy_timeout_ms; /* so long after its last call a box is kept for what runs in the background; 0: not */
    const char *const *env;   /* "K=V" given to every box; this and the lists below: NULL-terminated */
    const struct share_mount *mounts;
    size_t mount_count;
    const char *template_name, *network,
        *backend;        /* of a request that does not say; NULL: "host", "none", the provider's */
    const char *machine; /* where boxes of requests without machine and backend are: a joined machine of the user,
                            POLICY_ACTIVE: the active one; NULL: on this server */
    const char *const *templates, *const *networks, *const *backends; /* that may be named; NULL: all */
    /* Of backends whose templates are images. */
    const char *image;                /* of a request that does not say; NULL: it must */
    const char *const *images;        /* patterns (reference.h) of those that may be named; NULL: all */
    const char *pull;                 /* "missing", "always", "never"; NULL: missing */
    const char *runtime;              /* of a request that does not say; NULL: the engine's own choice */
    const char *const *runtimes;      /* that may be named in addition, "*": any; NULL: none */
    const char *network_policy;       /* a level that all boxes of the user are below (network.h); NULL: none */
    const char *const *network_modes; /* modes of policies that a request may ask for; NULL: all */
    unsigned max_boxes;               /* 0: none of its own */
    uint64_t memory_mb, disk_mb;      /* of all the user's boxes together; 0: no limit */
};

struct share_user {
    const char *user;
    struct share share;
};

/* How hosts are inspected for boxes (box/secret/seal.h). All NULL: none are. */
struct seal_hooks {
    void *user;
    /* The hosts that secrets of the box are bound to. NULL-terminated, in arena; NULL: none. */
    const char **(*hosts)(void *user, const struct box *box, struct arena *arena);
    /* A seal for it, under these policies (a JSON array): the gate's socket, or an error. One that it had ends. */
    int (*start)(void *user, const struct box *box, const char *levels, struct err *err);
    void (*end)(void *user, const char *id);
    /* A header of a policy for the host (or "*.NAME") may hold that secret of the owner's. INVALID says why not. */
    int (*knows)(void *user, const char *owner, const char *secret, const char *host, struct err *err);
    /* What a box with an inspected host has mounted, in arena. */
    int (*mounts)(void *user, const struct spec *spec, struct arena *arena, struct mount *mounts, size_t *ret_count,
                  struct err *err);
};
enum { SEAL_MOUNTS = 16 };

/* How the layer above takes part in the life of boxes. Each may be NULL. */
struct box_hooks {
    void *user;
    /* Before a box starts, and before other trees are attached to it: additions to its spec (spec.attached, mounts),
     * in arena. Of the spec only `attached` is kept. mounts: its backend can mount such things (backend_attaches). */
    int (*contribute)(void *user, bool mounts, struct spec *spec, struct arena *arena, struct err *err);
    /* A request is about to use the box: pending work is done now. Negative: the request is refused. */
    int (*before_use)(void *user, struct box *box, struct err *err);
    struct seal_hooks seal;
};

/* The configuration of boxes. Counted: a thread that uses it without the provider's lock holds a reference. Only the
 * count ever changes. */
struct policy {
    atomic_uint refs;
    void (*released)(struct policy *policy); /* by the last unref; NULL: nothing to do */
    const char *const *mount_sources;        /* absolute prefixes that may be mounted, NULL-terminated; NULL: none */
    const char *const
        *dialect_sources;  /* the same for mounts that a dialect itself asks for (mount.by_dialect); NULL: none */
    bool any_mount_source; /* `cubby run`: directories the user may read */
    struct share share;    /* of everybody but */
    const struct share_user *users; /* these, by strcmp */
    size_t user_count;
    void (*event)(void *user, const struct box_event *event); /* may be NULL; never waits. The first policy's counts */
    void *event_user;
    struct box_hooks hooks;     /* the first policy's count */
    const char *network_policy; /* the machine's own level; NULL: none */
    unsigned max_boxes;         /* 0: LIMIT_BOXES */
    unsigned replicas;          /* boxes with processes at once; 0: by memory */
    uint64_t memory_reserve_mb; /* left to the machine when counting by memory */
    bool wake_paused;           /* a paused box is resumed when it is used */
};

struct record;
struct policy *policy_ref(struct policy *policy);
void policy_unref(struct policy *policy); /* NULL is fine */
const struct share *policy_for(const struct policy *policy, const char *user);

struct box_request {
    const char *user;   /* NULL: "default" */
    const char *thread; /* NULL: none */
    size_t thread_len;  /* a thread may hold any bytes but NUL */
    const char
        *id; /* in a dialect whose clients choose it (text_id); the stored pair is compared as ever; NULL: made of
                           user and thread */
    const char *agent; /* the agent whose skills it has: one box per user and agent, its thread is "agent:AGENT";
                        * NULL: none */
    const char
        *machine; /* a joined machine of the user, for a box on it; without a thread, its thread is "machine:NAME" */
    const char *backend; /* NULL: the default */
    const char *template_name, *shell;
    const char *workspace; /* where its workspace is, absolute and normal; NULL: WORKSPACE_PATH */
    const char *const
        *layers; /* files kept earlier that it begins with (kept.h), held for it by the caller; NULL: none */
    const struct note *note; /* that it begins with; NULL: none */
    const char **env;        /* "K=V", NULL-terminated, may be NULL */
    const struct mount *mounts;
    size_t mount_count;
    bool has_memory, has_cpus, has_pids, has_disk, has_open_files, has_output;
    struct limits limits;
    const char *const *bindings; /* spec.bindings; NULL: none */
    const char *network;         /* NULL: the share's */
    bool has_idle_timeout;
    uint64_t idle_timeout_ms;
    bool temporary;
    const char **labels; /* "K=V" */
    struct container container;
    bool one_shot;
    bool exact; /* a box that is there has all that is named here (policy_same), or it is EXISTS */
    /* Properties of its backend (set by the provider, not by a client): */
    bool no_limits; /* it cannot enforce any: defaults are not applied, nor the configured template */
    bool images;    /* its templates are images; disk_mb has no default, because enforcing it depends on the engine */
};

/* Fills *ret_spec with copies in arena. INVALID names the field; DENIED a mount source that is not allowed. */
int policy_spec(const struct policy *policy, const struct box_request *request, const char id[17], struct arena *arena,
                struct spec *ret_spec, struct err *err);
/* spec is a copy of `from` with an id, user or thread of its own: variables and mounts that the configuration gave
 * to the one are replaced by those of the other. In arena. */
int policy_fork(const struct policy *policy, const struct spec *from, struct arena *arena, struct spec *spec,
                struct err *err);
/* Compares a request with an existing box. EXISTS: the request differs; the sentence names the member. */
int policy_same(const struct box_request *request, const struct record *record, struct err *err);
int policy_env(const char *entry, struct err *err);   /* "NAME=VALUE" */
int policy_agent(const char *agent, struct err *err); /* the grammar of agents' names */
#define POLICY_AGENT_THREAD "agent:"
#define POLICY_ACTIVE "active"           /* instead of a machine's name: the one of the user that is online */
#define POLICY_MACHINE_THREAD "machine:" /* of the box that a joined machine itself is */
/* The agent whose box such a thread is; NULL: it is not an agent's. */
const char *policy_thread_agent(const char *thread, size_t thread_len, struct arena *arena);
int policy_machine(const char *machine, struct err *err); /* the grammar of machines' names */
/* Of a box with an agent or a machine the thread, and of a thread these; of a machine the backend. INVALID: they do not
 * belong together. */
int policy_pair(struct box_request *request, struct arena *arena, struct err *err);
bool policy_template(const char *name); /* the grammar of templates' names */
/* As requested, else the share's, else `fallback`. DENIED: not allowed. */
int policy_backend(const struct share *share, const struct box_request *request, const char *fallback,
                   const char **ret_backend, struct err *err);
/* First 16 hex digits of sha256("user:thread"). */
void policy_id(const char *user, const char *thread, size_t thread_len, char ret_id[17]);
void policy_random_id(char ret_id[17]);

/* ---- mounts.c: those that the configuration gives, and those that a request asks for ---- */

/* Fills spec's mounts with copies in arena, parents before what lies below them; spec has its id, user and thread. A
 * source that is missing or not allowed is an error that names it. May make directories (share_mount.create). */
int mounts_spec(const struct policy *policy, const struct share *share, const struct box_request *request,
                struct arena *arena, struct spec *spec, struct err *err);
/* Of a box that starts again: each mount must still be one that it could request, or that it is given. DENIED names
 * the one that is not. */
int mounts_again(const struct policy *policy, const struct spec *spec, struct err *err);
/* The mounts that `from` asked for: those which the configuration does not give it. In arena. */
void mounts_asked(const struct policy *policy, const struct spec *from, struct arena *arena,
                  const struct mount **ret_mounts, size_t *ret_count);
/* Of the configuration: INVALID names the error. thread_alone: {thread} may be used without {user}, if the names of
 * threads keep users apart. */
int mounts_check(const struct share_mount *mount, bool thread_alone, struct err *err);

/* ---- container.c: the image, and the settings of its container ---- */

/* Of a backend whose templates are images: template_name and container of the spec, in arena. INVALID names the
 * field; DENIED what the share does not allow. */
int container_spec(const struct share *share, const struct box_request *request, struct arena *arena, struct spec *spec,
                   struct err *err);
/* Of any other backend: there is nothing to ask for. */
int container_none(const struct container *container, const char *backend, struct err *err);
struct container container_copy(const struct container *container, struct arena *arena);
bool container_pull(const char *text);     /* "always", "missing" or "never" */
bool container_user(const char *text);     /* "NAME|UID[:GROUP|GID]" */
bool container_platform(const char *text); /* "linux/ARCHITECTURE[/VARIANT]" */
bool container_runtime(const char *text);  /* a name that an engine may have for one */

#endif
