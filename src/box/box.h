/* A box and its verbs: the only way anything reaches a box. No verb knows JSON or HTTP; no caller knows a frame.
 *
 * Verbs block their thread, may be called by many threads at once, and take a `watch`: a client's socket whose
 * hang-up cancels the call (-1: none). A hang-up is -ERR_GONE. Paths are absolute or relative to the workspace. */
#ifndef CUBBY_BOX_BOX_H
#define CUBBY_BOX_BOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "backend/backend.h"
#include "box/boxlock.h"

enum box_state { BOX_STARTING, BOX_READY, BOX_WARM, BOX_PAUSED, BOX_EXPORTING, BOX_CLOSING };
#define BOX_STATES (BOX_CLOSING + 1)

/* Fields above the line never change after creation; below it they are the provider's, under its lock. */
struct box {
    char id[17];
    char *user, *thread; /* thread NULL: none */
    const struct backend_ops *ops;
    struct backend *backend;
    struct spec spec; /* deep copy in the box's arena; but of spec.attached, see below */
    struct arena *arena;
    char **labels; /* "K=V", NULL-terminated */
    uint64_t created_ms, idle_timeout_ms;
    bool temporary;          /* deleted, files and all, when it is idle */
    const struct note *note; /* that it is made with; provider_note has the one of now */
    atomic_uint refs;
    atomic_uint calls;             /* requests on it now, counted by the dialect that admits them */
    atomic_uint port_sockets;      /* connections to its servers that are in use (port_socket.c) */
    atomic_uint port_waits;        /* requests that wait for the head of an answer there */
    atomic_bool port_used;         /* a connection was idle at some time */
    struct boxlock lock;           /* of the attached trees */
    const char **_Atomic bindings; /* secrets that it may use (secret/binding.h); NULL: none */
    atomic_bool trusts;            /* spec.trusts as of now */
    pthread_mutex_t edit_lock;     /* of edits that read a file and write it back, so that none finds it changed */
    void *_Atomic guest;           /* state of the layer above (box_guest) */
    pthread_mutex_t network_lock;  /* of spec.network, .policy, .network_generation: network_set changes them */
    struct arena *network_arena;   /* of spec.policy after a change; NULL: as made */
    struct network_life *life;     /* what the gate knows of it; for the thread that marked the box, and at its end */
    struct networks *_Atomic network; /* where that is, since it was first known; NULL: never */
    /* ---- */
    _Atomic uint64_t used_ms;     /* clock_ms; box_last_used_ms for people */
    _Atomic enum box_state state; /* these two may be looked at without it */
    struct wire *_Atomic wire;
    struct arena *attached_arena;         /* of spec.attached */
    _Atomic uint64_t attached_generation; /* spec.attached.generation; may be looked at without it */
    int pidfd;
    unsigned looks;           /* of its references those that only look: to the other daemons it is not in use */
    char died[128];           /* why the wire ended, when it did */
    bool died_final;          /* and more is not to be known */
    char ended[224];          /* why its processes were ended, and what ran then; empty while it has some */
    char restarted[128];      /* the runner before this one ended by itself: why */
    atomic_bool restart_news; /* and no user of the box has been sent that yet */
};

/* State of the one layer above for the box: plain memory of that size, all zero at first, freed with the box. Made
 * by the first call. */
void *box_guest(struct box *box, size_t size);
const char *box_state_name(enum box_state state);
uint64_t box_last_used_ms(const struct box *box); /* wall clock */
const char *box_workspace(const struct box *box);
const char *box_backend(const struct box *box); /* "jail" */
bool box_alive(const struct box *box);          /* its runner is connected */
bool box_started(const struct box *box);        /* it has processes; else they are started when it is used */
bool box_contained(const struct box *box);      /* it is a container: spec.container counts */
bool box_direct(const struct box *box); /* the daemon itself opens its files: reading them never waits for the runner */
bool box_offline(struct box *box);      /* it is on a machine that is not connected */
/* The state of the machine that it is on, in arena; *ret_facts is empty where nothing is known of that machine. False:
 * it is not on another machine. */
