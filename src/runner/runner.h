/* The runner: one single-threaded loop inside a box. This header is what its directories share: configuration, calls
 * being served, the table of ops, workers.
 *
 * Rules of the loop:
 * 1. PID 1 never blocks and never does long work: that is a worker's (a forked process with the agent's rights).
 * 2. PID 1 never bails out after start: its death ends the box. Errors of one call end that call.
 * 3. Everything that can be waited for is a `struct source` in the one epoll.
 * 4. Calls belong to a wire; when the wire goes, its foreground calls are cancelled, background processes live on. */
#ifndef CUBBY_RUNNER_RUNNER_H
#define CUBBY_RUNNER_RUNNER_H

#include "base/base.h"
#include "wire/frame.h"

/* The arguments from enter (jail) or main (local, container) to init_main. All descriptors are close-on-exec. */
struct runner_config {
    int wire_fd;     /* first wire, connected; -1: none */
    int listen_fd;   /* further wires; -1: none */
    int root_fd;     /* O_PATH of the box's root; file ops resolve below it */
    int cgroup_fd;   /* directory of the box's cgroup v2, where it may make leaves; -1: none (keeper mode) */
    int oom_fd;      /* file that counts oom kills of the box (memory.events or memory.oom_control); -1: none */
    bool jail;       /* PID 1 of its own namespaces; else `local`, or: */
    bool container;  /* in a container of an engine: its walls are that one's, its user ours, its variables our own */
    bool wire_plain; /* the first wire carries no descriptors, and its carrier may not be alive */
    pid_t relay_pid; /* the child that carries it; 0: none */
    bool blank;      /* made in advance, without an owner: serves BIND alone, and ends with its wire */
    bool no_set_id;  /* a writable mount: no process in the box may give files the bits set-user-ID and set-group-ID */
    bool can_root;   /* uid 0 is mapped: user "root" can be asked for */
    uid_t agent_uid; /* ids as seen by the runner */
    gid_t agent_gid;
    const char *workspace;            /* "/workspace" */
    const char *shell;                /* absolute path */
    const char *const *env;           /* base environment of commands, NULL-terminated */
    struct maps *maps;                /* local: from maps_new; NULL in a jail */
    int landlock_fd;                  /* ruleset for commands; -1: none */
    const struct stack_roots *layers; /* the layers of its root; NULL: `local` */
    uint64_t pids;                    /* the box's limit of processes, for sentences; 0: none */
    uint64_t open_files;              /* RLIMIT_NOFILE of commands; 0: ours */
};

/* init.c: becomes PID 1 / the runner: signals blocked first, then the loop. Never returns. */
_Noreturn void init_main(struct runner_config *config);
void runner_close_others(int *keep,
                         size_t count); /* closes all descriptors from 3 on but `keep`, which is sorted here */
/* The available part of a wanted RLIMIT_NOFILE: a command may have fewer than the daemon, never more. */
uint64_t init_open_files(uint64_t wanted);
/* enter.c: stage one of a jail. Reads its orders (wire/plan.h) from a socket that then is the first wire, makes the
 * jail, ends in init_main. */
_Noreturn void enter_main(int plan_fd);
int capture_main(void); /* enter_net.c */
_Noreturn void attach_main(void);
/* Tries what jails need of the kernel; directory (may be NULL) is where boxes will lie. Returns the exit status. */
int trial_main(const char *directory);
/* confine.c: in the child, as its last act before exec (or before a worker's work): ids, capabilities, no_new_privs,
 * Landlock, seccomp. worker: seccomp and Landlock stay off, the rights on files are the agent's. */
enum confine_for { CONFINE_AGENT, CONFINE_ROOT, CONFINE_WORKER, CONFINE_ROOT_WORKER };
int confine(const struct runner_config *config, enum confine_for who, uid_t uid, gid_t gid, struct err *err);
int confine_may_root(const struct runner_config *config, struct err *err);
/* For a root worker whose call failed so: a mount has one owner, the agent, and the ids of root mean nothing on it
 * (EOVERFLOW). True: its file work has the agent's rights from now on, try again. */
bool confine_step_down(int number);
int confine_container(const struct runner_config *config,
                      struct err *err); /* the runner itself, before its first wire */

/* ---- the loop (init.c) ---- */

