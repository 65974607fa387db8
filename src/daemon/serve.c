/* Serving: the parts of the daemon, from the first step to the last. Called by main. Invariant: it never starts with
 * less protection than requested, and never ends boxes on SIGTERM unless configured to. */
#include <sys/resource.h>

#include "base/base.h"
#include "backend/quota/store.h"
#include "base/log.h"
#include "base/sched_latency.h"
#include "box/reserve.h"
#include "box/secret/seal.h"
#include "box/secret/secret.h"
#include "daemon/cluster.h"
#include "daemon/daemon.h"
#include "daemon/welcome.h"
#include "front/events.h"
#include "front/native/native.h"
#include "front/routes.h"
#include "front/join/join.h"
#include "front/toolbox.h"
#include "skill/catalog/catalog.h"
#include "skill/own/own.h"
#include "skill/registry/sync.h"
#include "tool/servers/servers.h"
#include "tool/store.h"

#define DAEMON_FILES 262144 /* for 10,000 boxes with a wire, a root and a pidfd each, and as many connections */

void daemon_limits(void) {
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

/* ---- signals ---- */

/* The first SIGTERM or SIGINT drains; a second one does not wait. */
static void *daemon_signal_thread(void *user) {
    struct daemon *daemon = user;
    for (bool again = false;;) {
        int number;
        if (sigwait(&daemon->signals, &number))
            continue;
        if (number == SIGUSR2) /* the server ended by itself */
            return NULL;
        if (number == SIGHUP) {
            daemon_reload(daemon);
            continue;
        }
        unsigned drain_ms = again ? 0 : (unsigned)daemon->conf->drain_ms;
        notify_send(&daemon->notify, "STOPPING=1");
        log_info("%s: no new requests; running ones have %u ms to finish", number == SIGINT ? "SIGINT" : "SIGTERM",
                 drain_ms);
        http_server_stop(daemon->front.server, drain_ms);
        again = true;
    }
}

static void daemon_block_signals(sigset_t *set) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(set, numbers[i]);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

/* ---- parts ---- */

static int daemon_tokens(struct daemon *daemon, struct err *err) {
    const struct conf *conf = daemon->conf;
    TRY(daemon_auth(conf, false, &daemon->front.auth, err));
    TRY(auth_open_store(daemon->front.auth, daemon->state, err));
    if (daemon_demands_tokens(conf) && !auth_count(daemon->front.auth))
        return err_set(err, ERR_DENIED,
                       "listening on %s requires tokens, and none exist: create the first one with `cubby token "
                       "create --scope admin --state %s`, put tokens: into the configuration, or listen on 127.0.0.1",
                       conf->listen, daemon->state);
    return 0;
}

/* Handles a report of the gate; similar ones within a batch become one row. */
static void daemon_network_row(struct audit *audit, const struct box_event *event) {
    struct audit_row row = {.bytes_in = event->bytes_in,
                            .bytes_out = event->bytes_out,
                            .duration_us = event->duration_us,
                            .count = (uint32_t)event->count};
    audit_set(&row, AUDIT_VERB, event->verb);
    audit_set(&row, AUDIT_BOX, event->id);
    audit_set(&row, AUDIT_USER, event->user);
    audit_set(&row, AUDIT_OUTCOME, event->denied ? "DENIED" : "ok");
    audit_set(&row, AUDIT_DETAIL, event->detail);
    audit_put_read(audit, &row);
}

/* Handles an event of a box. */
static void daemon_event(void *user, const struct box_event *event) {
    const struct daemon *daemon = user;
    const struct front *front = &daemon->front;
    bool deleted = strcmp(event->verb, "box_deleted") == 0;
    if (deleted || strcmp(event->verb, "box_evicted") == 0 || strcmp(event->verb, "box_died") == 0)
        servers_box_ended(front->tools.servers, event->id);
    if (event->id && deleted) {
        upkeep_forget(daemon->upkeep, event->id);
        sync_forget(front->skills, event->id);
        if (event->user)
            own_forget(front->skills, event->id, event->user, event->thread);
    }
    if (event->alike)
        daemon_network_row(front->audit, event);
    else if (!event->asked)
        audit_event(front->audit, event->verb, event->id, event->user, event->detail);
    events_put(front->events, event);
}

/* Handles progress of long work for a box. */
static void daemon_progress(void *user, const struct spec *spec, const char *what, uint64_t done, uint64_t total,
                            const char *detail) {
    const struct daemon *daemon = user;
    const struct box_event event = {.verb = "box_progress",
                                    .id = spec->id,
                                    .user = spec->user,
                                    .thread = spec->thread,
                                    .backend = "docker",
                                    .detail = detail,
                                    .work = what,
                                    .done = done,
                                    .total = total,
                                    .asked = true};
    events_put(daemon->front.events, &event);
}

static int daemon_provider(struct daemon *daemon, struct store **ret_store, struct err *err) {
    struct policy *policy = NULL;
    char text[4400];
    TRY(daemon_policy(daemon->conf, &daemon->env, false, &policy, err));
    policy->event = daemon_event;
    policy->event_user = daemon;
    policy->hooks = own_hooks(daemon->front.skills);
    const struct seals_config seals = {.secrets = daemon->front.secrets,
                                       .runner_path = daemon->runner,
                                       .ca_file = daemon->conf->gate_ca_file,
                                       .event = daemon_event,
                                       .user = daemon};
    daemon->seals = seals_new(&seals);
    secrets_seals(daemon->front.secrets, daemon->seals);
    policy->hooks.seal = seals_hooks(daemon->seals, &daemon->env);
    daemon->env.limits = policy->share.limits;
    daemon->env.template_name = daemon->first->share.default_template;
    int failed =
        store_open(&daemon->env, ret_store, err); /* the store of boxes comes before anything that opens them */
    if (!failed && *ret_store) {
        store_serve(*ret_store);
        store_describe(*ret_store, text, sizeof text);
        log_info("%s", text);
    }
    failed = failed ?: daemon_templates(daemon->conf, &daemon->env, err)
                 ?: provider_new(&daemon->env, policy, daemon->conf->share.backend, &daemon->front.provider, err);
    policy_unref(policy);
    if (!failed)
        seals_provider(daemon->seals, daemon->front.provider);
    return failed;
}

/* ---- machines that join ---- */

static void daemon_machine_online(void *user, const char *owner, const char *name, bool again) {
    struct daemon *daemon = user;
    runner_online(&daemon->front, owner, name, again);
    welcome_machine(daemon->welcome, owner, name);
}

static void daemon_machine_offline(void *user, const char *owner, const char *name, const char *why) {
    struct daemon *daemon = user;
    runner_offline(&daemon->front, owner, name, why);
}

static void daemon_tick(void *context) {
    struct front *front = context;
    struct daemon *daemon = (struct daemon *)((char *)front - offsetof(struct daemon, front));
    notify_tick(&daemon->notify, front->provider);
}

static int daemon_http(struct daemon *daemon, struct err *err) {
    const struct conf *conf = daemon->conf;
    struct front *front = &daemon->front;
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
        .alive_ms = (unsigned)conf->event_alive_ms,
        .tls_cert = conf->tls_cert,
        .tls_key = conf->tls_key,
        .check_host = true,
        .passed = daemon->notify.passed,
        .passed_count = daemon->notify.passed_count,
        .tick = daemon_tick,
        .allowed_hosts = (const char *const *)conf->allowed_hosts.items,
        .locate = front_locate,
        .admit = front_admit,
        .finished = front_finished,
        .refuse = routes_refuse,
    };
    TRY(daemon_socket(conf, &config, err));
    return http_server_new(conf->listen, &config, &front->server, err);
}

