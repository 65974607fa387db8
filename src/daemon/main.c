/* cubbyd: reads its options, opens the boxes, serves HTTP until a signal. Called by people and by systemd.
 * Not to break: it never starts with less protection than asked for (tokens missing, runner missing, backend missing),
 * and never ends boxes on SIGTERM unless told to. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/store.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/prompt.h"
#include "box/cleanup.h"
#include "daemon/conf.h"
#include "front/events.h"
#include "front/native.h"

enum { EXIT_USAGE = 2, EXIT_FAILED = 125 };
#define DAEMON_FILES                                                                                                   \
    262144 /* 10,000 boxes with a wire, a root and a pidfd each, and as many connections; root may ask */

static int daemon_serve(const struct conf *conf, struct err *err);
static int daemon_cleanup(const struct conf *conf, struct err *err);

static void daemon_print_routes(void) {
    for (const struct route *route = native_routes; route->method; route++)
        printf("%s\t%s\t%s\t%s\n", route->method, route->pattern, route->name, route->summary);
}

static void daemon_print_openapi(void) {
    autobuf out;
    buf_init(&out, 4u << 20);
    openapi_write(native_routes, &out);
    fwrite(out.data, 1, out.len, stdout);
    putchar('\n');
}

int main(int argc, char **argv) {
    struct conf conf;
    struct err err = {0};
    int failed = conf_load(&conf, argc, argv, &err);
    if (failed) {
        fprintf(stderr, "cubbyd: %s\n", err.text);
        conf_done(&conf);
        return EXIT_USAGE;
    }
    switch (conf.action) {
    case CONF_HELP:
        conf_print_help(stdout);
        break;
    case CONF_VERSION:
        printf("cubbyd %s\n", CUBBY_VERSION);
        break;
    case CONF_OPTIONS:
        conf_print_options(stdout);
        break;
    case CONF_ROUTES:
        daemon_print_routes();
        break;
    case CONF_OPENAPI:
        daemon_print_openapi();
        break;
    case CONF_CHECK:
        printf("the configuration is fine\n");
        break;
    case CONF_CLEANUP:
        failed = daemon_cleanup(&conf, &err);
        break;
    case CONF_SERVE:
        failed = daemon_serve(&conf, &err);
        break;
    }
    if (failed)
        fprintf(stderr, "cubbyd: %s\n", err.text);
    conf_done(&conf);
    return failed ? EXIT_FAILED : 0;
}

/* ---- preparing ---- */

/* Makes the state directory and its parents; it holds everybody's files, so nobody else may look in. */
static int daemon_state(const char *path, char ret_real[PATH_MAX], struct err *err) {
    char part[PATH_MAX];
    struct stat stat_now;
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return err_set(err, ERR_INVALID, "the state directory's name is too long");
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0755) && errno != EEXIST)
            return err_errno(err, errno, "cannot make %s for the state; give another with --state DIR", part);
        *slash = '/';
    }
    if (mkdir(part, 0700) && errno != EEXIST)
        return err_errno(err, errno, "cannot make the state directory %s; give another with --state DIR", part);
    if (!realpath(part, ret_real) || stat(ret_real, &stat_now))
        return err_errno(err, errno, "state directory %s", part);
    if (!S_ISDIR(stat_now.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a directory; give another with --state DIR", part);
    if (stat_now.st_uid != geteuid())
        return err_set(err, ERR_DENIED, "the state directory %s belongs to uid %u; give another with --state DIR",
                       ret_real, stat_now.st_uid);
    if ((stat_now.st_mode & 077) && chmod(ret_real, 0700))
        return err_errno(err, errno, "cannot close %s to others", ret_real);
    return 0;
}

static int daemon_runner(const struct conf *conf, char ret_path[PATH_MAX], struct err *err) {
    static const char *const places[] = {"cubby-runner", "../libexec/cubby/cubby-runner"};
    char self[PATH_MAX], place[PATH_MAX + 64];
    if (conf->runner)
        return realpath(conf->runner, ret_path) && !access(ret_path, X_OK)
                   ? 0
                   : err_errno(err, errno, "the runner %s", conf->runner);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return err_errno(err, errno, "/proc/self/exe; mount /proc or give --runner PATH");
    self[n] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(place, sizeof place, "%s/%s", self, places[i]);
        if (realpath(place, ret_path) && !access(ret_path, X_OK))
            return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "no cubby-runner beside cubbyd (%s) nor in ../libexec/cubby; give --runner PATH",
                   self);
}