bool box_machine(struct box *box, struct arena *arena, struct machine_facts *ret_facts);
bool box_attaches(const struct box *box); /* spec.attached is mounted in it */
int box_usage(struct box *box, struct usage *ret_usage, struct err *err);
int box_usage_brief(struct box *box, struct usage *ret_usage, struct err *err); /* the members that every box shows */
/* Its network as of now (spec_network), copied into arena; ret_generation may be NULL. */
const char *box_network(struct box *box, struct arena *arena, uint64_t *ret_generation);

/* ---- commands ---- */

struct exec_request {
    const char *command;        /* given to the box's shell; or */
    const char *const *argv;    /* NULL-terminated, no shell */
    const char *const *env;     /* "K=V", NULL-terminated, may be NULL */
    const char *const *secrets; /* the same; their values become [redacted] in all it says and wherever it is listed */
    const char *const *drops;   /* beginnings of names: such variables of the box's own environment it does not get */
    const char *cwd;            /* NULL: the workspace */
    const char *shell;          /* NULL: the box's */
    const char *session;        /* a plain one: its directory where cwd is NULL, listed with it; NULL: none */
    bool root;
    uint32_t uid, gid; /* uid not 0: as that user of the box, without rights of root; UNSUPPORTED where it has none */
    bool pty;
    unsigned cols, rows;
    uint64_t timeout_ms; /* 0: none (background only) */
    const void *input;   /* stdin; NULL: /dev/null */
    size_t input_len;
    bool stdin_open;  /* instead of input: stdin stays open, box_input feeds and closes it while it runs */
    bool keep;        /* box_exec: it stays in the list of processes when it has ended, with its output: box_output */
    bool leave;       /* its background processes keep running after it ended by itself (only in boxes with cgroups) */
    bool detach;      /* box_exec_open: it outlives the stream; nothing is lost while somebody reads (duplex.h) */
    bool sudo;        /* commands of the box may start some as its root, from now on */
    const char *tag;  /* detach, box_spawn: a name that lists have, at most LIMIT_PROCESS_TAG_BYTES; NULL: none */
    uint64_t wait_ms; /* keep: then it is left running as box_spawn would; 0: until it ends */
};

/* What the box's network policy refused while a command ran. */
struct exec_denial {
    char to[272]; /* "evil.test:443" */
    char why[96]; /* "default", "deny:ENTRY" */
    uint64_t count;
};
enum { EXEC_DENIALS = 16 };

struct exec_result {
    bool exited; /* exit_code counts; else killed by signal */
    int exit_code, signal;
    bool timed_out, oom_killed;
    bool running;                /* it was left running after wait_ms: nothing above counts */
    bool left;                   /* it ended by itself; processes that it had started still ran, and were killed */
    bool stuck;                  /* part of its tree hangs in the kernel and goes with the box */
    uint64_t memory_limit_bytes; /* of the box; 0: none */
    uint64_t stdout_bytes, stderr_bytes, duration_ms;
    unsigned denied_count; /* box_exec alone fills these */
    struct exec_denial denied[EXEC_DENIALS];
};

struct exec_sink { /* called in order on the caller's thread; a negative return cancels the command and is returned */
    int (*started)(void *user, uint64_t pid);                               /* may be NULL */
    int (*output)(void *user, int stream, const uint8_t *data, size_t len); /* STREAM_ of which; may be NULL */
    int (*idle)(void *user);                                                /* nothing came for idle_ms; may be NULL */
    uint64_t idle_ms;
    void *user;
    struct box *box; /* this and the next: set by box_exec */
    const struct exec_request *request;
};

/* How much of a stream may be kept in this box: as requested (INVALID above limits.output_bytes), else `fallback` or
 * the limit, whichever is less. */
int box_output_limit(const struct box *box, bool asked, uint64_t wanted, uint64_t fallback, size_t *ret_limit,
                     struct err *err);
/* Foreground: returns when the command and all it started have ended. */
int box_exec(struct box *box, const struct exec_request *request, const struct exec_sink *sink, int watch,
             struct exec_result *ret_result, struct err *err);

struct process {
    uint64_t pid, started_ms;
    bool running;
    struct exec_result result;
    const char *command; /* valid during the callback, as is */
    const char *session; /* the plain session that it belongs to; NULL: none */
    const char *tag;     /* NULL: none; NULL and false of older runners, as is what follows */
    bool pty;
    bool input; /* a pipe is its stdin, still open */
    /* Of one process that was asked for by its pid alone: as it was started, cut where it is very long. argv is empty
     * where it was a line for the shell. */
    const char *cwd;
    const char *const *argv, *const *env; /* NULL-terminated; NULL: not known */
};

