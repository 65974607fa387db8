/* BIND: a jail that was made before anybody asked for one becomes somebody's. Called by serve, as the first of all calls
 * and once. Invariant: what commands point to of the configuration stays where it is from then on. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runner/ops/ops.h"

static char *copy(const char *text) {
    char *own = xstrdup(text);
    return own;
}

/* The variables every box has, and then its own: of one name the last counts (spawn.c). */
static const char *const *bound_env(const struct runner_config *config, const struct fields *args) {
    size_t count = 0;
    while (config->env[count])
        count++;
    const char **env = xcalloc(count + args->env_count + 1, sizeof *env);
    memcpy(env, config->env, count * sizeof *env);
    for (size_t i = 0; i < args->env_count; i++)
        env[count + i] = copy(args->env[i]);
    return env;
}

static int bind_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct runner_config *config = call->runner->config;
    if (!config->blank)
        return err_set(err, ERR_EXISTS, "this box is somebody's already");
    config->env = bound_env(config, args);
    if (args->has[FIELD_SHELL])
        config->shell = copy(args->text[FIELD_SHELL]);
    config->pids = args->number[FIELD_LIMIT];
    config->open_files = init_open_files(args->number[FIELD_FILES]);
    config->blank = false;
    reply_end(call, NULL);
    return 0;
}

const struct op_def op_bind = {.op = OP_BIND, .begin = bind_begin};