/* Only numeric loopback addresses and "localhost" are surely not reachable from outside. */
static bool daemon_loopback(const char *address, size_t len) {
    static const char *const starts[] = {"unix:", "127.", "[::1]:", "localhost:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (len >= strlen(starts[i]) && !strncmp(address, starts[i], strlen(starts[i])))
            return i != 1 || strspn(address, "0123456789.") == strcspn(address, ":");
    return false;
}

/* What a request without a token may be. Where root would hand the host itself to whoever asks (local boxes, mounts), it
 * matters who asks. */
static enum auth_mode daemon_auth_mode(const struct conf *conf, bool wide) {
    bool root = geteuid() == 0, host_at_stake = conf->allow_local || conf->mount_sources.count;
    if (!strcmp(conf->auth, "peer"))
        return AUTH_PEER;
    if (wide || !strcmp(conf->auth, "required"))
        return AUTH_REQUIRED;
    if (root && !host_at_stake && strncmp(conf->listen, "unix:", 5) != 0)
        log_warn("every local user is an admin on %s; --auth peer tells them apart, --auth required demands tokens",
                 conf->listen);
    return root && host_at_stake ? AUTH_PEER : AUTH_OPEN;
}

static int daemon_auth(const struct conf *conf, const char *state, struct auth **ret_auth, struct err *err) {
    bool wide = false;
    for (const char *p = conf->listen; *p; p += strcspn(p, ","), p += *p == ',')
        if (!daemon_loopback(p, strcspn(p, ",")))
            wide = true;
    enum auth_mode mode = daemon_auth_mode(conf, wide);
    *ret_auth = auth_new(mode);
    for (size_t i = 0; i < conf->token_count; i++)
        auth_add(*ret_auth, conf->tokens[i].sha256, conf->tokens[i].user, conf->tokens[i].scope);
    int failed = 0;
    for (size_t i = 0; i < conf->peer_uids.count && !failed; i++)
        failed = auth_add_peer(*ret_auth, conf->peer_uids.items[i], err);
    if (!failed)
        failed = auth_open_store(*ret_auth, state, err);
    if (!failed && (wide || mode == AUTH_REQUIRED) && !auth_count(*ret_auth))
        failed = err_set(err, ERR_DENIED,
                         "listening on %s demands tokens, and there are none: make the first one with `cubby token "
                         "create --scope admin --state %s`, put tokens: into the configuration, or listen on 127.0.0.1",
                         conf->listen, state);
    if (wide && !conf->tls_cert)
        log_warn(
            "tokens and everything else travel UNENCRYPTED to and from %s: give tls_cert and tls_key, or put a proxy "
            "with TLS before it",
            conf->listen);
    return failed;
}

static int daemon_socket(const struct conf *conf, struct http_config *config, struct err *err) {
    char *end;
    unsigned long mode = strtoul(conf->socket_mode, &end, 8);
    if (*end || end == conf->socket_mode || mode > 0777)
        return err_set(err, ERR_INVALID, "socket_mode must be octal, as 0660, not '%s'", conf->socket_mode);
    config->socket_mode = (unsigned)mode;
    config->socket_group = (gid_t)-1;
    if (!conf->socket_group)
        return 0;
    const struct group *group = getgrnam(conf->socket_group);
    if (!group)
        return err_set(err, ERR_NOT_FOUND, "socket_group: this machine has no group '%s'", conf->socket_group);
    config->socket_group = group->gr_gid;
    return 0;
}

static void daemon_limits(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        const struct rlimit more = {.rlim_cur = DAEMON_FILES, .rlim_max = DAEMON_FILES};
        if (limit.rlim_max >= DAEMON_FILES || setrlimit(RLIMIT_NOFILE, &more)) {
            limit.rlim_cur = limit.rlim_max;
            if (setrlimit(RLIMIT_NOFILE, &limit))
                log_warn("cannot raise the number of open files: %s", strerror(errno));
        }
    }
    umask(077);
}

