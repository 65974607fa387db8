/* What the container engine of this machine has and lacks: rows of `cubby doctor`, and what /v1/info says of the backend.
 * Called by the command line's doctor and by the backend's table. Invariant: an engine that hangs delays neither longer
 * than CHECK_MS, and nothing is made there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/docker.h"

#define CHECK_MS 3000u

#define DETAIL(...) snprintf(check->detail, sizeof check->detail, __VA_ARGS__)
#define FIX(...) snprintf(check->fix, sizeof check->fix, __VA_ARGS__)

struct looked {
    const char *url;
    bool near, tls;
    unsigned minor; /* of the API's version */
    bool answers;
    struct docker_facts facts;
    struct err err; /* why it does not */
};

struct check_row {
    const char *name, *gives; /* gives: in `can` of /v1/info */
    bool (*run)(const struct looked *looked, struct check *check);
};

static bool check_answers(const struct looked *looked, struct check *check) {
    const struct docker_facts *facts = &looked->facts;
    if (looked->answers) {
        DETAIL("%s %.40s (API 1.%u, %.16s/%.16s) at %.60s", facts->podman ? "podman" : "dockerd", facts->version,
               looked->minor, facts->os, facts->arch, looked->url);
        return true;
    }
    bool reached = looked->err.code != ERR_BUSY;
    DETAIL("%s at %.120s", reached ? "no answer to use" : "none", looked->url);
    if (reached)
        FIX("%.230s", looked->err.text);
    else
        FIX("for backend docker: install docker.io, or podman and `podman system service`; or name one: DOCKER_HOST, "
            "docker_host");
    return false;
}

static bool check_system(const struct looked *looked, struct check *check) {
    DETAIL("%.31s", looked->facts.os);
    FIX("boxes are Linux containers: name an engine that runs those (DOCKER_HOST, docker_host)");
    return strcmp(looked->facts.os, "linux") == 0;
}

static bool check_connection(const struct looked *looked, struct check *check) {
    DETAIL(looked->near  ? "a socket of this machine"
           : looked->tls ? "TLS, certificate verified"
                         : "TCP, neither encrypted nor verified");
    FIX("whoever reaches that port is root there: let the engine ask for certificates (dockerd --tlsverify), and set "
        "docker_cert_dir (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH)");
    return looked->near || looked->tls;
}

static bool check_privileges(const struct looked *looked, struct check *check) {
    const struct docker_facts *facts = &looked->facts;
    DETAIL("%s", facts->rootless ? "rootless: root of a container is an ordinary user"
                 : facts->userns ? "user namespaces: root of a container is nobody"
                                 : "runs as root; root of a container is root, without its capabilities");
    return true;
}

/* It is not asked otherwise: with cgroup v1 podman has nothing else. */
static bool check_namespaces(const struct looked *looked, struct check *check) {
    bool shares = looked->facts.podman && strcmp(looked->facts.cgroup, "1") == 0;
    DETAIL("%s", shares ? "all its own but that of cgroups, which shows their names on the host" : "all its own");
    FIX("podman gives containers a cgroup namespace with cgroup v2 alone: boot with systemd.unified_cgroup_hierarchy=1");
    check->partly = shares;
    return true;
}

static bool check_seccomp(const struct looked *looked, struct check *check) {
    DETAIL(looked->facts.seccomp ? "the engine's own profile" : "none");
    FIX("the engine filters no system calls: install libseccomp, and a build of the engine that has it");
    return looked->facts.seccomp;
}

static bool check_storage(const struct looked *looked, struct check *check) {
    bool copies = strcmp(looked->facts.storage, "vfs") == 0;
    DETAIL("%.31s%s", looked->facts.storage, copies ? ": each container is a copy of its image" : "");
    FIX("let the engine use overlay2 (podman: overlay, with fuse-overlayfs where the kernel has none for users)");
    return !copies;
}

static bool check_disk(const struct looked *looked, struct check *check) {
    DETAIL(looked->facts.disk_limit ? "held by %.31s" : "not held by %.31s", looked->facts.storage);
    FIX("disk_mb is refused: put the engine's data on XFS mounted with pquota, or on btrfs or ZFS with that driver");
    return looked->facts.disk_limit;
}

static bool check_limits(const struct looked *looked, struct check *check) {
    const struct docker_facts *facts = &looked->facts;
    const struct {
        bool has;
        const char *name;
    } limits[] = {{facts->memory_limit, "memory"},
                  {facts->swap_limit, "swap"},
                  {facts->cpu_limit, "cpus"},
                  {facts->pids_limit, "pids"}};
    size_t len = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!limits[i].has)
            len += (size_t)snprintf(check->detail + len, sizeof check->detail - len, "%s%s",
                                    len ? ", " : "not held: ", limits[i].name);
    if (!len)
        DETAIL("memory, swap, cpus, pids (cgroup v%.7s)", facts->cgroup);
    FIX("let the engine have these cgroup controllers%s",
        facts->rootless ? ": cgroup v2, and delegated to the user by systemd (Delegate=cpu memory pids)"
                        : " (kernel command line: cgroup_enable=memory swapaccount=1; or cgroup v2)");
    return !len;
}

