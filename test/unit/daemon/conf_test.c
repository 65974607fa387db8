/* The configuration file: what is read, what is refused and with which line, and what one user gets on top of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/conf_table.h"
#include "tap.h"

static struct err err;

static char path[] = "/tmp/conf-test-XXXXXX";

static int load(const char *text, size_t len, struct conf **ret_conf) {
    char *argv[] = {"cubbyd", "--config", path, "--check", NULL};
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text, 1, len, file) != len || fclose(file))
        exit(1);
    err = (struct err){0};
    *ret_conf = NULL;
    return conf_new(4, argv, ret_conf, &err);
}

static struct conf *fine(const char *text, const char *name) {
    struct conf *conf;
    ok(load(text, strlen(text), &conf) == 0, name);
    if (!conf)
        exit(1);
    return conf;
}

/* Refused; the error has the line, the word, and not the value of SECRET. */
static void refused(const char *text, size_t len, unsigned line, const char *word) {
    struct conf *conf;
    char where[64], name[400];
    snprintf(where, sizeof where, "%s line %u:", path, line);
    int r = load(text, len, &conf);
    snprintf(name, sizeof name, "line %u: %s", line, word);
    ok_all(name, r < 0, !conf, (!line || strstr(err.text, where)), strstr(err.text, word),
           !strstr(err.text, "hunter2"));
    conf_unref(conf);
}

#define REFUSED(text, line, word) refused(text, sizeof(text) - 1, line, word)

static void test_refused(void) {
    REFUSED("listen: 127.0.0.1:1\nnonsense: 1\n", 2, "unknown option 'nonsense'");
    REFUSED("memory-mb: 1\n", 1, "unknown option");
    REFUSED("pids: 9\nmemory_mb: 100\npids: 10\n", 3, "pids is given twice");
    REFUSED("limits: {memory_mb: 100}\nmemory_mb: 200\n", 2, "memory_mb is given twice");
    REFUSED("limits:\n  listen: x\n", 2, "not one of the limits");
    REFUSED("limits: 5\n", 1, "limits must be a mapping");
    REFUSED("memory_mb: -1\n", 1, "memory_mb must be a number");
    REFUSED("memory_mb: 1e3\n", 1, "memory_mb must be a number");
    REFUSED("memory_mb: 99999999999999999999\n", 1, "memory_mb must be a number");
    REFUSED("memory_mb: 3\n", 1, "0 or at least 16");
    REFUSED("pids: 7\n", 1, "0 or at least 8");
    REFUSED("cpus: nan\n", 1, "cpus must be a number");
    REFUSED("cpus: .inf\n", 1, "cpus must be a number");
    REFUSED("cpus: -0.5\n", 1, "cpus must be a number");
    REFUSED("memory_mb:\n  - 5\n", 2, "single value");
    REFUSED("memory_mb: {a: 5}\n", 1, "single value");
    REFUSED("audit: yes\n", 1, "audit must be true or false");
    REFUSED("listen: ''\n", 1, "may not be empty");
    REFUSED("mount_sources: /srv\n", 1, "must be a list");
    REFUSED("mount_sources: [srv]\n", 0, "absolute");
    REFUSED("mount_sources:\n- /srv\n- [/x]\n", 3, "single value");
    REFUSED("disk_quota: magic\n", 1, "must be one of");
    REFUSED("networks: [none, host]\n", 1, "words of");
    REFUSED("backend: docker9\n", 0, "unknown backend 'docker9'");
    REFUSED("backends: [jail, warp]\n", 0, "unknown backend 'warp'");
    REFUSED("tls_cert: /x\n", 0, "belong together");
    REFUSED("- a\n- b\n", 1, "must be a mapping");
    REFUSED("just text\n", 1, "must be a mapping");
    REFUSED("? [a]\n: b\n", 1, "must be text");
    REFUSED("listen: \"a\\0b\"\n", 1, "single value");
}

