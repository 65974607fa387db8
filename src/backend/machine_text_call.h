/* What the files of the text form share (machine_text.h): the connection, requests on it, and the calls of the wires that
 * are played for its boxes. Rules:
 *
 * 1. text->lock guards everything here; text->changed is told of every change. Nothing is sent or parsed under it.
 * 2. A call has a thread of its own, which alone writes its answer; the thread of its wire only hands in what came.
 * 3. What the machine said is bounded before it is parsed, and what waits for somebody is counted (held_bytes).
 * 4. Whoever holds a pointer to a struct machine_text counts in its refs. */
#ifndef CUBBY_BACKEND_MACHINE_TEXT_CALL_H
#define CUBBY_BACKEND_MACHINE_TEXT_CALL_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/machine_text.h"
#include "backend/machine_transfer.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/limits.h"
#include "wire/frame.h"

#define TEXT_ASK_MS 30000u    /* a request that only looks or flips something */
#define TEXT_ID_BYTES 24      /* "req_", 16 hex digits, a NUL */
#define TEXT_EXEC_MAX_S 3600u /* what runners take; above they choose a time of their own */

struct text_request;
struct text_stream;
struct text_box;
struct text_wire;
struct text_author;

struct machine_text {
    atomic_uint refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct arena arena;
    const char *user, *name, *workspace, *shell, *address;
    struct machine_text_options options; /* strings in arena */
    int wake;                            /* eventfd: the serving thread has something to send, or is to end */
    bool dead;
    char why[200]; /* dead, or to end: why */
    bool leave, ping;
    uint64_t heard_ms, latency_us;
    uint64_t next_id, next_pid;
    struct text_request *requests[64];
    unsigned request_count;
    struct text_message *first, **last; /* to be sent */
    size_t queued_bytes, held_bytes;
    unsigned unasked;
    uint64_t lacks; /* bits of enum text_type: the runner said it does not know it */
    struct text_stream *streams;
    struct text_box *boxes;
    struct text_wire *wires;
    bool editing;                /* somebody has the turn */
    struct text_author *authors; /* machine_text_edit.c */
};

struct machine_text *machine_text_ref(struct machine_text *text);
void machine_text_unref(struct machine_text *text);
/* One message of the machine's. Negative: the connection ends for that reason. */
int machine_text_take(struct machine_text *text, const void *data, size_t len, struct err *err);
void machine_text_die(struct machine_text *text, const char *why); /* every request and call fails with it */

/* ---- machine_text_message.c: bytes and JSON ---- */

enum text_type {
    TEXT_EXEC,
    TEXT_READ_FILE,
    TEXT_WRITE_FILE,
    TEXT_STAT,
    TEXT_READ_DIR,
    TEXT_MKDIR_ALL,
    TEXT_REMOVE,
    TEXT_REMOVE_ALL,
    TEXT_CANCEL,
    TEXT_STDIO_START,
    TEXT_STDIO_WRITE,
    TEXT_STDIO_CLOSE,
    TEXT_PTY_CREATE,
    TEXT_PTY_STDIN,
    TEXT_PTY_RESIZE,
    TEXT_PTY_CLOSE,
};

struct text_answer {
    json_t *root;     /* owned */
    json_t *body;     /* the object that holds the members: root or its "body" */
    const char *type; /* into root, as id; id NULL: none */
    const char *id;
    size_t cost; /* counted in held_bytes */
};
const char *text_type_name(enum text_type type);
const char *text_type_answer(enum text_type type); /* the type of its good answer; NULL: it has none */
/* members: as written by a struct json into an empty buffer. id may be NULL. */
void text_encode(struct buf *out, bool nested, const char *id, const char *type, const char *user,
                 const struct buf *members);
int text_decode(const void *data, size_t len, struct text_answer *ret_answer, struct err *err);
/* The error that an answer of type error is; *ret_lacks: the runner does not know such requests. */
int text_error(const struct text_answer *answer, bool *ret_lacks, struct err *err);
const char *text_member(const struct text_answer *answer, const char *key, size_t *ret_len); /* NULL: no string */
int64_t text_number(const struct text_answer *answer, const char *key, int64_t fallback);
bool text_truth(const struct text_answer *answer, const char *key);

/* ---- calls: machine_text_wire.c ---- */

