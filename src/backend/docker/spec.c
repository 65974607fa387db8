/* From a spec to the body of POST /containers/create. Called by docker.c. Invariant: what a container may do is written
 * here alone, member by member, in constants. A request chooses the values of a few members and never a member; what is
 * not written is the engine's default for an ordinary container. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/text.h"

/* ---- whom commands run as ---- */

void docker_spec_user(const struct backend *backend, const struct spec *spec, const struct docker_image *image,
                      const struct docker_way *way, const struct docker_facts *facts, char user[DOCKER_USER_BYTES]) {
    if (spec->container.user)
        snprintf(user, DOCKER_USER_BYTES, "%s", spec->container.user);
    else if (backend->root || !way->near)
        snprintf(user, DOCKER_USER_BYTES, "%s", image->user ? image->user : "");
    else if (facts->rootless) /* its root is who runs the engine: us */
        snprintf(user, DOCKER_USER_BYTES, "0:0");
    else /* we may give no file away: who works on our files has our ids */
        snprintf(user, DOCKER_USER_BYTES, "%u:%u", (unsigned)geteuid(), (unsigned)getegid());
}

bool docker_spec_root(const char *user) {
    size_t len = strcspn(user, ":");
    return len == 0 || (len == 1 && user[0] == '0') || (len == 4 && memcmp(user, "root", 4) == 0);
}

/* ---- what can be had ---- */

static bool has_runtime(const struct docker_facts *facts, const char *runtime) {
    for (size_t i = 0; i < facts->runtime_count; i++)
        if (strcmp(facts->runtimes[i], runtime) == 0)
            return true;
    return false;
}

static int check_limits(const struct spec *spec, const struct docker_facts *facts, struct err *err) {
    const struct limits *limits = &spec->limits;
    const struct {
        bool asked, has;
        const char *name, *fix;
    } rows[] = {
        {limits->memory_mb, facts->memory_limit, "memory_mb", "give the engine the memory controller of cgroups"},
        {limits->cpus > 0, facts->cpu_limit, "cpus", "give the engine the cpu controller of cgroups"},
        {limits->pids, facts->pids_limit, "pids", "give the engine the pids controller of cgroups"},
        {limits->disk_mb, facts->disk_limit, "disk_mb",
         "a storage driver with sizes: overlay2 on XFS with pquota, btrfs or zfs; or backend jail"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].asked && !rows[i].has)
            return err_set(err, ERR_UNSUPPORTED,
                           "the container engine cannot hold the limit %s (storage driver %s, cgroups %s): %s",
                           rows[i].name, facts->storage, facts->cgroup, rows[i].fix);
    if (limits->cpus > 0 && limits->cpus < 0.01)
        return err_set(err, ERR_INVALID, "cpus: a container engine gives no less than 0.01");
    return 0;
}

static int check_names(const struct backend *backend, const struct spec *spec, const struct docker_facts *facts,
                       struct err *err) {
    const struct container *container = &spec->container;
    const char *network = backend->settings->network;
    if (container->runtime && !has_runtime(facts, container->runtime))
        return err_set(err, ERR_UNSUPPORTED,
                       "the container engine has no runtime '%.60s'; its own is '%s': add it to the engine's "
                       "configuration (\"runtimes\")",
                       container->runtime, facts->runtime);
    if (container->user && strlen(container->user) >= DOCKER_USER_BYTES)
        return err_set(err, ERR_INVALID, "container.user is longer than %d bytes", DOCKER_USER_BYTES - 1);
    if (spec->network == NETWORK_OPEN && network &&
        (strcmp(network, "host") == 0 || strncmp(network, "container:", 10) == 0))
        return err_set(err, ERR_INVALID, "docker_network '%.60s' is no network of a box's own", network);
    for (size_t i = 0; i < spec->mount_count; i++)
        if (path_within(spec->mounts[i].target, DOCKER_RUN))
            return err_set(err, ERR_INVALID, "mounts: target '%.200s' is inside " DOCKER_RUN ", which is the box's own",
                           spec->mounts[i].target);
    return 0;
}

/* ---- what it is ---- */

static void put_text(struct json *json, const char *key, const char *value) {
    json_put_str(json, key, value);
}

static void put_flag(struct json *json, const char *key, bool value) {
    json_put_bool(json, key, value);
}

static void put_list(struct json *json, const char *key, const char *const *values) {
    json_put_open(json, key, '[');
    for (; values && *values; values++)
        json_str(json, *values);
    json_close(json, ']');
}