static void test_parts_refused(void) {
    REFUSED("env:\n  A: 1\n  A: 2\n", 3, "A is given twice");
    REFUSED("env:\n  9A: 1\n", 2, "'9A' is not a name");
    REFUSED("env:\n- A=1\n- B\n", 3, "'B' is not a name");
    REFUSED("env: text\n", 1, "must be a list");
    REFUSED("env: {A: [1]}\n", 1, "single value");
    REFUSED("mounts:\n- source: /srv\n", 2, "needs 'source' and 'target'");
    REFUSED("mounts:\n- {source: /srv, target: /mnt, mode: 5}\n", 2, "unknown key 'mode'");
    REFUSED("mounts:\n- {source: /srv, target: /mnt, read_only: 1}\n", 2, "read_only must be true or false");
    setenv("CONF_TEST_SECRET", "/hidden", 1); /* what comes from the environment is not shown */
    REFUSED("mounts:\n- {source: '$CONF_TEST_SECRET/{x}', target: /mnt}\n", 2, "from the environment");
    REFUSED("mounts:\n- {source: /srv, target: /mnt}\n- {source: /x, target: /mnt}\n", 3, "'/mnt' is given twice");
    REFUSED("mounts:\n- {source: /srv, target: /proc/self}\n", 2, "inside /proc");
    REFUSED("mounts:\n- {source: /srv, target: /sys}\n", 2, "inside /sys");
    REFUSED("mounts:\n- {source: /srv, target: /dev/x}\n", 2, "inside /dev");
    REFUSED("mounts:\n- {source: /srv, target: /}\n", 2, "target");
    REFUSED("mounts:\n- {source: srv, target: /mnt}\n", 2, "source");
    REFUSED("mounts:\n- {source: '/srv/{thread}', target: /mnt}\n", 2, "without {user}");
    REFUSED("mounts:\n- {source: '/srv/{pid}', target: /mnt}\n", 2, "braces");
    REFUSED("mounts: {a: b}\n", 1, "must be a list");
    REFUSED("templates:\n- ../x\n", 2, "not a template name");
    REFUSED("templates:\n- {path: /x}\n", 2, "needs 'name'");
    REFUSED("templates:\n  a: relative\n", 2, "must be absolute");
    REFUSED("default_template: a/b\n", 0, "not a template name");
    REFUSED("tokens: none\n", 1, "must be a list");
    REFUSED("tokens:\n- {token: hunter2, scope: admin}\n", 2, "at least 16");
    REFUSED("tokens:\n- {token: hunter2hunter2hunter2, scope: root}\n", 2, "scope");
    REFUSED("tokens:\n- {token: hunter2hunter2hunter2, scope: user}\n", 2, "needs 'user'");
    REFUSED("tokens:\n- {token: hunter2hunter2hunter2, scope: user, user: a b}\n", 2, "user must be");
    REFUSED("tokens:\n- {scope: admin}\n", 2, "needs 'token'");
    REFUSED("tokens:\n- {token_sha256: xyz, scope: admin}\n", 2, "64 lower-case");
    REFUSED("users: [ann]\n", 1, "users must be a mapping");
    REFUSED("users:\n  a b: {}\n", 2, "user must be");
    REFUSED("users:\n  ann: 5\n", 2, "must be a mapping");
    REFUSED("users:\n  ann:\n    listen: x\n", 3, "listen cannot differ by user");
    REFUSED("users:\n  ann:\n    pids: 100\n    pids: 100\n", 4, "twice");
    REFUSED("users:\n  ann: {}\n  ann: {}\n", 3, "ann is given twice");
    REFUSED("users:\n  ann:\n    templates:\n    - {name: x, path: /y}\n", 4, "user's templates are names");
    REFUSED("users:\n  ann:\n    backend: warp\n", 0, "user ann: backend");
}

