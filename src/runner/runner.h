/* The runner: one single-threaded loop inside a box. This header is shared by its directories: configuration, calls
 * being served, the table of ops, workers.
 *
 * Rules of the loop:
 * 1. PID 1 never blocks and never does long work: a worker (a forked process with the agent's rights) does that.
 * 2. PID 1 never exits on an error after start: its death ends the box. Errors of one call end that call.
 * 3. Everything that can be waited for is a `struct source` in the one epoll.
 * 4. Calls belong to a wire; when the wire ends, its foreground calls are cancelled and background processes
 * continue. */
#ifndef CUBBY_RUNNER_RUNNER_H
#define CUBBY_RUNNER_RUNNER_H

#include "base/base.h"
#include "wire/frame.h"

/* Arguments of init_main, from enter (jail) or main (local, container). All descriptors are close-on-exec. */
struct runner_config {
    int wire_fd;     /* first wire, connected; -1: none */
    int listen_fd;   /* further wires; -1: none */
    int root_fd;     /* O_PATH of the box's root; file ops resolve below it */
    int cgroup_fd;   /* directory of the box's cgroup v2, where it may make leaves; -1: none (keeper mode) */
    int oom_fd;      /* file that counts oom kills of the box (memory.events or memory.oom_control); -1: none */
    bool jail;       /* PID 1 of its own namespaces; else `local`, or: */
    bool container;  /* in a container: the engine isolates it, and it has our user and variables */
    bool wire_plain; /* the first wire carries no descriptors, and its carrier may be dead */
    pid_t relay_pid; /* the child that carries it, or 0 */
    bool blank;      /* made in advance, without an owner: serves only BIND, and ends with its wire */
    bool no_set_id;  /* has a writable mount: no process may set set-user-ID and set-group-ID bits */
    bool can_root;   /* uid 0 is mapped: user "root" is available */
    uid_t agent_uid; /* ids as seen by the runner */
    gid_t agent_gid;
    const char *workspace;            /* "/workspace" */
    const char *shell;                /* absolute path */
    const char *const *env;           /* base environment of commands, NULL-terminated */
    struct maps *maps;                /* local: from maps_new; NULL in a jail */
    int landlock_fd;                  /* ruleset for commands; -1: none */
    const struct stack_roots *layers; /* the layers of its root; NULL: `local` */
    uint64_t pids;                    /* the box's limit of processes, for error texts; 0: none */
    uint64_t open_files;              /* RLIMIT_NOFILE of commands; 0: ours */
};

/* init.c: becomes the runner (PID 1 of a jail): blocks signals, then runs the loop. Never returns. */
_Noreturn void init_main(struct runner_config *config);
void runner_close_others(int *keep,
                         size_t count); /* closes all descriptors from 3 on but `keep`, which is sorted here */
/* Returns the available part of a wanted RLIMIT_NOFILE: a command never has more than the daemon. */
uint64_t init_open_files(uint64_t wanted);
/* enter.c: stage one of a jail. Reads its orders (wire/plan.h) from a socket, which becomes the first wire, makes the
 * jail, and ends in init_main. */
_Noreturn void enter_main(int plan_fd);
int capture_main(void); /* enter_net.c */
_Noreturn void attach_main(void);
/* Tries what jails need from the kernel; directory (may be NULL) is where boxes will be. Returns the exit status. */
int trial_main(const char *directory);
/* confine.c: called in the child, last before exec (or before a worker's work): ids, capabilities, no_new_privs,
 * Landlock, seccomp. A worker has no seccomp and Landlock; its rights on files are the agent's. */
enum confine_for { CONFINE_AGENT, CONFINE_ROOT, CONFINE_WORKER, CONFINE_ROOT_WORKER };
int confine(const struct runner_config *config, enum confine_for who, uid_t uid, gid_t gid, struct err *err);
int confine_may_root(const struct runner_config *config, struct err *err);
/* For a root worker whose call failed with EOVERFLOW: a mount has one owner, the agent, and root's ids are not mapped
 * on it. Returns true if file work now has the agent's rights: try again. */
bool confine_step_down(int number);
int confine_container(const struct runner_config *config,
                      struct err *err); /* the runner itself, before its first wire */

/* ---- the loop (init.c) ---- */

