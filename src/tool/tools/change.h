/* Shared by the tools that write files: changing a file that the thread has seen. */
#ifndef CUBBY_TOOL_CHANGE_H
#define CUBBY_TOOL_CHANGE_H

#include "tool/tool.h"

struct change {
    struct edit_request edit; /* path, kind, texts; the rest is filled in here */
    const char *denied;       /* "writing to file": "Permission denied writing to file: PATH" */
    const char *failed;       /* "Failed to write file": "Failed to write file 'PATH': WHY" */
    bool fresh;               /* fail if the file exists */
    struct edit_result result;
};

/* Applies a change to the file that an argument names, and notes that the thread has seen the new version. Returns 1 if
 * the change failed and the answer says why. */
int change_run(struct tool_call *call, const struct row_text *path, struct change *change, struct err *err);
/* Writes the first members of every answer: path, size. The caller adds its own and closes the object. */
void change_answer(struct tool_call *call, const struct change *change);

#define CHANGE_ANSWER                                                                                                  \
    {.name = "path", .type = ROW_TEXT, .text = "The file."}, {                                                         \
        .name = "size", .type = ROW_INT, .text = "Size of the file now, in bytes."                                     \
    }
#define CHANGE_PATH(args)                                                                                              \
    {                                                                                                                  \
        .name = "path", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .offset = offsetof(args, path),         \
        .min = 1, .max = 4095, .text = "The file; absolute, or relative to the working directory."                     \
    }

#endif
