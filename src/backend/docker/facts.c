/* What an engine can do, as it says itself. Called by the docker backend's files. Invariant: what it says is bounded
 * and only read; what it does not say it cannot do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/docker.h"

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

#define put(field, text) snprintf(field, sizeof field, "%.*s", (int)(sizeof field - 1), text)

/* The kernel's word for a processor, or Go's, as images call it. */
static const char *arch_of(const char *word) {
    static const char *const words[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"},
                                           {"armv6l", "arm"},   {"i686", "386"},      {"i386", "386"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i][0]) == 0)
            return words[i][1];
    return word;
}

static bool list_has(const json_t *list, const char *word) {
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) {
        const char *text = json_string_value(value);
        if (text && strncmp(text, word, strlen(word)) == 0)
            return true;
    }
    return false;
}

static const char *driver_status(const json_t *info, const char *key) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(info, "DriverStatus"), i, row) {
        const char *name = json_string_value(json_array_get(row, 0));
        const char *value = json_string_value(json_array_get(row, 1));
        if (name && value && strcmp(name, key) == 0)
            return value;
    }
    return "";
}

/* Whether XFS has its quotas on is not told: then the engine refuses the box, and says so. */
static bool holds_sizes(const json_t *info, const char *driver) {
    static const char *const always[] = {"btrfs", "zfs", "devicemapper"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(driver, always[i]) == 0)
            return true;
    return strcmp(driver, "overlay2") == 0 && strcmp(driver_status(info, "Backing Filesystem"), "xfs") == 0;
}

static void read_runtimes(const json_t *info, struct docker_facts *facts) {
    const char *name;
    json_t *value;
    put(facts->runtime, text_of(info, "DefaultRuntime"));
    json_object_foreach(json_object_get(info, "Runtimes"), name, value) {
        if (facts->runtime_count < sizeof facts->runtimes / sizeof *facts->runtimes)
            put(facts->runtimes[facts->runtime_count++], name);
    }
}

static void read_info(const json_t *info, struct docker_facts *facts) {
    const json_t *security = json_object_get(info, "SecurityOptions");
    json_int_t cpus = json_integer_value(json_object_get(info, "NCPU"));
    put(facts->storage, text_of(info, "Driver"));
    put(facts->cgroup, text_of(info, "CgroupVersion"));
    facts->rootless = list_has(security, "name=rootless");
    facts->userns = list_has(security, "name=userns");
    facts->seccomp = list_has(security, "name=seccomp");
    facts->disk_limit = holds_sizes(info, facts->storage);
    facts->memory_limit = json_is_true(json_object_get(info, "MemoryLimit"));
    facts->swap_limit = json_is_true(json_object_get(info, "SwapLimit"));
    facts->pids_limit = json_is_true(json_object_get(info, "PidsLimit"));
    facts->cpu_limit =
        json_is_true(json_object_get(info, "CpuCfsQuota")) && json_is_true(json_object_get(info, "CpuCfsPeriod"));
    facts->cpus = cpus > 0 && cpus < 65536 ? (unsigned)cpus : 0;
    read_runtimes(info, facts);
}

static void read_version(const json_t *version, struct docker_facts *facts) {
    size_t i;
    json_t *row;
    put(facts->version, text_of(version, "Version"));
    put(facts->os, text_of(version, "Os"));
    put(facts->arch, arch_of(text_of(version, "Arch")));
    json_array_foreach(json_object_get(version, "Components"), i, row) {
        facts->podman |= strncmp(text_of(row, "Name"), "Podman", 6) == 0;
    }
}

static int ask(struct backend *backend, struct docker_facts *ret_facts, struct err *err) {
    json_t *info = NULL, *version = NULL;
    struct docker_facts facts = {0};
    int r = engine_json(backend->engine, "GET", "/version", NULL, "asking its version", &version, err);
    if (r == 0)
        r = engine_json(backend->engine, "GET", "/info", NULL, "asking what it can do", &info, err);
    if (r == 0) {
        read_version(version, &facts);
        read_info(info, &facts);
        *ret_facts = facts;
    }
    json_decref(info);
    json_decref(version);
    return r;
}

/* An engine that was lost may come back as another one. */
int docker_facts(struct backend *backend, struct docker_facts *ret_facts, struct err *err) {
    unsigned generation = engine_generation(backend->engine);
    struct docker_facts facts;
    pthread_mutex_lock(&backend->lock);
    bool known = backend->facts && backend->facts_generation == generation;
    if (known)
        facts = *backend->facts;
    pthread_mutex_unlock(&backend->lock);
    int r = known ? 0 : ask(backend, &facts, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&backend->lock);
    if (!known && !backend->facts && !(backend->facts = calloc(1, sizeof *backend->facts)))
        abort();
    if (!known) {
        *backend->facts = facts;
        backend->facts_generation = generation;
    }
    pthread_mutex_unlock(&backend->lock);
    *ret_facts = facts;
    return 0;
}

bool docker_facts_known(struct backend *backend, struct docker_facts *ret_facts) {
    pthread_mutex_lock(&backend->lock);
    bool known = backend->facts;
    if (known)
        *ret_facts = *backend->facts;
    pthread_mutex_unlock(&backend->lock);
    return known;
}
