/* What a session's shell tells of a command's end, found among whatever else is written there: every process of the command
 * has that pipe. Called by session_shell.c. Invariant: however much is written and whatever it is, the buffer has room
 * for the next read; and a report whose mark is right counts, however long the shell's idea of its directory is. */
#include <stdlib.h>
#include <string.h>

#include "runner/exec/session.h"

enum { STATUS_BYTES = 16 };

/* "MARK\0STATUS\0DIRECTORY\0" at text: 1; 0: the rest is not there yet; -1: it is none. */
static int told_report(const char *text, size_t len, unsigned *ret_status, char ret_cwd[LIMIT_PATH_BYTES + 1]) {
    if (len <= SESSION_MARK_BYTES)
        return 0;
    if (text[SESSION_MARK_BYTES])
        return -1;
    const char *status = text + SESSION_MARK_BYTES + 1, *end = text + len;
    const char *cwd = memchr(status, 0, (size_t)(end - status));
    if ((cwd ? cwd : end) - status > STATUS_BYTES)
        return -1;
    if (!cwd)
        return 0;
    cwd++;
    bool whole = memchr(cwd, 0, (size_t)(end - cwd));
    if (!whole && end - cwd <= LIMIT_PATH_BYTES)
        return 0;
    *ret_status = (unsigned)strtoul(status, NULL, 10);
    /* PWD is a variable as others: what is no path of a directory is not taken for one. */
    bool fits = whole && strlen(cwd) <= LIMIT_PATH_BYTES;
    memcpy(ret_cwd, fits ? cwd : "", fits ? strlen(cwd) + 1 : 1);
    return 1;
}

bool told_find(struct buf *told, const char mark[SESSION_MARK_BYTES], unsigned *ret_status,
               char ret_cwd[LIMIT_PATH_BYTES + 1]) {
    for (;;) {
        const uint8_t *at = told->len ? memmem(told->data, told->len, mark, SESSION_MARK_BYTES) : NULL;
        size_t before = at ? (size_t)(at - told->data)
                        : told->len >= SESSION_MARK_BYTES
                            ? told->len - SESSION_MARK_BYTES + 1 /* half of it may be here */
                            : 0;
        buf_consume(told, before);
        int r = at ? told_report((const char *)told->data, told->len, ret_status, ret_cwd) : 0;
        if (r >= 0)
            return r;
        buf_consume(told, 1);
    }
}
