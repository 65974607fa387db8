/* Sessions of a box: a name, and a shell in a terminal that persists between commands (session_shell.c), or no shell
 * (plain: a directory for commands that are separate processes). Shared by session.c (the table), session_shell.c,
 * session_stop.c and op_session.c (the calls).
 *
 * Phases: SHELL_STARTING -> SHELL_IDLE -> (SHELL_MOVING ->) SHELL_RUNNING -> SHELL_SETTLING -> SHELL_IDLE ...; a
 * session ends from any of them, but only when its process ends (shell_ended). */
#ifndef CUBBY_RUNNER_SESSION_H
#define CUBBY_RUNNER_SESSION_H

#include "runner/exec/process.h"

enum shell_phase {
    SHELL_STARTING,
    SHELL_IDLE,
    SHELL_MOVING,   /* it changes its directory for the next command */
    SHELL_RUNNING,  /* a command runs */
    SHELL_SETTLING, /* it reported the command's end; not all output is read yet */
    SHELL_ENDED,
};

struct outcome { /* of the running or last command */
    enum session_state state;
    bool exited, gone, oom; /* exit_code is valid; the session ended with it */
    int exit_code;
    uint64_t from, to, started_ms, duration_ms; /* from, to: in the shell's output */
};

struct kept {
    pid_t pid;
    uint64_t started; /* in the kernel's ticks: distinguishes two processes with one pid */
};

struct session_call;
#define SESSION_MARK_BYTES 32
#define SESSION_REPORTS_BYTES (16u << 10) /* of reports: a directory, and forged data */
#define SESSION_REPORTS_READ_BYTES (4u << 10)

struct session {
    struct runner *runner;
    struct session *next; /* oldest first */
    char name[LIMIT_SESSION_NAME_BYTES + 1];
    char *cwd, *command, *note;
    bool plain;
    bool ending; /* its shell is being killed: it can no longer be found, and its name is free */
    bool passed; /* a call with CALL_ATTENDED went elsewhere, as all such calls then do */
    uint64_t created_wall_ms, used_wall_ms, used; /* used: a counter, to find the least recently used */
    uint64_t commands, quiet_ms;
    struct outcome outcome;
    struct session_call *waiting; /* calls that wait for their turn, in order */
    struct session_call *current; /* the call that waits for the running command, or NULL */
    struct session_call *others;  /* calls that wait for something else */

    /* the shell */
    enum shell_phase phase;
    struct process *process;
    bool bash;
    int command_fd;       /* it reads its commands here */
    int text_fd;          /* the command's text */
    struct source report; /* where it reports the end of it */
    struct buf reports;
    char mark[SESSION_MARK_BYTES + 1]; /* known only to the shell's next lines */
    struct timer hard, poll;           /* the command's timeout; for polling */
    size_t report_len;                 /* length of the line after the one that runs the command */
    uint64_t settled;                  /* bytes read since the report */
    uint64_t oom_before;
    char *command_text; /* to be run after SHELL_MOVING */

    /* stopping: session_stop.c */
    enum session_state stopping; /* why it is being stopped; 0: it is not */
    uint64_t stop_ms, alone_ms;  /* since when; since when the shell has nothing to wait for, or 0 */
    bool killing;
    struct kept *kept; /* processes of earlier commands */
    size_t kept_count;
    bool kept_stale;
    struct kept *termed; /* processes of the stopped command that got SIGTERM */
    size_t termed_count, termed_cap;
};

/* ---- session.c ---- */
void session_table_open(struct runner *runner);
struct session *session_first(struct runner *runner);
struct session *session_find(struct runner *runner, const char *name);
int session_lookup(struct runner *runner, const char *name, struct session **ret_session, struct err *err);
/* Makes a session, named and not in use yet; another one may have to end for it. */
int session_new(struct runner *runner, const struct fields *args, struct session **ret_session, struct err *err);
void session_drop(struct session *session); /* removes it from the table; no call may wait for it */
void session_used(struct session *session);
bool session_busy(const struct session *session);                 /* a command runs or waits in it */
void session_put(const struct session *session, struct buf *out); /* {session} */
void session_put_outcome(const struct session *session, const struct outcome *outcome, struct buf *out);
void session_set_cwd(struct session *session, const char *path); /* as the client knows it */
/* Ends it with everything it started, or (leave) without detached processes. shell_ended follows; for a plain one at
 * once. */
void session_end(struct session *session, bool leave);
/* For commands of a plain session (op_exec.c): uses its directory, or sets it if the call names one. */
int session_exec(struct runner *runner, struct fields *args, struct session **ret_session, struct err *err);
void session_exec_begun(struct session *session, struct process *process, const struct fields *args);

/* ---- session_shell.c ---- */
int shell_start(struct session *session, const struct fields *args, struct err *err);
/* Runs the next command: takes over text. cwd NULL: where it is. hard_until_ms 0: without a limit. */
void session_shell_run(struct session *session, char *text, const char *cwd, uint64_t hard_until_ms);
void shell_settle(struct session *session); /* its reader has made space */
void shell_ask(struct session *session);    /* asks for the report again */
/* Returns true if the shell has not begun its command yet, which is now empty. Interrupting it now would run it
 * later. */
bool shell_forget(struct session *session);
void shell_free(struct session *session);

/* Finds the report with that mark in the bytes read so far. false: it is incomplete, and reports has space for
 * SESSION_REPORTS_READ_BYTES more. *ret_cwd: "" if it is too long for a path. */
bool report_find(struct buf *reports, const char mark[SESSION_MARK_BYTES], unsigned *ret_status,
                 char ret_cwd[LIMIT_PATH_BYTES + 1]);

/* ---- session_stop.c ---- */
void stop_begin(struct session *session, enum session_state why);
bool stop_over(struct session *session); /* everything to be stopped is gone, or nothing is being stopped */
void stop_poll(struct session *session);
void stop_hang_up(struct session *session);  /* kills the shell, the running command, and processes that are not
                                              * detached */
void stop_remember(struct session *session); /* present processes survive when a later command is stopped */

/* ---- op_session.c: called by the above ---- */
void session_began(struct session *session);                         /* the command runs */
void session_failed(struct session *session, const struct err *err); /* it could not begin */
void session_over(struct session *session);                          /* it has ended, and its outcome is known */
void session_started(struct session *session,
                     const struct err *err);           /* the shell has started, or why not (NULL: it has) */
void session_gone(struct session *session);            /* before session_drop */
void session_idle(struct session *session);            /* nothing runs: starts the next in turn */
unsigned session_waits(const struct session *session); /* how many wait for their turn */

#endif
