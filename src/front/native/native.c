/* The route table of the native API, and the routes about the daemon itself. Used by daemon/main and openapi.c.
 * Invariant: this table is the published contract; --routes and /openapi.json come from it. */
#include "box/secret/secret.h"
#include "front/native/native.h"
#include "front/native/ticket.h"

#include "front/routes.h"
#include "tool/bang.h"
#include "tool/servers/server.h"

#define BOX "/v1/boxes/{id}"
#define BYTES "application/octet-stream"

static const struct row health_answer[] = {
    {.name = "status", .type = ROW_TEXT, .text = "ok"},
    {.name = "disk", .type = ROW_TEXT, .choices = "ok|full", .text = "that of the state directory"},
    {.name = "audit", .type = ROW_TEXT, .choices = "ok|failing|off", .text = "failing: rows wait in memory"},
    ROW_NAMED("Health"),
};
static const struct row info_check[] = {
    {.name = "name", .type = ROW_TEXT, .text = "of what, or whose clients"},
    {.name = "ok", .type = ROW_BOOL, .text = "whether all of them works"},
    {.name = "detail", .type = ROW_TEXT, .text = "what works"},
    {.name = "fix", .type = ROW_TEXT, .flags = ROW_NULLABLE, .text = "how to get the rest"},
    ROW_NAMED("Check"),
};
static const struct row info_answer[] = {
    {.name = "version", .type = ROW_TEXT, .text = "of cubby"},
    {.name = "default_backend", .type = ROW_TEXT, .text = "used when a request names none"},
    {.name = "started_at", .type = ROW_TIME, .text = "when the daemon came up"},
    {.name = "backends", .type = ROW_OBJECTS, .text = "what each can and cannot do here"},
    {.name = "checks",
     .type = ROW_OBJECTS,
     .fields = info_check,
     .text = "the key of secrets, and what clients of other products find here"},
    {.name = "features",
     .type = ROW_TEXTS,
     .text = "what this daemon can do beyond its first version, for clients that meet several: e.g. tickets"},
    ROW_NAMED("Info"),
};

static const struct row openapi_query[] = {
    {ASK_AS("dialect", TEXT, name), .min = 1, .max = 32, .text = "only this API: native, mcp, e2b ...; default: all"},
    END,
};