int box_spawn(struct box *box, const struct exec_request *request, uint64_t *ret_pid, uint64_t *ret_started_ms,
              struct err *err);
/* pid 0: all. NOT_FOUND for an unknown pid. */
int box_processes(struct box *box, uint64_t pid, void (*each)(void *user, const struct process *process), void *user,
                  struct err *err);

/* Work that calls have left running: background processes, and commands of sessions; a waiting shell does not count. */
enum { RUNNING_NAMED = 3, RUNNING_NAME_BYTES = 40 };
struct running {
    unsigned count;
    char text[RUNNING_NAMED * (RUNNING_NAME_BYTES + 2) + 8]; /* the commands of the first few */
};
int box_running(struct box *box, uint64_t timeout_ms, struct running *ret_running, struct err *err);

struct output_slice {
    uint64_t first, next; /* oldest byte still held; where to continue */
    bool running;
};
/* Appends at most out->max bytes; waits up to wait_ms for the first new one. */
int box_output(struct box *box, uint64_t pid, int stream, uint64_t offset, uint64_t wait_ms, int watch, struct buf *out,
               struct output_slice *ret_slice, struct err *err);
/* Waits until stdout or stderr has more than offsets[0] or [1] bytes, it has ended, or wait_ms are over. */
int box_output_wait(struct box *box, uint64_t pid, const uint64_t offsets[2], uint64_t wait_ms, int watch,
                    bool *ret_running, struct err *err);
int box_signal(struct box *box, uint64_t pid, int signal, struct err *err);
int box_signal_tree(struct box *box, uint64_t pid, int signal, struct err *err); /* all it started */
/* The same, and waits up to wait_ms until it has been reaped: its pid is free then. tree: all it started. */
int box_signal_wait(struct box *box, uint64_t pid, int signal, bool tree, uint64_t wait_ms, struct err *err);
int box_resize(struct box *box, uint64_t pid, unsigned cols, unsigned rows, struct err *err);

/* Feeding bytes in pieces: read_fn gives the next piece (0: end, negative: give up, the code is returned). */
typedef ssize_t (*box_reader)(void *user, void *data, size_t size, struct err *err);
ssize_t box_read_view(void *view, void *data, size_t size, struct err *err); /* a box_reader of a struct view */
int box_input(struct box *box, uint64_t pid, bool close_after, box_reader read_fn, void *user, int watch,
              struct err *err);

/* ---- sessions (box_session.c): a shell that stays from command to command ----
 *
 * A session belongs to the runner and has a name; it outlives the daemon, and ends with its shell (`exit`), by
 * box_session_end or with the box's processes. It is a shell in a terminal of its own: the directory, variables and
 * background jobs of a command are kept for the next. Commands of one session run one after another, those of
 * several concurrently. A plain session has no shell: it is a name and a directory for commands that are processes
 * of their own (exec_request.session). */

#define SESSION_NAME_BYTES LIMIT_SESSION_NAME_BYTES /* [A-Za-z0-9_.:@-], not empty */

struct session {
    const char *name;    /* this and the texts below: in the caller's arena, or during the callback */
    const char *cwd;     /* where the shell was when it was last asked */
    const char *command; /* that runs or ran last, cut as in lists; "": none yet */
    uint64_t pid;        /* of the shell, for box_output, box_input, box_resize, box_attach; 0: plain */
    enum session_state state;
    bool exited;                  /* exit_code counts */
    int exit_code;                /* 128 + signal as shells have it */
    uint64_t created_ms, used_ms; /* wall clock */
    uint64_t from, to;            /* output of that command: offsets for box_output(pid, STREAM_STDOUT); to: so far */
    uint64_t commands;            /* how many there have been */
    unsigned waiting;             /* how many calls wait for their turn */
    uint64_t quiet_ms;            /* of commands that do not say; 0: none */
    bool plain;
    const char *note; /* NULL: none */
};

