/* The features of the container engine: facts for the backend, rows of `cubby doctor`, and the backend's part of
 * /v1/info. Invariants: an engine's reports are bounded and only read; an engine that hangs delays neither doctor
 * nor /v1/info by more than CHECK_MS, and nothing is made there. */

#include "base/base.h"
#include "backend/docker/docker.h"
#include "base/sync.h"

#define CHECK_MS 3000u

/* ---- facts ---- */

#define put(field, text) snprintf(field, sizeof field, "%.*s", (int)(sizeof field - 1), text)

/* The kernel's word for a processor, or Go's, as images call it. */
static const char *check_arch(const char *word) {
    static const char *const words[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"},
                                           {"armv6l", "arm"},   {"i686", "386"},      {"i386", "386"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i][0]) == 0)
            return words[i][1];
    return word;
}

/* /info and /version of the engine. It lacks features that they do not mention. */
static void check_read(const json_t *info, const json_t *version, struct docker_facts *facts) {
    const struct {
        const char *option;
        bool *has;
    } options[] = {
        {"name=rootless", &facts->rootless}, {"name=userns", &facts->userns}, {"name=seccomp", &facts->seccomp}};
    const char *name, *driver = engine_text(info, "Driver");
    json_t *row;
    size_t i;
    put(facts->version, engine_text(version, "Version"));
    put(facts->os, engine_text(version, "Os"));
    put(facts->arch, check_arch(engine_text(version, "Arch")));
    json_array_foreach(json_object_get(version, "Components"), i, row) {
        facts->podman |= strncmp(engine_text(row, "Name"), "Podman", 6) == 0;
    }
    put(facts->storage, driver);
    put(facts->cgroup, engine_text(info, "CgroupVersion"));
    put(facts->runtime, engine_text(info, "DefaultRuntime"));
    json_object_foreach(json_object_get(info, "Runtimes"), name, row) {
        if (facts->runtime_count < sizeof facts->runtimes / sizeof *facts->runtimes)
            put(facts->runtimes[facts->runtime_count++], name);
    }
    json_array_foreach(json_object_get(info, "SecurityOptions"), i, row) {
        const char *text = json_string_value(row);
        for (size_t k = 0; text && k < sizeof options / sizeof *options; k++)
            *options[k].has |= strncmp(text, options[k].option, strlen(options[k].option)) == 0;
    }
    facts->disk_limit =
        strcmp(driver, "btrfs") == 0 || strcmp(driver, "zfs") == 0 || strcmp(driver, "devicemapper") == 0;
    /* Whether XFS has its quotas on is not reported; without them the engine refuses the box, and says so. */
    json_array_foreach(json_object_get(info, "DriverStatus"), i, row) {
        const char *key = json_string_value(json_array_get(row, 0)), *value = json_string_value(json_array_get(row, 1));
        facts->disk_limit |= key && value && strcmp(driver, "overlay2") == 0 &&
                             strcmp(key, "Backing Filesystem") == 0 && strcmp(value, "xfs") == 0;
    }
    facts->memory_limit = json_is_true(json_object_get(info, "MemoryLimit"));
    facts->swap_limit = json_is_true(json_object_get(info, "SwapLimit"));
    facts->pids_limit = json_is_true(json_object_get(info, "PidsLimit"));
    facts->cpu_limit =
        json_is_true(json_object_get(info, "CpuCfsQuota")) && json_is_true(json_object_get(info, "CpuCfsPeriod"));
    json_int_t cpus = json_integer_value(json_object_get(info, "NCPU"));
    facts->cpus = cpus > 0 && cpus < 65536 ? (unsigned)cpus : 0;
}

/* An engine that was lost may come back as another one. */
int docker_facts(struct backend *backend, struct docker_facts *ret_facts, struct err *err) {
    unsigned generation = engine_generation(backend->engine);
    json_t *info = NULL, *version = NULL;
    pthread_mutex_lock(&backend->lock);
    bool known = backend->facts && backend->facts_generation == generation;
    if (known)
        *ret_facts = *backend->facts;
    pthread_mutex_unlock(&backend->lock);
    if (known)
        return 0;
    int r = engine_json(backend->engine, "GET", "/version", NULL, "asking its version", &version, err)
                ?: engine_json(backend->engine, "GET", "/info", NULL, "asking what it can do", &info, err);
    if (r == 0) {
        struct docker_facts facts = {0};
        check_read(info, version, &facts);
        pthread_mutex_lock(&backend->lock);
        if (!backend->facts)
            backend->facts = xcalloc(1, sizeof *backend->facts);
        *backend->facts = *ret_facts = facts;
        backend->facts_generation = generation;
        pthread_mutex_unlock(&backend->lock);
    }
    json_decref(info);
    json_decref(version);
    return r;
}