static void daemon_log_level(const char *name) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            log_set_level((enum log_level)i);
}

/* ---- signals ---- */

struct daemon_signals {
    sigset_t set;
    struct http_server *server;
    unsigned drain_ms;
};

/* The first SIGTERM or SIGINT drains; a second one does not wait. */
static void *daemon_signal_thread(void *user) {
    struct daemon_signals *signals = user;
    for (unsigned drain_ms = signals->drain_ms;; drain_ms = 0) {
        int number;
        if (sigwait(&signals->set, &number))
            continue;
        if (number == SIGUSR2) /* the server has ended by itself */
            return NULL;
        log_info("%s: no new requests, %u ms for those that run", number == SIGINT ? "SIGINT" : "SIGTERM", drain_ms);
        http_server_stop(signals->server, drain_ms);
    }
}

static void daemon_block_signals(sigset_t *set) {
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

/* ---- serving ---- */

/* A limit that every box should have and that this machine cannot hold: refused, or left out where that is allowed and
 * nobody asked for this very limit. */
static int daemon_default_limit(const struct conf *conf, const struct backend_env *env, const struct check *check,
                                const char *name, uint64_t *limit, struct err *err) {
    if (check->ok || !*limit)
        return 0;
    if (!conf_given(conf, name) && backend_allows_weaker(env, check->weaker)) {
        *limit = 0;
        return 0;
    }
    return err_set(err, ERR_UNSUPPORTED, "boxes would have no %s here: %s; %s; or do without: %s", check->name,
                   check->detail, check->fix,
                   conf_given(conf, name) ? "take the limit out of the configuration" : "allow_weaker: [limits]");
}

/* What this machine lacks is said at the start, in the log; what may not be missing ends it. Boxes of backend local have
 * no walls: there a jail that somebody asks for is refused later, with the same words. */
static int daemon_walls(const struct conf *conf, const struct backend_env *env, struct limits *limits,
                        struct err *err) {
    struct check checks[64];
    size_t count = backend_checks(env, checks, sizeof checks / sizeof *checks);
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        if (!strcmp(checks[i].name, "memory limits"))
            failed = daemon_default_limit(conf, env, &checks[i], "memory_mb", &limits->memory_mb, err);
        if (!strcmp(checks[i].name, "process limits"))
            failed = daemon_default_limit(conf, env, &checks[i], "pids", &limits->pids, err);
        if (!checks[i].ok && checks[i].wall)
            log_warn("this machine lacks: %s: %s; %s", checks[i].name, checks[i].detail, checks[i].fix);
        else if (checks[i].partly)
            log_info("this machine has a part: %s: %s", checks[i].name, checks[i].detail);
    }
    return failed && strcmp(conf->backend, "jail") == 0 ? failed : 0;
}

static int daemon_audit(const struct conf *conf, const char *state, struct front *front, struct err *err) {
    const struct audit_options options = {
        .directory = state, .days = conf->audit_days, .max_bytes = conf->audit_max_mb << 20};
    front->audit_detail = conf->audit_detail;
    front->secret_env = (const char *const *)conf->env.items;
    int failed = conf->audit ? audit_open(&options, &front->audit, err) : 0;
    if (!failed)
        audit_event(front->audit, "daemon_started", NULL, NULL, "cubbyd " CUBBY_VERSION);
    return failed;
}

