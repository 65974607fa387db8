/* Every op of the runner: one row each, defined next to its code, listed in ops.c. A new op is a number in
 * wire/proto.h, a definition in an op_*.c file, a line here and a line in ops.c. */
#ifndef CUBBY_RUNNER_OPS_H
#define CUBBY_RUNNER_OPS_H

#include "runner/runner.h"

/* commands: op_exec.c, op_process.c */
extern const struct op_def op_ping, op_exec, op_ps, op_output, op_input, op_signal, op_resize, op_attach;
/* op_session.c */
extern const struct op_def op_session, op_session_run, op_sessions, op_session_end;
/* ops.c */
extern const struct op_def op_bind;
/* op_connect.c */
extern const struct op_def op_connect;
/* files: op_file.c, op_tree.c, op_glob.c, op_grep.c, op_watch.c, op_tar.c, op_diff.c */
extern const struct op_def op_read, op_write, op_stat, op_list, op_mkdir, op_remove, op_move, op_glob, op_grep, op_hash,
    op_watch, op_tar_out, op_tar_in, op_edit, op_diff;

#endif