static void test_yaml(void) {
    REFUSED("a: [1, 2\nb: 3\n", 2, "not YAML");
    REFUSED("env: &a\n  A: 1\nusers:\n  x: {env: *a}\n", 4, "aliases");
    REFUSED("a: &a [x,x]\nb: &b [*a,*a]\n", 2, "aliases");
    REFUSED("listen: x\n---\nlisten: y\n", 2, "second document");
    REFUSED("\x7f"
            "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01",
            1, "not YAML");
    REFUSED("listen: x\nstate: \xff\xfe\n", 2, "not YAML");
    size_t size = (4u << 20) + 1;
    char *large = malloc(size);
    memset(large, '#', size);
    refused(large, size, 0, "more than 4194304 bytes");
    memset(large, '[', size);
    refused(large, size - 1, 1, "nested too deep");
    for (size_t i = 0; i + 2 <= size; i += 2)
        memcpy(large + i, "- ", 2);
    refused(large, size - 1, 1, "nested too deep");
    for (size_t i = 0; i + 2 <= size; i += 2)
        memcpy(large + i, "-\n", 2);
    refused(large, size - 1, 250000, "too many values");
    free(large);
    struct conf *conf = fine("", "an empty file");
    conf_unref(conf);
    conf = fine("# nothing\n", "comments only");
    conf_unref(conf);
    char *argv[] = {"cubbyd", "--config", "/tmp", "--check", NULL};
    ok(conf_new(4, argv, &conf, &err) < 0 && strstr(err.text, "directory"), "a directory");
    argv[2] = "/nonexistent/x";
    ok(conf_new(4, argv, &conf, &err) < 0 && strstr(err.text, "/nonexistent/x"), "a file that is not there");
}

static void test_environment(void) {
    setenv("CONF_TEST", "hunter2", 1);
    setenv("CONF_NUMBER", "333", 1);
    setenv("CONF_TOKEN", "hunter2hunter2hunter2", 1);
    unsetenv("CONF_NONE");
    struct conf *conf = fine("memory_mb: $CONF_NUMBER\n"
                             "env: {A: $CONF_TEST, B: 'x${CONF_TEST}y$$z', C: '$CONF_NUMBER-$CONF_TEST'}\n"
                             "tokens:\n- {token: $CONF_TOKEN, scope: admin}\n",
                             "references to the environment");
    const struct row_texts *env = &conf->share.env;
    ok(conf->share.memory_mb == 333, "a whole value");
    ok_all("parts of values, and a dollar", env->count == 3, strcmp(env->items[0], "A=hunter2") == 0,
           strcmp(env->items[1], "B=xhunter2y$z") == 0, strcmp(env->items[2], "C=333-hunter2") == 0);
    uint8_t hash[32];
    auth_hash("hunter2hunter2hunter2", hash);
    ok(conf->token_count == 1 && memcmp(conf->tokens[0].sha256, hash, 32) == 0, "a token");
    conf_unref(conf);
    REFUSED("listen: 127.0.0.1:1\nenv:\n- A=$CONF_NONE\n", 3, "$CONF_NONE is not set");
    REFUSED("env:\n  A: ${CONF_NONE}\n", 2, "$CONF_NONE is not set");
    REFUSED("env:\n  A: 5$\n", 2, "'$' must be followed");
    REFUSED("env:\n  A: ${CONF_TEST\n", 2, "'$' must be followed");
    REFUSED("env:\n  A: $5\n", 2, "'$' must be followed");
    REFUSED("memory_mb: $CONF_TEST\n", 1, "not '$CONF_TEST'");
    REFUSED("audit: $CONF_TEST\n", 1, "not '$CONF_TEST'");
    REFUSED("networks: [$CONF_TEST]\n", 1, "not '$CONF_TEST'");
    REFUSED("tokens:\n- {token: $CONF_TEST, scope: admin}\n", 2, "at least 16");
}

