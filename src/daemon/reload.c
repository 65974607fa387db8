/* The configuration again, while serving. Called by the signal thread on SIGHUP. Invariant: everything that can fail
 * comes before anything changes, so that a bad file changes nothing; objects in use by running requests are counted
 * and stay. */
#include "base/base.h"
#include "base/log.h"
#include "box/secret/secret.h"
#include "daemon/daemon.h"
#include "skill/catalog/catalog.h"
#include "skill/skill.h"

struct reload_changes {
    struct buf now, later;
};

static void reload_change_note(void *user, const char *name, bool at_once) {
    struct reload_changes *changes = user;
    struct buf *to = at_once ? &changes->now : &changes->later;
    buf_printf(to, "%s%s", to->len ? ", " : "", name);
}

/* TLS cannot be turned on or off without a restart; a new certificate needs none. */
static bool reload_tls_stays(const struct daemon *daemon, const struct conf *fresh) {
    return !daemon->first->tls_cert == !fresh->tls_cert;
}

/* Makes all new parts, or none. */
static int reload_parts(struct daemon *daemon, struct conf *fresh, struct auth **ret_auth, struct policy **ret_policy,
                        struct err *err) {
    TRY(daemon_auth(fresh, true, ret_auth, err));
    TRY(daemon_policy(fresh, &daemon->env, true, ret_policy, err));
    TRY(daemon_templates(fresh, &daemon->env, err));
    return http_server_configure(daemon->front.server, reload_tls_stays(daemon, fresh) ? fresh->tls_cert : NULL,
                                 fresh->tls_key, (const char *const *)fresh->allowed_hosts.items, err);
}

void daemon_reload(struct daemon *daemon) {
    struct conf *fresh = NULL;
    struct auth *auth = NULL;
    struct policy *policy = NULL;
    struct err err = {0};
    int failed = conf_new(daemon->argc, daemon->argv, &fresh, &err);
    if (!failed) {
        /* Running boxes keep their mounts, and `local` stays allowed until the next start. */
        fresh->host_at_stake |= daemon->conf->host_at_stake;
        failed = reload_parts(daemon, fresh, &auth, &policy, &err);
    }
    if (failed) {
        log_error("the configuration stays as it was: %s", err.text);
        auth_free(auth);
        policy_unref(policy);
        conf_unref(fresh);
        return;
    }
    struct reload_changes changes;
    buf_init(&changes.now, 4096);
    buf_init(&changes.later, 4096);
    conf_changes(daemon->conf, fresh, reload_change_note, &changes);
    if (!reload_tls_stays(daemon, fresh))
        reload_change_note(&changes, "TLS on or off", false);
    log_info("configuration %s read again; changed: %s", fresh->config ? fresh->config : "(no file)",
             changes.now.len ? buf_cstr(&changes.now) : "nothing");
    buf_clear(&changes.later); /* compared with the start: still pending */
    conf_changes(daemon->first, fresh, reload_change_note, &changes);
    if (changes.later.len)
        log_warn("these options only change at the next start: %s", buf_cstr(&changes.later));
    buf_done(&changes.now);
    buf_done(&changes.later);
    auth_replace(daemon->front.auth, auth);
    provider_configure(daemon->front.provider, policy);
    policy_unref(policy);
    front_configure(&daemon->front, daemon_settings(fresh));
    secrets_configure(daemon->front.secrets, (const char *const *)fresh->secret_commands.items);
    upkeep_configure(daemon->upkeep, fresh->tools.offload_days);
    skills_configure(daemon->front.skills, &fresh->skills);
    conf_servers(fresh, daemon->front.tools.servers);
    catalogs_keep(daemon->front.tools.catalogs, fresh->skills.cache_ms);
    daemon_log_level(fresh->log_level);
    conf_unref(daemon->conf);
    daemon->conf = fresh;
}
