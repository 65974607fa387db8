/* What the native API takes and answers: one struct and one table of rows per request. */
#ifndef CUBBY_FRONT_NATIVE_ARGS_H
#define CUBBY_FRONT_NATIVE_ARGS_H

#include "rows/body.h"

/* ---- boxes ---- */

struct limits_args {
    struct body_number memory_mb, pids, disk_mb, open_files, output_bytes;
    struct body_real cpus;
};
struct mount_args {
    struct body_text source, target;
    bool read_only;
};
struct container_args {
    struct body_text user, runtime, platform, pull, init;
    bool read_only;
};
struct acquire_args {
    struct body_text user, thread, agent, machine, backend, template_name, shell, network;
    const char **env, **labels;
    struct body_list mounts; /* struct mount_args */
    struct limits_args limits;
    struct container_args container;
    struct body_number idle_timeout_ms;
    bool temporary;
};
struct boxes_args {
    struct body_text user, state, label;
};
struct events_args {
    struct body_text box, user, type, after;
};
extern const struct body_field events_query[];
extern const struct body_field acquire_fields[], boxes_query[], boxes_end_query[];
extern const struct body_field box_answer[], boxes_answer[], ended_answer[];

/* ---- machines ---- */

struct machines_args {
    struct body_text user;
};
extern const struct body_field machines_query[], machines_answer[];

/* ---- snapshots ---- */

struct snapshot_args {
    struct body_text name;
};
struct fork_args {
    struct body_text snapshot, user, thread;
};
struct diff_args {
    struct body_number limit;
};
extern const struct body_field snapshot_fields[], rollback_fields[], fork_fields[], diff_query[];
extern const struct body_field snapshot_answer[], snapshots_answer[], rollback_answer[], diff_answer[], export_answer[];

/* ---- commands ---- */

struct exec_args {
    struct body_text command, cwd, stdin_text, stdin_base64, user;
    const char **argv, **env;
    bool stdin_open;
    struct body_number timeout_ms, output_limit_bytes;
};
struct output_args {
    struct body_text stream;
    struct body_number offset, wait_ms, limit;
};
struct stdin_args {
    bool eof;
};
struct signal_args {
    struct body_text signal;
};
struct pty_args {
    struct body_text command, cwd, user, term;
    const char **env;
    struct body_number cols, rows, pid, offset;
};
extern const struct body_field exec_fields[], spawn_fields[], output_query[], stdin_query[], signal_fields[],
    pty_query[];
extern const struct body_field exec_answer[], spawn_answer[], process_answer[], processes_answer[];

/* ---- files ---- */

struct path_args {
    struct body_text path;
};
struct put_args {
    struct body_text path;
    struct body_number mode;
    bool parents, append;
};
struct remove_args {
    struct body_text path;
    bool recursive; /* also of watch */
};
struct list_args {
    struct body_text path;
    struct body_number depth, limit;
};
struct mkdir_args {
    struct body_text path, encoding;
    struct body_number mode;
    bool parents;
};
struct move_args {
    struct body_text from, to, encoding;
    bool overwrite;
};
struct glob_args {
    struct body_text pattern, path, encoding;
    bool include_dirs;
    struct body_number limit, timeout_ms;
};
struct grep_args {
    struct body_text pattern, path, glob, encoding;
    bool literal, ignore_case;
    struct body_number context, limit, timeout_ms;
};
struct edit_args {
    struct body_text path, old, new_text, encoding;
    bool all;
};
extern const struct body_field path_query[], workspace_query[], put_query[], remove_query[], list_query[],
    watch_query[], mkdir_fields[], move_fields[], glob_fields[], grep_fields[], edit_fields[];
extern const struct body_field stat_answer[], list_answer[], glob_answer[], grep_answer[], hash_answer[], edit_answer[],
    unpack_answer[];

/* ---- catalogues ---- */

struct catalog_args {
    struct body_text format;
};
extern const struct body_field catalog_query[], skills_answer[], agents_answer[];

/* ---- tools ---- */

extern const struct body_field tools_answer[], tool_answer[], offload_answer[];

/* ---- skills that are put and shared ---- */

struct registry_args {
    struct body_text type, author, text;
    bool mine, versions;
    struct body_number limit, offset;
};
struct publish_args {
    struct body_text box, type, name, version, description, tags, sharing;
};
struct install_args {
    struct body_text entry;
    bool replace;
};
struct skill_args {
    bool base;
};
struct sync_args {
    struct body_text direction;
};
extern const struct body_field registry_query_fields[], registry_type_query[], publish_fields[], install_fields[],
    skill_base_query[], skill_sync_fields[], sync_report_answer[];
extern const struct body_field registry_answer[], entry_answer[], installed_answer[], uploaded_answer[];

/* ---- tokens ---- */

struct token_args {
    struct body_text user, scope, runner, label;
    struct body_number expires_in_ms;
};
extern const struct body_field token_fields[], token_answer[], tokens_answer[];

/* ---- the audit log ---- */

struct audit_args {
    struct body_text box, user, verb, outcome, since, until;
    struct body_number after, limit, wait_ms;
    bool tail;
};
extern const struct body_field audit_query_fields[], audit_answer[], verify_answer[];

#endif