static void test_users(void) {
    struct conf *conf = fine("users:\n"
                             "  zoe: {limits: {pids: 99}, env: {B: 3, C: 4}, networks: [none]}\n"
                             "  ann:\n"
                             "    memory_mb: 64\n"
                             "    mounts:\n"
                             "    - {source: /srv/ann, target: /data}\n"
                             "    max_boxes_per_user: 2\n"
                             "    user_memory_mb: 128\n"
                             "pids: 50\n"
                             "env: {A: 1, B: 2}\n"
                             "mounts:\n"
                             "- {source: /srv/all, target: /data, read_only: true}\n"
                             "- {source: '/srv/{user}', target: /home, create: true}\n"
                             "templates: {small: /srv/small.tar, host: ''}\n"
                             "default_template: small\n",
                             "users before the options of all");
    struct policy *policy = conf_policy(conf);
    conf_unref(conf); /* the policy holds it */
    const struct share *ann = policy_for(policy, "ann"), *zoe = policy_for(policy, "zoe"),
                       *bob = policy_for(policy, "bob");
    ok_all("own values, and everybody's", ann->limits.memory_mb == 64, ann->limits.pids == 50, ann->max_boxes == 2,
           ann->memory_mb == 128);
    ok_all("through limits, too", zoe->limits.pids == 99, zoe->limits.memory_mb == 2048, zoe->max_boxes == 4096);
    ok(bob == &policy->share && bob->limits.pids == 50, "a user without a row");
    ok_all("his variables come after everybody's", !strcmp(zoe->env[0], "A=1"), !strcmp(zoe->env[1], "B=2"),
           !strcmp(zoe->env[2], "B=3"), !strcmp(zoe->env[3], "C=4"), !zoe->env[4]);
    ok_all("his mount on the same target replaces everybody's", ann->mount_count == 2,
           !strcmp(ann->mounts[0].source, "/srv/ann"), !ann->mounts[0].read_only,
           !strcmp(ann->mounts[1].target, "/home"), ann->mounts[1].create);
    ok(bob->mount_count == 2 && bob->mounts[0].read_only, "which others have");
    ok_all("networks", zoe->networks, !strcmp(zoe->networks[0], "none"), !zoe->networks[1], !bob->networks);
    ok_all("templates", !strcmp(bob->templates[0], "small"), !strcmp(bob->templates[1], "host"), !bob->templates[2],
           !strcmp(ann->template_name, "small"));
    policy_unref(policy);
}

static void at_stake(const char *text, bool want) {
    struct conf *conf = fine(text, "a configuration");
    ok(conf->host_at_stake == want, want ? "it hands out files of the host" : "it hands out nothing of the host");
    if (conf->host_at_stake != want)
        printf("# %s\n", text);
    conf_unref(conf);
}

/* Whether a local user without a token is an admin depends on it: no option that names files of the host is left out. */
static void test_host_at_stake(void) {
    at_stake("", false);
    at_stake("allow_local: false\nenv: {A: 1}\ntemplates: [small]\nusers: {a: {pids: 10}}\n", false);
    at_stake("allow_local: true\n", true);
    at_stake("local_maps: [/a=/b]\n", true);
    at_stake("mount_sources: [/srv]\n", true);
    at_stake("mounts: [{source: /srv, target: /data}]\n", true);
    at_stake("users: {a: {}, b: {mounts: [{source: /srv, target: /data}]}}\n", true);
    at_stake("deerflow_home: /srv\n", true);
    at_stake("deerflow_mounts: [{source: /srv, target: /data}]\n", true);
    at_stake("global_skills: [/srv]\n", true);
    at_stake("global_agents: [/srv]\n", true);
    at_stake("skill_creator: /srv\n", true);
    at_stake("templates: {small: /srv/small.tar}\n", true);
    for (const struct row *option = conf_options; option->name; option++)
        ok(option->type != CONF_MOUNTS || option->flags & CONF_HOST, "an option of mounts is marked as the host's");
}

static void test_long_list(void) {
    char text[4096] = "env:\n";
    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "- V%d=%d\n", i, i);
    struct conf *conf = fine(text, "a long list");
    const struct row_texts *env = &conf->share.env;
    ok_all("whole and in order", env->count == 200, !strcmp(env->items[0], "V0=0"),
           !strcmp(env->items[199], "V199=199"), !env->items[200]);
    conf_unref(conf);
}

