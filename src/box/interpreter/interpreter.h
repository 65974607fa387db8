/* Interpreters of a box: code runs as a program of its own, or in a session that keeps the state of earlier code. A
 * language is a row (language.c); a session is a background process of the box with a driver of ours (python.py,
 * node.js), or, of Bash, a session of the box (box_session_run).
 *
 * Nothing is kept here: a session's arguments name it, and it is found in the box's own list of processes. So it
 * outlives the daemon, several daemons see it, and it is gone when its process is. */
#ifndef CUBBY_BOX_INTERPRETER_H
#define CUBBY_BOX_INTERPRETER_H

#include "base/arena.h"
#include "base/buf.h"
#include "box/box.h"

#define INTERPRETER_NAME_BYTES 64u /* of a session: [A-Za-z0-9_.:@-] */
#define INTERPRETER_TIMEOUT_S 30u  /* of a piece of code, when it says nothing; LIMIT_ below */
#define LIMIT_INTERPRETER_TIMEOUT_S 300u
#define LIMIT_INTERPRETER_SESSIONS 16u  /* of one language in a box: each is some 10 MiB of it */
#define INTERPRETER_IDLE_S 1800u        /* unused for so long, it ends */
#define INTERPRETER_UNNAMED_IDLE_S 600u /* the same of one whose name we chose */
#define INTERPRETER_CWD_BYTES 256u /* of a session's first directory, that is remembered; one that is longer is not */

struct language {
    const char *name;         /* "python" */
    const char *title;        /* for people */
    const char *program;      /* unless another one is asked for */
    const char *package;      /* of Debian, that has it */
    const char *mark;         /* of its sessions in their arguments: "cubby=python:" */
    const char *const *flags; /* of a session's interpreter, before the mark */
    const char *mark_flag;    /* directly before the mark, in the same argument */
    const char *eval;         /* the option before a program's text */
    const char *driver;
    const char
        *about; /* a program: prints version, directory of programs, directory of packages, then NAME\tVERSION each */
    bool as_program; /* code that is run once is a program of its own; else it has a session of its own */
    bool shell;      /* its sessions are those of the box, with the mark before their names: none of the above */
};
extern const struct language language_python, language_javascript, language_bash;

struct interpreter_session {
    uint64_t pid, created_ms; /* wall clock */
    uint64_t printed;         /* bytes that it had written when it was found */
    char name[INTERPRETER_NAME_BYTES + 1];
    char program[32];
    char cwd[INTERPRETER_CWD_BYTES + 1]; /* that it was opened with; of Bash: where it is; "": not known */
    bool unnamed;                        /* its name was not chosen by a client */
    bool shell;                          /* language.shell */
};
struct interpreter_sessions {
    struct interpreter_session items[2 * LIMIT_INTERPRETER_SESSIONS]; /* oldest first */
    size_t count;
};

bool interpreter_name_ok(const char *name);
int interpreter_new_name(const char *prefix, char ret_name[INTERPRETER_NAME_BYTES + 1], struct err *err); /* random */
int interpreter_sessions(struct box *box, const struct language *language, struct interpreter_sessions *ret_sessions,
                         struct err *err);
int interpreter_find(struct box *box, const struct language *language, const char *name,
                     struct interpreter_session *ret_session, struct err *err); /* NOT_FOUND: Session not found */

struct interpreter_open {
    const char *name;    /* NULL: a new one with a random name */
    const char *program; /* NULL: the language's */
    const char *cwd;     /* of a new one; NULL: the workspace. NOT_FOUND */
    uint64_t idle_s;     /* 0: as above */
    /* of a new one: as exec_request has them; not of Bash */
    bool root, sudo;
    uint32_t uid, gid;
    const char *const *env;
};
/* The session of that name, started if it does not exist. UNSUPPORTED: the box has no such interpreter. LIMIT. */
int interpreter_open(struct box *box, const struct language *language, const struct interpreter_open *open,
                     struct interpreter_session *ret_session, bool *ret_created, struct err *err);
void interpreter_end(struct box *box, const struct interpreter_session *session); /* and all it started */
/* The same, and waits until it is gone: its name is free. TIMEOUT. */
int interpreter_end_wait(struct box *box, const struct interpreter_session *session, struct err *err);