struct source { /* embedded in the owner of the descriptor */
    int fd;
    uint32_t events; /* EPOLLIN ...; 0: not watched */
    void (*ready)(struct source *source, uint32_t events);
};
struct timer { /* embedded; at_ms 0: not armed */
    uint64_t at_ms;
    void (*fire)(struct timer *timer);
    struct timer *next;
};
struct runner;
void source_set(struct runner *runner, struct source *source, uint32_t events); /* adds, changes or removes */
void source_close(struct runner *runner, struct source *source);            /* stops watching and closes; may be -1 */
void timer_set(struct runner *runner, struct timer *timer, uint64_t at_ms); /* 0 disarms */
uint64_t timer_after(uint64_t wait_ms); /* end of a wait that a client requested, at most LIMIT_EXEC_TIMEOUT_MS */
void later_free(struct runner *runner, void *memory); /* frees at the end of this turn: it may have pending events */

struct runner {
    struct runner_config *config; /* BIND completes it; constant from then on */
    int epoll_fd;
    struct timer *timers;
    struct rwire *wires;
    struct process_table *processes;
    struct session_table *sessions;
    struct worker_table *workers;
    struct sudo_table *sudo; /* NULL: sudo is not allowed */
    void **graves;           /* later_free */
    size_t grave_count, grave_cap;
    struct source children, listener; /* SIGCHLD; further wires */
    struct timer no_hello;            /* container: no HELLO follows */
    bool greeted;     /* a daemon has sent HELLO; otherwise no daemon knows us, and we exit with our wire */
    uint64_t changes; /* grows with every possible change of a file; starts higher with each runner */
    bool ending;      /* local: no wire and no listener is left, or SIGTERM */
};

/* ---- calls (serve.c) ---- */

struct rcall {
    struct runner *runner;
    struct rwire *wire;
    uint32_t id;
    const struct op_def *def;
    uint32_t credit_out;                  /* bytes of DATA and ITEM payload we may still send */
    uint32_t credit_in;                   /* bytes of DATA the daemon may still send; more ends the wire */
    bool input_eof;                       /* EOF was received */
    void *state;                          /* private to the op */
    void (*writable)(struct rcall *call); /* called when there is credit or socket space again; may be NULL */
    bool worker;                          /* a worker does the work ... */
    bool as_root;                         /* ... with the rights of root in the box */
    bool gone;                            /* in cancel: the wire is gone, nothing can be answered */
    bool later;                           /* set by cancel: the op answers by itself soon (not if gone) */
    struct rcall *next;
};

/* Answers. After reply_end or reply_fail the rcall is freed: do not touch it again. */
bool reply_room(struct rcall *call); /* socket buffer not full: may send DATA/ITEM */
void reply_stat(struct rcall *call, const struct buf *fields, int pass_fd); /* pass_fd may be -1; it is not closed */
size_t reply_data(struct rcall *call, uint8_t stream, const void *data, size_t len); /* sent now, within credit */
void reply_end(struct rcall *call, const struct buf *fields);                        /* fields may be NULL */
void reply_fail(struct rcall *call, const struct err *err);
void reply_credit(struct rcall *call, uint32_t bytes); /* input was consumed: allows more */

/* Sends one ITEM frame of records (at most a frame's payload). Returns false, sending nothing, without credit or
 * space. */
bool reply_items(struct rcall *call, const struct buf *records);
void reply_item_end(struct rcall *call, struct buf *records,
                    size_t begin);  /* item_end; sends when half a frame is full */
void reply_now(struct rcall *call); /* sends queued frames at the end of this iteration */
/* Sends a frame made by a worker, with this call's id. Returns false, sending nothing, without credit or space. */
bool reply_frame(struct rcall *call, const struct frame *frame);
void reply_end_with(struct rcall *call, uint8_t type, const struct buf *fields); /* END, or FAIL as fields */
/* called by the loop */
void serve_open(struct runner *runner);                  /* opens the first wire and the listener */
void serve_flush(struct runner *runner);                 /* end of an iteration: sends queued frames, closes broken
                                                          * wires */
uint64_t serve_flush_at_ms(const struct runner *runner); /* when small frames must be sent; 0: none */

/* ---- the table of ops (ops.c, one row each, in op_*.c) ---- */

