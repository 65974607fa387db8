/* Pods of workers: who they are, what happened to them, how many there are to be. Called by daemon/cluster.c.
 * Invariants: kind and home come from the pod's labels, never from what it says; a token is judged by the server
 * alone, never by its times; a worker is taken away only when it is empty. */
#include "backend/k8s/kube.h"
#include "base/base.h"

static const json_t *pod_at(const json_t *object, const char *first, const char *second) {
    return json_object_get(json_object_get(object, first), second);
}

static const char *pod_text(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* ---- identity ---- */

static bool pod_has(const json_t *list, const char *word) {
    const json_t *item;
    size_t i;
    json_array_foreach((json_t *)list, i,
                       item) if (json_is_string(item) && strcmp(json_string_value(item), word) == 0) return true;
    return false;
}

/* The one text of a list. */
static const char *pod_only(const json_t *extra, const char *name) {
    const json_t *list = json_object_get(extra, name);
    const char *text = json_array_size(list) == 1 ? json_string_value(json_array_get(list, 0)) : NULL;
    return text ? text : "";
}

int kube_review_read(const json_t *review, const struct kube_members *members, const char *name_space,
                     char ret_pod[LIMIT_RUNNER_BYTES + 1], char ret_uid[64], struct err *err) {
    const json_t *status = json_object_get(review, "status"), *user = json_object_get(status, "user");
    const json_t *extra = json_object_get(user, "extra");
    const char *account = pod_text(user, "username");
    const char *name = pod_only(extra, "authentication.kubernetes.io/pod-name");
    const char *uid = pod_only(extra, "authentication.kubernetes.io/pod-uid");
    char own[600];
    bool member = false;
    if (!json_is_true(json_object_get(status, "authenticated")))
        return err_set(err, ERR_UNAUTHORIZED,
                       "the Kubernetes API server does not know this token: it is not for audience '%s', has expired, "
                       "or its pod is gone",
                       members->audience);
    if (!pod_has(json_object_get(status, "audiences"), members->audience))
        return err_set(err, ERR_UNAUTHORIZED, "this token is not for audience '%s'", members->audience);
    for (size_t i = 0; members->accounts && members->accounts[i] && !member; i++) {
        snprintf(own, sizeof own, "system:serviceaccount:%s:%s", name_space, members->accounts[i]);
        member = strcmp(own, account) == 0;
    }
    if (!member)
        return err_set(err, ERR_UNAUTHORIZED, "'%.200s' is not a service account of workers (k8s_service_accounts)",
                       account);
    if (!*name || strlen(name) > LIMIT_RUNNER_BYTES || !text_name(name, LIMIT_RUNNER_BYTES) || !*uid ||
        strlen(uid) > 63)
        return err_set(err, ERR_UNAUTHORIZED, "this token is not bound to a pod: use a projected one");
    snprintf(ret_pod, LIMIT_RUNNER_BYTES + 1, "%s", name);
    snprintf(ret_uid, 64, "%s", uid);
    return 0;
}

int kube_member_check(const json_t *pod, const struct kube_members *members, const char *uid, struct err *err) {
    const json_t *meta = json_object_get(pod, "metadata"), *labels = json_object_get(meta, "labels");
    if (strcmp(pod_text(meta, "uid"), uid) != 0)
        return err_set(err, ERR_UNAUTHORIZED, "pod '%.64s' is another one now: this token was its predecessor's",
                       pod_text(meta, "name"));
    if (strcmp(pod_text(labels, "cubby.dev/home"), members->home) != 0 ||
        strcmp(pod_text(labels, "app.kubernetes.io/component"), "worker") != 0)
        return err_set(err, ERR_UNAUTHORIZED,
                       "pod '%.64s' is not a worker of this server: it needs the labels cubby.dev/home=%.16s and "
                       "app.kubernetes.io/component=worker",
                       pod_text(meta, "name"), members->home);
    if (json_object_get(meta, "deletionTimestamp"))
        return err_set(err, ERR_BUSY, "pod '%.64s' is being deleted", pod_text(meta, "name"));
    return 0;
}

int kube_identify(struct kube *kube, const struct kube_members *members, const char *token,
                  char ret_pod[LIMIT_RUNNER_BYTES + 1], struct err *err) {
    char name[LIMIT_RUNNER_BYTES + 1], uid[64];
    json_auto_t *answer = NULL, *pod = NULL;
    json_auto_t *review = json_pack("{s:s,s:s,s:{s:s,s:[s]}}", "apiVersion", "authentication.k8s.io/v1", "kind",
                                    "TokenReview", "spec", "token", token, "audiences", members->audience);
    if (!review)
        return err_set(err, ERR_UNAUTHORIZED, "this token is not text");
    TRY(kube_call(kube, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", KUBE_JSON, review, &answer, err)
            ?: kube_review_read(answer, members, kube_namespace(kube), name, uid, err));
    const char *path = text_make(600, "/api/v1/namespaces/%s/pods/%s", kube_namespace(kube), name);
    int failed = kube_call(kube, "GET", path, KUBE_JSON, NULL, &pod, err);
    if (failed == -ERR_NOT_FOUND)
        return err_set(err, ERR_UNAUTHORIZED, "pod '%s' is gone", name);
    TRY(failed ?: kube_member_check(pod, members, uid, err));
    memcpy(ret_pod, name, sizeof name);
    return 0;
}

/* ---- what happened ---- */

static const json_t *pod_condition(const json_t *pod, const char *type) {
    const json_t *item;
    size_t i;
    json_array_foreach((json_t *)pod_at(pod, "status", "conditions"), i,
                       item) if (strcmp(pod_text(item, "type"), type) == 0) return item;
    return NULL;
}

bool kube_pod_leaves(const json_t *pod) {
    const json_t *target = pod_condition(pod, "DisruptionTarget");
    return pod_at(pod, "metadata", "deletionTimestamp") || strcmp(pod_text(target, "status"), "True") == 0;
}

static const char *pod_memory_limit(const json_t *pod, const char *container) {
    const json_t *item;
    size_t i;
    json_array_foreach((json_t *)pod_at(pod, "spec", "containers"), i,
                       item) if (strcmp(pod_text(item, "name"), container) ==
                                 0) return pod_text(pod_at(item, "resources", "limits"), "memory");
    return "";
}

static bool pod_why_container(const json_t *pod, const json_t *status, char *text, size_t size) {
    const json_t *ended = pod_at(status, "state", "terminated");
    const json_t *waiting = pod_at(status, "state", "waiting");
    const char *reason = pod_text(waiting, "reason"), *name = pod_text(status, "name");
    if (!ended)
        ended = pod_at(status, "lastState", "terminated");
    if (strcmp(pod_text(ended, "reason"), "OOMKilled") == 0) {
        const char *limit = pod_memory_limit(pod, name);
        snprintf(text, size, "killed for memory (limit %.40s)", *limit ? limit : "of its node");
        return true;
    }
    if (*reason && strcmp(reason, "ContainerCreating") != 0 && strcmp(reason, "PodInitializing") != 0 &&
        strcmp(reason, "CrashLoopBackOff") != 0) {
        snprintf(text, size, "container %.64s cannot start: %.64s: %.200s", name, reason, pod_text(waiting, "message"));
        return true;
    }
    if (!ended || json_integer_value(json_object_get(ended, "exitCode")) == 0)
        return false;
    snprintf(text, size, "container %.64s ended with %lld (%.64s)", name,
             json_integer_value(json_object_get(ended, "exitCode")), pod_text(ended, "reason"));
    return true;
}

static bool pod_why_disrupted(const json_t *pod, char *text, size_t size) {
    static const char *const words[][2] = {{"DeletionByTaintManager", "its node is lost or tainted"},
                                           {"DeletionByPodGC", "its node is gone"},
                                           {"EvictionByEvictionAPI", "its node is drained"},
                                           {"PreemptionByScheduler", "preempted by a pod of higher priority"},
                                           {"TerminationByKubelet", "terminated by its node"}};
    const json_t *target = pod_condition(pod, "DisruptionTarget");
    const char *why = pod_text(target, "reason");
    if (strcmp(pod_text(target, "status"), "True") != 0)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(why, words[i][0]) == 0)
            why = words[i][1];
    snprintf(text, size, "%.100s: %.200s", why, pod_text(target, "message"));
    return true;
}

static bool pod_why(const json_t *pod, char *text, size_t size) {
    const json_t *status = json_object_get(pod, "status"), *placed = pod_condition(pod, "PodScheduled"), *item;
    size_t i;
    if (strcmp(pod_text(status, "phase"), "Failed") == 0 && *pod_text(status, "reason")) {
        bool evicted = strcmp(pod_text(status, "reason"), "Evicted") == 0;
        snprintf(text, size, "%.64s: %.200s", evicted ? "evicted" : pod_text(status, "reason"),
                 pod_text(status, "message"));
        return true;
    }
    if (pod_why_disrupted(pod, text, size))
        return true;
    if (strcmp(pod_text(placed, "status"), "False") == 0) {
        snprintf(text, size, "no node takes it: %.300s", pod_text(placed, "message"));
        return true;
    }
    json_array_foreach(json_object_get(status, "containerStatuses"), i,
                       item) if (pod_why_container(pod, item, text, size)) return true;
    if (!json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp"))
        return false;
    snprintf(text, size, "its pod is being deleted");
    return true;
}

bool kube_pod_why(const json_t *pod, char *text, size_t size) {
    bool known = pod_why(pod, text, size);
    size_t len = known ? strlen(text) : 0;
    if (len && text[len - 1] == '.') /* it becomes a part of a sentence */
        text[len - 1] = 0;
    return known;
}

/* ---- how many ---- */

enum kube_step kube_scale_step(const struct kube_fleet *fleet, unsigned *ret_replicas) {
    unsigned replicas = fleet->replicas;
    uint64_t each = fleet->online ? fleet->room / fleet->online : 0;
    *ret_replicas = replicas;
    if (replicas < fleet->min) {
        *ret_replicas = fleet->min;
        return KUBE_GROW;
    }
    if (fleet->spare < fleet->wanted) {
        if (fleet->last_online && fleet->last_draining)
            return KUBE_OPEN_LAST;
        if (replicas >= fleet->max || fleet->online < replicas) /* those that were asked for come first */
            return KUBE_KEEP;
        uint64_t more = each ? (fleet->wanted - fleet->spare + each - 1) / each : 1;
        *ret_replicas = more > fleet->max - replicas ? fleet->max : replicas + (unsigned)more;
        return KUBE_GROW;
    }
    if (replicas <= fleet->min || !fleet->last_online)
        return KUBE_KEEP;
    if (fleet->last_draining) {
        *ret_replicas = replicas - 1;
        return fleet->last_boxes ? KUBE_KEEP : KUBE_SHRINK;
    }
    uint64_t taken = fleet->last_room > fleet->last_boxes ? fleet->last_room - fleet->last_boxes : 0;
    /* its boxes need room elsewhere, and that is not to be grown again at once */
    bool enough = fleet->spare >= taken + fleet->last_boxes + fleet->wanted + each / 4;
    return enough && fleet->calm ? KUBE_DRAIN_LAST : KUBE_KEEP;
}

static const char *pod_scale_path(char path[600], const struct kube *kube, const char *set) {
    snprintf(path, 600, "/apis/apps/v1/namespaces/%s/statefulsets/%s/scale", kube_namespace(kube), set);
    return path;
}

int kube_scale_get(struct kube *kube, const char *set, unsigned *ret_replicas, struct err *err) {
    json_auto_t *answer = NULL;
    char path[600];
    TRY(kube_call(kube, "GET", pod_scale_path(path, kube, set), KUBE_JSON, NULL, &answer, err));
    json_int_t replicas = json_integer_value(pod_at(answer, "spec", "replicas"));
    *ret_replicas = replicas < 0 || replicas > 100000 ? 0 : (unsigned)replicas;
    return 0;
}

int kube_scale_set(struct kube *kube, const char *set, unsigned replicas, struct err *err) {
    json_auto_t *patch = json_pack("{s:{s:i}}", "spec", "replicas", (int)replicas);
    char path[600];
    return kube_call(kube, "PATCH", pod_scale_path(path, kube, set), KUBE_MERGE, patch, NULL, err);
}
