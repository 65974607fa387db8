/* The shell group of the AIO dialect, shared by its files: aio/shell.c (commands and sessions) and aio/shell_ws.c
 * (terminals). */
#ifndef CUBBY_FRONT_AIO_SHELL_H
#define CUBBY_FRONT_AIO_SHELL_H

#include "front/aio/aio.h"

#define AIO_SHELL_DEFAULT "default" /* the session of calls that name none */
#define AIO_SHELL_QUIET_MS 120000u  /* of sessions made here, unless they say */
/* Before a line that was typed into a terminal: lines end and keys are shown as a person expects it. */
#define AIO_SHELL_COOKED "stty sane 2>/dev/null\n"
#define AIO_SHELL_TEXT_CHARACTERS 30000u /* of an answer, with truncate */

int aio_shell_ws(struct http_request *request, struct box *box, struct err *err); /* aio/shell_ws.c */
extern const struct row aio_shell_ws_query[];

/* A session, with its texts in the request's arena. Positive: answered (404 "Session not found", 400 when there is no
 * room for another). */
int aio_shell_find(struct http_request *request, struct box *box, const char *name, uint64_t wait_ms,
                   struct session *ret_session, struct err *err);
int aio_shell_open(struct http_request *request, struct box *box, const struct session_request *wanted,
                   struct session *ret_session, bool *ret_created, struct err *err);
int aio_shell_full(struct http_request *request, const char *group); /* 400: no room for another session */
/* Whether a command of it runs: SESSION_QUIET does. */
bool aio_shell_busy(const struct session *session);

#endif
