/* From a spec to the body of POST /containers/create. Called by docker.c. Invariant: the rights of a container are
 * written here alone, member by member, in constants. A request chooses the values of a few members and never a
 * member; every other one is the engine's default for an ordinary container. */
#include "base/base.h"
#include "backend/docker/docker.h"
#include "base/sha256.h"

/* ---- whom commands run as ---- */

void docker_spec_user(const struct docker_start *start, bool by_default, char user[DOCKER_USER_BYTES]) {
    const char *asked = by_default ? NULL : start->spec->container.user;
    if (asked || start->backend->root || !start->near)
        snprintf(user, DOCKER_USER_BYTES, "%s", asked ? asked : start->image.user ? start->image.user : "");
    else if (start->facts.rootless) /* its root is the user who runs the engine: us */
        snprintf(user, DOCKER_USER_BYTES, "0:0");
    else /* we cannot give files away, so that the box needs our ids to work on them */
        snprintf(user, DOCKER_USER_BYTES, "%u:%u", (unsigned)geteuid(), (unsigned)getegid());
}

bool docker_spec_root(const char *user) {
    size_t len = strcspn(user, ":");
    return len == 0 || (len == 1 && user[0] == '0') || (len == 4 && memcmp(user, "root", 4) == 0);
}

/* ---- what this engine supports ---- */

/* Refuses what this engine does not support. */
static int spec_check(const struct docker_start *start, const char *user, struct err *err) {
    const struct spec *spec = start->spec;
    const struct docker_facts *facts = &start->facts;
    const struct limits *limits = &spec->limits;
    const struct container *container = &spec->container;
    const char *network = start->backend->settings->network;
    const struct {
        bool asked, has;
        const char *name, *fix;
    } rows[] = {
        {limits->memory_mb, facts->memory_limit, "memory_mb", "give the engine the memory controller of cgroups"},
        {limits->cpus > 0, facts->cpu_limit, "cpus", "give the engine the cpu controller of cgroups"},
        {limits->pids, facts->pids_limit, "pids", "give the engine the pids controller of cgroups"},
        {limits->disk_mb, facts->disk_limit, "disk_mb",
         "use a storage driver with sizes (overlay2 on XFS with pquota, btrfs, zfs), or backend jail"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].asked && !rows[i].has)
            return err_set(err, ERR_UNSUPPORTED,
                           "the container engine cannot enforce the limit %s (storage driver %s, cgroups %s): %s",
                           rows[i].name, facts->storage, facts->cgroup, rows[i].fix);
    if (limits->cpus > 0 && limits->cpus < 0.01)
        return err_set(err, ERR_INVALID, "cpus: the least that a container engine can set is 0.01");
    size_t i = 0;
    while (container->runtime && i < facts->runtime_count && strcmp(facts->runtimes[i], container->runtime) != 0)
        i++;
    if (container->runtime && i == facts->runtime_count)
        return err_set(err, ERR_UNSUPPORTED,
                       "the container engine has no runtime '%.60s'; its default is '%s': add the runtime to the "
                       "engine's configuration (\"runtimes\")",
                       container->runtime, facts->runtime);
    if (container->user && strlen(container->user) >= DOCKER_USER_BYTES)
        return err_set(err, ERR_INVALID, "container.user is longer than %d bytes", DOCKER_USER_BYTES - 1);
    if (spec->network == NETWORK_OPEN && network &&
        (strcmp(network, "host") == 0 || strncmp(network, "container:", 10) == 0))
        return err_set(err, ERR_INVALID, "docker_network '%.60s' would share a network that is not the box's", network);
    for (i = 0; i < spec->mount_count; i++)
        if (path_within(spec->mounts[i].target, DOCKER_RUN))
            return err_set(err, ERR_INVALID, "mounts: target '%.200s' is inside " DOCKER_RUN ", which is reserved",
                           spec->mounts[i].target);
    if (!start->near && container->read_only && !docker_spec_root(user)) /* a volume always belongs to root */
        return err_set(
            err, ERR_UNSUPPORTED,
            "a container with a read-only root has no workspace for user '%.100s' on a remote engine; run it "
            "as root, leave read_only out, or use an engine on this machine",
            user);
    return 0;
}

/* ---- its settings ---- */

