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
    struct source events; /* cgroup.events, EPOLLPRI while a waiter needs it empty */
    struct process *process;
    struct leaf *next;
    int dir_fd, kill_fd;
    unsigned number;
    uint64_t inode; /* by which the kernel names it */
    bool killed;
};
struct leaf_pool;
struct leaf_pool *leaf_pool_new(struct runner *runner);          /* NULL: no usable cgroup; keepers then */
struct leaf *leaf_take(struct leaf_pool *pool, struct err *err); /* an empty one */
/* Back, once empty; waits for that by itself unless it is known to be. */
void leaf_give(struct leaf_pool *pool, struct leaf *leaf, bool empty);
bool leaf_populated(struct leaf *leaf);
void leaf_kill(struct leaf *leaf);
void leaf_each(struct leaf *leaf, void (*each)(pid_t pid, void *argument), void *argument);
void leaf_signal(struct leaf *leaf, int number); /* to every process in it */

/* ---- spawn.c: from a request to a running child ---- */
enum spawn_stage { SPAWN_OK, SPAWN_FORK, SPAWN_CWD, SPAWN_CONFINE, SPAWN_TERMINAL, SPAWN_LIMIT, SPAWN_EXEC };

struct spawn_slot {             /* in memory shared with the child: how it fared */
    volatile int stage, number; /* enum spawn_stage that failed, and errno */
    volatile int pid;           /* keeper mode: the command's */
    volatile int status;        /* keeper mode: its wait status, once `done` */
    volatile int done;
    volatile int left; /* keeper mode: others of its tree still ran then */
    char text[236];    /* SPAWN_CONFINE: the sentence */
};

#define SPAWN_PASSED 3
struct spawn {
    const struct runner_config *config;
    char **argv, **env;
    const char *program; /* argv[0] as asked for, searched in PATH when it has no slash */
    const char *cwd;     /* as asked for, for errors */
    char *cwd_path;
    int cwd_root;
    bool shell; /* program is the shell */
    bool root, pty;
    uid_t uid;
    gid_t gid;
    int stdio[3];
    int passed[SPAWN_PASSED]; /* given to the child as the numbers from passed_at on; the first is its terminal */
    int passed_at;            /* 0: nothing is passed, and a terminal is its stdin */
    int ready_fd;             /* closed by exec, which shows that it worked; -1: not needed */
    struct spawn_slot *slot;
    void *stack; /* SPAWN_STACK_BYTES, the child's until it execs */
};
#define SPAWN_STACK_BYTES (64u << 10)
/* Fills argv, env, cwd from the call's arguments; memory is the arena's. */
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
/* Every process below `root_pid`, itself not included: signalled, then counted. */
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
    struct buf held; /* masked bytes that found no credit */
    bool over;       /* read to its end; closed later, off the path of the answer */
    uint8_t *ring;   /* background: the last LIMIT_RING_BYTES, byte n at n % LIMIT_RING_BYTES */
    uint64_t total;
    uint64_t read;  /* how far a reader has got, the furthest of all */
    size_t drained; /* after the end of a command that left others with its pipes */
};

struct feeder {              /* a call whose input goes to a command; embedded in the op's state */
    struct rcall *call;      /* NULL: gone; input that it sent before is still written */
    struct process *process; /* NULL: finished */
    struct buf data;
    size_t done;
    uint64_t taken;                          /* bytes written so far */
    bool eof;                                /* no more will come */
    bool close;                              /* then close the command's input */
    void (*finished)(struct feeder *feeder); /* all written or the reader is gone (broken); may be NULL */
    bool broken;
    struct feeder *next;
};

struct watcher { /* called when a background command has new output or has ended */
    void (*changed)(struct watcher *watcher);
    /* Next byte it has not sent: of a terminal one, of pipes one for each stream. NULL: the ring may continue without
     * it. */
    const uint64_t *offset;
    struct process *process;
    struct watcher *next;
};