struct source { /* embed in what owns the descriptor */
    int fd;
    uint32_t events; /* EPOLLIN ...; 0: not watched now */
    void (*ready)(struct source *source, uint32_t events);
};
struct timer { /* embed; at_ms 0: not armed */
    uint64_t at_ms;
    void (*fire)(struct timer *timer);
    struct timer *next;
};
struct runner;
void source_set(struct runner *runner, struct source *source, uint32_t events); /* adds, changes or removes */
void source_close(struct runner *runner, struct source *source); /* no longer watched, and closed; -1 is fine */
void timer_set(struct runner *runner, struct timer *timer, uint64_t at_ms); /* 0 disarms */
uint64_t timer_after(uint64_t wait_ms); /* when a wait that a client asked for ends: at most LIMIT_EXEC_TIMEOUT_MS */
void later_free(struct runner *runner, void *memory); /* free at the end of this turn: events of it may be under way */

struct runner {
    struct runner_config *config; /* BIND completes it; constant from then on */
    int epoll_fd;
    struct timer *timers;
    struct rwire *wires;
    struct process_table *processes;
    struct session_table *sessions;
    struct worker_table *workers;
    struct sudo_table *sudo; /* NULL: nobody may become root by asking */
    void **graves;           /* later_free */
    size_t grave_count, grave_cap;
    struct source children, listener; /* SIGCHLD; further wires */
    struct timer no_hello;            /* container: no HELLO follows */
    bool greeted;     /* a daemon has said HELLO. Without that no daemon has a record of us: we exit with our wire */
    uint64_t changes; /* grows with whatever may have changed a file of the box; begins anew with each runner */
    bool ending;      /* local: no wire and no listener is left, or SIGTERM came */
};

/* ---- calls (serve.c) ---- */

struct rcall {
    struct runner *runner;
    struct rwire *wire;
    uint32_t id;
    const struct op_def *def;
    uint32_t credit_out;                  /* bytes of DATA and ITEM payload we may still send */
    uint32_t credit_in;                   /* bytes of DATA the daemon may still send: more ends the wire */
    bool input_eof;                       /* EOF came */
    void *state;                          /* the op's */
    void (*writable)(struct rcall *call); /* called when credit or socket room came back; NULL: none wanted */
    bool worker;                          /* a worker does it ... */
    bool as_root;                         /* ... with the rights of the box's root */
    bool gone;                            /* in cancel: the wire is gone, nothing can be answered */
    bool later;                           /* set by cancel: the op answers itself, soon (never when gone) */
    struct rcall *next;
};

/* Answers. After reply_end or reply_fail the rcall is freed: do not touch it again. */
bool reply_room(struct rcall *call); /* socket buffer not full: may send DATA/ITEM */
void reply_stat(struct rcall *call, const struct buf *fields, int pass_fd); /* pass_fd -1: none; not closed here */
size_t reply_data(struct rcall *call, uint8_t stream, const void *data, size_t len); /* sent now, within credit */
void reply_end(struct rcall *call, const struct buf *fields);                        /* fields may be NULL */
void reply_fail(struct rcall *call, const struct err *err);
void reply_credit(struct rcall *call, uint32_t bytes); /* input consumed: let more come */

/* One whole ITEM frame of records (at most a frame's payload). False, and nothing sent, without credit or room. */
bool reply_items(struct rcall *call, const struct buf *records);
void reply_item_end(struct rcall *call, struct buf *records, size_t begin); /* item_end; half a frame of them is sent */
void reply_now(struct rcall *call); /* queued frames for it are sent at the end of this iteration */
/* A frame made elsewhere (a worker's), given this call's id. False, and nothing sent, without credit or room. */
bool reply_frame(struct rcall *call, const struct frame *frame);
void reply_end_with(struct rcall *call, uint8_t type, const struct buf *fields); /* END, or FAIL as fields */
/* by the loop */
void serve_open(struct runner *runner);                  /* the first wire and the listener */
void serve_flush(struct runner *runner);                 /* end of an iteration: sends queued frames, closes broken
                                                          * wires */
uint64_t serve_flush_at_ms(const struct runner *runner); /* when something small must go out; 0: nothing waits */

/* ---- the table of ops (ops.c, one row each, in op_*.c) ---- */

