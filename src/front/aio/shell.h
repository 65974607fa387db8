/* The shell group of the AIO dialect, shared by its files: aio/shell.c (commands and sessions) and aio/shell_ws.c
 * (terminals). */
#ifndef CUBBY_FRONT_AIO_SHELL_H
#define CUBBY_FRONT_AIO_SHELL_H

#include "front/aio/aio.h"

#define AIO_SHELL_DEFAULT "default" /* the session of calls without an id */
#define AIO_SHELL_QUIET_MS 120000u  /* default of sessions made here */
/* Put before a line typed into a terminal, so that line endings and echo are as people expect. */
#define AIO_SHELL_COOKED "stty sane 2>/dev/null\n"
#define AIO_SHELL_TEXT_CHARACTERS 30000u /* limit of an answer, with truncate */

int aio_shell_ws(struct http_request *request, struct box *box, struct err *err); /* aio/shell_ws.c */
extern const struct row aio_shell_ws_query[];

/* Finds a session, with its texts in the request's arena. Positive: answered (404 "Session not found", or 400 if no
 * more sessions are possible). */
int aio_shell_find(struct http_request *request, struct box *box, const char *name, uint64_t wait_ms,
                   struct session *ret_session, struct err *err);
int aio_shell_open(struct http_request *request, struct box *box, const struct session_request *wanted,
                   struct session *ret_session, bool *ret_created, struct err *err);
int aio_shell_full(struct http_request *request, const char *group); /* answers 400: no more sessions are possible */
/* Returns whether a command runs in it, also with SESSION_QUIET. */
bool aio_shell_busy(const struct session *session);

#endif
