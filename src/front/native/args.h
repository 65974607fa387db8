/* The requests and answers of the native API: one struct and one table of rows each. */
#ifndef CUBBY_FRONT_NATIVE_ARGS_H
#define CUBBY_FRONT_NATIVE_ARGS_H

#include "box/box.h"
#include "box/signame.h"
#include "box/snapshot/snapshot.h"
#include "rows/write.h"
#include "skill/catalog/catalog.h"
#include "skill/own/own.h"
#include "skill/registry/registry.h"
#include "skill/registry/sync.h"
#include "store/audit.h"
#include "store/token.h"
#include "wire/spec.h"

/* ---- how rows are written ---- */

#define ROW(label, kind, args, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
#define PATH_TEXT "absolute, or relative to the workspace"
/* A member of a request: struct native_args. */
#define ASK_AS(label, kind, member) ROW(label, kind, native_args, member)
#define ASK(member, kind) ASK_AS(#member, kind, member)
#define PATH_ROW(member)                                                                                               \
    {                                                                                                                  \
        ASK(member, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED | ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATH_BYTES,     \
                           .text = PATH_TEXT                                                                           \
    }
/* Read by native/ticket.c alone. */
#define TICKET_ROW                                                                                                     \
    { ASK(ticket, TEXT), .max = 256, .text = "of POST /v1/tickets, instead of Authorization" }
#define END                                                                                                            \
    { .name = NULL }
#define SHOW(label, kind, meaning)                                                                                     \
    { .name = (label), .type = ROW_##kind, .max = INT64_MAX, .text = (meaning) }
#define SHOW_NULL(label, kind, meaning)                                                                                \
    { .name = (label), .type = ROW_##kind, .flags = ROW_NULLABLE, .max = INT64_MAX, .text = (meaning) }

/* ---- requests ---- */

struct native_args { /* of all routes but acquire; members that the rows of one do not name stay empty */
    struct row_text path, from, to, pattern, glob, old, new_text, encoding;                         /* files */
    struct row_text command, cwd, user, shell, stdin_text, stdin_base64, tag, term, stream, signal; /* commands */
    const char **argv, **env;
    struct row_text name, snapshot, thread, box, state, label, scope, runner, text, type, author, version, description;
    struct row_text tags, sharing, entry, direction, format, verb, outcome, since, until, after_id, ticket;
    struct row_number mode, depth, limit, offset, stderr_offset, context, wait_ms, timeout_ms, quiet_ms, pid, cols,
        rows;
    struct row_number output_limit_bytes, port, expires_in_ms, after;
    bool parents, append, recursive, overwrite, include_dirs, literal, ignore_case, all;
    bool stdin_open, eof, background, mine, versions, replace, base, tail;
};

/* ---- boxes ---- */

struct limits_args {
    struct row_number memory_mb, pids, disk_mb, open_files, output_bytes;
    struct row_real cpus;
};
struct mount_args {
    struct row_text source, target;
    bool read_only;
};
struct container_args {
    struct row_text user, runtime, platform, pull, init;
    bool read_only;
};
struct acquire_args {
    struct row_text user, thread, agent, machine, backend, template_name, shell, network;
    const char **env, **labels, **secrets;
    struct row_list mounts; /* struct mount_args */
    struct limits_args limits;
    struct container_args container;
    struct row_number idle_timeout_ms;
    bool temporary;
};
struct container_out {
    struct container container;
    const char *pull, *init;
};
struct usage_network_out {
    uint64_t connections, active, denied, bytes_in, bytes_out;
};
struct usage_out {
    struct row_number memory_bytes, cpu_ms, pids, disk_bytes, net_rx_bytes, net_tx_bytes, read_bytes, write_bytes;
    const struct usage_network_out *network;
};
struct usage_args {
    struct row_text since, until;
};
struct usage_at_out {
    uint64_t at_ms;
    struct usage_out usage;
};
struct remote_out {
    bool online;
    uint64_t since_ms;
    struct row_real latency_ms;
    const char *version, *isolation, *platform, *address;
};
struct box_out {
    const char *id, *user, *thread, *agent, *machine, *backend, *state, *died, *ended, *restarted, *workspace;
    const char *template_name, *network, *const *labels;
    uint64_t idle_timeout_ms, created_ms, used_ms;
    bool running, temporary;
    struct limits limits;
    struct usage_out usage;
    const struct container_out *container;
    const struct remote_out *remote;
};
struct boxes_out { /* after the boxes */
    const char *next;
};
struct ended_out {
    uint64_t ended;
};
extern const struct row events_query[];
extern const struct row acquire_fields[], boxes_query[], boxes_end_query[];
extern const struct row usage_answer[], network_authority_answer[], network_query[], network_fields[],
    network_patch_fields[], network_test_query[], network_answer_fields[], network_answer[], network_test_answer[],
    network_learned_answer[]; /* network.c */
extern const struct row box_answer[], boxes_answer[], ended_answer[], usage_query[], usages_answer[];

/* ---- snapshots ---- */

struct snapshot_out {
    struct snapshot snapshot;
    const char *name;
    double pause_ms;
    size_t layers;
};
struct rollback_out {
    const char *snapshot;
    uint64_t processes_ended;
};
struct export_out {
    bool changed;
    const char *image;
    uint64_t bytes, duration_ms, processes_ended;
};
struct change_out {
    struct row_text path;
    const char *change, *type;
    uint64_t size;
};
struct truncated_out { /* of a list whose items are written one by one */
    bool truncated;
};
extern const struct row snapshot_fields[], rollback_fields[], fork_fields[], diff_query[];
extern const struct row snapshot_answer[], snapshots_answer[], rollback_answer[], diff_answer[], export_answer[];

/* ---- commands ---- */

struct result_out { /* how a command ended */
    struct row_number exit_code, memory_limit_bytes;
    const char *signal;
    char signal_name[SIGNAME_BYTES];
    struct exec_result result;
};
#define NATIVE_RESULT_ROWS(holder)                                                                                     \
    OUT_NULL("exit_code", INT, holder, ended.exit_code, "null when a signal ended it"),                                \
        OUT_NULL("signal", TEXT, holder, ended.signal, "e.g. SIGKILL; null when it exited"),                           \
        OUT("timed_out", BOOL, holder, ended.result.timed_out, "killed at timeout_ms"),                                \
        OUT("oom_killed", BOOL, holder, ended.result.oom_killed,                                                       \
            "a process of the box was killed for lack of memory while it ran"),                                        \
        OUT_NULL("memory_limit_bytes", INT, holder, ended.memory_limit_bytes,                                          \
                 "the box's limit of memory; null without one"),                                                       \
        OUT("stuck", BOOL, holder, ended.result.stuck,                                                                 \
            "a process of it hangs in the kernel, could not be killed and goes with the box"),                         \
        OUT_INT("stdout_bytes", holder, ended.result.stdout_bytes, "bytes produced, kept or not"),                     \
        OUT_INT("stderr_bytes", holder, ended.result.stderr_bytes, "bytes produced, kept or not")
struct process_out {
    uint64_t pid, started_ms;
    const char *command, *state, *tag, *cwd;
    const char *const *argv;
    struct result_out ended;
};
struct exec_out { /* after its output */
    struct result_out ended;
    bool stdout_truncated, stderr_truncated;
    struct row_list denied; /* rows */
    struct denied_out {
        const char *to, *why;
        uint64_t count;
    } rows[EXEC_DENIALS];
};
extern const struct row exec_fields[], spawn_fields[], output_query[], stdin_query[], signal_fields[], pty_query[];
extern const struct row exec_answer[], exec_rest[], spawn_answer[], process_answer[], processes_answer[];

/* ---- files ---- */

struct file_out {
    struct row_text name, path, target;
    const char *type, *special;
    uint64_t size, mtime_ms;
    uint32_t mode, uid, gid;
};
struct skipped_out {
    struct row_text name;
    const char *reason;
};
struct glob_out {
    struct glob_result result;
    const char *encoding;
};
struct hash_out {
    const char *sha256;
    uint64_t size;
};
extern const struct row ticket_query[], get_query[], archive_query[], path_query[], workspace_query[], put_query[],
    remove_query[], list_query[], watch_query[], mkdir_fields[], move_fields[], glob_fields[], grep_fields[],
    edit_fields[];
extern const struct row stat_answer[], list_answer[], glob_answer[], grep_answer[], hash_answer[], edit_answer[],
    unpack_answer[];

/* ---- catalogues, and skills that are put and shared ---- */

struct catalog_out { /* after its entries */
    const char *workspace, *const *bad;
};
struct entry_out {
    struct registry_entry entry;
    const char *sha256, *path; /* path: in the box where it was installed */
};
struct registry_out { /* after its entries */
    uint64_t total;
};
struct sync_out {
    struct sync_report report;
    const char *version, *error;
};
extern const struct row catalog_query[], skills_answer[], agents_answer[];

/* ---- tools ---- */

struct stale_out { /* a kept result that shows a file which has changed */
    const char *id, *path, *change;
};
extern const struct row tools_answer[], tool_answer[], offload_answer[];

extern const struct row registry_query_fields[], registry_type_query[], publish_fields[], install_fields[],
    skill_base_query[], skill_sync_fields[], sync_report_answer[];
extern const struct row registry_answer[], entry_answer[], installed_answer[], uploaded_answer[];

/* ---- tokens ---- */

struct ticket_out {
    const char *ticket, *url, *origin;
    uint64_t until_ms;
};
extern const struct row ticket_fields[], ticket_answer[];
struct token_out {
    struct token token;
    const char *id, *scope, *text; /* text: the secret, of a new one */
    bool configured;
};
extern const struct row token_fields[], token_answer[], tokens_answer[];

/* ---- the audit log ---- */

struct event_out {
    struct audit_row row;
    struct row_text texts[AUDIT_TEXTS];
    struct row_number status, exit_code, timed_out, oom_killed;
    const char *signal, *hash;
    double duration_ms;
};
struct audit_out { /* after its rows */
    uint64_t next;
    bool truncated;
};
struct verify_out {
    struct audit_verdict verdict;
    bool intact;
    const char *hash;
    struct row_number broken_at;
};
extern const struct row audit_query_fields[], audit_answer[], verify_answer[];

#endif
