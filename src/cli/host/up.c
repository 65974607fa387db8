/* `cubby up` and `cubby down`: a daemon on this machine, for people who begin. Invariant: a daemon that answers is left
 * alone, and only one that `cubby up` has started is ended. */
#include <jansson.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>

#include "backend/places.h"
#include "base/base.h"
#include "cli/box/boxes.h"
#include "cli/cli.h"
#include "cli/host/login.h"
#include "cli/host/open.h"
#include "cli/rest/context.h"
#include "cli/rest/list.h"

extern char **environ;

#define UP_WAIT_MS 30000u
#define UP_EVERY_US 50000
#define UP_TOKEN_MS 10000u

struct up_values {
    bool open, boxes, yes;
    const char *state;
};

const struct row up_options[] = {
    OPTION("open", 0, BOOL, struct up_values, open, NULL, "open the page in a browser"),
    OPTION("state", 0, TEXT, struct up_values, state, "DIR", "the state directory of the daemon"),
    {.name = NULL},
};
const struct row down_options[] = {
    OPTION("boxes", 0, BOOL, struct up_values, boxes, NULL, "remove all boxes first"),
    OPTION("yes", 'y', BOOL, struct up_values, yes, NULL, "do not ask"),
    {.name = NULL},
};

struct up {
    struct cli *cli;
    struct up_values values;
    char **options; /* for cubbyd */
    uint64_t step_ms;
    const char *log;
    pid_t pid; /* of a child in the background; 0: a service */
};

static void up_step(struct up *up, const char *text) {
    uint64_t now_ms = clock_ms();
    bool color = cli_color(STDERR_FILENO);
    fprintf(stderr, "%s✓%s %s (%.1f s)\n", color ? "\x1b[32m" : "", color ? COLOR_OFF : "", text,
            (double)(now_ms - up->step_ms) / 1000);
    up->step_ms = now_ms;
}

/* ---- programs ---- */

/* Runs it without output. Returns whether it exited 0. */
static bool up_ran(const char *const *argv) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    int number = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (number == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return number == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#define UP_RAN(...) up_ran((const char *const[]){__VA_ARGS__, NULL})

/* A program of ours: next to this one, where `make install` puts it, or in PATH. */
static const char *up_program(struct cli *cli, const char *name) {
    static const char *const places[] = {"", "../sbin/", "../bin/"};
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *slash = len > 0 ? memrchr(self, '/', (size_t)len) : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        const char *path = arena_printf(&cli->arena, "%.*s/%s%s", (int)(slash - self), self, places[i], name);
        if (access(path, X_OK) == 0)
            return path;
    }
    return name;
}

/* "--listen" of a daemon at that URL; NULL: it is not on this machine. */
static const char *up_listen(struct cli *cli, const char *url) {
    const char *host = strncmp(url, "http://", 7) == 0 ? url + 7 : "";
    if (strncmp(url, "unix:", 5) == 0)
        return url;
    if (strncmp(host, "localhost:", 10) == 0)
        return arena_printf(&cli->arena, "127.0.0.1:%.*s", (int)strcspn(host + 10, "/"), host + 10);
    return strncmp(host, "127.0.0.1:", 10) == 0 ? arena_copy(&cli->arena, host, strcspn(host, "/")) : NULL;
}

static const char *up_pid_file(struct cli *cli) {
    return context_path(&cli->arena, "XDG_STATE_HOME", ".local/state", "cubbyd.pid");
}

/* ---- starting ---- */

static char **up_command(struct up *up, const char *listen, const char *const *before) {
    size_t count = 0;
    char **argv = arena_alloc(&up->cli->arena, (text_list_count((const char *const *)up->options) + 24) * sizeof *argv);
    for (; *before; before++)
        argv[count++] = (char *)(uintptr_t)*before;
    argv[count++] = (char *)(uintptr_t)up_program(up->cli, "cubbyd");
    argv[count++] = (char *)(uintptr_t) "--listen";
    argv[count++] = (char *)(uintptr_t)listen;
    if (up->values.state) {
        argv[count++] = (char *)(uintptr_t) "--state";
        argv[count++] = (char *)(uintptr_t)up->values.state;
    }
    for (char **option = up->options; *option; option++)
        argv[count++] = *option;
    return argv;
}

