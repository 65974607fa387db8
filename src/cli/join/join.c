/* `cubby join`: makes one directory of this machine a box of a server elsewhere, over one connection that it opens
 * itself. Its files and rules: join.h. Invariant: however it ends, its boxes end first; if this machine cannot isolate
 * boxes, it says so and ends; it never runs without isolation unless asked to. */
#include <poll.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <sys/file.h>

#include "backend/places.h"
#include "base/base.h"
#include "cli/join/join.h"
#include "base/sync.h"
#include "base/sha256.h"
#include "cli/standalone.h"
#include "cli/terminal.h"

enum {
    LOOK_MS = 1000,        /* between two checks of the workspace and the status line */
    LINE_STACK = 1 << 20,  /* TLS and a resolver */
    LEAVE_MS = 3000,       /* for the connection to say good-bye */
    WORKSPACE_BYTES = 256, /* what a wire's greeting holds of it (wire/demux.h) */
    WORKER_BOXES = 1000,
    WORKER_POOL = 8
};

const struct row join_options[] = {
    OPTION(
        "server", 's', TEXT, struct join_values, server, "URL",
        "server to join: wss://HOST[/…] (default: CUBBY_URL); worker: several heads by ',', the first names the state"),
    OPTION("token-file", 0, TEXT, struct join_values, token_file, "FILE",
           "file whose first line is the token of this machine"),
    OPTION("token", 0, TEXT, struct join_values, token, "TOKEN", "the token itself (default: CUBBY_TOKEN)"),
    OPTION("workspace", 'w', TEXT, struct join_values, workspace, "DIR",
           "directory that agents work in (default: the current one)"),
    OPTION("name", 0, TEXT, struct join_values, name, "NAME", "name of this machine (default: the token's)"),
    OPTION_OF("isolation", 0, TEXT, struct join_values, isolation, "jail|none",
              "jail (default): agents reach nothing else of this machine; none: they have all your rights"),
    OPTION("allow", 0, TEXTS, struct join_values, allow, "DIR[:ro]",
           "let agents use one more directory, at its own path"),
    OPTION("env", 'e', TEXTS, struct join_values, env, "K=V",
           "set an environment variable of every box (K alone: to its value here)"),
    OPTION("shell", 0, TEXT, struct join_values, shell, "PATH", "shell of the boxes"),
    OPTION("ca", 0, TEXT, struct join_values, authority, "FILE", "trust the certificate authorities in this file"),
    OPTION("worker", 0, BOOL, struct join_values, worker, NULL,
           "take boxes of all users of the server (backend fleet), each in a jail of its own; needs a worker's token"),
    OPTION("boxes", 0, INT, struct join_values, boxes, "N",
           "worker: at most N boxes (default: one for each 64 MiB of memory, at most 1000)"),
    OPTION("memory", 0, INT, struct join_values, memory_mb, "MIB",
           "worker: memory that boxes may take in total (default: four fifths of the machine's)"),
    OPTION("pool-size", 0, INT, struct join_values, pool, "N",
           "worker: jails kept ready for new boxes, at most 256 (default: 8)"),
    OPTION("text", 0, BOOL, struct join_values, text, NULL,
           "send text messages alone, for proxies that drop others (default: if needed)"),
    OPTION_OF("allow-weaker", 0, TEXTS, struct join_values, allow_weaker, "landlock",
              "accept a box without it where the kernel lacks it"),
    OPTION("state", 0, TEXT, struct join_values, state, "DIR", "directory for the state of its boxes"),
    {.name = NULL},
};

/* ---- options ---- */

