/* The rows of every native request and answer. Read by the handlers (front_body, front_query) and by openapi.c.
 * Invariant: names and meanings here are the published contract; add, do not rename. */
#include "front/native/args.h"

#include "base/base.h"

/* ---- boxes ---- */

static const struct row mount_fields[] = {
    {ROW("source", TEXT, mount_args, source), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "a directory of the host that the configuration allows"},
    {ROW("target", TEXT, mount_args, target), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "absolute path in the box"},
    {ROW("read_only", BOOL, mount_args, read_only), .text = "the box may not write to it"},
    ROW_NAMED("Mount"),
};

static const struct row limits_fields[] = {
    {ROW("memory_mb", INT, limits_args, memory_mb), .min = 16, .max = 1u << 20, .text = "memory in MiB"},
    {ROW("cpus", REAL, limits_args, cpus), .max = 1024, .text = "processors, fractions allowed"},
    {ROW("pids", INT, limits_args, pids), .min = 8, .max = 1u << 22, .text = "processes and threads"},
    {ROW("disk_mb", INT, limits_args, disk_mb), .min = 1, .max = 1u << 30, .text = "files in MiB"},
    {ROW("open_files", INT, limits_args, open_files), .min = LIMIT_OPEN_FILES_LEAST, .max = LIMIT_OPEN_FILES,
     .text = "descriptors of one process; never more than the daemon's own hard limit"},
    {ROW("output_bytes", INT, limits_args, output_bytes), .min = 1, .max = LIMIT_OUTPUT_LIMIT_BYTES,
     .text = "largest output_limit_bytes of its commands"},
    ROW_NAMED("LimitsRequest"),
};

static const struct row container_fields[] = {
    {ROW("user", TEXT, container_args, user), .flags = ROW_AUDITED, .min = 1, .max = 129,
     .text = "whom commands run as in the container: NAME or UID, and :GROUP or :GID; default: the image's"},
    {ROW("runtime", TEXT, container_args, runtime), .flags = ROW_AUDITED, .min = 1, .max = 64,
     .text = "one of the engine's that the configuration allows, e.g. runsc; default: the configuration's, else the "
             "engine's"},
    {ROW("platform", TEXT, container_args, platform), .flags = ROW_AUDITED, .min = 1, .max = 64,
     .text = "of the image, e.g. linux/arm64; default: the engine's own"},
    {ROW("pull", TEXT, container_args, pull), .flags = ROW_AUDITED, .choices = "missing|always|never",
     .text = "whether the image comes from its registry; default: the configuration's"},
    {ROW("read_only", BOOL, container_args, read_only),
     .text = "the image's files cannot be changed; the workspace, /tmp and mounts can"},
    {ROW("init", TEXT, container_args, init), .flags = ROW_AUDITED, .choices = "runner|image",
     .text = "image: the image's own entry point runs, and the runner next to it; default runner"},
    ROW_NAMED("ContainerRequest"),
};

const struct row acquire_fields[] = {
    {ROW("user", TEXT, acquire_args, user), .min = 1, .max = LIMIT_USER_BYTES,
     .text = "owner: letters, digits and _.@-; default: the token's user, else 'default'"},
    {ROW("thread", TEXT, acquire_args, thread), .flags = ROW_AUDITED, .max = LIMIT_THREAD_BYTES,
     .text = "the same user and thread get the same box again; without one each call makes a new box"},
    {ROW("agent", TEXT, acquire_args, agent), .flags = ROW_AUDITED, .max = LIMIT_AGENT_BYTES,
     .text = "its public skills are at /skills; one box a user and agent, instead of a thread"},
    {ROW("machine", TEXT, acquire_args, machine), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_RUNNER_BYTES,
     .text = "a machine of the user's that joined: the box is on it; without a thread, it is the machine's own box"},
    {ROW("backend", TEXT, acquire_args, backend), .flags = ROW_AUDITED, .min = 1, .max = 32,
     .text = "how the box is made, e.g. jail"},
    {ROW("template", TEXT, acquire_args, template_name), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_NAME_BYTES,
     .text = "what the box's root looks like; default 'host'. Backend docker: an image; default: the configuration's"},
    {ROW("shell", TEXT, acquire_args, shell), .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "shell for commands; default /bin/bash where there is one, else /bin/sh"},
    {ROW("env", MAP, acquire_args, env), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT,
     .text = "environment of every command"},
    {ROW("mounts", OBJECTS, acquire_args, mounts), .flags = ROW_AUDITED, .max = LIMIT_MOUNTS, .fields = mount_fields,
     .item_size = sizeof(struct mount_args), .text = "directories of the host to see in the box"},
    {ROW("limits", OBJECT, acquire_args, limits), .fields = limits_fields, .text = "what the box may use at most"},
    {ROW("container", OBJECT, acquire_args, container), .fields = container_fields,
     .text = "backend docker: further settings of its container"},
    {ROW("network", TEXT_OR_OBJECT, acquire_args, network), .flags = ROW_AUDITED, .min = 1, .max = 65536,
     .choices = "none|open",
     .text = "none: loopback only (default); open: an own network with a way out; an object: the hosts that it may "
             "reach, {\"allow\": [\"pypi.org\"], \"deny\": []}"},
    {ROW("secrets", TEXTS, acquire_args, secrets), .flags = ROW_AUDITED, .max = LIMIT_BINDINGS,
     .text = "secrets that it may use and never has, each NAME or NAME=VARIABLE: commands find a placeholder there"},
    {ROW("idle_timeout_ms", INT, acquire_args, idle_timeout_ms), .max = 365ull * 86400000,
     .text = "processes end after so long without a call, files stay; 0: never. While background processes run, the "
             "configuration's busy_timeout_ms counts instead"},
    {ROW("temporary", BOOL, acquire_args, temporary),
     .text = "the box is deleted, with its files, after idle_timeout_ms without a call"},
    {ROW("labels", MAP, acquire_args, labels), .max = LIMIT_LABELS, .text = "names of your own to find boxes by"},
    ROW_NAMED("BoxRequest"),
};