/* The same defaults with a daemon and without one (cubby mcp). */
static void test_tools(void) {
    struct conf *conf = fine("", "no word of tools");
    struct tool_settings found = conf->tools;
    found.env_prefixes = tool_defaults.env_prefixes;
    found.guard = tool_defaults.guard;
    ok(memcmp(&found, &tool_defaults, sizeof found) == 0, "tools have the defaults of the table of tools");
    ok_all("and the guard", conf->guard.mode == GUARD_AUDIT, !conf->guard.allow, !conf->guard.roots,
           conf->guard.absolute_paths, conf->guard.parents, conf->tools.guard == &conf->guard);
    const char *const *prefixes = conf->tools.env_prefixes;
    ok_all("and variables that no command gets", !strcmp(prefixes[0], "KUBERNETES_"), !strcmp(prefixes[1], "SERVICE_"),
           !strcmp(prefixes[2], "SECRET_"), !prefixes[3]);
    conf_unref(conf);
    conf = fine("tool_bash_chars: 7\ntool_offload: false\ntool_guard: block\ntool_guard_allow: [ls, cat]\n"
                "tool_guard_absolute_paths: false\ntool_guard_roots: [/srv]\ntool_env_remove: [AWS_]\n",
                "words of tools");
    ok_all("limits", conf->tools.bash_chars == 7, !conf->tools.offload, conf->tools.read_before_write);
    ok_all("the guard", conf->guard.mode == GUARD_BLOCKS, !strcmp(conf->guard.allow[1], "cat"), !conf->guard.allow[2],
           !conf->guard.absolute_paths, !strcmp(conf->guard.roots[0], "/srv"), !conf->guard.roots[1]);
    ok(!strcmp(conf->tools.env_prefixes[3], "AWS_") && !conf->tools.env_prefixes[4], "one more beginning");
    conf_unref(conf);
    REFUSED("tool_guard: maybe\n", 1, "must be one of off|audit|warn|block");
    REFUSED("tool_guard_allow: []\n", 0, "tool_guard_allow is empty");
    REFUSED("tool_guard: off\ntool_guard_allow: [ls]\n", 0, "tool_guard is off, but rules for it are set");
    REFUSED("tool_guard: off\ntool_guard_parents: false\n", 0, "tool_guard is off, but rules for it are set");
    REFUSED("tool_guard_roots: [srv]\n", 0, "absolute path");
    REFUSED("tool_grep_results: 501\n", 1, "from 1 to 500");
    REFUSED("users:\n  ann:\n    tool_guard: off\n", 3, "cannot differ by user");
}

static char changed[512];

static void note(void *user, const char *name, bool at_once) {
    (void)user;
    snprintf(changed + strlen(changed), sizeof changed - strlen(changed), "%s%s ", name, at_once ? "" : "!");
}

static void differ(const char *first, const char *second, const char *want) {
    struct conf *a = fine(first, "one"), *b = fine(second, "another");
    changed[0] = 0;
    conf_changes(a, b, note, NULL);
    ok(strcmp(changed, want) == 0, want[0] ? want : "no change");
    if (strcmp(changed, want) != 0)
        printf("# got %s\n", changed);
    conf_unref(a);
    conf_unref(b);
}

static void test_changes(void) {
    differ("pids: 100\nusers: {a: {pids: 10}}\n", "users: {a: {pids: 10}}\nlimits: {pids: 100}\n", "");
    differ("pids: 100\nlisten: 127.0.0.1:1\n", "pids: 101\n", "listen! pids ");
    differ("users: {a: {pids: 10}}\n", "users: {a: {pids: 11}}\n", "users ");
    differ("users: {a: {}}\n", "users: {b: {}}\n", "users ");
    differ("env: {A: 1}\n", "env: {A: 2}\n", "env ");
    differ("mounts: [{source: /a, target: /b}]\n", "mounts: [{source: /a, target: /b, create: true}]\n", "mounts ");
    differ("templates: {a: /x}\n", "templates: {a: /y}\n", "templates ");
    differ("tokens: [{token: hunter2hunter2hunter2, scope: admin}]\n",
           "tokens: [{token: hunter2hunter2hunter2, scope: read}]\n", "tokens ");
    differ("cpus: 1\nstore: btrfs\n", "cpus: 1.5\n", "cpus store! ");
    differ("tool_guard: off\n", "tool_ls_chars: 5\n", "tool_ls_chars tool_guard ");
}

