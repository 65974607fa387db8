/* Commands of a box: the table of them, how one is started, watched and ended. Shared by process.c, spawn.c, leaf.c,
 * keeper.c and the ops on processes.
 *
 * A command's life: STARTING (spawned, not yet known to have exec'ed) -> RUNNING -> ENDING (its main process is
 * reaped, its remaining processes are being killed) -> DRAINING (tree empty, pipes being emptied) -> ENDED
 * (answered; background ones stay in the table). States only advance. */
#ifndef CUBBY_RUNNER_PROCESS_H
#define CUBBY_RUNNER_PROCESS_H

#include <sys/ioctl.h>

#include "base/arena.h"
#include "runner/runner.h"

/* ---- leaf.c: a cgroup for one command's tree ---- */
struct leaf {
    struct source events; /* cgroup.events, EPOLLPRI while someone waits for it to be empty */
    struct process *process;
    struct leaf *next;
    int dir_fd, kill_fd;
    unsigned number;
    uint64_t inode; /* by which the kernel identifies it */
    bool killed;
};
struct leaf_pool;
struct leaf_pool *leaf_pool_new(struct runner *runner);          /* NULL: no usable cgroup, use keepers */
struct leaf *leaf_take(struct leaf_pool *pool, struct err *err); /* an empty one */
/* Returns a leaf to the pool when it is empty; waits for that unless `empty`. */
void leaf_give(struct leaf_pool *pool, struct leaf *leaf, bool empty);
bool leaf_populated(struct leaf *leaf);
void leaf_kill(struct leaf *leaf);
void leaf_each(struct leaf *leaf, void (*each)(pid_t pid, void *argument), void *argument);
void leaf_signal(struct leaf *leaf, int number); /* to every process in it */

/* ---- spawn.c: from a request to a running child ---- */
enum spawn_stage { SPAWN_OK, SPAWN_FORK, SPAWN_CWD, SPAWN_CONFINE, SPAWN_TERMINAL, SPAWN_LIMIT, SPAWN_EXEC };

struct spawn_slot {             /* memory shared with the child: its result */
    volatile int stage, number; /* enum spawn_stage that failed, and errno */
    volatile int pid;           /* keeper mode: the command's */
    volatile int status;        /* keeper mode: its wait status, once `done` */
    volatile int done;
    volatile int left; /* keeper mode: others of its tree still ran then */
    char text[236];    /* SPAWN_CONFINE: the error text */
};

#define SPAWN_PASSED 3
struct spawn {
    const struct runner_config *config;
    char **argv, **env;
    const char *program; /* argv[0] as requested, searched in PATH if it has no slash */
    const char *cwd;     /* as requested, for errors */
    char *cwd_path;
    int cwd_root;
    bool shell; /* program is the shell */
    bool root, pty;
    uid_t uid;
    gid_t gid;
    int stdio[3];
    int passed[SPAWN_PASSED]; /* the child gets these from number passed_at on; the first is its terminal */
    int passed_at;            /* 0: nothing is passed, and a terminal is its stdin */
    int ready_fd;             /* exec closes it, which shows success; -1: not needed */
    struct spawn_slot *slot;
    void *stack; /* SPAWN_STACK_BYTES, used by the child until it execs */
};
#define SPAWN_STACK_BYTES (64u << 10)
/* Fills argv, env, cwd from the call's arguments; memory is in the arena. */
int spawn_prepare(struct spawn *spawn, const struct runner_config *config, const struct fields *args,
                  struct arena *arena, struct err *err);
bool spawn_env_has(const char *const *rows,
                   const char *row); /* another row of that name; rows: NULL-terminated, or NULL */
/* leaf NULL: below a keeper. The child's pid (the keeper's then) or -errno. */
pid_t spawn_clone(struct spawn *spawn, struct leaf *leaf);
_Noreturn void spawn_child(struct spawn *spawn);             /* in the child; also called by the keeper's */
int spawn_error(const struct spawn *spawn, struct err *err); /* the error in slot; names program or directory */

/* ---- keeper.c: without cgroups ---- */
_Noreturn void keeper_main(struct spawn *spawn);
#define KEEPER_TERM SIGTERM               /* to the keeper: SIGTERM to the command's tree */
#define KEEPER_KILL SIGUSR1               /* to the keeper: SIGKILL to the command's tree, until it is empty */
void keeper_sweep(struct runner *runner); /* kills unknown children of ours */
/* Signals every process below `root_pid`, not including it. Returns their number. */
size_t tree_signal(pid_t root_pid, int number);
void tree_each(pid_t root_pid, void (*each)(pid_t pid, void *argument), void *argument); /* the same, one by one */