struct worker;
struct op_def {
    enum op op;
    bool looks; /* changes nothing in the box */
    /* begin: runs on the loop. Must end in reply_end or reply_fail, now or later; a negative return is answered as
     * FAIL. */
    int (*begin)(struct rcall *call, const struct fields *args, struct err *err);
    int (*input)(struct rcall *call, const uint8_t *data, size_t len, struct err *err); /* each DATA; NULL: no input */
    int (*finish)(struct rcall *call, struct err *err);                                 /* EOF */
    void (*cancel)(struct rcall *call); /* CANCEL, or the wire is gone: releases state. serve answers FAIL unless the op
                                           has called reply_* */
    /* quick: runs on the loop, instead of begin; it puts the answer into out. */
    int (*quick)(const struct runner_config *config, const struct fields *args, struct buf *out, struct err *err);
    /* work: runs in a forked worker with the agent's rights; it may block and is killed on cancel. Input comes from
     * worker_read. For ops without begin and quick, and for others if they hand over (op_to_worker) or need root. */
    int (*work)(struct worker *worker, const struct fields *args, struct err *err);
    /* work: has the layers' descriptors and, if possible, the rights of root in the box: it reports files of any owner */
    bool layers;
    bool lasts;  /* work: runs until cancelled. Such workers do not delay others; LIMIT bounds their number */
    bool turns;  /* work: serialized per file (runner/ops/turn.h) */
    bool cleans; /* work: not killed; its input ends early, and it must clean up and fail */
    /* With CALL_ROOT: the op that a worker with root's rights runs instead, usually itself; NULL: not allowed. */
    const struct op_def *root;
};
extern const struct op_def *const op_table[]; /* ends with NULL */
const struct op_def *op_find(unsigned op);

/* ---- workers (worker.c): inside the worker process ---- */
struct turn_version;
struct worker {
    const struct runner_config *config;
    const struct turn_version *version; /* for an op with turns: the last writer of this file, or NULL */
    int root_fd;
    int out_fd, in_fd;
    struct buf out;    /* frame being filled */
    size_t item_frame; /* start of the open ITEM frame; SIZE_MAX: none */
    size_t item_start; /* start of the record being filled */
    bool ended;        /* worker_end was called */
};
struct buf *worker_item(struct worker *worker);              /* begins a record; put fields into it */
int worker_item_end(struct worker *worker, struct err *err); /* flushes when the frame is nearly full */
int worker_flush(struct worker *worker, struct err *err);    /* sends the records so far: for slow producers */
int worker_stat(struct worker *worker, const struct buf *fields, struct err *err);
int worker_data(struct worker *worker, const void *data, size_t len, struct err *err);
ssize_t worker_read(struct worker *worker, void *data, size_t len, struct err *err); /* input; 0 at its end */
void worker_end(struct worker *worker, const struct buf *fields); /* if not called: END without fields */
/* the loop's side; used by serve */
int worker_start(struct rcall *call, const struct buf *payload, struct err *err);
void worker_table_open(struct runner *runner);
bool worker_reap(struct runner *runner, pid_t pid, int status); /* false: not a worker */
bool worker_is_child(const struct runner *runner, pid_t pid);
/* Input of a call that a worker does, its end, and its cancellation */
int worker_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err);
int worker_finish(struct rcall *call, struct err *err);
void worker_cancel(struct rcall *call);
bool worker_any(const struct runner *runner); /* one is working or waiting */

/* Where the path of a call leads (maps.c): `path` below `root`, for path_open and the like. In a jail these are the
 * box's root and the absolute path; in `local` the longest mapping that contains the path, so that nothing resolves out
 * of it. Results name files by the client's path, extended by names found below it. */
struct place {
    int root;          /* not owned by the caller */
    const char *above; /* the client's name of root, for error texts; "" in a jail */
    char path[LIMIT_PATH_BYTES + 1];
};
#define PATH_READ 0u
#define PATH_WRITE 1u  /* a read-only mapping is DENIED "read-only file system" */
#define PATH_ITSELF 2u /* means a final link itself, not its target */
/* Joins the path with the workspace and checks it. */
int runner_path(const struct runner_config *config, const char *path, unsigned how, struct place *ret_place,
                struct err *err);
/* rows: "VIRTUAL=REAL[:ro|:rw]", NULL-terminated; REAL must exist and is opened. Without VIRTUAL it is at its own
 * path. */
int maps_new(const char *const *rows, struct maps **ret_maps, struct err *err);
void maps_free(struct maps *maps); /* NULL is allowed */
/* `local` only (config->maps; a copy otherwise): makes virtual paths in a command line real, and real paths in output
 * virtual. */
char *maps_command(const struct runner_config *config, const char *command); /* malloc */
struct mask; /* masks a stream; holds back bytes that might begin a real path */
struct mask *mask_new(const struct runner_config *config); /* NULL if there are no maps */
void mask_put(struct mask *mask, const uint8_t *data, size_t len, struct buf *out);
void mask_flush(struct mask *mask, struct buf *out); /* at the end of the stream */
void mask_free(struct mask *mask);
void runner_put_file(struct buf *out, int dirfd, const char *name, const struct stat *status); /* {file} fields */

#endif