static void test_docker(void) {
    REFUSED("docker_host: ssh://x\n", 0, "docker_host must be");
    REFUSED("docker_host: unix:///x\ndocker_tls: true\n", 0, "are for tcp:// engines");
    REFUSED("docker_cert_dir: certs\n", 0, "docker_cert_dir must be an absolute path");
    REFUSED("docker_network: host\n", 0, "'host', which boxes never get");
    REFUSED("docker_network: 'container:x'\n", 0, "docker_network must be");
    REFUSED("docker_image: '--privileged'\n", 0, "docker_image");
    REFUSED("docker_images: []\n", 0, "docker_images is empty");
    REFUSED("docker_images: ['a b']\n", 0, "docker_images: 'a b' is not a pattern");
    REFUSED("users:\n  ann: {docker_images: []}\n", 0, "user ann: docker_images is empty");
    REFUSED("docker_pull: sometimes\n", 1, "docker_pull must be one of");
    REFUSED("docker_runtime: a/b\n", 0, "docker_runtime");
    REFUSED("docker_runtimes: [-x]\n", 0, "docker_runtimes");
    REFUSED("users:\n  ann: {docker_host: 'unix:///x'}\n", 2, "docker_host cannot differ by user");
    REFUSED("docker_registries: [a]\n", 1, "must be a mapping");
    REFUSED("docker_registries:\n  a.b:\n    username: x\n", 2, "needs 'username' and 'password'");
    REFUSED("docker_registries:\n  a.b: {username: x, password: hunter2, password_file: /x}\n", 2,
            "either directly or by a file");
    REFUSED("docker_registries:\n  a.b: {username: x, password: hunter2, token: hunter2}\n", 2,
            "either a password or a token");
    REFUSED("docker_registries:\n  a.b: {token_file: x}\n", 2, "absolute");
    REFUSED("docker_registries:\n  a.b: {token: ''}\n", 2, "token has 1 to");
    REFUSED("docker_registries:\n  a.b: {secret: hunter2}\n", 2, "unknown key 'secret'");
    REFUSED("docker_registries:\n  a.b/c: {token: hunter2}\n", 2, "'a.b/c' is not a registry");
    REFUSED("docker_registries:\n  plain: {token: hunter2}\n", 2, "'plain' is not a registry");
    REFUSED("docker_registries:\n  a.b: {token: $NOSUCH}\n", 2, "$NOSUCH is not set");
    setenv("CONF_TEST_WORD", "hunter2", 1);
    struct conf *conf = fine("docker_host: tcp://h:2376\ndocker_tls: true\ndocker_image: a\ndocker_images: [b]\n"
                             "docker_registries:\n  index.docker.io: {username: u, password: $CONF_TEST_WORD}\n"
                             "  'r.example:5000': {token_file: /run/token}\n"
                             "users: {ann: {docker_images: [c/**], docker_pull: never, docker_runtime: runsc}}\n",
                             "an engine, registries and users' own images");
    const struct docker_settings *docker = &conf->docker;
    ok_all("registries with their secrets", docker->registry_count == 2,
           !strcmp(docker->registries[0].host, "docker.io"), !strcmp(docker->registries[0].password, "hunter2"),
           !strcmp(docker->registries[1].token_file, "/run/token"));
    struct policy *policy = conf_policy(conf);
    const struct share *all = policy_for(policy, "x"), *ann = policy_for(policy, "ann");
    ok_all("everybody's images", !strcmp(all->images[0], "b"), !strcmp(all->pull, "missing"), !all->runtime,
           !strcmp(all->image, "a"));
    ok(!strcmp(ann->images[0], "c/**") && !strcmp(ann->pull, "never") && !strcmp(ann->runtime, "runsc") &&
           !strcmp(ann->image, "a"),
       "a user's own");
    policy_unref(policy);
    conf_unref(conf);
    differ("docker_registries: {a.b: {token: x}}\n", "docker_registries: {a.b: {token: y}}\n", "docker_registries! ");
    differ("docker_images: [a]\n", "docker_images: [b]\n", "docker_images ");
}

int main(void) {
    tap_about = err.text;
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    test_refused();
    test_parts_refused();
    test_yaml();
    test_environment();
    test_users();
    test_host_at_stake();
    test_long_list();
    test_tools();
    test_changes();
    test_docker();
    unlink(path);
    return tap_end();
}