static void daemon_ready(const struct conf *conf, const struct front *front) {
    const char *address = http_server_address(front->server);
    bool unix_socket = !strncmp(address, "unix:", 5);
    log_info("cubbyd %s ready on %s, state %s, default backend %s", CUBBY_VERSION, address, conf->state,
             conf->share.backend);
    if (unix_socket)
        log_info("try: curl --unix-socket %s -X POST http://localhost/v1/boxes", address + 5);
    else
        log_info("try: curl -X POST %s://%s/v1/boxes", conf->tls_cert ? "https" : "http", address);
}

static bool daemon_has_box(void *user, const char *id) {
    struct provider *provider = user;
    struct box *box;
    struct err err;
    if (provider_look(provider, NULL, id, &box, &err) < 0)
        return false;
    provider_look_end(provider, box);
    return true;
}

/* ---- the whole daemon ---- */

static int daemon_run(struct daemon *daemon, struct err *err) {
    struct front *front = &daemon->front;
    pthread_t thread;
    int failed = daemon_http(daemon, err);
    if (failed && err->number == EADDRINUSE)
        return err_set(err, ERR_BUSY, "%s is in use, maybe by another cubbyd; choose another with --listen HOST:PORT",
                       daemon->conf->listen);
    if (failed)
        return failed;
    failed = auth_watch(front->auth, front->server, err);
    int number = failed ? 0 : pthread_create(&thread, NULL, daemon_signal_thread, daemon);
    if (number)
        failed = err_errno(err, number, "cannot start a thread");
    if (!failed) {
        daemon_ready(daemon->first, front);
        notify_send(&daemon->notify, "READY=1");
        http_server_run(front->server);
        pthread_kill(thread, SIGUSR2);
        pthread_join(thread, NULL);
        log_info("stopped; boxes %s", daemon->conf->end_boxes ? "are ended" : "are left running for the next daemon");
    }
    auth_unwatch(front->auth);
    http_server_free(front->server);
    return failed;
}

