/* The options that describe a box, as mounts, environment and JSON. Called by run, create and shell. */
#include <jansson.h>

#include "base/base.h"
#include "box/policy.h"
#include "cli/cli.h"
#include "wire/spec.h"

const struct row box_rows[] = {
    OPTION("backend", 0, TEXT, struct box_options, backend, "jail|docker|local", "how the box is made"),
    OPTION("template", 0, TEXT, struct box_options, template_name, "NAME",
           "root file system: host, an imported template, or an image"),
    OPTION("memory", 'm', INT, struct box_options, memory_mb, "MB", "memory limit"),
    OPTION("cpus", 0, REAL, struct box_options, cpus, "N", "processor limit (0.5: half of one)"),
    OPTION("pids", 0, INT, struct box_options, pids, "N", "limit of processes and threads"),
    OPTION("disk", 0, INT, struct box_options, disk_mb, "MB", "disk space limit"),
    OPTION("open-files", 0, INT, struct box_options, open_files, "N", "limit of open files of a process"),
    OPTION("output", 0, INT, struct box_options, output_bytes, "BYTES", "limit of output kept of a command"),
    OPTION("net", 0, TEXT, struct box_options, net, "none|open", "network access (default: none)"),
    OPTION("network", 0, TEXT, struct box_options, network, "FILE|JSON|none|open",
           "what the box may reach: a policy, or a word as of --net"),
    OPTION("allow", 0, TEXTS, struct box_options, allow, "HOST[:PORT]", "the box may reach this host, and no other"),
    OPTION("mount", 0, TEXTS, struct box_options, mounts, "SRC:DST[:ro]",
           "mount a directory of this machine in the box"),
    OPTION("env", 'e', TEXTS, struct box_options, env, "K=V",
           "set an environment variable (K alone: to its value here)"),
    OPTION("secret", 0, TEXTS, struct box_options, secrets, "NAME[=VAR]",
           "let it use a secret of the daemon, whose placeholder is in VAR"),
    OPTION("container-user", 0, TEXT, struct box_options, container_user, "NAME[:GROUP]",
           "docker: run commands as this user"),
    OPTION("runtime", 0, TEXT, struct box_options, runtime, "NAME",
           "docker: use this runtime of the engine, e.g. runsc"),
    OPTION("platform", 0, TEXT, struct box_options, platform, "OS/ARCH",
           "docker: platform of the image, e.g. linux/arm64"),
    OPTION("pull", 0, TEXT, struct box_options, pull, "missing|always|never", "docker: when to pull the image"),
    OPTION("read-only", 0, BOOL, struct box_options, read_only, NULL, "docker: make the image's files read-only"),
    OPTION("image-init", 0, BOOL, struct box_options, image_init, NULL, "docker: run the image's own entry point"),
    OPTION("shell", 0, TEXT, struct box_options, shell, "PATH", "shell of the box"),
    {.name = NULL},
};

const char *box_options_network(struct cli *cli, const char *network, const struct row_texts *allow) {
    bool word = network && (strcmp(network, "none") == 0 || strcmp(network, "open") == 0);
    if (!allow || allow->count == 0) {
        if (!network || word || network[0] == '{')
            return network;
    } else if (word) {
        option_fail(cli, "--allow needs a network policy, not network '%s'", network);
    }
    char *text = arena_alloc(&cli->arena, LIMIT_JSON_BYTES + 1);
    ssize_t len = network && network[0] != '{' ? fd_read_file(AT_FDCWD, network, text, LIMIT_JSON_BYTES) : 0;
    if (len < 0)
        option_fail(cli, "a network must be none, open, a policy as JSON, or a file with a policy; '%s': %s", network,
                    strerror((int)-len));
    json_error_t why;
    json_auto_t *policy = json_loads(!network ? "{}" : network[0] == '{' ? network : text, 0, &why);
    if (!json_is_object(policy))
        option_fail(cli, "the policy is not a JSON object: %s", policy ? "another value" : why.text);
    if (!json_object_get(policy, "allow") && allow)
        json_object_set_new(policy, "allow", json_array());
    for (size_t i = 0; allow && i < allow->count; i++)
        json_array_append_new(json_object_get(policy, "allow"), json_string(allow->items[i]));
    char *written = json_dumps(policy, JSON_COMPACT);
    const char *copy = arena_strdup(&cli->arena, written);
    free(written);
    return copy;
}