struct session_request {
    const char *name;       /* NULL: a random one */
    const char *cwd;        /* NULL: the workspace; must be a directory (NOT_FOUND) */
    const char *const *env; /* "K=V", NULL-terminated, may be NULL; as in exec_request: */
    const char *const *secrets;
    const char *shell;   /* NULL: bash where the box has it, else the box's shell */
    unsigned cols, rows; /* 0: 80, 24 */
    bool root, plain;
    uint64_t quiet_ms; /* of commands that do not say; 0: none. Not 0: also changes that of a session that is there */
    const char *note;  /* plain: kept for the dialect, at most 4096 bytes; NULL: none */
};
/* The session of that name, made if it does not exist (cwd is only used then). LIMIT: too many (LIMIT_SESSIONS), and
 * each of them runs a command; else the least recently used idle one is ended. */
int box_session_open(struct box *box, const struct session_request *request, struct arena *arena,
                     struct session *ret_session, bool *ret_created, struct err *err);

/* The same for a session that will be used soon: the call does not wait, and a failure shows at its first use. */
void box_session_begin(struct box *box, const struct session_request *request);

struct session_run {
    const char *name;
    const char *command;
    const char *cwd;   /* the shell goes there first and stays there; NULL: where it is. NOT_FOUND: nothing was run */
    uint64_t wait_ms;  /* then it is left running and the answer is SESSION_RUNNING; 0: until it ends. Counts from the
                          call: waiting for its turn is part of it (LIMIT: its turn did not come; nothing was run) */
    bool background;   /* do not wait at all; BUSY: another command runs */
    bool attended;     /* never after a command whose caller was answered already: BUSY, with EINPROGRESS as the number,
                          and so for all such calls of this session from then on */
    uint64_t quiet_ms; /* SESSION_QUIET; 0: never; SESSION_QUIET_OWN: as the session has it */
    uint64_t
        hard_ms; /* SESSION_HARD_TIMEOUT; 0: never. Both bound the wait for the turn as well (LIMIT): hard_ms counts
                          from the call, quiet_ms again from the start */
};
struct session_result {
    enum session_state state;
    bool exited;
    int exit_code;
    bool gone; /* the shell ended, and the session with it */
    bool oom_killed;
    const char *cwd;                /* in the caller's arena */
    uint64_t from, to, duration_ms; /* as in struct session */
};
/* Runs it when its turn comes; output goes to the sink (one stream, STREAM_STDOUT, exactly as printed: no prompt, no
 * echo, no CR added). NOT_FOUND: no such session, or it ended while this waited. A hang-up of `watch` kills the
 * command. */
int box_session_run(struct box *box, const struct session_run *run, const struct exec_sink *sink, int watch,
                    struct arena *arena, struct session_result *ret_result, struct err *err);
/* name NULL: all, oldest first. NOT_FOUND. */
int box_sessions(struct box *box, const char *name, void (*each)(void *user, const struct session *session), void *user,
                 struct err *err);
/* Waits until it runs nothing, or wait_ms are over, whichever is first. */
int box_session_wait(struct box *box, const char *name, uint64_t wait_ms, int watch, struct arena *arena,
                     struct session *ret_session, struct err *err);
/* Ends the command that runs, with all it started, and waits for that; the session stays (unless the shell itself
 * cannot be stopped otherwise: gone). Nothing runs: nothing happens. */
int box_session_stop(struct box *box, const char *name, struct arena *arena, struct session_result *ret_result,
                     struct err *err);
/* Ends the shell and all it started; name NULL: all. leave: processes that earlier commands detached (setsid, nohup)
 * keep running, as when a terminal is hung up. */
int box_session_end(struct box *box, const char *name, bool leave, struct err *err);

/* ---- files ---- */

/* For dialects whose file calls act as root for every user, and give what they make to that user. NULL wherever it is
 * taken: the agent's rights, nothing given. UNSUPPORTED: the runner is too old, or (root) the box has no root user. */
struct file_rights {
    bool root;              /* with the rights of the box's root */
    uint32_t owner;         /* root: whose files and directories are that are made; the group has the same number */
    const char *attributes; /* what names of extended attributes begin with, "user.x."; NULL: they do not matter */
};
bool box_has_root(const struct box *box); /* file_rights.root can be asked for */

