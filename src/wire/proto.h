/* The wire's words: frame types, ops, fields, flags. PROTOCOL.md explains them; a test compares the two.
 *
 * Frame: u32 payload length, u32 call id, u8 type, u8 flags, u16 zero; then the payload. All little endian. Payload
 * of CALL, STAT, END, FAIL, HELLO: fields. ITEM: one or more of {u32 length, fields}. DATA: raw bytes. Field: u8 id,
 * u32 length, bytes. Numbers are 8 bytes little endian. Every op answers STAT? (DATA | ITEM)* (END | FAIL). Numbers
 * here are never reused; a change that an old peer would misread raises PROTO_VERSION. */
#ifndef CUBBY_WIRE_PROTO_H
#define CUBBY_WIRE_PROTO_H

#define PROTO_VERSION 1
#define FRAME_HEAD_BYTES 12

/* clang-format off */
/* name, number, sender: D daemon, R runner, B both */
#define FRAME_LIST(X) \
    X(HELLO, 1, B)  /* VERSION, then what each side can do; call id 0; first frame both ways */ \
    X(CALL, 2, D)   /* opens a call: OP and its arguments; FLAG_MORE: continued in the next CALL of the same id */ \
    X(STAT, 3, R)   /* data before the stream; may carry a descriptor (FLAG_FD) */ \
    X(DATA, 4, B)   /* bytes of a stream (flags: which), or input of the call; costs credit */ \
    X(ITEM, 5, R)   /* records; costs credit */ \
    X(END, 6, R)    /* the call is done; its results */ \
    X(FAIL, 7, R)   /* the call failed: CODE, MESSAGE, and ERRNO? (err_wire_number) */ \
    X(CREDIT, 8, B) /* u32: the peer may send that many more bytes of DATA and ITEM payload on this call */ \
    X(EOF, 9, D)    /* the input of the call is complete */ \
    X(CANCEL, 10, D) /* end the call and everything it started; answered by END or FAIL */

enum frame_type {
#define X(name, number, side) FRAME_##name = (number),
    FRAME_LIST(X)
#undef X
};

/* frame flags */
#define FLAG_MORE 0x01   /* CALL: more arguments follow */
#define FLAG_FD 0x80     /* STAT, HELLO: one descriptor came with this frame (SCM_RIGHTS) */
#define STREAM_INPUT 0   /* DATA: low two bits of flags */
#define STREAM_STDOUT 1
#define STREAM_STDERR 2

/* name, number. PROTOCOL.md has the arguments and the answer of each. */
#define OP_LIST(X) \
    X(PING, 1) X(EXEC, 2) X(PS, 3) X(OUTPUT, 4) X(INPUT, 5) X(SIGNAL, 6) X(RESIZE, 7) X(ATTACH, 8) \
    X(READ, 9) X(WRITE, 10) X(STAT, 11) X(LIST, 12) X(MKDIR, 13) X(REMOVE, 14) X(MOVE, 15) X(GLOB, 16) \
    X(GREP, 17) X(HASH, 18) X(WATCH, 19) X(TAR_OUT, 20) X(TAR_IN, 21) X(EDIT, 22) X(DIFF, 23) X(CONNECT, 24) \
    X(BIND, 25) X(SESSION, 26) X(SESSION_RUN, 27) X(SESSIONS, 28) X(SESSION_END, 29)

enum op {
#define X(name, number) OP_##name = (number),
    OP_LIST(X)
#undef X
};