struct text_call {
    struct text_call *next;
    struct text_wire *wire;
    struct machine_text *text;
    struct text_box *box;
    uint32_t id;
    enum op op;
    struct arena arena;
    struct buf raw; /* its CALL frames */
    struct fields args;
    struct buf input, items, end;
    bool started; /* its thread runs */
    bool eof, cancelled;
    bool gone; /* nobody hears its answer */
    int64_t credit;
    struct machine_transfer *transfer; /* it waits there: told of what ends it */
};

struct text_box {
    struct text_box *next;
    char id[17];
    bool ended;       /* a new one of this id is another one */
    const char **env; /* "K=V", NULL-terminated; with shell in arena */
    const char *shell;
    struct arena arena;
};

/* A wire of its own to this box. */
int text_wire_open(struct machine_text *text, struct text_box *box, struct wire **ret_wire, struct err *err);
void text_wires_end_locked(struct machine_text *text); /* each, when its calls have been answered */

/* The answer of a call, on its thread. Each fails with GONE when it was cancelled or nobody hears it. */
int text_stat(struct text_call *call, const struct buf *fields, struct err *err);
int text_data(struct text_call *call, int stream, const void *data, size_t len, struct err *err);
int text_item(struct text_call *call, const struct buf *fields, struct err *err);
/* Input: bytes, 0 at its end. wait_ms: TIMEOUT when nothing came for so long; 0: as long as it takes. */
ssize_t text_input(struct text_call *call, void *data, size_t size, uint64_t wait_ms, struct err *err);
/* All of it, appended; TOO_LARGE beyond out->max. */
int text_input_all(struct text_call *call, struct buf *out, struct err *err);
int text_cancelled(struct text_call *call, struct err *err); /* 0 or GONE; lock not held */

/* ---- requests: machine_text.c ---- */

/* Asks and waits. call NULL: nobody can cancel it. The members are this request's; an answer of type error is an error.
 * ret_answer NULL: only whether. */
int text_ask(struct machine_text *text, struct text_call *call, enum text_type type, const struct buf *members,
             uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err);
/* The same in two steps, the second always. */
int text_ask_begin(struct machine_text *text, struct text_call *call, enum text_type type, const struct buf *members,
                   struct text_request **ret_request, struct err *err);
int text_ask_end(struct machine_text *text, struct text_request *request, uint64_t timeout_ms,
                 struct text_answer *ret_answer, struct err *err);
int text_tell(struct machine_text *text, enum text_type type, const struct buf *members, struct err *err);
void text_answer_done(struct machine_text *text, struct text_answer *answer);
/* Waits for a change; the caller holds the lock. false: deadline_ms (clock_ms; 0: none) is over. */
bool text_wait_locked(struct machine_text *text, uint64_t deadline_ms);
void text_kick_locked(struct machine_text *text); /* the serving thread looks at what there is to do */
bool text_lacks(struct machine_text *text, enum text_type type);

/* A stream that a stdio_ or pty_ push belongs to: machine_text_stream.c. lock held. */
int text_stream_take_locked(struct machine_text *text, const struct text_answer *push, struct err *err);

/* ---- what the ops share ---- */

/* A path of the call as the machine gets it: absolute, UTF-8. */
int text_path(struct text_call *call, enum field_id id, const char **ret_path, struct err *err);
struct text_file {
    enum file_type type;
    uint64_t size, mtime_ns, inode;
    uint32_t mode, uid, gid;
    const char *name, *target; /* in the call's arena; may be NULL */
};
int text_file_stat(struct text_call *call, const char *path, bool follow, struct text_file *ret_file, struct err *err);
void text_file_fields(struct buf *out, const struct text_file *file);
void text_file_etag(const struct text_file *file, char etag[64]); /* as box/file.h writes it */
/* The content of a file of that size: to `sink`, in order. */
int text_file_read(struct text_call *call, const char *path, uint64_t size,
                   int (*sink)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
                   struct err *err);
/* The whole new content of a file: `source` gives pieces, 0 at the end. size UINT64_MAX: not known. */
struct text_source {
    ssize_t (*read)(void *user, void *data, size_t size, struct err *err);
    void *user;
    uint64_t size;
};
int text_file_write(struct text_call *call, const char *path, uint32_t mode, const struct text_source *source,
                    struct err *err);
