/* The native API: its route table and handlers, one file per part. */
#ifndef CUBBY_FRONT_NATIVE_H
#define CUBBY_FRONT_NATIVE_H

#include "front/native/args.h"
#include "front/send.h"
#include "store/state_secret.h"

extern const struct dialect native_dialect;

struct native_settings {        /* from the configuration */
    const char *preview_domain; /* parent domain of boxes' host names; NULL: only localhost */
};
struct native_state { /* kept between requests */
    struct state_secret secret;
    struct tickets *tickets;
};
struct native_state *native_state(const struct http_request *request);

typedef int native_run(struct http_request *request, struct box *box, struct err *err);

/* native.c */
native_run native_health, native_info, native_metrics, native_openapi, native_root;
/* native/box.c */
native_run native_acquire, native_boxes, native_box, native_release, native_destroy, native_destroy_all;
native_run native_network, native_network_set, native_network_patch, native_network_remove, native_network_test,
    native_network_learned, native_network_answer, native_network_authority;
native_run native_pause, native_resume, native_start, native_usage;
/* native/exec.c */
native_run native_exec;
/* native/process.c */
native_run native_spawn, native_processes, native_process, native_output, native_stdin, native_signal;
/* native/session.c */
native_run native_session_open, native_sessions, native_session, native_session_end, native_session_stdin,
    native_session_stop, native_session_exec;
extern const struct row session_fields[], session_wait_query[], session_exec_fields[];
extern const struct row session_answer[], sessions_answer[], session_result_answer[], session_exec_answer[];
/* native/pty.c */
native_run native_pty;
/* native/file.c */
native_run native_get, native_put, native_remove, native_stat, native_archive, native_unpack;
/* native/tree.c */
native_run native_list, native_mkdir, native_move, native_watch;
/* native/search.c */
native_run native_glob, native_grep, native_hash, native_edit;
/* native/events.c */
native_run native_events;
/* native/ports.c */
native_run native_port, native_forward;
/* native/preview.c: previews with a host name of their own */
#define PREVIEW_PREFIX "/_preview/"
native_run native_preview, native_ticket;
const char *preview_locate(struct http_request *request, const void *own, const char *target); /* dialect.locate */
bool preview_is(const struct http_request *request); /* the request is for such a preview */
int preview_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);
/* native/usage.c */
native_run native_usage_stream;
extern const struct row usage_stream_query[];
/* native/roster.c */
native_run native_users, native_agents;
extern const struct row users_answer[], agent_names_answer[];
/* native/ticket.c */
native_run native_ticket_for, native_login, native_whoami;
extern const struct row ticket_request_fields[], ticket_made_answer[], login_fields[], login_answer[], whoami_answer[];
/* native/snapshot.c */
native_run native_snapshot, native_snapshots, native_snapshot_remove, native_rollback, native_fork, native_diff,
    native_export;
/* native/token.c */
native_run native_token_create, native_token_list, native_token_revoke;
/* native/secret.c */
native_run native_secret_put, native_secret, native_secrets, native_secret_remove;
native_run native_binding_put, native_bindings, native_binding_remove;
extern const struct row secret_fields[], secret_query[], secrets_answer[], binding_fields[], bindings_answer[];
extern const struct row secret_row_answer[], binding_row_answer[];
/* Makes new bindings for `secrets` of a box that will be made, in the request's arena. NULL: none are wanted. */
int native_bindings_wanted(struct http_request *request, const char *user, const char *network,
                           const char *const *wanted, const char *const **ret_bindings, struct err *err);
/* native/template.c */
native_run native_templates, native_template_put, native_template_remove;
extern const struct row template_answer[], templates_answer[];
/* native/tool.c */
native_run native_tools, native_tool, native_tools_all, native_offload, native_bang;
/* native/servers.c */
native_run native_servers, native_server, native_server_put, native_server_remove;
extern const struct row servers_query[], server_answer[], servers_answer[];
/* native/skill.c */
native_run native_catalog, native_sync, native_synced;
bool native_of_agents(const struct http_request *request); /* the route is about sub-agents, not skills */
/* The names of an agent's public skills, for catalogues (catalogs_base). */
int native_skill_base(void *skills, const char *agent, struct arena *arena, const char ***ret_names, size_t *ret_count,
                      struct err *err);
/* native/registry.c */
native_run native_registry_search, native_registry_publish, native_registry_get, native_registry_remove;
native_run native_install, native_skill_upload, native_skill_remove, native_skill_sync, native_agent_remove;
/* native/audit.c */
native_run native_audit, native_audit_verify;

/* shared by the handlers */
/* Makes a request from a checked body; memory is in the request's arena. */
int native_exec_request(struct http_request *request, const struct native_args *args, struct exec_request *ret_exec,
                        struct err *err);
void native_result_out(const struct exec_result *result, struct result_out *ret_out);
void native_box_json(struct json *json, struct box *box); /* writes an object */
const char *native_type_name(enum file_type type);
struct file_out native_file_out(const struct file_stat *stat);
static inline struct row_text native_text(const char *text) {
    return (struct row_text){.data = text, .len = text ? strlen(text) : 0};
}

#endif