static bool check_runtimes(const struct looked *looked, struct check *check) {
    const struct docker_facts *facts = &looked->facts;
    size_t len = 0;
    for (size_t i = 0; i < facts->runtime_count && len + 70 < sizeof check->detail; i++)
        len +=
            (size_t)snprintf(check->detail + len, sizeof check->detail - len, "%s%.60s%s", len ? ", " : "",
                             facts->runtimes[i], strcmp(facts->runtimes[i], facts->runtime) == 0 ? " (default)" : "");
    return true;
}

/* The first says whether there is anything to ask the others of. */
static const struct check_row rows[] = {
    {"container engine", "any image", check_answers},
    {"containers", NULL, check_system},
    {"engine's connection", NULL, check_connection},
    {"engine's privileges", NULL, check_privileges},
    {"container namespaces", NULL, check_namespaces},
    {"container seccomp", NULL, check_seccomp},
    {"container storage", "snapshots, fork, rollback, export", check_storage},
    {"container limits", "memory_mb, cpus, pids", check_limits},
    {"container disk limits", "disk_mb", check_disk},
    {"container runtimes", NULL, check_runtimes},
};
#define ROWS (sizeof rows / sizeof *rows)

static size_t run_rows(const struct looked *looked, struct check *checks, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < ROWS && count < max && (i == 0 || looked->answers); i++) {
        struct check *check = &checks[count++];
        *check = (struct check){.name = rows[i].name};
        check->ok = rows[i].run(looked, check);
        if (check->ok && !check->partly)
            check->fix[0] = 0;
    }
    return count;
}

static void look(struct backend *backend, struct looked *looked) {
    struct http_call call = {.method = "GET", .path = "/_ping", .timeout_ms = CHECK_MS};
    int status = 0;
    autobuf out = buf_max(65536);
    looked->url = engine_url(backend->engine);
    looked->near = engine_near(backend->engine);
    looked->tls = engine_encrypted(backend->engine);
    looked->answers =
        engine_do(backend->engine, &call, &status, &out, &looked->err) == 0 &&
        engine_answer(backend->engine, status, &out, "asking whether it is there", NULL, &looked->err) == 0 &&
        engine_version(backend->engine, &looked->minor, &looked->err) == 0 &&
        docker_facts(backend, &looked->facts, &looked->err) == 0;
}

size_t docker_checks(const struct backend_env *env, struct check *checks, size_t max) {
    const struct docker_settings none = {0}, *settings = env->docker ? env->docker : &none;
    struct backend backend = {.env = env, .settings = settings};
    struct looked looked = {.url = settings->host ? settings->host : "DOCKER_HOST"};
    pthread_mutex_init(&backend.lock, NULL);
    if (engine_new(&(struct engine_where){settings->host, settings->cert_dir, settings->tls}, &backend.engine,
                   &looked.err) == 0)
        look(&backend, &looked);
    size_t count = run_rows(&looked, checks, max);
    engine_free(backend.engine);
    pthread_mutex_destroy(&backend.lock);
    free(backend.facts);
    return count;
}

static void info_engine(const struct looked *looked, struct json *json) {
    const struct docker_facts *facts = &looked->facts;
    char api[16];
    snprintf(api, sizeof api, "1.%u", looked->minor);
    const char *const words[][2] = {{"kind", facts->podman ? "podman" : "docker"},
                                    {"version", facts->version},
                                    {"api", api},
                                    {"os", facts->os},
                                    {"arch", facts->arch},
                                    {"storage", facts->storage},
                                    {"runtime", facts->runtime}};
    json_put_open(json, "engine", '{');
    json_put_str(json, "url", looked->url);
    for (size_t i = 0; looked->answers && i < sizeof words / sizeof *words; i++)
        json_put_str(json, words[i][0], words[i][1]);
    if (looked->answers) {
        json_put_bool(json, "rootless", facts->rootless);
        json_put_open(json, "runtimes", '[');
        for (size_t i = 0; i < facts->runtime_count; i++)
            json_str(json, facts->runtimes[i]);
        json_close(json, ']');
    }
    json_close(json, '}');
}

void docker_info(const struct backend_env *env, struct backend *backend, struct json *json) {
    struct check checks[ROWS];
    struct looked looked = {.url = env->docker && env->docker->host ? env->docker->host : "DOCKER_HOST"};
    if (backend)
        look(backend, &looked);
    else
        err_set(&looked.err, ERR_UNSUPPORTED, "backend docker is not configured");
    size_t count = run_rows(&looked, checks, ROWS);
    json_put_bool(json, "available", looked.answers && strcmp(looked.facts.os, "linux") == 0);
    json_put_open(json, "can", '[');
    for (size_t i = 0; i < count; i++)
        if (checks[i].ok && rows[i].gives)
            json_str(json, rows[i].gives);
    json_close(json, ']');
    backend_missing(checks, count, json);
    info_engine(&looked, json);
}
