/* The table of ops: what this runner can be asked. Read by serve (a CALL's OP) and by `cubby-runner --ops`. */
#include "runner/ops.h"

#include <stddef.h>

const struct op_def *const op_table[] = {
    &op_ping,  &op_exec,    &op_ps,     &op_output, &op_input,   &op_signal, &op_resize, &op_attach, &op_read,
    &op_write, &op_stat,    &op_list,   &op_mkdir,  &op_remove,  &op_move,   &op_glob,   &op_grep,   &op_hash,
    &op_watch, &op_tar_out, &op_tar_in, &op_edit,   &op_connect, &op_bind,   &op_diff,   NULL,
};

const struct op_def *op_find(unsigned op) {
    for (const struct op_def *const *row = op_table; *row; row++)
        if ((*row)->op == (enum op)op)
            return *row;
    return NULL;
}

static int ping_begin(struct rcall *call, const struct fields *args, struct err *err) {
    (void)args;
    (void)err;
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_ping = {.op = OP_PING, .begin = ping_begin};