/* ---- process.c ---- */
enum process_phase { PHASE_STARTING, PHASE_RUNNING, PHASE_ENDING, PHASE_DRAINING, PHASE_ENDED };

struct stream {
    struct source source; /* our end of the pipe, or the terminal */
    struct process *process;
    uint8_t id;              /* STREAM_STDOUT or STREAM_STDERR */
    struct conceal *conceal; /* the command's secrets; NULL: it has none */
    struct mask *mask;
    struct buf held; /* masked bytes without credit */
    bool over;       /* read to its end; closed later, after the answer */
    uint8_t *ring;   /* background: the last LIMIT_RING_BYTES, byte n at n % LIMIT_RING_BYTES */
    uint64_t total;
    uint64_t read;  /* the furthest position of any reader */
    size_t drained; /* after the end of a command that left others with its pipes */
};

struct feeder {              /* a call whose input goes to a command; embedded in the op's state */
    struct rcall *call;      /* NULL: gone; its earlier input is still written */
    struct process *process; /* NULL: finished */
    struct buf data;
    size_t done;
    uint64_t taken;                          /* bytes written so far */
    bool eof;                                /* no more will come */
    bool close;                              /* close the command's input then */
    void (*finished)(struct feeder *feeder); /* all written or the reader is gone (broken); may be NULL */
    bool broken;
    struct feeder *next;
};

struct watcher { /* called when a background command has new output or has ended */
    void (*changed)(struct watcher *watcher);
    /* Next byte it has not sent: one for a terminal, one per stream for pipes. NULL: the ring does not wait for it. */
    const uint64_t *offset;
    struct process *process;
    struct watcher *next;
};

struct process_hooks {                        /* of the owner of a process that serves several calls */
    void (*started)(struct process *process); /* it runs */
    void (*ended)(struct process *process);   /* or it never ran: slot->stage */
};

struct process {
    struct runner *runner;
    struct process *next; /* oldest first */
    enum process_phase phase;
    pid_t pid;   /* of the command's main process, as seen in the box */
    pid_t child; /* the process we reap: the same, or its keeper; 0: reaped */
    struct leaf *leaf;
    struct spawn spawn; /* argv and env are freed after the start */
    struct arena start; /* memory of spawn, which the child reads until it execs */
    struct spawn_slot *slot;
    char *command;       /* to show: at most PROCESS_COMMAND_BYTES */
    char *program, *cwd; /* for errors of the start, and for lists */
    struct arena about;  /* for lists: holds the next three */
    char **argv, **env;  /* as requested, cut to LIMIT_PROCESS_ABOUT_BYTES; NULL-terminated; may be NULL */
    char *tag;           /* NULL: none */
    bool background, pty;
    /* in the foreground, but with a ring: becomes a background command when its caller no longer waits */
    bool keep;
    /* In the background from the start, with its call as a reader: called when it runs. NULL: not so. */
    void (*attend)(struct process *process, struct rcall *call);
    bool leave;     /* its background processes continue when it exits by itself, if there are leaves */
    uint64_t group; /* the inode of its leaf; 0: none */
    bool lives;     /* it has ended, but processes it left are running in its leaf */
    bool timed_out, killed, oom, stuck;
    bool left; /* it exited by itself, and processes it left were killed */
    bool reaped;
    bool discard;       /* the call is gone: output is read and dropped */
    struct rcall *call; /* EXEC, until answered */
    struct source ready;
    struct source input;
    struct feeder *feeders;
    struct feeder own; /* the input of its EXEC call */
    struct stream streams[2];
    struct timer timer; /* timeout, grace, bounded waits: one at a time */
    struct timer soon;  /* when to check whether it exec'ed */
    struct timer wait;  /* when its caller stops waiting: keep */
    struct watcher *watchers;
    uint64_t started_ms, started_wall_ms, duration_ms;
    uint64_t oom_before;
    int status;
    const struct process_hooks *hooks;
    void *owner;               /* for the hooks */
    char *session;             /* the plain session it was started in; NULL: none */
    struct process *tidy_next; /* in the list of those to free */
};
#define PROCESS_COMMAND_BYTES 512u
char *process_command_text(const char *text, size_t len); /* cut at a character's end; malloc */