bool docker_facts_known(struct backend *backend, struct docker_facts *ret_facts) {
    autolock(&backend->lock);
    bool known = backend->facts;
    if (known)
        *ret_facts = *backend->facts;
    return known;
}

/* ---- checks ---- */

struct check_engine {
    const char *url;
    bool near, tls;
    unsigned minor; /* of the API's version */
    bool answers;
    struct docker_facts facts;
    struct err err; /* why it does not */
};

enum { CHECK_ROWS = 10 };
struct check_list {
    struct check *checks;
    const char *gives[CHECK_ROWS]; /* in `can` of /v1/info */
    size_t count, max;
};

/* One row; the finding is printed. The fix is shown unless all is well. */
static void check_add(struct check_list *list, const char *name, const char *gives, bool ok, bool partly,
                      const char *fix, const char *format, ...) __attribute__((format(printf, 7, 8)));
static void check_add(struct check_list *list, const char *name, const char *gives, bool ok, bool partly,
                      const char *fix, const char *format, ...) {
    va_list args;
    if (list->count == list->max || list->count == CHECK_ROWS)
        return;
    struct check *check = &list->checks[list->count];
    *check = (struct check){.name = name, .ok = ok, .partly = partly};
    if (!ok || partly)
        put(check->fix, fix);
    va_start(args, format);
    vsnprintf(check->detail, sizeof check->detail, format, args);
    va_end(args);
    list->gives[list->count++] = gives;
}

/* The names of those of a list that are wanted, with a word before the first. */
static const char *check_join(char *text, size_t size, const char *before, const char *name, bool wanted) {
    size_t len = strlen(text);
    if (wanted)
        snprintf(text + len, size - len, "%s%s", len ? ", " : before, name);
    return text;
}

static void check_run(const struct check_engine *engine, struct check_list *list) {
    const struct docker_facts *facts = &engine->facts;
    if (!engine->answers) {
        bool reached = engine->err.code != ERR_BUSY;
        check_add(list, "container engine", NULL, false, false,
                  reached
                      ? engine->err.text
                      : "for backend docker: install docker.io, or podman and `podman system service`; or name one: "
                        "DOCKER_HOST, docker_host",
                  "%s at %.120s", reached ? "no usable answer" : "none", engine->url);
        return;
    }
    check_add(list, "container engine", "any image", true, false, "", "%s %.40s (API 1.%u, %.16s/%.16s) at %.60s",
              facts->podman ? "podman" : "dockerd", facts->version, engine->minor, facts->os, facts->arch, engine->url);
    check_add(list, "containers", NULL, strcmp(facts->os, "linux") == 0, false,
              "boxes are Linux containers: name an engine that runs those (DOCKER_HOST, docker_host)", "%.31s",
              facts->os);
    check_add(list, "engine's connection", NULL, engine->near || engine->tls, false,
              "every client that reaches that port is root there: let the engine ask for certificates (dockerd "
              "--tlsverify), and set docker_cert_dir (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH)",
              "%s",
              engine->near  ? "a socket of this machine"
              : engine->tls ? "TLS, certificate verified"
                            : "TCP, neither encrypted nor verified");
    check_add(list, "engine's privileges", NULL, true, false, "", "%s",
              facts->rootless ? "rootless: root of a container is an ordinary user"
              : facts->userns ? "user namespaces: root of a container is an unprivileged user"
                              : "runs as root; root of a container is root, without its capabilities");
    /* Engines do not report it; with cgroup v1 podman never has one. */
    bool shares = facts->podman && strcmp(facts->cgroup, "1") == 0;
    check_add(list, "container namespaces", NULL, true, shares,
              "podman gives containers a cgroup namespace only with cgroup v2: boot with "
              "systemd.unified_cgroup_hierarchy=1",
              "%s", shares ? "all private but that of cgroups, which shows their names on the host" : "all private");
    check_add(list, "container seccomp", NULL, facts->seccomp, false,
              "the engine filters no system calls: install libseccomp, and an engine built with it", "%s",
              facts->seccomp ? "the engine's own profile" : "none");
    bool copies = strcmp(facts->storage, "vfs") == 0;
    check_add(list, "container storage", "snapshots, fork, rollback, export", !copies, false,
              "let the engine use overlay2 (podman: overlay, with fuse-overlayfs where the kernel has none for users)",
              "%.31s%s", facts->storage, copies ? ": each container is a copy of its image" : "");
    char lacks[64] = "", runtimes[160] = "";
    check_join(lacks, sizeof lacks, "not enforced: ", "memory", !facts->memory_limit);
    check_join(lacks, sizeof lacks, "not enforced: ", "swap", !facts->swap_limit);
    check_join(lacks, sizeof lacks, "not enforced: ", "cpus", !facts->cpu_limit);
    check_join(lacks, sizeof lacks, "not enforced: ", "pids", !facts->pids_limit);
    check_add(list, "container limits", "memory_mb, cpus, pids", !*lacks, false,
              facts->rootless ? "give the engine these cgroup controllers: cgroup v2, and delegated to the user by "
                                "systemd (Delegate=cpu memory pids)"
                              : "give the engine these cgroup controllers (kernel command line: cgroup_enable=memory "
                                "swapaccount=1; or cgroup v2)",
              *lacks ? "%s" : "memory, swap, cpus, pids (cgroup v%.7s)", *lacks ? lacks : facts->cgroup);
    check_add(
        list, "container disk limits", "disk_mb", facts->disk_limit, false,
        "disk_mb is refused: put the engine's data on XFS mounted with pquota, or on btrfs or ZFS with that driver",
        "%s by %.31s", facts->disk_limit ? "enforced" : "not enforced", facts->storage);
    for (size_t i = 0; i < facts->runtime_count && strlen(runtimes) + 80 < sizeof runtimes; i++) {
        const char *name = text_make(80, "%.60s%s", facts->runtimes[i],
                                     strcmp(facts->runtimes[i], facts->runtime) == 0 ? " (default)" : "");
        check_join(runtimes, sizeof runtimes, "", name, true);
    }
    check_add(list, "container runtimes", NULL, true, false, "", "%s", runtimes);
}