/* What happened to a box. */
static void daemon_event(void *user, const struct box_event *event) {
    const struct front *front = user;
    if (!event->asked)
        audit_event(front->audit, event->verb, event->id, event->user, event->detail);
    events_put(front->events, event);
}

/* Where boxes lie comes before whatever opens them. */
static int daemon_store(const struct backend_env *env, struct store **ret_store, struct err *err) {
    char text[4400];
    int failed = store_open(env, ret_store, err);
    if (!failed && *ret_store) {
        store_describe(*ret_store, text, sizeof text);
        log_info("%s", text);
    }
    return failed;
}

static int daemon_provider(const struct conf *conf, struct backend_env *env, struct front *front,
                           struct store **ret_store, struct provider **ret_provider, struct policy *policy,
                           struct err *err) {
    *policy = (struct policy){
        .mount_sources = (const char *const *)conf->mount_sources.items,
        .share = {.limits = {.memory_mb = conf->memory_mb,
                             .cpus = conf->cpus,
                             .pids = conf->pids,
                             .disk_mb = conf->disk_mb,
                             .open_files = conf->open_files,
                             .output_bytes = conf->output_bytes},
                  .env = (const char *const *)conf->env.items,
                  .idle_timeout_ms = conf->idle_timeout_ms,
                  .max_boxes = (unsigned)conf->max_boxes_per_user},
        .event = daemon_event,
        .event_user = front,
        .max_boxes = (unsigned)conf->max_boxes,
    };
    int failed = daemon_walls(conf, env, &policy->share.limits, err);
    if (failed)
        return failed;
    env->limits = policy->share.limits;
    failed = daemon_store(env, ret_store, err);
    return failed ? failed : provider_new(env, policy, conf->backend, ret_provider, err);
}

static int daemon_http(const struct conf *conf, struct front *front, struct err *err) {
    struct http_config config = {
        .routes = front->routes,
        .context = front,
        .head_timeout_ms = 10000,
        .body_timeout_ms = 30000,
        .write_timeout_ms = 60000,
        .idle_timeout_ms = 75000,
        .max_connections = (unsigned)conf->max_connections,
        .max_threads = (unsigned)conf->max_threads,
        .max_held_bytes = conf->body_memory_mb << 20,
        .min_rate_bytes = (unsigned)conf->min_rate_bytes,
        .tls_cert = conf->tls_cert,
        .tls_key = conf->tls_key,
        .check_host = true,
        .allowed_hosts = (const char *const *)conf->allowed_hosts.items,
        .admit = front_admit,
        .finished = front_finished,
    };
    int failed = daemon_socket(conf, &config, err);
    return failed ? failed : http_server_new(conf->listen, &config, &front->server, err);
}

static void daemon_ready(const struct conf *conf, const struct front *front) {
    const char *address = http_server_address(front->server);
    bool unix_socket = !strncmp(address, "unix:", 5);
    log_info("cubbyd %s ready on %s, state %s, default backend %s", CUBBY_VERSION, address, conf->state, conf->backend);
    if (unix_socket)
        log_info("try: curl --unix-socket %s -X POST http://localhost/v1/boxes", address + 5);
    else
        log_info("try: curl -X POST %s://%s/v1/boxes", conf->tls_cert ? "https" : "http", address);
}

static int daemon_run(const struct conf *conf, struct front *front, struct daemon_signals *signals, struct err *err) {
    pthread_t thread;
    int failed = daemon_http(conf, front, err);
    if (failed && strstr(err->text, strerror(EADDRINUSE)))
        return err_set(err, ERR_BUSY, "%s is in use, maybe by another cubbyd; choose another with --listen HOST:PORT",
                       conf->listen);
    if (failed)
        return failed;
    signals->server = front->server;
    signals->drain_ms = (unsigned)conf->drain_ms;
    int number = pthread_create(&thread, NULL, daemon_signal_thread, signals);
    if (number) {
        http_server_free(front->server);
        return err_errno(err, number, "cannot start a thread");
    }
    failed = auth_watch(front->auth, front->server, err);
    if (!failed) {
        daemon_ready(conf, front);
        http_server_run(front->server);
    }
    auth_unwatch(front->auth);
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
    http_server_free(front->server);
    log_info("stopped; boxes %s", conf->end_boxes ? "are ended" : "are left running for the next daemon");
    return failed;
}

