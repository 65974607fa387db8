/* The table of ops, used by serve (a CALL's OP) and by `cubby-runner --ops`; and PING and BIND. Invariant:
 * configuration that commands point to does not move after BIND. */
#include "base/base.h"
#include "runner/ops/ops.h"
#include "runner/exec/process.h"
#include "runner/runner.h"

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

/* Never report the same number twice while a writer is active: its later writes must be visible as a change. */
static int ops_ping_begin(struct rcall *call, const struct fields *, struct err *) {
    struct runner *runner = call->runner;
    /* Files may change while a command, processes that it left, or any worker runs. */
    const struct process *process = process_first(runner);
    while (process && process->phase == PHASE_ENDED && !process->stuck && !process->lives)
        process = process->next;
    bool busy = process || worker_any(runner);
    autobuf out = buf_max(64);
    runner->changes += busy;
    field_number(&out, FIELD_CHANGES, runner->changes);
    runner->changes += busy;
    reply_end(call, &out);
    return 0;
}

const struct op_def op_ping = {.op = OP_PING, .looks = true, .begin = ops_ping_begin};

static int ops_bind_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct runner_config *config = call->runner->config;
    if (!config->blank)
        return err_set(err, ERR_EXISTS, "this box already has an owner");
    /* The variables of every box, and then its own: for one name the last counts (spawn.c). */
    size_t count = 0;
    while (config->env[count])
        count++;
    const char **env = xcalloc(count + args->env_count + 1, sizeof *env);
    memcpy(env, config->env, count * sizeof *env);
    for (size_t i = 0; i < args->env_count; i++)
        env[count + i] = xstrdup(args->env[i]);
    config->env = env;
    if (args->has[FIELD_SHELL])
        config->shell = xstrdup(args->text[FIELD_SHELL]);
    config->pids = args->number[FIELD_LIMIT];
    config->open_files = init_open_files(args->number[FIELD_FILES]);
    config->blank = false;
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_bind = {.op = OP_BIND, .begin = ops_bind_begin};