static void join_plan_server(struct join *join) {
    const struct join_values *values = &join->values;
    const char *server = values->server ? values->server : getenv("CUBBY_URL");
    const char *token = getenv("CUBBY_TOKEN"), *path = values->token_file;
    char text[4096];
    if (!server || !*server)
        option_fail(join->cli, "missing server: --server wss://HOST, or CUBBY_URL");
    struct row_texts servers = {0};
    char *list = arena_strdup(&join->cli->arena, server), *rest = NULL;
    for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const char *address = join_address(&join->cli->arena, one);
        if (!address)
            option_fail(join->cli, "'%.200s' is not the address of a server: wss://HOST[:PORT][/PATH]", one);
        rows_texts_add(&join->cli->arena, &servers, address);
    }
    if (!servers.count || (servers.count > 1 && !values->worker))
        option_fail(join->cli, servers.count ? "several servers are for a worker, whose heads they are"
                                             : "missing server: --server wss://HOST, or CUBBY_URL");
    join->servers = servers.items;
    join->server = servers.items[0];
    if (values->authority && access(values->authority, R_OK) < 0)
        option_fail(join->cli, "--ca %s: %s", values->authority, strerror(errno));
    if (values->token && path)
        option_fail(join->cli, "--token and --token-file cannot be combined");
    if (path) {
        ssize_t len = fd_read_file(AT_FDCWD, path, text, sizeof text);
        if (len < 0)
            option_fail(join->cli, "--token-file %s: %s", path, strerror((int)-len));
        text[strcspn(text, "\r\n")] = 0;
        if (!*text)
            option_fail(join->cli, "--token-file %s: its first line is empty", path);
        join->token = arena_strdup(&join->cli->arena, text);
    } else if (values->token || (token && *token))
        join->token = arena_strdup(&join->cli->arena, values->token ? values->token : token);
    else
        option_fail(join->cli,
                    "missing token: --token-file FILE, --token TOKEN or CUBBY_TOKEN; the server's administrator "
                    "makes one with `cubby token create --user USER --runner NAME`, or --worker NAME");
    unsetenv("CUBBY_TOKEN");
}

static int join_mount_shorter(const void *a, const void *b) {
    size_t x = strlen(((const struct mount *)a)->target), y = strlen(((const struct mount *)b)->target);
    return x < y ? -1 : x > y;
}

/* Without isolation only file calls are kept from writing, below the descriptor of one directory. A read-only directory
 * inside a writable one could be reached by exchanging a link at the right moment. */
static void join_check_mounts(struct join *join) {
    for (size_t i = 0; i < join->mount_count; i++)
        for (size_t j = i + 1; j < join->mount_count; j++) {
            const struct mount *outer = &join->mounts[i], *inner = &join->mounts[j];
            if (strcmp(outer->source, inner->source) == 0)
                option_fail(join->cli, "%s is named twice", inner->source);
            if (!join->isolated && inner->read_only && !outer->read_only && path_within(inner->source, outer->source))
                option_fail(join->cli, "--isolation none cannot keep %s read-only inside %s", inner->source,
                            outer->source);
        }
}

/* A jail has its own home; without a jail the user's variables are kept. */
static void join_plan_env(struct join *join) {
    static const char *const kept[] = {"HOME", "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM"};
    struct arena *arena = &join->cli->arena;
    struct row_texts env = {0};
    if (join->isolated)
        rows_texts_add(arena, &env, "HOME=" JOIN_HOME);
    for (size_t i = 0; !join->isolated && i < sizeof kept / sizeof *kept; i++)
        if (getenv(kept[i]))
            rows_texts_add(arena, &env, arena_printf(arena, "%s=%s", kept[i], getenv(kept[i])));
    for (const char **asked = box_options_env(join->cli, &join->values.env); asked && *asked; asked++)
        rows_texts_add(arena, &env, *asked);
    join->box_env = env.items ? env.items : arena_alloc(arena, sizeof *env.items);
}

/* Whatever is about one directory of this machine is not for a worker. */
static void join_plan_worker(struct join *join) {
    struct join_values *values = &join->values;
    if (values->workspace || values->allow.count || values->isolation || values->env.count || values->shell)
        option_fail(
            join->cli,
            "--worker goes without --workspace, --allow, --isolation, --env and --shell: its boxes are jails that "
            "the server describes");
    uint64_t total_mb = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
    if (!values->memory_mb)
        values->memory_mb = total_mb - total_mb / 5;
    if (!values->boxes)
        values->boxes = total_mb / 64 < WORKER_BOXES ? total_mb / 64 : WORKER_BOXES;
    if (values->pool > 256)
        option_fail(join->cli, "--pool-size is at most 256");
    if (values->boxes > LIMIT_CHANNELS)
        option_fail(join->cli, "--boxes is at most %u", LIMIT_CHANNELS);
    join->isolated = true;
    join->workspace = WORKSPACE_PATH;
    join->box_env = arena_alloc(&join->cli->arena, sizeof *join->box_env);
    join->env.pool_size = (unsigned)values->pool;
}

