/* From a spec to a container: whatever stands in any text of a request or of an image, the container's walls are the same,
 * and no member is there that an ordinary box has not. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "base/limits.h"
#include "tap.h"

/* ---- a backend that never talks ---- */

static struct docker_facts facts = {
    .storage = "overlay2",
    .cgroup = "2",
    .runtime = "runc",
    .memory_limit = true,
    .swap_limit = true,
    .pids_limit = true,
    .cpu_limit = true,
    .cpus = 4,
    .runtimes = {"runc", "runsc"},
    .runtime_count = 2,
};
static struct docker_settings settings;
static struct backend_env env = {.state_dir = "/state", .runner_path = "/lib/cubby-runner", .docker = &settings};
static struct backend backend = {.env = &env,
                                 .settings = &settings,
                                 .home = "0123456789abcdef0123456789abcdef",
                                 .boxes_fd = -1,
                                 .layers_fd = -1,
                                 .facts = &facts};

/* ---- what is made ---- */

static const char *no_words[] = {NULL};
static struct spec plain(void) {
    return (struct spec){.id = "00112233aabbccdd", .user = "ann", .template_name = "debian:12", .env = no_words};
}
static struct docker_image image_plain(void) {
    return (struct docker_image){.id = "sha256:00",
                                 .reference = "debian:12",
                                 .user = "",
                                 .entrypoint = no_words,
                                 .command = no_words,
                                 .env = no_words};
}

static int made(const struct spec *spec, const struct docker_image *image, bool near, json_t **ret_root,
                struct err *err) {
    const struct docker_start start = {.backend = &backend,
                                       .spec = spec,
                                       .facts = facts,
                                       .image = *image,
                                       .near = near,
                                       .dial_dir = "/state/boxes/x/dial",
                                       .workspace_dir = near ? "/state/boxes/x/workspace" : NULL};
    autobuf body = buf_max(8 << 20);
    int r = docker_spec_body(&start, &body, err);
    *ret_root = r == 0 ? json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    return r;
}

static json_t *at(json_t *root, const char *key) {
    json_t *host = json_object_get(root, "HostConfig");
    return json_object_get(host, key) ? json_object_get(host, key) : json_object_get(root, key);
}

static bool is_json(json_t *root, const char *key, const char *expected) {
    json_t *value = json_loads(expected, JSON_DECODE_ANY, NULL);
    bool same = value && json_equal(at(root, key), value);
    if (!same) {
        char *text = at(root, key) ? json_dumps(at(root, key), JSON_ENCODE_ANY) : NULL;
        printf("# %s: got %s, want %s\n", key, text ? text : "nothing", expected);
        free(text);
    }
    json_decref(value);
    return same;
}

/* Members that decide what a container may do; each is as written here in every box. */
static const char *const walls[][2] = {
    {"Privileged", "false"},
    {"CapDrop", "[\"ALL\"]"},
    {"SecurityOpt", "[\"no-new-privileges\"]"},
    {"IpcMode", "\"private\""},
    {"CgroupnsMode", "\"private\""},
    {"PidMode", "\"\""},
    {"UTSMode", "\"\""},
    {"UsernsMode", "\"\""},
    {"Init", "false"},
    {"AutoRemove", "false"},
    {"PublishAllPorts", "false"},
    {"RestartPolicy", "{\"Name\":\"no\"}"},
    {"LogConfig", "{\"Type\":\"none\"}"},
    {"Tty", "false"},
    {"Healthcheck", "{\"Test\":[\"NONE\"]}"},
};
/* Whatever else may be there. */
static const char *const known[] = {
    "Image",          "User",        "Hostname",     "Entrypoint",   "Cmd",      "Env",        "OpenStdin",
    "StdinOnce",      "AttachStdin", "AttachStdout", "AttachStderr", "Labels",   "HostConfig", "CapAdd",
    "ReadonlyRootfs", "Tmpfs",       "Memory",       "MemorySwap",   "NanoCpus", "PidsLimit",  "Ulimits",
    "StorageOpt",     "NetworkMode", "Runtime",      "Mounts",       "Dns",
};

static bool members_known(json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof walls / sizeof *walls; i++)
            found |= strcmp(key, walls[i][0]) == 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found) {
            printf("# a member '%s'\n", key);
            return false;
        }
    }
    return true;
}

static bool walled(json_t *root) {
    bool good = root && members_known(root) && members_known(json_object_get(root, "HostConfig"));
    for (size_t i = 0; good && i < sizeof walls / sizeof *walls; i++)
        good = is_json(root, walls[i][0], walls[i][1]);
    return good;
}

#define ROOT_CAPS "[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"SETUID\",\"SETGID\",\"KILL\"]"

static bool caps_fit(json_t *root) {
    return is_json(root, "CapAdd", docker_spec_root(json_string_value(at(root, "User"))) ? ROOT_CAPS : "[]");
}

/* ---- the tests ---- */

