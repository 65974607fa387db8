/* The description of a box. Made by box/policy from a request, given to a backend; nothing in it is trusted before
 * policy has checked it. Plain data: strings belong to the arena of its maker. */
#ifndef CUBBY_WIRE_SPEC_H
#define CUBBY_WIRE_SPEC_H

#include "base/base.h"

enum network { NETWORK_NONE, NETWORK_OPEN, NETWORK_POLICY };

struct mount {
    const char *source; /* host path, allowed by policy */
    const char *target; /* absolute path in the box */
    bool read_only;
    bool by_dialect; /* requested by a dialect itself (policy.dialect_sources), not by its client */
    /* ... and missing parts of the source are made; requests only. Without a target it is only made, if possible. */
    bool create;
};

struct limits { /* 0: not limited */
    uint64_t memory_mb;
    double cpus;
    uint64_t pids;
    uint64_t disk_mb;
    uint64_t open_files;   /* descriptors of one process */
    uint64_t output_bytes; /* most that is kept of one stream of a command: the largest output_limit_bytes */
    uint64_t terminals;    /* of its own /dev/pts, as dealt at its start; 0: DEFAULT_TERMINALS, or TERMINALS_NONE */
};
#define TERMINALS_NONE (1u << 30) /* above any number that a kernel has */

/* docker: more about the box's container. NULL, false: as the image, the engine and the configuration have it. */
struct container {
    const char *user;     /* "NAME|UID[:GROUP|GID]" that commands run as */
    const char *runtime;  /* "runc", "runsc", "kata": known to the engine and allowed by the configuration */
    const char *platform; /* "linux/arm64" */
    const char *pull;     /* "always", "missing", "never" */
    bool read_only;       /* its root; /workspace and /tmp can be written */
    bool image_init;      /* the image's own entry point is PID 1, and the runner runs next to it */
};

/* Trees that a box sees at SKILLS_PATH and does not own; others can take their place while it runs
 * (backend_ops.attach). */
struct attached {
    const char **layers; /* names in STATE/skills/layers, the uppermost first, NULL-terminated; may be NULL */
    size_t count;
    const char **paths;  /* where they are seen as well, absolute, NULL-terminated; may be NULL */
    bool unsure;         /* in a record: others were just being attached; it has some of those that are named */
    uint64_t generation; /* which these are, as box_hooks.contribute counts; 0: not known */
};

struct spec {
    char id[17];
    const char *user, *thread; /* thread may be NULL */
    const char *template_name; /* "host", or one imported with `cubby template`; docker: an image */
    const char *shell;         /* NULL: /bin/bash where there is one, else /bin/sh */
    const char **env;          /* "K=V", NULL-terminated */
    size_t env_count;
    const struct mount *mounts;
    size_t mount_count;
    const char *
        *layers; /* files kept earlier that lie between the template and the box's own: names in STATE/layers, the
                            uppermost first, NULL-terminated; may be NULL */
    size_t layer_count;
    const char *agent;        /* the agent whose public skills its /skills begins with; NULL: none, and there is no
                               * /skills */
    struct attached attached; /* what that is */
    /* Secrets that it may use and never has, each "NAME=VARIABLE=PLACEHOLDER", NULL-terminated; may be NULL. A running
     * box's are read by box_bindings: they change. */
    const char **bindings;
    bool trusts; /* it was started with the authority of this installation, or has it since: hosts are inspected */
    const char *machine;   /* remote: the joined machine of its user that it is on; NULL elsewhere */
    const char *workspace; /* where its workspace is, absolute; NULL: WORKSPACE_PATH */
    struct container container;
    struct limits limits;
    enum network network;
    const char *policy; /* NETWORK_POLICY: what it may reach, normalised JSON (gate/gate_policy.h); else NULL */
    uint64_t network_generation; /* how often these two were changed */
    bool network_asked;          /* the request named it; else it is the default */
    bool discard;                /* a rollback is under way: its own files are thrown away before anything else */
    bool one_shot;               /* `cubby run`: no adoption, files go with the box */
};

/* Its network as requests, records and answers have it: a word, or an object. */
static inline const char *spec_network(const struct spec *spec) {
    return spec->network == NETWORK_POLICY ? spec->policy : spec->network == NETWORK_OPEN ? "open" : "none";
}

#define WORKSPACE_PATH "/workspace"
#define SKILLS_PATH "/skills"
#define SKILLS_CHANGES ".cubby" /* in it: changes on their way, and the directory `whole` */

#endif