static const struct route native_routes[] = {
    {"GET", "/healthz", front_handle, ROUTE_QUICK, "health", "Answers when the daemon serves; needs no token.",
     ENDPOINT(.run = native_health, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET, .status = 200, .answer = health_answer)},
    {"GET", "/v1/info", front_handle, 0, "info", "Version, and backends with what each can and cannot do here.",
     ENDPOINT(.run = native_info, .flags = ENDPOINT_QUIET, .status = 200, .answer = info_answer)},
    {"GET", "/v1/whoami", front_handle, 0, "whoami", "Who you are here, and what you may do.",
     ENDPOINT(.run = native_whoami, .flags = ENDPOINT_QUIET, .status = 200, .answer = whoami_answer)},
    {"POST", "/v1/tickets", front_handle, 0, "ticket_for",
     "A ticket for one request within half a minute, for clients that cannot send Authorization there, such as a "
     "WebSocket of a browser; or for a login.",
     ENDPOINT(.run = native_ticket_for, .flags = ENDPOINT_READS | ENDPOINT_NO_BOX, .body = ticket_request_fields,
              .status = 201, .answer = ticket_made_answer)},
    {"POST", "/v1/login", front_handle, 0, "login",
     "Trade a ticket for a token that holds half a day, or as long as what the ticket was made with.",
     ENDPOINT(.run = native_login, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET, .body = login_fields, .status = 200,
              .answer = login_answer)},
    {"GET", "/metrics", front_handle, ROUTE_QUICK, "metrics", "Counters in the Prometheus text form.",
     ENDPOINT(.run = native_metrics, .flags = ENDPOINT_QUIET, .status = 200, .answer_media = "text/plain")},
    {"GET", "/openapi.json", front_handle, ROUTE_QUICK, "openapi", "This API as OpenAPI 3.1.",
     ENDPOINT(.run = native_openapi, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET, .query = openapi_query, .status = 200)},
    {"GET", "/", front_handle, ROUTE_QUICK, "root", "Where to go from here.",
     ENDPOINT(.run = native_root, .flags = ENDPOINT_OPEN | ENDPOINT_QUIET, .status = 200,
              .answer_media = "text/plain")},
    {"GET", "/v1/audit", front_handle, 0, "audit",
     "Who did what to which box, when, and how it went; also to deleted ones.",
     ENDPOINT(.run = native_audit, .flags = ENDPOINT_QUIET, .query = audit_query_fields, .status = 200,
              .answer = audit_answer)},
    {"GET", "/v1/audit/verify", front_handle, 0, "audit_verify", "Whether the audit log is whole and unchanged.",
     ENDPOINT(.run = native_audit_verify, .flags = ENDPOINT_QUIET, .status = 200, .answer = verify_answer)},

    {"POST", "/v1/tokens", front_handle, 0, "token_create", "Make a token; the secret is in this answer only.",
     ENDPOINT(.run = native_token_create, .flags = ENDPOINT_ADMIN, .body = token_fields, .status = 201,
              .answer = token_answer)},
    {"GET", "/v1/tokens", front_handle, 0, "token_list", "List tokens, without their secrets.",
     ENDPOINT(.run = native_token_list, .flags = ENDPOINT_ADMIN, .status = 200, .answer = tokens_answer)},
    {"DELETE", "/v1/tokens/{id}", front_handle, 0, "token_revoke", "Revoke a token; what it has open is cut off.",
     ENDPOINT(.run = native_token_revoke, .flags = ENDPOINT_ADMIN | ENDPOINT_NO_BOX, .status = 204)},

    {"PUT", "/v1/secrets/{name}", front_handle, 0, "secret_set",
     "Store a secret that boxes use and never have, or change it: with a value alone, only that.",
     ENDPOINT(.run = native_secret_put, .flags = ENDPOINT_NO_BOX, .body = secret_fields, .status = 200,
              .answer = secret_row_answer)},
    {"GET", "/v1/secrets", front_handle, 0, "secret_list", "List secrets, without their values.",
     ENDPOINT(.run = native_secrets, .query = secret_query, .status = 200, .answer = secrets_answer)},
    {"GET", "/v1/secrets/{name}", front_handle, 0, "secret_get", "Look at a secret, without its value.",
     ENDPOINT(.run = native_secret, .flags = ENDPOINT_NO_BOX, .query = secret_query, .status = 200,
              .answer = secret_row_answer)},
    {"DELETE", "/v1/secrets/{name}", front_handle, 0, "secret_removed",
     "Remove a secret; requests of boxes that carry its placeholder are refused from then on.",
     ENDPOINT(.run = native_secret_remove, .flags = ENDPOINT_NO_BOX, .query = secret_query, .status = 204)},

    {"GET", "/v1/network/ca", front_handle, 0, "network_ca",
     "The certificate of the authority that boxes with an inspected host trust, of this installation.",
     ENDPOINT(.run = native_network_authority, .status = 200, .answer = network_authority_answer)},

    {"GET", "/v1/users", front_handle, 0, "user_list", "Users who have boxes, and how many.",
     ENDPOINT(.run = native_users, .flags = ENDPOINT_ADMIN, .status = 200, .answer = users_answer)},
    {"GET", "/v1/agents", front_handle, 0, "agent_names",
     "Agents that have public skills or boxes, and how many boxes.",
     ENDPOINT(.run = native_agents, .flags = ENDPOINT_ADMIN, .status = 200, .answer = agent_names_answer)},
    {"GET", "/v1/templates", front_handle, 0, "template_list", "List templates: the roots that boxes are made from.",
     ENDPOINT(.run = native_templates, .flags = ENDPOINT_ADMIN, .status = 200, .answer = templates_answer)},
    {"PUT", "/v1/templates/{name}", front_handle, 0, "template_import",
     "Make a template of a tar archive, plain or compressed by gzip, xz, zstd or bzip2, whole or not at all. EXISTS "
     "when the name is taken; BUSY while another one is imported.",
     ENDPOINT(.run = native_template_put, .flags = ENDPOINT_ADMIN, .body_media = "application/x-tar", .status = 201,
              .answer = template_answer)},
    {"DELETE", "/v1/templates/{name}", front_handle, 0, "template_remove",
     "Remove a template; boxes that use it keep it.",
     ENDPOINT(.run = native_template_remove, .flags = ENDPOINT_ADMIN, .status = 204)},

    {"GET", "/v1/events", front_handle, 0, "events",
     "Box life as an event stream: created, ready, warm, paused, resumed, evicted, died, exported, deleted, adopted, "
     "cleaned, and of machines joined, left {id, type, time, box, user, thread, backend, machine, why}, and lost "
     "{count}; Last-Event-ID resumes.",
     ENDPOINT(.run = native_events, .flags = ENDPOINT_QUIET, .query = events_query, .status = 200,
              .answer_media = "text/event-stream")},

    {"POST", "/v1/boxes", front_handle, 0, "box_acquire", "Make a box, or find the one of this user and thread.",
     ENDPOINT(.run = native_acquire, .body = acquire_fields, .status = 201, .other_status = 200, .answer = box_answer)},
    {"GET", "/v1/boxes", front_handle, 0, "box_list", "List boxes.",
     ENDPOINT(.run = native_boxes, .query = boxes_query, .status = 200, .answer = boxes_answer)},
    {"DELETE", "/v1/boxes", front_handle, 0, "box_destroy_all", "Destroy all boxes of a user.",
     ENDPOINT(.run = native_destroy_all, .query = boxes_end_query, .status = 200, .answer = ended_answer)},
    {"GET", "/v1/boxes/usage", front_handle, 0, "box_usage_stream",
     "What running boxes use, as an event stream: usage {at, boxes: [[id, cpu_ms, memory_bytes, pids], ...]} every two "
     "seconds, the first with all of them, others with those that changed; nulls: it does not run any more.",
     ENDPOINT(.run = native_usage_stream, .flags = ENDPOINT_QUIET, .query = usage_stream_query, .status = 200,
              .answer_media = "text/event-stream")},
    {"GET", BOX, front_handle, 0, "box_get", "Look at a box.",
     ENDPOINT(.run = native_box, .flags = ENDPOINT_LOOK, .status = 200, .answer = box_answer)},
    {"GET", BOX "/usage", front_handle, 0, "box_usage", "What a box used over time, measured every few seconds.",
     ENDPOINT(.run = native_usage, .flags = ENDPOINT_LOOK, .query = usage_query, .status = 200,
              .answer = usages_answer)},
    {"DELETE", BOX, front_handle, 0, "box_destroy", "Destroy a box; nothing remains.",
     ENDPOINT(.run = native_destroy, .flags = ENDPOINT_NO_BOX, .status = 204)},
    {"POST", BOX "/release", front_handle, 0, "box_release",
     "Release a box: its state becomes warm, and it stays its owner's.",
     ENDPOINT(.run = native_release, .status = 200, .answer = box_answer)},
    {"POST", BOX "/pause", front_handle, 0, "box_pause",
     "Freeze its processes, with their memory, until it is resumed or deleted. Other calls answer PAUSED.",
     ENDPOINT(.run = native_pause, .flags = ENDPOINT_LOOK, .status = 200, .answer = box_answer)},
    {"POST", BOX "/resume", front_handle, 0, "box_resume",
     "Its processes continue where they were. A box that died is started again.",
     ENDPOINT(.run = native_resume, .flags = ENDPOINT_LOOK, .status = 200, .answer = box_answer)},
    {"POST", BOX "/start", front_handle, 0, "box_start",
     "Start a box whose processes ended or died, on its files. One that runs is left as it is; a paused one is BUSY.",
     ENDPOINT(.run = native_start, .flags = ENDPOINT_LOOK, .status = 200, .answer = box_answer)},

    {"PUT", BOX "/secrets/{name}", front_handle, 0, "secret_bind",
     "Let a box use a secret: commands that start from now on find its placeholder in a variable.",
     ENDPOINT(.run = native_binding_put, .flags = ENDPOINT_LOOK, .body = binding_fields, .status = 200,
              .answer = binding_row_answer)},
    {"GET", BOX "/secrets", front_handle, 0, "secret_bindings",
     "The secrets that a box may use, and their placeholders.",
     ENDPOINT(.run = native_bindings, .flags = ENDPOINT_LOOK, .status = 200, .answer = bindings_answer)},
    {"DELETE", BOX "/secrets/{name}", front_handle, 0, "secret_unbind", "Take a secret away from a box.",
     ENDPOINT(.run = native_binding_remove, .flags = ENDPOINT_LOOK, .status = 204)},
    {"GET", BOX "/network", front_handle, 0, "network_get", "What a box may reach, and what it has reached.",
     ENDPOINT(.run = native_network, .flags = ENDPOINT_LOOK, .status = 200, .answer = network_answer)},
    {"PUT", BOX "/network", front_handle, 0, "network_set",
     "Replace what a box may reach, also while it runs. When this answers, nothing that the new policy forbids is "
     "open. With If-Match: \"GENERATION\" only if it has not changed since.",
     ENDPOINT(.run = native_network_set, .flags = ENDPOINT_LOOK, .query = network_query, .body = network_fields,
              .status = 200, .answer = network_answer)},
    {"PATCH", BOX "/network", front_handle, 0, "network_patch",
     "Add entries to the policy of a box, or remove some. A box without a network gets one that allows nothing else.",
     ENDPOINT(.run = native_network_patch, .flags = ENDPOINT_LOOK, .query = network_query, .body = network_patch_fields,
              .status = 200, .answer = network_answer)},
    {"DELETE", BOX "/network", front_handle, 0, "network_remove", "Take the network of a box away: none.",
     ENDPOINT(.run = native_network_remove, .flags = ENDPOINT_LOOK, .query = network_query, .status = 200,
              .answer = network_answer)},
    {"GET", BOX "/network/test", front_handle, 0, "network_test", "What would happen to a connection, and why.",
     ENDPOINT(.run = native_network_test, .flags = ENDPOINT_LOOK, .query = network_test_query, .status = 200,
              .answer = network_test_answer)},
    {"GET", BOX "/network/learned", front_handle, 0, "network_learned",
     "The smallest policy that allows what the box has reached or tried since it started.",
     ENDPOINT(.run = native_network_learned, .flags = ENDPOINT_LOOK, .status = 200, .answer = network_learned_answer)},
    {"POST", BOX "/network/answers", front_handle, 0, "network_answer",
     "Answer a question of a box whose policy has mode ask (event network_ask).",
     ENDPOINT(.run = native_network_answer, .flags = ENDPOINT_LOOK, .body = network_answer_fields, .status = 204)},

    {"POST", BOX "/snapshots", front_handle, 0, "snapshot_create",
     "Keep the files as they are now, under a name. A box that runs nothing costs a rename, whatever it holds; one "
     "that does continues after a copy was made.",
     ENDPOINT(.run = native_snapshot, .flags = ENDPOINT_NO_BOX, .body = snapshot_fields, .status = 201,
              .answer = snapshot_answer)},
    {"GET", BOX "/snapshots", front_handle, 0, "snapshot_list", "What was kept, the oldest first.",
     ENDPOINT(.run = native_snapshots, .flags = ENDPOINT_NO_BOX, .status = 200, .answer = snapshots_answer)},
    {"DELETE", BOX "/snapshots/{name}", front_handle, 0, "snapshot_remove",
     "Forget one, in any order; boxes made from it keep their files.",
     ENDPOINT(.run = native_snapshot_remove, .flags = ENDPOINT_NO_BOX, .status = 204)},
    {"POST", BOX "/rollback", front_handle, 0, "rollback",
     "The files become those of a snapshot; what runs in the box is ended first.",
     ENDPOINT(.run = native_rollback, .flags = ENDPOINT_NO_BOX, .body = rollback_fields, .status = 200,
              .answer = rollback_answer)},
    {"POST", BOX "/fork", front_handle, 0, "fork",
     "A new box with the same files and settings: those of a snapshot, or as they are now. It runs at its first use.",
     ENDPOINT(.run = native_fork, .flags = ENDPOINT_NO_BOX, .body = fork_fields, .status = 201, .answer = box_answer)},
    {"POST", BOX "/export", front_handle, 0, "box_export",
     "A container box becomes one image of one layer and continues from it; what runs in it is ended, unless nothing "
     "changed since its image: then nothing happens. Other calls answer BUSY; events report the progress.",
     ENDPOINT(.run = native_export, .flags = ENDPOINT_NO_BOX, .status = 200, .answer = export_answer)},
    {"GET", BOX "/diff", front_handle, 0, "diff", "What changed against the template.",
     ENDPOINT(.run = native_diff, .query = diff_query, .status = 200, .answer = diff_answer)},

    {"POST", BOX "/exec", front_handle, 0, "exec",
     "Run a command and wait for it; with Accept: text/event-stream as events started, stdout, stderr, exit.",
     ENDPOINT(.run = native_exec, .flags = ENDPOINT_EVENTS, .body = exec_fields, .status = 200, .answer = exec_answer)},
    {"POST", BOX "/processes", front_handle, 0, "process_start", "Run a command in the background.",
     ENDPOINT(.run = native_spawn, .body = spawn_fields, .status = 201, .answer = spawn_answer)},
    {"GET", BOX "/processes", front_handle, 0, "process_list", "List background processes.",
     ENDPOINT(.run = native_processes, .status = 200, .answer = processes_answer)},
    {"GET", BOX "/processes/{pid}", front_handle, 0, "process_get", "Look at a background process.",
     ENDPOINT(.run = native_process, .status = 200, .answer = process_answer)},
    {"GET", BOX "/processes/{pid}/output", front_handle, 0, "process_output",
     "Output from an offset on; headers X-Next-Offset, X-First-Offset, X-Process-State. With Accept: text/event-stream "
     "both streams, from then on until it ends, as events started, stdout, stderr, exit: the process waits for its "
     "slowest reader, and no byte is lost.",
     ENDPOINT(.run = native_output, .flags = ENDPOINT_EVENTS, .query = output_query, .status = 200,
              .answer_media = BYTES)},
    {"POST", BOX "/processes/{pid}/stdin", front_handle, 0, "process_stdin", "Feed its standard input.",
     ENDPOINT(.run = native_stdin, .query = stdin_query, .body_media = BYTES, .status = 204)},
    {"POST", BOX "/processes/{pid}/signal", front_handle, 0, "process_signal", "Signal its process group.",
     ENDPOINT(.run = native_signal, .body = signal_fields, .status = 204)},
    {"POST", BOX "/sessions", front_handle, 0, "session_open",
     "Make a session, or find the one of this name: a shell that lives on from command to command.",
     ENDPOINT(.run = native_session_open, .body = session_fields, .status = 201, .other_status = 200,
              .answer = session_answer)},
    {"GET", BOX "/sessions", front_handle, 0, "session_list", "List sessions.",
     ENDPOINT(.run = native_sessions, .status = 200, .answer = sessions_answer)},
    {"GET", BOX "/sessions/{name}", front_handle, 0, "session_get", "Look at a session, or wait until it runs nothing.",
     ENDPOINT(.run = native_session, .query = session_wait_query, .status = 200, .answer = session_answer)},
    {"DELETE", BOX "/sessions/{name}", front_handle, 0, "session_end", "End a session with all it started.",
     ENDPOINT(.run = native_session_end, .status = 204)},
    {"POST", BOX "/sessions/{name}/exec", front_handle, 0, "session_exec",
     "Run a command in a session when its turn comes; with Accept: text/event-stream as events started, stdout, exit.",
     ENDPOINT(.run = native_session_exec, .flags = ENDPOINT_EVENTS, .body = session_exec_fields, .status = 200,
              .answer = session_exec_answer)},
    {"POST", BOX "/sessions/{name}/stdin", front_handle, 0, "session_stdin",
     "Type to the command that runs in a session.",
     ENDPOINT(.run = native_session_stdin, .body_media = BYTES, .status = 204)},
    {"POST", BOX "/sessions/{name}/stop", front_handle, 0, "session_stop",
     "End the command that runs in a session, with all it started; the session stays.",
     ENDPOINT(.run = native_session_stop, .status = 200, .answer = session_result_answer)},
    {"GET", BOX "/pty", front_handle, 0, "pty",
     "A terminal over a WebSocket: binary frames are bytes; text frames are {\"resize\":{\"cols\",\"rows\"}} and "
     "{\"pause\":true|false} (no output for now) from the client, {\"started\":{\"pid\",\"offset\"}} (the first byte "
     "that comes), {\"exit\":{...}} and {\"warning\":{\"message\"}} (a text frame was ignored) to it.",
     ENDPOINT(.run = native_pty, .flags = ENDPOINT_WRITES, .query = pty_query, .status = 101)},

    {"ANY", BOX "/ports/{port}/{path...}", front_handle, ROUTE_EMBED, "port",
     "A server in the box, by HTTP or WebSocket: the path after the port and the query go to it as they are. 502: "
     "no server listens, or it does not speak HTTP.",
     ENDPOINT(.run = native_port, .flags = ENDPOINT_WRITES, .body_media = "*/*", .status = 200, .answer_media = "*/*")},
    {"GET", BOX "/ports/{port}", front_handle, 0, "port_forward",
     "A server in the box by any protocol. Over a WebSocket: binary messages are bytes, the text message eof "
     "half-closes. With Upgrade: tcp: after 101 the connection is the server's. "
     "Without an upgrade: 308 to the same path with a final slash.",
     ENDPOINT(.run = native_forward, .flags = ENDPOINT_WRITES, .query = ticket_query, .status = 101,
              .other_status = 308)},
    {"POST", BOX "/tickets", front_handle, 0, "ticket",
     "A URL that opens a server in the box in a browser, under a host name of its own (PORT-ID.localhost, or below "
     "preview_domain).",
     ENDPOINT(.run = native_ticket, .flags = ENDPOINT_LOOK, .body = ticket_fields, .status = 201,
              .answer = ticket_answer)},
    {"ANY", PREVIEW_PREFIX "{id}/{port}/{path...}", front_handle, ROUTE_EMBED, "preview",
     "A server in the box under a host name of its own: by the Host PORT-ID.localhost or PORT-ID.DOMAIN alone.",
     ENDPOINT(.run = native_preview, .flags = ENDPOINT_WRITES, .body_media = "*/*", .status = 200,
              .answer_media = "*/*")},

    {"GET", BOX "/files", front_handle, ROUTE_QUICK, "file_get",
     "Content of a file; Range, If-Range and If-None-Match are honoured.",
     ENDPOINT(.run = native_get, .query = get_query, .status = 200, .other_status = 206, .answer_media = BYTES)},
    {"PUT", BOX "/files", front_handle, 0, "file_put",
     "Write a file whole or not at all; an If-Match that does not hold is 412 with code EXISTS, no space in the "
     "box (its disk_mb) 429 with code LIMIT.",
     ENDPOINT(.run = native_put, .flags = ENDPOINT_ETAG, .query = put_query, .body_media = BYTES, .status = 201,
              .other_status = 200)},
    {"DELETE", BOX "/files", front_handle, 0, "file_delete", "Remove a file, a link or a directory.",
     ENDPOINT(.run = native_remove, .query = remove_query, .status = 204)},
    {"GET", BOX "/stat", front_handle, 0, "file_stat", "Look at a file; a final link is not followed.",
     ENDPOINT(.run = native_stat, .query = path_query, .status = 200, .answer = stat_answer)},
    {"GET", BOX "/list", front_handle, 0, "file_list", "Entries of a directory.",
     ENDPOINT(.run = native_list, .query = list_query, .status = 200, .answer = list_answer)},
    {"POST", BOX "/mkdir", front_handle, 0, "file_mkdir", "Make a directory.",
     ENDPOINT(.run = native_mkdir, .body = mkdir_fields, .status = 204)},
    {"POST", BOX "/move", front_handle, 0, "file_move", "Rename a file, a link or a directory.",
     ENDPOINT(.run = native_move, .body = move_fields, .status = 204)},
    {"POST", BOX "/glob", front_handle, 0, "file_glob", "Paths that match a pattern.",
     ENDPOINT(.run = native_glob, .body = glob_fields, .status = 200, .answer = glob_answer)},
    {"POST", BOX "/grep", front_handle, 0, "file_grep", "Lines that match a pattern.",
     ENDPOINT(.run = native_grep, .body = grep_fields, .status = 200, .answer = grep_answer)},
    {"GET", BOX "/hash", front_handle, 0, "file_hash", "SHA-256 of a file.",
     ENDPOINT(.run = native_hash, .query = path_query, .status = 200, .answer = hash_answer)},
    {"POST", BOX "/edit", front_handle, 0, "file_edit", "Replace a string in a file.",
     ENDPOINT(.run = native_edit, .body = edit_fields, .status = 200, .answer = edit_answer)},
    {"GET", BOX "/watch", front_handle, 0, "file_watch",
     "Changes as an event stream: ready, then created, modified, removed, moved {path, to, encoding}.",
     ENDPOINT(.run = native_watch, .query = watch_query, .status = 200, .answer_media = "text/event-stream")},
    {"GET", BOX "/archive", front_handle, 0, "archive_get", "A tree as a tar.",
     ENDPOINT(.run = native_archive, .query = archive_query, .status = 200, .answer_media = "application/x-tar")},
    {"PUT", BOX "/archive", front_handle, 0, "archive_put",
     "Unpack a tar below a directory, whole or not at all: into the directories that are there, over the files that "
     "are. A name that is absolute, holds '..' or goes through a link, an archive without its end mark, and more than "
     "max_unpack_entries refuse the archive.",
     ENDPOINT(.run = native_unpack, .query = workspace_query, .body_media = "application/x-tar", .status = 200,
              .answer = unpack_answer)},

    {"GET", BOX "/skills", front_handle, 0, "skill_list",
     "The skills that a box has to offer: personal ones before its agent's before global ones, the first of a name "
     "counts. format=prompt: as a block for a system prompt.",
     ENDPOINT(.run = native_catalog, .query = catalog_query, .status = 200, .answer = skills_answer)},
    {"GET", BOX "/agents", front_handle, 0, "agent_list",
     "The sub-agents that a box has to offer: personal ones before global ones. format=prompt: as a block for a system "
     "prompt.",
     ENDPOINT(.run = native_catalog, .query = catalog_query, .status = 200, .answer = agents_answer)},
    {"PUT", BOX "/skills", front_handle, 0, "skill_upload",
     "Skills out of a ZIP, each a folder of it: the archive is checked whole, then each replaces the one of its name "
     "whole. 202: commands use the old ones until they end.",
     ENDPOINT(.run = native_skill_upload, .query = skill_base_query, .body_media = "application/zip", .status = 200,
              .other_status = 202, .answer = uploaded_answer)},
    {"POST", BOX "/skills", front_handle, 0, "skill_install",
     "A published skill into the workspace's skills, whole or not at all.",
     ENDPOINT(.run = native_install, .body = install_fields, .status = 201, .answer = installed_answer)},
    {"DELETE", BOX "/skills/{name}", front_handle, 0, "skill_remove",
     "Remove a skill from a box: of an agent's it hides the agent's own. 202: commands use it until they end.",
     ENDPOINT(.run = native_skill_remove, .query = skill_base_query, .status = 204, .other_status = 202)},
    {"POST", BOX "/skills/{name}/sync", front_handle, 0, "skill_sync",
     "Between the user's copy of a skill and that of the box's agent.",
     ENDPOINT(.run = native_skill_sync, .body = skill_sync_fields, .status = 204)},
    {"POST", BOX "/agents", front_handle, 0, "agent_install", "A published sub-agent into the workspace's agents.",
     ENDPOINT(.run = native_install, .body = install_fields, .status = 201, .answer = installed_answer)},
    {"DELETE", BOX "/agents/{name}", front_handle, 0, "agent_remove", "Remove a sub-agent from a box.",
     ENDPOINT(.run = native_agent_remove, .status = 204)},

    {"GET", BOX "/sync", front_handle, 0, "synced",
     "What became of the global skills and sub-agents of a box, which lie in .skills and .agents of its workspace.",
     ENDPOINT(.run = native_synced, .flags = ENDPOINT_LOOK, .status = 200, .answer = sync_report_answer)},
    {"POST", BOX "/sync", front_handle, 0, "sync",
     "Place them again: copies by difference. Where they are mounted, they are those of the box's start.",
     ENDPOINT(.run = native_sync, .status = 200, .answer = sync_report_answer)},

    {"GET", "/v1/registry", front_handle, 0, "registry_search",
     "Skills and sub-agents that users share, and one's own; the newest version of each.",
     ENDPOINT(.run = native_registry_search, .query = registry_query_fields, .status = 200, .answer = registry_answer)},
    {"POST", "/v1/registry", front_handle, 0, "registry_publish",
     "Share a skill or a sub-agent of a box. Links in it become what they lead to; a version never becomes another "
     "content.",
     ENDPOINT(.run = native_registry_publish, .body = publish_fields, .status = 201, .answer = entry_answer)},
    {"GET", "/v1/registry/{entry}", front_handle, 0, "registry_get",
     "One entry: a number or a name, perhaps with @VERSION.",
     ENDPOINT(.run = native_registry_get, .query = registry_type_query, .status = 200, .answer = entry_answer)},
    {"DELETE", "/v1/registry/{entry}", front_handle, 0, "registry_unpublish",
     "For its author and admins: without a version all of them go. What was installed stays.",
     ENDPOINT(.run = native_registry_remove, .query = registry_type_query, .status = 204)},

    {"GET", "/v1/tools", front_handle, 0, "tool_list", "The agent tools with their JSON schemas.",
     ENDPOINT(.run = native_tools, .flags = ENDPOINT_QUIET, .status = 200, .answer = tools_answer)},
    {"GET", BOX "/tools", front_handle, 0, "box_tools",
     "The tools that this box has: the agent tools, and those of its user's MCP servers, which are started for it.",
     ENDPOINT(.run = native_tools_all, .flags = ENDPOINT_WRITES, .status = 200, .answer = tools_answer)},
    {"GET", "/v1/threads/{thread}/tools", front_handle, 0, "thread_tools",
     "The same for this thread, whose box is made if an MCP server needs one.",
     ENDPOINT(.run = native_tools_all, .flags = ENDPOINT_WRITES, .status = 200, .answer = tools_answer)},
    {"GET", "/v1/mcp/servers", front_handle, 0, "server_list", "The MCP servers of a user, and what runs of them.",
     ENDPOINT(.run = native_servers, .query = servers_query, .status = 200, .answer = servers_answer)},
    {"GET", "/v1/mcp/servers/{name}", front_handle, 0, "server_get", "One of them.",
     ENDPOINT(.run = native_server, .query = servers_query, .status = 200, .answer = server_answer)},
    {"PUT", "/v1/mcp/servers/{name}", front_handle, 0, "server_put",
     "Configure an MCP server (stdio): it is started in the box of the user who lists or calls its tools, which "
     "are NAME__TOOL.",
     ENDPOINT(.run = native_server_put, .query = servers_query, .body = server_fields, .status = 201,
              .other_status = 200, .answer = server_answer)},
    {"DELETE", "/v1/mcp/servers/{name}", front_handle, 0, "server_remove", "Forget one, and end what runs of it.",
     ENDPOINT(.run = native_server_remove, .query = servers_query, .status = 204)},
    {"POST", BOX "/tools/{name}", front_handle, 0, "tool",
     "Run an agent tool in a box; the body is its arguments. The header Cubby-Thread distinguishes threads of one box.",
     ENDPOINT(.run = native_tool, .body_media = "application/json", .status = 200, .answer = tool_answer)},
    {"POST", "/v1/threads/{thread}/tools/{name}", front_handle, 0, "thread_tool",
     "Run an agent tool in the box of this thread, which is made at the first call that needs it; Cubby-Parent: the "
     "thread whose box it works in.",
     ENDPOINT(.run = native_tool, .body_media = "application/json", .status = 200, .answer = tool_answer)},
    {"POST", "/v1/threads/{thread}/bang", front_handle, 0, "bang",
     "Run what a person typed in a chat, in the sender's box of that chat: !COMMAND, !cd DIR, !get FILE, !! to repeat. "
     "The box is made if needed.",
     ENDPOINT(.run = native_bang, .body = bang_fields, .status = 200, .answer = bang_answer)},
    {"POST", BOX "/offload/refresh", front_handle, 0, "offload_refresh",
     "Which kept results of tools show files that have changed since; of the conversation that Cubby-Thread names.",
     ENDPOINT(.run = native_offload, .status = 200, .answer = offload_answer)},
    {"POST", "/v1/threads/{thread}/offload/refresh", front_handle, 0, "thread_offload_refresh",
     "Which kept results of this thread's tools show files that have changed since: to be asked after each batch of "
     "calls. A box is started only when there is something to look at.",
     ENDPOINT(.run = native_offload, .status = 200, .answer = offload_answer)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static const struct route *const native_tables[] = {native_routes, NULL};

/* ---- the dialect ---- */

struct native_state *native_state(const struct http_request *request) {
    return front_state(front_of(request), &native_dialect);
}

static void native_close(void *state) {
    struct native_state *native = state;
    if (native) {
        state_secret_done(&native->secret);
        tickets_free(native->tickets);
    }
    free(native);
}

static int native_open(const char *directory, void **ret_state, struct err *err) {
    struct native_state *native = xcalloc(1, sizeof *native);
    native->tickets = tickets_new();
    int failed = state_secret_open(directory, "preview-key", &native->secret, err);
    if (failed)
        native_close(native);
    else
        *ret_state = native;
    return failed;
}

static int native_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err) {
    if (preview_is(request))
        return preview_admit(request, needs, ret_who, err);
    int failed = ticket_admit(request, needs, ret_who, err);
    return failed > 0 ? auth_admit(front_of(request)->auth, request, needs, ret_who, err) : failed;
}

const struct dialect native_dialect = {
    .name = "native",
    .routes = native_tables,
    .open = native_open,
    .close = native_close,
    .locate = preview_locate,
    .admit = native_admit,
};

int native_health(struct http_request *request, struct box *, struct err *) {
    const struct front *front = front_of(request);
    struct audit_counts counts = {0};
    char body[80];
    if (front->audit)
        audit_count(front->audit, &counts);
    int len = snprintf(body, sizeof body, "{\"status\":\"ok\",\"disk\":\"%s\",\"audit\":\"%s\"}",
                       provider_room(front->provider, ERR_IGNORED) < 0 ? "full" : "ok",
                       !front->audit    ? "off"
                       : counts.failing ? "failing"
                                        : "ok");
    return http_reply(request, 200, "application/json", body, (size_t)len);
}

int native_root(struct http_request *request, struct box *, struct err *) {
    static const char body[] = "cubby " CUBBY_VERSION "\n\n"
                               "The API is described at /openapi.json. To begin:\n\n"
                               "  curl -X POST http://HOST/v1/boxes\n"
                               "  curl http://HOST/v1/boxes/ID/exec -d '{\"command\":\"echo hello\"}'\n";
    return http_reply(request, 200, "text/plain; charset=utf-8", body, sizeof body - 1);
}

static void native_info_row(const struct check *check, struct json *json) {
    json_open(json, '{');
    json_put_str(json, "name", check->name);
    json_put_bool(json, "ok", check->ok);
    json_put_str(json, "detail", check->detail);
    json_put_str(json, "fix", check->fix[0] ? check->fix : NULL);
    json_close(json, '}');
}

static void native_info_check(const struct http_request *request, const struct dialect *dialect, struct json *json) {
    struct check check = {0};
    if (!dialect->check)
        return;
    dialect->check(request, &check);
    native_info_row(&check, json);
}

/* Where the key of stored secrets is, and what that is worth. */
static void native_info_secrets(struct secrets *secrets, struct json *json) {
    struct check check = {.name = "key of secrets"};
    struct err err = {0};
    if (!secrets)
        return;
    const char *key = secret_store_key(secrets_store(secrets));
    check.ok = secret_store_key_check(secrets_store(secrets), &err) == 0;
    snprintf(check.detail, sizeof check.detail, "%.80s%s", check.ok ? key : err.text,
             check.ok && strcmp(key, "STATE/secrets.key") == 0 ? ": a copy of STATE has key and secrets" : "");
    if (!check.ok)
        snprintf(check.fix, sizeof check.fix, "chmod 600 the file, and rotate the secrets that others may have read");
    native_info_row(&check, json);
}

/* Names stay; a client that does not find one does without it. */
static void native_features(const struct http_request *request, struct json *json) {
    static const char *const always[] = {"tickets",       "login",        "whoami",   "previews",
                                         "usage_history", "usage_stream", "networks", "secrets"};
    const struct native_settings *settings = front_own(request, &native_dialect);
    json_put_open(json, "features", '[');
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        json_str(json, always[i]);
    if (settings && settings->preview_domain)
        json_str(json, "preview_domain");
    json_close(json, ']');
}

int native_info(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_put_str(&answer.json, "version", CUBBY_VERSION);
    json_put_str(&answer.json, "default_backend", front_settings(request)->default_backend);
    json_put_time(&answer.json, "started_at", front->started_ms);
    json_key(&answer.json, "backends");
    provider_info(front->provider, &answer.json);
    json_put_open(&answer.json, "checks", '[');
    native_info_secrets(front->secrets, &answer.json);
    for (const struct dialect *const *dialect = dialects; *dialect; dialect++)
        native_info_check(request, *dialect, &answer.json);
    json_close(&answer.json, ']');
    native_features(request, &answer.json);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

int native_metrics(struct http_request *request, struct box *, struct err *err) {
    struct front *front = front_of(request);
    if (front_who(request)->user)
        return err_set(err, ERR_DENIED, "the metrics need a token that is not bound to a user");
    autobuf out = buf_max(4u << 20);
    metrics_write(front, &out);
    return http_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}

int native_openapi(struct http_request *request, struct box *, struct err *err) {
    autobuf out = buf_max(4u << 20);
    struct native_args args = {0};
    STEP(front_query(request, &args, err));
    if (args.name.data && !routes_named(args.name.data))
        return err_set(err, ERR_INVALID, "'dialect': there is no API of the name '%.40s'; one is native",
                       args.name.data);
    openapi_write(args.name.data, &out);
    return http_reply(request, 200, "application/json", out.data, out.len);
}
