/* cubby-runner: the program inside every box. The jail backend starts `enter FD`, the local one `serve`, an engine in a
 * container `serve` with --dial or --stdio, and `relay`; a foreign runner `serve` with --pieces; the probe `trial`; the
 * daemon, on the host, `squash` and `attach`. Invariant: argv[0] is always shown as cubby-runner. */
#include <sys/prctl.h>

#include "base/base.h"
#include "runner/container.h"
#include "runner/runner.h"
#include "runner/ops/squash.h"
#include "runner/sudo.h"

static int main_usage(void) {
    fprintf(
        stderr,
        "usage: cubby-runner serve [--wire FD] [--listen FD] [--root DIR] --workspace DIR [--shell PATH]\n"
        "                          [--cgroup FD] [--map VIRTUAL=REAL[:ro]]... [--env K=V]...\n"
        "                          [--dial SOCKET] [--stdio 1] [--pieces 1] [--pids N] [--open-files N]\n"
        "                          [--no-set-id 1]\n"
        "       cubby-runner enter FD | relay | attach | trial [DIR] | squash TARGET LAYER... | --version | --ops\n");
    return 2;
}

static int main_print_ops(void) {
    for (const struct op_def *const *row = op_table; *row; row++)
        printf("%u\t%s\t%s\n", (unsigned)(*row)->op, op_name((*row)->op),
               (*row)->begin || (*row)->quick ? "loop" : "worker");
    return 0;
}

enum { ENV_DEFAULTS = 8 }; /* variables that a backend adds */

struct options {
    struct runner_config config;
    const char *root, *dial;
    uint64_t stdio, pieces, no_set_id;
    const char *maps[LIMIT_MOUNTS + 1], *env[LIMIT_ENV_COUNT + ENV_DEFAULTS + 1];
    size_t map_count, env_count;
};

static bool main_option_set(struct options *options, const char *name, const char *value) {
    struct runner_config *config = &options->config;
    const struct {
        const char *name;
        int *fd;
        const char **text;
        uint64_t *number;
    } table[] = {
        {"--wire", .fd = &config->wire_fd},
        {"--listen", .fd = &config->listen_fd},
        {"--cgroup", .fd = &config->cgroup_fd},
        {"--root", .text = &options->root},
        {"--workspace", .text = &config->workspace},
        {"--shell", .text = &config->shell},
        {"--dial", .text = &options->dial},
        {"--stdio", .number = &options->stdio},
        {"--pieces", .number = &options->pieces},
        {"--pids", .number = &config->pids},
        {"--open-files", .number = &config->open_files},
        {"--no-set-id", .number = &options->no_set_id},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) {
            uint64_t number;
            if (table[i].fd) {
                if (!text_u64(value, 1u << 20, &number) || fcntl((int)number, F_SETFD, FD_CLOEXEC) < 0)
                    return false;
                *table[i].fd = (int)number;
                return true;
            }
            if (table[i].number)
                return text_u64(value, INT64_MAX, table[i].number);
            *table[i].text = value;
            return true;
        }
    if (strcmp(name, "--map") == 0 && options->map_count < LIMIT_MOUNTS)
        options->maps[options->map_count++] = value;
    else if (strcmp(name, "--env") == 0 && options->env_count < LIMIT_ENV_COUNT + ENV_DEFAULTS && strchr(value, '='))
        options->env[options->env_count++] = value;
    else
        return false;
    return true;
}

/* Lists of processes show our name, also for our forks, but not the box's variables. */
static char **main_hide_arguments(int argc, char **argv) {
    static const char name[] = "cubby-runner";
    char **copy = xcalloc((size_t)argc + 1, sizeof *copy);
    for (int i = 0; i < argc; i++) {
        copy[i] = xstrdup(argv[i]);
        memset(argv[i], 0, strlen(argv[i]));
    }
    if (strlen(copy[0]) >= sizeof name - 1)
        memcpy(argv[0], name, sizeof name - 1);
    return copy;
}

static int main_serve(int argc, char **argv) {
    static struct options options = {
        .config = {.wire_fd = -1, .listen_fd = -1, .root_fd = -1, .cgroup_fd = -1, .oom_fd = -1, .landlock_fd = -1},
        .root = "/"};
    struct runner_config *config = &options.config;
    config->shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    for (int i = 0; i < argc; i += 2)
        if (i + 1 >= argc || !main_option_set(&options, argv[i], argv[i + 1])) {
            fprintf(stderr, "cubby-runner: bad option '%s'\n", argv[i]);
            return main_usage();
        }
    config->container = options.dial || options.stdio;
    config->no_set_id = options.no_set_id;
    bool carried = config->container || options.pieces;
    if (!config->workspace || (config->wire_fd < 0 && config->listen_fd < 0 && !carried))
        return main_usage();
    config->root_fd = open(options.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (config->root_fd < 0) {
        fprintf(stderr, "cubby-runner: %s: %s\n", options.root, strerror(errno));
        return 125;
    }
    struct err err;
    if ((options.map_count && maps_new(options.maps, &config->maps, &err) < 0) ||
        (config->container && confine_container(config, &err) < 0) ||
        (carried && container_wire(config, options.dial, options.stdio, options.pieces, &err) < 0)) {
        fprintf(stderr, "cubby-runner: %s\n", err.text);
        return 125;
    }
    if (config->open_files)
        config->open_files = init_open_files(config->open_files);
    config->env = carried ? container_env(options.env) : options.env;
    if (config->container)
        config->oom_fd = container_oom(config->root_fd);
    config->agent_uid = geteuid();
    config->agent_gid = getegid();
    config->can_root = geteuid() == 0;
    init_main(config);
}

int main(int argc, char **argv) {
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    if (argc && !strcmp(slash ? slash + 1 : argv[0], "sudo"))
        return sudo_main(argc, argv);
    prctl(PR_SET_NAME, "cubby-runner", 0, 0, 0);
    uint64_t fd;
    if (argc == 3 && strcmp(argv[1], "enter") == 0 && text_u64(argv[2], 1u << 20, &fd))
        enter_main((int)fd);
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "trial") == 0)
        return trial_main(argv[2]);
    if (argc == 2 && strcmp(argv[1], "relay") == 0)
        return relay_main();
    if (argc == 2 && strcmp(argv[1], "attach") == 0)
        attach_main();
    if (argc == 2 && strcmp(argv[1], "capture") == 0)
        return capture_main();
    if (argc >= 2 && strcmp(argv[1], "squash") == 0)
        return squash_main(argc - 2, argv + 2);
    if (argc >= 4 && strcmp(argv[1], "serve") == 0 && strcmp(argv[2], "--dial") == 0)
        return main_serve(argc - 2, main_hide_arguments(argc, argv) + 2);
    if (argc >= 2 && strcmp(argv[1], "serve") == 0)
        return main_serve(argc - 2, argv + 2);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("cubby-runner " CUBBY_VERSION) < 0;
    if (argc == 2 && strcmp(argv[1], "--ops") == 0)
        return main_print_ops();
    return main_usage();
}
