/* What the tools that write share: a change of a file that the thread has seen. */
#ifndef CUBBY_TOOL_CHANGE_H
#define CUBBY_TOOL_CHANGE_H

#include "tool/tool.h"

struct change {
    struct edit_request edit; /* path, kind, texts; the rest is filled in here */
    const char *denied;       /* "writing to file": "Permission denied writing to file: PATH" */
    const char *failed;       /* "Failed to write file": "Failed to write file 'PATH': why" */
    bool fresh;               /* only where nothing is */
    struct edit_result result;
};

/* Does it to the file of an argument, and notes that the thread has seen what it wrote. 1: it was not done and the model
 * was told why. */
int change_run(struct tool_call *call, const struct row_text *path, struct change *change, struct err *err);
/* The members every answer begins with: path, size. Then the caller's, then json_close. */
void change_answer(struct tool_call *call, const struct change *change);

#define CHANGE_ANSWER                                                                                                  \
    {.name = "path", .type = ROW_TEXT, .text = "The file."}, {                                                         \
        .name = "size", .type = ROW_INT, .text = "Bytes of the file now."                                              \
    }
#define CHANGE_PATH(args)                                                                                              \
    {                                                                                                                  \
        .name = "path", .type = ROW_TEXT, .flags = ROW_REQUIRED | ROW_AUDITED, .offset = offsetof(args, path),         \
        .min = 1, .max = 4095, .text = "The file; absolute, or relative to the working directory."                     \
    }

#endif