struct process_hooks {                        /* of the owner of a process that serves more than one call */
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
    struct spawn spawn; /* argv and env are gone after the start */
    struct arena start; /* argument of spawn: the child reads it until it execs */
    struct spawn_slot *slot;
    char *command;       /* to show: at most PROCESS_COMMAND_BYTES */
    char *program, *cwd; /* for errors of the start, and for lists */
    struct arena about;  /* for lists: of these, and what they point to */
    char **argv, **env;  /* as asked for, cut to LIMIT_PROCESS_ABOUT_BYTES; NULL-terminated; NULL: none */
    char *tag;           /* NULL: none */
    bool background, pty;
    /* in the foreground, but with a ring: in the background when it ended, or its caller waits no longer */
    bool keep;
    /* In the background from its start on, and its call is sent what it prints, as a reader: called when it runs. NULL:
     * it is not. */
    void (*attend)(struct process *process, struct rcall *call);
    bool leave;     /* its background processes keep running when it ends by itself, if there are leaves */
    uint64_t group; /* the inode of its leaf; 0: none */
    bool lives;     /* it has ended, but processes it left run: the leaf is still its own */
    bool timed_out, killed, oom, stuck;
    bool left; /* it ended by itself, and processes it had started were killed */
    bool reaped;
    bool discard;       /* the call is gone: output is read and dropped */
    struct rcall *call; /* EXEC, until answered */
    struct source ready;
    struct source input;
    struct feeder *feeders;
    struct feeder own; /* the input of its EXEC call */
    struct stream streams[2];
    struct timer timer; /* time-out, grace, bounded waits: one at a time */
    struct timer soon;  /* when to look whether it exec'ed */
    struct timer wait;  /* when its caller waits no longer: keep */
    struct watcher *watchers;
    uint64_t started_ms, started_wall_ms, duration_ms;
    uint64_t oom_before;
    int status;
    const struct process_hooks *hooks;
    void *owner;               /* theirs */
    char *session;             /* the plain session it was started in; NULL: none */
    struct process *tidy_next; /* in the list of those to bury */
};
#define PROCESS_COMMAND_BYTES 512u
char *process_command_text(const char *text, size_t len); /* cut at a character's end; malloc */

void process_table_open(struct runner *runner);
bool process_has_leaves(const struct runner *runner);
bool process_reap(struct runner *runner, pid_t pid, int status); /* false: not a command of ours */
bool process_is_child(const struct runner *runner, pid_t pid);
void process_orphan(struct runner *runner);                 /* an unknown process was reaped */
void process_end_all(struct runner *runner);                /* local, at the end: blocks until the trees are gone */
void process_oom_score(struct runner *runner, bool raised); /* ours for a moment, for children to inherit */
void process_tidy(struct runner *runner); /* after the answers went out: bury, and prepare for the next command */
/* A pipe whose reading end does not block, made ahead where possible. 0 or -errno. */
int process_pipe(struct runner *runner, int pair[2]);
int process_null(const struct runner *runner); /* /dev/null, the table's; -errno when the box has none */
struct process *process_first(struct runner *runner);
/* The sentence for a process that could not be made, to do `what`: LIMIT, naming the box's limit, when that is why. */
int process_fork_error(const struct runner_config *config, int number, const char *what, struct err *err);
/* The newest with this pid. */
int process_lookup(struct runner *runner, uint64_t pid, struct process **ret_process, struct err *err);

/* A free place in the table (ended ones make room), with its slot. */
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
void process_done(struct process *process); /* ends it when its streams are done, else nothing */
/* ---- stream.c: output, input, rings ---- */
struct conceal;
/* input: it is a pipe, else /dev/null. A terminal has the size that args name. */
int process_stdio(struct process *process, bool input, const struct fields *args, struct err *err);
void process_stdio_given(struct process *process); /* the child has its ends */
void process_stdio_free(struct process *process);
enum stream_step { STREAM_TOOK, STREAM_DRY, STREAM_FULL, STREAM_OVER };
enum stream_step stream_step(struct stream *stream); /* one read: some, nothing there, no consumer, the end */
void stream_settle(struct stream *stream);           /* sends output that is held back for its filters */
void stream_pump(struct stream *stream);             /* something to read, or credit came back */
void stream_resume(struct process *process);         /* a reader caught up, or left */
bool stdio_done(const struct stream *stream);        /* closed, and all handed on */
void stream_free(struct stream *stream);
size_t stream_kept(const struct stream *stream);    /* bytes in the ring */
uint64_t stream_first(const struct stream *stream); /* oldest byte in the ring */
/* Kept output from *offset to end, within credit; output that the ring lost is skipped. True: all of it was sent. */
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
/* The call is a reader from now on (its def must be op_attach): output from offset[] on, then END. Input goes to the
 * command. */
void reader_open(struct rcall *call, struct process *process, const uint64_t offset[2]);
int reader_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err);
void reader_close(struct rcall *call);

#endif