/* Combines --net, --network and --allow. NULL: none is given. */
static const char *boxopt_network(struct cli *cli, const struct box_options *options) {
    if (options->net && (options->network || options->allow.count))
        option_fail(cli, "--net and --network cannot be combined: give one of them");
    return options->net ? options->net : box_options_network(cli, options->network, &options->allow);
}

bool box_options_daemon(struct cli *cli, const struct box_options *options) {
    const char *network = boxopt_network(cli, options);
    return options->secrets.count || (network && network[0] == '{');
}

static struct mount boxopt_mount(struct cli *cli, const char *text) {
    char *copy = arena_strdup(&cli->arena, text), *target = strchr(copy, ':');
    if (!target || target == copy)
        option_fail(cli, "--mount must be SRC:DST[:ro], not '%s'", text);
    *target++ = 0;
    struct mount mount = {.target = target};
    char *mode = strchr(target, ':');
    if (mode) {
        *mode++ = 0;
        if (strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0)
            option_fail(cli, "--mount must end in ro or rw, not '%s'", mode);
        mount.read_only = mode[1] == 'o';
    }
    if (target[0] != '/')
        option_fail(cli, "the target of --mount must be an absolute path, not '%s'", target);
    char *real = realpath(copy, NULL);
    if (!real)
        option_fail(cli, "--mount: '%s' does not exist on this machine", copy);
    mount.source = arena_strdup(&cli->arena, real);
    free(real);
    return mount;
}

/* Converts "SRC:DST[:ro]" to mounts with absolute sources. Exits 2 if malformed. */
static const struct mount *box_options_mounts(struct cli *cli, const struct row_texts *list) {
    if (list->count > LIMIT_MOUNTS)
        option_fail(cli, "at most %u mounts", LIMIT_MOUNTS);
    struct mount *mounts = arena_alloc(&cli->arena, (list->count + 1) * sizeof *mounts);
    for (size_t i = 0; i < list->count; i++)
        mounts[i] = boxopt_mount(cli, list->items[i]);
    return mounts;
}

const char *box_options_directory(struct cli *cli, const char *what, const char *given, bool home) {
    const char *own = getenv("HOME");
    char *real = realpath(given, NULL), *real_home = own && *own ? realpath(own, NULL) : NULL;
    struct stat status;
    if (!real || stat(real, &status) < 0 || !S_ISDIR(status.st_mode))
        option_fail(cli, "%s '%s' is not a directory on this machine", what, given);
    if (strcmp(real, "/") == 0)
        option_fail(cli, "%s would be the whole machine; name a directory below it", what);
    if (!home && real_home && strcmp(real, real_home) == 0)
        option_fail(cli, "%s would be your home directory, with all your keys; name a directory in it", what);
    if (!text_utf8(real, strlen(real)))
        option_fail(cli, "%s '%s': its path is not UTF-8", what, given);
    const char *path = arena_strdup(&cli->arena, real);
    free(real);
    free(real_home);
    return path;
}

const char **box_options_env(struct cli *cli, const struct row_texts *list) {
    if (!list->count)
        return NULL;
    if (list->count > LIMIT_ENV_COUNT)
        option_fail(cli, "at most %u variables", LIMIT_ENV_COUNT);
    const char **env = arena_alloc(&cli->arena, (list->count + 1) * sizeof *env);
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->items[i], *value = strchr(text, '=');
        if (!text[0] || value == text)
            option_fail(cli, "--env must be K=V, not '%s'", text);
        const char *here = value ? NULL : getenv(text);
        if (value)
            env[count++] = text;
        else if (here)
            env[count++] = arena_printf(&cli->arena, "%s=%s", text, here);
    }
    return env;
}

