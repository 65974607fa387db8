/* Which head leads: a Lease, with the rules of Kubernetes' own clients. Called by daemon/cluster.c on one thread.
 * Invariants: another head counts as dead only when its record has not changed for the lease's time of our own clock;
 * wall clocks are never compared. Every change is a compare-and-swap by resourceVersion. */
#include <time.h>

#include "backend/k8s/kube.h"
#include "base/base.h"

static json_t *lease_time(void) {
    uint64_t now_us = clock_wall_us();
    time_t seconds = (time_t)(now_us / 1000000);
    struct tm parts;
    char text[64];
    gmtime_r(&seconds, &parts);
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + len, sizeof text - len, ".%06uZ", (unsigned)(now_us % 1000000));
    return json_string(text);
}

static int lease_write(struct kube *kube, struct kube_lease *lease, json_t *object, bool fresh, uint64_t now_ms,
                       struct err *err) {
    char path[600];
    snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", kube_namespace(kube),
             fresh ? "" : "/", fresh ? "" : lease->name);
    int failed = kube_call(kube, fresh ? "POST" : "PUT", path, KUBE_JSON, object, NULL, err);
    if (failed == -ERR_EXISTS || failed == -ERR_BUSY)
        lease->record[0] = 0; /* who has it is to be seen */
    if (failed)
        return failed;
    lease->held = true;
    lease->renewed_at_ms = now_ms;
    lease->transitions =
        (uint64_t)json_integer_value(json_object_get(json_object_get(object, "spec"), "leaseTransitions"));
    return 0;
}

/* Of that object: it is ours from now on, or still. */
static void lease_take(const struct kube_lease *lease, json_t *object, bool ours) {
    json_t *spec = json_object_get(object, "spec");
    json_int_t transitions = json_integer_value(json_object_get(spec, "leaseTransitions"));
    if (!json_is_object(spec)) {
        spec = json_object();
        json_object_set_new(object, "spec", spec);
    }
    if (!ours) {
        json_object_set_new(spec, "acquireTime", lease_time());
        json_object_set_new(spec, "leaseTransitions", json_integer(transitions + 1));
    }
    json_object_set_new(spec, "holderIdentity", json_string(lease->holder));
    json_object_set_new(spec, "leaseDurationSeconds", json_integer(KUBE_LEASE_S));
    json_object_set_new(spec, "renewTime", lease_time());
}

static int lease_step(struct kube *kube, struct kube_lease *lease, uint64_t now_ms, struct err *err) {
    json_auto_t *object = NULL;
    char path[600], record[sizeof lease->record];
    snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", kube_namespace(kube),
             lease->name);
    int failed = kube_call(kube, "GET", path, KUBE_JSON, NULL, &object, err);
    if (failed == -ERR_NOT_FOUND) {
        object = json_pack("{s:s,s:s,s:{s:s,s:s}}", "apiVersion", "coordination.k8s.io/v1", "kind", "Lease", "metadata",
                           "name", lease->name, "namespace", kube_namespace(kube));
        lease_take(lease, object, false);
        return lease_write(kube, lease, object, true, now_ms, err);
    }
    TRY(failed);
    const json_t *spec = json_object_get(object, "spec");
    const char *holder = json_string_value(json_object_get(spec, "holderIdentity"));
    const char *renewed = json_string_value(json_object_get(spec, "renewTime"));
    json_int_t seconds = json_integer_value(json_object_get(spec, "leaseDurationSeconds"));
    bool ours = holder && strcmp(holder, lease->holder) == 0;
    snprintf(record, sizeof record, "%.150s %.60s", holder ? holder : "", renewed ? renewed : "");
    if (strcmp(record, lease->record) != 0) {
        memcpy(lease->record, record, sizeof record);
        lease->record_at_ms = now_ms;
    }
    uint64_t lasts_ms = (uint64_t)(seconds > 0 && seconds < 3600 ? seconds : KUBE_LEASE_S) * 1000;
    bool there = holder && *holder && !ours && now_ms - lease->record_at_ms < lasts_ms;
    if (there) {
        lease->held = false;
        return err_set(err, ERR_BUSY, "'%.100s' leads", holder);
    }
    lease_take(lease, object, ours);
    return lease_write(kube, lease, object, false, now_ms, err);
}

int kube_lease_try(struct kube *kube, struct kube_lease *lease, uint64_t now_ms, struct err *err) {
    int failed = lease_step(kube, lease, now_ms, err);
    if (failed && lease->held && now_ms - lease->renewed_at_ms >= KUBE_LEASE_GIVE_UP_MS)
        lease->held = false;
    return failed;
}

void kube_lease_release(struct kube *kube, struct kube_lease *lease) {
    json_auto_t *object = NULL;
    char path[600];
    if (!lease->held)
        return;
    lease->held = false;
    snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", kube_namespace(kube),
             lease->name);
    if (kube_call(kube, "GET", path, KUBE_JSON, NULL, &object, ERR_IGNORED) < 0)
        return;
    json_t *spec = json_object_get(object, "spec");
    const char *holder = json_string_value(json_object_get(spec, "holderIdentity"));
    if (!holder || strcmp(holder, lease->holder) != 0)
        return;
    json_object_set_new(spec, "holderIdentity", json_string(""));
    json_object_set_new(spec, "leaseDurationSeconds", json_integer(1));
    json_object_set_new(spec, "renewTime", lease_time());
    kube_call(kube, "PUT", path, KUBE_JSON, object, NULL, ERR_IGNORED);
}