/* In the background, with its log in a file. */
static int up_detach(struct up *up, const char *listen, struct err *err) {
    struct cli *cli = up->cli;
    const char *pid_file = up_pid_file(cli), *none = NULL;
    up->log = context_path(&cli->arena, "XDG_STATE_HOME", ".local/state", "cubbyd.log");
    if (!pid_file || !up->log)
        return err_set(err, ERR_INVALID, "neither XDG_STATE_HOME nor HOME names a directory for the daemon's log");
    TRY(context_write(up->log, "", 0, err));
    char **argv = up_command(up, listen, &none);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, up->log, O_WRONLY | O_APPEND, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    int number = posix_spawnp(&up->pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (number)
        return err_errno(err, number, "cannot start %s", argv[0]);
    const char *text = arena_printf(&cli->arena, "%d\n", (int)up->pid);
    return context_write(pid_file, text, strlen(text), err);
}

static int up_start(struct up *up, struct err *err) {
    const char *listen = up_listen(up->cli, remote_url()), *runtime = getenv("XDG_RUNTIME_DIR");
    bool plain = !up->options[0] && !up->values.state && strcmp(remote_url(), CONTEXT_DEFAULT_URL) == 0;
    bool systemd = access("/run/systemd/system", F_OK) == 0;
    if (!listen)
        return err_set(err, ERR_INVALID, "no daemon answers at %s, and only one on this machine can be started here",
                       remote_url());
    if (systemd && plain && geteuid() == 0 && UP_RAN("systemctl", "cat", "cubbyd")) {
        bool ran = UP_RAN("systemctl", "start", "cubbyd");
        return ran ? 0 : err_set(err, ERR_IO, "systemctl could not start cubbyd; see `journalctl -u cubbyd`");
    }
    if (systemd && geteuid() != 0 && runtime &&
        access(arena_printf(&up->cli->arena, "%s/systemd/private", runtime), F_OK) == 0) {
        static const char *const before[] = {
            "systemd-run", "--user", "--unit=cubbyd", "--collect", "-p", "Delegate=yes", "--", NULL};
        if (up_ran((const char *const *)up_command(up, listen, before)))
            return 0;
    }
    return up_detach(up, listen, err);
}

static int up_wait(struct up *up, struct err *err) {
    uint64_t end_ms = clock_ms() + UP_WAIT_MS;
    while (remote_call(up->cli, "GET", "/healthz", NULL, NULL, err) < 0) {
        int status;
        bool gone = up->pid && waitpid(up->pid, &status, WNOHANG) == up->pid;
        char *said = arena_alloc(&up->cli->arena, 4097);
        if (!gone && clock_ms() < end_ms) {
            usleep(UP_EVERY_US);
            continue;
        }
        ssize_t len = up->log ? fd_read_file(AT_FDCWD, up->log, said, 4096) : -1;
        if (gone && len > 0)
            return err_set(err, ERR_IO, "cubbyd ended: %.400s", said);
        return err_set(err, ERR_TIMEOUT, "cubbyd does not answer at %s%s%s", remote_url(), up->log ? "; see " : "",
                       up->log ? up->log : "");
    }
    return 0;
}

/* ---- the token ---- */

/* Asks ourselves for a token by the files of the daemon, as its user or root may. */
static const char *up_token(struct up *up) {
    const char *state = up->values.state ? up->values.state : places_state(&up->cli->arena);
    const char *argv[] = {"/proc/self/exe", "token",    "create",  "--scope", "admin",
                          "--label",        "cubby up", "--state", state,     NULL};
    char *line = arena_alloc(&up->cli->arena, 4096);
    int ends[2], status;
    pid_t pid;
    if (!state || pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int number = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t got = number ? -1 : fd_read_full(ends[0], line, 4095);
    close(ends[0]);
    while (!number && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    line[strcspn(line, "\n")] = 0;
    return got > 0 && *line ? line : NULL;
}

static int up_login(struct up *up, struct err *err) {
    json_auto_t *who = NULL;
    struct context context = *context_now();
    int code = login_check(up->cli, &context, &who, err);
    if (code != -ERR_UNAUTHORIZED)
        return code;
    context.name = context.name ? context.name : "local";
    context.token = up_token(up);
    if (!context.token)
        return err_set(err, ERR_UNAUTHORIZED,
                       "%s requires a token, and none can be made here; ask its administrator, then `cubby login`",
                       context.url);
    /* The daemon looks for tokens that others made from time to time. */
    uint64_t end_ms = clock_ms() + UP_TOKEN_MS;
    while ((code = login_check(up->cli, &context, &who, err)) == -ERR_UNAUTHORIZED && clock_ms() < end_ms)
        usleep(UP_EVERY_US);
    TRY(code);
    TRY(login_keep(&context, err));
    up_step(up, "logged in; the token is kept for later commands");
    return 0;
}

static void up_next(struct up *up) {
    const char *url = remote_url();
    bool http = strncmp(url, "http", 4) == 0;
    printf("\nTry it:   cubby shell\n");
    if (http)
        printf("Page:     cubby open   (%s/ui/)\n", url);
    printf("Agents:   claude mcp add cubby -- %s mcp\n"
           "          codex mcp add cubby -- %s mcp\n"
           "          Cursor, .cursor/mcp.json: {\"mcpServers\":{\"cubby\":{\"command\":\"%s\",\"args\":[\"mcp\"]}}}\n"
           "End it:   cubby down\n",
           up_program(up->cli, "cubby"), up_program(up->cli, "cubby"), up_program(up->cli, "cubby"));
}

int command_up(struct cli *cli, int argc, char **argv) {
    struct up up = {.cli = cli, .step_ms = clock_ms()};
    struct err err = {0};
    option_parse(cli, argc, argv, &up.values);
    if (cli->plain_words > 0)
        option_fail(cli, "unexpected argument '%s'; options for cubbyd need -- before them", argv[0]);
    up.options = argv;
    int code = remote_call(cli, "GET", "/healthz", NULL, NULL, ERR_IGNORED);
    if (code == 0) {
        up_step(&up, arena_printf(&cli->arena, "a daemon answers at %s", remote_url()));
    } else {
        if (doctor_lacking(cli))
            return 1;
        up_step(&up, "this machine has what boxes need");
        code = up_start(&up, &err);
        if (code == 0)
            code = up_wait(&up, &err);
        if (code == 0)
            up_step(&up, arena_printf(&cli->arena, "cubbyd runs and answers at %s", remote_url()));
    }
    if (code == 0)
        code = up_login(&up, &err);
    if (code < 0)
        return cli_fail(&err);
    up_next(&up);
    const char *url = NULL;
    if (up.values.open && (open_url(cli, "boxes", &url, &err) < 0 || open_browser(url) < 0))
        fprintf(stderr, "cubby: no browser was opened; `cubby open --print` prints the address\n");
    return 0;
}

/* ---- down ---- */

/* The daemon in the background, if it is the one that we started. */
static pid_t up_running(struct cli *cli) {
    const char *path = up_pid_file(cli);
    char text[32], exe[64], program[PATH_MAX];
    uint64_t pid;
    if (!path || fd_read_file(AT_FDCWD, path, text, sizeof text - 1) <= 0)
        return 0;
    text[strcspn(text, "\n")] = 0;
    if (!text_u64(text, INT32_MAX, &pid) || pid < 2)
        return 0;
    snprintf(exe, sizeof exe, "/proc/%u/exe", (unsigned)pid);
    ssize_t len = readlink(exe, program, sizeof program - 1);
    program[len > 0 ? len : 0] = 0;
    const char *name = strrchr(program, '/');
    return name && strncmp(name + 1, "cubbyd", 6) == 0 ? (pid_t)pid : 0;
}

static int up_remove_boxes(struct cli *cli, bool yes) {
    const struct boxes_view view = {.all = true};
    json_auto_t *boxes = boxes_get(cli, &view);
    size_t i, count = json_array_size(boxes);
    json_t *box;
    int status = 0;
    if (count && !yes && !cli_confirm("Remove %zu box%s with all files?", count, count == 1 ? "" : "es"))
        exit(1);
    json_array_foreach(boxes, i, box) status |=
        rest_each(cli, "DELETE", remote_path(cli, rest_text(box, "id"), "", NULL), NULL, rest_text(box, "id"));
    return status;
}

int command_down(struct cli *cli, int argc, char **argv) {
    struct up_values values = {0};
    struct err err = {0};
    if (option_parse(cli, argc, argv, &values) > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    int status = values.boxes ? up_remove_boxes(cli, values.yes) : 0;
    pid_t pid = up_running(cli);
    bool root = geteuid() == 0, systemd = access("/run/systemd/system", F_OK) == 0;
    if (status)
        return status;
    if (pid && kill(pid, SIGTERM) == 0) {
        for (uint64_t end_ms = clock_ms() + UP_WAIT_MS; up_running(cli) == pid && clock_ms() < end_ms;)
            usleep(UP_EVERY_US);
        if (up_running(cli) == pid)
            return cli_fail((err_set(&err, ERR_TIMEOUT, "cubbyd (pid %d) has not ended yet", (int)pid), &err));
        unlink(up_pid_file(cli));
    } else if (systemd && (root ? UP_RAN("systemctl", "is-active", "-q", "cubbyd")
                                : UP_RAN("systemctl", "--user", "is-active", "-q", "cubbyd"))) {
        if (!(root ? UP_RAN("systemctl", "stop", "cubbyd") : UP_RAN("systemctl", "--user", "stop", "cubbyd")))
            return cli_fail((err_set(&err, ERR_IO, "systemctl could not stop cubbyd"), &err));
    } else {
        return cli_fail((err_set(&err, ERR_NOT_FOUND, "no daemon that `cubby up` has started runs here"), &err));
    }
    fprintf(stderr, "cubbyd was stopped%s\n", values.boxes ? "" : "; boxes are found again at the next start");
    return 0;
}
