/* Bang commands: what a person types in a chat to reach the box of that chat, without a model. One grammar for every
 * chat bridge:
 *
 *   !COMMAND   runs in the working directory of the thread       !cd [DIR]   moves there; without DIR to the workspace
 *   !!         repeats the last command                          !get FILE   hands a file of the box to the chat
 *
 * The guard is not asked: it is about what models type. */
#ifndef CUBBY_TOOL_BANG_H
#define CUBBY_TOOL_BANG_H

#include "tool/shell.h"

#define BANG_TIMEOUT_MS 120000
#define BANG_CHARS 16000 /* longer output becomes a file in the box */

struct bang_result {
    const char *command; /* that was run, without its '!' */
    const char *cwd;     /* of the thread afterwards */
    const char *file;    /* in the box: the whole output, or what `!get` named; NULL: none */
    uint64_t file_bytes;
    bool truncated;
};
struct bang_args {
    struct row_text text, user;
    struct row_number timeout_ms, max_chars;
    struct bang_result *result; /* filled in by the call; set by the route */
};

extern const struct row bang_fields[], bang_answer[];
/* Writes the rows of bang_answer after `text` and `is_error`. */
void bang_json(struct json *json, const struct tool_call *call, const struct bang_result *result);
/* Not in the table of tools: models have bash. Its text is Markdown. */
extern const struct tool tool_bang;

#endif