struct file_stat {
    const char *name, *path; /* valid during the callback or until the arena goes; bytes, maybe not UTF-8 */
    enum file_type type;
    uint64_t size, mtime_ns, inode;
    uint32_t mode, uid, gid; /* mode: permission bits */
    const char *target;      /* of a link, else NULL */
    const char *special;     /* of another kind of file: "fifo", "socket", "char", "block"; NULL: not known */
    /* with file_rights: */
    const char *resolved;   /* of a link: where it leads in the end; NULL: nowhere, or not known */
    uint32_t resolved_mode; /* of that, as st_mode has it */
    const char *attributes; /* "key NUL value NUL" for each, without the beginning of the names */
    size_t attributes_len;
};

/* The content: a descriptor at offset 0 when the box is on this machine, or the file is small (*ret_fd >= 0), else -1
 * and box_read_stream must be used. The descriptor is a regular file. */
int box_read_open(struct box *box, const char *path, int *ret_fd, struct file_stat *ret_stat, struct err *err);
/* The same, and what the file is before its first byte; data is not called for an empty one. */
struct read_sink {
    int (*begin)(void *user, const struct file_stat *stat);
    int (*data)(void *user, const uint8_t *data, size_t len);
    void *user;
};
int box_read_root_file(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                       const struct read_sink *sink, struct err *err);
/* With the rights of the box's root: only so, no descriptor of such a file leaves the box. */
int box_read_root(struct box *box, const char *path, uint64_t length, int watch,
                  int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);
int box_read_stream(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                    int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);
/* The same, wherever the box is, with the rights of its user. */
int box_read_file(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                  const struct read_sink *sink, struct err *err);
/* The first `most` bytes, appended to out. TOO_LARGE: they do not fit into it. */
int box_read_all(struct box *box, const char *path, size_t most, int watch, struct buf *out, struct err *err);

struct write_request {
    const char *path;
    uint32_t mode; /* 0: 0644, or the old file's */
    bool parents, append;
    bool root;                        /* with the rights of the box's root */
    const struct file_rights *rights; /* instead of root; NULL: none. Not with append */
    const char *attributes;           /* with rights->attributes: those the file has then, as in file_stat */
    size_t attributes_len;
    const char *if_match; /* an ETag (file_etag), or NULL */
    int64_t size;         /* of the content, -1 when unknown */
    uint64_t max;         /* TOO_LARGE beyond */
};
int box_write(struct box *box, const struct write_request *request, box_reader read_fn, void *user, int watch,
              bool *ret_created, struct file_stat *ret_stat, struct err *err);

/* The same in two steps for a dialect that moves the bytes itself (splice): *ret_fd is a regular file to fill from
 * offset 0 with pwrite or splice (the box may hold the same descriptor: never rely on its own offset), the handle's to
 * close. *ret_fd -1: this box or request (append) cannot; there is nothing to abort, use box_write. Nothing is visible
 * in the box before commit; abort leaves no trace. Each ends the handle. The caller checks request->max itself. */
struct box_write;
int box_write_open(struct box *box, const struct write_request *request, int *ret_fd, struct box_write **ret_write,
                   struct err *err);
int box_write_commit(struct box_write *write, bool *ret_created, struct file_stat *ret_stat, struct err *err);
void box_write_abort(struct box_write *write); /* NULL is fine */

#define ETAG_BYTES 64
const char *file_etag(const struct file_stat *stat, char text[ETAG_BYTES]); /* with its quotes */

/* A number that stays only while no verb and no command, of any daemon, can have changed a file in the box. What
 * backends without a root of their own have can be changed from outside: there, and of older runners, it is 0, which
 * means nothing. */
int box_changes(struct box *box, uint64_t *ret_changes, struct err *err);
int box_stat(struct box *box, const char *path, struct arena *arena, struct file_stat *ret_stat, struct err *err);
int box_stat_as(struct box *box, const char *path, const struct file_rights *rights, struct arena *arena,
                struct file_stat *ret_stat, struct err *err);
struct list_request {
    const char *path;
    unsigned depth;
    uint64_t limit;     /* 0: the default */
    const char *ignore; /* a glob: names below path that match it are not descended into; may be NULL */
    bool follow;        /* a link is reported as its target in the box, if it exists; never descended into */
    const struct file_rights *rights; /* may be NULL */
};
int box_list(struct box *box, const struct list_request *request, int watch,
             int (*each)(void *user, const struct file_stat *stat), void *user, bool *ret_truncated, struct err *err);