/* Before a content is written: what is there, and whether there is something; parents are made where there is nothing. */
int text_file_ready(struct text_call *call, const char *path, bool parents, struct text_file *ret_old,
                    bool *ret_created, struct err *err);
/* machine_text_http.c: the same at the address that the runner announced. head: what was read of source already. */
int text_http_get(struct text_call *call, const char *path,
                  int (*sink)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
                  struct err *err);
int text_http_post(struct text_call *call, const char *path, uint32_t mode, const struct buf *head,
                   const struct text_source *source, struct err *err);

/* A script on the machine: portable sh; its positional parameters are args. What it writes becomes out, as bytes. Its exit
 * status: 0, or one of SCRIPT_ and the sentence on its standard error. input: text for its standard input; may be NULL. */
enum {
    SCRIPT_NOT_FOUND = 10,
    SCRIPT_EXISTS = 11,
    SCRIPT_INVALID = 12,
    SCRIPT_DENIED = 13,
    SCRIPT_TOO_LARGE = 14,
    SCRIPT_UNSUPPORTED = 15,
};
#define SCRIPT_OUTPUT_BYTES (4u << 20)
int text_script(struct machine_text *text, struct text_call *call, const char *script, const char *const *args,
                const struct buf *input, uint64_t timeout_ms, struct buf *out, struct err *err);

/* A command as the machine gets it: the variables, the working directory and what they need around it. */
struct text_command {
    const char *shell, *command; /* given to the shell */
    const char *dir;             /* absolute */
    const char **env;            /* NULL-terminated */
};
int text_command_of(struct text_call *call, struct text_command *ret_command, struct err *err);
void text_exec_members(struct machine_text *text, struct json *json, const char *shell, const char *command);

/* The alternatives of "{a,b}" as words for programs that know no braces; none where that cannot be said so. */
size_t text_ignore_words(struct text_call *call, const char *pattern, const char **words, size_t max);

int text_path_compare(const char *a, const char *b); /* directory by directory, by name within each */

/* Ops: each answers with fields in call->end. */
int text_op_exec(struct text_call *call, struct err *err);
int text_op_ps(struct text_call *call, struct err *err);
int text_op_output(struct text_call *call, struct err *err);
int text_op_input(struct text_call *call, struct err *err);
int text_op_signal(struct text_call *call, struct err *err);
int text_op_resize(struct text_call *call, struct err *err);
int text_op_attach(struct text_call *call, struct err *err);
int text_op_read(struct text_call *call, struct err *err);
int text_op_write(struct text_call *call, struct err *err);
int text_op_stat(struct text_call *call, struct err *err);
int text_op_list(struct text_call *call, struct err *err);
int text_op_mkdir(struct text_call *call, struct err *err);
int text_op_remove(struct text_call *call, struct err *err);
int text_op_move(struct text_call *call, struct err *err);
int text_op_glob(struct text_call *call, struct err *err);
int text_op_grep(struct text_call *call, struct err *err);
int text_op_hash(struct text_call *call, struct err *err);
int text_op_tar_out(struct text_call *call, struct err *err);
int text_op_tar_in(struct text_call *call, struct err *err);
int text_op_edit(struct text_call *call, struct err *err);

/* Background commands of a box: machine_text_process.c. */
int text_process_spawn(struct text_call *call, const struct text_command *command, struct err *err);
int text_process_end(struct machine_text *text, const char *box_id, struct err *err);
/* A terminal or an open stdin: machine_text_stream.c. collected: input that came so far. */
int text_stream_run(struct text_call *call, const struct text_command *command, bool pty, const struct buf *collected,
                    struct err *err);
struct text_stream *text_stream_find_locked(struct machine_text *text, const char *box_id, uint64_t pid);
int text_stream_ps(struct text_call *call, uint64_t pid, bool *ret_found, struct err *err);
int text_stream_output(struct text_call *call, bool *ret_found, struct err *err);
int text_stream_input(struct text_call *call, bool *ret_found, struct err *err);
int text_stream_signal(struct text_call *call, bool *ret_found, struct err *err);
void text_streams_end_locked(struct machine_text *text); /* the machine is gone */
void text_streams_close(struct machine_text *text, const char *box_id);
void text_streams_free(struct machine_text *text);
void text_authors_free(struct machine_text *text);

#endif