/* name, number, kind: S text (no NUL inside, at most LIMIT_PATH_BYTES unless said), N number, B bytes; L: repeated */
#define FIELD_LIST(X) \
    X(OP, 1, N) X(PATH, 2, S) X(TO, 3, S) X(PATTERN, 4, S) X(COMMAND, 5, S) X(ARGV, 6, L) X(ENV, 7, L) \
    X(CWD, 8, S) X(USER, 9, S) X(TIMEOUT_MS, 10, N) X(FLAGS, 11, N) X(MODE, 12, N) X(LIMIT, 13, N) \
    X(DEPTH, 14, N) X(GLOB, 15, S) X(CONTEXT, 16, N) X(OFFSET, 17, N) X(LENGTH, 18, N) X(PID, 19, N) \
    X(SIGNAL, 20, N) X(COLS, 21, N) X(ROWS, 22, N) X(STREAM, 23, N) X(WAIT_MS, 24, N) X(SHELL, 25, S) \
    X(IF_MATCH, 26, S) X(SIZE, 27, N) X(STUCK, 28, N) X(PORT, 29, N) X(NAME, 32, S) X(TYPE, 33, N) \
    X(MTIME_NS, 34, N) X(UID, 35, N) X(GID, 36, N) X(INODE, 37, N) X(TARGET, 38, S) X(LINE, 39, N) \
    X(TEXT, 40, B) X(EXIT, 41, N) X(SIGNALLED, 42, N) X(TIMED_OUT, 43, N) X(OOM, 44, N) X(BYTES_OUT, 45, N) \
    X(BYTES_ERR, 46, N) X(DURATION_MS, 47, N) X(TRUNCATED, 48, N) X(FILES, 49, N) X(SHA256, 50, B) \
    X(EVENT, 51, N) X(STARTED_MS, 52, N) X(STATE, 53, N) X(CODE, 54, N) X(MESSAGE, 55, S) X(VERSION, 56, N) \
    X(FIRST, 57, N) X(NEXT, 58, N) X(CREATED, 59, N) X(FEATURES, 60, N) X(BEFORE, 61, B) X(AFTER, 62, B) \
    X(WORKSPACE, 63, S) X(SECRET, 64, L) X(ENV_DROP, 65, L) X(AUTHOR, 66, N) X(LAST, 67, N) X(LINES, 68, N) \
    X(IGNORE, 72, S) X(LEFT, 73, N) X(CHANGES, 74, N) X(SESSION, 75, S) X(QUIET_MS, 76, N) X(USED_MS, 77, N) \
    X(WAITING, 78, N) X(NOTE, 79, S) X(INCLUDE, 80, L) X(EXCLUDE, 81, L) X(SORT, 82, N) \
    X(CONTEXT_AFTER, 83, N) X(ERRNO, 90, N) X(ATTRS, 91, B) X(RESOLVED, 92, S) X(RESOLVED_MODE, 93, N)

#define FIELD_IDS 96 /* every number above is below it */

enum field_id {
#define X(name, number, kind) FIELD_##name = (number),
    FIELD_LIST(X)
#undef X
};

/* clang-format on */

/* bits of FIELD_FLAGS */
#define CALL_STDIN 0x0001u /* EXEC: the call's input is the command's stdin (else /dev/null) */
#define CALL_BACKGROUND 0x0002u
#define CALL_PTY 0x0004u
#define CALL_CLOSE 0x0008u   /* INPUT: close stdin after the bytes */
#define CALL_WANT_FD 0x0010u /* READ, WRITE: pass the descriptor instead of bytes, where the wire can */
#define CALL_APPEND 0x0020u
#define CALL_PARENTS 0x0040u
#define CALL_RECURSIVE 0x0080u
#define CALL_OVERWRITE 0x0100u
#define CALL_DIRS 0x0200u
#define CALL_LITERAL 0x0400u
#define CALL_IGNORE_CASE 0x0800u
#define CALL_FOLLOW 0x1000u
#define CALL_ALL                                                                                                       \
    0x2000u /* EDIT: every place; READ: no bytes unless LENGTH is enough; WATCH: attributes; PS: all about it */