static int daemon_serve(const struct conf *conf, struct err *err) {
    char state[PATH_MAX], runner[PATH_MAX];
    struct daemon_signals signals = {0};
    struct policy policy;
    struct front front = {
        .routes = native_routes,
        .default_backend = conf->backend,
        .max_upload_bytes = conf->max_upload_bytes,
        .max_unpack_entries = conf->max_unpack_entries,
        .max_calls_per_box = (unsigned)conf->max_calls_per_box,
        .tenant_limits = {.max_requests = (unsigned)conf->max_requests_per_user,
                          .boxes_per_minute = (unsigned)conf->box_rate_per_user},
        .started_ms = clock_wall_ms(),
        .events = events_new(),
    };
    daemon_log_level(conf->log_level);
    daemon_limits();
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* what a parent forgot to close is nothing for runners */
    daemon_block_signals(&signals.set);       /* before any thread, so that all inherit it */
    prompt_set(0, false, true);               /* the same: boxes that keep all processors busy delay no answer */
    int failed = daemon_runner(conf, runner, err);
    if (!failed)
        failed = daemon_state(conf->state, state, err);
    if (!failed)
        failed = daemon_auth(conf, state, &front.auth, err);
    struct backend_env env = {
        .state_dir = state,
        .runner_path = runner,
        .allow_local = conf->allow_local,
        .allow_weaker = (const char *const *)conf->allow_weaker.items,
        .local_maps = (const char *const *)conf->local_maps.items,
        .open_networks = (const char *const *)conf->open_networks.items,
        .pool_size = (unsigned)conf->pool_size,
        .disk_quota = conf->disk_quota,
        .disk_reserve = conf->disk_reserve,
        .store = conf->store,
        .store_mb = conf->store_mb,
    };
    struct store *store = NULL;
    if (!failed)
        failed = daemon_audit(conf, state, &front, err);
    if (!failed)
        failed = daemon_provider(conf, &env, &front, &store, &front.provider, &policy, err);
    if (!failed) {
        front.metrics = metrics_new(native_routes);
        failed = daemon_run(conf, &front, &signals, err);
        provider_free(front.provider, conf->end_boxes);
        metrics_free(front.metrics);
        audit_event(front.audit, "daemon_stopped", NULL, NULL, NULL);
    }
    store_close(store);
    audit_close(front.audit);
    events_free(front.events);
    auth_free(front.auth);
    return failed;
}

/* ---- instead of serving ---- */

static void daemon_removed(void *user, const char *what) {
    ++*(unsigned *)user;
    printf("removed %s\n", what);
}

static int daemon_cleanup(const struct conf *conf, struct err *err) {
    char state[PATH_MAX], runner[PATH_MAX];
    unsigned removed = 0, left = 0;
    daemon_log_level(conf->log_level);
    daemon_limits();
    signal(SIGPIPE, SIG_IGN);
    if (!realpath(conf->state, state)) /* not made here: a name mistyped would look cleaned up */
        return err_errno(err, errno, "state directory %s", conf->state);
    int failed = daemon_runner(conf, runner, err);
    const struct backend_env env = {.state_dir = state, .runner_path = runner, .allow_local = true};
    if (!failed)
        failed = cleanup_run(&env, daemon_removed, &removed, &left, err);
    if (failed)
        return failed;
    if (left)
        return err_set(err, ERR_BUSY, "%u things could not be removed from %s; see above", left, state);
    printf("%s is clean; %u things removed\n", state, removed);
    return 0;
}