static void daemon_env(struct daemon *daemon) {
    const struct conf *conf = daemon->first;
    daemon->env = (struct backend_env){
        .state_dir = daemon->state,
        .runner_path = daemon->runner,
        .allow_local = conf->allow_local,
        .allow_weaker = (const char *const *)conf->allow_weaker.items,
        .local_maps = (const char *const *)conf->local_maps.items,
        .open_networks = (const char *const *)conf->open_networks.items,
        .gate_resolvers = (const char *const *)conf->gate_resolvers.items,
        .gate_host_ports = (const char *const *)conf->gate_host_ports.items,
        .pool_size = (unsigned)conf->pool_size,
        .disk_quota = conf->disk_quota,
        .disk_reserve = conf->disk_reserve,
        .store = conf->store,
        .store_mb = conf->store_mb,
        .docker = &conf->docker,
        .progress = daemon_progress,
        .progress_user = daemon,
    };
}

static int daemon_parts(struct daemon *daemon, struct store **ret_store, struct err *err) {
    const struct conf *conf = daemon->first;
    struct front *front = &daemon->front;
    TRY(daemon_runner(conf, daemon->runner, err));
    TRY(daemon_state(conf->state, daemon->state, err) ?: daemon_lead(daemon, err));
    daemon_env(daemon);
    if (conf->k8s)
        TRY(cluster_open(conf, &daemon->signals, &daemon->env, &daemon->cluster, err));
    reserve_begin(daemon->state);
    TRY(daemon_tokens(daemon, err));
    const struct secrets_config secrets = {.state_dir = daemon->state,
                                           .key_file = conf->secret_key_file,
                                           .commands = (const char *const *)conf->secret_commands.items};
    TRY(secrets_open(&secrets, &front->secrets, err));
    TRY(front_open(front, daemon->state, err));
    const struct audit_options audit = {
        .directory = daemon->state, .days = conf->audit_days, .max_bytes = conf->audit_max_mb << 20};
    if (conf->audit)
        TRY(audit_open(&audit, &front->audit, err));
    audit_event(front->audit, "daemon_started", NULL, NULL, "cubbyd " CUBBY_VERSION);
    front->tools = toolbox_functions;
    front->tools.servers = servers_new(daemon->state);
    conf_servers(daemon->conf, front->tools.servers);
    TRY(tool_store_open(daemon->state, &front->tools.store, err));
    TRY(skills_open(daemon->state, &daemon->conf->skills, &front->skills, err));
    front->tools.catalogs = catalogs_new();
    catalogs_public(front->tools.catalogs, native_skill_base, front->skills);
    catalogs_keep(front->tools.catalogs, daemon->conf->skills.cache_ms);
    const struct machines_settings settings = {.grace_ms = conf->remote_grace_s * 1000,
                                               .max = (unsigned)conf->max_machines,
                                               .max_per_user = (unsigned)conf->max_machines_per_user,
                                               .runner_path = daemon->runner,
                                               .epoch = daemon->epoch,
                                               .online = daemon_machine_online,
                                               .offline = daemon_machine_offline,
                                               .context = daemon};
    daemon->welcome = welcome_new(front);
    daemon->env.machines = machines_new(&settings); /* before the provider, whose backend `remote` finds them */
    TRY(daemon_provider(daemon, ret_store, err));
    cluster_start(daemon->cluster);
    const struct upkeep_options upkeep = {.store = front->tools.store,
                                          .days = daemon->conf->tools.offload_days,
                                          .alive = daemon_has_box,
                                          .user = front->provider};
    struct upkeep *started;
    if (upkeep_start(&upkeep, &started, err) < 0) {
        provider_free(front->provider, false);
        return -err->code;
    }
    daemon->upkeep = started;
    skills_provider(front->skills, front->provider);
    skills_later(front->skills, welcome_machine, daemon->welcome);
    return 0;
}