void process_table_open(struct runner *runner);
bool process_has_leaves(const struct runner *runner);
bool process_reap(struct runner *runner, pid_t pid, int status); /* false: not a command of ours */
bool process_is_child(const struct runner *runner, pid_t pid);
void process_orphan(struct runner *runner);                 /* an unknown process was reaped */
void process_end_all(struct runner *runner);                /* local, at the end: blocks until all trees are gone */
void process_oom_score(struct runner *runner, bool raised); /* changes ours for a moment, for children to inherit */
void process_tidy(struct runner *runner); /* after answers are sent: frees, and prepares for the next command */
/* A pipe whose reading end does not block, made in advance if possible. Returns 0 or -errno. */
int process_pipe(struct runner *runner, int pair[2]);
int process_null(const struct runner *runner); /* /dev/null, the table's; -errno when the box has none */
struct process *process_first(struct runner *runner);
/* Makes the error for a process that could not be started, to do `what`: LIMIT, naming the box's limit if that is
 * why. */
int process_fork_error(const struct runner_config *config, int number, const char *what, struct err *err);
/* Finds the newest with this pid. */
int process_lookup(struct runner *runner, uint64_t pid, struct process **ret_process, struct err *err);

/* Gets a free place in the table (ended ones are dropped for it), with its slot. */
int process_new(struct runner *runner, struct process **ret_process, struct err *err);
int process_launch(struct process *process, struct err *err); /* spawn is prepared, pipes are set */
void process_started(struct process *process);                /* it runs, or it could not */
void process_kill(struct process *process);                   /* the whole tree, at once */
void process_signal(struct process *process, int number);     /* the whole tree */
void process_timeout_ms(struct process *process, uint64_t timeout_ms);
void process_detach(struct process *process);                            /* its call is over */
void process_wait_ms(struct process *process, uint64_t wait_ms);         /* then it continues in the background */
void process_drop(struct process *process);                              /* out of the table, freed */
void process_put_result(const struct process *process, struct buf *out); /* EXIT or SIGNALLED, ... */
uint64_t process_oom_count(const struct runner *runner);
void process_done(struct process *process); /* ends it if its streams are done */
/* ---- stream.c: output, input, rings ---- */
struct conceal;
/* input: a pipe, else /dev/null. A terminal has the size that args give. */
int process_stdio(struct process *process, bool input, const struct fields *args, struct err *err);
void process_stdio_given(struct process *process); /* the child has them now */
void process_stdio_free(struct process *process);
enum stream_step { STREAM_TOOK, STREAM_DRY, STREAM_FULL, STREAM_OVER };
enum stream_step stream_step(struct stream *stream); /* one read: some, nothing there, no consumer, the end */
void stream_settle(struct stream *stream);           /* sends output that is held back for its filters */
void stream_pump(struct stream *stream);             /* there is something to read, or credit again */
void stream_resume(struct process *process);         /* a reader has caught up or left */
bool stdio_done(const struct stream *stream);        /* closed, and everything was passed on */
void stream_free(struct stream *stream);
size_t stream_kept(const struct stream *stream);    /* bytes in the ring */
uint64_t stream_first(const struct stream *stream); /* oldest byte in the ring */
/* Sends kept output from *offset to end, within credit; skips what the ring lost. Returns true if all was sent. */
bool stream_send(struct rcall *call, const struct stream *stream, uint64_t *offset, uint64_t end);
size_t stream_copy(const struct stream *stream, uint64_t from, uint8_t *data, size_t len);
void watchers_notify(struct process *process);
void input_close(struct process *process); /* feeders are notified */
void feeder_add(struct process *process, struct feeder *feeder, struct rcall *call);
int feeder_put(struct feeder *feeder, const uint8_t *data, size_t len, struct err *err);
void feeder_eof(struct feeder *feeder);
void feeder_drop(struct feeder *feeder); /* removes it with its remaining output */
void watcher_add(struct process *process, struct watcher *watcher);
void watcher_drop(struct watcher *watcher);

/* ---- reader.c: calls that are sent all that a background command prints ---- */
/* Makes the call a reader (its def must be op_attach): sends output from offset[] on, then END. Its input goes to the
 * command. */
void reader_open(struct rcall *call, struct process *process, const uint64_t offset[2]);
int reader_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err);
void reader_close(struct rcall *call);

#endif