#define CALL_REGEX 0x4000u        /* EDIT: old is a regular expression */
#define CALL_LINES 0x8000u        /* EDIT: new replaces lines FIRST to LAST; without an old text */
#define CALL_TEXT 0x10000u        /* EDIT: only text; CRLF and a byte order mark are kept */
#define CALL_CREATE 0x20000u      /* EDIT: where nothing is, IF_MATCH does not count */
#define CALL_PLAIN 0x40000u       /* SESSION: without a shell */
#define CALL_VISIBLE 0x80000u     /* GLOB: a name that begins with '.' only where the pattern says the dot */
#define CALL_DESCENDING 0x100000u /* GLOB: SORT the other way round */
#define CALL_MULTILINE 0x200000u  /* GREP: a match may cross lines, and '.' takes a newline */
#define CALL_KEEP 0x800000u       /* EXEC: it stays in the table when it has ended, with its output */
#define CALL_LEAVE 0x1000000u     /* EXEC, SESSION_END: background processes keep running */
#define CALL_ATTENDED                                                                                                  \
    0x2000000u /* SESSION_RUN: not after a command whose caller was answered already: BUSY, EINPROGRESS */
#define CALL_DETACH                                                                                                    \
    0x4000000u /* EXEC: its output goes to the call as in the foreground; after the call it stays in the background */
#define CALL_UNREAD 0x8000000u   /* ATTACH: from the first byte of each stream that no reader was sent */
#define CALL_DETAILS 0x10000000u /* STAT, LIST: where links lead in the end, and attributes (PATTERN) */
#define CALL_SUDO 0x20000000u    /* EXEC: from now on commands of the box may start some as its root (sudo) */
#define CALL_ROOT 0x400000u      /* file ops (WRITE with OVERWRITE or APPEND): with the rights of the box's root */

/* values */
enum file_type { FILE_REGULAR = 1, FILE_DIR = 2, FILE_SYMLINK = 3, FILE_OTHER = 4 };
enum process_state { PROCESS_RUNNING = 1, PROCESS_EXITED = 2 };
enum watch_event {
    WATCH_CREATED = 1,
    WATCH_MODIFIED = 2,
    WATCH_REMOVED = 3,
    WATCH_MOVED = 4,
    WATCH_ATTRIBUTES = 5, /* these two with CALL_ALL only */
    WATCH_OVERFLOW = 6,   /* changes were lost */
};
enum session_state {                  /* of its command that runs, or ran last */
                     SESSION_NEW = 1, /* there was none yet */
                     SESSION_RUNNING = 2,
                     SESSION_COMPLETED = 3, /* the exit code counts; it may have ended the shell with it */
                     SESSION_QUIET = 4, /* nothing was printed for QUIET_MS: its caller waits no longer, it continues
                                         * to run */
                     SESSION_HARD_TIMEOUT = 5, /* killed with all it had started */
                     SESSION_TERMINATED = 6,   /* killed so by SESSION_END, or because its caller hung up */
};
enum search_sort { SORT_PATH = 1, SORT_NAME = 2, SORT_SIZE = 3, SORT_MODIFIED = 4 };

#define SESSION_QUIET_OWN UINT64_MAX /* QUIET_MS of SESSION_RUN: the session's own value */

/* FEATURES of HELLO */
#define FEATURE_PASS_FD 0x1u    /* this wire can carry descriptors */
#define FEATURE_ROOT_FD 0x2u    /* the runner's HELLO carries an O_PATH descriptor of the box's root */
#define FEATURE_CGROUP 0x4u     /* commands have a cgroup of their own */
#define FEATURE_EDIT 0x8u       /* EDIT knows more than a string in a file */
#define FEATURE_SESSION 0x20u   /* it has sessions */
#define FEATURE_SEARCH 0x40u    /* GLOB, GREP and WATCH know lists of globs, and all that came with them */
#define FEATURE_AS_ROOT 0x80u   /* it knows CALL_ROOT */
#define FEATURE_DETACH 0x100u   /* it knows CALL_DETACH, CALL_UNREAD, SIGNAL with WAIT_MS, PS with CALL_ALL */
#define FEATURE_DETAILS 0x400u  /* file ops know owners, attributes and CALL_DETAILS */
#define FEATURE_HAS_ROOT 0x800u /* the box has a root user: CALL_ROOT is not refused */
#define FEATURE_FAR 0x10u       /* daemon: the runner is far away: its CREDIT may exceed the consumed bytes */

#endif
