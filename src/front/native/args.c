/* The rows of every native request and answer. Read by the handlers (front_body, front_query) and by openapi.c.
 * Invariant: names and meanings here are the published contract; add, do not rename. */
#include "front/native/args.h"

#include "base/limits.h"
#include "front/native/rows.h"
#include "rows/write.h"

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
     .text = "image: the image's own entry point runs, and the runner beside it; default runner"},
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
     .text = "backend docker: what its container is besides"},
    {ROW("network", TEXT, acquire_args, network), .flags = ROW_AUDITED, .min = 1, .max = 32, .choices = "none|open",
     .text = "none: loopback only (default); open: an own network with a way out"},
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
    {ROW("user", TEXT, boxes_args, user), .min = 1, .max = LIMIT_USER_BYTES, .text = "only this user's"},
    {ROW("state", TEXT, boxes_args, state), .choices = STATES, .text = "only in this state"},
    {ROW("label", TEXT, boxes_args, label), .min = 1, .max = 4096, .text = "only with this label: NAME or NAME=VALUE"},
    END,
};
const struct row events_query[] = {
    {ROW("box", TEXT, events_args, box), .min = 1, .max = 64, .text = "only of this box"},
    {ROW("user", TEXT, events_args, user), .min = 1, .max = LIMIT_USER_BYTES, .text = "only of this user's boxes"},
    {ROW("type", TEXT, events_args, type), .min = 1, .max = 200, .text = "only of these types, separated by commas"},
    {ROW("after", TEXT, events_args, after), .min = 1, .max = 64,
     .text = "only what came after the event of this id; 0: all that is held"},
    END,
};
const struct row boxes_end_query[] = {
    {ROW("user", TEXT, boxes_args, user), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
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
static const struct row usage_answer[] = {
    OUT_NULL("memory_bytes", INT, usage_out, memory_bytes, "memory in use"),
    OUT_NULL("cpu_ms", INT, usage_out, cpu_ms, "processor time so far"),
    OUT_NULL("pids", INT, usage_out, pids, "processes and threads now"),
    OUT_NULL("disk_bytes", INT, usage_out, disk_bytes, "bytes in the box's own files"),
    ROW_NAMED("Usage"),
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
    OUT_NULL("agent", TEXT, box_out, agent, "whose skills are at /skills; null when there are none"),
    OUT_NULL("machine", TEXT, box_out, machine, "the joined machine that it is on; null elsewhere"),
    OUT("backend", TEXT, box_out, backend, "how it is made"),
    {ROW("state", TEXT, box_out, state), .choices = STATES,
     .text = "ready: in use; warm: released, or ended until it is used again; paused: its processes stand still; "
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
    OUT_OBJECT_NULL("container", box_out, container, container_answer, "of backend docker; null where it is none"),
    {ROW("network", TEXT, box_out, network), .choices = "none|open", .text = "its network"},
    OUT_INT("idle_timeout_ms", box_out, idle_timeout_ms, "0: never"),
    OUT("temporary", BOOL, box_out, temporary, "it is deleted after its idle time-out"),
    OUT("created_at", TIME, box_out, created_ms, "when it was made"),
    OUT("last_used_at", TIME, box_out, used_ms, "last call"),
    OUT_OBJECT("limits", box_out, limits, limits_answer, "0: not limited"),
    OUT_OBJECT("usage", box_out, usage, usage_answer, "null where it cannot be measured"),
    OUT_OBJECT_NULL("remote", box_out, remote, remote_answer, "of its machine; null where it is on none"),
    {ROW("labels", MAP, box_out, labels), .text = "as given"},
    ROW_NAMED("Box"),
};
const struct row boxes_answer[] = {
    {.name = "boxes", .type = ROW_OBJECTS, .fields = box_answer, .text = "those that you may see"},
    ROW_NAMED("Boxes"),
};
const struct row ended_answer[] = {OUT_INT("ended", ended_out, ended, "boxes destroyed"), ROW_NAMED("Ended")};

/* ---- snapshots ---- */

const struct row snapshot_fields[] = {
    {ROW("name", TEXT, snapshot_args, name), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_SNAPSHOT_NAME,
     .text = "letters, digits and _.-; default: made from the time"},
    ROW_NAMED("SnapshotRequest"),
};
const struct row rollback_fields[] = {
    {ROW("snapshot", TEXT, snapshot_args, name), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1,
     .max = LIMIT_SNAPSHOT_NAME, .text = "its name"},
    ROW_NAMED("RollbackRequest"),
};
const struct row fork_fields[] = {
    {ROW("snapshot", TEXT, fork_args, snapshot), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_SNAPSHOT_NAME,
     .text = "whose files; default: the box's as they are now"},
    {ROW("user", TEXT, fork_args, user), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "owner of the new box; default: the box's"},
    {ROW("thread", TEXT, fork_args, thread), .flags = ROW_AUDITED, .max = LIMIT_THREAD_BYTES,
     .text = "of the new box; default none"},
    ROW_NAMED("ForkRequest"),
};
const struct row diff_query[] = {
    {ROW("limit", INT, diff_args, limit), .min = 1, .max = LIMIT_DIFF_LIMIT, .fallback = DEFAULT_DIFF_LIMIT,
     .text = "changes"},
    END,
};
const struct row snapshot_answer[] = {
    OUT("name", TEXT, snapshot_out, name, "of the snapshot"),
    OUT("created_at", TIME, snapshot_out, snapshot.created_ms, "when"),
    {ROW("method", TEXT, snapshot_out, snapshot.method), .choices = "layer|btrfs|reflink|copy|commit",
     .text = "layer: the files became a layer below the box, nothing was copied; btrfs: a snapshot of the file system; "
             "reflink, copy: a copy, without or with its bytes; commit: the engine keeps its container as an image"},
    OUT("pause_ms", REAL, snapshot_out, pause_ms, "how long what runs in the box stood still"),
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
    SHOW("path", TEXT, "absolute"),
    {.name = "encoding", .type = ROW_TEXT, .choices = "utf-8|base64", .text = "of path"},
    {.name = "change",
     .type = ROW_TEXT,
     .choices = "added|modified|removed",
     .text = "of a removed directory only its own name is told"},
    {.name = "type", .type = ROW_TEXT, .choices = "file|dir|symlink|other", .text = "what it is, or was"},
    SHOW("size", INT, "bytes; 0 for a directory"),
    ROW_NAMED("Change"),
};
const struct row diff_answer[] = {
    {.name = "changes", .type = ROW_OBJECTS, .fields = change_answer, .text = "directory by directory"},
    OUT("truncated", BOOL, truncated_out, truncated, "there were more, or some could not be told"),
    ROW_NAMED("Diff"),
};

/* ---- commands ---- */

#define EXEC_ROWS                                                                                                      \
    {ROW("command", TEXT, exec_args, command), .flags = ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES / 2,                 \
     .text = "given to the box's shell; or argv"},                                                                     \
        {ROW("argv", TEXTS, exec_args, argv), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_ARGV_COUNT,                 \
         .text = "program and arguments, no shell"},                                                                   \
        {ROW("cwd", TEXT, exec_args, cwd), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,                    \
         .text = "default: the workspace"},                                                                            \
        {ROW("env", MAP, exec_args, env), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT,                                 \
         .text = "added to the box's environment"},                                                                    \
        {ROW("stdin", TEXT, exec_args, stdin_text), .flags = ROW_NUL, .max = LIMIT_STDIN_BYTES,                        \
         .text = "standard input as text"},                                                                            \
        {ROW("stdin_base64", TEXT, exec_args, stdin_base64), .max = LIMIT_STDIN_BYTES / 3 * 4 + 4,                     \
         .text = "standard input as base64, instead of stdin"},                                                        \
    {                                                                                                                  \
        ROW("user", TEXT, exec_args, user), .flags = ROW_AUDITED, .choices = "agent|root",                             \
                                            .text = "who runs it inside; default agent"                                \
    }

const struct row exec_fields[] = {
    EXEC_ROWS,
    {ROW("stdin_open", BOOL, exec_args, stdin_open),
     .text = "event streams only: standard input stays open and is fed by processes/{pid}/stdin"},
    {ROW("timeout_ms", INT, exec_args, timeout_ms), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .fallback = DEFAULT_EXEC_TIMEOUT_MS, .text = "after that the command is killed"},
    {ROW("output_limit_bytes", INT, exec_args, output_limit_bytes), .max = LIMIT_OUTPUT_LIMIT_BYTES,
     .fallback = DEFAULT_OUTPUT_LIMIT_BYTES,
     .text = "kept of each stream, at most limits.output_bytes; more loses its middle"},
    ROW_NAMED("ExecRequest"),
};
const struct row spawn_fields[] = {
    EXEC_ROWS,
    {ROW("timeout_ms", INT, exec_args, timeout_ms), .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "after that the command is killed; default 0: never"},
    {ROW("output_limit_bytes", INT, exec_args, output_limit_bytes), .max = LIMIT_OUTPUT_LIMIT_BYTES,
     .text = "accepted for the same body as exec; the kept output of a process is a ring of 1 MiB a stream"},
    ROW_NAMED("ProcessRequest"),
};

#define RESULT_ROWS                                                                                                    \
    SHOW_NULL("exit_code", INT, "null when a signal ended it"),                                                        \
        SHOW_NULL("signal", TEXT, "e.g. SIGKILL; null when it exited"),                                                \
        SHOW("timed_out", BOOL, "killed at timeout_ms"),                                                               \
        SHOW("oom_killed", BOOL, "a process of the box was killed for memory meanwhile"),                              \
        SHOW_NULL("memory_limit_bytes", INT, "the box's limit of memory; null without one"),                           \
        SHOW("stuck", BOOL, "a process of it hangs in the kernel, could not be killed and goes with the box"),         \
        SHOW("stdout_bytes", INT, "bytes produced, kept or not"),                                                      \
        SHOW("stderr_bytes", INT, "bytes produced, kept or not")

const struct row exec_answer[] = {
    SHOW("stdout", TEXT, "what was kept"),
    SHOW("stderr", TEXT, "what was kept"),
    {.name = "encoding", .type = ROW_TEXT, .choices = "utf-8|base64", .text = "of stdout and stderr"},
    RESULT_ROWS,
    SHOW("stdout_truncated", BOOL, "the middle was dropped"),
    SHOW("stderr_truncated", BOOL, "the middle was dropped"),
    SHOW("duration_ms", INT, "from start to end"),
    ROW_NAMED("ExecResult"),
};
const struct row spawn_answer[] = {
    SHOW("pid", INT, "as seen inside the box"),
    SHOW("started_at", TIME, "when"),
    ROW_NAMED("ProcessStarted"),
};
const struct row process_answer[] = {
    SHOW("pid", INT, "as seen inside the box"),
    SHOW("command", TEXT, "as given; arguments joined by blanks"),
    {.name = "state", .type = ROW_TEXT, .choices = "running|exited", .text = "what it does"},
    SHOW("started_at", TIME, "when"),
    RESULT_ROWS,
    ROW_NAMED("Process"),
};
const struct row processes_answer[] = {
    {.name = "processes", .type = ROW_OBJECTS, .fields = process_answer, .text = "running and lately ended"},
    ROW_NAMED("Processes"),
};

const struct row output_query[] = {
    {ROW("stream", TEXT, output_args, stream), .flags = ROW_AUDITED, .choices = "stdout|stderr",
     .text = "default stdout"},
    {ROW("offset", INT, output_args, offset), .max = INT64_MAX, .text = "first byte wanted; default 0"},
    {ROW("wait_ms", INT, output_args, wait_ms), .max = 300000, .text = "wait so long for the first new byte"},
    {ROW("limit", INT, output_args, limit), .min = 1, .max = LIMIT_RING_BYTES, .fallback = LIMIT_RING_BYTES,
     .text = "at most so many bytes"},
    END,
};
const struct row stdin_query[] = {
    {ROW("eof", BOOL, stdin_args, eof), .text = "close the standard input after the body"},
    END,
};
const struct row signal_fields[] = {
    {ROW("signal", TEXT_OR_INT, signal_args, signal), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 16,
     .text = "SIGTERM, TERM or a number; its process group gets it"},
    ROW_NAMED("SignalRequest"),
};

/* ---- files ---- */

#define PATH_TEXT "absolute, or relative to the workspace"
#define PATH_FREE(args)                                                                                                \
    {                                                                                                                  \
        ROW("path", TEXT, args, path), .flags = ROW_AUDITED | ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATH_BYTES,        \
                                       .text = PATH_TEXT "; default: the workspace"                                    \
    }

/* Paths, patterns and texts of one body, all of them or none. */
#define ENCODING_IN(args)                                                                                              \
    {                                                                                                                  \
        ROW(ROW_ENCODING, TEXT, args, encoding), .choices = "utf-8|base64",                                            \
                                                 .text = "of the paths, patterns and texts beside it; default utf-8"   \
    }

const struct row path_query[] = {PATH_ROW(path_args, path, "path", PATH_TEXT), END};
const struct row workspace_query[] = {PATH_FREE(path_args), END};
const struct row put_query[] = {
    PATH_ROW(put_args, path, "path", PATH_TEXT),
    {ROW("mode", MODE, put_args, mode), .max = 07777, .text = "octal; default 0644, or the old file's"},
    {ROW("parents", BOOL, put_args, parents), .text = "make missing directories"},
    {ROW("append", BOOL, put_args, append), .text = "add to the end; then not atomic"},
    END,
};
const struct row remove_query[] = {
    PATH_ROW(remove_args, path, "path", PATH_TEXT),
    {ROW("recursive", BOOL, remove_args, recursive), .text = "a directory with everything below it"},
    END,
};
const struct row watch_query[] = {
    PATH_FREE(remove_args),
    {ROW("recursive", BOOL, remove_args, recursive), .text = "directories below it too"},
    END,
};
const struct row list_query[] = {
    PATH_FREE(list_args),
    {ROW("depth", INT, list_args, depth), .min = 1, .max = LIMIT_LIST_DEPTH, .fallback = 1, .text = "levels"},
    {ROW("limit", INT, list_args, limit), .min = 1, .max = LIMIT_LIST_LIMIT, .fallback = DEFAULT_LIST_LIMIT,
     .text = "entries"},
    END,
};
const struct row mkdir_fields[] = {
    PATH_ROW(mkdir_args, path, "path", PATH_TEXT),
    {ROW("mode", MODE, mkdir_args, mode), .max = 07777, .fallback = 0755, .text = "octal; default 0755"},
    {ROW("parents", BOOL, mkdir_args, parents), .text = "make missing directories; one that exists is fine"},
    ENCODING_IN(mkdir_args),
    ROW_NAMED("DirectoryRequest"),
};
const struct row move_fields[] = {
    PATH_ROW(move_args, from, "from", PATH_TEXT),
    PATH_ROW(move_args, to, "to", PATH_TEXT),
    {ROW("overwrite", BOOL, move_args, overwrite), .text = "replace what is there; else that is EXISTS"},
    ENCODING_IN(move_args),
    ROW_NAMED("MoveRequest"),
};
const struct row glob_fields[] = {
    {ROW("pattern", TEXT, glob_args, pattern), .flags = ROW_REQUIRED | ROW_AUDITED | ROW_ANY_BYTES, .min = 1,
     .max = LIMIT_PATTERN_BYTES, .text = "* ? [] {} and **, which crosses directories"},
    PATH_FREE(glob_args),
    {ROW("include_dirs", BOOL, glob_args, include_dirs), .text = "directories too"},
    {ROW("limit", INT, glob_args, limit), .min = 1, .max = LIMIT_GLOB_LIMIT, .fallback = DEFAULT_GLOB_LIMIT,
     .text = "paths"},
    {ROW("timeout_ms", INT, glob_args, timeout_ms), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .fallback = DEFAULT_WALK_TIMEOUT_MS, .text = "then what was found so far is the answer"},
    ENCODING_IN(glob_args),
    ROW_NAMED("GlobRequest"),
};
const struct row grep_fields[] = {
    {ROW("pattern", TEXT, grep_args, pattern), .flags = ROW_REQUIRED | ROW_ANY_BYTES, .min = 1,
     .max = LIMIT_PATTERN_BYTES, .text = "a Perl-compatible regular expression"},
    PATH_FREE(grep_args),
    {ROW("glob", TEXT, grep_args, glob), .flags = ROW_ANY_BYTES, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "only files of this name"},
    {ROW("literal", BOOL, grep_args, literal), .text = "the pattern is plain text"},
    {ROW("ignore_case", BOOL, grep_args, ignore_case), .text = "upper and lower case are the same"},
    {ROW("context", INT, grep_args, context), .max = LIMIT_GREP_CONTEXT, .text = "lines before and after"},
    {ROW("limit", INT, grep_args, limit), .min = 1, .max = LIMIT_GREP_LIMIT, .fallback = DEFAULT_GREP_LIMIT,
     .text = "matches"},
    {ROW("timeout_ms", INT, grep_args, timeout_ms), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .fallback = DEFAULT_GREP_TIMEOUT_MS, .text = "then what was found so far is the answer"},
    ENCODING_IN(grep_args),
    ROW_NAMED("GrepRequest"),
};
const struct row edit_fields[] = {
    PATH_ROW(edit_args, path, "path", PATH_TEXT),
    {ROW("old", TEXT, edit_args, old), .flags = ROW_REQUIRED | ROW_NUL | ROW_ANY_BYTES, .min = 1,
     .max = LIMIT_EDIT_BYTES, .text = "the text to replace"},
    {ROW("new", TEXT, edit_args, new_text), .flags = ROW_REQUIRED | ROW_NUL | ROW_ANY_BYTES, .max = LIMIT_EDIT_BYTES,
     .text = "the text instead"},
    {ROW("all", BOOL, edit_args, all), .text = "every place; else it must be the only one"},
    ENCODING_IN(edit_args),
    ROW_NAMED("EditRequest"),
};

#define ENCODING_ROW(of)                                                                                               \
    { .name = "encoding", .type = ROW_TEXT, .choices = "utf-8|base64", .text = "of " of }
const struct row stat_answer[] = {
    SHOW("name", TEXT, "last part of the path"),
    SHOW("path", TEXT, "whole path"),
    ENCODING_ROW("name, path and link_target"),
    {.name = "type", .type = ROW_TEXT, .choices = "file|dir|symlink|other", .text = "what it is"},
    {.name = "special",
     .type = ROW_TEXT,
     .flags = ROW_NULLABLE,
     .choices = "fifo|socket|char|block",
     .text = "which kind, where type is other and its runner knows"},
    SHOW("size", INT, "bytes"),
    SHOW("mode", MODE, "octal permissions"),
    SHOW("mtime", TIME, "last change"),
    SHOW("uid", INT, "owner inside the box"),
    SHOW("gid", INT, "group inside the box"),
    SHOW_NULL("link_target", TEXT, "of a symlink"),
    ROW_NAMED("File"),
};
const struct row list_answer[] = {
    {.name = "entries", .type = ROW_OBJECTS, .fields = stat_answer, .text = "in no order"},
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
    ENCODING_ROW("path, text, before and after"),
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
    SHOW("name", TEXT, "as the archive has it"),
    ENCODING_ROW("name"),
    SHOW("reason", TEXT, "what was left out of it, and why"),
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

/* ---- tokens ---- */

const struct row token_fields[] = {
    {ROW("user", TEXT, token_args, user), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose boxes it sees; default 'default'; none for scope admin; scope read without one sees everybody's"},
    {ROW("scope", TEXT, token_args, scope), .flags = ROW_AUDITED, .choices = "admin|user|read|runner",
     .text = "what it may do; default user, or runner where there is a runner's name"},
    {ROW("runner", TEXT, token_args, runner), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_RUNNER_BYTES,
     .text = "scope runner: name of the machine that joins with it"},
    {ROW("label", TEXT, token_args, label), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_TOKEN_LABEL_BYTES,
     .text = "what it is for"},
    {ROW("expires_in_ms", INT, token_args, expires_in_ms), .min = 1, .max = LIMIT_TOKEN_DAYS * 86400000ull,
     .text = "after so long it is not known any more; default never"},
    ROW_NAMED("TokenRequest"),
};
#define TOKEN_ROWS                                                                                                     \
    SHOW("id", TEXT, "12 hex digits, also in the audit log"),                                                          \
        SHOW_NULL("user", TEXT, "whose boxes it sees; null: everybody's"),                                             \
        {.name = "scope", .type = ROW_TEXT, .choices = "admin|user|read|runner", .text = "what it may do"},            \
        SHOW_NULL("runner", TEXT, "name of the machine that joins with it"),                                           \
        SHOW_NULL("label", TEXT, "what it is for"), SHOW_NULL("created_at", TIME, "null for a configured one"),        \
        SHOW_NULL("expires_at", TIME, "null: never"),                                                                  \
        SHOW_NULL("last_used_at", TIME, "within a minute; null: never, or configured and not since the start"),        \
        SHOW_NULL("revoked_at", TIME, "since then it is not known any more")
const struct row token_answer[] = {
    TOKEN_ROWS,
    SHOW("token", TEXT, "the secret: only here, only now"),
    ROW_NAMED("NewToken"),
};
static const struct row token_row_answer[] = {
    TOKEN_ROWS,
    SHOW("configured", BOOL, "stands in the daemon's configuration"),
    ROW_NAMED("Token"),
};
const struct row tokens_answer[] = {
    {.name = "tokens", .type = ROW_OBJECTS, .fields = token_row_answer, .text = "revoked ones for 30 days"},
    ROW_NAMED("Tokens"),
};

/* ---- the audit log ---- */

const struct row audit_query_fields[] = {
    {ROW("box", TEXT, audit_args, box), .min = 1, .max = 16, .text = "only about this box, which may be gone"},
    {ROW("user", TEXT, audit_args, user), .min = 1, .max = LIMIT_USER_BYTES, .text = "only about this user's boxes"},
    {ROW("verb", TEXT, audit_args, verb), .min = 1, .max = 64, .text = "only this, e.g. exec or box_died"},
    {ROW("outcome", TEXT, audit_args, outcome), .min = 1, .max = 16,
     .text = "ok, failed (all but ok), or an error's code"},
    {ROW("since", TEXT, audit_args, since), .min = 1, .max = 40, .text = "begun at this time or later, RFC 3339"},
    {ROW("until", TEXT, audit_args, until), .min = 1, .max = 40, .text = "begun before this time"},
    {ROW("after", INT, audit_args, after), .max = INT64_MAX, .text = "only rows behind this id: next of the last page"},
    {ROW("limit", INT, audit_args, limit), .min = 1, .max = LIMIT_AUDIT_ROWS, .fallback = DEFAULT_AUDIT_ROWS,
     .text = "rows"},
    {ROW("tail", BOOL, audit_args, tail), .text = "the newest rows instead of the oldest"},
    {ROW("wait_ms", INT, audit_args, wait_ms), .max = 300000, .text = "wait so long for the first row"},
    END,
};
static const struct row event_answer[] = {
    SHOW("id", INT, "1, 2, 3 ..."),
    SHOW("at", TIME, "when it began"),
    SHOW("verb", TEXT,
         "operationId of the request, or an event: box_adopted, box_died, box_evicted, daemon_started ..."),
    SHOW_NULL("box", TEXT, "its id"),
    SHOW_NULL("user", TEXT, "whose box; without a box whose request"),
    SHOW_NULL("actor", TEXT, "user of the token; null when it is bound to none"),
    SHOW_NULL("scope", TEXT, "of who asked; null when nobody did, or nobody known"),
    SHOW_NULL("token", TEXT, "which token: first 12 digits of its SHA-256"),
    SHOW_NULL("peer", TEXT, "uid:N of a local client, address of others"),
    SHOW_NULL("request_id", TEXT, "X-Request-Id of the answer"),
    SHOW_NULL("status", INT, "HTTP status; null when it was no request, or still runs"),
    SHOW("outcome", TEXT, "ok, the error's code, or running: one that lasts has a row before that of its end"),
    SHOW_NULL("exit_code", INT, "of a command that was waited for"),
    SHOW_NULL("signal", TEXT, "that ended it"),
    SHOW_NULL("timed_out", BOOL, "killed at timeout_ms"),
    SHOW_NULL("oom_killed", BOOL, "a process of the box was killed for memory meanwhile"),
    SHOW("count", INT, "GETs alike within a fifth of a second are one row: how many; sizes and time are sums"),
    SHOW("bytes_in", INT, "of the request"),
    SHOW("bytes_out", INT, "of the answer"),
    SHOW("duration_ms", REAL, "from its head to the end of its answer"),
    SHOW_NULL("detail", TEXT, "command or path, cut at 1024 bytes; values of environment variables stand as [NAME]"),
    ENCODING_ROW("detail"),
    SHOW_NULL("hash", TEXT, "SHA-256 over the hash of the row before and this row; null for a user's token"),
    ROW_NAMED("AuditEvent"),
};
const struct row audit_answer[] = {
    {.name = "events", .type = ROW_OBJECTS, .fields = event_answer, .text = "in the order they were written"},
    SHOW("next", INT, "after of the next page"),
    SHOW("truncated", BOOL, "there are more already"),
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

static const struct row offload_result_answer[] = {
    {.name = "id", .type = ROW_TEXT, .text = "of the kept result"},
    {.name = "path", .type = ROW_TEXT, .text = "of the file that it shows"},
    {.name = "change", .type = ROW_TEXT, .choices = "modified|removed", .text = "what happened to the file since"},
    ROW_NAMED("StaleResult"),
};
const struct row offload_answer[] = {
    {.name = "stale", .type = ROW_TEXTS, .text = "ids of kept results that went stale; each is told once"},
    {.name = "results", .type = ROW_OBJECTS, .fields = offload_result_answer, .text = "the same, with why"},
    ROW_NAMED("StaleResults"),
};
