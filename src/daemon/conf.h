/* The daemon's options: one table for the command line and the YAML file. `cubbyd --options` prints it. */
#ifndef CUBBY_DAEMON_CONF_H
#define CUBBY_DAEMON_CONF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "backend/backend.h"
#include "backend/k8s/kube.h"
#include "base/arena.h"
#include "base/err.h"
#include "box/policy.h"
#include "front/auth.h"
#include "front/deerflow/provision.h"
#include "skill/skill.h"
#include "tool/guard/guard.h"
#include "rows/rows_argv.h"

#define CONF_DEFAULT_FILE "/etc/cubby/cubby.yaml"

enum { CONF_ROWS = 160 }; /* the table has fewer */

struct conf_token {
    uint8_t sha256[32];
    const char *user; /* NULL: not bound to one */
    enum scope scope;
};

struct conf_mounts {
    const struct share_mount *items;
    size_t count;
};

struct conf_template {
    const char *name, *path; /* a template, imported from path if it is missing */
};

/* Options that may differ by user. */
struct conf_share {
    const char *backend, *machine, *default_template, *network, *docker_image, *docker_pull, *docker_runtime,
        *network_policy;
    struct row_texts network_modes, env, templates, networks, backends, docker_images, docker_runtimes;
    struct row_texts servers; /* NAME={...} */
    struct conf_mounts mounts;
    uint64_t memory_mb, pids, disk_mb, open_files, output_bytes, idle_timeout_ms, busy_timeout_ms, max_boxes_per_user,
        user_memory_mb, user_disk_mb;
    double cpus;
};

struct conf_user {
    const char *name;
    struct conf_share share; /* those of all users, with this user's options on top */
    bool *given;             /* per row of the table: set for this user */
};

enum conf_action {
    CONF_SERVE,
    CONF_HELP,
    CONF_VERSION,
    CONF_OPTIONS,
    CONF_ROUTES,
    CONF_TOOLS,
    CONF_OPENAPI,
    CONF_MANUAL,
    CONF_CHECK,
    CONF_CLEANUP
};

/* Reference-counted: objects made from it may point into it. */
struct conf {
    atomic_uint refs;
    struct arena arena;
    bool given[CONF_ROWS]; /* per row of the table: set by the file or the command line */
    bool host_at_stake;    /* an option marked `host` is or was set since the start, for any user */
    enum conf_action action;
    const char *config;  /* the file, or NULL */
    bool closed_default; /* the default file exists, but this user may not read it */
    const char *listen, *state, *runner, *auth, *log_level, *tls_cert, *tls_key, *secret_key_file, *gate_ca_file,
        *disk_quota, *socket_mode, *socket_group, *store, *aio_errors, *deerflow_url, *preview_domain, *e2b_domain,
        *e2b_network;
    struct row_texts e2b_images, e2b_webhook_hosts;
    uint64_t e2b_volume_mb;
    bool allow_local, standby, end_boxes, disk_reserve, audit, audit_detail, wake_paused, page;
    struct row_texts allow_weaker, local_maps, mount_sources, open_networks, gate_resolvers, gate_host_ports,
        allowed_hosts, peer_uids, secret_commands;
    struct docker_settings docker;
    bool k8s;
    struct kube_settings kube;
    const char *k8s_audience, *k8s_home, *k8s_lease, *k8s_workers;
    struct row_texts k8s_service_accounts;
    uint64_t k8s_spare_boxes, k8s_min, k8s_max, k8s_shrink_s;
    const char *machine_network_policy;
    struct conf_share share;
    struct conf_token *tokens;
    size_t token_count;
    struct conf_template *imports;
    size_t import_count;
    struct conf_user *users; /* sorted by name */
    size_t user_count;
    uint64_t pool_size, max_upload_bytes, max_unpack_entries, drain_ms, event_alive_ms, max_connections, max_threads,
        max_boxes, box_rate_per_user, max_requests_per_user, max_calls_per_box, body_memory_mb, min_rate_bytes,
        replicas, memory_reserve_mb, store_mb;
    uint64_t audit_days, audit_max_mb;
    uint64_t remote_grace_s, max_machines, max_machines_per_user;
    struct tool_settings tools; /* points to guard, and to the lists below */
    struct guard_policy guard;
    const char *tool_guard;
    struct row_texts guard_allow, guard_roots, env_remove;
    struct skill_settings skills;        /* points to the options above */
    struct provision_settings provision; /* points to the options above */
    const char *provision_key_file;
    struct row_texts provision_env, dialect_sources;
    struct conf_mounts provision_mounts;
    const char *skill_dialect;
    struct row_texts global_skills, global_agents, skill_paths, skill_commands;
    uint64_t skill_upload_entries;
};

/* Reads defaults, then the file, then the command line. INVALID names the option, and the line of the file. The caller
 * gets a reference. */
int conf_new(int argc, char **argv, struct conf **ret_conf, struct err *err);
struct conf *conf_ref(struct conf *conf);
void conf_unref(struct conf *conf); /* NULL is allowed */
/* Returns whether the file or the command line sets it, for this user or for all. user may be NULL. */
bool conf_given(const struct conf *conf, const struct conf_user *user, const char *name);
/* Reports the options that differ. at_once: a running daemon can use the new value. */
void conf_changes(struct conf *old, struct conf *now, void (*each)(void *user, const char *name, bool at_once),
                  void *user);
/* Makes the settings for boxes, which hold a reference to conf. The caller gets the first reference. */
struct policy *conf_policy(struct conf *conf);
/* Sets the MCP servers of the configuration. */
struct servers;
void conf_servers(const struct conf *conf, struct servers *servers);
void conf_print_options(FILE *file); /* a line per option, columns separated by tabs */
void conf_print_help(FILE *file);
void conf_print_manual(FILE *file); /* the list of options of cubbyd(8) */

#endif