/* ---- code ---- */

struct interpreter_caller {
    int watch;                                              /* as of all verbs */
    int (*hold)(void *user, size_t bytes, struct err *err); /* so much more memory is held for it; negative: stop */
    void *user;
};

struct interpreter_run {
    const char *code;
    size_t len;
    const char *cwd;        /* NULL: where the session is, or the workspace */
    uint64_t timeout_s;     /* 0: until the client hangs up (sessions alone) */
    const char *const *env; /* "K=V", of this code alone: afterwards they are what they were; NULL: none (sessions) */
    const struct interpreter_sink *sink; /* gets each output as it comes, and the result has none; NULL: the result */
    bool typed;                          /* JavaScript with types */
    bool once;                           /* in no session; else in: */
    const char *name;                    /* NULL: a new one */
    const char *program;                 /* as in interpreter_open */
    uint64_t idle_s;                     /* the same */
    const char *input;                   /* of a program; NULL: none */
    size_t input_len;
};

struct interpreter_mime {
    const char *type, *text;
    size_t len;
    bool json; /* the text is JSON, not a string */
};
enum interpreter_kind { OUTPUT_STREAM, OUTPUT_DISPLAY, OUTPUT_RESULT, OUTPUT_FAILURE };
struct interpreter_output {
    enum interpreter_kind kind;
    bool is_stderr;   /* OUTPUT_STREAM, with: */
    const char *text; /* OUTPUT_FAILURE: the error */
    size_t len;
    const struct interpreter_mime *mimes; /* OUTPUT_DISPLAY, OUTPUT_RESULT: the same in several forms */
    size_t count;
    bool numbered;                /* OUTPUT_RESULT: its number is the result's */
    const char *name;             /* OUTPUT_FAILURE: of the exception */
    const char *const *traceback; /* OUTPUT_FAILURE: lines, ended by NULL */
};
/* Called in order on the caller's thread; a negative return interrupts the code and is returned. */
struct interpreter_sink {
    int (*begun)(void *user, int64_t number); /* its turn has come */
    int (*output)(void *user, const struct interpreter_output *output);
    void *user;
};
enum interpreter_status { CODE_OK, CODE_FAILED, CODE_TIMEOUT };
struct interpreter_result {
    enum interpreter_status status;
    const struct interpreter_output *outputs;
    size_t count;
    struct buf texts[2]; /* its output: stdout, stderr */
    bool numbered;
    int64_t number; /* which one of its session it was */
    bool ended;     /* its session did, and why is the last output */
    bool program;   /* it was a program of its own, and ended so: */
    struct exec_result exec;
    struct arena arena; /* of all that */
    void *answer;
};
void interpreter_result_done(struct interpreter_result *result);
#define autoresult __attribute__((cleanup(interpreter_result_done))) struct interpreter_result

/* Runs code when its turn comes. ret_session: which one it was, zeroed without. A session that dies of it is a
 * result, too. GONE: the client hung up, and the code was interrupted; a session that could not be is ended. */
int interpreter_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                    const struct interpreter_caller *caller, struct interpreter_session *ret_session,
                    struct interpreter_result *ret_result, struct err *err);

/* ---- facts ---- */

struct interpreter_state {
    const char *cwd; /* in the caller's arena */
    double used_s;   /* wall clock; 0: not known */
    uint64_t idle_s;
    bool busy;
};
/* The state of a session, with other settings if they are given (cwd NULL, idle_s 0: unchanged). TIMEOUT: it is too
 * busy to answer. */
int interpreter_look(struct box *box, const struct interpreter_session *session, const char *cwd, uint64_t idle_s,
                     const struct interpreter_caller *caller, struct arena *arena, struct interpreter_state *ret_state,
                     struct err *err);

struct interpreter_package {
    const char *name, *version;
};
struct interpreter_about {
    const char *version, *programs, *root; /* root: of the packages */
    struct interpreter_package *packages;
    size_t count;
};
/* In the caller's arena. packages false: the version alone, which is quick. UNSUPPORTED: no such interpreter. */
int interpreter_about(struct box *box, const struct language *language, bool packages, int watch, struct arena *arena,
                      struct interpreter_about *ret_about, struct err *err);

#endif