static void check_look(struct backend *backend, struct check_engine *looked) {
    struct http_call call = {.method = "GET", .path = "/_ping", .timeout_ms = CHECK_MS};
    int status = 0;
    autobuf out = buf_max(65536);
    looked->url = engine_url(backend->engine);
    looked->near = engine_near(backend->engine);
    looked->tls = engine_encrypted(backend->engine);
    looked->answers = engine_do(backend->engine, &call, &status, &out, &looked->err) == 0 &&
                      engine_answer(backend->engine, status, &out, "pinging it", NULL, &looked->err) == 0 &&
                      engine_version(backend->engine, &looked->minor, &looked->err) == 0 &&
                      docker_facts(backend, &looked->facts, &looked->err) == 0;
}

size_t docker_checks(const struct backend_env *env, struct check *checks, size_t max) {
    const struct docker_settings none = {0}, *settings = env->docker ? env->docker : &none;
    struct backend backend = {.env = env, .settings = settings};
    struct check_engine looked = {.url = settings->host ? settings->host : "DOCKER_HOST"};
    pthread_mutex_init(&backend.lock, NULL);
    if (engine_new(&(struct engine_where){settings->host, settings->cert_dir, settings->tls}, &backend.engine,
                   &looked.err) == 0)
        check_look(&backend, &looked);
    struct check_list list = {.checks = checks, .max = max};
    check_run(&looked, &list);
    engine_free(backend.engine);
    pthread_mutex_destroy(&backend.lock);
    free(backend.facts);
    return list.count;
}

static void check_put_engine(const struct check_engine *looked, struct json *json) {
    const struct docker_facts *facts = &looked->facts;
    const char *api = text_make(16, "1.%u", looked->minor);
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
    struct check checks[CHECK_ROWS] = {0};
    struct check_list list = {.checks = checks, .max = CHECK_ROWS};
    struct check_engine looked = {.url = env->docker && env->docker->host ? env->docker->host : "DOCKER_HOST"};
    if (backend)
        check_look(backend, &looked);
    else
        err_set(&looked.err, ERR_UNSUPPORTED, "backend docker is not configured");
    check_run(&looked, &list);
    json_put_bool(json, "available", looked.answers && strcmp(looked.facts.os, "linux") == 0);
    json_put_open(json, "can", '[');
    for (size_t i = 0; i < list.count; i++)
        if (checks[i].ok && list.gives[i])
            json_str(json, list.gives[i]);
    json_close(json, ']');
    backend_missing(checks, list.count, json);
    check_put_engine(&looked, json);
}