static bool spec_env_has(const char *const *env, const char *key) {
    size_t len = strlen(key);
    for (; env && *env; env++)
        if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
            return true;
    return false;
}

/* The variables that the box adds to the image's are arguments: an engine writes a container's own variables into every
 * image that it makes from it, and other boxes use those images. */
const char *const *docker_spec_words(const struct spec *spec, const struct docker_image *image, struct arena *arena) {
    static const char *const defaults[][2] = {{"LANG", "LANG=C.UTF-8"}, {"TERM", "TERM=xterm-256color"}};
    const char *const first[] = {DOCKER_RUN "/runner",
                                 "serve",
                                 "--dial",
                                 DOCKER_RUN "/run/sock",
                                 "--stdio",
                                 "1",
                                 "--workspace",
                                 spec->workspace ? spec->workspace : WORKSPACE_PATH,
                                 spec->shell ? "--shell" : NULL,
                                 spec->shell};
    const struct {
        const char *word;
        uint64_t value;
    } limits[] = {{"--open-files", spec->limits.open_files},
                  {"--pids", spec->limits.pids},
                  {"--no-set-id", docker_mount_writes(spec)}};
    enum {
        FIRST = sizeof first / sizeof *first,
        LIMITS = sizeof limits / sizeof *limits,
        DEFAULTS = sizeof defaults / sizeof *defaults
    };
    const char **words = arena_alloc(arena, (FIRST + 2 * (LIMITS + DEFAULTS + spec->env_count) + 1) * sizeof *words);
    size_t count = 0;
    for (size_t i = 0; i < FIRST && first[i]; i++)
        words[count++] = first[i];
    for (size_t i = 0; i < LIMITS; i++)
        if (limits[i].value) {
            words[count++] = limits[i].word;
            words[count++] = arena_printf(arena, "%llu", (unsigned long long)limits[i].value);
        }
    for (size_t i = 0; i < DEFAULTS; i++)
        if (!spec_env_has(image->env, defaults[i][0]) && !spec_env_has(spec->env, defaults[i][0])) {
            words[count++] = "--env";
            words[count++] = defaults[i][1];
        }
    for (size_t i = 0; i < spec->env_count; i++) {
        words[count++] = "--env";
        words[count++] = spec->env[i];
    }
    return words;
}

/* The walls of every container. Its log is off because its streams may be a wire. */
static const char spec_walls[] = "\"Privileged\":false,\"CapDrop\":[\"ALL\"],\"SecurityOpt\":[\"no-new-privileges\"],"
                                 "\"PublishAllPorts\":false,\"IpcMode\":\"private\",\"CgroupnsMode\":\"private\","
                                 "\"PidMode\":\"\",\"UTSMode\":\"\",\"UsernsMode\":\"\",\"Init\":false,"
                                 "\"AutoRemove\":false,\"RestartPolicy\":{\"Name\":\"no\"},"
                                 "\"LogConfig\":{\"Type\":\"none\"}";
/* Its streams: StdinOnce ends them with the daemon. A health check would start unrequested processes. */
static const char spec_streams[] = "\"Hostname\":\"cubby\",\"Tty\":false,\"OpenStdin\":true,\"StdinOnce\":true,"
                                   "\"AttachStdin\":true,\"AttachStdout\":true,\"AttachStderr\":true,"
                                   "\"Healthcheck\":{\"Test\":[\"NONE\"]}";

static void spec_put_limits(struct json *json, const struct spec *spec, const struct docker_facts *facts) {
    const struct limits *limits = &spec->limits;
    if (limits->memory_mb)
        json_put_uint(json, "Memory", limits->memory_mb << 20);
    if (limits->memory_mb && facts->swap_limit) /* memory and swap together: no swap */
        json_put_uint(json, "MemorySwap", limits->memory_mb << 20);
    if (limits->cpus > 0) { /* an engine refuses more than its machine has */
        double cpus = facts->cpus && limits->cpus > facts->cpus ? facts->cpus : limits->cpus;
        json_put_uint(json, "NanoCpus", (uint64_t)(cpus * 1e9));
    }
    if (limits->pids)
        json_put_uint(json, "PidsLimit", limits->pids);
    char text[96];
    int len = snprintf(text, sizeof text, "[{\"Name\":\"nofile\",\"Soft\":%llu,\"Hard\":%llu}]",
                       (unsigned long long)limits->open_files, (unsigned long long)limits->open_files);
    if (limits->open_files && spec->container.image_init) /* else the runner limits commands, and needs more itself */
        json_put_raw(json, "Ulimits", text, (size_t)len);
    len = snprintf(text, sizeof text, "{\"size\":\"%lluM\"}", (unsigned long long)limits->disk_mb);
    if (limits->disk_mb)
        json_put_raw(json, "StorageOpt", text, (size_t)len);
}