static bool env_has(const char *const *env, const char *key) {
    size_t len = strlen(key);
    for (; env && *env; env++)
        if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
            return true;
    return false;
}

/* What the box adds to the image's variables, told to the runner: an engine writes a container's own into every image that
 * it makes from it, and those are other boxes' as well. */
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
        if (!env_has(image->env, defaults[i][0]) && !env_has(spec->env, defaults[i][0])) {
            words[count++] = "--env";
            words[count++] = defaults[i][1];
        }
    for (size_t i = 0; i < spec->env_count; i++) {
        words[count++] = "--env";
        words[count++] = spec->env[i];
    }
    return words;
}

/* The runner is what the container runs, or, beside the image's own, is started by an exec with the same words. */
static void put_program(struct json *json, const struct spec *spec, const struct docker_image *image) {
    autoarena arena = ARENA_EMPTY;
    if (spec->container.image_init) {
        put_list(json, "Entrypoint", image->entrypoint);
        put_list(json, "Cmd", image->command);
        put_list(json, "Env", spec->env);
        return;
    }
    const char *const *words = docker_spec_words(spec, image, &arena);
    const char *const runner[] = {words[0], NULL};
    put_list(json, "Entrypoint", runner);
    put_list(json, "Cmd", words + 1);
}

/* Root of the container may do with the container's files and processes what root does; no other user has anything. */
static void put_walls(struct json *json, const struct spec *spec, const char *user) {
    static const char *const all[] = {"ALL", NULL}, *const none[] = {NULL};
    static const char *const root[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL", NULL};
    static const char *const security[] = {"no-new-privileges", NULL};
    put_flag(json, "Privileged", false);
    put_list(json, "CapDrop", all);
    put_list(json, "CapAdd", docker_spec_root(user) ? root : none);
    put_list(json, "SecurityOpt", security);
    put_flag(json, "ReadonlyRootfs", spec->container.read_only);
    put_flag(json, "PublishAllPorts", false);
    put_text(json, "IpcMode", "private");
    put_text(json, "CgroupnsMode", "private");
    put_text(json, "PidMode", "");
    put_text(json, "UTSMode", "");
    put_text(json, "UsernsMode", "");
    put_flag(json, "Init", false);
    put_flag(json, "AutoRemove", false);
    json_put_open(json, "RestartPolicy", '{');
    put_text(json, "Name", "no");
    json_close(json, '}');
    json_key(json, "LogConfig"); /* its streams may be a wire: nobody writes that to a disk */
    json_open(json, '{');
    put_text(json, "Type", "none");
    json_close(json, '}');
    if (spec->container.read_only) {
        json_put_open(json, "Tmpfs", '{');
        put_text(json, "/tmp", "rw,exec,nosuid,nodev,mode=1777");
        json_close(json, '}');
    }
}

static void put_limits(struct json *json, const struct spec *spec, const struct docker_facts *facts) {
    const struct limits *limits = &spec->limits;
    if (limits->memory_mb) {
        json_put_uint(json, "Memory", limits->memory_mb << 20);
        if (facts->swap_limit) { /* both together: the same, so none */
            json_put_uint(json, "MemorySwap", limits->memory_mb << 20);
        }
    }
    if (limits->cpus > 0) { /* an engine refuses more than its machine has, which is no limit anyway */
        double cpus = facts->cpus && limits->cpus > facts->cpus ? facts->cpus : limits->cpus;
        json_put_uint(json, "NanoCpus", (uint64_t)(cpus * 1e9));
    }
    if (limits->pids)
        json_put_uint(json, "PidsLimit", limits->pids);
    if (limits->open_files &&
        spec->container.image_init) { /* else the runner gives it to commands, and needs more itself */
        json_put_open(json, "Ulimits", '[');
        json_open(json, '{');
        put_text(json, "Name", "nofile");
        json_put_uint(json, "Soft", limits->open_files);
        json_put_uint(json, "Hard", limits->open_files);
        json_close(json, '}');
        json_close(json, ']');
    }
    if (limits->disk_mb) {
        char size[32];
        snprintf(size, sizeof size, "%lluM", (unsigned long long)limits->disk_mb);
        json_put_open(json, "StorageOpt", '{');
        put_text(json, "size", size);
        json_close(json, '}');
    }
}

static void put_mount(struct json *json, const char *type, const char *source, const char *target, bool read_only) {
    json_open(json, '{');
    put_text(json, "Type", type);
    if (source)
        put_text(json, "Source", source);
    put_text(json, "Target", target);
    put_flag(json, "ReadOnly", read_only);
    json_close(json, '}');
}

static int put_mounts(struct backend *backend, const struct spec *spec, const struct docker_way *way, struct json *json,
                      struct err *err) {
    json_put_open(json, "Mounts", '[');
    if (way->near) {
        put_mount(json, "bind", way->runner_path, DOCKER_RUN "/runner", true);
        put_mount(json, "bind", way->dial_dir, DOCKER_RUN "/run", true);
    } else { /* the runner is sent into it; it goes with the container */
        put_mount(json, "volume", NULL, DOCKER_RUN, false);
    }
    int r = docker_mount_put(backend, spec, way, json, err);
    json_close(json, ']');
    return r;
}

static int put_host(struct backend *backend, const struct spec *spec, const struct docker_way *way,
                    const struct docker_facts *facts, const char *user, struct json *json, struct err *err) {
    const char *open = backend->settings->network ? backend->settings->network : "default";
    json_put_open(json, "HostConfig", '{');
    put_walls(json, spec, user);
    put_limits(json, spec, facts);
    put_text(json, "NetworkMode", spec->network == NETWORK_OPEN ? open : "none");
    if (spec->container.runtime)
        put_text(json, "Runtime", spec->container.runtime);
    int r = put_mounts(backend, spec, way, json, err);
    json_close(json, '}');
    return r;
}

static void put_labels(struct json *json, struct backend *backend, const struct spec *spec) {
    char from[65];
    docker_spec_from(backend, spec, from);
    json_put_open(json, "Labels", '{');
    put_text(json, DOCKER_LABEL_HOME, backend->home);
    put_text(json, DOCKER_LABEL_BOX, spec->id);
    put_text(json, DOCKER_LABEL_USER, spec->user ? spec->user : "");
    put_text(json, DOCKER_LABEL_FROM, from);
    json_close(json, '}');
}

int docker_spec_body(struct backend *backend, const struct spec *spec, const struct docker_image *image,
                     const struct docker_way *way, const struct docker_facts *facts, struct buf *out, struct err *err) {
    static const char *const off[] = {"NONE", NULL};
    char user[DOCKER_USER_BYTES];
    struct json json;
    int r = check_limits(spec, facts, err);
    if (r == 0)
        r = check_names(backend, spec, facts, err);
    if (r < 0)
        return r;
    docker_spec_user(backend, spec, image, way, facts, user);
    if (!way->near && spec->container.read_only && !docker_spec_root(user)) /* a volume is root's, and stays so */
        return err_set(
            err, ERR_UNSUPPORTED,
            "a container with a read-only root has no workspace for user '%.100s' on an engine elsewhere; let it run "
            "as root, leave read_only out, or use an engine on this machine",
            user);
    json_init(&json, out);
    json_open(&json, '{');
    put_text(&json, "Image", image->id);
    put_text(&json, "User", user);
    put_text(&json, "Hostname", "cubby");
    put_program(&json, spec, image);
    put_flag(&json, "Tty", false);
    put_flag(&json, "OpenStdin", true);
    put_flag(&json, "StdinOnce", true); /* whose daemon is gone reads its end */
    put_flag(&json, "AttachStdin", true);
    put_flag(&json, "AttachStdout", true);
    put_flag(&json, "AttachStderr", true);
    json_key(&json, "Healthcheck"); /* it would start processes in the box that nobody asked for */
    json_open(&json, '{');
    put_list(&json, "Test", off);
    json_close(&json, '}');
    put_labels(&json, backend, spec);
    r = put_host(backend, spec, way, facts, user, &json, err);
    json_close(&json, '}');
    if (r == 0 && out->failed)
        r = err_set(err, ERR_TOO_LARGE, "environment and mounts of box %s are too much for one container", spec->id);
    return r;
}

/* ---- what it was made from ---- */

/* Not the image's own id: a name may lead to another image by now, and what was made from the old one goes on. */
void docker_spec_from(struct backend *backend, const struct spec *spec, char ret_from[65]) {
    char layer[17];
    uint8_t digest[32];
    const char *from = docker_layer_top(backend, spec, layer) ? layer : spec->template_name;
    sha256(from, strlen(from), digest);
    text_hex(ret_from, digest, sizeof digest);
}