int daemon_serve(struct conf *conf, int argc, char **argv, struct err *err) {
    struct daemon *daemon = xcalloc(1, sizeof *daemon);
    *daemon =
        (struct daemon){.argc = argc, .argv = argv, .first = conf_ref(conf), .conf = conf_ref(conf), .lead_fd = -1};
    struct front *front = &daemon->front;
    struct store *store = NULL;
    daemon_log_level(conf->log_level);
    if (conf->config)
        log_info("configuration %s", conf->config);
    if (conf->closed_default)
        log_warn("%s is not readable for this user and not used; choose another with --config", CONF_DEFAULT_FILE);
    daemon_limits();
    notify_init(&daemon->notify);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* runners must not inherit what a parent left open */
    daemon_block_signals(&daemon->signals);   /* before any thread starts, so that all inherit it */
    sched_latency_set(0, false, true);        /* likewise; so that busy boxes do not delay answers */
    front_init(front, routes_all());
    front->env = &daemon->env;
    front->events = events_new();
    struct front_settings *settings = daemon_settings(conf);
    front_configure(front, settings);
    int failed = daemon_parts(daemon, &store, err);
    bool stopped = failed == -ERR_GONE && conf->standby && daemon->lead_fd < 0;
    if (!failed) {
        front->metrics = metrics_new(routes_all());
        front_start(front);
        failed = daemon_run(daemon, err);
        front_stop(front);
        cluster_stop(daemon->cluster);
        machines_close(daemon->env.machines, "the server stops");
        welcome_stop(daemon->welcome);
        servers_stop(front->tools.servers);
        upkeep_stop(daemon->upkeep); /* it uses the provider, which reports events to it until the end */
        skills_provider(front->skills, NULL);
        provider_free(front->provider, daemon->conf->end_boxes);
        metrics_free(front->metrics);
        audit_event(front->audit, "daemon_stopped", NULL, NULL, NULL);
    }
    cluster_free(daemon->cluster);
    machines_free(daemon->env.machines);
    welcome_free(daemon->welcome);
    store_close(store);
    upkeep_free(daemon->upkeep);
    catalogs_free(front->tools.catalogs);
    skills_close(front->skills);
    servers_free(front->tools.servers);
    tool_store_close(front->tools.store);
    audit_close(front->audit);
    if (daemon->state[0])
        reserve_end(daemon->state);
    events_free(front->events);
    auth_free(front->auth);
    front_done(front);
    seals_free(daemon->seals);
    secrets_close(front->secrets);
    notify_done(&daemon->notify);
    conf_unref(daemon->conf);
    conf_unref(daemon->first);
    fd_close(&daemon->lead_fd); /* last: the next head begins */
    free(daemon);
    return stopped ? 0 : failed;
}