static int spec_put_host(const struct docker_start *start, const char *user, struct json *json, struct err *err) {
    static const char *const root[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL", NULL};
    const struct spec *spec = start->spec;
    const char *network = start->backend->settings->network;
    json_put_open(json, "HostConfig", '{');
    json_raw(json, spec_walls, sizeof spec_walls - 1);
    /* Root of the container may do what root does with the container's files and processes; no other user may. */
    json_put_texts(json, "CapAdd", docker_spec_root(user) ? root : NULL);
    json_put_bool(json, "ReadonlyRootfs", spec->container.read_only);
    if (spec->container.read_only) {
        json_put_open(json, "Tmpfs", '{');
        json_put_str(json, "/tmp", "rw,exec,nosuid,nodev,mode=1777");
        json_close(json, '}');
    }
    spec_put_limits(json, spec, &start->facts);
    json_put_str(json, "NetworkMode", spec->network != NETWORK_OPEN ? "none" : network ? network : "default");
    if (spec->network != NETWORK_OPEN) { /* answered where the box has a network policy */
        static const char *const resolver[] = {"127.0.0.53", NULL};
        json_put_texts(json, "Dns", resolver);
    }
    json_put_some(json, "Runtime", spec->container.runtime);
    json_put_open(json, "Mounts", '[');
    int r = docker_mount_put(start, json, err);
    json_close(json, ']');
    json_close(json, '}');
    return r;
}

int docker_spec_body(const struct docker_start *start, struct buf *out, struct err *err) {
    const struct spec *spec = start->spec;
    const struct docker_image *image = &start->image;
    autoarena arena = ARENA_EMPTY;
    char user[DOCKER_USER_BYTES], from[65];
    docker_spec_user(start, false, user);
    TRY(spec_check(start, user, err));
    buf_clear(out);
    struct json json = json_begin(out);
    json_put_str(&json, "Image", image->id);
    json_put_str(&json, "User", user);
    json_raw(&json, spec_streams, sizeof spec_streams - 1);
    /* The container runs the runner; with the image's own program as PID 1 it is started by an exec with the same
     * words. */
    const char *const *words = docker_spec_words(spec, image, &arena), *const runner[] = {words[0], NULL};
    bool own = spec->container.image_init;
    json_put_texts(&json, "Entrypoint", own ? image->entrypoint : runner);
    json_put_texts(&json, "Cmd", own ? image->command : words + 1);
    if (own)
        json_put_texts(&json, "Env", spec->env);
    docker_spec_from(start->backend, spec, from);
    json_put_open(&json, "Labels", '{');
    json_put_str(&json, DOCKER_LABEL_HOME, start->backend->home);
    json_put_str(&json, DOCKER_LABEL_BOX, spec->id);
    json_put_str(&json, DOCKER_LABEL_USER, spec->user ? spec->user : "");
    json_put_str(&json, DOCKER_LABEL_FROM, from);
    json_close(&json, '}');
    int r = spec_put_host(start, user, &json, err);
    json_close(&json, '}');
    if (r == 0 && out->failed)
        r = err_set(err, ERR_TOO_LARGE, "environment and mounts of box %s are too large for one container", spec->id);
    return r;
}

/* ---- its source ---- */

/* Not the image's own id: a name may have moved to another image, and a box made from the old one keeps its files. */
void docker_spec_from(struct backend *backend, const struct spec *spec, char ret_from[65]) {
    char layer[17];
    uint8_t digest[32];
    const char *from = docker_layer_top(backend, spec, layer) ? layer : spec->template_name;
    sha256(from, strlen(from), digest);
    text_hex(ret_from, digest, sizeof digest);
}
