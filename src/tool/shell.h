/* Shared by the tools that run commands: bash, bash_background, download. */
#ifndef CUBBY_TOOL_SHELL_H
#define CUBBY_TOOL_SHELL_H

#include "tool/tool.h"

/* The longest argument that the kernel accepts (MAX_ARG_STRLEN), without its NUL. */
#define SHELL_MAX_BYTES 131071

/* Fills in a request: the box, the directory (cwd, or the thread's), the call's secrets, hidden variables. */
int shell_prepare(struct tool_call *call, const struct row_text *cwd, uint64_t timeout_ms,
                  struct exec_request *ret_request, struct err *err);
/* Runs it. Output goes to the call's text and to `errors` (initialized here, freed by the caller), progress to the
 * client. A working directory that no longer exists is reported. */
int shell_run(struct tool_call *call, const struct exec_request *request, struct spool *errors, struct err *err);
/* The text so far is standard output. Appends standard error, or `nothing` if both are empty. */
void shell_errors(struct tool_call *call, struct spool *errors, const char *nothing);
/* Explains a failure of box_exec or box_spawn if the reason is a missing working directory. Returns its code. */
int shell_failed(struct tool_call *call, const struct exec_request *request, int code, struct err *err);
/* Writes exit_code, signal, timed_out and oom_killed; SHELL_ANSWER has their rows. */
void shell_json(struct json *json, const struct exec_result *result);

#define SHELL_ANSWER                                                                                                   \
    {.name = "exit_code",                                                                                              \
     .type = ROW_INT,                                                                                                  \
     .flags = ROW_NULLABLE,                                                                                            \
     .text = "null if it was killed or is still running"},                                                             \
        {.name = "signal",                                                                                             \
         .type = ROW_TEXT,                                                                                             \
         .flags = ROW_NULLABLE,                                                                                        \
         .text = "the signal that killed it, such as SIGKILL"},                                                        \
        {.name = "timed_out", .type = ROW_BOOL, .text = "it was killed because it timed out"}, {                       \
        .name = "oom_killed", .type = ROW_BOOL, .text = "a process of the box was killed for lack of memory"           \
    }

#endif