#define STATES "starting|ready|warm|paused|exporting|closing|offline"
const struct row boxes_query[] = {
    {ASK(user, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "only this user's"},
    {ASK(state, TEXT), .choices = STATES, .text = "only in this state"},
    {ASK(label, TEXT), .min = 1, .max = 4096, .text = "only with this label: NAME or NAME=VALUE"},
    {ASK_AS("q", TEXT, pattern), .min = 1, .max = LIMIT_QUERY_WORDS,
     .text = "only with all these words in id, user, thread, agent, machine, backend, template or labels"},
    {ASK_AS("fields", TEXT, glob), .min = 1, .max = 512,
     .text = "only these members of each box, separated by commas: without usage a list costs a tenth"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_BOXES, .text = "so many at most; next then says where to continue"},
    {ASK_AS("after", TEXT, after_id), .min = 1, .max = 16,
     .text = "only after the box of this id: next of the page before"},
    END,
};
const struct row events_query[] = {
    {ASK(box, TEXT), .min = 1, .max = 17 * LIMIT_EVENT_BOXES, .text = "only of these boxes: ids, separated by commas"},
    {ASK(user, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "only of this user's boxes"},
    {ASK(type, TEXT), .min = 1, .max = 200, .text = "only of these types, separated by commas"},
    {ASK_AS("after", TEXT, after_id), .min = 1, .max = 64,
     .text = "only what came after the event of this id; 0: all that is held"},
    END,
};
const struct row boxes_end_query[] = {
    {ASK(user, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose boxes to destroy"},
    END,
};

static const struct row limits_answer[] = {
    OUT_INT("memory_mb", limits, memory_mb, "memory in MiB"),
    OUT("cpus", REAL, limits, cpus, "processors"),
    OUT_INT("pids", limits, pids, "processes and threads"),
    OUT_INT("disk_mb", limits, disk_mb, "files in MiB"),
    OUT_INT("open_files", limits, open_files, "descriptors of one process"),
    OUT_INT("output_bytes", limits, output_bytes, "largest output_limit_bytes of its commands"),
    ROW_NAMED("Limits"),
};
static const struct row remote_answer[] = {
    OUT("online", BOOL, remote_out, online, "the machine is connected now"),
    OUT_NULL("since", TIME, remote_out, since_ms,
             "online or offline since then; null: it was not seen since the daemon started"),
    OUT_NULL("latency_ms", REAL, remote_out, latency_ms, "there and back; null: not known"),
    OUT_NULL("version", TEXT, remote_out, version, "of its runner"),
    OUT_NULL("isolation", TEXT, remote_out, isolation, "jail, or none"),
    OUT_NULL("platform", TEXT, remote_out, platform, "system and processor"),
    OUT_NULL("address", TEXT, remote_out, address, "where it connects from"),
    ROW_NAMED("Remote"),
};
static const struct row container_answer[] = {
    OUT_NULL("user", TEXT, container_out, container.user, "whom commands run as; null: the image's"),
    OUT_NULL("runtime", TEXT, container_out, container.runtime, "null: the engine's default"),
    OUT_NULL("platform", TEXT, container_out, container.platform, "null: the engine's"),
    {ROW("pull", TEXT, container_out, pull), .choices = "missing|always|never", .text = "when its image is pulled"},
    OUT("read_only", BOOL, container_out, container.read_only, "the image's files cannot be changed"),
    {ROW("init", TEXT, container_out, init), .choices = "runner|image",
     .text = "which program is the container's first"},
    ROW_NAMED("Container"),
};
const struct row box_answer[] = {
    OUT("id", TEXT, box_out, id, "16 hex digits"),
    OUT("user", TEXT, box_out, user, "owner"),
    OUT_NULL("thread", TEXT, box_out, thread, "null when it has none"),
    OUT_NULL("agent", TEXT, box_out, agent, "whose skills are at /skills; null without an agent"),
    OUT_NULL("machine", TEXT, box_out, machine, "the joined machine that it is on; null elsewhere"),
    OUT("backend", TEXT, box_out, backend, "how it is made"),
    {ROW("state", TEXT, box_out, state), .choices = STATES,
     .text = "ready: in use; warm: released, or ended until it is used again; paused: its processes are frozen; "
             "offline: its machine is not connected"},
    OUT("running", BOOL, box_out, running, "it has processes; else they are started when it is used"),
    OUT_NULL(
        "died", TEXT, box_out, died,
        "why it stopped unexpectedly, null when it did not. Its files are kept; the next acquire or start starts it "
        "again, and of a box without a thread any use"),
    OUT_NULL("ended", TEXT, box_out, ended,
             "why its processes were ended, e.g. idle, and the commands that ran in the background then; null while it "
             "has processes, and when this daemon did not end them"),
    OUT_NULL("restarted", TEXT, box_out, restarted,
             "why the processes before the present ones stopped unexpectedly; null when they did not. The first answer "
             "after such a restart has it as the header Cubby-Restarted"),
    OUT("workspace", TEXT, box_out, workspace, "directory where commands start"),
    OUT("template", TEXT, box_out, template_name, "what its root is, or its image"),
    OUT_OBJECT_NULL("container", box_out, container, container_answer, "of backend docker; null for other backends"),
    {ROW("network", TEXT_OR_OBJECT, box_out, network), .choices = "none|open",
     .text = "its network: none, open, or the hosts that it may reach"},
    OUT_INT("idle_timeout_ms", box_out, idle_timeout_ms, "0: never"),
    OUT("temporary", BOOL, box_out, temporary, "it is deleted after its idle timeout"),
    OUT("created_at", TIME, box_out, created_ms, "when it was made"),
    OUT("last_used_at", TIME, box_out, used_ms, "last call"),
    OUT_OBJECT("limits", box_out, limits, limits_answer, "0: not limited"),
    OUT_OBJECT("usage", box_out, usage, usage_answer, "null where it cannot be measured"),
    OUT_OBJECT_NULL("remote", box_out, remote, remote_answer, "of its machine; null where it is on none"),
    {ROW("labels", MAP, box_out, labels), .text = "as given"},
    ROW_NAMED("Box"),
};
const struct row boxes_answer[] = {
    {.name = "boxes", .type = ROW_OBJECTS, .fields = box_answer, .text = "those that you may see, by their ids"},
    OUT_NULL("next", TEXT, boxes_out, next, "for after, where limit left some out; null: these are all"),
    ROW_NAMED("Boxes"),
};
const struct row ended_answer[] = {OUT_INT("ended", ended_out, ended, "boxes destroyed"), ROW_NAMED("Ended")};

/* ---- snapshots ---- */

const struct row snapshot_fields[] = {
    {ASK(name, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_SNAPSHOT_NAME,
     .text = "letters, digits and _.-; default: made from the time"},
    ROW_NAMED("SnapshotRequest"),
};
const struct row rollback_fields[] = {
    {ASK_AS("snapshot", TEXT, name), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_SNAPSHOT_NAME,
     .text = "its name"},
    ROW_NAMED("RollbackRequest"),
};
const struct row fork_fields[] = {
    {ASK(snapshot, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_SNAPSHOT_NAME,
     .text = "whose files; default: the box's as they are now"},
    {ASK(user, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "owner of the new box; default: the box's"},
    {ASK(thread, TEXT), .flags = ROW_AUDITED, .max = LIMIT_THREAD_BYTES, .text = "of the new box; default none"},
    ROW_NAMED("ForkRequest"),
};
const struct row diff_query[] = {
    {ASK(limit, INT), .min = 1, .max = LIMIT_DIFF_LIMIT, .fallback = DEFAULT_DIFF_LIMIT, .text = "changes"},
    END,
};
const struct row snapshot_answer[] = {
    OUT("name", TEXT, snapshot_out, name, "of the snapshot"),
    OUT("created_at", TIME, snapshot_out, snapshot.created_ms, "when"),
    {ROW("method", TEXT, snapshot_out, snapshot.method), .choices = "layer|btrfs|reflink|copy|commit",
     .text = "layer: the files became a layer below the box, nothing was copied; btrfs: a snapshot of the file system; "
             "reflink, copy: a copy, without or with its bytes; commit: the engine keeps its container as an image"},
    OUT("pause_ms", REAL, snapshot_out, pause_ms, "how long the processes of the box were frozen"),
    OUT_INT("copied_bytes", snapshot_out, snapshot.bytes, "bytes that had to be copied"),
    OUT("stopped", BOOL, snapshot_out, snapshot.stopped,
        "the box's idle runner was ended for it; the next use starts another"),
    OUT_INT("layers", snapshot_out, layers, "kept layers that it consists of"),
    ROW_NAMED("Snapshot"),
};
const struct row snapshots_answer[] = {
    {.name = "snapshots", .type = ROW_OBJECTS, .fields = snapshot_answer, .text = "the oldest first"},
    ROW_NAMED("Snapshots"),
};
const struct row rollback_answer[] = {
    OUT("snapshot", TEXT, rollback_out, snapshot, "whose files the box has now"),
    OUT_INT("processes_ended", rollback_out, processes_ended, "processes that ran in the box"),
    ROW_NAMED("Rollback"),
};
const struct row export_answer[] = {
    OUT("changed", BOOL, export_out, changed, "false: nothing has changed since its image, and nothing was done"),
    OUT_NULL("image", TEXT, export_out, image, "its name at the engine; null when nothing was done"),
    OUT_INT("bytes", export_out, bytes, "of its files"),
    OUT_INT("duration_ms", export_out, duration_ms, "how long it took"),
    OUT_INT("processes_ended", export_out, processes_ended, "processes that ran in the box"),
    ROW_NAMED("Export"),
};
static const struct row change_answer[] = {
    OUT_BYTES("path", change_out, path, "absolute"),
    OUT_ENCODING("path"),
    {ROW("change", TEXT, change_out, change), .choices = "added|modified|removed",
     .text = "of a removed directory only its own name is reported"},
    {ROW("type", TEXT, change_out, type), .choices = "file|dir|symlink|other", .text = "what it is, or was"},
    OUT_INT("size", change_out, size, "bytes; 0 for a directory"),
    ROW_NAMED("Change"),
};
const struct row diff_answer[] = {
    {.name = "changes", .type = ROW_OBJECTS, .fields = change_answer, .text = "directory by directory"},
    OUT("truncated", BOOL, truncated_out, truncated, "there were more, or some could not be reported"),
    ROW_NAMED("Diff"),
};

/* ---- commands ---- */

#define EXEC_ROWS                                                                                                      \
    {ASK(command, TEXT), .flags = ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES / 2,                                       \
     .text = "given to the box's shell; or argv"},                                                                     \
        {ASK(argv, TEXTS), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_ARGV_COUNT,                                    \
         .text = "program and arguments, no shell"},                                                                   \
        {ASK(cwd, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES, .text = "default: the workspace"},   \
        {ASK(env, MAP), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT, .text = "added to the box's environment"},        \
        {ASK_AS("stdin", TEXT, stdin_text), .flags = ROW_NUL, .max = LIMIT_STDIN_BYTES,                                \
         .text = "standard input as text"},                                                                            \
        {ASK(stdin_base64, TEXT), .max = LIMIT_STDIN_BYTES / 3 * 4 + 4,                                                \
         .text = "standard input as base64, instead of stdin"},                                                        \
    {                                                                                                                  \
        ASK(user, TEXT), .flags = ROW_AUDITED, .choices = "agent|root", .text = "who runs it inside; default agent"    \
    }

const struct row exec_fields[] = {
    EXEC_ROWS,
    {ASK(stdin_open, BOOL),
     .text = "event streams only: standard input stays open and is fed by processes/{pid}/stdin"},
    {ASK(timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS, .fallback = DEFAULT_EXEC_TIMEOUT_MS,
     .text = "after that the command is killed"},
    {ASK(output_limit_bytes, INT), .max = LIMIT_OUTPUT_LIMIT_BYTES, .fallback = DEFAULT_OUTPUT_LIMIT_BYTES,
     .text = "kept of each stream, at most limits.output_bytes; more loses its middle"},
    ROW_NAMED("ExecRequest"),
};
const struct row spawn_fields[] = {
    EXEC_ROWS,
    {ASK(timeout_ms, INT), .max = LIMIT_EXEC_TIMEOUT_MS, .text = "after that the command is killed; default 0: never"},
    {ASK(output_limit_bytes, INT), .max = LIMIT_OUTPUT_LIMIT_BYTES,
     .text = "accepted for the same body as exec; the kept output of a process is a ring of 1 MiB a stream"},
    {ASK(tag, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PROCESS_TAG_BYTES,
     .text = "a name for it, which lists repeat"},
    ROW_NAMED("ProcessRequest"),
};

static const struct row denied_answer[] = {
    OUT("to", TEXT, denied_out, to, "host and port"),
    OUT("why", TEXT, denied_out, why, "deny:ENTRY, default (no entry allows it), never, private"),
    OUT_INT("count", denied_out, count, "how often"),
    ROW_NAMED("NetworkDenied"),
};

#define EXEC_REST                                                                                                      \
    NATIVE_RESULT_ROWS(exec_out), OUT("stdout_truncated", BOOL, exec_out, stdout_truncated, "the middle was dropped"), \
        OUT("stderr_truncated", BOOL, exec_out, stderr_truncated, "the middle was dropped"),                           \
        OUT_INT("duration_ms", exec_out, ended.result.duration_ms, "from start to end"), {                             \
        ROW("network_denied", OBJECTS, exec_out, denied), .item_size = sizeof(struct denied_out),                      \
                                                          .fields = denied_answer,                                     \
                                                          .text = "what the box's network policy refused to it"        \
    }

const struct row exec_rest[] = {EXEC_REST, END};
const struct row exec_answer[] = {
    SHOW("stdout", TEXT, "what was kept"),
    SHOW("stderr", TEXT, "what was kept"),
    OUT_ENCODING("stdout and stderr"),
    EXEC_REST,
    ROW_NAMED("ExecResult"),
};
const struct row spawn_answer[] = {
    OUT_INT("pid", process_out, pid, "as seen inside the box"),
    OUT("started_at", TIME, process_out, started_ms, "when"),
    ROW_NAMED("ProcessStarted"),
};
const struct row process_answer[] = {
    OUT_INT("pid", process_out, pid, "as seen inside the box"),
    OUT("command", TEXT, process_out, command, "as given; arguments joined by blanks"),
    {ROW("state", TEXT, process_out, state), .choices = "running|exited", .text = "what it does"},
    OUT("started_at", TIME, process_out, started_ms, "when"),
    OUT_MAYBE("tag", TEXT, process_out, tag, "the name that it was given"),
    OUT_MAYBE("cwd", TEXT, process_out, cwd, "the directory that it was started in; of one process alone"),
    OUT_MAYBE("argv", TEXTS, process_out, argv, "as given, where no shell was asked for; of one process alone"),
    NATIVE_RESULT_ROWS(process_out),
    ROW_NAMED("Process"),
};
const struct row processes_answer[] = {
    {.name = "processes", .type = ROW_OBJECTS, .fields = process_answer, .text = "running and lately ended"},
    ROW_NAMED("Processes"),
};

const struct row output_query[] = {
    {ASK(stream, TEXT), .flags = ROW_AUDITED, .choices = "stdout|stderr", .text = "default stdout"},
    {ASK(offset, INT), .max = INT64_MAX, .text = "first byte wanted; default 0"},
    {ASK(stderr_offset, INT), .max = INT64_MAX, .text = "events: the same of stderr; default 0"},
    {ASK(wait_ms, INT), .max = 300000, .text = "wait so long for the first new byte"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_RING_BYTES, .fallback = LIMIT_RING_BYTES, .text = "at most so many bytes"},
    TICKET_ROW,
    END,
};
const struct row stdin_query[] = {
    {ASK(eof, BOOL), .text = "close the standard input after the body"},
    END,
};
const struct row signal_fields[] = {
    {ASK(signal, TEXT_OR_INT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 16,
     .text = "SIGTERM, TERM or a number; its process group gets it"},
    ROW_NAMED("SignalRequest"),
};

/* ---- files ---- */

#define PATH_FREE                                                                                                      \
    {                                                                                                                  \
        ASK(path, TEXT), .flags = ROW_AUDITED | ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATH_BYTES,                      \
                         .text = PATH_TEXT "; default: the workspace"                                                  \
    }

/* Paths, patterns and texts of one body, all of them or none. */
#define ENCODING_IN                                                                                                    \
    {                                                                                                                  \
        ASK(encoding, TEXT), .choices = "utf-8|base64",                                                                \
                             .text = "of the paths, patterns and texts of the request; default utf-8"                  \
    }

const struct row path_query[] = {PATH_ROW(path), END};
const struct row get_query[] = {PATH_ROW(path), TICKET_ROW, END};
const struct row workspace_query[] = {PATH_FREE, END};
const struct row archive_query[] = {PATH_FREE, TICKET_ROW, END};
const struct row ticket_query[] = {TICKET_ROW, END};
const struct row put_query[] = {
    PATH_ROW(path),
    {ASK(mode, MODE), .max = 07777, .text = "octal; default 0644, or the old file's"},
    {ASK(parents, BOOL), .text = "make missing directories"},
    {ASK(append, BOOL), .text = "add to the end; then not atomic"},
    END,
};
const struct row remove_query[] = {
    PATH_ROW(path),
    {ASK(recursive, BOOL), .text = "a directory with everything below it"},
    END,
};
const struct row watch_query[] = {
    PATH_FREE,
    {ASK(recursive, BOOL), .text = "directories below it too"},
    END,
};
const struct row list_query[] = {
    PATH_FREE,
    {ASK(depth, INT), .min = 1, .max = LIMIT_LIST_DEPTH, .fallback = 1, .text = "levels"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_LIST_LIMIT, .fallback = DEFAULT_LIST_LIMIT, .text = "entries"},
    {ASK_AS("sort", TEXT, type), .choices = "name",
     .text = "by path, byte by byte: pages of at most 1000; default: in no order"},
    {ASK_AS("after", TEXT, after_id), .flags = ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "with sort: only after this path, the last one of the page before"},
    END,
};
const struct row mkdir_fields[] = {
    PATH_ROW(path),
    {ASK(mode, MODE), .max = 07777, .fallback = 0755, .text = "octal; default 0755"},
    {ASK(parents, BOOL), .text = "make missing directories; one that exists is fine"},
    ENCODING_IN,
    ROW_NAMED("DirectoryRequest"),
};
const struct row move_fields[] = {
    PATH_ROW(from),
    PATH_ROW(to),
    {ASK(overwrite, BOOL), .text = "replace what is there; else that is EXISTS"},
    ENCODING_IN,
    ROW_NAMED("MoveRequest"),
};
const struct row glob_fields[] = {
    {ASK(pattern, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED | ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "* ? [] {} and **, which crosses directories"},
    PATH_FREE,
    {ASK(include_dirs, BOOL), .text = "directories too"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_GLOB_LIMIT, .fallback = DEFAULT_GLOB_LIMIT, .text = "paths"},
    {ASK(timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS, .fallback = DEFAULT_WALK_TIMEOUT_MS,
     .text = "then what was found so far is the answer"},
    ENCODING_IN,
    ROW_NAMED("GlobRequest"),
};
const struct row grep_fields[] = {
    {ASK(pattern, TEXT), .flags = ROW_REQUIRED | ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "a Perl-compatible regular expression"},
    PATH_FREE,
    {ASK(glob, TEXT), .flags = ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATTERN_BYTES, .text = "only files of this name"},
    {ASK(literal, BOOL), .text = "the pattern is plain text"},
    {ASK(ignore_case, BOOL), .text = "upper and lower case are the same"},
    {ASK(context, INT), .max = LIMIT_GREP_CONTEXT, .text = "lines before and after"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_GREP_LIMIT, .fallback = DEFAULT_GREP_LIMIT, .text = "matches"},
    {ASK(timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS, .fallback = DEFAULT_GREP_TIMEOUT_MS,
     .text = "then what was found so far is the answer"},
    ENCODING_IN,
    ROW_NAMED("GrepRequest"),
};
const struct row edit_fields[] = {
    PATH_ROW(path),
    {ASK(old, TEXT), .flags = ROW_REQUIRED | ROW_NUL | ROW_ANY_BYTES, .min = 1, .max = LIMIT_EDIT_BYTES,
     .text = "the text to replace"},
    {ASK_AS("new", TEXT, new_text), .flags = ROW_REQUIRED | ROW_NUL | ROW_ANY_BYTES, .max = LIMIT_EDIT_BYTES,
     .text = "the text instead"},
    {ASK(all, BOOL), .text = "every place; else it must be the only one"},
    ENCODING_IN,
    ROW_NAMED("EditRequest"),
};

const struct row stat_answer[] = {
    OUT_BYTES("name", file_out, name, "last part of the path"),
    OUT_BYTES("path", file_out, path, "whole path"),
    OUT_ENCODING("name, path and link_target"),
    {ROW("type", TEXT, file_out, type), .choices = "file|dir|symlink|other", .text = "what it is"},
    {ROW("special", TEXT, file_out, special), .flags = ROW_NULLABLE, .choices = "fifo|socket|char|block",
     .text = "which kind, where type is other and its runner knows"},
    OUT_INT("size", file_out, size, "bytes"),
    OUT("mode", MODE, file_out, mode, "octal permissions"),
    OUT("mtime", TIME, file_out, mtime_ms, "last change"),
    OUT_INT("uid", file_out, uid, "owner inside the box"),
    OUT_INT("gid", file_out, gid, "group inside the box"),
    OUT_BYTES_NULL("link_target", file_out, target, "of a symlink"),
    ROW_NAMED("File"),
};
const struct row list_answer[] = {
    {.name = "entries", .type = ROW_OBJECTS, .fields = stat_answer, .text = "in no order, or as sort says"},
    OUT("truncated", BOOL, truncated_out, truncated, "there were more"),
    ROW_NAMED("Files"),
};
const struct row glob_answer[] = {
    {.name = "paths", .type = ROW_TEXTS, .text = "what matched"},
    {ROW("encoding", TEXT, glob_out, encoding), .choices = "utf-8|base64", .text = "of every path"},
    OUT("truncated", BOOL, glob_out, result.truncated, "there were more"),
    OUT("timed_out", BOOL, glob_out, result.timed_out, "the search stopped early"),
    ROW_NAMED("GlobResult"),
};
static const struct row match_answer[] = {
    SHOW("path", TEXT, "file"),
    SHOW("line", INT, "from 1"),
    SHOW("text", TEXT, "the line, cut at 4096 bytes"),
    {.name = "before", .type = ROW_TEXTS, .flags = ROW_MAYBE, .text = "lines before, with context"},
    {.name = "after", .type = ROW_TEXTS, .flags = ROW_MAYBE, .text = "lines after, with context"},
    OUT_ENCODING("path, text, before and after"),
    ROW_NAMED("Match"),
};
const struct row grep_answer[] = {
    {.name = "matches", .type = ROW_OBJECTS, .fields = match_answer, .text = "what matched"},
    OUT("truncated", BOOL, grep_result, truncated, "there were more"),
    OUT("timed_out", BOOL, grep_result, timed_out, "the search stopped early"),
    OUT_INT("files_searched", grep_result, files_searched, "files looked into"),
    ROW_NAMED("GrepResult"),
};
const struct row hash_answer[] = {
    OUT("sha256", TEXT, hash_out, sha256, "64 hex digits"),
    OUT_INT("size", hash_out, size, "bytes"),
    ROW_NAMED("Hash"),
};
const struct row edit_answer[] = {
    OUT_INT("replacements", edit_result, count, "places changed"),
    OUT_INT("size", edit_result, stat.size, "bytes of the file now"),
    ROW_NAMED("EditResult"),
};
static const struct row skipped_answer[] = {
    OUT_BYTES("name", skipped_out, name, "as the archive has it"),
    OUT_ENCODING("name"),
    OUT("reason", TEXT, skipped_out, reason, "what was left out of it, and why"),
    ROW_NAMED("Skipped"),
};
const struct row unpack_answer[] = {
    {.name = "skipped",
     .type = ROW_OBJECTS,
     .fields = skipped_answer,
     .text = "devices, FIFOs, set-user-ID bits, all but the last of several entries of one name; at most 100"},
    OUT_INT("files", unpack_result, files, "entries unpacked"),
    OUT("truncated", BOOL, unpack_result, truncated, "more was left out than is listed"),
    ROW_NAMED("UnpackResult"),
};

/* ---- tickets ---- */

const struct row ticket_fields[] = {
    {ASK(port, INT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 65535, .text = "of the server in the box"},
    ROW_NAMED("TicketRequest"),
};
const struct row ticket_answer[] = {
    OUT("ticket", TEXT, ticket_out, ticket, "opens this box's previews, for the next minute"),
    OUT("url", TEXT, ticket_out, url, "for a browser: it trades the ticket for a cookie, and shows the server"),
    OUT("origin", TEXT, ticket_out, origin, "the same without the ticket"),
    OUT("expires_at", TIME, ticket_out, until_ms,
        "of the ticket; the cookie holds for 12 hours, or as long as the box"),
    ROW_NAMED("Ticket"),
};

/* ---- tokens ---- */

const struct row token_fields[] = {
    {ASK(user, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose boxes it sees; default 'default'; none for scope admin; scope read without one sees all"},
    {ASK(scope, TEXT), .flags = ROW_AUDITED, .choices = "admin|user|read|runner|worker",
     .text = "what it may do; default user, or runner where there is a runner's name; worker: boxes of backend fleet"},
    {ASK(runner, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_RUNNER_BYTES,
     .text = "scope runner or worker: name of the machine that joins with it"},
    {ASK(label, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_TOKEN_LABEL_BYTES, .text = "what it is for"},
    {ASK(expires_in_ms, INT), .min = 1, .max = LIMIT_TOKEN_DAYS * 86400000ull,
     .text = "after so long it is not known any more; default never"},
    ROW_NAMED("TokenRequest"),
};
#define TOKEN_ROWS                                                                                                     \
    OUT("id", TEXT, token_out, id, "12 hex digits, also in the audit log"),                                            \
        OUT_NULL("user", TEXT, token_out, token.user, "whose boxes it sees; null: all"),                               \
        {ROW("scope", TEXT, token_out, scope), .choices = "admin|user|read|runner|worker", .text = "what it may do"},  \
        OUT_NULL("runner", TEXT, token_out, token.runner, "name of the machine that joins with it"),                   \
        OUT_NULL("label", TEXT, token_out, token.label, "what it is for"),                                             \
        OUT_NULL("created_at", TIME, token_out, token.created_ms, "null for a configured one"),                        \
        OUT_NULL("expires_at", TIME, token_out, token.expires_ms, "null: never"),                                      \
        OUT_NULL("last_used_at", TIME, token_out, token.used_ms,                                                       \
                 "within a minute; null: never, or configured and not since the start"),                               \
        OUT_NULL("revoked_at", TIME, token_out, token.revoked_ms, "since then it is not accepted")
const struct row token_answer[] = {
    TOKEN_ROWS,
    OUT("token", TEXT, token_out, text, "the secret: only here, only now"),
    ROW_NAMED("NewToken"),
};
static const struct row token_row_answer[] = {
    TOKEN_ROWS,
    OUT("configured", BOOL, token_out, configured, "it is in the daemon's configuration"),
    ROW_NAMED("Token"),
};
const struct row tokens_answer[] = {
    {.name = "tokens", .type = ROW_OBJECTS, .fields = token_row_answer, .text = "revoked ones for 30 days"},
    ROW_NAMED("Tokens"),
};

/* ---- the audit log ---- */

const struct row audit_query_fields[] = {
    {ASK(box, TEXT), .min = 1, .max = 16, .text = "only about this box, which may be gone"},
    {ASK(user, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "only about this user's boxes"},
    {ASK(verb, TEXT), .min = 1, .max = 64, .text = "only this, e.g. exec or box_died"},
    {ASK(outcome, TEXT), .min = 1, .max = 16, .text = "ok, failed (all but ok), or an error's code"},
    {ASK(since, TEXT), .min = 1, .max = 40, .text = "begun at this time or later, RFC 3339"},
    {ASK(until, TEXT), .min = 1, .max = 40, .text = "begun before this time"},
    {ASK(after, INT), .max = INT64_MAX, .text = "only rows after this id: `next` of the last page"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_AUDIT_ROWS, .fallback = DEFAULT_AUDIT_ROWS, .text = "rows"},
    {ASK(tail, BOOL), .text = "the newest rows instead of the oldest"},
    {ASK(wait_ms, INT), .max = 300000, .text = "wait so long for the first row"},
    END,
};
/* A text of the log, which may hold any bytes but is not encoded; null where the row has none. */
#define EVENT_TEXT(label, column, bits, meaning)                                                                       \
    OUT_ROW(label, TEXT, event_out, texts[AUDIT_##column], ROW_NUL | (bits), meaning)
static const struct row event_answer[] = {
    OUT_INT("id", event_out, row.id, "1, 2, 3 ..."),
    OUT("at", TIME, event_out, row.at_ms, "when it began"),
    EVENT_TEXT("verb", VERB, 0,
               "operationId of the request, or an event: box_adopted, box_died, box_evicted, daemon_started ..."),
    EVENT_TEXT("box", BOX, ROW_NULLABLE, "its id"),
    EVENT_TEXT("user", USER, ROW_NULLABLE, "whose box; without a box whose request"),
    EVENT_TEXT("actor", ACTOR, ROW_NULLABLE, "user of the token; null when it is bound to none"),
    EVENT_TEXT("scope", SCOPE, ROW_NULLABLE, "of the token; null when no request caused it, or its sender is unknown"),
    EVENT_TEXT("token", TOKEN, ROW_NULLABLE, "which token: first 12 digits of its SHA-256"),
    EVENT_TEXT("peer", PEER, ROW_NULLABLE, "uid:N of a local client, address of others"),
    EVENT_TEXT("request_id", REQUEST_ID, ROW_NULLABLE, "X-Request-Id of the answer"),
    OUT_NULL("status", INT, event_out, status, "HTTP status; null when it was not a request, or still runs"),
    EVENT_TEXT("outcome", OUTCOME, 0,
               "ok, the error's code, or running: a lasting request has a row when it begins, and one when it ends"),
    OUT_NULL("exit_code", INT, event_out, exit_code, "of a command that was waited for"),
    OUT_NULL("signal", TEXT, event_out, signal, "that ended it"),
    OUT_NULL("timed_out", BOOL, event_out, timed_out, "killed at timeout_ms"),
    OUT_NULL("oom_killed", BOOL, event_out, oom_killed, "a process of the box was killed for lack of memory then"),
    OUT_INT("count", event_out, row.count,
            "similar GETs within a fifth of a second share a row: how many; sizes and time are sums"),
    OUT_INT("bytes_in", event_out, row.bytes_in, "of the request"),
    OUT_INT("bytes_out", event_out, row.bytes_out, "of the answer"),
    OUT("duration_ms", REAL, event_out, duration_ms, "from its head to the end of its answer"),
    OUT_BYTES_NULL("detail", event_out, texts[AUDIT_DETAIL],
                   "command or path, cut at 1024 bytes; values of environment variables appear as [NAME]"),
    OUT_ENCODING("detail"),
    OUT_NULL("hash", TEXT, event_out, hash,
             "SHA-256 over the hash of the row before and this row; null for a user's token"),
    ROW_NAMED("AuditEvent"),
};
const struct row audit_answer[] = {
    {.name = "events", .type = ROW_OBJECTS, .fields = event_answer, .text = "in the order they were written"},
    OUT_INT("next", audit_out, next, "after of the next page"),
    OUT("truncated", BOOL, audit_out, truncated, "there are more already"),
    ROW_NAMED("AuditEvents"),
};
const struct row verify_answer[] = {
    OUT("intact", BOOL, verify_out, intact, "every row follows from the one before, and the file is whole"),
    OUT_INT("rows", verify_out, verdict.rows, "rows there are"),
    OUT_INT("first", verify_out, verdict.first, "id of the oldest"),
    OUT_INT("last", verify_out, verdict.last, "id of the newest"),
    OUT("hash", TEXT, verify_out, hash, "of the newest: noted elsewhere, it vouches for all before it"),
    OUT_NULL("broken_at", INT, verify_out, broken_at, "the first row that does not follow"),
    OUT_NULL("damage", TEXT, verify_out, verdict.damage, "of the file"),
    ROW_NAMED("AuditVerified"),
};

/* ---- kept results ---- */

static const struct row stale_answer[] = {
    OUT("id", TEXT, stale_out, id, "of the kept result"),
    OUT("path", TEXT, stale_out, path, "of the file that it shows"),
    {ROW("change", TEXT, stale_out, change), .choices = "modified|removed", .text = "what happened to the file since"},
    ROW_NAMED("StaleResult"),
};
const struct row offload_answer[] = {
    SHOW("stale", TEXTS, "ids of kept results that went stale; each is reported once"),
    {.name = "results", .type = ROW_OBJECTS, .fields = stale_answer, .text = "the same, with why"},
    ROW_NAMED("StaleResults"),
};

/* ---- catalogues ---- */

const struct row catalog_query[] = {
    {ASK(format, TEXT), .choices = "json|prompt", .text = "prompt: text/plain, escaped, empty when there is nothing"},
    END,
};
#define CATALOG_ROWS                                                                                                   \
    OUT("id", TEXT, catalog_entry, id,                                                                                 \
        "of its folder, or of its file without .md: what paths and other calls name it by"),                           \
        OUT("name", TEXT, catalog_entry, meta.name, "what it calls itself"),                                           \
        OUT("description", TEXT, catalog_entry, meta.description, "what it is for"),                                   \
        OUT("path", TEXT, catalog_entry, path, "its folder, or file, in the box"),                                     \
        OUT_NULL("file", TEXT, catalog_entry, file, "the file that says all this; null: no such file"),                \
        {ROW("source", TEXT, catalog_entry, source), .choices = "personal|agent|global", .text = "whose it is"},       \
        OUT_NULL("author", TEXT, catalog_entry, meta.author, "as it says"),                                            \
        OUT_NULL("version", TEXT, catalog_entry, meta.version, "as it says"),                                          \
        OUT_NULL("license", TEXT, catalog_entry, meta.license, "as it says"),                                          \
        OUT_NULL("sharing", TEXT, catalog_entry, meta.sharing, "as it says"),                                          \
        OUT_NULL("model", TEXT, catalog_entry, meta.model, "that it wants"),                                           \
        OUT_NULL("tags", TEXTS, catalog_entry, meta.tags, "as it says"),                                               \
        OUT_NULL("tools", TEXTS, catalog_entry, meta.tools, "that it may use; null: all")
static const struct row skill_entry_answer[] = {CATALOG_ROWS, ROW_NAMED("Skill")};
static const struct row agent_entry_answer[] = {
    CATALOG_ROWS,
    OUT("memory", BOOL, catalog_entry, meta.memory, "it may remember"),
    OUT("send_message", BOOL, catalog_entry, meta.send_message, "it may send messages"),
    OUT("spawn_agent", BOOL, catalog_entry, meta.spawn_agent, "it may start sub-agents"),
    ROW_NAMED("Agent"),
};
#define CATALOG_END_ROWS                                                                                               \
    OUT("workspace", TEXT, catalog_out, workspace, "of the box"),                                                      \
        OUT("bad", TEXTS, catalog_out, bad, "files that could not be read as what they should be: PATH: why")
const struct row skills_answer[] = {
    {.name = "skills", .type = ROW_OBJECTS, .fields = skill_entry_answer, .text = "by name"},
    CATALOG_END_ROWS,
    ROW_NAMED("Skills"),
};
const struct row agents_answer[] = {
    {.name = "agents", .type = ROW_OBJECTS, .fields = agent_entry_answer, .text = "by name"},
    CATALOG_END_ROWS,
    ROW_NAMED("Agents"),
};

/* ---- skills that are put and shared ---- */

#define ENTRY_TYPES "skill|agent"
const struct row registry_query_fields[] = {
    {ASK(type, TEXT), .choices = ENTRY_TYPES, .text = "only of this type"},
    {ASK_AS("q", TEXT, text), .max = 256, .text = "only with this text in name, description or tags"},
    {ASK(mine, BOOL), .text = "only one's own"},
    {ASK(versions, BOOL), .text = "also versions that are not the newest"},
    {ASK(limit, INT), .min = 1, .max = LIMIT_REGISTRY_ROWS, .fallback = DEFAULT_REGISTRY_ROWS, .text = "entries"},
    {ASK(offset, INT), .max = INT32_MAX, .text = "entries to leave out first"},
    END,
};
const struct row registry_type_query[] = {
    {ASK(author, TEXT), .min = 1, .max = LIMIT_USER_BYTES, .text = "whose; default: as install"},
    {ASK(type, TEXT), .choices = ENTRY_TYPES, .text = "where a skill and an agent have one name"},
    END,
};
const struct row publish_fields[] = {
    {ASK(box, TEXT), .flags = ROW_REQUIRED, .min = 1, .max = 64, .text = "where it is"},
    {ASK(name, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_NAME_BYTES,
     .text = "of its folder, or of its file without .md"},
    {ASK(type, TEXT), .flags = ROW_AUDITED, .choices = ENTRY_TYPES, .text = "default skill"},
    {ASK(version, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_REGISTRY_VERSION,
     .text = "default: what its own file says, else the next whole number"},
    {ASK(sharing, TEXT), .flags = ROW_AUDITED, .choices = "public|private",
     .text = "private: only its author and admins see it; default: what its own file says, else public"},
    {ASK(description, TEXT), .max = LIMIT_REGISTRY_DESCRIPTION, .text = "default: its own file's"},
    {ASK(tags, TEXT), .max = LIMIT_REGISTRY_TAGS, .text = "separated by commas; default: its own file's"},
    ROW_NAMED("PublishRequest"),
};
const struct row install_fields[] = {
    {ASK(entry, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 512,
     .text = "a number, NAME or AUTHOR/NAME, perhaps with @VERSION; without one the newest"},
    {ASK(replace, BOOL), .text = "take the place of what is there; else that is EXISTS"},
    ROW_NAMED("InstallRequest"),
};
const struct row skill_base_query[] = {
    {ASK(base, BOOL), .text = "of the box's agent, for all of its users, instead of the user's own; for admins"},
    END,
};
const struct row skill_sync_fields[] = {
    {ASK(direction, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .choices = "from_base|to_base",
     .text =
         "from_base: the user's copy becomes the agent's; to_base: the agent's becomes the user's, for admins. What "
         "only the target has is removed there"},
    ROW_NAMED("SyncRequest"),
};
const struct row sync_report_answer[] = {
    {ROW("how", TEXT, sync_out, report.how), .choices = "mount|copy|none",
     .text = "how they got there; none: no global skills are configured"},
    OUT_NULL("version", TEXT, sync_out, version, "of the global tree; null: no tree is configured"),
    OUT_NULL("at", TIME, sync_out, report.at_ms, "when; null: never"),
    OUT_NULL("error", TEXT, sync_out, error, "what went wrong; null: nothing"),
    OUT_INT("written", sync_out, report.written, "files that were copied"),
    OUT_INT("removed", sync_out, report.removed, "files that are no longer there"),
    OUT_INT("kept", sync_out, report.kept, "files that the user had changed; they are not replaced"),
    OUT_INT("unchanged", sync_out, report.unchanged, "files that were there already"),
    ROW_NAMED("SyncReport"),
};

#define ENTRY_ROWS                                                                                                     \
    OUT_INT("id", entry_out, entry.id, "of this version"),                                                             \
        {ROW("type", TEXT, entry_out, entry.type), .choices = ENTRY_TYPES, .text = "what it is"},                      \
        OUT("name", TEXT, entry_out, entry.name, "of its folder or file"),                                             \
        OUT("author", TEXT, entry_out, entry.author, "the user who published it"),                                     \
        OUT("version", TEXT, entry_out, entry.version, "never another content"),                                       \
        {ROW("sharing", TEXT, entry_out, entry.sharing), .choices = "public|private", .text = "who sees it"},          \
        OUT("description", TEXT, entry_out, entry.description, "what it is for"),                                      \
        OUT("tags", TEXT, entry_out, entry.tags, "separated by commas"),                                               \
        OUT("sha256", TEXT, entry_out, sha256, "of the content"),                                                      \
        OUT_INT("bytes", entry_out, entry.bytes, "of all its files"),                                                  \
        OUT_INT("files", entry_out, entry.files, "how many"),                                                          \
        OUT("created_at", TIME, entry_out, entry.created_ms, "when it was published"),                                 \
        OUT("updated_at", TIME, entry_out, entry.updated_ms, "when what is said about it changed last")
const struct row entry_answer[] = {ENTRY_ROWS, ROW_NAMED("RegistryEntry")};
const struct row registry_answer[] = {
    {.name = "entries", .type = ROW_OBJECTS, .fields = entry_answer, .text = "the newest first"},
    OUT_INT("total", registry_out, total, "entries that fit, shown or not"),
    ROW_NAMED("RegistryEntries"),
};
const struct row installed_answer[] = {ENTRY_ROWS, OUT("path", TEXT, entry_out, path, "where it is in the box"),
                                       ROW_NAMED("InstalledEntry")};
const struct row uploaded_answer[] = {
    OUT("skills", TEXTS, own_change, skills, "that the archive held"),
    OUT("pending", BOOL, own_change, pending,
        "commands still use the old ones: they are replaced when the last of these has ended"),
    OUT_INT("background", own_change, background, "processes in the background that may hold the old ones"),
    ROW_NAMED("Uploaded"),
};