struct worker;
struct op_def {
    enum op op;
    bool looks; /* it changes nothing in the box */
    /* begin: on the loop. Must end in reply_end / reply_fail now or later; a negative return is answered with FAIL. */
    int (*begin)(struct rcall *call, const struct fields *args, struct err *err);
    int (*input)(struct rcall *call, const uint8_t *data, size_t len,
                 struct err *err);                      /* each DATA; NULL: none taken */
    int (*finish)(struct rcall *call, struct err *err); /* EOF */
    void (*cancel)(struct rcall *call); /* CANCEL, or the wire is gone: release state. Then serve answers FAIL itself
                                           unless the op has called reply_* */
    /* quick: on the loop, instead of begin: the answer is what it puts into out. */
    int (*quick)(const struct runner_config *config, const struct fields *args, struct buf *out, struct err *err);
    /* work: in a forked worker with the agent's rights, blocking code, killed on cancel. Input comes from worker_read.
     * Of an op without begin and quick; of others when they hand over (op_to_worker), or with the rights of root. */
    int (*work)(struct worker *worker, const struct fields *args, struct err *err);
    bool layers; /* work: with the layers' descriptors, and the rights of the box's root where there is one: it reports
                  * files of any owner */
    bool
        lasts; /* work: until it is cancelled: such workers keep nobody else waiting, and LIMIT is how many there are */
    bool turns;  /* work: those of one file go one after another (runner/ops/turn.h) */
    bool cleans; /* work: instead of being killed its input ends early, which it must take for a failure, and tidy up */
    /* With CALL_ROOT: the op that a worker with the rights of the box's root does instead, usually itself; NULL: it may
     * not. */
    const struct op_def *root;
};
extern const struct op_def *const op_table[]; /* ends with NULL */
const struct op_def *op_find(unsigned op);

/* ---- workers (worker.c): inside the worker process ---- */
struct turn_version;
struct worker {
    const struct runner_config *config;
    const struct turn_version *version; /* an op that takes turns: the last writer of this file; NULL: not known */
    int root_fd;
    int out_fd, in_fd;
    struct buf out;    /* frame being filled */
    size_t item_frame; /* begin of the open ITEM frame, SIZE_MAX: none */
    size_t item_start; /* begin of the record being filled */
    bool ended;        /* worker_end was called */
};
struct buf *worker_item(struct worker *worker);              /* begin one record: put fields into it */
int worker_item_end(struct worker *worker, struct err *err); /* flushes when the frame is nearly full */
int worker_flush(struct worker *worker, struct err *err);    /* records so far go out now: for slow producers */
int worker_stat(struct worker *worker, const struct buf *fields, struct err *err);
int worker_data(struct worker *worker, const void *data, size_t len, struct err *err);
ssize_t worker_read(struct worker *worker, void *data, size_t len, struct err *err); /* input; 0 at its end */
void worker_end(struct worker *worker, const struct buf *fields); /* not called: END without fields */
/* the same, seen from the loop; used by serve */
int worker_start(struct rcall *call, const struct buf *payload, struct err *err);
void worker_table_open(struct runner *runner);
bool worker_reap(struct runner *runner, pid_t pid, int status); /* false: not a worker */
bool worker_is_child(const struct runner *runner, pid_t pid);
/* The call's input, its end and its cancellation, when a worker does it */
int worker_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err);
int worker_finish(struct rcall *call, struct err *err);
void worker_cancel(struct rcall *call);
bool worker_any(const struct runner *runner); /* one is at work, or waits for its turn */

/* Where the path of a call leads (maps.c): `path` below `root`, for path_open and the like. In a jail these are the box's
 * root and the absolute path; in `local` the longest mapping that holds the path, so that nothing resolves out of it.
 * Results name files by the path the client gave, extended by names found below it. */
struct place {
    int root;          /* not the caller's to close */
    const char *above; /* the client's name of root, for sentences; "" in a jail */
    char path[LIMIT_PATH_BYTES + 1];
};
#define PATH_READ 0u
#define PATH_WRITE 1u  /* a read-only mapping is DENIED "read-only file system" */
#define PATH_ITSELF 2u /* a final link itself is meant, not its target */
/* Joins the path with the workspace and checks it. */
int runner_path(const struct runner_config *config, const char *path, unsigned how, struct place *ret_place,
                struct err *err);
/* rows: "VIRTUAL=REAL[:ro|:rw]", NULL-terminated; REAL must exist. Opens each. Without VIRTUAL it is seen at its own
 * path. */
int maps_new(const char *const *rows, struct maps **ret_maps, struct err *err);
void maps_free(struct maps *maps); /* NULL is fine */
/* `local` only (config->maps; a copy otherwise): virtual paths in a command line made real, real paths in output
 * made virtual. */
char *maps_command(const struct runner_config *config, const char *command); /* malloc */
struct mask; /* a stream being masked: holds back the bytes that might begin a real path */
struct mask *mask_new(const struct runner_config *config); /* NULL when there are no maps */
void mask_put(struct mask *mask, const uint8_t *data, size_t len, struct buf *out);
void mask_flush(struct mask *mask, struct buf *out); /* at the end of the stream */
void mask_free(struct mask *mask);
void runner_put_file(struct buf *out, int dirfd, const char *name, const struct stat *status); /* {file} fields */

#endif