static void join_plan(struct join *join) {
    struct join_values *values = &join->values;
    if (values->worker) {
        join_plan_server(join);
        join_plan_worker(join);
        return;
    }
    if (values->boxes || values->memory_mb || values->pool != WORKER_POOL)
        option_fail(join->cli, "--boxes, --memory and --pool-size are a worker's");
    join->isolated = !values->isolation || strcmp(values->isolation, "jail") == 0;
    if (values->shell && access(values->shell, X_OK) < 0)
        option_fail(join->cli, "--shell '%s' is not a program on this machine", values->shell);
    if (!values->shell)
        values->shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    join_plan_server(join);
    const struct row_texts *allow = &join->values.allow;
    struct mount *mounts = arena_alloc(&join->cli->arena, (allow->count + 1) * sizeof *mounts);
    if (allow->count + 1 > LIMIT_MOUNTS)
        option_fail(join->cli, "--allow: at most %u directories", LIMIT_MOUNTS - 1);
    join->workspace =
        box_options_directory(join->cli, "the workspace", join->values.workspace ? join->values.workspace : ".", false);
    if (strlen(join->workspace) >= WORKSPACE_BYTES)
        option_fail(join->cli, "the workspace '%s' has a path of more than %d bytes", join->workspace,
                    WORKSPACE_BYTES - 1);
    mounts[0] = (struct mount){.source = join->workspace, .target = join->workspace};
    for (size_t i = 0; i < allow->count; i++) {
        size_t len = strlen(allow->items[i]);
        bool read_only = len > 3 && strcmp(allow->items[i] + len - 3, ":ro") == 0;
        const char *given = arena_printf(&join->cli->arena, "%.*s", (int)(read_only ? len - 3 : len), allow->items[i]);
        const char *path = box_options_directory(join->cli, "--allow", given, false);
        mounts[i + 1] = (struct mount){.source = path, .target = path, .read_only = read_only};
    }
    qsort(mounts, allow->count + 1, sizeof *mounts, join_mount_shorter); /* a nested mount comes after its parent */
    join->mounts = mounts;
    join->mount_count = allow->count + 1;
    join_check_mounts(join);
    join_plan_env(join);
}

/* ---- the state directory ---- */

/* The same server, directory and name find the same boxes again, even after this program was killed. */
static const char *join_state_name(struct join *join) {
    const char *name = join->values.name ? join->values.name : "";
    const char *all = arena_printf(&join->cli->arena, "%s\n%s\n%s\n%s", join->server, join->workspace, name,
                                   join->values.worker ? "worker"
                                   : join->isolated    ? "jail"
                                                       : "none");
    uint8_t digest[32];
    char hex[65];
    sha256(all, strlen(all), digest);
    text_hex(hex, digest, sizeof digest);
    return arena_printf(&join->cli->arena, "%.16s", hex);
}

static int join_state_claim(struct join *join, const char *path, struct err *err) {
    struct stat status = {0};
    while (status.st_nlink == 0) { /* another process removed it between open and flock */
        fd_close(&join->state_lock);
        join->state_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (join->state_lock < 0)
            return err_errno(err, errno, "%s", path);
        if (flock(join->state_lock, LOCK_EX | LOCK_NB) < 0) {
            fd_close(&join->state_lock);
            return err_set(err, ERR_BUSY, "%s is already joined to %s by another `cubby join` on this machine",
                           join->workspace, join->server);
        }
        if (fstat(join->state_lock, &status) < 0)
            return err_errno(err, errno, "%s", path);
    }
    return 0;
}

