/* The daemon's options: one table for the command line and the YAML file. `cubbyd --options` prints it. */
#ifndef CUBBY_DAEMON_CONF_H
#define CUBBY_DAEMON_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "front/auth.h"

struct conf_token {
    uint8_t sha256[32];
    const char *user; /* NULL: not bound to one */
    enum scope scope;
};

struct conf_list {
    const char **items; /* NULL-terminated; NULL when empty */
    size_t count;
};

enum conf_action {
    CONF_SERVE,
    CONF_HELP,
    CONF_VERSION,
    CONF_OPTIONS,
    CONF_ROUTES,
    CONF_OPENAPI,
    CONF_CHECK,
    CONF_CLEANUP
};

struct conf {
    struct arena arena;
    uint64_t given; /* a bit a row of the table: set by the file or the command line, not by default */
    enum conf_action action;
    const char *config;
    const char *listen, *state, *runner, *backend, *auth, *log_level, *tls_cert, *tls_key, *disk_quota, *socket_mode,
        *socket_group;
    bool allow_local, end_boxes, disk_reserve, audit, audit_detail;
    struct conf_list allow_weaker, local_maps, mount_sources, open_networks, allowed_hosts, env, peer_uids;
    struct conf_token *tokens;
    size_t token_count;
    uint64_t memory_mb, pids, disk_mb, open_files, output_bytes, idle_timeout_ms, pool_size, max_upload_bytes,
        max_unpack_entries, drain_ms, max_connections, max_threads, max_boxes, max_boxes_per_user, box_rate_per_user,
        max_requests_per_user, max_calls_per_box, body_memory_mb, min_rate_bytes;
    uint64_t audit_days, audit_max_mb;
    double cpus;
};

/* Defaults, then the file of --config, then the command line. INVALID names the option, and the line of the file. */
int conf_load(struct conf *conf, int argc, char **argv, struct err *err);
void conf_done(struct conf *conf);
bool conf_given(const struct conf *conf, const char *name);
void conf_print_options(FILE *file); /* a line an option: name, type, default, meaning */
void conf_print_help(FILE *file);

#endif