static void test_plain(void) {
    struct spec spec = plain();
    struct docker_image image = image_plain();
    struct err err = {0};
    json_t *root;
    ok(made(&spec, &image, true, &root, &err) == 0 && walled(root), "a plain box has its walls (%s)", err.text);
    ok(is_json(root, "CapAdd", ROOT_CAPS), "root of the image has seven capabilities");
    ok_all("no network; the image by its digest; its user", is_json(root, "NetworkMode", "\"none\""),
           is_json(root, "ReadonlyRootfs", "false"), is_json(root, "Image", "\"sha256:00\""),
           is_json(root, "User", "\"\""));
    ok(is_json(root, "Mounts",
               "[{\"Type\":\"bind\",\"Source\":\"/lib/cubby-runner\",\"Target\":\"/.cubby/runner\",\"ReadOnly\":true},"
               "{\"Type\":\"bind\",\"Source\":\"/state/boxes/x/dial\",\"Target\":\"/.cubby/run\",\"ReadOnly\":true},"
               "{\"Type\":\"bind\",\"Source\":\"/state/boxes/x/workspace\",\"Target\":\"/workspace\","
               "\"ReadOnly\":false,\"BindOptions\":{\"Propagation\":\"rprivate\",\"NonRecursive\":true}}]"),
       "the runner, where it dials, and its workspace are mounted, and nothing else");
    ok_all("what is not asked for is not there", !at(root, "Memory"), !at(root, "PidsLimit"), !at(root, "NanoCpus"),
           !at(root, "StorageOpt"));
    json_t *labels = json_object_get(root, "Labels");
    ok_all("its labels say whose it is", json_object_size(labels) == 4,
           strcmp(json_string_value(json_object_get(labels, "cubby.home")), backend.home) == 0,
           strcmp(json_string_value(json_object_get(labels, "cubby.box")), spec.id) == 0);
    json_decref(root);
    ok(made(&spec, &image, false, &root, &err) == 0 && walled(root), "the same on an engine elsewhere (%s)", err.text);
    ok(strstr(json_string_value(json_object_get(json_array_get(at(root, "Mounts"), 0), "Type")), "volume") &&
           json_array_size(at(root, "Mounts")) == 1,
       "where nothing of this machine is mounted");
    json_decref(root);
}

static void test_limits(void) {
    struct spec spec = plain();
    struct docker_image image = image_plain();
    struct err err = {0};
    json_t *root;
    spec.limits = (struct limits){.memory_mb = 64, .cpus = 0.5, .pids = 77, .open_files = 100};
    spec.container.read_only = true;
    spec.container.runtime = "runsc";
    spec.network = NETWORK_OPEN;
    ok(made(&spec, &image, true, &root, &err) == 0 && walled(root), "limits (%s)", err.text);
    ok(is_json(root, "Memory", "67108864") && is_json(root, "MemorySwap", "67108864"), "memory, and no swap beyond");
    ok(is_json(root, "NanoCpus", "500000000") && is_json(root, "PidsLimit", "77"), "processors and processes");
    ok(is_json(root, "ReadonlyRootfs", "true") &&
           is_json(root, "Tmpfs", "{\"/tmp\":\"rw,exec,nosuid,nodev,mode=1777\"}"),
       "a root that is only read has a /tmp");
    ok(is_json(root, "Runtime", "\"runsc\"") && is_json(root, "NetworkMode", "\"default\""), "runtime and network");
    json_decref(root);
    spec.limits.cpus = 64;
    ok(made(&spec, &image, true, &root, &err) == 0 && is_json(root, "NanoCpus", "4000000000"),
       "more processors than there are is all of them");
    json_decref(root);
    spec.limits.disk_mb = 100;
    ok(made(&spec, &image, true, &root, &err) == -ERR_UNSUPPORTED && strstr(err.text, "disk_mb") &&
           strstr(err.text, "overlay2"),
       "a limit that cannot be held is refused: %s", err.text);
    facts.disk_limit = true;
    ok(made(&spec, &image, true, &root, &err) == 0 && is_json(root, "StorageOpt", "{\"size\":\"100M\"}"), "or held");
    json_decref(root);
    facts.disk_limit = false;
    facts.memory_limit = false;
    spec.limits.disk_mb = 0;
    ok(made(&spec, &image, true, &root, &err) == -ERR_UNSUPPORTED && strstr(err.text, "memory_mb"), "so is memory");
    facts.memory_limit = true;
    spec.container.runtime = "kata";
    ok(made(&spec, &image, true, &root, &err) == -ERR_UNSUPPORTED && strstr(err.text, "'kata'"), "%s", err.text);
    spec.container.runtime = NULL;
    settings.network = "host";
    ok(made(&spec, &image, true, &root, &err) == -ERR_INVALID, "no configuration makes the host's network a box's");
    settings.network = "container:abc";
    ok(made(&spec, &image, true, &root, &err) == -ERR_INVALID, "nor another container's");
    settings.network = NULL;
}