int box_mkdir(struct box *box, const char *path, uint32_t mode, bool parents, struct err *err);
int box_remove(struct box *box, const char *path, bool recursive, int watch, struct err *err);
int box_move(struct box *box, const char *from, const char *to, bool overwrite, struct err *err);
/* With rights; parents are made. box_mkdir_as: *ret_created false: a directory was there. box_move_as replaces what is
 * there. box_remove_as is recursive. */
int box_mkdir_as(struct box *box, const char *path, uint32_t mode, const struct file_rights *rights, bool *ret_created,
                 struct err *err);
int box_move_as(struct box *box, const char *from, const char *to, const struct file_rights *rights, struct err *err);
int box_remove_as(struct box *box, const char *path, const struct file_rights *rights, int watch, struct err *err);

struct glob_request {
    const char *pattern, *path; /* path may be NULL: the workspace */
    bool dirs;                  /* directories are results too */
    bool visible;               /* names that begin with '.' only where the pattern says the dot */
    uint64_t limit, timeout_ms; /* 0: the default */
    const char *ignore;         /* a glob: names below path that match it are left out with all below; may be NULL */
    /* The same as a list of globs, NULL-terminated, may be NULL: those with a '/' are about the path below `path`,
     * the others about names. */
    const char *const *exclude;
};
struct glob_result {
    bool truncated, timed_out;
    uint64_t matched; /* box_glob_sorted: how many there are, whatever the limit */
};
int box_glob(struct box *box, const struct glob_request *request, int watch,
             int (*each)(void *user, const char *path, size_t len), void *user, struct glob_result *ret_result,
             struct err *err);

/* All are looked at, and the first `limit` of them by that order are reported. name is the last one of the path. */
int box_glob_sorted(struct box *box, const struct glob_request *request, enum search_sort sort, bool descending,
                    int watch, int (*each)(void *user, const struct file_stat *stat), void *user,
                    struct glob_result *ret_result, struct err *err);

struct grep_request {
    const char *pattern, *path, *glob; /* glob may be NULL */
    bool literal, ignore_case;
    bool multiline;         /* a match may cross lines, '.' takes a newline; its text is all its lines */
    bool flat;              /* of a directory its own files only */
    bool root;              /* with the rights of the box's root */
    unsigned before, after; /* lines of context */
    uint64_t limit, timeout_ms;
    uint64_t offset;            /* that many matches are skipped before the first one reported */
    uint64_t max_file_bytes;    /* larger files are not searched (older runners search them anyway); 0: any */
    const char *ignore;         /* as in glob_request */
    const char *const *exclude; /* the same */
    const char *const *include; /* only files that one of these matches, in addition to glob; may be NULL */
};
struct grep_match {
    const char *path;
    uint64_t line;
    const uint8_t *text;
    size_t len;
    const uint8_t *before, *after; /* context lines, newline-separated; NULL when none */
    size_t before_len, after_len;
};
struct grep_result {
    bool truncated, timed_out;
    uint64_t files_searched;
    uint64_t gave_up; /* lines on which the pattern took too much work to say whether they match */
};
int box_grep(struct box *box, const struct grep_request *request, int watch,
             int (*each)(void *user, const struct grep_match *match), void *user, struct grep_result *ret_result,
             struct err *err);
int box_hash(struct box *box, const char *path, int watch, uint8_t ret_sha256[32], uint64_t *ret_size, struct err *err);

