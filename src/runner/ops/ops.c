/* The table of ops: what this runner can be asked. Read by serve (a CALL's OP) and by `cubby-runner --ops`. */
#include "runner/ops/ops.h"

#include <stddef.h>

#include "base/buf.h"
#include "runner/exec/process.h"
#include "runner/work.h"

const struct op_def *const op_table[] = {
    &op_ping, &op_exec,    &op_ps,          &op_output,   &op_input,       &op_signal, &op_resize,  &op_attach,
    &op_read, &op_write,   &op_stat,        &op_list,     &op_mkdir,       &op_remove, &op_move,    &op_glob,
    &op_grep, &op_hash,    &op_watch,       &op_tar_out,  &op_tar_in,      &op_edit,   &op_connect, &op_bind,
    &op_diff, &op_session, &op_session_run, &op_sessions, &op_session_end, NULL,
};

const struct op_def *op_find(unsigned op) {
    for (const struct op_def *const *row = op_table; *row; row++)
        if ((*row)->op == (enum op)op)
            return *row;
    return NULL;
}

bool op_looks(enum op op) {
    const uint64_t looks = 1u << OP_PING | 1u << OP_PS | 1u << OP_OUTPUT | 1u << OP_READ | 1u << OP_STAT |
                           1u << OP_LIST | 1u << OP_GLOB | 1u << OP_GREP | 1u << OP_HASH | 1u << OP_WATCH |
                           1u << OP_TAR_OUT | 1u << OP_DIFF | 1u << OP_SESSIONS;
    return looks >> op & 1;
}

/* Whether somebody may change files just now: a command, or what was left by one; a worker, whatever it does. */
static bool ping_busy(struct runner *runner) {
    const struct process *process = process_first(runner);
    while (process && process->phase == PHASE_ENDED && !process->stuck && !process->lives)
        process = process->next;
    return process || worker_any(runner);
}

/* A number that was told while somebody was busy is never told again: what he does after it counts. */
static int ping_begin(struct rcall *call, const struct fields *args, struct err *err) {
    (void)args;
    (void)err;
    struct runner *runner = call->runner;
    bool busy = ping_busy(runner);
    autobuf out = buf_max(64);
    runner->changes += busy;
    field_number(&out, FIELD_CHANGES, runner->changes);
    runner->changes += busy;
    reply_end(call, &out);
    return 0;
}

const struct op_def op_ping = {.op = OP_PING, .begin = ping_begin};
