/* From options to the parts of the daemon. Called at the start, by --check and on SIGHUP. Invariant: nothing here
 * weakens a requested protection (tokens missing, runner missing, limits that do not hold), and nothing changes the
 * parts that serve. */
#include <grp.h>

#include "base/base.h"
#include "backend/places.h"
#include "backend/template.h"
#include "base/counted.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "front/aio/aio.h"
#include "front/e2b/e2b.h"
#include "front/deerflow/deerflow.h"
#include "front/native/native.h"
#include "front/page/page.h"

/* Makes the state directory and its parents. It has the files of all users, so it is closed to others. */
int daemon_state(const char *path, char ret_real[PATH_MAX], struct err *err) {
    struct stat stat_now;
    TRY(places_make(path, 0755, err));
    if (!realpath(path, ret_real) || stat(ret_real, &stat_now))
        return err_errno(err, errno, "cannot create the state directory %s", path);
    if (!S_ISDIR(stat_now.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a directory; give another with --state DIR", path);
    if (stat_now.st_uid != geteuid())
        return err_set(err, ERR_DENIED, "the state directory %s belongs to uid %u; give another with --state DIR",
                       ret_real, stat_now.st_uid);
    if ((stat_now.st_mode & 077) && chmod(ret_real, 0700))
        return err_errno(err, errno, "cannot remove others' access to %s", ret_real);
    return 0;
}

int daemon_runner(const struct conf *conf, char ret_path[PATH_MAX], struct err *err) {
    return places_runner(conf->runner, "give --runner PATH", ret_path, err);
}

void daemon_log_level(const char *name) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            log_set_level((enum log_level)i);
}

/* ---- access ---- */

/* Only numeric loopback addresses and "localhost" are certainly unreachable from outside. */
static bool daemon_loopback(const char *address, size_t len) {
    static const char *const starts[] = {"unix:", "127.", "[::1]:", "localhost:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (len >= strlen(starts[i]) && !strncmp(address, starts[i], strlen(starts[i])))
            return i != 1 || strspn(address, "0123456789.") == strcspn(address, ":");
    return false;
}

/* Decides how requests without a token are treated. If the configuration exposes files that the daemon's user can reach
 * (local boxes, mounts, skills of the host), it matters which local user asks. */
static enum auth_mode daemon_auth_mode(const struct conf *conf, bool wide, bool quiet) {
    if (!strcmp(conf->auth, "peer"))
        return AUTH_PEER;
    if (wide || !strcmp(conf->auth, "required"))
        return AUTH_REQUIRED;
    if (!quiet && geteuid() == 0 && !conf->host_at_stake && strncmp(conf->listen, "unix:", 5) != 0)
        log_warn("every local user is an admin on %s; --auth peer distinguishes them, --auth required requires tokens",
                 conf->listen);
    return conf->host_at_stake ? AUTH_PEER : AUTH_OPEN;
}

static bool daemon_wide(const struct conf *conf) {
    for (const char *p = conf->listen; *p; p += strcspn(p, ","), p += *p == ',')
        if (!daemon_loopback(p, strcspn(p, ",")))
            return true;
    return false;
}

bool daemon_demands_tokens(const struct conf *conf) {
    bool wide = daemon_wide(conf);
    return wide || daemon_auth_mode(conf, wide, true) == AUTH_REQUIRED;
}

int daemon_auth(const struct conf *conf, bool quiet, struct auth **ret_auth, struct err *err) {
    bool wide = daemon_wide(conf);
    struct auth *auth = auth_new(daemon_auth_mode(conf, wide, quiet));
    for (size_t i = 0; i < conf->token_count; i++)
        auth_add(auth, conf->tokens[i].sha256, conf->tokens[i].user, conf->tokens[i].scope);
    int failed = 0;
    for (size_t i = 0; i < conf->peer_uids.count && !failed; i++)
        failed = auth_add_peer(auth, conf->peer_uids.items[i], err);
    if (wide && !conf->tls_cert && !quiet)
        log_warn(
            "tokens and everything else travel UNENCRYPTED to and from %s: give tls_cert and tls_key, or put a proxy "
            "with TLS in front of it",
            conf->listen);
    if (failed)
        auth_free(auth);
    else
        *ret_auth = auth;
    return failed;
}

int daemon_socket(const struct conf *conf, struct http_config *config, struct err *err) {
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

/* ---- boxes ---- */

/* Handles limits of boxes that this machine cannot enforce: refuses them, or drops them where that is allowed and the
 * limit was not requested. user NULL: of all users. */
static int prepare_share_walls(const struct conf *conf, const struct conf_user *user, const struct backend_env *env,
                               const struct check *checks, size_t count, struct share *share, struct err *err) {
    const struct {
        const char *check, *option;
        uint64_t *limit;
    } rows[] = {{"memory limits", "memory_mb", &share->limits.memory_mb},
                {"process limits", "pids", &share->limits.pids}};
    for (size_t i = 0; i < 2 * count; i++) {
        const struct check *check = &checks[i / 2];
        uint64_t *limit = rows[i % 2].limit;
        bool given = conf_given(conf, user, rows[i % 2].option);
        if (strcmp(check->name, rows[i % 2].check) != 0 || check->ok || !*limit)
            continue;
        if (!given && backend_allows_weaker(env, check->weaker))
            *limit = 0;
        else if (strcmp(share->backend, "jail") == 0)
            return err_set(err, ERR_UNSUPPORTED, "boxes would have no %s here (%s). Either: %s; or accept it: %s",
                           check->name, check->detail, check->fix,
                           given ? "take the limit out of the configuration" : "cubbyd --allow-weaker limits");
    }
    return 0;
}

/* The backend local isolates nothing: a request for a jail is refused later, with the same text. */
int daemon_policy(struct conf *conf, const struct backend_env *env, bool quiet, struct policy **ret_policy,
                  struct err *err) {
    struct check checks[64];
    size_t count = backend_checks(env, checks, sizeof checks / sizeof *checks);
    if (!quiet) {
        /* Logs missing features of this machine at every start. */
        for (size_t i = 0; i < count; i++)
            if (!checks[i].ok && checks[i].wall)
                log_warn("this machine lacks: %s: %s; %s", checks[i].name, checks[i].detail, checks[i].fix);
            else if (checks[i].partly)
                log_info("this machine has part of: %s: %s", checks[i].name, checks[i].detail);
    }
    struct policy *policy = conf_policy(conf);
    int failed = prepare_share_walls(conf, NULL, env, checks, count, &policy->share, err);
    for (size_t i = 0; i < policy->user_count && !failed; i++)
        failed = prepare_share_walls(conf, &conf->users[i], env, checks, count, (struct share *)&policy->users[i].share,
                                     err);
    if (failed)
        policy_unref(policy);
    else
        *ret_policy = policy;
    return failed;
}

static void prepare_template_there(void *user, const char *name) {
    const char **missing = user;
    if (*missing && strcmp(*missing, name) == 0)
        *missing = NULL;
}

/* The default template must exist, or every request would fail. */
static int prepare_template_default(const struct conf *conf, const struct conf_share *share,
                                    const struct backend_env *env, struct err *err) {
    const char *missing = share->default_template;
    for (size_t i = 0; i < conf->import_count; i++)
        prepare_template_there(&missing, conf->imports[i].name);
    if (missing)
        TRY(template_list(env, prepare_template_there, &missing, err));
    if (missing)
        return err_set(err, ERR_NOT_FOUND,
                       "default_template: no template '%.64s' in %s; import it (cubby template --state %s import %.64s "
                       "FILE), or name it with its path in templates",
                       missing, env->state_dir, env->state_dir, missing);
    return 0;
}

static int prepare_templates_default(const struct conf *conf, const struct backend_env *env, struct err *err) {
    TRY(prepare_template_default(conf, &conf->share, env, err));
    for (size_t i = 0; i < conf->user_count; i++)
        if (prepare_template_default(conf, &conf->users[i].share, env, err) < 0)
            return err_wrap(err, "user %s", conf->users[i].name);
    return 0;
}

int daemon_templates(const struct conf *conf, const struct backend_env *env, struct err *err) {
    for (size_t i = 0; i < conf->import_count; i++) {
        const struct conf_template *import = &conf->imports[i];
        const char *missing = import->name;
        int failed = template_list(env, prepare_template_there, &missing, err);
        if (!failed && missing) {
            log_info("template %s is imported from %s", import->name, import->path);
            failed = template_import(env, import->name, import->path, err);
        }
        if (failed && failed != -ERR_EXISTS) /* another daemon imported it first */
            return err_wrap(err, "templates: %s", conf->imports[i].name);
    }
    return prepare_templates_default(conf, env, err);
}

/* ---- requests ---- */

struct daemon_settings {
    struct front_settings settings;
    struct conf *conf;
    struct aio_settings aio;
    struct native_settings native;
    struct e2b_settings e2b;
    struct page_settings page;
};

static void prepare_settings_released(struct front_settings *settings) {
    struct daemon_settings *own = (struct daemon_settings *)settings; /* its first member */
    conf_unref(own->conf);
    free(own);
}

struct front_settings *daemon_settings(struct conf *conf) {
    struct daemon_settings *own = xcalloc(1, sizeof *own);
    own->conf = conf_ref(conf);
    own->native.preview_domain = conf->preview_domain;
    own->e2b = (struct e2b_settings){.domain = conf->e2b_domain,
                                     .network = conf->e2b_network,
                                     .images = (const char *const *)conf->e2b_images.items,
                                     .webhook_hosts = (const char *const *)conf->e2b_webhook_hosts.items,
                                     .volume_mb = conf->e2b_volume_mb};
    own->page = (struct page_settings){.off = !conf->page, .preview_domain = conf->preview_domain};
    own->aio.envelope = !strcmp(conf->aio_errors, "envelope");
    uint64_t largest =
        conf->max_upload_bytes > conf->skills.unpacked_bytes ? conf->max_upload_bytes : conf->skills.unpacked_bytes;
    counted_limit(COUNTED_SPOOL, 8 * largest, 2 * largest);
    own->settings = (struct front_settings){
        .refs = 1,
        .released = prepare_settings_released,
        .tools = &conf->tools,
        .url = conf->deerflow_url,
        .own = {{&native_dialect, &own->native},
                {&aio_dialect, &own->aio},
                {&deerflow_dialect, &conf->provision},
                {&e2b_dialect, &own->e2b},
                {&page_dialect, &own->page}},
        .default_backend = conf->share.backend,
        .secret_env = (const char *const *)conf->share.env.items,
        .audit_detail = conf->audit_detail,
        .max_upload_bytes = conf->max_upload_bytes,
        .max_unpack_entries = conf->max_unpack_entries,
        .max_calls_per_box = (unsigned)conf->max_calls_per_box,
        .tenant_limits = {.max_requests = (unsigned)conf->max_requests_per_user,
                          .boxes_per_minute = (unsigned)conf->box_rate_per_user},
    };
    return &own->settings;
}

/* ---- --check ---- */

/* The part of a mount that is the same for every box must exist; the rest may be made with the box. */
static int prepare_check_mount(const struct share_mount *mount, struct err *err) {
    char place[PATH_MAX];
    struct stat status;
    snprintf(place, sizeof place, "%s", mount->source);
    char *word = strchr(place, '{');
    if (word)
        *word = 0;
    if (word || mount->create)
        *strrchr(place, '/') = 0;
    if (place[0] && stat(place, &status) < 0)
        return err_errno(err, errno, "mounts: source '%.200s': cannot open '%.200s'", mount->source, place);
    return 0;
}

static int prepare_check_places(const struct conf *conf, const struct conf_share *share, struct err *err) {
    struct stat status;
    for (size_t i = 0; i < share->mounts.count; i++)
        TRY(prepare_check_mount(&share->mounts.items[i], err));
    for (size_t i = 0; i < conf->provision.mount_count; i++) {
        const struct share_mount *mount = &conf->provision.mounts[i];
        bool made = mount->create && conf->provision.home && path_within(mount->source, conf->provision.home);
        if (!made && prepare_check_mount(mount, err) < 0)
            return err_wrap(err, "deerflow_mounts");
    }
    if (conf->provision.home && stat(conf->provision.home, &status) < 0)
        return err_errno(err, errno, "deerflow_home: cannot open '%.200s'", conf->provision.home);
    for (size_t i = 0; i < conf->mount_sources.count; i++)
        if (stat(conf->mount_sources.items[i], &status) < 0)
            return err_errno(err, errno, "mount_sources: cannot open '%.200s'", conf->mount_sources.items[i]);
    for (size_t i = 0; i < conf->import_count; i++)
        if (stat(conf->imports[i].path, &status) < 0)
            return err_errno(err, errno, "templates: cannot open path '%.200s'", conf->imports[i].path);
    return 0;
}

int daemon_check(struct conf *conf, struct err *err) {
    char runner[PATH_MAX];
    struct http_config http;
    struct auth *auth = NULL;
    const struct backend_env env = {.state_dir = conf->state};
    TRY(daemon_runner(conf, runner, err));
    TRY(daemon_socket(conf, &http, err));
    TRY(daemon_auth(conf, true, &auth, err));
    auth_free(auth);
    if (conf->tls_cert)
        TRY(http_tls_check(conf->tls_cert, conf->tls_key, err));
    TRY(prepare_check_places(conf, &conf->share, err));
    for (size_t i = 0; i < conf->user_count; i++)
        if (prepare_check_places(conf, &conf->users[i].share, err))
            return err_wrap(err, "user %s", conf->users[i].name);
    return prepare_templates_default(conf, &env, err);
}