/* A change of one file: atomic, and in turn with every other edit and append of it, whichever daemon they come from. */
enum edit_kind {
    EDIT_STRING, /* old by new_text */
    EDIT_LINES,  /* lines first to last by new_text; last == first - 1: before first */
    EDIT_REGEX,  /* Perl-compatible, ^ and $ at lines; $1 and ${name} in new_text */
    EDIT_WHOLE,  /* the content is new_text */
    EDIT_APPEND, /* new_text is appended */
};
struct edit_request {
    const char *path;
    enum edit_kind kind;
    bool root; /* with the rights of the box's root */
    bool all;  /* STRING, REGEX: every place; else it must be the only one */
    bool text; /* STRING, LINES, REGEX: of text alone; CRLF and a byte order mark are kept (runner/ops/edit_text.h) */
    bool parents, create; /* WHOLE, APPEND: directories are made; if_match does not count where nothing is */
    uint64_t first, last; /* lines; STRING, REGEX: only there; 0: from the first, to the last */
    const char *old, *new_text;
    size_t old_len, new_len;
    const char *if_match;  /* an ETag; NULL: any version */
    const uint8_t *sha256; /* of that version, 32 bytes; NULL: the ETag says enough */
    uint64_t author;       /* this author's own writes since if_match are allowed; 0: no author */
};
struct edit_line {
    uint64_t line;
    const char *text; /* bytes, maybe not UTF-8 */
    size_t len;
};
struct edit_result {
    struct file_stat stat;
    bool created, hashed;
    uint8_t sha256[32];          /* of the new version, when hashed */
    uint64_t count, line, lines; /* places; where the first began; lines there are now: not of WHOLE and APPEND */
    /* also filled on failure: old is not there (count 0), or not only once */
    bool judged;
    enum {
        EDIT_NEAR_ALIKE,
        EDIT_NEAR_SPACES,
        EDIT_NEAR_OUTSIDE
    } how; /* differ by white space alone; outside of first-last */
    struct edit_line *near;
    size_t near_count;
};
/* EXISTS: another version than if_match is there. NOT_FOUND: no file, or (judged) no old in it. */
int box_edit(struct box *box, const struct edit_request *request, struct arena *arena, int watch,
             struct edit_result *ret_result, struct err *err);
/* Changes against the template (struct file_change), directory by directory. Of a removed directory only its own
 * name is reported. */
int box_diff(struct box *box, uint64_t limit, int watch, int (*each)(void *user, const struct file_change *change),
             void *user, bool *ret_truncated, struct err *err);

/* ---- watching (box_watch.c) ---- */

struct watch_request {
    const char *path;
    bool recursive;
    bool all; /* WATCH_ATTRIBUTES and WATCH_OVERFLOW too, and the file's type */
    /* Globs as in grep_request: paths to report, and paths to skip. Not of a file. */
    const char *const *include;
    const char *const *exclude;
    const struct file_rights *rights; /* may be NULL */
};
struct watch_change {
    enum watch_event event;
    const char *path, *to; /* to: WATCH_MOVED; else NULL */
    bool known, dir;       /* all: it is there and the numbers count; whether it is or was a directory */
    bool out;              /* all: WATCH_REMOVED, because it was moved out of what is watched */
    uint64_t size, mtime_ns, inode;
};
struct watch_sink {
    int (*each)(void *user, const struct watch_change *change);
    int (*idle)(void *user); /* when it watches, then whenever nothing came for idle_ms */
    uint64_t idle_ms;
    void *user;
};
/* Runs until the watch descriptor hangs up (returns 0) or the sink returns negative. */
int box_watch(struct box *box, const struct watch_request *request, const struct watch_sink *sink, int watch,
              struct err *err);
/* The same in two steps, for a caller that does not hold the box while it listens: it can idle and be ended, then run
 * fails with GONE. run and close end the handle. */
struct box_watch;
int box_watch_open(struct box *box, const struct watch_request *request, struct box_watch **ret_watch, struct err *err);
int box_watch_run(struct box_watch *watch, const struct watch_sink *sink, int fd, struct err *err);
void box_watch_close(struct box_watch *watch);

int box_tar_out(struct box *box, const char *path, int watch, int (*sink)(void *user, const uint8_t *data, size_t len),
                void *user, struct err *err);
struct unpack_request {
    const char *path;
    uint64_t max_entries; /* files and directories; TOO_LARGE beyond */
    int (*skipped)(void *user, const char *name,
                   const char *why); /* each entry that was left out; bytes, maybe not UTF-8 */
    void *user;
};
struct unpack_result {
    uint64_t files;
    bool truncated; /* more was left out than was reported */
};
/* Whole or not at all. */
int box_tar_in(struct box *box, const struct unpack_request *request, box_reader read_fn, void *user, int watch,
               struct unpack_result *ret_result, struct err *err);

#endif