static int join_state_open(struct join *join, struct err *err) {
    struct arena *arena = &join->cli->arena;
    const char *top = join->values.state;
    if (!top)
        top = places_state(arena) ? arena_printf(arena, "%s-join", places_state(arena)) : NULL;
    if (!top)
        return err_set(err, ERR_INVALID, "no directory for state: set HOME or give --state DIR");
    TRY(places_make(top, 0700, err));
    char *real = realpath(top, NULL);
    if (!real)
        return err_errno(err, errno, "cannot open the state directory '%s'", top);
    top = arena_strdup(arena, real);
    free(real);
    for (size_t i = 0; i < join->mount_count; i++)
        if (path_within(top, join->mounts[i].source) || path_within(join->mounts[i].source, top))
            return err_set(err, ERR_INVALID,
                           "%s and the state directory %s must not contain each other; choose another with --state DIR",
                           join->mounts[i].source, top);
    const char *own = arena_printf(arena, "%s/%s", top, join_state_name(join));
    const char *lock = arena_printf(arena, "%s.lock", own);
    TRY(join_state_claim(join, lock, err));
    if (mkdir(own, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "%s", own);
    join->env.state_dir = own;
    char text[24];
    if (fd_read_file(AT_FDCWD, arena_printf(arena, "%s/epoch", own), text, sizeof text) > 0 &&
        !text_u64(text, UINT64_MAX / 2, &join->epoch))
        return err_set(err, ERR_IO, "%s/epoch does not hold an epoch; remove it", own);
    return 0;
}

/* ---- while joined ---- */

struct join_view { /* what the user was shown */
    bool terminal;
    bool line; /* the status line is shown */
    uint64_t changes;
    enum join_state state;
    char why[600];
};

static void join_say(struct join_view *view, const char *format, ...) {
    va_list args;
    if (view->line)
        fputs("\r\033[K", stderr);
    view->line = false;
    va_start(args, format);
    fputs("cubby: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static void join_show_line(struct join *join, struct join_view *view) {
    char text[512];
    unsigned columns, rows;
    uint64_t now = clock_ms(), latency_us = atomic_load(&join->latency_us);
    terminal_size(STDERR_FILENO, &columns, &rows);
    if (join->state == JOIN_ONLINE) {
        int at = snprintf(text, sizeof text, "%s: online", join->name);
        if (latency_us)
            at += snprintf(text + at, sizeof text - (size_t)at, ", %.1f ms", (double)latency_us / 1000);
        snprintf(text + at, sizeof text - (size_t)at, ", %zu %s (Ctrl-C ends it)", join->box_count,
                 join->box_count == 1 ? "box" : "boxes");
    } else if (join->state == JOIN_OFFLINE) {
        uint64_t wait_ms = join->next_try_ms > now ? join->next_try_ms - now : 0;
        snprintf(text, sizeof text, "%s: offline, next try in %llu s (Ctrl-C ends it)",
                 *join->name ? join->name : "cubby", (unsigned long long)((wait_ms + 999) / 1000));
    } else {
        snprintf(text, sizeof text, "connecting to %s", join->server);
    }
    fprintf(stderr, "\r\033[K%.*s", (int)columns - 1, text);
    fflush(stderr);
    view->line = true;
}

/* Runs until there is a reason to end. Returns 0 for a signal, else the error. */
static int join_watch(struct join *join, struct join_view *view, int signal_fd, struct err *err) {
    struct stat first, now;
    const char *place = join->values.worker ? join->env.state_dir : join->workspace;
    const char *what = join->values.worker ? "state directory" : "workspace";
    if (stat(place, &first) < 0)
        return err_errno(err, errno, "the %s '%s'", what, place);
    for (;;) {
        struct pollfd wait[2] = {{.fd = signal_fd, .events = POLLIN}, {.fd = join->wake_main, .events = POLLIN}};
        eventfd_t count;
        poll(wait, 2, LOOK_MS);
        if (wait[1].revents)
            eventfd_read(join->wake_main, &count);
        if (wait[0].revents && terminal_signal(signal_fd) != SIGWINCH)
            return 0;
        pthread_mutex_lock(&join->lock);
        if (view->changes != join->changes) {
            /* Below join->lock. */
            if (join->state == JOIN_ONLINE && view->state != JOIN_ONLINE && join->values.worker)
                join_say(view, "worker %s of %s: at most %llu boxes, state in %s", join->name, join->server,
                         (unsigned long long)join->values.boxes, join->env.state_dir);
            else if (join->state == JOIN_ONLINE && view->state != JOIN_ONLINE)
                join_say(view, "joined %s as %s of user %s: agents work in %s (isolation %s)", join->server, join->name,
                         join->user, join->workspace, join->isolated ? "jail" : "none");
            else if (join->state == JOIN_OFFLINE && !join->over &&
                     (view->state != JOIN_OFFLINE || strcmp(view->why, join->why) != 0))
                join_say(view, "offline: %s; trying again", join->why);
            view->state = join->state;
            memcpy(view->why, join->why, sizeof view->why);
            view->changes = join->changes;
        }
        if (view->terminal)
            join_show_line(join, view);
        bool over = join->over;
        if (over)
            err_set(err, ERR_DENIED, "%s", join->why);
        pthread_mutex_unlock(&join->lock);
        if (over)
            return -err->code;
        if (stat(place, &now) < 0 || now.st_ino != first.st_ino || now.st_dev != first.st_dev)
            return err_set(err, ERR_NOT_FOUND, "the %s %s was removed or moved away", what, place);
    }
}

/* Waits a short time for the connection to close: the network may be dead. A second signal ends everything at once. */
static void join_wait_line(struct join *join, struct join_view *view, int signal_fd) {
    uint64_t until_ms = clock_ms() + LEAVE_MS;
    for (;;) {
        pthread_mutex_lock(&join->lock);
        bool done = join->line_done;
        pthread_mutex_unlock(&join->lock);
        uint64_t now = clock_ms();
        if (done || now >= until_ms)
            return;
        struct pollfd wait[2] = {{.fd = signal_fd, .events = POLLIN}, {.fd = join->wake_main, .events = POLLIN}};
        eventfd_t count;
        poll(wait, 2, (int)(until_ms - now));
        if (wait[1].revents)
            eventfd_read(join->wake_main, &count);
        if (wait[0].revents && terminal_signal(signal_fd) != SIGWINCH) {
            join_say(view, "ended at once; boxes may be left, which the next `cubby join` here finds");
            _exit(EXIT_OURS);
        }
    }
}

static int join_run(struct join *join, int signal_fd, struct err *err) {
    struct join_view view = {.terminal = isatty(STDERR_FILENO), .state = JOIN_CONNECTING};
    const struct passwd *who = getpwuid(geteuid());
    if (!join->isolated)
        join_say(&view,
                 "WARNING: --isolation none: agents of the server run commands here as %s, with all your rights.\n"
                 "cubby: Nothing keeps a command away from your other files, keys and network; only file calls "
                 "are kept inside\n"
                 "cubby: the workspace and the allowed directories.",
                 who ? who->pw_name : "you");
    join->wake_line = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    join->wake_main = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (join->wake_line < 0 || join->wake_main < 0)
        return err_errno(err, errno, "eventfd");
    int number = thread_detached(join_line, join, LINE_STACK);
    if (number)
        return err_errno(err, number, "cannot start a thread");
    int code = join_watch(join, &view, signal_fd, err);
    join_line_leave(join, code < 0 ? err->text : "ended by its user");
    join_wait_line(join, &view, signal_fd);
    join_say(&view, code < 0              ? "leaving"
                    : join->values.worker ? "leaving: its boxes stay, and the next `cubby join --worker` here has them"
                                          : "leaving: stopping its boxes");
    /* From here on the boxes end, which may take a while: the next Ctrl-C is the kernel's to answer. Not SIGHUP: a
     * terminal that goes may send it twice. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return code;
}

int command_join(struct cli *cli, int argc, char **argv) {
    struct join *join = arena_alloc(&cli->arena, sizeof *join);
    struct err err = {0};
    *join = (struct join){.values.pool = WORKER_POOL, .cli = cli, .state_lock = -1, .wake_line = -1, .wake_main = -1};
    pthread_mutex_init(&join->lock, NULL);
    pthread_cond_init(&join->changed, NULL);
    int words = option_parse(cli, argc, argv, &join->values);
    if (join->values.token) { /* other users of this machine can read a program's arguments */
        char *given = (char *)join->values.token;
        join->values.token = arena_strdup(&cli->arena, given);
        memset(given, '*', strlen(given));
    }
    if (words > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    join_plan(join);
    int signal_fd = terminal_signals(&err); /* before there is another thread that could get them */
    int code = signal_fd < 0 ? signal_fd : join_state_open(join, &err);
    if (code == 0)
        code = join_boxes_open(join, &err);
    if (code == 0)
        code = join_run(join, signal_fd, &err);
    join_boxes_close(join);
    /* Everything was removed, except what could not be ended. */
    if (join->state_lock >= 0 && join->env.state_dir && access(join->env.state_dir, F_OK) < 0)
        unlink(arena_printf(&join->cli->arena, "%s.lock", join->env.state_dir));
    fd_close(&join->state_lock);
    int status = code < 0 ? cli_fail(&err) : 0;
    if (join->wake_line >= 0 && !join->line_done) { /* its thread hangs in a dead network and still uses our memory */
        fflush(NULL);
        _exit(status);
    }
    return status;
}
