/* What a driver and the daemon say to each other, and what of it becomes a result. Private to this directory; the words
 * are in the head of python.py. */
#ifndef CUBBY_BOX_INTERPRETER_TALK_H
#define CUBBY_BOX_INTERPRETER_TALK_H

#include <jansson.h>

#include "box/interpreter/interpreter.h"

enum {
    TALK_ID_BYTES = 16,
    TALK_ANSWER_BYTES = 9 << 20, /* whole, or one output of a live one: the drivers' own limit, and a little */
};
enum outcome {
    ANSWERED,
    DIED,  /* and the session with it: the code ended it, or memory did */
    STUCK, /* it could not be interrupted, and was killed */
};

struct talk {
    const struct interpreter_caller *caller;
    const struct interpreter_sink *sink; /* NULL: all is in the answer */
    struct box *box;
    const struct interpreter_session *session;
    char id[2 * TALK_ID_BYTES + 1];
    uint64_t offset, deadline_ms, own_ms; /* own_ms: what it has from when it begins; 0: as long as it takes */
    size_t taken;                         /* bytes of its lines that it has not been sent a "next" for */
    struct buf line, answer;
    bool skipping; /* the rest of a line that is too long */
    bool begun, done;
};

int interpreter_random_name(char *out, struct err *err); /* 2 * TALK_ID_BYTES + 1 */
int interpreter_session_say(struct box *box, const struct interpreter_session *session, const char *line, size_t len,
                            struct err *err);
int interpreter_missing(const struct language *language, const char *program, struct err *err);

/* Sends the word with the body and reads the answer: enum outcome, or negative. wait_ms until it begins. Followed by
 * interpreter_talk_done either way. */
int interpreter_talk_ask(struct talk *talk, const char *word, const struct buf *body, uint64_t wait_ms, uint64_t own_ms,
                         struct err *err);
/* Nobody waits for it any more: its code is interrupted, and a session that does not end it is killed. */
void interpreter_talk_stop(struct talk *talk);
int interpreter_talk_parse(struct talk *talk, json_t **ret_value, struct err *err);
void interpreter_talk_done(struct talk *talk);

/* ---- output.c ---- */

/* False: it is not the output of a notebook. */
bool interpreter_output_take(struct interpreter_result *result, json_t *value, struct interpreter_output *output);
void interpreter_output_failure(struct interpreter_result *result, struct interpreter_output *output, const char *name,
                                const char *text);
/* What became of the code: what the driver answered, or why it did not. */
int interpreter_output_result(struct talk *talk, enum outcome outcome, uint64_t timeout_s,
                              struct interpreter_result *result, struct err *err);

/* ---- program.c, shell.c ---- */

int interpreter_program_run(struct box *box, const struct language *language, const struct interpreter_run *run,
                            const struct interpreter_caller *caller, struct interpreter_result *ret_result,
                            struct err *err);
int interpreter_shell_sessions(struct box *box, struct interpreter_sessions *ret_sessions, struct err *err);
int interpreter_shell_open(struct box *box, const struct interpreter_open *open,
                           struct interpreter_session *ret_session, bool *ret_created, struct err *err);
int interpreter_shell_run(struct box *box, const struct interpreter_run *run, const struct interpreter_caller *caller,
                          const struct interpreter_session *session, struct interpreter_result *ret_result,
                          struct err *err);
void interpreter_shell_end(struct box *box, const struct interpreter_session *session);

#endif