void box_options_env_json(struct cli *cli, const struct row_texts *list, struct json *json) {
    const char **env = box_options_env(cli, list);
    if (!env)
        return;
    json_put_open(json, "env", '{');
    for (; *env; env++) {
        const char *value = strchr(*env, '=');
        json_keyn(json, *env, (size_t)(value - *env));
        json_str(json, value + 1);
    }
    json_close(json, '}');
}

void box_options_request(struct cli *cli, const struct box_options *options, struct box_request *ret_request) {
    *ret_request = (struct box_request){
        .backend = options->backend,
        .template_name = options->template_name,
        .shell = options->shell,
        .env = box_options_env(cli, &options->env),
        .mounts = box_options_mounts(cli, &options->mounts),
        .mount_count = options->mounts.count,
        .has_memory = options->memory_mb,
        .has_cpus = options->cpus > 0,
        .has_pids = options->pids,
        .has_disk = options->disk_mb,
        .has_open_files = options->open_files,
        .has_output = options->output_bytes,
        .limits = {.memory_mb = options->memory_mb,
                   .cpus = options->cpus,
                   .pids = options->pids,
                   .disk_mb = options->disk_mb,
                   .open_files = options->open_files,
                   .output_bytes = options->output_bytes},
        .container = {.user = options->container_user,
                      .runtime = options->runtime,
                      .platform = options->platform,
                      .pull = options->pull,
                      .read_only = options->read_only,
                      .image_init = options->image_init},
        .network = boxopt_network(cli, options),
        .one_shot = true,
    };
}

static void boxopt_container(const struct box_options *options, struct json *json) {
    if (!options->container_user && !options->runtime && !options->platform && !options->pull && !options->read_only &&
        !options->image_init)
        return;
    json_put_open(json, "container", '{');
    json_put_some(json, "user", options->container_user);
    json_put_some(json, "runtime", options->runtime);
    json_put_some(json, "platform", options->platform);
    json_put_some(json, "pull", options->pull);
    json_put_some(json, "init", options->image_init ? "image" : NULL);
    if (options->read_only)
        json_put_bool(json, "read_only", true);
    json_close(json, '}');
}

void box_options_json(struct cli *cli, const struct box_options *options, struct json *json) {
    uint64_t seconds;
    if (options->idle_timeout) {
        if (!text_u64(options->idle_timeout, UINT64_MAX / 1000, &seconds))
            option_fail(cli, "--idle-timeout must be a number of seconds, not '%s'", options->idle_timeout);
        json_put_uint(json, "idle_timeout_ms", seconds * 1000);
    }
    if (options->temporary)
        json_put_bool(json, "temporary", true);
    json_put_some(json, "agent", options->agent);
    json_put_some(json, "machine", options->machine);
    json_put_some(json, "backend", options->backend);
    json_put_some(json, "template", options->template_name);
    const char *network = boxopt_network(cli, options);
    if (network && network[0] == '{')
        json_put_raw(json, "network", network, strlen(network));
    else
        json_put_some(json, "network", network);
    json_put_some(json, "shell", options->shell);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"memory_mb", options->memory_mb},
                   {"pids", options->pids},
                   {"disk_mb", options->disk_mb},
                   {"open_files", options->open_files},
                   {"output_bytes", options->output_bytes}};
    json_put_open(json, "limits", '{');
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value)
            json_put_uint(json, numbers[i].key, numbers[i].value);
    if (options->cpus > 0)
        json_put_double(json, "cpus", options->cpus);
    json_close(json, '}');
    boxopt_container(options, json);
    const struct mount *mounts = box_options_mounts(cli, &options->mounts);
    if (options->mounts.count)
        json_put_open(json, "mounts", '[');
    for (size_t i = 0; i < options->mounts.count; i++) {
        json_open(json, '{');
        json_put_str(json, "source", mounts[i].source);
        json_put_str(json, "target", mounts[i].target);
        json_put_bool(json, "read_only", mounts[i].read_only);
        json_close(json, '}');
    }
    if (options->mounts.count)
        json_close(json, ']');
    box_options_env_json(cli, &options->env, json);
    if (!options->secrets.count)
        return;
    json_put_open(json, "secrets", '[');
    for (size_t i = 0; i < options->secrets.count; i++)
        json_str(json, options->secrets.items[i]);
    json_close(json, ']');
}