static void test_users(void) {
    static const struct {
        const char *asked, *image;
        bool root;
    } rows[] = {
        {NULL, "", true},      {NULL, "root", true},  {NULL, "0", true},        {NULL, "0:5", true},
        {NULL, "app", false},  {NULL, "1000", false}, {"1000:1000", "", false}, {"root:root", "app", true},
        {"00", "", false},     {"rootx", "", false},  {" root", "", false},     {"-1", "", false},
        {"toor:0", "", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spec spec = plain();
        struct docker_image image = image_plain();
        struct err err = {0};
        json_t *root;
        spec.container.user = rows[i].asked;
        image.user = rows[i].image;
        ok(made(&spec, &image, true, &root, &err) == 0 && walled(root) &&
               is_json(root, "CapAdd", rows[i].root ? ROOT_CAPS : "[]"),
           "user '%s' of an image with '%s' has %s", rows[i].asked ? rows[i].asked : "", rows[i].image,
           rows[i].root ? "root's capabilities" : "none");
        json_decref(root);
    }
}

/* Every text that is somebody else's: of the request, and of the image. */
static void test_hostile(const char *bad, const char *called) {
    autoarena arena = ARENA_EMPTY;
    const char *words[] = {bad, arena_printf(&arena, "%s=x", bad), NULL};
    const struct mount mounts[] = {{.source = bad, .target = "/mnt/a"},
                                   {.source = "/srv", .target = bad, .read_only = true}};
    struct spec all[12];
    size_t specs = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i] = plain();
    all[specs++].template_name = bad;
    all[specs++].user = bad;
    all[specs++].thread = bad;
    all[specs++].shell = bad;
    all[specs++].workspace = bad;
    all[specs++].agent = NULL;
    all[specs].env = words;
    all[specs++].env_count = 2;
    all[specs].env = words;
    all[specs].env_count = 2;
    all[specs++].container.image_init = true;
    all[specs].mounts = mounts;
    all[specs++].mount_count = 2;
    all[specs++].container.user = bad;
    all[specs++].container.platform = bad;
    all[specs++].container.pull = bad;
    for (size_t i = 0; i < specs; i++)
        for (int root_daemon = 0; root_daemon < 2; root_daemon++) {
            struct docker_image image = image_plain();
            struct err err = {0};
            json_t *root = NULL;
            image.user = "app";
            backend.root = root_daemon;
            int r = made(&all[i], &image, true, &root, &err);
            if (r == 0 ? !walled(root) || !caps_fit(root) : !err.text[0])
                ok(false, "%s in text %zu of a request: %d %s", called, i, r, err.text);
            json_decref(root);
        }
    struct spec spec = plain();
    struct docker_image image = image_plain();
    struct err err = {0};
    json_t *root = NULL;
    image.reference = image.user = image.working_dir = bad;
    image.env = image.entrypoint = image.command = words;
    snprintf(image.id, sizeof image.id, "%.70s", bad);
    spec.container.image_init = true;
    backend.root = true;
    int r = made(&spec, &image, true, &root, &err);
    ok(r < 0 || (walled(root) && caps_fit(root)), "%s: every text of a request, every text of an image", called);
    json_decref(root);
}

static void test_reserved(void) {
    static const char *const targets[] = {"/.cubby", "/.cubby/runner", "/.cubby/run", "/.cubby/x/y"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const struct mount mount = {.source = "/srv", .target = targets[i]};
        struct spec spec = plain();
        struct docker_image image = image_plain();
        struct err err = {0};
        json_t *root;
        spec.mounts = &mount;
        spec.mount_count = 1;
        ok(made(&spec, &image, true, &root, &err) == -ERR_INVALID, "nothing is mounted over the runner: %s", err.text);
    }
}

int main(void) {
    struct err err;
    pthread_mutex_init(&backend.lock, NULL);
    if (engine_new(&(struct engine_where){.url = "unix:///nonexistent/sock"}, &backend.engine, &err) < 0)
        return printf("Bail out! %s\n", err.text), 1;
    backend.facts_generation = engine_generation(backend.engine);
    backend.root = true;
    test_plain();
    test_limits();
    test_users();
    test_hostile("\"},\"HostConfig\":{\"Privileged\":true},\"x\":{\"", "JSON");
    test_hostile("--privileged", "an option");
    test_hostile("a\",\"CapAdd\":[\"ALL\"],\"b\":\"", "a member");
    test_hostile("\\\",\\\"Privileged\\\":true,\\u0022", "escapes");
    test_hostile("line\nPrivileged: true\r\n\r\nPOST /containers/x/start HTTP/1.1", "lines");
    test_hostile("\xff\xfe\xc0\x80 \xed\xa0\x80", "no UTF-8");
    test_hostile("/../../../../etc", "a way up");
    test_hostile("", "nothing");
    test_hostile("root", "a name");
    char *longest = malloc(200001);
    memset(longest, '"', 200000);
    longest[200000] = 0;
    test_hostile(longest, "200,000 quotes");
    free(longest);
    test_reserved();
    engine_free(backend.engine);
    return tap_end();
}
