/* A client of a Kubernetes API server, and what a head needs of a cluster: who a pod is, why it died, how many workers
 * there are to be, which head leads. Used by daemon/cluster.c. Any thread. Invariants:
 *
 * 1. No token is logged or part of an error. A token's file is read again within a minute, and after a 401.
 * 2. Nothing here is on the path of a box: while the API server is away, boxes on workers work.
 * 3. A call that may have been done is never sent a second time; a GET decides. */
#ifndef CUBBY_BACKEND_KUBE_H
#define CUBBY_BACKEND_KUBE_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct kube_settings {          /* NULL: not set */
    const char *api;            /* URL; else the pod's own cluster, else a kubeconfig */
    const char *ca;             /* PEM file of its authority, with api */
    const char *token_file;     /* with api */
    const char *kubeconfig;     /* else $KUBECONFIG, else ~/.kube/config */
    const char *context;        /* of the kubeconfig; else its current one */
    const char *name_space;     /* else the pod's own, the context's, or "default" */
    const char *in_cluster_dir; /* else /var/run/secrets/kubernetes.io/serviceaccount */
};

struct kube;
int kube_open(const struct kube_settings *settings, struct kube **ret_kube, struct err *err);
void kube_free(struct kube *kube); /* NULL is fine */
const char *kube_namespace(const struct kube *kube);

enum kube_body { KUBE_JSON, KUBE_MERGE };
/* One request; the answer for the caller to json_decref, or NULL where ret_answer is. UNAUTHORIZED, DENIED, NOT_FOUND,
 * EXISTS, INVALID, LIMIT (a quota), GONE (a version is too old), BUSY (a conflict, or the server is busy or away). */
int kube_call(struct kube *kube, const char *method, const char *path, enum kube_body kind, const json_t *body,
              json_t **ret_answer, struct err *err);

/* ---- kube_config.c: how the server is reached ---- */

struct kube_exec { /* a program that prints a credential */
    char *command, *dir;
    char **words, **env; /* NULL-terminated; env: further variables */
    const char *version; /* of ExecCredential */
};
struct kube_access {
    char *server, *name_space;
    char *ca, *cert, *key; /* paths; of texts in a kubeconfig: /proc/self/fd/N */
    char *token, *token_file;
    struct kube_exec exec;
    int fds[3]; /* behind such paths; -1: none */
};
int kube_access_find(const struct kube_settings *settings, struct kube_access *ret_access, struct err *err);
int kube_access_config(const char *path, const char *context, struct kube_access *ret_access, struct err *err);
void kube_access_done(struct kube_access *access);
/* Runs the program: a token, or a certificate (cert, key and fds are replaced). until_ms: wall clock, 0: not said. */
int kube_access_exec(struct kube_access *access, uint64_t *ret_until_ms, struct err *err);

/* ---- kube_watch.c: a list that is kept ---- */

struct kube_lines { /* lines of a stream; one that is too long is skipped and reported */
    struct buf line;
    bool skipping;
};
#define KUBE_LINE_BYTES (4u << 20)
/* each: a line without its end, NULL for a skipped one; negative ends it. */
int kube_lines_put(struct kube_lines *lines, const void *data, size_t len,
                   int (*each)(void *user, const char *line, size_t len), void *user);

struct kube_watch_events {                                          /* on the watch's thread */
    void (*seen)(void *user, const json_t *object);                 /* it is there, or has changed */
    void (*gone)(void *user, const char *name, const json_t *last); /* last: NULL where only its absence was seen */
    void *user;
};
struct kube_watch;
/* path: "/api/v1/namespaces/NS/pods"; selector: encoded for a query. The kube has to live as long. */
struct kube_watch *kube_watch_start(struct kube *kube, const char *path, const char *selector,
                                    const struct kube_watch_events *events);
void kube_watch_stop(struct kube_watch *watch); /* NULL is fine */

/* ---- kube_pod.c: pods of workers ---- */

struct kube_members { /* who may join as a worker */
    const char *audience;
    const char *const *accounts; /* names of service accounts in the namespace, NULL-terminated */
    const char *home;            /* value of the label cubby.dev/home */
};
/* The pod of a projected token, by TokenReview and by what the server knows of that pod. UNAUTHORIZED: it is not one;
 * BUSY: the server cannot be asked. */
int kube_identify(struct kube *kube, const struct kube_members *members, const char *token,
                  char ret_pod[LIMIT_RUNNER_BYTES + 1], struct err *err);
/* Checks of the two answers alone. */
int kube_review_read(const json_t *review, const struct kube_members *members, const char *name_space,
                     char ret_pod[LIMIT_RUNNER_BYTES + 1], char ret_uid[64], struct err *err);
int kube_member_check(const json_t *pod, const struct kube_members *members, const char *uid, struct err *err);
/* A sentence about what happened to it, or keeps it from running. False: nothing did. */
bool kube_pod_why(const json_t *pod, char *text, size_t size);
bool kube_pod_leaves(const json_t *pod); /* it is being deleted, drained or preempted */
const char *kube_name(const json_t *object);

struct kube_fleet { /* of one StatefulSet */
    unsigned replicas, min, max;
    unsigned online;                /* workers that take boxes now */
    uint64_t room, spare;           /* of those: boxes they take, and could take more */
    uint64_t wanted;                /* the least spare */
    uint64_t last_boxes, last_room; /* of the worker with the highest ordinal */
    bool last_online, last_draining;
    bool calm; /* there was too much spare for long enough */
};
enum kube_step { KUBE_KEEP, KUBE_GROW, KUBE_DRAIN_LAST, KUBE_OPEN_LAST, KUBE_SHRINK };
enum kube_step kube_scale_step(const struct kube_fleet *fleet, unsigned *ret_replicas);
int kube_scale_get(struct kube *kube, const char *set, unsigned *ret_replicas, struct err *err);
int kube_scale_set(struct kube *kube, const char *set, unsigned replicas, struct err *err);

/* ---- kube_lease.c: one head leads ---- */

enum { KUBE_LEASE_S = 15, KUBE_LEASE_GIVE_UP_MS = 10000, KUBE_LEASE_TRY_MS = 2000 };
struct kube_lease {
    const char *name, *holder;
    char record[256];      /* as last seen: holder and renewal */
    uint64_t record_at_ms; /* when it was first seen so: our own monotonic clock */
    uint64_t renewed_at_ms;
    uint64_t transitions; /* of the lease that we hold: the epoch */
    bool held;
};
/* One try to get or keep it. held says what came out; an error does not take it away before KUBE_LEASE_GIVE_UP_MS. */
int kube_lease_try(struct kube *kube, struct kube_lease *lease, uint64_t now_ms, struct err *err);
void kube_lease_release(struct kube *kube, struct kube_lease *lease);

#endif
