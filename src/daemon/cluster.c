/* Workers that are pods: joins the client of the cluster (backend/k8s) and the table of machines (backend/remote).
 * Called by serve.c. Invariants: boxes never wait for the API server. A worker is drained before its pod is taken away,
 * and none is added while those that were asked for have not joined. A head with a Lease serves only while it holds it:
 * one that could not renew it in time ends at once. */
#include "daemon/cluster.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include "backend/remote/fleet.h"
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"

enum { CLUSTER_LOOK_MS = 2000 };

struct cluster {
    const struct conf *conf;
    struct backend_env *env;
    struct kube *kube;
    struct kube_members members;
    struct kube_lease lease;
    char holder[256];
    struct kube_watch *watch;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping, running;
    pthread_t thread;
    uint64_t calm_since_ms; /* too much was spare from then on; 0: it is not */
};

int cluster_check(const struct conf *conf, struct err *err) {
    if (conf->k8s_min > conf->k8s_max)
        return err_set(err, ERR_INVALID, "k8s_min must not be larger than k8s_max");
    if (!conf->k8s && (conf->k8s_workers || conf->k8s_lease || conf->kube.api))
        return err_set(err, ERR_INVALID, "k8s_workers, k8s_lease and k8s_api need k8s: true");
    const char *const names[] = {conf->k8s_workers, conf->k8s_lease, conf->kube.name_space, conf->k8s_home};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && (strlen(names[i]) > 63 || !*names[i] ||
                         strspn(names[i], "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(names[i])))
            return err_set(err, ERR_INVALID,
                           "k8s_workers, k8s_lease, k8s_namespace and k8s_home must be names of Kubernetes (a-z, 0-9 "
                           "and -), not '%.80s'",
                           names[i]);
    return 0;
}

static int cluster_identify(void *user, const char *token, char ret_name[LIMIT_RUNNER_BYTES + 1], struct err *err) {
    struct cluster *cluster = user;
    int failed = kube_identify(cluster->kube, &cluster->members, token, ret_name, err);
    if (failed == -ERR_DENIED || failed == -ERR_INVALID || failed == -ERR_PROTOCOL) { /* ours, not the worker's */
        log_warn("a worker could not be identified: %s", err->text);
        err->code = ERR_BUSY;
    }
    return failed ? -err->code : 0;
}

/* ---- the lease ---- */

/* Waits until this head leads; a signal ends it. */
static int cluster_lead(struct cluster *cluster, const sigset_t *signals, struct err *err) {
    const struct timespec wait = {.tv_sec = KUBE_LEASE_TRY_MS / 1000};
    char shown[sizeof err->text] = "";
    while (kube_lease_try(cluster->kube, &cluster->lease, clock_ms(), err) < 0) {
        if (strcmp(shown, err->text) != 0)
            log_info("waiting for Lease %s: %s", cluster->lease.name, err->text);
        memcpy(shown, err->text, sizeof shown);
        int number = sigtimedwait(signals, NULL, &wait);
        if (number == SIGTERM || number == SIGINT)
            return err_set(err, ERR_GONE, "stopped while waiting for Lease %s", cluster->lease.name);
    }
    log_info("this head leads: Lease %s, epoch %llu", cluster->lease.name,
             (unsigned long long)cluster->lease.transitions);
    return 0;
}

static void cluster_renew(struct cluster *cluster) {
    struct err err;
    if (!cluster->lease.name || kube_lease_try(cluster->kube, &cluster->lease, clock_ms(), &err) == 0 ||
        cluster->lease.held)
        return;
    /* Another head may serve already, so nothing may be ended in order: boxes are on the workers. */
    log_error("Lease %s is lost: %s; this head ends", cluster->lease.name, err.text);
    _exit(1);
}

/* ---- pods ---- */

static void cluster_seen(void *user, const json_t *pod) {
    struct cluster *cluster = user;
    const char *name = kube_name(pod);
    char why[200];
    if (kube_pod_leaves(pod) && machine_drain(cluster->env->machines, MACHINE_WORKERS, name, true, ERR_IGNORED) == 0)
        log_info("worker %s gets no new boxes: its pod leaves", name);
    if (!kube_pod_why(pod, why, sizeof why))
        return;
    if (!machine_note(cluster->env->machines, MACHINE_WORKERS, name, why))
        log_warn("worker %s has not joined: %s", name, why);
}

static void cluster_gone(void *user, const char *name, const json_t *last) {
    struct cluster *cluster = user;
    char why[200];
    if (!last || !kube_pod_why(last, why, sizeof why) || strcmp(why, "its pod is being deleted") == 0)
        snprintf(why, sizeof why, "its pod was deleted");
    machine_note(cluster->env->machines, MACHINE_WORKERS, name, why);
}

/* ---- scaling ---- */

struct cluster_sum {
    struct kube_fleet fleet;
    const char *last; /* the worker with the highest ordinal */
};

static void cluster_sum(void *context, const struct machine_facts *facts) {
    struct cluster_sum *sum = context;
    uint64_t room = facts->hello.boxes_max;
    if (strcmp(facts->hello.name, sum->last) == 0) {
        sum->fleet.last_online = facts->online;
        sum->fleet.last_draining = facts->draining;
        sum->fleet.last_boxes = facts->boxes;
        sum->fleet.last_room = room;
    }
    if (!facts->online || facts->draining)
        return;
    sum->fleet.online++;
    sum->fleet.room += room;
    sum->fleet.spare += room > facts->boxes ? room - facts->boxes : 0;
}

static int cluster_step(struct cluster *cluster, enum kube_step step, const char *last, unsigned replicas,
                        struct err *err) {
    const struct backend_env *env = cluster->env;
    const char *set = cluster->conf->k8s_workers;
    if (step == KUBE_DRAIN_LAST || step == KUBE_OPEN_LAST) {
        log_info("worker %s %s", last, step == KUBE_DRAIN_LAST ? "is drained, to be taken away" : "is needed again");
        return fleet_drain(env->machines, env->state_dir, last, step == KUBE_DRAIN_LAST, err);
    }
    log_info("StatefulSet %s: %u workers from now on", set, replicas);
    TRY(kube_scale_set(cluster->kube, set, replicas, err));
    return step == KUBE_SHRINK ? fleet_drain(env->machines, env->state_dir, last, false, err) : 0;
}

static void cluster_scale(struct cluster *cluster) {
    const struct conf *conf = cluster->conf;
    struct cluster_sum sum = {
        .fleet = {.min = (unsigned)conf->k8s_min, .max = (unsigned)conf->k8s_max, .wanted = conf->k8s_spare_boxes}};
    struct err err;
    unsigned replicas;
    if (!conf->k8s_workers)
        return;
    if (kube_scale_get(cluster->kube, conf->k8s_workers, &sum.fleet.replicas, &err) < 0) {
        log_debug("StatefulSet %s: %s", conf->k8s_workers, err.text);
        return;
    }
    char last[80];
    snprintf(last, sizeof last, "%.63s-%u", conf->k8s_workers, sum.fleet.replicas ? sum.fleet.replicas - 1 : 0);
    sum.last = last;
    machines_each(cluster->env->machines, MACHINE_WORKERS, cluster_sum, &sum);
    uint64_t now_ms = clock_ms();
    sum.fleet.calm = true;
    bool surplus = kube_scale_step(&sum.fleet, &replicas) == KUBE_DRAIN_LAST;
    cluster->calm_since_ms = !surplus ? 0 : cluster->calm_since_ms ? cluster->calm_since_ms : now_ms;
    sum.fleet.calm = surplus && now_ms - cluster->calm_since_ms >= conf->k8s_shrink_s * 1000;
    enum kube_step step = kube_scale_step(&sum.fleet, &replicas);
    if (step != KUBE_KEEP && cluster_step(cluster, step, last, replicas, &err) < 0)
        log_warn("StatefulSet %s: %s", conf->k8s_workers, err.text);
}

static void *cluster_main(void *argument) {
    struct cluster *cluster = argument;
    autolock(&cluster->lock);
    while (!cluster->stopping) {
        pthread_mutex_unlock(&cluster->lock);
        cluster_renew(cluster);
        cluster_scale(cluster);
        pthread_mutex_lock(&cluster->lock);
        uint64_t end_ms = clock_ms() + CLUSTER_LOOK_MS;
        while (!cluster->stopping && clock_ms() < end_ms)
            cond_wait_until(&cluster->wake, &cluster->lock, end_ms);
    }
    return NULL;
}

/* ---- beginning and end ---- */

int cluster_open(const struct conf *conf, const sigset_t *signals, struct backend_env *env,
                 struct cluster **ret_cluster, struct err *err) {
    static const char *const accounts[] = {"cubby-worker", NULL};
    struct kube *kube;
    uint32_t random;
    char host[128] = "head";
    TRY(kube_open(&conf->kube, &kube, err));
    struct cluster *cluster = xcalloc(1, sizeof *cluster);
    gethostname(host, sizeof host - 1);
    xrandom(&random, sizeof random);
    snprintf(cluster->holder, sizeof cluster->holder, "%s_%08x", host, random);
    cluster->conf = conf;
    cluster->env = env;
    cluster->kube = kube;
    cluster->members = (struct kube_members){
        .audience = conf->k8s_audience,
        .accounts = conf->k8s_service_accounts.count ? (const char *const *)conf->k8s_service_accounts.items : accounts,
        .home = conf->k8s_home};
    cluster->lease = (struct kube_lease){.name = conf->k8s_lease, .holder = cluster->holder};
    pthread_mutex_init(&cluster->lock, NULL);
    cond_init(&cluster->wake);
    env->identify = cluster_identify;
    env->identify_user = cluster;
    *ret_cluster = cluster;
    return conf->k8s_lease ? cluster_lead(cluster, signals, err) : 0;
}

void cluster_start(struct cluster *cluster) {
    if (!cluster)
        return;
    const struct kube_watch_events events = {.seen = cluster_seen, .gone = cluster_gone, .user = cluster};
    char path[200], selector[200];
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", kube_namespace(cluster->kube));
    snprintf(selector, sizeof selector, "cubby.dev%%2Fhome%%3D%s,app.kubernetes.io%%2Fcomponent%%3Dworker",
             cluster->conf->k8s_home);
    cluster->watch = kube_watch_start(cluster->kube, path, selector, &events);
    cluster->thread = thread_joined(cluster_main, cluster, 0);
    cluster->running = true;
}

void cluster_stop(struct cluster *cluster) {
    if (!cluster || !cluster->running)
        return;
    pthread_mutex_lock(&cluster->lock);
    cluster->stopping = true;
    pthread_cond_broadcast(&cluster->wake);
    pthread_mutex_unlock(&cluster->lock);
    pthread_join(cluster->thread, NULL);
    kube_watch_stop(cluster->watch);
    cluster->running = false;
    if (cluster->lease.name)
        kube_lease_release(cluster->kube, &cluster->lease);
}

void cluster_free(struct cluster *cluster) {
    if (!cluster)
        return;
    cluster_stop(cluster);
    kube_free(cluster->kube);
    pthread_cond_destroy(&cluster->wake);
    pthread_mutex_destroy(&cluster->lock);
    free(cluster);
}
